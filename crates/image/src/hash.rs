//! What an image is made from, as one number: equal contents, equal hash, wherever and whenever they were written.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::ImageError;
use crate::ignore::Ignored;
use crate::tool::{ToolError, is_interrupted};

/// Hashes texts with their lengths, so that `ab`, `c` is not `a`, `bc`.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The hash of a file's contents.
///
/// # Errors
/// The file cannot be read.
pub fn whole_file(path: &Path) -> Result<String, ImageError> {
    let mut file = File::open(path).map_err(ImageError::file("cannot read", path))?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(ImageError::file("cannot read", path))?;
        if read == 0 {
            return Ok(Hasher(context).finish());
        }
        if is_interrupted() {
            return Err(ToolError::Interrupted.into());
        }
        context.update(&buffer[..read]);
    }
}

/// The hash of a folder: names, kinds, what may be executed, contents and links, in the order of names. Owners and times do not
/// count, nor do sockets, pipes and devices.
///
/// # Errors
/// Something in it cannot be read.
pub fn tree(folder: &Path) -> Result<String, ImageError> {
    tree_without(folder, &Ignored::default())
}

/// As [`tree`], without what is ignored. Of a folder that is, only what is not counts.
pub(crate) fn tree_without(folder: &Path, ignored: &Ignored) -> Result<String, ImageError> {
    let mut hasher = Hasher::new();
    add_folder(&mut hasher, folder, Path::new(""), ignored)?;
    Ok(hasher.finish())
}

fn add_folder(hasher: &mut Hasher, folder: &Path, at: &Path, ignored: &Ignored) -> Result<(), ImageError> {
    let here = if at.as_os_str().is_empty() { folder.to_owned() } else { folder.join(at) };
    let read = |error| ImageError::file("cannot read the folder", &here)(error);
    let entries = fs::read_dir(&here).map_err(read)?;
    let mut names: Vec<PathBuf> =
        entries.map(|entry| Ok(at.join(entry?.file_name()))).collect::<Result<_, _>>().map_err(read)?;
    names.sort_unstable();
    for name in names {
        let path = folder.join(&name);
        let meta = fs::symlink_metadata(&path).map_err(ImageError::file("cannot read", &path))?;
        let is_ignored = ignored.has(&name);
        if is_ignored && (!meta.is_dir() || !ignored.has_exceptions()) {
            continue;
        }
        if !is_ignored {
            hasher.add(name.as_os_str().as_bytes());
        }
        if meta.is_dir() {
            if !is_ignored {
                hasher.add(b"folder");
            }
            add_folder(hasher, folder, &name, ignored)?;
        } else if meta.is_symlink() {
            hasher.add(b"link");
            let target = fs::read_link(&path).map_err(ImageError::file("cannot read", &path))?;
            hasher.add(target.as_os_str().as_bytes());
        } else if meta.is_file() {
            hasher.add(if meta.permissions().mode() & 0o111 == 0 { b"file" } else { b"program" });
            hasher.add(whole_file(&path)?.as_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_changes_with_whatever_an_image_would_show() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::write(at("bin/run"), "#!/bin/sh\n").unwrap();
        let mut seen = vec![tree(folder.path()).unwrap()];
        assert_eq!(seen[0], tree(folder.path()).unwrap(), "the same again");
        let mut is_new = |what: &str| {
            let hash = tree(folder.path()).unwrap();
            assert!(!seen.contains(&hash), "{what}");
            seen.push(hash);
        };
        fs::set_permissions(at("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        is_new("a program");
        fs::write(at("bin/run"), "#!/bin/sh\nexit\n").unwrap();
        is_new("other contents");
        fs::rename(at("bin/run"), at("bin/go")).unwrap();
        is_new("another name");
        std::os::unix::fs::symlink("go", at("bin/run")).unwrap();
        is_new("a link");
        fs::create_dir(at("data")).unwrap();
        is_new("an empty folder");
    }

    #[test]
    fn ignored_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("data/keep")).unwrap();
        for name in ["train.py", "data/large", "data/keep/small", "x.log"] {
            fs::write(at(name), "1").unwrap();
        }
        let ignored = Ignored::parse("data\n*.log\n!data/keep/small\n");
        let hash = || tree_without(folder.path(), &ignored).unwrap();
        let before = hash();
        for (name, counts) in
            [("data/large", false), ("x.log", false), ("train.py", true), ("data/keep/small", true)]
        {
            fs::write(at(name), "2").unwrap();
            assert_eq!(hash() != before, counts, "{name}");
            fs::write(at(name), "1").unwrap();
        }
        fs::write(at("data/another"), "1").unwrap();
        assert_eq!(hash(), before);
        assert_ne!(tree(folder.path()).unwrap(), before);
    }

    #[test]
    fn whole_file_is_what_sha256sum_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(whole_file(&path).unwrap(), known);
    }
}
