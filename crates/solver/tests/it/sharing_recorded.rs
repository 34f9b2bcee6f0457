//! The sharing programs against policy calls that were recorded with the reference and its solver.

#![expect(clippy::disallowed_types, reason = "tests read recorded data")]

use std::io::Read;
use std::path::Path;

use wharf_solver::sharing::{Finish, Program, Shares};
use wharf_solver::sharing::{finish_time, makespan, makespan_bisect, max_min, max_sum, water_filling};
use wharf_testing::{needs, reference};

/// One recorded call.
struct Call {
    name: String,
    policy: String,
    capacities: Vec<f64>,
    devices: Vec<f64>,
    speeds: Vec<f64>,
    weights: Vec<f64>,
    remaining: Vec<f64>,
    elapsed_s: Vec<f64>,
    /// Shares that the reference's solver found.
    shares: Vec<f64>,
    /// Its objective, for makespans the last feasible one.
    objective: f64,
}

impl Call {
    fn program(&self) -> Program<'_> {
        Program { capacities: &self.capacities, devices: &self.devices, speeds: &self.speeds }
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.speeds.chunks_exact(self.capacities.len())
    }

    /// Rate with shares in proportion to capacity.
    fn proportional(&self, row: &[f64]) -> f64 {
        let all: f64 = self.capacities.iter().sum();
        row.iter().zip(&self.capacities).map(|(speed, capacity)| speed * capacity / all).sum()
    }

    fn factors(&self) -> Vec<f64> {
        let jobs = self.rows().zip(&self.devices).zip(&self.weights);
        jobs.map(|((row, devices), weight)| devices / (weight * self.proportional(row))).collect()
    }

    /// Rate with an equal part of every type for every job.
    fn isolated(&self, row: &[f64], devices: f64) -> f64 {
        let jobs = self.devices.len() as f64;
        let share = |capacity: &f64| capacity / jobs / devices;
        let sum: f64 = self.capacities.iter().map(share).sum();
        row.iter().zip(&self.capacities).map(|(speed, w)| speed * share(w) / sum.max(1.0)).sum()
    }

    fn claims(&self) -> Vec<Finish> {
        let jobs = self.rows().zip(&self.devices).zip(self.remaining.iter().zip(&self.elapsed_s));
        jobs.map(|((row, &devices), (&remaining, &elapsed_s))| Finish {
            elapsed_s,
            remaining,
            allowance_s: remaining / self.isolated(row, devices),
        })
        .collect()
    }

    fn rates(&self, shares: &[f64]) -> Vec<f64> {
        let rows = self.rows().zip(shares.chunks_exact(self.capacities.len()));
        rows.map(|(speeds, shares)| speeds.iter().zip(shares).map(|(speed, share)| speed * share).sum())
            .collect()
    }

    fn check(&self, answer: &Shares) {
        let types = self.capacities.len();
        assert_eq!(answer.fallback, None, "{}", self.name);
        assert!(answer.values.iter().all(|&share| share >= 0.0), "{}", self.name);
        for row in answer.values.chunks_exact(types) {
            assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9, "{}", self.name);
        }
        for (j, capacity) in self.capacities.iter().enumerate() {
            let shares = answer.values.iter().skip(j).step_by(types);
            let used: f64 = shares.zip(&self.devices).map(|(share, devices)| share * devices).sum();
            assert!(used <= capacity * (1.0 + 1e-9), "{}: {used} of {capacity}", self.name);
        }
    }

    /// How far the shares are from the reference's, on average. Told, not demanded: the best shares are not unique.
    #[expect(clippy::print_stderr, reason = "figures of the test")]
    fn tell(&self, answer: &Shares) {
        let apart: f64 = answer.values.iter().zip(&self.shares).map(|(own, other)| (own - other).abs()).sum();
        let rates = |shares| {
            self.rates(shares)
                .iter()
                .zip(self.rows())
                .map(|(rate, row)| rate / self.proportional(row))
                .sum::<f64>()
        };
        let jobs = self.devices.len() as f64;
        eprintln!(
            "{:48} objective {:.9} ({:+.1e}), mean distance of shares {:.2e}, mean rate {:.4} ({:.4})",
            self.name,
            answer.objective,
            answer.objective / self.objective - 1.0,
            apart / answer.values.len() as f64,
            rates(&answer.values) / jobs,
            rates(&self.shares) / jobs,
        );
    }
}

/// The recorded calls of policies whose name fits, smallest first.
fn calls(fits: impl Fn(&str) -> bool) -> Vec<Call> {
    let files = std::fs::read_dir(reference("gavel/lp_goldens")).expect("recorded calls");
    let mut calls: Vec<Call> = files.map(|file| read(&file.expect("a file").path())).collect();
    calls.retain(|call| fits(&call.policy));
    calls.sort_by(|one, other| (one.devices.len(), &one.name).cmp(&(other.devices.len(), &other.name)));
    assert!(!calls.is_empty());
    calls
}

fn read(path: &Path) -> Call {
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("a recorded call");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("it decompresses");
    // The recorder wrote numbers that JSON does not have.
    let text = text.replace("NaN", "null").replace("-Infinity", "null");
    let call: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let jobs = call["jobs"].as_array().expect("jobs");
    let numbers = |list: &serde_json::Value| -> Vec<f64> {
        list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
    };
    let field =
        |name: &str| -> Vec<f64> { jobs.iter().map(|job| job[name].as_f64().expect("a number")).collect() };
    let result = &call["res"];
    let objective =
        if result["T_feasible"].is_number() { &result["T_feasible"] } else { &result["objective"] };
    Call {
        name: path.file_name().expect("a name").to_string_lossy().into_owned(),
        policy: result["policy"].as_str().expect("a policy").to_owned(),
        capacities: numbers(&call["W"]),
        devices: field("sf"),
        speeds: jobs.iter().flat_map(|job| numbers(&job["T"])).collect(),
        weights: field("w"),
        remaining: field("N"),
        elapsed_s: field("t"),
        shares: shares(&call["x"]),
        objective: objective.as_f64().expect("an objective"),
    }
}

/// Recorded shares; those of pairs are of no use here.
fn shares(x: &serde_json::Value) -> Vec<f64> {
    let rows = x.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |row: &serde_json::Value| row.as_array().cloned().unwrap_or_default();
    rows.iter().flat_map(row).map(|number| number.as_f64().unwrap_or(f64::NAN)).collect()
}

fn close(call: &Call, objective: f64) {
    let apart = (objective / call.objective - 1.0).abs();
    assert!(apart < 1e-6, "{}: {objective} for {}", call.name, call.objective);
}

#[test]
fn max_min_recorded_calls_same_objective() {
    needs!(REFERENCE);
    for call in calls(|policy| policy == "max_min_fairness_perf") {
        let answer = max_min(&call.program(), &call.factors());
        call.check(&answer);
        call.tell(&answer);
        close(&call, answer.objective);
    }
    needs!(REFERENCE);
    for mut call in calls(|policy| policy == "max_min_fairness") {
        call.speeds.fill(1.0);
        let answer = max_min(&call.program(), &call.factors());
        call.check(&answer);
        call.tell(&answer);
        close(&call, answer.objective);
    }
}

#[test]
fn max_sum_recorded_calls_same_objective() {
    needs!(REFERENCE);
    for call in calls(|policy| policy == "max_sum_throughput_perf") {
        let answer = max_sum(&call.program(), &call.speeds, None);
        call.check(&answer);
        call.tell(&answer);
        close(&call, answer.objective);
    }
}

#[test]
fn finish_time_recorded_calls_same_objective() {
    needs!(REFERENCE);
    for call in calls(|policy| policy == "finish_time_fairness_perf") {
        let answer = finish_time(&call.program(), &call.claims());
        call.check(&answer);
        call.tell(&answer);
        close(&call, answer.objective);
    }
}

#[test]
fn makespan_recorded_calls_same_end_of_search() {
    needs!(REFERENCE);
    for call in calls(|policy| policy == "min_total_duration_perf") {
        let answer = makespan_bisect(&call.program(), &call.remaining);
        call.check(&answer);
        call.tell(&answer);
        assert!((answer.objective - call.objective).abs() < 1e-6, "{}: {}", call.name, answer.objective);
        let rates = call.rates(&answer.values);
        for (rate, remaining) in rates.iter().zip(&call.remaining) {
            assert!(rate * answer.objective >= remaining * (1.0 - 1e-7), "{}", call.name);
        }
        let exact = makespan(&call.program(), &call.remaining);
        call.check(&exact);
        assert!(exact.objective <= answer.objective && answer.objective <= exact.objective * 1.06);
    }
}

#[test]
fn water_filling_recorded_calls_same_levels() {
    needs!(REFERENCE);
    for call in calls(|policy| policy == "max_min_fairness_water_filling_perf") {
        let answer = water_filling(&call.program(), &call.factors());
        call.check(&answer);
        let levels = |shares: &[f64]| {
            let rates = call.rates(shares);
            let mut levels: Vec<f64> =
                rates.iter().zip(call.factors()).map(|(rate, factor)| rate * factor).collect();
            levels.sort_by(f64::total_cmp);
            levels
        };
        call.tell(&answer);
        for (own, other) in levels(&answer.values).iter().zip(levels(&call.shares)) {
            assert!((own / other - 1.0).abs() < 1e-2, "{}: {own} for {other}", call.name);
        }
    }
}
