//! What owners have, against what they may have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{Gang, JobId, Quota, Time};

use super::hours::Hours;
use super::limits::{Caps, Dimension};

/// The share of GPU-hours below which jobs that were stopped at the limit start again: not for a moment only.
const RESUME: f64 = 0.5;

/// A job's place in the order of admission: the more urgent first, then the earlier.
pub(crate) type Turn = (std::cmp::Reverse<i32>, JobId);

/// The account of one user, group or pool.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) whose: Arc<str>,
    pub(crate) caps: Caps,
    jobs: u32,
    devices: u32,
    of: BTreeMap<Arc<str>, u32>,
    pub(crate) hours: Option<Hours>,
    /// Admitted jobs without and with devices; kept only where GPU-hours are counted.
    pub(crate) waiting: BTreeSet<JobId>,
    pub(crate) running: BTreeMap<JobId, u32>,
    /// Queues whose first jobs wait for this account.
    pub(crate) blocked: BTreeSet<usize>,
    /// The first job that waits for more of something: none behind it gets any of that.
    pub(crate) claims: BTreeMap<Dimension, Turn>,
    /// When to check the hours again.
    pub(crate) alarm: Option<Time>,
}

/// Why a job is not admitted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Full {
    /// It would be too much.
    Over(Dimension, Quota),
    /// An earlier job waits for the same.
    Claimed(JobId),
}

impl Ledger {
    pub(crate) fn new(whose: Arc<str>, caps: Caps, now: Time) -> Self {
        let resume = if caps.stop_at_limit { RESUME } else { 1.0 };
        let hours = caps.hours.map(|(hours, window_s)| Hours::new(hours, window_s, resume, now));
        Self {
            whose,
            caps,
            jobs: 0,
            devices: 0,
            of: BTreeMap::new(),
            hours,
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            blocked: BTreeSet::new(),
            claims: BTreeMap::new(),
            alarm: None,
        }
    }

    /// Whether the GPU-hours are used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.hours.as_ref().is_some_and(Hours::is_spent)
    }

    fn used(&self, dimension: &Dimension) -> u32 {
        match dimension {
            Dimension::Jobs => self.jobs,
            Dimension::Devices => self.devices,
            Dimension::Of(kind) => self.of.get(kind).copied().unwrap_or(0),
            Dimension::Hours => 0,
        }
    }

    /// Why a gang cannot be admitted now, if it cannot.
    pub(crate) fn full(&self, now: Time, turn: Turn, gang: &Gang) -> Option<Full> {
        let is_before = |(dimension, first): &(&Dimension, &Turn)| **first < turn && dimension.counts(gang);
        if let Some((_, &(_, first))) = self.claims.iter().find(is_before) {
            return Some(Full::Claimed(first));
        }
        let quota = |dimension: &Dimension, used, asked, limit| Quota {
            whose: self.whose.clone(),
            what: dimension.words(),
            used,
            asked,
            limit,
        };
        if let Some(hours) = self.hours.as_ref().filter(|hours| hours.is_spent()) {
            let quota = quota(&Dimension::Hours, hours.used(now), 0.0, hours.limit());
            return Some(Full::Over(Dimension::Hours, quota));
        }
        let mut asked = self.caps.asked(gang);
        let is_over = |(dimension, asked, most): &(Dimension, u32, u32)| {
            self.used(dimension).saturating_add(*asked) > *most
        };
        let (dimension, asked, most) = asked.find(is_over)?;
        let quota = quota(&dimension, self.used(&dimension).into(), asked.into(), most.into());
        Some(Full::Over(dimension, quota))
    }

    /// Counts an admitted job.
    pub(crate) fn take(&mut self, job: JobId, gang: &Gang) {
        let devices = gang.devices_max;
        self.jobs += 1;
        self.devices = self.devices.saturating_add(devices);
        for (kind, _) in self.caps.devices_of.iter().filter(|(kind, _)| super::limits::is_of(gang, kind)) {
            let used = self.of.entry(kind.clone()).or_default();
            *used = used.saturating_add(devices);
        }
        if self.hours.is_some() {
            self.waiting.insert(job);
        }
    }

    /// Counts an admitted job no more.
    pub(crate) fn give_back(&mut self, now: Time, job: JobId, gang: &Gang) {
        let devices = gang.devices_max;
        self.jobs = self.jobs.saturating_sub(1);
        self.devices = self.devices.saturating_sub(devices);
        for (kind, used) in &mut self.of {
            if super::limits::is_of(gang, kind) {
                *used = used.saturating_sub(devices);
            }
        }
        self.unplace(now, job);
        self.waiting.remove(&job);
    }

    /// A job has these devices from now on.
    pub(crate) fn place(&mut self, now: Time, job: JobId, devices: u32) {
        if let Some(hours) = &mut self.hours {
            self.waiting.remove(&job);
            let before = self.running.insert(job, devices).unwrap_or(0);
            hours.set_devices(now, hours.devices() - before + devices);
        }
    }

    /// A job has no devices any more.
    pub(crate) fn unplace(&mut self, now: Time, job: JobId) {
        if let Some(hours) = &mut self.hours
            && let Some(devices) = self.running.remove(&job)
        {
            hours.set_devices(now, hours.devices() - devices);
            self.waiting.insert(job);
        }
    }
}
