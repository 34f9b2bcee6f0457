//! What sinfo tells of nodes.

use super::hostlist;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// Some of it is used.
    Mixed,
    /// All of it is used.
    Allocated,
    /// None of it is used.
    Idle,
    /// It gets no new jobs; some still run.
    Draining,
    /// It gets no new jobs.
    Drained,
    /// It is away.
    Down,
}

impl NodeState {
    /// In few letters, and in full; `*` means that it does not answer.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Mixed => ("mix", "mixed"),
            Self::Allocated => ("alloc", "allocated"),
            Self::Idle => ("idle", "idle"),
            Self::Draining => ("drng", "draining"),
            Self::Drained => ("drain", "drained"),
            Self::Down => ("down*", "down*"),
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The partition that it is in.
    pub partition: String,
    /// How it is.
    pub state: NodeState,
    /// Processors, and how many of them are used.
    pub cpus: (u32, u32),
    /// Main memory.
    pub memory_mib: u64,
    /// Its GPUs as `--gres` names them.
    pub gres: String,
    /// What it is said to have.
    pub features: String,
    /// Why it is out.
    pub reason: String,
    /// Where it is reached.
    pub address: String,
}

/// Nodes that a line is about.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// All of one partition.
    pub nodes: Vec<&'a Node>,
    /// Jobs that name none go there.
    pub is_default: bool,
}

impl Group<'_> {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, letter: char) -> String {
        let Some(first) = self.nodes.first() else { return String::new() };
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let sum = |of: fn(&Node) -> u32| self.nodes.iter().map(|node| of(node)).sum::<u32>();
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        match letter {
            'P' if self.is_default => format!("{}*", first.partition),
            'P' | 'R' => first.partition.clone(),
            'a' => "up".to_owned(),
            'l' => "infinite".to_owned(),
            'D' => self.nodes.len().to_string(),
            't' => first.state.names().0.to_owned(),
            'T' => first.state.names().1.to_owned(),
            'N' => hostlist::compress(&names),
            'n' => names.join(","),
            'c' => first.cpus.0.to_string(),
            'm' => first.memory_mib.to_string(),
            'G' => or(&first.gres, "(null)"),
            'C' => {
                let (all, used) = (sum(|node| node.cpus.0), sum(|node| node.cpus.1));
                let out = sum(|node| if is_out(node.state) { node.cpus.0 - node.cpus.1 } else { 0 });
                format!("{used}/{}/{out}/{all}", all.saturating_sub(used + out))
            }
            'F' => {
                let count =
                    |is: fn(NodeState) -> bool| self.nodes.iter().filter(|node| is(node.state)).count();
                let used = count(|state| matches!(state, NodeState::Mixed | NodeState::Allocated));
                let (idle, out) = (count(|state| state == NodeState::Idle), count(is_out));
                format!("{used}/{idle}/{out}/{}", self.nodes.len())
            }
            'f' | 'b' => or(&first.features, "(null)"),
            'E' => or(&first.reason, "none"),
            'o' => first.address.clone(),
            's' => "1-infinite".to_owned(),
            'r' | 'h' => "NO".to_owned(),
            'g' => "all".to_owned(),
            'u' | 'H' => "Unknown".to_owned(),
            _ => "N/A".to_owned(),
        }
    }
}

fn is_out(state: NodeState) -> bool {
    matches!(state, NodeState::Draining | NodeState::Drained | NodeState::Down)
}

/// What stands above a field.
#[must_use]
pub fn title(letter: char) -> &'static str {
    match letter {
        'P' | 'R' => "PARTITION",
        'a' => "AVAIL",
        'l' => "TIMELIMIT",
        'D' => "NODES",
        't' | 'T' => "STATE",
        'N' => "NODELIST",
        'n' => "HOSTNAMES",
        'c' => "CPUS",
        'm' => "MEMORY",
        'G' => "GRES",
        'C' => "CPUS(A/I/O/T)",
        'F' => "NODES(A/I/O/T)",
        'f' => "AVAIL_FEATURES",
        'b' => "ACTIVE_FEATURES",
        'E' => "REASON",
        'o' => "NODE_ADDR",
        's' => "JOB_SIZE",
        'r' => "ROOT",
        'h' => "OVERSUBS",
        'g' => "GROUPS",
        'u' => "USER",
        'H' => "TIMESTAMP",
        _ => "N/A",
    }
}

/// Fields by the names that `--Format` has for them.
pub const NAMES: &[(&str, char)] = &[
    ("available", 'a'),
    ("cpus", 'c'),
    ("cpusstate", 'C'),
    ("features", 'f'),
    ("features_act", 'b'),
    ("gres", 'G'),
    ("groups", 'g'),
    ("memory", 'm'),
    ("nodeaddr", 'o'),
    ("nodeaiot", 'F'),
    ("nodehost", 'n'),
    ("nodelist", 'N'),
    ("nodes", 'D'),
    ("oversubscribe", 'h'),
    ("partition", 'P'),
    ("partitionname", 'R'),
    ("reason", 'E'),
    ("root", 'r'),
    ("size", 's'),
    ("statecompact", 't'),
    ("statelong", 'T'),
    ("time", 'l'),
    ("timestamp", 'H'),
    ("user", 'u'),
];

/// Puts nodes together whose lines would be equal but for their names: those fields that differ from node to node keep them
/// apart. With `is_each`, every node has a line.
#[must_use]
pub fn groups<'a>(nodes: &'a [Node], letters: &[char], default: &str, is_each: bool) -> Vec<Group<'a>> {
    let mut groups: Vec<(Vec<String>, Group<'a>)> = Vec::new();
    for node in nodes {
        let alone = Group { nodes: vec![node], is_default: node.partition == default };
        let telling =
            letters.iter().filter(|letter| !"DNCFno".contains(**letter) || is_each || **letter == 'n');
        let key: Vec<String> = std::iter::once(node.partition.clone())
            .chain(telling.map(|letter| alone.field(*letter)))
            .chain(is_each.then(|| node.name.clone()))
            .collect();
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.nodes.push(node),
            None => groups.push((key, alone)),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
