//! First in, first out.

use wharf_core::{JobId, Knowledge, View};

use crate::priority::{Key, Rank};

/// Orders jobs by submission; urgent ones first where priorities differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Rank for Fifo {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        let spec = view.spec(job);
        let level = i32::MAX.abs_diff(spec.priority);
        Key { level, ..Key::of(spec.submit.seconds()) }
    }
}
