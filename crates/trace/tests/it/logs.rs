//! Traces of other simulators and logs of real clusters: the result of each row, and its notes.

use crate::format;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use wharf_core::JobSpec;
use wharf_testing::{needs, reference};
use wharf_trace::{
    Finding, Format, LintOptions, Rule, Severity, Trace, lint, lint_reader, parse_noted, parse_trace,
    read_noted, read_trace, write_trace,
};

pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces").join(name)
}

/// A job in a line.
pub(crate) fn shown(job: &JobSpec) -> String {
    let gang = &job.gang;
    let mut text = format!("{} at {} on {}", job.name, job.submit.seconds(), gang.devices);
    if (gang.devices_min, gang.devices_max) != (gang.devices, gang.devices) {
        text += &format!(" ({} to {})", gang.devices_min, gang.devices_max);
    }
    if !gang.device_types.is_empty() {
        text += &format!(" of {}", gang.device_types.join("|"));
    }
    text += &format!(": {} x {} ms", job.iterations, job.iteration_ms);
    if let Some(user) = &job.user {
        text += &format!(", user {user}");
    }
    if let Some(pool) = job.gang.pool() {
        text += &format!(", pool {pool}");
    }
    if let Some(model) = &job.model {
        text += &format!(", {model}");
    }
    if let Some(batch_size) = job.batch_size {
        text += &format!(" batch {batch_size}");
    }
    text
}

pub(crate) fn messages(notes: &[Finding]) -> Vec<String> {
    notes
        .iter()
        .map(|note| format!("{}: {}[{}]: {}", note.line, note.severity, note.rule, note.message))
        .collect()
}

/// A sample becomes these jobs, with these notes; it lints without errors and survives the native formats.
pub(crate) fn check(name: &str, format: Format, jobs: &[&str], notes: &[&str]) {
    let path = sample(name);
    let read = read_noted(&path, None).unwrap_or_else(|error| panic!("{name}: {error}"));
    let shown: Vec<String> = read.trace.jobs.iter().map(shown).collect();
    assert_eq!(shown, jobs, "{name}");
    assert_eq!(messages(&read.notes), notes, "{name}");
    let named = read_trace(&path, Some(format)).expect("the format by name");
    assert_eq!(named, read.trace, "{name} as {format}");

    let findings = lint(&path, &LintOptions::default()).expect("lines to lint").findings;
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{name}: {findings:?}");
    assert!(read.notes.iter().all(|note| findings.contains(note)), "{name}: {findings:?}");
    assert_native(&read.trace, name);
}

/// Wharf's own formats keep everything but the order of an unsorted file.
fn assert_native(trace: &Trace, what: &str) {
    let mut sorted = trace.clone();
    sorted.jobs.iter_mut().for_each(|job| job.row = 0);
    for format in [Format::NATIVE_CSV, Format::NATIVE_JSONL] {
        let mut out = Vec::new();
        let losses = write_trace(trace, format, &mut out).expect("a vector takes it");
        assert_eq!(losses, [], "{what} as {format}");
        let text = String::from_utf8(out).expect("text");
        let again = parse_trace(&text, &trace.name, None).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(again, sorted, "{what} as {format}");
    }
}

#[test]
fn simulators_samples() {
    check(
        "blox-stream.json",
        format("blox"),
        &[
            "0 at 40 on 1: 2150.5 x 1000 ms",
            "1 at 95 on 4: 900.25 x 1000 ms",
            "2 at 610 on 2: 5400 x 1000 ms",
            "3 at 1801 on 8: 1250.75 x 1000 ms",
        ],
        &[],
    );
    check(
        "blox-replay.csv",
        format("blox-csv"),
        &[
            "0 at 0 on 4: 12000 x 0 ms, resnet50",
            "1 at 35 on 1: 8000 x 0 ms, ResNet-18 batch 128",
            "2 at 410 on 2: 30500 x 0 ms, gnmt",
        ],
        &[],
    );
    check(
        "sia.csv",
        format("sia"),
        &[
            "cifar10-0 at 30 on 4 (1 to 64): 4883 x 0 ms, cifar10 batch 1024",
            "bert-1 at 75.5 on 2: 3694 x 0 ms, bert batch 48",
            "deepspeech2-2 at 410 on 2 (1 to 64): 7133 x 0 ms, deepspeech2 batch 80",
            "imagenet-3 at 900 on 8 (1 to 64): 72066 x 0 ms, imagenet batch 1600",
        ],
        &[],
    );
    check(
        "crius.csv",
        format("crius"),
        &[
            "bert-0 at 1000000 on 4 (1 to 16) of a40|*: 4000 x 0 ms, bert__1.3B batch 256",
            "moe-1 at 1000060 on 2 (1 to 16) of a10|*: 9000 x 0 ms, moe__690M batch 512",
            "wide_resnet-2 at 1000400 on 8 (1 to 16) of v100|*: 2500 x 0 ms, wide_resnet__1B batch 256",
        ],
        &[],
    );
}

pub(crate) const ENDED_BADLY: &str =
    "failed, killed or cancelled, but kept: the devices were held for as long";
const PART_OF_GPU: &str = "a part of a GPU asked for, a whole one given for each part";

#[test]
fn philly_samples() {
    check(
        "philly.json",
        format("philly"),
        &[
            "application_1500000000000_0006 at 0 on 1: 7200 x 1000 ms, user u3, pool b2",
            "application_1500000000000_0001 at 300 on 2: 3870 x 1000 ms, user u1, pool a1",
            "application_1500000000000_0003 at 1500 on 1: 45 x 1000 ms, user u1, pool b2",
        ],
        &[
            "2: warning[adapted-jobs]: started more than once, with the lengths of the attempts added up \
             (2 jobs, first: `application_1500000000000_0001`)",
            "21: warning[dropped-rows]: 1 row dropped: never started (first: `application_1500000000000_0002`)",
            &format!(
                "29: warning[adapted-jobs]: {ENDED_BADLY} (1 job, first: `application_1500000000000_0003`)"
            ),
            "43: warning[dropped-rows]: 1 row dropped: no end recorded, so that the length is unknown \
             (first: `application_1500000000000_0004`)",
            "57: warning[dropped-rows]: 1 row dropped: no GPU asked for (first: `application_1500000000000_0005`)",
            "71: warning[adapted-jobs]: attempts without a start or an end left out \
             (1 job, first: `application_1500000000000_0006`)",
        ],
    );
    check(
        "philly-table.csv",
        format("philly-csv"),
        &["3 at 0 on 1: 7200 x 1000 ms", "2 at 300 on 2: 3870 x 1000 ms"],
        &["4: warning[dropped-rows]: 1 row dropped: ran for no time (first: `2017-09-04 08:20:00`)"],
    );
}

#[test]
fn helios_and_openb_samples() {
    check(
        "helios.csv",
        format("helios"),
        &[
            "901 at 0 on 8: 7200 x 1000 ms, user uAaaa, pool vcOne",
            "903 at 120 on 16: 120 x 1000 ms, user uAaaa, pool vcTwo",
            "906 at 600 on 4: 86400 x 1000 ms, user uBbbb, pool vcOne",
        ],
        &[
            "3: warning[dropped-rows]: 1 row dropped: no GPU asked for (first: `902`)",
            &format!("4: warning[adapted-jobs]: {ENDED_BADLY} (2 jobs, first: `903`)"),
            "5: warning[dropped-rows]: 1 row dropped: never started (first: `904`)",
            "6: warning[dropped-rows]: 1 row dropped: ran for no time (first: `905`)",
        ],
    );
    check(
        "openb.csv",
        format("openb"),
        &[
            "pod-a at 0 on 1: 3998 x 1000 ms",
            "pod-b at 100 on 1: 1300 x 1000 ms",
            "pod-d at 300 on 8 of V100M16|V100M32: 550 x 1000 ms",
        ],
        &[
            &format!("3: warning[adapted-jobs]: {PART_OF_GPU} (1 job, first: `pod-b`)"),
            "4: warning[dropped-rows]: 1 row dropped: no GPU asked for (first: `pod-c`)",
            &format!("5: warning[adapted-jobs]: {ENDED_BADLY} (1 job, first: `pod-d`)"),
            "6: warning[dropped-rows]: 1 row dropped: never started (first: `pod-e`)",
            "7: warning[dropped-rows]: 1 row dropped: ran for no time (first: `pod-f`)",
        ],
    );
}

#[test]
fn pai_tasks_next_to_their_job_table_keep_users_and_submissions() {
    let part = format!("1: warning[adapted-jobs]: {PART_OF_GPU} (1 job, first: `job00a`)");
    let failed = format!("5: warning[adapted-jobs]: {ENDED_BADLY} (1 job, first: `job00c`)");
    let notes = [
        part.as_str(),
        "2: warning[dropped-rows]: 1 row dropped: tasks without a GPU, such as parameter servers (first: `job00b`)",
        failed.as_str(),
        "6: warning[dropped-rows]: 1 row dropped: no end recorded, so that the length is unknown (first: `job00d`)",
        "7: warning[dropped-rows]: 1 row dropped: never started (first: `job00e`)",
        "8: warning[dropped-rows]: 1 row dropped: ran for no time (first: `job00f`)",
    ];
    let unknown = "1: warning[adapted-jobs]: not in the job table, so without a user, and submitted when started \
                   (1 job, first: `job00c`)";
    let jobs = [
        "job00a at 0 on 1: 1800 x 1000 ms, user user1",
        "job00b at 60 on 5: 3595 x 1000 ms, user user2",
        "job00c at 110 on 2: 30 x 1000 ms",
    ];
    for name in ["pai", "pai/pai_task_table.csv"] {
        check(name, format("pai"), &jobs, &[&notes[..], &[unknown]].concat());
    }
    // Without the table, that is said.
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("tasks.csv");
    std::fs::copy(sample("pai/pai_task_table.csv"), &alone).unwrap();
    let read = read_noted(&alone, None).unwrap();
    let shown: Vec<String> = read.trace.jobs.iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "job00a at 0 on 1: 1800 x 1000 ms",
            "job00b at 65 on 5: 3595 x 1000 ms",
            "job00c at 100 on 2: 30 x 1000 ms",
        ]
    );
    let missing = "1: warning[adapted-jobs]: no `pai_job_table.csv` next to the tasks, so without a user, and submitted \
                   when started (3 jobs, first: `job00a`)";
    assert_eq!(messages(&read.notes).last().map(String::as_str), Some(missing));
    // A job table that cannot be read is an error of the reader and of the linter.
    std::fs::write(folder.path().join("pai_job_table.csv"), "job00a,i,u,Terminated,5\n").unwrap();
    let error = read_trace(&alone, None).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("pai_job_table.csv:1: error[truncated-row]: found 5 fields, the format has 6"),
        "{error}"
    );
    let findings = lint(&alone, &LintOptions::default()).unwrap().findings;
    assert!(findings.contains(error.finding().expect("a line")), "{findings:?}");
}

#[test]
fn pai_header_that_users_add_is_passed_over() {
    // A header, as people add it, does no harm.
    let header =
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n";
    let text = header.to_owned() + &std::fs::read_to_string(sample("pai/pai_task_table.csv")).unwrap();
    let plain = std::fs::read_to_string(sample("pai/pai_task_table.csv")).unwrap();
    let plain = parse_trace(&plain, "t", None).unwrap();
    assert_eq!(parse_trace(&text, "t", None).unwrap().jobs, plain.jobs);
}

/// A Philly job with these attempts, as (start, end).
fn philly(attempts: &[(&str, &str)]) -> String {
    let attempt = |(start, end): &(&str, &str)| {
        let detail = r#"[{"ip": "m1", "gpus": ["gpu0"]}]"#;
        format!(
            r#"{{"start_time": "2017-10-09 {start}", "end_time": "2017-10-09 {end}", "detail": {detail}}}"#
        )
    };
    let attempts: Vec<String> = attempts.iter().map(attempt).collect();
    format!(
        "[\n{{\"jobid\": \"a\", \"submitted_time\": \"2017-10-09 00:00:00\", \"attempts\": [{}]}},\n\
         {{\"jobid\": \"b\", \"submitted_time\": \"2017-10-09 00:00:00\", \"attempts\": [{}]}}]",
        attempts.join(", "),
        attempt(&("01:00:00", "02:00:00"))
    )
}

#[test]
fn philly_attempt_that_ends_before_it_starts_is_reported_as_such() {
    let when = "attempt 1 from 2017-10-09 05:00:00 to 2017-10-09 04:00:00";
    for (attempts, length_s, expected) in [
        (
            &[("05:00:00", "04:00:00")][..],
            None,
            format!("2: warning[dropped-rows]: 1 row dropped: ends before it starts (first: `a`, {when})"),
        ),
        (
            &[("05:00:00", "04:00:00"), ("06:00:00", "06:00:30")],
            Some(30.0),
            format!(
                "2: warning[adapted-jobs]: attempts that end before they start left out (1 job, first: `a`, {when})"
            ),
        ),
        (
            &[("05:00:00", "05:00:00")],
            None,
            "2: warning[dropped-rows]: 1 row dropped: ran for no time (first: `a`)".to_owned(),
        ),
    ] {
        let read = parse_noted(Cursor::new(philly(attempts)), "t", None).unwrap();
        let found = read.trace.jobs.iter().find(|job| &*job.name == "a").map(JobSpec::solo_s);
        assert_eq!(found, length_s, "{attempts:?}");
        assert_eq!(messages(&read.notes)[0], expected, "{attempts:?}");
    }
}

#[test]
fn log_with_an_end_before_its_start_is_reported() {
    let row = "2020-01-01 00:00:00,2020-01-01 02:00:00,2020-01-01 01:00:00\n";
    let good = "2020-01-01 00:00:00,2020-01-01 01:00:00,2020-01-01 02:00:00\n";
    let helios = format!("job_id,user,gpu_num,submit_time,start_time,end_time\n1,u,1,{row}2,u,1,{good}");
    let openb = "name,num_gpu,creation_time,deletion_time,scheduled_time\np,1,0,5,9\nq,1,0,9,5\n".to_owned();
    let pai = "p,w,1,Terminated,9,5,1,1,100,T4\nq,w,1,Terminated,5,9,1,1,100,T4\n".to_owned();
    for text in [helios, openb, pai] {
        let read = parse_noted(Cursor::new(text.clone()), "t", None).unwrap();
        assert_eq!(read.trace.jobs.len(), 1, "{text}");
        assert!(
            read.notes[0].message.starts_with("1 row dropped: ends before it starts (first: "),
            "{:?}",
            read.notes
        );
    }
}

#[test]
fn folders_without_a_log_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_trace(folder.path(), None).unwrap_err();
    assert!(error.hint().unwrap().contains("`pai_task_table.csv`"), "{error}");
    std::fs::copy(sample("helios.csv"), folder.path().join("cluster_log.csv")).unwrap();
    let trace = read_trace(folder.path(), None).unwrap();
    assert_eq!(trace.jobs.len(), 3);
    // The format asked for is the one that is searched for.
    assert!(read_trace(folder.path(), Some(format("philly"))).is_err());
}

/// What is wrong with a text of a format: the linter's first error.
#[test]
fn mistakes_are_reported_by_line_and_column() {
    let helios = "job_id,user,gpu_num,submit_time,start_time,end_time\n";
    let openb = "name,num_gpu,creation_time,deletion_time,scheduled_time\n";
    let sia = "name,time,application,num_replicas,batch_size,category\n";
    for (text, expected, hint) in [
        (
            "[[0, 1, 2, 3], [1, 2, 3]]".to_owned(),
            "t:1: error[truncated-row]: found 3 values, expected 4",
            "a job is a list of job_id, arrival_s, iterations, gpus",
        ),
        (
            "[[0, 1, 2, 0]]".to_owned(),
            "t:1:gpus: error[zero-gang]: found 0, expected at least one device",
            "drop jobs that need no device",
        ),
        (
            "[[0, 1, 2, 3]\n [1, 2, 3, 4]]".to_owned(),
            "t:2: error[bad-json]: found no comma between two jobs",
            "expected a list of jobs, or an object whose `jobs` is one",
        ),
        (
            "[[0, 1, 2, 3],".to_owned(),
            "t:1: error[bad-json]: found a comma with no job behind it",
            "expected a list of jobs, or an object whose `jobs` is one",
        ),
        (
            "[[0, 1, 2, 3],\n[0, 1".to_owned(),
            "t:2: error[bad-json]: the file ends within a job",
            "it may be cut short: copy or download it again",
        ),
        (
            "[[0, 1, 2, 3],\n[0, 1, 2, 3]]".to_owned(),
            "t:2:job_id: error[duplicate-id]: job `0` is duplicated, first on line 1",
            "give each job its own name",
        ),
        (
            "{\"jobs\": []}".to_owned(),
            "t:1: error[no-rows]: the file has no jobs",
            "a trace has one line a job",
        ),
        (
            "[{\"jobid\": \"a\", \"submitted_time\": \"yesterday\", \"attempts\": []}]".to_owned(),
            "t:1:submitted_time: error[bad-date]: found `yesterday`, expected a date such as 2017-10-09 07:01:55",
            "",
        ),
        (
            "[{\"jobid\": \"a\", \"submitted_time\": \"2017-10-09 07:01:55\", \"attempts\": [1]}]".to_owned(),
            "t:1:attempts: error[bad-json]: expected a list of attempts",
            "an attempt is {\"start_time\": DATE, \"end_time\": DATE, \"detail\": [{\"ip\": NAME, \"gpus\": [NAME, ...]}]}",
        ),
        (
            "[{\"jobid\": \"a\", \"submitted_time\": \"2017-10-09 07:01:55\", \"attempts\": []}]".to_owned(),
            "t:1: error[no-rows]: no row of the file is a job: all were dropped",
            "see `wharf trace lint`",
        ),
        (
            format!("{helios}1,u,one,2020-01-01 00:00:00,2020-01-01 00:00:00,2020-01-01 00:00:00\n"),
            "t:2:gpu_num: error[not-a-number]: found `one`, expected a number",
            "",
        ),
        (
            format!("{helios}1,u,1,2020-01-01,,\n"),
            "t:2:submit_time: error[bad-date]: found `2020-01-01`, expected a date such as 2017-10-09 07:01:55",
            "",
        ),
        (
            format!("{openb}p,1,-5,9,1\n"),
            "t:2:creation_time: error[negative-duration]: found -5, expected 0 or more",
            "an end before a start? use start and end the other way round, or drop the job",
        ),
        (
            "j,w,1e30,Terminated,5,9,1,1,100,T4\n".to_owned(),
            "t:1:plan_gpu: error[not-an-integer]: 1e30 GPUs are more than can be counted",
            "",
        ),
        (
            "j,w,1,Terminated,5,9,1,1,100\n".to_owned(),
            "cannot detect the trace format of `t`: no known format begins with `j,w,1,Terminated,5,9,1,1,100`",
            "",
        ),
        (
            format!("{sia}a,0,cifar,1,128,\n"),
            "t:2:application: error[unknown-model]: no application `cifar` is known",
            "did you mean `cifar10`?",
        ),
        (
            format!("{sia}a,0,ncf,1,0,\n"),
            "t:2:batch_size: error[zero-iterations]: found 0, expected at least one sample",
            "",
        ),
        (
            format!("{sia}a,0,ncf,1,1,elastic\n"),
            "t:2:category: error[not-text]: found `elastic`, expected a known category",
            "categories are adaptive, scale-gpus and rigid",
        ),
    ] {
        let error = parse_noted(Cursor::new(text.clone()), "t", None).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
        if let Some(finding) = error.finding() {
            assert_eq!(finding.hint.as_deref().unwrap_or_default(), hint, "{text}");
            let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
            assert!(findings.contains(finding), "{findings:?}");
        }
    }
}

#[test]
fn unsorted_log_is_sorted_with_one_warning() {
    let text = "timestamp,duration,num_gpus\n2020-01-02 00:00:00,5,1\n2020-01-01 00:00:00,5,1\n2019-01-01 00:00:00,5,1\n";
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
    assert_eq!(
        findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["t:3: warning[adapted-jobs]: submitted before the row above; the reader sorts by submission \
          (2 jobs, first: `2020-01-01 00:00:00`)"]
    );
    let days: Vec<f64> = parse_trace(text, "t", None)
        .unwrap()
        .jobs
        .iter()
        .map(|job| job.submit.seconds() / 86_400.0)
        .collect();
    assert_eq!(days, [0.0, 365.0, 366.0]);
}

#[test]
fn jobs_without_an_iteration_time_need_a_model() {
    let trace = parse_trace("job_id,submit_s,devices,iterations,model\na,0,1,50,bert\n", "t", None).unwrap();
    assert_eq!(shown(&trace.jobs[0]), "a at 0 on 1: 50 x 0 ms, bert");
    assert_native(&trace, "without iteration_ms");
    // Jobs of both kinds share a file.
    let text = "job_id,submit_s,devices,iterations,iteration_ms,model\na,0,1,50,,bert\nb,0,1,50,7,\n";
    assert_native(&parse_trace(text, "t", None).unwrap(), "mixed");
    for (text, expected) in [
        (
            "job_id,submit_s,devices,iterations,model\na,0,1,50,\n",
            "t:2:iteration_ms: error[missing-value]: `iteration_ms` is empty; expected a number",
        ),
        (
            "job_id,submit_s,devices,iterations,iteration_ms,model\na,0,1,50,0,bert\n",
            "t:2:iteration_ms: error[zero-duration]: found 0, expected more than 0",
        ),
    ] {
        assert_eq!(parse_trace(text, "t", None).unwrap_err().to_string(), expected);
    }
    let mut out = Vec::new();
    let losses = write_trace(&trace, format("muri"), &mut out).unwrap();
    assert_eq!(losses.iter().map(|loss| loss.field).collect::<Vec<_>>(), ["iteration_ms"]);
    assert!(write_trace(&trace, format("philly"), &mut out).is_err(), "a log is only read");
}

#[test]
fn shared_workloads_and_streams_are_read() {
    needs!(REFERENCE);
    let folder = reference("sia/workloads");
    let mut stack = vec![folder];
    let mut counts = BTreeMap::new();
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let read = read_noted(&path, None).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(read.notes, [], "{}", path.display());
        assert_eq!(lint(&path, &LintOptions::default()).unwrap().findings, [], "{}", path.display());
        assert!(read.trace.jobs.iter().all(|job| job.iteration_ms == 0.0 && job.model.is_some()));
        assert_native(&read.trace, &path.display().to_string());
        *counts.entry(read.trace.jobs.len()).or_insert(0) += 1;
    }
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [(12, 1), (40, 1), (160, 18), (320, 1), (640, 1), (960, 10), (1280, 1), (2560, 1), (5120, 1)]
    );
    needs!(REFERENCE);
    let blox = reference("blox");
    let whole = read_trace(&blox.join("job_stream_seed1_load3.json"), None).unwrap();
    let tracked = read_trace(&blox.join("tracked_jobs_trace.json"), None).unwrap();
    assert_eq!((whole.jobs.len(), tracked.jobs.len()), (626, 61));
    assert_eq!(whole.jobs[..61], tracked.jobs);
}

#[test]
fn shared_philly_table_is_read() {
    needs!(REFERENCE);
    let path = reference("sia/philly_jobs.csv.gz");
    let read = read_noted(&path, None).unwrap();
    let dropped: u64 = messages(&read.notes)
        .iter()
        .filter(|note| note.contains("[dropped-rows]"))
        .map(|note| note.split(' ').nth(2).and_then(|count| count.parse::<u64>().ok()).expect("a count"))
        .sum();
    assert_eq!(read.trace.jobs.len() as u64 + dropped, 82_247, "{:?}", messages(&read.notes));
    assert_eq!(read.trace.jobs[0].submit.seconds(), 0.0);
    assert!(read.trace.jobs.is_sorted_by_key(|job| job.submit));
    assert_native(&read.trace, "philly_jobs.csv.gz");
    let rules: Vec<Rule> =
        lint(&path, &LintOptions::default()).unwrap().findings.iter().map(|finding| finding.rule).collect();
    assert!(rules.contains(&Rule::AdaptedJobs), "the table is not sorted: {rules:?}");
}
