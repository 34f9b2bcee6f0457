//! No input makes the crate panic, hang or say nothing useful.

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
            "cannot tell the trace format of `t`: no known format begins with `hello, world`",
        ),
        (b"job_id,submit_s,devices,duration_s\n", "t:1: error[no-rows]: the file has no jobs"),
        (b"\n\n", "cannot tell the trace format of `t`: no known format begins with ``"),
        (b"\x1f\x8b\x08\0garbage", "cannot read `t`"),
    ] {
        let error = parse_trace_reader(Cursor::new(bytes.to_vec()), "t", None).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn cut_gzip_says_how_far_it_got() {
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
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap();
    let found: Vec<_> = findings.iter().map(|finding| (finding.line, finding.rule.code())).collect();
    assert_eq!(found, [(2, "line-too-long"), (3, "negative-duration")]);
}

#[test]
fn reader_stops_at_the_linters_first_error() {
    let text = "job_id,submit_s,devices,duration_s\na,5,1,1\nb,0,1,ten\nc,0,0,1\n";
    let error = parse_trace(text, "t", None).unwrap_err();
    assert_eq!(error.to_string(), "t:3:duration_s: error[not-a-number]: found `ten`, expected a number");
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap();
    assert_eq!(Some(&findings[0]), error.finding());
}

#[test]
fn findings_of_one_rule_are_cut_off_with_a_count() {
    let rows: String = (0..5000).map(|index| format!("{index},0,0,1\n")).collect();
    let text = format!("job_id,submit_s,devices,duration_s\n{rows}");
    let findings = lint_reader(Cursor::new(text), "t", &LintOptions::default()).unwrap();
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

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in damaged(), format in 0usize..=Format::ALL.len()) {
        let format = Format::ALL.get(format).copied();
        let read = parse_trace_reader(Cursor::new(bytes.clone()), "t", format);
        let options = LintOptions { format, ..LintOptions::default() };
        match (read, lint_reader(Cursor::new(bytes), "t", &options)) {
            (Ok(_), Ok(findings)) => {
                prop_assert!(findings.iter().all(|finding| finding.severity == wharf_trace::Severity::Warning));
            }
            (Err(TraceError::Invalid(first)), Ok(findings)) => {
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
