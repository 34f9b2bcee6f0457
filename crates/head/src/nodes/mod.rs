//! Nodes: their workers connect, disconnect and come back; both sides agree on what runs.

pub(crate) mod connections;
pub(crate) mod deregistration;
pub(crate) mod device_health;
pub(crate) mod disks;
pub(crate) mod registration;
pub(crate) mod reports;
pub(crate) mod worker_outbox;

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Command, JobId, NodeId, NodeSpec, Time};
use wharf_proto::{Cause, Device, Disk, Register, to_worker};

use crate::dispatcher::Dispatcher;
use crate::nodes::connections::{Connections, Session};
use crate::nodes::device_health::{NodeFailures, exclusion};
use crate::nodes::reports::AwaitedReports;
use crate::nodes::worker_outbox::Outlet;
use crate::tasks::execution::{End, TaskPhase};

/// What a worker reports of its node that no policy has to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFacts {
    pub(crate) address: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    pub(crate) devices: Vec<Device>,
    pub(crate) disk: Option<Disk>,
}

/// Nodes: the connections of their workers, what those report, and failures.
pub(crate) struct Nodes {
    pub(crate) connections: Connections,
    pub(crate) reports: AwaitedReports,
    facts: BTreeMap<NodeId, NodeFacts>,
    failures: NodeFailures,
}

impl Nodes {
    /// A node without a connection is lost after so many seconds.
    pub(crate) fn new(lost_after_s: f64) -> Self {
        Self {
            connections: Connections::new(lost_after_s),
            reports: AwaitedReports::default(),
            facts: BTreeMap::new(),
            failures: NodeFailures::default(),
        }
    }

    /// What a node's worker has reported of it; none where it has not registered since the head was started.
    pub(crate) fn facts(&self, node: NodeId) -> Option<&NodeFacts> {
        self.facts.get(&node)
    }

    /// How much a device is used, where its worker reports that.
    pub(crate) fn utilisation(&self, node: NodeId, index: u32) -> Option<f64> {
        let devices = &self.facts(node)?.devices;
        devices.iter().find(|device| device.index == index)?.utilisation
    }

    /// After a start: submissions wait for the reports of all nodes that may come back, until then.
    pub(crate) fn await_reports(&mut self, until: Time) {
        self.reports.expect(self.connections.missing().collect(), until);
    }

    /// A node's worker has registered.
    fn register(&mut self, node: NodeId, register: &Register, session: Session) {
        self.connections.end_wait(node);
        self.reports.note(node);
        let facts = self.facts.entry(node).or_default();
        facts.address.clone_from(&register.address);
        facts.version.clone_from(&register.version);
        facts.features.clone_from(&register.features);
        self.connections.connect(node, session);
    }
}

impl Dispatcher {
    /// A worker introduces itself: its node is there, and both sides agree on what runs.
    pub(crate) fn attach(&mut self, register: &Register, session: u64, sender: Outlet) {
        if self.is_shut_out(&register.node) {
            return;
        }
        crate::dispatcher::fault_points::point("attach");
        if let Err(refused) = self.check_mark(register) {
            // Without a sender its stream ends.
            return self.alert(&refused.to_string());
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
            details: None,
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
        tracing::info!(node = register.node, session, version = register.version, "worker connected");
        self.nodes.register(node, register, Session { id: session, sender });
        // Meant for the one before; whatever of it still holds is sent again below.
        self.outbox.drop_messages(node);
        self.send(node, to_worker::Message::Welcome(self.nodes.connections.welcome()));
        if !register.device.is_empty() {
            self.on_devices(node, register.device.clone());
        }
        self.report_orphans(register);
        self.reconcile(node, register);
        self.resume_reading(node);
    }

    /// A worker declares its node otherwise than before. Where the devices are others, its jobs run elsewhere.
    fn replace_node(&mut self, node: NodeId, spec: NodeSpec) {
        let before = &self.engine.state().topology().node(node).spec;
        if (before.devices, &before.device_type) != (spec.devices, &spec.device_type) {
            let was = format!("{} x {}", before.devices, before.device_type);
            let is = format!("{} x {}", spec.devices, spec.device_type);
            self.alert(&format!("node {}: its devices have changed from {was} to {is}", spec.name));
            self.nodes.facts.remove(&node);
        }
        self.engine_command(Command::ReplaceNode(node, spec));
    }

    /// A connection is gone; the node may come back.
    pub(crate) fn detach(&mut self, session: u64) {
        tracing::info!(session, "worker disconnected");
        self.nodes.connections.disconnect(session, self.clock.now());
    }

    /// Ends the connection of a node's worker, once all that it has reported is durable.
    pub(crate) fn close_session(&mut self, node: NodeId) {
        if let Some(session) = self.nodes.connections.close(node) {
            self.outbox.drop_messages(node);
            self.outbox.reply(move || drop(session));
        }
    }

    /// Takes devices out that have a problem, and in that have none any more.
    pub(crate) fn on_devices(&mut self, node: NodeId, devices: Vec<Device>) {
        let count = self.engine.state().topology().node(node).spec.devices;
        let mut devices = registration::within_bounds(devices, count);
        let broken = self.engine.state().schedule().broken(node);
        let name = self.engine.state().topology().node(node).spec.name.clone();
        for device in &mut devices {
            let index = device.index;
            let is_excluded = self.nodes.failures.excludes(node, index);
            if !is_excluded && device.problem == exclusion(&name) {
                device.problem.clear();
            }
            match (broken.contains(index), device.problem.is_empty()) {
                (false, false) => {
                    self.device_broke(node, index);
                    self.engine_command(Command::LoseDevice(node, index));
                }
                (true, true) if is_excluded => device.problem = exclusion(&name),
                (true, true) => self.engine_command(Command::ReturnDevice(node, index)),
                _ => {}
            }
        }
        self.nodes.facts.entry(node).or_default().devices = devices;
        self.watch_node(node);
    }

    /// Compares what a worker has with what it should have.
    fn reconcile(&mut self, node: NodeId, register: &Register) {
        let mut reported = BTreeSet::new();
        for state in &register.tasks {
            let Some(task) = state.task else { continue };
            let job = JobId(task.job_id);
            let is_expected = self.tasks.is_task_of(task, node);
            if is_expected {
                reported.insert(job);
                self.task_started(job, task.generation, node);
                if let Some(progress) = state.progress.clone() {
                    self.task_progressed(node, progress);
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
        for (job, (generation, is_stopping, phase)) in self.tasks.expected_on(node) {
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
