//! Flags over job files.

use clap::Parser as _;
use serde_json::json;
use wharf_job::shown::document;
use wharf_job::{Context, Format, Job, JobError, Planned, Source, plan};

use super::super::{Cli, Command};

fn with_flags(text: &str, flags: &Job) -> Result<Vec<Planned>, JobError> {
    let context = Context {
        account: String::new(),
        workdir: "/here".into(),
        folder: "/files".into(),
        user: "ann".into(),
        now_s: 1000.0,
        shell: [("HOME".to_owned(), "/h/ann".to_owned())].into(),
        no_container: false,
    };
    plan(Some(Source { name: "job", text, format: Format::Yaml }), flags, &context)
}

/// The job of flags.
fn flags(words: &str) -> Job {
    let words = ["wharf", "submit"].into_iter().chain(words.split_whitespace());
    match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).command {
        Command::Submit(args) => args.to_job(),
        _ => panic!("another command"),
    }
}

#[test]
fn flags_lie_over_the_file() {
    let text = "
name: file
command: from file
gang: {nodes: 2, devices_per_node: 4, types: [v100]}
time_limit: 1h
env: {A: file, B: file}
limits: {nofile: 10}
retries: {count: 1, codes: [7]}
notify: {on: failed, webhook: http://host/}
";
    let over = |words: &str| {
        let planned = with_flags(text, &flags(words)).unwrap();
        document(&planned)["jobs"][0].clone()
    };
    for (words, path, expected) in [
        ("", "/name", json!("file")),
        ("--name flag", "/name", json!("flag")),
        ("-- from flag", "/command", json!(["from", "flag"])),
        ("--gang 3", "/gang", json!({"devices": 3, "types": ["v100"]})),
        ("--type a40", "/gang", json!({"devices": 8, "nodes": 2, "types": ["a40"]})),
        (
            "--gang 2-4 --type a40 --type k80",
            "/gang",
            json!({"devices": 2, "min": 2, "max": 4, "types": ["a40", "k80"]}),
        ),
        ("--time-limit 2d", "/time_limit_s", json!(172_800.0)),
        ("--env A=flag --env C=x=y", "/env", json!({"A": "flag", "B": "file", "C": "x=y", "HOME": "/h/ann"})),
        ("--limit memlock=unlimited", "/limits", json!({"memlock": "unlimited", "nofile": 10})),
        ("--retries 5", "/retry_codes", json!([7])),
        ("--notify-on started,end", "/notify/on", json!(["started", "finished", "failed", "cancelled"])),
        ("--notify-on started", "/notify/webhook", json!("http://host/")),
        ("--array 0-3", "/array", json!([0, 1, 2, 3])),
        ("--after-ok 3,4", "/dependencies/1", json!({"kind": "after_ok", "job": 4})),
        (
            "--venv /v --module a --activate true",
            "/activate",
            json!(["module load a", ". /v/bin/activate", "true"]),
        ),
        ("--priority -3", "/priority", json!(-3)),
        ("--held", "/held", json!(true)),
    ] {
        let shown = over(words);
        assert_eq!(shown.pointer(path), Some(&expected), "{words}: {shown}");
    }
    let steps = with_flags("steps: [{command: a}]", &flags("-- b")).unwrap();
    assert_eq!(steps[0].spec.command, ["b"], "a command takes the place of steps");
    let several = with_flags("jobs: [{command: a}, {command: b}]", &flags("--name x"));
    assert!(several.unwrap_err().to_string().contains("a name or command cannot apply to all"));
}
