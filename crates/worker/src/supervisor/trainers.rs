//! The supervisor's conversation with trainers: datagrams with their progress come in, leases go out.
//!
//! A trainer that is heard of is told its lease at once and whenever it changes. One that asks (`"query": "lease"`) is
//! answered each time; `wharf step` does that and is gone again, so it is not remembered.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use serde::Deserialize;
use wharf_curve::{Curves, NAMES_MAX, Number, Point, Refused, STEP_MAX, check_name};

use super::note;
use crate::supervisor::protocol::Progress;
use crate::task::TaskKey;
use crate::trainer::Word;

/// Longer datagrams are cut off, and then not understood.
const DATAGRAM_BYTES_MAX: usize = 4096;
/// Processes of one task that are informed of a change; of more, the latest.
const LISTENERS_MAX: usize = 64;

/// Iterations, seconds since the Unix epoch, values by name.
type StepValues = (u64, f64, BTreeMap<String, Number>);

/// What a trainer tells of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    job: u32,
    generation: u32,
    #[serde(default)]
    pub(crate) token: String,
    iterations: Option<f64>,
    checkpointed: Option<f64>,
    total: Option<f64>,
    #[serde(default)]
    metrics: BTreeMap<String, Number>,
    /// Values by step: iterations, seconds since the Unix epoch, values by name. Absent: the metrics are of the iterations above.
    points: Option<Vec<StepValues>>,
    /// What the points were thinned with, where that is not 1.
    #[serde(default)]
    strides: BTreeMap<String, u64>,
    /// Values that the trainer did not send because of their names, and one of the names.
    refused: Option<(u64, String)>,
    /// It is about to end because it was requested to, and has more to do.
    #[serde(default)]
    pub(crate) stopped: bool,
    query: Option<String>,
}

impl Step {
    pub(crate) fn task(&self) -> TaskKey {
        TaskKey { job: self.job, generation: self.generation }
    }

    /// Progress after the message; none if it has neither progress nor metrics.
    pub(crate) fn progress(&self, before: Option<&Progress>) -> Option<Progress> {
        // Points that do not fit into one message come in further ones, without progress.
        let has_metrics = !self.metrics.is_empty() || self.points.is_some() || self.refused.is_some();
        if self.iterations.is_none() && self.checkpointed.is_none() && !has_metrics {
            return None;
        }
        let mut progress = before.cloned().unwrap_or_default();
        progress.iterations = self.iterations.unwrap_or(progress.iterations);
        // Of several processes mostly one saves; the others know of nothing newer than where they started.
        progress.checkpointed = progress.checkpointed.max(self.checkpointed.unwrap_or(0.0));
        progress.total = self.total.unwrap_or(progress.total);
        for (name, &value) in &self.metrics {
            let has_room = progress.metrics.len() < NAMES_MAX || progress.metrics.contains_key(name);
            if has_room && check_name(name).is_ok() {
                progress.metrics.insert(name.clone(), value);
            }
        }
        Some(progress)
    }

    /// Adds its points to the curves of its task, whose progress is what is known after it.
    pub(crate) fn add_points(&self, progress: &Progress, now_s: f64, curves: &mut Curves) {
        match &self.points {
            Some(points) => {
                for (step, time_s, values) in points {
                    for (name, &Number(value)) in values {
                        curves.add(name, Point { step: *step, time_s: *time_s, value });
                    }
                }
                self.strides.iter().for_each(|(name, stride)| curves.widen(name, *stride));
            }
            // A report without iterations at the beginning of a run belongs to no known step.
            None if self.iterations.is_none() && progress.iterations == 0.0 => {}
            None => {
                let step = progress.iterations.clamp(0.0, STEP_MAX as f64) as u64;
                for (name, &Number(value)) in &self.metrics {
                    curves.add(name, Point { step, time_s: now_s, value });
                }
            }
        }
        if let Some((points, example)) = &self.refused {
            let example = wharf_curve::shown(example);
            curves.note_refused(&Refused { points: *points, example });
        }
    }
}

pub(super) struct Trainers {
    pub(super) socket: UnixDatagram,
    listeners: BTreeMap<TaskKey, Vec<Listener>>,
}

/// A process that wants to know.
struct Listener {
    address: SocketAddr,
    /// What it was told last.
    told: Option<Word>,
}

impl Trainers {
    pub(super) fn new(socket: UnixDatagram) -> Self {
        Self { socket, listeners: BTreeMap::new() }
    }

    /// The next datagram's words and who said them; none when there is nothing more for now.
    pub(super) fn receive(&self) -> Option<(Vec<Step>, SocketAddr)> {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        let (length, from) = self.socket.recv_from(&mut buffer).ok()?;
        let lines = buffer.get(..length).unwrap_or_default().split(|byte| *byte == b'\n');
        // What is not understood is some process' mistake, and no reason to stop the others.
        Some((lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), from))
    }

    /// Answers a process of a task whose word this is.
    pub(super) fn answer(&mut self, step: &Step, from: &SocketAddr, word: Word) {
        if step.query.is_some() {
            // It asks again if it has to know.
            let _ = self.send(from, &word);
            return;
        }
        let Some(name) = name(from) else { return };
        let listeners = self.listeners.entry(step.task()).or_default();
        if !listeners.iter().any(|listener| self::name(&listener.address) == Some(name)) {
            if listeners.len() >= LISTENERS_MAX {
                listeners.remove(0);
            }
            listeners.push(Listener { address: from.clone(), told: None });
        }
        self.tell(step.task(), &word);
    }

    /// Tells all processes of a task that do not know it yet.
    pub(super) fn tell(&mut self, task: TaskKey, word: &Word) {
        let Some(mut listeners) = self.listeners.remove(&task) else { return };
        listeners.retain_mut(|listener| {
            if listener.told.as_ref() == Some(word) {
                return true;
            }
            match self.send(&listener.address, word) {
                Ok(()) => listener.told = Some(word.clone()),
                // It does not read now: said again when it is heard of next.
                Err(error) if error.kind() == ErrorKind::WouldBlock => (),
                Err(_) => return false,
            }
            true
        });
        if !listeners.is_empty() {
            self.listeners.insert(task, listeners);
        }
    }

    pub(super) fn forget(&mut self, task: TaskKey) {
        self.listeners.remove(&task);
    }

    fn send(&self, address: &SocketAddr, word: &Word) -> io::Result<()> {
        let text = serde_json::to_vec(word).inspect_err(|error| note(format_args!("no word: {error}")))?;
        self.socket.send_to_addr(&text, address).map(drop)
    }
}

/// What tells addresses apart; none for a sender that cannot be answered.
fn name(address: &SocketAddr) -> Option<(&[u8], &[u8])> {
    let path = address.as_pathname().map(|path| path.as_os_str().as_encoded_bytes());
    let name = address.as_abstract_name();
    (path.is_some() || name.is_some()).then_some((path.unwrap_or_default(), name.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn progress_keeps_unreported_fields() {
        let first = step(
            r#"{"job":1,"generation":2,"iterations":5,"checkpointed":4,"total":9,"metrics":{"loss":2.5,"lr":1}}"#,
        );
        let first = first.progress(None).unwrap();
        let second = step(r#"{"job":1,"generation":2,"iterations":6,"metrics":{"loss":2}}"#);
        let second = second.progress(Some(&first)).unwrap();
        let metrics = [("loss".to_owned(), Number(2.0)), ("lr".to_owned(), Number(1.0))].into();
        assert_eq!(second, Progress { iterations: 6.0, checkpointed: 4.0, metrics, total: 9.0 });
        let other = step(r#"{"job":1,"generation":2,"iterations":6,"checkpointed":2}"#);
        assert_eq!(
            other.progress(Some(&second)),
            Some(second.clone()),
            "another process, which does not save"
        );
        assert_eq!(step(r#"{"job":1,"generation":2,"query":"lease"}"#).progress(Some(&second)), None);
    }

    #[test]
    fn progress_drops_metrics_beyond_bounds() {
        let many: Vec<String> = (0..2 * NAMES_MAX).map(|index| format!("\"m{index}\":1")).collect();
        let text = format!(r#"{{"job":1,"generation":1,"metrics":{{{}}}}}"#, many.join(","));
        assert_eq!(step(&text).progress(None).unwrap().metrics.len(), NAMES_MAX);
        let long = format!(r#"{{"job":1,"generation":1,"metrics":{{"{}":1}}}}"#, "x".repeat(65));
        assert!(step(&long).progress(None).unwrap().metrics.is_empty());
    }

    #[test]
    fn message_with_points_only_keeps_progress() {
        let known =
            step(r#"{"job":1,"generation":1,"iterations":5,"metrics":{"loss":1}}"#).progress(None).unwrap();
        let more = step(r#"{"job":1,"generation":1,"points":[[4,7.5,{"loss":2}]]}"#);
        assert_eq!(more.progress(Some(&known)), Some(known));
        let refused = step(r#"{"job":1,"generation":1,"refused":[3,"x"]}"#);
        assert!(refused.progress(None).is_some());
    }

    #[test]
    fn points_are_those_sent_or_the_metrics_at_the_iterations() {
        let mut curves = Curves::default();
        let mut add = |text: &str| {
            let step = step(text);
            step.add_points(&step.progress(None).unwrap_or_default(), 9.0, &mut curves);
        };
        add(r#"{"job":1,"generation":1,"iterations":5,"metrics":{"loss":"nan"}}"#);
        add(
            r#"{"job":1,"generation":1,"iterations":8,"metrics":{"loss":1},"points":[[6,7.5,{"loss":"inf","acc":2}]],"refused":[3,"x\u001b"]}"#,
        );
        let points = curves.points();
        let steps: Vec<u64> = points["loss"].points.iter().map(|point| point.step).collect();
        assert_eq!((steps, points["acc"].points.len()), (vec![5, 6], 1));
        assert!(points["loss"].points[0].value.is_nan() && points["loss"].points[1].value == f64::INFINITY);
        assert_eq!((curves.refused().points, curves.refused().example.as_str()), (3, "x\\u{1b}"));
    }
}
