//! `wharf plan --errors`: how far off the planner is from everything that a profile has measured.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_planner::{Calibration, Run};
use wharf_report::plot::{Curve, Titles, scatter};

use super::curves::write_text;
use super::measured::times;
use super::question::{Expected, Question};
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A measured run, and what would have been expected of it.
struct Compared {
    run: Run,
    /// The family, and on what.
    series: String,
    start: String,
    measured_s: f64,
    /// None where it would not fit.
    estimated_s: Option<f64>,
    /// The same, corrected by all other runs.
    corrected_s: Option<f64>,
}

/// Writes a table and plots, and tells the middle of the errors.
pub(super) fn write(folder: &Path, question: &Question, terminal: &Terminal) -> Result<(), CliError> {
    let mut all = compared(question);
    if all.is_empty() {
        return Err(CliError::input("the profile has no measurements of models known to the planner")
            .hint("see `wharf plan --list`, and `wharf profile show` for measurements"));
    }
    let corrected: Vec<Option<f64>> = (0..all.len()).map(|index| without(&all, index)).collect();
    for (one, corrected_s) in all.iter_mut().zip(corrected) {
        one.corrected_s = corrected_s;
    }
    std::fs::create_dir_all(folder).map_err(|error| CliError::write(folder, error))?;
    let plot = |title: &str, pick: fn(&Compared) -> Option<f64>| {
        let mut series: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for one in &all {
            series.entry(&one.series).or_default().extend(pick(one).map(|time_s| (one.measured_s, time_s)));
        }
        let named = |(name, points): (&str, Vec<(f64, f64)>)| Curve { name: name.to_owned(), points };
        let series: Vec<Curve> = series.into_iter().map(named).collect();
        scatter(Titles { plot: title, x: "measured", y: "expected" }, &series).to_svg()
    };
    let estimated = plot("Seconds of an iteration, from data sheets", |one| one.estimated_s);
    let corrected = plot("Seconds of an iteration, corrected by all other runs", |one| one.corrected_s);
    write_text(&folder.join("errors.csv"), &table(&all), terminal)?;
    write_text(&folder.join("estimated.svg"), &estimated, terminal)?;
    write_text(&folder.join("corrected.svg"), &corrected, terminal)?;
    tell(&all, terminal)
}

fn compared(question: &Question) -> Vec<Compared> {
    let mut all = Vec::new();
    for timed in times(question.records()) {
        let expected = question.expected(&timed, question.microbatches());
        let Some(Expected { run, gang, estimated_s }) = expected else { continue };
        all.push(Compared {
            series: format!("{} on {}", run.family(), timed.device_type),
            run,
            start: format!(
                "{},{},{},{},{}",
                timed.model, timed.batch, timed.device_type, gang.devices, gang.per_node
            ),
            measured_s: timed.time_s,
            estimated_s,
            corrected_s: None,
        });
    }
    all
}

/// What would be expected of a run after all others.
fn without(all: &[Compared], index: usize) -> Option<f64> {
    let mut calibration = Calibration::default();
    let others = all.iter().enumerate().filter(|(other, _)| *other != index);
    for (_, one) in others {
        if let Some(estimated_s) = one.estimated_s {
            calibration.add(one.run.clone(), estimated_s, one.measured_s);
        }
    }
    Some(all[index].estimated_s? * calibration.correction(&all[index].run).factor)
}

fn off(one: &Compared, expected_s: Option<f64>) -> Option<f64> {
    Some(expected_s? / one.measured_s - 1.0)
}

fn table(all: &[Compared]) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let mut text = "model,batch,device_type,devices,per_node,measured_s,estimated_s,estimated_error,\
                    corrected_s,corrected_error\n"
        .to_owned();
    for one in all {
        let errors =
            [one.estimated_s, one.corrected_s].map(|time_s| (number(time_s), number(off(one, time_s))));
        let [estimated, corrected] = errors.map(|(time, error)| format!("{time},{error}"));
        text += &format!("{},{},{estimated},{corrected}\n", one.start, one.measured_s);
    }
    text
}

fn tell(all: &[Compared], terminal: &Terminal) -> Result<(), CliError> {
    let middle = |pick: fn(&Compared) -> Option<f64>, name: &str| {
        let of = all.iter().filter(|one| name.is_empty() || one.series == name);
        let mut errors: Vec<f64> = of.filter_map(|one| Some(off(one, pick(one))?.abs())).collect();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).map_or_else(|| "-".to_owned(), |error| format!("{:.1} %", error * 100.0))
    };
    let mut grid =
        Grid::new(["runs of", "number", "refused", "error from data sheets", "corrected by others"]);
    let names: std::collections::BTreeSet<&str> = all.iter().map(|one| one.series.as_str()).collect();
    for name in names.into_iter().chain([""]) {
        let of = || all.iter().filter(|one| name.is_empty() || one.series == name);
        grid.push([
            if name.is_empty() { "all" } else { name },
            &of().count().to_string(),
            &of().filter(|one| one.estimated_s.is_none()).count().to_string(),
            &middle(|one| one.estimated_s, name),
            &middle(|one| one.corrected_s, name),
        ]);
    }
    terminal.grid(&grid)
}
