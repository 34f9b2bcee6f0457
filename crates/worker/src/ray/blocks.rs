//! Blocks of ports: each Ray node has one, so that several clusters live on one host and none takes another's ports.
//!
//! A block is one or more slots of [`SLOT`] ports below the range of which Linux gives ports to outgoing connections. Which slot
//! a job gets follows from its id, and where that is taken, the next one. A slot is taken while a socket with its abstract name is
//! bound, which ends with its owner however that dies, and which all users and containers with the same ports see; or while any process
//! listens at one of its ports. Files in a folder of the user's own say whose slots they were, so that what a dead owner has left is
//! removed: no user reads or writes another's.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use nix::libc::O_NOFOLLOW;
use nix::unistd::geteuid;

use super::folder;
use crate::processes::start_time;

/// Ports of a slot.
pub(super) const SLOT: u16 = 256;
/// Above the ports that Ray gives its workers by itself.
const FIRST: u16 = 20_000;
/// Where Linux' ephemeral ports begin by default.
const END: u16 = 32_768;
/// Where the kernel states where they do.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Where users have folders for the files of their slots, best first.
const PLACES: [&str; 2] = ["/run/lock", "/tmp"];

/// What each port of a block is for, counted from its base.
pub(super) mod port {
    pub(in crate::ray) const GCS: u16 = 0;
    pub(in crate::ray) const CLIENT: u16 = 1;
    pub(in crate::ray) const DASHBOARD: u16 = 2;
    pub(in crate::ray) const AUTOSCALER_METRICS: u16 = 3;
    pub(in crate::ray) const DASHBOARD_METRICS: u16 = 4;
    pub(in crate::ray) const NODE_MANAGER: u16 = 8;
    pub(in crate::ray) const OBJECT_MANAGER: u16 = 9;
    pub(in crate::ray) const RUNTIME_ENV_AGENT: u16 = 10;
    pub(in crate::ray) const AGENT_GRPC: u16 = 11;
    pub(in crate::ray) const AGENT_HTTP: u16 = 12;
    pub(in crate::ray) const METRICS: u16 = 13;
    /// From here on: one for each process that Ray starts to work.
    pub(in crate::ray) const WORKERS: u16 = 16;
}

/// Why there are no ports.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error("cannot use {path}, the directory of port reservations: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("all {slots} blocks of ports from {first} on are taken on this node")]
    Full { slots: u16, first: u16 },
    #[error(
        "port {port} of `{option}` is {by} on this node; choose another port, or omit the option for a free one"
    )]
    Taken { option: &'static str, port: u16, by: &'static str },
}

/// So many slots as a Ray node with these processors needs: two workers for each, and some.
pub(super) fn slots_for(cpus: u32) -> u16 {
    let workers = cpus.saturating_mul(2).saturating_add(8);
    let ports = workers.saturating_add(u32::from(port::WORKERS));
    u16::try_from(ports.div_ceil(u32::from(SLOT))).unwrap_or(u16::MAX)
}

/// The ports that blocks are made of, where the kernel's ephemeral ones are these.
fn range(ephemeral: Option<Range<u16>>) -> Range<u16> {
    let Some(ephemeral) = ephemeral else { return FIRST..END };
    let below = FIRST..END.min(ephemeral.start);
    let above = ephemeral.end.max(FIRST)..u16::MAX;
    let fits = |range: &Range<u16>| range.end.saturating_sub(range.start) >= SLOT;
    // Where all are ephemeral, what is free is found out by trying.
    [below, above].into_iter().find(fits).unwrap_or(FIRST..END)
}

/// Reads `32768\t60999`.
fn ephemeral(text: &str) -> Option<Range<u16>> {
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(first..last.saturating_add(1))
}

/// Slots in the order in which they are tried: the wanted one, and then those after it.
fn probed(wanted: u32, slots: u16) -> impl Iterator<Item = u16> {
    let first = wanted.checked_rem(u32::from(slots)).unwrap_or(0);
    (0..u32::from(slots)).filter_map(move |step| u16::try_from((first + step) % u32::from(slots)).ok())
}

/// The slots of this host.
pub(super) struct Blocks {
    folder: PathBuf,
    range: Range<u16>,
}

/// Ports that are a Ray node's own until this is dropped.
#[derive(Debug)]
pub(super) struct Block {
    base: u16,
    end: u16,
    files: Vec<File>,
    /// By which others see that it is taken.
    _names: Vec<UnixListener>,
}

impl Block {
    pub(super) fn port(&self, offset: u16) -> u16 {
        self.base + offset
    }

    /// The ports of Ray's workers, both ends included.
    pub(super) fn workers(&self) -> (u16, u16) {
        (self.base + port::WORKERS, self.end - 1)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        for file in &self.files {
            // The lock goes with the file, and that is what counts.
            let _ = file.set_len(0);
        }
    }
}

impl Blocks {
    /// Those of this host, in the first folder that can be had.
    pub(super) fn of_host() -> Result<Self, BlockError> {
        let text = std::fs::read_to_string(EPHEMERAL).unwrap_or_default();
        let range = range(ephemeral(&text));
        let mut failed = None;
        for place in PLACES.map(Path::new) {
            let folder = place.join(format!("wharf-ports-{}", geteuid()));
            match own_folder(&folder) {
                Ok(()) => return Ok(Self { folder, range }),
                Err(source) => failed = Some(BlockError::Folder { path: folder, source }),
            }
        }
        Err(failed.unwrap_or(BlockError::Full { slots: 0, first: range.start }))
    }

    fn slots(&self) -> u16 {
        (self.range.end - self.range.start) / SLOT
    }

    /// Which slot begins at a port; any number where none does.
    pub(super) fn slot_at(&self, base: u16) -> u32 {
        u32::from(base.saturating_sub(self.range.start) / SLOT)
    }

    /// Takes ports that a job names, until what is returned is dropped. Other Ray nodes pass over them from then on.
    pub(super) fn reserve(&self, ports: &[(&'static str, u16)]) -> Result<Vec<UnixListener>, BlockError> {
        let failed = |source| BlockError::Folder { path: self.folder.clone(), source };
        let gate = open_own(&self.folder.join("lock")).map_err(failed)?;
        gate.lock().map_err(failed)?;
        let taken = |option, port, by| BlockError::Taken { option, port, by };
        let reserve = |&(option, port): &(&'static str, u16)| {
            if !is_free(port) {
                return Err(taken(option, port, "in use"));
            }
            let is_in_block = self.range.contains(&port)
                && name(&block_name(port - (port - self.range.start) % SLOT)).is_none();
            if is_in_block {
                return Err(taken(option, port, "reserved by another Ray cluster"));
            }
            name(&port_name(port)).ok_or_else(|| taken(option, port, "reserved by another Ray cluster"))
        };
        ports.iter().map(reserve).collect()
    }

    /// Takes slots for a Ray node that has its files in `temp_dir`, beginning with the wanted one.
    pub(super) fn claim(&self, wanted: u32, slots: u16, temp_dir: &Path) -> Result<Block, BlockError> {
        let failed = |source| BlockError::Folder { path: self.folder.clone(), source };
        // One at a time: two that check the same moment would both see a slot free.
        let gate = open_own(&self.folder.join("lock")).map_err(failed)?;
        gate.lock().map_err(failed)?;
        let last = self.slots().checked_sub(slots);
        let fits = |slot: &u16| last.is_some_and(|last| *slot <= last);
        for slot in probed(wanted, self.slots()).filter(fits) {
            if let Some(block) = self.take(slot, slots, temp_dir) {
                return Ok(block);
            }
        }
        Err(BlockError::Full { slots: self.slots(), first: self.range.start })
    }

    fn take(&self, slot: u16, slots: u16, temp_dir: &Path) -> Option<Block> {
        let base = self.range.start + slot * SLOT;
        let end = base + slots * SLOT;
        let names = (slot..slot + slots).map(|slot| name(&block_name(self.range.start + slot * SLOT)));
        let names = names.collect::<Option<Vec<UnixListener>>>()?;
        let files = (slot..slot + slots).map(|slot| free_file(&self.folder.join(slot.to_string())));
        let mut files = files.collect::<Option<Vec<File>>>()?;
        // Workers' ports as well: the port of another job's rendezvous may be among them.
        (base..end).all(|port| is_free(port) && name(&port_name(port)).is_some()).then_some(())?;
        for file in &mut files {
            write_owner(file, temp_dir).ok()?;
        }
        Some(Block { base, end, files, _names: names })
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// Takes a name; none where it is taken already.
fn name(text: &str) -> Option<UnixListener> {
    let address = SocketAddr::from_abstract_name(text).ok()?;
    UnixListener::bind_addr(&address).ok()
}

/// The name of a slot.
fn block_name(base: u16) -> String {
    format!("wharf-ray-ports-{base}")
}

/// The name of a port that a job has fixed.
fn port_name(port: u16) -> String {
    format!("wharf-ray-port-{port}")
}

/// A folder that only this user can look into, whichever users can create folders beside it. One of this user's that others could
/// look into, but not write to, is closed to them.
fn own_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = path.symlink_metadata()?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not this user's alone"));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(O_NOFOLLOW).open(path)
}

/// The file of a slot, locked, if it is free. Leftovers of a dead owner are removed.
fn free_file(path: &Path) -> Option<File> {
    let mut file = open_own(path).ok()?;
    file.try_lock().ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    if let Some(owner) = Owner::read(&text) {
        if owner.lives() {
            return None;
        }
        folder::remove_left(&owner.temp_dir);
    }
    Some(file)
}

fn write_owner(file: &mut File, temp_dir: &Path) -> io::Result<()> {
    let pid = std::process::id();
    let start = start_time(pid.cast_signed()).unwrap_or_default();
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{pid} {start} {}", temp_dir.display())
}

/// Who wrote down that a slot is theirs.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    pid: i32,
    start: u64,
    temp_dir: PathBuf,
}

impl Owner {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim_end().splitn(3, ' ');
        let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { pid, start, temp_dir: parts.next()?.into() })
    }

    fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_below_the_ephemeral_ones_or_above_or_tried() {
        for (text, expected) in [
            ("32768\t60999\n", 20_000..32_768),
            ("25000 60999", 20_000..25_000),
            ("1024 60999", 61_000..65_535),
            ("1024 65535", 20_000..32_768),
            ("nonsense", 20_000..32_768),
        ] {
            assert_eq!(range(ephemeral(text)), expected, "{text}");
        }
        let usual = Blocks { folder: PathBuf::new(), range: 20_000..32_768 };
        assert_eq!(usual.slots(), 49);
        assert_eq!(usual.slot_at(20_000 + 7 * 256), 7);
    }

    #[test]
    fn slots_follow_the_job_and_are_probed_in_turn() {
        let of = |job| probed(job, 49).take(3).collect::<Vec<u16>>();
        assert_eq!(of(0), [0, 1, 2]);
        assert_eq!(of(49 + 47), [47, 48, 0]);
        assert_eq!(probed(5, 49).count(), 49);
        assert_eq!(probed(5, 0).count(), 0);
    }

    #[test]
    fn many_processors_need_several_slots() {
        for (cpus, slots) in [(1, 1), (116, 1), (117, 2), (500, 4)] {
            assert_eq!(slots_for(cpus), slots, "{cpus}");
        }
    }

    /// Slots of a test's own folder, at ports that no other test tries, and beyond those that another program has taken.
    fn blocks(folder: &Path, first: u16, slots: u16) -> Blocks {
        own_folder(folder).unwrap();
        let ranges = (0..4).map(|index| first + index * 4_096).map(|first| first..first + slots * SLOT);
        let range = ranges.into_iter().find(|range| range.clone().all(is_free)).unwrap();
        Blocks { folder: folder.to_owned(), range }
    }

    #[test]
    fn claimed_slots_are_exclusive_until_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let blocks = blocks(&folder.path().join("ports"), 10_240, 3);
        let temp_dir = Path::new("/tmp/wr-none");
        let base = blocks.range.start;
        let first = blocks.claim(4, 1, temp_dir).unwrap();
        assert_eq!((first.port(port::GCS), first.workers()), (base + 256, (base + 272, base + 511)));
        let second = blocks.claim(4, 1, temp_dir).unwrap();
        assert_eq!(second.port(port::METRICS), base + 512 + 13);
        assert!(matches!(blocks.claim(4, 2, temp_dir), Err(BlockError::Full { slots: 3, .. })));
        drop(first);
        let wide = blocks.claim(0, 2, temp_dir).unwrap();
        assert_eq!((wide.port(0), wide.workers().1), (base, base + 511));
    }

    #[test]
    fn reserved_ports_are_taken_once_and_passed_over_by_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let blocks = blocks(&folder.path().join("ports"), 14_336, 3);
        let (base, temp_dir) = (blocks.range.start, Path::new("/tmp/wr-none"));
        let refused = |port: u16| blocks.reserve(&[("--port", port)]).unwrap_err().to_string();
        let text = |port: u16, by: &str| {
            format!(
                "port {port} of `--port` is {by} on this node; choose another port, or omit the option for a free one"
            )
        };
        let _held = blocks.reserve(&[("--port", base + 300), ("--dashboard-port", base + 301)]).unwrap();
        assert_eq!(refused(base + 300), text(base + 300, "reserved by another Ray cluster"));
        let first = blocks.claim(0, 1, temp_dir).unwrap();
        assert_eq!(refused(base + 5), text(base + 5, "reserved by another Ray cluster"));
        // The second slot has the reserved ports.
        assert_eq!((first.port(0), blocks.claim(0, 1, temp_dir).unwrap().port(0)), (base, base + 512));
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(refused(port), text(port, "in use"));
    }

    #[test]
    fn slots_of_another_user_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let users = ["ann", "bob"].map(|user| blocks(&folder.path().join(user), 13_312, 2));
        let claims = users.each_ref().map(|user| user.claim(0, 1, Path::new("/tmp/wr-none")).unwrap());
        let base = users[0].range.start;
        assert_eq!(claims.map(|block| block.port(0)), [base, base + 256]);
    }

    #[test]
    fn own_folder_refuses_what_others_can_write_and_closes_what_they_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        DirBuilder::new().mode(0o755).create(&open).unwrap();
        own_folder(&open).unwrap();
        assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&open, Permissions::from_mode(0o770)).unwrap();
        assert!(own_folder(&open).is_err());
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(own_folder(&folder.path().join("link")).is_err());
    }

    #[test]
    fn a_slot_with_a_listener_or_a_living_owner_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports");
        let blocks = blocks(&path, 11_264, 3);
        let base = blocks.range.start;
        let _listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, base + 200)).unwrap();
        let own = std::process::id();
        let start = start_time(own.cast_signed()).unwrap();
        std::fs::write(path.join("1"), format!("{own} {start} /tmp/wr-none\n")).unwrap();
        let block = blocks.claim(0, 1, Path::new("/tmp/wr-none")).unwrap();
        assert_eq!(block.port(0), base + 2 * 256);
        // A number that is another process' by now is no owner.
        std::fs::write(path.join("1"), format!("{own} {} /tmp/wr-none\n", start + 1)).unwrap();
        assert_eq!(blocks.claim(0, 1, Path::new("/tmp/wr-none")).unwrap().port(0), base + 256);
    }

    #[test]
    fn files_of_a_dead_owner_are_removed_with_its_slot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports");
        let blocks = blocks(&path, 12_288, 1);
        let left = folder::make(Some(folder.path()), 7, 1, 0).unwrap();
        let innocent = folder.path().join("innocent");
        std::fs::create_dir(&innocent).unwrap();
        for folder in [&left, &innocent] {
            std::fs::write(path.join("0"), format!("2147483647 1 {}\n", folder.display())).unwrap();
            drop(blocks.claim(0, 1, Path::new("/tmp/wr-none")).unwrap());
        }
        assert_eq!((left.exists(), innocent.exists()), (false, true));
    }
}
