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
