//! Temporary nodes: they announce that they leave, deregister, and may return as another machine of the same name.

use std::collections::BTreeMap;

use wharf_core::{Command, Ignored, NodeId, Phase};
use wharf_proto::{Demand, Leave};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// A reason is a line for people.
const LEAVE_BYTES_MAX: usize = 1000;

/// A change of a node that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeChangeError {
    #[error("its worker is connected; end that, or drain the node")]
    Connected,
    #[error(transparent)]
    Ignored(#[from] Ignored),
}

impl Dispatcher {
    /// A worker announces that its machine leaves, or has left.
    pub(crate) fn on_leave(&mut self, node: NodeId, mut leave: Leave) {
        leave.reason.truncate(leave.reason.floor_char_boundary(LEAVE_BYTES_MAX));
        if leave.is_over {
            self.close_session(node);
            self.node_gone(node, leave.reason);
        } else {
            self.node_leaves(node, leave.reason);
        }
    }

    /// Jobs move on, and no new ones start there. A node that was cordoned before stays cordoned when it is back.
    pub(crate) fn node_leaves(&mut self, node: NodeId, reason: String) {
        if self.engine.state().schedule().is_cordoned(node) {
            return;
        }
        self.engine_command(Command::DrainNode(node));
        self.note(Record::NodeLeft { node: node.0, is_over: false });
        self.note(Record::NodeNoted { node: node.0, reason });
    }

    /// The node is not expected back: its jobs run elsewhere without waiting for it.
    fn node_gone(&mut self, node: NodeId, reason: String) {
        self.nodes.connections.end_wait(node);
        if self.engine.state().schedule().is_there(node) {
            self.engine_command(Command::LoseNode(node));
        }
        self.tasks.end_reading(node);
        self.note(Record::NodeLeft { node: node.0, is_over: true });
        self.note(Record::NodeNoted { node: node.0, reason });
    }

    /// A node that had left is there again, perhaps on another machine: its failures do not count.
    pub(crate) fn node_came(&mut self, node: NodeId) {
        if self.log.state.left.contains_key(&node.0) {
            self.note(Record::NodeCame { node: node.0 });
            self.note(Record::NodeNoted { node: node.0, reason: String::new() });
            self.engine_command(Command::OpenNode(node));
            self.reset_failures(node);
        }
    }

    /// Changes a node on request.
    pub(crate) fn change_node(
        &mut self,
        command: Command,
        node: NodeId,
        reason: String,
    ) -> Result<(), NodeChangeError> {
        let is_opened = matches!(command, Command::OpenNode(_));
        if matches!(command, Command::LoseNode(_)) {
            if self.nodes.connections.is_connected(node) {
                return Err(NodeChangeError::Connected);
            }
            self.node_gone(node, reason);
            return Ok(());
        }
        self.command(command)?;
        self.note(Record::NodeNoted { node: node.0, reason });
        if is_opened {
            self.reset_failures(node);
        }
        Ok(())
    }
}

/// What waiting jobs need, those that need the same together.
pub(crate) fn demands(dispatcher: &Dispatcher) -> Vec<Demand> {
    let mut alike: BTreeMap<_, u32> = BTreeMap::new();
    let jobs = dispatcher.engine.state().jobs();
    for (_, spec, _) in jobs.filter(|(_, _, life)| life.phase == Phase::Waiting) {
        let needs = spec.gang.needs.as_deref();
        // It runs on nodes that are there, or nowhere.
        if needs.is_some_and(|needs| needs.node.is_some() || needs.reservation.is_some()) {
            continue;
        }
        let pool = needs.and_then(|needs| needs.pool.clone()).unwrap_or_default();
        let shape = (spec.gang.devices, needs.and_then(|needs| needs.nodes).unwrap_or(0));
        let beside = needs.map_or((0, 0), |needs| (needs.request.task.cpus(), needs.request.task.memory_mib));
        let key = (spec.user.clone(), pool, spec.gang.device_types.clone(), shape, beside);
        *alike.entry(key).or_default() += 1;
    }
    let demand = |((user, pool, types, (devices, nodes), (cpus, memory_mib)), jobs): (Key, u32)| Demand {
        owners: owners(dispatcher, user.as_deref().unwrap_or_default(), &pool),
        user: user.as_deref().unwrap_or_default().to_owned(),
        pool: pool.to_string(),
        device_types: types.iter().map(|name| name.to_string()).collect(),
        devices,
        nodes,
        cpus,
        memory_mib,
        jobs,
    };
    alike.into_iter().map(demand).collect()
}

/// The owners whose limits a job counts in.
fn owners(dispatcher: &Dispatcher, user: &str, pool: &str) -> Vec<String> {
    let pool = (!pool.is_empty()).then_some(pool);
    dispatcher.policy.limits().owners(user, pool).into_iter().map(|(whose, _)| whose.to_string()).collect()
}

type Text = std::sync::Arc<str>;
/// User, pool, types, devices and nodes, processors and memory of each device.
type Key = (Option<Text>, Text, std::sync::Arc<[Text]>, (u32, u32), (u32, u64));
