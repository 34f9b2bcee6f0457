//! How many jobs, nodes and devices there are, by state.

use wharf_core::NodeId;
use wharf_proto::node_summary::Health;

use crate::dispatcher::Dispatcher;
use crate::dispatcher::head_metrics::Census;
use crate::query::views;
use crate::tasks::device_activity::IDLE_BELOW;

/// A node's health in a word.
pub(super) fn health_word(health: Health) -> &'static str {
    match health {
        Health::Up => "up",
        Health::Cordoned => "cordoned",
        Health::Draining => "draining",
        Health::Lost => "lost",
        Health::Gone => "gone",
    }
}

/// What there is now. Jobs are not checked: they are counted as they change. Nodes and devices are, as there are few of them
/// beside jobs that once were.
pub(super) fn census(dispatcher: &Dispatcher) -> Census {
    let state = dispatcher.engine.state();
    let policy = dispatcher.log.state.policy.as_ref().map(|choice| choice.name.clone()).unwrap_or_default();
    let jobs = views::PHASES.map(|phase| (phase.word(), views::count(state.counts(), phase))).into();
    let mut census = Census { policy, jobs, ..Census::default() };
    for (id, health) in views::healths(dispatcher) {
        *census.nodes.entry(health_word(health)).or_default() += 1;
        count_devices(dispatcher, id, health, &mut census);
        if let Some(disk) = dispatcher.nodes.facts(id).and_then(|facts| facts.disk.as_ref()) {
            let name = state.topology().node(id).spec.name.to_string();
            census.disks.insert(name, (disk.total_bytes, disk.available_bytes));
        }
    }
    census
}

fn count_devices(dispatcher: &Dispatcher, node: NodeId, health: Health, census: &mut Census) {
    let state = dispatcher.engine.state();
    let (schedule, topology) = (state.schedule(), state.topology());
    let spec = &topology.node(node).spec;
    let broken = schedule.broken(node);
    let facts = dispatcher.nodes.facts(node);
    for device in 0..spec.devices {
        let is_taken = schedule.occupants(topology, node, device).next().is_some();
        let word = match health {
            Health::Gone => continue,
            Health::Lost => "lost",
            _ if broken.contains(device) => "broken",
            _ if is_taken => "allocated",
            Health::Cordoned | Health::Draining => "cordoned",
            Health::Up => "free",
        };
        *census.devices.entry((spec.device_type.to_string(), word)).or_default() += 1;
        let told = facts.and_then(|facts| facts.devices.iter().find(|known| known.index == device));
        let is_idle = told.and_then(|told| told.utilisation).is_some_and(|used| used < IDLE_BELOW);
        let idle = census.idle.entry(spec.device_type.to_string()).or_default();
        *idle += u32::from(word == "allocated" && is_idle);
    }
}
