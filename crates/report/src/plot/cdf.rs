//! The distribution of job completion times.

use super::Plot;
use super::axis::Axis;
use super::frame::Frame;
use crate::stats;
use crate::svg::px;

/// A run's completion times.
#[derive(Clone, Debug, PartialEq)]
pub struct CdfSeries {
    /// The run's name in the legend.
    pub name: String,
    /// Seconds, in any order.
    pub jcts_s: Vec<f64>,
}

/// Where markers stand on each curve.
const MARK_SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// The share of jobs done within a time, over a logarithmic time axis; one line per run.
pub fn jct_cdf(runs: &[CdfSeries]) -> Plot {
    let curves: Vec<Vec<f64>> = runs.iter().map(|run| stats::sorted(run.jcts_s.iter().copied())).collect();
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let all = || curves.iter().flatten().copied().filter(|&jct| jct > 0.0);
    let (min, max) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let (min, max) = if min <= max { (min, max) } else { (1.0, 10.0) };
    let (x, y) = (Axis::log_time(min, max), Axis::share());
    let title = "Share of jobs completed within a time";
    let mut frame = Frame::new(title, &names, (x, "job completion time, logarithmic"), (y, "jobs done"));
    for (index, jcts) in curves.iter().enumerate() {
        let marks: Vec<(f64, f64)> =
            MARK_SHARES.iter().filter_map(|&share| mark_at(&frame, jcts, share)).collect();
        let d = cdf_path(&frame, jcts);
        frame.series(index, &d, &marks);
    }
    if curves.iter().all(Vec::is_empty) {
        frame.nothing();
    }
    frame.finish()
}

/// A staircase with at most one step per pixel column.
fn cdf_path(frame: &Frame, jcts: &[f64]) -> String {
    let Some(&first) = jcts.first() else { return String::new() };
    let mut d = format!("M{} {}", px(frame.x(first)), px(frame.y(0.0)));
    let column = |jct: f64| frame.x(jct).round();
    for (index, &jct) in jcts.iter().enumerate() {
        // Of the jobs in one column the last stands for all.
        if jcts.get(index + 1).is_some_and(|&next| column(next) == column(jct)) {
            continue;
        }
        let share = (index + 1) as f64 / jcts.len() as f64;
        d += &format!("H{}V{}", px(frame.x(jct)), px(frame.y(share)));
    }
    d
}

fn mark_at(frame: &Frame, jcts: &[f64], share: f64) -> Option<(f64, f64)> {
    let index = (share * jcts.len() as f64) as usize;
    let done = (index + 1) as f64 / jcts.len() as f64;
    Some((frame.x(*jcts.get(index)?), frame.y(done)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cdf_of_a_huge_run_stays_small() {
        let jcts_s = (1..200_000).map(|index| f64::from(index) * 1.7).collect();
        let plot = jct_cdf(&[CdfSeries { name: "fifo".to_owned(), jcts_s }]);
        assert!(plot.to_svg().len() < 40_000, "{}", plot.to_svg().len());
    }

    #[test]
    fn cdf_without_data_has_a_note() {
        let svg = jct_cdf(&[CdfSeries { name: "a".to_owned(), jcts_s: vec![f64::NAN] }]).to_svg();
        assert!(svg.contains("nothing to show") && !svg.contains("NaN"));
        assert!(jct_cdf(&[]).to_svg().contains("nothing to show"));
    }

    #[test]
    fn cdf_escapes_names_and_is_well_formed() {
        let series = |name: &str| CdfSeries { name: name.to_owned(), jcts_s: vec![0.0, 40.0, 70.0] };
        let svg = jct_cdf(&[series("</svg><script>"), series("b&c")]).to_svg();
        assert!(svg.contains("&lt;/svg&gt;&lt;script&gt;") && svg.contains("b&amp;c"));
        assert_eq!(svg.matches("</svg>").count(), 1);
    }
}
