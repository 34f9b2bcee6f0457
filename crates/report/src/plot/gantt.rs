//! Which job held which device when.
//!
//! A small run is drawn job by job, each rectangle with its tooltip and, where it fits, its name. A large one
//! is drawn as a grid of cells, each in the colour of the job that held most of it, so that the plot stays
//! small.

use wharf_core::{ClusterSpec, JobId, JobSpec};
use wharf_outcome::Span;

use super::axis::Axis;
use super::{COLOURS, Plot, WIDTH};
use crate::human::{count, duration, shortened};
use crate::stays::{Grid, Piece, Rows};
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
    } else if let Some(pieces) = chart.pieces(spans) {
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
    Plot {
        title: title.to_owned(),
        width: WIDTH,
        height: chart.bottom() + BOTTOM,
        shapes: canvas.into_shapes(),
    }
}

/// The rows and the time axis.
struct Chart {
    rows: Rows,
    axis: Axis,
    row_height: f64,
}

impl Chart {
    fn new(node_devices: &[u32], spans: &[Span]) -> Self {
        let rows = Rows::new(node_devices, spans);
        let row_height = ROW_MAX.min(HEIGHT_MAX / rows.device_count().max(1) as f64);
        Self { axis: Axis::time(rows.length), rows, row_height }
    }

    fn device_count(&self) -> usize {
        self.rows.device_count()
    }

    /// The rectangles to draw; `None` where they would be too many.
    fn pieces(&self, spans: &[Span]) -> Option<Vec<Piece>> {
        // A cheap bound first: more rows than a piece can be high, or far too many spans.
        if self.row_height < 2.0 || spans.len() > SHAPES_MAX {
            return None;
        }
        Some(self.rows.pieces(spans)).filter(|pieces| pieces.len() <= SHAPES_MAX)
    }

    fn bottom(&self) -> f64 {
        TOP + self.device_count().max(1) as f64 * self.row_height
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + self.axis.place(seconds - self.rows.start) * (WIDTH - RIGHT - LEFT)
    }

    fn axes(&self, canvas: &mut Canvas) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom());
        for (value, label) in &self.axis.ticks {
            let x = self.x(self.rows.start + value);
            canvas.line("grid", (x, TOP), (x, bottom));
            canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, label);
        }
        let (mut labelled, mut ruled) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (node, (first, end)) in self.rows.nodes().enumerate() {
            let y = TOP + first as f64 * self.row_height;
            // Thousands of nodes need no thousands of lines.
            if y - ruled >= 3.0 {
                canvas.line("grid", (LEFT, y), (right, y));
                ruled = y;
            }
            let middle = TOP + (first + end) as f64 / 2.0 * self.row_height + 4.0;
            if end > first && middle - labelled >= 13.0 {
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
            let (from, until) =
                (span.start.seconds() - self.rows.start, span.end.seconds() - self.rows.start);
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
        let devices = self.device_count().max(1);
        let rows = devices.min(GRID_ROWS_MAX);
        let grid = Grid { devices, length: self.rows.length, rows, columns: GRID_COLUMNS };
        let mut paths = vec![String::new(); COLOURS];
        for cell in grid.reduce(&self.rows.blocks(spans)) {
            let (left, right) = (self.x(self.rows.start + cell.from), self.x(self.rows.start + cell.until));
            let (y, height) = (cell.row as f64 * self.row_height, cell.rows as f64 * self.row_height);
            let [x, y, width, height] = [left, TOP + y, right - left, height].map(px);
            paths[colour(cell.job)] += &format!("M{x} {y}h{width}v{height}h-{width}z");
        }
        for (colour, d) in paths.iter().enumerate() {
            canvas.path(&format!("cell g{colour}"), d);
        }
        rows
    }
}

fn colour(job: JobId) -> usize {
    job.index() % COLOURS
}

fn job_name(specs: &[JobSpec], job: JobId) -> String {
    specs.get(job.index()).map_or_else(|| job.to_string(), |spec| shortened(&spec.name, NAME_LENGTH_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, span};

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
        <svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 760 182" width="760" height="182" role="img" aria-label="fifo">
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
    fn gantt_without_data_has_a_note() {
        for devices in [vec![], vec![4], vec![0]] {
            let svg = gantt("", &devices, &[], &[]).to_svg();
            assert!(svg.contains("nothing to show") && !svg.contains("NaN"));
        }
        let instant = [span(0, 0, 1, 5.0, 5.0)];
        assert!(!gantt("", &[], &instant, &[]).to_svg().contains("NaN"));
    }
}
