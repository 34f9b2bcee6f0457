//! Who dies when, drawn from a seed.

use std::time::Duration;

use crate::chaos::cluster::{Cluster, WORKERS, pause};

/// Number of kills.
#[derive(Default)]
pub(crate) struct Kills {
    pub(crate) head: usize,
    pub(crate) workers: usize,
}

/// Numbers that a seed determines (SplitMix64).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// Kills the head, a worker or both again and again; each comes back a little later.
pub(crate) fn inject(cluster: &Cluster, seed: u64) -> Kills {
    let mut draw = Draw::new(seed ^ 0xFA17);
    let mut kills = Kills::default();
    for _ in 0..10 + draw.below(8) {
        pause(draw.millis(400));
        let worker = 1 + draw.below(WORKERS as u64) as usize;
        let (dies_head, dies_worker) = [(true, false), (false, true), (true, true)][draw.below(3) as usize];
        // In either order, one just after the other.
        let mut victims = Vec::new();
        victims.extend(dies_head.then_some(0));
        victims.extend(dies_worker.then_some(worker));
        if draw.below(2) == 0 {
            victims.reverse();
        }
        victims.iter().for_each(|&victim| cluster.kill(victim));
        kills.head += usize::from(dies_head);
        kills.workers += usize::from(dies_worker);
        for victim in victims {
            pause(draw.millis(300));
            cluster.restart(victim);
        }
    }
    kills
}
