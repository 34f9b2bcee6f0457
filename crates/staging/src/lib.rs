//! Files and directories that appear whole or not at all.
//!
//! They are written beside their target under a hidden name and renamed when they are complete. What is still staged when an
//! error, a panic or a signal ends the process is removed; the process calls [`abandon_all`] for the latter two.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why output cannot be staged or put in its place.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// The system refused to write.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory as the user knows it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file cannot replace a directory.
    #[error("cannot write `{}`: it is a directory", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The target of a directory is below a file.
    #[error("cannot write to `{}`: {file} is not a directory", path.display())]
    NotADirectory {
        /// The target.
        path: PathBuf,
        /// The file: `it` or its quoted path.
        file: String,
    },
    /// A directory in the way was not written by an earlier run.
    #[error("cannot replace `{}`: it holds no results of Wharf", path.display())]
    Foreign {
        /// The directory in the way.
        path: PathBuf,
    },
}

impl StagingError {
    /// Writing to `path` failed.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

/// What would be left behind if the process ended now. Held while renaming, so that an interruption comes either
/// before or after.
static STAGED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

const BUFFER_BYTES: usize = 1 << 18;

fn staged() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    STAGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes everything that is staged, and lets nothing be staged or completed from here on: for the end of the
/// process.
pub fn abandon_all() {
    let mut paths = staged();
    remove_all(&mut paths);
    // The next staging or commit waits for a lock that is never released.
    std::mem::forget(paths);
}

/// As [`abandon_all`], unless another thread is at work on it: a panic must not wait for its own lock.
pub fn abandon_all_if_idle() {
    if let Ok(mut paths) = STAGED.try_lock() {
        remove_all(&mut paths);
        std::mem::forget(paths);
    }
}

fn remove_all(paths: &mut BTreeSet<PathBuf>) {
    // Other threads may still be adding files to a staged directory: once it is gone they cannot.
    const ATTEMPTS_MAX: u32 = 100;
    for path in std::mem::take(paths) {
        for _ in 0..ATTEMPTS_MAX {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
    }
}

/// A hidden name for what will be called `target`, different for every process and call.
fn hidden_name(target: &Path) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.partial-{}-{count}", std::process::id())
}

/// A directory under construction.
#[derive(Debug)]
pub struct StagedDir {
    target: PathBuf,
    path: PathBuf,
}

impl StagedDir {
    /// Begins a directory that will be, or will be added to, `target`.
    ///
    /// # Errors
    /// Where nothing can be created there.
    pub fn new(target: &Path) -> Result<Self, StagingError> {
        let existing = target.ancestors().find(|ancestor| ancestor.exists());
        // On the same file system as the target, or the renaming at the end would fail.
        let place = existing.unwrap_or_else(|| Path::new("."));
        if !place.is_dir() {
            let whose = if place == target { "it".to_owned() } else { format!("`{}`", place.display()) };
            return Err(StagingError::NotADirectory { path: target.to_owned(), file: whose });
        }
        let path = place.join(hidden_name(target));
        let mut paths = staged();
        fs::create_dir(&path).map_err(|error| StagingError::write(target, error))?;
        paths.insert(path.clone());
        drop(paths);
        Ok(Self { target: target.to_owned(), path })
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts everything in its place. An existing directory keeps what it has under other names.
    ///
    /// # Errors
    /// Where the renaming fails, or would replace a directory that holds no results of an earlier run.
    pub fn commit(self) -> Result<(), StagingError> {
        let mut paths = staged();
        let failed = |error| StagingError::write(&self.target, error);
        if self.target.is_dir() {
            self.merge()?;
            fs::remove_dir_all(&self.path).map_err(failed)?;
        } else {
            if let Some(parent) = self.target.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            fs::rename(&self.path, &self.target).map_err(failed)?;
        }
        paths.remove(&self.path);
        Ok(())
    }

    fn merge(&self) -> Result<(), StagingError> {
        let replaced = self.path.join(".replaced");
        let failed = |error| StagingError::write(&self.target, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        for name in &names {
            let place = self.target.join(name);
            if place.is_dir() && !is_result_dir(&place) {
                return Err(StagingError::Foreign { path: place });
            }
        }
        fs::create_dir(&replaced).map_err(failed)?;
        for (index, name) in names.iter().enumerate() {
            if let Err(error) = self.swap_in(name, &replaced) {
                for done in names[..=index].iter().rev() {
                    self.swap_out(done, &replaced);
                }
                return Err(StagingError::write(&self.target.join(name), error));
            }
        }
        Ok(())
    }

    /// Puts one entry in its place, and what was there aside.
    fn swap_in(&self, name: &OsStr, replaced: &Path) -> io::Result<()> {
        let place = self.target.join(name);
        if place.exists() {
            fs::rename(&place, replaced.join(name))?;
        }
        fs::rename(self.path.join(name), &place)
    }

    /// Takes back what [`StagedDir::swap_in`] did, as far as it came.
    fn swap_out(&self, name: &OsStr, replaced: &Path) {
        let (place, staged, old) = (self.target.join(name), self.path.join(name), replaced.join(name));
        // The error that led here is told; there is nothing better to do about another one.
        if !staged.exists() {
            let _ = fs::rename(&place, &staged);
        }
        if old.exists() {
            let _ = fs::rename(&old, &place);
        }
    }
}

/// Whether a directory may be replaced: it is empty, or an earlier run wrote it.
fn is_result_dir(path: &Path) -> bool {
    path.join("summary.json").is_file()
        || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

impl Drop for StagedDir {
    fn drop(&mut self) {
        if staged().remove(&self.path) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A file under construction.
#[derive(Debug)]
pub struct StagedFile {
    target: PathBuf,
    /// `None` where the target is a device or a pipe: those are written in place.
    path: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl StagedFile {
    /// Begins a file that will be `target`.
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(target: &Path) -> Result<Self, StagingError> {
        let failed = |error| StagingError::write(target, error);
        let in_place = fs::metadata(target).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
        if in_place {
            let file = File::options().write(true).open(target).map_err(failed)?;
            let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
            return Ok(Self { target: target.to_owned(), path: None, writer });
        }
        if target.is_dir() {
            return Err(StagingError::IsDirectory { path: target.to_owned() });
        }
        let path = target.with_file_name(hidden_name(target));
        let mut paths = staged();
        let file = File::create_new(&path).map_err(failed)?;
        paths.insert(path.clone());
        drop(paths);
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { target: target.to_owned(), path: Some(path), writer })
    }

    /// Where the file is meanwhile.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(&self.target)
    }

    /// Says who may do what with the file.
    ///
    /// # Errors
    /// If it belongs to another user.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        self.writer.get_ref().set_permissions(fs::Permissions::from_mode(mode))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// Where the last bytes cannot be written, or the renaming fails.
    pub fn commit(mut self) -> Result<(), StagingError> {
        self.writer.flush().map_err(|error| StagingError::write(&self.target, error))?;
        if let Some(path) = &self.path {
            let mut paths = staged();
            fs::rename(path, &self.target).map_err(|error| StagingError::write(&self.target, error))?;
            paths.remove(path);
        }
        Ok(())
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && staged().remove(path)
        {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(dir: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn directory_appears_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("a/b");
        let staged = StagedDir::new(&target).unwrap();
        fs::write(staged.path().join("jobs.csv"), "x").unwrap();
        drop(staged);
        assert!(entries(home.path()).is_empty());

        let staged = StagedDir::new(&target).unwrap();
        fs::write(staged.path().join("jobs.csv"), "x").unwrap();
        staged.commit().unwrap();
        assert_eq!(entries(home.path()), ["a"]);
        assert_eq!(entries(&target), ["jobs.csv"]);
    }

    #[test]
    fn existing_directory_keeps_the_rest_and_is_replaced_only_where_ours() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("notes.txt"), "mine").unwrap();
        fs::create_dir_all(home.path().join("run")).unwrap();
        fs::write(home.path().join("run/summary.json"), "old").unwrap();
        for (text, other) in [("new", "run"), ("newer", "other")] {
            let staged = StagedDir::new(home.path()).unwrap();
            fs::create_dir(staged.path().join("run")).unwrap();
            fs::write(staged.path().join("run/summary.json"), text).unwrap();
            fs::create_dir_all(staged.path().join(other)).unwrap();
            staged.commit().unwrap();
            assert_eq!(fs::read_to_string(home.path().join("run/summary.json")).unwrap(), text);
        }
        assert_eq!(entries(home.path()), ["notes.txt", "other", "run"]);

        fs::create_dir(home.path().join("photos")).unwrap();
        fs::write(home.path().join("photos/1.jpg"), "x").unwrap();
        let staged = StagedDir::new(home.path()).unwrap();
        fs::create_dir(staged.path().join("photos")).unwrap();
        assert!(matches!(staged.commit(), Err(StagingError::Foreign { .. })));
        assert_eq!(entries(&home.path().join("photos")), ["1.jpg"]);
        assert_eq!(entries(home.path()), ["notes.txt", "other", "photos", "run"]);
    }

    #[test]
    fn directory_that_cannot_be_put_in_place_leaves_everything_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("a"), "old").unwrap();
        let staged = StagedDir::new(home.path()).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(staged.path().join(name), "new").unwrap();
        }
        let replaced = staged.path().join("aside");
        fs::create_dir(&replaced).unwrap();
        staged.swap_in(OsStr::new("a"), &replaced).unwrap();
        staged.swap_in(OsStr::new("b"), &replaced).unwrap();
        assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "new");
        for name in ["c", "b", "a"] {
            staged.swap_out(OsStr::new(name), &replaced);
        }
        drop(staged);
        assert_eq!(entries(home.path()), ["a"]);
        assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "old");
    }

    #[test]
    fn directory_below_a_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "x").unwrap();
        for target in ["file", "file/below", "file/far/below"] {
            let error = StagedDir::new(&home.path().join(target)).unwrap_err();
            assert!(matches!(error, StagingError::NotADirectory { .. }), "{error}");
        }
        assert_eq!(entries(home.path()), ["file"]);
    }

    #[test]
    fn file_replaces_only_when_complete() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("trace.csv");
        fs::write(&target, "old").unwrap();
        let mut file = StagedFile::create(&target).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        let mut file = StagedFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(entries(home.path()), ["trace.csv"]);
    }

    #[test]
    fn full_disk_is_an_error_of_the_output() {
        let mut file = StagedFile::create(Path::new("/dev/full")).unwrap();
        file.write_all(b"x").unwrap();
        assert!(matches!(file.commit(), Err(StagingError::Write { .. })));
    }
}
