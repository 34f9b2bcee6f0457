//! Published results of FGD's simulator, column by column.

use std::collections::BTreeMap;
use std::path::Path;

use flate2::read::GzDecoder;
use wharf_core::ClusterSpec;
use wharf_outcome::{NoRecorder, Outcome, Packing};
use wharf_policy::Settings;
use wharf_reproduce::fgd::Numbers;
use wharf_reproduce::{Mechanism, Refusal, Request};
use wharf_testing::{needs, reference};
use wharf_trace::{Format, Trace, parse_cluster_file, parse_trace, read_trace};

use crate::support::numbers;

/// How much a column may differ, by the rounding of the published values, and how many columns of a run may differ by more.
const DIFFERENCE_MAX: f64 = 0.0101;
const COLUMNS_OFF_MAX: usize = 2;

fn run(
    trace: &Trace,
    cluster: &ClusterSpec,
    policy: &str,
    set: &[&str],
    seed: u64,
) -> Result<Outcome, Refusal> {
    let settings = Settings::parse(set.iter().copied()).expect("settings");
    let request = Request {
        jobs: &trace.jobs,
        cluster,
        profile: None,
        policy,
        settings: &settings,
        seed,
        rounds: None,
    };
    numbers::<Numbers>("fgd").simulate(&request, &mut NoRecorder)
}

fn packing(trace: &Trace, cluster: &ClusterSpec, policy: &str, seed: u64) -> Packing {
    let outcome = run(trace, cluster, policy, &[], seed).expect("a run");
    assert_eq!(outcome.jobs.len(), trace.jobs.len());
    outcome.packing.expect("curves")
}

/// A table's rows, by workload, policy and seed: values by column.
fn golden(table: &str) -> BTreeMap<(String, String, u64), Vec<(usize, f64)>> {
    let file = std::fs::File::open(reference("fgd").join(format!("golden_{table}.csv.gz"))).expect("a table");
    let mut reader = csv::Reader::from_reader(GzDecoder::new(file));
    let header = reader.headers().expect("a header").clone();
    let mut rows = BTreeMap::new();
    for record in reader.records() {
        let record = record.expect("a row");
        let text = |name: &str| &record[header.iter().position(|column| column == name).expect(name)];
        let workload = text("workload").trim_start_matches("openb_pod_list_").to_owned();
        let values = header.iter().zip(&record).filter_map(|(column, value)| {
            Some((column.parse().ok()?, value.parse().ok().filter(|value: &f64| value.is_finite())?))
        });
        let key = (workload, text("sc_policy").to_owned(), text("seed").parse().expect("a seed"));
        rows.insert(key, values.collect());
    }
    rows
}

/// Compares the published runs of a workload.
fn compare(workload: &str) {
    let folder = reference("fgd");
    let trace = read_trace(&folder.join(format!("pods_{workload}.csv.gz")), Some(Format::OPENB_PODS));
    let trace = trace.expect("pods");
    let cluster = parse_cluster_file(&folder.join("nodes.csv")).expect("nodes");
    let tables = ["allo", "frag", "frag_ratio"].map(|table| (table, golden(table)));
    for ((published, policy), seed) in POLICIES.iter().flat_map(|policy| [(policy, 42), (policy, 43)]) {
        let packing = packing(&trace, &cluster, policy, seed);
        let curves = [&packing.allocation, &packing.fragmentation, &packing.fragmentation_ratio];
        for ((table, rows), curve) in tables.iter().zip(curves) {
            let row = &rows[&(workload.to_owned(), (*published).to_owned(), seed)];
            assert!(row.len() > 100, "{table}");
            let is_off = |(column, value): &&(usize, f64)| {
                let found = curve.get(*column).copied().flatten();
                found.is_none_or(|found| (found - value).abs() > DIFFERENCE_MAX)
            };
            let off: Vec<_> = row
                .iter()
                .filter(is_off)
                .map(|&(column, value)| (column, value, curve.get(column)))
                .collect();
            assert!(off.len() <= COLUMNS_OFF_MAX, "{workload} {policy} {seed} {table}: {off:?}");
        }
    }
}

const POLICIES: [(&str, &str); 5] = [
    ("02-DotProd", "fgd-dot-prod"),
    ("03-GpuClustering", "fgd-gpu-clustering"),
    ("04-GpuPacking", "fgd-gpu-packing"),
    ("05-BestFit", "fgd-best-fit"),
    ("06-FGD", "fgd"),
];

#[test]
fn runs_of_the_default_workload_equal_the_published_ones() {
    needs!(REFERENCE);
    compare("default");
}

#[test]
fn runs_with_types_of_gpus_equal_the_published_ones() {
    needs!(REFERENCE);
    compare("gpuspec33");
}

#[test]
fn runs_with_pods_of_several_gpus_equal_the_published_ones() {
    needs!(REFERENCE);
    compare("multigpu50");
}

fn pods(rows: &str) -> Trace {
    let text = format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n{rows}");
    parse_trace(&text, "pods.csv", Some(Format::OPENB_PODS)).expect("pods")
}

#[test]
fn curves_by_hand() {
    // Whatever the order, the fourth pod of half a GPU does not fit: a load of 2 is four pods on one GPU.
    let trace = pods("a,1000,0,1,500,\nb,1000,0,1,500,\n");
    let cluster = ClusterSpec::uniform("t4", 1, 1);
    let outcome = run(&trace, &cluster, "fgd", &["load=2"], 7).expect("a run");
    let packing = outcome.packing.expect("curves");
    assert_eq!((packing.arrivals, packing.placed), (4, 2));
    let at = |column: usize| {
        (packing.allocation[column], packing.fragmentation[column], packing.fragmentation_ratio[column])
    };
    assert_eq!(at(49), (None, None, None));
    assert_eq!(at(50), (Some(50.0), Some(0.0), Some(0.0)));
    // Nothing is idle any more.
    assert_eq!(at(100), (Some(100.0), Some(0.0), None));
    assert_eq!(at(200), (Some(100.0), Some(0.0), None));
    assert_eq!(packing.allocation.len(), 201);
}

#[test]
fn inputs_that_cannot_be_packed_are_refused() {
    let trace = pods("a,1000,0,1,500,\n");
    let cluster = ClusterSpec::uniform("t4", 1, 1);
    let whole = Trace {
        name: "whole".to_owned(),
        jobs: vec![wharf_core::JobSpec::new("w", wharf_core::Time::ZERO, 1, 1.0, 1.0)],
    };
    let cpus = pods("a,1000,0,0,0,\n");
    for (trace, cluster, policy, set, expected) in [
        (&trace, &cluster, "fifo", "load=1", "the policies are fgd, fgd-best-fit"),
        (&trace, &cluster, "fgd", "round_s=1", "there is no setting `round_s`"),
        (
            &trace,
            &cluster,
            "fgd",
            "load=0",
            "setting `load` cannot be `0`; it takes a number above 0, at most 100",
        ),
        (&trace, &cluster, "fgd", "typical_percent=101", "setting `typical_percent` cannot be `101`"),
        (&trace, &ClusterSpec::default(), "fgd", "load=1", "the cluster has no devices"),
        (&whole, &cluster, "fgd", "load=1", "job w does not say what part of a device it needs"),
        (&cpus, &cluster, "fgd", "load=1", "no job of the trace asks for a device"),
    ] {
        let refusal = run(trace, cluster, policy, &[set], 0).expect_err(expected).to_string();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn load_below_that_of_the_trace_leaves_pods_out() {
    let trace = pods("a,1000,0,1,1000,\nb,1000,0,1,1000,\nc,1000,0,1,1000,\nd,1000,0,1,1000,\n");
    let outcome =
        run(&trace, &ClusterSpec::uniform("t4", 1, 4), "fgd-best-fit", &["load=0.5"], 1).expect("a run");
    let packing = outcome.packing.expect("curves");
    assert_eq!((packing.arrivals, packing.placed), (2, 2));
    assert_eq!(packing.allocation.last(), Some(&Some(50.0)));
}

#[test]
fn runs_with_equal_seeds_are_equal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/openb.csv");
    let trace = read_trace(&path, Some(Format::OPENB_PODS)).expect("pods");
    let cluster = ClusterSpec::uniform("V100M16", 3, 8);
    let all = [0, 0, 1].map(|seed| packing(&trace, &cluster, "fgd", seed));
    assert_eq!(all[0], all[1]);
    assert_ne!(all[0], all[2], "another order");
}
