//! The options of sbatch, srun and salloc: names and handling.

use super::getopt::{Opt, Takes};
use super::limit::TimeLimit;
use super::memory;
use super::nodes::NodeCount;
use super::refusal::{Kind, Refusal};
use super::signal::Warning;

/// Handling of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It is honoured.
    Honoured,
    /// It is accepted and does nothing, which its user is told.
    Ignored,
    /// It is refused: without it the job would not be what its user wants.
    Rejected,
}

use Class::{Honoured as H, Ignored as W, Rejected as R};
use Takes::{Maybe, Nothing, Value};

/// All options of sbatch by name: letter, value, class.
const ALL: &[(&str, char, Takes, Class)] = &[
    ("account", 'A', Value, H),
    ("acctg-freq", ' ', Value, W),
    ("array", 'a', Value, H),
    ("batch", ' ', Value, W),
    ("bb", ' ', Value, R),
    ("bbf", ' ', Value, R),
    ("begin", 'b', Value, H),
    ("chdir", 'D', Value, H),
    ("cluster-constraint", ' ', Value, R),
    ("clusters", 'M', Value, R),
    ("comment", ' ', Value, H),
    ("constraint", 'C', Value, H),
    ("container", ' ', Value, H),
    ("container-image", ' ', Value, H),
    ("container-mounts", ' ', Value, H),
    ("container-workdir", ' ', Value, H),
    ("container-writable", ' ', Nothing, H),
    ("contiguous", ' ', Nothing, W),
    ("core-spec", 'S', Value, W),
    ("cores-per-socket", ' ', Value, W),
    ("cpu-freq", ' ', Value, W),
    ("cpus-per-gpu", ' ', Value, H),
    ("cpus-per-task", 'c', Value, H),
    ("deadline", ' ', Value, H),
    ("delay-boot", ' ', Value, W),
    ("dependency", 'd', Value, H),
    ("distribution", 'm', Value, W),
    ("error", 'e', Value, H),
    ("exclude", 'x', Value, H),
    ("exclusive", ' ', Maybe, H),
    ("export", ' ', Value, H),
    ("export-file", ' ', Value, H),
    ("extra-node-info", 'B', Value, W),
    ("get-user-env", ' ', Maybe, W),
    ("gid", ' ', Value, R),
    ("gpu-bind", ' ', Value, W),
    ("gpu-freq", ' ', Value, W),
    ("gpus", 'G', Value, H),
    ("gpus-per-node", ' ', Value, H),
    ("gpus-per-socket", ' ', Value, R),
    ("gpus-per-task", ' ', Value, H),
    ("gres", ' ', Value, H),
    ("gres-flags", ' ', Value, W),
    ("help", 'h', Nothing, H),
    ("hint", ' ', Value, W),
    ("hold", 'H', Nothing, H),
    ("ignore-pbs", ' ', Nothing, H),
    ("input", 'i', Value, H),
    ("job-name", 'J', Value, H),
    ("kill-on-invalid-dep", ' ', Value, H),
    ("licenses", 'L', Value, W),
    ("mail-type", ' ', Value, H),
    ("mail-user", ' ', Value, H),
    ("mcs-label", ' ', Value, W),
    ("mem", ' ', Value, H),
    ("mem-bind", ' ', Value, W),
    ("mem-per-cpu", ' ', Value, H),
    ("mem-per-gpu", ' ', Value, H),
    ("mincpus", ' ', Value, W),
    ("network", ' ', Value, W),
    ("nice", ' ', Maybe, H),
    ("no-kill", 'k', Maybe, W),
    ("no-requeue", ' ', Nothing, H),
    ("nodefile", 'F', Value, H),
    ("nodelist", 'w', Value, H),
    ("nodes", 'N', Value, H),
    ("ntasks", 'n', Value, H),
    ("ntasks-per-core", ' ', Value, W),
    ("ntasks-per-gpu", ' ', Value, H),
    ("ntasks-per-node", ' ', Value, H),
    ("ntasks-per-socket", ' ', Value, W),
    ("open-mode", ' ', Value, H),
    ("output", 'o', Value, H),
    ("overcommit", 'O', Nothing, H),
    ("oversubscribe", 's', Nothing, W),
    ("parsable", ' ', Nothing, H),
    ("partition", 'p', Value, H),
    ("power", ' ', Value, W),
    ("prefer", ' ', Value, W),
    ("priority", ' ', Value, H),
    ("profile", ' ', Value, W),
    ("propagate", ' ', Maybe, W),
    ("qos", 'q', Value, W),
    ("quiet", 'Q', Nothing, H),
    ("reboot", ' ', Nothing, R),
    ("requeue", ' ', Nothing, H),
    ("reservation", ' ', Value, H),
    ("signal", ' ', Value, H),
    ("sockets-per-node", ' ', Value, W),
    ("spread-job", ' ', Nothing, W),
    ("switches", ' ', Value, W),
    ("test-only", ' ', Nothing, H),
    ("thread-spec", ' ', Value, W),
    ("threads-per-core", ' ', Value, W),
    ("time", 't', Value, H),
    ("time-min", ' ', Value, W),
    ("tmp", ' ', Value, W),
    ("uid", ' ', Value, R),
    ("usage", ' ', Nothing, H),
    ("use-min-nodes", ' ', Nothing, W),
    ("verbose", 'v', Nothing, H),
    ("version", 'V', Nothing, H),
    ("wait", 'W', Nothing, H),
    ("wait-all-nodes", ' ', Value, W),
    ("wckey", ' ', Value, W),
    ("wrap", ' ', Value, H),
];

/// Other names of options.
const ALIASES: &[(&str, &str)] = &[
    ("cluster", "clusters"),
    ("cpu_bind", "cpu-bind"),
    ("share", "oversubscribe"),
    ("tasks-per-node", "ntasks-per-node"),
    ("workdir", "chdir"),
];

/// What the environment says instead of options, after `SBATCH_`; those without a value are flags.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("ARRAY_INX", "array"),
    ("CLUSTERS", "clusters"),
    ("CONSTRAINT", "constraint"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("DISTRIBUTION", "distribution"),
    ("ERROR", "error"),
    ("EXCLUSIVE", "exclusive"),
    ("EXPORT", "export"),
    ("GET_USER_ENV", "get-user-env"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GRES", "gres"),
    ("GRES_FLAGS", "gres-flags"),
    ("HINT", "hint"),
    ("IGNORE_PBS", "ignore-pbs"),
    ("INPUT", "input"),
    ("JOB_NAME", "job-name"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("NETWORK", "network"),
    ("NO_KILL", "no-kill"),
    ("NO_REQUEUE", "no-requeue"),
    ("OPEN_MODE", "open-mode"),
    ("OUTPUT", "output"),
    ("OVERCOMMIT", "overcommit"),
    ("PARTITION", "partition"),
    ("PROFILE", "profile"),
    ("QOS", "qos"),
    ("REQUEUE", "requeue"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("SPREAD_JOB", "spread-job"),
    ("THREADS_PER_CORE", "threads-per-core"),
    ("TIMELIMIT", "time"),
    ("USE_MIN_NODES", "use-min-nodes"),
    ("WAIT", "wait"),
    ("WAIT_ALL_NODES", "wait-all-nodes"),
    ("WCKEY", "wckey"),
];

/// Options that srun has beside those of sbatch.
const OF_STEPS: &[(&str, char, Takes, Class)] = &[
    ("accel-bind", ' ', Value, W),
    ("bcast", ' ', Maybe, R),
    ("cpu-bind", ' ', Value, W),
    ("disable-status", 'X', Nothing, W),
    ("epilog", ' ', Value, R),
    ("exact", ' ', Nothing, H),
    ("immediate", 'I', Maybe, W),
    ("jobid", ' ', Value, H),
    ("kill-on-bad-exit", 'K', Maybe, H),
    ("label", 'l', Nothing, H),
    ("mpi", ' ', Value, W),
    ("multi-prog", ' ', Nothing, H),
    ("no-allocate", 'Z', Nothing, R),
    ("overlap", ' ', Nothing, H),
    ("prolog", ' ', Value, R),
    ("pty", ' ', Nothing, H),
    ("relative", 'r', Value, H),
    ("task-epilog", ' ', Value, R),
    ("task-prolog", ' ', Value, R),
    ("unbuffered", 'u', Nothing, W),
    ("wait-all", ' ', Nothing, W),
    ("x11", ' ', Maybe, R),
];

/// The options of sbatch, and of salloc, as they can be typed.
#[must_use]
pub fn sbatch() -> Vec<Opt> {
    table(ALL.iter())
}

/// The options of srun.
#[must_use]
pub fn srun() -> Vec<Opt> {
    let is_other =
        |row: &&(&'static str, char, Takes, Class)| !["array", "wrap", "wait", "parsable"].contains(&row.0);
    table(ALL.iter().filter(is_other).chain(OF_STEPS))
}

fn table<'a>(rows: impl Iterator<Item = &'a (&'static str, char, Takes, Class)>) -> Vec<Opt> {
    let rows: Vec<Opt> = rows.map(|&(long, short, takes, _)| Opt::new(long, short, takes)).collect();
    let alias = |&(long, name): &(&'static str, &'static str)| {
        let takes = rows.iter().find(|row| row.long == name)?.takes;
        Some(Opt { long, short: ' ', takes, name })
    };
    let mut all: Vec<Opt> = ALIASES.iter().filter_map(alias).chain(rows.iter().copied()).collect();
    all.sort_by_key(|option| option.long);
    all
}

/// Handling of an option.
#[must_use]
pub fn class(name: &str) -> Class {
    ALL.iter().chain(OF_STEPS).find(|row| row.0 == name).map_or(Class::Rejected, |row| row.3)
}

/// What the environment says, as options with their values.
pub(crate) fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let said = ENVIRONMENT.iter().filter_map(|&(suffix, name)| {
        let value = variable(&format!("SBATCH_{suffix}"))?;
        let takes = ALL.iter().find(|row| row.0 == name)?.2;
        match takes {
            Value => Some((name, value)),
            Maybe => Some((name, if is_on(&value) { String::new() } else { value })),
            Nothing => is_on(&value).then(|| (name, String::new())),
        }
    });
    said.collect()
}

/// Whether a flag's variable means that it is set.
fn is_on(value: &str) -> bool {
    value.is_empty() || value == "yes" || value.parse::<i64>().is_ok_and(|number| number != 0)
}

/// Whether an option can have a value.
pub(crate) fn check(name: &str, value: &str) -> Result<(), Refusal> {
    let wrong = || Err(Refusal::value(name));
    match name {
        "time" | "time-min" if value.parse::<TimeLimit>().is_err() => wrong(),
        "mem" | "mem-per-cpu" | "mem-per-gpu" | "tmp" if memory::mebibytes(value).is_none() => wrong(),
        "signal" if value.parse::<Warning>().is_err() => wrong(),
        "open-mode" if !["append", "a", "truncate", "t"].contains(&value) => wrong(),
        "exclusive" if !["", "user", "mcs"].contains(&value) => wrong(),
        "distribution" if distribution(value).is_none() => wrong(),
        "kill-on-invalid-dep" if !["yes", "no"].contains(&value) => wrong(),
        "nice" if !value.is_empty() && value.parse::<i32>().is_err() => wrong(),
        "priority" if value != "TOP" && value.parse::<u32>().is_err() => wrong(),
        "nodes" => NodeCount::parse(value).map(drop),
        "ntasks" | "cpus-per-task" | "ntasks-per-node" | "ntasks-per-gpu" | "cpus-per-gpu" => {
            let is_count = value.parse::<u32>().is_ok_and(|count| count > 0);
            let text = format!("Invalid numeric value \"{value}\" for --{name}.");
            if is_count { Ok(()) } else { Err(Refusal::new(Kind::Failed, text)) }
        }
        _ => Ok(()),
    }
}

/// A distribution of tasks as sbatch shows it.
pub(crate) fn distribution(value: &str) -> Option<String> {
    let lower = value.to_ascii_lowercase();
    let (ways, pack) = match lower.split_once(',') {
        Some((ways, pack)) if pack == "pack" || pack == "nopack" => (ways, format!(",{pack}")),
        Some(_) => return None,
        None => (lower.as_str(), String::new()),
    };
    if let Some(size) = ways.strip_prefix("plane=") {
        return size.parse::<u32>().ok().map(|_| lower.clone());
    }
    let mut shown = Vec::new();
    for (level, way) in ways.split(':').enumerate() {
        shown.push(match (level, way) {
            (0, "*") => "block",
            (0, "block" | "cyclic" | "arbitrary") | (1 | 2, "*" | "block" | "cyclic" | "fcyclic") => way,
            _ => return None,
        });
    }
    Some(shown.join(":") + &pack)
}
