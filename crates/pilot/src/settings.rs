//! What pilots are to be like, and how many there may be.

use crate::error::PilotError;

/// What every pilot is.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Nodes of one allocation.
    pub nodes: u32,
    /// Devices that each of its nodes offers.
    pub devices: u32,
    /// The type that its devices are declared as; `None`: what its worker finds.
    pub device_type: Option<String>,
    /// The pool that its nodes belong to; empty: none.
    pub pool: String,
    /// Processors of each node; 0: as many as Slurm gives by itself.
    pub cpus: u32,
    /// Memory of each node; 0: as much as Slurm gives by itself.
    pub memory_mib: u64,
}

/// How many pilots there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// So many are there even if nothing waits.
    pub min: u32,
    /// So many at most.
    pub max: u32,
    /// So many of them may wait in Slurm's queue at most.
    pub max_pending: u32,
}

/// How failures are met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// How long nothing is submitted after the first failure; doubled with each further one.
    pub first_s: f64,
    /// At most so long.
    pub max_s: f64,
    /// A pilot that ends sooner than this, and was not meant to, counts as a failure.
    pub young_s: f64,
}

/// Settings of the pilot manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What a pilot is.
    pub shape: Shape,
    /// How many there may be.
    pub bounds: Bounds,
    /// What happens after failures.
    pub backoff: Backoff,
    /// What their Slurm jobs are called.
    pub name: String,
    /// What the names of their nodes begin with.
    pub prefix: String,
    /// Slurm's partition; empty: its default.
    pub partition: String,
    /// Slurm's account; empty: the default.
    pub account: String,
    /// Slurm's quality of service; empty: the default.
    pub qos: String,
    /// How long an allocation lasts, in minutes.
    pub limit_min: u32,
    /// What generic resources each node needs, as in `gpu:4`; empty: none.
    pub gres: String,
    /// Further options of sbatch.
    pub extra: Vec<String>,
    /// A pilot ends when it has had nothing to do for so long.
    pub idle_s: f64,
    /// A pilot's jobs are requested to leave so long before its time is over.
    pub leave_before_s: f64,
    /// Where workers reach the head, as HOST:PORT.
    pub head: String,
    /// A folder on each node's own disk.
    pub scratch: String,
    /// The program that nodes run: this one, as they see it.
    pub program: String,
    /// How often everything is checked.
    pub interval_s: f64,
}

impl Settings {
    /// Whether they make sense together.
    ///
    /// # Errors
    /// [`PilotError::Setting`], with the name of the one that does not.
    pub fn check(&self) -> Result<(), PilotError> {
        let wrong = |setting, reason: &str| Err(PilotError::Setting { setting, reason: reason.to_owned() });
        let Self { shape, bounds, backoff, .. } = self;
        if shape.nodes == 0 || shape.devices == 0 {
            return wrong("nodes", "a pilot needs at least one node with one device");
        }
        if bounds.max == 0 || bounds.min > bounds.max {
            return wrong("max", "at least 1, and not less than `min`");
        }
        if bounds.max_pending == 0 {
            return wrong("max-pending", "at least 1: otherwise no pilot ever starts");
        }
        if self.limit_min == 0 {
            return wrong("time-limit", "at least a minute: Slurm counts in minutes");
        }
        let limit_s = f64::from(self.limit_min) * 60.0;
        let fits = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if !fits(self.leave_before_s) || self.leave_before_s >= limit_s {
            return wrong("leave-before", "must be shorter than the time limit, or no job could run");
        }
        if !fits(self.idle_s) || !fits(backoff.first_s) || !fits(backoff.max_s) || !fits(backoff.young_s) {
            return wrong("idle-timeout", "durations are finite and not negative");
        }
        if !self.interval_s.is_finite() || self.interval_s < 0.05 {
            return wrong("interval", "at least 50 ms: Slurm serves others, too");
        }
        let is_name = |text: &str| {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            !text.is_empty()
                && text.len() <= 40
                && text.chars().all(is_plain)
                && !text.starts_with(['-', '.'])
        };
        if !is_name(&self.prefix) || !is_name(&self.name) {
            return wrong("prefix", "letters, digits and `._-`, at most 40");
        }
        Ok(())
    }

    /// The node that the `index`th machine of the pilot in a slot becomes.
    #[must_use]
    pub fn node_name(&self, slot: u32, index: u32) -> String {
        if self.shape.nodes == 1 {
            format!("{}-{slot}", self.prefix)
        } else {
            format!("{}-{slot}-{index}", self.prefix)
        }
    }
}
