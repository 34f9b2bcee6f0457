//! Files that options name instead of what they say.

use std::fs::File;
use std::io::Read;

use crate::grammar::export::{self, Variables};
use crate::grammar::{Request, hostlist};

use super::CommandError;

/// More than any list of nodes or environment has.
const BYTES_MAX: u64 = 16 << 20;

/// Puts lists of nodes that are in files into the places of the files' names.
pub(super) fn read_in(request: &mut Request) -> Result<(), CommandError> {
    for (option, into) in [("nodefile", "nodelist"), ("nodelist", "nodelist"), ("exclude", "exclude")] {
        let Some(path) = request.get(option).filter(|path| option == "nodefile" || path.contains('/')) else {
            continue;
        };
        let text = File::open(path).and_then(|file| {
            let mut text = String::new();
            file.take(BYTES_MAX).read_to_string(&mut text).map(|_| text)
        });
        let text =
            text.map_err(|error| CommandError::failed(format!("Unable to open {option} {path}: {error}")))?;
        let list = hostlist::of_file(&text);
        if list.is_empty() {
            return Err(CommandError::failed(format!(
                "Invalid node name specified: there is none in {path}"
            )));
        }
        request.set(into, list);
    }
    Ok(())
}

/// The environment that `--export-file` names: a file, or the number of an open one.
pub(super) fn exported(request: &Request) -> Result<Option<Variables>, CommandError> {
    let Some(name) = request.get("export-file") else { return Ok(None) };
    let is_open = name.parse::<u32>().is_ok();
    let path = if is_open { format!("/proc/self/fd/{name}") } else { name.to_owned() };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| {
        CommandError::failed(format!("Unable to read the environment from {name}: {error}"))
    })?;
    Ok(Some(export::of_file(&bytes)))
}
