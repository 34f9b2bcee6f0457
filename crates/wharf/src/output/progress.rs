//! A progress bar on standard error that appears only where the work takes a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that is done sooner shows no bar.
const APPEARS_AFTER: Duration = Duration::from_millis(500);

/// Counts steps, and shows them on a terminal. Shared between threads.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// A bar that stays invisible.
    pub(crate) fn hidden() -> Self {
        Self { bar: None, started: Instant::now() }
    }

    /// A bar of `length` steps, each one `unit`.
    pub(crate) fn new(length: u64, unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        let template = format!("{{bar:30}} {{human_pos}}/{{human_len}} {unit}, {{elapsed}}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar: Some(bar), started: Instant::now() }
    }

    /// Counts `steps` as done.
    pub(crate) fn add(&self, steps: u64) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() && self.started.elapsed() >= APPEARS_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        bar.inc(steps);
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
