//! Blossoms: making them, matching inside them and dissolving them.

use super::{INNER, Matcher, NO_EDGE, OUTER, OUTSIDE, refill};

impl Matcher {
    /// Matches `u` through its edge to `v`; inside blossoms, the alternation around the cycle moves along.
    pub(super) fn set_mate(&mut self, u: usize, v: usize) {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.clear();
        pairs.push((u as u32, v as u32));
        let mut head = 0;
        while let Some(&(u, v)) = pairs.get(head) {
            head += 1;
            let (u, v) = (u as usize, v as usize);
            let (near, far) = self.edge(u, v);
            self.mate[u] = far as u32;
            if u <= self.n {
                continue;
            }
            let child = self.petal_of[self.petal_index(u, near)];
            let position = self.even_position(u, child);
            let petals = &mut self.petals[u];
            for index in 0..position {
                pairs.push((petals[index], petals[index ^ 1]));
            }
            pairs.push((child, v as u32));
            petals.rotate_left(position);
        }
        self.pairs = pairs;
    }

    /// The position of a child in the cycle, which is turned round where that makes it even.
    fn even_position(&mut self, blossom: usize, child: u32) -> usize {
        let petals = &mut self.petals[blossom];
        let position = petals.iter().position(|&petal| petal == child).unwrap_or(0);
        if position % 2 == 0 {
            return position;
        }
        petals[1..].reverse();
        petals.len() - position
    }

    /// Shrinks the cycle that the tight edge between `u` and `v` closes below `ancestor`.
    pub(super) fn shrink(&mut self, u: usize, ancestor: usize, v: usize) {
        let blossom = (self.n + 1..=self.id_max).find(|&id| self.top[id] == 0).unwrap_or(self.id_max + 1);
        self.id_max = self.id_max.max(blossom);
        self.dual[blossom] = 0.0;
        self.side[blossom] = OUTER;
        self.mate[blossom] = self.mate[ancestor];
        let mut cycle = std::mem::take(&mut self.petals[blossom]);
        cycle.clear();
        cycle.push(ancestor as u32);
        self.collect_path(u, ancestor, &mut cycle);
        cycle[1..].reverse();
        self.collect_path(v, ancestor, &mut cycle);
        self.petals[blossom] = cycle;
        self.set_top(blossom, blossom);
        self.link_blossom(blossom);
        self.find_nearest(blossom);
    }

    fn collect_path(&mut self, from: usize, ancestor: usize, cycle: &mut Vec<u32>) {
        let mut id = from;
        while id != ancestor {
            let inner = self.top[self.mate[id] as usize] as usize;
            cycle.extend([id as u32, inner as u32]);
            self.enqueue(inner);
            id = self.top[self.parent[inner] as usize] as usize;
        }
    }

    /// Gives a new blossom, for every other id, the edge with the least slack among its children's.
    fn link_blossom(&mut self, blossom: usize) {
        let children = std::mem::take(&mut self.petals[blossom]);
        let mut held = std::mem::take(&mut self.held_slack);
        refill(&mut held, self.id_max + 1, f64::INFINITY);
        let mut links = std::mem::take(&mut self.links);
        // The new blossom's row is written while others' are read.
        let before = self.link_index(blossom, 0);
        let (others, own) = links.split_at_mut(before);
        let (own, later) = own.split_at_mut(self.id_stride);
        for &child in &children {
            let child = child as usize;
            if child <= self.n {
                self.offer_vertex_links(child, &mut held, own);
            }
            let first = if child <= self.n { self.n + 1 } else { 1 };
            for id in (first..=self.id_max).filter(|&id| id != blossom) {
                let at = |owner: usize, other: usize| {
                    let index = self.link_index(owner, other);
                    if index < before { others[index] } else { later[index - before - self.id_stride] }
                };
                if self.top[id] == 0 {
                    continue;
                }
                let (u, v) = if child > self.n {
                    at(child, id)
                } else {
                    let (far, near) = at(id, child);
                    (near, far)
                };
                self.offer_link(u as usize, v as usize, &mut held[id], &mut own[id]);
            }
        }
        for id in (self.n + 1..=self.id_max).filter(|&id| id != blossom && self.top[id] != 0) {
            let (u, v) = own[id];
            let index = self.link_index(id, blossom);
            if index < before {
                others[index] = (v, u);
            } else {
                later[index - before - self.id_stride] = (v, u);
            }
        }
        self.links = links;
        self.held_slack = held;
        self.petals[blossom] = children;
        self.list_vertices(blossom);
    }

    /// Offers a new blossom the edges from one of its vertices to all vertices.
    fn offer_vertex_links(&self, child: usize, held: &mut [f64], own: &mut [(u32, u32)]) {
        let row = &self.twice[child * self.stride..][..self.n + 1];
        let dual = self.dual[child];
        for id in 1..=self.n {
            let twice = row[id];
            let is_edge = twice > NO_EDGE;
            let slack = dual + self.dual[id] - if is_edge { twice } else { 0.0 };
            if slack < held[id] {
                held[id] = if is_edge { slack } else { f64::INFINITY };
                own[id] = (child as u32, id as u32);
            }
        }
    }

    /// Takes an edge for a link if it has less slack than the one held; a missing edge gives way to anything.
    fn offer_link(&self, u: usize, v: usize, held: &mut f64, own: &mut (u32, u32)) {
        let slack = self.slack(u, v);
        if slack < *held {
            *held = if self.is_edge(u, v) { slack } else { f64::INFINITY };
            *own = (u as u32, v as u32);
        }
    }

    /// Notes which vertices a new blossom has, and through which child.
    fn list_vertices(&mut self, blossom: usize) {
        let row = self.petal_index(blossom, 0)..self.petal_index(blossom, self.n) + 1;
        self.petal_of[row].fill(0);
        let mut vertices = std::mem::take(&mut self.vertices[blossom]);
        vertices.clear();
        for index in 0..self.petals[blossom].len() {
            let child = self.petals[blossom][index];
            let from = vertices.len();
            if child as usize <= self.n {
                vertices.push(child);
            } else {
                vertices.extend_from_slice(&self.vertices[child as usize]);
            }
            for &vertex in &vertices[from..] {
                let slot = self.petal_index(blossom, vertex as usize);
                self.petal_of[slot] = child;
            }
        }
        self.vertex_max[blossom] = vertices.iter().copied().max().unwrap_or(0);
        self.vertices[blossom] = vertices;
    }

    /// Dissolves an inner blossom whose dual is used up: the part of the cycle on the tree path stays in the tree.
    pub(super) fn expand(&mut self, blossom: usize) {
        for index in 0..self.petals[blossom].len() {
            let child = self.petals[blossom][index] as usize;
            self.set_top(child, child);
        }
        let (near, _) = self.edge(blossom, self.parent[blossom] as usize);
        let entry = self.petal_of[self.petal_index(blossom, near)];
        let position = self.even_position(blossom, entry);
        let children = std::mem::take(&mut self.petals[blossom]);
        for pair in children[..position].chunks_exact(2) {
            let (inner, outer) = (pair[0] as usize, pair[1] as usize);
            self.parent[inner] = self.edge(outer, inner).0 as u32;
            self.side[inner] = INNER;
            self.side[outer] = OUTER;
            self.clear_nearest(inner);
            self.find_nearest(outer);
            self.enqueue(outer);
        }
        let entry = entry as usize;
        self.side[entry] = INNER;
        self.parent[entry] = self.parent[blossom];
        self.refresh_threshold(entry);
        for &child in children.iter().skip(position + 1) {
            self.side[child as usize] = OUTSIDE;
            self.find_nearest(child as usize);
        }
        self.petals[blossom] = children;
        self.top[blossom] = 0;
    }
}
