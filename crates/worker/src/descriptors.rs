//! Open files of this process.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::RawFd;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Standard input, output and error, which a process is meant to inherit.
const STANDARD: RawFd = 2;

/// Closes everything that the process has inherited beside its standard streams and `kept`.
///
/// To be called first thing in a process, before it opens anything of its own.
pub(crate) fn close_inherited(kept: Option<RawFd>) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|&open| open > STANDARD && Some(open) != kept) {
        // The folder that was read is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

/// A file without a name, to be read from its beginning by the process that gets it.
pub(crate) fn anonymous_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"wharf", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
