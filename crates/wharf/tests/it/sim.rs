//! `wharf sim`, `policies`, `presets`.

use serde_json::Value;

use crate::sandbox::Sandbox;

const SIM: &str = "sim --trace jobs.csv --cluster 1x2 --policy";

/// Of the names below, so many are columns of plain output.
const PLAIN: usize = 18;

/// Other tools rely on these names.
const KEYS: [&str; 28] = [
    "policy",
    "trace",
    "preset",
    "cluster",
    "seed",
    "jobs",
    "finished",
    "avg_jct_s",
    "median_jct_s",
    "p95_jct_s",
    "p99_jct_s",
    "max_jct_s",
    "makespan_s",
    "avg_queue_s",
    "gpu_utilization",
    "preemptions",
    "events",
    "wall_ms",
    "unfinished",
    "avg_queue_all_s",
    "reschedules",
    "lease_extensions",
    "cost",
    "solver_fallbacks",
    "shrinks",
    "grows",
    "type_changes",
    "moves",
];

#[test]
fn json_has_the_agreed_shape() {
    let sandbox = Sandbox::new();
    let text = sandbox.wharf(&format!("{SIM} srtf,fifo --seed 7 --output json")).ok();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 1);
    let runs = document["runs"].as_array().unwrap();
    let policies: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["srtf", "fifo"]);
    for run in runs {
        let mut expected = KEYS;
        expected.sort_unstable();
        assert_eq!(run.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(
            (&run["trace"], &run["cluster"], &run["preset"]),
            (&"jobs".into(), &"1x2".into(), &"wharf".into())
        );
        assert_eq!((&run["seed"], &run["jobs"], &run["finished"]), (&7.into(), &3.into(), &3.into()));
        assert!(run["avg_jct_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn deadlines_are_counted_where_there_are_any() {
    let sandbox = Sandbox::new();
    // Of the jobs that end at 130 s and at 60 s, and one that may take as long as it likes.
    let trace = "job_id,submit_s,devices,iterations,iteration_ms,deadline_s\n\
        late,0,1,100,1000,120\nearly,0,1,30,1000,70\nfree,0,1,10,1000,\n";
    sandbox.write("deadlines.csv", trace);
    let sim = "sim --trace deadlines.csv --cluster 1x2 --policy fifo";
    let document: Value = serde_json::from_str(&sandbox.wharf(&format!("{sim} --output json")).ok()).unwrap();
    let run = &document["runs"][0];
    assert_eq!((&run["deadlines_met"], &run["deadlines_missed"]), (&1.into(), &1.into()));
    let table = sandbox.wharf(sim).ok();
    assert!(table.contains("deadlines met") && table.contains("missed"), "{table}");
}

#[test]
fn keys_come_in_the_agreed_order() {
    let sandbox = Sandbox::new();
    let text = sandbox.wharf(&format!("{SIM} fifo --output json")).ok();
    let places: Vec<usize> = KEYS.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted());
    let plain = sandbox.wharf(&format!("{SIM} fifo --output plain")).ok();
    assert_eq!(plain.lines().next().unwrap(), KEYS[..PLAIN].join("\t"));
    assert_eq!(plain.lines().count(), 2);
}

#[test]
fn table_is_for_people_and_stderr_is_empty() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf(&format!("{SIM} fifo,srtf"));
    assert_eq!(said.stderr, "");
    assert!(said.stdout.starts_with("trace jobs · preset wharf · cluster 1x2"), "{}", said.stdout);
}

#[test]
fn environment_sets_defaults_and_options_win() {
    let sandbox = Sandbox::new();
    let run = |words: &str| {
        let mut command = sandbox.command(&format!("{SIM} fifo {words}"));
        let output = command.env("WHARF_OUTPUT", "plain").env("WHARF_PRESET", "wharf").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("").starts_with("policy\t"));
    assert!(run("--output json").starts_with('{'));
}

#[test]
fn trace_comes_from_standard_input() {
    let sandbox = Sandbox::new();
    let line = "\"$WHARF\" trace generate --jobs 50 | \"$WHARF\" sim --trace - --cluster 16x8 --policy las --output json";
    let document: Value = serde_json::from_str(&sandbox.shell(line).ok()).unwrap();
    assert_eq!(
        (&document["runs"][0]["trace"], &document["runs"][0]["finished"]),
        (&"stdin".into(), &50.into())
    );
}

#[test]
fn colour_only_where_asked_for() {
    let sandbox = Sandbox::new();
    assert!(!sandbox.wharf("policy explain nope").stderr.contains('\u{1b}'));
    assert!(sandbox.wharf("policy explain nope --color always").stderr.contains('\u{1b}'));
    assert!(sandbox.wharf("--color always --nope").stderr.contains('\u{1b}'));
}

#[test]
fn every_policy_can_be_listed_and_explained() {
    let sandbox = Sandbox::new();
    let document: Value = serde_json::from_str(&sandbox.wharf("policies --output json").ok()).unwrap();
    let policies = document["policies"].as_array().unwrap();
    assert!(policies.len() >= 7);
    for policy in policies {
        let name = policy["name"].as_str().unwrap();
        let text = sandbox.wharf(&format!("policy explain {name}")).ok();
        assert!(text.starts_with(&format!("{name}: ")) && text.contains("\npaper: "), "{text}");
    }
    assert_eq!(sandbox.wharf("policies --output plain").ok().lines().count(), policies.len() + 1);
}

#[test]
fn presets_are_listed_and_a_shown_one_can_be_used() {
    let sandbox = Sandbox::new();
    let listed = sandbox.wharf("presets --output plain").ok();
    assert!(listed.contains("\nwharf\t") && listed.contains("\nmuri\t"), "{listed}");
    sandbox.write("mine.toml", &sandbox.wharf("presets show wharf").ok());
    sandbox.wharf(&format!("{SIM} fifo --preset mine.toml")).ok();
    sandbox.write("broken.toml", "name = \"broken\"\nmechanism = 3\n");
    let error = sandbox.wharf(&format!("{SIM} fifo --preset broken.toml")).fails(3);
    assert!(error.starts_with("error: preset `broken.toml` is not valid"), "{error}");
}

#[test]
fn failures_come_from_a_file_or_from_the_seed() {
    let sandbox = Sandbox::new();
    sandbox.write("down.csv", "time_s,node,event\n50,0,down\n60,0,up\n");
    sandbox.wharf(&format!("{SIM} fifo --failures down.csv --out out")).ok();
    let events = sandbox.read("out/jobs-fifo-failures-down/events.jsonl");
    assert!(events.contains("{\"t\":50.0,\"event\":\"node_lost\",\"node\":0}"), "{events}");
    assert!(events.contains("\"event\":\"node_returned\""), "{events}");
    sandbox.wharf(&format!("{SIM} fifo --failures mtbf=1,repair=0.1")).ok();
    let error = sandbox.wharf(&format!("{SIM} fifo --failures none.csv")).fails(3);
    assert!(error.starts_with("error: cannot read failures from `none.csv`"), "{error}");
    sandbox.wharf(&format!("{SIM} fifo --failures mtbf=1,repare=2")).fails(2);
    sandbox.wharf(&format!("{SIM} fifo --failures mtbf=often")).fails(2);
}

#[test]
fn settings_of_some_policies_apply_to_those() {
    let sandbox = Sandbox::new();
    let run = "sim --trace jobs.csv --cluster 1x2 --policy fifo,tiresias --out out";
    let said = sandbox.wharf(&format!("{run} --set queue_limits_s=300:900"));
    assert!(
        said.stderr.contains("`queue_limits_s` applies to tiresias; not a setting of fifo\n"),
        "{}",
        said.stderr
    );
    said.ok();
    assert_eq!(sandbox.names("out"), ["jobs-fifo", "jobs-tiresias-queue_limits_s-300_900", "report.html"]);
    // The report repeats each run with its own settings.
    let command = "wharf sim --policy tiresias --trace jobs.csv --cluster 1x2 --preset wharf --set queue_limits_s=300:900 --seed 0";
    assert!(sandbox.read("out/report.html").contains(command), "{command}");
    let said = sandbox.wharf(
        "sim --trace jobs.csv --cluster 1x2 --policy fifo,tiresias --out own --set tiresias.queue_limits_s=300:900 \
         --set restart_s=1 --set fifo.restart_s=2",
    );
    assert_eq!(said.stderr, "results are in `own`\n");
    said.ok();
    let runs = ["jobs-fifo-restart_s-2", "jobs-tiresias-queue_limits_s-300_900-restart_s-1", "report.html"];
    assert_eq!(sandbox.names("own"), runs);
}

#[test]
fn settings_that_no_policy_has_are_rejected_with_what_there_is() {
    let sandbox = Sandbox::new();
    for (set, expected) in [
        (
            "las.restart_s=1",
            "`las.restart_s` is for policy `las`, which is not simulated; those that are: fifo, tiresias",
        ),
        ("tiresia.restart_s=1", "hint: did you mean `tiresias`?"),
        ("fifo.queue_limits_s=1", "`queue_limits_s` is not a setting of policy `fifo` under preset `wharf`"),
        (
            "queue_limit_s=1",
            "`queue_limit_s` is not a setting of policy `fifo, tiresias` under preset `wharf`",
        ),
        ("queue_limit_s=1", "hint: did you mean `queue_limits_s`?"),
        ("fifo.=1", "`fifo.` is not a setting of policy `fifo, tiresias` under preset `wharf`"),
        ("tiresias.queue_limits_s=x", "setting `queue_limits_s` cannot be `x`"),
    ] {
        let error = sandbox
            .wharf(&format!("sim --trace jobs.csv --cluster 1x2 --policy fifo,tiresias --set {set}"))
            .fails(2);
        assert!(error.contains(expected), "{set}: {error}");
    }
}
