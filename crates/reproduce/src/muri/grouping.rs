//! Muri's groups: which of the chosen jobs share a gang of devices.
//!
//! Jobs of one gang size are matched in rounds (pairs, then pairs of pairs) by interleaving efficiency, only as far as
//! the demand exceeds the cluster. What a group does depends on its members' profiles alone, of which there are few: profiles
//! are interned, and everything that is computed from a sequence of them is computed once.

use std::collections::HashMap;

use wharf_perf::interleave::GROUP_SIZE_MAX;
use wharf_perf::{Interleaving, Order, Stages};
use wharf_solver::matching::{Matcher, UNMATCHED};

use super::candidates::Candidates;
use super::cluster::Shape;
use super::numbers::Numbers;
use super::settings::Settings;
use super::workload::{Job, Workload};

/// Relative distance within which an efficiency counts as not above its bound.
const WEIGHT_TOLERANCE: f64 = 1e-5;
/// Kinds per gang size up to which pair weights are remembered in a table.
const TABLE_KINDS_MAX: usize = 1024;
/// Matchings that are remembered.
const MATCHINGS_MAX: usize = 1 << 12;
/// Fills unused places in a sequence of profiles.
const NONE: u32 = u32::MAX;

/// Jobs on one gang of devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    members: [u32; GROUP_SIZE_MAX],
    len: usize,
    pub size: usize,
    kind: u32,
    /// The members' priorities, and the best of them.
    keys: [f64; GROUP_SIZE_MAX],
    key: f64,
}

impl Group {
    /// The jobs, in the order in which they joined.
    pub(super) fn members(&self) -> &[u32] {
        &self.members[..self.len]
    }
}

/// A sequence of profiles of one gang size.
#[derive(Clone, Copy, Debug)]
struct Kind {
    profiles: [u32; GROUP_SIZE_MAX],
    len: usize,
    /// Row in the gang size's weight table.
    slot: usize,
    /// Seconds per iteration of each member.
    iteration_s: f64,
    /// Whether the members would be faster one after the other.
    slow: bool,
}

/// A job's stages and solo time; equal ones are interchangeable.
#[derive(Clone, Copy, Debug)]
struct Profile {
    stages: Stages,
    iteration_s: f64,
}

/// Forms groups, and remembers what it has computed.
pub(super) struct Grouper {
    model: Interleaving,
    ordering: Order,
    packing: usize,
    autopack: bool,
    blossom: bool,
    weight_bound: f64,
    device_count: u32,
    sizes: Vec<u32>,
    /// Whether first fit cannot fail while the demand is at most the cluster, whatever the order.
    always_fits: bool,
    profiles: Vec<Profile>,
    profile_of: Vec<u32>,
    kinds: Vec<Kind>,
    kind_ids: HashMap<[u32; GROUP_SIZE_MAX], u32>,
    slot_counts: Vec<usize>,
    /// Per gang size, by slots of the two kinds; NaN where not known yet.
    weights: Vec<Vec<Vec<f64>>>,
    matcher: Matcher,
    matchings: HashMap<Vec<u32>, Vec<usize>>,
    matrix: Vec<f64>,
}

impl Grouper {
    pub(super) fn new(workload: &Workload, shape: &Shape, settings: &Settings, numbers: &Numbers) -> Self {
        let mut grouper = Self {
            model: numbers.interleaving(settings.blossom),
            ordering: settings.ordering,
            packing: settings.packing_num,
            autopack: settings.autopack,
            blossom: settings.blossom,
            weight_bound: numbers.weight_lbd,
            device_count: shape.devices(),
            sizes: workload.sizes.clone(),
            always_fits: shape.never_fragments(&workload.sizes),
            profiles: Vec::new(),
            profile_of: Vec::with_capacity(workload.jobs.len()),
            kinds: Vec::new(),
            kind_ids: HashMap::new(),
            slot_counts: vec![0; workload.sizes.len()],
            weights: vec![Vec::new(); workload.sizes.len()],
            matcher: Matcher::new(),
            matchings: HashMap::new(),
            matrix: Vec::new(),
        };
        let mut ids = HashMap::new();
        for job in &workload.jobs {
            let id = *ids.entry(profile_key(job)).or_insert_with(|| {
                grouper.profiles.push(Profile { stages: job.stages, iteration_s: job.iteration_s });
                grouper.intern([grouper.profiles.len() as u32 - 1, NONE, NONE, NONE], 1, job.size)
            });
            grouper.profile_of.push(id);
        }
        grouper
    }

    /// Seconds per iteration of a group's members.
    pub(super) fn iteration_s(&self, group: &Group) -> f64 {
        self.kinds[group.kind as usize].iteration_s
    }

    /// Groups the chosen jobs. The groups come in the order in which first fit should try them; the flag says
    /// that all fit.
    pub(super) fn form(&mut self, candidates: &Candidates<'_>) -> (Vec<Group>, bool) {
        let (mut groups, order_unknown) = self.raw_groups(candidates, false);
        if !self.autopack {
            // The published code then places without trying first.
            return (groups, true);
        }
        groups = self.split_slow(groups);
        let demand: u32 = groups.iter().map(|group| self.sizes[group.size]).sum();
        if self.always_fits && demand <= self.device_count {
            return (groups, true);
        }
        if order_unknown {
            groups = self.raw_groups(candidates, true).0;
            groups = self.split_slow(groups);
        }
        groups.sort_by(|a, b| a.key.total_cmp(&b.key));
        (groups, false)
    }

    /// Groups before slow ones are split. Unless `exact`, matching stops once the demand fits; where that leaves
    /// the order of groups with equal priorities undecided, the flag is set.
    fn raw_groups(&mut self, candidates: &Candidates<'_>, exact: bool) -> (Vec<Group>, bool) {
        let mut required: u32 =
            (0..self.sizes.len()).map(|size| self.sizes[size] * candidates.chosen[size] as u32).sum();
        if !self.blossom {
            return (self.neighbour_groups(candidates, required), false);
        }
        let mut buckets: Vec<Vec<Group>> = candidates
            .bucket_order
            .iter()
            .map(|&size| {
                candidates.chosen(size).iter().map(|&(key, job)| self.single(size, key, job)).collect()
            })
            .collect();
        let mut order_unknown = false;
        for _ in 0..self.packing {
            for bucket in &mut buckets {
                if !exact && required <= self.device_count {
                    order_unknown |= has_equal_keys(bucket);
                    continue;
                }
                self.match_bucket(bucket, &mut required);
            }
            if required <= self.device_count {
                break;
            }
        }
        (buckets.into_iter().flatten().collect(), order_unknown)
    }

    /// The variant without matching: runs of neighbours, joined while the demand exceeds the cluster.
    fn neighbour_groups(&mut self, candidates: &Candidates<'_>, mut required: u32) -> Vec<Group> {
        let mut groups = Vec::new();
        for &size in &candidates.bucket_order {
            for run in candidates.chosen(size).chunks(self.packing).take(candidates.slots[size]) {
                let mut group: Option<Group> = None;
                for &(key, job) in run {
                    let single = self.single(size, key, job);
                    match &mut group {
                        None => group = Some(single),
                        Some(group) if required > self.device_count => {
                            *group = self.merge(group, &single);
                            required -= self.sizes[size];
                        }
                        Some(_) => groups.push(single),
                    }
                }
                groups.extend(group);
            }
        }
        groups
    }

    /// One matching round over a gang size's groups; partners are merged while the demand exceeds the cluster.
    fn match_bucket(&mut self, bucket: &mut Vec<Group>, required: &mut u32) {
        let Some(first) = bucket.first() else { return };
        let devices = self.sizes[first.size];
        let mates = self.mates(bucket);
        let Some(mates) = mates else { return };
        let groups = std::mem::take(bucket);
        for (index, group) in groups.iter().enumerate() {
            let mate = mates[index];
            if mate == UNMATCHED || mates[mate] != index {
                bucket.push(*group);
            } else if mate < index {
                if *required <= self.device_count {
                    bucket.extend([groups[mate], *group]);
                } else {
                    bucket.push(self.merge(&groups[mate], group));
                    *required -= devices;
                }
            }
        }
        if self.matchings.len() < MATCHINGS_MAX {
            self.matchings.insert(groups.iter().map(|group| group.kind).collect(), mates);
        }
    }

    /// Each group's partner; `None` where no two can be partners. Taken out of the memory, for the caller to put back.
    fn mates(&mut self, bucket: &[Group]) -> Option<Vec<usize>> {
        let mut lens: Vec<usize> = bucket.iter().map(|group| group.len).collect();
        lens.sort_unstable();
        if lens.len() < 2 || lens[0] + lens[1] > self.packing {
            return None;
        }
        let sequence: Vec<u32> = bucket.iter().map(|group| group.kind).collect();
        if let Some(mates) = self.matchings.remove(&sequence) {
            return Some(mates);
        }
        let n = bucket.len();
        let mut distinct = sequence.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let size = bucket[0].size;
        let table: Vec<f64> = distinct
            .iter()
            .flat_map(|&a| distinct.iter().map(move |&b| (a, b)))
            .map(|(a, b)| self.weight(size, a, b))
            .collect();
        let place = |kind: &u32| distinct.partition_point(|other| other < kind);
        let places: Vec<usize> = sequence.iter().map(place).collect();
        self.matrix.clear();
        for &row in &places {
            let row = &table[row * distinct.len()..][..distinct.len()];
            self.matrix.extend(places.iter().map(|&column| row[column]));
        }
        Some(self.matcher.solve(n, &self.matrix).to_vec())
    }

    /// The efficiency of two groups together, or 0 where they may not be joined.
    fn weight(&mut self, size: usize, a: u32, b: u32) -> f64 {
        let (kind_a, kind_b) = (self.kinds[a as usize], self.kinds[b as usize]);
        let len = kind_a.len + kind_b.len;
        if len > self.packing {
            return 0.0;
        }
        let remembered = kind_a.slot < TABLE_KINDS_MAX && kind_b.slot < TABLE_KINDS_MAX;
        if remembered {
            let rows = &mut self.weights[size];
            rows.resize(rows.len().max(kind_a.slot + 1), Vec::new());
            let row = &mut rows[kind_a.slot];
            row.resize(row.len().max(kind_b.slot + 1), f64::NAN);
            if !row[kind_b.slot].is_nan() {
                return row[kind_b.slot];
            }
        }
        let stages = self.stages(join(&kind_a, &kind_b));
        let efficiency = self.model.efficiency(&stages[..len], 0.0, self.ordering);
        let bound = self.weight_bound * (len as f64 / f64::from(self.model.resources));
        let above = efficiency > bound
            && (efficiency - bound).abs() > WEIGHT_TOLERANCE * efficiency.abs().max(bound.abs());
        let weight = if above { efficiency } else { 0.0 };
        if remembered {
            self.weights[size][kind_a.slot][kind_b.slot] = weight;
        }
        weight
    }

    /// Splits groups that are slower than their members one after the other. Always assumes the best order.
    fn split_slow(&self, groups: Vec<Group>) -> Vec<Group> {
        if !groups.iter().any(|group| self.kinds[group.kind as usize].slow) {
            return groups;
        }
        let mut split = Vec::with_capacity(groups.len());
        for group in groups {
            if self.kinds[group.kind as usize].slow {
                for (&job, &key) in group.members().iter().zip(&group.keys) {
                    split.push(self.single(group.size, key, job));
                }
            } else {
                split.push(group);
            }
        }
        split
    }

    fn single(&self, size: usize, key: f64, job: u32) -> Group {
        let kind = self.profile_of[job as usize];
        Group { members: [job, NONE, NONE, NONE], len: 1, size, kind, keys: [key; GROUP_SIZE_MAX], key }
    }

    fn merge(&mut self, a: &Group, b: &Group) -> Group {
        let (kind_a, kind_b) = (self.kinds[a.kind as usize], self.kinds[b.kind as usize]);
        let kind = self.intern(join(&kind_a, &kind_b), kind_a.len + kind_b.len, a.size);
        let mut group = *a;
        group.members[a.len..a.len + b.len].copy_from_slice(b.members());
        group.keys[a.len..a.len + b.len].copy_from_slice(&b.keys[..b.len]);
        group.len += b.len;
        group.kind = kind;
        group.key = if b.key < a.key { b.key } else { a.key };
        group
    }

    fn intern(&mut self, profiles: [u32; GROUP_SIZE_MAX], len: usize, size: usize) -> u32 {
        if let Some(&id) = self.kind_ids.get(&profiles) {
            return id;
        }
        let id = self.kinds.len() as u32;
        let stages = self.stages(profiles);
        let solo_s = self.profiles[profiles[0] as usize].iteration_s;
        let all_solo_s = profiles[..len]
            .iter()
            .fold(0.0, |sum, &profile| sum + self.profiles[profile as usize].iteration_s);
        let iteration_s = self.model.iteration_s(&stages[..len], solo_s, self.ordering);
        let best_s = self.model.iteration_s(&stages[..len], solo_s, Order::Best);
        // Full groups are never weighed.
        let slot = if len < self.packing { self.slot_counts[size] } else { usize::MAX };
        self.slot_counts[size] += usize::from(len < self.packing);
        self.kinds.push(Kind {
            profiles,
            len,
            slot,
            iteration_s,
            slow: len > 1 && best_s / all_solo_s > 1.0,
        });
        self.kind_ids.insert(profiles, id);
        id
    }

    fn stages(&self, profiles: [u32; GROUP_SIZE_MAX]) -> [Stages; GROUP_SIZE_MAX] {
        profiles.map(|profile| self.profiles.get(profile as usize).map_or(Stages::default(), |p| p.stages))
    }
}

fn join(a: &Kind, b: &Kind) -> [u32; GROUP_SIZE_MAX] {
    let mut profiles = a.profiles;
    profiles[a.len..a.len + b.len].copy_from_slice(&b.profiles[..b.len]);
    profiles
}

/// What makes jobs interchangeable to the interleaving model.
fn profile_key(job: &Job) -> (usize, [u64; 4]) {
    let Stages { data_s, compute_s, network_s } = job.stages;
    (job.size, [job.iteration_s, data_s, compute_s, network_s].map(f64::to_bits))
}

fn has_equal_keys(bucket: &[Group]) -> bool {
    let mut keys: Vec<f64> = bucket.iter().map(|group| group.key).collect();
    keys.sort_unstable_by(f64::total_cmp);
    keys.windows(2).any(|pair| pair[0] == pair[1])
}
