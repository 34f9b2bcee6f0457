//! Output that was shown before: the runs of a job whose output has a name add theirs to the same file.

use std::mem::take;

/// How much of the beginning of a file identifies it: another node may have another file of that name.
const BEGINNING_MAX: usize = 64 << 10;

/// What was shown of a file that several runs write to.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The first bytes that were shown.
    beginning: Vec<u8>,
    /// How many bytes were shown.
    bytes: u64,
    /// How many bytes of the present run's file were read.
    position: u64,
    /// What was read of it until it is clear whether it is the same file.
    held: Vec<u8>,
    is_compared: bool,
}

impl Seen {
    /// The output of another run follows; in the file of the one before, or in another one.
    pub(super) fn begin(&mut self, is_one_file: bool) {
        if !is_one_file {
            *self = Self::default();
        }
        (self.position, self.is_compared) = (0, false);
        self.held.clear();
    }

    /// Takes the next bytes of the file and returns those that were not shown.
    pub(super) fn unseen(&mut self, data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        if !self.is_compared {
            self.held.extend(data);
            let known = self.held.len().min(self.beginning.len());
            let is_same = self.held[..known] == self.beginning[..known];
            if is_same && known < self.beginning.len() {
                return Vec::new();
            }
            data = self.decide(is_same);
        }
        let skipped = self.bytes.saturating_sub(self.position).min(data.len() as u64);
        self.position += data.len() as u64;
        self.bytes = self.bytes.max(self.position);
        data.drain(..usize::try_from(skipped).unwrap_or(data.len()));
        let room = BEGINNING_MAX.saturating_sub(self.beginning.len());
        self.beginning.extend(data.iter().take(room));
        data
    }

    /// The file has ended. Returns what was held back: a file that is shorter than what was shown is another one.
    pub(super) fn end(&mut self) -> Vec<u8> {
        if self.is_compared {
            return Vec::new();
        }
        let held = self.decide(false);
        self.unseen(&held)
    }

    fn decide(&mut self, is_same: bool) -> Vec<u8> {
        self.is_compared = true;
        if !is_same {
            self.beginning.clear();
            self.bytes = 0;
        }
        take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a file that comes in pieces of such a size.
    fn shown(seen: &mut Seen, is_one_file: bool, file: &[u8], piece: usize) -> String {
        seen.begin(is_one_file);
        let mut shown: Vec<u8> = file.chunks(piece).flat_map(|data| seen.unseen(data)).collect();
        shown.extend(seen.end());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn file_of_several_runs_is_shown_once() {
        for piece in [1, 3, 4096] {
            let mut seen = Seen::default();
            for (file, expected) in [
                ("from 0\n", "from 0\n"),
                ("from 0\nfrom 7\n", "from 7\n"),
                ("from 0\nfrom 7\n", ""),
                ("from 0\nfrom 7\ndone\n", "done\n"),
                // Another node has another file, which may be a shorter one.
                ("from 9\ndone\n", "from 9\ndone\n"),
                ("from 9\n", "from 9\n"),
                ("", ""),
                ("from 9\nlast\n", "from 9\nlast\n"),
            ] {
                assert_eq!(shown(&mut seen, true, file.as_bytes(), piece), expected, "{file:?} by {piece}");
            }
        }
        let long = "0123456789".repeat(BEGINNING_MAX / 5);
        let mut seen = Seen::default();
        assert_eq!(shown(&mut seen, true, long.as_bytes(), 1000), long);
        assert_eq!(shown(&mut seen, true, format!("{long}more").as_bytes(), 777), "more");
    }

    #[test]
    fn files_of_each_run_are_shown_in_full() {
        let mut seen = Seen::default();
        assert_eq!(shown(&mut seen, false, b"hello\n", 2), "hello\n");
        assert_eq!(shown(&mut seen, false, b"hello\nagain\n", 2), "hello\nagain\n");
    }
}
