//! Limits on a running head: applied, explained, kept through a restart.

use std::fs;

use crate::cluster::{Cluster, write};

#[test]
fn limits_are_applied_explained_and_kept_through_a_restart() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let _worker = cluster.worker("only");
    let document = cluster.path("limits.toml");
    let path = document.to_str().unwrap();
    fs::write(&document, "[default.user]\ndevices = 2\ndevcies_of = { v100 = 1 }\n").unwrap();
    let wrong = cluster.run(&["limits", "check", path]);
    assert_ne!(wrong.status.code(), Some(0));
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(told.contains("devcies_of") && told.contains('3'), "names key and line: {told}");

    fs::write(&document, "[default.user]\ndevices = 2\n").unwrap();
    cluster.say(&["limits", "apply", path]);
    let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
    let script = format!("echo > {}; read line < {}", started.display(), gate.display());
    cluster.say(&["submit", "--gang", "2", "--", "sh", "-c", &script]);
    fs::read(&started).unwrap();
    cluster.say(&["submit", "--", "true"]);
    let reason = |id: &str| cluster.say(&["explain", id]).lines().next().unwrap().to_owned();
    assert!(reason("1").contains("may have 2 devices: 2 are used or promised, and it asks for 1"));
    let refused = cluster.run(&["submit", "--gang", "3", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("3 devices"));

    head.kill();
    let _head = cluster.head();
    assert!(reason("1").contains("may have 2 devices"), "no decision is made without them");
    let shown = cluster.say(&["limits", "show", "--output", "json"]);
    assert!(shown.contains("devices"), "{shown}");
    write(&gate, "go\n");
    assert_eq!(cluster.run(&["submit", "--wait", "--after-any", "1", "--", "true"]).status.code(), Some(0));
}
