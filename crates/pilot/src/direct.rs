//! A job of a job file as a job of Slurm's, without workers in between: Slurm places it, runs it and keeps its output.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use wharf_document::shell::{line, quote};
use wharf_proto::{JobSpec, Launcher};

use crate::container::{Within, misleads};
use crate::error::PilotError;
use crate::queue::{Filter, JobState, Queue, QueueError, QueueJob, Submission};

/// What a job file does not say of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Empty: the job's pool, else Slurm's default.
    pub partition: String,
    /// Slurm's account; empty: the default.
    pub account: String,
    /// Empty: the default.
    pub qos: String,
    /// Further options of sbatch.
    pub extra: Vec<String>,
}

/// Generic resources that stand for devices.
const GRES: &str = "gpu";
/// The type of devices that are no devices.
const SLOTS: &str = "cpu";

/// The job as Slurm takes it.
///
/// # Errors
/// [`PilotError::Job`] with the field that Slurm has nothing for.
pub fn submission(spec: &JobSpec, options: &Options) -> Result<Submission, PilotError> {
    refuse(spec)?;
    let gang = spec.gang.clone().unwrap_or_default();
    let nodes = gang.nodes.max(1);
    let devices = gang.devices.max(1).div_ceil(nodes);
    // A job that names no devices gets processors: not every cluster has others.
    let is_slots = gang.devices == 0 || gang.device_types.iter().any(|kind| kind == SLOTS);
    let gres = match gang.device_types.first() {
        _ if is_slots => String::new(),
        Some(kind) if *kind != GRES => format!("{GRES}:{kind}:{devices}"),
        _ => format!("{GRES}:{devices}"),
    };
    let tasks_per_node = if spec.launcher() == Launcher::PerDevice { devices } else { 1 };
    // Wharf counts processors for each device, and a slot is one.
    let cpus = if is_slots { spec.cpus.max(1) } else { spec.cpus };
    let indexes = spec.array.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
    Ok(Submission {
        script: script(spec, nodes, tasks_per_node, !is_slots)?,
        name: spec.name.clone(),
        partition: or(&options.partition, &spec.pool),
        account: options.account.clone(),
        qos: options.qos.clone(),
        limit_min: (spec.time_limit_s / 60.0).ceil() as u32,
        nodes,
        tasks_per_node,
        cpus: cpus * (devices / tasks_per_node),
        memory_mib: spec.memory_mib * u64::from(devices),
        gres,
        array: indexes,
        workdir: spec.workdir.clone().into(),
        output: spec.output.clone(),
        error: spec.error_output.clone(),
        requeue: true,
        hold: spec.held,
        extra: options.extra.clone(),
        ..Submission::default()
    })
}

/// What Slurm has no counterpart for is refused, rather than forgotten.
fn refuse(spec: &JobSpec) -> Result<(), PilotError> {
    let wrong = |field, reason: &str| Err(PilotError::Job { field, reason: reason.to_owned() });
    if !spec.dependencies.is_empty() {
        return wrong("after", "jobs of a head are none of Slurm's; use `--slurm-option --dependency=...`");
    }
    if spec.gang.as_ref().is_some_and(|gang| gang.every_node) {
        return wrong("per_node", "Slurm has no job for every node");
    }
    if !matches!(spec.launcher(), Launcher::Plain | Launcher::PerDevice) {
        return wrong(
            "launcher",
            "only `plain` and `per-device` are supported on Slurm; start others with srun",
        );
    }
    if spec.notify.is_some() {
        return wrong(
            "notify",
            "Slurm supports only mail notifications; use `--slurm-option --mail-type=...`",
        );
    }
    if !spec.limits.is_empty() {
        return wrong(
            "limits",
            "Slurm passes on the limits of the submitting shell; set them there with `ulimit`",
        );
    }
    if !spec.reservation.is_empty() {
        return wrong("reservation", "it is the head's; use `--slurm-option --reservation=...`");
    }
    if let Some((field, instead)) = unknown_to_slurm(spec) {
        return wrong(field, &format!("a job of Slurm's own cannot have it; {instead}"));
    }
    if spec.paced || (spec.command.is_empty() && spec.steps.is_empty()) {
        return wrong("command", "there is nothing to run");
    }
    if spec.gang.as_ref().is_some_and(|gang| gang.nodes > 1 && gang.devices % gang.nodes != 0) {
        return wrong("gang", "nodes of a Slurm job have equally many devices");
    }
    Ok(())
}

/// The first field that would be forgotten otherwise, and what to use in its place.
fn unknown_to_slurm(spec: &JobSpec) -> Option<(&'static str, &'static str)> {
    let gang = spec.gang.clone().unwrap_or_default();
    let is_elastic = |bound: u32| bound > 0 && bound != gang.devices.max(1);
    let has_codes = spec.checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.resume_codes.is_empty());
    let retries = "Slurm runs it again when a node fails, and only then; leave it out";
    let signal = "use `--slurm-option --signal=...`";
    let fields = [
        ("gang.min", is_elastic(gang.devices_min), "its size is fixed; give `devices` alone"),
        ("gang.max", is_elastic(gang.devices_max), "its size is fixed; give `devices` alone"),
        ("priority", spec.priority != 0, "use `--slurm-option --nice=...`"),
        ("weight", spec.weight > 0.0, "leave it out: shares are Slurm's"),
        ("deadline", spec.deadline_s > 0.0, "use `--slurm-option --deadline=...`"),
        ("retries", spec.retries > 0, retries),
        ("retry", !spec.retry.is_empty(), retries),
        ("retry_delay", spec.retry_delay_s.is_some(), retries),
        ("checkpoint.resume_codes", has_codes, retries),
        ("on_time_limit", spec.requeue_at_limit, "leave it out: time limits are Slurm's"),
        (
            "stall_timeout",
            spec.stall_timeout_s.is_some(),
            "omit it: progress is reported to Wharf's own head only",
        ),
        ("on_stall", spec.on_stall != 0, "omit it: progress is reported to Wharf's own head only"),
        ("stop_signal", spec.stop_signal > 0, signal),
        (
            "network_interface",
            !spec.network_interface.is_empty(),
            "set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME in `env`",
        ),
        ("data_parallel", spec.data_parallel, "leave it out: only Wharf's own workers pass plans to jobs"),
        ("user", !spec.user.is_empty(), "Slurm runs it as the submitting user; leave it out"),
    ];
    fields.into_iter().find(|(_, is_given, _)| *is_given).map(|(field, _, instead)| (field, instead))
}

/// Variables that a container gets where they are set.
const INHERITED: [&str; 19] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "WHARF_JOB_ID",
    "WHARF_NODES",
    "WHARF_RESTART",
    "WHARF_ARRAY_INDEX",
    "WHARF_CHECKPOINT_DIR",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "CUDA_VISIBLE_DEVICES",
];

/// The job's container, where it has one, for a command with these variables.
fn within<'a>(spec: &'a JobSpec, env: &'a BTreeMap<String, String>, has_gpus: bool) -> Option<Within<'a>> {
    let container = spec.container.as_ref()?;
    Some(Within { container, workdir: &spec.workdir, env, inherited: &INHERITED, has_gpus, sockets: None })
}

/// What runs on the first node: the environment, then the command there or on every node.
fn script(spec: &JobSpec, nodes: u32, tasks_per_node: u32, has_gpus: bool) -> Result<String, PilotError> {
    let mut text = String::from("#!/bin/bash\n");
    let exported = match within(spec, &spec.env, has_gpus) {
        Some(within) => within.exported(),
        None => spec.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
    };
    // Writing to a string cannot fail.
    for (name, value) in exported {
        let _ = writeln!(text, "export {name}={}", quote(value));
    }
    text.push_str(
        "export WHARF_JOB_ID=$SLURM_JOB_ID WHARF_NODES=$SLURM_JOB_NUM_NODES WHARF_RESTART=${SLURM_RESTART_COUNT:-0}\n\
         if [ -n \"$SLURM_ARRAY_TASK_ID\" ]; then export WHARF_ARRAY_INDEX=$SLURM_ARRAY_TASK_ID; fi\n",
    );
    if let Some(dir) =
        spec.checkpoint.as_ref().map(|checkpoint| &checkpoint.dir).filter(|dir| !dir.is_empty())
    {
        let dir = checkpoint_dir(dir);
        let _ = writeln!(
            text,
            "export WHARF_CHECKPOINT_DIR={dir}\nmkdir -p -- \"$WHARF_CHECKPOINT_DIR\" || exit 1"
        );
    } else {
        // A directory of its own, created by the trainer that uses it; Slurm keeps the number through requeues.
        text.push_str("export WHARF_CHECKPOINT_DIR=\"$PWD/.wharf/checkpoints/slurm-$SLURM_JOB_ID\"\n");
    }
    for activation in &spec.activate {
        text.push_str(activation);
        text.push('\n');
    }
    let is_gang = nodes > 1 || tasks_per_node > 1;
    if is_gang {
        text.push_str(
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n\
             export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))\n",
        );
    }
    let contained = |words: &[String], env: &BTreeMap<String, String>| match within(spec, env, has_gpus) {
        None => Ok(words.to_vec()),
        Some(within) => within.script(words).map(|script| ["sh", "-c", &script].map(str::to_owned).to_vec()),
    };
    let commands: Vec<String> = if spec.steps.is_empty() {
        vec![command(&contained(&spec.command, &spec.env)?, is_gang, tasks_per_node)]
    } else {
        let step = |step: &wharf_proto::Step| {
            let mut all = spec.env.clone();
            all.extend(step.env.clone());
            // Variables that would change what the runtime itself does are set within the container only.
            let is_kept = |name: &str| spec.container.is_none() || !misleads(name);
            let env: String = step
                .env
                .iter()
                .filter(|(name, _)| is_kept(name))
                .map(|(name, value)| format!("export {name}={}; ", quote(value)))
                .collect();
            let words = contained(&step.command, &all)?;
            Ok::<_, PilotError>(format!("( {env}{} )", command(&words, is_gang, tasks_per_node)))
        };
        spec.steps.iter().map(step).collect::<Result<_, _>>()?
    };
    let last = commands.len() - 1;
    for (index, command) in commands.into_iter().enumerate() {
        let _ =
            if index < last { writeln!(text, "{command} || exit $?") } else { writeln!(text, "{command}") };
    }
    Ok(text)
}

/// One command, on this node or on all; what it is run by says who it is.
fn command(words: &[String], is_gang: bool, tasks_per_node: u32) -> String {
    let words = line(words.iter().map(String::as_str));
    if !is_gang {
        return format!("env RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 NODE_RANK=0 {words}");
    }
    let ranked = format!(
        "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID; \
         export RANK WORLD_SIZE LOCAL_RANK NODE_RANK; exec {words}"
    );
    format!("srun --ntasks-per-node={tasks_per_node} --kill-on-bad-exit=1 sh -c {}", quote(&ranked))
}

/// The folder with what Wharf's patterns mean here; the rest of it reaches the shell as it is.
fn checkpoint_dir(pattern: &str) -> String {
    let mut text = String::new();
    let mut plain = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let variable = match (letter, letters.clone().next()) {
            ('%', Some('j')) => Some("$SLURM_JOB_ID"),
            ('%', Some('A')) => Some("${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"),
            ('%', Some('a')) => Some("$SLURM_ARRAY_TASK_ID"),
            ('%', Some('x')) => Some("$SLURM_JOB_NAME"),
            ('%', Some('u')) => Some("$USER"),
            ('%', Some('%')) => Some("%"),
            _ => None,
        };
        match variable {
            Some(variable) => {
                letters.next();
                if !plain.is_empty() {
                    text.push_str(&quote(&std::mem::take(&mut plain)));
                }
                let _ = write!(text, "\"{variable}\"");
            }
            None => plain.push(letter),
        }
    }
    if !plain.is_empty() {
        text.push_str(&quote(&plain));
    }
    text
}

/// Polls a job until all of it has ended, reports changes, and returns its result.
///
/// # Errors
/// [`QueueError`] where Slurm does not answer several times in a row.
pub async fn follow(
    queue: &dyn Queue,
    id: &str,
    interval: Duration,
    mut tell: impl FnMut(&QueueJob),
) -> Result<Vec<QueueJob>, QueueError> {
    const ATTEMPTS: u32 = 5;
    let filter = Filter::Id(id.to_owned());
    let mut known: Vec<QueueJob> = Vec::new();
    let mut failures = 0;
    loop {
        let jobs = match queue.list(&filter).await {
            Ok(jobs) => jobs,
            Err(error) if failures >= ATTEMPTS => return Err(error),
            Err(_) => {
                failures += 1;
                tokio::time::sleep(interval).await;
                continue;
            }
        };
        failures = 0;
        for job in &jobs {
            match known.iter_mut().find(|known| known.id == job.id) {
                Some(known) if known.state == job.state => {}
                Some(known) => {
                    *known = job.clone();
                    tell(job);
                }
                None => {
                    known.push(job.clone());
                    tell(job);
                }
            }
        }
        let is_over = |job: &QueueJob| matches!(job.state, JobState::Over(_));
        // What Slurm has forgotten is over as well.
        if jobs.iter().all(is_over) {
            return Ok(known);
        }
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use wharf_proto::{Checkpoint, Gang, Step};

    use super::*;

    fn spec(command: &[&str]) -> JobSpec {
        JobSpec {
            name: "train".into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            workdir: "/data/it's here".into(),
            ..JobSpec::default()
        }
    }

    #[test]
    fn job_becomes_options_of_slurm() {
        let job = JobSpec {
            gang: Some(Gang { devices: 8, nodes: 2, device_types: vec!["v100".into()], ..Gang::default() }),
            time_limit_s: 3601.0,
            cpus: 4,
            memory_mib: 1024,
            pool: "big".into(),
            array: vec![0, 1, 7],
            ..spec(&["true"])
        };
        let made = submission(&job, &Options::default()).unwrap();
        assert_eq!((made.nodes, made.tasks_per_node, made.gres.as_str()), (2, 1, "gpu:v100:4"));
        assert_eq!((made.limit_min, made.cpus, made.memory_mib), (61, 16, 4096));
        assert_eq!((made.partition.as_str(), made.array.as_str()), ("big", "0,1,7"));
        let each = JobSpec { launcher: Launcher::PerDevice.into(), ..job };
        let made = submission(&each, &Options { partition: "p".into(), ..Options::default() }).unwrap();
        assert_eq!((made.tasks_per_node, made.cpus, made.partition.as_str()), (4, 4, "p"));
        assert!(made.script.contains("srun --ntasks-per-node=4 "), "{}", made.script);
        let slots = Gang { devices: 2, device_types: vec!["cpu".into()], ..Gang::default() };
        let made =
            submission(&JobSpec { gang: Some(slots), ..spec(&["true"]) }, &Options::default()).unwrap();
        assert_eq!((made.gres.as_str(), made.cpus), ("", 2));
    }

    #[test]
    fn command_reaches_the_program_as_it_is() {
        let words = ["printf", "%s|", "a b", "it's", "$HOME", "`id`", "x\ny"];
        let mut job = spec(&words);
        job.env = [("A".to_owned(), "1 '2' $3".to_owned())].into_iter().collect();
        let run = |job: &JobSpec| {
            let script = submission(job, &Options::default()).unwrap().script;
            let output = std::process::Command::new("bash").arg("-c").arg(&script).output().unwrap();
            (String::from_utf8(output.stdout).unwrap(), output.status.code())
        };
        assert_eq!(run(&job), ("a b|it's|$HOME|`id`|x\ny|".to_owned(), Some(0)));
        job.command = ["sh", "-c", "echo \"$A $RANK\"; exit 7"].map(str::to_owned).to_vec();
        assert_eq!(run(&job), ("1 '2' $3 0\n".to_owned(), Some(7)));
        let step = |text: &str| Step {
            command: ["sh", "-c", text].map(str::to_owned).to_vec(),
            env: [("B".to_owned(), "b".to_owned())].into_iter().collect(),
            ..Step::default()
        };
        let steps = vec![step("echo $B"), step("exit 3"), step("echo never")];
        assert_eq!(run(&JobSpec { steps, ..spec(&[]) }), ("b\n".to_owned(), Some(3)));
    }

    #[test]
    fn a_job_that_names_no_devices_asks_for_no_gpu() {
        let none = JobSpec { gang: Some(Gang { nodes: 2, ..Gang::default() }), ..spec(&["true"]) };
        let made = submission(&none, &Options::default()).unwrap();
        assert_eq!((made.gres.as_str(), made.nodes, made.cpus), ("", 2, 1));
        let one = JobSpec { gang: Some(Gang { devices: 1, ..Gang::default() }), ..spec(&["true"]) };
        assert_eq!(submission(&one, &Options::default()).unwrap().gres, "gpu:1");
    }

    #[test]
    fn a_container_is_a_line_of_the_script() {
        let container = wharf_proto::Container {
            runtime: wharf_proto::container::Runtime::Charliecloud.into(),
            image: "/img".into(),
            ..wharf_proto::Container::default()
        };
        let job = JobSpec {
            container: Some(container),
            workdir: "/tmp/x".into(),
            env: [("A".to_owned(), "1".to_owned()), ("PATH".to_owned(), "/in".to_owned())]
                .into_iter()
                .collect(),
            ..spec(&["python", "a b.py"])
        };
        let script = submission(&job, &Options::default()).unwrap().script;
        let (before, line) = script.trim_end().split_once("env RANK=0").unwrap();
        assert!(before.contains("export A=1\n") && !before.contains("export PATH"), "{before}");
        assert_eq!(
            wharf_document::shell::split(line).unwrap()[3..].join(" "),
            "sh -c export USER=\"${USER:-$(id -un)}\"\nwharf_env=; [ ! -f /img/ch/environment ] || wharf_env=--set-env\n\
             exec ch-run $wharf_env --env-no-expand --set-env=PATH=/in --cd=/tmp/x /img -- python 'a b.py'"
        );
        let named = wharf_proto::Container { name: "box".into(), ..job.container.clone().unwrap() };
        let refused =
            submission(&JobSpec { container: Some(named), ..job }, &Options::default()).unwrap_err();
        assert_eq!(refused.to_string(), "container.name: only Wharf's own workers can do that; leave it out");
    }

    #[test]
    fn fields_that_slurm_would_forget_are_refused_by_name() {
        let refused = |job: JobSpec| submission(&job, &Options::default()).unwrap_err().to_string();
        let cannot = "a job of Slurm's own cannot have it;";
        let elastic = Gang { devices: 2, devices_min: 2, devices_max: 4, ..Gang::default() };
        for (job, expected) in [
            (
                JobSpec { priority: 3, ..spec(&["x"]) },
                format!("priority: {cannot} use `--slurm-option --nice=...`"),
            ),
            (
                JobSpec { gang: Some(elastic), ..spec(&["x"]) },
                format!("gang.max: {cannot} its size is fixed; give `devices` alone"),
            ),
            (
                JobSpec { retries: 1, ..spec(&["x"]) },
                format!(
                    "retries: {cannot} Slurm runs it again when a node fails, and only then; leave it out"
                ),
            ),
            (
                JobSpec { requeue_at_limit: true, ..spec(&["x"]) },
                format!("on_time_limit: {cannot} leave it out: time limits are Slurm's"),
            ),
            (
                JobSpec { stop_signal: 10, ..spec(&["x"]) },
                format!("stop_signal: {cannot} use `--slurm-option --signal=...`"),
            ),
            (
                JobSpec { network_interface: "ib0".into(), ..spec(&["x"]) },
                format!("network_interface: {cannot} set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME in `env`"),
            ),
        ] {
            assert_eq!(refused(job), expected);
        }
    }

    #[test]
    fn folders_have_slurms_numbers_and_nothing_else_is_expanded() {
        assert_eq!(checkpoint_dir("ck/%j/$HOME x"), "ck/\"$SLURM_JOB_ID\"'/$HOME x'");
        assert_eq!(checkpoint_dir("100%%"), "100\"%\"");
        let job = JobSpec {
            checkpoint: Some(Checkpoint { dir: "ck-%j".into(), ..Checkpoint::default() }),
            ..spec(&["true"])
        };
        let script = submission(&job, &Options::default()).unwrap().script;
        assert!(script.contains("export WHARF_CHECKPOINT_DIR=ck-\"$SLURM_JOB_ID\"\n"), "{script}");
    }

    #[test]
    fn unsupported_slurm_field_is_refused() {
        let refused = |job: JobSpec| match submission(&job, &Options::default()) {
            Err(PilotError::Job { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        let mpi = JobSpec { launcher: Launcher::Mpirun.into(), ..spec(&["true"]) };
        assert_eq!(refused(mpi), "launcher");
        assert_eq!(refused(spec(&[])), "command");
        assert_eq!(refused(JobSpec { reservation: "r".into(), ..spec(&["true"]) }), "reservation");
        let odd = Gang { devices: 3, nodes: 2, ..Gang::default() };
        assert_eq!(refused(JobSpec { gang: Some(odd), ..spec(&["true"]) }), "gang");
    }
}
