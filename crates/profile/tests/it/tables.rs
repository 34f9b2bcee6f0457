//! Crius's tables: exact cells, plans, memory and communication, through files and the database and back.
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wharf_core::{ClusterSpec, DeviceTypeId, JobSpec, PerfModel as _, Plan, Time, Topology};
use wharf_perf::cells::{Cell, Cells, Mode, sized};
use wharf_perf::{Costs, Locality, Model, Order, Place, Profile, Sharing, parse_plan, plan_name};
use wharf_planner::comm::{Operation, Precision, Route};
use wharf_profile::{Records, Tally, database, load, read, write_json};
use wharf_testing::{needs, reference};

const TIMES: &str = r#"{"optimal": {
    "net_1B_64": {"1_a40_1_n_1_d": 8.0, "1_a40_1_n_2_d": 4.0, "2_a40_2_n_2_d": 2.0, "4_a40_4_n_2_d": -1.0},
    "net_2B_64": {"1_a40_1_n_2_d": 16.0}}}"#;

const MEMORY: &str = r#"[{"net_1B_64": [40, 25.5, 12.25], "net_2B_64": [-1, -1, 0]}]"#;

const HARDWARE: &str = r#"{"NODE_CAPACITY": {"a40": 2, "h100": 8}, "gpu_specs": {
    "a40": {"max_mem_gb": 48, "max_bw_gbps": 696}, "h100": {"max_mem_gb": 80.0}},
    "supported_model_cfgs": {"net": {"param_num": ["1B", "2B", "4B"], "batch_size": [64], "layer_num": 16}}}"#;

/// Of two rows of a plan the last counts; what is infinitely slow does not fit; a row without a plan states nothing.
const ESTIMATES: &str = "\
source,l1_key,l2_key,num_gpus,pp,dp,mp,comp_s,iter_time_s
est,net_1B_64,1_a40_1_n_2_d,2,1,2,1,3,9.0
est,net_1B_64,1_a40_1_n_2_d,2,1,2,1,3,10.0
est,net_1B_64,1_a40_1_n_2_d,2,2,1,1,3,5.0
est,net_1B_64,1_a40_1_n_2_d,2,1,1,2,inf,inf
est,net_1B_64,2_a40_2_n_1_d,2,1,2,1,3,12.0
est,net_1B_64,2_a40_2_n_2_d,4,1,4,1,3,4.0
est,net_1B_64,4_a40_4_n_2_d,8,,,,,-1
";

const COMM: &str = "\
gpu_type,num_hosts,gpus_per_host,infiniband,op,replica_groups,num_f32_elements,time_s
a40,1,2,0,all-reduce,\"[[0,1]]\",1,0.5
a40,1,2,0,all-reduce,\"[[0,1]]\",1024,1.5
a40,2,1,1,send,,1,0.25
";

/// A folder as Crius has it, with files of other kinds in it.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("prof_database.json", TIMES);
    write("dp_mem.json", MEMORY);
    write("hardware_specs.json", HARDWARE);
    write("estimates.csv", ESTIMATES);
    write("comm.csv", COMM);
    write("best.csv", "l1_key,l2_key,iter_time_s\nnet_1B_64,1_a40_1_n_2_d,4.0\n");
    write("dp_mem.csv", "l1_key,num_gpus,mem_gb\nnet_2B_64,1,-1\nnet_2B_64,2,-1\nnet_2B_64,4,0\n");
    write("README.md", "words");
    write("device_infos.json", r#"[{"gpu_type": "a40"}]"#);
    write("macro.json", r#"{"PREC": 3}"#);
    write("kernels.csv", "model,key,pp\nnet,x,1\n");
    std::fs::create_dir(folder.path().join("traces")).unwrap();
    std::fs::write(folder.path().join("traces/jobs.csv"), "job_id,num_gpu\nx,1\n").unwrap();
    folder
}

/// The same records after a way through a database, and through a document.
fn through_files(records: &Records, folder: &Path) -> [(&'static str, Records, PathBuf); 2] {
    let (db, json) = (folder.join("p.db"), folder.join("p.json"));
    database::add(&db, records).unwrap();
    write_json(records, &mut std::fs::File::create(&json).unwrap()).unwrap();
    [("database", db), ("JSON", json)].map(|(kind, path)| (kind, read(&path).unwrap().records, path))
}

fn planned(
    profile: &Profile,
    devices: u32,
    locality: Locality,
) -> (Option<f64>, Option<String>, Option<f64>) {
    let place = Place { device_type: "a40".into(), devices, locality };
    let (id, here) = (profile.workload("net__1B", Some(64)).unwrap(), profile.device_type("a40").unwrap());
    (
        profile.alone(&sized("net", "1B", 64), &place),
        profile.plan(id, here, devices, locality).map(plan_name),
        profile.data_parallel(id, here, devices, locality).map(|entry| entry.iterations_per_s),
    )
}

#[test]
fn folder_with_other_files_comes_back_equal() {
    let (source, target) = (folder(), TempDir::new().unwrap());
    let found = read(source.path()).unwrap();
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    assert_eq!(found.left_out, ["device_infos.json", "kernels.csv", "macro.json"]);
    let profile = load(source.path()).unwrap();
    for (kind, back, path) in through_files(&found.records, target.path()) {
        assert_eq!(back, found.records, "{kind}");
        assert_eq!(load(&path).unwrap(), profile, "{kind}");
        assert_eq!(load(&path).unwrap().cells(), profile.cells(), "{kind}");
    }
    let again = database::add(&target.path().join("p.db"), &found.records).unwrap();
    assert_eq!((again.new.len(), again.changed.len(), again.equal), (0, 0, 5));
    assert_eq!(again.cells, Tally { equal: 5 + 2 + 2 + 1, ..Tally::default() });
    assert_eq!(again.comm, Tally { equal: 3, ..Tally::default() });
}

#[test]
fn measurements_take_precedence_and_the_estimate_is_labelled() {
    let source = folder();
    let profile = load(source.path()).unwrap();
    let plan = |text: &str| Some(text.to_owned());
    for (devices, locality, expected) in [
        // 64 samples in 4 s; data parallelism takes twice as long as the best plan by the estimate.
        (2, Locality::Packed, (Some(0.25), plan("pp2.dp1.tp1"), Some(0.125))),
        // Not measured: by the best locality. Only data parallelism was estimated.
        (2, Locality::Spread, (Some(0.225), plan("pp1.dp2.tp1"), Some(0.225))),
        (4, Locality::Packed, (Some(0.5), plan("pp1.dp4.tp1"), Some(0.5))),
        // A copy needs 40 GB and a fifth more, and there are four fifths of 48 GB.
        (1, Locality::Packed, (Some(0.125), None, Some(0.0))),
        // It was tried and did not run.
        (8, Locality::Packed, (Some(0.0), None, None)),
    ] {
        assert_eq!(planned(&profile, devices, locality), expected, "{devices} {locality:?}");
    }
}

#[test]
fn tables_are_known_by_their_headers_and_add_up() {
    let (source, target) = (folder(), TempDir::new().unwrap());
    let write = |name: &str, text: &str| {
        let path = target.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let best = "l1_key,l2_key,model,iter_time_s\n\
                net_1B_64,1_a40_1_n_1_d,net,8.0\nnet_1B_64,1_a40_1_n_2_d,net,4.0\nnet_1B_64,2_a40_2_n_2_d,net,2.0\n\
                net_1B_64,4_a40_4_n_2_d,net,-1.0\nnet_2B_64,1_a40_1_n_2_d,net,16.0\n";
    let memory = "l1_key,num_gpus,mem_gb\nnet_1B_64,1,40\nnet_1B_64,2,25.5\nnet_1B_64,4,12.25\n\
                  net_2B_64,1,-1\nnet_2B_64,2,-1\nnet_2B_64,4,0\n";
    let db = target.path().join("parts.db");
    for (name, text) in
        [("best.csv", best), ("memory.csv", memory), ("est.csv", ESTIMATES), ("comm.csv", COMM)]
    {
        database::add(&db, &read(&write(name, text)).unwrap().records).unwrap();
    }
    // Without the hardware table, a node has as many devices as any host of the table.
    let profile = load(&db).unwrap();
    assert_eq!(
        planned(&profile, 2, Locality::Packed),
        (Some(0.25), Some("pp2.dp1.tp1".to_owned()), Some(0.125))
    );
    assert_eq!(planned(&profile, 8, Locality::Packed).0, Some(0.0));
    // What is there is only about its own tables; the folder has the rest.
    let whole = read(source.path()).unwrap().records;
    let changes = database::read(&db).unwrap().changes_to(&whole);
    assert_eq!((changes.new.len(), changes.changed.len(), changes.equal, changes.gone.len()), (0, 0, 5, 0));
    assert_eq!(changes.cells, Tally { new: 3, equal: 7, ..Tally::default() });
    database::add(&db, &whole).unwrap();
    assert_eq!(load(&db).unwrap(), load(source.path()).unwrap());
}

#[test]
fn measured_plans_count_more_than_estimated_ones() {
    let source = folder();
    let text = "l1_key,l2_key,pp,dp,mp,measured_iter_time_s\nnet_1B_64,1_a40_1_n_2_d,1,1,2,4.5\n\
                net_1B_64,1_a40_1_n_2_d,1,2,1,6.4\n";
    std::fs::write(source.path().join("truth.csv"), text).unwrap();
    let profile = load(source.path()).unwrap();
    let expected = (Some(0.25), Some("pp1.dp1.tp2".to_owned()), Some(1.0 / 6.4));
    // The estimate of data parallelism is replaced in its turn, as it is the same entry.
    assert_eq!(planned(&profile, 2, Locality::Packed), expected);
}

#[test]
fn communication_is_asked_through_the_database() {
    let (source, target) = (folder(), TempDir::new().unwrap());
    let records = read(source.path()).unwrap().records;
    let route = Route {
        device_type: "a40".into(),
        hosts: 1,
        per_host: 2,
        is_infiniband: false,
        operation: Operation::AllReduce,
        groups: "[[0,1]]".into(),
    };
    for (kind, back, _) in through_files(&records, target.path()) {
        let time_s = |elements, precision| back.comm.time_s(&route, elements, precision).unwrap();
        assert_eq!(time_s(1024, Precision::Single), 1.5, "{kind}");
        assert_eq!(time_s(2048, Precision::Half), 1.5, "{kind}");
        assert_eq!(time_s(2048, Precision::Single), 2.0 * 1.5 + 0.5, "{kind}");
    }
}

#[test]
fn wrong_rows_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.csv");
    let best = "l1_key,l2_key,iter_time_s\n";
    let estimates = "l1_key,l2_key,pp,dp,mp,iter_time_s\n";
    let memory = "l1_key,num_gpus,mem_gb\n";
    let comm = "gpu_type,num_hosts,gpus_per_host,op,replica_groups,num_f32_elements,time_s\n";
    for (header, row, part) in [
        (best, "net,1_a40_1_n_1_d,1", "line 2: l1_key"),
        (best, "net_1B_0,1_a40_1_n_1_d,1", "line 2: l1_key"),
        (best, "net_1B_64,1_a40_0_n_1_d,1", "line 2: l2_key"),
        (best, "net_1B_64,1_a40_1_n_1_d,inf", "line 2: iter_time_s"),
        (best, "net_1B_64,1_a40_1_n_1_d", "line 2: 2 columns"),
        (estimates, "net_1B_64,1_a40_1_n_2_d,1,1,1,5", "`pp1.dp1.tp1` is not for so many devices"),
        (estimates, "net_1B_64,1_a40_1_n_2_d,1,2,,5", "line 2: mp"),
        (estimates, "net_1B_64,1_a40_1_n_2_d,1,2,1,fast", "line 2: iter_time_s"),
        (estimates, "net_1B_64,9_a40_99999999_n_99999999_d,1,2,1,1", "line 2: l2_key"),
        (memory, "net_1B_64,3,1", "line 2: num_gpus"),
        (memory, "net_1B_64,2,-2", "line 2: mem_gb"),
        (comm, "a40,1,2,broadcast,,1,1", "line 2: op"),
        (comm, "a40,0,2,send,,1,1", "line 2: hosts"),
        (comm, "a40,1,2,send,,0,1", "line 2: elements"),
        (comm, "a40,1,2,send,,1,-1", "line 2: seconds"),
        (comm, "a40,1,2,send,,1,1\na40,1,2,send,,1,2", "line 3: duplicate row"),
    ] {
        std::fs::write(&path, format!("{header}{row}\n")).unwrap();
        let message = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(part), "{row}: {message}");
    }
}

#[test]
fn odd_cells_in_a_database_are_reported() {
    let (source, target) = (folder(), TempDir::new().unwrap());
    let path = target.path().join("p.db");
    let records = read(source.path()).unwrap().records;
    for (change, part) in [
        ("UPDATE cell_time SET hosts = 0 WHERE hosts = 4", "expected a device type, and from 1"),
        ("UPDATE cell_memory SET memory_gb = -3", "memory of `net__1B`"),
        ("UPDATE cell_device SET per_node = 0 WHERE device_type = 'a40'", "device type `a40`"),
        ("UPDATE cell_family SET batch_sizes = '[0]'", "family `net`"),
        ("UPDATE cell_family SET sizes = 'x'", "cannot be used as a database"),
        ("UPDATE comm SET seconds = -1", "`all-reduce` on 1 x 2 a40: seconds"),
        ("UPDATE comm SET operation = 'x'", "operation: `x`"),
    ] {
        let _ = std::fs::remove_file(&path);
        database::add(&path, &records).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let message = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(part), "{change}: {message}");
    }
}

#[test]
fn databases_of_before_have_no_cells() {
    let (source, target) = (folder(), TempDir::new().unwrap());
    let path = target.path().join("p.db");
    let mut plain = read(source.path()).unwrap().records;
    (plain.cells, plain.comm) = (None, Default::default());
    database::add(&path, &plain).unwrap();
    let tables = ["cell_time", "cell_memory", "cell_device", "cell_family", "comm"];
    let drop: String = tables.iter().map(|name| format!("DROP TABLE {name};")).collect();
    rusqlite::Connection::open(&path).unwrap().execute_batch(&drop).unwrap();
    assert_eq!(read(&path).unwrap().records, plain);
}

/// Every answer that was recorded from the published code.
fn check_truth_table(cells: &Cells, folder: &Path, kind: &str) {
    let mut text = String::new();
    let file = std::fs::File::open(folder.join("golden/query_db.csv.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u32>().unwrap();
        let mode = if fields[1] == "only_dp" { Mode::DataParallel } else { Mode::Best };
        let cell = Cell { device_type: fields[6].into(), hosts: number(7), per_host: number(8) };
        let checks_memory = fields[2] == "0" && fields[0] != "crius";
        let answer = cells.query(mode, checks_memory, &sized(fields[3], fields[4], number(5)), &cell);
        let expected = (fields[9] == "1", fields[10].parse::<f64>().unwrap());
        assert_eq!((answer.is_feasible, answer.throughput), expected, "{kind}: {line}");
        rows += 1;
    }
    assert_eq!(rows, 21_870);
}

#[test]
fn crius_own_folder_comes_back_equal_and_answers_alike() {
    needs!(REFERENCE);
    let folder = reference("crius");
    let found = read(&folder).unwrap();
    let [replaced] = found.notes.as_slice() else { panic!("{:?}", found.notes) };
    assert!(
        replaced.ends_with("prof_log_ground_truth.csv` replaces 9 entries of files before it"),
        "{replaced}"
    );
    let left_out =
        ["device_infos.json", "kernel_metadata_summary.csv", "macro_def.json", "tuning_database.json"];
    assert_eq!(found.left_out, left_out);
    assert_eq!(found.records.comm.len(), 52_422);
    assert_eq!(found.records.cells.as_ref().unwrap().times().count(), 329);
    let profile = load(&folder).unwrap();
    let target = TempDir::new().unwrap();
    for (kind, back, path) in through_files(&found.records, target.path()) {
        assert_eq!(back, found.records, "{kind}");
        let again = load(&path).unwrap();
        assert_eq!(again, profile, "{kind}");
        check_truth_table(again.cells().unwrap(), &folder, kind);
    }
}

/// Where the estimator has plans, the place has the best of them, and data parallelism is never faster than that.
#[test]
fn crius_own_estimates_give_plans() {
    needs!(REFERENCE);
    let folder = reference("crius");
    let profile = load(&folder).unwrap();
    let mut plans = 0;
    for (workload, place, plan, data) in profile.all_plans() {
        let speed = profile.alone(workload, place).unwrap();
        if let Some(plan) = plan {
            assert_eq!(parse_plan(&plan_name(plan), place.devices), Some(plan));
            plans += 1;
        }
        if let Some(data) = data {
            let is_measured = !data.is_estimate && place.devices > 1;
            assert!(is_measured || data.iterations_per_s <= speed * (1.0 + 1e-12), "{workload:?} {place:?}");
        }
    }
    assert!(plans > 200, "{plans}");
    let place = |devices| (profile.device_type("a40").unwrap(), devices, Locality::Packed);
    let id = profile.workload("wide_resnet__1B", Some(256)).unwrap();
    let (here, devices, locality) = place(2);
    assert_eq!(profile.plan(id, here, devices, locality), Some(Plan { stages: 1, data: 1, tensor: 2 }));
}

/// A job can run by data parallelism alone where the published code states this, and never faster than under its best plan.
#[test]
fn crius_tables_define_where_data_parallelism_fits() {
    needs!(REFERENCE);
    let folder = reference("crius");
    let profile = load(&folder).unwrap();
    let cells = profile.cells().unwrap().clone();
    let mut cluster = ClusterSpec::uniform("a100", 4, 4);
    for (name, nodes, devices) in [("v100", 1, 16), ("a40", 8, 2), ("a10", 8, 2)] {
        cluster.nodes.extend(ClusterSpec::uniform(name, nodes, devices).nodes);
    }
    let topology = Topology::new(&cluster);
    let costs =
        Costs { restart_s: 0.0, spread_slowdown: 0.0, switch_slowdown: 0.0, interleave_factors: [1.0; 3] };
    let model = Model::new(costs, Sharing::None, Order::Best).with_profile(profile);
    let mut slower = 0;
    for (family, known) in cells.families() {
        for (size, &batch_size) in
            known.sizes.iter().flat_map(|size| known.batch_sizes.iter().map(move |batch| (size, batch)))
        {
            let workload = sized(family, size, batch_size);
            let mut job = JobSpec::new("j", Time::ZERO, 1, 1.0, 0.0);
            (job.model, job.batch_size) = (Some(workload.model.clone()), workload.batch_size);
            for (at, name) in topology.types().iter().enumerate() {
                for devices in wharf_perf::cells::DEVICE_COUNTS {
                    let here = DeviceTypeId::from_index(at);
                    let data = model.data_parallel_speed(&topology, &job, here, devices);
                    let best = model.speed(&topology, &job, here, devices, &[]);
                    let cell = cells.best_locality(name, devices).unwrap();
                    let expected = cells.query(Mode::DataParallel, true, &workload, &cell).is_feasible;
                    assert_eq!(data > 0.0, expected, "{} on {devices} {name}", workload.label());
                    // Where both were measured, the two measurements need not agree.
                    let is_measured =
                        &*workload.label() == "wide_resnet__1B (batch size 256)" && **name == *"a40";
                    assert!(
                        is_measured || data <= best * (1.0 + 1e-12),
                        "{} on {devices} {name}",
                        workload.label()
                    );
                    slower += usize::from(data > 0.0 && data < best * 0.99);
                }
            }
        }
    }
    assert!(slower > 10, "{slower}");
}
