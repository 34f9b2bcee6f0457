//! Policies that are programs: in simulations, on a real cluster, and what happens to their mistakes.

use std::path::Path;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

/// A program that answers whatever is asked with what stands instead of `ANSWER`, an expression of Python.
const ANSWERING: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "hello":
        print(json.dumps({"protocol": 1}), flush=True)
    else:
        print(ANSWER, flush=True)
"#;

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/policies").join(name).display().to_string()
}

/// By priority, then first come, first served; every job that fits starts, as `fifo` does with `backfill=greedy`.
const IN_ORDER: &str = r"
from wharf.policy import serve

def schedule(cluster, decision):
    print('this goes to standard error')
    for job in sorted(cluster.waiting, key=lambda job: -job.priority):
        decision.start(job)

serve(schedule)
";

#[test]
fn a_program_decides_as_the_policy_that_it_imitates() {
    let sandbox = Sandbox::new();
    sandbox.write("in_order.py", IN_ORDER);
    sandbox.wharf("trace generate --jobs 150 --devices 16 --load 1.2 --seed 3 --to many.csv").ok();
    let run = |policy: &str| {
        let line = format!("sim --trace many.csv --cluster 4x4 --policy {policy} --output json");
        let text = sandbox.wharf(&line).ok();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        let mut run = document["runs"][0].take();
        for own in ["policy", "wall_ms"] {
            run.as_object_mut().unwrap().remove(own);
        }
        run
    };
    assert_eq!(run("./in_order.py"), run("fifo --set backfill=greedy"));
}

#[test]
fn the_example_preempts_and_has_settings() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 120 --devices 8 --load 1.3 --seed 5 --to many.csv").ok();
    let line = format!("sim --trace many.csv --cluster 2x4 --policy {} --output json", example("patient.py"));
    let run = |more: &str| -> Value {
        let text = sandbox.wharf(&format!("{line} {more}")).ok();
        serde_json::from_str::<Value>(&text).unwrap()["runs"][0].take()
    };
    let (patient, impatient) = (run("--set patience_s=1e12"), run("--set patience_s=1800"));
    assert_eq!(patient["preemptions"], 0);
    assert!(impatient["preemptions"].as_u64().unwrap() > 0, "{impatient}");
    assert_eq!((&patient["finished"], &impatient["finished"]), (&120.into(), &120.into()));
    let wrong = sandbox.wharf(&format!("{line} --set patients=3")).fails(3);
    assert!(wrong.contains("there is no setting patients") && wrong.contains("patience_s"), "{wrong}");
}

#[test]
fn program_errors_end_a_simulation_with_a_message() {
    for (answer, told) in [
        (
            r#"json.dumps({"start": [{"job": 0, "placement": [{"node": 0, "devices": [0]}]}]})"#,
            "but it runs on 2 to 2",
        ),
        (
            r#"json.dumps({"start": [{"job": 0, "placement": [{"node": 0, "devices": [0, 9]}]}]})"#,
            "it names device 9 of node 0 (`gpu-0`), which has 2",
        ),
        (
            r#"json.dumps({"start": [{"job": 0, "devices": 99}]})"#,
            "it starts job 0 (`a`) on 99 devices, but the job runs on 2 to 2",
        ),
        (r#"json.dumps({"start": [{"job": 0, "placement": [{"node": 7, "devices": [0, 1]}]}]})"#, "node 7"),
        (r#"json.dumps({"start": [{"job": 0}, {"job": 0}]})"#, "job 0 (`a`) is not waiting"),
        (r#"json.dumps({"stop": [{"job": 0}]})"#, "job 0 (`a`) has no placement"),
        (r#"json.dumps({"start": [{"job": 99}]})"#, "it names job 99, which is unknown or has ended"),
        (r#"json.dumps({"begin": []})"#, "unknown field `begin`"),
        (r#""I would rather not""#, "invalid answer of the policy program: `I would rather not`"),
        (r#"json.dumps({"error": "out of ideas"})"#, "out of ideas"),
        ("sys.exit(4)", "exit status: 4"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("jobs.csv", "job_id,submit_s,devices,iterations,iteration_ms\na,0,2,100,1000\n");
        sandbox.write("wrong.py", &ANSWERING.replace("ANSWER", answer));
        let said =
            sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./wrong.py --out results").fails(3);
        assert!(said.contains("wrong.py") && said.contains(told), "{answer}: {said}");
        assert!(!sandbox.path().join("results").exists(), "{answer}");
    }
}

#[test]
fn exception_in_a_program_is_shown_with_its_traceback() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.csv", "job_id,submit_s,devices,iterations,iteration_ms\na,0,2,100,1000\n");
    let faulty = "from wharf.policy import serve\n\n\n\
                  def schedule(cluster, decision):\n    decision.start(cluster.waiting[7])\n\n\n\
                  serve(schedule)\n";
    sandbox.write("faulty.py", faulty);
    let said = sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./faulty.py").fails(3);
    let error = said.split_once("error: ").unwrap().1;
    for part in [
        "faulty.py",
        "exit status: 1",
        "decision.start(cluster.waiting[7])",
        "IndexError: list index out of range",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    sandbox.write("broken.py", "import no_such_module\n");
    let said = sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./broken.py").fails(3);
    let error = said.split_once("error: ").unwrap().1;
    assert!(error.contains("ModuleNotFoundError: No module named 'no_such_module'"), "{error}");
}

#[test]
fn program_is_started_once_for_its_check_and_its_run() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.csv", "job_id,submit_s,devices,iterations,iteration_ms\na,0,2,100,1000\n");
    sandbox.write("counting.py", &format!("open('starts', 'a').write('start\\n')\n{IN_ORDER}"));
    sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./counting.py,fifo --out results").ok();
    assert_eq!(sandbox.read("starts"), "start\n");
}

#[test]
fn standard_error_of_a_program_that_ends_is_shown_once_beside_the_error() {
    let sandbox = Sandbox::new();
    sandbox.write("jobs.csv", "job_id,submit_s,devices,iterations,iteration_ms\na,0,2,100,1000\n");
    let ending = "import sys\nsys.stdin.readline()\nprint('{\"protocol\": 1}', flush=True)\n\
                  sys.stdin.readline()\nsys.exit('it ends')\n";
    sandbox.write("ending.py", ending);
    let said = sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./ending.py").fails(3);
    let (shown, error) = said.split_once("error: ").unwrap();
    assert_eq!((shown.matches("it ends").count(), error.matches("it ends").count()), (1, 1), "{said}");
}

#[test]
fn program_that_leaves_jobs_unfinished_fails_the_run() {
    let sandbox = Sandbox::new();
    let trace =
        "job_id,submit_s,devices,iterations,iteration_ms\na,0,1,100,1000\nb,0,2,100,1000\nc,5,1,100,1000\n";
    sandbox.write("jobs.csv", trace);
    let picky = "from wharf.policy import serve\n\n\n\
                 def schedule(cluster, decision):\n    for job in cluster.waiting:\n        \
                 if job.name == 'a':\n            decision.start(job)\n\n\n\
                 serve(schedule)\n";
    sandbox.write("picky.py", picky);
    let said = sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy ./picky.py --out results").fails(3);
    assert!(said.contains("policy program `./picky.py` left 2 of 3 jobs unfinished: b, c"), "{said}");
    assert!(!sandbox.path().join("results").exists());
}

#[test]
fn policy_that_is_no_program_is_rejected() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "no program");
    for (policy, told) in [
        ("./nothing.py", "there is no policy program `./nothing.py`"),
        ("./notes.txt", "can neither be executed nor does its name end in `.py`"),
    ] {
        let said = sandbox.wharf(&format!("sim --trace jobs.csv --cluster 1x2 --policy {policy}")).fails(3);
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_program_decides_on_a_real_cluster_and_no_other_can_be_put_in_its_place() {
    let cluster = Cluster::new();
    let program = cluster.path("in_order.py");
    std::fs::write(&program, IN_ORDER).unwrap();
    let program = program.display().to_string();
    let listen = format!("127.0.0.1:{}", cluster.port);
    let _head = cluster.daemon(&["head", "--listen", &listen, "--policy", &program], "listens on");
    let _worker = cluster.worker("only");
    assert_eq!(cluster.run(&["submit", "--wait", "--", "true"]).status.code(), Some(0));
    cluster.say(&["policy", "set", "srtf"]);
    let other = cluster.run(&["policy", "set", "/bin/true"]);
    assert_ne!(other.status.code(), Some(0));
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(told.contains("no policy program but the one it was started with"), "{told}");
    cluster.say(&["policy", "set", &program]);
    assert_eq!(cluster.run(&["submit", "--wait", "--", "true"]).status.code(), Some(0));
}
