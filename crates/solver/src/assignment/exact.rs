//! The search of [`super::assign`] on the matrix of AlloX, without the matrix.
//!
//! Column `k × machines + machine` is the `k`-th position from the end of a machine's queue. A column that no job
//! holds has price zero, so all free columns of one type and position cost the same, and later positions cost no less:
//! per type one number stands for all of them. Only held columns are checked one by one, and there are never more of them
//! than jobs. The list of columns that a path has not reached is not written down either: taking column number `s`
//! away moves the last column of the list into its place, so after `s` steps only columns below `s` stand elsewhere
//! than at the start.

use std::collections::BTreeMap;

use super::{Place, Queues};

const NONE: usize = usize::MAX;

pub(super) fn places(queues: &Queues<'_>) -> Vec<Option<Place>> {
    let mut search = Search::new(queues);
    if search.machines == 0 {
        return vec![None; queues.jobs()];
    }
    for job in 0..search.jobs {
        search.insert(job);
    }
    let place = |&held: &usize| Some(search.place(search.held[held].col));
    search.held_by.iter().map(place).collect()
}

fn wait_s(queues: &Queues<'_>, job: usize) -> f64 {
    queues.waits.get(job).copied().filter(|wait_s| wait_s.is_finite()).unwrap_or(0.0)
}

/// A column that some job holds.
struct Held {
    col: usize,
    device_type: usize,
    /// How many ends a job here delays, its own included.
    factor: f64,
    price: f64,
    job: usize,
    /// Of the path that reached it last: the length of the way, and the job before.
    distance: f64,
    before: usize,
}

/// A held column that the present path has not reached. Apart and small, because most of the time goes into these.
#[derive(Clone, Copy)]
struct Open {
    factor: f64,
    price: f64,
    /// The length of the shortest known way, and the job before.
    distance: f64,
    before: usize,
    device_type: usize,
    held: usize,
}

struct Search {
    jobs: usize,
    types: usize,
    machines: usize,
    first_machine: Vec<usize>,
    /// Jobs × types.
    durations_s: Vec<f64>,
    waits: Vec<f64>,
    job_price: Vec<f64>,
    held: Vec<Held>,
    /// Index of the column that a job holds.
    held_by: Vec<usize>,
    /// Per position and machine whether it is taken, as far as positions are in use.
    taken: Vec<Vec<bool>>,
    /// Per position and type how many machines are free there.
    free: Vec<Vec<usize>>,
    /// Per type the lowest position with a free machine.
    lowest: Vec<usize>,
    path: Path,
}

/// The state of one shortest path.
#[derive(Default)]
struct Path {
    /// Jobs in the order in which they were reached, with the length of the way to each.
    reached: Vec<(usize, f64)>,
    /// Held columns that were reached, and those that were not.
    closed: Vec<usize>,
    open: Vec<Open>,
    /// Per type the way to its cheapest free columns.
    free_distance: Vec<f64>,
    /// Columns that stand elsewhere in the list than at the start, both ways.
    at: BTreeMap<usize, usize>,
    moved: BTreeMap<usize, usize>,
}

impl Search {
    fn new(queues: &Queues<'_>) -> Self {
        let (jobs, types) = (queues.jobs(), queues.machines.len());
        let mut first_machine = vec![0];
        for count in queues.machines {
            first_machine.push(first_machine[first_machine.len() - 1] + count);
        }
        let mut search = Self {
            jobs,
            types,
            machines: first_machine[types],
            first_machine,
            durations_s: queues.durations_s(),
            waits: (0..jobs).map(|job| wait_s(queues, job)).collect(),
            job_price: vec![0.0; jobs],
            held: Vec::with_capacity(jobs),
            held_by: vec![NONE; jobs],
            taken: Vec::new(),
            free: Vec::new(),
            lowest: vec![0; types],
            path: Path::default(),
        };
        search.open_position();
        search
    }

    fn open_position(&mut self) {
        self.taken.push(vec![false; self.machines]);
        self.free.push(self.first_machine.windows(2).map(|pair| pair[1] - pair[0]).collect());
    }

    fn type_of(&self, machine: usize) -> usize {
        self.first_machine.partition_point(|&first| first <= machine) - 1
    }

    fn place(&self, col: usize) -> Place {
        let machine = col % self.machines;
        Place { device_type: self.type_of(machine), machine, position: col / self.machines }
    }

    /// The length of a way that ends with a job's step to a column. In this order, because rounding decides.
    fn through(&self, (job, length): (usize, f64), device_type: usize, factor: f64, price: f64) -> f64 {
        let cost = factor * self.durations_s[job * self.types + device_type] + self.waits[job];
        length + cost - self.job_price[job] - price
    }

    fn insert(&mut self, start: usize) {
        self.path.reached.clear();
        self.path.closed.clear();
        self.path.open.clear();
        self.path.open.extend(self.held.iter().enumerate().map(|(index, held)| Open {
            factor: held.factor,
            price: held.price,
            distance: f64::INFINITY,
            before: NONE,
            device_type: held.device_type,
            held: index,
        }));
        self.path.free_distance.clear();
        self.path.free_distance.resize(self.types, f64::INFINITY);
        self.path.at.clear();
        self.path.moved.clear();
        let (mut job, mut length) = (start, 0.0);
        let free_length = loop {
            self.path.reached.push((job, length));
            let nearest = self.look_at_held(job, length);
            let free = self.look_at_free(job, length);
            // Of equals a free column wins, and a matrix without infinite costs always has one.
            match nearest {
                Some(index) if self.path.open[index].distance < free => {
                    let open = self.path.open.swap_remove(index);
                    self.path.closed.push(open.held);
                    let held = &mut self.held[open.held];
                    (held.distance, held.before) = (open.distance, open.before);
                    (job, length) = (held.job, held.distance);
                    let col = held.col;
                    self.take_off_list(col);
                }
                _ => break free,
            }
        };
        let sink = self.place(self.free_sink(free_length));
        let before = self.way_to_free(sink.device_type, sink.position).0;
        self.update_prices(start, free_length);
        self.augment(start, sink, before);
    }

    /// Shortens ways to held columns; then where the nearest one stands among the open ones.
    fn look_at_held(&mut self, job: usize, length: f64) -> Option<usize> {
        let durations_s = &self.durations_s[job * self.types..][..self.types];
        let (wait, job_price) = (self.waits[job], self.job_price[job]);
        let mut lowest = f64::INFINITY;
        for open in &mut self.path.open {
            // As in `through`.
            let cost = open.factor * durations_s[open.device_type] + wait;
            let through = length + cost - job_price - open.price;
            if through < open.distance {
                (open.distance, open.before) = (through, job);
            }
            lowest = lowest.min(open.distance);
        }
        // Of equals the one that comes first in the list.
        let equals = self.path.open.iter().enumerate().filter(|(_, open)| open.distance == lowest);
        equals.min_by_key(|(_, open)| self.rank(self.held[open.held].col)).map(|(index, _)| index)
    }

    /// Shortens ways to free columns; then the length of the shortest.
    fn look_at_free(&mut self, job: usize, length: f64) -> f64 {
        let mut shortest = f64::INFINITY;
        for device_type in 0..self.types {
            if self.first_machine[device_type] == self.first_machine[device_type + 1] {
                continue;
            }
            let factor = (self.lowest[device_type] + 1) as f64;
            let through = self.through((job, length), device_type, factor, 0.0);
            let known = &mut self.path.free_distance[device_type];
            *known = known.min(through);
            shortest = shortest.min(*known);
        }
        shortest
    }

    /// Where a column stands in the list of those that were not reached.
    fn rank(&self, col: usize) -> usize {
        self.path.moved.get(&col).copied().unwrap_or(self.jobs * self.machines - 1 - col)
    }

    /// Takes a column off the list: the last one moves into its place.
    fn take_off_list(&mut self, col: usize) {
        let rank = self.rank(col);
        let steps = self.path.closed.len() - 1;
        let last = self.jobs * self.machines - 1 - steps;
        let last_col = self.path.at.remove(&last).unwrap_or(steps);
        self.path.moved.remove(&col);
        if rank != last {
            self.path.at.insert(rank, last_col);
            self.path.moved.insert(last_col, rank);
        }
    }

    /// The free column that is reached: of all at the same distance the last in the list.
    fn free_sink(&self, length: f64) -> usize {
        let moved = self.path.closed.len();
        let mut best: Option<(usize, usize)> = None;
        let mut offer = |col: usize| best = best.max(Some((self.rank(col), col)));
        for device_type in (0..self.types).filter(|&index| self.path.free_distance[index] == length) {
            let machines = self.first_machine[device_type]..self.first_machine[device_type + 1];
            let mut position = self.lowest[device_type];
            // Later positions are as near only if durations vanish in rounding.
            while position < self.jobs && self.way_to_free(device_type, position).1 == length {
                let mut cols = machines.clone().map(|machine| position * self.machines + machine);
                if let Some(col) = cols.find(|&col| col >= moved && self.is_free(col)) {
                    offer(col);
                    break;
                }
                position += 1;
            }
        }
        for &col in self.path.moved.keys().filter(|&&col| self.is_free(col)) {
            let place = self.place(col);
            if self.way_to_free(place.device_type, place.position).1 == length {
                offer(col);
            }
        }
        best.map_or(NONE, |(_, col)| col)
    }

    fn is_free(&self, col: usize) -> bool {
        self.taken.get(col / self.machines).is_none_or(|taken| !taken[col % self.machines])
    }

    /// The job before a free column and the length of the way to it.
    fn way_to_free(&self, device_type: usize, position: usize) -> (usize, f64) {
        let mut best = (NONE, f64::INFINITY);
        for &(job, length) in &self.path.reached {
            let through = self.through((job, length), device_type, (position + 1) as f64, 0.0);
            if through < best.1 {
                best = (job, through);
            }
        }
        best
    }

    fn update_prices(&mut self, start: usize, length: f64) {
        self.job_price[start] += length;
        for &(job, _) in &self.path.reached[1..] {
            self.job_price[job] += length - self.held[self.held_by[job]].distance;
        }
        for &held in &self.path.closed {
            let held = &mut self.held[held];
            held.price -= length - held.distance;
        }
    }

    /// Gives the free column to the job before it, that job's column to the one before, and so on.
    fn augment(&mut self, start: usize, sink: Place, before: usize) {
        self.held.push(Held {
            col: sink.position * self.machines + sink.machine,
            device_type: sink.device_type,
            factor: (sink.position + 1) as f64,
            price: 0.0,
            job: NONE,
            distance: 0.0,
            before,
        });
        self.take(sink);
        let mut held = self.held.len() - 1;
        loop {
            let job = self.held[held].before;
            self.held[held].job = job;
            std::mem::swap(&mut self.held_by[job], &mut held);
            if job == start {
                return;
            }
        }
    }

    fn take(&mut self, place: Place) {
        while self.taken.len() <= place.position {
            self.open_position();
        }
        self.taken[place.position][place.machine] = true;
        self.free[place.position][place.device_type] -= 1;
        let lowest = &mut self.lowest[place.device_type];
        while self.free.get(*lowest).is_some_and(|free| free[place.device_type] == 0) {
            *lowest += 1;
        }
    }
}
