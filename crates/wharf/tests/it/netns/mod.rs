//! Gangs over several machines, made of namespaces: real training, power cuts, broken networks.
//!
//! Needs root, `ip`, `unshare` and `nsenter`; the training also a Python with JAX, named by `WHARF_TEST_PYTHON` (else `python3`), and
//! the Ray cluster a `ray` program, named by `WHARF_TEST_RAY` (else the one in the search path).
#![expect(
    clippy::print_stderr,
    reason = "a test that did not run must report it, and a run's times are of interest"
)]

mod machines;
mod mpi;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use wharf_testing::component::{python_with_jax, ray};
use wharf_testing::needs;

use crate::netns::machines::{Cluster, WELCOME, until};

/// So short that tests are, too; it takes another 20 s until a silent network is noticed.
const LOST_AFTER_S: u32 = 3;
/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/distributed/jax_multi.py");
/// The machines of most tests.
const NODES: [&str; 3] = ["nd1", "nd2", "nd3"];
const ITERATIONS: u32 = 600;
/// Says who it is, then trains.
const TRAIN: &str =
    "echo $WHARF_GENERATION $(hostname) $RANK $WORLD_SIZE $WHARF_ITERATIONS_DONE >> trail; exec \"$@\"";

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[track_caller]
fn submitted(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One process of the training, as it told at its start.
#[derive(Debug)]
struct Started {
    generation: u32,
    host: String,
    rank: u32,
    world_size: u32,
    iterations_done: f64,
}

fn started(cluster: &Cluster, generation: u32) -> Vec<Started> {
    let trail = cluster.read("trail");
    let processes = trail.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [generation, host, rank, world_size, iterations_done] = words[..] else { return None };
        Some(Started {
            generation: generation.parse().ok()?,
            host: host.to_owned(),
            rank: rank.parse().ok()?,
            world_size: world_size.parse().ok()?,
            iterations_done: iterations_done.parse().ok()?,
        })
    });
    processes.filter(|process| process.generation == generation).collect()
}

/// Processes on this machine that belong to a placement of a job of this cluster.
fn survivors(cluster: &Cluster, generation: u32) -> Vec<String> {
    let mark = format!("TRIAL={}", cluster.path("").display());
    let generation = format!("WHARF_GENERATION={generation}");
    let is_ours = |environment: &[u8]| {
        let variables: Vec<&[u8]> = environment.split(|&byte| byte == 0).collect();
        [&mark, &generation].iter().all(|wanted| variables.contains(&wanted.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    // One that has just ended cannot be read any more, and the environment of one that is dead is empty.
    let ours = processes.filter(|path| std::fs::read(path.join("environ")).is_ok_and(|read| is_ours(&read)));
    ours.map(|path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default()).collect()
}

/// The losses that the training has printed.
fn losses(output: &str) -> Vec<f64> {
    let of_line = |line: &str| line.split_once(" loss ")?.1.parse().ok();
    output.lines().filter(|line| line.starts_with("iteration ")).filter_map(of_line).collect()
}

/// When an event was, in a job's history; the last one of those that contain `text`.
fn moment(history: &[(f64, String)], text: &str) -> f64 {
    let found = history.iter().rev().find(|(_, told)| told.contains(text));
    found.unwrap_or_else(|| panic!("no `{text}` in {history:#?}")).0
}

fn history(cluster: &Cluster, job: &str) -> Vec<(f64, String)> {
    let told: Value = serde_json::from_str(&cluster.say(&["job", job, "--output", "json"])).unwrap();
    let entries = told["history"].as_array().unwrap().iter();
    entries
        .map(|entry| (entry["time_s"].as_f64().unwrap(), entry["text"].as_str().unwrap().to_owned()))
        .collect()
}

/// The training's output so far, of all nodes' ranks, and also of those whose machines are gone.
fn output(cluster: &Cluster) -> String {
    (0..3).map(|rank| cluster.read(&format!("gang-{rank}.out"))).collect()
}

/// Trains on three machines, cuts the power of that which has the rank, and sees the training finished by the others.
fn power_cut(rank: u32) {
    let cluster = Cluster::new(3, LOST_AFTER_S);
    let begin = now_s();
    // One device of each node is taken at first, so that the gang has to spread; later it fits on two nodes.
    let filler = "while ! [ -e go ]; do sleep 0.1; done";
    submitted(cluster.submit("--gang 3x1 --name filler", &["sh", "-c", filler]));
    let options = format!(
        "--wait --name gang --gang 3 --cpus 1 --launcher per-device --grace 3s --checkpoint-dir checkpoints --output-file gang-%n.out \
         --env TRIAL={}",
        cluster.path("").display()
    );
    let (python, iterations) = (python_with_jax(), ITERATIONS.to_string());
    let train = [&python, "-B", EXAMPLE, "--iteration-ms", "20", "--iterations", &iterations];
    let command: Vec<&str> = ["sh", "-c", TRAIN, "train"].into_iter().chain(train).collect();
    let mut gang = cluster.submit(&options, &command).stdout(Stdio::null()).spawn().unwrap();
    until("training", LIMIT, || losses(&output(&cluster)).get(5).copied());
    std::fs::write(cluster.path("go"), "").unwrap();
    let first = started(&cluster, 1);
    let hosts: BTreeSet<&str> = first.iter().map(|process| process.host.as_str()).collect();
    assert_eq!(hosts.len(), 3, "{first:?}");
    assert!(first.iter().all(|process| process.world_size == 3), "{first:?}");
    until("the filler's end", LIMIT, || history(&cluster, "0").last()?.1.contains("finished").then_some(()));

    let victim = &first.iter().find(|process| process.rank == rank).unwrap().host;
    let cut = now_s();
    cluster.cut_power(victim);
    let second = until("the next start", LIMIT, || Some(started(&cluster, 2)).filter(|all| all.len() == 3));
    assert_eq!(survivors(&cluster, 1), [""; 0], "of the first placement");
    let code = gang.wait().unwrap().code();
    let said = output(&cluster);
    let told = history(&cluster, "1");
    assert_eq!(code, Some(0), "{said}\n{told:#?}");

    let hosts: BTreeSet<&str> = second.iter().map(|process| process.host.as_str()).collect();
    assert!(hosts.len() == 2 && !hosts.contains(victim.as_str()), "{second:?}");
    assert!(
        second.iter().all(|process| process.world_size == 3 && process.iterations_done > 0.0),
        "{second:?}"
    );
    let resumed =
        said.lines().find_map(|line| line.strip_prefix("resumed at iteration ")).unwrap_or_default();
    let resumed: u32 = resumed.split(' ').next().unwrap().parse().unwrap();
    assert!((1..ITERATIONS).contains(&resumed), "{said}");
    assert!(said.contains(&format!("iteration {ITERATIONS}/{ITERATIONS} ")), "{said}");
    let losses = losses(&said);
    assert!(losses.iter().copied().fold(f64::MAX, f64::min) < losses[0] / 4.0, "{losses:?}");
    let after = |text: &str| moment(&told, text) - cut;
    eprintln!(
        "power cut of {victim} (rank {rank}) {:.1} s after submission; after the cut: lost {:.1} s, stopped {:.1} s, \
         placed again {:.1} s, started {:.1} s, finished {:.1} s; resumed at {resumed} of {ITERATIONS} iterations",
        cut - begin,
        after("stopping: node lost"),
        after("stopped, "),
        after("placed on"),
        after("started"),
        after("finished"),
    );
}

#[test]
fn a_power_cut_stops_the_gang_everywhere_and_it_resumes_on_the_rest() {
    needs!(NAMESPACES, JAX);
    power_cut(2);
}

#[test]
fn a_power_cut_of_the_first_rank_is_survived_as_well() {
    needs!(NAMESPACES, JAX);
    power_cut(0);
}

#[test]
fn a_node_that_is_cut_off_stops_its_task_before_it_is_run_elsewhere() {
    needs!(NAMESPACES);
    let cluster = Cluster::new(2, LOST_AFTER_S);
    // Continues for as long as it can when it is requested to stop.
    let script = "trap '' TERM; while :; do echo $(date +%s.%N) $(hostname) >> trail-$WHARF_GENERATION; sleep 0.02; done";
    submitted(cluster.submit("--grace 60s", &["sh", "-c", script]));
    let times = |generation: u32| {
        let trail = cluster.read(&format!("trail-{generation}"));
        let whole = trail.lines().filter_map(|line| line.split_once(' '));
        whole.map(|(time, host)| (time.parse().unwrap(), host.to_owned())).collect::<Vec<(f64, String)>>()
    };
    let (_, node) = until("the first run", LIMIT, || times(1).first().cloned());
    let welcomes = cluster.messages(&node, WELCOME);

    let cut = now_s();
    cluster.plug(&node, false);
    let (began, other) = until("the second run", LIMIT, || times(2).first().cloned());
    let (ended, _) = times(1).last().cloned().unwrap();
    assert_ne!(node, other);
    assert!(ended < began, "both ran: until {} s and from {} s on after the cut", ended - cut, began - cut);
    assert_eq!(cluster.messages(&node, "cut off from the head for too long"), 1);
    let told = history(&cluster, "0");

    cluster.plug(&node, true);
    until("its return", LIMIT, || (cluster.messages(&node, WELCOME) > welcomes).then_some(()));
    // It is used again.
    submitted(cluster.submit("--wait --gang 2x1", &["true"]));
    assert_eq!(times(1).last().unwrap().0, ended, "its old task is not");
    eprintln!(
        "cut off {node}: after the cut its task ended {:.1} s, it counted as lost {:.1} s, the next ran from {:.1} s",
        ended - cut,
        moment(&told, "stopping: node lost") - cut,
        began - cut,
    );
    cluster.say(&["cancel", "0"]);
}

#[test]
fn a_ray_cluster_spans_three_machines_and_leaves_none_of_it() {
    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ray-multinode");
    needs!(NAMESPACES, RAY);
    let cluster = Cluster::new(3, LOST_AFTER_S);
    let begin = now_s();
    let folder = cluster.path("");
    let before: Vec<Vec<u16>> = NODES.iter().map(|node| cluster.listening(node)).collect();
    let mut submit = cluster.wharf(&["submit", "--wait", "--workdir", EXAMPLE]);
    let ray = ray().unwrap();
    let search = format!("{}:{}", ray.parent().unwrap().display(), std::env::var("PATH").unwrap());
    submit.arg(format!("{EXAMPLE}/job.yaml")).env("PATH", search);
    submit.args(["--output-file", &format!("{}/ray-%n.out", folder.display())]);
    for name in ["TRIAL", "TMPDIR"] {
        submit.args(["--env", &format!("{name}={}", folder.display())]);
    }
    let code = submit.stdout(Stdio::null()).status().unwrap().code();
    let said = cluster.read("ray-0.out");
    assert_eq!(code, Some(0), "{said}{}{}", cluster.read("ray-1.out"), cluster.read("ray-2.out"));
    assert!(said.contains("a task ran on each of 3 nodes\n"), "{said}");
    for (index, node) in NODES.iter().enumerate() {
        assert!(said.contains(&format!("10.77.0.{}:", index + 1)), "{said}");
        assert!(said.contains(&format!(" on {node} ran a task")), "{said}");
    }
    until("the end of all processes", LIMIT, || survivors(&cluster, 1).is_empty().then_some(()));
    let left = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("wr-")).collect();
    assert!(left.is_empty(), "{left:?}");
    let after: Vec<Vec<u16>> = NODES.iter().map(|node| cluster.listening(node)).collect();
    assert_eq!(before, after);
    eprintln!("a Ray cluster over three machines: {:.1} s from submission to its end", now_s() - begin);
}
