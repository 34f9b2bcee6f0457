//! A job that is shrunk, grown, moved and given other types while it trains: by an elastic policy, as others come and go.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::marked::Marked;

/// Nothing here takes as long, even on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The nodes, and a policy that thinks often and takes restarts for cheap.
const LOCAL: [&str; 15] = [
    "local",
    "--detach",
    "--worker",
    "x=alpha:4",
    "--worker",
    "y=alpha:4",
    "--worker",
    "z=beta:4",
    "--policy",
    "sia",
    "--set",
    "round_s=0.3",
    "--set",
    "restart_s=0.01",
    "--profile=none",
];

/// What happens around the trainer.
#[derive(Clone, Copy)]
enum Act {
    /// A job comes that needs so many devices of a type and nothing else.
    Comes(&'static str, &'static str, u32),
    /// A job is cancelled.
    Goes(&'static str),
    /// The trainer's node is drained.
    Drained,
    /// That node gets jobs again.
    Resumed,
}
use Act::{Comes, Drained, Goes, Resumed};

/// What happens, and what the trainer has to be given for it: with nodes `x` and `y` of four alphas and `z` of four betas.
const STORY: [(&[Act], &str, u64); 10] = [
    (&[Comes("first", "alpha", 4), Comes("second", "alpha", 4)], "beta", 4),
    (&[Comes("half", "beta", 2)], "beta", 2),
    (&[Goes("half")], "beta", 4),
    (&[Goes("first"), Comes("third", "beta", 4)], "alpha", 4),
    (&[Comes("fourth", "alpha", 2)], "alpha", 2),
    (&[Drained, Goes("second")], "alpha", 2),
    (&[Resumed], "alpha", 4),
    (&[Comes("fifth", "alpha", 4)], "alpha", 2),
    (&[Goes("fourth")], "alpha", 4),
    (&[Goes("third"), Comes("sixth", "alpha", 2)], "beta", 4),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn trainer() -> String {
    root().join("crates/wharf/tests/it/elastic.py").to_string_lossy().into_owned()
}

/// The lines of a pipe, as they come. They end with the process.
fn lines(pipe: &Path) -> Receiver<Value> {
    // Open for both, so that it does not end between two writers.
    let file = std::fs::File::options().read(true).write(true).open(pipe).unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(file).lines() {
            if sender.send(serde_json::from_str(&line.unwrap()).unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A cluster with the trainer in it.
struct Stage {
    marked: Marked,
    given: Receiver<Value>,
    /// What the trainer was given each time.
    starts: Vec<Value>,
    drained: String,
}

impl Stage {
    fn new() -> Self {
        let marked = Marked::new();
        marked.say(&LOCAL);
        let given = lines(&marked.pipe("given"));
        let (folder, python) = (marked.path("").display().to_string(), root().join("python"));
        let path = format!("PYTHONPATH={}", python.display());
        let gang = ["--gang", "2-4", "--type", "alpha", "--type", "beta", "--data-parallel"];
        let length = ["--iterations", "100000", "--iteration-ms", "10", "--deadline", "+1h"];
        let run = ["--checkpoint-dir", "kept", "--env", &path, "--", "python3", &trainer(), &folder];
        marked.say(&[&["submit", "--name", "trainer"][..], &gang, &length, &run].concat());
        let mut stage = Self { marked, given, starts: Vec::new(), drained: String::new() };
        stage.wait_for("alpha", 4);
        stage
    }

    /// Waits until the trainer has started with such devices.
    #[track_caller]
    fn wait_for(&mut self, device_type: &str, devices: u64) {
        loop {
            let Ok(given) = self.given.recv_timeout(PATIENCE) else {
                let job = self.marked.say(&["job", "0"]);
                panic!("the trainer was not given {devices} x {device_type}: {:?}\n{job}", self.starts);
            };
            let is_it = given["device_type"] == device_type && given["devices"] == devices;
            self.starts.push(given);
            if is_it {
                return;
            }
        }
    }

    fn play(&mut self, act: Act) {
        match act {
            Comes(name, device_type, devices) => {
                let devices = devices.to_string();
                let gang = ["submit", "--name", name, "--gang", &devices, "--type", device_type];
                self.marked.say(&[&gang[..], &["--", "sleep", "600"]].concat());
            }
            Goes(name) => drop(self.marked.say(&["cancel", "--name", name])),
            Drained => {
                self.drained = self.starts.last().unwrap()["node"].as_str().unwrap().to_owned();
                self.marked.say(&["node", "drain", &self.drained]);
            }
            Resumed => drop(self.marked.say(&["node", "resume", &self.drained])),
        }
    }

    /// Lets the trainer make a few more iterations and end; gives the losses in its last checkpoint.
    fn end(&self) -> Vec<Value> {
        let done = self.iterations().len();
        std::fs::write(self.marked.path("until.new"), (done + 20).to_string()).unwrap();
        std::fs::rename(self.marked.path("until.new"), self.marked.path("until")).unwrap();
        self.marked.say(&["submit", "--wait", "--after-ok", "0", "--", "true"]);
        losses(&self.marked.path("kept"))
    }

    /// The iterations that were made, in order, by whichever process.
    fn iterations(&self) -> Vec<usize> {
        let text = std::fs::read_to_string(self.marked.path("iterations")).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
    }
}

fn losses(checkpoints: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(checkpoints.join("state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    state["losses"].as_array().unwrap().clone()
}

/// The losses of a number of undisturbed iterations.
fn undisturbed(iterations: usize) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.arg(trainer()).arg(folder.path()).arg(iterations.to_string());
    let status = command.env("PYTHONPATH", root().join("python")).status().unwrap();
    assert!(status.success());
    losses(&folder.path().join("checkpoints"))
}

#[test]
fn trainer_survives_ten_changes_of_its_devices_with_its_curve_intact() {
    let mut stage = Stage::new();
    for (acts, device_type, devices) in STORY {
        acts.iter().for_each(|&act| stage.play(act));
        stage.wait_for(device_type, devices);
    }
    let curve = stage.end();
    assert_eq!(curve, undisturbed(curve.len()), "the loss of some iteration differs");
    stored_curve_is_whole(&stage.marked, &curve);
    // Each stop came with a checkpoint, so that no iteration was made twice.
    assert_eq!(stage.iterations(), (0..curve.len()).collect::<Vec<_>>());
    for given in &stage.starts {
        assert_eq!(
            (&given["stages"], &given["data"], &given["tensor"]),
            (&1.into(), &given["devices"], &1.into())
        );
    }
    let shown = stage.marked.json(&["job", "0"]);
    let count = |key: &str| shown["job"][key].as_u64().unwrap();
    let changes = [count("shrinks"), count("grows"), count("type_changes"), count("moves")];
    assert!(changes.iter().sum::<u64>() >= 10 && changes.iter().all(|&count| count > 0), "{changes:?}");
    // The drain was a request, all other changes were the policy's.
    assert_eq!(count("preemptions"), stage.starts.len() as u64 - 2, "{shown:#}");
    assert_eq!((&shown["job"]["causes"]["request"], &shown["job"]["deadline"]), (&1.into(), &"met".into()));
    assert_eq!(shown["job"]["plan"], serde_json::json!({ "stages": 1, "data": 4, "tensor": 1 }));
    tells_why(&shown);
    stage.marked.say(&["local", "--stop"]);
    stage.marked.assert_nothing_left();
}

/// The head has stored every loss, or the first of each bucket of a long curve, once and across all runs.
fn stored_curve_is_whole(marked: &Marked, curve: &[Value]) {
    let stored = &marked.json(&["metrics", "0", "--name", "loss"])["jobs"][0]["metrics"][0];
    let stride = stored["stride"].as_u64().unwrap();
    let points = stored["points"].as_array().unwrap();
    let steps: Vec<u64> = points.iter().map(|point| point["step"].as_u64().unwrap()).collect();
    let last = curve.len() as u64;
    let expected: std::collections::BTreeSet<u64> =
        (1..=last).filter(|step| step % stride == 0 || stride == 1).chain([steps[0], last]).collect();
    assert_eq!(steps, expected.into_iter().collect::<Vec<_>>(), "stride {stride}");
    for point in points {
        let step = point["step"].as_u64().unwrap();
        assert_eq!(point["value"], curve[step as usize - 1], "step {step}");
    }
    let runs: std::collections::BTreeSet<u64> =
        points.iter().map(|point| point["run"].as_u64().unwrap()).collect();
    assert!(runs.len() >= 9, "{runs:?}");
}

/// The history states what was changed, and for whom.
fn tells_why(shown: &Value) {
    let history = shown["history"].as_array().unwrap();
    let told: Vec<&str> = history.iter().filter_map(|entry| entry["text"].as_str()).collect();
    for expected in [
        ", changed in type from 4 × alpha to 4 × beta",
        ", shrunk from 4 × beta to 2 × beta",
        ", grown from 2 × beta to 4 × beta",
        ", moved",
        "job 3 gets devices that it leaves",
        "to run as 1 pipeline × 2 data × 1 tensor",
    ] {
        assert!(told.iter().any(|text| text.ends_with(expected)), "`{expected}` is not in {told:#?}");
    }
}

#[test]
fn elastic_job_shows_what_it_was_given_and_that_a_policy_never_resizes_it() {
    let marked = Marked::new();
    marked.say(&["local", "--detach", "--worker", "v100:4", "--policy", "elasticflow"]);
    let length = ["--iterations", "100000", "--iteration-ms", "50"];
    marked.say(&[&["submit", "--gang", "1-4"][..], &length, &["--", "sleep", "600"]].concat());
    let begin = std::time::Instant::now();
    let given = || marked.json(&["jobs"])["jobs"][0]["devices_given"].clone();
    while given() != 4 {
        assert!(begin.elapsed() < PATIENCE, "{}", marked.say(&["job", "0"]));
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(marked.json(&["jobs"])["jobs"][0]["devices"], 1);
    let table = marked.say(&["jobs", "--output", "plain"]);
    let cells = |line: usize| table.lines().nth(line).unwrap().split('\t');
    let shown = cells(0).zip(cells(1)).find(|(name, _)| *name == "devices");
    assert_eq!(shown, Some(("devices", "4")), "{table}");
    assert!(marked.say(&["job", "0"]).contains("4 × v100"));
    assert!(!marked.say(&["explain", "0"]).contains("never resizes"));
    marked.say(&["policy", "set", "fifo"]);
    assert!(marked.say(&["explain", "0"]).contains("the policy `fifo` never resizes jobs"));
    marked.say(&["cancel", "0"]);
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}
