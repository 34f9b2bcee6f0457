//! Mistakes that users of other systems make on their way here: each is refused, or warned of, with its cause and its fix, word by word.
//!
//! Mistakes in Ray's cluster files are in `launch/tests/it/ray_files.rs`; those that need an image, a Slurm or a Ray are named at the end.

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

/// A command, its exit code, and what it says on standard error.
type Mistake = (&'static str, i32, &'static str);

const MISTAKES: &[Mistake] = &[
    (
        "replay --policy fifo --rounds 1 --keep-offset --trace late.csv --cluster 1x2",
        2,
        "error: the replay starts no job: its rounds end after 300.0 s, the first job is submitted at 240179.0 s\n\
         hint: omit `--keep-offset` to start at the first submission, or increase `--rounds`\n",
    ),
    (
        "sim --policy shortest --trace late.csv --cluster 1x2",
        2,
        "error: no policy is named `shortest`\n\
         hint: `shortest` of Muri is `--policy srtf` here\n\
         hint: `wharf policies --from muri` lists the policies of Muri\n",
    ),
    (
        "replay --policy nosuch --trace late.csv --cluster 1x2",
        2,
        "error: no policy is named `nosuch`\nhint: `wharf policies` lists them all\n",
    ),
    (
        "submit --slurm --weight 3 -- true",
        2,
        "error: weight: a job of Slurm's own cannot have it; leave it out: shares are Slurm's\n",
    ),
    (
        "submit --ray-address http://h:8265 --gang 2x4 -- true",
        2,
        "error: gang.nodes: Ray runs the command on one of its nodes; leave `nodes` out and let the program spread itself\n",
    ),
    (
        "submit --dry-run ray.yaml",
        3,
        "error: ray.yaml:3:7: ray.head_args: port 26379 is given to `--port` and to `--dashboard-port`; use different ports\n",
    ),
    (
        "submit --dry-run --per-node --gang 2x2 -- true",
        2,
        "error: per_node: with `per_node`, a gang can only have `types` and either `devices` of each node or `all`\n",
    ),
    (
        "slurm-shims foreign",
        2,
        "error: foreign contains other files (such as `mine`). Write links to sbatch, squeue, scancel, sinfo, scontrol, sacct, salloc, \
         srun, sacctmgr, sshare, sprio, sdiag there? Standard input is not a terminal\n\
         hint: pass `--yes` to confirm\n",
    ),
    (
        "up automatic.yaml --check",
        3,
        "error: automatic.yaml:2:46: `provider.coordinator_address`: automatic local clusters are not supported: Ray's coordinator \
         server lends machines to clusters, and `wharf up` uses the machines that the file names (name them with `head_ip` and \
         `worker_ips` in place of `coordinator_address`; users share one such cluster, because its head schedules their jobs)\n",
    ),
];

#[test]
fn every_mistake_is_reported_with_its_cause_and_its_fix() {
    let sandbox = Sandbox::new();
    sandbox.write("late.csv", "job_id,submit_s,devices,iterations,iteration_ms\na,240179,1,100,1000\n");
    sandbox.write(
        "ray.yaml",
        "command: [python, a.py]\nlauncher: ray\nray: {head_args: [--port=26379, --dashboard-port=26379]}\n",
    );
    std::fs::create_dir(sandbox.path().join("foreign")).unwrap();
    sandbox.write("foreign/mine", "");
    sandbox.write(
        "automatic.yaml",
        "cluster_name: lab\nprovider: {type: local, coordinator_address: 'h:1'}\nmax_workers: 2\n",
    );
    for (words, code, expected) in MISTAKES {
        let said = sandbox.wharf(words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(*code), *expected), "{words}");
    }
}

#[test]
fn mistakes_that_only_a_cluster_can_see_are_reported_word_by_word() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let worker = ["worker", "--node", "only", "--devices", "cpu:4"];
    let _worker = cluster.daemon(&worker, "accepted this worker");
    let told = |words: &[&str]| {
        let output = cluster.command(words).current_dir(cluster.folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };

    let (code, said) = told(&["submit", "--gang", "8", "--", "true"]);
    let expected = "warning: job 0 waits: cannot start on the current nodes: needs 8 devices, the working nodes have 4 that it may use together\n";
    assert_eq!((code, said.as_str()), (Some(0), expected));

    let words = ["sbatch", "--array=1-3", "--output=same.txt", "--wrap", "true"];
    let (code, said) = told(&words);
    let path = cluster.path("same.txt");
    let expected = format!(
        "sbatch: warning: all elements of the array write to {} and overwrite each other; use %a in its name, or --open-mode=append\n",
        path.display()
    );
    assert_eq!((code, said), (Some(0), expected));

    let (code, said) = told(&["submit", "--wait", "--network-interface", "ib9", "--", "true"]);
    assert_ne!(code, Some(0));
    let (before, listed) = said.split_once("which has ").unwrap_or((&said, ""));
    assert!(before.ends_with("network interface `ib9` does not exist on this node, "), "{said}");
    let (names, fix) = listed.split_once("; ").unwrap_or((listed, ""));
    assert!(names.split(", ").any(|name| name == "lo"), "{said}");
    assert!(fix.starts_with("set `network_interface` of the job to one of them, or leave it out"), "{said}");
}
