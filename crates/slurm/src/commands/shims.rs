//! Links with the bare names of Slurm's commands, for scripts and tools that call them by these.

use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

use super::NAMES;

/// Default search path of shells.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The first file of a folder that is no link of Slurm's names, if there is one.
#[must_use]
pub fn other_file(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !NAMES.contains(&name.as_str())).min()
}

/// The search path of this process with a folder of links in front, which is written.
///
/// # Errors
/// If the links cannot be written.
pub fn search_path(folder: &Path) -> io::Result<OsString> {
    link(folder)?;
    in_front(folder, std::env::var_os("PATH"))
}

/// The variables by which a batch script finds the links in a folder, which is written. A login shell (`#!/bin/bash -l`), whose profile
/// may set another search path, gets the folder in front of that.
///
/// # Errors
/// If the links or the file for the login shell cannot be written.
pub fn of_script(folder: &Path, script: Option<&Path>) -> io::Result<Vec<(&'static str, OsString)>> {
    let mut variables = vec![("PATH", search_path(folder)?)];
    if script.is_some_and(is_login_shell) {
        let file = folder.with_file_name("login.sh");
        let quoted = folder.to_string_lossy().replace('\'', r"'\''");
        std::fs::write(&file, AFTER_PROFILE.replace("FOLDER", &quoted))?;
        variables.extend(std::env::var_os("BASH_ENV").map(|own| ("WHARF_BASH_ENV", own)));
        variables.push(("BASH_ENV", file.into_os_string()));
    }
    Ok(variables)
}

/// What bash reads after the profiles of a login shell.
const AFTER_PROFILE: &str = "\
PATH='FOLDER':$PATH
unset BASH_ENV
if [ -n \"${WHARF_BASH_ENV-}\" ]; then
    export BASH_ENV=\"$WHARF_BASH_ENV\"
    unset WHARF_BASH_ENV
    if [ -r \"$BASH_ENV\" ]; then . \"$BASH_ENV\"; fi
fi
";

/// Whether the first line of a script starts bash as a login shell.
fn is_login_shell(script: &Path) -> bool {
    let mut first = String::new();
    let read = std::fs::File::open(script).and_then(|file| io::BufReader::new(file).read_line(&mut first));
    let mut words = first.trim_start_matches("#!").split_whitespace();
    let is_bash = words.by_ref().any(|word| word.rsplit('/').next() == Some("bash"));
    let is_login = |word: &str| {
        word == "--login" || word.starts_with('-') && !word.starts_with("--") && word.contains('l')
    };
    read.is_ok() && first.starts_with("#!") && is_bash && words.any(is_login)
}

/// A search path with a folder in front of the others.
fn in_front(folder: &Path, path: Option<OsString>) -> io::Result<OsString> {
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.into());
    // An empty entry is the current directory.
    let others = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(others)).map_err(io::Error::other)
}

/// Writes links to this program into a folder, which is created if it does not exist. Other processes may do the same at once, on
/// other machines: a link is made beside its place and moved there.
///
/// # Errors
/// If they cannot be written, or another file has such a name.
pub fn link(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let program = std::env::current_exe()?;
    for name in NAMES {
        let link = folder.join(name);
        // A user's own program stays.
        if link.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink()) {
            return Err(io::Error::other(format!("`{name}` there is no link")));
        }
        if std::fs::read_link(&link).is_ok_and(|target| target == program) {
            continue;
        }
        let beside = beside(&link, &program)?;
        std::fs::rename(&beside, &link).inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    }
    Ok(())
}

/// Creates a link with a unique name.
fn beside(link: &Path, program: &Path) -> io::Result<PathBuf> {
    let mut number = std::process::id();
    loop {
        let beside = link.with_extension(number.to_string());
        match std::os::unix::fs::symlink(program, &beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            made => return made.map(|()| beside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_many_make_at_once_are_there() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let folder = folder.path().join(round.to_string());
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(|| link(&folder))).collect();
                all.into_iter().for_each(|one| one.join().unwrap().unwrap());
            });
            let mut names: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let mut expected = NAMES.map(OsString::from);
            names.sort();
            expected.sort();
            assert_eq!(names, expected);
        }
        // One that leads elsewhere is replaced, and a program is left.
        let folder = folder.path().join("0");
        let srun = folder.join("srun");
        std::fs::remove_file(&srun).unwrap();
        std::os::unix::fs::symlink("/elsewhere", &srun).unwrap();
        link(&folder).unwrap();
        assert_eq!(std::fs::read_link(&srun).unwrap(), std::env::current_exe().unwrap());
        std::fs::remove_file(&srun).unwrap();
        std::fs::write(&srun, "mine").unwrap();
        assert_eq!(link(&folder).unwrap_err().to_string(), "`srun` there is no link");
    }

    #[test]
    fn login_shells_are_recognised_by_their_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        for (first, expected) in [
            ("#!/bin/bash -l", true),
            ("#! /usr/bin/bash --login", true),
            ("#!/bin/bash -el", true),
            ("#!/usr/bin/env -S bash -l", true),
            ("#!/bin/bash", false),
            ("#!/bin/bash --noprofile", false),
            ("#!/bin/sh -l", false),
            ("#!/usr/bin/perl -l", false),
            ("echo bash -l", false),
        ] {
            std::fs::write(&script, format!("{first}\ntrue\n")).unwrap();
            assert_eq!(is_login_shell(&script), expected, "{first}");
        }
        assert!(!is_login_shell(Path::new("/no/such/script")));
    }

    #[test]
    fn links_are_in_front_of_folders_that_have_names() {
        let path = |path: Option<&str>| in_front(Path::new("/links"), path.map(OsString::from)).unwrap();
        assert_eq!(path(Some("/a::/b:")), "/links:/a:/b");
        for nothing in [Some(""), None] {
            assert_eq!(path(nothing), "/links:/usr/local/bin:/usr/bin:/bin");
        }
    }
}
