//! What a worker and the trainer in a task have agreed on: how long it may run, and the word that it is known by.
//!
//! Any process of the machine that reaches the progress socket can send to it, and kernels tell a sender's user, not its task. A
//! random word in the task's environment tells the task: only processes of the same user (and root) can read it there, it
//! goes with the trainer into containers and user namespaces, and it needs no list of who runs as whom.

mod pace;
mod step;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wharf_proto::LaunchTask;

pub use pace::pace_main;
pub use step::{StepAnswer, StepReport, tell_step};

/// Unguessable bytes.
const TOKEN_BYTES: usize = 16;

/// What is kept of it for the life of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trainer {
    pub(crate) token: String,
    pub(crate) lease: Lease,
    #[serde(default)]
    pub(crate) pace: Option<Pace>,
}

/// How long an iteration of a paced task takes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace(pub(crate) f64);

impl Pace {
    /// As the head says it; none where that is no length.
    pub(crate) fn new(iteration_s: f64) -> Option<Self> {
        (iteration_s.is_finite() && iteration_s > 0.0).then_some(Self(iteration_s))
    }
}

/// The right to run until either is reached; none: no such end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) until_iteration: Option<f64>,
    /// Seconds since the Unix epoch.
    pub(crate) until_s: Option<f64>,
}

/// What a trainer is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Word {
    /// By which it knows that its supervisor speaks, as any process may send to its socket.
    pub(crate) token: String,
    pub(crate) lease: Lease,
    /// The task was requested to stop, whatever its lease says.
    pub(crate) stop: bool,
    /// Only for tasks that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pace: Option<Pace>,
}

impl Trainer {
    /// For a task that is to be launched.
    pub(crate) fn of(launch: &LaunchTask) -> io::Result<Self> {
        let lease = launch.lease.map(Lease::from).unwrap_or_default();
        Ok(Self { token: random_word()?, lease, pace: None })
    }

    /// What the trainer finds in its environment.
    pub(crate) fn variables(&self, stop_signal: i32) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([("WHARF_PROGRESS_TOKEN".to_owned(), self.token.clone())]);
        if stop_signal != 0 {
            variables.insert("WHARF_STOP_SIGNAL".to_owned(), stop_signal.to_string());
        }
        let Lease { until_iteration, until_s } = self.lease;
        for (name, value) in
            [("WHARF_LEASE_UNTIL_ITERATION", until_iteration), ("WHARF_LEASE_UNTIL_S", until_s)]
        {
            if let Some(value) = value {
                variables.insert(name.to_owned(), value.to_string());
            }
        }
        variables
    }
}

impl Lease {
    /// Whether it has ended for a trainer that has done so many iterations.
    pub(crate) fn is_over(&self, iterations: f64, now: SystemTime) -> bool {
        self.until_iteration.is_some_and(|until| iterations >= until)
            || self.time_left(now) == Some(Duration::ZERO)
    }

    /// How long after `now` its time is over; none if it has no such end.
    pub(crate) fn time_left(&self, now: SystemTime) -> Option<Duration> {
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let left_s = (self.until_s? - now_s).max(0.0);
        Some(Duration::try_from_secs_f64(left_s).unwrap_or(Duration::MAX))
    }
}

impl From<wharf_proto::Lease> for Lease {
    fn from(lease: wharf_proto::Lease) -> Self {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Self { until_iteration: finite(lease.until_iteration), until_s: finite(lease.until_s) }
    }
}

/// An unguessable word.
pub(crate) fn random_word() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_only_what_there_is() {
        let lease = Lease { until_iteration: Some(120.0), until_s: None };
        let variables = Trainer { token: "word".into(), lease, pace: None }.variables(0);
        let expected = [("WHARF_LEASE_UNTIL_ITERATION", "120"), ("WHARF_PROGRESS_TOKEN", "word")];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn of_makes_a_new_word_each_time() {
        let launch = LaunchTask::default();
        let (one, other) = (Trainer::of(&launch).unwrap(), Trainer::of(&launch).unwrap());
        assert_eq!(one.token.len(), 2 * TOKEN_BYTES);
        assert_ne!(one.token, other.token);
    }

    #[test]
    fn time_left_is_never_negative() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let lease = |until_s| Lease { until_iteration: None, until_s };
        assert_eq!(lease(Some(130.0)).time_left(now), Some(Duration::from_secs(30)));
        assert_eq!(lease(Some(7.0)).time_left(now), Some(Duration::ZERO));
        assert_eq!(lease(Some(1e300)).time_left(now), Some(Duration::MAX));
        assert_eq!(lease(None).time_left(now), None);
    }
}
