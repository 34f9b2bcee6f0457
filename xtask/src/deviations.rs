//! Recorded deviations: rows of a check that are known not to hold, each with its measured distance.
//!
//! A recorded row fails when its distance grows, any other row when it does not hold. A recorded row that holds fails too: its record
//! would hide a later regression.

use crate::phases::Outcome;

/// A row that is known not to hold.
pub(crate) struct Deviation {
    /// Name of the run.
    pub(crate) run: &'static str,
    /// Largest relative distance of a figure, as the check prints it.
    pub(crate) distance: f64,
    /// Cause of the distance.
    pub(crate) cause: &'static str,
}

/// Lines of a check that [`judge`] reads: failed rows and the total.
pub(crate) fn is_relevant(line: &str) -> bool {
    line.ends_with("runs hold") || line.starts_with("FAIL")
}

/// Compares the failed rows of a check with the recorded deviations.
///
/// A failed row is `FAIL RUN: worst FIGURE DISTANCE; ...`, the total `COUNT of COUNT runs hold`.
pub(crate) fn judge(lines: &[String], recorded: &[Deviation]) -> Outcome {
    let total = lines.iter().rev().find_map(|line| total(line)).ok_or("the check printed no total")?;
    let failed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("FAIL ")).collect();
    let mut figures = vec![format!("{} of {} runs hold", total.0, total.1)];
    let mut complaints = Vec::new();
    if total.0 + failed.len() != total.1 {
        complaints.push(format!("{} failed rows do not match the total", failed.len()));
    }
    for row in &failed {
        let known = recorded.iter().find(|known| Some(known.run) == run(row));
        match known.zip(distance(row)) {
            Some((known, distance)) if distance <= known.distance => {
                figures.push(format!(
                    "recorded deviation: {row} (at most {:.1e}; {})",
                    known.distance, known.cause
                ));
            }
            Some((known, _)) => complaints.push(format!("FAIL {row}: recorded are {:.1e}", known.distance)),
            None => complaints.push(format!("FAIL {row}")),
        }
    }
    for known in recorded.iter().filter(|known| !failed.iter().any(|row| run(row) == Some(known.run))) {
        complaints.push(format!("{} holds: remove its recorded deviation", known.run));
    }
    if complaints.is_empty() {
        return Ok(figures);
    }
    figures.extend(complaints);
    Err(figures.join("\n"))
}

fn total(line: &str) -> Option<(usize, usize)> {
    let (held, all) = line.strip_suffix(" runs hold")?.split_once(" of ")?;
    Some((held.parse().ok()?, all.parse().ok()?))
}

fn run(row: &str) -> Option<&str> {
    row.split_once(": ").map(|(run, _)| run)
}

fn distance(row: &str) -> Option<f64> {
    let (_, figure) = row.split_once(": worst ")?;
    let (figure, _) = figure.split_once(';')?;
    figure.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &[Deviation] = &[Deviation { run: "a_tiny", distance: 0.10, cause: "its solver" }];

    fn judged(text: &str) -> Outcome {
        let lines: Vec<String> = text.lines().filter(|line| is_relevant(line)).map(str::to_owned).collect();
        judge(&lines, RECORDED)
    }

    #[test]
    fn recorded_row_within_its_distance_passes() {
        let figures = judged(
            "ok   b_tiny: worst jct 1.0e-15; reference 2 CPU s\n\
             FAIL a_tiny: worst thr 1.0e-01; reference 1 CPU s\n1 of 2 runs hold",
        );
        let figures = figures.expect("a recorded deviation");
        assert_eq!(figures[0], "1 of 2 runs hold");
        assert!(figures[1].starts_with("recorded deviation: a_tiny: worst thr 1.0e-01;"), "{figures:?}");
    }

    #[test]
    fn recorded_row_that_gets_worse_fails() {
        let why =
            judged("FAIL a_tiny: worst thr 1.1e-01; reference 1 CPU s\n1 of 2 runs hold").expect_err("worse");
        assert!(why.contains("recorded are 1.0e-1"), "{why}");
    }

    #[test]
    fn recorded_row_without_a_distance_fails() {
        let why = judged("FAIL a_tiny: error: cannot read trace\n1 of 2 runs hold").expect_err("an error");
        assert!(why.contains("cannot read trace"), "{why}");
    }

    #[test]
    fn other_row_that_does_not_hold_fails() {
        let why =
            judged("FAIL a_tiny: worst thr 9.0e-02; x\nFAIL a_tinyd: worst thr 9.0e-02; x\n0 of 2 runs hold");
        assert!(why.expect_err("another row").contains("FAIL a_tinyd"));
    }

    #[test]
    fn recorded_row_that_holds_fails() {
        assert!(judged("2 of 2 runs hold").expect_err("a stale record").contains("remove"));
    }

    #[test]
    fn check_without_all_its_rows_fails() {
        judged("FAIL a_tiny: worst thr 9.0e-02; x").expect_err("no total");
        judged("FAIL a_tiny: worst thr 9.0e-02; x\n1 of 3 runs hold").expect_err("a row is missing");
    }
}
