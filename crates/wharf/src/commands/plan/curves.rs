//! A sweep as files: a table, and what speed and cost become with more devices.

use std::io::Write as _;
use std::path::Path;

use wharf_planner::Estimate;
use wharf_report::plot::{Curve, Plot, Titles, curves};

use super::question::{Answer, Question};
use super::tell::name;
use crate::error::CliError;
use crate::output::Terminal;
use wharf_staging::StagedFile;

/// Iterations whose cost is told.
pub(super) const ITERATIONS: f64 = 1000.0;

/// What so many iterations cost.
pub(super) fn cost(answer: &Answer, plan: &Estimate) -> f64 {
    let hours = ITERATIONS * answer.iteration_s(plan) / 3600.0;
    hours * f64::from(answer.devices.count) * answer.hardware.price_per_h
}

/// Why there is no best plan, in a few words.
pub(super) fn misfit(answer: &Answer) -> &'static str {
    if answer.refusal.is_some() { "cannot be split" } else { "does not fit" }
}

/// Writes a sweep into a folder, which is made where there is none.
pub(super) fn write(
    folder: &Path,
    question: &Question,
    answers: &[Answer],
    terminal: &Terminal,
) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(|error| CliError::write(folder, error))?;
    let title = |what: &str| format!("{what}: {} with {} samples", question.model.name, question.batch);
    let samples = f64::from(question.batch);
    let speed = of_types(answers, |answer, plan| samples / answer.iteration_s(plan));
    let cost = of_types(answers, cost);
    let scaling = title("Speed");
    let costs = title("Cost of 1,000 iterations");
    let files = [
        ("sweep.csv", table(question, answers)),
        ("scaling.svg", plot(&scaling, "samples a second", &speed).to_svg()),
        ("cost.svg", plot(&costs, "cost", &cost).to_svg()),
    ];
    for (name, text) in files {
        write_text(&folder.join(name), &text, terminal)?;
    }
    Ok(())
}

/// Writes a file, whole or not at all.
pub(super) fn write_text(path: &Path, text: &str, terminal: &Terminal) -> Result<(), CliError> {
    let mut file = StagedFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(|error| CliError::write(path, error))?;
    file.commit()?;
    terminal.detail(&format!("written: {}", path.display()));
    Ok(())
}

fn plot(title: &str, y: &str, series: &[Curve]) -> Plot {
    curves(Titles { plot: title, x: "devices", y }, series)
}

/// A curve for each type, over the numbers of devices on which the model fits.
fn of_types(answers: &[Answer], value: impl Fn(&Answer, &Estimate) -> f64) -> Vec<Curve> {
    let mut series: Vec<Curve> = Vec::new();
    for answer in answers {
        let Some(best) = answer.best() else { continue };
        let point = (f64::from(answer.devices.count), value(answer, best));
        let name = &answer.devices.device_type;
        match series.iter_mut().find(|curve| curve.name == *name) {
            Some(curve) => curve.points.push(point),
            None => series.push(Curve { name: name.clone(), points: vec![point] }),
        }
    }
    series
}

fn table(question: &Question, answers: &[Answer]) -> String {
    let mut text =
        "device_type,devices,plan,iteration_s,samples_per_s,memory_gib,cost_of_1000,source\n".to_owned();
    for answer in answers {
        let start = format!("{},{}", answer.devices.device_type, answer.devices.count);
        text += &match answer.best() {
            Some(best) => {
                let iteration_s = answer.iteration_s(best);
                let samples_per_s = f64::from(question.batch) / iteration_s;
                let (memory, cost) = (best.memory_gib, cost(answer, best));
                let (plan, source) = (name(best.degrees), answer.source_of(best));
                format!("{start},{plan},{iteration_s},{samples_per_s},{memory},{cost},{source}\n")
            }
            None => format!("{start},,,,,,{}\n", misfit(answer)),
        };
    }
    text
}
