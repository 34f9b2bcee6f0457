//! The device nodes that a task's processes can open.
//!
//! A task of a root worker that runs as another user has a view of `/dev` of its own, in which nodes of devices that it was not given cannot be
//! opened: the file system is mounted `nodev`, and every permitted node is bound over itself before that. A node that
//! appears later cannot be opened either. Nothing but root can undo that: users may not change mounts, and what they mount in user
//! namespaces of their own is `nodev` as well.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

const DEV: &str = "/dev";

/// Gives this process, and all that come from it, a `/dev` in which only these nodes can be opened.
pub(crate) fn permit_only(nodes: &[PathBuf]) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted on the machine later is seen here, too, but not the other way round.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    let is_mounted = Path::new(DEV).metadata()?.dev() != Path::new("/").metadata()?.dev();
    if !is_mounted {
        mount_bind_recursive(DEV, DEV)?;
    }
    for node in nodes {
        match mount_bind(node, node) {
            // Removed since it was listed.
            Err(Errno::NOENT) | Ok(()) => (),
            Err(errno) => return Err(io::Error::other(format!("{}: {errno}", node.display()))),
        }
    }
    Ok(mount_remount(DEV, MountFlags::BIND | MountFlags::NODEV | MountFlags::NOSUID, "")?)
}
