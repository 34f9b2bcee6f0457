//! The configuration file: which one is in force, what wins over it, and what is said about a wrong one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::marked::Marked;
use crate::sandbox::{Said, Sandbox};

/// A command with this environment, its words separated by blanks.
fn wharf(sandbox: &Sandbox, environment: &[(&str, &str)], words: &str) -> Said {
    let mut command = sandbox.command(words);
    command.env_remove("WHARF_CONFIG").env("HOME", sandbox.path()).envs(environment.iter().copied());
    Said::from(&command.output().unwrap())
}

/// The value of a key and where it comes from, without the file's path.
fn shown(sandbox: &Sandbox, environment: &[(&str, &str)], command: &str, key: &str) -> (Value, String) {
    let words = format!("config show --config c.toml --output json {command}");
    let document: Value = serde_json::from_str(&wharf(sandbox, environment, &words).ok()).unwrap();
    let values = document["values"].as_array().unwrap();
    let row = values.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key}: {document}"));
    (row["value"].clone(), row["from"].as_str().unwrap().to_owned())
}

const FILE: &str = "\
[head]
listen = '127.0.0.1:1111'
policy = 'tiresias'
set = { queues = 3 }

[worker]
node = 'from-file'
switch = 4

[local]
worker = ['v100:4', 'a40:2']

[client]
output = 'plain'
head = 'from-file:1'
";

#[test]
fn flag_wins_over_environment_over_file_over_default() {
    let sandbox = Sandbox::new();
    sandbox.write("c.toml", FILE);
    let text = |text: &str| Value::from(text);
    let listen = &[("WHARF_HEAD_LISTEN", "127.0.0.1:2222")][..];
    let node = &[("WHARF_WORKER_NODE", "from-env")][..];
    let workers = &[("WHARF_LOCAL_WORKER", "cpu:1 cpu:2")][..];
    let head = &[("WHARF_HEAD", "from-env:1")][..];
    let output = &[("WHARF_OUTPUT", "table")][..];
    let cases = [
        ("head.listen", "-- head --listen 127.0.0.1:3333", listen, text("127.0.0.1:3333"), "flag"),
        ("head.listen", "-- head", listen, text("127.0.0.1:2222"), "env WHARF_HEAD_LISTEN"),
        ("head.listen", "-- head", &[], text("127.0.0.1:1111"), "c.toml:2"),
        ("head.lost_after", "-- head", &[], text("30"), "default"),
        ("worker.node", "-- worker --node flag", node, text("flag"), "flag"),
        ("worker.node", "-- worker", node, text("from-env"), "env WHARF_WORKER_NODE"),
        ("worker.node", "-- worker", &[], text("from-file"), "c.toml:7"),
        ("worker.pool", "-- worker", &[], text(""), "default"),
        ("worker.devices", "-- worker", &[], Value::Null, "default"),
        ("local.worker", "-- local --worker x:1", workers, vec!["x:1"].into(), "flag"),
        ("local.worker", "-- local", workers, vec!["cpu:1", "cpu:2"].into(), "env WHARF_LOCAL_WORKER"),
        ("local.worker", "-- local", &[], vec!["v100:4", "a40:2"].into(), "c.toml:11"),
        ("client.output", "-- jobs --output table", &[], text("table"), "flag"),
        ("client.output", "-- jobs", output, text("table"), "env WHARF_OUTPUT"),
        ("client.output", "-- node n1", &[], text("plain"), "c.toml:14"),
        ("client.head", "", head, text("from-env:1"), "env WHARF_HEAD"),
        ("client.head", "", &[], text("from-file:1"), "c.toml:15"),
        ("client.color", "", &[], text("auto"), "default"),
        // The settings are of the policy in the file.
        ("head.set", "-- head", &[], vec!["queues=3"].into(), "c.toml:4"),
        ("head.set", "-- head --policy srtf", &[], Value::Array(vec![]), "default"),
    ];
    for (key, command, environment, value, from) in cases {
        let seen = shown(&sandbox, environment, command, key);
        assert_eq!(seen, (value, from.to_owned()), "{key} of `{command}` with {environment:?}");
    }
}

#[test]
fn first_file_that_exists_is_in_force() {
    let sandbox = Sandbox::new();
    let write = |folder: &str, output: &str| {
        fs::create_dir_all(sandbox.path().join(folder).join("wharf")).unwrap();
        sandbox.write(&format!("{folder}/wharf/config.toml"), &format!("[client]\noutput = '{output}'\n"));
    };
    write(".config", "json");
    write("xdg", "plain");
    sandbox.write("c.toml", "[client]\noutput = 'table'\n");
    let xdg = sandbox.path().join("xdg").display().to_string();
    let named = sandbox.path().join("c.toml").display().to_string();
    let both = [("XDG_CONFIG_HOME", xdg.as_str()), ("WHARF_CONFIG", &named)];
    for (environment, option, expected) in [
        (&both[..0], "", "{"),
        (&both[..1], "", "preset\t"),
        (&both[..2], "", "preset  "),
        (&both[..2], "--config xdg/wharf/config.toml", "preset\t"),
    ] {
        let presets = wharf(&sandbox, environment, &format!("presets {option}")).ok();
        assert!(presets.starts_with(expected), "{environment:?} {option}: {presets}");
    }
    let said = wharf(&sandbox, &both[..1], "presets -v");
    assert!(said.stderr.contains(&format!("configuration: {xdg}/wharf/config.toml")), "{}", said.stderr);
    let missing = wharf(&sandbox, &[], "presets --config nowhere.toml").fails(3);
    assert!(missing.contains("nowhere.toml"), "{missing}");
}

#[test]
fn wrong_file_is_reported_whole_and_stops_what_goes_by_it() {
    let sandbox = Sandbox::new();
    sandbox.write("c.toml", "[head]\nlisen = 'x'\nlisten = 'x'\n[worker]\ntoken = 's3cret'\n");
    let told = wharf(&sandbox, &[], "config check c.toml").fails(2);
    for part in [
        "c.toml:2:1: head.lisen: unknown key `lisen`",
        "did you mean `listen`?",
        "c.toml:3:10: head.listen: cannot be `x`",
        "c.toml:5:1: worker.token: unknown key `token`",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
    wharf(&sandbox, &[], "presets --config c.toml").fails(2);
    wharf(&sandbox, &[("WHARF_CONFIG", "c.toml")], "help").ok();

    for (text, part) in [
        ("[head]\npolicy = 'fiffo'\n", "c.toml:2:1: head.policy: "),
        ("[head]\nset = { qeues = 3 }\n", "c.toml:2:1: head.set: `qeues` is not a setting"),
        ("[client]\nhead = 'node1'\n", "c.toml:2:1: client.head: `node1` is not the address of a head"),
        ("[worker]\ndevices = 'v100'\n", "c.toml:2:1: worker.devices: `v100` declares no devices"),
    ] {
        sandbox.write("c.toml", text);
        let told = wharf(&sandbox, &[], "config check c.toml").fails(2);
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn example_is_a_file_that_changes_nothing() {
    let sandbox = Sandbox::new();
    let example = wharf(&sandbox, &[], "config example").ok();
    for line in ["[head]", "# listen = \"127.0.0.1:7717\"", "# switch = 0", "[client]", "# set = { KEY"] {
        assert!(example.lines().any(|own| own.starts_with(line)), "{line}: {example}");
    }
    sandbox.write("c.toml", &example);
    wharf(&sandbox, &[], "config check c.toml").ok();
    let from = |words: &str| wharf(&sandbox, &[], words).ok();
    assert_eq!(from("config show --config c.toml"), from("config show --config /dev/null"));
}

#[test]
fn world_readable_secrets_are_reported() {
    let sandbox = Sandbox::new();
    let token = sandbox.write("join.token", "secret");
    sandbox.write("c.toml", &format!("[worker]\njoin_token_file = '{}'\n", token.display()));
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        let said = wharf(&sandbox, &[], "config check c.toml");
        assert_eq!(said.stderr.contains("which is world-readable"), is_told, "{}", said.stderr);
        assert_eq!(said.code, Some(0));
    }
}

#[test]
fn daemons_and_clients_go_by_the_file() {
    let marked = Marked::new();
    let file = marked.path("c.toml").display().to_string();
    fs::write(&file, "[local]\nworker = ['v100:3']\npolicy = 'srtf'\n[client]\nhead = 'elsewhere:1'\n")
        .unwrap();
    let started = marked.run(&["local", "--detach", "--config", &file]);
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.success() && said.contains(&format!("configuration: {file}")), "{said}");
    assert_eq!(marked.json(&["nodes"])["nodes"][0]["devices"], 3);

    let home = marked.path("home");
    let address = fs::read_to_string(home.join("address")).unwrap();
    let token = home.join("token").display().to_string();
    let client = format!("[client]\nhead = '{}'\ntoken_file = '{token}'\noutput = 'json'\n", address.trim());
    fs::write(&file, client).unwrap();
    let ask = |words: &[&str]| {
        let mut command = marked.command(&[&["nodes", "--config", &file], words].concat());
        Said::from(&command.env_remove("WHARF_HOME").env("HOME", marked.path("user")).output().unwrap())
    };
    let nodes: Value = serde_json::from_str(&ask(&[]).ok()).unwrap();
    assert_eq!(nodes["nodes"][0]["device_type"], "v100", "{nodes}");
    // A folder that is named means the head in it, whatever the file says.
    let nowhere = marked.path("nowhere").display().to_string();
    let told = ask(&["--home", &nowhere]).fails(3);
    assert!(told.contains(&nowhere), "{told}");
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}
