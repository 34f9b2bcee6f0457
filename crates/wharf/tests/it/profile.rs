//! `wharf profile`, and runs with profiles.

use serde_json::Value;

use crate::marked::Marked;
use crate::sandbox::Sandbox;

const SPEEDS: &str = "\
model,batch_size,device_type,devices,iterations_per_s,source
lm,20,v100,1,10,bench 1
lm,20,v100,4,30,bench 1
lm,20,k80,1,2,bench 1
lm,20,k80,4,0,bench 1
";

const GAVEL: &str = r#"{
  "v100": {"('LM (batch size 5)', 1)": {"null": 4.0, "('A3C', 1)": [3.0, 1.5]}, "('A3C', 1)": {"null": 2.0}},
  "k80": {"('LM (batch size 5)', 1)": {"null": 1.0}, "('A3C', 1)": {"null": 1.0}}
}"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("speeds.csv", SPEEDS);
    sandbox.write("gavel.json", GAVEL);
    sandbox
}

fn json(sandbox: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&sandbox.wharf(&format!("{line} --output json")).ok()).unwrap()
}

#[test]
fn import_reports_new_changed_and_equal_entries() {
    let sandbox = sandbox();
    insta::assert_snapshot!(sandbox.wharf("profile import speeds.csv gavel.json --into lab.db").ok(), @r"
    new  changed  equal  prices
    10   0        0      0
    ");
    sandbox.write("more.csv", &SPEEDS.replace("v100,1,10", "v100,1,11").replace("k80,4,0", "a10,1,5"));
    sandbox.write("prices.csv", "device_type,price_per_h\nv100,2.5\n");
    let foreseen = json(&sandbox, "profile import more.csv prices.csv --into lab.db --dry-run");
    let done = json(&sandbox, "profile import more.csv prices.csv --into lab.db");
    for (document, is_dry) in [(&foreseen, true), (&done, false)] {
        assert_eq!(document["is_dry_run"], is_dry);
        assert_eq!((&document["new"], &document["equal"]), (&1.into(), &2.into()));
        assert_eq!(document["changed"][0]["entry"]["device_type"], "v100");
        assert_eq!(document["changed"][0]["ratio"], 1.1);
        assert_eq!(document["prices"], serde_json::json!(["v100"]));
    }
    let again = json(&sandbox, "profile import more.csv prices.csv --into lab.db");
    assert_eq!((&again["new"], &again["equal"]), (&0.into(), &4.into()));
    let shown = json(&sandbox, "profile show lab.db --model lm --type v100 --devices 1");
    let entry = &shown["entries"][0];
    assert_eq!((&entry["iterations_per_s"], &entry["source"]), (&11.0.into(), &"bench 1".into()));
    assert!(entry["recorded"].as_str().unwrap().ends_with('Z'), "{entry}");
}

#[test]
fn exported_profile_can_be_imported() {
    let sandbox = sandbox();
    sandbox.wharf("profile import gavel.json --into lab.db").ok();
    for name in ["out.csv", "out.json", "out.db"] {
        sandbox.wharf(&format!("profile export lab.db {name}")).ok();
        let said = sandbox.wharf(&format!("profile diff lab.db {name}"));
        assert_eq!(said.stderr, "0 changed; 6 equal; 0 only in the first, 0 only in the second\n", "{name}");
    }
    assert!(
        sandbox.read("out.csv").starts_with("model,batch_size,device_type,devices,locality,plan,beside,")
    );
    let there = sandbox.wharf("profile export lab.db out.csv").fails(4);
    assert!(there.contains("already exists") && there.contains("--force"), "{there}");
    sandbox.wharf("profile export lab.db out.csv --force --model A3C").ok();
    assert_eq!(sandbox.read("out.csv").lines().count(), 4);
    let piped = sandbox.wharf("profile export default - --to prices").ok();
    assert!(piped.starts_with("device_type,price_per_h,source\na10,"), "{piped}");
    sandbox.wharf("profile export lab.db - --to db").fails(2);
}

#[test]
fn query_answers_with_the_source() {
    let sandbox = sandbox();
    insta::assert_snapshot!(sandbox.wharf("profile query speeds.csv --model lm --batch-size 20 --devices 4").ok(), @r"
    type  devices  locality  plan  iterations/s  ms/iteration  how       source
    k80   4        packed    -     0             does not fit  measured  -
    v100  4        packed    -     30.0000       33.33         measured  bench 1
    ");
    insta::assert_snapshot!(
        sandbox.wharf("profile query speeds.csv --model mine --iteration-ms 100 --type v100,k80,gpu").ok(), @r"
    type  devices  locality  plan  iterations/s  ms/iteration  how        source
    v100  1        packed    -     10.0000       100.00        told       the job itself
    k80   1        packed    -     2.0000        500.00        estimated  worked out of other entries
    gpu   1        packed    -     10.0000       100.00        told       the job itself
    ");
    let beside = sandbox.shell(
        "\"$WHARF\" profile query gavel.json --model A3C --type v100 --beside 'LM (batch size 5)' --output json",
    );
    let beside: Value = serde_json::from_str(&beside.ok()).unwrap();
    assert_eq!(
        (&beside["answers"][0]["iterations_per_s"], &beside["answers"][0]["how"]),
        (&1.5.into(), &"measured".into())
    );
    let unknown = sandbox.wharf("profile query speeds.csv --model ml").fails(3);
    assert!(unknown.contains("no model `ml`"), "{unknown}");
    sandbox.wharf("profile query speeds.csv --model lm --iteration-ms -1").fails(2);
    sandbox.wharf("profile query speeds.csv --model lm --plan pp2").fails(3);
}

/// A small folder as Crius has it: exact times, memory, hardware, estimates by plan, communication, and something else.
fn crius_folder(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path().join("arena")).unwrap();
    sandbox.write(
        "arena/prof_database.json",
        r#"{"optimal": {"net_1B_64": {"1_a40_1_n_2_d": 4.0}, "net_2B_64": {"1_a40_1_n_1_d": 16.0}}}"#,
    );
    sandbox.write("arena/dp_mem.json", r#"[{"net_1B_64": [40, 25.5]}]"#);
    sandbox.write(
        "arena/hardware_specs.json",
        r#"{"NODE_CAPACITY": {"a40": 2}, "gpu_specs": {"a40": {"max_mem_gb": 48}},
            "supported_model_cfgs": {"net": {"param_num": ["1B", "2B"], "batch_size": [64]}}}"#,
    );
    sandbox.write(
        "arena/estimates.csv",
        "l1_key,l2_key,pp,dp,mp,iter_time_s\nnet_1B_64,1_a40_1_n_2_d,1,2,1,10\nnet_1B_64,1_a40_1_n_2_d,2,1,1,5\n",
    );
    sandbox.write(
        "arena/comm.csv",
        "gpu_type,num_hosts,gpus_per_host,op,replica_groups,num_f32_elements,time_s\n\
         a40,1,2,all-reduce,\"[[0,1]]\",1,0.001\na40,1,2,all-reduce,\"[[0,1]]\",1001,0.002\na40,1,2,send,,1,0.5\n",
    );
    sandbox.write("arena/macro_def.json", r#"{"PREC": 3}"#);
}

#[test]
fn exact_cells_go_through_the_database() {
    let sandbox = sandbox();
    crius_folder(&sandbox);
    let said = sandbox.wharf("profile import arena --into crius.db");
    assert_eq!(
        said.stderr,
        "skipped in `arena`, not profiles: `macro_def.json`\n\
         exact cells: 5 new, 0 changed, 0 equal\ncommunication: 3 new, 0 changed, 0 equal\n"
    );
    insta::assert_snapshot!(said.ok(), @r"
    new  changed  equal  prices
    2    0        0      0
    ");
    let diff = sandbox.wharf("profile diff arena crius.db -q --output json").ok();
    let diff: Value = serde_json::from_str(&diff).unwrap();
    assert_eq!(
        (&diff["changed"], &diff["only_before"], &diff["only_after"]),
        (&Value::Array(vec![]), &Value::Array(vec![]), &Value::Array(vec![]))
    );
    assert_eq!((&diff["cells"]["equal"], &diff["comm"]["equal"]), (&5.into(), &3.into()));
    for name in ["out.json", "out.db"] {
        sandbox.wharf(&format!("profile export crius.db {name}")).ok();
        let said = sandbox.wharf(&format!("profile diff crius.db {name}")).stderr;
        assert!(
            said.contains("0 changed;") && said.contains("exact cells: 0 new, 0 changed, 5 equal"),
            "{said}"
        );
    }
    insta::assert_snapshot!(
        sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --hosts 2 --per-host 1").ok(), @r"
    type  hosts  per host  samples/s  ms/iteration  by
    a40   2      1         14.4000    4444.44       the best locality
    ");
    insta::assert_snapshot!(
        sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --hosts 1 --per-host 1").ok(), @r"
    type  hosts  per host  samples/s  ms/iteration  by
    a40   1      1         7.2000     8888.89       a model 1 size larger
    ");
    insta::assert_snapshot!(
        sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --hosts 1 --per-host 1 --data-parallel").ok(), @r"
    type  hosts  per host  samples/s  ms/iteration  by
    a40   1      1         0          does not run  -
    ");
    insta::assert_snapshot!(
        sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --devices 2").ok(), @r"
    type  devices  locality  plan         iterations/s  ms/iteration  how       source
    a40   2        packed    pp2.dp1.tp1  0.2500        4000.00       measured  exact cells
    ");
    insta::assert_snapshot!(
        sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --devices 2 --data-parallel").ok(), @r"
    type  devices  locality  plan         iterations/s  ms/iteration  how        source
    a40   2        packed    pp1.dp2.tp1  0.1250        8000.00       estimated  entries by plan, and memory
    ");
    insta::assert_snapshot!(sandbox.wharf("profile show crius.db --cells").ok(), @r"
    model    batch size  type  hosts  per host  s/iteration
    net__1B  64          a40   1      2         4.0000
    net__2B  64          a40   1      1         16.0000
    ");
    let csv = sandbox.wharf("profile export crius.db - --model net__1B --devices 2").ok();
    assert!(csv.contains("net__1B,64,a40,2,packed,,,0.25,,false,exact cells,"), "{csv}");
    for (line, part) in [
        ("profile show speeds.csv --cells", "no exact cells"),
        ("profile query speeds.csv --model lm --batch-size 20 --hosts 1 --per-host 1", "no exact cells"),
        (
            "profile query speeds.csv --model lm --batch-size 20 --data-parallel",
            "no data for data parallelism",
        ),
    ] {
        let told = sandbox.wharf(line).fails(3);
        assert!(told.contains(part), "{line}: {told}");
    }
    sandbox.wharf("profile query crius.db --model net__1B --hosts 1 --per-host 1").fails(2);
    sandbox.wharf("profile query crius.db --model net__1B --batch-size 64 --hosts 1").fails(2);
}

#[test]
fn communication_is_reported() {
    let sandbox = sandbox();
    crius_folder(&sandbox);
    insta::assert_snapshot!(sandbox.wharf("profile comm arena -q").ok(), @r"
    type  hosts  per host  infiniband  operation   groups   sizes  most elements  ms of the most
    a40   1      2         no          send                 1      1              500.0000
    a40   1      2         no          all-reduce  [[0,1]]  2      1001           2.0000
    ");
    let ask = "profile comm arena/comm.csv --op all-reduce --elements";
    assert_eq!(json(&sandbox, &format!("{ask} 501"))["operations"][0]["seconds"], 0.0015);
    assert_eq!(json(&sandbox, &format!("{ask} 1002 --half"))["operations"][0]["seconds"], 0.0015);
    sandbox.wharf("profile comm arena --op broadcast").fails(2);
    assert!(sandbox.wharf("profile comm arena --type v100").fails(3).contains("no such measurements"));
    assert!(sandbox.wharf("profile comm speeds.csv").fails(3).contains("no communication times"));
}

#[test]
fn diff_has_ratios() {
    let sandbox = sandbox();
    sandbox.write("more.csv", &SPEEDS.replace("v100,4,30", "v100,4,45").replace("k80,4,0", "a10,1,5"));
    let said = sandbox.wharf("profile diff speeds.csv more.csv");
    assert_eq!(
        said.stderr,
        "1 changed, 1.500 times as fast in the mean; 2 equal; 1 only in the first, 1 only in the second\n"
    );
    insta::assert_snapshot!(said.ok(), @r"
    model  batch size  type  devices  locality  beside  before   after    ratio  how
    lm     20          v100  4        packed            30.0000  45.0000  1.500  measured
    ");
    let document = json(&sandbox, "profile diff speeds.csv more.csv");
    assert_eq!(document["only_after"][0]["device_type"], "a10");
    assert!((document["mean_ratio"].as_f64().unwrap() - 1.5).abs() < 1e-9, "{document}");
}

#[test]
fn built_in_profile_can_be_inspected() {
    let sandbox = sandbox();
    let shown = sandbox.wharf("profile show").ok();
    assert!(shown.contains("resnet50") && shown.contains("h100"), "{shown}");
    let prices = sandbox.wharf("profile show --prices").ok();
    assert!(prices.contains("built-in model"), "{prices}");
    let wrong = sandbox.wharf("profile show default --model resnet5").fails(3);
    assert!(wrong.contains("did you mean `resnet50`"), "{wrong}");
}

#[test]
fn malformed_profile_is_rejected_with_a_hint() {
    let sandbox = sandbox();
    sandbox.write("notes.txt", "speeds\n");
    for line in [
        "profile show jobs.csv",
        "profile show notes.txt",
        "profile show nowhere.db",
        "profile import jobs.csv --into new.db",
        "sim --trace jobs.csv --cluster 1x2 --policy fifo --profile jobs.csv",
    ] {
        let told = sandbox.wharf(line).fails(3);
        assert!(told.starts_with("error: "), "{line}: {told}");
        assert!(line.contains("nowhere") || told.contains("hint: a profile is"), "{line}: {told}");
    }
    assert!(!sandbox.path().join("new.db").exists());
}

const UNTOLD: &str = "\
job_id,submit_s,devices,iterations,iteration_ms,model,batch_size,device_types
a,0,1,100,,lm,20,v100
b,0,1,100,,lm,20,k80
";

#[test]
fn profile_sets_speeds_of_simulated_jobs() {
    let sandbox = sandbox();
    sandbox.write("untold.csv", UNTOLD);
    let run = "sim --cluster v100:1x1,k80:1x1 --policy fifo --set restart_s=0";
    let makespan = |rest: &str| json(&sandbox, &format!("{run} {rest}"))["runs"][0]["makespan_s"].clone();
    assert_eq!(makespan("--trace untold.csv --profile speeds.csv"), 50.0);
    let told = sandbox.wharf(&format!("{run} --trace untold.csv --profile gavel.json")).fails(3);
    assert!(told.contains("no speed is known of 2 jobs") && told.contains("`lm`"), "{told}");

    // Jobs that tell their speed run slower on the slower of two types that are known, and as they tell otherwise.
    sandbox.write(
        "told.csv",
        &UNTOLD.replace(",,lm,20", ",1000,mine,20").replace(",v100", ",").replace(",k80", ","),
    );
    let slow = makespan("--trace told.csv").as_f64().unwrap();
    assert!(slow > 200.0, "{slow}");
    assert_eq!(makespan("--trace told.csv --profile none"), 100.0);
    let plain =
        json(&sandbox, "sim --trace told.csv --cluster gpu:1x1,k80:1x1 --policy fifo --set restart_s=0");
    assert_eq!(plain["runs"][0]["makespan_s"], 100.0);
}

#[test]
fn misfits_are_kept_away_from_what_they_do_not_fit() {
    let sandbox = sandbox();
    sandbox.write(
        "large.csv",
        "job_id,submit_s,devices,iterations,iteration_ms,model,batch_size\na,0,4,300,,lm,20\nb,0,4,300,,lm,20\n",
    );
    let run = "sim --trace large.csv --policy fifo --set restart_s=0 --profile speeds.csv --cluster";
    let document = json(&sandbox, &format!("{run} k80:1x4,v100:1x4"));
    let makespan_s = document["runs"][0]["makespan_s"].as_f64().unwrap();
    assert!((makespan_s - 20.0).abs() < 1e-6, "both run on the v100s, one after the other: {makespan_s}");
    let told = sandbox.wharf(&format!("{run} k80:2x4")).fails(3);
    assert!(told.contains("fits no device type"), "{told}");
}

#[test]
fn a_replay_runs_at_the_speeds_of_the_profile() {
    let marked = Marked::new();
    std::fs::write(marked.path("speeds.csv"), SPEEDS).unwrap();
    // On the v100 100 iterations take 10 s, on the k80 50 s; ten times faster here.
    std::fs::write(marked.path("untold.csv"), UNTOLD).unwrap();
    let replay = [
        "replay",
        "--trace",
        "untold.csv",
        "--cluster",
        "v100:1x1,k80:1x1",
        "--policy",
        "fifo",
        "--profile",
        "speeds.csv",
        "--time-scale",
        "10",
        "--start-cost",
        "0",
    ];
    let told = marked.json(&[&replay[..], &["--dry-run"]].concat());
    let foreseen_s = told["prediction"]["makespan_s"].as_f64().unwrap();
    assert!((foreseen_s - 5.0).abs() < 1e-6, "{told}");
    marked.say(&[&replay[..], &["--out", "out"]].concat());
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(marked.path("out/summary.json")).unwrap()).unwrap();
    let real = summary["runs"][0]["makespan_s"].as_f64().unwrap_or_else(|| panic!("{summary}"));
    assert!((5.0..8.0).contains(&real), "{summary}");
    marked.assert_nothing_left();
}
