//! Rectangles as a file or a page has them: whole numbers, in as few bytes as need be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_core::{ClusterSpec, JobId, JobSpec};
use wharf_outcome::Span;

use super::{Block, Grid, Rows};
use crate::human::shortened;

/// The time from the first start to the last end, in the unit of rectangles.
const TICKS: f64 = 1_048_576.0;
const NAME_LENGTH_MAX: usize = 48;
/// Numbers of a rectangle.
const FIELDS: usize = 6;
/// Grids to which rectangles are reduced where they are too many, the finest first.
const GRIDS: [(usize, usize); 7] = [(128, 600), (64, 360), (48, 240), (32, 160), (24, 96), (12, 48), (8, 24)];

/// Who held which devices when: enough to draw it at any scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stays {
    /// Name and devices of each node; rows are devices in this order.
    nodes: Vec<(String, u32)>,
    /// Seconds from the first start to the last end.
    length_s: f64,
    /// Who submitted jobs.
    users: Vec<String>,
    /// Name, position of the user, and devices asked for.
    jobs: Vec<(String, u32, u32)>,
    /// Six numbers each, by start: ticks since the start before, ticks that it lasts, first row, rows, job, and 0, or
    /// `lanes × 256 + lane` where jobs share a device.
    blocks: Vec<u32>,
    /// Rectangles that there were, where these are only cells that show the job that held most of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reduced_from: Option<u64>,
}

impl Stays {
    /// What an outcome has recorded; `None` where that is nothing.
    pub fn new(cluster: &ClusterSpec, spans: &[Span], specs: &[JobSpec]) -> Option<Self> {
        if spans.is_empty() {
            return None;
        }
        let node_devices: Vec<u32> = cluster.nodes.iter().map(|node| node.devices).collect();
        let rows = Rows::new(&node_devices, spans);
        let name = |index: usize| {
            cluster.nodes.get(index).map_or_else(|| format!("node {index}"), |node| node.name.to_string())
        };
        let nodes = rows
            .nodes()
            .enumerate()
            .map(|(index, (first, end))| (shortened(&name(index), NAME_LENGTH_MAX), (end - first) as u32));
        let mut users: BTreeMap<&str, u32> = BTreeMap::new();
        let mut job = |id: u32| match specs.get(id as usize) {
            Some(spec) => {
                let count = users.len() as u32;
                let user = *users.entry(spec.user.as_deref().unwrap_or_default()).or_insert(count);
                (shortened(&spec.name, NAME_LENGTH_MAX), user, spec.gang.devices)
            }
            None => (JobId(id).to_string(), 0, 0),
        };
        let last = spans.iter().map(|span| span.job.0).max().unwrap_or(0);
        let jobs: Vec<(String, u32, u32)> = (0..=last).map(&mut job).collect();
        let mut named = vec![String::new(); users.len().max(1)];
        for (user, position) in users {
            named[position as usize] = shortened(user, NAME_LENGTH_MAX);
        }
        let mut stays = Self {
            nodes: nodes.collect(),
            length_s: rows.length,
            users: named,
            jobs,
            blocks: Vec::new(),
            reduced_from: None,
        };
        stays.encode(rows.blocks(spans));
        Some(stays)
    }

    /// How many rectangles there are.
    pub fn len(&self) -> usize {
        self.blocks.len() / FIELDS
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes that it takes as JSON.
    pub fn size(&self) -> usize {
        serde_json::to_string(self).map_or(usize::MAX, |text| text.len())
    }

    /// The same in at most so many bytes: as it is, or as cells of the finest grid that fits. `None` where none does.
    #[must_use]
    pub fn within(&self, bytes: usize) -> Option<Self> {
        if self.size() <= bytes {
            return Some(self.clone());
        }
        let fits = |stays: &Self| stays.size() <= bytes;
        GRIDS.iter().map(|&(rows, columns)| self.reduced(rows, columns)).find(fits)
    }

    fn reduced(&self, rows: usize, columns: usize) -> Self {
        let devices = self.nodes.iter().map(|node| node.1 as usize).sum::<usize>().max(1);
        let grid = Grid { devices, length: self.length_s, rows: rows.min(devices), columns };
        let cells = grid.reduce(&self.decode());
        let mut used: Vec<JobId> = cells.iter().map(|cell| cell.job).collect();
        used.sort_unstable();
        used.dedup();
        let jobs = used.iter().map(|job| self.jobs[job.index()].clone());
        let mut stays = Self {
            nodes: self.nodes.clone(),
            length_s: self.length_s,
            users: self.users.clone(),
            jobs: jobs.collect(),
            blocks: Vec::new(),
            reduced_from: Some(self.reduced_from.unwrap_or(self.len() as u64)),
        };
        let renamed = |cell: Block| {
            let job = used.binary_search(&cell.job).unwrap_or(0);
            Block { job: JobId::from_index(job), ..cell }
        };
        stays.encode(cells.into_iter().map(renamed).collect());
        stays
    }

    fn encode(&mut self, mut blocks: Vec<Block>) {
        let ticks = |seconds: f64| (seconds / self.length_s * TICKS).round().clamp(0.0, TICKS) as u32;
        blocks.sort_by(|a, b| a.from.total_cmp(&b.from).then(a.row.cmp(&b.row)).then(a.lane.cmp(&b.lane)));
        let mut before = 0;
        for block in blocks {
            let (from, until) = (ticks(block.from), ticks(block.until));
            let shared = if block.lanes > 1 { block.lanes.min(255) * 256 + block.lane.min(255) } else { 0 };
            let lasts = until.saturating_sub(from).max(1);
            let [row, rows, shared] = [block.row, block.rows, shared].map(|number| number as u32);
            self.blocks.extend([from.saturating_sub(before), lasts, row, rows, block.job.0, shared]);
            before = from;
        }
    }

    fn decode(&self) -> Vec<Block> {
        let seconds = |ticks: u32| f64::from(ticks) / TICKS * self.length_s;
        let mut start = 0;
        let block = |numbers: &[u32]| {
            start += numbers[0];
            let (shared, [row, rows]) = (numbers[5] as usize, [numbers[2] as usize, numbers[3] as usize]);
            Block {
                job: JobId(numbers[4]),
                from: seconds(start),
                until: seconds(start + numbers[1]),
                row,
                rows,
                lane: shared % 256,
                lanes: (shared / 256).max(1),
            }
        };
        self.blocks.chunks_exact(FIELDS).map(block).collect()
    }

    /// Whether the numbers make sense: a file may hold anything.
    pub(crate) fn is_sound(&self) -> bool {
        let devices: u64 = self.nodes.iter().map(|node| u64::from(node.1)).sum();
        let mut start: u64 = 0;
        let fits = |numbers: &[u32]| {
            start += u64::from(numbers[0]);
            start + u64::from(numbers[1]) <= 2 * TICKS as u64
                && u64::from(numbers[2]) + u64::from(numbers[3]) <= devices
                && (numbers[4] as usize) < self.jobs.len()
        };
        self.blocks.len().is_multiple_of(FIELDS)
            && self.length_s.is_finite()
            && self.length_s > 0.0
            && self.jobs.iter().all(|job| (job.1 as usize) < self.users.len())
            && self.blocks.chunks_exact(FIELDS).all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, span};

    fn stays() -> Stays {
        let cluster = ClusterSpec::uniform("v100", 1, 4);
        Stays::new(&cluster, &fixture::outcome().spans, &fixture::specs()).unwrap()
    }

    #[test]
    fn rectangles_are_few_whole_numbers() {
        let stays = stays();
        insta::assert_snapshot!(serde_json::to_string(&stays).unwrap(), @r#"{"nodes":[["v100-0",4]],"length_s":80.0,"users":["ann","bob"],"jobs":[["alpha",0,1],["beta <b>",1,2],["gamma",0,2]],"blocks":[0,131072,0,1,0,0,262144,262144,0,2,1,0,0,262144,2,2,2,0,262144,524288,0,1,2,0,0,524288,3,1,2,0]}"#);
        assert!(stays.is_sound());
        assert_eq!(stays.within(usize::MAX), Some(stays.clone()));
        assert_eq!(stays.within(10), None);
    }

    #[test]
    fn too_many_spans_are_reduced_to_cells_with_a_note() {
        let spans: Vec<Span> = (0..60_000)
            .map(|index| {
                let start = f64::from(index / 300) * 10.0;
                span(index, index % 300, 0xff, start, start + 9.0)
            })
            .collect();
        let stays = Stays::new(&ClusterSpec::uniform("v100", 300, 8), &spans, &[]).unwrap();
        assert_eq!(stays.len(), 60_000);
        for bytes in [1_000_000, 200_000, 40_000] {
            let reduced = stays.within(bytes).unwrap();
            assert!(reduced.size() <= bytes && reduced.is_sound() && !reduced.is_empty());
            assert_eq!(reduced.reduced_from, Some(60_000));
        }
        let twice = stays.within(200_000).unwrap().within(30_000).unwrap();
        assert_eq!(twice.reduced_from, Some(60_000), "of what there was at first");
    }

    #[test]
    fn numbers_that_make_no_sense_are_noticed() {
        let break_it = |change: fn(&mut Stays)| {
            let mut stays = stays();
            change(&mut stays);
            stays.is_sound()
        };
        assert!(!break_it(|stays| stays.blocks.truncate(7)));
        assert!(!break_it(|stays| stays.blocks[4] = 99));
        assert!(!break_it(|stays| stays.blocks[3] = u32::MAX));
        assert!(!break_it(|stays| stays.length_s = 0.0));
        assert!(!break_it(|stays| stays.jobs[0].1 = 9));
        assert!(break_it(|_| {}));
    }
}
