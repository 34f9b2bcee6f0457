//! How two tables of figures differ, in numbers.

use std::collections::BTreeMap;

/// How many figures of a table differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Only the second has them.
    pub new: usize,
    /// Only the first has them.
    pub gone: usize,
    /// Both have them, and they are not equal.
    pub changed: usize,
    /// Both say the same.
    pub equal: usize,
}

impl Tally {
    /// How a table differs from one before it, each as keys with their figures.
    pub(crate) fn of<K: Ord, V: PartialEq>(
        before: impl Iterator<Item = (K, V)>,
        after: impl Iterator<Item = (K, V)>,
    ) -> Self {
        let mut before: BTreeMap<K, V> = before.collect();
        let mut tally = Self::default();
        for (key, value) in after {
            match before.remove(&key) {
                None => tally.new += 1,
                Some(known) if known == value => tally.equal += 1,
                Some(_) => tally.changed += 1,
            }
        }
        tally.gone = before.len();
        tally
    }

    /// Whether neither table has anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            new: self.new + other.new,
            gone: self.gone + other.gone,
            changed: self.changed + other.changed,
            equal: self.equal + other.equal,
        }
    }
}
