//! Every recorded run of Sia's published simulator, with its allocations replayed: the jobs' steps, round by round.

use std::path::Path;

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_reproduce::sia::{self, Numbers, Policy, Round, Step, read_log, replay};
use wharf_sim::{NoRecorder, Outcome, Preset, RunSpec, Settings};
use wharf_testing::{needs, reference};
use wharf_trace::Trace;

/// How a replay compares with its recording, over all rounds of all jobs.
#[derive(Debug, Default, PartialEq)]
struct Comparison {
    job_rounds: usize,
    same_progress: usize,
    /// Beyond rounding.
    other_progress: usize,
    other_epoch: usize,
    other_batch: usize,
    other_restarts: usize,
    other_end: usize,
    /// Largest difference of an end, in seconds.
    end_off_s: u64,
}

fn numbers() -> Numbers {
    let preset = Preset::load("sia").expect("a built-in preset");
    let table: toml::Table = toml::from_str(&preset.text).expect("it was loaded");
    table["sia"].clone().try_into().expect("its numbers parse")
}

/// A workload in the reference's format.
fn workload(path: &Path) -> Vec<JobSpec> {
    let mut reader = csv::Reader::from_path(path).expect("a workload");
    reader
        .records()
        .map(|row| {
            let row = row.expect("a row");
            let submit = Time::from_seconds(row[1].parse().expect("a time"));
            let mut job = JobSpec::new(&row[0], submit, row[3].parse().expect("a count"), 1.0, 0.0);
            job.model = Some(row[2].into());
            job.batch_size = Some(row[4].parse().expect("a batch size"));
            job
        })
        .collect()
}

/// The reference's default cluster: 64 devices of three types.
fn cluster() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform("aws", 6, 4);
    cluster.nodes.extend(ClusterSpec::uniform("dgx-ext", 2, 8).nodes);
    cluster.nodes.extend(ClusterSpec::uniform("rtx", 3, 8).nodes);
    cluster
}

fn compare(comparison: &mut Comparison, jobs: &[JobSpec], round: &Round, steps: &[Step]) {
    assert_eq!(round.submitted_jobs.len(), steps.len(), "at {} s", round.timestamp);
    for (line, step) in round.submitted_jobs.iter().zip(steps) {
        assert_eq!(line.name, *jobs[step.job.index()].name);
        comparison.job_rounds += 1;
        comparison.same_progress += usize::from(line.progress.to_bits() == step.progress.to_bits());
        let off = (line.progress - step.progress).abs();
        comparison.other_progress += usize::from(off > 1e-9 * line.progress.max(1.0));
        comparison.other_epoch += usize::from(line.epoch != step.epoch);
        let batch = (line.batch_size, line.accum_steps);
        let is_over = line.completion_time.is_some();
        comparison.other_batch += usize::from(!is_over && batch != (step.batch_size, step.accumulated));
        comparison.other_restarts += usize::from(line.num_restarts != step.restarts);
    }
}

/// Replays a recording under a policy.
fn run(data: &Path, name: &str, policy: Policy) -> (Comparison, Outcome) {
    let (size, _) = name.split_once('_').expect("JOBS_POLICY");
    let trace = if size == "w160" { "saturn/workload-1".to_owned() } else { size.to_owned() };
    let jobs = workload(&data.join(format!("workloads/{trace}.csv")));
    let rounds = read_log(&data.join(format!("goldens/{name}.log.gz"))).expect("a log");
    let profiles = Some(data.join("profiles"));
    let settings = sia::Settings { policy, allocations: None, profiles, rounds: None };
    let mut comparison = Comparison::default();
    let mut index = 0;
    let outcome =
        replay(&jobs, &cluster(), &settings, &numbers(), &rounds, &mut NoRecorder, &mut |_, steps| {
            compare(&mut comparison, &jobs, &rounds[index], steps);
            index += 1;
        })
        .expect("a replay");
    let last = rounds.last().expect("rounds");
    for (line, job) in last.submitted_jobs.iter().zip(&outcome.jobs) {
        let end = job.end.map(|end| end.seconds() as u64);
        comparison.other_end += usize::from(line.completion_time != end);
        let off = line.completion_time.unwrap_or(0).abs_diff(end.unwrap_or(0));
        comparison.end_off_s = comparison.end_off_s.max(off);
    }
    (comparison, outcome)
}

/// Recordings with their mean completion times.
const RECORDINGS: [(&str, Policy, f64); 6] = [
    ("w40_gavel", Policy::Gavel, 2929.5),
    ("w160_gavel", Policy::Gavel, 6474.2),
    ("w12_sia", Policy::Sia, 1447.1),
    ("w40_sia", Policy::Sia, 2277.6),
    ("w160_sia", Policy::Sia, 2091.1),
    ("w12_pollux", Policy::Pollux, 2258.5),
];

#[test]
fn recordings_same_bits() {
    needs!(REFERENCE);
    let data = reference("sia");
    for (name, policy, mean_jct_s) in RECORDINGS {
        let (comparison, outcome) = run(&data, name, policy);
        let rounds = comparison.job_rounds;
        let mut expected = Comparison { job_rounds: rounds, same_progress: rounds, ..Comparison::default() };
        if name == "w160_sia" {
            // One fit ends elsewhere (cifar10-59, 4 rounds, its end 1 s off); one placement lies between the sizes
            // that were measured (imagenet-23 on five nodes, 10 rounds).
            expected.same_progress -= 14;
            expected.other_progress = 14;
            expected.other_batch = 1;
            (expected.other_end, expected.end_off_s) = (1, 1);
        }
        assert_eq!(comparison, expected, "{name}");
        let total: f64 = outcome.jobs.iter().filter_map(|job| job.jct_s()).sum();
        let mean = total / outcome.jobs.len() as f64;
        assert!((mean - mean_jct_s).abs() < 0.06, "{name}: {mean} is not {mean_jct_s}");
    }
}

#[test]
fn the_preset_replays_from_files() {
    needs!(REFERENCE);
    let data = reference("sia");
    let preset = Preset::load("sia").expect("a built-in preset");
    let trace = Trace { jobs: workload(&data.join("workloads/w12.csv")), ..Trace::default() };
    let cluster = cluster();
    let run_with = |settings: &Settings| {
        let spec = RunSpec {
            trace: &trace,
            cluster: &cluster,
            policy: "sia",
            preset: &preset,
            settings,
            seed: 0,
            profile: None,
            rounds: None,
            failures: None,
        };
        wharf_sim::check(&spec)?;
        wharf_sim::run(&spec, &mut NoRecorder)
    };
    let mut settings = Settings::default();
    let problem = run_with(&settings).expect_err("no allocations").to_string();
    assert!(problem.contains("allocations=FILE"), "{problem}");
    settings.set("allocations", data.join("goldens/w12_sia.log.gz").to_str().expect("a path"));
    settings.set("profiles", data.join("profiles").to_str().expect("a path"));
    let outcome = run_with(&settings).expect("a run");
    assert_eq!(outcome, run_with(&settings).expect("a run"), "equal specs give equal bytes");
    assert_eq!(outcome, run(&data, "w12_sia", Policy::Sia).1);
    assert!(outcome.jobs.iter().all(|job| job.end.is_some()));
}
