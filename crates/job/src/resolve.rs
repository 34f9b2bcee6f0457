//! From what a file and the flags say to the contract's job spec: defaults, units, paths, variables.

use std::path::{Path, PathBuf};

use wharf_document::shell::quote;
use wharf_proto as proto;
use wharf_proto::dependency::Kind;
use wharf_proto::{JobSpec, ResourceLimit};

use crate::choice::OnTimeLimit;
use crate::environment::{self, Export, Variables};
use crate::error::FieldError;
use crate::executor;
use crate::job::{Activate, Checkpoint, Gang, Job, JobRef, Notify, Ray, Step};
use crate::units::{Deadline, Seconds, Size};
use crate::words::Words;

/// How long a job may take to stop where it does not say.
const GRACE_S: f64 = 10.0;

/// Where and when a job is submitted.
#[derive(Clone, Debug)]
pub struct Context {
    /// The folder that it is submitted from.
    pub workdir: PathBuf,
    /// The folder of the job file: files that it names are searched for there.
    pub folder: PathBuf,
    /// Who submits it.
    pub user: String,
    /// Default account; empty: none.
    pub account: String,
    /// Seconds since the Unix epoch.
    pub now_s: f64,
    /// The submitting shell's environment.
    pub shell: Variables,
    /// Jobs run on their nodes themselves, whatever container their file says.
    pub no_container: bool,
}

/// A job that waits for others: of the cluster in its spec, of the same file here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) spec: JobSpec,
    /// Which of the file's jobs it waits for, by name; the field that states this.
    pub(crate) waits: Vec<(Kind, String, &'static str)>,
}

/// Makes a spec of a job and checks it.
pub(crate) fn resolve(job: &Job, context: &Context) -> Result<Resolved, FieldError> {
    let mut job = job.clone();
    if context.no_container {
        job.container = None;
    }
    let job = &job;
    let workdir = path_below(context, &context.workdir, job.workdir.as_deref().unwrap_or_default());
    let file = |name: &Option<String>| match name.as_deref() {
        None | Some("") => String::new(),
        Some(name) => text(&path_below(context, &workdir, name)),
    };
    let (dependencies, waits) = dependencies(job);
    let retries = job.retries.clone().unwrap_or_default();
    let mut spec = JobSpec {
        name: job.name.clone().unwrap_or_else(|| program(job)),
        user: context.user.clone(),
        gang: Some(gang(job)?),
        command: words(job.command.as_ref()),
        env: variables(job, context)?.into_iter().collect(),
        secrets: crate::secrets::secrets(job, context)?,
        output: file(&job.output),
        error_output: file(&job.error),
        priority: job.priority.unwrap_or_default(),
        time_limit_s: seconds(job.time_limit),
        requeue_at_limit: job.on_time_limit == Some(OnTimeLimit::Requeue),
        stall_timeout_s: job.stall_timeout.map(|timeout| timeout.0),
        on_stall: job.on_stall.map_or(proto::OnStall::StallReport, Into::into).into(),
        dependencies,
        retries: retries.count.unwrap_or(u32::from(retries.codes.is_some())),
        retry_codes: retries.codes.unwrap_or_default(),
        stop_signal: job.stop_signal.map_or(0, |signal| signal.0),
        grace_s: job.grace.map_or(GRACE_S, |grace| grace.0),
        iterations: job.iterations.unwrap_or_default(),
        iteration_ms: job.iteration_ms.unwrap_or_default(),
        model: job.model.clone().unwrap_or_default(),
        batch_size: job.batch_size.unwrap_or_default(),
        held: job.held.unwrap_or_default(),
        array: job.array.clone().map(crate::array::Array::into_indexes).unwrap_or_default(),
        steps: steps(job),
        launcher: job.launcher.map_or(proto::Launcher::Plain, Into::into).into(),
        ray: job.ray.as_ref().map(ray),
        data_parallel: job.data_parallel.unwrap_or_default(),
        on_nan: job.on_nan.map_or(proto::OnNan::NanIgnore, Into::into).into(),
        cpus: job.cpus.unwrap_or_default(),
        memory_mib: job.memory.map_or(0, |memory| memory.mib()),
        pool: job.pool.clone().unwrap_or_default(),
        reservation: job.reservation.clone().unwrap_or_default(),
        activate: job.activate.as_ref().map(|activate| activation(activate, context)).unwrap_or_default(),
        limits: limits(job),
        notify: job.notify.as_ref().map(notify),
        weight: job.weight.unwrap_or_default(),
        deadline_s: deadline(job.deadline, context.now_s)?,
        checkpoint: job.checkpoint.as_ref().map(|checkpoint| self::checkpoint(checkpoint, context, &workdir)),
        network_interface: job.network_interface.clone().unwrap_or_default(),
        workdir: text(&workdir),
        retry: retry(job),
        retry_delay_s: job.retry_delay.map(|delay| delay.0),
        account: job.account.clone().unwrap_or_else(|| context.account.clone()),
        stages: job.stages.as_ref().map(|stages| proto::Stages {
            data_ms: stages.data_ms.unwrap_or_default(),
            compute_ms: stages.compute_ms.unwrap_or_default(),
            network_ms: stages.network_ms.unwrap_or_default(),
        }),
        container: job
            .container
            .as_ref()
            .map(|container| container.to_wire(|name| path_below(context, &context.folder, name))),
        ..JobSpec::default()
    };
    crate::check::check(&spec)?;
    if job.executor.as_ref().is_some_and(|executor| executor.slurm.is_some()) {
        executor::refuse_for_slurm(job)?;
        if !executor::names_devices(job) {
            // Slurm gives it processors then, and no GPU.
            spec.gang.get_or_insert_default().devices = 0;
        }
    }
    Ok(Resolved { spec, waits })
}

fn seconds(duration: Option<Seconds>) -> f64 {
    duration.map_or(0.0, |duration| duration.0)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn words(words: Option<&Words>) -> Vec<String> {
    words.map(|words| words.0.clone()).unwrap_or_default()
}

/// A path below `base` unless it is absolute; `~/` is the submitting user's home.
pub(crate) fn path_below(context: &Context, base: &Path, name: &str) -> PathBuf {
    let below_home = if name == "~" { Some("") } else { name.strip_prefix("~/") };
    match (below_home, context.shell.get("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ if name.is_empty() => base.to_owned(),
        _ => base.join(name),
    }
}

/// Programs that run a script: a job is called as the script.
const INTERPRETERS: [&str; 12] = [
    "python",
    "bash",
    "sh",
    "torchrun",
    "mpirun",
    "mpiexec",
    "horovodrun",
    "accelerate",
    "deepspeed",
    "perl",
    "node",
    "env",
];

const SCRIPT_ENDINGS: [&str; 4] = [".py", ".sh", ".pl", ".js"];

/// The file name of a program or script, without the ending of a script.
pub(crate) fn stem(path: &str) -> &str {
    let name = file_name(path);
    let stem = SCRIPT_ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    stem.filter(|stem| !stem.is_empty()).unwrap_or(name)
}

/// What a job without a name is called: as its program, or as the script or module that its interpreter runs.
fn program(job: &Job) -> String {
    let step = job.steps.iter().flatten().find_map(|step| step.command.as_ref());
    let words = job.command.as_ref().or(step).map_or(&[][..], |words| &words.0);
    let Some(program) = words.first() else { return String::new() };
    let base = file_name(program).trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if !INTERPRETERS.contains(&base) {
        return program.clone();
    }
    let is_script =
        |word: &&str| SCRIPT_ENDINGS.iter().any(|ending| word.ends_with(ending)) && !word.starts_with('-');
    let module =
        words.iter().zip(words.iter().skip(1)).find(|(option, _)| *option == "-m").map(|(_, name)| name);
    // A word may be a line of shell.
    let script = words.iter().skip(1).flat_map(|word| word.split_whitespace()).find(is_script);
    match script.or(module.map(String::as_str)) {
        Some(script) => file_name(script).to_owned(),
        None => program.clone(),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn steps(job: &Job) -> Vec<proto::Step> {
    let step = |step: &Step| proto::Step {
        name: step.name.clone().unwrap_or_default(),
        command: words(step.command.as_ref()),
        env: step.env.clone().unwrap_or_default().into_iter().collect(),
    };
    job.steps.iter().flatten().map(step).collect()
}

fn gang(job: &Job) -> Result<proto::Gang, FieldError> {
    let gang = job.gang.clone().unwrap_or_default();
    let types = gang.types.clone().unwrap_or_default();
    let every_node = job.per_node.unwrap_or_default();
    let every_device = gang.all.unwrap_or_default();
    if every_device && !every_node {
        return Err(FieldError::new(
            "gang.all",
            "all devices of a node are for jobs on every node; set `per_node: true`",
        ));
    }
    for (name, value) in [
        ("devices", gang.devices),
        ("nodes", gang.nodes),
        ("devices_per_node", gang.devices_per_node),
        ("min", gang.min),
        ("max", gang.max),
    ] {
        if value == Some(0) {
            let message = "expected 1 or more";
            return Err(FieldError::new(&format!("gang.{name}"), message));
        }
    }
    if every_node {
        let devices = gang.devices.or(gang.devices_per_node).unwrap_or(0);
        let rest = Gang { types: None, all: None, devices: None, devices_per_node: None, ..gang.clone() };
        if rest != Gang::default()
            || gang.devices.is_some() && gang.devices_per_node.is_some()
            || every_device && devices > 0
        {
            let message =
                "with `per_node`, a gang can only have `types` and either `devices` of each node or `all`";
            return Err(FieldError::new("per_node", message));
        }
        return Ok(proto::Gang {
            every_node,
            every_device,
            devices,
            device_types: types,
            ..proto::Gang::default()
        });
    }
    let (devices, nodes) = size(&gang)?;
    Ok(proto::Gang {
        devices,
        devices_min: gang.min.unwrap_or(0),
        devices_max: gang.max.unwrap_or(0),
        device_types: types,
        nodes,
        every_node,
        ..proto::Gang::default()
    })
}

/// All devices, and on how many nodes; 0 nodes are as many as the policy likes.
fn size(gang: &Gang) -> Result<(u32, u32), FieldError> {
    let wrong = |message: String| Err(FieldError::new("gang", message));
    match (gang.devices, gang.nodes, gang.devices_per_node) {
        (Some(devices), None, Some(each)) if devices.is_multiple_of(each) => Ok((devices, devices / each)),
        (Some(devices), None, Some(each)) => {
            wrong(format!("{devices} devices are no multiple of devices_per_node, {each}; make them one"))
        }
        (None, None, Some(each)) => Ok((each, 1)),
        (devices, Some(nodes), Some(each)) => match nodes.checked_mul(each) {
            Some(all) if devices.is_none_or(|devices| devices == all) => Ok((all, nodes)),
            Some(all) => wrong(format!("nodes x devices_per_node is {all}; leave `devices` out")),
            None => wrong("too many devices".to_owned()),
        },
        // An elastic job prefers what starts soonest; one on so many nodes has a device of each.
        (devices, nodes, None) => Ok((devices.or(gang.min).or(nodes).unwrap_or(1), nodes.unwrap_or(0))),
    }
}

type Waits = Vec<(Kind, String, &'static str)>;

fn dependencies(job: &Job) -> (Vec<proto::Dependency>, Waits) {
    let kinds = [
        (Kind::After, "after", &job.after),
        (Kind::AfterOk, "after_ok", &job.after_ok),
        (Kind::AfterNotOk, "after_not_ok", &job.after_not_ok),
        (Kind::AfterAny, "after_any", &job.after_any),
        (Kind::AfterCorr, "after_corr", &job.after_corr),
    ];
    let (mut dependencies, mut waits) = (Vec::new(), Vec::new());
    for (kind, field, references) in kinds {
        for reference in references.iter().flatten() {
            match reference {
                JobRef::Id(number) => {
                    dependencies.push(proto::Dependency {
                        kind: kind.into(),
                        job_id: number.job,
                        array_index: number.index,
                        ..proto::Dependency::default()
                    });
                }
                JobRef::Name(name) => waits.push((kind, name.clone(), field)),
            }
        }
    }
    if job.singleton == Some(true) {
        dependencies.push(proto::Dependency { kind: Kind::Singleton.into(), ..proto::Dependency::default() });
    }
    (dependencies, waits)
}

/// The shell's variables, then those of the file, then those of settings, then the job's own: the last word wins.
fn variables(job: &Job, context: &Context) -> Result<Variables, FieldError> {
    // What the shell's variables point to is not within a container.
    let export = || if job.container.is_some() { Export::nothing() } else { Export::default() };
    let mut variables = job.export.clone().unwrap_or_else(export).of(&context.shell);
    if let Some(name) = &job.env_file {
        let file = path_below(context, &context.folder, name);
        let shown = file.display();
        let read = std::fs::read_to_string(&file);
        let read =
            read.map_err(|error| FieldError::new("env_file", format!("cannot read `{shown}`: {error}")))?;
        let lines = environment::read_lines(&read);
        let wrong = |(line, message)| FieldError::new("env_file", format!("{shown}:{line}: {message}"));
        variables.extend(lines.map_err(wrong)?);
    }
    variables.extend(job.variables());
    Ok(variables)
}

/// Lines of shell that activate an environment, every value quoted.
fn activation(activate: &Activate, context: &Context) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(modules) = activate.modules.as_ref().filter(|modules| !modules.is_empty()) {
        let names: Vec<String> = modules.iter().map(|name| quote(name)).collect();
        lines.push(format!("module load {}", names.join(" ")));
    }
    if let Some(conda) = &activate.conda {
        lines.push(r#"eval "$(conda shell.posix hook)""#.to_owned());
        // By name, or by its folder.
        let conda = text(&path_below(context, Path::new(""), conda));
        lines.push(format!("conda activate {}", quote(&conda)));
    }
    if let Some(venv) = &activate.venv {
        let venv = text(&path_below(context, Path::new(""), venv));
        lines.push(format!(". {}", quote(&format!("{}/bin/activate", venv.trim_end_matches('/')))));
    }
    lines.extend(activate.lines.iter().flatten().cloned());
    lines
}

fn ray(ray: &Ray) -> proto::Ray {
    let bytes = |size: Option<Size>| size.map_or(0, |size| size.0);
    proto::Ray {
        program: ray.program.clone().unwrap_or_default(),
        cpus: ray.cpus,
        gpus: ray.gpus,
        object_store_bytes: bytes(ray.object_store_memory),
        memory_bytes: bytes(ray.memory),
        head_args: words(ray.head_args.as_ref()),
        worker_args: words(ray.worker_args.as_ref()),
        temp_dir: ray.temp_dir.clone().unwrap_or_default(),
        no_dashboard: ray.dashboard == Some(false),
        dashboard_host: ray.dashboard_host.clone().unwrap_or_default(),
        ready_timeout_s: seconds(ray.ready_timeout),
        no_token: ray.token == Some(false),
        token: String::new(),
    }
}

fn limits(job: &Job) -> Vec<ResourceLimit> {
    let limits = job.limits.iter().flat_map(|limits| &limits.0);
    limits.map(|(name, limit)| ResourceLimit { name: name.clone(), value: limit.0 }).collect()
}

fn retry(job: &Job) -> Vec<proto::RetryRule> {
    let rules = job.retry.iter().flat_map(|retry| &retry.0);
    let cause = |word: &str| proto::Cause::of_word(word).unwrap_or(proto::Cause::NoCause);
    rules.map(|(word, &count)| proto::RetryRule { cause: cause(word).into(), count }).collect()
}

fn notify(notify: &Notify) -> proto::Notify {
    let moments = notify.on.iter().flatten().flat_map(|moments| moments.to_wire());
    let mut on: Vec<i32> = moments.map(|&moment| moment.into()).collect();
    on.sort_unstable();
    on.dedup();
    proto::Notify {
        on,
        command: words(notify.command.as_ref()),
        webhook: notify.webhook.clone().unwrap_or_default(),
        mail: notify.mail.clone().unwrap_or_default(),
    }
}

fn checkpoint(checkpoint: &Checkpoint, context: &Context, workdir: &Path) -> proto::Checkpoint {
    let dir = checkpoint.dir.as_deref().map(|dir| text(&path_below(context, workdir, dir)));
    proto::Checkpoint {
        dir: dir.unwrap_or_default(),
        resume_codes: checkpoint.resume_codes.clone().unwrap_or_default(),
    }
}

fn deadline(deadline: Option<Deadline>, now_s: f64) -> Result<f64, FieldError> {
    match deadline {
        None => Ok(0.0),
        Some(Deadline::In(wait)) => Ok(now_s + wait.0),
        Some(Deadline::At(moment)) if moment > now_s => Ok(moment),
        Some(Deadline::At(_)) => {
            Err(FieldError::new("deadline", "it has passed already; name a later moment"))
        }
    }
}
