//! The weighted Blossom algorithm over 64-bit floats.
//!
//! Vertices are counted from 1 inside; ids above `n` are blossoms (odd cycles shrunk to one vertex), 0 means none.
//! `side` states how a top-level vertex hangs in the current forest: outer, inner or outside of it.
//!
//! Three properties decide ties and are kept on purpose, although none follows from the mathematics:
//! - an edge is tight when its slack is at most zero, without a tolerance, but the search gives up when a dual is
//!   within 1e-5 of the step: so a vertex can be left naming a partner that no longer names it;
//! - blossoms made while the tight edges after a dual step are visited are not visited in that pass;
//! - a blossom's vertices enter the queue breadth first.
//!
//! All else is for speed: rows are flat, the search skips inner vertices (nothing can come of them) and its own
//! blossom, checks the nearest edges of other blossoms once per vertex rather than once per edge, and rejects by a
//! vector comparison with `threshold` nearly all edges that neither are tight nor improve a slack.

mod shrink;

/// Stands for "no partner" in the result of [`Matcher::solve`].
pub const UNMATCHED: usize = usize::MAX;

const OUTSIDE: i8 = -1;
const OUTER: i8 = 0;
const INNER: i8 = 1;

/// Marks a missing edge in `twice`: its slack is then infinite, which no threshold accepts.
const NO_EDGE: f64 = f64::NEG_INFINITY;

/// How many edges the search checks in one comparison.
const LANES: usize = 8;

/// Relative distance at which a dual counts as used up.
const DUAL_TOLERANCE: f64 = 1e-5;

/// A maximum-weight matcher that keeps its memory from call to call.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Vertices.
    n: usize,
    /// Largest id in use: vertices and blossoms.
    id_max: usize,
    /// Width of rows that are indexed by vertex.
    stride: usize,
    /// Width of rows that are indexed by vertex or blossom.
    id_stride: usize,
    /// Twice the weight of each edge, [`NO_EDGE`] where there is none.
    twice: Vec<f64>,
    /// Dual variables.
    dual: Vec<f64>,
    /// The vertex at the far end of each id's matched edge.
    mate: Vec<u32>,
    /// The top-level id that contains each id; 0 for a free blossom id.
    top: Vec<u32>,
    /// The vertex through which an inner id was reached.
    parent: Vec<u32>,
    side: Vec<i8>,
    /// The outer vertex with the least slack to each id, and that slack.
    nearest: Vec<u32>,
    nearest_slack: Vec<f64>,
    /// Per vertex: an edge to it with at least this slack can be ignored.
    threshold: Vec<f64>,
    /// The blossom that is being searched from, whose own vertices are ignored; or 0.
    hidden: usize,
    /// Counts changes of the forest, after which a search has to check blossoms again.
    change_count: u64,
    /// Whether no edge is missing.
    is_complete: bool,
    /// Per blossom: its vertices, and the largest of them.
    vertices: Vec<Vec<u32>>,
    vertex_max: Vec<u32>,
    held_slack: Vec<f64>,
    /// Visit marks of `common_ancestor`.
    mark: Vec<u32>,
    mark_now: u32,
    /// Children of each blossom, around the cycle, base first.
    petals: Vec<Vec<u32>>,
    /// Per blossom and vertex: the child that contains the vertex, or 0.
    petal_of: Vec<u32>,
    /// Per blossom and id: the edge between them, as (vertex inside the blossom, vertex in the other).
    links: Vec<(u32, u32)>,
    queue: Vec<u32>,
    queue_head: usize,
    stack: Vec<u32>,
    pairs: Vec<(u32, u32)>,
    result: Vec<usize>,
}

impl Matcher {
    /// A matcher without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Matches the `n` vertices of a graph with row-major `weights`; entries that are not positive, and those on the
    /// diagonal, are no edges.
    ///
    /// Returns each vertex's partner or [`UNMATCHED`]. The matrix may be asymmetric in the last bits. Rarely,
    /// rounding leaves a vertex whose partner names another vertex; [`super::mutual_pairs`] drops such ones.
    ///
    /// # Panics
    /// Panics if `weights` has not `n * n` entries.
    pub fn solve(&mut self, n: usize, weights: &[f64]) -> &[usize] {
        assert_eq!(weights.len(), n * n, "one weight per ordered pair");
        self.result.clear();
        self.result.resize(n, UNMATCHED);
        // Without the diagonal: the largest weight is where all duals start, and so decides ties.
        let edges = weights.iter().enumerate().filter(|(index, _)| index % (n + 1) != 0);
        let weight_max = edges.fold(0.0, |max: f64, (_, &weight)| if weight > max { weight } else { max });
        if weight_max > 0.0 {
            self.reset(n, weights, weight_max);
            while self.grow_and_augment() {}
            for vertex in 1..=n {
                if self.mate[vertex] != 0 {
                    self.result[vertex - 1] = self.mate[vertex] as usize - 1;
                }
            }
        }
        &self.result
    }

    fn reset(&mut self, n: usize, weights: &[f64], weight_max: f64) {
        // A laminar family of odd sets of at least three has fewer than half as many members as there are vertices.
        let ids = n + n / 2 + 2;
        self.n = n;
        self.id_max = n;
        // Padded, so that the search can always check a whole number of lanes.
        self.stride = n + 1 + LANES;
        self.id_stride = ids;
        refill(&mut self.twice, (n + 1) * self.stride, NO_EDGE);
        for (u, row) in weights.chunks_exact(n).enumerate() {
            let target = &mut self.twice[(u + 1) * self.stride + 1..][..n];
            for (slot, &weight) in target.iter_mut().zip(row) {
                *slot = if weight > 0.0 { 2.0 * weight } else { NO_EDGE };
            }
            target[u] = NO_EDGE;
        }
        refill(&mut self.dual, ids.max(self.stride), 0.0);
        self.dual[..=n].fill(weight_max);
        refill(&mut self.mate, ids, 0);
        self.top.clear();
        self.top.extend(0..=n as u32);
        self.top.resize(ids, 0);
        refill(&mut self.parent, ids, 0);
        refill(&mut self.side, ids, OUTSIDE);
        refill(&mut self.nearest, ids, 0);
        refill(&mut self.nearest_slack, ids, f64::INFINITY);
        refill(&mut self.threshold, self.stride, f64::NEG_INFINITY);
        refill(&mut self.vertex_max, ids, 0);
        self.is_complete =
            weights.iter().enumerate().all(|(index, &weight)| weight > 0.0 || index % (n + 1) == 0);
        refill(&mut self.mark, ids, 0);
        self.mark_now = 0;
        for petals in &mut self.petals {
            petals.clear();
        }
        self.petals.resize(self.petals.len().max(ids), Vec::new());
        self.vertices.resize(self.vertices.len().max(ids), Vec::new());
        refill(&mut self.petal_of, (ids - n) * (n + 1), 0);
        refill(&mut self.links, (ids - n) * ids, (0, 0));
    }

    /// One phase: grows alternating trees from all free vertices until a path between two of them is found and
    /// flipped. False where there is none left that gains weight.
    fn grow_and_augment(&mut self) -> bool {
        self.side[..=self.id_max].fill(OUTSIDE);
        self.nearest[..=self.id_max].fill(0);
        self.nearest_slack[..=self.id_max].fill(f64::INFINITY);
        self.hidden = 0;
        // Ids that are not vertices of the graph (0 and the padding) stay rejected.
        for vertex in 1..=self.n {
            let is_single = self.top[vertex] as usize == vertex;
            self.threshold[vertex] = if is_single { f64::INFINITY } else { f64::MIN_POSITIVE };
        }
        self.queue.clear();
        self.queue_head = 0;
        for id in 1..=self.id_max {
            if self.top[id] == id as u32 && self.mate[id] == 0 {
                self.parent[id] = 0;
                self.side[id] = OUTER;
                self.enqueue(id);
            }
        }
        if self.queue.is_empty() {
            return false;
        }
        loop {
            if self.search_tight_edges() {
                return true;
            }
            let step = self.dual_step();
            if !self.move_duals(step) {
                return false;
            }
            self.queue.clear();
            self.queue_head = 0;
            if self.visit_nearest() {
                return true;
            }
            for blossom in self.n + 1..=self.id_max {
                if self.is_top(blossom) && self.side[blossom] == INNER && self.dual[blossom] <= 0.0 {
                    self.expand(blossom);
                }
            }
        }
    }

    /// Breadth-first search over tight edges; true when a path was flipped.
    fn search_tight_edges(&mut self) -> bool {
        while self.queue_head < self.queue.len() {
            let u = self.queue[self.queue_head] as usize;
            self.queue_head += 1;
            if self.side[self.top[u] as usize] == INNER {
                continue;
            }
            self.hide_own(u);
            self.offer_to_blossoms(u, 0);
            let mut v = 1;
            while let Some(candidate) = self.next_candidate(u, v) {
                v = candidate;
                let changes = self.change_count;
                if self.look_at_edge(u, v) {
                    return true;
                }
                if self.change_count != changes {
                    self.hide_own(u);
                    self.offer_to_blossoms(u, v);
                }
                v += 1;
            }
        }
        false
    }

    /// Makes the search from `u` ignore the vertices of its own blossom, and no longer those of another.
    fn hide_own(&mut self, u: usize) {
        let own = self.top[u] as usize;
        if own == self.hidden {
            return;
        }
        let before = std::mem::take(&mut self.hidden);
        if before != 0 && self.is_top(before) {
            self.refresh_threshold(before);
        }
        if own > self.n {
            self.hidden = own;
            self.refresh_threshold(own);
        }
    }

    /// Makes `u` the nearest of blossoms that it is nearer to, if it has edges to vertices of theirs after `v`.
    ///
    /// A scan edge by edge would do so when it comes to such a vertex; doing it now is the same, because only
    /// changes of the forest matter in between, and after those it is done again.
    fn offer_to_blossoms(&mut self, u: usize, v: usize) {
        for blossom in self.n + 1..=self.id_max {
            if self.is_top(blossom)
                && self.side[blossom] != INNER
                && self.top[u] as usize != blossom
                && self.has_edge_after(u, blossom, v)
            {
                self.offer_nearest(u, blossom);
            }
        }
    }

    fn has_edge_after(&self, u: usize, blossom: usize, v: usize) -> bool {
        if self.is_complete {
            return self.vertex_max[blossom] as usize > v;
        }
        let (_, far) = self.edge(u, blossom);
        let within = |vertex: &usize| self.petal_of[self.petal_index(blossom, *vertex)] != 0;
        far > v && self.is_edge(u, far)
            || (v + 1..=self.n).filter(within).any(|vertex| self.is_edge(u, vertex))
    }

    /// The first vertex from `from` on whose edge from `u` is below the vertex's threshold.
    #[inline]
    fn next_candidate(&self, u: usize, from: usize) -> Option<usize> {
        let row = &self.twice[u * self.stride..][..self.stride];
        let dual = &self.dual[..self.stride];
        let threshold = &self.threshold[..self.stride];
        let dual_u = dual[u];
        let mut v = from;
        while v <= self.n {
            let (row, dual, threshold) = (&row[v..v + LANES], &dual[v..v + LANES], &threshold[v..v + LANES]);
            let mut any = false;
            for lane in 0..LANES {
                any |= dual_u + dual[lane] - row[lane] < threshold[lane];
            }
            if any {
                let below = |lane: &usize| dual_u + dual[*lane] - row[*lane] < threshold[*lane];
                return (0..LANES).find(below).map(|lane| v + lane);
            }
            v += LANES;
        }
        None
    }

    fn look_at_edge(&mut self, u: usize, v: usize) -> bool {
        let (top_u, top_v) = (self.top[u] as usize, self.top[v] as usize);
        if top_u == top_v || !self.is_edge(u, v) {
            return false;
        }
        if self.slack(u, v) <= 0.0 {
            return self.take_edge(u, v);
        }
        if top_v <= self.n {
            self.offer_nearest(u, top_v);
        }
        false
    }

    /// How far the duals can move until something becomes tight or a blossom dissolves.
    fn dual_step(&self) -> f64 {
        let mut step = f64::INFINITY;
        for blossom in self.n + 1..=self.id_max {
            if self.is_top(blossom) && self.side[blossom] == INNER {
                step = step.min(self.dual[blossom] / 2.0);
            }
        }
        for id in 1..=self.id_max {
            if self.is_top(id) && self.nearest[id] != 0 {
                match self.side[id] {
                    OUTSIDE => step = step.min(self.nearest_slack[id]),
                    OUTER => step = step.min(self.nearest_slack[id] / 2.0),
                    _ => {}
                }
            }
        }
        step
    }

    /// Moves the duals; false when an outer vertex has none left, which ends the search for good.
    fn move_duals(&mut self, step: f64) -> bool {
        for u in 1..=self.n {
            match self.side[self.top[u] as usize] {
                OUTER => {
                    let dual = self.dual[u];
                    if dual <= step || is_close(dual, step, DUAL_TOLERANCE) {
                        return false;
                    }
                    self.dual[u] = dual - step;
                }
                INNER => self.dual[u] += step,
                _ => {}
            }
        }
        for blossom in self.n + 1..=self.id_max {
            if self.is_top(blossom) {
                match self.side[blossom] {
                    OUTER => self.dual[blossom] += step * 2.0,
                    INNER => self.dual[blossom] -= step * 2.0,
                    _ => {}
                }
            }
        }
        for id in 1..=self.id_max {
            if self.is_top(id) && self.nearest[id] != 0 {
                let (u, v) = self.edge(self.nearest[id] as usize, id);
                self.nearest_slack[id] = self.slack(u, v);
                if id <= self.n {
                    self.refresh_threshold(id);
                }
            }
        }
        true
    }

    /// Takes the nearest edges that the dual step made tight. The bound is read once: see the module's notes.
    fn visit_nearest(&mut self) -> bool {
        for id in 1..=self.id_max {
            let from = self.nearest[id] as usize;
            if self.is_top(id) && from != 0 && self.top[from] != id as u32 && self.nearest_slack[id] <= 0.0 {
                let (u, v) = self.edge(from, id);
                if self.take_edge(u, v) {
                    return true;
                }
            }
        }
        false
    }

    /// A tight edge from the outer vertex `u`: grows the tree, shrinks a cycle, or flips a path (true).
    fn take_edge(&mut self, u: usize, v: usize) -> bool {
        let (top_u, top_v) = (self.top[u] as usize, self.top[v] as usize);
        match self.side[top_v] {
            OUTSIDE => {
                self.change_count += 1;
                self.parent[top_v] = u as u32;
                self.side[top_v] = INNER;
                let next = self.top[self.mate[top_v] as usize] as usize;
                self.clear_nearest(top_v);
                self.side[next] = OUTER;
                self.clear_nearest(next);
                self.enqueue(next);
                false
            }
            OUTER => match self.common_ancestor(top_u, top_v) {
                0 => {
                    self.flip_path(top_u, top_v);
                    self.flip_path(top_v, top_u);
                    true
                }
                ancestor => {
                    self.change_count += 1;
                    self.shrink(top_u, ancestor, top_v);
                    false
                }
            },
            _ => false,
        }
    }

    /// Where the tree paths of two outer ids meet, or 0. Walks them alternately.
    fn common_ancestor(&mut self, mut u: usize, mut v: usize) -> usize {
        self.mark_now += 1;
        while u != 0 || v != 0 {
            if u != 0 {
                if self.mark[u] == self.mark_now {
                    return u;
                }
                self.mark[u] = self.mark_now;
                u = self.top[self.mate[u] as usize] as usize;
                if u != 0 {
                    u = self.top[self.parent[u] as usize] as usize;
                }
            }
            std::mem::swap(&mut u, &mut v);
        }
        0
    }

    fn flip_path(&mut self, mut u: usize, mut v: usize) {
        // A path visits each id at most once; the bound only matters if rounding broke the structure.
        for _ in 0..=self.id_max {
            let next = self.top[self.mate[u] as usize] as usize;
            self.set_mate(u, v);
            if next == 0 {
                return;
            }
            let above = self.top[self.parent[next] as usize] as usize;
            self.set_mate(next, above);
            (u, v) = (above, next);
        }
    }

    /// Appends an id's vertices to the queue, breadth first.
    fn enqueue(&mut self, id: usize) {
        if id <= self.n {
            self.queue.push(id as u32);
            return;
        }
        let mut pending = std::mem::take(&mut self.stack);
        pending.clear();
        pending.push(id as u32);
        let mut head = 0;
        while let Some(&id) = pending.get(head) {
            head += 1;
            if id as usize <= self.n {
                self.queue.push(id);
            } else {
                pending.extend_from_slice(&self.petals[id as usize]);
            }
        }
        self.stack = pending;
    }

    /// Makes `top` the top-level id of `id` and all inside it.
    fn set_top(&mut self, id: usize, top: usize) {
        let mut pending = std::mem::take(&mut self.stack);
        pending.clear();
        pending.push(id as u32);
        while let Some(id) = pending.pop() {
            self.top[id as usize] = top as u32;
            if id as usize > self.n {
                pending.extend_from_slice(&self.petals[id as usize]);
            }
        }
        self.stack = pending;
    }

    /// Recomputes which outer vertex is nearest to a top-level id.
    fn find_nearest(&mut self, id: usize) {
        self.nearest[id] = 0;
        self.nearest_slack[id] = f64::INFINITY;
        for u in 1..=self.n {
            let top = self.top[u] as usize;
            if top != id && self.side[top] == OUTER {
                let (near, far) = self.edge(u, id);
                if self.is_edge(near, far) {
                    let slack = self.slack(near, far);
                    if self.nearest[id] == 0 || slack < self.nearest_slack[id] {
                        self.nearest[id] = u as u32;
                        self.nearest_slack[id] = slack;
                    }
                }
            }
        }
        self.refresh_threshold(id);
    }

    /// Makes `u` the nearest of a top-level id if it is nearer.
    #[inline]
    fn offer_nearest(&mut self, u: usize, id: usize) {
        let (near, far) = self.edge(u, id);
        let slack = self.slack(near, far);
        if self.nearest[id] == 0 || slack < self.nearest_slack[id] {
            self.nearest[id] = u as u32;
            self.nearest_slack[id] = slack;
            if id <= self.n {
                self.refresh_threshold(id);
            }
        }
    }

    fn clear_nearest(&mut self, id: usize) {
        self.nearest[id] = 0;
        self.nearest_slack[id] = f64::INFINITY;
        self.refresh_threshold(id);
    }

    /// Recomputes which edges to a top-level id's vertices can be ignored: all to an inner or hidden one; to a single
    /// vertex those that neither are tight nor nearer; to a blossom those that are not tight.
    fn refresh_threshold(&mut self, id: usize) {
        if id <= self.n {
            self.threshold[id] = match self.side[id] {
                INNER => f64::NEG_INFINITY,
                _ => self.nearest_slack[id].max(f64::MIN_POSITIVE),
            };
            return;
        }
        let is_ignored = self.side[id] == INNER || id == self.hidden;
        let threshold = if is_ignored { f64::NEG_INFINITY } else { f64::MIN_POSITIVE };
        for &vertex in &self.vertices[id] {
            self.threshold[vertex as usize] = threshold;
        }
    }

    #[inline]
    fn is_top(&self, id: usize) -> bool {
        self.top[id] == id as u32
    }

    /// The vertices that the edge between two ids joins, the first inside `a`.
    #[inline]
    fn edge(&self, a: usize, b: usize) -> (usize, usize) {
        if a > self.n {
            let (near, far) = self.links[self.link_index(a, b)];
            (near as usize, far as usize)
        } else if b > self.n {
            let (far, near) = self.links[self.link_index(b, a)];
            (near as usize, far as usize)
        } else {
            (a, b)
        }
    }

    #[inline]
    fn is_edge(&self, u: usize, v: usize) -> bool {
        self.twice[u * self.stride + v] > NO_EDGE
    }

    /// How far the duals of an edge's ends are above its weight; for a missing edge, a weight of zero counts.
    #[inline]
    fn slack(&self, u: usize, v: usize) -> f64 {
        let twice = self.twice[u * self.stride + v];
        self.dual[u] + self.dual[v] - if twice > NO_EDGE { twice } else { 0.0 }
    }

    #[inline]
    fn link_index(&self, blossom: usize, id: usize) -> usize {
        (blossom - self.n) * self.id_stride + id
    }

    #[inline]
    fn petal_index(&self, blossom: usize, vertex: usize) -> usize {
        (blossom - self.n) * (self.n + 1) + vertex
    }
}

/// Whether two numbers differ by at most `tolerance` of the larger.
fn is_close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a - b).abs() <= tolerance * a.abs().max(b.abs()) && a.is_finite() && b.is_finite()
}

fn refill<T: Clone>(vector: &mut Vec<T>, len: usize, value: T) {
    vector.clear();
    vector.resize(len, value);
}
