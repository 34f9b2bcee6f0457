//! What charliecloud is told, and the file that tells it of variables.

use super::argv::{Argv, ArgvError, refuse_volumes};
use super::image::Ready;
use super::plan::is_below;
use super::{Contained, Mount, Network};

/// Folders of the node that every container of charliecloud has.
const SHARED: [&str; 4] = ["/tmp", "/dev", "/proc", "/sys"];

/// Where images have their own variables.
pub(crate) const OWN_VARIABLES: &str = "ch/environment";

/// Where the variables for within are from.
pub(crate) struct Variables<'a> {
    /// The file of [`file`].
    pub(crate) file: &'a str,
    /// Those that no line of a file can hold.
    pub(crate) inherited: &'a [&'a str],
    /// Whether the image has some of its own: it is an error to ask for them where it has none.
    pub(crate) are_in_image: bool,
}

/// The command line.
pub(crate) fn run(
    contained: &Contained,
    image: &Ready,
    variables: &Variables<'_>,
    command: &[String],
) -> Result<Argv, ArgvError> {
    refuse_volumes(contained, contained.mounts())?;
    let spec = &contained.spec;
    let mut argv = Argv { words: contained.program.clone(), warnings: Vec::new() };
    if variables.inherited.is_empty() {
        argv.push("--unset-env=*");
    } else {
        argv.glued("--unset-env", format!("!({})", variables.inherited.join("|")));
    }
    // The image's own variables first, so that the job's are stronger.
    argv.flag("--set-env", variables.are_in_image);
    if !spec.env_file.is_empty() {
        argv.glued("--set-env", &spec.env_file);
    }
    argv.push("--env-no-expand");
    argv.glued("--set-env", variables.file);
    for mount in binds(contained) {
        argv.glued("--bind", format!("{}:{}", mount.src, mount.dst));
    }
    argv.glued("--cd", &contained.workdir);
    match &image.store {
        Some(store) => {
            argv.glued("--storage", store.display());
            // It refuses to write into what others may run by the same name.
            argv.unsupported(contained, "writable_root", spec.writable_root);
        }
        None => argv.flag("--write", spec.writable_root),
    }
    match user(&spec.user) {
        None => argv.unsupported(contained, "user", true),
        Some((uid, gid)) => {
            uid.into_iter().for_each(|uid| argv.glued("--uid", uid));
            gid.into_iter().for_each(|gid| argv.glued("--gid", gid));
        }
    }
    argv.unsupported(contained, "privileged", spec.privileged);
    argv.unsupported(contained, "mounts: ro", contained.mounts().any(|mount| mount.read_only));
    argv.unsupported(contained, "network", matches!(spec.network, Network::Bridge | Network::None));
    argv.unsupported(contained, "init", spec.init);
    argv.push(&image.image);
    argv.push("--");
    argv.words.extend(spec.entrypoint.iter().chain(command).cloned());
    Ok(argv)
}

/// Mounts that are not there by themselves.
pub(crate) fn binds(contained: &Contained) -> impl Iterator<Item = &Mount> {
    contained.mounts().filter(|mount| {
        let is_shared = |folder: &str| mount.dst == folder || is_below(&mount.dst, folder);
        mount.src != mount.dst || !SHARED.iter().any(|folder| is_shared(folder))
    })
}

/// Numbers of user and group within; none where it is a name, which charliecloud does not look up.
fn user(user: &str) -> Option<(Option<u32>, Option<u32>)> {
    if user.is_empty() {
        return Some((None, None));
    }
    let (uid, gid) = user.split_once(':').map_or((user, None), |(uid, gid)| (uid, Some(gid)));
    let gid = match gid {
        Some(gid) => Some(gid.parse().ok()?),
        None => None,
    };
    Some((Some(uid.parse().ok()?), gid))
}

/// Variables as lines of a file: quotes around each value are taken off, and nothing else is touched.
///
/// Returns the names of those whose values have several lines, too, which no file can hold.
pub(crate) fn file<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> (String, Vec<&'a str>) {
    let mut text = String::new();
    let mut inherited = Vec::new();
    for (name, value) in variables {
        if value.contains('\n') {
            inherited.push(name);
        } else {
            text += &format!("{name}='{value}'\n");
        }
    }
    (text, inherited)
}
