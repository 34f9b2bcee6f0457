//! Who held which devices when, as rectangles: rows are devices, grouped by node; time goes to the right.

mod encoded;

pub use encoded::Stays;

use wharf_core::JobId;
use wharf_outcome::Span;

/// Which row each device has, and which time is shown.
pub(crate) struct Rows {
    /// First row of each node, and after the last the number of rows.
    first: Vec<usize>,
    /// The first start.
    pub(crate) start: f64,
    /// From there to the last end.
    pub(crate) length: f64,
}

/// A rectangle: one span on neighbouring devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) span: usize,
    pub(crate) row: usize,
    pub(crate) rows: usize,
    /// Place among the jobs that share the device, and how many places there are.
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
}

/// A rectangle without its span: seconds are since the first start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) job: JobId,
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) row: usize,
    pub(crate) rows: usize,
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
}

impl Rows {
    /// Nodes and devices that only the spans know are added, so `node_devices` may be empty.
    pub(crate) fn new(node_devices: &[u32], spans: &[Span]) -> Self {
        let mut devices = node_devices.to_vec();
        for span in spans {
            let node = span.share.node.index();
            if devices.len() <= node {
                devices.resize(node + 1, 0);
            }
            devices[node] = devices[node].max(u128::BITS - span.share.devices.0.leading_zeros());
        }
        let mut first = vec![0];
        for count in devices {
            first.push(first[first.len() - 1] + count as usize);
        }
        let start = spans.iter().map(|span| span.start.seconds()).fold(f64::INFINITY, f64::min);
        let end = spans.iter().map(|span| span.end.seconds()).fold(f64::NEG_INFINITY, f64::max);
        let (start, length) = if start < end { (start, end - start) } else { (0.0, 1.0) };
        Self { first, start, length }
    }

    pub(crate) fn device_count(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    /// First row of each node and the row after its last, in order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, usize)> {
        self.first.windows(2).map(|pair| (pair[0], pair[1]))
    }

    /// The rectangles: neighbouring devices of a span are one, unless they are shared.
    pub(crate) fn pieces(&self, spans: &[Span]) -> Vec<Piece> {
        let mut on_device: Vec<Vec<usize>> = vec![Vec::new(); self.device_count()];
        for (index, span) in spans.iter().enumerate() {
            let base = self.first[span.share.node.index()];
            for device in span.share.devices.iter() {
                on_device[base + device as usize].push(index);
            }
        }
        let mut single: Vec<Piece> = Vec::new();
        for (row, indexes) in on_device.iter_mut().enumerate() {
            indexes.sort_by_key(|&index| (spans[index].start, index));
            let placed = lanes(indexes, spans).into_iter();
            single.extend(placed.map(|(span, lane, lanes)| Piece { span, row, rows: 1, lane, lanes }));
        }
        single.sort_unstable();
        let mut merged: Vec<Piece> = Vec::new();
        for piece in single {
            match merged.last_mut() {
                Some(last)
                    if last.span == piece.span
                        && last.row + last.rows == piece.row
                        && (last.lanes, piece.lanes) == (1, 1) =>
                {
                    last.rows += 1;
                }
                _ => merged.push(piece),
            }
        }
        merged
    }

    /// The same with their times.
    pub(crate) fn blocks(&self, spans: &[Span]) -> Vec<Block> {
        let block = |piece: Piece| {
            let span = &spans[piece.span];
            let Piece { row, rows, lane, lanes, .. } = piece;
            let (from, until) = (span.start.seconds() - self.start, span.end.seconds() - self.start);
            Block { job: span.job, from, until, row, rows, lane, lanes }
        };
        self.pieces(spans).into_iter().map(block).collect()
    }
}

/// Puts the spans of one device, sorted by start, side by side where they overlap: `(span, lane, lanes)`.
fn lanes(indexes: &[usize], spans: &[Span]) -> Vec<(usize, usize, usize)> {
    let mut placed: Vec<(usize, usize, usize)> = Vec::with_capacity(indexes.len());
    let mut ends: Vec<f64> = Vec::new();
    let mut cluster_start = 0;
    for &index in indexes {
        let (start, end) = (spans[index].start.seconds(), spans[index].end.seconds());
        if ends.iter().all(|&busy_until| busy_until <= start) {
            close_cluster(&mut placed[cluster_start..], ends.len());
            (cluster_start, ends) = (placed.len(), Vec::new());
        }
        let lane = ends.iter().position(|&busy_until| busy_until <= start).unwrap_or(ends.len());
        if lane == ends.len() {
            ends.push(end);
        } else {
            ends[lane] = end;
        }
        placed.push((index, lane, 1));
    }
    close_cluster(&mut placed[cluster_start..], ends.len());
    placed
}

fn close_cluster(cluster: &mut [(usize, usize, usize)], lanes: usize) {
    for entry in cluster {
        entry.2 = lanes;
    }
}

/// Rows and columns of equal cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) devices: usize,
    pub(crate) length: f64,
    /// At most as many as there are devices.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Grid {
    /// Reduces rectangles to cells: each has the job that held most of it, and none where it was idle for more than
    /// half. Neighbouring cells of one job are one rectangle.
    pub(crate) fn reduce(&self, blocks: &[Block]) -> Vec<Block> {
        (0..self.rows).flat_map(|row| self.reduced_row(blocks, row)).collect()
    }

    fn reduced_row(&self, blocks: &[Block], row: usize) -> Vec<Block> {
        let first = row * self.devices / self.rows;
        let end = ((row + 1) * self.devices / self.rows).max(first + 1);
        let column_s = self.length / self.columns as f64;
        let mut column = 0;
        let mut found = Vec::new();
        for stay in self.holders(blocks, first, end).chunk_by(|a, b| a == b) {
            if let Some(job) = stay[0] {
                let (from, until) = (column as f64 * column_s, (column + stay.len()) as f64 * column_s);
                found.push(Block { job, from, until, row: first, rows: end - first, lane: 0, lanes: 1 });
            }
            column += stay.len();
        }
        found
    }

    /// For each cell of the rows from `first` to `end` the job that held most of it.
    fn holders(&self, blocks: &[Block], first: usize, end: usize) -> Vec<Option<JobId>> {
        let column_s = self.length / self.columns as f64;
        let column_of = |seconds: f64| ((seconds / column_s).max(0.0) as usize).min(self.columns - 1);
        let mut held: Vec<Vec<(JobId, f64)>> = vec![Vec::new(); self.columns];
        for block in blocks {
            let devices = end.min(block.row + block.rows).saturating_sub(first.max(block.row));
            if devices == 0 {
                continue;
            }
            let (low, high) = (column_of(block.from), column_of(block.until));
            for (column, jobs) in held.iter_mut().enumerate().take(high + 1).skip(low) {
                let (left, right) = (column as f64 * column_s, (column + 1) as f64 * column_s);
                let seconds = block.until.min(right) - block.from.max(left);
                if seconds > 0.0 {
                    jobs.push((block.job, seconds * devices as f64));
                }
            }
        }
        let half = column_s * (end - first) as f64 / 2.0;
        held.into_iter().map(|jobs| longest_holder(jobs, half)).collect()
    }
}

fn longest_holder(mut jobs: Vec<(JobId, f64)>, half: f64) -> Option<JobId> {
    if crate::stats::sum(jobs.iter().map(|entry| entry.1)) < half {
        return None;
    }
    jobs.sort_by_key(|entry| entry.0);
    let totals =
        jobs.chunk_by(|a, b| a.0 == b.0).map(|stays| (stays[0].0, stays.iter().map(|s| s.1).sum::<f64>()));
    // Of equals the job with the lowest id.
    totals.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|entry| entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::span;

    #[test]
    fn pieces_merge_neighbours_and_split_shared_devices() {
        let spans = [
            span(0, 0, 0b1011, 0.0, 9.0),
            span(1, 0, 0b0100, 0.0, 5.0),
            span(2, 0, 0b0100, 2.0, 5.0),
            span(3, 0, 0b0100, 5.0, 9.0),
        ];
        let pieces = Rows::new(&[4], &spans).pieces(&spans);
        let shown: Vec<_> = pieces.iter().map(|p| (p.span, p.row, p.rows, p.lane, p.lanes)).collect();
        assert_eq!(
            shown,
            [(0, 0, 2, 0, 1), (0, 3, 1, 0, 1), (1, 2, 1, 0, 2), (2, 2, 1, 1, 2), (3, 2, 1, 0, 1)]
        );
    }

    #[test]
    fn neighbouring_nodes_are_not_one_rectangle() {
        let spans = [span(0, 0, 0b11, 0.0, 1.0), span(0, 1, 0b11, 0.0, 1.0)];
        let pieces = Rows::new(&[2, 2], &spans).pieces(&spans);
        assert_eq!(pieces.iter().map(|piece| (piece.row, piece.rows)).collect::<Vec<_>>(), [(0, 2), (2, 2)]);
    }

    #[test]
    fn grid_shows_who_held_most() {
        let spans = [span(0, 1, u128::MAX, 0.0, 150.0), span(1, 1, u128::MAX, 150.0, 300.0)];
        let rows = Rows::new(&[128, 128], &spans);
        let blocks = rows.blocks(&spans);
        let grid = Grid { devices: rows.device_count(), length: rows.length, rows: 64, columns: 300 };
        let idle = grid.holders(&blocks, 0, 4);
        assert!(idle.iter().all(Option::is_none));
        let row = grid.holders(&blocks, 160, 164);
        assert_eq!(
            (row[0], row[149], row[150], row[299]),
            (Some(JobId(0)), Some(JobId(0)), Some(JobId(1)), Some(JobId(1)))
        );
        assert_eq!(grid.reduce(&blocks).len(), 64, "two rectangles in each of the rows that were used");
    }
}
