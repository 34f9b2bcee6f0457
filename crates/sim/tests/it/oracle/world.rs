//! A slow simulator of gangs on nodes: at every event a rule checks everything and decides again.
//!
//! Nothing of it is shared with the product. Times are whole seconds in most cases, so that ties are exact.

use std::collections::BTreeSet;

/// Difference of two times that are the same moment.
const ROUNDING_S: f64 = 1e-6;
pub(super) const RESTART_S: f64 = 30.0;

/// What a job asks for.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) submit_s: f64,
    pub(super) devices: usize,
    pub(super) work_s: f64,
    pub(super) priority: i32,
    pub(super) user: usize,
    /// Device types in order of preference; any where empty.
    pub(super) types: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) size: usize,
    pub(super) kind: &'static str,
    pub(super) switch: u32,
}

/// Nodes with the indexes of their devices.
pub(super) type Placement = Vec<(usize, BTreeSet<usize>)>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Absent,
    Waiting,
    /// On these devices, since a time.
    Running(Placement, f64),
    Over(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) left_s: f64,
    /// Seconds with devices in earlier runs.
    attained_s: f64,
}

/// A start: when, which job, where.
pub(super) type Start = (f64, usize, Placement);

pub(super) struct World<'a> {
    pub(super) now: f64,
    pub(super) jobs: &'a [Job],
    pub(super) nodes: &'a [Node],
    pub(super) lives: Vec<Life>,
    pub(super) starts: Vec<Start>,
    /// Jobs that got devices in the present decision, which are not preempted in it.
    pub(super) fresh: BTreeSet<usize>,
    checkpoint_s: f64,
    is_down: Vec<bool>,
}

/// Decides at every event.
pub(super) trait Rule {
    fn decide(&mut self, world: &mut World<'_>);

    /// The next time after now at which it has to decide although nothing happens.
    fn timer(&self, _world: &World<'_>) -> Option<f64> {
        None
    }

    fn ended(&mut self, _world: &World<'_>, _job: usize) {}
}

/// A node that fails or is repaired.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeEvent {
    pub(super) at_s: f64,
    pub(super) node: usize,
    pub(super) is_up: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(jobs: &'a [Job], nodes: &'a [Node], checkpoint_s: f64) -> Self {
        let life = |job: &Job| Life { phase: Phase::Absent, left_s: job.work_s, attained_s: 0.0 };
        Self {
            now: 0.0,
            jobs,
            nodes,
            lives: jobs.iter().map(life).collect(),
            starts: Vec::new(),
            fresh: BTreeSet::new(),
            checkpoint_s,
            is_down: vec![false; nodes.len()],
        }
    }

    /// Runs to the end, or until nothing happens any more.
    pub(super) fn run(&mut self, rule: &mut dyn Rule, failures: &[NodeEvent]) {
        let mut failures = failures.to_vec();
        loop {
            let arrivals = self.with(|phase| *phase == Phase::Absent);
            let arrivals = arrivals.into_iter().map(|job| self.jobs[job].submit_s);
            let ends = self.running().into_iter().map(|job| self.end_s(job));
            let node = failures.first().map(|event| event.at_s);
            let times = arrivals.chain(ends).chain(node).chain(rule.timer(self));
            if self.lives.iter().all(|life| matches!(life.phase, Phase::Over(_))) {
                break;
            }
            let times: Vec<f64> = times.collect();
            let Some(first) = times.iter().copied().min_by(f64::total_cmp) else { break };
            // What happens at one moment but for rounding, as where service is divided by three devices, is one event.
            let next = times.into_iter().filter(|time| *time <= first + ROUNDING_S).fold(first, f64::max);
            self.now = next;
            for job in self.running() {
                if self.end_s(job) <= next {
                    self.stop(job, false);
                    self.lives[job].phase = Phase::Over(next);
                    rule.ended(self, job);
                }
            }
            while failures.first().is_some_and(|event| event.at_s <= next) {
                let event = failures.remove(0);
                self.change_node(event);
            }
            for job in self.with(|phase| *phase == Phase::Absent) {
                if self.jobs[job].submit_s <= next {
                    self.lives[job].phase = Phase::Waiting;
                }
            }
            self.fresh.clear();
            rule.decide(self);
        }
    }

    fn change_node(&mut self, event: NodeEvent) {
        self.is_down[event.node] = !event.is_up;
        if !event.is_up {
            for job in self.running() {
                if self.placement(job).iter().any(|(node, _)| *node == event.node) {
                    self.stop(job, true);
                }
            }
        }
    }

    fn with(&self, is_meant: impl Fn(&Phase) -> bool) -> Vec<usize> {
        (0..self.jobs.len()).filter(|&job| is_meant(&self.lives[job].phase)).collect()
    }

    pub(super) fn waiting(&self) -> Vec<usize> {
        self.with(|phase| *phase == Phase::Waiting)
    }

    pub(super) fn running(&self) -> Vec<usize> {
        self.with(|phase| matches!(phase, Phase::Running(..)))
    }

    pub(super) fn placement(&self, job: usize) -> &Placement {
        match &self.lives[job].phase {
            Phase::Running(placement, _) => placement,
            other => panic!("job {job} has no devices: {other:?}"),
        }
    }

    pub(super) fn end_s(&self, job: usize) -> f64 {
        match self.lives[job].phase {
            Phase::Running(_, since) => since + RESTART_S + self.lives[job].left_s,
            _ => f64::INFINITY,
        }
    }

    /// When a running job got its devices.
    pub(super) fn since_s(&self, job: usize) -> f64 {
        let Phase::Running(_, since) = self.lives[job].phase else { panic!("job {job} has no devices") };
        since
    }

    pub(super) fn up_nodes(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| !self.is_down[node]).collect()
    }

    /// Seconds with devices until now.
    pub(super) fn attained_s(&self, job: usize) -> f64 {
        let present = match self.lives[job].phase {
            Phase::Running(_, since) => self.now - since,
            _ => 0.0,
        };
        self.lives[job].attained_s + present
    }

    pub(super) fn start(&mut self, job: usize, placement: Placement) {
        assert_eq!(self.lives[job].phase, Phase::Waiting);
        self.starts.push((self.now, job, placement.clone()));
        self.lives[job].phase = Phase::Running(placement, self.now);
        self.fresh.insert(job);
    }

    /// Takes a job's devices; after a failure only whole intervals between checkpoints are kept.
    pub(super) fn stop(&mut self, job: usize, is_failure: bool) {
        let Phase::Running(_, since) = self.lives[job].phase else { panic!("job {job} has no devices") };
        let mut done_s = (self.now - since - RESTART_S).max(0.0);
        if is_failure {
            done_s = ((done_s + ROUNDING_S) / self.checkpoint_s).floor() * self.checkpoint_s;
        }
        self.lives[job].attained_s = self.attained_s(job);
        self.lives[job].left_s -= done_s;
        self.lives[job].phase = Phase::Waiting;
    }

    /// Devices without a job, by node; none of a node that is down.
    pub(super) fn free(&self) -> Vec<BTreeSet<usize>> {
        self.free_without(&[])
    }

    /// As [`Self::free`], once these jobs are gone.
    pub(super) fn free_without(&self, gone: &[usize]) -> Vec<BTreeSet<usize>> {
        let mut free: Vec<BTreeSet<usize>> = self.nodes.iter().map(|node| (0..node.size).collect()).collect();
        for job in self.running().into_iter().filter(|job| !gone.contains(job)) {
            for (node, devices) in self.placement(job) {
                free[*node] = &free[*node] - devices;
            }
        }
        for (node, devices) in free.iter_mut().enumerate() {
            if self.is_down[node] {
                devices.clear();
            }
        }
        free
    }
}
