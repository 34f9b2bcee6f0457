//! Wharf's own columns: what they mean, and that nothing is lost on the way out and in.

use std::path::Path;

use proptest::prelude::*;
use wharf_core::{ArrayElement, Gang, JobSpec, StageTimes, Time};
use wharf_trace::{
    Format, LintOptions, Trace, lint, parse_cluster_file, parse_trace, read_trace, write_trace,
};

#[test]
fn four_columns_are_enough() {
    let trace = parse_trace("job_id,submit_s,devices,duration_s\na,1.5,4,90\n", "t", None).unwrap();
    let mut expected = JobSpec::new("a", Time::from_seconds(1.5), 4, 90.0, 1000.0);
    expected.duration_s = Some(90.0);
    assert_eq!(trace.jobs, [expected]);
}

#[test]
fn csv_and_json_lines_are_equal() {
    let csv = "job_id,user,submit_s,devices,devices_min,devices_max,device_types,iterations,iteration_ms,duration_s,\
               model,batch_size,data_ms,compute_ms,network_ms,priority,deadline_s,array,array_index,weight\n\
               \"a, \"\"b\"\"\",ann,0.1,4,2,8,v100;a100,1e3,12.5,13,bert,32,1,10,0.5,-2,99.5,sweep,7,2.5\n";
    let jsonl = r#"{"job_id": "a, \"b\"", "user": "ann", "submit_s": 0.1, "devices": 4, "devices_min": 2,
        "devices_max": 8, "device_types": ["v100", "a100"], "iterations": 1000, "iteration_ms": 12.5,
        "duration_s": 13, "model": "bert", "batch_size": 32, "data_ms": 1, "compute_ms": 10, "network_ms": 0.5,
        "priority": -2, "deadline_s": 99.5, "array": "sweep", "array_index": 7, "weight": 2.5}"#;
    let job = JobSpec {
        name: "a, \"b\"".into(),
        user: Some("ann".into()),
        submit: Time::from_seconds(0.1),
        gang: Gang {
            devices: 4,
            devices_min: 2,
            devices_max: 8,
            device_types: ["v100".into(), "a100".into()].into(),
            needs: None,
        },
        iterations: 1000.0,
        iteration_ms: 12.5,
        duration_s: Some(13.0),
        model: Some("bert".into()),
        batch_size: Some(32),
        stages: Some(StageTimes { data_ms: 1.0, compute_ms: 10.0, network_ms: 0.5 }),
        priority: -2,
        weight: 2.5,
        deadline: Some(Time::from_seconds(99.5)),
        array: Some(ArrayElement { array: "sweep".into(), index: 7 }),
        row: 0,
    };
    assert_eq!(parse_trace(csv, "t", None).unwrap().jobs, std::slice::from_ref(&job));
    assert_eq!(parse_trace(&jsonl.replace('\n', ""), "t", None).unwrap().jobs, [job]);
}

#[test]
fn spaces_blank_lines_and_byte_order_marks_do_no_harm() {
    let text = "\u{feff}\n job_id , submit_s,devices,duration_s\r\n\r\n a ,\t0, 1.0 ,5\r\n";
    let trace = parse_trace(text, "t", None).unwrap();
    assert_eq!((&*trace.jobs[0].name, trace.jobs[0].gang.devices), ("a", 1));
}

/// The files that people are pointed to as examples are good ones.
#[test]
fn examples_lint_clean() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces");
    let cluster = parse_cluster_file(&folder.join("two-racks.csv")).unwrap();
    assert_eq!(cluster.device_count(), 24);
    for (file, job_count) in [("small.csv", 5), ("small.jsonl", 3)] {
        let path = folder.join(file);
        assert_eq!(read_trace(&path, None).unwrap().jobs.len(), job_count);
        assert_eq!(lint(&path, &LintOptions::default()).unwrap().findings, []);
    }
}

#[test]
fn gzip_is_read_by_content() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("night.jsonl.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(b"{\"job_id\":1,\"submit_s\":0,\"devices\":1,\"duration_s\":5}\n").unwrap();
    gzip.finish().unwrap();
    let trace = read_trace(&path, None).unwrap();
    assert_eq!((trace.name.as_str(), &*trace.jobs[0].name), ("night", "1"));
}

/// Text that people, and programs, might put into a field.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9_-]{1,12}", "[ -~]{1,12}", "[^\0]{1,8}", Just("\"".into()), Just("a\r\nb".into())]
}

fn list() -> impl Strategy<Value = Vec<String>> {
    let item = text().prop_map(|text| text.replace(';', "").trim().to_owned());
    proptest::collection::vec(item.prop_filter("a name", |item| !item.is_empty()), 0..3)
}

/// Positive, of any size whose products stay finite.
fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![1e-3..1e7f64, 1e-150..1e150f64, (1u32..1_000_000).prop_map(f64::from)]
}

prop_compose! {
    fn job()(
        name in text(),
        user in proptest::option::of(text()),
        submit_s in prop_oneof![Just(0.0), positive()],
        devices in (1u32..200, 0u32..200, 0u32..200),
        device_types in list(),
        length in (positive(), positive(), proptest::option::of(positive())),
        model in proptest::option::of(text()),
        batch_size in proptest::option::of(any::<u32>()),
        stages in proptest::option::of((positive(), positive(), 0.0..1.0f64)),
        priority in any::<i32>(),
        weight in positive(),
        deadline_s in proptest::option::of(0.0..1e9f64),
        array in proptest::option::of((text(), any::<u32>())),
        is_profiled in any::<bool>(),
    ) -> JobSpec {
        let submit = Time::from_seconds(submit_s);
        JobSpec {
            name: name.into(),
            user: user.map(Into::into),
            submit,
            gang: Gang {
                devices: devices.0 + devices.1,
                devices_min: devices.0,
                devices_max: devices.0 + devices.1 + devices.2,
                device_types: device_types.into_iter().map(Into::into).collect(),
                needs: None,
            },
            iterations: length.0,
            // Only a job with a model can leave this to a profile.
            iteration_ms: if is_profiled && model.is_some() { 0.0 } else { length.1 },
            duration_s: length.2,
            model: model.map(Into::into),
            batch_size,
            stages: stages.map(|(data_ms, compute_ms, network_ms)| StageTimes { data_ms, compute_ms, network_ms }),
            priority,
            weight,
            deadline: deadline_s.map(|slack_s| submit.plus(slack_s)),
            array: array.map(|(array, index)| ArrayElement { array: array.into(), index }),
            row: 0,
        }
    }
}

fn trace() -> impl Strategy<Value = Trace> {
    proptest::collection::vec(job(), 1..8).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.submit);
        for (index, job) in jobs.iter_mut().enumerate() {
            job.name = format!("{}{index}", job.name).into();
        }
        Trace { name: "t".into(), jobs }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(trace in trace()) {
        for format in [Format::NATIVE_CSV, Format::NATIVE_JSONL] {
            let mut out = Vec::new();
            prop_assert_eq!(write_trace(&trace, format, &mut out).unwrap(), []);
            let text = String::from_utf8(out).unwrap();
            let again = parse_trace(&text, "t", None).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(&again, &trace, "{}", text);
            let mut second = Vec::new();
            write_trace(&again, format, &mut second).unwrap();
            prop_assert_eq!(String::from_utf8(second).unwrap(), text);
        }
    }
}

#[test]
fn parse_of_an_unsorted_file_keeps_the_rows_of_jobs() {
    let rows = |text: &str| -> Vec<(String, u32)> {
        let text = format!("job_id,submit_s,devices,duration_s\n{text}");
        let jobs = parse_trace(&text, "t", None).expect("a trace").jobs;
        jobs.iter().map(|job| (job.name.to_string(), job.row)).collect()
    };
    assert_eq!(rows("a,5,1,1\nb,3,1,1\nc,4,1,1\n"), [("b".into(), 1), ("c".into(), 2), ("a".into(), 0)]);
    assert_eq!(rows("a,3,1,1\nb,5,1,1\n"), [("a".into(), 0), ("b".into(), 0)]);
}
