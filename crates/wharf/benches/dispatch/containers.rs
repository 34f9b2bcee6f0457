//! What a container costs beyond what its runtime takes by itself.

use std::time::Duration;

use crate::cluster::Cluster;
use wharf_testing::{component, engines};

use crate::{ROUNDS, SLOTS, WORKERS, rate, raw};

/// Tasks one after another, for the cost of one.
const SERIAL: u32 = 200;
/// Tasks of the array on all workers.
const ARRAY: u32 = 1_000;

/// Charliecloud: one task after another on one slot, then an array on all slots, beside `ch-run` spawned by parents that do
/// nothing else.
pub(crate) fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let missing =
        [&component::CHARLIECLOUD, &component::BUSYBOX].into_iter().find_map(|one| one.probe().err());
    if let Some(missing) = missing {
        println!("containers: NOT RUN: {missing}");
        return;
    }
    let image = engines::image(folder.path()).display().to_string();
    let runtime = ["ch-run", &image, "--", "/bin/true"];
    let options = ["--container", &image, "--runtime", "charliecloud", "--workdir", "/"];
    one_by_one(&runtime, &options);
    println!("containers: an array of {ARRAY} with charliecloud, {WORKERS} x {SLOTS}");
    let cluster = Cluster::start(WORKERS, SLOTS, &[]);
    for round in 1..=ROUNDS {
        let theirs = rate(ARRAY, raw::parents(WORKERS, ARRAY / WORKERS, SLOTS, &runtime));
        let took = cluster.run_array(ARRAY, &options);
        let ours = rate(ARRAY, took);
        println!(
            "  round {round}: ch-run {theirs:5.0}/s, wharf {ours:5.0}/s ({took:.1?}), ratio {:.2}",
            ours / theirs
        );
    }
}

fn one_by_one(runtime: &[&str], options: &[&str]) {
    println!("containers: {SERIAL} with charliecloud, one after another");
    let each = |took: Duration| took.as_secs_f64() * 1_000.0 / f64::from(SERIAL);
    let cluster = Cluster::start(1, 1, &[]);
    for round in 1..=ROUNDS {
        let plain = each(raw::parents(1, SERIAL, 1, raw::TRUE));
        let theirs = each(raw::parents(1, SERIAL, 1, runtime));
        let ours_plain = each(cluster.run_array(SERIAL, &[]));
        let ours = each(cluster.run_array(SERIAL, options));
        // What is prepared from within, as for other users and limits, goes through a process of its own first.
        let staged = each(cluster.run_array(SERIAL, &[options, &["--limit", "nofile=1024"]].concat()));
        println!(
            "  round {round}: ch-run {theirs:.2} ms beside true {plain:.2} ms; wharf {ours:.2} ms beside {ours_plain:.2} ms: \
             containers cost {:.2} ms beyond ch-run, all of wharf {:.2} ms; with a limit {:.2} ms",
            (ours - ours_plain) - (theirs - plain),
            ours - theirs,
            staged - theirs
        );
    }
}
