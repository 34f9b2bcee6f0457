//! The paced trainer: a real process that trains nothing and takes as long as the head's performance model says.
//!
//! It counts iterations at the pace that its supervisor tells, which changes while it runs, and it does what any good trainer does:
//! tells its progress, saves it when requested to stop and now and then, and continues from where it was. Iterations are counted
//! in parts, too, because the model does so: a whole one may be longer than the time between two preemptions.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::trainer::Word;
use crate::trainer::step::{StepReport, Task};

/// How often it states how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How often it saves that. A lost node costs what came after.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
const WORD_BYTES_MAX: usize = 4096;

/// Trains for so many iterations, or until it is requested to stop.
///
/// # Errors
/// [`io::Error`] where it is no task of a worker's, or its checkpoint cannot be kept.
pub fn pace_main(iterations: f64) -> io::Result<()> {
    let task = Task::from_environment()
        .ok_or_else(|| io::Error::other("not run by a worker: WHARF_PROGRESS_SOCKET is not set"))?;
    Paced::begin(task, iterations)?.run()
}

struct Paced {
    task: Task,
    /// Where words of the supervisor arrive.
    socket: UnixDatagram,
    /// A byte comes with each signal to stop.
    signals: UnixStream,
    checkpoint: PathBuf,
    /// Whether it saves for its gang: one of them does.
    saves: bool,
    course: Course,
    checkpointed: f64,
    word: Option<Word>,
}

/// How far it has come, and how fast it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Course {
    iterations: f64,
    done: f64,
    /// As of when `done` is.
    since: Instant,
    /// Seconds for an iteration; none while it is not known.
    iteration_s: Option<f64>,
}

impl Course {
    /// Counts what was done until now.
    fn advance(&mut self, now: Instant) {
        if let Some(iteration_s) = self.iteration_s {
            self.done += now.saturating_duration_since(self.since).as_secs_f64() / iteration_s;
        }
        self.since = now;
    }

    fn is_over(&self) -> bool {
        self.done >= self.iterations
    }

    /// How long it still takes at this pace; none where it has no pace.
    fn left(&self) -> Option<Duration> {
        let left_s = (self.iterations - self.done).max(0.0) * self.iteration_s?;
        Some(Duration::try_from_secs_f64(left_s).unwrap_or(Duration::MAX))
    }
}

impl Paced {
    fn begin(task: Task, iterations: f64) -> io::Result<Self> {
        let (signals, write) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        // Jobs may have their folder in common.
        let name = format!("paced-{}.checkpoint", task.job());
        let checkpoint = PathBuf::from(variable("WHARF_CHECKPOINT_DIR")).join(name);
        // The head knows of what was saved, where a node has no folder in common with the last one.
        let told: f64 = variable("WHARF_ITERATIONS_DONE").parse().unwrap_or(0.0);
        // What lies there at the first start is another cluster's.
        let saved = if task.is_first() { None } else { read_checkpoint(&checkpoint)? };
        let done = saved.unwrap_or(0.0).max(told);
        let course = Course { iterations, done, since: Instant::now(), iteration_s: None };
        let saves = variable("RANK").parse().unwrap_or(0) == 0;
        let socket = task.bind("pace")?;
        socket.set_nonblocking(true)?;
        let mut paced =
            Self { task, socket, signals, checkpoint, saves, course, checkpointed: done, word: None };
        paced.save()?;
        Ok(paced)
    }

    fn run(mut self) -> io::Result<()> {
        let mut report_at = Instant::now();
        let mut save_at = report_at + SAVE_INTERVAL;
        loop {
            let now = Instant::now();
            self.course.advance(now);
            if self.course.is_over() {
                self.course.done = self.course.iterations;
                self.tell(false);
                self.say("done");
                return self.clear();
            }
            if self.is_to_stop()? {
                self.save()?;
                self.tell(true);
                self.say("stopped");
                return Ok(());
            }
            if now >= save_at {
                self.save()?;
                save_at = now + SAVE_INTERVAL;
            }
            if now >= report_at {
                self.tell(false);
                report_at = now + REPORT_INTERVAL;
            }
            let until = self.course.left().map_or(report_at, |left| report_at.min(now + left));
            self.wait(until.saturating_duration_since(now))?;
            self.listen();
        }
    }

    /// Waits for a word, a signal or the time.
    fn wait(&self, timeout: Duration) -> io::Result<()> {
        // Rounded up, so that what is waited for is due then.
        let ms = timeout.as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        let mut watched = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the supervisor's words. The pace holds from when it is heard.
    fn listen(&mut self) {
        let mut text = [0; WORD_BYTES_MAX];
        while let Ok(length) = self.socket.recv(&mut text) {
            let word: Result<Word, _> = serde_json::from_slice(text.get(..length).unwrap_or_default());
            // Any process may send here.
            let Some(word) = word.ok().filter(|word| word.token == self.task.token()) else { continue };
            if let Some(pace) = word.pace {
                self.course.advance(Instant::now());
                if self.course.iteration_s.replace(pace.0).is_none() {
                    self.say("began");
                }
            }
            self.word = Some(word);
        }
    }

    fn is_to_stop(&mut self) -> io::Result<bool> {
        let mut byte = [0; 16];
        match io::Read::read(&mut self.signals, &mut byte) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let done = self.course.done;
        Ok(self.word.as_ref().is_some_and(|word| word.stop || word.lease.is_over(done, SystemTime::now())))
    }

    /// Whatever fails here is the supervisor's trouble: training continues.
    fn tell(&self, is_stopped: bool) {
        let report = StepReport {
            iterations: Some(self.course.done),
            checkpointed: Some(self.checkpointed),
            ..StepReport::default()
        };
        let _ = self.task.tell(&self.socket, &report, is_stopped);
    }

    /// For people who check its output.
    fn say(&self, what: &str) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Course { iterations, done, .. } = self.course;
        // A listener is optional.
        let _ = writeln!(
            io::stdout(),
            "{what} at {:.6} with {done} of {iterations} iterations",
            since.as_secs_f64()
        );
    }

    /// Keeps how far it is: whole or not at all.
    fn save(&mut self) -> io::Result<()> {
        if self.saves {
            let beside = self.checkpoint.with_extension("new");
            std::fs::write(&beside, format!("{}\n", self.course.done))?;
            std::fs::rename(&beside, &self.checkpoint)?;
        }
        self.checkpointed = self.course.done;
        Ok(())
    }

    /// Removes the checkpoint when it is not needed any more.
    fn clear(&self) -> io::Result<()> {
        if self.saves { std::fs::remove_file(&self.checkpoint) } else { Ok(()) }
    }
}

/// What an earlier run has saved, if there was one.
fn read_checkpoint(path: &Path) -> io::Result<Option<f64>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let done: Option<f64> = text.trim().parse().ok().filter(|done: &f64| done.is_finite() && *done >= 0.0);
    done.map(Some).ok_or_else(|| {
        let path = path.display();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("`{path}` is not a valid checkpoint; remove it to start from the beginning"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_counts_parts_at_the_present_pace() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut course = Course { iterations: 10.0, done: 2.5, since: start, iteration_s: None };
        course.advance(at(5.0));
        assert_eq!((course.done, course.left()), (2.5, None), "nothing is done before the pace is known");
        course.iteration_s = Some(2.0);
        course.advance(at(6.0));
        assert_eq!((course.done, course.left()), (3.0, Some(Duration::from_secs(14))));
        course.iteration_s = Some(0.5);
        course.advance(at(9.0));
        assert_eq!((course.done, course.is_over()), (9.0, false));
        course.advance(at(9.5));
        assert!(course.is_over());
    }

    #[test]
    fn checkpoint_is_read_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paced-3.checkpoint");
        assert_eq!(read_checkpoint(&path).unwrap(), None);
        std::fs::write(&path, "12.25\n").unwrap();
        assert_eq!(read_checkpoint(&path).unwrap(), Some(12.25));
        for damaged in ["", "twelve", "-1", "inf"] {
            std::fs::write(&path, damaged).unwrap();
            let error = read_checkpoint(&path).unwrap_err().to_string();
            assert!(error.contains("is not a valid checkpoint; remove it"), "{damaged}: {error}");
        }
    }
}
