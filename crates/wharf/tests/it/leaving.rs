//! Workers that are there for a time only: they leave when they have nothing to do, and take their jobs' devices with them in good order.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{Cluster, write};

const READY: &str = "accepted this worker";

#[test]
fn worker_that_has_nothing_to_do_leaves_and_is_gone() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let words = ["worker", "--node", "brief", "--devices", "v100:2", "--device-numbers", "3,5"];
    let output = cluster.path("devices");
    let words_of_job = ["submit", "--gang", "2", "--output-file", output.to_str().unwrap()];
    cluster.say(&[&words_of_job[..], &["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]].concat());
    let mut worker = cluster.daemon(&[&words[..], &["--leave-when-idle", "1s"]].concat(), READY);
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "3,5\n", "they have the runtime's numbers");
    assert!(!cluster.say(&["nodes", "--output", "plain"]).contains("brief"));
    let all = cluster.say(&["nodes", "--all", "--output", "plain"]);
    assert!(all.contains("brief\tgone") && all.contains("it was idle for 1 s"), "{all}");

    // It may come back, as another machine; who comes for nothing states this.
    let mut worker = cluster.daemon(&[&words[..], &["--leave-when-idle", "100ms"]].concat(), READY);
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
    assert!(cluster.say(&["nodes", "--all", "--output", "plain"]).contains("no job came within 0 s"));
}

#[test]
fn jobs_of_a_leaving_worker_move() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let worker =
        |node: &str| cluster.daemon(&["worker", "--node", node, "--devices", "v100:1", "--leave"], READY);
    let mut left = worker("left");
    let (begun, gate) = (cluster.pipe("begun"), cluster.pipe("gate"));
    let script = format!("echo $WHARF_NODE > {}; read line < {}", begun.display(), gate.display());
    cluster.say(&["submit", "--", "sh", "-c", &script]);
    assert_eq!(std::fs::read_to_string(&begun).unwrap(), "left\n");
    let _right = worker("right");
    kill(Pid::from_raw(left.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(std::fs::read_to_string(&begun).unwrap(), "right\n", "it continues there");
    assert_eq!(left.child.wait().unwrap().code(), Some(143));
    let nodes = cluster.say(&["nodes", "--all", "--output", "plain"]);
    assert!(nodes.contains("left\tgone") && nodes.contains("right\tup"), "{nodes}");
    write(&gate, "go\n");
    let job = cluster.say(&["submit", "--wait", "--after-ok", "0", "--", "true"]);
    assert_eq!(job, "1\n", "the first one has succeeded");
    let refused = cluster.run(&["node", "remove", "right"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("its worker is connected"));
}
