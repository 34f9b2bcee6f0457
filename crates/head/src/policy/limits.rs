//! Limits of a running head: applied, kept through restarts, shown, and filled into jobs that come in.

use serde::{Deserialize, Serialize};
use wharf_core::{Gang, Phase, Regime, Time};
use wharf_policy::governor::{Governed, Limits, LimitsError, Origin, Usage, usage};
use wharf_proto::{JobSpec as WireSpec, LimitUse, LimitsReply};

use crate::dispatcher::Dispatcher;
use crate::dispatcher::incident::Watched;
use crate::dispatcher::request_error::RequestError;
use crate::jobs::names::Called;
use crate::jobs::submit::SubmitError;
use crate::jobs::wire;
use crate::journal::record::Record;

/// Waiting jobs that a change of limits is compared with.
const BLOCKED_JOBS_MAX: usize = 10_000;

/// A document of limits, who applied it and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AppliedLimits {
    /// The document.
    pub(crate) text: String,
    pub(crate) by: String,
    /// In the engine's time.
    pub(crate) at_s: f64,
}

impl AppliedLimits {
    /// The document; an empty one if none has been applied.
    ///
    /// # Errors
    /// Where it cannot be parsed: then nothing may be decided, as no limit could be enforced.
    pub(crate) fn parse(applied: Option<&Self>) -> Result<Limits, LimitsError> {
        Limits::parse(applied.map_or("", |applied| &applied.text))
    }
}

/// Puts limits around a policy.
pub(crate) fn govern(
    regime: Regime,
    limits: &Limits,
    applied: Option<&AppliedLimits>,
    epoch_unix_s: f64,
) -> Regime {
    let applied_s = applied.map_or(0.0, |applied| applied.at_s);
    // A journal's times are finite.
    let applied = Time::try_new(applied_s).unwrap_or(Time::ZERO);
    let policy = Governed::new(regime.policy, limits.clone(), Origin { unix_s: epoch_unix_s, applied });
    let policy = Box::new(Watched(Box::new(policy)));
    Regime { policy, access: limits.access(), ..regime }
}

impl Dispatcher {
    /// Replaces the limits. Running jobs continue, also where they exceed them.
    pub(crate) fn set_limits(&mut self, text: String, by: &str) -> Result<(), RequestError> {
        let limits = Limits::parse(&text)?;
        let choice = self.log.state.policy.clone().unwrap_or_default();
        let regime = (self.policy.make)(&choice)?;
        let now = self.now();
        let applied = AppliedLimits { text, by: by.to_owned(), at_s: now.seconds() };
        self.note(Record::LimitsSet { limits: applied });
        self.policy.limits = limits;
        let regime = self.governed(regime);
        self.engine.set_regime(now, regime);
        Ok(())
    }

    /// The live jobs that limits would keep from starting, and the nodes that they would close to users, in words.
    ///
    /// # Errors
    /// What is wrong with the document.
    pub(crate) fn blocked_by(&self, text: &str) -> Result<Vec<String>, LimitsError> {
        let limits = Limits::parse(text)?;
        let (state, access) = (self.engine.state(), limits.access());
        let nodes = state.topology().nodes();
        let mut blocked = Vec::new();
        for node in nodes {
            let pool = access.pool(&node.spec.pool);
            if let Some(users) = access.users.get(pool)
                && !state.access().users.contains_key(state.access().pool(&node.spec.pool))
            {
                let users: Vec<&str> = users.iter().map(|user| &**user).collect();
                blocked.push(format!(
                    "node {}: only {} may use pool {pool}",
                    node.spec.name,
                    users.join(", ")
                ));
            }
        }
        if let Some(pool) = access.default_pool.as_deref()
            && !nodes.iter().any(|node| access.pool(&node.spec.pool) == pool)
        {
            blocked.push(format!("default_pool: no node belongs to pool {pool}"));
        }
        let has_node = |gang: &Gang| {
            nodes.iter().any(|node| {
                gang.allows(&node.spec.device_type)
                    && gang.needs.as_ref().is_none_or(|needs| needs.allow(&node.spec))
            })
        };
        let waiting = state.jobs().filter(|(_, _, life)| matches!(life.phase, Phase::Waiting | Phase::Held));
        for (job, spec, _) in waiting.take(BLOCKED_JOBS_MAX) {
            let mut after = spec.clone();
            access.confine(&mut after);
            let user = spec.user.as_deref().unwrap_or_default();
            let refused = limits.terms(user, &after.gang, None).err().map(|refused| refused.to_string());
            let homeless = (has_node(&spec.gang) && !has_node(&after.gang))
                .then(|| "no node that it could use is left".to_owned());
            blocked
                .extend(refused.or(homeless).map(|why| format!("job {}: {why}", Called(self).number(job))));
        }
        Ok(blocked)
    }

    /// Fills in the terms of a job's pool.
    ///
    /// # Errors
    /// Why the job could never run under the limits.
    pub(crate) fn fill_in(&self, spec: &mut WireSpec) -> Result<(), SubmitError> {
        let core = wire::to_core(spec, self.now(), self.clock.epoch_unix_s());
        let limit_s = (spec.time_limit_s > 0.0).then_some(spec.time_limit_s);
        let terms = self
            .policy
            .limits
            .terms(&spec.user, &core.gang, limit_s)
            .map_err(|source| SubmitError::Limits { name: spec.name.clone(), source })?;
        spec.time_limit_s = terms.time_limit_s.unwrap_or(0.0);
        spec.priority = spec.priority.saturating_add(terms.priority);
        Ok(())
    }

    /// The limits in force, and how far they are used; only what concerns one user, where one is named.
    pub(crate) fn limits(&self, user: &str) -> LimitsReply {
        let rows = usage(&self.policy.limits, self.engine.state(), self.now());
        let owners: Vec<_> =
            self.policy.limits.owners(user, None).into_iter().map(|(whose, _)| whose).collect();
        let is_shown = |row: &&Usage| user.is_empty() || owners.contains(&row.whose);
        let applied = self.log.state.limits.clone().unwrap_or_default();
        LimitsReply {
            blocked: Vec::new(),
            text: applied.text,
            by: applied.by,
            applied_s: self.clock.epoch_unix_s() + applied.at_s,
            uses: rows.iter().filter(is_shown).flat_map(uses).collect(),
        }
    }
}

/// An owner's limits, one by one.
fn uses(row: &Usage) -> Vec<LimitUse> {
    let one = |what: &str, limit: f64, used: f64| LimitUse {
        whose: row.whose.to_string(),
        what: what.to_owned(),
        limit,
        used,
        per_s: 0.0,
        waiting: row.waiting,
    };
    let jobs = row.caps.jobs.map(|most| one("jobs", most.into(), row.running.into()));
    let devices = row.caps.devices.map(|most| one("devices", most.into(), row.devices.into()));
    let of = row.caps.devices_of.iter().map(|(kind, &most)| {
        let used = row.devices_of.get(kind).copied().unwrap_or(0);
        one(&format!("{kind} devices"), most.into(), used.into())
    });
    let hours =
        row.caps.hours.map(|(most, per_s)| LimitUse { per_s, ..one("GPU-hours", most, row.gpu_hours) });
    jobs.into_iter().chain(devices).chain(of).chain(hours).collect()
}
