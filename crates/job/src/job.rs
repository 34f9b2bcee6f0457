//! A job as its owner writes it. Every field is optional: defaults are filled in when it becomes a spec.

use std::collections::BTreeMap;
use std::str::FromStr;

use wharf_document::decode::{Decode, Fields, Problem, named, written};
use wharf_document::node::{Node, Value};
use wharf_proto as proto;

use crate::array::Array;
use crate::check::LIMITS;
use crate::choice::{Launcher, Moments, OnNan, OnStall, OnTimeLimit};
use crate::container::{Container, Shm};
use crate::environment::Export;
use crate::executor::Executor;
use crate::number::JobNumber;
use crate::secrets::SecretSources;
use crate::units::{Deadline, Fraction, Limit, Seconds, Size, StallTimeout, StopSignal};
use crate::words::Words;

/// A map of optional fields: its type, the names of its fields, how it is read, and how one lies over another.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$about])* pub $field: Option<$type>,)* }

        impl $name {
            /// The names of its fields.
            pub const FIELDS: &[&str] = &[$(stringify!($field)),*];

            /// What this one does not say is as the other says.
            #[must_use]
            pub fn or(self, base: Self) -> Self {
                Self { $($field: self.$field.or(base.$field)),* }
            }

            pub(crate) fn decode_map(node: &Node, at: &str) -> Result<Self, Problem> {
                let fields = Fields::new(node, at, Self::FIELDS)?;
                Ok(Self { $($field: fields.take(stringify!($field))?),* })
            }
        }
    };
}

pub(crate) use record;

record! {
    /// A job; at the top of a file also what all of its `jobs` have in common.
    Job {
        /// What it is called.
        name: String,
        /// Program and arguments.
        command: Words,
        /// Commands that run one after the other.
        steps: Vec<Step>,
        /// Once on every node of the pool.
        per_node: bool,
        /// The part of the cluster that it runs in.
        pool: String,
        /// The reservation whose nodes it runs on.
        reservation: String,
        /// Indexes of its elements.
        array: Array,
        /// The devices that it needs.
        gang: Gang,
        /// Processors for each device.
        cpus: u32,
        /// Memory for each device.
        memory: Size,
        /// When it is stopped.
        time_limit: Seconds,
        /// What happens then.
        on_time_limit: OnTimeLimit,
        /// When it counts as stalled.
        stall_timeout: StallTimeout,
        /// What happens then.
        on_stall: OnStall,
        /// How urgent it is.
        priority: i32,
        /// What it should get in relation to others.
        weight: f64,
        /// When it should be over.
        deadline: Deadline,
        /// Starts when these have started or are over.
        after: Vec<JobRef>,
        /// Starts when these have succeeded.
        after_ok: Vec<JobRef>,
        /// Starts when these are over.
        after_any: Vec<JobRef>,
        /// Starts when these have failed.
        after_not_ok: Vec<JobRef>,
        /// Each element starts when the same element of these has succeeded.
        after_corr: Vec<JobRef>,
        /// One at a time of this name and user.
        singleton: bool,
        /// When it is run again.
        retries: Retries,
        /// How often it is run again after each cause.
        retry: Retry,
        /// How long it waits after its first failure.
        retry_delay: Seconds,
        /// On whose account its use is booked.
        account: String,
        /// Variables.
        env: BTreeMap<String, String>,
        /// A file with variables.
        env_file: String,
        /// Variables that are never shown.
        secrets: SecretSources,
        /// What it gets of the submitting shell's environment.
        export: Export,
        /// How its environment is activated.
        activate: Activate,
        /// Resource limits.
        limits: Limits,
        /// Settings of XLA.
        xla: Xla,
        /// Settings of NCCL.
        nccl: Nccl,
        /// The network interface for NCCL and Gloo.
        network_interface: String,
        /// Where it runs.
        workdir: String,
        /// Where its output goes.
        output: String,
        /// Where its standard error goes.
        error: String,
        /// Who is informed of what.
        notify: Notify,
        /// What it promises about being interrupted.
        checkpoint: Checkpoint,
        /// What happens when a metric is NaN or infinite.
        on_nan: OnNan,
        /// What it is requested to stop with.
        stop_signal: StopSignal,
        /// How long it may take to stop.
        grace: Seconds,
        /// How its processes come to be.
        launcher: Launcher,
        /// The Ray cluster that its command is the driver of.
        ray: Ray,
        /// Who runs it, where that is not the head's own workers.
        executor: Executor,
        /// Whether its devices all do the same with different samples.
        data_parallel: bool,
        /// What it trains, for policies that know.
        model: String,
        /// With which batch size.
        batch_size: u32,
        /// How many iterations it needs.
        iterations: f64,
        /// How long one takes alone.
        iteration_ms: f64,
        /// How one iteration divides.
        stages: Stages,
        /// Whether it waits to be released.
        held: bool,
        /// What it runs in.
        container: Container,
    }
}

record! {
    /// One of several commands.
    Step {
        /// What it is called.
        name: String,
        /// Program and arguments.
        command: Words,
        /// Variables of its own.
        env: BTreeMap<String, String>,
    }
}

record! {
    /// The devices that a job needs, all or nothing.
    Gang {
        /// All of them.
        devices: u32,
        /// On how many nodes.
        nodes: u32,
        /// On each of them.
        devices_per_node: u32,
        /// The fewest that it can use.
        min: u32,
        /// The most that it can use.
        max: u32,
        /// Types that it may run on, best first.
        types: Vec<String>,
        /// All devices of each node; with `per_node`.
        all: bool,
    }
}

record! {
    /// How long the stages of one iteration take, each alone on its resource.
    Stages {
        /// Fetching and preparing data.
        data_ms: f64,
        /// Computing.
        compute_ms: f64,
        /// Exchanging gradients.
        network_ms: f64,
    }
}

record! {
    /// When a job is run again.
    Retries {
        /// How often.
        count: u32,
        /// After which exit codes.
        codes: Vec<i32>,
    }
}

record! {
    /// How a job's environment is activated.
    Activate {
        /// A conda environment.
        conda: String,
        /// The folder of a Python virtual environment.
        venv: String,
        /// Environment modules.
        modules: Vec<String>,
        /// Lines of shell.
        lines: Vec<String>,
    }
}

record! {
    /// A Ray cluster on the job's gang.
    Ray {
        /// The `ray` program, where it is not found in the job's environment.
        program: String,
        /// Processors of each Ray node.
        cpus: u32,
        /// Devices of each Ray node.
        gpus: u32,
        /// The object store of each Ray node.
        object_store_memory: Size,
        /// What else Ray may give away of each node's memory.
        memory: Size,
        /// Further arguments of `ray start` on the first node.
        head_args: Words,
        /// Further arguments of `ray start` on the others.
        worker_args: Words,
        /// Where each Ray node has its own folder.
        temp_dir: String,
        /// Whether there is a dashboard.
        dashboard: bool,
        /// The address that it listens at.
        dashboard_host: String,
        /// How long the cluster may take to come up.
        ready_timeout: Seconds,
        /// Whether clients of the cluster have to know its token.
        token: bool,
    }
}

record! {
    /// Settings of XLA.
    Xla {
        /// How much of a device's memory is taken.
        memory_fraction: Fraction,
        /// Whether it is taken at once.
        preallocate: bool,
        /// Flags.
        flags: Words,
    }
}

record! {
    /// Settings of NCCL; each becomes the variable `NCCL_` and its name in capitals.
    Nccl {
        /// The network interface.
        socket_ifname: String,
        /// How much it says.
        debug: String,
        /// About what.
        debug_subsys: String,
        /// Not over InfiniBand.
        ib_disable: bool,
        /// Which InfiniBand adapters.
        ib_hca: String,
        /// InfiniBand's timeout.
        ib_timeout: u32,
        /// Not from device to device directly.
        p2p_disable: bool,
        /// How far apart devices may be for that.
        p2p_level: String,
        /// Not through shared memory.
        shm_disable: bool,
        /// How far apart adapter and device may be.
        net_gdr_level: String,
        /// The algorithm.
        algo: String,
        /// The protocol.
        proto: String,
        /// The fewest channels.
        min_nchannels: u32,
        /// The most channels.
        max_nchannels: u32,
    }
}

record! {
    /// Notifications of a job.
    Notify {
        /// Which moments.
        on: Vec<Moments>,
        /// A program to run.
        command: Words,
        /// An address to post to.
        webhook: String,
        /// Email address to notify.
        mail: String,
    }
}

record! {
    /// What a job promises about being interrupted.
    Checkpoint {
        /// A folder of its own.
        dir: String,
        /// Exit codes that mean "run me again".
        resume_codes: Vec<i32>,
    }
}

/// Implements reading for records that have no other form.
macro_rules! decode_maps {
    ($($name:ident),*) => {
        $(impl Decode for $name {
            fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
                Self::decode_map(node, at)
            }
        })*
    };
}
decode_maps!(Job, Step, Stages, Activate, Ray, Xla, Nccl, Notify, Checkpoint);

/// Implements reading for values that have a written form.
macro_rules! decode_written {
    ($($name:ident: $what:literal),* $(,)?) => {
        $(impl Decode for $name {
            fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
                written(node, at, $what)
            }
        })*
    };
}
decode_written!(
    Seconds: "a duration such as `1h30m`",
    Size: "an amount of memory such as `4GiB`",
    Deadline: "a moment such as `2027-01-31T18:00` or `+6h`",
    StopSignal: "a signal such as `TERM`",
    Fraction: "a number above 0 and up to 1",
    Limit: "a number or `unlimited`",
    JobRef: "a job's id or name",
    StallTimeout: "a duration such as `10m`, or `never`",
    Shm: "shared memory such as `8g`, or `host`",
);

impl Decode for Words {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::List(_) => Vec::decode(node, at).map(Self),
            _ => written(node, at, "a list of words, or a line that is split into words"),
        }
    }
}

impl Decode for Array {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let Value::List(_) = &node.value else {
            return written(node, at, "indexes such as `0-99` or a list of them");
        };
        Self::new(Vec::decode(node, at)?).map_err(|error| Problem {
            place: node.place,
            field: at.to_owned(),
            message: error.to_string(),
            hint: None,
        })
    }
}

impl Decode for Export {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let words: Vec<String> = Vec::decode(node, at)?;
        Ok(Self::from_words(words.iter().flat_map(|word| word.split(','))))
    }
}

impl Decode for Gang {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::Text(_) | Value::Number(_) => written(node, at, ""),
            _ => Self::decode_map(node, at),
        }
    }
}

impl Decode for Retries {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::Number(_) => Ok(Self { count: Some(u32::decode(node, at)?), codes: None }),
            _ => Self::decode_map(node, at),
        }
    }
}

/// Resource limits by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits(pub BTreeMap<String, Limit>);

impl Decode for Limits {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        named(node, at, "limit", LIMITS).map(Self)
    }
}

/// How often a job is run again, by cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retry(pub BTreeMap<String, u32>);

impl Decode for Retry {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        named(node, at, "cause", &proto::Cause::RETRIED.map(proto::Cause::word)).map(Self)
    }
}

/// Why a text is no gang.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a gang; expected devices as in `4`, nodes x devices as in `2x4`, a range as in `2-8`, or `all` of each node with \
     `per_node`"
)]
pub struct GangError(String);

/// `4`, `2x4` (nodes x devices of each), `2-8` (elastic), `all` (of each node, with `per_node`).
impl FromStr for Gang {
    type Err = GangError;

    fn from_str(text: &str) -> Result<Self, GangError> {
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok().filter(|&number| number > 0);
            number.ok_or_else(|| GangError(text.to_owned())).map(Some)
        };
        if text.trim() == "all" {
            return Ok(Self { all: Some(true), ..Self::default() });
        }
        let whole = |_| GangError(text.to_owned());
        if let Some((nodes, devices)) = text.split_once(['x', '×']) {
            let (nodes, devices_per_node) = (number(nodes).map_err(whole)?, number(devices).map_err(whole)?);
            return Ok(Self { nodes, devices_per_node, ..Self::default() });
        }
        if let Some((min, max)) = text.split_once('-') {
            let (min, max) = (number(min).map_err(whole)?, number(max).map_err(whole)?);
            return Ok(Self { min, max, ..Self::default() });
        }
        Ok(Self { devices: number(text).map_err(whole)?, ..Self::default() })
    }
}

/// A job that another one waits for: by its id, or by its name within the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// A job of the cluster, or an element of an array.
    Id(JobNumber),
    /// A job of the file.
    Name(String),
}

impl FromStr for JobRef {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id))
    }
}

fn layered<T>(top: Option<T>, base: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (top, base) {
        (Some(top), Some(base)) => Some(join(top, base)),
        (top, base) => top.or(base),
    }
}

impl Gang {
    /// A size replaces a size as a whole, types replace types.
    fn over(self, base: Self) -> Self {
        let types = self.types.clone().or_else(|| base.types.clone());
        let says_size = Self { types: None, ..self.clone() } != Self::default();
        Self { types, ..if says_size { self } else { base } }
    }
}

impl Job {
    /// What this one does not say is as the other says; maps are joined field by field.
    #[must_use]
    pub fn over(mut self, mut base: Self) -> Self {
        // What to run is one thing, however it is said.
        if self.command.is_some() || self.steps.is_some() {
            base.command = None;
            base.steps = None;
        }
        let with = |mut base: BTreeMap<String, String>, top| {
            base.extend(top);
            base
        };
        let limits = |Limits(top), Limits(mut base): Limits| {
            base.extend(top);
            Limits(base)
        };
        let retry = |Retry(top), Retry(mut base): Retry| {
            base.extend(top);
            Retry(base)
        };
        Self {
            gang: layered(self.gang.take(), base.gang.take(), Gang::over),
            env: layered(self.env.take(), base.env.take(), |top, base| with(base, top)),
            secrets: layered(
                self.secrets.take(),
                base.secrets.take(),
                |SecretSources(top), SecretSources(mut base)| {
                    base.extend(top);
                    SecretSources(base)
                },
            ),
            limits: layered(self.limits.take(), base.limits.take(), limits),
            retry: layered(self.retry.take(), base.retry.take(), retry),
            retries: layered(self.retries.take(), base.retries.take(), Retries::or),
            activate: layered(self.activate.take(), base.activate.take(), Activate::or),
            ray: layered(self.ray.take(), base.ray.take(), Ray::or),
            stages: layered(self.stages.take(), base.stages.take(), Stages::or),
            xla: layered(self.xla.take(), base.xla.take(), Xla::or),
            nccl: layered(self.nccl.take(), base.nccl.take(), Nccl::or),
            notify: layered(self.notify.take(), base.notify.take(), Notify::or),
            checkpoint: layered(self.checkpoint.take(), base.checkpoint.take(), Checkpoint::or),
            container: layered(self.container.take(), base.container.take(), Container::or),
            ..self.or(base)
        }
    }
}
