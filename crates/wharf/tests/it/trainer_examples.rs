//! The example trainers with real packages: a job that is requeued in the middle trains exactly as one that is not.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use wharf_testing::component::python_with_jax;
use wharf_testing::needs;

use crate::cluster::Cluster;

/// Importing a framework alone takes long on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(300);
const ITERATIONS: &str = "120";

/// Submits a trainer and returns its number.
fn submit(cluster: &Cluster, python: &str, name: &str, more: &[&str], pause_ms: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("examples/trainers").join(name).display().to_string();
    let steps = ["--iterations", ITERATIONS, "--iteration-ms", pause_ms, "--checkpoint-every", "10"];
    let kept = ["--checkpoint-dir", "kept-%j", "--env", "OMP_NUM_THREADS=1", "--env", "JAX_PLATFORMS=cpu"];
    let words = [&["submit"][..], more, &kept, &["--", python, script.as_str()], &steps].concat();
    let output = cluster.command(&words).current_dir(cluster.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn job(cluster: &Cluster, id: &str) -> Value {
    serde_json::from_str::<Value>(&cluster.say(&["job", id, "--output", "json"])).unwrap()["job"].clone()
}

fn until(cluster: &Cluster, id: &str, is_so: impl Fn(&Value) -> bool) {
    let begin = Instant::now();
    loop {
        let job = job(cluster, id);
        if is_so(&job) {
            return;
        }
        assert!(
            begin.elapsed() < PATIENCE && job["phase"] != "failed",
            "{job}\n{}",
            cluster.say(&["logs", id])
        );
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn resumes_exactly(python: &str, name: &str, more: &[&str]) {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    let whole = submit(&cluster, python, name, more, "0");
    until(&cluster, &whole, |job| job["phase"] == "finished");
    let broken = submit(&cluster, python, name, more, "25");
    until(&cluster, &broken, |job| job["iterations_done"].as_f64().is_some_and(|done| done >= 35.0));
    cluster.say(&["requeue", &broken]);
    until(&cluster, &broken, |job| job["phase"] == "finished");
    let curve = |id: &str| {
        let csv = cluster.say(&["metrics", id, "--name", "loss", "--output", "csv"]);
        let point = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[2].to_owned(), cells[4].to_owned())
        };
        csv.lines().skip(1).map(point).collect::<Vec<_>>()
    };
    assert_eq!(curve(&broken), curve(&whole), "{name}");
    assert_eq!(curve(&whole).len(), 120);
    assert!(cluster.say(&["logs", &broken]).contains("resumed at iteration"));
    assert_eq!(job(&cluster, &broken)["metrics"], job(&cluster, &whole)["metrics"]);
}

#[test]
fn plain_python_trainer_resumes_exactly() {
    resumes_exactly("python3", "linear.py", &[]);
}

#[test]
fn pytorch_trainers_resume_exactly() {
    needs!(TORCH);
    resumes_exactly("/usr/bin/python3", "pytorch.py", &[]);
    resumes_exactly("/usr/bin/python3", "pytorch_ddp.py", &["--gang", "2", "--launcher", "per-device"]);
}

#[test]
fn jax_trainer_resumes_exactly() {
    needs!(JAX);
    resumes_exactly(&python_with_jax(), "jax_mlp.py", &[]);
}
