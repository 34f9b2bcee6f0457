//! Programs that submit work to Slurm, as their users have them from PyPI: each runs a workflow of its own against a cluster with a
//! history, without wrappers.

use std::path::Path;
use std::process::{Command, Output};

use wharf_testing::component::slurm_client;
use wharf_testing::needs;

use crate::slurm::{Lab, text};

/// Jobs that were there before.
const PAST: &str = "0-4999";

/// A cluster with a history, and a folder of links to Wharf with the names of Slurm's commands.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.say(&["submit", "--array", PAST, "--held", "--", "true"]);
    lab.say(&["cancel", "--all"]);
    lab.say(&["slurm-shims", &lab.cluster.path("bin").to_string_lossy()]);
    std::fs::create_dir(lab.cluster.path("work")).unwrap();
    lab
}

/// A client's program in the working folder of the lab.
fn client(lab: &Lab, program: &str) -> Command {
    let program = slurm_client(program);
    // parsl and snakemake start programs that are beside them.
    let beside = program.parent().unwrap().display();
    let path = format!("{}:{beside}:{}", lab.cluster.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(&program);
    command
        .current_dir(lab.cluster.path("work"))
        .env("WHARF_HOME", lab.cluster.folder.path())
        .env("XDG_STATE_HOME", lab.cluster.path("user-state"))
        .env("XDG_CACHE_HOME", lab.cluster.path("user-cache"))
        .env("PATH", path)
        .env_remove("SLURM_CONF");
    command
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/slurm_clients").join(name);
    path.to_string_lossy().into_owned()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    said
}

/// Runs a workflow in Python to its last line.
#[track_caller]
fn flow(name: &str, done: &str) {
    let lab = lab();
    let said = succeeds(&client(&lab, "python3").arg(source(name)).output().unwrap());
    assert!(said.contains(done), "{said}");
    assert_eq!(lab.say(&["squeue", "-h"]), "", "nothing is left");
}

#[test]
fn submitit_runs_arrays_dependencies_failures_and_requeued_jobs() {
    needs!(SLURM_CLIENTS);
    flow("submitit_flow.py", "submitit: done");
}

#[test]
fn dask_jobqueue_scales_workers_and_ends_them() {
    needs!(SLURM_CLIENTS);
    flow("dask_flow.py", "dask-jobqueue: done");
}

#[test]
fn parsl_runs_tasks_in_blocks_that_srun_starts() {
    needs!(SLURM_CLIENTS);
    flow("parsl_flow.py", "parsl: done");
}

#[test]
fn simple_slurm_submits_arrays_and_dependencies_and_cancels() {
    needs!(SLURM_CLIENTS);
    flow("simple_slurm_flow.py", "simple_slurm: done");
}

/// Runs the workflow of snakemake, of whose jobs so many fail.
#[track_caller]
fn snakemake(options: &[&str], failures: usize) {
    let lab = lab();
    let work = lab.cluster.path("work");
    if failures == 0 {
        std::fs::write(work.join("tried"), "").unwrap();
    }
    let account =
        format!("slurm_account={}", text(&Command::new("id").arg("-gn").output().unwrap().stdout).trim());
    let output = client(&lab, "snakemake")
        .args(["--snakefile", &source("Snakefile"), "--executor", "slurm", "--jobs", "4"])
        // In the rule they would be tried again by snakemake within the job.
        .args(["--retries", "1"])
        .args(["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "10"])
        .args(["--default-resources", &account, "slurm_partition=main"])
        .args(options)
        .output()
        .unwrap();
    succeeds(&output);
    let joined = std::fs::read_to_string(work.join("joined.txt")).unwrap();
    assert_eq!(joined, "1\n2\n3\n2 threads\n");
    let states = lab.say(&["sacct", "-X", "-n", "-P", "-s", "COMPLETED,FAILED", "-o", "State"]);
    assert_eq!(states.matches("FAILED").count(), failures, "{states}");
    assert_eq!(lab.say(&["squeue", "-h"]), "", "nothing is left");
}

#[test]
fn snakemake_joins_parts_and_repeats_one_that_failed() {
    needs!(SLURM_CLIENTS);
    snakemake(&[], 1);
}

#[test]
fn snakemake_submits_the_parts_of_a_rule_as_an_array() {
    needs!(SLURM_CLIENTS);
    snakemake(&["--slurm-array-jobs", "all"], 0);
}
