//! Who runs in the next round: for each type, those who are furthest behind their share, until its devices are given out.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::keys::{Keys, singles};

/// A key that may be chosen; the greatest goes first.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    priority: f64,
    deficit: f64,
    share: f64,
    key: u32,
}

impl Candidate {
    fn compare(&self, other: &Self) -> Ordering {
        let by = |one: f64, other: f64| one.partial_cmp(&other).unwrap_or(Ordering::Equal);
        by(self.priority, other.priority)
            .then_with(|| by(self.deficit, other.deficit))
            .then_with(|| by(self.share, other.share))
            // Equals keep the order in which they came.
            .then_with(|| other.key.cmp(&self.key))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other)
    }
}

/// What selection keeps from one round to the next.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Keys with a share of each type on which they get on: only these have a priority above zero.
    entitled: Vec<Vec<u32>>,
    /// All others that get on there, in the order in which they are checked; made when it is first needed.
    others: Vec<Option<Vec<u32>>>,
    /// Which jobs were chosen this round: the number of the round.
    chosen: Vec<u64>,
    round: u64,
    heap: Vec<Candidate>,
}

/// What a round has to give.
pub(super) struct Offer<'a> {
    pub keys: &'a Keys,
    pub capacities: &'a [u32],
    /// Seconds received on each type, by all keys together.
    pub worker_time: &'a [f64],
    /// Jobs in the system.
    pub job_count: usize,
    /// Whether no job runs without a share.
    pub is_strict: bool,
}

impl Selection {
    pub(super) fn new(width: usize, job_count: usize) -> Self {
        Self {
            entitled: vec![Vec::new(); width],
            others: vec![None; width],
            chosen: vec![0; job_count],
            ..Self::default()
        }
    }

    /// Shares have changed, and deficits with them.
    pub(super) fn renew(&mut self, keys: &Keys) {
        let width = self.entitled.len();
        for (device_type, entitled) in self.entitled.iter_mut().enumerate() {
            entitled.clear();
            let is_entitled = |key: &u32| {
                let place = *key as usize * width + device_type;
                keys.is_alive[*key as usize] && keys.share[place] != 0.0 && keys.can_run(*key, device_type)
            };
            entitled.extend((0..keys.len() as u32).filter(is_entitled));
        }
        self.forget_others();
    }

    /// Keys were added.
    pub(super) fn forget_others(&mut self) {
        self.others.iter_mut().for_each(|others| *others = None);
    }

    /// Chooses for each type in that order. Keys that have no share yet are chosen too, and block what they are given.
    pub(super) fn choose(&mut self, offer: &Offer<'_>, order: &[usize], chosen: &mut [Vec<u32>]) {
        self.round += 1;
        let mut unchosen = offer.job_count;
        for &device_type in order {
            chosen[device_type].clear();
            let mut left = offer.capacities[device_type];
            self.choose_entitled(offer, device_type, &mut left, &mut unchosen, &mut chosen[device_type]);
            if left > 0 && unchosen > 0 && !offer.is_strict {
                self.choose_others(offer, device_type, &mut left, &mut unchosen, &mut chosen[device_type]);
            }
        }
    }

    fn choose_entitled(
        &mut self,
        offer: &Offer<'_>,
        device_type: usize,
        left: &mut u32,
        unchosen: &mut usize,
        chosen: &mut Vec<u32>,
    ) {
        let Offer { keys, worker_time, .. } = offer;
        let width = self.entitled.len();
        let worker_time = worker_time[device_type];
        self.entitled[device_type].retain(|&key| keys.is_alive[key as usize]);
        let mut list = std::mem::take(&mut self.heap);
        list.clear();
        list.extend(self.entitled[device_type].iter().map(|&key| {
            let place = key as usize * width + device_type;
            let (share, deficit) = (keys.share[place], keys.deficit[place]);
            let received = if worker_time == 0.0 { 0.0 } else { keys.time[place] / worker_time };
            let priority = if received > 0.0 { share / received } else { share * 1e9 };
            Candidate { priority, deficit, share, key }
        }));
        let mut heap = BinaryHeap::from(list);
        while *left > 0 && *unchosen > 0 {
            let Some(candidate) = heap.pop() else { break };
            self.take(keys, candidate.key, left, unchosen, chosen);
        }
        self.heap = heap.into_vec();
    }

    fn choose_others(
        &mut self,
        offer: &Offer<'_>,
        device_type: usize,
        left: &mut u32,
        unchosen: &mut usize,
        chosen: &mut Vec<u32>,
    ) {
        let keys = offer.keys;
        let others = match self.others[device_type].take() {
            Some(others) => others,
            None => self.sorted_others(keys, device_type),
        };
        for &key in &others {
            if *left == 0 || *unchosen == 0 {
                break;
            }
            if keys.is_alive[key as usize] {
                self.take(keys, key, left, unchosen, chosen);
            }
        }
        self.others[device_type] = Some(others);
    }

    /// Keys of priority zero: by what they are owed, equals in the order in which they came.
    fn sorted_others(&self, keys: &Keys, device_type: usize) -> Vec<u32> {
        let width = self.entitled.len();
        let is_other = |key: &u32| {
            keys.is_alive[*key as usize]
                && (keys.share[*key as usize * width + device_type] == 0.0 || !keys.is_shared[*key as usize])
                && keys.can_run(*key, device_type)
        };
        let deficit = |key: u32| keys.deficit[key as usize * width + device_type];
        let mut others: Vec<(f64, u32)> =
            (0..keys.len() as u32).filter(is_other).map(|key| (deficit(key), key)).collect();
        others.sort_by(|one, other| other.0.partial_cmp(&one.0).unwrap_or(Ordering::Equal));
        others.into_iter().map(|(_, key)| key).collect()
    }

    /// Chooses a key if none of its members is chosen already and it fits.
    fn take(&mut self, keys: &Keys, key: u32, left: &mut u32, unchosen: &mut usize, chosen: &mut Vec<u32>) {
        let members = singles(&keys.members[key as usize]);
        let gang = keys.gang[key as usize];
        let round = self.round;
        if gang > *left || members.iter().any(|&job| self.chosen[job as usize] == round) {
            return;
        }
        *left -= gang;
        *unchosen -= members.len();
        members.iter().for_each(|&job| self.chosen[job as usize] = round);
        chosen.push(key);
    }
}
