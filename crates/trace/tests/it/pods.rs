//! The pods of Alibaba's GPU log of 2023 as requests.

use std::io::Cursor;

use wharf_trace::{Format, LintOptions, Rule, lint_reader, parse_trace, read_noted, write_trace};

use crate::logs::sample;

#[test]
fn openb_pods_are_requests_for_parts_of_devices() {
    let read = read_noted(&sample("openb.csv"), Some(Format::OPENB_PODS)).unwrap();
    let shown = read.trace.jobs.iter().map(|job| {
        let request = job.gang.request().unwrap();
        let types = job.gang.device_types.join("|");
        let (cpus, memory) = (request.task.cpu_milli, request.task.memory_mib);
        let milli = if request.devices == 0 { 0 } else { request.part() };
        format!("{} {cpus} {memory} {}x{milli} {types}", job.name, job.gang.devices)
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "pod-a 8000 16384 1x1000 ",
            "pod-b 4000 8192 1x250 ",
            "pod-c 16000 32768 0x0 ",
            "pod-d 64000 262144 8x1000 V100M16|V100M32",
            "pod-e 4000 8192 1x500 T4",
            "pod-f 4000 8192 1x1000 ",
        ]
    );
    assert_eq!(read.notes, []);
    let mut trace = read.trace;
    let error = write_trace(&trace, Format::NATIVE_CSV, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().ends_with("has no length"), "{error}");
    trace.jobs.retain(|job| job.iterations > 0.0);
    assert!(trace.jobs.len() > 2, "some have times");
    let mut native = Vec::new();
    write_trace(&trace, Format::NATIVE_CSV, &mut native).unwrap();
    let again = parse_trace(std::str::from_utf8(&native).unwrap(), "pods.csv", None).unwrap();
    assert_eq!(again.jobs, trace.jobs);
}

#[test]
fn bad_openb_pods_name_line_and_column() {
    let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec";
    for (text, rule, line, column, message) in [
        (
            format!("{header}\na,1,1,2,500,\n"),
            Rule::DevicePart,
            2,
            "gpu_milli",
            "found 500 of each of 2 GPUs, expected 1000: several GPUs are whole ones",
        ),
        (
            format!("{header}\na,1,1,1,1000,\nb,1,1,1,1001,\n"),
            Rule::DevicePart,
            3,
            "gpu_milli",
            "found 1001, expected 1 to 1000: thousandths of one GPU",
        ),
        (
            format!("{header}\na,1,1,1,0,\n"),
            Rule::DevicePart,
            2,
            "gpu_milli",
            "found 0, expected 1 to 1000: thousandths of one GPU",
        ),
        (
            format!("{header}\na,1,1,0,500,\n"),
            Rule::DevicePart,
            2,
            "gpu_milli",
            "found 500 without a GPU, expected 0",
        ),
        (
            format!("{header}\na,x,1,1,500,\n"),
            Rule::NotANumber,
            2,
            "cpu_milli",
            "found `x`, expected a number",
        ),
        (
            format!("{header}\na,1,-4,1,500,\n"),
            Rule::NegativeCount,
            2,
            "memory_mib",
            "found `-4`, expected 0 or more",
        ),
        (
            format!("{header}\n,1,1,1,500,\n"),
            Rule::MissingValue,
            2,
            "name",
            "`name` is empty; expected a name",
        ),
        (
            format!("{header}\na,1,1,1,,\n"),
            Rule::MissingValue,
            2,
            "gpu_milli",
            "`gpu_milli` is empty; expected a whole number",
        ),
        (format!("{header}\na,1,1,1\n"), Rule::TruncatedRow, 2, "", "found 4 fields, the header has 6"),
        (
            format!("{header},gpu_mili\na,1,1,1,1,,1\n"),
            Rule::UnknownColumn,
            1,
            "gpu_mili",
            "unknown column `gpu_mili`",
        ),
        (
            "name,cpu_milli,memory_mib,num_gpu\na,1,1,1\n".to_owned(),
            Rule::MissingColumn,
            1,
            "gpu_milli",
            "the header has no column `gpu_milli`",
        ),
        (
            format!("{header}\na,1,1,1,1,\na,1,1,1,1,\n"),
            Rule::DuplicateId,
            3,
            "name",
            "job `a` is duplicated, first on line 2",
        ),
    ] {
        let options = LintOptions { format: Some(Format::OPENB_PODS), ..LintOptions::default() };
        let found = lint_reader(Cursor::new(text.clone()), "pods.csv", &options).unwrap().findings;
        let first = found.first().unwrap_or_else(|| panic!("{text}"));
        let column = (!column.is_empty()).then_some(column);
        assert_eq!((first.rule, first.line, first.column.as_deref()), (rule, line, column), "{text}");
        assert_eq!(first.message, message);
        assert!(parse_trace(&text, "pods.csv", Some(Format::OPENB_PODS)).is_err(), "{text}");
    }
}
