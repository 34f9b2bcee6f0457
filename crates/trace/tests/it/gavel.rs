//! The Gavel simulator's traces.

use crate::format;
use wharf_core::Time;
use wharf_testing::{needs, reference};
use wharf_trace::{Format, LintOptions, Severity, lint, lint_reader, parse_trace, read_trace, write_trace};

const ROW: &str =
    "ResNet-18 (batch size 128)\tpython3 main.py --data_dir=%s/cifar10\timage/cifar10\t--num_steps\t1";

#[test]
fn every_column_arrives() {
    let text = format!("{ROW}\t925982\t4\t5\t-1.000000\t0\r\nA3C\tx\ty\t-n\t0\t7\t1\t1\t120.5\t538.500873\n");
    let trace = parse_trace(&text, "t.trace", None).unwrap();
    let [first, second] = &trace.jobs[..] else { panic!("two jobs") };
    assert_eq!((&*first.name, &*second.name), ("0", "1"), "jobs are called by their lines");
    assert_eq!((first.model.as_deref(), first.batch_size), (Some("ResNet-18"), Some(128)));
    assert_eq!((second.model.as_deref(), second.batch_size), (Some("A3C"), None));
    assert_eq!((first.gang.devices, first.iterations, first.iteration_ms), (4, 925_982.0, 0.0));
    assert_eq!((first.weight, first.deadline), (5.0, None));
    assert_eq!(second.submit, Time::from_seconds(538.500873));
    assert_eq!(second.deadline, Some(Time::from_seconds(538.500873 + 120.5)));
}

#[test]
fn the_older_form_is_read_too() {
    let text = "LM (batch size 5)\tcd lm && python main.py\t--steps\t1\t3000\t77.5\t2\n";
    let trace = parse_trace(text, "t", None).unwrap();
    let job = &trace.jobs[0];
    assert_eq!((job.iterations, job.submit.seconds(), job.gang.devices), (3000.0, 77.5, 2));
    assert_eq!((job.weight, job.deadline), (1.0, None));
}

#[test]
fn odd_rows_are_reported() {
    for (row, expected) in [
        (
            "A\tc\td\t-n\t1\t0\t1\t1\t-1\t0",
            "t:1:total_steps: error[zero-iterations]: found 0, expected more than 0",
        ),
        (
            "A\tc\td\t-n\t1\t5\t0\t1\t-1\t0",
            "t:1:scale_factor: error[zero-gang]: found 0, expected at least one device",
        ),
        (
            "A\tc\td\t-n\t1\t5\t1\t0\t-1\t0",
            "t:1:priority_weight: error[negative-count]: found 0, expected more than 0",
        ),
        (
            "A\tc\td\t-n\t1\t5\t1\t1\t-1\t-3",
            "t:1:arrival_time: error[negative-submit]: found -3, expected 0 or more",
        ),
        (
            "\tc\td\t-n\t1\t5\t1\t1\t-1\t0",
            "t:1:job_type: error[missing-value]: `job_type` is empty; expected a name",
        ),
        (
            "A\tc\td\t-n\t1\t5\t1\t1\t-1",
            "t:1: error[truncated-row]: found 9 fields between tabs, expected 10 or 7",
        ),
        (
            "A\tc\t-n\t1\t5\t0\t1\nA\tc\td\t-n\t1\t5\t1\t1\t-1\t0",
            "t:2: error[truncated-row]: found 10 fields between tabs, expected 7",
        ),
        (
            "A\tc\td\t-n\t1\t5\t1\t1\t0\t0",
            "t:1:SLO: warning[deadline-before-submit]: found 0: the job is late when it arrives",
        ),
        (
            "A\tc\td\t-n\tx\t5\t1\t1\t-1\t0",
            "t:1:needs_data_dir: warning[not-an-integer]: found `x`, expected 0 or 1",
        ),
    ] {
        let options = LintOptions { format: Some(format("gavel")), ..LintOptions::default() };
        let findings = lint_reader(std::io::Cursor::new(row.to_owned()), "t", &options).unwrap().findings;
        let shown: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [expected], "{row}");
        let is_error = findings[0].severity == Severity::Error;
        assert_eq!(parse_trace(row, "t", Some(format("gavel"))).is_err(), is_error, "{row}");
    }
}

#[test]
fn writing_keeps_what_the_format_holds() {
    let text = format!("{ROW}\t925982\t4\t5\t-1.000000\t0\nA3C\tx\ty\t-n\t0\t7\t1\t1\t120.5\t538.500873\n");
    let trace = parse_trace(&text, "t", None).unwrap();
    for format in [format("gavel"), Format::NATIVE_CSV, Format::NATIVE_JSONL] {
        let mut out = Vec::new();
        assert_eq!(write_trace(&trace, format, &mut out).unwrap(), [], "{format}");
        assert_eq!(parse_trace(&String::from_utf8(out).unwrap(), "t", None).unwrap(), trace, "{format}");
    }
    let native = "job_id,user,submit_s,devices,iterations,iteration_ms\nx,ann,0,1,10,5\n";
    let mut out = Vec::new();
    let trace = parse_trace(native, "t", None).unwrap();
    let losses = write_trace(&trace, format("gavel"), &mut out).unwrap();
    let fields: Vec<_> = losses.iter().map(|loss| loss.field).collect();
    assert_eq!(fields, ["job_id", "user", "model", "iteration_ms"]);
}

#[test]
fn reference_traces_are_read_whole() {
    for (file, jobs, devices) in [
        ("generated/static60_seed0", 60, 60),
        ("generated/multi200_lam2000_seed1", 200, 361),
        ("physical/small_test", 20, 23),
    ] {
        needs!(REFERENCE);
        let path = reference(&format!("gavel/traces_{file}.trace"));
        let trace = read_trace(&path, None).unwrap();
        assert_eq!(trace.jobs.len(), jobs, "{file}");
        assert_eq!(trace.jobs.iter().map(|job| job.gang.devices).sum::<u32>(), devices, "{file}");
        assert_eq!(lint(&path, &LintOptions::default()).unwrap().findings, [], "{file}");
    }
}
