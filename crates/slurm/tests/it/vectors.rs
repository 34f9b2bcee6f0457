//! What real Slurm programs did, vector by vector; read from `../shared/data/vectors`.
use std::collections::BTreeMap;

use serde_json::Value;
use wharf_slurm::grammar::array::Array;
use wharf_slurm::grammar::environ::{Placed, Submission, submitted};
use wharf_slurm::grammar::export::{Variables, exported};
use wharf_slurm::grammar::filename::{Names, OUTPUT, OUTPUT_OF_ARRAY};
use wharf_slurm::grammar::getopt::{self, Given, Order};
use wharf_slurm::grammar::layout::Layout;
use wharf_slurm::grammar::limit::TimeLimit;
use wharf_slurm::grammar::outcome::{Outcome, State};
use wharf_slurm::grammar::shape::{NodeFacts, Unfit, shape};
use wharf_slurm::grammar::{Refusal, Request, Sources, dependency, hostlist, options, script, squeue};
use wharf_testing::{needs, reference};

/// Vectors in which Wharf is deliberately different, by file and input, with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("hostlist", "n[1-3,5", "brackets that are not closed are refused rather than read as a host `n]`"),
    ("hostlist", "n]1[", "brackets that are not closed are refused rather than read as a host `n]1]`"),
    ("env", "-N2 -n4", "all nodes of a gang have equally many devices: 2(x2) rather than 3,1"),
    (
        "env",
        "--exclusive (16 CPU, 4 GPU node)",
        "a job without GPUs never goes to GPU nodes: asked with --gres=gpu:1",
    ),
    (
        "dependency",
        "afterok:<unknown id>",
        "refused by the head, as since Slurm 23.02; not a matter of grammar",
    ),
];

fn is_different(file: &str, input: &str) -> bool {
    DIFFERENT.iter().any(|(other, text, _)| *other == file && *text == input)
}

/// The vectors of a file.
fn vectors(name: &str) -> Value {
    let path = reference("vectors").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn rows<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document[name].as_array().unwrap()
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} of {row}"))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().unwrap().iter();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// What sbatch makes of a script and a command line: exit code, options, and what it says.
fn sbatch(
    script: &str,
    given: &[Given],
    env: &BTreeMap<String, String>,
) -> (u8, BTreeMap<String, String>, Vec<String>) {
    let mut shown = BTreeMap::new();
    let mut notes = Vec::new();
    let mut unfit = None;
    let mut read = || -> Result<(), Refusal> {
        let script = script::accept(script.as_bytes())?;
        let variable = |name: &str| env.get(name).cloned();
        let sources = Sources { name: "s.sh", script, variable: &variable, command_line: given };
        let (request, said) = Request::read(&sources)?;
        // That something is ignored is Wharf's own to say.
        notes.extend(said.into_iter().filter(|note| !note.starts_with("warning: --")));
        shown = request.shown("<cwd>").into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        request.check()?;
        unfit = shape(&in_partition(request), &cluster()).err();
        Ok(())
    };
    match read() {
        Ok(()) if unfit.is_some() => {
            (1, shown, unfit.iter().map(|unfit| format!("allocation failure: {unfit}")).collect())
        }
        Ok(()) => (0, shown, notes.iter().map(|note| format!("sbatch: {note}")).collect()),
        Err(refusal) => (refusal.code(), shown, refusal.lines("sbatch")),
    }
}

fn command_line(words: &[String]) -> Result<Vec<Given>, Refusal> {
    getopt::parse(&options::sbatch(), words, Order::First).map(|parsed| parsed.given)
}

/// Nodes like those that the vectors were measured on. There every node had processors and GPUs to give; here it has one of them.
fn cluster() -> Vec<NodeFacts> {
    let node = |name: &str, partition: &str, device_type: &str, devices| NodeFacts {
        name: name.into(),
        partition: partition.into(),
        device_type: device_type.into(),
        devices,
        cpus: 16,
        memory_mib: 4000,
        features: vec!["ib".into(), "a100".into()],
    };
    let mut nodes = vec![node("g01", "debug", "a100", 4), node("c04", "debug", "cpu", 16)];
    nodes.extend(["c01", "c02", "c03"].map(|name| node(name, "xeon", "cpu", 16)));
    nodes
}

/// Wharf has no default partition; the vectors' one is `debug`.
fn in_partition(request: Request) -> Request {
    if request.has("partition") {
        return request;
    }
    let mut given: Vec<Given> = Vec::new();
    for option in options::sbatch() {
        if let Some(value) = request.get(option.long) {
            given.push(Given { name: option.name, value: Some(value.to_owned()) });
        }
    }
    given.push(Given { name: "partition", value: Some("debug".into()) });
    Request::of_command_line(&given).unwrap()
}

#[test]
fn directives() {
    needs!(REFERENCE);
    let document = vectors("directives");
    for row in rows(&document, "vectors") {
        let name = text(row, "name");
        let given = command_line(&strings(&row["cli"])).unwrap();
        let (code, shown, said) = sbatch(text(row, "script"), &given, &map(&row["env"]));
        let expected = strings(&row["diag"]);
        assert_eq!(shown, map(&row["opts"]), "{name}");
        assert_eq!((i64::from(code), said), (row["rc"].as_i64().unwrap(), expected), "{name}");
    }
}

#[test]
fn option_values() {
    needs!(REFERENCE);
    let document = vectors("option_values");
    for (name, rows) in document["groups"].as_object().unwrap() {
        for row in rows.as_array().unwrap() {
            check_value(name, row);
        }
    }
}

fn check_value(name: &str, row: &Value) {
    let value = text(row, "in");
    let words: Vec<String> = match name {
        "time" | "nodes" => vec!["-p".into(), "xeon".into(), format!("--{name}={value}")],
        // An empty word is none in a directive.
        "constraint" if value.is_empty() => vec!["-C".into()],
        "exclusive" => vec![format!("--exclusive{value}")],
        _ => vec![format!("--{name}={value}")],
    };
    let expected = strings(&row["diag"]);
    let (code, shown, said) = match command_line(&words) {
        Ok(given) => sbatch("#!/bin/sh\n", &given, &BTreeMap::new()),
        Err(refusal) => (refusal.code(), BTreeMap::new(), refusal.lines("sbatch")),
    };
    assert_eq!(shown, map(&row["opts"]), "{name} {value:?}");
    assert_eq!((i64::from(code), said), (row["rc"].as_i64().unwrap(), expected), "{name} {value:?}");
}

#[test]
fn arrays() {
    needs!(REFERENCE);
    let document = vectors("array");
    for row in rows(&document, "vectors") {
        let input = text(row, "in");
        match Array::parse(input, 1001) {
            Err(refusal) => assert_eq!(refusal.lines("sbatch"), [text(row, "error")], "{input}"),
            Ok(array) => {
                assert_eq!(array.to_string(), text(row, "canonical"), "{input}");
                assert_eq!(array.indexes.len() as u64, row["count"].as_u64().unwrap(), "{input}");
                let ids = row["ids"].as_array().unwrap();
                let ends = [ids.first(), ids.last()].map(|id| id.unwrap().as_u64().unwrap() as u32);
                assert_eq!([array.indexes[0], array.indexes[array.indexes.len() - 1]], ends, "{input}");
            }
        }
    }
}

#[test]
fn hostlists() {
    needs!(REFERENCE);
    let document = vectors("hostlist");
    for row in rows(&document, "vectors") {
        let input = text(row, "in");
        if is_different("hostlist", input) {
            assert!(hostlist::expand(input).is_err(), "{input}");
            continue;
        }
        match hostlist::expand(input) {
            Ok(names) => {
                assert_eq!(names, strings(&row["expand"]), "{input}");
                assert_eq!(hostlist::compress(&names), text(row, "compress"), "{input}");
            }
            Err(error) => assert_eq!(error.to_string(), text(row, "err").lines().last().unwrap(), "{input}"),
        }
    }
}

#[test]
fn file_names() {
    needs!(REFERENCE);
    let document = vectors("filename");
    let number = |row: &Value, name: &str| row[name].as_u64().map(|number| number as u32);
    for row in rows(&document, "vectors") {
        let array = number(row, "array_job").zip(number(row, "task"));
        let pattern = match row["pattern"].as_str() {
            Some(pattern) => pattern,
            None if array.is_some() => OUTPUT_OF_ARRAY,
            None => OUTPUT,
        };
        // Missing working directories are handled by the worker, and tested with one.
        let Some(expected) = row["out"].as_str() else { continue };
        let job = number(row, "job").unwrap_or(1);
        let names = Names { job, array, node: "vm", name: "nm", user: "root", task: None };
        assert_eq!(names.expand(pattern), expected, "{pattern}");
    }
}

#[test]
fn dependencies() {
    needs!(REFERENCE);
    let document = vectors("dependency");
    for row in rows(&document, "vectors") {
        let input = text(row, "in");
        let written =
            input.split(' ').next().unwrap().replace("<unknown", "99").replace('A', "11").replace('B', "12");
        match dependency::parse(&written) {
            Ok(read) => {
                assert!(!text(row, "res").contains("rc 1"), "{input}");
                assert_eq!(read.is_any, input.contains('?'), "{input}");
                assert_eq!(read.all.len(), input.matches(['A', 'B']).count().max(1), "{input}");
            }
            Err(refusal) => {
                assert!(text(row, "res").contains("rc 1"), "{input}");
                assert!(refusal.text.ends_with("Job dependency problem"), "{input}");
            }
        }
    }
    let read = dependency::parse("after:11+1").unwrap().all[0];
    assert_eq!((read.kind, read.job, read.minutes), (dependency::Kind::After, 11, 1));
    assert_eq!(dependency::parse("11").unwrap(), dependency::parse("afterany:11").unwrap());
    assert_eq!(dependency::parse("afterok:11_3").unwrap().all[0].index, Some(3));
}

#[test]
fn exports() {
    needs!(REFERENCE);
    let document = vectors("export");
    let shell: Variables =
        [("FOO", "foo"), ("BAR", "bar")].map(|(name, value)| (name.into(), value.into())).into();
    for row in rows(&document, "vectors") {
        let result = exported(row["in"].as_str(), &shell);
        for name in ["FOO", "BAR"] {
            let value = result.variables.get(name).map(String::as_str);
            assert_eq!(value, row[name].as_str(), "{name} of {}", row["in"]);
        }
        let is_all = row["in"].is_null() || row["in"] == "ALL";
        assert_eq!(result.said.is_none(), is_all, "{}", row["in"]);
    }
}

#[test]
fn exit_codes() {
    needs!(REFERENCE);
    let document = vectors("exitcodes");
    let outcome = |script: &str| match script {
        "exit 0" | "false; true" => Outcome::Exited(0),
        "exit 3" => Outcome::Exited(3),
        "exit 255" => Outcome::Exited(255),
        "kill -9 $$" => Outcome::Killed(9),
        "kill -15 $$" => Outcome::Killed(15),
        "child killed by 9, exit $?" | "srun task killed by 9" => Outcome::Exited(137),
        "/no/such/cmd (last command)" => Outcome::Exited(127),
        "srun exits 7" => Outcome::Exited(7),
        "srun -n2, tasks exit 0 and 5" => Outcome::Exited(5),
        "array 1-4, each exits its index" => Outcome::Exited(4),
        "scancel while running" => Outcome::Cancelled,
        "time limit" => Outcome::TimedOut,
        "output directory or workdir missing" => Outcome::NotLaunched,
        other => panic!("no outcome for {other}"),
    };
    for row in rows(&document, "batch") {
        let script = text(row, "script");
        let outcome = outcome(script);
        if let Some(state) = row["state"].as_str() {
            assert_eq!(outcome.state().names().1, state, "{script}");
            assert_eq!(State::of_name(state), Some(outcome.state()));
        }
        if let Some(exit) = row["exit"].as_str() {
            let expected = exit.split_whitespace().next().unwrap();
            assert_eq!(outcome.exit().to_string(), expected, "{script}");
        }
        if let Some(reason) = row["reason"].as_str() {
            assert_eq!(outcome.reason(), reason, "{script}");
        }
        if let Some(code) = row["sbatch_wait_rc"].as_u64() {
            assert_eq!(u64::from(outcome.wait_code()), code, "{script}");
        }
    }
}

#[test]
fn environment() {
    needs!(REFERENCE);
    let document = vectors("env");
    for row in rows(&document, "vectors") {
        let opts = text(row, "opts");
        let typed = if is_different("env", opts) && opts.starts_with("--exclusive") {
            "--exclusive --gres=gpu:1"
        } else {
            opts
        };
        let variables = variables_of(typed);
        for (name, value) in map(&row["set"]) {
            if is_different("env", opts) && value == "3,1" {
                assert_eq!(variables[&name], "2(x2)", "{opts}");
                continue;
            }
            // The worker shows a process its devices by the same numbers.
            let name = if name == "CUDA_VISIBLE_DEVICES" { "SLURM_JOB_GPUS" } else { &name };
            assert_eq!(variables.get(name), Some(&value), "{name} with {opts:?}");
        }
        for name in strings(&row["unset"]) {
            assert!(!variables.contains_key(&name), "{name} with {opts:?}");
        }
        // What the worker adds itself.
        let added = ["SLURM_TASK_PID", "TMPDIR"];
        for name in strings(&document["always"]).iter().filter(|name| !added.contains(&name.as_str())) {
            let name = name.split('=').next().unwrap();
            assert!(variables.contains_key(name), "{name} with {opts:?}");
        }
    }
}

/// The variables of a batch script with these options, on the first nodes that will do.
fn variables_of(typed: &str) -> Variables {
    let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
    let request = Request::of_command_line(&command_line(&words).unwrap()).unwrap();
    let nodes = cluster();
    let shape = shape(&request, &nodes).unwrap();
    let array = request.array(1001).unwrap();
    let facts = Submission { folder: "/f", host: "h", array: array.as_ref(), export: None, uid: 0, gid: 0 };
    let mut variables = submitted(&request, &shape, &facts);
    let each = shape.devices / shape.nodes;
    let is_it = |node: &&NodeFacts| {
        shape.device_types.contains(&node.device_type)
            && (shape.names.is_empty() || shape.names.contains(&node.name))
    };
    let chosen: Vec<&NodeFacts> = nodes.iter().filter(is_it).take(shape.nodes as usize).collect();
    let names: Vec<String> = chosen.iter().map(|node| node.name.clone()).collect();
    let is_cpu = shape.device_types == ["cpu"];
    let cpus = if is_cpu { each } else { chosen[0].cpus * each / chosen[0].devices };
    let placed = Placed {
        job: 7,
        array: array.map(|array| (7, array.indexes[0])),
        name: "nm",
        user: "root",
        partition: "debug",
        cluster: "wharf",
        nodes: &names,
        cpus: &vec![cpus; names.len()],
        tasks: shape.tasks,
        cpus_per_task: shape.cpus_per_task,
        gpus: &if is_cpu { Vec::new() } else { (0..each).collect::<Vec<u32>>() },
        rank: 0,
        restarts: 0,
    };
    variables.extend(placed.variables());
    variables
}

#[test]
fn job_without_a_possible_node_is_refused_with_a_reason() {
    let rows = [
        ("-p nowhere", Unfit::Partition),
        ("-w c99", Unfit::Node),
        ("-x c99", Unfit::Node),
        ("-C infiniband", Unfit::Feature),
        ("-N9", Unfit::Configuration),
        ("--gres=gpu:5", Unfit::Configuration),
        ("-p debug -x c04", Unfit::NoCpuNodes),
    ];
    for (typed, expected) in rows {
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let request = Request::of_command_line(&command_line(&words).unwrap()).unwrap();
        assert_eq!(shape(&request, &cluster()), Err(expected), "{typed}");
    }
}

fn job(id: &str, job: u32, name: &str, state: State, used_s: u64, nodes: &[&str]) -> squeue::Job {
    squeue::Job {
        id: id.into(),
        job,
        array: job,
        index: None,
        name: name.into(),
        user: "root".into(),
        account: String::new(),
        partition: "xeon".into(),
        state,
        reason: if state == State::Pending { "JobArrayTaskLimit".into() } else { "None".into() },
        used_s,
        limit: TimeLimit::Unlimited,
        nodes: nodes.len().max(1) as u32,
        nodelist: hostlist::compress(nodes),
        cpus: 1,
        gres: String::new(),
        priority: 0,
        times: Default::default(),
        workdir: String::new(),
        command: String::new(),
        dependency: String::new(),
        features: String::new(),
        exit: String::new(),
    }
}

fn printed(format: &str, jobs: &[squeue::Job]) -> Vec<String> {
    let layout = Layout::parse(format);
    let titles: Vec<String> = layout.letters().map(|letter| squeue::title(letter).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        jobs.iter().map(|job| layout.letters().map(|letter| job.field(letter)).collect()).collect();
    layout.lines(Some(&titles), &rows)
}

#[test]
fn squeue_prints_as_it_does() {
    needs!(REFERENCE);
    let document = vectors("squeue");
    for (name, format) in [
        ("default", squeue::DEFAULT),
        ("long", squeue::LONG),
        ("steps", squeue::STEPS),
        ("start", squeue::START),
        ("sort_default", squeue::SORT),
        ("sort_steps", squeue::SORT_STEPS),
    ] {
        assert_eq!(format, text(&document, name), "{name}");
    }
    let mut jobs = [
        job("133_1", 134, "arr", State::Running, 2, &["c03"]),
        job("132", 132, "averyveryverylongjobname", State::Running, 2, &["c01", "c02"]),
        job("133_[3-6%2]", 133, "arr", State::Pending, 0, &[]),
    ];
    squeue::sort(&mut jobs, squeue::SORT);
    let lines = printed(squeue::DEFAULT, &jobs);
    assert_eq!(lines[0], text(&document, "header"));
    assert_eq!(lines[1..], strings(&document["rows"]));
    let long = job("1", 1, "averyveryverylongjobname", State::Running, 0, &["n"]);
    for rule in rows(&document, "format_rules") {
        let (format, is_header) = match text(rule, "fmt").strip_suffix(" header") {
            Some(format) => (format, true),
            None => (text(rule, "fmt"), false),
        };
        let lines = printed(format, std::slice::from_ref(&long));
        assert_eq!(lines[usize::from(!is_header)], text(rule, "out"), "{format}");
    }
}

#[test]
fn tasks_for_each_gpu_follow_from_gpus_and_gpus_from_tasks() {
    for (words, tasks, devices) in [
        (&["--gpus=2", "--ntasks-per-gpu=3"][..], 6, 2),
        (&["-N1", "--gres=gpu:4", "--ntasks-per-gpu=2"], 8, 4),
        (&["-n8", "--ntasks-per-gpu=2"], 8, 4),
        (&["-n3", "--gpus=2", "--ntasks-per-gpu=2"], 3, 2),
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let request = Request::of_command_line(&command_line(&words).unwrap()).unwrap();
        let shape = shape(&request, &cluster()).unwrap();
        assert_eq!((shape.tasks, shape.devices), (tasks, devices), "{words:?}");
    }
}
