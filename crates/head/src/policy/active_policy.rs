//! The policy in force: its name and settings, and what it needs to work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_core::{Engine, Regime};
use wharf_policy::governor::Limits;

use crate::dispatcher::Dispatcher;
use crate::dispatcher::head_metrics::Meter;
use crate::journal::record::Record;
use crate::policy::decisions::{Decided, Decisions};
use crate::policy::limits::{AppliedLimits, govern};

/// A policy and its settings, as users name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChoice {
    /// Its name.
    pub name: String,
    /// Its knobs and numbers; those that are not named have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A policy that cannot be made from a choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UnusablePolicy {
    /// Why, in one line with hints.
    pub reason: String,
}

/// Makes what a choice names.
pub type MakeRegime = Arc<dyn Fn(&PolicyChoice) -> Result<Regime, UnusablePolicy> + Send + Sync>;

/// The registered name of a policy that never resizes jobs; none for others.
pub type NeverResizes = fn(&str) -> Option<&'static str>;

/// How policies are made, the limits in force around them, and the latest decisions.
pub(crate) struct ActivePolicy {
    pub(crate) make: MakeRegime,
    never_resizes: NeverResizes,
    pub(super) limits: Limits,
    decisions: Decisions,
}

impl ActivePolicy {
    /// `limits` are those that the replayed journal has.
    pub(crate) fn new(make: MakeRegime, never_resizes: NeverResizes, limits: Limits) -> Self {
        Self { make, never_resizes, limits, decisions: Decisions::default() }
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes over the limits of a replayed journal.
    pub(crate) fn load(&mut self, applied: Option<&AppliedLimits>) {
        self.limits = AppliedLimits::parse(applied).unwrap_or_default();
    }

    /// A policy within the limits in force.
    pub(crate) fn govern(
        &self,
        regime: Regime,
        applied: Option<&AppliedLimits>,
        epoch_unix_s: f64,
    ) -> Regime {
        govern(regime, &self.limits, applied, epoch_unix_s)
    }

    /// The registered name of a policy that never resizes jobs; none for others.
    pub(crate) fn never_resizes(&self, choice: &PolicyChoice) -> Option<&'static str> {
        (self.never_resizes)(&choice.name)
    }

    /// The latest decisions.
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// The policy was called: counts it, and stores what it changed.
    pub(crate) fn note_decision(
        &mut self,
        decided: Decided,
        name: &str,
        took: Duration,
        engine: &mut Engine,
        meter: &Meter,
    ) {
        let Decided { waiting, free, started_count, stopped_count, .. } = decided;
        tracing::debug!(policy = name, waiting, free, started_count, stopped_count, ?took, "policy decided");
        meter.note_decision(name, took);
        let fallbacks = engine.rounds().map_or(0, |notes| notes.fallbacks);
        let refusals = engine.violations().len();
        let (fallbacks, refusals) = self.decisions.count_since_last(fallbacks, refusals);
        meter.note_degraded(name, fallbacks, refusals);
        self.decisions.add(Decided { policy: name.to_owned(), took_s: took.as_secs_f64(), ..decided });
    }
}

impl Dispatcher {
    /// Replaces the policy. Running jobs continue.
    pub(crate) fn set_policy(&mut self, choice: PolicyChoice, by: &str) -> Result<(), UnusablePolicy> {
        let regime = self.governed((self.policy.make)(&choice)?);
        let now = self.now();
        self.engine.set_regime(now, regime);
        self.note_policy(choice, by);
        Ok(())
    }

    /// A policy within the limits in force.
    pub(crate) fn governed(&self, regime: Regime) -> Regime {
        self.policy.govern(regime, self.log.state.limits.as_ref(), self.clock.epoch_unix_s())
    }

    /// Reports a rejected decision of the policy to the operator. It was not carried out, and running jobs continue.
    pub(crate) fn report_violations(&mut self) {
        for violation in self.engine.take_violations() {
            let policy = self.log.state.policy_name();
            self.alerts.warn(&format!("policy `{policy}` was refused: {violation}"));
        }
    }

    /// Journals the policy that decides from now on.
    pub(crate) fn note_policy(&mut self, choice: PolicyChoice, by: &str) {
        tracing::info!(policy = choice.name, by, "policy set");
        self.note(Record::PolicySet { choice, by: by.to_owned() });
    }
}
