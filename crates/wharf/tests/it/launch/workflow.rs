//! The scripts of `examples/workflows/ray-launcher`, as a user runs them.

use std::path::Path;
use std::process::Command;

use crate::launch::lab::{Lab, Said, program};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workflows/ray-launcher");

/// Runs a script in the lab, with `wharf` in its search path.
fn run(lab: &Lab, script: &str) -> Said {
    let mut command = lab.hermetic(Command::new("sh"));
    command.arg(Path::new(EXAMPLE).join(script)).arg("work");
    command.output().unwrap().into()
}

#[test]
fn workflow_ray_launcher_runs_on_one_machine() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("bin")).unwrap();
    std::os::unix::fs::symlink(program(), lab.path("bin/wharf")).unwrap();
    let prepared = run(&lab, "prepare.sh").ends(0);
    let shown: Vec<&str> = prepared.stdout.lines().rev().take(3).collect();
    assert_eq!((shown[2], shown[0]), ("libnccl.so.2", "1"), "{prepared:?}");
    assert!(shown[1].ends_with("/local/cuda-10.2"), "{prepared:?}");
    let ran = run(&lab, "cluster.sh").ends(0);
    let mut nodes: Vec<&str> = ran.stdout.lines().filter(|line| line.contains(" with torch ")).collect();
    nodes.sort_unstable();
    assert_eq!(
        nodes,
        ["head", "worker-1", "worker-2"].map(|node| format!("{node} of 3 with torch stand-in"))
    );
    assert!(!lab.state("initial").exists() && !lab.state("training").exists(), "both are down");
}
