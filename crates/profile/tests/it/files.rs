//! Profiles through files and back, from others' files, and from files that are none.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use wharf_perf::{Locality, Place, Workload};
use wharf_profile::measured::{Measured, Subject};
use wharf_profile::{
    Facts, Key, Price, Records, database, load, measurements, read, write_csv, write_json, write_prices,
};
use wharf_testing::{needs, reference};

fn key(model: &str, batch_size: Option<u32>, device_type: &str, devices: u32) -> Key {
    Key {
        workload: Workload { model: model.into(), batch_size },
        place: Place { device_type: device_type.into(), devices, locality: Locality::Packed },
        plan: String::new(),
        beside: vec![],
    }
}

fn facts(iterations_per_s: f64) -> Facts {
    Facts {
        iterations_per_s,
        memory_mib: None,
        is_estimate: false,
        source: "bench".to_owned(),
        recorded: "2026-11-16T08:00:00Z".to_owned(),
    }
}

/// Entries of all sorts: plans, neighbours, misfits, estimates, odd names.
fn records() -> Records {
    let mut records = Records::default();
    records.insert(key("lm", Some(20), "v100", 1), facts(10.5));
    records.insert(key("lm", Some(20), "k80", 4), Facts { is_estimate: true, ..facts(0.0) });
    records
        .insert(key("a, \"quoted\" é", None, "tpu v4", 64), Facts { memory_mib: Some(0.5), ..facts(1e-9) });
    let pair = |own: &str, other: &str| Key {
        beside: vec![Workload::from_label(other)],
        ..key(own, None, "v100", 1)
    };
    records.insert(pair("a", "b (batch size 4)"), facts(3.0));
    records.insert(Key { workload: Workload::from_label("b (batch size 4)"), ..pair("b", "a") }, facts(2.0));
    records.insert(Key { plan: "pp2-dp4".to_owned(), ..key("gpt", Some(64), "a100", 8) }, facts(0.1 + 0.2));
    records.insert(Key { plan: "tp8".to_owned(), ..key("gpt", Some(64), "a100", 8) }, facts(0.5));
    records.set_price("v100", Price { per_hour: 2.4, source: "list".to_owned() });
    records.reference = Some("v100".into());
    records
}

fn written(folder: &Path, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = Vec::new();
    write(&mut bytes);
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The records after a way through each kind of file.
fn through_files(records: &Records, folder: &Path) -> [(&'static str, Records); 3] {
    let json = written(folder, "p.json", |out| write_json(records, out).unwrap());
    let db = folder.join("p.db");
    database::add(&db, records).unwrap();
    let csv = written(folder, "p.csv", |out| write_csv(records, out).unwrap());
    let prices = written(folder, "prices.csv", |out| write_prices(records, out).unwrap());
    let mut both = read(&csv).unwrap().records;
    both.add(read(&prices).unwrap().records);
    both.reference = records.reference.clone();
    [("JSON", read(&json).unwrap().records), ("database", read(&db).unwrap().records), ("CSV", both)]
}

#[test]
fn nothing_is_lost_in_files() {
    let folder = TempDir::new().unwrap();
    for (kind, found) in through_files(&records(), folder.path()) {
        assert_eq!(found, records(), "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn nothing_is_lost_of_arbitrary_entries(
        entries in prop::collection::vec(
            ("[a-z(), \"+]{1,12}", prop::option::of(1_u32..), 1_u32..1000, 0.0_f64..1e12, any::<bool>(), any::<bool>()),
            0..20,
        ),
    ) {
        let mut records = Records::default();
        for (model, batch, devices, speed, is_spread, is_estimate) in entries {
            let mut key = key(model.trim(), batch, "v100", devices);
            if model.trim().is_empty() {
                continue;
            }
            if is_spread {
                key.place.locality = Locality::Spread;
            }
            records.insert(key, Facts { is_estimate, ..facts(speed) });
        }
        let folder = TempDir::new().unwrap();
        for (kind, found) in through_files(&records, folder.path()) {
            prop_assert_eq!(&found, &records, "{}", kind);
        }
    }
}

#[test]
fn runs_see_the_plain_plan_or_the_fastest_and_whole_pairs() {
    let profile = records().profile();
    let gpt = Workload { model: "gpt".into(), batch_size: Some(64) };
    let place = |device_type: &str, devices| Place {
        device_type: device_type.into(),
        devices,
        locality: Locality::Packed,
    };
    assert_eq!(profile.alone(&gpt, &place("a100", 8)), Some(0.5));
    let (a, b) = (Workload::from_label("a"), Workload::from_label("b (batch size 4)"));
    assert_eq!(profile.beside(&a, &b, &place("v100", 1)), Some([3.0, 2.0]));
    assert_eq!(profile.price("v100"), Some(2.4));
    let mut plain = records();
    plain.insert(key("gpt", Some(64), "a100", 8), facts(0.2));
    assert_eq!(plain.profile().alone(&gpt, &place("a100", 8)), Some(0.2));
    let mut half = records();
    half.retain(|key, _| key.workload != b);
    assert_eq!(half.profile().beside(&a, &b, &place("v100", 1)), None);
}

#[test]
fn runs_see_under_which_plan_a_speed_holds() {
    let folder = TempDir::new().unwrap();
    let mut records = records();
    let planned = |plan: &str| Key { plan: plan.to_owned(), ..key("bert", Some(128), "a40", 4) };
    records.insert(planned(""), facts(3.0));
    records.insert(planned("pp1.dp4.tp1"), Facts { is_estimate: true, ..facts(1.0) });
    records.insert(planned("pp2.dp2.tp1"), Facts { is_estimate: true, ..facts(2.0) });
    for (kind, found) in through_files(&records, folder.path()) {
        let profile = found.profile();
        assert_eq!(profile, records.profile(), "{kind}");
        let at = |model: &str, batch: u32, device_type: &str, devices| {
            let workload = profile.workload(model, Some(batch)).unwrap();
            let here = profile.device_type(device_type).unwrap();
            let data = profile.data_parallel(workload, here, devices, Locality::Packed);
            (
                profile.plan(workload, here, devices, Locality::Packed).map(wharf_perf::plan_name),
                data.map(|entry| entry.iterations_per_s),
            )
        };
        assert_eq!(at("bert", 128, "a40", 4), (Some("pp2.dp2.tp1".to_owned()), Some(1.5)), "{kind}");
        // `pp2-dp4` is only a name.
        assert_eq!(at("gpt", 64, "a100", 8), (Some("pp1.dp1.tp8".to_owned()), None), "{kind}");
        assert_eq!(at("lm", 20, "v100", 1), (None, None), "{kind}");
    }
}

#[test]
fn database_import_of_new_entries_is_reported() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("p.db");
    let first = database::add(&db, &records()).unwrap();
    assert_eq!((first.new.len(), first.changed.len(), first.equal, first.prices.len()), (7, 0, 0, 1));
    let mut more = Records::default();
    more.insert(key("lm", Some(20), "v100", 1), facts(21.0));
    more.insert(key("lm", Some(20), "a10", 1), facts(7.0));
    more.insert(key("lm", Some(20), "k80", 4), Facts { is_estimate: true, ..facts(0.0) });
    let second = database::add(&db, &more).unwrap();
    assert_eq!((second.new.len(), second.changed.len(), second.equal), (1, 1, 1));
    assert_eq!(second.changed[0].ratio(), Some(2.0));
    assert_eq!(read(&db).unwrap().records.entries().len(), 8);
}

#[test]
fn folder_is_merged_and_later_files_win() {
    let folder = TempDir::new().unwrap();
    let mut other = Records::default();
    other.insert(key("lm", Some(20), "v100", 1), facts(99.0));
    written(folder.path(), "1.json", |out| write_json(&records(), out).unwrap());
    written(folder.path(), "2.csv", |out| write_csv(&other, out).unwrap());
    written(folder.path(), "README.md", |out| out.extend(b"words"));
    written(folder.path(), "other.csv", |out| out.extend(b"a,b\n1,2\n"));
    std::fs::create_dir(folder.path().join("cifar")).unwrap();
    let table =
        "placement,local_bsz,step_time,sync_time\n4,32,0.5,0.1\n13,32,1.0,0.1\n22,32,1.5,0.1\n44,8,2,1\n";
    written(&folder.path().join("cifar"), "placements-rtx.csv", |out| out.extend(table.as_bytes()));
    written(&folder.path().join("cifar"), "validation-8.csv", |out| out.extend(b"progress,iteration\n1,2\n"));
    let found = read(folder.path()).unwrap();
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert_eq!(found.left_out, ["other.csv"]);
    let profile = load(folder.path()).unwrap();
    let cifar = |batch_size| Workload { model: "cifar".into(), batch_size: Some(batch_size) };
    let place = |devices, locality| Place { device_type: "rtx".into(), devices, locality };
    for (batch, devices, locality, speed) in
        [(128, 4, Locality::Packed, 2.0), (128, 4, Locality::Spread, 0.8), (64, 8, Locality::Packed, 0.5)]
    {
        assert_eq!(profile.alone(&cifar(batch), &place(devices, locality)), Some(speed), "{batch}");
    }
    let lm = Workload { model: "lm".into(), batch_size: Some(20) };
    let v100 = Place { device_type: "v100".into(), devices: 1, locality: Locality::Packed };
    assert_eq!(profile.alone(&lm, &v100), Some(99.0));
}

#[test]
fn malformed_profile_is_rejected() {
    let folder = TempDir::new().unwrap();
    let header = "model,batch_size,device_type,devices,iterations_per_s\n";
    let json = |rest: &str| format!(r#"{{"kind": "wharf-profile", {rest}}}"#);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty.json", vec![], "is no profile"),
        ("noise.db", (0..=255).collect(), "is no profile"),
        ("words.txt", b"hello".to_vec(), "is no profile"),
        ("cut.db", b"SQLite format 3\0".to_vec(), "cannot be used as a database"),
        ("other.csv", b"time,job\n1,2\n".to_vec(), "without the columns"),
        ("list.json", b"[1, 2]".to_vec(), "is no profile"),
        ("deep.json", "[".repeat(100_000).into_bytes(), "is no profile"),
        ("cut.json", json(r#""schema": 1, "entries": [{"model": "x""#).into_bytes(), "is no profile"),
        ("later.json", json(r#""schema": 7, "entries": []"#).into_bytes(), "version 7"),
        ("nan.csv", format!("{header}lm,1,v100,1,NaN\n").into_bytes(), "line 2: iterations_per_s"),
        ("negative.csv", format!("{header}lm,1,v100,1,-1\n").into_bytes(), "line 2: iterations_per_s"),
        ("none.csv", format!("{header}lm,1,v100,0,1\n").into_bytes(), "line 2: devices"),
        ("nameless.csv", format!("{header},1,v100,1,1\n").into_bytes(), "line 2: model"),
        ("word.csv", format!("{header}lm,many,v100,1,1\n").into_bytes(), "line 2"),
        ("short.csv", format!("{header}lm,1,v100\n").into_bytes(), "line 2: 3 columns"),
        (
            "twice.csv",
            format!("{header}lm,1,v100,1,1\nlm,1,v100,1,2\n").into_bytes(),
            "line 3: `lm (batch size 1)` occurs twice",
        ),
        ("gratis.csv", b"device_type,price_per_h\nv100,-2\n".to_vec(), "line 2: price_per_h"),
        ("latin.csv", [header.as_bytes(), b"\xe9,1,v100,1,1\n"].concat(), "cannot read"),
    ];
    for (name, bytes, part) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let message = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(part), "{name}: {message}");
        assert!(message.contains(name), "{name}: {message}");
    }
    let empty = TempDir::new().unwrap();
    assert!(read(empty.path()).unwrap_err().to_string().contains("has no profile in it"));
    assert!(read(Path::new("no such file")).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn other_programs_databases_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE entry (x); INSERT INTO entry VALUES (1)").unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    for message in
        [read(&path).unwrap_err().to_string(), database::add(&path, &records()).unwrap_err().to_string()]
    {
        assert!(message.contains("another program"), "{message}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let ours = folder.path().join("ours.db");
    database::add(&ours, &records()).unwrap();
    let connection = rusqlite::Connection::open(&ours).unwrap();
    connection.execute_batch("CREATE TABLE cell (x); INSERT INTO cell VALUES (5)").unwrap();
    database::add(&ours, &records()).unwrap();
    assert_eq!(connection.query_row("SELECT x FROM cell", [], |row| row.get::<_, i64>(0)).unwrap(), 5);
    connection.execute("UPDATE entry SET iterations_per_s = -1 WHERE model = 'lm'", []).unwrap();
    assert!(read(&ours).unwrap_err().to_string().contains("iterations_per_s: -1"));
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(read(&ours).unwrap_err().to_string().contains("version 99"));
}

#[test]
fn damaged_databases_are_reported_and_do_not_crash() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("p.db");
    database::add(&path, &wharf_profile::builtin()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for (case, bytes) in [
        ("cut", whole[..whole.len() / 2].to_vec()),
        (
            "overwritten",
            whole.iter().enumerate().map(|(at, &byte)| if at > 4096 { 0x55 } else { byte }).collect(),
        ),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let message = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("cannot be used as a database"), "{case}: {message}");
    }
}

#[test]
fn built_in_profile_is_there_by_name() {
    let profile = load(Path::new("default")).unwrap();
    assert_eq!(profile, wharf_profile::builtin().profile());
    assert!(profile.all_entries().all(|(_, _, entry)| entry.is_estimate));
}

#[test]
fn gavels_table_is_the_same_directly_and_through_the_database() {
    needs!(REFERENCE);
    let path = reference("gavel/simulation_throughputs.json");
    let profile = load(&path).unwrap();
    let place = |name: &str| Place { device_type: name.into(), devices: 1, locality: Locality::Packed };
    let resnet = Workload { model: "ResNet-50".into(), batch_size: Some(64) };
    let speeds = ["k80", "p100", "v100"].map(|name| profile.alone(&resnet, &place(name)).unwrap());
    assert!(speeds.is_sorted() && (speeds[2] - 4.395).abs() < 1e-3, "{speeds:?}");
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("gavel.db");
    database::add(&db, &read(&path).unwrap().records).unwrap();
    assert_eq!(load(&db).unwrap(), profile);
}

#[test]
fn sias_folder_has_all_models_and_types() {
    needs!(REFERENCE);
    let path = reference("sia/profiles");
    let profile = load(&path).unwrap();
    let mut models: Vec<&Arc<str>> = profile.entries().map(|(workload, ..)| &workload.model).collect();
    models.dedup();
    let names: Vec<&str> = models.iter().map(|model| &***model).collect();
    assert_eq!(names, ["bert", "cifar10", "deepspeech2", "gpt_pmp", "imagenet", "ncf", "yolov3"]);
    assert!(profile.device_type("aws").is_some() && profile.device_type("dgx-ext").is_some());
}

/// Single measurements of all databases of a folder, as its entries are.
#[test]
fn a_folder_has_the_measurements_of_its_databases() {
    let folder = TempDir::new().unwrap();
    let one = |key: &str| Measured {
        subject: Subject { kind: "layer".to_owned(), key: key.to_owned(), ..Subject::default() },
        seconds: 1.0,
        ..Measured::default()
    };
    for (file, key) in [("a.db", "blocks, 1 samples, 1/1"), ("b.db", "blocks, 2 samples, 1/1")] {
        database::add_measured(&folder.path().join(file), &records(), &[one(key)]).unwrap();
    }
    written(folder.path(), "notes.txt", |bytes| bytes.extend(b"no profile"));
    written(folder.path(), "table.csv", |bytes| write_csv(&records(), bytes).unwrap());
    let keys = |path: &Path| {
        let found = measurements(path).unwrap().into_iter();
        found.map(|one| one.subject.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(folder.path()), ["blocks, 1 samples, 1/1", "blocks, 2 samples, 1/1"]);
    assert_eq!(keys(&folder.path().join("b.db")), ["blocks, 2 samples, 1/1"]);
    assert!(keys(&folder.path().join("table.csv")).is_empty());
}
