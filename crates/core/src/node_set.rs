//! A set of nodes that finds its first member, and the next one after a given node, in a few word operations.

use crate::ids::NodeId;

const BITS: usize = 64;

/// Node ids as a tree of 64-bit words: a word of level `k + 1` states which words of level `k` are not zero.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeSet {
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl NodeSet {
    /// An empty set that can hold ids below `capacity`.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = capacity.div_ceil(BITS).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels, len: 0 };
            }
            words = words.div_ceil(BITS);
        }
    }

    /// How many nodes are in the set.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the node is in the set.
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        let index = node.index();
        self.levels[0].get(index / BITS).is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    /// Adds a node; the set grows where the id is beyond its capacity.
    pub fn insert(&mut self, node: NodeId) {
        let mut index = node.index();
        if index >= self.levels[0].len() * BITS {
            self.grow(index + 1);
        }
        if self.contains(node) {
            return;
        }
        self.len += 1;
        for level in &mut self.levels {
            let word = &mut level[index / BITS];
            let was_empty = *word == 0;
            *word |= 1 << (index % BITS);
            if !was_empty {
                break;
            }
            index /= BITS;
        }
    }

    /// Removes a node.
    pub fn remove(&mut self, node: NodeId) {
        if !self.contains(node) {
            return;
        }
        self.len -= 1;
        let mut index = node.index();
        for level in &mut self.levels {
            let word = &mut level[index / BITS];
            *word &= !(1 << (index % BITS));
            if *word != 0 {
                break;
            }
            index /= BITS;
        }
    }

    /// The member with the lowest id.
    #[inline]
    pub fn first(&self) -> Option<NodeId> {
        if self.len == 0 {
            return None;
        }
        let mut index = 0;
        for level in self.levels.iter().rev() {
            index = index * BITS + level[index].trailing_zeros() as usize;
        }
        Some(NodeId::from_index(index))
    }

    /// The member with the lowest id that is `from` or more.
    pub fn next_from(&self, from: usize) -> Option<NodeId> {
        let mut index = from;
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level.get(index / BITS).copied().unwrap_or(0) & (u64::MAX << (index % BITS));
            if word != 0 {
                let mut found = index / BITS * BITS + word.trailing_zeros() as usize;
                for below in self.levels[..depth].iter().rev() {
                    found = found * BITS + below[found].trailing_zeros() as usize;
                }
                return Some(NodeId::from_index(found));
            }
            index = index / BITS + 1;
        }
        None
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let node = self.next_from(from)?;
            from = node.index() + 1;
            Some(node)
        })
    }

    fn grow(&mut self, capacity: usize) {
        let mut larger = Self::with_capacity(capacity.next_power_of_two());
        for node in self.iter() {
            larger.insert(node);
        }
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn node_set_behaves_as_an_ordered_set(operations in prop::collection::vec((any::<bool>(), 0u32..9000), 0..200)) {
            let (mut set, mut model) = (NodeSet::with_capacity(10), BTreeSet::new());
            for (insert, id) in operations {
                if insert {
                    set.insert(NodeId(id));
                    model.insert(id);
                } else {
                    set.remove(NodeId(id));
                    model.remove(&id);
                }
                prop_assert_eq!(set.first().map(|node| node.0), model.first().copied());
                prop_assert_eq!(set.len() as usize, model.len());
                prop_assert_eq!(set.next_from(id as usize).map(|node| node.0), model.range(id..).next().copied());
            }
            prop_assert_eq!(set.iter().map(|node| node.0).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
