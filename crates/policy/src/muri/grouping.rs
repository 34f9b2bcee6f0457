//! Which jobs of one gang size share their devices: rounds of matching by interleaving efficiency.
//!
//! What a group does depends on its members' stage times alone, of which there are few in most workloads: equal ones get
//! one number, and what is computed from a set of such numbers is computed once.

use std::collections::BTreeMap;

use wharf_core::{JobId, View};
use wharf_perf::Stages;
use wharf_perf::interleave::GROUP_SIZE_MAX;
use wharf_solver::matching::{Matcher, mutual_pairs};

use crate::priority::Key;

/// Most groups that are matched at once: matching costs the cube of this. Neighbours in the order are matched.
const BLOCK: usize = 64;
/// Resources whose use counts: storage, CPU, device, network.
const RESOURCES: f64 = 4.0;
/// Group times that are remembered.
const TIMES_MAX: usize = 1 << 18;
/// Fills unused places in a set of profiles.
const NONE: u32 = u32::MAX;

/// Jobs that are to share a gang.
#[derive(Clone, Debug)]
pub(super) struct Team {
    pub(super) members: Vec<JobId>,
    pub(super) key: Key,
    /// Members that run already and would have to be restarted.
    pub(super) running: usize,
    /// Whether exactly these run together now.
    pub(super) is_running: bool,
    profiles: [u32; GROUP_SIZE_MAX],
    /// Seconds of use of all resources in one iteration of each member.
    used_s: f64,
    solo_s: f64,
}

impl Team {
    /// The same team, which runs together now.
    pub(super) fn running_now(self) -> Self {
        Self { is_running: true, ..self }
    }
}

/// Joins teams, and remembers how fast they are.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    /// Most jobs in a team.
    pub(super) packing: usize,
    /// Whether a team must be faster than its members one after the other.
    pub(super) autopack: bool,
    profiles: BTreeMap<[u64; 4], u32>,
    times: BTreeMap<[u32; GROUP_SIZE_MAX], f64>,
    matcher: Matcher,
    weights: Vec<f64>,
}

impl Grouping {
    pub(super) fn new(packing: usize, autopack: bool) -> Self {
        Self { packing, autopack, ..Self::default() }
    }

    /// A job on its own.
    pub(super) fn single(&mut self, view: &View<'_>, key: Key, job: JobId, is_running: bool) -> Team {
        let spec = view.spec(job);
        let stages = spec.stages.map(Stages::from).unwrap_or_default();
        let bits = [spec.iteration_ms / 1000.0, stages.data_s, stages.compute_s, stages.network_s];
        let next = self.profiles.len() as u32;
        let profile = *self.profiles.entry(bits.map(f64::to_bits)).or_insert(next);
        Team {
            members: vec![job],
            key,
            running: usize::from(is_running),
            is_running: false,
            profiles: [profile, NONE, NONE, NONE],
            used_s: stages.total_s(),
            solo_s: spec.iteration_ms / 1000.0,
        }
    }

    /// Two teams as one.
    pub(super) fn join(a: &Team, b: &Team) -> Team {
        let mut members = [a.members.as_slice(), &b.members].concat();
        members.sort_unstable();
        let mut profiles = [NONE; GROUP_SIZE_MAX];
        let both = a.profiles.iter().chain(&b.profiles).filter(|&&profile| profile != NONE);
        for (place, &profile) in profiles.iter_mut().zip(both) {
            *place = profile;
        }
        profiles.sort_unstable();
        Team {
            members,
            key: a.key.min(b.key),
            running: a.running + b.running,
            is_running: false,
            profiles,
            used_s: a.used_s + b.used_s,
            solo_s: a.solo_s + b.solo_s,
        }
    }

    /// Seconds in which every member of a team makes one iteration, as the performance model sees it.
    pub(super) fn time_s(&mut self, view: &View<'_>, team: &Team) -> f64 {
        if let Some(&time_s) = self.times.get(&team.profiles) {
            return time_s;
        }
        let specs: Vec<_> = team.members.iter().map(|&job| view.spec(job)).collect();
        let time_s = (0..specs.len())
            .map(|own| {
                let others: Vec<_> = specs
                    .iter()
                    .enumerate()
                    .filter(|&(other, _)| other != own)
                    .map(|(_, &spec)| spec)
                    .collect();
                view.perf().iteration_s(view.topology(), specs[own], &[], &others)
            })
            .fold(0.0, f64::max);
        if self.times.len() >= TIMES_MAX {
            self.times.clear();
        }
        self.times.insert(team.profiles, time_s);
        time_s
    }

    /// How much faster than together the members of a team would run alone, on average: 0.2 means 20 %.
    pub(super) fn split_gain(&mut self, view: &View<'_>, team: &Team) -> f64 {
        let alone_s = team.solo_s / team.members.len() as f64;
        1.0 - alone_s / self.time_s(view, team)
    }

    /// The share of all resources' time that two teams would use together, or 0 where they may not be joined.
    fn weight(&mut self, view: &View<'_>, a: &Team, b: &Team) -> f64 {
        if a.members.len() + b.members.len() > self.packing {
            return 0.0;
        }
        let both = Self::join(a, b);
        let time_s = self.time_s(view, &both);
        let is_slow = self.autopack && time_s > both.solo_s;
        if is_slow || time_s <= 0.0 { 0.0 } else { both.used_s / (time_s * RESOURCES) }
    }

    /// One round of matching; partners are joined, the most efficient first, while `excess` devices are missing.
    pub(super) fn match_round(
        &mut self,
        view: &View<'_>,
        teams: &mut Vec<Team>,
        devices: u32,
        excess: &mut u32,
    ) {
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for (block, members) in teams.chunks(BLOCK).enumerate() {
            let first = block * BLOCK;
            let matched = self.match_block(view, members);
            pairs.extend(matched.into_iter().map(|(weight, a, b)| (weight, first + a, first + b)));
        }
        // Most pairs weigh the same as others; of those, take the ones with the fewest restarts.
        let restarts = |&(_, a, b): &(f64, usize, usize)| teams[a].running + teams[b].running;
        pairs.sort_by(|x, y| y.0.total_cmp(&x.0).then(restarts(x).cmp(&restarts(y))).then(x.1.cmp(&y.1)));
        let mut is_joined = vec![false; teams.len()];
        let mut joined = Vec::new();
        for (_, a, b) in pairs {
            if *excess == 0 {
                break;
            }
            joined.push(Self::join(&teams[a], &teams[b]));
            (is_joined[a], is_joined[b]) = (true, true);
            *excess = excess.saturating_sub(devices);
        }
        let mut index = 0;
        teams.retain(|_| {
            index += 1;
            !is_joined[index - 1]
        });
        teams.append(&mut joined);
        teams.sort_by(|a, b| a.key.cmp(&b.key).then_with(|| a.members.cmp(&b.members)));
    }

    fn match_block(&mut self, view: &View<'_>, teams: &[Team]) -> Vec<(f64, usize, usize)> {
        let n = teams.len();
        if n < 2 {
            return Vec::new();
        }
        let mut weights = std::mem::take(&mut self.weights);
        weights.clear();
        weights.resize(n * n, 0.0);
        for a in 0..n {
            for b in a + 1..n {
                let weight = self.weight(view, &teams[a], &teams[b]);
                weights[a * n + b] = weight;
                weights[b * n + a] = weight;
            }
        }
        let mates = self.matcher.solve(n, &weights);
        let pairs = mutual_pairs(mates).map(|(a, b)| (weights[a * n + b], a, b)).collect();
        self.weights = weights;
        pairs
    }

    /// The variant without matching: neighbours in the order are joined while devices are missing.
    pub(super) fn join_neighbours(
        &mut self,
        view: &View<'_>,
        teams: &mut Vec<Team>,
        devices: u32,
        excess: &mut u32,
    ) {
        let mut joined: Vec<Team> = Vec::with_capacity(teams.len());
        for team in teams.drain(..) {
            let partner = joined.last().filter(|_| *excess > 0);
            match partner.map(|last| (self.weight(view, last, &team), Self::join(last, &team))) {
                Some((weight, both)) if weight > 0.0 => {
                    joined.pop();
                    joined.push(both);
                    *excess = excess.saturating_sub(devices);
                }
                _ => joined.push(team),
            }
        }
        *teams = joined;
    }
}
