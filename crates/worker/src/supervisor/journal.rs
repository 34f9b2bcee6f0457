//! What a supervisor has done, one JSON line each, so that its successor knows what may run and what has ended.
//!
//! Lines are written before they are acted upon or told. They are not synced: the journal has to outlast the supervisor; after a
//! machine's end nothing runs any more, which the successor sees by the boot's id.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;
use crate::supervisor::protocol::{Account, Fence, write_line};
use crate::task::{Exit, TaskKey};
use crate::trainer::{Lease, Pace, Trainer};

/// A journal with this many lines is rewritten when most of them are of forgotten tasks.
const COMPACT_AT: usize = 20_000;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// What follows happened since this boot of the machine.
    Boot { id: String },
    /// A task is about to be started.
    Start {
        task: TaskKey,
        stop_signal: i32,
        grace_ms: u64,
        #[serde(default)]
        trainer: Trainer,
        /// What it runs as; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Account>,
        /// The device nodes that it may not open.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        denied_devices: Vec<PathBuf>,
    },
    /// It was, or its next step: its process groups, and the session that all of a supervisor's tasks share.
    Spawned { task: TaskKey, groups: Vec<i32>, session: i32 },
    /// It may run until then.
    Renew { task: TaskKey, lease: Lease },
    /// An iteration of it takes so long.
    Pace { task: TaskKey, pace: Pace },
    /// It has ended.
    End { task: TaskKey, exit: Exit },
    /// The head knows.
    Forget { task: TaskKey },
    /// Time at which tasks are stopped because the head is unreachable.
    Fence(Fence),
}

/// What the journal says of a task that is not forgotten.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) stop_signal: i32,
    pub(crate) grace_ms: u64,
    pub(crate) trainer: Trainer,
    pub(crate) account: Option<Account>,
    pub(crate) denied_devices: Vec<PathBuf>,
    /// None: it may have been spawned or not.
    pub(crate) places: Vec<Place>,
    pub(crate) exit: Option<Exit>,
}

impl Recorded {
    pub(crate) fn new(stop_signal: i32, grace_ms: u64, trainer: Trainer) -> Self {
        let (account, denied_devices) = (None, Vec::new());
        Self { stop_signal, grace_ms, trainer, account, denied_devices, places: Vec::new(), exit: None }
    }
}

impl Recorded {
    /// The first entry of a task.
    pub(crate) fn to_start(&self, task: TaskKey) -> Entry {
        Entry::Start {
            task,
            stop_signal: self.stop_signal,
            grace_ms: self.grace_ms,
            trainer: self.trainer.clone(),
            account: self.account,
            denied_devices: self.denied_devices.clone(),
        }
    }
}

/// Where processes of a task are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: i32,
    pub(crate) session: i32,
}

/// All that a journal says.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) tasks: BTreeMap<TaskKey, Recorded>,
    /// The machine has restarted since.
    pub(crate) rebooted: bool,
    pub(crate) fence: Fence,
}

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
    buffer: Vec<u8>,
    fence: Fence,
}

impl Journal {
    /// Reads what a predecessor has written, and begins again with what of it still matters.
    pub(crate) fn open(state_dir: &Path) -> Result<(Self, Records), SupervisorError> {
        let path = state_dir.join("keeper.journal");
        let failed = |what, source| SupervisorError::File { what, path: path.clone(), source };
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text.map_err(|source| failed("read", source))?,
        };
        let records = replay(&text, &boot_id());
        let (file, lines) =
            rewrite(&path, records.fence, &records.tasks).map_err(|source| failed("write", source))?;
        let fence = records.fence;
        Ok((Self { path, file, lines, buffer: Vec::new(), fence }, records))
    }

    pub(crate) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.buffer.clear();
        write_line(&mut self.buffer, entry)?;
        self.file.write_all(&self.buffer)?;
        self.lines += 1;
        if let Entry::Fence(fence) = entry {
            self.fence = *fence;
        }
        Ok(())
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    /// Whether the journal should be compacted when `tasks` of its tasks still matter.
    pub(crate) fn is_long(&self, tasks: usize) -> bool {
        self.lines > COMPACT_AT.max(8 * tasks)
    }

    pub(crate) fn compact(&mut self, tasks: &BTreeMap<TaskKey, Recorded>) -> io::Result<()> {
        (self.file, self.lines) = rewrite(&self.path, self.fence, tasks)?;
        Ok(())
    }
}

/// The id of the machine's present boot; empty where the system has none.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn replay(text: &[u8], boot: &str) -> Records {
    let mut records = Records::default();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // The last line of a supervisor that was killed while it wrote: what it announces was not done.
        let Ok(entry) = serde_json::from_slice(line) else { continue };
        match entry {
            Entry::Boot { id } => records.rebooted = id != boot,
            Entry::Fence(fence) => records.fence = fence,
            Entry::Start { task, stop_signal, grace_ms, trainer, account, denied_devices } => {
                let recorded = Recorded::new(stop_signal, grace_ms, trainer);
                records.tasks.insert(task, Recorded { account, denied_devices, ..recorded });
            }
            Entry::Renew { task, lease } => {
                if let Some(recorded) = records.tasks.get_mut(&task) {
                    recorded.trainer.lease = lease;
                }
            }
            Entry::Pace { task, pace } => {
                if let Some(recorded) = records.tasks.get_mut(&task) {
                    recorded.trainer.pace = Some(pace);
                }
            }
            Entry::Spawned { task, groups, session } => {
                if let Some(recorded) = records.tasks.get_mut(&task) {
                    recorded.places = groups.into_iter().map(|group| Place { group, session }).collect();
                }
            }
            Entry::End { task, exit } => {
                if let Some(recorded) = records.tasks.get_mut(&task) {
                    recorded.exit = Some(exit);
                }
            }
            Entry::Forget { task } => {
                records.tasks.remove(&task);
            }
        }
    }
    records
}

/// Writes a journal of just these tasks instead of another, whole or not at all.
fn rewrite(path: &Path, fence: Fence, tasks: &BTreeMap<TaskKey, Recorded>) -> io::Result<(File, usize)> {
    let mut text = Vec::new();
    write_line(&mut text, &Entry::Boot { id: boot_id() })?;
    if fence != Fence::default() {
        write_line(&mut text, &Entry::Fence(fence))?;
    }
    for (&task, recorded) in tasks {
        write_line(&mut text, &recorded.to_start(task))?;
        let Recorded { places, exit, .. } = recorded;
        if let Some(Place { session, .. }) = places.first().copied() {
            let groups = places.iter().map(|place| place.group).collect();
            write_line(&mut text, &Entry::Spawned { task, groups, session })?;
        }
        if let Some(exit) = exit {
            write_line(&mut text, &Entry::End { task, exit: exit.clone() })?;
        }
    }
    let fresh = path.with_extension("new");
    let mut file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&fresh).and_then(|file| {
            file.set_len(0)?;
            Ok(file)
        })?;
    file.write_all(&text)?;
    std::fs::rename(&fresh, path)?;
    Ok((file, 1 + tasks.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskKey = TaskKey { job: 1, generation: 2 };
    const LEASE: Lease = Lease { until_iteration: Some(0.1), until_s: None };

    fn ended() -> Recorded {
        Recorded {
            stop_signal: 15,
            grace_ms: 10,
            trainer: Trainer { token: "word".into(), lease: LEASE, pace: Some(Pace(0.25)) },
            account: Some(Account { uid: 7, gid: 8 }),
            denied_devices: vec!["/dev/null".into()],
            places: vec![Place { group: 7, session: 5 }, Place { group: 8, session: 5 }],
            exit: Some(Exit::code(3)),
        }
    }

    fn write_task(journal: &mut Journal) {
        let trainer = Trainer { token: "word".into(), lease: Lease::default(), pace: None };
        let (account, denied_devices) = (Some(Account { uid: 7, gid: 8 }), vec!["/dev/null".into()]);
        let recorded = Recorded { account, denied_devices, ..Recorded::new(15, 10, trainer) };
        journal.write(&recorded.to_start(TASK)).unwrap();
        journal.write(&Entry::Spawned { task: TASK, groups: vec![6], session: 5 }).unwrap();
        journal.write(&Entry::Spawned { task: TASK, groups: vec![7, 8], session: 5 }).unwrap();
        journal.write(&Entry::Renew { task: TASK, lease: LEASE }).unwrap();
        journal.write(&Entry::Pace { task: TASK, pace: Pace(0.25) }).unwrap();
        journal.write(&Entry::End { task: TASK, exit: Exit::code(3) }).unwrap();
    }

    #[test]
    fn open_reads_what_was_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, records) = Journal::open(dir.path()).unwrap();
        assert!(records.tasks.is_empty());
        write_task(&mut journal);
        let fence = Fence { after_ms: 30, grace_ms: 20 };
        journal.write(&Entry::Fence(fence)).unwrap();
        for _ in 0..2 {
            let (_, records) = Journal::open(dir.path()).unwrap();
            assert_eq!(records.fence, fence);
            assert_eq!(records.tasks, BTreeMap::from([(TASK, ended())]));
            assert!(!records.rebooted);
        }
    }

    #[test]
    fn open_torn_last_line_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path()).unwrap();
        write_task(&mut journal);
        journal.file.write_all(b"{\"Forget\":{\"ta").unwrap();
        let (_, records) = Journal::open(dir.path()).unwrap();
        assert_eq!(records.tasks, BTreeMap::from([(TASK, ended())]));
    }

    #[test]
    fn compact_drops_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path()).unwrap();
        write_task(&mut journal);
        journal.write(&Entry::Forget { task: TASK }).unwrap();
        journal.compact(&BTreeMap::new()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("keeper.journal")).unwrap();
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn replay_other_boot_is_seen() {
        assert!(replay(b"{\"Boot\":{\"id\":\"a\"}}\n", "b").rebooted);
    }
}
