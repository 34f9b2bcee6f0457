//! Folders and files put in their places: all of them, or none.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use wharf_staging::StagedFile;

use crate::InstallError;

/// A folder that has to be there.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    /// User and group, if they are not the installer's.
    pub(crate) owner: Option<(u32, u32)>,
}

/// A file that has to be there with these bytes.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

impl File {
    /// Whether it is in its place already.
    pub(crate) fn is_there(&self) -> bool {
        let has_mode = |file: fs::Metadata| file.is_file() && file.mode() & 0o7777 == self.mode;
        fs::metadata(&self.path).is_ok_and(has_mode)
            && fs::read(&self.path).is_ok_and(|bytes| bytes == self.bytes)
    }
}

/// Makes the folders and puts the files in their places.
///
/// # Errors
/// Where that cannot be; everything is then as it was.
pub(crate) fn place(folders: &[Folder], files: &[File]) -> Result<(), InstallError> {
    let mut undo = Undo::default();
    for folder in folders {
        undo.make(&folder.path)?;
        let failed = |error| InstallError::write(&folder.path, error);
        fs::set_permissions(&folder.path, Permissions::from_mode(folder.mode)).map_err(failed)?;
        if let Some((user, group)) = folder.owner {
            chown(&folder.path, Some(user), Some(group)).map_err(failed)?;
        }
    }
    let mut staged = Vec::new();
    for file in files.iter().filter(|file| !file.is_there()) {
        undo.make(file.path.parent().unwrap_or(Path::new("/")))?;
        let failed = |error| InstallError::write(&file.path, error);
        let mut writer = StagedFile::create(&file.path)?;
        writer.write_all(&file.bytes).and_then(|()| writer.set_mode(file.mode)).map_err(failed)?;
        staged.push((&file.path, writer));
    }
    for (path, writer) in staged {
        undo.keep(path).map_err(|error| InstallError::write(path, error))?;
        writer.commit()?;
    }
    undo.forget();
    Ok(())
}

/// What takes everything back when it is dropped.
#[derive(Default)]
struct Undo {
    made: Vec<PathBuf>,
    /// Each file that is being replaced, and where the old one is; `None` where there was none.
    replaced: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Undo {
    /// Makes a folder and those that it is in.
    fn make(&mut self, folder: &Path) -> Result<(), InstallError> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
        for path in missing.into_iter().rev() {
            fs::create_dir(path).map_err(|error| InstallError::write(path, error))?;
            self.made.push(path.to_owned());
            // Whatever the caller's mask is: services and people have to get through.
            let open = fs::set_permissions(path, Permissions::from_mode(0o755));
            open.map_err(|error| InstallError::write(path, error))?;
        }
        Ok(())
    }

    /// Keeps the file that is about to be replaced.
    fn keep(&mut self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kept = path.with_file_name(format!(".{name}.kept-{}", std::process::id()));
        let kept = match fs::hard_link(path, &kept) {
            Ok(()) => Some(kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.replaced.push((path.to_owned(), kept));
        Ok(())
    }

    /// Everything is in its place.
    fn forget(mut self) {
        self.made.clear();
        for kept in std::mem::take(&mut self.replaced).into_iter().filter_map(|(_, kept)| kept) {
            // A hidden link that stays behind does no harm.
            let _ = fs::remove_file(kept);
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The error that led here is told; there is nothing better to do about another one.
        for (path, kept) in self.replaced.iter().rev() {
            let _ = match kept {
                Some(kept) => fs::rename(kept, path),
                None => fs::remove_file(path),
            };
        }
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf, text: &str) -> File {
        File { path, bytes: text.as_bytes().to_vec(), mode: 0o644 }
    }

    fn tree(folder: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names.extend(tree(&path));
            }
            names.push(path.display().to_string());
        }
        names.sort();
        names
    }

    #[test]
    fn everything_or_nothing_is_put_in_its_place() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("old"), "old").unwrap();
        fs::create_dir(at("in-the-way")).unwrap();
        let before = tree(root.path());
        let folder = |name: &str| Folder { path: at(name), mode: 0o700, owner: None };
        let files = [file(at("old"), "new"), file(at("a/b/c"), "new"), file(at("in-the-way"), "new")];
        assert!(place(&[folder("x/y")], &files).is_err());
        assert_eq!(tree(root.path()), before);
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "old");

        place(&[folder("x/y")], &files[..2]).unwrap();
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "new");
        assert_eq!(fs::metadata(at("x/y")).unwrap().mode() & 0o777, 0o700);
        assert!(files[..2].iter().all(File::is_there));
        assert_eq!(
            tree(root.path()).len(),
            before.len() + 5,
            "nothing hidden stays: {:?}",
            tree(root.path())
        );
    }

    #[test]
    fn replaced_value_is_restored() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        fs::write(&old, "old").unwrap();
        let mut undo = Undo::default();
        undo.keep(&old).unwrap();
        undo.keep(&new).unwrap();
        fs::remove_file(&old).unwrap();
        fs::write(&old, "changed").unwrap();
        fs::write(&new, "new").unwrap();
        drop(undo);
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(tree(root.path()), [old.display().to_string()]);
    }
}
