//! The planner against measured iterations that were published.

use wharf_planner::judge::{self, Defaults, Figures, Judged};
use wharf_planner::model::Precision;
use wharf_planner::{Framework, Hardware, Options};
use wharf_testing::{needs, reference};

/// As the published measurements were made: A100 with 80 GB, four adapters of 200 Gb/s a node, full recomputation, no overlap.
fn defaults() -> Defaults {
    Defaults {
        hardware: Hardware::builtin("a100-80gb").unwrap().on_network(100.0),
        per_node: 8,
        precision: Precision::Half,
        options: Options { framework: Framework::Megatron, ..Options::default() },
    }
}

fn judged(file: &str) -> Vec<Judged> {
    let text = std::fs::read_to_string(reference("planner").join(file)).unwrap();
    judge::judge(judge::measurements(&text, &defaults()).unwrap()).unwrap()
}

#[test]
fn iterations_on_one_node_are_near_what_was_measured() {
    needs!(REFERENCE);
    let all = judged("vtrain_single.csv");
    let figures = judge::figures(&all);
    if std::env::var_os("WHARF_PLANNER_ROWS").is_some() { for one in &all { eprintln!("{:?} {:.1}% {:.1} {:?}", one.estimate.degrees, 100.0*one.error(), one.measurement.time_s*1e3, one.estimate.parts); } }
    eprintln!("{figures:?}");
}

#[test]
fn iterations_on_many_nodes_are_near_what_was_measured() {
    needs!(REFERENCE);
    let all = judged("vtrain_multi.csv");
    if std::env::var_os("WHARF_PLANNER_ROWS").is_some() { for one in &all { eprintln!("{:?} mb{} {:.1}% {:.1} {:?} {:?}", one.estimate.degrees, one.estimate.microbatches, 100.0*one.error(), one.measurement.time_s*1e3, one.estimate.parts, one.estimate.memory); } }
    let figures = judge::figures(&all);
    eprintln!("{figures:?}");
}
