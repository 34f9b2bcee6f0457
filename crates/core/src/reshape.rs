//! Changes of a job's devices from one placement to the next.

use std::fmt;

use crate::cluster::NodeShare;
use crate::topology::Topology;

/// How a placement differs from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reshape {
    /// Fewer devices of the same type.
    Shrunk,
    /// More devices of the same type.
    Grown,
    /// Devices of another type, however many.
    Retyped,
    /// As many devices of the same type elsewhere.
    Moved,
}

impl Reshape {
    /// How `after` differs from `before`; `None` where it does not, or where there was nothing before.
    pub fn between(topology: &Topology, before: &[NodeShare], after: &[NodeShare]) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        let count = |placement: &[NodeShare]| placement.iter().map(|share| share.devices.len()).sum::<u32>();
        let (was, is) = (count(before), count(after));
        if topology.type_of(before) != topology.type_of(after) {
            Some(Self::Retyped)
        } else if is != was {
            Some(if is < was { Self::Shrunk } else { Self::Grown })
        } else {
            // A gang's nodes have no order that matters.
            let is_there = |share: &NodeShare| before.contains(share);
            (!after.iter().all(is_there)).then_some(Self::Moved)
        }
    }
}

impl fmt::Display for Reshape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shrunk => "shrunk",
            Self::Grown => "grown",
            Self::Retyped => "changed in type",
            Self::Moved => "moved",
        })
    }
}

/// How often a job was started on other devices than the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reshapes {
    /// On fewer of the same type.
    pub shrinks: u32,
    /// On more of the same type.
    pub grows: u32,
    /// On another type.
    pub type_changes: u32,
    /// On as many of the same type elsewhere.
    pub moves: u32,
}

impl Reshapes {
    /// Counts one more.
    pub fn add(&mut self, reshape: Reshape) {
        let count = match reshape {
            Reshape::Shrunk => &mut self.shrinks,
            Reshape::Grown => &mut self.grows,
            Reshape::Retyped => &mut self.type_changes,
            Reshape::Moved => &mut self.moves,
        };
        *count += 1;
    }
}

impl std::ops::AddAssign for Reshapes {
    fn add_assign(&mut self, other: Self) {
        self.shrinks += other.shrinks;
        self.grows += other.grows;
        self.type_changes += other.type_changes;
        self.moves += other.moves;
    }
}

/// `2 shrinks, 1 move`; empty where there was none.
impl fmt::Display for Reshapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.shrinks, "shrink"),
            (self.grows, "grow"),
            (self.type_changes, "change of type"),
            (self.moves, "move"),
        ];
        let mut comma = "";
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let many = match what {
                "change of type" => "changes of type".to_owned(),
                _ => format!("{what}s"),
            };
            write!(f, "{comma}{count} {}", if count == 1 { what } else { &many })?;
            comma = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{ClusterSpec, DeviceSet};
    use crate::ids::NodeId;

    #[test]
    fn counts_in_words() {
        let mut counts = Reshapes::default();
        assert_eq!(counts.to_string(), "");
        for reshape in [Reshape::Moved, Reshape::Retyped, Reshape::Shrunk, Reshape::Retyped] {
            counts.add(reshape);
        }
        counts += Reshapes { grows: 1, ..Reshapes::default() };
        assert_eq!(counts.to_string(), "1 shrink, 1 grow, 2 changes of type, 1 move");
    }

    #[test]
    fn between_placements() {
        let mut cluster = ClusterSpec::uniform("a", 2, 4);
        cluster.nodes.extend(ClusterSpec::uniform("b", 1, 8).nodes);
        let topology = Topology::new(&cluster);
        let on = |shares: &[(u32, u128)]| -> Vec<NodeShare> {
            let share = |&(node, devices): &(u32, u128)| NodeShare::new(NodeId(node), DeviceSet(devices));
            shares.iter().map(share).collect()
        };
        for (before, after, expected) in [
            (&[(0, 0b11)][..], &[(0, 0b11)][..], None),
            (&[], &[(0, 0b11)], None),
            (&[(0, 0b11)], &[(0, 0b1)], Some(Reshape::Shrunk)),
            (&[(0, 0b11)], &[(0, 0b1111), (1, 0b1)], Some(Reshape::Grown)),
            (&[(0, 0b11)], &[(0, 0b110)], Some(Reshape::Moved)),
            (&[(0, 0b11)], &[(1, 0b11)], Some(Reshape::Moved)),
            (&[(0, 0b1), (1, 0b1)], &[(1, 0b1), (0, 0b1)], None),
            (&[(0, 0b11)], &[(2, 0b11)], Some(Reshape::Retyped)),
            (&[(2, 0b1111)], &[(0, 0b1)], Some(Reshape::Retyped)),
        ] {
            assert_eq!(
                Reshape::between(&topology, &on(before), &on(after)),
                expected,
                "{before:?} {after:?}"
            );
        }
    }
}
