//! The jobs of the demo: long ones that fill the cluster, then short ones that a good policy lets pass.

use std::path::Path;

use wharf_proto::{Gang, JobSpec};

/// What one iteration takes. Slow enough that a dozen trainers share two slow processors.
const ITERATION_MS: f64 = 50.0;
/// How long the whole takes where nothing is scaled.
pub(super) const LENGTH_S: f64 = 40.0;
/// A trainer that does nothing else still has to start.
const SECONDS_MIN: f64 = 0.5;

/// A job and when it is submitted.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Seconds after the demo's beginning.
    pub(super) at_s: f64,
    pub(super) spec: JobSpec,
}

struct Row {
    name: &'static str,
    trainer: &'static str,
    devices: u32,
    seconds: f64,
    at_s: f64,
    /// Which devices it may have; empty for any.
    device_type: &'static str,
}

const fn row(name: &'static str, trainer: &'static str, devices: u32, seconds: f64, at_s: f64) -> Row {
    Row { name, trainer, devices, seconds, at_s, device_type: "" }
}

/// Sixteen devices: the first four jobs take all of them.
const ROWS: [Row; 12] = [
    row("spirals", "mlp.py", 4, 19.0, 0.0),
    row("words", "embedding.py", 4, 21.0, 0.1),
    row("clouds", "logistic.py", 4, 17.0, 0.2),
    row("plane", "linear.py", 4, 23.0, 0.3),
    row("clouds-quick", "logistic.py", 4, 4.0, 4.0),
    row("plane-quick", "linear.py", 2, 3.0, 5.0),
    Row { device_type: "a40", ..row("spirals-a40", "mlp.py", 4, 5.0, 6.0) },
    row("words-quick", "embedding.py", 2, 4.0, 7.0),
    row("plane-tiny", "linear.py", 1, 2.0, 9.0),
    row("clouds-wide", "logistic.py", 8, 4.0, 11.0),
    row("sine", "plain.py", 1, 3.0, 13.0),
    row("words-late", "embedding.py", 2, 5.0, 15.0),
];

/// The first `count` jobs (beyond the last row it begins again), lengths and arrivals scaled to take about `length_s` in all.
pub(super) fn arrivals(count: usize, length_s: f64, folder: &Path) -> Vec<Arrival> {
    let scale = length_s / LENGTH_S;
    let last_s = ROWS[ROWS.len() - 1].at_s + 2.0;
    (0..count)
        .map(|index| {
            let (row, turn) = (&ROWS[index % ROWS.len()], index / ROWS.len());
            let at_s = (row.at_s + last_s * turn as f64) * scale;
            Arrival { at_s, spec: spec(row, index, turn, scale, folder) }
        })
        .collect()
}

fn spec(row: &Row, index: usize, turn: usize, scale: f64, folder: &Path) -> JobSpec {
    let name = if turn == 0 { row.name.to_owned() } else { format!("{}-{}", row.name, turn + 1) };
    let iterations = ((row.seconds * scale).max(SECONDS_MIN) * 1000.0 / ITERATION_MS).ceil();
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let workdir = folder.join("jobs").join(&name);
    let words = [
        ("--iterations", iterations.to_string()),
        ("--iteration-ms", ITERATION_MS.to_string()),
        ("--checkpoint-every", (iterations / 10.0).ceil().to_string()),
        ("--seed", index.to_string()),
    ];
    let program = ["python3".to_owned(), path(&folder.join("examples/trainers").join(row.trainer))];
    let words = words.into_iter().flat_map(|(option, value)| [option.to_owned(), value]);
    let types = [row.device_type].into_iter().filter(|name| !name.is_empty());
    JobSpec {
        name,
        user: std::env::var("USER").unwrap_or_default(),
        gang: Some(Gang {
            devices: row.devices,
            device_types: types.map(str::to_owned).collect(),
            ..Gang::default()
        }),
        command: program.into_iter().chain(words).collect(),
        env: [("PYTHONPATH".to_owned(), path(&folder.join("python")))].into(),
        output: path(&workdir.join("output.txt")),
        workdir: path(&workdir),
        grace_s: 10.0,
        iterations,
        iteration_ms: ITERATION_MS,
        model: row.trainer.trim_end_matches(".py").to_owned(),
        ..JobSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_arrivals_in_order() {
        let all = arrivals(30, LENGTH_S, Path::new("/demo"));
        let names: std::collections::BTreeSet<&str> = all.iter().map(|job| job.spec.name.as_str()).collect();
        assert_eq!(names.len(), 30);
        assert!(all.is_sorted_by(|a, b| a.at_s <= b.at_s));
    }
}
