//! The numbers of a run against tables that were computed by hand, and their definitions in `wharf help run-metrics`.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// On four devices, first come, first served: `a` holds three of them from 0 to 100, `b` all from 100 to 150, `c` one from 150 to 180.
const QUEUE: &str = "job_id,submit_s,devices,iterations,iteration_ms,batch_size,deadline_s\n\
                     a,0,3,100,1000,10,90\n\
                     b,0,4,50,1000,20,\n\
                     c,10,1,30,1000,5,200\n";

/// The summary of the only run.
fn run(sandbox: &Sandbox, words: &str) -> Value {
    let text = sandbox.wharf(&format!("sim {words} --output json")).ok();
    serde_json::from_str::<Value>(&text).unwrap()["runs"][0].take()
}

/// Compares each field with what was computed by hand; `Null` is a field that is null or left out.
fn check(case: &str, run: &Value, expected: &[(&str, Value)]) {
    for (field, value) in expected {
        let is_equal = match (run[field].as_f64(), value.as_f64()) {
            (Some(found), Some(value)) => (found - value).abs() <= 1e-9 * value.abs().max(1.0),
            _ => run[field] == *value,
        };
        assert!(is_equal, "{case}, {field}: {} instead of {value}\n{run:#}", run[field]);
    }
}

fn number(value: f64) -> Value {
    value.into()
}

fn count(value: u64) -> Value {
    value.into()
}

#[test]
fn metrics_of_a_queue_are_as_computed_by_hand() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    let words = "--trace queue.csv --cluster 1x4 --policy fifo --set restart_s=0";
    // Completion times 100, 150, 170; waits 0, 100, 140; 300 + 200 + 30 device-seconds; 1000 + 1000 + 150 samples.
    let whole = [
        ("jobs", count(3)),
        ("finished", count(3)),
        ("unfinished", count(0)),
        ("avg_jct_s", number(140.0)),
        ("median_jct_s", number(150.0)),
        // Positions 1.9 and 1.98 between the second and the third.
        ("p95_jct_s", number(168.0)),
        ("p99_jct_s", number(169.6)),
        ("max_jct_s", number(170.0)),
        ("makespan_s", number(180.0)),
        ("avg_queue_s", number(80.0)),
        ("avg_queue_all_s", number(80.0)),
        ("gpu_utilization", number(530.0 / 720.0)),
        ("preemptions", count(0)),
        ("failure_stops", Value::Null),
        ("reschedules", count(3)),
        ("deadlines_met", count(1)),
        ("deadlines_missed", count(1)),
        ("throughput_avg", number(2150.0 / 180.0)),
        ("throughput_peak", number(20.0)),
        ("cost", Value::Null),
        ("cut_off_s", Value::Null),
        ("measure", Value::Null),
    ];
    check("whole", &run(&sandbox, words), &whole);
    // (window, counted, mean completion time, makespan, mean wait, device use, deadlines met and missed)
    let windows = [
        ("jobs=0..2", 3, 140.0, 180.0, 80.0, 530.0 / 720.0, (count(1), count(1))),
        // b and c; observed from 0 to 180.
        ("jobs=1..2", 2, 160.0, 180.0, 120.0, 530.0 / 720.0, (count(1), count(0))),
        // c; observed from 10 to 180: a still holds 3 x 90 device-seconds of that.
        ("jobs=2..2", 1, 170.0, 170.0, 140.0, 500.0 / 680.0, (count(1), count(0))),
        // b; observed from 0 to 150.
        ("jobs=1..1", 1, 150.0, 150.0, 100.0, 500.0 / 600.0, (Value::Null, Value::Null)),
        // a and b; observed for ten seconds, in which only a runs.
        ("time=0..10", 2, 125.0, 150.0, 50.0, 0.75, (count(0), count(1))),
        // c; observed from 5 to 120: 3 x 95 and 4 x 20 device-seconds.
        ("time=5s..2m", 1, 170.0, 170.0, 140.0, 365.0 / 460.0, (count(1), count(0))),
        // Longer than the run: observed to its end.
        ("time=10..1h", 1, 170.0, 170.0, 140.0, 500.0 / 680.0, (count(1), count(0))),
    ];
    for (window, jobs, jct_s, makespan_s, queue_s, share, (met, missed)) in windows {
        let measured = run(&sandbox, &format!("{words} --measure {window}"));
        let expected = [
            ("jobs", count(jobs)),
            ("finished", count(jobs)),
            ("avg_jct_s", number(jct_s)),
            ("makespan_s", number(makespan_s)),
            ("avg_queue_s", number(queue_s)),
            ("gpu_utilization", number(share)),
            ("deadlines_met", met),
            ("deadlines_missed", missed),
            // The whole run, whatever the window.
            ("reschedules", count(3)),
            ("throughput_avg", number(2150.0 / 180.0)),
        ];
        check(window, &measured, &expected);
        let told = measured["measure"].as_str().unwrap();
        assert_eq!(measured["trace"], format!("queue [{told}]"));
    }
}

#[test]
fn restarts_and_preemptions_are_counted_as_computed_by_hand() {
    let sandbox = Sandbox::new();
    sandbox.write("pair.csv", "job_id,submit_s,devices,duration_s\nlong,0,1,100\nshort,20,1,10\n");
    let words = "--trace pair.csv --cluster 1x1 --policy srtf --set restart_s=10 --set min_run_s=0";
    // long holds the device 0 to 20 (10 s of it restarting), short 20 to 40, long 40 to 140: 10 s more, then the 90 s that are left.
    let expected = [
        ("avg_jct_s", number((140.0 + 20.0) / 2.0)),
        ("makespan_s", number(140.0)),
        ("avg_queue_s", number(20.0 / 2.0)),
        ("gpu_utilization", number(1.0)),
        ("preemptions", count(1)),
        ("reschedules", count(3)),
    ];
    check("preempted", &run(&sandbox, words), &expected);
    // Counted jobs only: short was never preempted.
    let short = run(&sandbox, &format!("{words} --measure jobs=1..1"));
    // Observed from 20 to 40.
    let expected = [("preemptions", count(0)), ("avg_jct_s", number(20.0)), ("gpu_utilization", number(1.0))];
    check("short", &short, &expected);
}

#[test]
fn lost_nodes_are_failure_stops_and_no_preemptions() {
    let sandbox = Sandbox::new();
    sandbox.write("one.csv", "job_id,submit_s,devices,duration_s\nonly,0,1,100\n");
    sandbox.write("failures.csv", "time_s,node,event\n50,0,down\n60,0,up\n");
    let words = "--trace one.csv --cluster 1x1 --policy fifo --failures failures.csv --set restart_s=0 --set checkpoint_interval_s=20";
    // 40 of 50 s survive; the other 60 are done from 60 to 120. It held the device for 50 + 60 s and waited for 10.
    let expected = [
        ("avg_jct_s", number(120.0)),
        ("avg_queue_s", number(10.0)),
        ("gpu_utilization", number(110.0 / 120.0)),
        ("preemptions", count(0)),
        ("failure_stops", count(1)),
        ("reschedules", count(2)),
    ];
    check("failure", &run(&sandbox, words), &expected);
    assert!(sandbox.wharf(&format!("sim {words}")).ok().contains("failure stops"));
    sandbox.wharf(&format!("sim {words} --out results")).ok();
    let folder =
        format!("results/{}", sandbox.names("results").iter().find(|name| name.starts_with("one-")).unwrap());
    let events = sandbox.read(&format!("{folder}/events.jsonl"));
    assert!(events.contains("\"interrupted\"") && !events.contains("\"preempted\""), "{events}");
}

#[test]
fn runs_that_are_cut_off_count_up_to_the_cut() {
    let sandbox = Sandbox::new();
    let trace = "job_id,submit_s,devices,duration_s,deadline_s\n\
                 a,0,2,1000,20000\nb,0,2,3000,5000\nc,0,2,3000,100\nd,100,4,10000,1e6\nlater,9000,1,10,1e6\n";
    sandbox.write("cut.csv", trace);
    // Rounds of 300 s under Blox's rules: a and b hold the four devices, c follows a at 1200, and the run has ended at 2100.
    let blox = run(&sandbox, "--trace cut.csv --cluster 1x4 --policy fifo --preset blox --rounds 7");
    let expected = [
        ("jobs", count(5)),
        ("finished", count(1)),
        ("unfinished", count(4)),
        ("avg_jct_s", number(1200.0)),
        ("gpu_utilization", number(1.0)),
        ("deadlines_met", count(1)),
        // c, whose time had come; b and d may still do it, and the last was not even submitted.
        ("deadlines_missed", count(1)),
        ("cut_off_s", number(2100.0)),
        // a 0, b 0, c 1200, d from 100 on: 2000; rounds begin at multiples of 300.
        ("avg_queue_s", number(0.0)),
    ];
    check("blox", &blox, &expected);
    // No tracked job is finished, and no figure includes other jobs.
    let tracked = "--trace cut.csv --cluster 1x4 --policy fifo --preset blox --set track=3..3 --rounds 7";
    let expected = [
        ("jobs", count(1)),
        ("finished", count(0)),
        ("deadlines_met", count(0)),
        ("deadlines_missed", count(0)),
        ("gpu_utilization", number(1.0)),
    ];
    check("tracked", &run(&sandbox, tracked), &expected);
    // Two rounds of 360 s.
    let muri = run(&sandbox, "--trace cut.csv --cluster 1x4 --policy muri-s --rounds 2");
    check("muri-s", &muri, &[("cut_off_s", number(720.0)), ("finished", count(0))]);
    for policy in
        ["max-min-fairness", "gavel/fifo", "sia", "pollux", "allox", "crius/fcfs", "muri-s", "themis"]
    {
        for rounds in [1, 2, 5, 20] {
            let said = sandbox.wharf(&format!(
                "sim --trace cut.csv --cluster 1x4 --policy {policy} --rounds {rounds} --output json"
            ));
            let Ok(document) = serde_json::from_str::<Value>(&said.stdout) else {
                assert!(said.stderr.contains("has no rounds"), "{policy}: {}", said.stderr);
                continue;
            };
            let run = &document["runs"][0];
            let share = run["gpu_utilization"].as_f64().unwrap_or(0.0);
            assert!(share <= 1.0 + 1e-9, "{policy} {rounds}: {share}");
            assert_eq!(run["jobs"], 5, "{policy} {rounds}");
            assert!(run["deadlines_met"].as_u64() <= run["finished"].as_u64(), "{policy} {rounds}: {run}");
        }
    }
}

#[test]
fn windows_that_cannot_be_measured_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    let cases = [
        ("jobs=1..3", 3, "measurement window `jobs=1..3` is outside the trace, which has jobs 0..2"),
        ("time=11..20", 3, "no job is submitted within measurement window `time=11..20`"),
        ("jobs=2..1", 2, "ends before it begins"),
        ("jobs=x..1", 2, "expected the number of a job, found `x`"),
        ("hour=1..2", 2, "expected `jobs=A..B` or `time=T1..T2`"),
    ];
    for (window, code, told) in cases {
        let line = format!("sim --trace queue.csv --cluster 1x4 --policy fifo --measure {window}");
        let said = sandbox.wharf(&line).fails(code);
        assert!(said.contains(told) && said.contains("hint:"), "{window}: {said}");
    }
}

#[test]
fn windows_are_recorded_and_runs_with_others_are_not_compared() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    let line = "sim --trace queue.csv --cluster 1x4 --policy fifo,srtf --set restart_s=0";
    sandbox.wharf(&format!("{line} --measure jobs=1..2 --out part")).ok();
    sandbox.wharf(&format!("{line} --out whole")).ok();
    let summary = sandbox.read("part/queue-fifo-restart_s-0/summary.json");
    assert!(summary.contains("\"measure\": \"jobs=1..2\""), "{summary}");
    let digest = sandbox.read("part/queue-fifo-restart_s-0/run.json");
    assert!(digest.contains("--measure jobs=1..2"), "{digest}");
    assert!(sandbox.read("part/report.html").contains("queue [jobs=1..2]"));
    let compared = sandbox.wharf("compare part whole").ok();
    assert!(compared.contains("queue [jobs=1..2]"), "{compared}");
}

#[test]
fn every_number_of_a_summary_is_defined() {
    let sandbox = Sandbox::new();
    let help = sandbox.wharf("help run-metrics").ok();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // All fields, those that are left out where there is nothing to say included.
    let source = std::fs::read_to_string(root.join("crates/report/src/metrics.rs")).unwrap();
    let fields = source.split_once("pub struct Summary {").unwrap().1.split_once("\n}").unwrap().0;
    let fields: Vec<&str> = fields
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'))
        .map(|field| field.0)
        .collect();
    assert!(fields.len() > 30, "{fields:?}");
    for field in fields {
        assert!(help.contains(&format!("`{field}`")), "`wharf help metrics` does not define {field}");
    }
    sandbox.write("queue.csv", QUEUE);
    sandbox.wharf("sim --trace queue.csv --cluster 1x4 --policy fifo --out results").ok();
    for column in sandbox.read("results/queue-fifo/jobs.csv").lines().next().unwrap().split(',') {
        assert!(help.contains(&format!("`{column}`")), "`wharf help metrics` does not define {column}");
    }
}
