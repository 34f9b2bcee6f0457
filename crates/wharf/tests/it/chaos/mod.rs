//! Nothing is lost: head and workers are killed at random moments while gangs, arrays, retries and preemptions run.
//!
//! `WHARF_CHAOS_SEEDS` states how many seeds are tried, `WHARF_CHAOS_FIRST` which is the first.
mod cluster;
mod faults;
mod load;
mod verdict;

use std::io::Write as _;
use std::time::Instant;

use cluster::Cluster;
use faults::Kills;
use load::Load;

/// What a run of one seed had to endure.
struct Endured {
    kills: Kills,
    preemptions: u64,
    starts: usize,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// The head's and the workers' programs, their tasks, a client: as in life, only their deaths are unusual.
fn endure(seed: u64) -> Endured {
    let cluster = Cluster::start(seed);
    let load = Load::new(seed);
    let (jobs, kills) = std::thread::scope(|scope| {
        let faults = scope.spawn(|| faults::inject(&cluster, seed));
        let jobs = load.submit(&cluster);
        (jobs, faults.join().unwrap())
    });
    cluster.revive();
    let seen = verdict::wait_for_all(&cluster, &jobs);
    let verdict = verdict::check(&cluster, &jobs, &seen);
    if !verdict.complaints.is_empty() {
        cluster.keep();
        panic!(
            "seed {seed}: {}\nagain with WHARF_CHAOS_FIRST={seed} WHARF_CHAOS_SEEDS=1",
            verdict.complaints.join("\n")
        );
    }
    Endured { kills, preemptions: verdict.preemptions, starts: verdict.starts }
}

#[test]
fn nothing_is_lost() {
    let (first, count) = (setting("WHARF_CHAOS_FIRST", 1), setting("WHARF_CHAOS_SEEDS", 2));
    let mut preemptions = 0;
    for seed in first..first + count {
        let begin = Instant::now();
        let Endured { kills: Kills { head, workers }, preemptions: gave_way, starts } = endure(seed);
        writeln!(
            std::io::stderr(),
            "seed {seed}: {:.1} s, {head} kills of the head, {workers} of workers, {starts} tasks, {gave_way} preemptions",
            begin.elapsed().as_secs_f64(),
        )
        .unwrap();
        preemptions += gave_way;
    }
    assert!(preemptions > 0, "nothing was preempted: the load is too light");
}
