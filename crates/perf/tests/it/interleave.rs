//! The interleaving model against the reference's table of all groups of its eight models.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read recorded data")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use wharf_core::StageTimes;
use wharf_perf::opportunistic::iteration_beside_s;
use wharf_perf::{Interleaving, Order, Stages};
use wharf_testing::{needs, reference};

/// Muri's measured overheads: 1.015 alone; 1.33, 1.5 and 1.37 for groups, relative to that.
const SOLO: f64 = 1.015;
const MURI: Interleaving = Interleaving { resources: 4, factors: [1.33 / SOLO, 1.5 / SOLO, 1.37 / SOLO] };

/// Solo iteration time and stages by (devices, model), from a trace that has every combination.
fn profiles(data: &Path) -> BTreeMap<(u64, String), (f64, Stages)> {
    let text = std::fs::read_to_string(data.join("traces/trace2.csv")).expect("trace");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |index: usize| cells[index].parse::<f64>().expect("a number");
        let stages = StageTimes { data_ms: number(9), compute_ms: number(10), network_ms: number(11) };
        ((number(1) as u64, cells[4].to_owned()), (number(8) * SOLO / 1000.0, Stages::from(stages)))
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn iteration_time_all_groups_same_bits() {
    needs!(REFERENCE);
    let data = reference("muri");
    let file = std::fs::File::open(data.join("golden/iter_time_table.json.gz")).expect("recorded times");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("table decompresses");
    let table: Vec<serde_json::Value> = serde_json::from_str(&text).expect("table is JSON");
    assert_eq!(table.len(), 2964);
    let profiles = profiles(&data);
    for entry in &table {
        let devices = entry["num_gpu"].as_u64().expect("devices");
        let models = entry["jobs"].as_array().expect("models").iter().map(|m| m.as_str().expect("a name"));
        let (solo, stages): (Vec<f64>, Vec<Stages>) =
            models.map(|model| profiles[&(devices, model.to_owned())]).unzip();
        let same = |got: f64, field: &str| {
            let expected = entry[field].as_f64().expect("a number");
            assert_eq!(got.to_bits(), expected.to_bits(), "{field} of {entry}: {got}");
        };
        same(MURI.iteration_s(&stages, solo[0], Order::Best), "best");
        if stages.len() > 1 {
            same(MURI.iteration_s(&stages, solo[0], Order::Worst), "worst");
            same(MURI.efficiency(&stages, solo[0], Order::Best), "used_ratio");
            same(MURI.efficiency(&stages, solo[0], Order::Worst), "used_ratio_worst");
            same(solo.iter().sum(), "sum_solo");
        }
    }
}

#[test]
fn rotating_cycle_is_sum_of_longest_stages() {
    let three = Interleaving { resources: 3, factors: [1.0; 3] };
    let a = Stages { data_s: 3.0, compute_s: 1.0, network_s: 1.0 };
    let b = Stages { data_s: 1.0, compute_s: 2.0, network_s: 1.0 };
    // Slots pair each stage of the first with the one before it of the second; the other way round is shorter.
    assert_eq!(three.iteration_s(&[a, b], 5.0, Order::Worst), 3.0 + 1.0 + 2.0);
    assert_eq!(three.iteration_s(&[a, b], 5.0, Order::Best), 1.0 + 3.0 + 1.0);
}

#[test]
fn beside_counts_whole_neighbour_iterations() {
    let own = Stages { data_s: 0.5, compute_s: 0.2, network_s: 0.0 };
    let neighbour = Stages { data_s: 0.1, compute_s: 0.3, network_s: 0.1 };
    // Data needs two laps of 0.4 and leaves a gap for half of the compute stage, the rest needs one lap of 0.2.
    assert_eq!(iteration_beside_s(own, neighbour, 1.0), 3.0);
    assert_eq!(iteration_beside_s(own, Stages::default(), 1.0), 0.0);
}
