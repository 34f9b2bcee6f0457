//! Recorded runs of Crius's published simulator, round by round.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_core::ClusterSpec;
use wharf_outcome::{JobRecord, NoRecorder, Outcome};
use wharf_perf::Profile;
use wharf_policy::Settings;
use wharf_reproduce::Request;
use wharf_reproduce::crius::decisions::{Owner, World};
use wharf_reproduce::crius::{Numbers, RoundState};
use wharf_testing::{needs, reference};
use wharf_trace::Trace;

/// A job as a recording has it: name, type, devices, locality, nodes, iterations left, whether it runs out of turn.
type RunningRow = (String, String, u32, Vec<u32>, Vec<(String, u32)>, f64, u8);
/// A waiting job: name, type, devices, iterations left, whether it waits while a later one runs.
type PendingRow = (String, String, u32, f64, u8);

#[derive(Debug, PartialEq, Deserialize)]
struct RecordedRound {
    round: u64,
    timer: f64,
    running: Vec<RunningRow>,
    pending: Vec<PendingRow>,
    debt: std::collections::BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Series {
    thr: Vec<f64>,
    jct: Vec<f64>,
    queue: Vec<f64>,
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("a recording");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
    text
}

/// What all recordings share.
struct Inputs {
    trace: Trace,
    cluster: ClusterSpec,
    profile: Profile,
    numbers: Numbers,
    folder: PathBuf,
}

impl Inputs {
    fn new(folder: PathBuf) -> Self {
        Self::of(folder, "simulate_trace_tiny", "tiny_cluster_spec")
    }

    fn of(folder: PathBuf, trace: &str, cluster: &str) -> Self {
        let trace = folder.join(format!("traces/{trace}.csv"));
        let cluster = folder.join(format!("cluster/{cluster}.json"));
        Self {
            trace: wharf_trace::read_trace(&trace, None).expect("a trace"),
            cluster: wharf_trace::parse_cluster_file(&cluster).expect("a cluster"),
            profile: wharf_profile::load(&folder).expect("tables"),
            numbers: crate::support::numbers("crius"),
            folder,
        }
    }

    /// The rounds of a run as the recordings have them, its throughput, and what came out.
    fn run(&self, policy: &str, rounds: usize, set: &[&str]) -> (Vec<RecordedRound>, Vec<f64>, Outcome) {
        let (mut seen, mut throughput) = (Vec::new(), Vec::new());
        let places = self.places();
        let outcome = self.watch(policy, rounds, set, &mut |round| {
            seen.push(seen_round(round, &places));
            throughput.push(round.throughput);
        });
        (seen, throughput, outcome)
    }

    /// The place of each job in the trace's file, which recordings number jobs by.
    fn places(&self) -> Vec<u32> {
        let jobs = &self.trace.jobs;
        let is_sorted = jobs.iter().all(|job| job.row == 0);
        (0..).zip(jobs).map(|(index, job)| if is_sorted { index } else { job.row }).collect()
    }

    fn watch(
        &self,
        policy: &str,
        rounds: usize,
        set: &[&str],
        watch: &mut dyn FnMut(&RoundState<'_>),
    ) -> Outcome {
        let request = Request {
            jobs: &self.trace.jobs,
            cluster: &self.cluster,
            profile: Some(&self.profile),
            policy,
            settings: &Settings::parse(set.iter().copied()).expect("settings"),
            seed: 0,
            rounds: Some(rounds as u64),
        };
        self.numbers.simulate_watched(&request, &mut NoRecorder, watch).expect("a run")
    }
}

fn seen_round(round: &RoundState<'_>, places: &[u32]) -> RecordedRound {
    let world = round.world;
    let width = places.len().to_string().len();
    let name = |job: u32| {
        let place = places[round.jobs[job as usize] as usize] + 1;
        format!("job_{place:0width$}")
    };
    let with_debt = world.running.iter().chain(&world.pending).filter(|job| world.job(**job).debt_s > 0.0);
    RecordedRound {
        round: round.index,
        timer: world.timer,
        running: world.running.iter().map(|&job| running_row(world, job, name(job))).collect(),
        pending: world.pending.iter().map(|&job| pending_row(world, job, name(job))).collect(),
        debt: with_debt.map(|&job| (name(job), world.job(job).debt_s)).collect(),
    }
}

fn running_row(world: &World, job: u32, name: String) -> RunningRow {
    let state = world.job(job);
    let mut shares = Vec::new();
    world.table.shares_of(Owner::job(job), &mut shares);
    let nodes = shares.into_iter().map(|(node, count)| (format!("node_{:02}", node + 1), count)).collect();
    let locality = vec![state.quota.shape.per_host; state.quota.shape.hosts as usize];
    let kind = world.site().kind(state.quota.kind).name.to_string();
    let flag = u8::from(state.is_opportunistic);
    (name, kind, state.quota.devices, locality, nodes, state.remaining, flag)
}

fn pending_row(world: &World, job: u32, name: String) -> PendingRow {
    let state = world.job(job);
    let kind = world.site().kind(state.quota.kind).name.to_string();
    (name, kind, state.quota.devices, state.remaining, u8::from(state.is_blocker))
}

fn recorded_rounds(inputs: &Inputs, tag: &str) -> Vec<RecordedRound> {
    let rounds = unpacked(&inputs.folder.join(format!("golden/{tag}.jsonl.gz")));
    rounds.lines().map(|line| serde_json::from_str(line).expect("a round")).collect()
}

/// The first thing that differs from a recording.
fn first_difference(inputs: &Inputs, tag: &str) -> Option<String> {
    let golden = inputs.folder.join("golden");
    let theirs = recorded_rounds(inputs, tag);
    let series = unpacked(&golden.join(format!("{tag}.series.json.gz")));
    let series: Series = serde_json::from_str(&series).expect("series");
    let metrics = std::fs::read_to_string(golden.join("metrics.json")).expect("metrics");
    let metrics: Value = serde_json::from_str(&metrics).expect("metrics");
    let entry = &metrics[tag];
    let command = entry["cmd"].as_str().expect("a command");
    let mut set = Vec::new();
    if command.contains("--job_submit_density=0.05") {
        set.push("density=0.05");
    }
    if command.contains("--sched_with_opt") {
        set.push("sched_with_opt=true");
    }
    let policy = tag.split('_').next().unwrap_or_default();
    let (ours, throughput, outcome) = inputs.run(policy, theirs.len(), &set);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        if ours != theirs {
            return Some(difference_of_rounds(ours, theirs));
        }
    }
    if throughput != series.thr {
        let at = throughput.iter().zip(&series.thr).position(|(ours, theirs)| ours != theirs);
        return Some(format!(
            "throughput of round {at:?}: {:?}",
            at.map(|at| (throughput[at], series.thr[at]))
        ));
    }
    difference_of_jobs(&outcome, &series, &entry["metrics"])
}

fn difference_of_rounds(ours: &RecordedRound, theirs: &RecordedRound) -> String {
    let rows = |ours: &[RunningRow], theirs: &[RunningRow]| {
        let at = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
        let at = at.unwrap_or_else(|| ours.len().min(theirs.len()));
        format!("running {:?} is not {:?}", ours.get(at), theirs.get(at))
    };
    let what = if ours.running == theirs.running {
        format!("{:?} {:?} is not {:?} {:?}", ours.pending, ours.debt, theirs.pending, theirs.debt)
    } else {
        rows(&ours.running, &theirs.running)
    };
    format!("round {} ({}): {what}", ours.round, ours.timer == theirs.timer)
}

/// Completion times in the order of the recording are by end; of equals their order is that of the queue.
fn difference_of_jobs(outcome: &Outcome, series: &Series, metrics: &Value) -> Option<String> {
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values
    };
    let jct = sorted(outcome.jobs.iter().filter_map(JobRecord::jct_s).collect());
    if jct != sorted(series.jct.clone()) {
        return Some(format!("completion times {jct:?} are not {:?}", series.jct));
    }
    let counted = outcome.jobs.iter().filter(|job| job.first_start.is_some() || job.queue_s > 0.0);
    let queue = sorted(counted.map(|job| job.queue_s).collect());
    if queue != sorted(series.queue.clone()) {
        return Some(format!("queueing times {queue:?} are not {:?}", series.queue));
    }
    let tally = outcome.tally;
    let throughput = tally.throughput.expect("throughput");
    let is_near = (throughput.average - metrics["thr_avg"].as_f64().unwrap_or(0.0)).abs() < 1e-9;
    let found = json!([tally.reschedules, tally.deadlines_met, throughput.peak, is_near]);
    let expected = json!([metrics["resched_total"], metrics["ddl_satisfied"], metrics["thr_peak"], true]);
    (found != expected).then(|| format!("{found} is not {expected}"))
}

fn check(tags: &[&str]) {
    needs!(REFERENCE);
    let folder = reference("crius");
    let inputs = Inputs::new(folder);
    let differences: Vec<String> = tags
        .iter()
        .filter_map(|tag| first_difference(&inputs, tag).map(|difference| format!("{tag}: {difference}")))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn fcfs_is_equal_round_by_round() {
    check(&["fcfs_tiny", "fcfs_tinyd", "fcfs-r_tiny", "fcfs-r_tinyd"]);
}

#[test]
fn gavel_is_equal_round_by_round_where_ties_do_not_matter() {
    check(&["gavel_tiny"]);
}

/// The largest relative difference from the aggregates of a recording, and its name.
fn distance(inputs: &Inputs, tag: &str, set: &[&str]) -> (f64, &'static str) {
    let metrics = std::fs::read_to_string(inputs.folder.join("golden/metrics.json")).expect("metrics");
    let metrics: Value = serde_json::from_str(&metrics).expect("metrics");
    let expected = |name: &str| metrics[tag]["metrics"][name].as_f64().expect("a number");
    let rounds = expected("rounds") as usize;
    let (_, _, outcome) = inputs.run(tag.split('_').next().unwrap_or_default(), rounds, set);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let jct: Vec<f64> = outcome.jobs.iter().filter_map(JobRecord::jct_s).collect();
    let counted = outcome.jobs.iter().filter(|job| job.first_start.is_some() || job.queue_s > 0.0);
    let mut found = vec![
        ("avg_queue_s_all", mean(counted.map(|job| job.queue_s).collect())),
        ("thr_avg", outcome.tally.throughput.expect("throughput").average),
    ];
    // Of fewer jobs a mean states nothing.
    if expected("finished") >= 20.0 {
        found.extend([("finished", jct.len() as f64), ("avg_jct_s", mean(jct))]);
    }
    let distances = found.into_iter().map(|(name, found)| ((found / expected(name) - 1.0).abs(), name));
    distances.max_by(|one, other| one.0.total_cmp(&other.0)).expect("figures")
}

/// In `gavel_tinyd` the published solver breaks ties otherwise. With eight threads instead of two it would itself be 3.7 % away.
#[test]
fn gavel_comes_near_where_ties_decide() {
    needs!(REFERENCE);
    let (distance, name) = distance(&Inputs::new(reference("crius")), "gavel_tinyd", &["density=0.05"]);
    assert!(distance <= 0.03, "{name}: {distance}");
}

/// The first round that differs from a recording.
fn first_different_round(inputs: &Inputs, tag: &str, set: &[&str]) -> Option<u64> {
    let theirs = recorded_rounds(inputs, tag);
    let (ours, _, _) = inputs.run(tag.split('_').next().unwrap_or_default(), theirs.len(), set);
    let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    differing.map(|(ours, _)| ours.round)
}

/// Until round 21 no choice between two equal jobs matters; from then on the published solver's choices follow no rule (docs/policies.md).
#[test]
fn gavel_small_is_equal_until_equal_jobs_are_exchanged() {
    needs!(REFERENCE);
    let inputs = Inputs::of(reference("crius"), "simulate_trace_philly", "small_cluster_spec");
    let set = &["density=0.3"];
    let first = first_different_round(&inputs, "gavel_small", set);
    assert!(first.is_none_or(|round| round >= 21), "{first:?}");
    let (distance, name) = distance(&inputs, "gavel_small", set);
    assert!(distance <= 0.095, "{name}: {distance}");
}

/// Until round 4 the published solver finds the best choice; later it stops within its tolerance of it in about one program of seven
/// (docs/policies.md). With one bit of the goodputs changed at random its own mean queueing time in `sia_tinyd` moved by 3 to 21 % in
/// five runs.
#[test]
fn sia_comes_near_with_the_best_choices() {
    needs!(REFERENCE);
    let inputs = Inputs::new(reference("crius"));
    for (tag, set, limit) in [("sia_tiny", &[][..], 0.102), ("sia_tinyd", &["density=0.05"][..], 0.25)] {
        let first = first_different_round(&inputs, tag, set);
        assert!(first.is_none_or(|round| round >= 4), "{tag}: {first:?}");
        let (distance, name) = distance(&inputs, tag, set);
        assert!(distance <= limit, "{tag}: {name}: {distance}");
    }
}

#[test]
fn crius_is_equal_round_by_round() {
    check(&["crius_tiny", "crius_tinyd", "crius_noopt_tinyd"]);
}

#[test]
fn crius_ablations_are_equal_round_by_round() {
    check(&[
        "crius-ns_tinyd",
        "crius-nh_tinyd",
        "crius-no_tinyd",
        "crius-nm_tinyd",
        "crius-dp_tinyd",
        "crius-ddl_tinyd",
    ]);
}

#[test]
fn gandiva_is_equal_round_by_round() {
    check(&["gandiva_tiny", "gandiva_tinyd"]);
}

#[test]
fn elasticflow_is_equal_round_by_round() {
    check(&["elasticflow_tiny", "elasticflow_tinyd", "elasticflow-l_tiny", "elasticflow-l_tinyd"]);
}

/// The rows of this trace are not sorted by submission: jobs are numbered and submitted in the order of the file.
#[test]
fn elasticflow_on_an_unsorted_trace_is_equal_round_by_round() {
    needs!(REFERENCE);
    let inputs = Inputs::of(reference("crius"), "simulate_trace_pai", "sim_cluster_spec");
    let theirs = recorded_rounds(&inputs, "elasticflow-l_pai_500");
    let (ours, _, _) = inputs.run("elasticflow-l", theirs.len(), &[]);
    assert_eq!(ours.len(), theirs.len());
    let first = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert!(first.is_none(), "{:?}", first.map(|(ours, theirs)| difference_of_rounds(ours, theirs)));
}

/// Running jobs have their quota, other jobs have nothing, and no job is in two queues.
fn check_books(round: &RoundState<'_>, policy: &str) {
    let world = round.world;
    let mut shares = Vec::new();
    let mut used = 0;
    for &job in &world.running {
        world.table.shares_of(Owner::job(job), &mut shares);
        let shape = world.job(job).quota.shape;
        let is_as_said =
            shares.len() == shape.hosts as usize && shares.iter().all(|share| share.1 == shape.per_host);
        assert!(is_as_said, "{policy}, round {}: job {job} has {shares:?}, not {shape:?}", round.index);
        assert!(!world.pending.contains(&job), "{policy}, round {}: job {job} runs and waits", round.index);
        used += shape.devices();
    }
    let idle: u32 = world.site().kinds().map(|kind| world.table.idle_of(kind)).sum();
    assert_eq!(used + idle, world.site().device_count(), "{policy}, round {}", round.index);
}

#[test]
fn books_are_in_order_on_the_large_cluster() {
    needs!(REFERENCE);
    let folder = reference("crius");
    let inputs = Inputs::of(folder, "simulate_trace_philly", "sim_cluster_spec");
    for policy in ["fcfs", "fcfs-r", "gandiva", "elasticflow", "elasticflow-l"] {
        let outcome = inputs.watch(policy, 2000, &[], &mut |round| {
            if round.index.is_multiple_of(50) {
                check_books(round, policy);
            }
        });
        assert!(
            outcome.tally.rounds == 2000 && outcome.tally.reschedules > 100,
            "{policy}: {:?}",
            outcome.tally
        );
    }
}
