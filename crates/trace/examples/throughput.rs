//! How fast (processor time where Linux tells it, wall time elsewhere) a million jobs are generated, written and read, and
//! how much memory logs of a million rows take: `cargo run --release -p wharf-trace --example throughput [logs]`.

use std::io::{self, Cursor, Read, Write};
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

/// A text that is made as it is read, row by row.
struct Rows {
    row: fn(u64) -> String,
    next: u64,
    text: Cursor<Vec<u8>>,
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        if count > 0 || self.next > ROWS {
            return Ok(count);
        }
        self.text = Cursor::new((self.row)(self.next).into_bytes());
        self.next += 1;
        self.read(buffer)
    }
}

const ROWS: u64 = 1_000_000;

/// Writes one row.
type MakeRow = fn(u64) -> String;

/// Row 0 is the header, where there is one; the last closes what it opened.
const LOGS: [(&str, MakeRow); 3] = [
    ("helios", |row| match row {
        0 => "job_id,user,gpu_num,state,submit_time,start_time,end_time,duration\n".to_owned(),
        row => {
            let (day, second) = (row / 86_400 % 28 + 1, row % 60);
            let date = format!("2020-05-{day:02} 10:00:{second:02}");
            format!("{row},u{},{},COMPLETED,{date},{date},{date},{}\n", row % 300, row % 9, row % 5000)
        }
    }),
    ("pai", |row| {
        let start = 5000 + row;
        format!(
            "{row:024x},worker,{},Terminated,{start}.0,{}.0,600.0,29.3,50.0,T4\n",
            row % 4 + 1,
            start + 90
        )
    }),
    ("philly", |row| {
        let open = if row == 0 { "[" } else { "," };
        let close = if row == ROWS { "]" } else { "" };
        let second = row % 60;
        format!(
            "{open}{{\"status\": \"Pass\", \"vc\": \"a\", \"jobid\": \"application_{row}\", \"attempts\": [{{\"start_time\": \
             \"2017-10-07 01:12:{second:02}\", \"end_time\": \"2017-10-07 02:13:23\", \"detail\": [{{\"ip\": \"m4\", \"gpus\": \
             [\"gpu0\", \"gpu1\"]}}]}}], \"submitted_time\": \"2017-10-07 01:11:{second:02}\", \"user\": \"u{}\"}}{close}\n",
            row % 300
        )
    }),
];

/// Reads the logs and states how long each took, and the most memory so far.
fn read_logs(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    for (name, row) in LOGS {
        let start = now_s();
        let rows = Rows { row, next: 0, text: Cursor::new(Vec::new()) };
        let jobs = parse_trace_reader(rows, name, None)?.jobs.len();
        writeln!(out, "{:<24} {:>7.3} s, {jobs} jobs", format!("read {name}"), now_s() - start)?;
        peak(out)?;
    }
    Ok(())
}

fn peak(out: &mut impl Write) -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM")).try_for_each(|line| writeln!(out, "{line}"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    if std::env::args().nth(1).as_deref() == Some("logs") {
        return read_logs(&mut out);
    }
    let mut report = |what: &str, since: f64| writeln!(out, "{what:<24} {:>7.3} s", now_s() - since);
    let start = now_s();
    let trace = generate(&GeneratorSettings { job_count: 1_000_000, ..GeneratorSettings::default() })?;
    report("generate 1,000,000", start)?;
    let start = now_s();
    let numbers = stats(&trace);
    report("stats", start)?;
    for format in Format::all().iter().filter(|format| format.is_writable()) {
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
    peak(&mut out)?;
    Ok(())
}
