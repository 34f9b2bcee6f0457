//! Node failures and repairs: drawn from a seed, or listed in a file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use wharf_core::{ClusterSpec, NodeId, Time};
use wharf_policy::Settings;

/// Nodes that go and come back, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    next: BinaryHeap<Reverse<(Time, NodeId, bool)>>,
    drawn: Option<Drawn>,
}

/// One node's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeChange {
    /// When.
    pub time: Time,
    /// Which.
    pub node: NodeId,
    /// Whether it is there from now on.
    pub is_up: bool,
}

#[derive(Debug)]
struct Drawn {
    mtbf_s: f64,
    repair_s: f64,
    /// One generator per node: what happens to one does not depend on how many there are.
    rngs: Vec<ChaCha8Rng>,
}

/// A failure file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FailureError {
    /// The file cannot be read.
    #[error("cannot read failures from `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has nothing in it.
    #[error("`{path}` is empty, but should have lines of the form time_s,node,event")]
    Empty {
        /// The file.
        path: String,
    },
    /// A line is not `time_s,node,event`.
    #[error(
        "{path}:{line}: `{found}` is not of the form time_s,node,event with a known node and event `down` or `up`"
    )]
    Line {
        /// The file.
        path: String,
        /// Its line, from 1.
        line: usize,
        /// What stands there.
        found: String,
    },
}

impl Failures {
    /// Failures with exponential times between them and to repair, drawn for each node on its own.
    pub(crate) fn draw(nodes: usize, mtbf_h: f64, repair_h: f64, seed: u64) -> Self {
        if mtbf_h <= 0.0 {
            return Self::default();
        }
        let rngs = (0..nodes)
            .map(|node| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(node as u64 + 1);
                rng
            })
            .collect();
        let mut failures = Self {
            next: BinaryHeap::new(),
            drawn: Some(Drawn { mtbf_s: mtbf_h * 3600.0, repair_s: repair_h * 3600.0, rngs }),
        };
        for node in (0..nodes).map(NodeId::from_index) {
            failures.plan(Time::ZERO, node, false);
        }
        failures
    }

    /// Those of a list.
    pub(crate) fn listed(list: &FailureList) -> Self {
        let next = list.0.iter().map(|change| Reverse((change.time, change.node, change.is_up))).collect();
        Self { next, drawn: None }
    }

    /// When the next change is.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.next.peek().map(|&Reverse((time, ..))| time)
    }

    /// The next change, if it is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<NodeChange> {
        let &Reverse((time, node, is_up)) = self.next.peek()?;
        if time > now {
            return None;
        }
        self.next.pop();
        self.plan(time, node, !is_up);
        Some(NodeChange { time, node, is_up })
    }

    fn plan(&mut self, from: Time, node: NodeId, is_up: bool) {
        if let Some(drawn) = &mut self.drawn {
            let mean_s = if is_up { drawn.repair_s } else { drawn.mtbf_s };
            let uniform: f64 = drawn.rngs[node.index()].random();
            self.next.push(Reverse((from.plus(-mean_s * (1.0 - uniform).ln()), node, is_up)));
        }
    }
}

/// The node changes of a failure file.
#[derive(Clone, Debug)]
pub struct FailureList(Vec<NodeChange>);

impl FailureList {
    /// The setting that names a failure file.
    pub const SETTING: &str = "failures";

    /// Reads the failure file that settings name, if they do.
    ///
    /// # Errors
    /// [`FailureError`] names the file and the line.
    pub fn of_settings(settings: &Settings, cluster: &ClusterSpec) -> Result<Option<Self>, FailureError> {
        let Some(path) = settings.get(Self::SETTING) else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| FailureError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, cluster).map(Some)
    }

    /// Parses `time_s,node,event` lines; nodes by name or position.
    ///
    /// # Errors
    /// [`FailureError`] with the file's name and the line.
    pub fn parse(path: &str, text: &str, cluster: &ClusterSpec) -> Result<Self, FailureError> {
        if text.trim().is_empty() {
            return Err(FailureError::Empty { path: path.to_owned() });
        }
        let lines = text.lines().map(str::trim).enumerate();
        let is_data = |&(index, line): &(usize, &str)| {
            !(line.is_empty() || line.starts_with('#') || index == 0 && line.starts_with("time_s"))
        };
        let changes = lines.filter(is_data).map(|(index, line)| {
            parse_line(line, cluster).ok_or_else(|| FailureError::Line {
                path: path.to_owned(),
                line: index + 1,
                found: line.to_owned(),
            })
        });
        changes.collect::<Result<_, _>>().map(Self)
    }
}

fn parse_line(line: &str, cluster: &ClusterSpec) -> Option<NodeChange> {
    let mut fields = line.split(',').map(str::trim);
    let time = fields.next()?.parse().ok().and_then(Time::try_new).filter(|&time| time >= Time::ZERO)?;
    let name = fields.next()?;
    let by_name = cluster.nodes.iter().position(|node| &*node.name == name);
    let index = by_name.or_else(|| name.parse().ok().filter(|&index: &usize| index < cluster.nodes.len()))?;
    let is_up = match fields.next()? {
        "up" => true,
        "down" => false,
        _ => return None,
    };
    fields.next().is_none().then_some(NodeChange { time, node: NodeId::from_index(index), is_up })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_failures_alternate_and_depend_on_the_seed_alone() {
        let list = |seed| {
            let mut failures = Failures::draw(3, 10.0, 1.0, seed);
            (0..20).filter_map(|_| failures.pop_due(Time::FAR)).collect::<Vec<_>>()
        };
        let changes = list(1);
        assert_eq!(changes, list(1));
        assert_ne!(changes, list(2));
        for node in 0..3 {
            let states: Vec<bool> = changes.iter().filter(|c| c.node.0 == node).map(|c| c.is_up).collect();
            assert!(states.iter().enumerate().all(|(index, &up)| up == (index % 2 == 1)), "{states:?}");
        }
    }

    #[test]
    fn lines_name_nodes_by_name_or_position() {
        let cluster = ClusterSpec::uniform("gpu", 2, 1);
        for (line, expected) in [
            ("5,gpu-1,down", Some((5.0, 1, false))),
            ("7.5, 0, up", Some((7.5, 0, true))),
            ("7,2,up", None),
            ("x,0,up", None),
            ("1,0,sideways", None),
            ("1,0", None),
            ("-1,0,up", None),
            ("1,0,up,more", None),
        ] {
            let found = parse_line(line, &cluster).map(|c| (c.time.seconds(), c.node.0, c.is_up));
            assert_eq!(found, expected, "{line}");
        }
    }
}
