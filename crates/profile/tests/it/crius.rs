//! Crius's folder: its tables, asked as the published code asks them.

use std::io::Read as _;

use wharf_perf::cells::{Cell, Mode, sized};
use wharf_testing::{needs, reference};

/// All 21,870 answers that were recorded from the published code, bit by bit.
#[test]
fn query_equals_the_truth_table() {
    needs!(REFERENCE);
    let folder = reference("crius");
    let profile = wharf_profile::load(&folder).unwrap();
    let cells = profile.cells().unwrap();
    let mut text = String::new();
    let file = std::fs::File::open(folder.join("golden/query_db.csv.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let &[policy, mode, force_opt, family, size, batch, device_type, hosts, per_host, feasible, thr] =
            fields.as_slice()
        else {
            panic!("{line}")
        };
        let mode = if mode == "only_dp" { Mode::DataParallel } else { Mode::Best };
        let checks_memory = force_opt == "0" && policy != "crius";
        let cell = Cell {
            device_type: device_type.into(),
            hosts: hosts.parse().unwrap(),
            per_host: per_host.parse().unwrap(),
        };
        let answer = cells.query(mode, checks_memory, &sized(family, size, batch.parse().unwrap()), &cell);
        let expected = (feasible == "1", thr.parse::<f64>().unwrap());
        assert_eq!((answer.is_feasible, answer.throughput), expected, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 21_870);
}

#[test]
fn missing_and_wrong_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let problem = || {
        let error = wharf_profile::load(dir.path()).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    write("prof_database.json", r#"{"optimal": {"net_1B_64": {"1_a40_1_n_2_d": 3.0}}}"#);
    assert_eq!(problem(), "cannot read profile `hardware_specs.json`");
    let family = r#""supported_model_cfgs": {"net": {"param_num": ["1B"], "batch_size": [64]}}"#;
    let hardware = |per_node: u32| {
        format!(
            r#"{{"NODE_CAPACITY": {{"a40": {per_node}}}, "gpu_specs": {{"a40": {{"max_mem_gb": 48}}}}, {family}}}"#
        )
    };
    write("hardware_specs.json", &hardware(0));
    let expected = "expected at least one device on a node, with memory above 0";
    assert_eq!(problem(), format!("profile `hardware_specs.json`: `a40`: {expected}"));
    write("hardware_specs.json", &hardware(2));
    assert_eq!(problem(), "cannot read profile `dp_mem.json`");
    write("dp_mem.json", r#"[{"net_1B_64": [20.0, 12.0]}]"#);
    let profile = wharf_profile::load(dir.path()).unwrap();
    let place = |devices| wharf_perf::Place {
        device_type: "a40".into(),
        devices,
        locality: wharf_perf::Locality::Packed,
    };
    assert_eq!(profile.alone(&sized("net", "1B", 64), &place(2)), Some(21.333 / 64.0));
    assert_eq!(profile.alone(&sized("net", "1B", 64), &place(4)), Some(0.0));
    for (text, expected) in [
        (r#"{"optimal": {"net": {}}}"#, "`net`: expected FAMILY_SIZE_BATCH"),
        (r#"{"optimal": {"net_1B_64": {"a40": 1}}}"#, "`a40`: expected HOSTS_TYPE_HOSTS_n_DEVICES_d"),
    ] {
        write("prof_database.json", text);
        assert_eq!(problem(), format!("profile `prof_database.json`: {expected}"));
    }
}
