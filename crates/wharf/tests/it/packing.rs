//! `--preset fgd`: pods with CPUs, memory and parts of GPUs.

use serde_json::Value;

use crate::sandbox::Sandbox;

const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
a,4000,8192,1,500,T4
b,4000,8192,1,500,T4
c,8000,16384,2,1000,G2
d,1000,1024,0,0,
";

const NODES: &str = "\
sn,cpu_milli,memory_mib,gpu,model
n0,16000,65536,2,T4
n1,32000,131072,2,G2
";

const SIM: &str = "sim --preset fgd --trace pods.csv --cluster nodes.csv";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("pods.csv", PODS);
    sandbox.write("nodes.csv", NODES);
    sandbox
}

#[test]
fn runs_have_curves_by_requested_share() {
    let sandbox = sandbox();
    let said = sandbox.wharf(&format!("{SIM} --policy all --set load=0.75 --seed 42 --output json"));
    assert_eq!(said.stderr, "", "nothing is unfinished: no time passes");
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["fgd", "fgd-best-fit", "fgd-dot-prod", "fgd-gpu-clustering", "fgd-gpu-packing"]);
    for run in runs {
        // All four pods fit, whatever their order: three of the four GPUs are held.
        assert_eq!((&run["jobs"], &run["arrivals"], &run["placed"]), (&4.into(), &4.into(), &4.into()));
        for curve in ["allocation", "fragmentation", "fragmentation_ratio"] {
            assert_eq!(run[curve].as_array().unwrap().len(), 76, "{curve}");
        }
        assert_eq!(run["allocation"][75], 75.0);
        assert_eq!(run["allocation"][74], Value::Null);
        assert!(run["avg_jct_s"].is_null());
    }
    let text = sandbox.wharf(&format!("{SIM} --policy fgd,fgd-best-fit --set load=0.75")).ok();
    let header = text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(header, "policy arrivals placed allocated % fragmented % of idle %", "{text}");
    let again = sandbox.wharf(&format!("{SIM} --policy fgd --set load=0.75 --output plain")).ok();
    assert!(
        again
            .lines()
            .next()
            .unwrap()
            .ends_with("arrivals\tplaced\tallocation\tfragmentation\tfragmentation_ratio")
    );
}

#[test]
fn placements_are_recorded_and_explained() {
    let sandbox = sandbox();
    sandbox.wharf(&format!("{SIM} --policy fgd --set load=0.75 --out out --report page.html")).ok();
    let events = sandbox.read("out/pods-fgd-load-0.75/events.jsonl");
    assert_eq!(events.lines().filter(|line| line.contains("\"start")).count(), 4, "{events}");
    let told = sandbox.wharf(&format!("{SIM} --policy fgd --set load=0.75 --explain c")).ok();
    assert!(told.contains("it runs on "), "{told}");
}

#[test]
fn sweeps_read_pods_for_this_preset_only() {
    let sandbox = sandbox();
    let scenario = "name = \"pods\"\nabout = \"Pods\"\n[[matrix]]\nlabel = \"pods\"\ntraces = [\"pods.csv\"]\n\
                    clusters = [\"nodes.csv\"]\npresets = [\"fgd\"]\npolicies = [\"fgd\", \"fgd-gpu-packing\"]\nseeds = [1, 2]\n";
    sandbox.write("pods.toml", scenario);
    let said = sandbox.wharf("sweep pods.toml --out swept --data .");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

#[test]
fn inputs_that_are_no_pods_or_nodes_name_file_line_and_column() {
    let sandbox = sandbox();
    let pods = |rows: &str| format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n{rows}");
    for (name, text, words, expected) in [
        (
            "several.csv",
            pods("a,1,1,2,500,\n"),
            "--trace several.csv --cluster nodes.csv --policy fgd",
            "several.csv:2:gpu_milli: error[device-part]: found 500 of each of 2 GPUs, expected 1000: several GPUs are whole ones",
        ),
        (
            "above.csv",
            pods("a,1,1,1,1000,\nb,1,1,1,1500,\n"),
            "--trace above.csv --cluster nodes.csv --policy fgd",
            "above.csv:3:gpu_milli: error[device-part]: found 1500, expected 1 to 1000: thousandths of one GPU",
        ),
        (
            "column.csv",
            pods("").replace("gpu_spec", "gpu_type"),
            "--trace column.csv --cluster nodes.csv --policy fgd",
            "column.csv:1:gpu_type: error[unknown-column]: unknown column `gpu_type`",
        ),
        (
            "bad-nodes.csv",
            NODES.replace("16000", "16x"),
            "--trace pods.csv --cluster bad-nodes.csv --policy fgd",
            "bad-nodes.csv:2:cpu_milli: error[not-a-number]: found `16x`, expected a number",
        ),
        (
            "half.csv",
            NODES.replace("16000", "16500"),
            "--trace pods.csv --cluster half.csv --policy fgd",
            "half.csv:2:cpu_milli: error[not-an-integer]: found 16500, expected whole CPUs: a multiple of 1000",
        ),
    ] {
        sandbox.write(name, &text);
        let told = sandbox.wharf(&format!("sim --preset fgd {words}")).fails(3);
        assert!(told.starts_with(&format!("error: {expected}")), "{told}");
    }
    let told = sandbox.wharf(&format!("{SIM} --policy fifo")).fails(2);
    assert!(told.starts_with("error: policy `fifo` cannot run under preset `fgd`"), "{told}");
    let told = sandbox.wharf(&format!("{SIM} --policy fgd --rounds 3")).fails(2);
    assert!(told.starts_with("error: policy `fgd` has no rounds under preset `fgd`"), "{told}");
    let other = "--format openb-pods --trace pods.csv --cluster nodes.csv --policy fifo";
    let told = sandbox.wharf(&format!("sim --preset muri {other}")).fails(3);
    let expected = "error: job `a` (row 1 of the trace) asks for more than whole devices, which preset `muri` does not simulate\n";
    assert!(told.starts_with(expected), "{told}");
    // These pods have no times.
    let told = sandbox.wharf(&format!("sim {other}")).fails(3);
    assert!(told.contains("job `a` has neither `iteration_ms` nor a model"), "{told}");
    let listed = sandbox.wharf("trace lint pods.csv --cluster nodes.csv --preset fgd");
    assert_eq!(listed.code, Some(0), "{}{}", listed.stdout, listed.stderr);
}
