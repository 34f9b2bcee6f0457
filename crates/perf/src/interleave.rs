//! Stage interleaving: jobs that share devices take turns on storage, device and network.
//!
//! The model of Muri (SIGCOMM'22). An iteration is a cycle of slots in which each job of the group uses another
//! resource; the data stage spans two slots. With every member advancing one iteration per cycle, the length of the cycle
//! depends on the order in which members take their turns. Sharing also costs something that the stages do not
//! show; a factor per group size, measured by Muri's authors, stands for it.

use wharf_core::StageTimes;

/// Most jobs that can take turns: one per slot.
pub const GROUP_SIZE_MAX: usize = 4;

/// Slots in a cycle when the data stage spans two (storage and CPU).
const SLOTS: usize = 4;

/// Relative change between two laps below which a cycle counts as steady (Muri's `calc_iteration_time`).
const STEADY_TOLERANCE: f64 = 1e-3;

/// One iteration's stages in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Stages {
    /// Reading and preprocessing samples.
    pub data_s: f64,
    /// Forward and backward passes.
    pub compute_s: f64,
    /// Gradient exchange.
    pub network_s: f64,
}

impl Stages {
    /// Seconds of use of any resource.
    pub fn total_s(self) -> f64 {
        self.data_s + self.compute_s + self.network_s
    }

    fn stage(self, index: usize) -> f64 {
        [self.data_s, self.compute_s, self.network_s][index]
    }
}

impl From<StageTimes> for Stages {
    fn from(times: StageTimes) -> Self {
        Self {
            data_s: times.data_ms / 1000.0,
            compute_s: times.compute_ms / 1000.0,
            network_s: times.network_ms / 1000.0,
        }
    }
}

/// Which of all orders of taking turns a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The shortest cycle.
    #[default]
    Best,
    /// The longest: what a scheduler that ignores order risks.
    Worst,
}

/// What interleaving costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleaving {
    /// Resources that take part: 4 where the data stage spans two slots, or 3.
    pub resources: u32,
    /// Factors on the cycle length of groups of two, three and four.
    pub factors: [f64; GROUP_SIZE_MAX - 1],
}

impl Interleaving {
    /// Seconds per iteration of every member of a group. `solo_s` is a lone member's iteration time.
    pub fn iteration_s(&self, group: &[Stages], solo_s: f64, order: Order) -> f64 {
        debug_assert!((1..=GROUP_SIZE_MAX).contains(&group.len()));
        match group.len() {
            0 | 1 => solo_s,
            len => self.cycle_s(group, order) * self.factors[len.min(GROUP_SIZE_MAX) - 2],
        }
    }

    /// Interleaving efficiency: the share of all resources' time that the group uses.
    ///
    /// Terms are added in the group's order, so that equal groups in another order can differ in the last bit.
    pub fn efficiency(&self, group: &[Stages], solo_s: f64, order: Order) -> f64 {
        let used = group.iter().fold(0.0, |sum, stages| sum + stages.total_s());
        used / (self.iteration_s(group, solo_s, order) * f64::from(self.resources))
    }

    /// Seconds per cycle without the factor.
    fn cycle_s(&self, group: &[Stages], order: Order) -> f64 {
        let mut members = [Stages::default(); GROUP_SIZE_MAX];
        members[..group.len()].copy_from_slice(group);
        let mut best = match order {
            Order::Best => f64::INFINITY,
            Order::Worst => 0.0,
        };
        let mut consider = |cycle: f64| match order {
            Order::Best => best = if cycle < best { cycle } else { best },
            Order::Worst => best = if cycle > best { cycle } else { best },
        };
        let staggered = self.resources as usize == SLOTS;
        for_each_permutation(&mut members[..group.len()], 0, &mut |members| {
            consider(if staggered { staggered_cycle_s(members) } else { self.rotating_cycle_s(members) });
        });
        if let (true, &[a, b]) = (staggered, group) {
            // Two jobs with a free slot between them: each overlaps its data stage with the other's rest.
            consider(
                f64::max(a.data_s, b.compute_s + b.network_s) + f64::max(b.data_s, a.compute_s + a.network_s),
            );
        }
        best
    }

    /// The cycle in which each resource serves one stage: a slot lasts as long as its longest stage.
    fn rotating_cycle_s(&self, members: &[Stages]) -> f64 {
        let resources = self.resources as usize;
        (0..resources).fold(0.0, |sum, slot| {
            let longest = members.iter().enumerate().fold(0.0, |longest: f64, (index, stages)| {
                longest.max(stages.stage((slot + resources * GROUP_SIZE_MAX - index) % resources))
            });
            sum + longest
        })
    }
}

/// Two laps of the four-slot cycle; its length once the second repeats the first.
fn staggered_cycle_s(members: &[Stages]) -> f64 {
    let len = members.len();
    let mut end = [0.0_f64; 2 * SLOTS + 1];
    for slot in 0..2 * SLOTS {
        let mut next = 0.0_f64;
        let (network, compute, data) = ((slot + 1) % SLOTS, (slot + 2) % SLOTS, (slot + 3) % SLOTS);
        if network < len {
            next = next.max(end[slot] + members[network].network_s);
        }
        if compute < len {
            next = next.max(end[slot] + members[compute].compute_s);
        }
        if slot > 0 && data < len {
            next = next.max(end[slot - 1] + members[data].data_s);
        }
        end[slot + 1] = next;
        if slot >= SLOTS {
            let lap = end[slot + 1] - end[slot - 3];
            let before = end[slot] - end[slot - 4];
            if (lap - before).abs() <= STEADY_TOLERANCE * lap.abs().max(before.abs()) {
                if lap > 0.0 {
                    return lap;
                }
                break;
            }
        }
    }
    end[2 * SLOTS] - end[SLOTS]
}

/// Calls `visit` with every order of `items[from..]`.
fn for_each_permutation(items: &mut [Stages], from: usize, visit: &mut impl FnMut(&[Stages])) {
    if from + 1 >= items.len() {
        visit(items);
        return;
    }
    for index in from..items.len() {
        items.swap(from, index);
        for_each_permutation(items, from + 1, visit);
        items.swap(from, index);
    }
}
