//! How many pilots are wanted: a pure function of what waits, what is free and what is under way.

use crate::demand::Want;
use crate::settings::{Bounds, Shape};

/// How far a pilot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits in Slurm's queue.
    Pending,
    /// It has its nodes; no worker of it has joined the head yet.
    Starting,
    /// At least one of its workers has joined.
    Up,
    /// It gives its nodes back.
    Ending,
}

/// A pilot, as far as decisions go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pilot {
    /// Slurm's name for it.
    pub id: String,
    /// How far it is.
    pub stage: Stage,
}

/// All that a decision depends on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// Seconds since the Unix epoch.
    pub now_s: f64,
    /// What waits and could run in a pilot.
    pub wants: &'a [Want],
    /// Free devices of each node of a pilot that takes jobs.
    pub free: &'a [u32],
    /// All pilots that are not over.
    pub pilots: &'a [Pilot],
    /// Nothing is submitted before, after failures.
    pub retry_at_s: f64,
    /// The last thing that is known of pilots is a failure: they are tried one at a time.
    pub is_suspect: bool,
    /// Since when more pilots wait in Slurm's queue than are needed.
    pub surplus_since_s: Option<f64>,
    /// How long they may be needless before they are taken back.
    pub patience_s: f64,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PilotPlan {
    /// So many pilots are submitted.
    pub submit: u32,
    /// These are taken out of Slurm's queue.
    pub cancel: Vec<String>,
    /// How many more pilots than those that are up there is work for.
    pub needed: u32,
    /// For the next decision.
    pub surplus_since_s: Option<f64>,
}

/// States how many pilots to submit and which to take back. Those that run end by themselves when they have nothing to do.
#[must_use]
pub fn decide(situation: &Situation<'_>, shape: &Shape, bounds: Bounds) -> PilotPlan {
    let count = |stage| situation.pilots.iter().filter(|pilot| pilot.stage == stage).count() as u32;
    let (pending, starting, up, ending) =
        (count(Stage::Pending), count(Stage::Starting), count(Stage::Up), count(Stage::Ending));
    let coming = pending + starting;
    let room = bounds.max.saturating_sub(up + ending);
    let needed = needed(situation.wants, situation.free, shape, room);
    let desired = needed.max(bounds.min.saturating_sub(up)).min(room);
    let surplus = coming.saturating_sub(desired).min(pending);
    let surplus_since_s = (surplus > 0).then(|| situation.surplus_since_s.unwrap_or(situation.now_s));
    let is_patient = surplus_since_s.is_some_and(|since_s| situation.now_s - since_s < situation.patience_s);
    let waiting = situation.pilots.iter().filter(|pilot| pilot.stage == Stage::Pending);
    let cancel = if is_patient { 0 } else { surplus as usize };
    // The latest first: they would have waited longest.
    let cancel = waiting.rev().take(cancel).map(|pilot| pilot.id.clone()).collect();
    let mut submit = desired.saturating_sub(coming).min(bounds.max_pending.saturating_sub(pending));
    if situation.now_s < situation.retry_at_s {
        submit = 0;
    } else if situation.is_suspect {
        submit = submit.min(1_u32.saturating_sub(coming));
    }
    PilotPlan { submit, cancel, needed, surplus_since_s }
}

/// How many pilots have to come so that all that waits fits, at most `room`. What is free is used first.
fn needed(wants: &[Want], free: &[u32], shape: &Shape, room: u32) -> u32 {
    let mut bins = free.to_vec();
    let mut opened = 0;
    for want in wants {
        for _ in 0..want.jobs {
            let (before, had) = (opened, bins.len());
            let mut is_placed = place(want, &mut bins, shape.devices);
            while !is_placed && opened < room {
                opened += 1;
                bins.extend(std::iter::repeat_n(shape.devices, shape.nodes as usize));
                is_placed = place(want, &mut bins, shape.devices);
            }
            if !is_placed {
                // Pilots that cannot hold it yet would only be idle. Nor do the others of its kind fit.
                opened = before;
                bins.truncate(had);
                break;
            }
        }
    }
    opened
}

/// Takes a job's devices where they are free; `false`, and nothing taken, where they are not.
fn place(want: &Want, bins: &mut [u32], node_devices: u32) -> bool {
    let taken: Vec<(usize, u32)> = if want.nodes > 0 {
        let share = want.devices.div_ceil(want.nodes);
        let fitting = bins.iter().enumerate().filter(|(_, bin)| **bin >= share);
        fitting.map(|(index, _)| (index, share)).take(want.nodes as usize).collect()
    } else if want.devices <= node_devices {
        // Tightest first, so that others find whole nodes.
        let fitting = bins.iter().enumerate().filter(|(_, bin)| **bin >= want.devices);
        fitting.min_by_key(|(_, bin)| **bin).map(|(index, _)| (index, want.devices)).into_iter().collect()
    } else {
        spread(want.devices, bins)
    };
    let is_whole = match want.nodes {
        0 => taken.iter().map(|(_, share)| share).sum::<u32>() >= want.devices,
        nodes => taken.len() == nodes as usize,
    };
    if is_whole {
        taken.into_iter().for_each(|(index, share)| bins[index] -= share);
    }
    is_whole
}

/// Devices of as few nodes as possible.
fn spread(devices: u32, bins: &[u32]) -> Vec<(usize, u32)> {
    let mut order: Vec<usize> = (0..bins.len()).filter(|&index| bins[index] > 0).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(bins[index]));
    let mut left = devices;
    let mut taken = Vec::new();
    for index in order {
        let share = bins[index].min(left);
        left -= share;
        taken.push((index, share));
        if left == 0 {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: Shape =
        Shape { nodes: 1, devices: 4, device_type: None, pool: String::new(), cpus: 0, memory_mib: 0 };
    const BOUNDS: Bounds = Bounds { min: 0, max: 8, max_pending: 3 };

    fn want(devices: u32, nodes: u32, jobs: u32) -> Want {
        Want { devices, nodes, jobs }
    }

    fn pilots(stages: &[Stage]) -> Vec<Pilot> {
        let pilot = |(index, &stage): (usize, &Stage)| Pilot { id: index.to_string(), stage };
        stages.iter().enumerate().map(pilot).collect()
    }

    fn situation<'a>(wants: &'a [Want], free: &'a [u32], pilots: &'a [Pilot]) -> Situation<'a> {
        Situation {
            now_s: 100.0,
            wants,
            free,
            pilots,
            retry_at_s: 0.0,
            is_suspect: false,
            surplus_since_s: None,
            patience_s: 0.0,
        }
    }

    #[test]
    fn pilots_follow_what_waits() {
        use Stage::{Ending, Pending, Starting, Up};
        // What waits, what is free, pilots; needed, submitted, cancelled.
        type Row = (&'static [Want], &'static [u32], &'static [Stage], u32, u32, usize);
        let rows: &[Row] = &[
            (&[], &[], &[], 0, 0, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 1 }], &[], &[], 1, 1, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 4 }], &[], &[], 1, 1, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 5 }], &[], &[], 2, 2, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 1000 }], &[], &[], 8, 3, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 5 }], &[1], &[Up], 1, 1, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 5 }], &[], &[Pending], 2, 1, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 5 }], &[], &[Pending, Starting], 2, 0, 0),
            (&[Want { devices: 1, nodes: 0, jobs: 4 }], &[], &[Pending, Pending], 1, 0, 1),
            (&[], &[], &[Pending, Starting], 0, 0, 1),
            // Two nodes with three free devices each do not hold a job of four.
            (&[Want { devices: 4, nodes: 0, jobs: 1 }], &[3, 3], &[Up, Up], 1, 1, 0),
            (&[Want { devices: 8, nodes: 0, jobs: 1 }], &[], &[], 2, 2, 0),
            (&[Want { devices: 8, nodes: 2, jobs: 1 }], &[4], &[Up], 1, 1, 0),
            // It has to wait for others: what may still come cannot hold it.
            (&[Want { devices: 8, nodes: 0, jobs: 1 }], &[], &[Up; 7], 0, 0, 0),
            // Those that go still hold Slurm's nodes.
            (&[Want { devices: 1, nodes: 0, jobs: 99 }], &[], &[Ending; 7], 1, 1, 0),
        ];
        for &(wants, free, stages, needed, submit, cancel) in rows {
            let pilots = pilots(stages);
            let plan = decide(&situation(wants, free, &pilots), &SHAPE, BOUNDS);
            let found = (plan.needed, plan.submit, plan.cancel.len());
            assert_eq!(found, (needed, submit, cancel), "{wants:?} {free:?} {stages:?}");
        }
    }

    #[test]
    fn failures_hold_back_and_then_one_is_tried() {
        let wants = [want(1, 0, 99)];
        let mut now = situation(&wants, &[], &[]);
        (now.retry_at_s, now.is_suspect) = (100.5, true);
        assert_eq!(decide(&now, &SHAPE, BOUNDS).submit, 0);
        now.now_s = 101.0;
        assert_eq!(decide(&now, &SHAPE, BOUNDS).submit, 1);
        let pending = pilots(&[Stage::Pending]);
        now.pilots = &pending;
        assert_eq!(decide(&now, &SHAPE, BOUNDS).submit, 0, "one at a time");
        now.is_suspect = false;
        assert_eq!(decide(&now, &SHAPE, BOUNDS).submit, 2);
    }

    #[test]
    fn needless_pilots_stay_in_the_queue_for_a_while() {
        let pending = pilots(&[Stage::Pending, Stage::Pending]);
        let mut now = situation(&[], &[], &pending);
        now.patience_s = 10.0;
        let plan = decide(&now, &SHAPE, BOUNDS);
        assert_eq!((plan.cancel.len(), plan.surplus_since_s), (0, Some(100.0)));
        (now.now_s, now.surplus_since_s) = (110.0, plan.surplus_since_s);
        assert_eq!(decide(&now, &SHAPE, BOUNDS).cancel, ["1", "0"]);
        let one = Bounds { min: 1, ..BOUNDS };
        assert_eq!(decide(&now, &SHAPE, one).cancel, ["1"], "the minimum stays");
    }

    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        let stage =
            prop_oneof![Just(Stage::Pending), Just(Stage::Starting), Just(Stage::Up), Just(Stage::Ending)];
        prop::collection::vec(stage, 0..12)
    }

    proptest! {
        #[test]
        fn limits_hold_whatever_happens(
            wants in prop::collection::vec((1_u32..20, 0_u32..4, 0_u32..50), 0..5),
            free in prop::collection::vec(0_u32..5, 0..6),
            stages in stages(),
            (min, more, max_pending) in (0_u32..4, 1_u32..10, 1_u32..5),
            (nodes, devices) in (1_u32..4, 1_u32..9),
            retry_at_s in 0.0..200.0,
            is_suspect: bool,
        ) {
            let wants: Vec<Want> =
                wants.into_iter().map(|(devices, nodes, jobs)| want(devices, nodes, jobs)).collect();
            let pilots = pilots(&stages);
            let shape = Shape { nodes, devices, ..SHAPE };
            let bounds = Bounds { min, max: min + more, max_pending };
            let now = Situation { retry_at_s, is_suspect, ..situation(&wants, &free, &pilots) };
            let plan = decide(&now, &shape, bounds);
            let all = pilots.len() as u32;
            let pending = stages.iter().filter(|stage| **stage == Stage::Pending).count() as u32;
            if plan.submit > 0 {
                prop_assert!(all + plan.submit <= bounds.max);
                prop_assert!(pending + plan.submit <= max_pending);
                prop_assert!(retry_at_s <= now.now_s, "nothing while backing off");
                prop_assert!(!is_suspect || plan.submit == 1);
                prop_assert!(plan.cancel.is_empty());
            }
            let is_pending = |id: &String| {
                pilots.iter().any(|pilot| pilot.id == *id && pilot.stage == Stage::Pending)
            };
            prop_assert!(plan.cancel.iter().all(is_pending), "what runs ends by itself");
        }

        #[test]
        fn without_work_everything_that_waits_is_taken_back(stages in stages()) {
            let pilots = pilots(&stages);
            let plan = decide(&situation(&[], &[], &pilots), &SHAPE, BOUNDS);
            prop_assert_eq!(plan.submit, 0);
            let pending = stages.iter().filter(|stage| **stage == Stage::Pending).count();
            prop_assert_eq!(plan.cancel.len(), pending);
        }
    }
}
