//! Another policy for a running head.

use crate::cluster::{Cluster, write};

/// The policies that decided, the latest last.
fn decided(cluster: &Cluster) -> Vec<(String, String)> {
    let shown: serde_json::Value =
        serde_json::from_str(&cluster.say(&["policy", "show", "--output", "json"])).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let changes = shown["changes"].as_array().unwrap();
    changes.iter().map(|change| (text(&change["policy"]), text(&change["by"]))).collect()
}

#[test]
fn a_policy_is_replaced_while_jobs_run_and_outlasts_a_restart() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let _worker = cluster.worker("only");
    let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
    let script = format!("echo > {}; read line < {}", started.display(), gate.display());
    cluster.say(&["submit", "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    assert_eq!(decided(&cluster), [("fifo".to_owned(), "the head's command line".to_owned())]);
    cluster.say(&["policy", "set", "srtf", "--set", "preempt_ratio=1.5"]);
    let wrong = cluster.run(&["policy", "set", "srtf", "--set", "preempt_ration=1"]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(told.contains("preempt_ration") && told.contains("did you mean `preempt_ratio`"), "{told}");

    head.kill();
    let _head = cluster.head();
    let (policy, by) = decided(&cluster).pop().unwrap();
    assert_eq!(policy, "srtf", "without `--policy` a head continues as configured");
    assert!(!by.is_empty() && !by.contains("command line"), "{by}");
    write(&gate, "go\n");
    assert_eq!(cluster.run(&["submit", "--wait", "--after-any", "0", "--", "true"]).status.code(), Some(0));
    assert!(cluster.say(&["jobs", "--all", "--output", "json"]).contains("\"preemptions\": 0"));
}
