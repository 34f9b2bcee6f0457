//! What squeue tells of jobs, and sinfo of nodes: fields by letter, their titles, formats and orders.

use std::cmp::Ordering;

use super::limit::{Brief, TimeLimit};
use super::outcome::State;

/// What squeue prints by default.
pub const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// With `-l`.
pub const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// With `-s`.
pub const STEPS: &str = "%.15i %.8j %.9P %.8u %.9M %N";
/// With `--start`.
pub const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
/// How jobs are sorted.
pub const SORT: &str = "P,t,-p";
/// How steps are sorted.
pub const SORT_STEPS: &str = "P,i";
/// What sinfo prints by default, with `-N`, `-l` and `-s`.
pub const SINFO: &str = "%#P %.5a %.10l %.6D %.6t %N";
/// With `-N`.
pub const SINFO_NODES: &str = "%#N %.6D %#P %6t";
/// With `-l`.
pub const SINFO_LONG: &str = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
/// With `-s`.
pub const SINFO_SUMMARY: &str = "%#P %.5a %.10l %.16F  %N";
/// With `-R`.
pub const SINFO_REASONS: &str = "%20E %9u %19H %N";

/// A job, or the part of an array that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What it is called: `12`, `12_3`, `12_[4-9%2]`.
    pub id: String,
    /// Its own id.
    pub job: u32,
    /// The array's id, or its own.
    pub array: u32,
    /// Its indexes in the array.
    pub index: Option<String>,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub user: String,
    /// Whose account it is on.
    pub account: String,
    /// The partition that it is in.
    pub partition: String,
    /// How it is.
    pub state: State,
    /// Why it is not otherwise.
    pub reason: String,
    /// Seconds that it has run.
    pub used_s: u64,
    /// How long it may.
    pub limit: TimeLimit,
    /// On how many nodes.
    pub nodes: u32,
    /// Which those are.
    pub nodelist: String,
    /// Processors.
    pub cpus: u32,
    /// GPUs of each node, as `--gres` names them.
    pub gres: String,
    /// Its priority.
    pub priority: i64,
    /// When it was submitted, began and ended, as they are printed.
    pub times: [String; 3],
    /// Where it runs.
    pub workdir: String,
    /// What it runs.
    pub command: String,
    /// What it waits for.
    pub dependency: String,
    /// What features its nodes must have.
    pub features: String,
    /// How it ended.
    pub exit: String,
}

impl Job {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, letter: char) -> String {
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        let [submit, start, end] = &self.times;
        match letter {
            'a' => or(&self.account, "(null)"),
            'A' => self.job.to_string(),
            'b' => or(&self.gres, "N/A"),
            'C' => self.cpus.to_string(),
            'D' => self.nodes.to_string(),
            'e' => or(end, "N/A"),
            'E' => or(&self.dependency, "(null)"),
            'f' => or(&self.features, "(null)"),
            'F' => self.array.to_string(),
            'i' => self.id.clone(),
            'j' => self.name.clone(),
            'K' => self.index.clone().unwrap_or_else(|| "N/A".to_owned()),
            'l' => limit(self.limit),
            'L' => match self.limit.seconds() {
                Some(limit_s) => Brief(limit_s.saturating_sub(self.used_s)).to_string(),
                None => "UNLIMITED".to_owned(),
            },
            'M' => Brief(self.used_s).to_string(),
            'N' => self.nodelist.clone(),
            'o' => or(&self.command, "(null)"),
            'p' => format!("{:.14}", 0.5 + self.priority as f64 / 1e6),
            'P' => self.partition.clone(),
            'Q' => self.priority.to_string(),
            'r' => self.reason.clone(),
            'R' if matches!(self.state, State::Pending | State::Failed) => format!("({})", self.reason),
            'R' => self.nodelist.clone(),
            'S' => or(start, "N/A"),
            't' => self.state.names().0.to_owned(),
            'T' => self.state.names().1.to_owned(),
            'u' => self.user.clone(),
            'V' => or(submit, "N/A"),
            'Y' => "(null)".to_owned(),
            'Z' => or(&self.workdir, "(null)"),
            _ => "N/A".to_owned(),
        }
    }

    /// Whether a filter by id means it: its own, its array's, or one element's.
    #[must_use]
    pub fn is_named(&self, id: &str) -> bool {
        match id.split_once('_') {
            None => id.parse() == Ok(self.job) || id.parse() == Ok(self.array),
            Some((array, index)) => array.parse() == Ok(self.array) && self.index.as_deref() == Some(index),
        }
    }
}

fn limit(limit: TimeLimit) -> String {
    limit.seconds().map_or_else(|| "UNLIMITED".to_owned(), |seconds| Brief(seconds).to_string())
}

/// What stands above a field.
#[must_use]
pub fn title(letter: char) -> &'static str {
    match letter {
        'a' => "ACCOUNT",
        'A' => "JOBID",
        'b' => "TRES_PER_NODE",
        'C' => "CPUS",
        'D' => "NODES",
        'e' => "END_TIME",
        'E' => "DEPENDENCY",
        'f' => "FEATURES",
        'F' => "ARRAY_JOB_ID",
        'i' => "JOBID",
        'j' => "NAME",
        'K' => "ARRAY_TASK_ID",
        'l' => "TIME_LIMIT",
        'L' => "TIME_LEFT",
        'M' => "TIME",
        'N' => "NODELIST",
        'o' => "COMMAND",
        'p' | 'Q' => "PRIORITY",
        'P' => "PARTITION",
        'r' => "REASON",
        'R' => "NODELIST(REASON)",
        'S' => "START_TIME",
        't' => "ST",
        'T' => "STATE",
        'u' => "USER",
        'V' => "SUBMIT_TIME",
        'Y' => "SCHEDNODES",
        'Z' => "WORK_DIR",
        _ => "N/A",
    }
}

/// What stands above a field of a step; none where steps have no such field.
#[must_use]
pub fn step_title(letter: char) -> Option<&'static str> {
    match letter {
        'i' => Some("STEPID"),
        'j' | 'l' | 'M' | 'N' | 'P' | 'S' | 'u' => Some(title(letter)),
        _ => None,
    }
}

/// Fields by the names that `--Format` has for them.
pub const NAMES: &[(&str, char)] = &[
    ("account", 'a'),
    ("arrayjobid", 'F'),
    ("arraytaskid", 'K'),
    ("command", 'o'),
    ("dependency", 'E'),
    ("endtime", 'e'),
    ("feature", 'f'),
    ("jobarrayid", 'i'),
    ("jobid", 'A'),
    ("name", 'j'),
    ("nodelist", 'N'),
    ("numcpus", 'C'),
    ("numnodes", 'D'),
    ("partition", 'P'),
    ("prioritylong", 'Q'),
    ("priority", 'p'),
    ("reason", 'r'),
    ("reasonlist", 'R'),
    ("starttime", 'S'),
    ("state", 'T'),
    ("statecompact", 't'),
    ("submittime", 'V'),
    ("timeleft", 'L'),
    ("timelimit", 'l'),
    ("timeused", 'M'),
    ("tres-per-node", 'b'),
    ("username", 'u'),
    ("workdir", 'Z'),
    ("schednodes", 'Y'),
    ("nodes", 'N'),
    ("numtasks", 'C'),
];

/// Sorts by fields, `-` for descending; what is equal stays by id.
pub fn sort(jobs: &mut [Job], keys: &str) {
    let compare = |left: &Job, right: &Job| {
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            let (letter, is_down) = match key.strip_prefix('-') {
                Some(letter) => (letter, true),
                None => (key.trim_start_matches('+'), false),
            };
            let ordering = by(letter.chars().next().unwrap_or('i'), left, right);
            let ordering = if is_down { ordering.reverse() } else { ordering };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        left.job.cmp(&right.job)
    };
    jobs.sort_by(compare);
}

fn by(letter: char, left: &Job, right: &Job) -> Ordering {
    match letter {
        'i' | 'A' => (left.array, left.job).cmp(&(right.array, right.job)),
        't' | 'T' => left.state.cmp(&right.state),
        'p' | 'Q' => left.priority.cmp(&right.priority),
        'M' => left.used_s.cmp(&right.used_s),
        'D' => left.nodes.cmp(&right.nodes),
        'C' => left.cpus.cmp(&right.cpus),
        'l' => left.limit.cmp(&right.limit),
        letter => left.field(letter).cmp(&right.field(letter)),
    }
}
