//! Whether a job makes sense by itself: clients check it before they send it, and the head checks it again.
//!
//! Nothing here checks a cluster. A gang that no cluster could hold is refused; one that this cluster cannot hold waits.

mod container;
mod notify;
mod ray;
mod secrets;

use std::collections::BTreeSet;

use wharf_proto::{Cause, Gang, JobSpec, Launcher, Step, dependency};

use crate::parameters;
pub use notify::{WebhookUrl, is_mail_address};
pub use ray::RayArgumentError;
use secrets::check_environment;

/// The most elements that an array may have.
pub const ARRAY_MAX: usize = 1_000_000;
/// Bytes of a name.
pub const LABEL_MAX: usize = 1024;

/// Resource limits by the names that `ulimit` and /etc/security/limits.conf use.
pub const LIMITS: &[&str] = &[
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "sigpending",
    "stack",
];

/// What can follow `%` in the name of a file.
pub const PATTERNS: &str = "jaAxnNu%";

/// The largest number of a signal.
const SIGNAL_MAX: i32 = 64;

/// Why a job is refused: which of its fields is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct CheckError {
    /// The field, as a job file names it.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is nothing to run.
    #[error("no command; set a command, or steps with a command each")]
    NoCommand,
    /// Two ways to say the same.
    #[error("conflicts with {0}; remove one of them")]
    Besides(&'static str),
    /// Something that another field makes possible.
    #[error("requires `{0}`; set it, or remove this field")]
    Without(&'static str),
    /// Secrets that cannot be given to tasks.
    #[error("{0}")]
    Secrets(&'static str),
    /// An empty text where one is needed.
    #[error("is empty; remove it or set a value")]
    Empty,
    /// A zero byte.
    #[error("contains a zero byte")]
    Nul,
    /// A control character in a name.
    #[error("contains the control character {0}; remove it")]
    Disruptive(String),
    /// A name that is too long.
    #[error("has {0} bytes; a name has at most {LABEL_MAX}")]
    Long(usize),
    /// A number that is no length, fraction or amount.
    #[error("{0} is not a number from 0 on")]
    NotAnAmount(String),
    /// A range the wrong way round.
    #[error("min {min}, max {max} and {devices} devices are inconsistent; expected min <= devices <= max")]
    Range {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
        /// What it prefers.
        devices: u32,
    },
    /// Nodes that cannot get equal shares.
    #[error("{devices} devices cannot be divided evenly among {nodes} nodes; use a multiple")]
    Uneven {
        /// All devices.
        devices: u32,
        /// All nodes.
        nodes: u32,
    },
    /// An index twice.
    #[error("index {0} is listed twice")]
    IndexTwice(u32),
    /// Too many elements.
    #[error("{0} elements, at most {ARRAY_MAX}; split the array")]
    LargeArray(usize),
    /// A value that is none of those known.
    #[error("`{given}` is unknown; expected one of {known}")]
    Unknown {
        /// What was given.
        given: String,
        /// What there is.
        known: String,
    },
    /// The name of a variable that cannot be one.
    #[error("`{0}` is not a valid variable name")]
    VariableName(String),
    /// A path that depends on where one stands.
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    /// A pattern in a file name.
    #[error("`%{0}` is not a pattern; expected one of %j %a %A %x %n %N %u, and %% for a percent sign")]
    Pattern(String),
    /// No recipient.
    #[error("no recipient: set a command, a webhook or an email address")]
    NoTarget,
    /// An address that cannot be posted to.
    #[error("`{0}` is not a URL; expected http://HOST/PATH or https://HOST/PATH")]
    Address(String),
    /// An invalid email address.
    #[error("`{0}` is not an email address; expected NAME@HOST")]
    Mail(String),
    /// A text that cannot be an account's.
    #[error("`{0}` is not a valid account name; expected up to 64 letters, digits, `_`, `-` and `.`")]
    Account(String),
    /// A text that cannot be a container's name.
    #[error("`{0}` is not a valid container name; expected two or more letters, digits, `_`, `-` and `.`")]
    ContainerName(String),
    /// A text that cannot be a parameter's name.
    #[error("`{0}` is not a valid parameter name; expected up to 64 letters, digits, `_`, `-` and `.`")]
    ParameterName(String),
    /// Two parameters that a variable could not tell apart.
    #[error("`{0}` is a duplicate, or maps to the same environment variable as another; rename it")]
    ParameterTwice(String),
    /// Not a value of each parameter for each element.
    #[error("require an array, and for each element one value per name")]
    ParameterRows,
    /// An argument of `ray start` that cannot be given.
    #[error("{0}")]
    RayArgument(RayArgumentError),
    /// A number that is no signal.
    #[error("{0} is not a signal; expected 1 to {SIGNAL_MAX}")]
    Signal(i32),
}

/// Checks a job as submitted.
///
/// # Errors
/// [`CheckError`] for the first thing that cannot be.
pub fn check(spec: &JobSpec) -> Result<(), CheckError> {
    check_commands(spec)?;
    check_texts(spec)?;
    check_gang(spec)?;
    check_array(&spec.array)?;
    check_numbers(spec)?;
    check_environment("env", &spec.env)?;
    secrets::check_secrets(spec)?;
    check_paths(spec)?;
    check_limits(spec)?;
    check_choices(spec)?;
    check_retry(spec)?;
    ray::check(spec)?;
    parameters::problem(spec).map_or(Ok(()), |problem| wrong("parameters", problem))?;
    if !spec.account.is_empty() && !is_name(&spec.account) {
        return wrong("account", Problem::Account(spec.account.clone()));
    }
    spec.notify.as_ref().map_or(Ok(()), notify::check)?;
    container::check(spec)
}

/// Refuses a field.
///
/// # Errors
/// Always.
pub fn wrong(field: impl Into<String>, problem: Problem) -> Result<(), CheckError> {
    Err(CheckError { field: field.into(), problem })
}

fn check_commands(spec: &JobSpec) -> Result<(), CheckError> {
    if spec.launcher() == Launcher::Batch || spec.batch.is_some() {
        return check_batch(spec);
    }
    // A paced job without a command is the workers' own trainer.
    if spec.command.is_empty() && spec.steps.is_empty() && !spec.paced {
        return wrong("command", Problem::NoCommand);
    }
    if !spec.command.is_empty() && !spec.steps.is_empty() {
        return wrong("command", Problem::Besides("steps"));
    }
    if !spec.command.is_empty() {
        check_command("command", &spec.command)?;
    }
    for (index, step) in spec.steps.iter().enumerate() {
        check_step(&format!("steps[{index}]"), step)?;
    }
    Ok(())
}

/// A batch script is all that its job runs.
fn check_batch(spec: &JobSpec) -> Result<(), CheckError> {
    let Some(batch) = spec.batch.as_ref().filter(|_| spec.launcher() == Launcher::Batch) else {
        return wrong("batch", Problem::Besides("another launcher"));
    };
    if !spec.command.is_empty() || !spec.steps.is_empty() || !spec.activate.is_empty() {
        return wrong("command", Problem::Besides("a batch script"));
    }
    if batch.script.is_empty() && !batch.is_allocation {
        return wrong("script", Problem::Empty);
    }
    if !(0..=SIGNAL_MAX).contains(&batch.signal) {
        return wrong("signal", Problem::Signal(batch.signal));
    }
    check_text("script", &batch.script)?;
    check_path("input", &batch.input)?;
    batch.arguments.iter().try_for_each(|word| check_text("arguments", word))
}

fn check_step(field: &str, step: &Step) -> Result<(), CheckError> {
    check_label(&format!("{field}.name"), &step.name)?;
    check_command(&format!("{field}.command"), &step.command)?;
    check_environment(&format!("{field}.env"), &step.env)
}

fn check_command(field: &str, command: &[String]) -> Result<(), CheckError> {
    match command.first() {
        None => return wrong(field, Problem::NoCommand),
        Some(program) if program.is_empty() => return wrong(field, Problem::Empty),
        Some(_) => {}
    }
    command.iter().try_for_each(|word| check_text(field, word))
}

fn check_text(field: &str, text: &str) -> Result<(), CheckError> {
    if text.contains('\0') { wrong(field, Problem::Nul) } else { Ok(()) }
}

/// Whether a text can be the name of a user, an account or a node: nothing that a path, a shell or an option could misread.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_fine) && !text.starts_with(['-', '.'])
}

/// Whether a character could change what a terminal shows around it: control characters, and those that reorder or break lines.
#[must_use]
pub fn is_disruptive(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Checks a text that people see in lists, such as a name or a reason.
///
/// # Errors
/// [`CheckError`] for a character that does not belong there, and for a text that is too long.
pub fn check_label(field: &str, text: &str) -> Result<(), CheckError> {
    check_text(field, text)?;
    match text.chars().find(|&letter| is_disruptive(letter)) {
        Some(letter) => wrong(field, Problem::Disruptive(letter.escape_unicode().to_string())),
        None if text.len() > LABEL_MAX => wrong(field, Problem::Long(text.len())),
        None => Ok(()),
    }
}

fn check_texts(spec: &JobSpec) -> Result<(), CheckError> {
    let single = [
        ("name", &spec.name),
        ("user", &spec.user),
        ("model", &spec.model),
        ("pool", &spec.pool),
        ("reservation", &spec.reservation),
        ("network_interface", &spec.network_interface),
    ];
    single.into_iter().try_for_each(|(field, text)| check_label(field, text))?;
    spec.activate.iter().try_for_each(|line| check_text("activate", line))
}

fn check_gang(spec: &JobSpec) -> Result<(), CheckError> {
    let gang = spec.gang.clone().unwrap_or_default();
    let Gang { devices, devices_min, devices_max, nodes, .. } = gang;
    if gang.device_types.iter().any(String::is_empty) {
        return wrong("gang.types", Problem::Empty);
    }
    gang.device_types.iter().try_for_each(|name| check_label("gang.types", name))?;
    if gang.every_node && (devices_min.max(devices_max) > 1 || nodes > 0) {
        return wrong("per_node", Problem::Besides("a range of devices or a number of nodes"));
    }
    if gang.every_device && !gang.every_node {
        return wrong("gang.all", Problem::Without("per_node"));
    }
    // A bound that is not given is what is preferred.
    let preferred = devices.max(1);
    let or = |bound: u32| if bound == 0 { preferred } else { bound };
    let (min, max) = (or(devices_min), or(devices_max));
    if min > preferred || preferred > max {
        return wrong("gang", Problem::Range { min, max, devices: preferred });
    }
    if nodes > 0 && !preferred.is_multiple_of(nodes) {
        return wrong("gang", Problem::Uneven { devices: preferred, nodes });
    }
    Ok(())
}

fn check_array(array: &[u32]) -> Result<(), CheckError> {
    if array.len() > ARRAY_MAX {
        return wrong("array", Problem::LargeArray(array.len()));
    }
    let is_ascending = array.windows(2).all(|pair| pair[0] < pair[1]);
    if is_ascending {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    match array.iter().find(|&&index| !seen.insert(index)) {
        Some(&index) => wrong("array", Problem::IndexTwice(index)),
        None => Ok(()),
    }
}

fn check_numbers(spec: &JobSpec) -> Result<(), CheckError> {
    let stages = spec.stages.unwrap_or_default();
    let amounts = [
        ("stages.data_ms", stages.data_ms),
        ("stages.compute_ms", stages.compute_ms),
        ("stages.network_ms", stages.network_ms),
        ("time_limit", spec.time_limit_s),
        ("grace", spec.grace_s),
        ("iterations", spec.iterations),
        ("iteration_ms", spec.iteration_ms),
        ("deadline", spec.deadline_s),
        ("weight", spec.weight),
        ("retry_delay", spec.retry_delay_s.unwrap_or_default()),
        ("stall_timeout", spec.stall_timeout_s.unwrap_or_default()),
        ("duration", spec.duration_s),
        ("begin", spec.begin_s),
    ];
    for (field, value) in amounts {
        if !value.is_finite() || value < 0.0 {
            return wrong(field, Problem::NotAnAmount(value.to_string()));
        }
    }
    // 0 is the default: the worker's own choice.
    if !(0..=SIGNAL_MAX).contains(&spec.stop_signal) {
        return wrong("stop_signal", Problem::Signal(spec.stop_signal));
    }
    Ok(())
}

fn check_paths(spec: &JobSpec) -> Result<(), CheckError> {
    check_path("workdir", &spec.workdir)?;
    let checkpoint = spec.checkpoint.as_ref().map_or("", |checkpoint| checkpoint.dir.as_str());
    for (field, path) in
        [("output", spec.output.as_str()), ("error", &spec.error_output), ("checkpoint.dir", checkpoint)]
    {
        check_path(field, path)?;
        // Those of batch scripts are Slurm's, which leaves what it does not know as it is.
        if spec.batch.is_none() {
            check_patterns(field, path)?;
        }
    }
    Ok(())
}

fn check_path(field: &str, path: &str) -> Result<(), CheckError> {
    check_text(field, path)?;
    if path.is_empty() || path.starts_with('/') {
        return Ok(());
    }
    wrong(field, Problem::Relative(path.to_owned()))
}

fn check_patterns(field: &str, path: &str) -> Result<(), CheckError> {
    let mut rest = path.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            continue;
        }
        match rest.next() {
            Some(pattern) if PATTERNS.contains(pattern) => {}
            other => return wrong(field, Problem::Pattern(other.map(String::from).unwrap_or_default())),
        }
    }
    Ok(())
}

fn check_limits(spec: &JobSpec) -> Result<(), CheckError> {
    let mut seen = BTreeSet::new();
    for limit in &spec.limits {
        if !LIMITS.contains(&limit.name.as_str()) {
            let known = LIMITS.join(", ");
            return wrong("limits", Problem::Unknown { given: limit.name.clone(), known });
        }
        if !seen.insert(&limit.name) {
            return wrong(format!("limits.{}", limit.name), Problem::Besides("itself"));
        }
    }
    Ok(())
}

/// Numbers that stand for a choice, and must stand for one that there is.
fn check_choices(spec: &JobSpec) -> Result<(), CheckError> {
    let unknown = |field: &str, given: i32, known: &str| {
        wrong(field, Problem::Unknown { given: given.to_string(), known: known.to_owned() })
    };
    if Launcher::try_from(spec.launcher).is_err() {
        return unknown("launcher", spec.launcher, "plain, per-device, torchrun, mpirun or ray");
    }
    for dependency in &spec.dependencies {
        if dependency::Kind::try_from(dependency.kind).is_err() {
            let known = "after, after_ok, after_not_ok, after_any, after_corr or singleton";
            return unknown("after", dependency.kind, known);
        }
    }
    Ok(())
}

/// Causes after which a job can be run again, each once.
fn check_retry(spec: &JobSpec) -> Result<(), CheckError> {
    let mut seen = BTreeSet::new();
    for rule in &spec.retry {
        let cause = rule.cause();
        if !Cause::RETRIED.contains(&cause) {
            let known = Cause::RETRIED.map(Cause::word).join(", ");
            return wrong("retry", Problem::Unknown { given: cause.word().to_owned(), known });
        }
        if !seen.insert(cause) {
            return wrong(format!("retry.{}", cause.word()), Problem::Besides("itself"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
