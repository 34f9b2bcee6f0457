//! Job files, good and bad: the specs and the errors that they become.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::shown::document;
use super::{
    Container, Context, EXAMPLE_JSON, EXAMPLE_TOML, EXAMPLE_YAML, Executor, Format, Job, JobError, Mount,
    Planned, SlurmExecutor, Source, job, plan,
};

/// An error as the command line prints it.
pub(crate) fn rendered(error: &JobError) -> String {
    let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    format!("error: {error}\n{hint}")
}

fn context() -> Context {
    Context {
        account: String::new(),
        workdir: "/here".into(),
        folder: "/files".into(),
        user: "ann".into(),
        now_s: 1000.0,
        shell: [("HOME", "/h/ann"), ("EDITOR", "vi")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        no_container: false,
    }
}

fn planned(text: &str, format: Format) -> Result<Vec<Planned>, String> {
    let source = Source { name: "job", text, format };
    plan(Some(source), &Job::default(), &context()).map_err(|error| rendered(&error))
}

/// A YAML job's spec, without what every job has.
fn spec(text: &str) -> Value {
    let mut shown = document(&planned(text, Format::Yaml).unwrap_or_else(|error| panic!("{text}\n{error}")));
    let mut spec = shown["jobs"][0].take();
    let fields = spec.as_object_mut().unwrap();
    fields.retain(|name, value| {
        let usual = match name.as_str() {
            "name" => json!("true"),
            "command" => json!(["true"]),
            "user" => json!("ann"),
            "workdir" => json!("/here"),
            "grace_s" => json!(10.0),
            "gang" => json!({ "devices": 1 }),
            "env" => json!({ "HOME": "/h/ann" }),
            _ => return true,
        };
        *value != usual
    });
    spec
}

/// What is said of a document that is refused.
fn refusal(text: &str, format: Format) -> String {
    planned(text, format).expect_err(text)
}

#[test]
fn job_without_a_name_has_that_of_its_script() {
    for (command, expected) in [
        ("./train.sh --lr 1", "./train.sh"),
        ("python3.11 -u runs/train.py --config a.py", "train.py"),
        ("python -m http.server", "http.server"),
        ("env X=1 python train.py", "train.py"),
        ("torchrun --nproc_per_node=1 train.py", "train.py"),
        ("sh -c 'cd runs; python3 old/train.py --lr 1'", "train.py"),
        ("bash -c 'sleep 1'", "bash"),
        ("python3", "python3"),
    ] {
        let text = serde_json::to_string(&json!({ "command": command })).unwrap();
        let shown = document(&planned(&text, Format::Json).unwrap());
        assert_eq!(shown["jobs"][0]["name"], expected, "{command}");
    }
}

#[test]
fn every_form_gives_the_same_spec() {
    let yaml = planned(EXAMPLE_YAML, Format::Yaml).unwrap();
    for (text, format) in [(EXAMPLE_TOML, Format::Toml), (EXAMPLE_JSON, Format::Json)] {
        assert_eq!(document(&planned(text, format).unwrap()), document(&yaml));
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&document(&yaml)["jobs"][0]).unwrap(), @r#"
    {
      "activate": [
        ". /opt/venvs/train/bin/activate"
      ],
      "batch_size": 256,
      "checkpoint": {
        "dir": "/here/checkpoints/%j",
        "resume_codes": [
          85
        ]
      },
      "command": [
        "python",
        "train.py",
        "--epochs",
        "30"
      ],
      "cpus": 4,
      "env": {
        "HOME": "/h/ann",
        "NCCL_DEBUG": "WARN",
        "WANDB_MODE": "offline",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"
      },
      "gang": {
        "devices": 8,
        "nodes": 2,
        "types": [
          "v100",
          "a40"
        ]
      },
      "grace_s": 120.0,
      "launcher": "torchrun",
      "limits": {
        "memlock": "unlimited",
        "nofile": 65536
      },
      "memory_mib": 16384,
      "model": "resnet50",
      "name": "train-resnet",
      "notify": {
        "on": [
          "preempted",
          "failed"
        ],
        "webhook": "https://chat.example.com/hooks/training"
      },
      "output": "/here/logs/%x-%j.log",
      "priority": 10,
      "retries": 2,
      "retry_codes": [
        75
      ],
      "stop_signal": 10,
      "time_limit_s": 129600.0,
      "user": "ann",
      "workdir": "/here"
    }
    "#);
}

#[test]
fn fields_become_what_the_contract_has() {
    let table: &[(&str, Value)] = &[
        ("command: 'true'", json!({})),
        (
            "command: [python, -c, 'print(1)']",
            json!({"name": "python", "command": ["python", "-c", "print(1)"]}),
        ),
        ("command: echo 'a b' $HOME", json!({"name": "echo", "command": ["echo", "a b", "$HOME"]})),
        (
            "steps: [{name: get, command: ./get, env: {A: 1}}, {command: ./train}]",
            json!({"name": "./get", "command": null, "steps": [
                {"name": "get", "command": ["./get"], "env": {"A": "1"}}, {"command": ["./train"]},
            ]}),
        ),
        ("{command: 'true', per_node: true}", json!({"gang": {"every_node": true}})),
        ("{command: 'true', per_node: true, gang: 2}", json!({"gang": {"devices": 2, "every_node": true}})),
        (
            "{command: 'true', per_node: true, gang: all}",
            json!({"gang": {"every_node": true, "every_device": true}}),
        ),
        (
            "{command: 'true', per_node: true, gang: {types: v100}}",
            json!({"gang": {"every_node": true, "types": ["v100"]}}),
        ),
        ("{command: 'true', gang: 4}", json!({"gang": {"devices": 4}})),
        ("{command: 'true', gang: 2x4}", json!({"gang": {"devices": 8, "nodes": 2}})),
        ("{command: 'true', gang: 2-8}", json!({"gang": {"devices": 2, "min": 2, "max": 8}})),
        ("{command: 'true', gang: {nodes: 3}}", json!({"gang": {"devices": 3, "nodes": 3}})),
        ("{command: 'true', gang: {devices_per_node: 4}}", json!({"gang": {"devices": 4, "nodes": 1}})),
        (
            "{command: 'true', gang: {devices: 8, devices_per_node: 4}}",
            json!({"gang": {"devices": 8, "nodes": 2}}),
        ),
        ("{command: 'true', gang: {devices: 4, max: 8}}", json!({"gang": {"devices": 4, "max": 8}})),
        ("{command: 'true', array: 1-5:2}", json!({"array": [1, 3, 5]})),
        ("{command: 'true', array: [3, 1]}", json!({"array": [1, 3]})),
        ("{command: 'true', array: 7}", json!({"array": [7]})),
        ("{command: 'true', memory: 1.5G, cpus: 2}", json!({"memory_mib": 1536, "cpus": 2})),
        ("{command: 'true', time_limit: 90}", json!({"time_limit_s": 90.0})),
        ("{command: 'true', time_limit: 1-02:03:04}", json!({"time_limit_s": 93784.0})),
        ("{command: 'true', deadline: +1h}", json!({"deadline_s": 4600.0})),
        ("{command: 'true', deadline: 2027-01-31T18:00:00Z}", json!({"deadline_s": 1_801_418_400.0})),
        (
            "{command: 'true', after: 1, after_ok: [2, 3], singleton: true}",
            json!({"dependencies": [
                {"kind": "after", "job": 1}, {"kind": "after_ok", "job": 2}, {"kind": "after_ok", "job": 3},
                {"kind": "singleton"},
            ]}),
        ),
        ("{command: 'true', retries: 3}", json!({"retries": 3})),
        ("{command: 'true', retries: {codes: [75]}}", json!({"retries": 1, "retry_codes": [75]})),
        (
            "{command: 'true', retry: {node: 3, out-of-memory: 0}, retry_delay: 30s}",
            json!({"retry": {"node": 3, "out-of-memory": 0}, "retry_delay_s": 30.0}),
        ),
        ("{command: 'true', account: lab}", json!({"account": "lab"})),
        (
            "{command: 'true', export: [NONE], env: {A: 1.10, B: on, C: true, D: 007, E: }}",
            json!({"env": {"A": "1.10", "B": "on", "C": "true", "D": "007", "E": ""}}),
        ),
        ("{command: 'true', export: 'EDITOR,X=1'}", json!({"env": {"EDITOR": "vi", "X": "1"}})),
        (
            "{command: 'true', export: NONE, xla: {memory_fraction: 0.8, preallocate: false, flags: [--a=1, --b]}}",
            json!({"env": {
                "XLA_FLAGS": "--a=1 --b", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8",
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            }}),
        ),
        (
            "{command: 'true', export: NONE, nccl: {socket_ifname: eno1, debug: INFO, ib_disable: true}}",
            json!({"env": {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eno1"}}),
        ),
        (
            "{command: 'true', activate: {modules: [cuda/12, 'a b'], conda: x'y, venv: /v/, lines: ulimit -c 0}}",
            json!({"activate": [
                "module load cuda/12 'a b'", "eval \"$(conda shell.posix hook)\"", "conda activate 'x'\\''y'",
                ". /v/bin/activate", "ulimit -c 0",
            ]}),
        ),
        (
            "{command: 'true', limits: {nofile: 65536, memlock: unlimited, stack: 64M}}",
            json!({"limits": {"memlock": "unlimited", "nofile": 65536, "stack": 67_108_864}}),
        ),
        (
            "{command: 'true', workdir: sub, output: o/%j.log, error: /e/%j, checkpoint: {dir: ~/ckpt}}",
            json!({
                "workdir": "/here/sub", "output": "/here/sub/o/%j.log", "error": "/e/%j",
                "checkpoint": {"dir": "/h/ann/ckpt"},
            }),
        ),
        (
            "{command: 'true', notify: {on: [end, started], command: mail -s 'a b' ann}}",
            json!({"notify": {
                "on": ["started", "finished", "failed", "cancelled"], "command": ["mail", "-s", "a b", "ann"],
            }}),
        ),
        ("{command: 'true', stop_signal: USR1, grace: 2m}", json!({"stop_signal": 10, "grace_s": 120.0})),
        ("{command: 'true', launcher: per-device}", json!({"launcher": "per-device"})),
        (
            "{command: 'true', model: bert, batch_size: 8, iterations: 100, iteration_ms: 2.5, held: true}",
            json!({"model": "bert", "batch_size": 8, "iterations": 100.0, "iteration_ms": 2.5, "held": true}),
        ),
        (
            "{name: 7, command: 'true', pool: fast, priority: -3, network_interface: ib0}",
            json!({
                "name": "7", "pool": "fast", "priority": -3, "network_interface": "ib0",
            }),
        ),
    ];
    for (text, expected) in table {
        let mut expected = expected.clone();
        // `null` states that something usual is missing.
        expected.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(spec(text), expected, "{text}");
    }
}

#[test]
fn refusals_name_place_field_and_fix() {
    let table = [
        ("comand: x", "error: job:1:1: comand: unknown field `comand`\nhint: did you mean `command`?\n"),
        (
            "command: x\ngang:\n  device: 2",
            "error: job:3:3: gang.device: unknown field `device`\nhint: did you mean `devices`?\n",
        ),
        (
            "command: x\ntime_limit: soon",
            "error: job:2:13: time_limit: `soon` is not a duration; write `90s`, `1h30m`, `2d` or `1-02:03:04`\n",
        ),
        (
            "command: x\nmemory: 4096",
            "error: job:2:9: memory: `4096` is not an amount of memory; write it with its unit, as in `4GiB` or `512M`\n",
        ),
        (
            "command: x\ncpus: two",
            "error: job:2:7: cpus: expected a whole number from 0 to 4294967295, found a text\n",
        ),
        (
            "command: x\ncpus: -1",
            "error: job:2:7: cpus: expected a whole number from 0 to 4294967295, found -1\n",
        ),
        ("command: x\nheld: yes", "error: job:2:7: held: expected `true` or `false`, found a text\n"),
        (
            "command: x\ngang: 2y4",
            "error: job:2:7: gang: `2y4` is not a gang; expected devices as in `4`, nodes x devices as in `2x4`, a range as in `2-8`, or `all` of each node with `per_node`\n",
        ),
        (
            "command: x\ngang: {devices: 5, nodes: 2}",
            "error: job:2:1: gang: 5 devices cannot be divided evenly among 2 nodes; use a multiple\n",
        ),
        (
            "command: x\ngang: {nodes: 2, devices_per_node: 2, devices: 5}",
            "error: job:2:1: gang: nodes x devices_per_node is 4; leave `devices` out\n",
        ),
        ("command: x\ngang: {nodes: 0}", "error: job:2:8: gang.nodes: expected 1 or more\n"),
        (
            "command: x\nper_node: true\ngang: 2x4",
            "error: job:2:1: per_node: with `per_node`, a gang can only have `types` and either `devices` of each node or `all`\n",
        ),
        (
            "command: x\ngang: all",
            "error: job:2:1: gang.all: all devices of a node are for jobs on every node; set `per_node: true`\n",
        ),
        (
            "command: x\narray: 0-4000000000",
            "error: job:2:8: array: more than 1000000 indexes; split the array into several\n",
        ),
        ("command: 'echo \"'", "error: job:1:10: command: a quote `\"` is not closed\n"),
        ("name: x", "error: job:1:1: command: no command; set a command, or steps with a command each\n"),
        (
            "command: a\nsteps: [{command: b}]",
            "error: job:1:1: command: conflicts with steps; remove one of them\n",
        ),
        (
            "steps:\n- command: a\n- name: b",
            "error: job:3:3: steps[1].command: no command; set a command, or steps with a command each\n",
        ),
        (
            "command: x\nlimits: {nofiles: 3}",
            "error: job:2:10: limits.nofiles: unknown limit `nofiles`\nhint: did you mean `nofile`?\n",
        ),
        (
            "command: x\nnotify: {on: [fail]}",
            "error: job:2:15: notify.on[0]: `fail` is unknown; expected one of started, preempted, finished, failed, cancelled, stalled, end\n",
        ),
        (
            "command: x\nnotify: {on: failed}",
            "error: job:2:1: notify: no recipient: set a command, a webhook or an email address\n",
        ),
        (
            "command: x\nnotify: {webhook: chat}",
            "error: job:2:10: notify.webhook: `chat` is not a URL; expected http://HOST/PATH or https://HOST/PATH\n",
        ),
        (
            "command: x\noutput: '%q'",
            "error: job:2:1: output: `%q` is not a pattern; expected one of %j %a %A %x %n %N %u, and %% for a percent sign\n",
        ),
        (
            "command: x\nstop_signal: HALT",
            "error: job:2:14: stop_signal: `HALT` is not a signal; write a name as in `TERM` or `SIGUSR1`, or its number\n",
        ),
        (
            "command: x\nlauncher: mpi",
            "error: job:2:11: launcher: `mpi` is unknown; expected one of plain, per-device, torchrun, mpirun, ray\n",
        ),
        (
            "command: x\nxla: {memory_fraction: 80}",
            "error: job:2:24: xla.memory_fraction: `80` is not a fraction; write a number above 0 and up to 1, as in `0.8`\n",
        ),
        ("command: x\nenv: {A=B: 1}", "error: job:2:1: env: `A=B` is not a valid variable name\n"),
        ("command: x\nenv: [A]", "error: job:2:6: env: expected a map from names to values, found a list\n"),
        (
            "command: x\nenv_file: nope.env",
            "error: job:2:1: env_file: cannot read `/files/nope.env`: No such file or directory (os error 2)\n",
        ),
        (
            "command: x\ndeadline: 1970-01-01T00:00:00Z",
            "error: job:2:1: deadline: it has passed already; name a later moment\n",
        ),
        (
            "command: x\nafter_ok: prepare",
            "error: job:2:1: after_ok: no job of this file is called `prepare`\nhint: other jobs are named by their id\n",
        ),
        ("jobs: x", "error: job:1:7: jobs: expected a list of jobs, found a text\n"),
        ("jobs: []", "error: `job` has no jobs\nhint: print an example with `wharf submit --example yaml`\n"),
        (
            "jobs:\n- {name: prepare, command: x}\n- {name: b, command: x, after_ok: prepar}",
            "error: job:3:25: after_ok: no job of this file is called `prepar`\nhint: did you mean `prepare`?\n",
        ),
        (
            "jobs:\n- {name: a, command: x, after: b}\n- {name: b, command: x, after_ok: a}",
            "error: job:2:25: after: it waits for itself, through the jobs that it waits for\n",
        ),
        (
            "jobs:\n- {name: a, command: x}\n- {name: a, command: x}\n- {command: x, after: a}",
            "error: job:4:16: after: several jobs of this file are called `a`\nhint: use unique names\n",
        ),
        ("- a\n- b", "error: job:1:1: expected a map of fields, found a list\n"),
    ];
    for (text, expected) in table {
        assert_eq!(refusal(text, Format::Yaml), expected, "{text}");
    }
}

#[test]
fn places_are_right_in_every_form() {
    let mut differing = Vec::new();
    for (format, text, expected) in [
        (Format::Toml, "command = \"x\"\n[gang]\ndevice = 2\n", "error: job:3:1: gang.device: unknown field"),
        (Format::Toml, "command = \"x\"\ngrace = \"ä\"\n", "error: job:2:9: grace: `ä` is not a duration"),
        (Format::Toml, "command = \n", "error: job:1:11: string values must be quoted"),
        (
            Format::Json,
            "{\n  \"command\": \"x\",\n  \"nam\": \"y\"\n}",
            "error: job:3:3: nam: unknown field `nam`",
        ),
        (
            Format::Json,
            "{\"command\": \"x\", \"gang\": {\"devices\": \"many\"}}",
            "error: job:1:38: gang.devices: expected a whole",
        ),
        (Format::Json, "{\"command\": \"x\",}", "error: job:1:17: key must be a string"),
        (
            Format::Json,
            "{\"command\": \"x\", \"command\": \"y\"}",
            "error: job:1:18: field `command` is given twice",
        ),
        (Format::Yaml, "command: x\ncommand: y\n", "error: job:2:1: duplicate"),
        (Format::Yaml, "command: [x\n", "error: job:1:10: unclosed bracket"),
        (Format::Yaml, "", "error: job:1:1: expected a map of fields, found nothing"),
        (Format::Json, "", "error: job:1:0: EOF while parsing a value"),
    ] {
        let said = refusal(text, format);
        if !said.starts_with(expected) {
            differing.push(said);
        }
    }
    assert_eq!(differing, [""; 0]);
    let deep = format!("{{\"command\": {}x", "[".repeat(100_000));
    assert!(refusal(&deep, Format::Json).starts_with("error: job:1:"));
    let closed = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(refusal(&closed, Format::Json).contains("nested more than 32 levels deep"));
    assert!(refusal(&deep, Format::Yaml).starts_with("error: job:1:"));
    assert!(
        refusal(&format!("command = {}", "[".repeat(100_000)), Format::Toml).starts_with("error: job:1:")
    );
}

#[test]
fn jobs_of_a_file_share_defaults_and_wait_for_one_another() {
    let text = "
gang: 2
env: {A: 1}
jobs:
- {name: report, command: c, after_any: [train, 9]}
- {name: train, command: b, after_ok: prepare, gang: {types: [a40]}, env: {B: 2}}
- {name: prepare, command: a, gang: 1}
";
    let planned = planned(text, Format::Yaml).unwrap();
    let shown = document(&planned);
    let row = |job: &Value| {
        format!(
            "{} gang={} A={} B={} waits={} ids={}",
            job["name"], job["gang"], job["env"]["A"], job["env"]["B"], job["waits_for"], job["dependencies"]
        )
    };
    let rows: Vec<String> = shown["jobs"].as_array().unwrap().iter().map(row).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    "prepare" gang={"devices":1} A="1" B=null waits=null ids=null
    "train" gang={"devices":2,"types":["a40"]} A="1" B="2" waits=[{"job":"prepare","kind":"after_ok"}] ids=null
    "report" gang={"devices":2} A="1" B=null waits=[{"job":"train","kind":"after_any"}] ids=[{"job":9,"kind":"after_any"}]
    "#);
}

#[test]
fn variables_of_a_file_are_under_the_jobs_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.env"), "A=file\nB=file\n").unwrap();
    let context = Context { folder: folder.path().to_owned(), ..context() };
    let source = Source {
        name: "job",
        text: "{command: x, env_file: train.env, env: {B: own}}",
        format: Format::Yaml,
    };
    let planned = plan(Some(source), &Job::default(), &context).unwrap();
    let env = &planned[0].spec.env;
    assert_eq!((env["A"].as_str(), env["B"].as_str()), ("file", "own"));

    std::fs::write(folder.path().join("train.env"), "A=1\nnonsense\n").unwrap();
    let error = plan(Some(source), &Job::default(), &context).unwrap_err().to_string();
    assert!(error.ends_with("train.env:2: `nonsense` is not of the form NAME=VALUE"), "{error}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn examples_in_the_repository_can_be_submitted() {
    let entries = std::fs::read_dir(root().join("examples/jobs")).unwrap();
    for path in entries.map(|entry| entry.unwrap().path()) {
        let Some(format) = Format::of(&path) else { continue };
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let context = Context { folder: path.parent().unwrap().to_owned(), ..context() };
        let planned = plan(Some(Source { name: &name, text: &text, format }), &Job::default(), &context);
        assert!(planned.is_ok(), "{}", rendered(&planned.unwrap_err()));
    }
}

#[test]
fn every_field_is_documented_and_every_example_works() {
    let text = std::fs::read_to_string(root().join("docs/jobs.md")).unwrap();
    for field in Job::FIELDS {
        assert!(text.contains(&format!("\n### `{field}`\n")), "docs/jobs.md does not explain `{field}`");
    }
    let records = [
        ("steps", job::Step::FIELDS),
        ("gang", job::Gang::FIELDS),
        ("stages", job::Stages::FIELDS),
        ("retries", job::Retries::FIELDS),
        ("activate", job::Activate::FIELDS),
        ("ray", job::Ray::FIELDS),
        ("executor", Executor::FIELDS),
        ("xla", job::Xla::FIELDS),
        ("nccl", job::Nccl::FIELDS),
        ("notify", job::Notify::FIELDS),
        ("checkpoint", job::Checkpoint::FIELDS),
        ("container", Container::FIELDS),
        ("container", Mount::FIELDS),
        ("executor", SlurmExecutor::FIELDS),
    ];
    for (record, fields) in records {
        let section = text.split(&format!("\n### `{record}`\n")).nth(1).unwrap();
        let section = section.split("\n### ").next().unwrap();
        for field in fields {
            let is_named = section.contains(&format!("`{field}`"));
            assert!(is_named, "docs/jobs.md does not explain `{record}.{field}`");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.env"), "A=1\n").unwrap();
    let context = Context { folder: folder.path().to_owned(), now_s: 0.0, ..context() };
    let mut examples = 0;
    for block in text.split("```yaml\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let has_command = block.contains("command:");
        let block = if has_command { block.to_owned() } else { format!("command: python train.py\n{block}") };
        let source = Source { name: "docs/jobs.md", text: &block, format: Format::Yaml };
        let planned = plan(Some(source), &Job::default(), &context);
        assert!(planned.is_ok(), "{block}\n{}", rendered(&planned.unwrap_err()));
        examples += 1;
    }
    assert!(examples >= Job::FIELDS.len(), "one example for each field: {examples}");
}
