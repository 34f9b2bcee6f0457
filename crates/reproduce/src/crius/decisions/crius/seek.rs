//! A place for one job: as it is, after rearranging others, or on more nodes than needed.

use super::super::query::INFEASIBLE;
use super::super::site::{Kind, Shape};
use super::super::table::{Owner, Table};
use super::super::world::World;
use super::judge::{Wish, can_run, worth};
use super::shuffle::Shuffle;

/// What a search for a place came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// How the job lies; `None` where there is no place for it.
    pub(super) shape: Option<Shape>,
    /// Its throughput there, or what stands for none.
    pub(super) throughput: f64,
    /// It lies on more nodes than needed.
    pub(super) is_relaxed: bool,
    /// Rounds of rearranging that are left.
    pub(super) budget: u32,
}

impl Found {
    /// There is a place.
    pub(super) fn is_feasible(&self) -> bool {
        self.shape.is_some()
    }

    /// What a job finds that has no place even on as few nodes as hold it.
    pub(super) const fn nothing(budget: u32) -> Self {
        Self { shape: None, throughput: INFEASIBLE, is_relaxed: false, budget }
    }
}

/// How so many devices of a type can be freed, for any job.
#[derive(Clone, Debug)]
enum Outlook {
    /// Together, after so many rounds of rearranging.
    Together { rounds: u32 },
    /// Not together: idle devices of the nodes that come into question.
    Apart { idle: Vec<u32> },
}

/// Outlooks on a table that does not change.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlooks {
    known: Vec<(Kind, u32, Outlook)>,
}

impl Outlooks {
    /// The table has changed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

/// Searches, with memory that is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Seeker {
    shuffle: Shuffle,
    nodes: Vec<u32>,
    spare: Option<Table>,
}

impl Seeker {
    /// Places a job that has nothing in the table. Where it finds no place, others may have been rearranged all the same.
    /// For `torn` see [`Shuffle::arrange`].
    pub(super) fn seek(
        &mut self,
        world: &World,
        table: &mut Table,
        wish: Wish,
        budget: u32,
        torn: Option<&mut Option<Table>>,
    ) -> Found {
        let best = wish.best(world);
        if !can_run(world, wish, wish.kind, best) {
            return Found::nothing(budget);
        }
        let outlook = self.arrange(world, table, wish.kind, wish.devices, budget, torn);
        let found = verdict(world, wish, &outlook, budget);
        if let Some(shape) = found.shape {
            let (rooms, cap) = (&self.shuffle.rooms, world.site().per_node(wish.kind));
            match outlook {
                Outlook::Together { .. } => rooms.seats(cap, wish.devices, &mut self.nodes),
                Outlook::Apart { .. } => rooms.spread(shape.per_host, shape.hosts, &mut self.nodes),
            };
            table.place(Owner::job(wish.job), wish.devices, &self.nodes);
        }
        found
    }

    /// What [`Seeker::seek`] would find for a job that has no devices of the type it wishes for. Nothing is changed.
    pub(super) fn tell(
        &mut self,
        world: &World,
        table: &Table,
        outlooks: &mut Outlooks,
        wish: Wish,
        budget: u32,
    ) -> Found {
        if !can_run(world, wish, wish.kind, wish.best(world)) {
            return Found::nothing(budget);
        }
        let Wish { kind, devices, .. } = wish;
        let known = outlooks.known.iter().position(|known| (known.0, known.1) == (kind, devices));
        let index = known.unwrap_or_else(|| {
            let outlook = self.outlook(world, table, kind, devices, budget);
            outlooks.known.push((kind, devices, outlook));
            outlooks.known.len() - 1
        });
        verdict(world, wish, &outlooks.known[index].2, budget)
    }

    /// What [`Seeker::seek`] would find for a job once it has given back what it has. Nothing is changed.
    pub(super) fn tell_without(&mut self, world: &World, table: &Table, wish: Wish, budget: u32) -> Found {
        if !can_run(world, wish, wish.kind, wish.best(world)) {
            return Found::nothing(budget);
        }
        let mut spare = self.spare(table);
        spare.release_of(Owner::job(wish.job), wish.kind);
        let outlook = self.arrange(world, &mut spare, wish.kind, wish.devices, budget, None);
        self.spare = Some(spare);
        verdict(world, wish, &outlook, budget)
    }

    fn outlook(&mut self, world: &World, table: &Table, kind: Kind, devices: u32, budget: u32) -> Outlook {
        let mut spare = self.spare(table);
        let outlook = self.arrange(world, &mut spare, kind, devices, budget, None);
        self.spare = Some(spare);
        outlook
    }

    /// A copy of a table.
    fn spare(&mut self, table: &Table) -> Table {
        match self.spare.take() {
            Some(mut spare) => {
                spare.clone_from(table);
                spare
            }
            None => table.clone(),
        }
    }

    fn arrange(
        &mut self,
        world: &World,
        table: &mut Table,
        kind: Kind,
        devices: u32,
        budget: u32,
        torn: Option<&mut Option<Table>>,
    ) -> Outlook {
        let rounds_max = budget.min(world.options.local_budget);
        if let Some(rounds) = self.shuffle.arrange(table, kind, devices, rounds_max, torn) {
            return Outlook::Together { rounds };
        }
        let rooms = &self.shuffle.rooms;
        let cap = world.site().per_node(kind);
        let idle = rooms.idle.iter().take(devices as usize).map(|_| cap);
        Outlook::Apart { idle: idle.chain(rooms.partial.iter().map(|share| share.1)).collect() }
    }
}

/// What a job makes of an outlook, given that it could run on as few nodes as hold it.
fn verdict(world: &World, wish: Wish, outlook: &Outlook, budget: u32) -> Found {
    let lies = |shape: Shape, is_relaxed: bool, rounds: u32| Found {
        shape: Some(shape),
        throughput: worth(world, wish, (wish.kind, shape), None),
        is_relaxed,
        budget: budget - rounds,
    };
    let idle = match outlook {
        Outlook::Together { rounds } => return lies(wish.best(world), false, *rounds),
        Outlook::Apart { idle } => idle,
    };
    let cap = world.site().per_node(wish.kind);
    let mut per_host = wish.devices;
    while per_host > 1 {
        per_host /= 2;
        let shape = Shape { hosts: wish.devices / per_host, per_host };
        if per_host > cap || shape.devices() != wish.devices {
            continue;
        }
        if !can_run(world, wish, wish.kind, shape) {
            break;
        }
        let enough = idle.iter().filter(|idle| **idle >= per_host).count();
        if enough >= shape.hosts as usize {
            return lies(shape, true, budget.min(world.options.local_budget));
        }
    }
    Found::nothing(budget)
}
