//! `wharf profile run` and `capture`: with a real JAX, named by `WHARF_TEST_PYTHON` (else `python3`), on XLA's host devices.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use wharf_testing::component::python_with_jax;
use wharf_testing::needs;

use crate::sandbox::{Sandbox, program};

/// Two layers that can be split in every way.
const MODEL: &str = "
import jax, jax.numpy as jnp
from wharf.profiler import Stack

def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32)

def small():
    print('what a file says comes between no answers')
    return Stack(
        first=lambda params, x: x @ params['into'],
        block=lambda params, x, total: x + total(jnp.tanh(x @ params['up']) @ params['down']),
        last=lambda params, x, batch: jnp.mean(x * x),
        params={'first': {'into': shape(8, 32)}, 'blocks': {'up': shape(2, 32, 128), 'down': shape(2, 128, 32)}, 'last': {}},
        batch=shape(4, 8),
        split={'up': 1, 'down': 0},
    )
";

fn json(sandbox: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&sandbox.wharf(&format!("{line} --output json")).ok()).unwrap()
}

fn count(document: &Value, kind: &str, what: &str) -> u64 {
    let of_kind = |one: &&Value| one["kind"] == kind;
    document["results"].as_array().unwrap().iter().find(of_kind).unwrap()[what].as_u64().unwrap()
}

#[test]
fn unmeasurable_model_is_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    sandbox.write("model.py", MODEL);
    // Without its libraries a Python has no JAX, whatever is installed.
    sandbox.write("bare", "#!/bin/sh\nexec python3 -S \"$@\"\n");
    sandbox.shell("chmod +x bare").ok();
    let told = sandbox.wharf("profile run --into lab.db --python ./bare").fails(3);
    assert!(told.contains("has no JAX") && told.contains("pip install jax"), "{told}");
    let told = sandbox.wharf("profile capture model.py:small --python ./nowhere").fails(3);
    assert!(told.contains("cannot start `./nowhere`") && told.contains("--python"), "{told}");
    // A database that cannot take anything is found out before anything is measured.
    sandbox.write(
        "notes.txt",
        "not a profile at all, and longer than the head of a database would be\n".repeat(20).as_str(),
    );
    let told = sandbox.wharf("profile run --into notes.txt --python ./nowhere").fails(3);
    assert!(told.contains("notes.txt"), "{told}");
    sandbox.wharf("profile import default --into cut.db").ok();
    let whole = std::fs::read(sandbox.path().join("cut.db")).unwrap();
    std::fs::write(sandbox.path().join("cut.db"), &whole[..whole.len() / 2]).unwrap();
    let told = sandbox.wharf("profile run --into cut.db --python ./nowhere").fails(3);
    assert!(told.contains("cut.db"), "{told}");
    let told = sandbox.wharf("profile capture model.py:small --to model.txt").fails(2);
    assert!(told.contains(".json"), "{told}");
    assert!(!sandbox.path().join("lab.db").exists());
    let told = sandbox.wharf("profile run model.py:small --into lab.db --what plans").fails(2);
    assert!(told.contains("--plan pp2.dp4"), "{told}");
    // An empty file is a new database.
    sandbox.write("lab.db", "");
    let told = sandbox.wharf("profile run --into lab.db --python ./nowhere").fails(3);
    assert!(told.contains("cannot start `./nowhere`"), "{told}");
}

#[test]
fn measurements_are_kept_and_not_taken_twice() {
    needs!(JAX);
    let python = python_with_jax();
    let sandbox = Sandbox::new();
    sandbox.write("model.py", MODEL);
    let run = format!(
        "profile run model.py:small --into lab.db --type host --host-devices 2 --python {python} --rounds 1"
    );

    let told = sandbox.wharf(&format!("{run} --what plans --plan pp3")).fails(3);
    assert!(told.contains("pp3.dp1.tp1.mb1 needs 3 devices, and there are 2"), "{told}");
    let told = sandbox.wharf(&format!("{run} --what plans --plan dp2.mb4")).fails(3);
    assert!(
        told.contains("4 samples cannot be split over 8 replicas x microbatches; 1, 2, 4 can be"),
        "{told}"
    );
    let told = sandbox.wharf(&run.replace("small", "smal")).fails(3);
    assert!(told.contains("has no function `smal`; did you mean `small`?"), "{told}");

    let plans = format!("{run} --what plans --plan dp2 --plan pp2.mb2 --plan tp2 --plan tp2.mb4");
    let first = json(&sandbox, &plans);
    assert_eq!((count(&first, "plan", "measured"), count(&first, "plan", "known")), (4, 0));
    let again = json(&sandbox, &format!("{plans} --plan dp1"));
    assert_eq!((count(&again, "plan", "measured"), count(&again, "plan", "known")), (1, 4));
    let entries = json(&sandbox, "profile show lab.db --model model.small");
    let named: Vec<&str> =
        entries["entries"].as_array().unwrap().iter().map(|entry| entry["plan"].as_str().unwrap()).collect();
    assert_eq!(named, ["pp1.dp1.tp1", "pp1.dp1.tp2", "pp1.dp2.tp1", "pp2.dp1.tp1"]);
    let rows = json(&sandbox, "profile show lab.db --measured");
    let row = &rows["measured"][0];
    assert!(row["versions"].as_str().unwrap().contains("jax ") && row["machine"] != "", "{row}");

    // Keeping everything is another way to run: it is not reported as the usual one.
    let before = json(&sandbox, "profile show lab.db --model model.small")["entries"].clone();
    let kept = json(&sandbox, &format!("{plans} --no-recompute"));
    assert_eq!(count(&kept, "plan", "measured"), 4);
    assert_eq!(json(&sandbox, "profile show lab.db --model model.small")["entries"], before);
    // Rounds that are missing are made up for.
    let three = json(&sandbox, &format!("{} --rounds 3", plans.replace(" --rounds 1", "")));
    assert_eq!(count(&three, "plan", "measured"), 4);
    let rounds = |rows: &Value, plan: &str| {
        let rows = rows["measured"].as_array().unwrap();
        let is_same = |row: &&Value| row["key"].as_str().unwrap() == format!("{plan}, 4 samples");
        let row = rows.iter().find(is_same).unwrap();
        (row["rounds"].as_u64().unwrap(), row["seconds"].as_f64().unwrap())
    };
    assert_eq!(rounds(&json(&sandbox, "profile show lab.db --measured"), "pp1.dp2.tp1.mb1").0, 3);
}

/// What is measured again counts, also where it is slower; and so does what was edited.
#[test]
fn new_measurement_replaces_the_old_one() {
    needs!(JAX);
    let python = python_with_jax();
    let sandbox = Sandbox::new();
    sandbox.write("model.py", MODEL);
    let run = format!(
        "profile run model.py:small --into lab.db --type host --host-devices 2 --python {python} --rounds 1"
    );
    let plans = format!("{run} --what plans,operators,layers --plan dp2");
    let first = json(&sandbox, &plans);
    sandbox.write("model.py", &MODEL.replace("128", "1280"));
    let edited = json(&sandbox, &plans);
    assert_eq!((count(&first, "plan", "measured"), count(&edited, "plan", "known")), (1, 0));
    // First and last part are as they were, and the optimizer's step of other numbers of parameters is another one.
    assert_eq!(count(&edited, "layer", "known"), 6);
    assert_eq!(
        json(&sandbox, &plans)["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["measured"].as_u64().unwrap())
            .sum::<u64>(),
        0
    );

    // The entry states what the measurement does, as if the first had been a quick one.
    let entry = |sandbox: &Sandbox| {
        json(sandbox, "profile show lab.db --model model.small")["entries"][0]["iterations_per_s"]
            .as_f64()
            .unwrap()
    };
    let seconds = |sandbox: &Sandbox| {
        let rows = json(sandbox, "profile show lab.db --measured");
        let rows = rows["measured"].as_array().unwrap();
        rows.iter().find(|row| row["kind"] == "plan").unwrap()["seconds"].as_f64().unwrap()
    };
    assert!((entry(&sandbox) * seconds(&sandbox) - 1.0).abs() < 1e-9);
    for _ in 0..3 {
        sandbox.wharf(&format!("{plans} --again --what plans")).ok();
        assert!((entry(&sandbox) * seconds(&sandbox) - 1.0).abs() < 1e-9, "slower or not");
    }
}

/// Only what the present model and batch have counts in what devices reach.
#[test]
fn devices_are_described_from_what_is_measured_now() {
    needs!(JAX);
    let python = python_with_jax();
    let sandbox = Sandbox::new();
    sandbox.write("model.py", MODEL);
    let loss = "def plain():\n    return (lambda p, x: jnp.mean((x @ p) ** 2), shape(8, 8), shape(4, 8))\n";
    sandbox.write(
        "loss.py",
        &format!(
            "import jax, jax.numpy as jnp\n{}{loss}",
            &MODEL[MODEL.find("def shape").unwrap()..MODEL.find("def small").unwrap()]
        ),
    );
    let run = |more: &str| {
        format!("profile run {more} --into lab.db --type host --host-devices 2 --python {python} --rounds 1")
    };
    let large = run("model.py:small --what operators --batch 512 --hardware large.json");
    sandbox.wharf(&large).ok();
    let alone = sandbox.read("large.json");
    sandbox.wharf(&run("model.py:small --what operators --batch 4 --hardware small.json")).ok();
    sandbox.wharf(&large).ok();
    assert_eq!(sandbox.read("large.json"), alone, "nothing of other batches");
    let told = sandbox.wharf(&run("loss.py:plain --what layers")).fails(3);
    assert!(told.contains("no layers to measure") && told.contains("wharf.profiler.Stack"), "{told}");
}

/// The example of the documents, small: a model is captured, devices are measured, plans ranked, and run.
#[test]
fn a_model_is_captured_measured_planned_and_run() {
    needs!(JAX);
    let python = python_with_jax();
    let sandbox = Sandbox::new();
    sandbox.write("model.py", MODEL);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiling/end_to_end.py");
    let small = "--model model.py:small --devices 2 --batch 4 --rounds 1 --trial";
    let told = sandbox
        .shell(&format!(
            "{python} {script} --wharf {} --python {python} {small} --work work --figure plans.svg",
            program().display()
        ))
        .ok();
    assert!(told.contains("pairs differ by more than a tenth") && told.contains("pp2.dp1.tp1"), "{told}");
    assert!(sandbox.read("plans.svg").contains("pp1.dp2.tp1"));

    let described: Value = serde_json::from_str(&sandbox.read("work/hardware.json")).unwrap();
    let device = &described["devices"][0];
    assert_eq!((&device["name"], &device["per_node"]), (&"host".into(), &2.into()));
    let reached = |name: &str| device[name].as_f64().unwrap();
    assert!(reached("single_tflops") > 0.0 && reached("memory_gb_per_s") > 0.0, "{device}");
    let model: Value = serde_json::from_str(&sandbox.read("work/model.json")).unwrap();
    let layers = model["layers"].as_array().unwrap();
    let parameters =
        |layer: &Value| layer["parameters"].as_f64().unwrap() * layer["repeat"].as_f64().unwrap();
    assert_eq!(layers.iter().map(parameters).sum::<f64>() as u64, 8 * 32 + 2 * 2 * 32 * 128);
    assert_eq!((&model["splits"], &layers[1]["part"]), (&128.into(), &"blocks".into()));
    let comm = sandbox.wharf("profile comm work/lab.db --type host --op all-reduce --elements 1000").ok();
    assert!(comm.contains("[[0,1]]"), "{comm}");

    // What was measured of layers is what the planner counts with, and of whole plans what it tells.
    let plan = "plan --model work/model.json --batch 4 --gpus host:2 --hardware work/hardware.json --top 9";
    let (with, without) = (json(&sandbox, &format!("{plan} --profile work/lab.db")), json(&sandbox, plan));
    let parts = |document: &Value, of: &str| {
        let plans = document["gangs"][0]["plans"].as_array().unwrap();
        let one = plans.iter().find(|plan| plan["plan"] == of).unwrap();
        (one["estimate_s"]["compute"].as_f64().unwrap(), one["source"].as_str().unwrap().to_owned())
    };
    for of in ["p2 d1 t1", "p1 d2 t1", "p1 d1 t2"] {
        let (measured, estimated) = (parts(&with, of), parts(&without, of));
        assert_eq!((measured.1.as_str(), estimated.1.as_str()), ("measured", "estimated"), "{of}");
        assert!(
            measured.0 > 0.0 && (measured.0 - estimated.0).abs() > 1e-9,
            "{of}: {measured:?} {estimated:?}"
        );
    }
}

#[test]
fn an_interruption_keeps_what_is_done() {
    needs!(JAX);
    let python = python_with_jax();
    let sandbox = Sandbox::new();
    let words =
        format!("profile run --into lab.db --type host --host-devices 2 --python {python} --rounds 60000");
    let mut child = sandbox.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The file is there when the first measurement is.
    while !sandbox.path().join("lab.db").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("the same command continues"), "{told}");
    let rows = json(&sandbox, "profile show lab.db --measured");
    assert!(!rows["measured"].as_array().unwrap().is_empty());
    // What was visited once is enough for one round.
    let known = rows["measured"].as_array().unwrap().len() as u64;
    let rest = json(&sandbox, &words.replace("60000", "1"));
    assert_eq!(count(&rest, "collective", "known"), known);
    assert_eq!(count(&rest, "collective", "measured") + known, 25);
}
