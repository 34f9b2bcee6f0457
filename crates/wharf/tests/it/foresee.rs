//! What a job waits for and when it will start, what would be under other policies, what the past was like.

use std::fs;

use serde_json::Value;

use crate::cluster::{Cluster, write};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn explain_shows_jobs_ahead_remedies_and_expected_start() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
    let script = format!("echo > {}; read line < {}", started.display(), gate.display());
    let hour = ["--time-limit", "1h"];
    let submit = |words: &[&str]| cluster.say(&[&["submit"], &hour[..], words].concat());
    submit(&["--gang", "4", "--", "sh", "-c", &script]);
    fs::read(&started).unwrap();
    let limit = std::time::Duration::from_secs(30);
    let is_running = || cluster.say(&["jobs"]).contains("running").then_some(());
    wharf_testing::machine::until("the report of the first job's start", limit, is_running);
    submit(&["--gang", "2", "--", "true"]);
    submit(&["--gang", "4", "--", "true"]);
    submit(&["--gang", "4", "--after-any", "2", "--", "true"]);
    submit(&["--held", "--", "true"]);

    let told = cluster.say(&["explain", "2"]);
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("needs 4 devices, 0 that it may use are free"));
    assert_eq!(lines.next(), Some("ahead:     job 1"), "{told}");
    assert_eq!(lines.next(), Some("now with:  2 more nodes like only (v100:4)"));
    assert!(lines.next().unwrap().starts_with("expected:  2"), "{told}");

    let told = cluster.say(&["explain", "1"]);
    assert!(
        told.contains("now with:  the end of job 0\n       or  one more node like only (v100:4)\n"),
        "{told}"
    );

    let outlook = json(&cluster.say(&["explain", "3", "--output", "json"]));
    assert_eq!(outlook["reason"], "waits for the end of job 2");
    let at = |field: &str| outlook["outlook"][field].as_f64().unwrap();
    assert!(at("start_low_s") <= at("start_s") && at("start_s") <= at("start_high_s"), "{outlook}");
    assert_eq!(json(&cluster.say(&["explain", "4", "--output", "json"]))["outlook"], Value::Null);

    let rows = json(&cluster.say(&["whatif", "--policy", "fifo,srtf", "--output", "json"]));
    let policies: Vec<&str> =
        rows["runs"].as_array().unwrap().iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["fifo", "srtf"]);
    let jct = |words: &[&str]| {
        let runs = json(&cluster.say(&[&["whatif", "--output", "json"], words].concat()));
        runs["runs"][0]["avg_jct_s"].as_f64().unwrap()
    };
    assert!(jct(&["--add-nodes", "v100:2x4"]) < jct(&[]), "more machines help");
    let wrong = cluster.run(&["whatif", "--drain", "onyl"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean `only`"));
    write(&gate, "go\n");
}

#[test]
fn simulated_past_equals_the_actual_run() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    // Two gangs of two fit beside one another, and some have to wait.
    for length in ["0.9", "0.5", "0.7", "0.4", "0.8", "0.6"] {
        cluster.say(&["submit", "--gang", "2", "--", "sleep", length]);
    }
    cluster.say(&["submit", "--wait", "--gang", "4", "--", "true"]);
    let runs = json(&cluster.say(&["whatif", "--since", "1h", "--policy", "fifo,sjf", "--output", "json"]));
    let jct = |run: usize| runs["runs"][run]["avg_jct_s"].as_f64().unwrap();
    assert_eq!(runs["runs"][0]["policy"], "as it was");
    assert_eq!(runs["runs"][0]["jobs"], 7);
    let apart = (jct(1) / jct(0) - 1.0).abs();
    assert!(apart < 0.03, "{} was really {}", jct(1), jct(0));

    let (trace, lab) = (cluster.path("past.csv"), cluster.path("lab.toml"));
    let (trace, lab) = (trace.to_str().unwrap(), lab.to_str().unwrap());
    cluster.say(&["history", "--as-trace", trace, "--cluster", lab]);
    cluster.say(&["trace", "lint", trace, "--cluster", lab]);
    let words = ["sim", "--trace", trace, "--cluster", lab, "--policy", "fifo", "--output", "json"];
    let simulated =
        json(&cluster.say(&[&words[..], &["--set", "backfill=greedy", "--set", "restart_s=0"]].concat()));
    let simulated_jct = simulated["runs"][0]["avg_jct_s"].as_f64().unwrap();
    assert!((simulated_jct / jct(1) - 1.0).abs() < 1e-3, "{simulated_jct} {}", jct(1));
}

#[test]
fn the_least_number_of_nodes_is_found_with_its_price() {
    let cluster = Cluster::new();
    let trace = cluster.path("jobs.csv");
    let trace = trace.to_str().unwrap();
    cluster.say(&["trace", "generate", "--jobs", "150", "--devices", "32", "--load", "0.9", "--to", trace]);
    let size = |words: &[&str]| {
        let fixed = ["size", "--trace", trace, "--node", "a100:8", "--node", "v100:4", "--output", "json"];
        json(&cluster.say(&[&fixed[..], words].concat()))
    };
    let loose = size(&["--target", "p95_wait=2h", "--price", "a100=2.5"]);
    let tight = size(&["--target", "p95_wait=1m", "--price", "a100=2.5"]);
    let nodes = |answer: &Value, index: usize| answer["answers"][index]["nodes"].as_u64().unwrap();
    assert!(nodes(&loose, 0) <= nodes(&tight, 0));
    assert_eq!(tight["answers"][0]["price_per_hour"], 20.0 * nodes(&tight, 0) as f64);
    assert_eq!(tight["answers"][1]["price_per_hour"], Value::Null);
    assert!(tight["answers"][0]["reached_s"]["p95_wait"].as_f64().unwrap() <= 60.0);
    // Of several types, the built-in profile states how fast they are; of one, jobs run as they say.
    let speed = |index: usize| tight["answers"][index]["relative_speed"].as_f64().unwrap();
    assert!(speed(0) > 1.3 && (speed(1) - 1.0).abs() < 1e-9, "{tight}");
    let words = ["size", "--trace", trace, "--node", "a100:8", "--node", "v100:8", "--target", "avg_jct=30h"];
    let table = cluster.say(&words);
    assert!(table.contains("speed") && table.contains("1.00"), "{table}");
    let one = json(&cluster.say(&[&words[..5], &words[7..], &["--output", "json"]].concat()));
    assert_eq!(one["answers"][0]["relative_speed"], Value::Null);
    let wrong = cluster.run(&["size", "--trace", trace, "--node", "a100:8", "--target", "p95_wiat=1h"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean `p95_wait`"));
    let vain = cluster.run(&["size", "--trace", trace, "--node", "a100:8", "--target", "avg_jct=1s"]);
    assert_eq!(vain.status.code(), Some(3));
}
