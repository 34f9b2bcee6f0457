//! How components are searched for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Nothing, or what is missing.
pub(crate) type Probe = Result<(), String>;

/// Where a program is; those of daemons are often not in the search path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// What the program printed as it failed, or why it could not be started.
pub fn run(program: &str, words: &[&str]) -> Result<String, String> {
    let line = || format!("`{program} {}`", words.join(" "));
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", line()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().next_back().unwrap_or("no message");
    Err(format!("{} failed ({}): {last}", line(), output.status))
}

pub(crate) fn program(name: &str) -> Probe {
    find(name).map(drop).ok_or_else(|| format!("there is no `{name}`"))
}

pub(crate) fn programs(names: &[&str]) -> Probe {
    names.iter().try_for_each(|name| program(name))
}

pub(crate) fn file(path: &Path) -> Probe {
    path.exists().then_some(()).ok_or_else(|| format!("there is no {}", path.display()))
}

/// A plugin of Slurm.
pub(crate) fn plugin(name: &str) -> Probe {
    let mut files = plugin_files(name);
    files.next().map(drop).ok_or_else(|| format!("there is no plugin `{name}` of Slurm"))
}

fn plugin_files(name: &str) -> impl Iterator<Item = PathBuf> {
    let under = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    // The folder below has the name of the architecture.
    let folders = under("/usr/lib").map(|entry| entry.path().join("slurm-wlm"));
    let folders = folders.chain([PathBuf::from("/usr/lib/slurm-wlm"), PathBuf::from("/usr/lib/slurm")]);
    folders.map(move |folder| folder.join(name)).filter(|path| path.is_file())
}

/// All files of this name among programs, helpers of podman and plugins of Slurm.
pub fn installed_files(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/libexec/podman"].map(PathBuf::from);
    let programs = std::env::split_paths(&path).chain(more).map(|folder| folder.join(name));
    let name = name.to_owned();
    let mut files: Vec<PathBuf> = programs.filter(|path| path.is_file()).chain(plugin_files(&name)).collect();
    files.sort();
    files.dedup();
    files
}

/// A program without a loader of libraries.
pub(crate) fn static_program(name: &str) -> Probe {
    let path = find(name).ok_or_else(|| format!("there is no `{name}`"))?;
    let dynamic = run("ldd", &[&path.display().to_string()]).is_ok();
    if dynamic { Err(format!("{} needs libraries", path.display())) } else { Ok(()) }
}

/// A Python that runs these lines.
pub(crate) fn python(program: &str, lines: &str) -> Probe {
    run(program, &["-c", lines]).map(drop)
}

pub(crate) fn root() -> Probe {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let effective = ids.split_whitespace().nth(1);
    if effective == Some("0") { Ok(()) } else { Err("the rights of root are missing".to_owned()) }
}

/// A cgroup with a limit of memory can be created below that of this process, as a worker does.
pub(crate) fn groups() -> Probe {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let first = own.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path));
    let root = match first {
        Some(path) => format!("/sys/fs/cgroup/memory{path}"),
        None => format!("/sys/fs/cgroup{}", own.trim().trim_start_matches("0::")),
    };
    let group = Path::new(&root).join(format!("wharf-probe-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", group.display());
    std::fs::create_dir(&group).map_err(failed)?;
    let is_limited = ["memory.limit_in_bytes", "memory.max"].iter().any(|file| group.join(file).exists());
    std::fs::remove_dir(&group).map_err(failed)?;
    is_limited.then_some(()).ok_or_else(|| format!("there is no memory controller below {root}"))
}
