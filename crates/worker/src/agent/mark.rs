//! How far the state of the head went, as it was last sent: what lets a head notice that it continues from an older copy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_proto::HeadMark;

/// The mark as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    incarnation: String,
    ids_below: u32,
    sequence: u64,
}

/// The latest mark, in memory and in a file of the worker's state directory.
pub(crate) struct Mark {
    path: PathBuf,
    present: Stored,
    stored: Stored,
}

impl Mark {
    /// Reads the mark. Without one, the outputs of earlier tasks state which job ids were used.
    pub(crate) fn open(state_dir: &Path) -> Self {
        let path = state_dir.join("head.mark");
        let read = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let present = read.unwrap_or_else(|| Stored {
            ids_below: ids_below(&state_dir.join("tasks")),
            ..Stored::default()
        });
        Self { path, stored: present.clone(), present }
    }

    /// Takes another mark over. A change of the ids is stored at once, the rest with the next [`Mark::store`].
    pub(crate) fn set(&mut self, mark: HeadMark) -> std::io::Result<()> {
        let HeadMark { incarnation, ids_below, sequence } = mark;
        let is_same = incarnation == self.present.incarnation && ids_below == self.present.ids_below;
        self.present = Stored { incarnation, ids_below, sequence };
        if is_same { Ok(()) } else { self.store() }
    }

    /// Stores the mark where it has changed.
    pub(crate) fn store(&mut self) -> std::io::Result<()> {
        if self.present == self.stored {
            return Ok(());
        }
        let fresh = self.path.with_extension("mark.new");
        std::fs::write(&fresh, serde_json::to_vec(&self.present)?)?;
        std::fs::rename(&fresh, &self.path)?;
        self.stored = self.present.clone();
        Ok(())
    }

    /// The mark for a registration; none where nothing is known.
    pub(crate) fn to_wire(&self) -> Option<HeadMark> {
        let Stored { incarnation, ids_below, sequence } = self.present.clone();
        (self.present != Stored::default()).then_some(HeadMark { incarnation, ids_below, sequence })
    }
}

/// The id after the highest of which there is output.
fn ids_below(tasks: &Path) -> u32 {
    let names = std::fs::read_dir(tasks).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let job = |name: std::ffi::OsString| -> Option<u32> {
        let name = name.into_string().ok()?;
        name.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
    };
    names.filter_map(job).max().map_or(0, |job| job.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_stored_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut mark = Mark::open(folder.path());
        assert_eq!(mark.to_wire(), None);
        let sent = HeadMark { incarnation: "a".into(), ids_below: 1000, sequence: 7 };
        mark.set(sent.clone()).unwrap();
        assert_eq!(Mark::open(folder.path()).to_wire(), Some(sent.clone()));
        let later = HeadMark { sequence: 9, ..sent };
        mark.set(later.clone()).unwrap();
        mark.store().unwrap();
        assert_eq!(Mark::open(folder.path()).to_wire(), Some(later));
    }

    #[test]
    fn mark_missing_follows_from_outputs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tasks")).unwrap();
        for name in ["3-1.out", "17-2.out", "notes"] {
            std::fs::write(folder.path().join("tasks").join(name), "").unwrap();
        }
        assert_eq!(Mark::open(folder.path()).to_wire().map(|mark| mark.ids_below), Some(18));
    }
}
