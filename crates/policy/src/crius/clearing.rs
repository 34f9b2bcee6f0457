//! What it costs to free devices of a node: which of its jobs shrink, leave or wait, at the least loss.

use wharf_core::{JobId, NodeId, View};

use super::Crius;
use super::board::Seat;

/// A job's new place, or none.
pub(super) type Exit = (JobId, Option<Seat>);

/// Some devices become free.
#[derive(Clone, Debug)]
pub(super) struct Clearing {
    /// What the jobs that are disturbed lose.
    pub(super) loss: f64,
    pub(super) exits: Vec<Exit>,
}

/// One thing that a job can do for a node.
struct Way {
    freed: u32,
    loss: f64,
    seat: Option<Seat>,
}

/// For each number of devices, how a node frees at least so many at the least loss.
pub(super) type Clearings = Vec<Option<Clearing>>;

impl Crius {
    /// The clearings of a node, looked up or worked out.
    pub(super) fn clearings(&mut self, view: &View<'_>, node: NodeId) -> &Clearings {
        let index = node.index();
        if self.clearings.len() < self.board.node_count() {
            self.clearings.resize_with(self.board.node_count(), || None);
        }
        if self.clearings[index].is_none() {
            let clearings = self.clear(view, node);
            self.clearings[index] = Some(clearings);
        }
        self.clearings[index].get_or_insert_default()
    }

    /// Tries all ways of up to `depth` jobs, one of each: few devices, few ways, so that all sums fit into a table.
    fn clear(&mut self, view: &View<'_>, node: NodeId) -> Clearings {
        let (size, _) = self.board.room(node);
        let width = size as usize + 1;
        let depth = self.depth.min(size) as usize;
        // `best[used][freed]`.
        let mut best: Vec<Clearings> = vec![vec![None; width]; depth + 1];
        best[0][0] = Some(Clearing { loss: 0.0, exits: Vec::new() });
        for job in self.board.jobs_on(node).to_vec() {
            let ways = self.ways(view, job, node);
            self.steps += 1 + ways.len() as u64;
            for used in (0..depth).rev() {
                for freed in 0..width {
                    let Some(before) = best[used][freed].clone() else { continue };
                    for way in &ways {
                        let to = (freed + way.freed as usize).min(width - 1);
                        let loss = before.loss + way.loss;
                        if best[used + 1][to].as_ref().is_none_or(|known| loss < known.loss) {
                            let mut exits = before.exits.clone();
                            exits.push((job, way.seat.clone()));
                            best[used + 1][to] = Some(Clearing { loss, exits });
                        }
                    }
                }
            }
        }
        at_least(best, width)
    }

    /// What a job can do for a node: shrink where it is, go elsewhere, or wait.
    fn ways(&mut self, view: &View<'_>, job: JobId, node: NodeId) -> Vec<Way> {
        let mut ways = Vec::new();
        if self.is_pinned(view, job) {
            return ways;
        }
        let Some(seat) = self.board.seat(job).cloned() else { return ways };
        let here = seat.on(node);
        let now = self.worth_of(view, job);
        let class = self.class(job);
        for cell in class.cells.iter().filter(|cell| cell.kind == seat.kind && cell.count < seat.count) {
            if let Some(smaller) = without(&seat, node, cell.count)
                && self.may(view, job, *cell)
            {
                let freed = here - smaller.on(node);
                let loss = now - self.worth(view, job, &smaller);
                ways.push(Way { freed, loss, seat: Some(smaller) });
            }
        }
        if let Some(refuge) = self.refuge(view, job, &seat, node) {
            let loss = now - self.worth(view, job, &refuge);
            ways.push(Way { freed: here, loss, seat: Some(refuge) });
        }
        if self.may_suspend(view, job) {
            ways.push(Way { freed: here, loss: self.suspension_loss(view, job, &seat), seat: None });
        }
        ways
    }

    /// What a job loses that leaves its place and waits: it has to be started again, so that it is more than the present.
    pub(super) fn suspension_loss(&self, view: &View<'_>, job: JobId, seat: &Seat) -> f64 {
        let toll = 1.0 - self.toll(view, job, seat.kind, seat.count);
        self.worth(view, job, seat) * (1.0 + toll)
    }

    /// The best place off a node, on no more devices than a job has.
    fn refuge(&mut self, view: &View<'_>, job: JobId, seat: &Seat, node: NodeId) -> Option<Seat> {
        let kept = self.board.lift(job)?;
        let found = self.elsewhere(view, job, seat, Some(node));
        self.board.put(job, kept);
        found
    }

    /// The best free place for a job that has left its own.
    pub(super) fn elsewhere(
        &mut self,
        view: &View<'_>,
        job: JobId,
        seat: &Seat,
        avoid: Option<NodeId>,
    ) -> Option<Seat> {
        let class = self.class(job);
        for &index in &class.by_speed {
            let cell = class.cells[index];
            let stays = cell.kind == seat.kind;
            if cell.count > seat.count
                || stays && !self.rules.may_migrate
                || self.board.free(cell.kind) < cell.count
                || !self.may(view, job, cell)
            {
                continue;
            }
            self.steps += 1;
            let found = self.board.fit(cell.kind, cell.count, avoid);
            let found = found.filter(|seat| self.may_sit(view, job, seat));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// The same place on fewer devices, with as few on one node as can be.
fn without(seat: &Seat, node: NodeId, count: u32) -> Option<Seat> {
    let mut spots: Vec<(NodeId, u32)> = seat.spots.iter().copied().filter(|spot| spot.0 != node).collect();
    if spots.is_empty() {
        spots.push((node, count));
        return Some(Seat::new(seat.kind, spots));
    }
    // Of several nodes whole ones are kept, so that it does not run on more nodes than it needs.
    spots.sort_by_key(|&(node, devices)| (std::cmp::Reverse(devices), node));
    let mut missing = count;
    let mut kept = Vec::new();
    for (node, devices) in spots {
        let taken = devices.min(missing);
        missing -= taken;
        if taken > 0 {
            kept.push((node, taken));
        }
    }
    (missing == 0).then(|| Seat::new(seat.kind, kept))
}

/// For each number of devices the least loss of all ways to free as many or more.
fn at_least(best: Vec<Clearings>, width: usize) -> Clearings {
    let mut clearings: Clearings = vec![None; width];
    for one in best.into_iter().flat_map(|row| row.into_iter().enumerate()) {
        if let (freed, Some(clearing)) = one
            && clearings[freed].as_ref().is_none_or(|known| clearing.loss < known.loss)
        {
            clearings[freed] = Some(clearing);
        }
    }
    for freed in (1..width).rev() {
        let (below, above) = clearings.split_at_mut(freed);
        if let Some(more) = &above[0]
            && below[freed - 1].as_ref().is_none_or(|known| more.loss < known.loss)
        {
            below[freed - 1] = Some(more.clone());
        }
    }
    clearings
}
