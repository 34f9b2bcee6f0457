//! No input makes the crate panic, hang or state nothing useful.

use crate::format;
use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use wharf_trace::{
    Format, LintOptions, SourceError, TraceError, lint_reader, parse_trace, parse_trace_reader, read_trace,
};

#[test]
fn files_that_are_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.csv");
    let error = read_trace(&missing, None).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot open `{}`", missing.display()));
    assert!(std::error::Error::source(&error).is_some());
    let error = read_trace(folder.path(), None).unwrap_err();
    assert!(matches!(error, TraceError::Source(SourceError::Directory { .. })), "{error}");
}

#[test]
fn content_that_is_no_trace() {
    for (bytes, expected) in [
        (&b""[..], "`t` is empty"),
        (b"\x7fELF\x02\x01\x01\0\0", "`t` is not text: it has a zero byte at offset 7"),
        (
            b"hello, world\n",
            "cannot detect the trace format of `t`: no known format begins with `hello, world`",
        ),
        (b"job_id,submit_s,devices,duration_s\n", "t:1: error[no-rows]: the file has no jobs"),
        (b"\n\n", "cannot detect the trace format of `t`: no known format begins with ``"),
        (b"\x1f\x8b\x08\0garbage", "cannot read `t`"),
    ] {
        let error = parse_trace_reader(Cursor::new(bytes.to_vec()), "t", None).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn truncated_gzip_reports_its_position() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(b"job_id,submit_s,devices,duration_s\n").unwrap();
    for index in 0..20_000 {
        writeln!(gzip, "{index},{index},1,10").unwrap();
    }
    let mut bytes = gzip.finish().unwrap();
    bytes.truncate(bytes.len() / 2);
    let error = parse_trace_reader(Cursor::new(bytes), "t", None).unwrap_err();
    assert!(matches!(error, TraceError::Source(SourceError::Read { line: 5000.., .. })), "{error}");
}

#[test]
fn endless_line_does_not_fill_the_memory() {
    let mut text = String::from("job_id,submit_s,devices,duration_s\n");
    text.push_str(&"9".repeat(3 << 20));
    text.push_str("\na,0,1,-5\n");
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
    let found: Vec<_> = findings.iter().map(|finding| (finding.line, finding.rule.code())).collect();
    assert_eq!(found, [(2, "line-too-long"), (3, "negative-duration")]);
}

#[test]
fn endless_job_of_a_document_does_not_fill_the_memory() {
    let long = "9".repeat(3 << 20);
    let text =
        format!("{{\"note\": \"{long}\", \"jobs\": [[0, 1, {long}, 3],\n[1, 2, 3, 0],\n[2, 2, 3, 1]]}}");
    // The head of the file is all note: nothing there states what it is.
    let options = LintOptions { format: Some(format("blox")), ..LintOptions::default() };
    let findings = lint_reader(Cursor::new(text), "t", &options).unwrap().findings;
    let found: Vec<_> = findings.iter().map(|finding| (finding.line, finding.rule.code())).collect();
    assert_eq!(found, [(1, "line-too-long"), (2, "zero-gang")]);
}

#[test]
fn deep_brackets_do_no_harm() {
    for text in ["[".repeat(1 << 20), "[{\"jobid\":".repeat(1 << 18), format!("[[0,{}", "[".repeat(1 << 21))]
    {
        assert!(parse_trace(&text, "t", None).is_err());
        for format in [format("blox"), format("philly")] {
            assert!(parse_trace(&text, "t", Some(format)).is_err());
        }
    }
}

#[test]
fn reader_stops_at_the_linters_first_error() {
    let text = "job_id,submit_s,devices,duration_s\na,5,1,1\nb,0,1,ten\nc,0,0,1\n";
    let error = parse_trace(text, "t", None).unwrap_err();
    assert_eq!(error.to_string(), "t:3:duration_s: error[not-a-number]: found `ten`, expected a number");
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
    assert_eq!(Some(&findings[0]), error.finding());
}

#[test]
fn findings_of_one_rule_are_cut_off_with_a_count() {
    let rows: String = (0..5000).map(|index| format!("{index},0,0,1\n")).collect();
    let text = format!("job_id,submit_s,devices,duration_s\n{rows}");
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap().findings;
    assert_eq!(findings.len(), 1001);
    assert!(findings[1000].message.ends_with("(and 3999 more like this)"), "{}", findings[1000]);
}

/// Pieces of which damaged traces consist.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"job_id,submit_s,devices,duration_s".to_vec()),
        Just(b"job_id,num_gpu,submit_time,iterations,iteration_time".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b",".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"{\"job_id\":".to_vec()),
        Just(b"[1,\"a\"]".to_vec()),
        Just(b"[[0, 5, 9.5, 1]".to_vec()),
        Just(b"{\"jobs\": [".to_vec()),
        Just(b"{\"jobid\": \"j\", \"submitted_time\": \"2017-10-09 07:01:55\", \"attempts\": ".to_vec()),
        Just(b"[{\"start_time\": \"2017-10-09 07:01:55\", \"end_time\": \"2018-10-09 07:01:55\", \"detail\": [{\"gpus\": [\"a\"]}]}]".to_vec()),
        Just(b"]".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"name,time,application,num_replicas,batch_size,category\n".to_vec()),
        Just(b"cifar10,1,128,".to_vec()),
        Just(b"job_id,gpu_num,state,submit_time,start_time,end_time\n".to_vec()),
        Just(b"1,1,FAILED,2020-01-01 00:00:00,2020-01-01 00:00:00,2020-01-02 00:00:00\n".to_vec()),
        Just(b"name,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n".to_vec()),
        Just(b"p,1,500,A|B,0,9,1\n".to_vec()),
        Just(b"j,worker,2.0,Terminated,5.0,1e308,600,29,50,V100\n".to_vec()),
        Just(b"2020-01-01 00:00:00".to_vec()),
        Just(b"}".to_vec()),
        Just(b"1e999".to_vec()),
        Just(b"-1".to_vec()),
        Just(b"7".to_vec()),
        Just("é".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// White space of JSON.
fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

proptest! {
    /// However a document is laid out, and wherever its buffers end, the same jobs are in it.
    #[test]
    fn documents_read_the_same_in_any_layout(
        jobs in proptest::collection::vec((0u32..1000, 1u32..1_000_000, 1u32..64, any::<bool>()), 1..40),
        spaces in proptest::collection::vec(space(), 8),
        is_object in any::<bool>(),
        other in "[a-z\\[\\]{},:]{0,12}",
    ) {
        let [s0, s1, s2, s3, s4, s5, s6, s7]: [String; 8] = spaces.try_into().unwrap();
        let element = |(index, (submit, length, gpus, is_text)): (usize, &(u32, u32, u32, bool))| {
            let name = if *is_text { format!("\"a\\\"{index}]\"") } else { index.to_string() };
            format!("[{s0}{name}{s1},{submit},{s2}{length}.5,{s3}{gpus}{s4}]")
        };
        let elements: Vec<String> = jobs.iter().enumerate().map(element).collect();
        let list = format!("[{s5}{}{s6}]", elements.join(&format!("{s6},{s7}")));
        let text = match is_object {
            true => format!("{{{s1}\"x\":{s2}\"{other}\",{s3}\"y\": [{{\"jobs\": 1}}],\"jobs\"{s4}:{s5}{list}{s6}}}{s7}"),
            false => list,
        };
        let trace = parse_trace(&text, "t", Some(format("blox"))).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(trace.jobs.len(), jobs.len());
        let mut sums = (0.0, 0);
        for (_, length, gpus, _) in &jobs {
            sums = (sums.0 + f64::from(*length) + 0.5, sums.1 + gpus);
        }
        let read: f64 = trace.jobs.iter().map(|job| job.iterations).sum();
        prop_assert_eq!((read, trace.jobs.iter().map(|job| job.gang.devices).sum::<u32>()), sums);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in damaged(), format in 0usize..=Format::all().len()) {
        let format = Format::all().get(format).copied();
        let read = parse_trace_reader(Cursor::new(bytes.clone()), "t", format);
        let options = LintOptions { format, ..LintOptions::default() };
        match (read, lint_reader(Cursor::new(bytes), "t", &options)) {
            (Ok(read), Ok(linted)) => {
                prop_assert_eq!(&read, &linted.trace);
                let findings = linted.findings;
                prop_assert!(findings.iter().all(|finding| finding.severity == wharf_trace::Severity::Warning));
            }
            (Err(TraceError::Invalid(first)), Ok(linted)) => {
                let findings = linted.findings;
                let errors = findings.iter().find(|finding| finding.severity == wharf_trace::Severity::Error);
                prop_assert_eq!(Some(&*first), errors);
            }
            (Err(_), Err(_)) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn no_text_makes_a_cluster_panic(text in "[0-9a-z:x,×. -]{0,20}") {
        let _ = wharf_trace::parse_cluster(&text);
    }

    #[test]
    fn no_file_makes_a_cluster_panic(text in "(num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node|name,device_type,devices)\n[0-9a,\n\"-]{0,40}") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.csv");
        std::fs::write(&path, text).unwrap();
        let _ = wharf_trace::parse_cluster_file(Path::new(&path));
    }
}
