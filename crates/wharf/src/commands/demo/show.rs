//! What is seen while the demo runs: a table that is redrawn, or a line per change without a terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use wharf_proto::{JobPhase, JobSummary};

use crate::commands::cluster::Frame;
use crate::output::Terminal;

/// Shows how jobs fare.
pub(super) struct Show<'a> {
    terminal: &'a Terminal,
    is_live: bool,
    began: Instant,
    /// Lines of the table that stands on the screen.
    drawn: usize,
    seen: BTreeMap<u32, (JobPhase, u32)>,
}

impl<'a> Show<'a> {
    pub(super) fn new(terminal: &'a Terminal) -> Self {
        let is_live = !terminal.is_quiet() && std::io::stderr().is_terminal();
        Self { terminal, is_live, began: Instant::now(), drawn: 0, seen: BTreeMap::new() }
    }

    /// Shows the present: `frame` has the jobs that are not over, `all` has all of them.
    pub(super) fn update(&mut self, frame: &Frame, all: &[JobSummary]) {
        if self.is_live {
            self.redraw(frame);
            return;
        }
        for job in all {
            let now = (job.phase(), job.preemptions);
            let before = self.seen.insert(job.job_id, now);
            if before != Some(now)
                && let Some(news) = news(job, before)
            {
                let at_s = self.began.elapsed().as_secs_f64();
                self.terminal.note(&format!("{at_s:5.1} s  {news}"));
            }
        }
    }

    fn redraw(&mut self, frame: &Frame) {
        let (width, height) = terminal_size::terminal_size_of(std::io::stderr())
            .map_or((100, 40), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let mut lines = frame.lines(Some(width));
        lines.truncate(height.saturating_sub(1));
        let mut text = self.erasure();
        for line in &lines {
            text += &format!("{line}\n");
        }
        self.drawn = lines.len();
        // Standard error may be closed.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// What takes the table off the screen.
    fn erasure(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.drawn) }
    }

    /// Takes the table off the screen.
    pub(super) fn end(self) {
        let _ = std::io::stderr().lock().write_all(self.erasure().as_bytes());
    }
}

/// What is new about a job, in words.
fn news(job: &JobSummary, before: Option<(JobPhase, u32)>) -> Option<String> {
    let nodes: Vec<&str> = job.placement.iter().map(|share| share.node.as_str()).collect();
    let what = match job.phase() {
        JobPhase::Waiting | JobPhase::Held if before.is_none() => {
            format!("submitted, {} devices", job.devices)
        }
        JobPhase::Running if job.preemptions > 0 => {
            format!("runs again on {} from iteration {:.0}", nodes.join("+"), job.iterations_done)
        }
        JobPhase::Running => format!("runs on {}", nodes.join("+")),
        JobPhase::Finished => "finished".to_owned(),
        JobPhase::Failed => format!("failed with exit code {}", job.exit_code),
        JobPhase::Cancelled => "cancelled".to_owned(),
        JobPhase::TimedOut => "stopped at its time limit".to_owned(),
        JobPhase::Waiting if before.is_some_and(|(phase, _)| phase != JobPhase::Waiting) => {
            format!("preempted: saved iteration {:.0}, waits to continue", job.iterations_done)
        }
        JobPhase::Waiting | JobPhase::Held | JobPhase::Placed | JobPhase::Stopping => return None,
    };
    Some(format!("{:<14} {what}", job.name))
}
