//! The disk under a worker's state directory: how full it is, what tasks' output may take of it, and for how long that is kept.
//!
//! Output that has outgrown its limit loses its middle: the file keeps its length, so that offsets stay right for those who
//! follow it, but the disk gets the blocks back. The beginning states what a task did first, and the end what it did last.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::statvfs::statvfs;
use nix::unistd::{Whence, lseek};
use wharf_proto::Disk;

/// The part of its limit that the beginning of an output keeps.
const BEGINNING_PART: u64 = 8;
/// Holes have whole blocks.
const BLOCK: u64 = 4096;
/// The part of the disk that one output may take at most, and where the disk is full.
const OUTPUT_PART: u64 = 4;
const FULL_PART: u64 = 20;
/// A reserve that is larger than such a part of a small disk is cut down to it.
const RESERVE_PART: u64 = 20;
/// Written where something was left out.
const GAP: &str = "\n--- wharf: output beyond the limit is left out here ---\n";

/// The file system of a worker's state directory; none where that cannot be found out.
pub(crate) fn disk(state_dir: &Path, reserve_bytes: u64) -> Option<Disk> {
    let found = statvfs(state_dir).ok()?;
    let total_bytes = found.blocks() * found.fragment_size();
    Some(Disk {
        path: state_dir.to_string_lossy().into_owned(),
        total_bytes,
        available_bytes: found.blocks_available() * found.fragment_size(),
        reserve_bytes: reserve_bytes.min(total_bytes / RESERVE_PART),
    })
}

/// Whether a disk is too full to run tasks on.
pub(crate) fn is_full(disk: &Disk) -> bool {
    disk.available_bytes < disk.reserve_bytes
}

/// Trims outputs that have outgrown their limit, which is at most a part of the disk: a smaller one where the disk is full.
pub(crate) fn trim_outputs(paths: &[PathBuf], disk: &Disk, output_bytes: u64) {
    let part = if is_full(disk) { FULL_PART } else { OUTPUT_PART };
    let part_bytes = disk.total_bytes / part;
    let limit = if output_bytes == 0 { part_bytes } else { output_bytes.min(part_bytes) };
    for path in paths {
        let found = path.symlink_metadata();
        if found.is_ok_and(|found| found.is_file() && found.blocks() * 512 > limit + limit / 4) {
            // Where the file system cannot do that, the output grows on.
            let _ = trim(path, limit);
        }
    }
}

/// Removes what tasks have left that have ended for longer than output is kept.
pub(crate) fn remove_old(state_dir: &Path, retention: Duration, is_known: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(state_dir.join("tasks")).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let task = name.to_str().and_then(|name| name.split('.').next());
        let age = path.symlink_metadata().and_then(|found| found.modified()).ok();
        let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > retention) && task.is_some_and(|task| !is_known(task)) {
            // One that stays is checked again.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes the middle of a file away, so that about `limit` bytes of it are left.
fn trim(path: &Path, limit: u64) -> io::Result<()> {
    let no_follow = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().write(true).custom_flags(no_follow).open(path)?;
    let length = file.metadata()?.len();
    let aligned = |bytes: u64| bytes / BLOCK * BLOCK;
    let first = aligned(limit / BEGINNING_PART);
    let last = aligned(length.saturating_sub(limit - limit / BEGINNING_PART));
    let (Ok(offset), Ok(count)) = (i64::try_from(first), i64::try_from(last.saturating_sub(first))) else {
        return Ok(());
    };
    if count == 0 {
        return Ok(());
    }
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&file, how, offset, count)?;
    file.write_all_at(GAP.as_bytes(), last - GAP.len() as u64)
}

/// Reads a file from an offset on. What was left out is skipped; the offset moves on. Nothing is read at the end.
pub(crate) fn read_output(file: &File, offset: &mut u64, bytes_max: usize) -> io::Result<Vec<u8>> {
    let start = i64::try_from(*offset).map_err(io::Error::other)?;
    let next = match lseek(file, start, Whence::SeekData) {
        Ok(next) => u64::try_from(next).map_err(io::Error::other)?,
        // Nothing but a hole, or the end; file systems that know no holes know no such question.
        Err(Errno::ENXIO) => file.metadata()?.len().max(*offset),
        Err(_) => *offset,
    };
    let hole = i64::try_from(next).ok().and_then(|next| lseek(file, next, Whence::SeekHole).ok());
    let before_hole = hole.and_then(|hole| u64::try_from(hole).ok()?.checked_sub(next));
    let wanted =
        before_hole.map_or(bytes_max, |bytes| bytes_max.min(usize::try_from(bytes).unwrap_or(bytes_max)));
    let mut data = vec![0; wanted];
    let count = file.read_at(&mut data, next)?;
    data.truncate(count);
    if next > *offset {
        // The block that the text about the gap ends.
        let empty = data.iter().take_while(|byte| **byte == 0).count();
        data.drain(..empty);
    }
    *offset = next + count as u64;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trim_outputs_takes_the_middle_and_keeps_offsets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-1.out");
        let text: Vec<u8> = (0..4_000_000_u32).map(|index| b'a' + (index / 1_000_000) as u8).collect();
        std::fs::write(&path, &text).unwrap();
        let disk = Disk { total_bytes: 1 << 40, available_bytes: 1 << 39, ..Disk::default() };
        trim_outputs(std::slice::from_ref(&path), &disk, 800_000);
        let found = path.metadata().unwrap();
        assert_eq!(found.len(), 4_000_000);
        assert!(found.blocks() * 512 < 900_000, "{}", found.blocks());
        let (file, mut offset, mut left) = (File::open(&path).unwrap(), 0, Vec::new());
        loop {
            match read_output(&file, &mut offset, 10_000).unwrap() {
                data if data.is_empty() => break,
                data => left.extend(data),
            }
        }
        assert_eq!(offset, 4_000_000);
        let text = String::from_utf8(left).unwrap();
        assert!(text.starts_with('a') && text.ends_with(&"d".repeat(600_000)) && !text.contains('\0'));
        assert_eq!(text.matches("left out here").count(), 1);
    }

    #[test]
    fn trim_outputs_full_disk_leaves_a_small_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-1.out");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let disk = Disk { total_bytes: 4 << 20, available_bytes: 0, reserve_bytes: 1, ..Disk::default() };
        trim_outputs(std::slice::from_ref(&path), &disk, 1 << 30);
        assert!(path.metadata().unwrap().blocks() * 512 < 300_000);
    }

    #[test]
    fn remove_old_spares_young_and_known() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tasks")).unwrap();
        let paths = ["1-1.out", "2-1.out"].map(|name| dir.path().join("tasks").join(name));
        paths.iter().for_each(|path| std::fs::write(path, "x").unwrap());
        remove_old(dir.path(), Duration::from_secs(60), |_| false);
        assert!(paths.iter().all(|path| path.exists()), "young");
        for path in &paths {
            File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        remove_old(dir.path(), Duration::from_secs(60), |task| task == "2-1");
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
    }
}
