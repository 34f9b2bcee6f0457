//! How fast jobs are dispatched, journaled durably: against the raw rate of spawns, against Slurm, and by themselves.
//!
//! `cargo bench -p wharf --bench dispatch` runs everything; `-- spawn before containers submit rehearse memory slurm` only these
//! parts.
//! Figures are ratios of what was measured in the same run, on whatever else the machine was doing.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

mod cluster;
mod containers;
mod raw;
mod slurm;

use std::time::{Duration, Instant};

use cluster::Cluster;

/// Workers and slots of the comparison with raw spawns and with Slurm.
const WORKERS: u32 = 4;
const SLOTS: u32 = 4;
/// Tasks of one measurement.
const SPAWN_TASKS: u32 = 4_000;
const ARRAY_TASKS: u32 = 100_000;
const REHEARSAL_WORKERS: u32 = 16;
const RUNNING_TASKS: u32 = 10_000;
/// Devices that one node can have at most.
const DEVICES_MAX: u32 = 128;
const ROUNDS: u32 = 3;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == raw::COMMAND) {
        return raw::parent(&words[1..]);
    }
    words.retain(|word| !word.starts_with("--"));
    let is_wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if is_wanted("spawn") {
        spawn();
    }
    if is_wanted("before") {
        before();
    }
    if is_wanted("slurm") {
        against_slurm();
    }
    if is_wanted("containers") {
        containers::measure();
    }
    if is_wanted("submit") {
        submit();
    }
    if is_wanted("rehearse") {
        rehearse();
    }
    if is_wanted("memory") {
        memory();
    }
}

fn rate(tasks: u32, took: Duration) -> f64 {
    f64::from(tasks) / took.as_secs_f64()
}

/// `/bin/true` on four workers with four slots each, beside four parents with four spawns in flight each.
fn spawn() {
    println!("spawn: {SPAWN_TASKS} times /bin/true, {WORKERS} x {SLOTS}");
    let cluster = Cluster::start(WORKERS, SLOTS, &[]);
    for round in 1..=ROUNDS {
        let raw = rate(SPAWN_TASKS, raw::parents(WORKERS, SPAWN_TASKS / WORKERS, SLOTS, raw::TRUE));
        let ours = rate(SPAWN_TASKS, cluster.run_array(SPAWN_TASKS, &[]));
        println!("  round {round}: raw {raw:6.0}/s, wharf {ours:6.0}/s, ratio {:.2}", ours / raw);
    }
}

/// The same array with an earlier version of the program, which `WHARF_BENCH_BEFORE` names. As root, the tasks are those of an
/// ordinary user.
fn before() {
    let Some(program) = std::env::var_os("WHARF_BENCH_BEFORE") else {
        println!("before: NOT RUN, as WHARF_BENCH_BEFORE names no earlier program");
        return;
    };
    let is_root = nix::unistd::geteuid().is_root();
    let options: &[&str] = if is_root { &["--user", "nobody", "--workdir", "/"] } else { &[] };
    let workers = if is_root { "root workers, tasks of a user" } else { "unprivileged workers" };
    println!("before: {SPAWN_TASKS} times /bin/true, {WORKERS} x {SLOTS}, {workers}");
    let earlier = Cluster::start_program(program.as_ref(), WORKERS, SLOTS, &[]);
    let present = Cluster::start(WORKERS, SLOTS, &[]);
    for round in 1..=ROUNDS {
        let before = rate(SPAWN_TASKS, earlier.run_array(SPAWN_TASKS, options));
        let now = rate(SPAWN_TASKS, present.run_array(SPAWN_TASKS, options));
        println!("  round {round}: before {before:6.0}/s, now {now:6.0}/s, ratio {:.2}", now / before);
    }
}

/// The same array on a real Slurm of this machine, if there is one.
fn against_slurm() {
    const TASKS: u32 = 1_000;
    let Some(slurm) = slurm::Slurm::start(WORKERS, SLOTS) else {
        println!("slurm: NOT RUN, as slurmctld, slurmd or munged are not installed, or this is not root");
        return;
    };
    println!("slurm: an array of {TASKS} times /bin/true, {WORKERS} x {SLOTS}, tuned");
    let cluster = Cluster::start(WORKERS, SLOTS, &[]);
    for round in 1..=ROUNDS {
        let theirs = rate(TASKS, slurm.run_array(TASKS));
        let ours = rate(TASKS, cluster.run_array(TASKS, &[]));
        println!("  round {round}: slurm {theirs:6.1}/s, wharf {ours:6.0}/s, ratio {:.1}", ours / theirs);
    }
}

/// A large array: how long its submission takes, and all of it.
fn submit() {
    println!("submit: an array of {ARRAY_TASKS} times /bin/true, {WORKERS} x {SLOTS}");
    let cluster = Cluster::start(WORKERS, SLOTS, &[]);
    cluster.hold(|| {
        for round in 1..=ROUNDS {
            let began = Instant::now();
            let array = cluster.submit_array(ARRAY_TASKS, &[]);
            println!("  round {round}: submission returned after {:.0?}", began.elapsed());
            cluster.say(&["cancel", &array.to_string()]);
        }
    });
    let took = cluster.run_array(ARRAY_TASKS, &[]);
    println!("  end to end: {took:.1?}, {:.0}/s", rate(ARRAY_TASKS, took));
    println!("  head: {} MB at most", cluster.head_peak_mb());
}

/// Dispatch alone: workers say that a task has run as soon as they hear of it.
fn rehearse() {
    println!("rehearse: {ARRAY_TASKS} tasks without exec, {REHEARSAL_WORKERS} x {REHEARSAL_WORKERS}");
    let cluster = Cluster::start(REHEARSAL_WORKERS, REHEARSAL_WORKERS, &["--rehearse", "end"]);
    for round in 1..=ROUNDS {
        let took = cluster.run_array(ARRAY_TASKS, &[]);
        println!("  round {round}: {took:.1?}, {:.0}/s", rate(ARRAY_TASKS, took));
    }
}

/// The head with many jobs behind it and many that run.
fn memory() {
    println!("memory: {ARRAY_TASKS} finished and {RUNNING_TASKS} running tasks, without exec");
    let cluster = Cluster::start(REHEARSAL_WORKERS, REHEARSAL_WORKERS, &["--rehearse", "end"]);
    cluster.run_array(ARRAY_TASKS, &[]);
    let nodes = RUNNING_TASKS.div_ceil(DEVICES_MAX);
    let _holding = cluster.add_workers("hold", nodes, DEVICES_MAX, &["--rehearse", "hold", "--pool", "hold"]);
    cluster.run_until_running(RUNNING_TASKS, "hold");
    println!("  head: {} MB now, {} MB at most", cluster.head_mb(), cluster.head_peak_mb());
}
