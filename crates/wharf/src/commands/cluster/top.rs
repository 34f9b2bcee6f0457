//! `wharf top`: the cluster at a glance, as it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;
use wharf_client::{Client, unix_s};
use wharf_proto::{JobPhase, JobSummary, ListJobsRequest};

use super::connect::with;
use super::embedded::Interruptions;
use super::frame::{Frame, Sort};
use crate::args::TopArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Terminal, escaped};

/// Wait reasons in a list of jobs, for the first jobs that wait.
pub(in crate::commands) const EXPLAIN_MAX: u32 = 20;
/// A rate is measured over this long.
const WINDOW_S: f64 = 10.0;
/// To another screen and without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Shows the cluster until `q`, or once.
pub(in crate::commands) fn top(args: &TopArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if !args.interval.is_finite() || args.interval < 0.1 {
        return Err(CliError::usage("`--interval` takes seconds of at least 0.1"));
    }
    let is_live = !args.once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    with(&args.home, async |client| {
        if !is_live {
            let lines = look(client, &mut Rates::default(), Sort::Id).await?.lines(None);
            terminal.data(&(lines.join("\n") + "\n"))?;
            return Ok(Exit::Ok);
        }
        let interruptions = Interruptions::watch();
        let screen = Screen::enter()?;
        let shown = tokio::select! {
            shown = live(client, Duration::from_secs_f64(args.interval), keys()) => shown,
            () = interruptions.reach(1) => Ok(()),
        };
        drop(screen);
        shown.map(|()| Exit::Ok)
    })
}

async fn look(client: &Client, rates: &mut Rates, sort: Sort) -> Result<Frame, CliError> {
    let info = client.info().await?;
    let nodes = client.list_nodes().await?;
    let request = ListJobsRequest { live_only: true, explain_max: EXPLAIN_MAX, ..ListJobsRequest::default() };
    let jobs = client.list_jobs(request).await?;
    let now_s = unix_s();
    let policy = if info.policy.is_empty() { String::new() } else { format!(" · {}", info.policy) };
    let title = format!(
        "wharf {}{policy} · {} nodes · {} of {} devices free · {} unfinished jobs, {} ended",
        info.version, info.nodes, info.devices_free, info.devices, info.jobs_live, info.jobs_ended
    );
    Ok(Frame { title, nodes, rates: rates.update(now_s, &jobs), jobs, now_s, sort })
}

/// Earlier numbers of iterations, to tell the present rate by.
#[derive(Default)]
struct Rates(BTreeMap<u32, Vec<(f64, f64)>>);

impl Rates {
    fn update(&mut self, now_s: f64, jobs: &[JobSummary]) -> BTreeMap<u32, f64> {
        let running: BTreeSet<u32> =
            jobs.iter().filter(|job| job.phase() == JobPhase::Running).map(|job| job.job_id).collect();
        self.0.retain(|job, _| running.contains(job));
        let mut rates = BTreeMap::new();
        for job in jobs.iter().filter(|job| running.contains(&job.job_id)) {
            let samples = self.0.entry(job.job_id).or_default();
            samples.retain(|&(at_s, done)| now_s - at_s <= WINDOW_S && done <= job.iterations_done);
            if let Some(&(at_s, done)) = samples.first().filter(|(at_s, _)| now_s > *at_s) {
                rates.insert(job.job_id, (job.iterations_done - done) / (now_s - at_s));
            }
            samples.push((now_s, job.iterations_done));
        }
        rates
    }
}

/// Draws again and again, and obeys keys.
async fn live(client: &Client, interval: Duration, mut keys: mpsc::Receiver<Key>) -> Result<(), CliError> {
    let (mut rates, mut sort, mut from) = (Rates::default(), Sort::default(), 0_usize);
    let mut ticks = tokio::time::interval(interval);
    let mut frame = Frame::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => frame = look(client, &mut rates, sort).await?,
            Some(key) = keys.recv() => match key {
                Key::Quit => return Ok(()),
                Key::Sort => sort = sort.next(),
                Key::Up => from = from.saturating_sub(1),
                Key::Down => from += 1,
            },
        }
        frame.sort = sort;
        from = draw(&frame, from)?;
    }
}

/// Draws the lines from the given one on, as many as fit; gives the line that is really the first.
fn draw(frame: &Frame, from: usize) -> Result<usize, CliError> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())
        .map_or((100, 40), |(width, height)| (usize::from(width.0), usize::from(height.0)));
    let lines = frame.lines(Some(width));
    let rows = height.saturating_sub(1);
    let from = from.min(lines.len().saturating_sub(rows));
    let mut text = String::from("\x1b[H");
    for line in lines.iter().skip(from).take(rows) {
        text += &format!("{}\x1b[K\r\n", escaped(line));
    }
    let help = format!("q quit · s sort ({}) · ↑↓ scroll", frame.sort.name());
    let help: String = help.chars().take(width).collect();
    text += &format!("\x1b[J\x1b[{height};1H{help}");
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)?;
    Ok(from)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Sort,
    Up,
    Down,
}

/// Keys as they are pressed. The thread ends with the process: nothing interrupts a read from a terminal.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut bytes = [0; 16];
        while let Ok(count) = std::io::stdin().read(&mut bytes) {
            let key = match &bytes[..count] {
                [] => return,
                b"q" | b"Q" | b"\x04" => Key::Quit,
                b"s" => Key::Sort,
                b"k" | b"\x1b[A" | b"\x1bOA" => Key::Up,
                b"j" | b"\x1b[B" | b"\x1bOB" => Key::Down,
                _ => continue,
            };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A terminal that tells each key at once, until dropped.
struct Screen {
    before: Termios,
}

impl Screen {
    fn enter() -> Result<Self, CliError> {
        let failed = |errno| CliError::input("cannot set up the terminal").caused_by(errno);
        let before = tcgetattr(std::io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(std::io::stdin(), SetArg::TCSANOW, &raw).map_err(failed)?;
        let mut out = std::io::stdout().lock();
        out.write_all(ENTER.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)?;
        Ok(Self { before })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing any more.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.before);
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    }
}
