//! A job's history from a run's `events.jsonl`: starts, stops and who went first, but no wait reasons.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::Path;

use serde::Deserialize;
use wharf_core::{DeviceSet, NodeId, NodeShare};
use wharf_report::files::{EVENTS_JSONL, FoundRun};

use super::{Line, Story, interrupted, runs_on, share_text};
use crate::StudyError;

/// A line of the file.
#[derive(Deserialize)]
struct Event {
    t: f64,
    event: String,
    job: Option<String>,
    node: Option<u32>,
    #[serde(default)]
    nodes: Vec<(u32, Vec<u32>)>,
    change: Option<String>,
    #[serde(rename = "for")]
    to: Option<String>,
    chosen: Option<String>,
}

/// Reads what happened to a job.
///
/// # Errors
/// Where the file cannot be read, is malformed, or does not have the job.
pub fn read(run: &FoundRun, job: &str) -> Result<Story, StudyError> {
    let policy = || run.summary.policy.clone();
    let folder = run.folder().ok_or_else(|| StudyError::NoFolder { policy: policy() })?;
    let path = folder.join(EVENTS_JSONL);
    let file = File::open(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => {
            StudyError::NoEvents { job: job.to_owned(), policy: policy(), folder: folder.to_owned() }
        }
        _ => StudyError::Read { path: path.clone(), source },
    })?;
    let mut story = Story {
        policy: policy(),
        job: job.to_owned(),
        devices: None,
        has_reasons: false,
        events: Vec::new(),
        ahead: Vec::new(),
        is_finished: false,
    };
    let mut reader =
        Reader { job, is_waiting: false, held: Vec::new(), lost: None, preempted: (0.0, BTreeSet::new()) };
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|source| StudyError::Read { path: path.clone(), source })?;
        let event: Event =
            serde_json::from_str(&line).map_err(|error| malformed(&path, index + 1, &error))?;
        reader.take(event, &mut story);
    }
    if story.events.is_empty() {
        return Err(StudyError::NotInEvents { job: job.to_owned(), path });
    }
    Ok(story)
}

fn malformed(path: &Path, line: usize, error: &serde_json::Error) -> StudyError {
    StudyError::Malformed { path: path.to_owned(), line, reason: error.to_string() }
}

/// What is known of the job while its events are read.
struct Reader<'a> {
    job: &'a str,
    is_waiting: bool,
    held: Vec<NodeShare>,
    lost: Option<(f64, u32)>,
    /// Other jobs that were preempted at this moment: if they are started in it, they move.
    preempted: (f64, BTreeSet<String>),
}

impl Reader<'_> {
    fn take(&mut self, event: Event, story: &mut Story) {
        if event.event == "node_lost" {
            self.lost = event.node.map(|node| (event.t, node));
            return;
        }
        let Some(job) = &event.job else { return };
        if job != self.job {
            if event.event == "preempted" {
                if self.preempted.0 != event.t {
                    self.preempted = (event.t, BTreeSet::new());
                }
                self.preempted.1.insert(job.clone());
            }
            let is_moved = self.preempted.0 == event.t && self.preempted.1.contains(job);
            if self.is_waiting && event.event == "started" && !is_moved && !story.ahead.contains(job) {
                story.ahead.push(job.clone());
            }
            return;
        }
        let told = |to: Option<&str>, chosen: &str| {
            to.map_or_else(
                || format!("it was preempted for other jobs ({chosen})"),
                |to| format!("it made room for job {to} ({chosen})"),
            )
        };
        self.is_waiting = matches!(event.event.as_str(), "submitted" | "preempted" | "interrupted");
        let line = match event.event.as_str() {
            "submitted" => Line::new(event.t, "submitted", "it is submitted".to_owned()),
            "started" => self.started(&event, story),
            "preempted" => {
                let text = event.chosen.as_deref().map(|chosen| told(event.to.as_deref(), chosen));
                Line::new(event.t, "preempted", text.unwrap_or_else(|| "the policy stopped it".to_owned()))
            }
            "interrupted" => {
                let is_own = |&(at, node): &(f64, u32)| {
                    at == event.t && self.held.iter().any(|share| share.node == NodeId(node))
                };
                let node = self.lost.filter(is_own).map(|(_, node)| node.to_string());
                Line::new(event.t, "interrupted", interrupted(node.as_deref()))
            }
            "finished" => {
                story.is_finished = true;
                Line::new(event.t, "finished", "it is finished".to_owned())
            }
            _ => return,
        };
        story.events.push(line);
    }

    fn started(&mut self, event: &Event, story: &mut Story) -> Line {
        let share = |(node, devices): &(u32, Vec<u32>)| {
            let mut set = DeviceSet::EMPTY;
            devices.iter().filter(|device| **device < u128::BITS).for_each(|&device| set.insert(device));
            NodeShare::new(NodeId(*node), set)
        };
        self.held = event.nodes.iter().map(share).collect();
        let devices = self.held.iter().map(|share| share.devices.len()).sum();
        story.devices = Some(devices).filter(|devices| *devices > 0);
        let nodes: Vec<String> =
            self.held.iter().map(|share| share_text(&format!("node {}", share.node.0), share)).collect();
        let mut text = runs_on(&nodes, story.devices);
        if let Some(change) = &event.change {
            let to = event.to.as_ref().map_or_else(String::new, |to| format!(", for job {to}"));
            text += &format!("; it was {change}{to}");
        }
        Line::new(event.t, "started", text).after(std::mem::take(&mut story.ahead))
    }
}
