//! Every rule with the smallest file that breaks it.

use std::collections::BTreeSet;
use std::io::Cursor;

use wharf_trace::{Finding, LintOptions, Rule, lint_reader};

const NATIVE: &str = "job_id,submit_s,devices,duration_s";

fn findings(text: &[u8]) -> Vec<Finding> {
    let options = LintOptions { known_models: Some(&["bert", "resnet50"]), ..LintOptions::default() };
    lint_reader(Cursor::new(text.to_vec()), "t", &options).expect("a trace").findings
}

/// The file's only finding, as `file:line:column: severity[rule]: message`, and its hint.
fn check(rules: &mut BTreeSet<Rule>, text: impl AsRef<[u8]>, expected: &str, hint: &str) {
    let found = findings(text.as_ref());
    let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [expected], "{}", String::from_utf8_lossy(text.as_ref()));
    assert_eq!(found[0].hint.as_deref().unwrap_or_default(), hint, "{expected}");
    rules.insert(found[0].rule);
}

#[test]
fn every_rule_has_a_file_that_breaks_it() {
    let mut seen = BTreeSet::new();
    rows_of_native_csv(&mut seen);
    headers(&mut seen);
    optional_columns(&mut seen);
    rows_of_json_lines(&mut seen);
    // A megabyte of line is in `hostile`, the rules of clusters are in `cluster`, those of logs in `logs` and `accounting`; those
    // that need a simulation are tested with the command line.
    seen.extend([Rule::LineTooLong, Rule::ZeroCount, Rule::TooManyDevices, Rule::DuplicateNode]);
    seen.extend([Rule::BadDate, Rule::DroppedRows, Rule::AdaptedJobs, Rule::SkippedRows]);
    seen.extend([Rule::WrongSeparator, Rule::TimesBackwards, Rule::OrphanStep, Rule::DevicePart]);
    seen.extend([Rule::ImpossibleGang, Rule::UnknownPool, Rule::NotSimulated]);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), Rule::ALL);
}

fn rows_of_native_csv(seen: &mut BTreeSet<Rule>) {
    for (row, expected, hint) in [
        (
            "a,0,1,-5",
            "t:2:duration_s: error[negative-duration]: found -5, expected 0 or more",
            "an end before a start? use start and end the other way round, or drop the job",
        ),
        ("a,0,1,0", "t:2:duration_s: error[zero-duration]: found 0, expected more than 0", ""),
        ("a,0,1,ten", "t:2:duration_s: error[not-a-number]: found `ten`, expected a number", ""),
        (
            "a,0,1,90s",
            "t:2:duration_s: error[not-a-number]: found `90s`, expected a number",
            "write the number without a unit",
        ),
        (
            "a,0,1,\"1,000\"",
            "t:2:duration_s: error[not-a-number]: found `1,000`, expected a number",
            "write 1000 without separators",
        ),
        ("a,0,1,inf", "t:2:duration_s: error[non-finite]: found `inf`, expected a finite number", ""),
        ("a,0,1,1e400", "t:2:duration_s: error[non-finite]: found `1e400`, expected a finite number", ""),
        (
            "a,0,1,1e307",
            "t:2:duration_s: error[non-finite]: 1e307 iterations of 1e3 ms are too long to compute with",
            "",
        ),
        (
            "a,0,1,",
            "t:2:duration_s: error[missing-value]: the row has none of `iterations` with `iteration_ms`, or `duration_s`, or `iterations` with `model`",
            "",
        ),
        (",0,1,5", "t:2:job_id: error[missing-value]: `job_id` is empty; expected a name", ""),
        ("a,,1,5", "t:2:submit_s: error[missing-value]: `submit_s` is empty; expected a number", ""),
        (
            "a,-1,1,5",
            "t:2:submit_s: error[negative-submit]: found -1, expected 0 or more",
            "count from the beginning of the trace: subtract the first submission from all",
        ),
        (
            "a,0,0,5",
            "t:2:devices: error[zero-gang]: found 0, expected at least one device",
            "drop jobs that need no device",
        ),
        ("a,0,-2,5", "t:2:devices: error[negative-count]: found `-2`, expected 0 or more", ""),
        (
            "a,0,1.5,5",
            "t:2:devices: error[not-an-integer]: found `1.5`, expected a whole number up to 4294967295",
            "",
        ),
        (
            "a,0,1,5\na,1,1,5",
            "t:3:job_id: error[duplicate-id]: job `a` is duplicated, first on line 2",
            "give each job its own name",
        ),
        (
            "a,9,1,5\n\nb,1,1,5",
            "t:4:submit_s: warning[unsorted-submit]: submitted at 1 s, before the row above (9 s)",
            "the reader sorts jobs by submission; sort the file to see what runs",
        ),
        (
            "a,0,1",
            "t:2: error[truncated-row]: found 3 fields, the header has 4",
            "the row was cut, or a comma is missing",
        ),
        (
            "a,0,1,5,6",
            "t:2: error[truncated-row]: found 5 fields, the header has 4",
            "put text that contains commas in double quotes",
        ),
        (
            "\"a,0,1,5",
            "t:2: error[truncated-row]: a quote that opens in this row is never closed",
            "close it, or write a quote inside quoted text twice",
        ),
        (
            "\"a\"b,0,1,5",
            "t:2: error[truncated-row]: found text after a closing quote, expected a comma",
            "write a quote inside quoted text twice",
        ),
    ] {
        check(seen, format!("{NATIVE}\n{row}\n"), expected, hint);
    }
    let row = b"job_id,submit_s,devices,duration_s\n\xffa,0,1,5\n";
    check(
        seen,
        row,
        "t:2: error[bad-utf8]: byte 1 of the line (0xff) is not UTF-8",
        "save the file as UTF-8",
    );
}

fn headers(seen: &mut BTreeSet<Rule>) {
    for (text, expected, hint) in [
        (
            "job_id,submit_s,duration_s\na,0,5\n",
            "t:1:devices: error[missing-column]: the header has no column `devices`",
            "add `devices` to the header and a value to each row",
        ),
        (
            "job_id,submit_s,devices\na,0,5\n",
            "t:1: error[missing-column]: the header has none of `iterations` with `iteration_ms`, or `duration_s`, or `iterations` with `model`",
            "",
        ),
        (
            "job_id,submit_s,devices,duration_s,modle\na,0,1,5,x\n",
            "t:1:modle: error[unknown-column]: unknown column `modle`",
            "did you mean `model`?",
        ),
        (
            "job_id,submit_s,devices,duration_s,devices\na,0,1,5,1\n",
            "t:1:devices: error[duplicate-column]: duplicate column `devices`",
            "",
        ),
        (
            "job_id,num_gpu,submit_time,iterations,iteration_time,colour\na,1,0,5,1,red\n",
            "t:1:colour: warning[unknown-column]: unknown column `colour`, ignored",
            "known columns are job_id, num_gpu, submit_time, iterations, model_name, batch_size, duration, interval, \
          iteration_time, resource_time_0, resource_time_1, resource_time_2, priority",
        ),
        (
            "job_id,submit_s,devices,duration_s\n",
            "t:1: error[no-rows]: the file has no jobs",
            "a trace has one line a job",
        ),
    ] {
        check(seen, text, expected, hint);
    }
}

fn optional_columns(seen: &mut BTreeSet<Rule>) {
    for (columns, row, expected, hint) in [
        (
            "iterations,iteration_ms",
            "0,5",
            "t:2:iterations: error[zero-iterations]: found 0, expected more than 0",
            "drop jobs that do nothing",
        ),
        (
            "iterations,iteration_ms",
            "-3,5",
            "t:2:iterations: error[negative-count]: found -3, expected more than 0",
            "",
        ),
        (
            "iterations,iteration_ms",
            "5,",
            "t:2:iteration_ms: error[missing-value]: `iteration_ms` is empty; expected a number",
            "",
        ),
        (
            "duration_s,devices_min",
            "5,3",
            "t:2:devices_min: error[gang-range]: found 3, expected at most the 2 that `devices` asks for",
            "",
        ),
        (
            "duration_s,devices_max",
            "5,1",
            "t:2:devices_max: error[gang-range]: found 1, expected at least the 2 that `devices` asks for",
            "",
        ),
        (
            "duration_s,devices_min",
            "5,0",
            "t:2:devices_min: error[zero-gang]: found 0, expected at least one device",
            "",
        ),
        (
            "duration_s,device_types",
            "5,a100;;v100",
            "t:2:device_types: error[missing-value]: found an empty name in `a100;;v100`",
            "",
        ),
        (
            "duration_s,deadline_s",
            "5,99",
            "t:2:deadline_s: error[deadline-before-submit]: found 99, which is before the submission at 100",
            "`deadline_s` counts from the beginning of the trace, not from the submission",
        ),
        (
            "duration_s,model",
            "5,bret",
            "t:2:model: warning[unknown-model]: no profile of model `bret` is known",
            "did you mean `bert`?",
        ),
        (
            "duration_s,array,array_index",
            "5,sweep,",
            "t:2:array_index: error[missing-value]: `array_index` is empty; an array's element needs `array` and `array_index`",
            "",
        ),
        (
            "iterations,iteration_ms,data_ms,compute_ms,network_ms",
            "5,10,1,21,1",
            "t:2:compute_ms: warning[stage-sum]: the stage takes 21 ms, the whole iteration 10 ms",
            "are both in milliseconds?",
        ),
        (
            "iterations,iteration_ms,data_ms,compute_ms,network_ms",
            "5,10,1,,1",
            "t:2:compute_ms: error[missing-value]: `compute_ms` is empty; give all three stages or none",
            "",
        ),
        (
            "duration_s,priority",
            "5,0.5",
            "t:2:priority: error[not-an-integer]: found `0.5`, expected a whole number up to 2147483647",
            "",
        ),
    ] {
        check(seen, format!("job_id,submit_s,devices,{columns}\na,100,2,{row}\n"), expected, hint);
    }
}

fn rows_of_json_lines(seen: &mut BTreeSet<Rule>) {
    let object_hint = "each line is one JSON object: {\"job_id\": \"a\", \"submit_s\": 0, ...}";
    for (row, expected, hint) in [
        (
            r#"{"job_id":"a","submit_s":0"#,
            "t:1: error[bad-json]: the object ends too early (character 26 of the line)",
            object_hint,
        ),
        (r#"{"job_id":a}"#, "t:1: error[bad-json]: invalid JSON (character 11 of the line)", object_hint),
        (
            r#"{"job_id":"a","submit_s":"0","devices":1,"duration_s":5}"#,
            "t:1:submit_s: error[not-a-number]: found `0`, expected a number",
            "write the number without quotes",
        ),
        (
            r#"{"job_id":"a","submit_s":0,"devices":1,"duration_s":true}"#,
            "t:1:duration_s: error[not-a-number]: found `true`, expected a number",
            "",
        ),
        (
            r#"{"job_id":"a","submit_s":0,"devices":1,"duration_s":5,"user":7}"#,
            "t:1:user: error[not-text]: found `7`, expected text",
            "",
        ),
        (
            r#"{"job_id":"a","submit_s":0,"devices":1,"duration_s":5,"device_types":["a;b"]}"#,
            "t:1:device_types: error[not-text]: found `[\\\"a;b\\\"]`, expected a list of names",
            "",
        ),
        (
            r#"{"job_id":"a","submit_s":0,"devices":1,"duration_s":5,"device_types":"v100"}"#,
            "t:1:device_types: error[not-text]: found `v100`, expected a list of names",
            "",
        ),
        (
            r#"{"submit_s":0,"devices":1,"duration_s":5}"#,
            "t:1:job_id: error[missing-value]: `job_id` is empty; expected a name",
            "",
        ),
        (
            r#"{"job_id":"a","submit_s":0,"device":1,"duration_s":5}"#,
            "t:1:device: error[unknown-column]: unknown column `device`",
            "did you mean `devices`?",
        ),
        (
            r#"{"job_id":"a","job_id":"b","submit_s":0,"devices":1,"duration_s":5}"#,
            "t:1:job_id: error[duplicate-column]: duplicate key `job_id`",
            "",
        ),
    ] {
        check(seen, row, expected, hint);
    }
    check(
        seen,
        "{\"job_id\":\"a\",\"submit_s\":0,\"devices\":1,\"duration_s\":5}\n[1,2]\n",
        "t:2: error[bad-json]: expected an object (character 0 of the line)",
        object_hint,
    );
}

#[test]
fn every_error_of_a_row_is_listed() {
    let found = findings(b"job_id,submit_s,devices,duration_s\n,-1,0,x\n");
    let rules: Vec<_> = found.iter().map(|finding| finding.rule.code()).collect();
    assert_eq!(rules, ["missing-value", "negative-submit", "zero-gang", "not-a-number"]);
}

#[test]
fn rule_codes_are_unique_and_findings_serialize() {
    let codes: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.code()).collect();
    assert_eq!(codes.len(), Rule::ALL.len());
    let finding = &findings(b"job_id,submit_s,devices,duration_s\na,0,0,1\n")[0];
    assert_eq!(
        serde_json::to_string(finding).unwrap(),
        r#"{"file":"t","line":2,"column":"devices","rule":"zero-gang","severity":"error","message":"found 0, expected at least one device","hint":"drop jobs that need no device"}"#
    );
}
