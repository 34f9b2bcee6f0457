//! What failures of pilots lead to: fewer and fewer attempts, until one succeeds.

use serde::{Deserialize, Serialize};

use crate::queue::JobState;
use crate::settings::Backoff;

/// What is known of how well pilots do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Health {
    /// Failures since the last success.
    pub(crate) failures: u32,
    /// Nothing is submitted before, in seconds since the Unix epoch.
    pub(crate) retry_at_s: f64,
    /// What happened last, in words.
    pub(crate) trouble: String,
}

impl Health {
    /// A pilot could not be had, or came to nothing.
    pub(crate) fn failed(&mut self, now_s: f64, backoff: &Backoff, what: String) {
        // What was under way when the last failure was noticed is the same failure.
        if now_s >= self.retry_at_s {
            self.failures = self.failures.saturating_add(1);
            let doubled = backoff.first_s * 2_f64.powi(self.failures.min(31) as i32 - 1);
            self.retry_at_s = now_s + doubled.min(backoff.max_s);
        }
        self.trouble = what;
    }

    /// A pilot has joined.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.failures > 0
    }
}

/// A pilot's life, as far as it is known when it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Life<'a> {
    pub(crate) id: &'a str,
    /// How it ended; `None` where Slurm has forgotten it.
    pub(crate) state: Option<&'a JobState>,
    pub(crate) reason: &'a str,
    /// How long it had its nodes; `None`: it never had any.
    pub(crate) lived_s: Option<f64>,
    /// A worker of it had joined.
    pub(crate) has_joined: bool,
    /// It was taken back from here.
    pub(crate) is_recalled: bool,
    /// Its worker left because no job came.
    pub(crate) was_useless: bool,
    /// Where its output is.
    pub(crate) output: &'a str,
}

/// What was wrong with a pilot that has ended; `None` where nothing was.
pub(crate) fn verdict(life: &Life<'_>, young_s: f64) -> Option<String> {
    let Life { id, reason, output, .. } = life;
    if life.is_recalled {
        return None;
    }
    let word = match life.state {
        Some(JobState::Over(word)) => word.as_str(),
        // If its end was not observed, it ended long ago.
        _ => return None,
    };
    let why = if reason.is_empty() || *reason == "None" { String::new() } else { format!(" ({reason})") };
    let Some(lived_s) = life.lived_s else {
        return Some(format!("pilot {id} ended before it began: {word}{why}"));
    };
    if life.was_useless {
        return Some(format!(
            "pilot {id} ended without running a job: waiting jobs may not fit; see `wharf explain JOB`"
        ));
    }
    if !life.has_joined {
        return Some(format!(
            "pilot {id} ended before its worker had joined the head: {word}{why}; its output is in `{output}`"
        ));
    }
    let is_well = word == "COMPLETED";
    (!is_well && lived_s < young_s)
        .then(|| format!("pilot {id} ended after {lived_s:.0} s: {word}{why}; its output is in `{output}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first_s: 10.0, max_s: 60.0, young_s: 30.0 };

    #[test]
    fn each_failure_doubles_the_pause_until_one_joins() {
        let mut health = Health::default();
        let mut now_s = 0.0;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            health.failed(now_s, &BACKOFF, "no".into());
            health.failed(now_s + 1.0, &BACKOFF, "a second one at the same time".into());
            pauses.push(health.retry_at_s - now_s);
            now_s = health.retry_at_s;
        }
        assert_eq!(pauses, [10.0, 20.0, 40.0, 60.0, 60.0]);
        assert!(health.is_suspect());
        health.succeeded();
        assert_eq!(health, Health::default());
    }

    #[test]
    fn ends_that_were_not_meant_are_failures() {
        let life = |word: &str, lived_s, has_joined| {
            let state = JobState::Over(word.to_owned());
            let life = Life {
                id: "7",
                state: Some(&state),
                reason: "None",
                lived_s,
                has_joined,
                is_recalled: false,
                was_useless: false,
                output: "out",
            };
            verdict(&life, 30.0).is_some()
        };
        assert!(!life("COMPLETED", Some(5.0), true));
        assert!(life("COMPLETED", Some(5.0), false), "its worker never came");
        assert!(life("FAILED", Some(5.0), true));
        assert!(!life("FAILED", Some(50.0), true));
        assert!(life("FAILED", Some(50.0), false));
        assert!(life("CANCELLED", None, false), "cancelled by a user");
        assert!(!life("CANCELLED", Some(50.0), true));
        assert!(life("NODE_FAIL", Some(3.0), true));
        let over = JobState::Over("COMPLETED".into());
        let useless = Life {
            id: "7",
            state: Some(&over),
            reason: "",
            lived_s: Some(99.0),
            has_joined: true,
            is_recalled: false,
            was_useless: true,
            output: "",
        };
        assert!(verdict(&useless, 30.0).is_some());
        assert!(verdict(&Life { is_recalled: true, ..useless }, 30.0).is_none());
    }
}
