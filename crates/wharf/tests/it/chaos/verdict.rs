//! What has become of the jobs, from what the head, the workers and the tasks themselves tell.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chaos::cluster::{Cluster, read};
use crate::chaos::load::Submitted;

/// What was found.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) complaints: Vec<String>,
    pub(crate) preemptions: u64,
    pub(crate) starts: usize,
}

/// What one run of one task told the ledger.
#[derive(Debug, Default)]
struct Run {
    starts: usize,
    ends: usize,
    stops: usize,
}

impl Run {
    /// Whether it came to its own end.
    fn is_complete(&self) -> bool {
        self.ends == 1 && self.stops == 0
    }
}

/// By job, generation and rank.
type Ledger = BTreeMap<u64, BTreeMap<u64, BTreeMap<u64, Run>>>;

/// Waits until no job lives, and gives them all.
pub(crate) fn wait_for_all(cluster: &Cluster, jobs: &[Submitted]) -> Vec<Value> {
    let mut seen = Vec::new();
    cluster.wait_until("all jobs are over", || {
        let answer = cluster.ask(&["jobs", "--all", "--output", "json"]);
        seen = answer["jobs"].as_array().unwrap().clone();
        assert_eq!(seen.len(), jobs.len(), "{seen:#?}");
        seen.iter().all(|job| !job["end_s"].is_null())
    });
    seen
}

/// Compares everything with what it should be.
pub(crate) fn check(cluster: &Cluster, jobs: &[Submitted], seen: &[Value]) -> Verdict {
    let mut verdict = Verdict::default();
    let text = read(&cluster.path("ledger"));
    let ledger = parse(&text);
    for line in text.lines() {
        if line.starts_with("double") {
            verdict.complaints.push(format!("a task ran twice at the same time: {line}"));
        } else if line.starts_with("shared") {
            verdict.complaints.push(format!("a task began on devices of another: {line}"));
        }
    }
    for line in cluster.said(0).lines().filter(|line| !line.starts_with("head listens on")) {
        verdict.complaints.push(format!("the head said: {line}"));
    }
    let runs_none = BTreeMap::new();
    for submitted in jobs {
        let row = seen.iter().find(|row| row["job_id"] == submitted.id).unwrap_or(&Value::Null);
        let runs = ledger.get(&submitted.id).unwrap_or(&runs_none);
        let history = history(cluster, submitted.id);
        let mut complaints = check_end(submitted, row, &history);
        complaints.extend(check_runs(submitted, runs));
        if submitted.job.is_complete() {
            complaints.extend(check_logs(cluster, submitted, runs));
        }
        verdict.preemptions += row["preemptions"].as_u64().unwrap_or(0);
        verdict.starts += runs.values().flat_map(BTreeMap::values).map(|run| run.starts).sum::<usize>();
        if !complaints.is_empty() {
            verdict.complaints.push(described(submitted, &complaints, &text, &history));
        }
    }
    verdict
}

/// A job that is not as it should be, with all that is known of it.
fn described(submitted: &Submitted, complaints: &[String], ledger: &str, history: &[String]) -> String {
    let id = submitted.id.to_string();
    let told = ledger.lines().filter(|line| line.split(' ').nth(1) == Some(&id));
    let told: Vec<&str> = told.collect();
    format!(
        "job {id} ({}): {}\n  ledger (what, job, rank, generation): {told:#?}\n  history: {history:#?}",
        submitted.job.name,
        complaints.join("; "),
    )
}

fn parse(text: &str) -> Ledger {
    let mut ledger = Ledger::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, numbers @ ..] = words.as_slice() else { continue };
        let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
        let [job, rank, generation] = numbers[..] else { panic!("the ledger has a torn line: {line}") };
        let run = ledger.entry(job).or_default().entry(generation).or_default().entry(rank).or_default();
        match *what {
            "start" => run.starts += 1,
            "end" => run.ends += 1,
            "stopped" => run.stops += 1,
            _ => {}
        }
    }
    ledger
}

fn history(cluster: &Cluster, job: u64) -> Vec<String> {
    let answer = cluster.ask(&["job", &job.to_string(), "--output", "json"]);
    let events = answer["history"].as_array().unwrap().iter();
    events.map(|entry| format!("{} {}", entry["time_s"], entry["event"])).collect()
}

fn check_end(submitted: &Submitted, row: &Value, history: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    let ending = submitted.job.ending;
    if row["phase"] != ending.phase || row["exit_code"] != ending.code {
        complaints.push(format!("it is {} with {} instead of {ending:?}", row["phase"], row["exit_code"]));
    }
    let count = |text: &str| history.iter().filter(|event| event.contains(text)).count();
    if count("job_ended") != 1 {
        complaints.push(format!("it ended {} times", count("job_ended")));
    }
    // Deaths of heads and workers are no reason to run a job again.
    let (requeued, lost) = (count("\"why\":\"requeued\""), count("\"why\":\"node_lost\""));
    if (requeued, lost) != (submitted.job.retries, 0) {
        let expected = submitted.job.retries;
        complaints
            .push(format!("it was requeued {requeued} times instead of {expected}, and lost {lost} times"));
    }
    complaints
}

/// Each task of a generation starts once at most, and nothing runs after all of it came to its end, but for retries.
fn check_runs(submitted: &Submitted, runs: &BTreeMap<u64, BTreeMap<u64, Run>>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complete = 0;
    for (generation, tasks) in runs {
        for (rank, run) in tasks {
            if run.starts != 1 || run.ends > 1 || run.stops > 1 {
                complaints.push(format!("generation {generation}, rank {rank}: {run:?}"));
            }
        }
        let is_whole = tasks.len() as u64 == submitted.job.ranks;
        complete += usize::from(is_whole && tasks.values().all(Run::is_complete));
    }
    let expected = if submitted.job.is_complete() { 1 + submitted.job.retries } else { 0 };
    if complete != expected {
        complaints.push(format!("{complete} complete runs instead of {expected}"));
    }
    let is_last_complete =
        runs.values().next_back().is_some_and(|tasks| tasks.values().all(Run::is_complete));
    if expected > 0 && !is_last_complete {
        complaints.push("its last run is not complete".to_owned());
    }
    complaints
}

/// What a complete run has written is there from the first line to the last.
fn check_logs(
    cluster: &Cluster,
    submitted: &Submitted,
    runs: &BTreeMap<u64, BTreeMap<u64, Run>>,
) -> Vec<String> {
    let Some((generation, _)) = runs.last_key_value() else { return Vec::new() };
    let id = submitted.id.to_string();
    let lines = if submitted.job.kind == "train" { 0 } else { submitted.job.tenths };
    let lines: String = (0..lines).map(|line| format!("line {line}\n")).collect();
    let expected = format!("begin {generation}\n{lines}last\n");
    let wrong = |rank: u64| {
        let output = cluster.run(&["logs", &id, "--rank", &rank.to_string()]);
        // A shell states this when a signal to the group has ended the command that it was waiting for.
        let text = String::from_utf8_lossy(&output.stdout).replace("Terminated\n", "");
        (text != expected).then(|| format!("rank {rank}: its log is {text:?} instead of {expected:?}"))
    };
    (0..submitted.job.ranks).filter_map(wrong).collect()
}
