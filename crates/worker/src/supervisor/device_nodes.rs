//! Device nodes that a task's processes cannot open.
//!
//! A task of a root worker that runs as another user has a view of `/dev` of its own. Each node of a device that it was not given is bound
//! over itself there and mounted `nodev`, and no node can be added. Nothing but root can undo that: users may not change mounts, and
//! in user namespaces of their own these mounts are locked.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};

const DEV: &str = "/dev";

/// Keeps this process, and all that come from it, from opening these nodes.
pub(crate) fn deny(nodes: &[PathBuf]) -> io::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted on the machine later is seen here, too, but not the other way round.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    for node in nodes {
        let denied = mount_bind(node, node)
            .and_then(|()| mount_remount(node, MountFlags::BIND | MountFlags::NODEV, ""));
        match denied {
            // Removed since it was listed.
            Err(Errno::NOENT) | Ok(()) => (),
            Err(errno) => return Err(io::Error::other(format!("{}: {errno}", node.display()))),
        }
    }
    // A program with the set-user-ID bit, such as that of a driver, could add nodes otherwise.
    if Path::new(DEV).metadata()?.dev() != Path::new("/").metadata()?.dev() {
        mount_remount(DEV, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID, "")?;
    }
    Ok(())
}
