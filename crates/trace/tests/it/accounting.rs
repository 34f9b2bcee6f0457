//! Slurm's accounting and the Standard Workload Format: results of each row, and errors of bad input.

use crate::format;
use std::io::Cursor;

use wharf_core::JobSpec;
use wharf_trace::{LintOptions, ReadOptions, lint_reader, parse_noted, parse_trace, read_noted};

use crate::logs::{ENDED_BADLY, check, messages, sample, shown};

#[test]
fn sacct_sample_becomes_jobs_without_steps_and_with_requeued_runs_added_up() {
    check(
        "sacct.txt",
        format("sacct"),
        &[
            "1201 at 0 on 4: 7200 x 1000 ms, user amy, pool gpu",
            "1202_1 at 60 on 1 of v100: 600 x 1000 ms, user bob, pool gpu",
            "1202_2 at 60 on 1 of v100: 3630 x 1000 ms, user bob, pool gpu",
            "1204 at 600 on 16: 86400 x 1000 ms, user cyd, pool long",
            "1207 at 900 on 2: 4500 x 1000 ms, user bob, pool gpu",
        ],
        &[
            "3: warning[dropped-rows]: 2 rows dropped: job steps: their jobs have rows of their own (first: `1201.batch`)",
            "8: warning[dropped-rows]: 1 row dropped: no GPU allocated (first: `1205`)",
            "9: warning[dropped-rows]: 1 row dropped: never started (first: `1206`)",
            "11: warning[adapted-jobs]: requeued, with the lengths of the runs added up (1 job, first: `1207`)",
            "12: warning[dropped-rows]: 1 row dropped: no end recorded, so that the length is unknown (first: `1208`)",
            &format!("6: warning[adapted-jobs]: {ENDED_BADLY} (2 jobs, first: `1202_2`)"),
        ],
    );
    let jobs = read_noted(&sample("sacct.txt"), None).unwrap().trace.jobs;
    let declared: Vec<f64> = jobs.iter().map(JobSpec::declared_s).collect();
    assert_eq!(declared, [14_400.0, 3600.0, 3600.0, 86_400.0, 7200.0], "time limits, where there is one");
    let array: Vec<_> = jobs.iter().filter_map(|job| job.array.as_ref()).collect();
    assert_eq!(
        array.iter().map(|one| (&*one.array, one.index)).collect::<Vec<_>>(),
        [("1202", 1), ("1202", 2)]
    );
}

#[test]
fn sacct_counts_cpus_and_nodes_where_asked_to() {
    let devices = |format| -> Vec<(String, u32)> {
        let jobs = read_noted(&sample("sacct.txt"), Some(format)).unwrap().trace.jobs;
        jobs.iter().map(|job| (job.name.to_string(), job.gang.devices)).collect()
    };
    let named = |counts: &[(&str, u32)]| {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>()
    };
    assert_eq!(
        devices(format("sacct-cpus")),
        named(&[("1201", 32), ("1202_1", 8), ("1202_2", 8), ("1204", 128), ("1205", 16), ("1207", 16)])
    );
    assert_eq!(
        devices(format("sacct-nodes")),
        named(&[("1201", 1), ("1202_1", 1), ("1202_2", 1), ("1204", 2), ("1205", 1), ("1207", 1)])
    );
}

#[test]
fn gpu_types_are_device_types_only_where_gpus_are_devices() {
    let text = "JobIDRaw|Submit|Elapsed|State|NCPUS|NNodes|ReqTRES\n\
                1|2024-03-04T02:00:00|01:00:00|COMPLETED|8|2|cpu=8,gres/gpu:v100=2\n";
    for (format, devices, types) in [
        (format("sacct"), 2, vec!["v100"]),
        (format("sacct-cpus"), 8, vec![]),
        (format("sacct-nodes"), 2, vec![]),
    ] {
        let jobs = parse_trace(text, "t", Some(format)).unwrap().jobs;
        let found: Vec<&str> = jobs[0].gang.device_types.iter().map(|name| &**name).collect();
        assert_eq!((jobs[0].gang.devices, found), (devices, types), "{format:?}");
    }
}

/// Steps before the row of their job, as `sacct` sorted by another column has them, are dropped; those without a job are errors.
#[test]
fn steps_are_reported_once() {
    let rows = ["1.0", "1.1", "2.0", "2.1", "1", "3.0"].map(|id| run(id, 1, 2, "COMPLETED")).concat();
    let options = ReadOptions { skip_invalid: true, ..ReadOptions::default() };
    let read = parse_noted(Cursor::new(format!("{HEADER}\n{rows}")), "t", options).unwrap();
    assert_eq!(
        messages(&read.notes),
        [
            "4: warning[skipped-rows]: 2 rows skipped (orphan-step): step `2.0` has no row of its job `2` (lines 4, 7)",
            "2: warning[dropped-rows]: 2 rows dropped: job steps: their jobs have rows of their own (first: `1.0`)",
        ]
    );
}

/// Common sets of columns, each with one job of 2 GPUs that runs for 90 s.
#[test]
fn sacct_reads_common_sets_of_columns() {
    for (header, row) in [
        (
            "JobID|Submit|Start|End|State|AllocTRES",
            "7|2024-01-01T00:00:00|2024-01-01T00:00:01|2024-01-01T00:01:31|COMPLETED|gres/gpu=2",
        ),
        (
            "JobIDRaw|Submit|ElapsedRaw|State|AllocTRES",
            "7|2024-01-01T00:00:00|90|COMPLETED|cpu=1,gres/gpu:a100=1,gres/gpu:v100=1",
        ),
        ("JobID|Submit|Elapsed|State|ReqTRES", "7|2024-01-01T00:00:00|00:01:30|COMPLETED|cpu=1,gres/gpu=2"),
        (
            "JobID|JobName|Submit|Elapsed|State|AllocGRES",
            "7|it is \"x\"|2024-01-01T00:00:00|00:01:30|COMPLETED|gpu:2",
        ),
        ("JobID|Submit|Elapsed|State|ReqGRES|NNodes", "7|2024-01-01T00:00:00|00:01:30|COMPLETED|gpu:1|2"),
        ("JobID|Submit|Start|End|State|AllocTRES", "7|1704067200|1704067201|1704067291|COMPLETED|gres/gpu=2"),
        // `--parsable` ends each line with a bar.
        ("JobID|Submit|Elapsed|State|AllocTRES|", "7|2024-01-01T00:00:00|00:01:30|COMPLETED|gres/gpu=2|"),
    ] {
        let trace = parse_trace(&format!("{header}\n{row}\n"), "t", None)
            .unwrap_or_else(|error| panic!("{header}: {error}"));
        let jobs: Vec<String> = trace.jobs.iter().map(shown).collect();
        assert_eq!(jobs, ["7 at 0 on 2: 90 x 1000 ms"], "{header}");
    }
}

#[test]
fn swf_sample_becomes_jobs_of_processors() {
    check(
        "cluster.swf",
        format("swf"),
        &[
            "1 at 0 on 16: 3600 x 1000 ms, user 3, pool 1",
            "2 at 60 on 4: 600 x 1000 ms, user 4, pool 1",
            "4 at 300 on 24: 900 x 1000 ms, user 5, pool 2",
            "6 at 500 on 8: 45 x 1000 ms, user 4, pool 1",
        ],
        &[
            "9: warning[dropped-rows]: 1 row dropped: never started (first: `3`)",
            &format!("10: warning[adapted-jobs]: {ENDED_BADLY} (1 job, first: `4`)"),
            "11: warning[dropped-rows]: 1 row dropped: ran for no time (first: `5`)",
            "13: warning[dropped-rows]: 1 row dropped: parts of a job that was checkpointed or swapped out: it has a row of \
             its own (first: `6`)",
        ],
    );
    let jobs = read_noted(&sample("cluster.swf"), None).unwrap().trace.jobs;
    let declared: Vec<f64> = jobs.iter().map(JobSpec::declared_s).collect();
    assert_eq!(declared, [7200.0, 1800.0, 900.0, 600.0], "requested times, where there is one");
}

const HEADER: &str = "JobID|Submit|Start|End|State|AllocTRES";

/// A row of a job with 2 GPUs: its id, and its start and end in minutes of one hour.
fn run(id: &str, start: u32, end: u32, state: &str) -> String {
    let at = |minute: u32| format!("2024-01-01T01:{minute:02}:00");
    format!("{id}|2024-01-01T01:00:00|{}|{}|{state}|gres/gpu=2\n", at(start), at(end))
}

#[test]
fn bad_dumps_are_reported_by_line_and_column() {
    let swf = "1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1";
    let rows = |rows: &[String]| format!("{HEADER}\n{}", rows.concat());
    let good = run("1", 1, 2, "COMPLETED");
    for (text, expected, hint) in [
        (
            "JobID|Start|End|State|AllocTRES\n".to_owned(),
            "t:1:Submit: error[missing-column]: the header has no column `Submit`",
            "add `Submit` to the header and a value to each row",
        ),
        (
            "JobID|Submit|Start|State|AllocTRES\n".to_owned(),
            "t:1: error[missing-column]: the header has none of `ElapsedRaw`, or `Elapsed`, or `Start` with `End`",
            "",
        ),
        (
            "JobID|Submit|Elapsed|State|NCPUS\n".to_owned(),
            "t:1: error[missing-column]: the header has none of `AllocTRES`, or `AllocGRES`, or `ReqTRES`, or `ReqGRES` with \
             `NNodes`",
            "",
        ),
        (
            "JobID,Submit,Start,End,State,AllocTRES\n1,2,3,4,5,6\n".to_owned(),
            "t:1: error[wrong-separator]: found no `|` in the header `JobID,Submit,Start,End,State,AllocTRES`",
            "dump with `sacct --parsable2` and without `--delimiter`",
        ),
        (
            "JobID           Submit      State\n------------ ------------------- ----------\n".to_owned(),
            "t:1: error[wrong-separator]: found no `|` in the header `JobID           Submit      State`",
            "dump with `sacct --parsable2` and without `--delimiter`",
        ),
        (
            format!("{HEADER}\n1|2024-01-01T00:00:00|x\n"),
            "t:2: error[truncated-row]: found 3 fields, the header has 6",
            "the row was cut, or has another separator than the header",
        ),
        (
            format!(
                "{HEADER}\n1,2024-01-01T00:00:00,2024-01-01T00:00:00,2024-01-01T00:00:09,COMPLETED,gres/gpu=2\n"
            ),
            "t:2: error[truncated-row]: found 1 fields, the header has 6",
            "the row was cut, or has another separator than the header",
        ),
        (
            rows(&[good.clone(), run("2.batch", 1, 2, "COMPLETED"), run("2.0", 1, 2, "COMPLETED")]),
            "t:3:JobID: error[orphan-step]: step `2.batch` has no row of its job `2`",
            "dump whole jobs without their steps: `sacct --allocations` (`-X`)",
        ),
        (
            rows(&[good.clone(), run("1", 5, 9, "COMPLETED")]),
            "t:3:JobID: error[duplicate-id]: job `1` is duplicated, first on line 2, and was not requeued",
            "a job is in the dump twice, or Slurm used its id again: dump a shorter period",
        ),
        (
            rows(&[run("1", 1, 9, "PREEMPTED"), run("1", 5, 9, "COMPLETED")]),
            "t:3:JobID: error[duplicate-id]: job `1` is duplicated, first on line 2, and both run at the same time",
            "a job is in the dump twice, or Slurm used its id again: dump a shorter period",
        ),
        (
            rows(&[good.clone(), run("2", 30, 20, "COMPLETED")]),
            "t:3:End: error[times-backwards]: the job ends at 2024-01-01T01:20:00, 600 s before it starts",
            "correct the row, or skip it: `--skip-invalid`",
        ),
        (
            format!(
                "{HEADER}\n1|2024-01-01T01:00:00|2024-01-01T00:00:00|2024-01-01T00:00:09|COMPLETED|gres/gpu=2\n"
            ),
            "t:2:Start: error[times-backwards]: the job starts at 2024-01-01T00:00:00, 3600 s before it is submitted",
            "correct the row, or skip it: `--skip-invalid`",
        ),
        (
            format!("{HEADER}\n1|yesterday|2024-01-01T00:00:00|2024-01-01T00:00:09|COMPLETED|gres/gpu=2\n"),
            "t:2:Submit: error[bad-date]: found `yesterday`, expected a date such as 2017-10-09 07:01:55",
            "",
        ),
        (
            format!(
                "{HEADER}\n1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:00:09|COMPLETED|gres/gpu=two\n"
            ),
            "t:2:AllocTRES: error[not-a-number]: found `gres/gpu=two`, expected a number of GPUs",
            "such as gres/gpu=2 or gres/gpu:a100=2",
        ),
        (
            "JobID|Submit|Elapsed|State|AllocTRES\n1|2024-01-01T00:00:00|an hour|COMPLETED|gres/gpu=2\n"
                .to_owned(),
            "t:2:Elapsed: error[not-a-number]: found `an hour`, expected [DAYS-]HOURS:MINUTES:SECONDS",
            "",
        ),
        (
            format!(
                "{HEADER}\n1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:00:09|COMPLETED|cpu=4\n"
            ),
            "t:2: error[no-rows]: no row of the file is a job: all were dropped",
            "`wharf trace lint` says why; on a cluster without GPUs, read CPUs or nodes as devices: format `sacct-cpus` or \
             `sacct-nodes`",
        ),
        (format!("{HEADER}\n"), "t:1: error[no-rows]: the file has no jobs", "a trace has one line a job"),
        (
            format!("; Version: 2.2\n{swf}\n2 0 0 60\n"),
            "t:3: error[truncated-row]: found 4 fields, expected 18",
            "the row was cut, or has another separator than white space",
        ),
        (
            format!("{}\n", swf.replace(" 60 ", " -7 ")),
            "t:1:run_time: error[negative-count]: found -7, expected 0 or more, or -1 for unknown",
            "",
        ),
        (
            format!("{swf}\n{swf}\n"),
            "t:2:job: error[duplicate-id]: job `1` is duplicated, first on line 1",
            "give each job its own name",
        ),
        (
            format!("; only comments\n{}\n", swf.replace(" 60 ", " sixty ")),
            "t:2:run_time: error[not-a-number]: found `sixty`, expected a number",
            "",
        ),
    ] {
        let error = parse_noted(Cursor::new(text.clone()), "t", None).expect_err(&text);
        assert_eq!(error.to_string(), expected, "{text}");
        assert_eq!(error.hint().unwrap_or_default(), hint, "{text}");
        let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
        assert!(findings.contains(error.finding().expect("a line")), "{findings:?}");
    }
}

#[test]
fn invalid_rows_are_skipped_and_counted_where_asked_to() {
    let options = ReadOptions { skip_invalid: true, ..ReadOptions::default() };
    let rows: Vec<String> = [
        run("1", 1, 2, "COMPLETED"),
        run("2", 30, 20, "COMPLETED"),
        "3|when|2024-01-01T00:00:00|x|COMPLETED|gres/gpu=2\n".to_owned(),
        run("4", 40, 30, "COMPLETED"),
        run("5", 1, 2, "COMPLETED"),
        run("6.0", 1, 2, "COMPLETED"),
        "7|2024\n".to_owned(),
    ]
    .into();
    let text = format!("{HEADER}\n{}", rows.concat());
    let read = parse_noted(Cursor::new(text.clone()), "t", options).unwrap();
    let names: Vec<&str> = read.trace.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["1", "5"]);
    assert_eq!(
        messages(&read.notes),
        [
            "3: warning[skipped-rows]: 2 rows skipped (times-backwards): the job ends at 2024-01-01T01:20:00, 600 s before \
             it starts (lines 3, 5)",
            "4: warning[skipped-rows]: 1 row skipped (bad-date): found `when`, expected a date such as 2017-10-09 07:01:55 \
             (line 4)",
            "8: warning[skipped-rows]: 1 row skipped (truncated-row): found 2 fields, the header has 6 (line 8)",
            "7: warning[skipped-rows]: 1 row skipped (orphan-step): step `6.0` has no row of its job `6` (line 7)",
        ]
    );
    // A header cannot be skipped, and neither can all rows.
    for (text, expected) in [
        (
            "JobID|Start\n1|2\n".to_owned(),
            "t:1:Submit: error[missing-column]: the header has no column `Submit`",
        ),
        (
            format!("{HEADER}\n{}", run("2", 30, 20, "COMPLETED")),
            "t:2: error[no-rows]: no row of the file is a job: all were dropped",
        ),
    ] {
        let error = parse_noted(Cursor::new(text), "t", options).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

/// The state of a job is that of its last run.
#[test]
fn only_completed_jobs_are_kept_with_all_their_runs() {
    let rows = [
        run("1", 1, 2, "COMPLETED"),
        run("2", 1, 2, "FAILED"),
        run("3", 1, 4, "PREEMPTED"),
        run("3", 10, 20, "COMPLETED"),
        run("4", 1, 4, "PREEMPTED"),
        run("4", 10, 20, "CANCELLED by 1000"),
        run("5", 1, 4, "NODE_FAIL"),
    ];
    let text = format!("{HEADER}\n{}", rows.concat());
    let read = |only_completed| {
        let options = ReadOptions { only_completed, ..ReadOptions::default() };
        parse_noted(Cursor::new(text.clone()), "t", options).unwrap()
    };
    let lengths = |jobs: &[JobSpec]| -> Vec<(String, f64)> {
        jobs.iter().map(|job| (job.name.to_string(), job.solo_s())).collect()
    };
    let named =
        |all: &[(&str, f64)]| all.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect::<Vec<_>>();
    let all = read(false);
    assert_eq!(
        lengths(&all.trace.jobs),
        named(&[("1", 60.0), ("2", 60.0), ("3", 780.0), ("4", 780.0), ("5", 180.0)])
    );
    let ended = format!("3: warning[adapted-jobs]: {ENDED_BADLY} (3 jobs, first: `2`)");
    assert_eq!(messages(&all.notes).last(), Some(&ended));
    let completed = read(true);
    assert_eq!(lengths(&completed.trace.jobs), named(&[("1", 60.0), ("3", 780.0)]));
    let dropped = "3: warning[dropped-rows]: 3 rows dropped: failed, killed or cancelled (first: `2`)";
    assert_eq!(messages(&completed.notes).last().map(String::as_str), Some(dropped));
    let failed = format!("{HEADER}\n{}", run("2", 1, 2, "FAILED"));
    let options = ReadOptions { only_completed: true, ..ReadOptions::default() };
    let error = parse_noted(Cursor::new(failed), "t", options).unwrap_err();
    assert_eq!(error.to_string(), "t:1: error[no-rows]: no row of the file is a job: all were dropped");
}
