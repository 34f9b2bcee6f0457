//! Files for their owner's eyes only, whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Whether a file could not be read because it is not there.
pub fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Writes a file with mode 0600, in place of an older one.
///
/// # Errors
/// What the system says.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let partial = written(path, text)?;
    fs::rename(&partial, path)?;
    sync_folder(path)
}

/// As [`write_private`], but never in place of an older one.
///
/// # Errors
/// What the system says; `AlreadyExists` where there is a file.
pub fn create_private(path: &Path, text: &str) -> io::Result<()> {
    let partial = written(path, text)?;
    let linked = fs::hard_link(&partial, path);
    fs::remove_file(&partial)?;
    linked?;
    sync_folder(path)
}

fn written(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let partial = path.with_file_name(name);
    // What a process of the same number left behind may be more open than this is to be.
    if let Err(error) = fs::remove_file(&partial)
        && !is_missing(&error)
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(partial)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn private_files_are_private_and_only_replaced_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        create_private(&path, "one").unwrap();
        let again = create_private(&path, "two").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write_private(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
