//! Containers that are one spawn: an image's folder that charliecloud enters needs no preparation by another process.

use std::fs::File;
use std::process::Command;

use super::enter::{charlie_session, charlie_words, check_sources};
use super::image::Ready;
use super::{Contained, ContainerRuntime};

/// What is spawned, and the file that it is told its variables by: it inherits that, so it is dropped only after the spawn.
pub(crate) struct Direct {
    pub(crate) command: Command,
    pub(crate) variables: File,
}

/// A process in a container, started with the rights of its user; `value` reads its future environment.
/// None if it needs waiting, another user, output or a rejection: that is a stage's work.
pub(crate) fn direct(
    contained: &Contained,
    command: &[String],
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<Direct> {
    let is_plain = contained.runtime == ContainerRuntime::Charliecloud
        && contained.spec.image.starts_with('/')
        && contained.script.is_none()
        && contained.warnings.is_empty()
        && !contained.from_host;
    if !is_plain || !std::fs::metadata(&contained.spec.image).is_ok_and(|image| image.is_dir()) {
        return None;
    }
    check_sources(contained).ok()?;
    let image = Ready::known(&contained.spec.image);
    let (argv, variables) = charlie_words(contained, &image, command, value).ok()?;
    let (program, arguments) = argv.words.split_first().filter(|_| argv.warnings.is_empty())?;
    let mut next = Command::new(program);
    next.args(arguments);
    charlie_session(&mut next);
    Some(Direct { command: next, variables })
}
