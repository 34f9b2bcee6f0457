//! What can be given devices: jobs, and pairs of jobs where these are packed; with what they have had and should have.
//!
//! The published code keeps dictionaries, and their order decides between equals. Keys are numbered as they come, so the
//! number is that order.

use std::collections::HashMap;

use super::workload::Workload;

/// No second member.
pub(super) const NO_JOB: u32 = u32::MAX;

/// More pairs than this are refused: they are kept one by one.
pub(super) const PAIRS_MAX: usize = 4_000_000;

/// A job or a pair of jobs, smaller number first.
pub(super) type Members = [u32; 2];

/// The members that there are.
pub(super) fn singles(members: &Members) -> &[u32] {
    if members[1] == NO_JOB { &members[..1] } else { members }
}

/// All keys, as parallel lists. Lists of numbers have one for each type.
#[derive(Debug, Default)]
pub(super) struct Keys {
    width: usize,
    pub members: Vec<Members>,
    pub gang: Vec<u32>,
    pub is_alive: Vec<bool>,
    /// Whether the shares in force were computed with it.
    pub is_shared: Vec<bool>,
    /// Row in `speeds`.
    row: Vec<u32>,
    /// Seconds received since the last reset, plus half a round.
    pub time: Vec<f64>,
    /// Seconds owed at the last reset.
    pub deficit: Vec<f64>,
    /// The share of time that it should have.
    pub share: Vec<f64>,
    /// The key of each job by itself.
    pub single: Vec<u32>,
    /// Steps per second of both members, each row with all types.
    speeds: Vec<[f64; 2]>,
    rows: HashMap<(u32, u32), u32>,
    dead_count: usize,
}

impl Keys {
    pub(super) fn new(width: usize, job_count: usize) -> Self {
        Self { width, single: vec![NO_JOB; job_count], ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Steps per second of the members on a type.
    pub(super) fn speeds(&self, key: u32, device_type: usize) -> [f64; 2] {
        self.speeds[self.row[key as usize] as usize * self.width + device_type]
    }

    /// Whether all members get on there.
    pub(super) fn can_run(&self, key: u32, device_type: usize) -> bool {
        let [first, second] = self.speeds(key, device_type);
        first > 0.0 && second > 0.0
    }

    /// Adds a job.
    pub(super) fn add(&mut self, job: u32, half_round_s: f64, workload: &Workload<'_>) {
        let class = workload.jobs[job as usize].class;
        let row =
            self.find_row((class, NO_JOB), || workload.speeds(job).iter().map(|&speed| [speed; 2]).collect());
        self.single[job as usize] = self.len() as u32;
        self.push([job, NO_JOB], workload.jobs[job as usize].gang, row, half_round_s);
    }

    /// Adds a pair of jobs with equal gangs. Its first reset finds it half a round short, unlike a job's.
    pub(super) fn add_pair(&mut self, older: u32, newer: u32, workload: &Workload<'_>) {
        let (first, second) = (&workload.jobs[older as usize], &workload.jobs[newer as usize]);
        let classes = (first.class, second.class);
        let row = self.find_row(classes, || workload.speeds_beside(classes.0, classes.1));
        self.push([older, newer], first.gang, row, 0.0);
    }

    fn find_row(&mut self, classes: (u32, u32), speeds: impl FnOnce() -> Vec<[f64; 2]>) -> u32 {
        *self.rows.entry(classes).or_insert_with(|| {
            self.speeds.extend(speeds());
            (self.speeds.len() / self.width) as u32 - 1
        })
    }

    fn push(&mut self, members: Members, gang: u32, row: u32, time: f64) {
        self.members.push(members);
        self.gang.push(gang);
        self.row.push(row);
        self.is_alive.push(true);
        self.is_shared.push(false);
        self.time.resize(self.time.len() + self.width, time);
        self.deficit.resize(self.deficit.len() + self.width, 0.0);
        self.share.resize(self.share.len() + self.width, 0.0);
    }

    /// Removes a job and its pairs.
    pub(super) fn remove(&mut self, job: u32, is_packed: bool) {
        let single = self.single[job as usize] as usize;
        self.is_alive[single] = false;
        self.dead_count += 1;
        self.single[job as usize] = NO_JOB;
        if is_packed {
            for (members, is_alive) in self.members.iter().zip(&mut self.is_alive) {
                if *is_alive && members.contains(&job) {
                    *is_alive = false;
                    self.dead_count += 1;
                }
            }
        }
    }

    /// Notes what each job is owed since the last reset, and begins again. Returns the seconds of a type's keys.
    pub(super) fn reset(&mut self, elapsed_s: f64, half_round_s: f64) -> f64 {
        for (key, is_alive) in self.is_alive.iter().enumerate() {
            if !is_alive {
                continue;
            }
            for place in key * self.width..(key + 1) * self.width {
                let received_s = self.time[place] - half_round_s;
                let due_s = if self.is_shared[key] { self.share[place] * elapsed_s } else { 0.0 };
                self.deficit[place] += due_s - received_s;
                self.time[place] = half_round_s;
            }
        }
        // Added up as published: half a round need not be a round number.
        self.is_alive.iter().filter(|is_alive| **is_alive).fold(0.0, |sum, _| sum + half_round_s)
    }

    /// Drops removed keys once they are the greater part. Returns the new number of each, where that was done.
    pub(super) fn compact(&mut self) -> Option<Vec<u32>> {
        if self.dead_count * 2 <= self.len() {
            return None;
        }
        let mut moved = vec![NO_JOB; self.len()];
        let mut next = 0;
        for (key, place) in moved.iter_mut().enumerate() {
            if !self.is_alive[key] {
                continue;
            }
            *place = next as u32;
            self.members[next] = self.members[key];
            self.gang[next] = self.gang[key];
            self.row[next] = self.row[key];
            self.is_shared[next] = self.is_shared[key];
            for list in [&mut self.time, &mut self.deficit, &mut self.share] {
                list.copy_within(key * self.width..(key + 1) * self.width, next * self.width);
            }
            next += 1;
        }
        for list in [&mut self.time, &mut self.deficit, &mut self.share] {
            list.truncate(next * self.width);
        }
        self.members.truncate(next);
        self.gang.truncate(next);
        self.row.truncate(next);
        self.is_shared.truncate(next);
        self.is_alive = vec![true; next];
        for single in self.single.iter_mut().filter(|single| **single != NO_JOB) {
            *single = moved[*single as usize];
        }
        self.dead_count = 0;
        Some(moved)
    }
}
