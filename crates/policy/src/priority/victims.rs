//! Whom to preempt: running jobs that come after a waiting one, such that their devices are enough for it.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use wharf_core::{Chosen, DeviceTypeId, Gang, JobId, NodeId, NodeShare, Time, View};

use super::SAME_MOMENT_S;
use super::classes::Classes;
use super::rank::{Key, Rank};
use crate::cost::Cost;

/// Running jobs checked, from the last one on, before a search gives up.
const CANDIDATES_MAX: usize = 32;

/// Running jobs passed by because they have not run for long enough, before a search gives up.
const PROTECTED_MAX: usize = 128;

/// Who can be a victim beside what the order says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VictimRules {
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
    /// Whether, of those that the order allows, the cheapest to stop are chosen, and not the last ones.
    pub is_cheap: bool,
}

/// What a search came to.
#[derive(Default)]
pub(super) struct Found {
    pub(super) plan: Option<Plan>,
    /// Why each of the plan's victims was chosen.
    pub(super) chosen: Vec<Chosen>,
    /// When the first of those that are still protected is not any more.
    pub(super) again: Option<Time>,
}

/// Whose devices to take, and which nodes to use then.
pub(super) struct Plan {
    pub(super) victims: Vec<JobId>,
    /// Nodes and how many devices to take of each.
    nodes: Vec<(NodeId, u32)>,
}

impl Plan {
    /// The placement, once the victims are out of the schedule.
    pub(super) fn placement(&self, view: &View<'_>, job: JobId) -> Vec<NodeShare> {
        let gang = &view.spec(job).gang;
        self.nodes.iter().map(|&(node, count)| view.schedule().share(gang, node, count)).collect()
    }
}

struct Search<'a, R> {
    rank: &'a R,
    classes: &'a Classes,
    view: &'a View<'a>,
    head: Key,
    types: Vec<DeviceTypeId>,
    rules: VictimRules,
    again: Cell<Option<Time>>,
}

/// Searches for victims on behalf of the first job of a class: everywhere if it is new there, else on touched nodes.
pub(super) fn find<R: Rank>(
    (rank, rules): (&R, VictimRules),
    classes: &Classes,
    view: &View<'_>,
    class: usize,
    job: JobId,
    is_new: bool,
    touched: &[NodeId],
) -> Found {
    let Some(head) = classes.waiting_key(job) else { return Found::default() };
    let gang = &classes.get(class).gang;
    let types = crate::placement::allowed_types(view.topology(), gang).collect();
    let search = Search { rank, classes, view, head, types, rules, again: Cell::new(None) };
    if !search.has_candidate() {
        return Found::default();
    }
    let plan = search.plan(gang, is_new, touched);
    let chosen = plan.as_ref().map(|plan| search.chosen(plan)).unwrap_or_default();
    Found { plan, chosen, again: search.again.get() }
}

impl<R: Rank> Search<'_, R> {
    fn plan(&self, gang: &Gang, is_new: bool, touched: &[NodeId]) -> Option<Plan> {
        // Jobs may share devices if another policy decided before: then a job that leaves need not clear its devices.
        if gang.needs.is_some() || self.view.schedule().is_sharing() {
            let room = crate::room::find(self.view, gang, self.candidates())?;
            return Some(Plan { victims: room.leaving, nodes: room.nodes });
        }
        let node_size = self.node_size_max();
        if node_size == 0 {
            // No node has devices of a type that it may use.
            return None;
        }
        let devices = gang.devices;
        if devices <= node_size && self.rules.is_cheap {
            return self.cheapest_node(devices, is_new, touched);
        }
        if devices <= node_size {
            let anywhere = is_new.then(|| self.worst_first(devices)).flatten();
            return anywhere.or_else(|| self.touched_first(devices, touched));
        }
        let may_help =
            |node| self.is_clearable(node) || !devices.is_multiple_of(node_size) && self.is_usable(node);
        let is_worthwhile = is_new || touched.iter().any(|&node| may_help(node));
        is_worthwhile.then(|| self.whole_nodes(devices, node_size)).flatten()
    }

    /// Whether a job keeps its devices for now; notes for how long.
    fn is_protected(&self, job: JobId) -> bool {
        let until = self.view.protected_until(job, self.rules.min_run_s);
        let until = until.filter(|until| until.since(self.view.now) > SAME_MOMENT_S);
        let earlier = self.again.get();
        self.again.set(until.map(|until| earlier.map_or(until, |earlier| earlier.min(until))).or(earlier));
        until.is_some()
    }

    /// Whether any running job comes after the waiting one at all.
    fn has_candidate(&self) -> bool {
        self.classes.iter().any(|class| {
            class
                .running
                .last()
                .is_some_and(|&(base, _)| self.rank.may_preempt(self.head, class.key_at(base, self.view.now)))
        })
    }

    fn is_victim(&self, job: JobId) -> bool {
        let key = self.classes.running_key(job, self.view.now);
        key.is_some_and(|key| self.rank.may_preempt(self.head, key)) && !self.is_protected(job)
    }

    fn is_usable(&self, node: NodeId) -> bool {
        self.view.schedule().is_up(node) && self.types.contains(&self.view.topology().node(node).device_type)
    }

    fn node_size_max(&self) -> u32 {
        let index = self.view.schedule().free_index();
        self.types
            .iter()
            .filter_map(|&kind| index.of_type(kind))
            .map(|free| free.devices_per_node_max())
            .max()
            .unwrap_or(0)
    }

    /// Running jobs from the last one in the order, across all classes.
    fn worst(&self) -> impl Iterator<Item = JobId> {
        let now = self.view.now;
        let mut iterators: Vec<_> = self.classes.iter().map(|class| class.running.iter().rev()).collect();
        let classes: Vec<_> = self.classes.iter().collect();
        let mut heads = BinaryHeap::new();
        for (index, iterator) in iterators.iter_mut().enumerate() {
            heads.extend(iterator.next().map(|&(base, job)| (classes[index].key_at(base, now), job, index)));
        }
        let head_key = self.head;
        let rank = self.rank;
        std::iter::from_fn(move || {
            let (key, job, index) = heads.pop()?;
            heads.extend(
                iterators[index].next().map(|&(base, job)| (classes[index].key_at(base, now), job, index)),
            );
            rank.may_preempt(head_key, key).then_some(job)
        })
        .take(PROTECTED_MAX)
        .filter(|&job| !self.is_protected(job))
        .take(CANDIDATES_MAX)
    }

    /// The jobs among which victims are searched for, the best to stop first.
    fn candidates(&self) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.worst().collect();
        if self.rules.is_cheap {
            // Equally cheap ones stay in their order.
            jobs.sort_by_key(|&job| Cost::of(self.view, job));
        }
        jobs
    }

    /// The node on which making room costs least.
    fn cheapest_node(&self, devices: u32, is_new: bool, touched: &[NodeId]) -> Option<Plan> {
        let mut nodes: Vec<NodeId> = touched.to_vec();
        for job in self.worst().filter(|_| is_new) {
            let shares = self.view.schedule().placement(job).unwrap_or_default();
            nodes.extend(shares.iter().map(|share| share.node));
        }
        let mut seen = BTreeSet::new();
        nodes.retain(|&node| seen.insert(node));
        let plans = nodes.into_iter().filter_map(|node| self.one_node(node, devices));
        plans.min_by_key(|plan| Cost::of_all(self.view, &plan.victims))
    }

    /// Why each victim of a plan was chosen.
    fn chosen(&self, plan: &Plan) -> Vec<Chosen> {
        if !self.rules.is_cheap {
            return vec![Chosen::LastInOrder; plan.victims.len()];
        }
        let others = self.worst().filter(|job| !plan.victims.contains(job));
        let cheapest = others.map(|job| Cost::of(self.view, job)).min();
        plan.victims.iter().map(|&job| Cost::of(self.view, job).chosen_over(cheapest)).collect()
    }

    fn worst_first(&self, devices: u32) -> Option<Plan> {
        let mut seen = BTreeSet::new();
        for job in self.worst() {
            for share in self.view.schedule().placement(job).unwrap_or_default() {
                if seen.insert(share.node)
                    && let Some(plan) = self.one_node(share.node, devices)
                {
                    return Some(plan);
                }
            }
        }
        None
    }

    /// As [`Self::worst_first`], for a gang that did not find room on other nodes before.
    fn touched_first(&self, devices: u32, touched: &[NodeId]) -> Option<Plan> {
        let touched: BTreeSet<NodeId> = touched.iter().copied().collect();
        let rank = |node: NodeId| {
            let worst = *self.victims_on(node).first()?;
            let shares = self.view.schedule().placement(worst.1).unwrap_or_default();
            let position = shares.iter().position(|share| share.node == node);
            Some((Reverse(worst), position, node))
        };
        let mut nodes: Vec<_> = touched.into_iter().filter_map(rank).collect();
        nodes.sort_unstable();
        nodes.into_iter().find_map(|(.., node)| self.one_node(node, devices))
    }

    /// Jobs of a node that can be preempted, the last one in the order first.
    fn victims_on(&self, node: NodeId) -> Vec<(Key, JobId)> {
        let mut jobs = Vec::new();
        self.view.schedule().jobs_on(self.view.topology(), node, &mut jobs);
        let mut victims: Vec<(Key, JobId)> = jobs
            .into_iter()
            .filter(|&job| self.is_victim(job))
            .filter_map(|job| Some((self.classes.running_key(job, self.view.now)?, job)))
            .collect();
        victims.sort_unstable_by_key(|&victim| Reverse(victim));
        victims
    }

    /// The fewest of a node's last jobs whose devices, with the free ones, are enough.
    fn one_node(&self, node: NodeId, devices: u32) -> Option<Plan> {
        let victims = self.leaving(node, devices, &BTreeSet::new())?;
        Some(Plan { victims, nodes: vec![(node, devices)] })
    }

    /// The fewest of a node's last jobs whose devices are enough, with the free ones and those of jobs that are stopped anyway.
    fn leaving(&self, node: NodeId, devices: u32, stopped: &BTreeSet<JobId>) -> Option<Vec<JobId>> {
        if !self.is_usable(node) {
            return None;
        }
        let schedule = self.view.schedule();
        let here = |job: JobId| {
            let shares = schedule.placement(job).unwrap_or_default();
            shares.iter().find(|share| share.node == node).map_or(0, |share| i64::from(share.devices.len()))
        };
        let mut victims = self.victims_on(node);
        if self.rules.is_cheap {
            victims.sort_by_key(|&(_, job)| Cost::of(self.view, job));
        }
        let vacated: i64 = stopped.iter().map(|&job| here(job)).sum();
        let mut missing = i64::from(devices) - i64::from(schedule.free(node).len()) - vacated;
        let mut chosen = Vec::new();
        for (_, job) in victims.into_iter().filter(|(_, job)| !stopped.contains(job)) {
            if missing <= 0 {
                break;
            }
            missing -= here(job);
            chosen.push(job);
        }
        if missing > 0 {
            return None;
        }
        // The last one chosen may have made others unnecessary: the first of them in the order keep their devices.
        for index in (0..chosen.len()).rev() {
            let given_back = missing + here(chosen[index]);
            if given_back <= 0 {
                missing = given_back;
                chosen.remove(index);
            }
        }
        Some(chosen)
    }

    /// Whether a node would be wholly free without its later jobs.
    fn is_clearable(&self, node: NodeId) -> bool {
        let mut jobs = Vec::new();
        self.view.schedule().jobs_on(self.view.topology(), node, &mut jobs);
        self.is_usable(node) && jobs.iter().all(|&job| self.is_victim(job))
    }

    /// Nodes of one type and switch that are free, or would be without their later jobs, and one more node for the remaining devices.
    fn whole_nodes(&self, devices: u32, node_size: u32) -> Option<Plan> {
        let topology = self.view.topology();
        let needed = (devices / node_size) as usize;
        let mut alike: BTreeMap<(DeviceTypeId, u32), BTreeSet<NodeId>> = BTreeMap::new();
        let index = self.view.schedule().free_index();
        let idle =
            self.types.iter().filter_map(|&kind| index.of_type(kind)).flat_map(|free| free.idle().iter());
        let idle: Vec<NodeId> = idle.take((needed + 1) * 4).collect();
        let candidates = self.candidates();
        let nodes_of = |job: &JobId| self.view.schedule().placement(*job).unwrap_or_default();
        let occupied = || candidates.iter().flat_map(nodes_of).map(|share| share.node);
        let clearable = occupied().filter(|&node| self.is_clearable(node));
        for node in idle.into_iter().chain(clearable) {
            let here = topology.node(node);
            if here.spec.devices < node_size {
                continue;
            }
            let nodes = alike.entry((here.device_type, here.spec.switch)).or_default();
            if nodes.len() < needed && nodes.insert(node) && nodes.len() == needed {
                let plan = self.clear(nodes, devices % node_size, node_size, occupied());
                if plan.is_some() {
                    return plan;
                }
            }
        }
        None
    }

    /// All devices of some nodes, and the remaining ones of another node that is like them.
    fn clear(
        &self,
        nodes: &BTreeSet<NodeId>,
        remaining: u32,
        node_size: u32,
        occupied: impl Iterator<Item = NodeId>,
    ) -> Option<Plan> {
        let mut victims = BTreeSet::new();
        let mut jobs = Vec::new();
        for &node in nodes {
            self.view.schedule().jobs_on(self.view.topology(), node, &mut jobs);
            victims.extend(jobs.iter().copied());
        }
        let mut shares: Vec<(NodeId, u32)> = nodes.iter().map(|&node| (node, node_size)).collect();
        if remaining > 0 {
            let (node, leaving) = self.remainder(nodes, remaining, &victims, occupied)?;
            victims.extend(leaving);
            shares.push((node, remaining));
        }
        Some(Plan { victims: victims.into_iter().collect(), nodes: shares })
    }

    /// A node for the remaining devices of a gang, and its jobs that have to leave: the node with the fewest free devices that are enough, else
    /// the first on which later jobs make room.
    fn remainder(
        &self,
        nodes: &BTreeSet<NodeId>,
        remaining: u32,
        stopped: &BTreeSet<JobId>,
        occupied: impl Iterator<Item = NodeId>,
    ) -> Option<(NodeId, Vec<JobId>)> {
        let topology = self.view.topology();
        let like = topology.node(*nodes.first()?);
        let is_alike = |node: NodeId| {
            let here = topology.node(node);
            (here.device_type, here.spec.switch) == (like.device_type, like.spec.switch)
                && !nodes.contains(&node)
        };
        let free = self.view.schedule().free_index().of_type(like.device_type)?;
        let with_room = (remaining..=free.devices_per_node_max())
            .filter_map(|count| free.with_exactly(count))
            .find_map(|with| with.iter().find(|&node| is_alike(node)));
        if let Some(node) = with_room {
            return Some((node, Vec::new()));
        }
        occupied
            .filter(|&node| is_alike(node))
            .find_map(|node| Some((node, self.leaving(node, remaining, stopped)?)))
    }
}
