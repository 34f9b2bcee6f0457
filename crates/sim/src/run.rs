//! One run: a trace, a cluster, a policy and a preset in, an outcome out.

use std::borrow::Cow;

use wharf_core::{ClusterSpec, Engine, JobSpec, Policy, Time, Unmet, Violation};
use wharf_external::{Program, Trouble};
use wharf_outcome::{Outcome, Recorder};
use wharf_perf::resolve::with_speeds;
use wharf_perf::{Profile, Unresolved};
use wharf_policy::governor::{Governed, Limits, Origin};
use wharf_policy::{BadSetting, Settings};
use wharf_reproduce::{InputError, Mechanism, Refusal, Request};
use wharf_trace::Trace;

use crate::driver::Driver;
use crate::failures::{FailureError, FailureList, Failures};
use crate::fit::misfits;
use crate::preset::{Preset, PresetMechanism, Rules};
use crate::regime::simulated_regime;

/// Everything that determines a run. Equal specs give equal bytes.
#[derive(Clone, Copy, Debug)]
pub struct RunSpec<'a> {
    /// The workload.
    pub trace: &'a Trace,
    /// The machines.
    pub cluster: &'a ClusterSpec,
    /// The policy's name.
    pub policy: &'a str,
    /// The rules.
    pub preset: &'a Preset,
    /// Overrides of the preset's numbers and the policy's knobs.
    pub settings: &'a Settings,
    /// For everything drawn at random.
    pub seed: u64,
    /// How fast the jobs' models run on which devices; where there is none, what jobs tell of themselves, and the built-in
    /// profile where the cluster mixes types.
    pub profile: Option<&'a Profile>,
    /// Rounds after which the run ends, finished or not, where the mechanism has rounds.
    pub rounds: Option<u64>,
    /// The content of the file that the setting `failures` names.
    pub failures: Option<&'a FailureList>,
}

/// A run that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such policy.
    #[error(transparent)]
    Policy(#[from] wharf_policy::UnknownPolicy),
    /// The policy exists, but not under this preset.
    #[error("policy `{policy}` cannot run under preset `{preset}`")]
    NotInPreset {
        /// The policy.
        policy: String,
        /// The preset.
        preset: String,
        /// What can.
        choices: Vec<&'static str>,
    },
    /// A setting that neither the policy nor the preset has.
    #[error("`{key}` is not a setting of policy `{policy}` under preset `{preset}`")]
    UnknownSetting {
        /// The setting.
        key: String,
        /// The policy.
        policy: String,
        /// The preset.
        preset: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A setting for a policy that is not simulated.
    #[error("`{key}` is for policy `{policy}`, which is not simulated; those that are: {policies}")]
    UnknownOwner {
        /// The setting with the policy.
        key: String,
        /// The policy.
        policy: String,
        /// Those that are simulated.
        policies: String,
    },
    /// A setting with a value that it cannot take.
    #[error(transparent)]
    BadSetting(#[from] BadSetting),
    /// An end after so many rounds, of a policy that has none.
    #[error("policy `{policy}` has no rounds under preset `{preset}`, so that none can be the last")]
    NoRounds {
        /// The policy.
        policy: String,
        /// The preset.
        preset: String,
    },
    /// Limits that a simulation cannot apply.
    #[error("the limits cannot be simulated: {problem}")]
    Limits {
        /// What is wrong, and what to do about it.
        problem: &'static str,
    },
    /// An input that the mechanism of a published simulator cannot run.
    #[error(transparent)]
    Published(Box<dyn InputError>),
    /// Failures that cannot be read.
    #[error(transparent)]
    Failures(#[from] FailureError),
    /// A failure file that is named, but whose content is not part of the specification.
    #[error("the failure file `{path}` has not been read")]
    FailuresUnread {
        /// The file.
        path: String,
    },
    /// Jobs that do not state how fast they are, and that no profile knows.
    #[error(transparent)]
    NoSpeed(#[from] Unresolved),
    /// A policy's program that cannot be used.
    #[error(transparent)]
    Program(#[from] Trouble),
    /// A policy's program that failed, or broke a rule.
    #[error("policy program `{program}` failed, or its answer cannot be carried out")]
    Answer {
        /// The program.
        program: String,
        /// What is wrong.
        #[source]
        violation: Violation,
    },
    /// A policy's program that left jobs undone.
    #[error("policy program `{program}` left {count} of {all} jobs unfinished: {jobs}")]
    Unfinished {
        /// The program.
        program: String,
        /// How many.
        count: usize,
        /// Jobs in the trace.
        all: usize,
        /// The first of them, by name.
        jobs: String,
    },
    /// The policy broke a rule: a bug.
    #[error("policy `{policy}` broke a rule of scheduling; this is a bug in Wharf")]
    Audit {
        /// The policy.
        policy: String,
        /// The rule.
        #[source]
        violation: Violation,
    },
    /// Nodes fail faster than jobs get on.
    #[error("policy `{policy}` gets nowhere: nodes failed {failures} times, and no job came to a checkpoint")]
    Stalled {
        /// The policy.
        policy: String,
        /// How many times.
        failures: u64,
    },
    /// A job that the cluster can never hold.
    #[error(
        "job `{job}` (row {row} of the trace) needs {devices} devices, but the cluster can give it at most {most}"
    )]
    ImpossibleGang {
        /// The job's name.
        job: String,
        /// Its position in the trace, from 1.
        row: usize,
        /// What it needs.
        devices: u32,
        /// What there is.
        most: u32,
    },
    /// A job whose request no node, and no licences of the cluster, can satisfy.
    #[error("job `{job}` (row {row} of the trace) can never run, because of `{}`: {unmet}", unmet.field())]
    Unmet {
        /// The job's name.
        job: String,
        /// Its position in the trace, from 1.
        row: usize,
        /// Why.
        unmet: Unmet,
    },
    /// A job that asks for CPUs, memory or parts of devices, where only whole devices are simulated.
    #[error(
        "job `{job}` (row {row} of the trace) asks for more than whole devices, which preset `{preset}` does not simulate"
    )]
    Portion {
        /// The job's name.
        job: String,
        /// Its position in the trace, from 1.
        row: usize,
        /// The preset.
        preset: String,
    },
    /// A job of a pool that the cluster does not have.
    #[error("job `{job}` (row {row} of the trace) belongs to pool `{pool}`; the cluster has {pools}")]
    UnknownPool {
        /// The job's name.
        job: String,
        /// Its position in the trace, from 1.
        row: usize,
        /// The pool.
        pool: String,
        /// Those of the cluster.
        pools: String,
    },
}

impl RunError {
    /// The job that cannot be run, where the error is about one.
    pub fn job(&self) -> Option<&str> {
        match self {
            Self::ImpossibleGang { job, .. }
            | Self::UnknownPool { job, .. }
            | Self::Unmet { job, .. }
            | Self::Portion { job, .. } => Some(job),
            Self::NoSpeed(unresolved) => unresolved.jobs.first().map(|job| &*job.name),
            Self::Published(error) => error.job(),
            _ => None,
        }
    }
}

/// Checks a spec without running it: policy, settings, and that every job fits the empty cluster.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(spec: &RunSpec<'_>) -> Result<(), RunError> {
    prepare(spec, None).map(drop)
}

/// Simulates.
///
/// # Errors
/// As [`prepare`] and [`Prepared::run`].
pub fn run(spec: &RunSpec<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, RunError> {
    prepare(spec, None)?.run(recorder)
}

/// Checks a spec and makes everything that its run needs; starts the policy if it is a program. Jobs that can never run
/// within the limits stay unfinished.
///
/// # Errors
/// The first thing that is wrong with the spec, and limits that a simulation cannot apply.
pub fn prepare<'a>(spec: &RunSpec<'a>, limits: Option<&Limits>) -> Result<Prepared<'a>, RunError> {
    spec.check_portions()?;
    let work = match &spec.preset.mechanism {
        PresetMechanism::Wharf(rules) => Work::Native(Box::new(native(spec, rules, limits)?)),
        _ if limits.is_some() => {
            return Err(RunError::Limits { problem: "they need Wharf's own rules; use another preset" });
        }
        PresetMechanism::Published(mechanism) => {
            mechanism.check(&spec.request()).map_err(|refusal| spec.refused(&**mechanism, refusal))?;
            Work::Published(&**mechanism)
        }
    };
    Ok(Prepared { spec: *spec, is_limited: limits.is_some(), work })
}

/// A run that has been checked.
pub struct Prepared<'a> {
    spec: RunSpec<'a>,
    is_limited: bool,
    work: Work<'a>,
}

/// What a run needs, by its mechanism.
enum Work<'a> {
    Native(Box<Native<'a>>),
    Published(&'a dyn Mechanism),
}

/// A run under Wharf's own rules, ready to go.
struct Native<'a> {
    engine: Engine,
    failures: Failures,
    rules: Rules,
    jobs: Cow<'a, [JobSpec]>,
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Prepared<'_> {
    /// Simulates.
    ///
    /// # Errors
    /// What goes wrong during the run: a broken rule, a policy's program that fails, jobs that make no progress.
    pub fn run(self, recorder: &mut dyn Recorder) -> Result<Outcome, RunError> {
        let Self { spec, is_limited, work } = self;
        let mut outcome = match work {
            Work::Native(native) => native.run(&spec, is_limited, recorder)?,
            Work::Published(mechanism) => mechanism
                .simulate(&spec.request(), recorder)
                .map_err(|refusal| spec.refused(mechanism, refusal))?,
        };
        outcome.tally.deadlines = outcome.deadlines(&spec.trace.jobs);
        Ok(outcome)
    }
}

impl Native<'_> {
    fn run(
        self,
        spec: &RunSpec<'_>,
        is_limited: bool,
        recorder: &mut dyn Recorder,
    ) -> Result<Outcome, RunError> {
        let Self { engine, failures, rules, jobs } = self;
        let driver =
            Driver::new(engine, &jobs, failures, rules.checkpoint_interval_s, recorder).until(spec.rounds);
        let policy = || spec.policy.to_owned();
        let (outcome, violations) = driver
            .run()
            .map_err(|stalled| RunError::Stalled { policy: policy(), failures: stalled.failures })?;
        let is_program = Program::is_named(spec.policy);
        match violations.into_iter().next() {
            Some(violation) if is_program => {
                let violation = Violation::Senseless { why: named(spec, &violation) };
                Err(RunError::Answer { program: policy(), violation })
            }
            Some(violation) => Err(RunError::Audit { policy: policy(), violation }),
            // Within limits, after failures or so many rounds, jobs may be left by any policy.
            None if is_program && !is_limited && spec.rounds.is_none() && spec.failures.is_none() => {
                all_finished(spec, outcome)
            }
            None => Ok(outcome),
        }
    }
}

/// A violation with the names of its job and its node.
fn named(spec: &RunSpec<'_>, violation: &Violation) -> String {
    let job = violation.job().and_then(|job| {
        let spec = spec.trace.jobs.get(job.index())?;
        Some(format!("job {} (`{}`)", job.0, spec.name))
    });
    let node = violation.node().and_then(|node| {
        let spec = spec.cluster.nodes.get(node.index())?;
        Some(format!("node {} (`{}`)", node.0, spec.name))
    });
    violation.named(&job.unwrap_or_default(), &node.unwrap_or_default())
}

/// Checks that a policy's program left no job undone.
fn all_finished(spec: &RunSpec<'_>, outcome: Outcome) -> Result<Outcome, RunError> {
    const NAMED_MAX: usize = 5;
    let left: Vec<&str> = outcome
        .jobs
        .iter()
        .filter(|job| job.end.is_none())
        .filter_map(|job| Some(&*spec.trace.jobs.get(job.job.index())?.name))
        .collect();
    if left.is_empty() {
        return Ok(outcome);
    }
    let mut jobs = left[..left.len().min(NAMED_MAX)].join(", ");
    if left.len() > NAMED_MAX {
        jobs += &format!(" and {} more", left.len() - NAMED_MAX);
    }
    let program = spec.policy.to_owned();
    Err(RunError::Unfinished { program, count: left.len(), all: outcome.jobs.len(), jobs })
}

impl<'a> RunSpec<'a> {
    /// The run as the mechanisms of published simulators take it.
    fn request(&self) -> Request<'a> {
        let Self { trace, cluster, policy, settings, seed, profile, rounds, .. } = *self;
        Request { jobs: &trace.jobs, cluster, profile, policy, settings, seed, rounds }
    }

    /// Refuses requests for parts of devices where the mechanism gives whole ones only.
    pub(crate) fn check_portions(&self) -> Result<(), RunError> {
        if self.preset.packs_portions() || self.preset.rules().is_some() {
            return Ok(());
        }
        let has_request = |job: &JobSpec| job.gang.needs.as_deref().is_some_and(|needs| !needs.is_plain());
        let portion = self.trace.jobs.iter().position(has_request);
        let Some(index) = portion else { return Ok(()) };
        let job = self.trace.jobs[index].name.to_string();
        Err(RunError::Portion { job, row: index + 1, preset: self.preset.name.clone() })
    }

    /// A mechanism's refusal, in terms of the preset.
    fn refused(&self, mechanism: &dyn Mechanism, refusal: Refusal) -> RunError {
        let (policy, preset) = (self.policy.to_owned(), self.preset.name.clone());
        match refusal {
            Refusal::UnknownPolicy(unknown) => RunError::Policy(unknown),
            Refusal::NotInPreset { choices } => RunError::NotInPreset { policy, preset, choices },
            Refusal::UnknownSetting { key } => {
                let known = mechanism.setting_names().iter().map(ToString::to_string).collect();
                RunError::UnknownSetting { key, policy, preset, known }
            }
            Refusal::BadSetting(bad) => RunError::BadSetting(bad),
            Refusal::NoRounds => RunError::NoRounds { policy, preset },
            Refusal::NoSpeed(unresolved) => RunError::NoSpeed(unresolved),
            Refusal::Input(error) => RunError::Published(error),
        }
    }
}

fn native<'a>(spec: &RunSpec<'a>, rules: &Rules, limits: Option<&Limits>) -> Result<Native<'a>, RunError> {
    let (mut regime, rules) = simulated_regime(rules, spec.policy, spec.settings, spec.seed, spec.profile)?;
    regime.policy = govern(regime.policy, limits)?;
    regime.access = limits.map(Limits::access).unwrap_or_default();
    if spec.rounds.is_some() && regime.policy.rounds().is_none() {
        let (policy, preset) = (spec.policy.to_owned(), spec.preset.name.clone());
        return Err(RunError::NoRounds { policy, preset });
    }
    let mut jobs = resolved(spec)?;
    if let Some(error) = misfits(spec, &jobs, rules.placement).next() {
        return Err(error);
    }
    if let Some(limits) = limits {
        jobs.to_mut().iter_mut().for_each(|job| limits.fill(job));
    }
    let failures = match (spec.failures, spec.settings.get(FailureList::SETTING)) {
        (Some(list), _) => Failures::listed(list),
        (None, Some(path)) => return Err(RunError::FailuresUnread { path: path.to_owned() }),
        (None, None) => {
            Failures::draw(spec.cluster.nodes.len(), rules.node_mtbf_h, rules.node_repair_h, spec.seed)
        }
    };
    Ok(Native { engine: Engine::new(spec.cluster, regime), failures, rules, jobs })
}

/// The jobs, with what a profile must tell of them before they can run.
///
/// # Errors
/// Jobs that it does not know, or that fit nowhere.
pub fn resolved<'a>(spec: &RunSpec<'a>) -> Result<Cow<'a, [JobSpec]>, RunError> {
    Ok(with_speeds(&spec.trace.jobs, spec.cluster, spec.profile)?)
}

/// Puts limits around a policy, where there are any.
fn govern(policy: Box<dyn Policy>, limits: Option<&Limits>) -> Result<Box<dyn Policy>, RunError> {
    let Some(limits) = limits else { return Ok(policy) };
    if limits.has_dates() {
        let problem =
            "a simulation knows no dates; write `start` and `end` of reservations as `+` and a duration";
        return Err(RunError::Limits { problem });
    }
    let origin = Origin { unix_s: 0.0, applied: Time::ZERO };
    Ok(Box::new(Governed::new(policy, limits.clone(), origin)))
}
