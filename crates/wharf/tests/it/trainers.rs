//! Trainers with the SDK on a real cluster: their checkpoints, their ends, their output, their stalls.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use wharf_testing::needs;

use crate::cluster::{Cluster, Daemon};

/// The loop of docs/trainers.md, which also writes down each iteration that it makes.
const TRAINER: &str = r#"
import json, math, os, sys, time
sys.path.insert(0, os.environ["SDK"])
import wharf

total, pause, log = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
scale = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
path = wharf.checkpoint_dir() / "model.json"
start = json.loads(path.read_text())["step"] if path.exists() else 0
print(f"from {start}", flush=True)
for step in wharf.steps(total, start=start, checkpoint_every=5):
    with open(log, "a") as file:
        file.write(f"{step}\n")
    time.sleep(pause)
    wharf.report(loss=scale * (total - step) if scale <= 18 else math.nan)
    if wharf.should_checkpoint():
        with wharf.atomic_write(path) as file:
            file.write(json.dumps({"step": step + 1}).encode())
        wharf.checkpointed()
print("done", flush=True)
"#;

const PATIENCE: Duration = Duration::from_secs(60);

struct Lab {
    cluster: Cluster,
    head: Daemon,
    _workers: Vec<Daemon>,
}

impl Lab {
    fn new(nodes: &[&str]) -> Self {
        let cluster = Cluster::new();
        std::fs::write(cluster.path("train.py"), TRAINER).unwrap();
        let head = cluster.head();
        let workers = nodes.iter().map(|node| worker(&cluster, node)).collect();
        Self { cluster, head, _workers: workers }
    }

    fn command(&self, words: &[&str]) -> Command {
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
        let mut command = self.cluster.command(words);
        command.current_dir(self.cluster.folder.path()).env("SDK", sdk);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn say(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Submits the trainer, with options before it.
    #[track_caller]
    fn train(&self, options: &[&str], arguments: &[&str]) -> Output {
        let command = ["--", "python3", "train.py"];
        self.run(&[&["submit", "--export", "USUAL,SDK"][..], options, &command[..], arguments].concat())
    }

    fn job(&self, job: &str) -> Value {
        serde_json::from_str(&self.say(&["job", job, "--output", "json"])).unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.cluster.path(name)).unwrap_or_default()
    }

    #[track_caller]
    fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{what}: {}", self.say(&["jobs", "--all"]));
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

fn worker(cluster: &Cluster, node: &str) -> Daemon {
    cluster.daemon(&["worker", "--node", node, "--devices", "cpu:4"], "accepted this worker")
}

/// All iterations from 0, each once.
fn steps(total: u32) -> String {
    (0..total).map(|step| format!("{step}\n")).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sweep_trains_every_trial_once_per_start_although_the_head_is_killed() {
    needs!(PYTHON);
    const TRIALS: u32 = 20;
    let mut lab = Lab::new(&["a", "b"]);
    let values: Vec<String> = (1..=TRIALS).map(|value| value.to_string()).collect();
    let sweep = format!(
        "name: rates\nparameters: {{lr: [{}]}}\njob:\n  command: python3 train.py 10 0.02 $START-{{lr}}.steps {{lr}}\n  \
         export: [USUAL, SDK]\n",
        values.join(", ")
    );
    for start in ["first", "second"] {
        std::fs::write(lab.cluster.path("sweep.yaml"), sweep.replace("$START", start)).unwrap();
        lab.say(&["tune", "start", "sweep.yaml", "--dir", start]);
    }
    lab.wait_until("some trials have begun", || !lab.read("first-3.steps").is_empty());
    lab.head.kill();
    lab.head = lab.cluster.head();
    lab.run(&["submit", "--wait", "--after-any", "0", "--after-any", "20", "--", "true"]);
    for start in ["first", "second"] {
        let states: Value =
            serde_json::from_str(&lab.say(&["tune", "status", start, "--output", "json"])).unwrap();
        assert_eq!(states["states"], serde_json::json!({ "finished": TRIALS }), "{start}");
        for value in &values {
            assert_eq!(lab.read(&format!("{start}-{value}.steps")), steps(10), "{start} {value}");
        }
        // The losses grow with the learning rate; those of the last two trials are NaN.
        let results: Value =
            serde_json::from_str(&lab.say(&["tune", "results", start, "--sort", "loss", "--output", "json"]))
                .unwrap();
        let ranked: Vec<Value> = results["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["parameters"]["lr"].clone())
            .collect();
        assert_eq!(
            ranked,
            values.iter().map(|value| Value::from(value.as_str())).collect::<Vec<_>>(),
            "{start}"
        );
    }
}

#[test]
fn same_job_trains_twice_unless_it_resumes() {
    needs!(PYTHON);
    let lab = Lab::new(&["a"]);
    for log in ["one", "two"] {
        assert_eq!(lab.train(&["--wait"], &["7", "0", log]).status.code(), Some(0));
        assert_eq!(lab.read(log), steps(7), "{log}");
    }
    let dirs: Vec<String> =
        ["0", "1"].map(|job| lab.job(job)["checkpoint_dir"].as_str().unwrap().to_owned()).into();
    assert_ne!(dirs[0], dirs[1]);
    assert!(dirs.iter().all(|dir| Path::new(dir).join("model.json").is_file()), "{dirs:?}");
    let resumed = lab.train(&["--wait", "--resume-from", "0"], &["9", "0", "three"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert_eq!(lab.read("three"), "7\n8\n");
    assert_eq!(lab.say(&["logs", "2"]), "from 7\ndone\n");
    // Unused directories are removed.
    lab.say(&["submit", "--wait", "--", "true"]);
    let dir = lab.job("3")["checkpoint_dir"].as_str().unwrap().to_owned();
    lab.wait_until("the empty directory is removed", || !Path::new(&dir).exists());
    assert!(dirs.iter().all(|dir| Path::new(dir).exists()));
}

#[test]
fn gang_and_moved_job_refuse_a_checkpoint_directory_that_is_not_shared() {
    needs!(PYTHON);
    let lab = Lab::new(&["a", "b"]);
    // Nodes of one machine share it.
    let shared = lab.train(&["--wait", "--gang", "2x1"], &["3", "0", "log-%n"]);
    assert_eq!(shared.status.code(), Some(0), "{}", stderr(&shared));
    // As on nodes that do not: each has its own below the same path.
    let script = "import os, sys; sys.path.insert(0, os.environ['SDK']); from pathlib import Path; \
                  from wharf._checkpoints import check_shared; folder = Path(os.environ['NODE_RANK']); \
                  folder.mkdir(exist_ok=True); check_shared(folder, os.environ, 0.0)";
    let own = ["submit", "--export", "USUAL,SDK", "--wait", "--gang", "2x1", "--", "python3", "-c", script];
    let failed = lab.run(&own);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("is not the one of the job's first node"), "{}", stderr(&failed));
}

#[test]
fn time_limit_ends_a_trainer_as_timed_out_or_continues_it() {
    needs!(PYTHON);
    let lab = Lab::new(&["a"]);
    let limited = lab.train(&["--wait", "--time-limit", "5"], &["1000", "0.05", "log"]);
    assert_eq!(limited.status.code(), Some(124), "{}", stderr(&limited));
    assert!(stderr(&limited).contains("job 0: time limit reached"), "{}", stderr(&limited));
    let job = lab.job("0");
    assert_eq!(
        (job["job"]["phase"].as_str(), job["job"]["cause"].as_str()),
        (Some("timed-out"), Some("time-limit"))
    );
    let dir = job["checkpoint_dir"].as_str().unwrap();
    let saved: Value =
        serde_json::from_str(&std::fs::read_to_string(Path::new(dir).join("model.json")).unwrap()).unwrap();
    let made = lab.read("log").lines().count() as u64;
    assert_eq!(saved["step"].as_u64(), Some(made), "the checkpoint has all that it did");
    assert_eq!(job["job"]["iterations"].as_f64(), Some(1000.0));
    assert!(job["job"]["progress"].as_f64().unwrap() < 0.2, "{job}");
    let after = lab.run(&["submit", "--wait", "--after-ok", "0", "--", "true"]);
    assert_eq!(after.status.code(), Some(130), "what depends on its success is cancelled");

    let options = ["--wait", "--time-limit", "4", "--on-time-limit", "requeue"];
    let continued = lab.train(&options, &["200", "0.05", "whole"]);
    assert_eq!(continued.status.code(), Some(0), "{}", stderr(&continued));
    assert_eq!(lab.read("whole"), steps(200));
    let runs = lab.run(&["logs", "2", "--all-runs"]);
    let (said, noted) = (String::from_utf8_lossy(&runs.stdout).into_owned(), stderr(&runs));
    let froms = said.lines().filter(|line| line.starts_with("from ")).count();
    assert!(froms >= 3 && said.starts_with("from 0\n") && said.ends_with("done\n"), "{said}");
    assert!(noted.contains(&format!("run 1 of {froms}, ended by time-limit")), "{noted}");
    assert_eq!(lab.say(&["logs", "2", "--run", "1"]), "from 0\n");
    assert!(lab.say(&["logs", "2", "--follow"]).ends_with("done\n"));
    let none = lab.run(&["logs", "2", "--run", "99"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("has no run 99"));
}

#[test]
fn failed_run_is_named_and_its_tail_is_shown_to_those_who_wait() {
    let lab = Lab::new(&["a", "b"]);
    // The rank that fails waits for the other's output.
    let written = lab.cluster.path("written");
    let script = format!(
        "seq 100; echo oops on $NODE_RANK >&2; \
         if [ $NODE_RANK = 1 ]; then until [ -e {0} ]; do sleep 0.05; done; exit 7; fi; touch {0}; sleep 60",
        written.display()
    );
    let failed = lab.run(&["submit", "--wait", "--gang", "2x1", "--", "sh", "-c", &script]);
    assert_eq!(failed.status.code(), Some(7));
    let told = stderr(&failed);
    assert!(told.contains("run 1 of 1, ended by user, exit code 7; its last lines:"), "{told}");
    assert!(told.ends_with("  100\n  oops on 1\n") && !told.contains("  50\n"), "{told}");
    let logs = lab.run(&["logs", "0"]);
    assert!(String::from_utf8_lossy(&logs.stdout).ends_with("oops on 1\n"), "the rank that failed");
    assert!(stderr(&logs).contains("run 1 of 1, ended by user, exit code 7"), "{}", stderr(&logs));
    assert!(lab.say(&["logs", "0", "--rank", "0"]).ends_with("oops on 0\n"));
    // An early end is no whole one.
    lab.say(&[
        "submit",
        "--wait",
        "--iterations",
        "1000",
        "--",
        "sh",
        "-c",
        "$0 step 51",
        env!("CARGO_BIN_EXE_wharf"),
    ]);
    let job = lab.job("1");
    assert_eq!(job["job"]["progress"].as_f64(), Some(0.051));
    assert_eq!(job["job"]["reason"], "ended after 51 of 1000 iterations");
}

#[test]
fn output_file_of_several_runs_is_shown_once_and_standard_error_with_it() {
    let lab = Lab::new(&["a"]);
    let script = "echo out $WHARF_RESTART; echo err $WHARF_RESTART >&2; exit 5";
    let files =
        ["--output-file", "out-%j", "--error-file", "err-%x-%j", "--retries", "1", "--retry-delay", "0.1s"];
    let failed = lab.run(&[&["submit", "--wait"][..], &files, &["--", "sh", "-c", script]].concat());
    assert_eq!(failed.status.code(), Some(5));
    let told = stderr(&failed);
    assert!(
        told.contains("run 2 of 2, ended by user, exit code 5; its last lines:\n  out 1\n  out 2\n"),
        "{told}"
    );
    assert!(told.ends_with("err-sh-0:\n  err 1\n  err 2\n"), "{told}");
    for words in [["--all-runs"], ["--follow"], ["--run=1"]] {
        assert_eq!(lab.say(&[&["logs", "0"][..], &words].concat()), "out 1\nout 2\n", "{words:?}");
    }
    let none = lab.run(&["logs", "0", "--rank", "1"]);
    assert!(
        none.status.code() == Some(2) && stderr(&none).contains("job 0 has no rank 1"),
        "{}",
        stderr(&none)
    );
}

/// Every rank waits for the others, as in a collective.
const GANG: &str = r#"
import os, sys, time
from pathlib import Path
sys.path.insert(0, os.environ["SDK"])
import wharf

rank, total = int(os.environ["NODE_RANK"]), int(sys.argv[1])
Path(f"pid-{rank}").write_text(str(os.getpid()))
saved = wharf.checkpoint_dir() / f"step-{rank}"
start = min(int((wharf.checkpoint_dir() / f"step-{each}").read_text()) if (wharf.checkpoint_dir() / f"step-{each}").exists() else 0 for each in (0, 1))
run = os.environ["WHARF_GENERATION"]
for step in wharf.steps(total, start=start):
    Path(f"at-{run}-{rank}").write_text(str(step))
    while not wharf.should_stop():
        other = Path(f"at-{run}-{1 - rank}")
        text = other.read_text() if other.exists() else ""
        if text and int(text) >= step:
            break
        time.sleep(0.005)
    time.sleep(0.05)
    if wharf.should_checkpoint() or step % 5 == 4:
        with wharf.atomic_write(saved) as file:
            file.write(str(step + 1 if not wharf.should_stop() else step).encode())
        wharf.checkpointed(step)
"#;

#[test]
fn rank_that_is_stopped_is_reported_and_the_job_recovers() {
    needs!(PYTHON);
    const STALL_S: u64 = 8;
    let lab = Lab::new(&["a", "b"]);
    std::fs::write(lab.cluster.path("gang.py"), GANG).unwrap();
    let options = ["--gang", "2x1", "--stall-timeout", "8s", "--on-stall", "restart", "--grace", "3s"];
    let command = ["--", "python3", "gang.py", "60"];
    lab.say(&[&["submit", "--export", "USUAL,SDK"][..], &options, &command].concat());
    lab.wait_until("it runs", || lab.read("at-1-1").parse().is_ok_and(|step: u32| step > 10));
    let pid: i32 = lab.read("pid-1").parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    let stopped_at = Instant::now();
    let text = format!("rank 1 on b is stopped (process {pid})");
    lab.wait_until("the stall is reported", || lab.job("0").to_string().contains(&text));
    assert!(stopped_at.elapsed() < Duration::from_secs(STALL_S + 10), "{:?}", stopped_at.elapsed());
    lab.run(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    let job = lab.job("0");
    assert_eq!(job["job"]["phase"], "finished", "{job}");
    assert!(job["job"]["causes"]["stalled"].as_u64() >= Some(1), "{job}");
    assert_eq!(job["job"]["preemptions"], 0);
}

/// No rank waits for another; a rank of 1 reports only where the argument is `reports`.
const LOOSE: &str = r#"
import os, sys, time
from pathlib import Path
sys.path.insert(0, os.environ["SDK"])
import wharf

rank, mode = int(os.environ["NODE_RANK"]), sys.argv[1]
for step in range(1, 100000):
    if rank == 0 or mode == "reports":
        wharf.step(step)
    if step == 10:
        Path(f"pid-{mode}-{rank}").write_text(str(os.getpid()))
    time.sleep(0.05)
"#;

#[test]
fn stopped_rank_is_reported_while_rank_0_continues() {
    needs!(PYTHON);
    let lab = Lab::new(&["a", "b"]);
    std::fs::write(lab.cluster.path("loose.py"), LOOSE).unwrap();
    for (job, mode) in ["reports", "silent"].into_iter().enumerate() {
        let job = job.to_string();
        let options = ["--gang", "2x1", "--stall-timeout", "4s", "--grace", "3s"];
        lab.say(
            &[&["submit", "--export", "USUAL,SDK"][..], &options, &["--", "python3", "loose.py", mode]]
                .concat(),
        );
        let pids = || [0, 1].map(|rank| lab.read(&format!("pid-{mode}-{rank}")).parse::<i32>());
        lab.wait_until("both ranks run", || pids().iter().all(Result::is_ok));
        let pid = pids()[1].clone().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        let text = format!("rank 1 on b is stopped (process {pid})");
        lab.wait_until("the stall is reported", || lab.job(&job).to_string().contains(&text));
        kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
        let reason = || lab.job(&job)["job"]["reason"].to_string();
        lab.wait_until("the stall is over", || !reason().contains("no progress"));
        lab.say(&["cancel", &job]);
    }
}

/// Debian 12's torchrun fails at its own defaults under Python 3.11, unless output is redirected for some rank, here one that does not exist.
const DEBIAN: [&str; 2] = ["--redirects=9:1", "--tee=9:1"];

/// Each process adds its rank up with all others.
const COLLECTIVE: &str = r#"
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank())])
dist.all_reduce(value)
with open(f"sum-{dist.get_rank()}", "w") as file:
    file.write(f"{value.item():.0f} of {dist.get_world_size()}")
dist.barrier()
"#;

#[test]
fn torchrun_of_old_versions_runs_a_gang() {
    needs!(TORCH);
    let lab = Lab::new(&["a", "b"]);
    std::fs::write(lab.cluster.path("collective.py"), COLLECTIVE).unwrap();
    let options = ["submit", "--wait", "--gang", "2x2", "--launcher", "torchrun"];
    let output = lab.run(&[&options[..], &["--", "torchrun"], &DEBIAN, &["collective.py"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for rank in 0..4 {
        assert_eq!(lab.read(&format!("sum-{rank}")), "6 of 4", "rank {rank}");
    }
}
