//! The libraries' errors as the command line tells them: whose move it is, and what may help.

use wharf_job::JobError;
use wharf_profile::ProfileError;
use wharf_report::FileError;
use wharf_reproduce::System;
use wharf_sim::sweep::ScenarioError;
use wharf_sim::{MeasureError, PresetError, RunError};
use wharf_staging::StagingError;
use wharf_study::StudyError;
use wharf_trace::{ClusterError, TraceError, UnknownFormat};

use super::{CliError, ErrorKind};

/// A trace cannot be read.
pub fn trace(error: &TraceError) -> CliError {
    with_hint(CliError::from_error(ErrorKind::Input, error), error.hint())
}

/// A cluster cannot be made out.
pub fn cluster(error: &ClusterError) -> CliError {
    let kind = match error {
        ClusterError::Neither { text, .. } if !looks_like_file(text) => ErrorKind::Usage,
        _ => ErrorKind::Input,
    };
    with_hint(CliError::from_error(kind, error), error.hint())
}

/// A format does not exist.
pub fn format(error: &UnknownFormat) -> CliError {
    CliError::from_error(ErrorKind::Usage, error).hint(error.hint())
}

/// A preset cannot be loaded.
pub fn preset(error: &PresetError) -> CliError {
    match error {
        PresetError::Unknown { name } if !looks_like_file(name) => {
            CliError::from_error(ErrorKind::Usage, error)
                .hint_nearest(name, wharf_sim::Preset::BUILTIN.iter().copied())
                .hint("`wharf presets` lists the built-in ones")
        }
        _ => CliError::from_error(ErrorKind::Input, error),
    }
}

/// A measurement window cannot be used.
pub fn measure(error: &MeasureError) -> CliError {
    let kind = match error {
        MeasureError::Form { .. } | MeasureError::Value { .. } | MeasureError::Backwards { .. } => {
            ErrorKind::Usage
        }
        _ => ErrorKind::Input,
    };
    CliError::from_error(kind, error)
        .hint("for example `--measure jobs=1000..1999` or `--measure time=12h..36h`; `wharf trace stats` shows the trace")
}

impl From<JobError> for CliError {
    fn from(error: JobError) -> Self {
        let kind = if error.is_usage() { ErrorKind::Usage } else { ErrorKind::Input };
        let failed = Self::from_error(kind, &error);
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }
}

/// For those who write a policy of their own.
const OWN_POLICY_HINT: &str = "a policy program reads questions and writes answers, as docs/own-policies.md describes; \
                               examples/policies has one to begin with";

/// A run cannot be done.
pub fn run(error: &RunError) -> CliError {
    match error {
        RunError::Policy(unknown) => policy(unknown),
        RunError::NotInPreset { choices, policy, .. } => {
            let failed =
                CliError::from_error(ErrorKind::Usage, error).hint_nearest(policy, choices.iter().copied());
            failed.hint(format!("the preset has {}", choices.join(", ")))
        }
        RunError::NoRounds { .. } => CliError::from_error(ErrorKind::Usage, error)
            .hint("omit `--rounds`, or use a round-based policy such as `max-min-fairness-perf`"),
        RunError::UnknownOwner { policy, policies, .. } => {
            CliError::from_error(ErrorKind::Usage, error).hint_nearest(policy, policies.split(", "))
        }
        RunError::UnknownSetting { key, known, .. } => {
            let failed = CliError::from_error(ErrorKind::Usage, error);
            let failed = failed.hint_nearest(key, known.iter().map(String::as_str));
            if known.is_empty() { failed } else { failed.hint(format!("it has {}", known.join(", "))) }
        }
        RunError::ImpossibleGang { .. } | RunError::UnknownPool { .. } | RunError::Unmet { .. } => {
            CliError::from_error(ErrorKind::Input, error)
                .hint("`wharf trace lint FILE --cluster CLUSTER` lists every job that does not fit")
        }
        RunError::Portion { .. } => CliError::from_error(ErrorKind::Input, error)
            .hint("use `--preset fgd` or Wharf's own rules, or read the file as a log of jobs on whole devices: `--format openb`"),
        RunError::NoSpeed(_) => CliError::from_error(ErrorKind::Input, error)
            .hint("give a throughput profile with `--profile FILE`; `wharf profile show default` lists the built-in models"),
        RunError::Failures(_) => CliError::from_error(ErrorKind::Input, error),
        RunError::Published(published) => {
            let kind = if published.is_usage() { ErrorKind::Usage } else { ErrorKind::Input };
            with_hint(CliError::from_error(kind, error), published.hint().map(str::to_owned))
        }
        RunError::Stalled { .. } => CliError::from_error(ErrorKind::Usage, error)
            .hint("increase the mean time between failures, or decrease `checkpoint_interval_s`"),
        RunError::Program(_) => CliError::from_error(ErrorKind::Input, error).hint(OWN_POLICY_HINT),
        RunError::Answer { .. } => CliError::from_error(ErrorKind::Input, error)
            .hint("docs/own-policies.md describes valid answers"),
        RunError::Unfinished { .. } => CliError::from_error(ErrorKind::Input, error)
            .hint("the policy must eventually start every waiting job; see `wharf sim --explain JOB`"),
        RunError::Audit { .. } => CliError::from_error(ErrorKind::Internal, error),
        _ => CliError::from_error(ErrorKind::Usage, error),
    }
}

/// A profile cannot be used.
pub fn profile(error: &ProfileError) -> CliError {
    let failed = CliError::from_error(ErrorKind::Input, error);
    with_hint(failed, error.hint().map(str::to_owned))
}

/// A policy does not exist. A name of a published system is translated; otherwise the nearest name is suggested.
pub fn policy(error: &wharf_policy::UnknownPolicy) -> CliError {
    let unknown = CliError::from_error(ErrorKind::Usage, error);
    let published: Vec<_> = wharf_reproduce::published(&error.name).collect();
    if published.is_empty() {
        let names = wharf_reproduce::policies().map(|policy| policy.name);
        let unknown = unknown.hint_nearest(&error.name, names);
        return match error.name.parse::<System>() {
            Ok(system) => unknown.hint(list_of(system)),
            Err(()) => unknown.hint("`wharf policies` lists them all"),
        };
    }
    let translated = published.iter().fold(unknown, |unknown, policy| {
        unknown.hint(format!("`{}` of {} is `{}` here", policy.name, policy.system, policy.options()))
    });
    // `gavel` is a policy of Crius and a system.
    let named = error.name.parse::<System>().ok().filter(|named| published[0].system != *named);
    std::iter::once(published[0].system).chain(named).map(list_of).fold(translated, CliError::hint)
}

fn list_of(system: System) -> String {
    format!("`wharf policies --from {}` lists the policies of {system}", system.name())
}

/// A scenario cannot be run.
pub fn scenario(error: &ScenarioError) -> CliError {
    let failed = CliError::from_error(ErrorKind::Input, error);
    match error {
        ScenarioError::UnknownKey { key, known, .. } => {
            let failed = failed.hint_nearest(key, known.iter().map(String::as_str));
            failed.hint(format!("known keys are {}", known.join(", ")))
        }
        ScenarioError::NotFound { tried, .. } if !tried.is_empty() => {
            let tried: Vec<String> = tried.iter().map(|path| format!("`{}`", path.display())).collect();
            failed.hint(format!("searched {}; set another directory with `--data DIR`", tried.join(" and ")))
        }
        ScenarioError::Trace { source, .. } => with_hint(failed, source.hint()),
        ScenarioError::Cluster { source, .. } => with_hint(failed, source.hint()),
        ScenarioError::Preset { source, .. } => failed.with_hints_of(preset(source)),
        ScenarioError::Run { source, .. } => failed.with_hints_of(run(source)),
        _ => failed,
    }
}

/// A stored run cannot be read.
pub fn stored(error: &FileError) -> CliError {
    with_hint(CliError::from_error(ErrorKind::Input, error), error.hint().map(Into::into))
}

impl From<StagingError> for CliError {
    fn from(error: StagingError) -> Self {
        let failed = Self::from_error(ErrorKind::Output, &error);
        match error {
            StagingError::Foreign { .. } => failed.hint("set another directory with `--out`"),
            _ => failed,
        }
    }
}

impl From<StudyError> for CliError {
    fn from(error: StudyError) -> Self {
        let kind = match &error {
            StudyError::Run(error) => return run(error),
            StudyError::Stored(error) => return stored(error),
            StudyError::NamelessPolicy | StudyError::RepeatedPolicy(_) => ErrorKind::Usage,
            StudyError::Write { .. } | StudyError::Output(_) => ErrorKind::Output,
            StudyError::Json(_) | StudyError::Executable(_) => ErrorKind::Internal,
            _ => ErrorKind::Input,
        };
        let failed = Self::from_error(kind, &error);
        match error {
            StudyError::Staging(error) => error.into(),
            StudyError::UnknownJob { nearest: Some(name), .. } => {
                failed.hint(format!("did you mean `{name}`?"))
            }
            StudyError::NoFolder { .. } => {
                failed.hint("give the directory of the run, which contains `events.jsonl`")
            }
            StudyError::NoEvents { .. } => failed.hint(
                "`wharf sim --out DIR` stores events; runs of `wharf sweep` have none and are simulated again",
            ),
            _ => failed,
        }
    }
}

/// Whether a name that is nothing else was meant to be a file's.
fn looks_like_file(name: &str) -> bool {
    name.contains(['.', '/'])
}

fn with_hint(error: CliError, hint: Option<String>) -> CliError {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
