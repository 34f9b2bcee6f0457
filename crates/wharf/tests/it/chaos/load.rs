//! The jobs, and what must become of each.

use serde_json::Value;

use crate::chaos::cluster::{Cluster, pause};
use crate::chaos::faults::Draw;

/// How a job must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) phase: &'static str,
    pub(crate) code: i64,
}

const FINISHED: Ending = Ending { phase: "finished", code: 0 };
const CANCELLED: Ending = Ending { phase: "cancelled", code: 130 };
const TIMED_OUT: Ending = Ending { phase: "timed-out", code: 124 };

const fn failed(code: i64) -> Ending {
    Ending { phase: "failed", code }
}

/// A submission and what is expected of it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// Flags of `wharf submit`; `@name` is the id of that job.
    flags: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) tenths: u64,
    code: u8,
    pub(crate) ending: Ending,
    /// Tasks, one on each node.
    pub(crate) ranks: u64,
    pub(crate) elements: u64,
    /// How often it is run again because of its exit code.
    pub(crate) retries: usize,
}

/// A job under its id.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) id: u64,
    pub(crate) job: Job,
}

impl Job {
    const fn new(name: &'static str, flags: &'static str, tenths: u64, code: u8, ending: Ending) -> Self {
        Self { name, flags, kind: "plain", tenths, code, ending, ranks: 1, elements: 1, retries: 0 }
    }

    const fn of(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    const fn over(self, ranks: u64) -> Self {
        Self { ranks, ..self }
    }

    /// Whether its last run comes to its own end.
    pub(crate) fn is_complete(&self) -> bool {
        self.ending == FINISHED || (self.ending.phase == "failed" && self.kind != "broken")
    }
}

const LONG: &str = "--iterations 20 --iteration-ms 1000000";
const SHORT: &str = "--iterations 1 --iteration-ms 60000";

/// The names of those that are cancelled while they run or wait.
const TO_CANCEL: [&str; 2] = ["sleeper", "held"];

fn jobs() -> Vec<(&'static str, Job)> {
    let retried = Job::new("retried", "--retries 2 --retry-code 42", 2, 42, FINISHED).of("again");
    let array = Job::new("array", "--array 0-9", 2, 0, FINISHED);
    let long = |name, flags| Job::new(name, flags, 20, 0, FINISHED).of("train");
    vec![
        (LONG, long("trainer-a", "--gang 1x4")),
        (LONG, long("trainer-b", "--gang 1x4")),
        (LONG, long("trainer-c", "--gang 1x3")),
        (LONG, Job::new("sleeper", "", 600, 0, CANCELLED)),
        (SHORT, Job::new("short-a", "--gang 1x2", 4, 0, FINISHED)),
        (SHORT, Job::new("fails-3", "", 3, 3, failed(3))),
        (SHORT, Job::new("gang-2x3", "--gang 2x3", 7, 0, FINISHED).over(2)),
        (SHORT, Job { elements: 10, ..array }),
        (LONG, Job::new("gang-long", "--gang 2x2", 12, 0, FINISHED).over(2)),
        (SHORT, Job { retries: 2, ..retried }),
        (SHORT, Job::new("not-retried", "--retries 2 --retry-code 42", 2, 9, failed(9))),
        (SHORT, Job::new("after-ok", "--after-ok @short-a", 2, 0, FINISHED)),
        (SHORT, Job::new("after-not-ok", "--after-not-ok @fails-3", 2, 0, FINISHED)),
        (SHORT, Job::new("impossible", "--after-ok @fails-3", 2, 0, CANCELLED)),
        (SHORT, Job::new("gang-3x2", "--gang 3x2", 5, 0, FINISHED).over(3)),
        (LONG, Job::new("held", "--held", 600, 0, CANCELLED)),
        (SHORT, Job::new("broken", "--gang 2x2", 3, 5, failed(5)).of("broken").over(2)),
        (LONG, long("trainer-d", "--gang 1x2")),
        (SHORT, Job::new("short-b", "", 6, 0, FINISHED)),
        (SHORT, Job::new("fails-7", "--gang 1x4", 2, 7, failed(7))),
        (SHORT, Job::new("limited", "--time-limit 1s", 600, 0, TIMED_OUT)),
        (SHORT, Job::new("last", "--after-any @gang-3x2,@broken", 1, 0, FINISHED)),
    ]
}

/// A load whose moments are drawn from a seed.
pub(crate) struct Load {
    seed: u64,
}

impl Load {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Submits everything while head and workers die, and cancels some of it.
    pub(crate) fn submit(&self, cluster: &Cluster) -> Vec<Submitted> {
        let mut draw = Draw::new(self.seed);
        let mut submitted: Vec<Submitted> = Vec::new();
        for (length, job) in jobs() {
            pause(draw.millis(150));
            let first = submit(cluster, length, &job, &submitted);
            submitted
                .extend((0..job.elements).map(|element| Submitted { id: first + element, job: job.clone() }));
        }
        for name in TO_CANCEL {
            pause(draw.millis(600));
            let id = id_of(&submitted, name).to_string();
            cluster.wait_until(&format!("{name} is cancelled"), || {
                let is_cancelled = cluster.run(&["cancel", &id]).status.success();
                is_cancelled || is_over(cluster, &id)
            });
        }
        submitted
    }
}

/// Whether a job has ended that may have been cancelled by a head that died before it said so.
fn is_over(cluster: &Cluster, id: &str) -> bool {
    let job = cluster.ask(&["job", id, "--output", "json"]);
    !job["job"]["end_s"].is_null()
}

fn id_of(submitted: &[Submitted], name: &str) -> u64 {
    submitted.iter().find(|one| one.job.name == name).unwrap().id
}

/// Submits a job once, also where the head dies before it answers.
fn submit(cluster: &Cluster, length: &str, job: &Job, before: &[Submitted]) -> u64 {
    let flags = before.iter().fold(job.flags.to_owned(), |flags, one| {
        flags.replace(&format!("@{}", one.job.name), &one.id.to_string())
    });
    let (tenths, code) = (job.tenths.to_string(), job.code.to_string());
    let (script, folder) = (cluster.path("task.sh"), cluster.path(""));
    let mut words = vec!["submit", "--output", "json", "--name", job.name, "--export", "USUAL,WHARF"];
    words.extend(flags.split_whitespace().chain(length.split_whitespace()));
    words.extend(["--", "sh", script.to_str().unwrap(), folder.to_str().unwrap(), job.kind, &tenths, &code]);
    let mut id = None;
    cluster.wait_until(&format!("{} is submitted", job.name), || {
        let output = cluster.run(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{words:?}: {said}");
        let answer = || serde_json::from_slice::<Value>(&output.stdout).unwrap();
        id = if output.status.success() { answer()["job_ids"][0].as_u64() } else { found(cluster, job.name) };
        id.is_some()
    });
    id.unwrap()
}

/// The first job of that name, if the head that died has kept it.
fn found(cluster: &Cluster, name: &str) -> Option<u64> {
    let jobs = cluster.ask(&["jobs", "--all", "--output", "json"]);
    let job = jobs["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name)?;
    job["job_id"].as_u64()
}
