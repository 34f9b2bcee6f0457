//! What a run is made of, as one number.

use std::fmt;
use std::io;

/// FNV-1a with 128 bits: stable between versions and machines, and wide enough that two inputs of a sweep do not
/// meet by chance. It is no protection against intentional collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash(u128);

impl ContentHash {
    // Offset basis and prime of the FNV specification (draft-eastlake-fnv), 128 bits.
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    /// The hash of nothing.
    pub const fn new() -> Self {
        Self(Self::OFFSET)
    }

    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::new();
        hash.add(bytes);
        hash
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(Self::PRIME);
        }
    }

    /// Adds a field: its length first, so that neighbours cannot run into each other.
    pub fn add_field(&mut self, field: &str) {
        self.add(&(field.len() as u64).to_le_bytes());
        self.add(field.as_bytes());
    }
}

impl Default for ContentHash {
    fn default() -> Self {
        Self::new()
    }
}

impl io::Write for ContentHash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The hash of everything that determines a run's result: the same key means the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey(pub ContentHash);

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_published_one_and_fields_do_not_run_together() {
        // Test vectors of the FNV specification.
        assert_eq!(ContentHash::of(b"a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(ContentHash::of(b"foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
        let pair = |a, b| {
            let mut hash = ContentHash::new();
            hash.add_field(a);
            hash.add_field(b);
            hash
        };
        assert_ne!(pair("ab", "c"), pair("a", "bc"));
    }
}
