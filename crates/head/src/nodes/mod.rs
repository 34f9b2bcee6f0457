//! Workers come, go and come back; both sides agree on what runs.

pub(crate) mod deregistration;
pub(crate) mod device_health;
pub(crate) mod disks;
pub(crate) mod registration;
pub(crate) mod worker_outbox;

use std::collections::BTreeSet;

use wharf_core::{Command, JobId, NodeId, NodeSpec, Time};
use wharf_proto::{Cause, Device, Disk, Register, Welcome, to_worker};

use crate::dispatcher::Dispatcher;
use crate::nodes::device_health::kept_out;
use crate::nodes::worker_outbox::Outlet;
use crate::tasks::execution::{End, Execution, TaskPhase};

/// How often a worker has to be heard, in seconds.
const HEARTBEAT_S: f64 = 5.0;

/// A worker that cannot reach the head stops its tasks; they are run elsewhere only this much later, as a part of the
/// time that it may be away. Of that, its tasks have most to save their work.
const FENCE_MARGIN: f64 = 0.5;
const FENCE_GRACE: f64 = 0.4;

/// A worker that is connected.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) sender: Outlet,
}

/// What a worker said of its node that no policy has to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFacts {
    pub(crate) address: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    pub(crate) devices: Vec<Device>,
    pub(crate) disk: Option<Disk>,
}

impl Dispatcher {
    /// A worker introduces itself: its node is there, and both sides agree on what runs.
    pub(crate) fn attach(&mut self, register: &Register, session: u64, sender: Outlet) {
        if self.is_shut_out(&register.node) {
            return;
        }
        crate::dispatcher::fault_points::point("attach");
        if let Err(reason) = self.heed_mark(register) {
            // Without a sender its stream ends.
            return self.alert(&reason);
        }
        let topology = self.engine.state().topology();
        let known = topology.nodes().iter().position(|node| *node.spec.name == *register.node);
        let node = known.map_or(NodeId::from_index(topology.nodes().len()), NodeId::from_index);
        let spec = NodeSpec {
            name: register.node.as_str().into(),
            device_type: register.device_type.as_str().into(),
            devices: register.devices,
            cpus: register.cpus,
            memory_gib: register.memory_gib,
            switch: register.switch,
            pool: register.pool.as_str().into(),
        };
        match known {
            None => self.engine_command(Command::AddNode(spec)),
            Some(_) if topology.node(node).spec != spec => self.replace_node(node, spec),
            Some(_) if !self.engine.state().schedule().is_there(node) => {
                self.engine_command(Command::ReturnNode(node));
            }
            Some(_) => {}
        }
        if register.leaving.is_empty() {
            self.node_came(node);
        } else {
            self.node_leaves(node, register.leaving.clone());
        }
        self.missing.remove(&node);
        self.has_reported(node);
        let facts = self.facts.entry(node).or_default();
        facts.address.clone_from(&register.address);
        facts.version.clone_from(&register.version);
        facts.features.clone_from(&register.features);
        if let Some(replaced) = self.sessions.insert(node, Session { id: session, sender }) {
            self.node_of_session.remove(&replaced.id);
        }
        self.node_of_session.insert(session, node);
        // Meant for the one before; whatever of it still holds is said again below.
        self.outgoing.remove(&node);
        self.send(node, to_worker::Message::Welcome(self.welcome()));
        if !register.device.is_empty() {
            self.on_devices(node, register.device.clone());
        }
        self.report_orphans(register);
        self.reconcile(node, register);
        self.read_on(node);
    }

    /// A worker declares its node otherwise than before. Where the devices are others, its jobs run elsewhere.
    fn replace_node(&mut self, node: NodeId, spec: NodeSpec) {
        let before = &self.engine.state().topology().node(node).spec;
        if (before.devices, &before.device_type) != (spec.devices, &spec.device_type) {
            let was = format!("{} x {}", before.devices, before.device_type);
            let is = format!("{} x {}", spec.devices, spec.device_type);
            self.alert(&format!("node {}: its devices have changed from {was} to {is}", spec.name));
            self.facts.remove(&node);
        }
        self.engine_command(Command::ReplaceNode(node, spec));
    }

    /// The first message to a worker.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome {
            heartbeat_s: HEARTBEAT_S,
            fence_after_s: self.lost_after_s,
            fence_grace_s: self.lost_after_s * FENCE_GRACE,
        }
    }

    /// A connection is gone; the node may come back.
    pub(crate) fn detach(&mut self, session: u64) {
        if let Some(node) = self.node_of_session.remove(&session) {
            self.sessions.remove(&node);
            let until = self.lost_at();
            self.missing.insert(node, until);
        }
    }

    /// Ends the connection of a node's worker, once all that it has said is durable.
    pub(crate) fn close_session(&mut self, node: NodeId) {
        if let Some(session) = self.sessions.remove(&node) {
            self.node_of_session.remove(&session.id);
            self.outgoing.remove(&node);
            self.reply(move || drop(session));
        }
    }

    /// When a node that is away from now on counts as lost. Where the network is silent, head and worker find it out by asking, each
    /// some time after it last heard of the other; the worker may have heard of the head a heartbeat later than the other way.
    pub(crate) fn lost_at(&self) -> Time {
        let slack_s = if self.lost_after_s > 0.0 { HEARTBEAT_S } else { 0.0 };
        self.now().plus(self.lost_after_s * (1.0 + FENCE_MARGIN) + slack_s)
    }

    /// Takes devices out that have a problem, and in that have none any more.
    pub(crate) fn on_devices(&mut self, node: NodeId, devices: Vec<Device>) {
        let count = self.engine.state().topology().node(node).spec.devices;
        let mut devices = registration::within_bounds(devices, count);
        let broken = self.engine.state().schedule().broken(node);
        let name = self.engine.state().topology().node(node).spec.name.clone();
        for device in &mut devices {
            let index = device.index;
            let stays_out = self.trouble.keeps_out(node, index);
            if !stays_out && device.problem == kept_out(&name) {
                device.problem.clear();
            }
            match (broken.contains(index), device.problem.is_empty()) {
                (false, false) => {
                    self.device_broke(node, index);
                    self.engine_command(Command::LoseDevice(node, index));
                }
                (true, true) if stays_out => device.problem = kept_out(&name),
                (true, true) => self.engine_command(Command::ReturnDevice(node, index)),
                _ => {}
            }
        }
        self.facts.entry(node).or_default().devices = devices;
        self.watch_node(node);
    }

    /// Compares what a worker has with what it should have.
    fn reconcile(&mut self, node: NodeId, register: &Register) {
        let mut reported = BTreeSet::new();
        for state in &register.tasks {
            let Some(task) = state.task else { continue };
            let job = JobId(task.job_id);
            let is_expected = self.executions.get_mut(&job).is_some_and(|execution| {
                execution.generation == task.generation && execution.task_on(node).is_some()
            });
            if is_expected {
                reported.insert(job);
                self.task_started(job, task.generation, node);
                if let Some(told) = state.progress.clone() {
                    self.task_progressed(node, told);
                }
                if !state.ended {
                    self.send_pace(job, node);
                }
            }
            if state.ended {
                let end = End {
                    code: state.exit_code,
                    is_blameless: state.is_blameless,
                    is_interrupted: state.interrupted,
                    is_by_itself: state.by_itself,
                    cause: state.cause(),
                    signal: state.signal,
                }
                .blamed(state.node_fault());
                self.on_node_fault(node, state.node_fault());
                self.note_reason(node, task, state.error.clone());
                self.task_over(job, task.generation, node, end);
            } else if !is_expected {
                self.send_stop(job, task.generation, node);
            }
        }
        let here = |execution: &Execution| {
            let task = execution.tasks.iter().find(|task| task.share.node == node)?;
            Some((execution.generation, execution.is_stopping, task.phase))
        };
        let expected: Vec<_> =
            self.executions.iter().filter_map(|(&job, execution)| Some((job, here(execution)?))).collect();
        for (job, (generation, is_stopping, phase)) in expected {
            match (phase, reported.contains(&job)) {
                (TaskPhase::Ordered | TaskPhase::Started, true) if is_stopping => {
                    self.send_stop(job, generation, node);
                }
                (TaskPhase::Ordered, false) if !is_stopping => self.order(job, node),
                (TaskPhase::Ordered | TaskPhase::Started, false) => {
                    self.task_lost(job, generation, node, Cause::LostWorker);
                }
                _ => {}
            }
        }
    }
}
