//! Muri: jobs that need different resources at different times share devices, taking turns.

mod capacity;
mod grouping;

use std::collections::BTreeMap;

use wharf_core::{Gang, JobId, Knowledge, View};

use crate::priority::Key;
use crate::rebuild::{Group, Propose};
use capacity::Capacity;
use grouping::{Grouping, Team};

/// Who goes first.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// The least remaining service (Muri-S).
    Remaining,
    /// The least attained service (Muri-L).
    Attained,
    /// Queues by attained service, first come first served in each (Muri-L with Tiresias' queues).
    Queues {
        /// Device-seconds at which a job leaves each queue but the last; ascending.
        limits_s: Vec<f64>,
    },
}

/// What can be chosen about Muri.
#[derive(Clone, Debug, PartialEq)]
pub struct MuriOptions {
    /// Who goes first.
    pub service: Service,
    /// Most jobs in a group: 1 to 4.
    pub packing: usize,
    /// Whether groups come from matching, or are neighbours in the order.
    pub blossom: bool,
    /// Whether a group must be faster than its members one after the other.
    pub autopack: bool,
    /// How many times more service a running job must have than a waiting one to be stopped for it.
    pub preempt_ratio: f64,
    /// Seconds between rounds: what a change must pay off in.
    pub round_s: f64,
}

/// Muri's groups (SIGCOMM'22), for [`Rebuild`](crate::rebuild::Rebuild).
pub struct Muri {
    options: MuriOptions,
    grouping: Grouping,
}

/// Jobs with equal gangs that can be grouped with each other, or that cannot be grouped at all.
struct Bucket {
    gang: Gang,
    is_groupable: bool,
    /// In order.
    jobs: Vec<(Key, JobId)>,
    /// How many of them can be served now, in groups if need be.
    chosen: usize,
    is_full: bool,
    teams: Vec<Team>,
}

impl Muri {
    /// Muri with these options.
    pub fn new(options: MuriOptions) -> Self {
        let grouping = Grouping::new(options.packing, options.autopack);
        Self { options, grouping }
    }

    fn key_of(&self, view: &View<'_>, job: JobId, is_running: bool) -> Key {
        let devices = f64::from(view.spec(job).gang.devices);
        let attained = view.attained_s(job) * devices;
        // A running job keeps its devices unless another one is better by a clear margin.
        let favour = if is_running { self.options.preempt_ratio } else { 1.0 };
        match &self.options.service {
            Service::Remaining => Key::of(view.remaining_s(job).unwrap_or(attained) * devices / favour),
            Service::Attained => Key::of(attained / favour),
            Service::Queues { limits_s } => {
                let level = limits_s.partition_point(|&limit| limit <= attained) as u32;
                Key::in_level(level, view.spec(job).submit.seconds())
            }
        }
    }

    /// All jobs by gang, and the order of all: each is a bucket's index.
    fn buckets(&self, view: &View<'_>, waiting: &[JobId], running: &[Group]) -> (Vec<Bucket>, Vec<usize>) {
        let mut jobs: Vec<(Key, JobId)> =
            waiting.iter().map(|&job| (self.key_of(view, job, false), job)).collect();
        jobs.extend(running.iter().flatten().map(|&job| (self.key_of(view, job, true), job)));
        jobs.sort_unstable();
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut order = Vec::with_capacity(jobs.len());
        for (key, job) in jobs {
            let spec = view.spec(job);
            // Processors and memory are not shared, so a job that needs some stays alone.
            let may_share = spec.stages.is_some() && spec.gang.needs.is_none();
            let is_groupable = may_share && self.options.packing > 1;
            let known = buckets
                .iter()
                .position(|bucket| bucket.is_groupable == is_groupable && bucket.gang == spec.gang);
            let index = known.unwrap_or_else(|| {
                let (gang, jobs, teams) = (spec.gang.clone(), Vec::new(), Vec::new());
                buckets.push(Bucket { gang, is_groupable, jobs, chosen: 0, is_full: false, teams });
                buckets.len() - 1
            });
            buckets[index].jobs.push((key, job));
            order.push(index);
        }
        (buckets, order)
    }

    /// Chooses the first jobs that could be served if every gang of devices took a full group.
    fn choose(&self, view: &View<'_>, buckets: &mut [Bucket], order: &[usize], mut capacity: Capacity) {
        let mut met = vec![0; buckets.len()];
        for &index in order {
            let bucket = &mut buckets[index];
            met[index] += 1;
            if bucket.is_full || met[index] <= bucket.chosen {
                continue;
            }
            if capacity.take(view, &bucket.gang) {
                let packing = if bucket.is_groupable { self.options.packing } else { 1 };
                bucket.chosen = (bucket.chosen + packing).min(bucket.jobs.len());
            } else {
                bucket.is_full = true;
            }
        }
    }

    /// The chosen jobs, each alone or in the group in which it runs, if all of that group are chosen.
    fn form_teams(&mut self, view: &View<'_>, buckets: &mut [Bucket], running: &[Group]) {
        let group_of: BTreeMap<JobId, usize> = running
            .iter()
            .enumerate()
            .flat_map(|(index, group)| group.iter().map(move |&job| (job, index)))
            .collect();
        for bucket in buckets {
            let mut by_group: BTreeMap<usize, Vec<Team>> = BTreeMap::new();
            for &(key, job) in &bucket.jobs[..bucket.chosen] {
                let group = group_of.get(&job);
                let single = self.grouping.single(view, key, job, group.is_some());
                match group {
                    Some(&group) => by_group.entry(group).or_default().push(single),
                    None => bucket.teams.push(single),
                }
            }
            for (group, members) in by_group {
                if members.len() == running[group].len() {
                    let team = members.into_iter().reduce(|team, member| Grouping::join(&team, &member));
                    bucket.teams.extend(team.map(Team::running_now));
                } else {
                    bucket.teams.extend(members);
                }
            }
            bucket.teams.sort_by(|a, b| a.key.cmp(&b.key).then_with(|| a.members.cmp(&b.members)));
        }
    }

    /// Joins teams as far as the devices do not do otherwise.
    fn join_teams(&mut self, view: &View<'_>, buckets: &mut [Bucket], devices: u32) {
        let rounds = if self.options.blossom { self.options.packing } else { 1 };
        for _ in 0..rounds {
            for index in 0..buckets.len() {
                let mut excess = demand(buckets).saturating_sub(devices);
                let bucket = &mut buckets[index];
                if excess == 0 {
                    return;
                }
                if !bucket.is_groupable {
                    continue;
                }
                let gang = bucket.gang.devices;
                if self.options.blossom {
                    self.grouping.match_round(view, &mut bucket.teams, gang, &mut excess);
                } else {
                    self.grouping.join_neighbours(view, &mut bucket.teams, gang, &mut excess);
                }
            }
        }
    }

    /// Gives the members of running groups devices of their own where these are to spare and it pays within a round.
    fn split_teams(&mut self, view: &View<'_>, buckets: &mut [Bucket], devices: u32) {
        let mut spare = devices.saturating_sub(demand(buckets));
        for bucket in buckets {
            let gang = bucket.gang.devices;
            let teams = std::mem::take(&mut bucket.teams);
            for team in teams {
                let more = gang * (team.members.len() as u32 - 1);
                let restart = view.perf().restart_s(view.spec(team.members[0])) / self.options.round_s;
                let is_split = more > 0
                    && more <= spare
                    && team.is_running
                    && self.grouping.split_gain(view, &team) > restart;
                if is_split {
                    spare -= more;
                    let singles = team.members.iter().map(|&job| {
                        let key = self.key_of(view, job, true);
                        self.grouping.single(view, key, job, true)
                    });
                    bucket.teams.extend(singles.collect::<Vec<_>>());
                } else {
                    bucket.teams.push(team);
                }
            }
        }
    }
}

/// Devices that all teams need.
fn demand(buckets: &[Bucket]) -> u32 {
    buckets.iter().map(|bucket| bucket.gang.devices * bucket.teams.len() as u32).sum()
}

impl Propose for Muri {
    fn knowledge(&self) -> Knowledge {
        match self.options.service {
            Service::Remaining => Knowledge::Durations,
            Service::Attained | Service::Queues { .. } => Knowledge::Attained,
        }
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        self.key_of(view, job, false)
    }

    fn propose(
        &mut self,
        view: &View<'_>,
        waiting: &[JobId],
        running: &[Group],
        pinned: &[Group],
    ) -> Vec<Group> {
        let (mut buckets, order) = self.buckets(view, waiting, running);
        let mut capacity = Capacity::beside(view, pinned);
        self.choose(view, &mut buckets, &order, capacity.clone());
        self.form_teams(view, &mut buckets, running);
        self.join_teams(view, &mut buckets, capacity.devices());
        self.split_teams(view, &mut buckets, capacity.devices());
        let mut teams: Vec<(Key, Vec<JobId>)> = buckets
            .into_iter()
            .flat_map(|bucket| bucket.teams)
            .map(|team| (team.key, team.members))
            .collect();
        teams.sort_unstable();
        teams.retain(|(_, members)| capacity.take(view, &view.spec(members[0]).gang));
        teams.into_iter().map(|(_, members)| members).collect()
    }
}
