//! What the mechanisms of published simulators have in common.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use wharf_core::{ClusterSpec, JobSpec};
use wharf_outcome::{Outcome, Recorder};
use wharf_perf::resolve::with_speeds;
use wharf_perf::{Profile, Unresolved};
use wharf_policy::{BadSetting, Settings, UnknownPolicy};

/// The mechanism of a published simulator, with the numbers of a preset.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Its policies, as they are listed.
    fn policies(&self) -> Policies;

    /// The settings that `--set` takes.
    fn setting_names(&self) -> &'static [&'static str];

    /// Whether jobs are requests for CPUs, memory and parts of devices ([`wharf_core::Request`]), and nothing else.
    fn packs_portions(&self) -> bool {
        false
    }

    /// Checks what [`Mechanism::simulate`] would refuse, without running.
    ///
    /// # Errors
    /// As [`Mechanism::simulate`], but for what shows only in the run.
    fn check(&self, request: &Request<'_>) -> Result<(), Refusal>;

    /// Runs a trace.
    ///
    /// # Errors
    /// A policy or a setting that the mechanism does not have, and inputs that it cannot run.
    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal>;
}

/// The policies of a mechanism.
#[derive(Clone, Debug)]
pub enum Policies {
    /// Names of policies that Wharf has, too.
    Registered(Vec<&'static str>),
    /// Policies of the published system alone.
    Own {
        /// Where they were published.
        paper: &'static str,
        /// Names and summaries.
        policies: Vec<(&'static str, &'static str)>,
    },
}

/// A run of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The workload.
    pub jobs: &'a [JobSpec],
    /// The machines.
    pub cluster: &'a ClusterSpec,
    /// Speeds of models on devices.
    pub profile: Option<&'a Profile>,
    /// The policy's name.
    pub policy: &'a str,
    /// Overrides of the mechanism's numbers.
    pub settings: &'a Settings,
    /// For everything drawn at random.
    pub seed: u64,
    /// Rounds after which the run ends.
    pub rounds: Option<u64>,
}

impl<'a> Request<'a> {
    /// The policy among `all` and a check of the settings' names; `prefix` may stand before the policy's name.
    pub(crate) fn policy<P: Copy>(
        &self,
        prefix: &str,
        all: impl IntoIterator<Item = P>,
        name: impl Fn(P) -> &'static str,
        settings: &'static [&'static str],
    ) -> Result<P, Refusal> {
        let wanted = self.policy.strip_prefix(prefix).unwrap_or(self.policy);
        let mut choices = Vec::new();
        for policy in all {
            choices.push(name(policy));
            if name(policy) != wanted {
                continue;
            }
            let unknown = self.settings.iter().map(|(key, _)| key).find(|key| !settings.contains(key));
            return match unknown {
                Some(key) => Err(Refusal::UnknownSetting { key: key.to_owned() }),
                None => Ok(policy),
            };
        }
        Err(Refusal::NotInPreset { choices })
    }

    /// The jobs, with speeds from a profile where one has none.
    pub(crate) fn resolved(&self) -> Result<Cow<'a, [JobSpec]>, Refusal> {
        if self.jobs.iter().all(|job| job.iteration_ms > 0.0) {
            return Ok(Cow::Borrowed(self.jobs));
        }
        Ok(with_speeds(self.jobs, self.cluster, self.profile)?)
    }
}

/// A run that a mechanism refuses.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No preset has a policy of that name.
    #[error(transparent)]
    UnknownPolicy(#[from] UnknownPolicy),
    /// The mechanism has no policy of that name.
    #[error("the policies are {}", choices.join(", "))]
    NotInPreset {
        /// Its policies.
        choices: Vec<&'static str>,
    },
    /// The mechanism has no setting of that name.
    #[error("there is no setting `{key}`")]
    UnknownSetting {
        /// The setting.
        key: String,
    },
    /// A setting with a value that it cannot take.
    #[error(transparent)]
    BadSetting(#[from] BadSetting),
    /// The mechanism has no rounds.
    #[error("there are no rounds")]
    NoRounds,
    /// Jobs without a speed that the profile does not have either.
    #[error(transparent)]
    NoSpeed(#[from] Unresolved),
    /// An input that the mechanism cannot run.
    #[error(transparent)]
    Input(Box<dyn InputError>),
}

/// An input that a mechanism cannot run.
pub trait InputError: Error + Send + Sync {
    /// The job that the error is about.
    fn job(&self) -> Option<&str>;

    /// What may help.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Whether an option is missing, rather than an input unfit.
    fn is_usage(&self) -> bool {
        false
    }
}

impl Error for Box<dyn InputError> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        (**self).source()
    }
}

impl<E: InputError + 'static> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Input(Box::new(error))
    }
}
