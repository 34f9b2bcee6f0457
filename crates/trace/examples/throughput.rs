//! How fast (processor time where Linux tells it, wall time elsewhere) a million jobs are generated, written and read: `cargo run --release -p wharf-trace --example throughput`.

use std::io::{self, Cursor, Write};
use std::sync::LazyLock;
use std::time::Instant;

use wharf_trace::{
    Format, GeneratorSettings, LintOptions, generate, lint_reader, parse_trace_reader, stats, write_trace,
};

/// Processor seconds of this thread, or seconds since the start.
fn now_s() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let on_processor_ns: Option<f64> = schedule.split(' ').next().and_then(|number| number.parse().ok());
    on_processor_ns.map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    let mut report = |what: &str, since: f64| writeln!(out, "{what:<24} {:>7.3} s", now_s() - since);
    let start = now_s();
    let trace = generate(&GeneratorSettings { job_count: 1_000_000, ..GeneratorSettings::default() })?;
    report("generate 1,000,000", start)?;
    let start = now_s();
    let numbers = stats(&trace);
    report("stats", start)?;
    for format in Format::ALL.iter().filter(|format| format.is_writable()) {
        let start = now_s();
        let mut text = Vec::new();
        write_trace(&trace, *format, &mut text)?;
        report(&format!("write {format} ({} MB)", text.len() >> 20), start)?;
        let start = now_s();
        let again = parse_trace_reader(Cursor::new(text.clone()), "t", None)?;
        report(&format!("read {format}"), start)?;
        assert_eq!(again.jobs.len(), numbers.job_count);
        let start = now_s();
        lint_reader(Cursor::new(text), "t", &LintOptions::default())?;
        report(&format!("lint {format}"), start)?;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
