//! Which job held which device when.
//!
//! A small run is drawn job by job, each rectangle with its tooltip and, where it fits, its name. A large one
//! is drawn as a grid of cells, each in the colour of the job that held most of it, so that the plot stays
//! small.

use wharf_core::{ClusterSpec, DeviceSet, JobId, JobSpec};
use wharf_sim::Span;

use super::axis::Axis;
use super::{COLOURS, Plot, WIDTH};
use crate::human::{count, duration, shortened};
use crate::svg::{Anchor, Canvas, px};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 76.0;
const ROW_MAX: f64 = 18.0;
const HEIGHT_MAX: f64 = 460.0;
/// Rectangles of their own, at up to 700 bytes each.
const SHAPES_MAX: usize = 2500;
/// Cells of the grid, at up to 25 bytes each.
const GRID_ROWS_MAX: usize = 64;
const GRID_COLUMNS: usize = 300;
const NAME_LENGTH_MAX: usize = 40;
/// Width of a character at 9 px.
const SMALL_CHAR_WIDTH: f64 = 5.2;

/// Devices of each node in id order, as [`gantt`] wants them.
pub fn node_devices(cluster: &ClusterSpec) -> Vec<u32> {
    cluster.nodes.iter().map(|node| node.devices).collect()
}

/// Devices (rows, grouped by node) over time, coloured by job. Nodes and devices that only the spans know are
/// added, so `node_devices` may be empty.
pub fn gantt(title: &str, node_devices: &[u32], spans: &[Span], specs: &[JobSpec]) -> Plot {
    let chart = Chart::new(node_devices, spans);
    let mut canvas = Canvas::default();
    canvas.text("title", (LEFT, 20.0), Anchor::Start, title);
    chart.axes(&mut canvas);
    let notes = if spans.is_empty() {
        ["nothing to show".to_owned(), String::new()]
    } else if let Some(pieces) = pieces(&chart, spans) {
        chart.draw_pieces(&mut canvas, &pieces, spans, specs);
        ["One rectangle per job and stay; jobs that share a device split its row.".to_owned(), String::new()]
    } else {
        let rows = chart.draw_grid(&mut canvas, spans);
        let (devices, stays) = (count(chart.device_count() as u64), count(spans.len() as u64));
        [
            format!(
                "Reduced to {rows} × {GRID_COLUMNS} cells for {devices} devices and {stays} stays of jobs:"
            ),
            "a cell has the colour of the job that held most of it; neighbours can share a colour."
                .to_owned(),
        ]
    };
    for (note, line) in notes.iter().zip([52.0, 67.0]).filter(|(note, _)| !note.is_empty()) {
        canvas.text("note", (LEFT, chart.bottom() + line), Anchor::Start, note);
    }
    Plot { title: title.to_owned(), width: WIDTH, height: chart.bottom() + BOTTOM, body: canvas.into_body() }
}

/// The rows and the time axis.
struct Chart {
    /// First row of each node, and after the last the number of rows.
    node_rows: Vec<usize>,
    start: f64,
    length: f64,
    axis: Axis,
    row_height: f64,
}

impl Chart {
    fn new(node_devices: &[u32], spans: &[Span]) -> Self {
        let mut devices = node_devices.to_vec();
        for span in spans {
            let node = span.share.node.index();
            if devices.len() <= node {
                devices.resize(node + 1, 0);
            }
            devices[node] = devices[node].max(u128::BITS - span.share.devices.0.leading_zeros());
        }
        let mut node_rows = vec![0];
        for count in devices {
            node_rows.push(node_rows[node_rows.len() - 1] + count as usize);
        }
        let start = spans.iter().map(|span| span.start.seconds()).fold(f64::INFINITY, f64::min);
        let end = spans.iter().map(|span| span.end.seconds()).fold(f64::NEG_INFINITY, f64::max);
        let (start, length) = if start < end { (start, end - start) } else { (0.0, 1.0) };
        let rows = node_rows[node_rows.len() - 1].max(1) as f64;
        let row_height = ROW_MAX.min(HEIGHT_MAX / rows);
        Self { node_rows, start, length, axis: Axis::time(length), row_height }
    }

    fn device_count(&self) -> usize {
        self.node_rows[self.node_rows.len() - 1]
    }

    fn bottom(&self) -> f64 {
        TOP + self.device_count().max(1) as f64 * self.row_height
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + self.axis.place(seconds - self.start) * (WIDTH - RIGHT - LEFT)
    }

    fn axes(&self, canvas: &mut Canvas) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom());
        for (value, label) in &self.axis.ticks {
            let x = self.x(self.start + value);
            canvas.line("grid", (x, TOP), (x, bottom));
            canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, label);
        }
        let (mut labelled, mut ruled) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (node, rows) in self.node_rows.windows(2).enumerate() {
            let y = TOP + rows[0] as f64 * self.row_height;
            // Thousands of nodes need no thousands of lines.
            if y - ruled >= 3.0 {
                canvas.line("grid", (LEFT, y), (right, y));
                ruled = y;
            }
            let middle = TOP + (rows[0] + rows[1]) as f64 / 2.0 * self.row_height + 4.0;
            if rows[1] > rows[0] && middle - labelled >= 13.0 {
                canvas.text("tick", (LEFT - 7.0, middle), Anchor::End, &format!("node {node}"));
                labelled = middle;
            }
        }
        canvas.line("base", (LEFT, bottom), (right, bottom));
        let middle = f64::midpoint(LEFT, right);
        canvas.text("axis", (middle, bottom + 34.0), Anchor::Middle, "time since the first start");
    }

    fn draw_pieces(&self, canvas: &mut Canvas, pieces: &[Piece], spans: &[Span], specs: &[JobSpec]) {
        for piece in pieces {
            let span = &spans[piece.span];
            let name = job_name(specs, span.job);
            let lane_height = self.row_height / piece.lanes as f64;
            let y = TOP + piece.row as f64 * self.row_height + piece.lane as f64 * lane_height;
            let height = if piece.lanes > 1 { lane_height } else { piece.rows as f64 * self.row_height };
            let (x, end) = (self.x(span.start.seconds()), self.x(span.end.seconds()));
            let (from, until) = (span.start.seconds() - self.start, span.end.seconds() - self.start);
            let devices = span.share.devices.len();
            let tooltip = format!(
                "{name}: {devices} on {}, {} to {} ({})",
                span.share.node,
                duration(from),
                duration(until),
                duration(until - from)
            );
            let size = ((end - x).max(0.5), height);
            canvas.rect(&format!("job g{}", colour(span.job)), (x, y), size, &tooltip);
            if height >= 11.0 && (end - x) >= name.chars().count() as f64 * SMALL_CHAR_WIDTH + 5.0 {
                let at = (f64::midpoint(x, end), y + height / 2.0 + 3.0);
                canvas.text("inside", at, Anchor::Middle, &name);
            }
        }
    }

    /// One path per colour; gives the number of rows.
    fn draw_grid(&self, canvas: &mut Canvas, spans: &[Span]) -> usize {
        let rows = self.device_count().clamp(1, GRID_ROWS_MAX);
        let row_height = (self.bottom() - TOP) / rows as f64;
        let column_width = (WIDTH - RIGHT - LEFT) / GRID_COLUMNS as f64;
        let mut paths = vec![String::new(); COLOURS];
        for row in 0..rows {
            let jobs = self.grid_row(spans, row, rows);
            let mut column = 0;
            for stay in jobs.chunk_by(|a, b| a == b) {
                if let Some(job) = stay[0] {
                    let x = LEFT + column as f64 * column_width;
                    let (y, width) = (TOP + row as f64 * row_height, stay.len() as f64 * column_width);
                    let [x, y, width, height] = [x, y, width, row_height].map(px);
                    paths[colour(job)] += &format!("M{x} {y}h{width}v{height}h-{width}z");
                }
                column += stay.len();
            }
        }
        for (colour, d) in paths.iter().enumerate() {
            canvas.path(&format!("cell g{colour}"), d);
        }
        rows
    }

    /// For each cell of a grid row the job that held most of it; `None` where it was idle for more than half.
    fn grid_row(&self, spans: &[Span], row: usize, rows: usize) -> Vec<Option<JobId>> {
        let first = row * self.device_count() / rows;
        let end = ((row + 1) * self.device_count() / rows).max(first + 1);
        let column_s = self.length / GRID_COLUMNS as f64;
        let mut held: Vec<Vec<(JobId, f64)>> = vec![Vec::new(); GRID_COLUMNS];
        for span in spans {
            let devices = self.devices_within(span, first, end);
            if devices == 0 {
                continue;
            }
            let (from, until) = (span.start.seconds() - self.start, span.end.seconds() - self.start);
            let (low, high) = (column_of(from / column_s), column_of(until / column_s));
            for (column, jobs) in held.iter_mut().enumerate().take(high + 1).skip(low) {
                let (left, right) = (column as f64 * column_s, (column + 1) as f64 * column_s);
                let seconds = until.min(right) - from.max(left);
                if seconds > 0.0 {
                    jobs.push((span.job, seconds * f64::from(devices)));
                }
            }
        }
        let half = column_s * (end - first) as f64 / 2.0;
        held.into_iter().map(|jobs| longest_holder(jobs, half)).collect()
    }

    /// How many of the span's devices lie in these rows.
    fn devices_within(&self, span: &Span, first: usize, end: usize) -> u32 {
        let Some(&base) = self.node_rows.get(span.share.node.index()) else { return 0 };
        let below = |row: usize| DeviceSet::first(row.saturating_sub(base).min(128) as u32);
        let rows = below(end).difference(below(first));
        span.share.devices.intersection(rows).len()
    }
}

fn column_of(position: f64) -> usize {
    (position.max(0.0) as usize).min(GRID_COLUMNS - 1)
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

fn colour(job: JobId) -> usize {
    job.index() % COLOURS
}

fn job_name(specs: &[JobSpec], job: JobId) -> String {
    specs.get(job.index()).map_or_else(|| job.to_string(), |spec| shortened(&spec.name, NAME_LENGTH_MAX))
}

/// A rectangle: one span on neighbouring devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    span: usize,
    row: usize,
    rows: usize,
    /// Place among the jobs that share the device, and how many places there are.
    lane: usize,
    lanes: usize,
}

/// The rectangles to draw; `None` where they would be too many.
fn pieces(chart: &Chart, spans: &[Span]) -> Option<Vec<Piece>> {
    // A cheap bound first: more rows than a piece can be high, or far too many spans.
    if chart.row_height < 2.0 || spans.len() > SHAPES_MAX {
        return None;
    }
    let mut on_device: Vec<Vec<usize>> = vec![Vec::new(); chart.device_count()];
    for (index, span) in spans.iter().enumerate() {
        let base = chart.node_rows[span.share.node.index()];
        for device in span.share.devices.iter() {
            on_device[base + device as usize].push(index);
        }
    }
    let mut single: Vec<Piece> = Vec::new();
    for (row, indexes) in on_device.iter_mut().enumerate() {
        indexes.sort_by_key(|&index| (spans[index].start, index));
        single.extend(lanes(indexes, spans).into_iter().map(|(span, lane, lanes)| Piece {
            span,
            row,
            rows: 1,
            lane,
            lanes,
        }));
    }
    single.sort_unstable();
    let mut merged: Vec<Piece> = Vec::new();
    for piece in single {
        match merged.last_mut() {
            Some(last)
                if last.span == piece.span
                    && last.row + last.rows == piece.row
                    && (last.lanes, piece.lanes) == (1, 1)
                    && !crosses_node(chart, piece.row) =>
            {
                last.rows += 1;
            }
            _ => merged.push(piece),
        }
    }
    (merged.len() <= SHAPES_MAX).then_some(merged)
}

/// Whether a node begins at this row. A span has one node, so this only guards against odd input.
fn crosses_node(chart: &Chart, row: usize) -> bool {
    chart.node_rows.binary_search(&row).is_ok()
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

#[cfg(test)]
mod tests {
    use wharf_core::{NodeId, NodeShare};

    use super::*;
    use crate::fixture::{self, at};

    fn span(job: u32, node: u32, devices: u128, start: f64, end: f64) -> Span {
        let share = NodeShare { node: NodeId(node), devices: DeviceSet(devices) };
        Span { job: JobId(job), share, start: at(start), end: at(end) }
    }

    #[test]
    fn pieces_merge_neighbours_and_split_shared_devices() {
        let spans = [
            span(0, 0, 0b1011, 0.0, 9.0),
            span(1, 0, 0b0100, 0.0, 5.0),
            span(2, 0, 0b0100, 2.0, 5.0),
            span(3, 0, 0b0100, 5.0, 9.0),
        ];
        let pieces = pieces(&Chart::new(&[4], &spans), &spans).unwrap();
        let shown: Vec<_> = pieces.iter().map(|p| (p.span, p.row, p.rows, p.lane, p.lanes)).collect();
        assert_eq!(
            shown,
            [(0, 0, 2, 0, 1), (0, 3, 1, 0, 1), (1, 2, 1, 0, 2), (2, 2, 1, 1, 2), (3, 2, 1, 0, 1)]
        );
    }

    #[test]
    fn grid_shows_who_held_most() {
        let spans = [span(0, 1, u128::MAX, 0.0, 150.0), span(1, 1, u128::MAX, 150.0, 300.0)];
        let chart = Chart::new(&[128, 128], &spans);
        let idle = chart.grid_row(&spans, 0, 64);
        assert!(idle.iter().all(Option::is_none));
        let row = chart.grid_row(&spans, 40, 64);
        assert_eq!(
            (row[0], row[149], row[150], row[299]),
            (Some(JobId(0)), Some(JobId(0)), Some(JobId(1)), Some(JobId(1)))
        );
    }

    #[test]
    fn huge_runs_stay_below_two_megabytes() {
        let spans: Vec<Span> = (0..60_000)
            .map(|index| {
                let start = f64::from(index / 300) * 10.0;
                span(index, index % 300, 0xff, start, start + 9.0)
            })
            .collect();
        let svg = gantt("big", &[8; 300], &spans, &[]).to_svg();
        assert!(svg.len() < 2_000_000 && svg.contains("Reduced to 64 × 300 cells"), "{}", svg.len());
    }

    #[test]
    fn long_names_stay_below_two_megabytes_and_are_escaped() {
        let spans: Vec<Span> =
            (0..SHAPES_MAX as u32).map(|i| span(i, 0, 0b1, f64::from(i), f64::from(i) + 1.0)).collect();
        let name = "&".repeat(500);
        let specs: Vec<JobSpec> = spans.iter().map(|_| JobSpec::new(&name, at(0.0), 1, 1.0, 1.0)).collect();
        let svg = gantt("names", &[1], &spans, &specs).to_svg();
        assert!(svg.len() < 2_000_000 && svg.contains("&amp;") && !svg.contains("&&"), "{}", svg.len());
    }

    #[test]
    fn small_gantt_as_a_golden() {
        let outcome = fixture::outcome();
        let svg = gantt("fifo", &[4], &outcome.spans, &fixture::specs()).to_inline();
        insta::assert_snapshot!(svg, @r#"
        <svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 760 182" width="760" height="182" role="img" aria-label="fifo">
        <text class="title" x="62" y="20">fifo</text>
        <path class="grid" d="M62 34L62 106"/>
        <text class="tick" x="62" y="122" text-anchor="middle">0</text>
        <path class="grid" d="M147 34L147 106"/>
        <text class="tick" x="147" y="122" text-anchor="middle">10s</text>
        <path class="grid" d="M232 34L232 106"/>
        <text class="tick" x="232" y="122" text-anchor="middle">20s</text>
        <path class="grid" d="M317 34L317 106"/>
        <text class="tick" x="317" y="122" text-anchor="middle">30s</text>
        <path class="grid" d="M402 34L402 106"/>
        <text class="tick" x="402" y="122" text-anchor="middle">40s</text>
        <path class="grid" d="M487 34L487 106"/>
        <text class="tick" x="487" y="122" text-anchor="middle">50s</text>
        <path class="grid" d="M572 34L572 106"/>
        <text class="tick" x="572" y="122" text-anchor="middle">60s</text>
        <path class="grid" d="M657 34L657 106"/>
        <text class="tick" x="657" y="122" text-anchor="middle">70s</text>
        <path class="grid" d="M742 34L742 106"/>
        <text class="tick" x="742" y="122" text-anchor="middle">80s</text>
        <path class="grid" d="M62 34L742 34"/>
        <text class="tick" x="55" y="74" text-anchor="end">node 0</text>
        <path class="base" d="M62 106L742 106"/>
        <text class="axis" x="402" y="140" text-anchor="middle">time since the first start</text>
        <rect class="job g0" x="62" y="34" width="85" height="18"><title>alpha: 1 on n0, 0s to 10s (10s)</title></rect>
        <text class="inside" x="104.5" y="46" text-anchor="middle">alpha</text>
        <rect class="job g1" x="232" y="34" width="170" height="36"><title>beta &lt;b&gt;: 2 on n0, 20s to 40s (20s)</title></rect>
        <text class="inside" x="317" y="55" text-anchor="middle">beta &lt;b&gt;</text>
        <rect class="job g2" x="232" y="70" width="170" height="36"><title>gamma: 2 on n0, 20s to 40s (20s)</title></rect>
        <text class="inside" x="317" y="91" text-anchor="middle">gamma</text>
        <rect class="job g2" x="402" y="34" width="340" height="18"><title>gamma: 2 on n0, 40s to 1m 20s (40s)</title></rect>
        <text class="inside" x="572" y="46" text-anchor="middle">gamma</text>
        <rect class="job g2" x="402" y="88" width="340" height="18"><title>gamma: 2 on n0, 40s to 1m 20s (40s)</title></rect>
        <text class="inside" x="572" y="100" text-anchor="middle">gamma</text>
        <text class="note" x="62" y="158">One rectangle per job and stay; jobs that share a device split its row.</text>
        </svg>
        "#);
        assert_eq!(svg, gantt("fifo", &[4], &outcome.spans, &fixture::specs()).to_inline());
    }

    #[test]
    fn gantt_of_nothing_says_so() {
        for devices in [vec![], vec![4], vec![0]] {
            let svg = gantt("", &devices, &[], &[]).to_svg();
            assert!(svg.contains("nothing to show") && !svg.contains("NaN"));
        }
        let instant = [span(0, 0, 1, 5.0, 5.0)];
        assert!(!gantt("", &[], &instant, &[]).to_svg().contains("NaN"));
    }
}
