//! A program as a policy: it is told what has changed, and what it answers is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use wharf_core::{
    Change, Chosen, Decision, DeviceSet, Gang, JobId, Knowledge, NodeId, NodeShare, Phase, Policy, Reason,
    StopReason, Time, View,
};
use wharf_policy::Placer;

use crate::message::{Changes, Job, Knows, News, Node, PROTOCOL, Question, Share, Start, Stop, Welcome};
use crate::process::{Link, Program, Trouble};

/// How long a program that has failed is left alone before it is started again.
const RESTART_S: f64 = 10.0;

/// A policy that a program decides.
///
/// Where the program fails, nothing changes, which is reported as a violation; it is started again a little later and told
/// everything again, so that a program needs no memory.
pub struct External {
    program: Program,
    settings: BTreeMap<String, String>,
    seed: u64,
    limit: Duration,
    placer: Box<dyn Placer>,
    knowledge: Knowledge,
    link: Option<Link>,
    failed_at: Option<Time>,
    /// Jobs that the program knows of, or is to be informed of next time.
    known: BTreeSet<JobId>,
    changed_jobs: BTreeSet<JobId>,
    changed_nodes: BTreeSet<NodeId>,
    /// Nodes there were when it was last told.
    node_count: usize,
    /// Why jobs wait, as the program says.
    reasons: BTreeMap<JobId, Arc<str>>,
}

impl External {
    /// Starts a program and hears what it wants to know. It has `limit` for each answer.
    ///
    /// # Errors
    /// [`Trouble`] with the program or its first answer.
    pub fn start(
        program: Program,
        settings: BTreeMap<String, String>,
        seed: u64,
        placer: Box<dyn Placer>,
        limit: Duration,
    ) -> Result<Self, Trouble> {
        let mut policy = Self {
            program,
            settings,
            seed,
            limit,
            placer,
            knowledge: Knowledge::Attained,
            link: None,
            failed_at: None,
            known: BTreeSet::new(),
            changed_jobs: BTreeSet::new(),
            changed_nodes: BTreeSet::new(),
            node_count: 0,
            reasons: BTreeMap::new(),
        };
        policy.connect()?;
        Ok(policy)
    }

    fn connect(&mut self) -> Result<(), Trouble> {
        let mut link = Link::start(&self.program, self.limit)?;
        let hello = Question::Hello { protocol: PROTOCOL, seed: self.seed, settings: &self.settings };
        let welcome: Welcome = link.ask(&hello)?;
        if welcome.protocol != PROTOCOL {
            return Err(Trouble::Protocol { theirs: welcome.protocol, ours: PROTOCOL });
        }
        self.knowledge = match welcome.knows {
            Knows::Attained => Knowledge::Attained,
            Knows::Durations => Knowledge::Durations,
        };
        self.link = Some(link);
        Ok(())
    }

    /// Starts a program that has failed once more; it knows nothing yet.
    fn reconnect(&mut self, view: &View<'_>) -> Result<(), Trouble> {
        self.connect()?;
        self.failed_at = None;
        self.node_count = 0;
        self.known = view.live_jobs().filter(|&job| view.job(job).phase != Phase::Held).collect();
        self.changed_jobs = self.known.clone();
        Ok(())
    }

    fn ask(&mut self, view: &View<'_>) -> Result<Changes, Trouble> {
        if self.link.is_none() {
            self.reconnect(view)?;
        }
        let count = view.topology().nodes().len();
        self.changed_nodes.extend((self.node_count..count).map(NodeId::from_index));
        self.node_count = count;
        let (live, gone): (Vec<JobId>, Vec<JobId>) =
            std::mem::take(&mut self.changed_jobs).into_iter().partition(|job| self.known.contains(job));
        let nodes = std::mem::take(&mut self.changed_nodes);
        let news = News {
            now: view.now.seconds(),
            nodes: nodes.into_iter().map(|node| Node::of(view, node)).collect(),
            jobs: live.into_iter().map(|job| Job::of(view, self.knowledge, job)).collect(),
            gone: gone.into_iter().map(|job| job.0).collect(),
        };
        match &mut self.link {
            Some(link) => link.ask(&Question::Schedule(news)),
            None => Ok(Changes::default()),
        }
    }

    fn carry_out(&mut self, decision: &mut Decision<'_>, changes: Changes) -> Result<(), AnswerError> {
        for stop in &changes.stop {
            self.stop(decision, stop)?;
        }
        for start in &changes.start {
            self.start_job(decision, start)?;
        }
        let reasons = changes.reasons.into_iter().map(|(job, why)| (JobId(job), why.into()));
        self.reasons.extend(reasons.filter(|(job, _)| self.known.contains(job)));
        if let Some(at) = changes.wake_at {
            let at = Time::try_new(at).ok_or(AnswerError::WakeAt { at })?;
            decision.wake_at(at);
        }
        Ok(())
    }

    fn stop(&self, decision: &mut Decision<'_>, stop: &Stop) -> Result<(), AnswerError> {
        let job = self.job(stop.job)?;
        match stop.heir.map(|heir| self.job(heir)).transpose()? {
            Some(heir) => decision.preempt(job, Some(heir), Chosen::NotInRound),
            None => decision.stop(job, StopReason::Preempted),
        };
        Ok(())
    }

    fn start_job(&mut self, decision: &mut Decision<'_>, start: &Start) -> Result<(), AnswerError> {
        let job = self.job(start.job)?;
        let view = decision.view();
        let placement = match &start.placement {
            Some(shares) => {
                let shares: Result<_, _> = shares.iter().map(|share| node_share(&view, share)).collect();
                shares?
            }
            // One that runs already is refused by the audit, wherever it would go.
            None if view.schedule().placement(job).is_some() => Vec::new(),
            None => {
                let gang = gang_of(&view, job, start.devices)?;
                let mut found = Vec::new();
                if !self.placer.place(view.topology(), view.schedule(), &gang, &mut found) {
                    // Not an error: a policy that only orders jobs need not know which placements fit.
                    return Ok(());
                }
                found
            }
        };
        if decision.start(job, &placement) {
            self.reasons.remove(&job);
        }
        Ok(())
    }

    fn job(&self, id: u32) -> Result<JobId, AnswerError> {
        let job = JobId(id);
        let is_known = self.known.contains(&job);
        is_known.then_some(job).ok_or(AnswerError::UnknownJob { job: id })
    }

    fn touch(&mut self, view: &View<'_>, job: JobId) {
        self.changed_jobs.insert(job);
        let placed = view.schedule().placement(job).unwrap_or_default();
        self.changed_nodes.extend(placed.iter().chain(view.job(job).left()).map(|share| share.node));
    }
}

/// Why an answer cannot be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum AnswerError {
    #[error("`wake_at` is {at}: expected a finite number")]
    WakeAt { at: f64 },
    #[error("it names job {job}, which is unknown or has ended")]
    UnknownJob { job: u32 },
    #[error("it starts job {job} (`{name}`) on {devices} devices, but the job runs on {min} to {max}")]
    DeviceCount { job: u32, name: Arc<str>, devices: u32, min: u32, max: u32 },
    #[error("it names node {node}, which does not exist")]
    UnknownNode { node: u32 },
    #[error("it names device {device} of node {node} (`{name}`), which has {count}")]
    UnknownDevice { device: u32, node: u32, name: Arc<str>, count: u32 },
}

/// The gang of a job, on so many devices where it can run on several numbers of them.
fn gang_of(view: &View<'_>, job: JobId, devices: Option<u32>) -> Result<Gang, AnswerError> {
    let gang = view.spec(job).gang.clone();
    let (min, max) = (gang.devices_min, gang.devices_max);
    match devices {
        Some(devices) if !(min..=max).contains(&devices) => {
            Err(AnswerError::DeviceCount { job: job.0, name: view.spec(job).name.clone(), devices, min, max })
        }
        Some(devices) => Ok(Gang { devices, ..gang }),
        None => Ok(gang),
    }
}

fn node_share(view: &View<'_>, share: &Share) -> Result<NodeShare, AnswerError> {
    let node = NodeId(share.node);
    let Some(known) = view.topology().nodes().get(node.index()) else {
        return Err(AnswerError::UnknownNode { node: share.node });
    };
    let mut devices = DeviceSet::EMPTY;
    for &device in &share.devices {
        if device >= known.spec.devices {
            return Err(AnswerError::UnknownDevice {
                device,
                node: share.node,
                name: known.spec.name.clone(),
                count: known.spec.devices,
            });
        }
        devices.insert(device);
    }
    Ok(NodeShare::new(node, devices))
}

/// An error with what caused it, on one line.
fn described(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl Policy for External {
    fn knowledge(&self) -> Knowledge {
        self.knowledge
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job)
            | Change::Placed(job)
            | Change::Running(job)
            | Change::Stopping(job)
            | Change::Waiting(job) => {
                self.known.insert(job);
                self.touch(view, job);
            }
            Change::Ended(job) => {
                self.known.remove(&job);
                self.reasons.remove(&job);
                self.touch(view, job);
            }
            Change::Node(node) => {
                self.changed_nodes.insert(node);
            }
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        if let Some(again) = self.failed_at.map(|failed| failed.plus(RESTART_S)).filter(|again| now < *again)
        {
            decision.wake_at(again);
            return;
        }
        let asked = self.ask(&decision.view()).map_err(|error| described(&error));
        if let Err(why) =
            asked.and_then(|changes| self.carry_out(decision, changes).map_err(|error| error.to_string()))
        {
            self.link = None;
            self.failed_at = Some(now);
            decision.refuse(why);
            decision.wake_at(now.plus(RESTART_S));
        }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        if let Some(why) = self.reasons.get(&job) {
            return Reason::Told { why: Arc::clone(why) };
        }
        let (needed, free) = (view.spec(job).gang.devices, view.schedule().free_count());
        match free < needed {
            true => Reason::DevicesBusy { needed, free },
            false => Reason::Told { why: "the policy's program has not started it".into() },
        }
    }
}
