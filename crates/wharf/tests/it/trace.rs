//! `wharf trace`

use serde_json::Value;

use crate::sandbox::{Sandbox, TRACE};

#[test]
fn conversion_there_and_back_is_the_same() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 200 --seed 3 --deadline-share 0.5 --to t.csv").ok();
    sandbox.wharf("trace convert t.csv t.jsonl").ok();
    assert!(sandbox.read("t.jsonl").starts_with('{'));
    sandbox.wharf("trace convert t.jsonl back.csv").ok();
    assert_eq!(sandbox.read("t.csv"), sandbox.read("back.csv"));
    let piped = sandbox.shell("\"$WHARF\" trace convert - --to csv < t.jsonl").ok();
    assert_eq!(piped, sandbox.read("t.csv"));
}

#[test]
fn losses_are_warnings_on_standard_error() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 20 --deadline-share 1 --to t.csv").ok();
    let said = sandbox.wharf("trace convert t.csv - --to muri");
    assert!(said.stderr.starts_with("warning: "), "{}", said.stderr);
    assert!(said.stderr.contains("deadline"), "{}", said.stderr);
    assert!(said.ok().starts_with("job_id,num_gpu,submit_time,"));
    let quiet = sandbox.wharf("trace convert t.csv - --to muri --quiet");
    assert_eq!(quiet.stderr, "");
}

#[test]
fn lint_lists_all_findings_and_says_so_in_its_code() {
    let sandbox = Sandbox::new();
    let clean = sandbox.wharf("trace lint jobs.csv");
    assert_eq!((clean.stderr.as_str(), clean.code), ("valid: 0 errors, 0 warnings\n", Some(0)));
    sandbox.write("bad.csv", &TRACE.replace("50,1000", "50,-7").replace("a,0,1", "c,0,1"));
    let said = sandbox.wharf("trace lint bad.csv jobs.csv");
    assert_eq!(said.code, Some(3));
    assert!(said.stdout.contains("bad.csv:3:iteration_ms: error[negative-duration]: "), "{}", said.stdout);
    assert!(said.stdout.contains("bad.csv:4:job_id: error[duplicate-id]: "), "{}", said.stdout);
    assert_eq!(said.stderr, "not valid: 2 errors, 0 warnings\n");
    let said = sandbox.wharf("trace lint bad.csv --output json");
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&document["schema"], &document["errors"]), (&1.into(), &2.into()));
    assert_eq!(document["findings"][0]["rule"], "negative-duration");
    let plain = sandbox.wharf("trace lint bad.csv --output plain").stdout;
    assert!(plain.starts_with("file\tline\tcolumn\tseverity\trule\tmessage\thint\nbad.csv\t3\t"), "{plain}");
    let said = sandbox.wharf("trace lint jobs.csv --cluster 1x1");
    assert!(said.stdout.contains("error[impossible-gang]"), "{}", said.stdout);
    assert_eq!(said.code, Some(3));
    sandbox.wharf("trace lint nope.csv").fails(3);
}

#[test]
fn stats_describe_a_trace() {
    let sandbox = Sandbox::new();
    let text = sandbox.wharf("trace stats jobs.csv --cluster 1x2").ok();
    assert!(text.contains("jobs"), "{text}");
    let document: Value =
        serde_json::from_str(&sandbox.wharf("trace stats jobs.csv --output json").ok()).unwrap();
    assert_eq!((&document["schema"], &document["job_count"]), (&1.into(), &3.into()));
    assert_eq!(document.get("offered_load"), None);
    let plain = sandbox.wharf("trace stats jobs.csv --cluster 1x2 --output plain").ok();
    assert!(plain.starts_with("field\tvalue\n"), "{plain}");
    assert!(plain.contains("\njob_count\t3\n") && plain.contains("\noffered_load\t5.25\n"), "{plain}");
}

#[test]
fn generated_traces_depend_on_the_seed_only() {
    let sandbox = Sandbox::new();
    let generate = |options: &str| sandbox.wharf(&format!("trace generate --jobs 30 {options}")).ok();
    assert_eq!(generate("--seed 1"), generate("--seed 1"));
    assert_ne!(generate("--seed 1"), generate("--seed 2"));
    assert_eq!(generate("--at-once --format jsonl").lines().count(), 30);
    let error = sandbox.wharf("trace generate --load 1 --rate 2").fails(2);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = sandbox.wharf("trace generate --gangs phily").fails(2);
    assert!(error.contains("did you mean `philly`?"), "{error}");
    let error = sandbox.wharf("trace generate --jobs 0 --to t.csv").fails(2);
    assert!(error.contains("job_count is 0"), "{error}");
    assert_eq!(sandbox.names("."), ["jobs.csv"]);
}

/// A sample beside the repository's examples.
fn sample(name: &str) -> String {
    format!("{}/../../examples/traces/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn logs_are_converted_and_what_is_left_out_is_told() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf(&format!("trace convert {} helios.csv", sample("helios.csv")));
    assert!(
        said.stderr.contains("helios.csv: 1 row dropped: no GPU asked for (first: `902`)\n"),
        "{}",
        said.stderr
    );
    said.ok();
    let header = "job_id,user,submit_s,devices,iterations,iteration_ms,duration_s\n";
    assert_eq!(
        sandbox.read("helios.csv"),
        format!(
            "{header}901,uAaaa,0,8,7200,1000,7200\n903,uAaaa,120,16,120,1000,120\n906,uBbbb,600,4,86400,1000,86400\n"
        )
    );
    let quiet = sandbox.wharf(&format!("trace convert {} - --quiet", sample("openb.csv")));
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.ok().lines().count(), 4);
    // A folder, as it is published.
    let said = sandbox.wharf(&format!("trace stats {} --output json", sample("pai")));
    assert!(said.stderr.contains("not in the job table"), "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!((&document["job_count"], &document["user_count"]), (&3.into(), &2.into()));
}

#[test]
fn lint_counts_the_rows_of_a_log_as_warnings() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf(&format!("trace lint {} --output json", sample("philly.json")));
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["errors"], 0);
    let findings: Vec<(&str, u64)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["rule"].as_str().unwrap(), finding["line"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("adapted-jobs", 2),
        ("dropped-rows", 21),
        ("adapted-jobs", 29),
        ("dropped-rows", 43),
        ("dropped-rows", 57),
        ("adapted-jobs", 71),
        ("adapted-jobs", 71),
    ];
    assert_eq!(findings, expected);
    said.ok();
}

#[test]
fn formats_that_are_only_read_are_not_written() {
    let sandbox = Sandbox::new();
    let error = sandbox.wharf("trace convert jobs.csv out.json --to philly").fails(2);
    assert!(error.contains("traces are not written as `philly`, only read"), "{error}");
    assert!(error.contains("hint: write muri, csv, jsonl"), "{error}");
    let error = sandbox.wharf("trace convert jobs.csv --from helios").fails(3);
    assert!(error.contains("missing-column"), "{error}");
}

#[test]
fn blox_preset_runs_a_stream() {
    let sandbox = Sandbox::new();
    let trace = sample("blox-stream.json");
    let said = sandbox.wharf(&format!(
        "sim --trace {trace} --cluster 2x4 --policy las,fifo,srtf --preset blox --output json --set track=0..2"
    ));
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!((&run["preset"], &run["jobs"], &run["finished"]), (&"blox".into(), &3.into(), &3.into()));
    }
    let error =
        sandbox.wharf(&format!("sim --trace {trace} --cluster 2x4 --policy muri-s --preset blox")).fails(2);
    assert!(error.contains("the preset has las, fifo, srtf, tiresias"), "{error}");
}
