//! What comes next: a simulation that begins with the state that a cluster is in.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Engine, JobId, JobSpec, Regime, State, Time};
use wharf_outcome::{Outcome, Recorder};

use crate::driver::Driver;
use crate::failures::Failures;
use crate::run::RunError;

/// A cluster in the middle of its work, and what is known of its future.
#[derive(Clone, Debug)]
pub struct Present {
    /// The moment.
    pub now: Time,
    /// Everything as it is.
    pub state: State,
    /// Iterations that jobs really take, where that is not what they declared. Policies go by what was declared.
    pub actual: BTreeMap<JobId, f64>,
    /// Held jobs, and whose ends they wait for; a held job that is not here stays held.
    pub waits: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs that are still to come, by time. Their ids follow those in `state`.
    pub arrivals: Vec<JobSpec>,
}

/// Simulates from a cluster's present on, without failures.
///
/// # Errors
/// [`RunError::Audit`] where the policy breaks a rule, which is a bug.
pub fn go_on(
    present: Present,
    policy: &str,
    regime: Regime,
    recorder: &mut dyn Recorder,
) -> Result<Outcome, RunError> {
    let Present { now, state, actual, waits, arrivals } = present;
    let failures = Failures::draw(state.topology().nodes().len(), 0.0, 1.0, 0);
    let engine = Engine::resume(now, state, regime);
    let mut driver = Driver::new(engine, &arrivals, failures, f64::INFINITY, recorder).knowing(actual, waits);
    driver.take_up(now);
    let stalled = |stalled: crate::driver::Stalled| RunError::Stalled {
        policy: policy.to_owned(),
        failures: stalled.failures,
    };
    let (outcome, violations) = driver.run().map_err(stalled)?;
    match violations.into_iter().next() {
        Some(violation) => Err(RunError::Audit { policy: policy.to_owned(), violation }),
        None => Ok(outcome),
    }
}
