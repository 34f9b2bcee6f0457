//! A trainer's word to its supervisor, for trainers that are no Python programs: what `wharf step` does.

use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use wharf_curve::Number;

use crate::trainer::{Word, random_word};

/// A supervisor answers at once unless the machine is very busy; one that is away is noticed without waiting.
const PATIENCE: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 4096;

/// How far a trainer has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Iterations done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
    /// Iterations that the last checkpoint holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpointed: Option<f64>,
    /// Iterations of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The latest values of anything else; NaN and infinity included.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", serialize_with = "numbers")]
    pub metrics: BTreeMap<String, f64>,
}

fn numbers<S: Serializer>(metrics: &BTreeMap<String, f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|(name, value)| (name, Number(*value))))
}

/// What the trainer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// It is no task of a worker's: it continues as it likes.
    Outside,
    /// The supervisor does not answer now: it continues.
    Unheard,
    /// It continues.
    GoOn,
    /// Its lease has ended or it was requested to stop: it saves a checkpoint and exits with 0.
    Stop,
}

/// What a process of a task knows of itself.
pub(crate) struct Task {
    socket: PathBuf,
    job: u32,
    generation: u32,
    token: String,
}

#[derive(Serialize)]
struct Message<'a> {
    job: u32,
    generation: u32,
    token: &'a str,
    #[serde(flatten)]
    report: &'a StepReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
}

/// Tells the supervisor of the task that this process belongs to, and asks whether to continue.
pub fn tell_step(report: &StepReport) -> StepAnswer {
    let Some(task) = Task::from_environment() else { return StepAnswer::Outside };
    // Whatever fails here is the supervisor's trouble or the machine's: training continues.
    let Ok(word) = task.ask(report) else { return StepAnswer::Unheard };
    let done = report.iterations.unwrap_or(0.0);
    // A trainer that has made all its iterations comes to its own end: nothing of it is interrupted.
    let is_last = report.total.is_some_and(|total| done >= total);
    if is_last || !word.stop && !word.lease.is_over(done, SystemTime::now()) {
        return StepAnswer::GoOn;
    }
    // So that its exit code 0 is not taken for the end of its work.
    let _ = task.send_stopped(report);
    StepAnswer::Stop
}

impl Task {
    pub(crate) fn from_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            socket: variable("WHARF_PROGRESS_SOCKET")?.into(),
            job: variable("WHARF_JOB_ID")?.parse().ok()?,
            generation: variable("WHARF_GENERATION")?.parse().ok()?,
            token: variable("WHARF_PROGRESS_TOKEN").unwrap_or_default(),
        })
    }

    fn text(&self, report: &StepReport, query: Option<&str>, stopped: bool) -> io::Result<Vec<u8>> {
        let &Self { job, generation, ref token, .. } = self;
        Ok(serde_json::to_vec(&Message { job, generation, token, report, query, stopped })?)
    }

    pub(crate) fn job(&self) -> u32 {
        self.job
    }

    /// Whether its job was never launched before.
    pub(crate) fn is_first(&self) -> bool {
        self.generation == 1
    }

    /// The word that the task is known by.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A socket that the supervisor can answer to.
    pub(crate) fn bind(&self, what: &str) -> io::Result<UnixDatagram> {
        let name = format!("wharf-{what}-{}", random_word()?);
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// Tells without asking; from then on the supervisor says to this socket what changes.
    pub(crate) fn tell(&self, socket: &UnixDatagram, report: &StepReport, stopped: bool) -> io::Result<()> {
        socket.send_to(&self.text(report, None, stopped)?, &self.socket).map(drop)
    }

    fn ask(&self, report: &StepReport) -> io::Result<Word> {
        let socket = self.bind("step")?;
        socket.send_to(&self.text(report, Some("lease"), false)?, &self.socket)?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        let length = socket.recv(&mut answer)?;
        let word: Word = serde_json::from_slice(answer.get(..length).unwrap_or_default())?;
        if word.token == self.token { Ok(word) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn send_stopped(&self, report: &StepReport) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.send_to(&self.text(report, Some("lease"), true)?, &self.socket).map(drop)
    }
}
