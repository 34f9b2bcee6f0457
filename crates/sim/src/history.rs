//! What happened to one job in a run: when it waited and for what, which jobs went first, and why it was stopped.

use std::collections::BTreeSet;

use wharf_core::{Chosen, JobId, NodeId, NodeShare, Reason, Reshape, Time};

use wharf_outcome::Recorder;

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryEvent {
    /// It entered the system.
    Submitted,
    /// It waits, from here on for this reason.
    Waits(Reason),
    /// It began to run.
    Started {
        /// Its devices.
        placement: Vec<NodeShare>,
        /// Jobs that share them.
        beside: Vec<JobId>,
        /// Jobs that were started while it waited, each once, in that order.
        ahead: Vec<JobId>,
        /// How its devices differ from those it had before, where they do.
        reshaped: Option<Reshaped>,
    },
    /// The scheduler stopped it: the job that gets its devices, and why it was chosen, where that is known.
    Preempted(Option<(Option<JobId>, Chosen)>),
    /// It was stopped because a node was lost.
    Interrupted {
        /// The node.
        node: Option<NodeId>,
    },
    /// It was done.
    Finished,
}

/// A job on other devices than before.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshaped {
    /// How they differ.
    pub reshape: Reshape,
    /// Those before.
    pub before: Vec<NodeShare>,
    /// The job that got some of those.
    pub to: Option<JobId>,
}

/// Records what happens to one job.
#[derive(Clone, Debug)]
pub struct JobHistory {
    job: JobId,
    events: Vec<(Time, HistoryEvent)>,
    is_waiting: bool,
    ahead: Vec<JobId>,
    known_ahead: BTreeSet<JobId>,
    /// Other jobs that were preempted at this moment: if they are started in it, they move.
    preempted: (Time, BTreeSet<JobId>),
    held: Vec<NodeShare>,
    reshaped: Option<Reshaped>,
    gave_way: Option<(Option<JobId>, Chosen)>,
    lost: Option<(Time, NodeId)>,
}

impl JobHistory {
    /// Records what happens to this job.
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            events: Vec::new(),
            is_waiting: false,
            ahead: Vec::new(),
            known_ahead: BTreeSet::new(),
            preempted: (Time::ZERO, BTreeSet::new()),
            held: Vec::new(),
            reshaped: None,
            gave_way: None,
            lost: None,
        }
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// What happened, in order.
    pub fn events(&self) -> &[(Time, HistoryEvent)] {
        &self.events
    }

    /// Jobs that were started since it began to wait, where it waits still.
    pub fn ahead(&self) -> &[JobId] {
        &self.ahead
    }

    fn begin_wait(&mut self) {
        self.is_waiting = true;
        self.ahead.clear();
        self.known_ahead.clear();
    }

    /// Whether a job was preempted at this moment.
    fn is_preempted(&self, time: Time, job: JobId) -> bool {
        self.preempted.0 == time && self.preempted.1.contains(&job)
    }

    /// Whether the job holds devices of a node.
    fn is_on(&self, node: NodeId) -> bool {
        self.held.iter().any(|share| share.node == node)
    }
}

impl Recorder for JobHistory {
    fn explained(&self) -> Option<JobId> {
        Some(self.job)
    }

    fn waits(&mut self, time: Time, _job: JobId, reason: &Reason) {
        let last = self.events.iter().rev().find_map(|(_, event)| match event {
            HistoryEvent::Waits(reason) => Some(Some(reason)),
            HistoryEvent::Started { .. } => Some(None),
            _ => None,
        });
        if last.flatten() != Some(reason) {
            self.events.push((time, HistoryEvent::Waits(reason.clone())));
        }
    }

    fn submitted(&mut self, time: Time, job: JobId) {
        if job == self.job {
            self.events.push((time, HistoryEvent::Submitted));
            self.begin_wait();
        }
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], group: &[JobId]) {
        if job == self.job {
            self.is_waiting = false;
            self.held = placement.to_vec();
            let event = HistoryEvent::Started {
                placement: placement.to_vec(),
                beside: group.iter().copied().filter(|&other| other != job).collect(),
                ahead: std::mem::take(&mut self.ahead),
                reshaped: self.reshaped.take(),
            };
            self.events.push((time, event));
        } else if self.is_waiting && !self.is_preempted(time, job) && self.known_ahead.insert(job) {
            self.ahead.push(job);
        }
    }

    fn reshaped(&mut self, _: Time, job: JobId, reshape: Reshape, before: &[NodeShare], to: Option<JobId>) {
        if job == self.job {
            self.reshaped = Some(Reshaped { reshape, before: before.to_vec(), to });
        }
    }

    fn gave_way(&mut self, _time: Time, job: JobId, to: Option<JobId>, chosen: Chosen) {
        if job == self.job {
            self.gave_way = Some((to, chosen));
        }
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        if job == self.job {
            self.events.push((time, HistoryEvent::Preempted(self.gave_way.take())));
            self.begin_wait();
        } else {
            if self.preempted.0 != time {
                self.preempted = (time, BTreeSet::new());
            }
            self.preempted.1.insert(job);
        }
    }

    fn interrupted(&mut self, time: Time, job: JobId) {
        if job == self.job {
            let node = self.lost.filter(|&(at, node)| at == time && self.is_on(node)).map(|(_, node)| node);
            self.events.push((time, HistoryEvent::Interrupted { node }));
            self.begin_wait();
        }
    }

    fn node_lost(&mut self, time: Time, node: NodeId) {
        self.lost = Some((time, node));
        let is_on = self.is_on(node);
        // Jobs may be stopped before the node is said to be lost.
        if let Some((at, HistoryEvent::Interrupted { node: known @ None })) = self.events.last_mut()
            && *at == time
            && is_on
        {
            *known = Some(node);
        }
    }

    fn finished(&mut self, time: Time, job: JobId) {
        if job == self.job {
            self.is_waiting = false;
            self.events.push((time, HistoryEvent::Finished));
        }
    }
}
