//! From keys to positions in a list, without an order that depends on anything but the keys.

/// What marks a free place.
const FREE: u32 = u32::MAX;

/// An open-addressed hash index: the caller keeps the keys, this keeps where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Positions; a power of two of them, at most half in use.
    slots: Vec<u32>,
    len: usize,
}

impl Index {
    /// The position of the key with that hash that `is_it` recognises.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != FREE {
            let position = self.slots[slot] as usize;
            if is_it(position) {
                return Some(position);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// Adds the next position; `hash_of` gives the hashes of those that are there, and of the new one.
    pub(super) fn push(&mut self, hash_of: impl Fn(usize) -> u64) {
        self.len += 1;
        if self.len * 2 > self.slots.len() {
            let size = (self.len * 4).next_power_of_two();
            self.slots = vec![FREE; size];
            (0..self.len).for_each(|position| self.put(hash_of(position), position));
        } else {
            self.put(hash_of(self.len - 1), self.len - 1);
        }
    }

    fn put(&mut self, hash: u64, position: usize) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != FREE {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = position as u32;
    }
}

/// The hash of a name (FNV-1a, folded so that the low bits depend on all).
#[inline]
pub(super) fn hash_name(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ hash >> 32
}

/// The hash of three numbers.
#[inline]
pub(super) fn hash_numbers(numbers: [u32; 3]) -> u64 {
    let hash = numbers.into_iter().fold(0_u64, |hash, number| {
        (hash.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_entries_are_found_and_no_others() {
        let keys: Vec<String> = (0..1000).map(|number| format!("key {number}")).collect();
        let mut index = Index::default();
        for _ in &keys {
            index.push(|position| hash_name(&keys[position]));
        }
        for (position, key) in keys.iter().enumerate() {
            assert_eq!(index.find(hash_name(key), |found| keys[found] == *key), Some(position));
        }
        assert_eq!(index.find(hash_name("other"), |found| keys[found] == "other"), None);
        assert_eq!(Index::default().find(1, |_| true), None);
    }
}
