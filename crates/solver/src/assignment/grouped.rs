//! Places for many jobs: machines of one type at one position are one group with that many seats.
//!
//! A position is opened when the one before it is full, because it costs more. Jobs come one by one and take the
//! shortest path over the groups, on which every step moves one job from a full group to another; the job that moves most
//! cheaply from one group to another is at the top of a heap. That is exact. It takes the square of the number of groups per
//! job, so where queues are long (many jobs on few machines) an auction is faster.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Method, Place, Placement, Queues, auction};

/// What an exact search may cost: about two seconds.
const STEPS: usize = 400_000_000;

/// A type and a position; per job.
pub(super) type Seats = Vec<Option<(usize, usize)>>;

pub(super) fn places(queues: &Queues<'_>) -> Placement {
    let machines: usize = queues.machines.iter().sum();
    if machines == 0 {
        return Placement { places: vec![None; queues.jobs()], method: Method::Exact };
    }
    let groups = queues.machines.len() * (queues.jobs() / machines + 1);
    let affordable = queues.jobs().saturating_mul(groups.saturating_mul(groups)) <= STEPS;
    let exact = affordable.then(|| Search::new(queues).run()).flatten().map(|seats| (seats, Method::Exact));
    let (seats, method) = exact
        .or_else(|| auction::seats(queues).map(|seats| (seats, Method::Auction)))
        .unwrap_or_else(|| (greedy(queues), Method::Greedy));
    Placement { places: name_machines(queues, &seats), method }
}

/// Jobs from the longest to the shortest, each where it costs least.
pub(super) fn greedy(queues: &Queues<'_>) -> Seats {
    let types = queues.machines.len();
    let mut order: Vec<usize> = (0..queues.jobs()).collect();
    order.sort_by(|&a, &b| queues.shortest_s(b).total_cmp(&queues.shortest_s(a)));
    let mut filled = vec![0; types];
    let mut seats = vec![None; queues.jobs()];
    for job in order {
        let open = (0..types).filter(|&kind| queues.machines[kind] > 0);
        let cost =
            |kind: usize| (filled[kind] / queues.machines[kind] + 1) as f64 * queues.duration_s(job, kind);
        if let Some(kind) = open.min_by(|&a, &b| cost(a).total_cmp(&cost(b))) {
            seats[job] = Some((kind, filled[kind] / queues.machines[kind]));
            filled[kind] += 1;
        }
    }
    seats
}

/// Gives the jobs of each group different machines, in the order of the jobs.
pub(super) fn name_machines(queues: &Queues<'_>, seats: &[Option<(usize, usize)>]) -> Vec<Option<Place>> {
    let mut first_machine = vec![0];
    for count in queues.machines {
        first_machine.push(first_machine[first_machine.len() - 1] + count);
    }
    let mut used: Vec<Vec<usize>> = vec![Vec::new(); queues.machines.len()];
    let mut name = |(device_type, position): (usize, usize)| {
        let used = &mut used[device_type];
        used.resize(used.len().max(position + 1), 0);
        let machine = first_machine[device_type] + used[position];
        used[position] += 1;
        Place { device_type, machine, position }
    };
    seats.iter().map(|seat| seat.map(&mut name)).collect()
}

/// What it costs more to have a job elsewhere. The cheapest is the greatest, for the heap.
#[derive(Clone, Copy)]
struct Move {
    extra: f64,
    job: usize,
}

impl Ord for Move {
    fn cmp(&self, other: &Self) -> Ordering {
        other.extra.total_cmp(&self.extra).then(other.job.cmp(&self.job))
    }
}

impl PartialOrd for Move {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Move {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Move {}

struct Group {
    device_type: usize,
    position: usize,
    /// Jobs in it.
    count: usize,
    /// What a seat is worth: zero while one is free.
    price: f64,
    /// Moves to each other group, some of them of jobs that have left.
    moves: Vec<BinaryHeap<Move>>,
}

/// How a group was reached: by the job that comes, or by one that leaves a group for it.
#[derive(Clone, Copy)]
struct Way {
    length: f64,
    from: Option<(usize, usize)>,
    closed: bool,
}

struct Search<'a> {
    queues: &'a Queues<'a>,
    /// Jobs × types.
    durations_s: Vec<f64>,
    groups: Vec<Group>,
    group_of: Vec<Option<usize>>,
    ways: Vec<Way>,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(queues: &'a Queues<'a>) -> Self {
        let (group_of, durations_s) = (vec![None; queues.jobs()], queues.durations_s());
        let mut search =
            Self { queues, durations_s, groups: Vec::new(), group_of, ways: Vec::new(), steps: 0 };
        for device_type in (0..queues.machines.len()).filter(|&kind| queues.machines[kind] > 0) {
            search.open(device_type, 0);
        }
        search
    }

    /// None if that takes too many steps.
    fn run(mut self) -> Option<Seats> {
        for job in 0..self.queues.jobs() {
            let sink = self.shortest_path(job);
            self.update_prices(self.ways[sink].length);
            self.augment(job, sink);
            let group = &self.groups[sink];
            if group.count == self.queues.machines[group.device_type] {
                self.open(group.device_type, group.position + 1);
            }
            if self.steps > STEPS {
                return None;
            }
        }
        let seat = |&index: &usize| (self.groups[index].device_type, self.groups[index].position);
        Some(self.group_of.iter().map(|group| group.as_ref().map(seat)).collect())
    }

    fn cost(&self, job: usize, group: &Group) -> f64 {
        (group.position + 1) as f64 * self.durations_s[job * self.queues.machines.len() + group.device_type]
    }

    fn open(&mut self, device_type: usize, position: usize) {
        let group = Group { device_type, position, count: 0, price: 0.0, moves: Vec::new() };
        let mut moves: Vec<Vec<Move>> = vec![Vec::new(); self.groups.len()];
        for (job, from) in self.group_of.iter().enumerate() {
            if let Some(from) = *from {
                let extra = self.cost(job, &group) - self.cost(job, &self.groups[from]);
                moves[from].push(Move { extra, job });
                self.steps += 1;
            }
        }
        for (from, moves) in self.groups.iter_mut().zip(moves) {
            from.moves.push(moves.into());
        }
        self.groups.push(group);
        let count = self.groups.len();
        self.groups[count - 1].moves.resize_with(count, BinaryHeap::new);
    }

    /// The group with a free seat that is nearest to a job.
    fn shortest_path(&mut self, job: usize) -> usize {
        let way = |group| Way { length: self.cost(job, group) + group.price, from: None, closed: false };
        let ways = self.groups.iter().map(way).collect();
        self.ways = ways;
        loop {
            let open = (0..self.ways.len()).filter(|&index| !self.ways[index].closed);
            let nearest = open.min_by(|&a, &b| self.ways[a].length.total_cmp(&self.ways[b].length));
            // There is always a free seat: the last position of a type is never full.
            let nearest = nearest.unwrap_or(self.ways.len() - 1);
            let group = &self.groups[nearest];
            self.steps += 2 * self.groups.len();
            if group.count < self.queues.machines[group.device_type] {
                return nearest;
            }
            self.ways[nearest].closed = true;
            for other in 0..self.groups.len() {
                if !self.ways[other].closed {
                    self.look(nearest, other);
                }
            }
        }
    }

    /// Shortens the way to a group by way of another.
    fn look(&mut self, from: usize, to: usize) {
        let moves = &mut self.groups[from].moves[to];
        while moves.peek().is_some_and(|top| self.group_of[top.job] != Some(from)) {
            moves.pop();
        }
        let Some(&Move { extra, job }) = moves.peek() else { return };
        let step = (extra + self.groups[to].price - self.groups[from].price).max(0.0);
        let length = self.ways[from].length + step;
        if length < self.ways[to].length {
            self.ways[to] = Way { length, from: Some((from, job)), closed: false };
        }
    }

    fn update_prices(&mut self, length: f64) {
        for (group, way) in self.groups.iter_mut().zip(&self.ways).filter(|(_, way)| way.closed) {
            group.price += length - way.length;
        }
    }

    fn augment(&mut self, job: usize, sink: usize) {
        self.groups[sink].count += 1;
        let mut to = sink;
        while let Some((from, moved)) = self.ways[to].from {
            self.put(moved, to);
            to = from;
        }
        self.put(job, to);
    }

    fn put(&mut self, job: usize, to: usize) {
        self.group_of[job] = Some(to);
        let here = self.cost(job, &self.groups[to]);
        for other in (0..self.groups.len()).filter(|&other| other != to) {
            let extra = self.cost(job, &self.groups[other]) - here;
            self.groups[to].moves[other].push(Move { extra, job });
        }
        self.steps += self.groups.len();
    }
}
