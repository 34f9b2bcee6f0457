//! Places for groups of jobs, when a whole schedule has been thought out.

use std::collections::{BTreeMap, VecDeque};

use wharf_core::{Decision, Gang, JobId, NodeShare, StopReason};

use crate::placement::Placer;
use crate::room;

/// Jobs with equal gangs that are to share one gang of devices, ascending.
pub type Group = Vec<JobId>;

/// A group and the devices that it is to have.
#[derive(Clone, Debug)]
pub struct Party {
    /// The jobs.
    pub group: Group,
    /// The gang of each.
    pub gang: Gang,
}

/// The outcome of the jobs.
#[derive(Debug, Default)]
pub struct Seated {
    /// Jobs that were placed.
    pub started: Vec<JobId>,
    /// Jobs that had to leave their devices for others; those that were placed again are in `started` too.
    pub moved: Vec<JobId>,
    /// Jobs whose start the audit refused: a bug, already reported.
    pub refused: Vec<JobId>,
}

/// Finds devices for groups.
pub struct Seating {
    placer: Box<dyn Placer>,
    placement: Vec<NodeShare>,
}

impl Seating {
    /// By a placement strategy.
    pub fn new(placer: Box<dyn Placer>) -> Self {
        Self { placer, placement: Vec::new() }
    }

    /// Places the `fresh` parties, the largest gangs first. A gang that finds no room although the devices would do makes
    /// smaller ones of the `kept` move.
    pub fn seat(&mut self, decision: &mut Decision<'_>, kept: Vec<Party>, mut fresh: Vec<Party>) -> Seated {
        fresh.sort_by_key(|party| std::cmp::Reverse(party.gang.devices));
        let mut movable: BTreeMap<u32, Vec<Party>> = BTreeMap::new();
        for party in kept {
            movable.entry(party.gang.devices).or_default().push(party);
        }
        let mut seated = Seated::default();
        let mut pending = VecDeque::from(fresh);
        while let Some(party) = pending.pop_front() {
            if party.group.is_empty() || self.seat_on_free(decision, &party, &mut seated) {
                continue;
            }
            let smaller = movable
                .range(..party.gang.devices)
                .flat_map(|(_, parties)| parties.iter().rev().flat_map(|party| party.group.iter()));
            let Some(room) = room::find(&decision.view(), &party.gang, smaller.copied()) else { continue };
            for &job in &room.leaving {
                if decision.stop(job, StopReason::Moved) {
                    seated.moved.push(job);
                }
            }
            let placement = room.placement(&decision.view(), &party.gang);
            start(decision, &party.group, &placement, &mut seated);
            for (&devices, parties) in &mut movable {
                let is_moved = |party: &mut Party| party.group.iter().any(|job| room.leaving.contains(job));
                for party in parties.extract_if(.., is_moved) {
                    let at = pending.partition_point(|other| other.gang.devices >= devices);
                    pending.insert(at, party);
                }
            }
        }
        seated
    }

    /// Places one party on free devices, if there are enough.
    pub fn seat_on_free(&mut self, decision: &mut Decision<'_>, party: &Party, seated: &mut Seated) -> bool {
        let view = decision.view();
        let mut placement = std::mem::take(&mut self.placement);
        let is_found = self.placer.place(view.topology(), view.schedule(), &party.gang, &mut placement);
        if is_found {
            start(decision, &party.group, &placement, seated);
        }
        self.placement = placement;
        is_found
    }
}

fn start(decision: &mut Decision<'_>, group: &[JobId], placement: &[NodeShare], seated: &mut Seated) {
    for &job in group {
        let list = if decision.start(job, placement) { &mut seated.started } else { &mut seated.refused };
        list.push(job);
    }
}
