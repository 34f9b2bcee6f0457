//! One run: a trace, a cluster, a policy and a preset in, an outcome out.

use std::borrow::Cow;
use std::path::Path;

use wharf_core::{ClusterSpec, Engine, JobSpec, Policy, Time, Violation};
use wharf_external::{Program, Trouble};
use wharf_perf::resolve::is_resolved;
use wharf_perf::{Profile, Unresolved, analytic, resolve};
use wharf_policy::arena::{VARIANTS, Variant};
use wharf_policy::governor::{Governed, Limits, Origin};
use wharf_policy::{BadSetting, Settings};
use wharf_trace::Trace;

use crate::compat::{blox, crius, gavel, muri, sia};
use crate::driver::Driver;
use crate::failures::{FailureError, Failures};
use crate::fit::{in_pools, misfits};
use crate::outcome::{Outcome, Recorder};
use crate::preset::{Mechanism, Preset, Rules};
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
    /// What Muri's mechanism cannot run.
    #[error(transparent)]
    Muri(#[from] muri::MuriError),
    /// What Blox's mechanism cannot run.
    #[error(transparent)]
    Blox(#[from] blox::BloxError),
    /// What Gavel's mechanism cannot run.
    #[error(transparent)]
    Gavel(Box<gavel::GavelError>),
    /// What Sia's mechanism cannot run.
    #[error(transparent)]
    Sia(#[from] sia::SiaError),
    /// What Crius's mechanism cannot run.
    #[error(transparent)]
    Crius(#[from] crius::CriusError),
    /// Failures that cannot be read.
    #[error(transparent)]
    Failures(#[from] FailureError),
    /// Jobs that do not tell how fast they are, and that no profile knows.
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
            Self::ImpossibleGang { job, .. } | Self::UnknownPool { job, .. } => Some(job),
            Self::NoSpeed(unresolved) => unresolved.jobs.first().map(|job| &*job.name),
            Self::Muri(error) => error.job(),
            Self::Blox(error) => error.job(),
            Self::Gavel(error) => error.job(),
            Self::Sia(error) => error.job(),
            Self::Crius(error) => error.job(),
            _ => None,
        }
    }
}

impl From<gavel::GavelError> for RunError {
    fn from(error: gavel::GavelError) -> Self {
        Self::Gavel(Box::new(error))
    }
}

/// Checks a spec without running it: policy, settings, and that every job fits the empty cluster.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(spec: &RunSpec<'_>) -> Result<(), RunError> {
    match &spec.preset.mechanism {
        Mechanism::Wharf(rules) => prepare(spec, rules, None).map(|_| ()),
        Mechanism::Muri(numbers) => {
            let settings = muri_settings(spec, numbers)?;
            muri::check(&resolved(spec)?, spec.cluster, &settings, numbers)?;
            Ok(())
        }
        Mechanism::Blox(numbers) => {
            Ok(blox::check(&resolved(spec)?, spec.cluster, &blox_settings(spec, numbers)?)?)
        }
        Mechanism::Gavel(numbers) => {
            let settings = gavel_settings(spec, numbers)?;
            gavel::check(&spec.trace.jobs, spec.cluster, spec.profile, &settings, numbers)?;
            Ok(())
        }
        Mechanism::Sia(numbers) => Ok(sia::check(&spec.trace.jobs, &sia_settings(spec)?, numbers)?),
        Mechanism::Crius(numbers) => {
            let settings = crius_settings(spec, numbers)?;
            Ok(crius::check(&spec.trace.jobs, spec.cluster, spec.profile, &settings, numbers)?)
        }
    }
}

/// Simulates.
///
/// # Errors
/// As [`check`].
pub fn run(spec: &RunSpec<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, RunError> {
    run_within(spec, None, recorder)
}

/// Simulates within limits, where there are any. A job that can never run under them stays unfinished.
///
/// # Errors
/// As [`check`], and limits that a simulation cannot apply.
pub fn run_within(
    spec: &RunSpec<'_>,
    limits: Option<&Limits>,
    recorder: &mut dyn Recorder,
) -> Result<Outcome, RunError> {
    let mut outcome = simulate(spec, limits, recorder)?;
    outcome.tally.deadlines = outcome.deadlines(&spec.trace.jobs);
    Ok(outcome)
}

/// Simulates by the preset's mechanism.
fn simulate(
    spec: &RunSpec<'_>,
    limits: Option<&Limits>,
    recorder: &mut dyn Recorder,
) -> Result<Outcome, RunError> {
    match &spec.preset.mechanism {
        Mechanism::Wharf(rules) => {
            let Prepared { engine, failures, rules, jobs } = prepare(spec, rules, limits)?;
            let filled = limits.map(|limits| fill(jobs.to_vec(), limits));
            let jobs = filled.as_deref().unwrap_or(&jobs);
            let driver =
                Driver::new(engine, jobs, failures, rules.checkpoint_interval_s, recorder).until(spec.rounds);
            let (outcome, violations) = driver.run().map_err(|stalled| RunError::Stalled {
                policy: spec.policy.to_owned(),
                failures: stalled.failures,
            })?;
            let policy = || spec.policy.to_owned();
            match violations.into_iter().next() {
                Some(violation) if Program::is_named(spec.policy) => {
                    let violation = Violation::Senseless { why: named(spec, &violation) };
                    Err(RunError::Answer { program: policy(), violation })
                }
                Some(violation) => Err(RunError::Audit { policy: policy(), violation }),
                None if Program::is_named(spec.policy) => {
                    // Within limits, after failures or so many rounds, jobs may be left by any policy.
                    let is_whole =
                        limits.is_none() && spec.rounds.is_none() && spec.settings.get("failures").is_none();
                    if is_whole { all_finished(spec, outcome) } else { Ok(outcome) }
                }
                None => Ok(outcome),
            }
        }
        _ if limits.is_some() => {
            Err(RunError::Limits { problem: "they need Wharf's own rules; use another preset" })
        }
        Mechanism::Muri(numbers) => {
            let settings = muri_settings(spec, numbers)?;
            Ok(muri::simulate(&resolved(spec)?, spec.cluster, &settings, numbers, recorder)?)
        }
        Mechanism::Gavel(numbers) => {
            let settings = gavel_settings(spec, numbers)?;
            let jobs = &spec.trace.jobs;
            Ok(gavel::simulate(jobs, spec.cluster, spec.profile, &settings, numbers, recorder)?)
        }
        Mechanism::Sia(numbers) => {
            let settings = sia_settings(spec)?;
            Ok(sia::simulate(&spec.trace.jobs, spec.cluster, &settings, numbers, recorder)?)
        }
        Mechanism::Crius(numbers) => {
            let settings = crius_settings(spec, numbers)?;
            let jobs = &spec.trace.jobs;
            Ok(crius::simulate(jobs, spec.cluster, spec.profile, &settings, numbers, recorder)?)
        }
        Mechanism::Blox(numbers) => {
            let settings = blox_settings(spec, numbers)?;
            Ok(blox::simulate(&resolved(spec)?, spec.cluster, &settings, spec.rounds, recorder)?)
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

/// The policy and its numbers under Blox's mechanism.
fn blox_settings(spec: &RunSpec<'_>, numbers: &blox::Numbers) -> Result<blox::Settings, RunError> {
    let policy = blox::Policy::find(spec.policy)
        .ok_or_else(|| not_in_preset(spec, blox::Policy::ALL.iter().map(|policy| policy.name())))?;
    if let Some((key, _)) = spec.settings.iter().find(|(key, _)| !blox::Settings::NAMES.contains(key)) {
        return Err(unknown_setting(spec, key, &blox::Settings::NAMES));
    }
    Ok(blox::Settings::new(policy, numbers, spec.settings)?)
}

/// The policy and its numbers under Crius's mechanism.
fn crius_settings(spec: &RunSpec<'_>, numbers: &crius::Numbers) -> Result<crius::Settings, RunError> {
    let policy = Variant::find(spec.policy)
        .ok_or_else(|| not_in_preset(spec, VARIANTS.iter().map(|variant| variant.name)))?;
    if let Some((key, _)) = spec.settings.iter().find(|(key, _)| !crius::Settings::NAMES.contains(key)) {
        return Err(unknown_setting(spec, key, &crius::Settings::NAMES));
    }
    Ok(crius::Settings::new(policy, numbers, spec.settings, spec.rounds)?)
}

/// The policy and its variant under Muri's mechanism.
fn muri_settings(spec: &RunSpec<'_>, numbers: &muri::Numbers) -> Result<muri::Settings, RunError> {
    let policy: muri::Policy = spec.policy.parse().map_err(|_| match wharf_policy::find(spec.policy) {
        Err(unknown) => RunError::Policy(unknown),
        Ok(_) => not_in_preset(spec, muri::Policy::ALL.iter().map(|policy| policy.name())),
    })?;
    if spec.rounds.is_some() {
        return Err(no_rounds(spec));
    }
    let mut settings = muri::Settings::new(policy, numbers);
    for (key, value) in spec.settings.iter() {
        settings.set(key, value).map_err(|error| match error {
            muri::SettingsError::BadValue { name, value, expected } => {
                RunError::BadSetting(BadSetting { key: name, value, expected: expected.to_owned() })
            }
            muri::SettingsError::UnknownSetting { name } => {
                unknown_setting(spec, &name, &muri::Settings::NAMES)
            }
            muri::SettingsError::UnknownPolicy { name } => {
                RunError::Policy(wharf_policy::UnknownPolicy { name, nearest: None })
            }
        })?;
    }
    Ok(settings)
}

/// The policy and its variant under Gavel's mechanism.
fn gavel_settings(spec: &RunSpec<'_>, numbers: &gavel::Numbers) -> Result<gavel::Settings, RunError> {
    let policy: gavel::Policy = spec
        .policy
        .parse()
        .map_err(|_| not_in_preset(spec, gavel::Policy::ALL.iter().map(|policy| policy.name)))?;
    let mut settings = gavel::Settings::new(policy, numbers);
    settings.seed = spec.seed;
    settings.rounds = spec.rounds;
    for (key, value) in spec.settings.iter() {
        settings.set(key, value).map_err(|error| match error {
            gavel::SettingsError::BadValue { name, value, expected } => {
                RunError::BadSetting(BadSetting { key: name, value, expected: expected.to_owned() })
            }
            gavel::SettingsError::UnknownSetting { name } | gavel::SettingsError::UnknownPolicy { name } => {
                unknown_setting(spec, &name, &gavel::Settings::NAMES)
            }
        })?;
    }
    Ok(settings)
}

/// The policy and the files under Sia's mechanism.
fn sia_settings(spec: &RunSpec<'_>) -> Result<sia::Settings, RunError> {
    let policy = sia::Policy::ALL.into_iter().find(|policy| policy.name() == spec.policy);
    let policy =
        policy.ok_or_else(|| not_in_preset(spec, sia::Policy::ALL.iter().map(|policy| policy.name())))?;
    let mut settings = sia::Settings { rounds: spec.rounds, ..sia::Settings::new(policy) };
    match spec.settings.iter().find(|(key, value)| !settings.set(key, value)) {
        None => Ok(settings),
        Some((key, _)) => Err(unknown_setting(spec, key, &sia::Settings::NAMES)),
    }
}

/// A run under Wharf's own rules, ready to go.
struct Prepared<'a> {
    engine: Engine,
    failures: Failures,
    rules: Rules,
    jobs: Cow<'a, [JobSpec]>,
}

fn not_in_preset(spec: &RunSpec<'_>, choices: impl Iterator<Item = &'static str>) -> RunError {
    RunError::NotInPreset {
        policy: spec.policy.to_owned(),
        preset: spec.preset.name.clone(),
        choices: choices.collect(),
    }
}

fn unknown_setting(spec: &RunSpec<'_>, key: &str, known: &[&str]) -> RunError {
    RunError::UnknownSetting {
        key: key.to_owned(),
        policy: spec.policy.to_owned(),
        preset: spec.preset.name.clone(),
        known: known.iter().map(ToString::to_string).collect(),
    }
}

fn no_rounds(spec: &RunSpec<'_>) -> RunError {
    RunError::NoRounds { policy: spec.policy.to_owned(), preset: spec.preset.name.clone() }
}

fn prepare<'a>(spec: &RunSpec<'a>, rules: &Rules, limits: Option<&Limits>) -> Result<Prepared<'a>, RunError> {
    let (mut regime, rules) = simulated_regime(rules, spec.policy, spec.settings, spec.seed, spec.profile)?;
    regime.policy = govern(regime.policy, limits)?;
    regime.access = limits.map(Limits::access).unwrap_or_default();
    if spec.rounds.is_some() && regime.policy.rounds().is_none() {
        return Err(no_rounds(spec));
    }
    let jobs = resolved(spec)?;
    if let Some(error) = misfits(spec, &jobs, rules.placement).next() {
        return Err(error);
    }
    let failures = match spec.settings.get("failures") {
        Some(path) => Failures::read(Path::new(path), spec.cluster)?,
        None => Failures::draw(spec.cluster.nodes.len(), rules.node_mtbf_h, rules.node_repair_h, spec.seed),
    };
    Ok(Prepared { engine: Engine::new(spec.cluster, regime), failures, rules, jobs })
}

/// The jobs, with what a profile must tell of them before they can run.
///
/// # Errors
/// Jobs that it does not know, or that fit nowhere.
pub fn resolved<'a>(spec: &RunSpec<'a>) -> Result<Cow<'a, [JobSpec]>, RunError> {
    let is_told = spec.trace.jobs.iter().all(|job| job.iteration_ms > 0.0);
    if is_told && !matches!(spec.preset.mechanism, Mechanism::Wharf(_)) {
        // Other mechanisms know nothing of types and pools.
        return Ok(Cow::Borrowed(&spec.trace.jobs));
    }
    let mut jobs = in_pools(&spec.trace.jobs, spec.cluster);
    let builtin = match spec.profile {
        None => analytic::profile_for(spec.cluster, &jobs),
        Some(_) => None,
    };
    let Some(profile) = spec.profile.or(builtin.as_ref()) else { return Ok(jobs) };
    if !is_resolved(profile, &jobs) {
        resolve(profile, jobs.to_mut(), spec.cluster)?;
    }
    Ok(jobs)
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

/// The jobs with what their pools fill in.
fn fill(mut jobs: Vec<JobSpec>, limits: &Limits) -> Vec<JobSpec> {
    jobs.iter_mut().for_each(|job| limits.fill(job));
    jobs
}
