//! What is decided about a container before anything is touched: runtime, devices, variables, what has to be seen within.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wharf_proto::{Container, LaunchTask};

use super::{
    Contained, ContainerRuntime, ContainerSettings, ENGINE_VARIABLE, Engine, Gpus, Mount, RUNTIME_VARIABLE,
    Spec,
};
use crate::launch::environment;
use crate::supervisor::protocol::progress_socket;
use crate::task::TaskKey;
use crate::{WorkerConfig, devices};

/// Variables that are about the machine, not about the job: a runtime's program is informed of them only for within.
const OF_THE_MACHINE: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "HOSTNAME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "BASH_ENV",
    "ENV",
    "IFS",
];
const OF_RUNTIMES: &[&str] = &[
    "XDG_",
    "DOCKER_",
    "CONTAINER",
    "PODMAN_",
    "APPTAINER",
    "SINGULARITY",
    "CH_",
    "BUILDAH_",
    "REGISTRY_",
    "STORAGE_",
    "DBUS_",
];
/// Folders that an image has of its own: a job that happens to be submitted from one does not get it over the image's.
const OF_IMAGES: &[&str] = &[
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/usr", "/var",
];
/// What a runtime of its own numbers devices by, within.
const NUMBERED: &[&str] = &["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];

/// A process that is to run in a container.
pub(crate) struct Wanted<'a> {
    pub(crate) config: &'a WorkerConfig,
    pub(crate) task: TaskKey,
    pub(crate) launch: &'a LaunchTask,
    pub(crate) container: &'a Container,
    /// The variables of its task.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Its own, beside those.
    pub(crate) own: BTreeMap<String, String>,
    /// Of the placement, its own.
    pub(crate) devices: Vec<u32>,
    pub(crate) workdir: &'a Path,
    /// Empty: none was asked for.
    pub(crate) checkpoint_dir: &'a Path,
    pub(crate) hostfile: &'a Path,
    /// What else has to be seen within.
    pub(crate) tools: &'a [PathBuf],
}

/// A planned process: its environment on the node, and the container.
pub(crate) struct Planned {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) contained: Contained,
}

/// Why a node cannot have a container, in words for the job's owner.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(
        "the job requests {}, but this node has no `{}`; install it or set its path in `--container-command`",
        runtime.word(),
        runtime.program()
    )]
    NotInstalled { runtime: ContainerRuntime },
    #[error("no container runtime on this node supports the image `{image}`; install one of {programs}")]
    NoRuntime { image: String, programs: String },
    #[error("a container of a node needs a `name`, by which its tasks find it")]
    NoName,
    #[error("cannot describe the container engine")]
    Engine(#[source] serde_json::Error),
}

/// Whether a variable would change what the runtime's program itself does.
pub(crate) fn misleads(name: &str) -> bool {
    OF_THE_MACHINE.contains(&name) || OF_RUNTIMES.iter().any(|prefix| name.starts_with(prefix))
}

/// Decides all that can be decided here.
///
/// # Errors
/// Why the node cannot have such a container.
pub(crate) fn plan(wanted: Wanted<'_>) -> Result<Planned, PlanError> {
    let Wanted { config, task, launch, container, .. } = wanted;
    let settings = &config.containers;
    let runtime = choose(settings, container, |program| find(program).is_some())?;
    let program = program(settings, runtime);
    if program.is_empty() && !(runtime.is_engine() && settings.socket.is_some()) {
        return Err(PlanError::NotInstalled { runtime });
    }
    let (gpus, numbers) = gpus(config, &wanted.devices);
    let mut own = wanted.own.clone();
    let given = container.env.iter().filter(|(name, _)| !environment::is_identity(name));
    own.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    own.insert(RUNTIME_VARIABLE.to_owned(), runtime.word().to_owned());
    let mut set = BTreeMap::new();
    for (name, value) in wanted.env.iter().chain(&own).filter(|(name, _)| misleads(name)) {
        set.insert(name.clone(), value.clone());
    }
    // Where a container of the node sees all devices, they have the node's numbers.
    if runtime.is_engine() && !container.per_node && gpus != Gpus::None {
        let numbered = NUMBERED.iter().filter(|name| wanted.env.contains_key(**name));
        set.extend(numbered.map(|name| ((*name).to_owned(), numbers.clone())));
    }
    let names = wanted.env.keys().chain(own.keys()).filter(|name| !set.contains_key(*name));
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_unstable();
    names.dedup();
    own.retain(|name, _| !misleads(name));
    let (needs, mut warnings) = needs(&wanted, runtime);
    let workdir = if !container.workdir.is_empty() {
        container.workdir.clone()
    } else if sees_workdir(&wanted) {
        text(wanted.workdir)
    } else {
        "/".to_owned()
    };
    if container.per_node && container.name.is_empty() {
        return Err(PlanError::NoName);
    }
    let contained = Contained {
        task,
        runtime,
        socket: settings.socket.clone().filter(|_| runtime.is_engine()),
        program,
        spec: Spec::from(container),
        names,
        set,
        gpus,
        needs,
        workdir,
        cpus: launch.cpus,
        memory_mib: launch.memory_mib,
        owner: launch.user.clone(),
        state_dir: config.state_dir.clone(),
        cache_bytes: settings.image_cache_bytes,
        from_host: settings.ch_fromhost,
        script: None,
        warnings: std::mem::take(&mut warnings),
    };
    if runtime.is_engine() {
        let engine = Engine {
            prefix: super::docker::prefix(&contained),
            name: if container.per_node { container.name.clone() } else { String::new() },
            labels: contained.labels().to_vec(),
            workdir: contained.workdir.clone(),
        };
        let text = serde_json::to_string(&engine).map_err(PlanError::Engine)?;
        own.insert(ENGINE_VARIABLE.to_owned(), text);
    }
    Ok(Planned { env: own, contained })
}

/// The runtime of a job: its own choice, the site's, or the first of those that fit the image and are there.
fn choose(
    settings: &ContainerSettings,
    container: &Container,
    is_there: impl Fn(&str) -> bool,
) -> Result<ContainerRuntime, PlanError> {
    if let Some(runtime) = ContainerRuntime::of_wire(container.runtime()) {
        return Ok(runtime);
    }
    if let Some(runtime) = settings.runtime.or_else(|| of_command(&settings.command)) {
        return Ok(runtime);
    }
    let image = container.image.as_str();
    let fitting = fitting(image);
    let found = fitting.iter().find(|runtime| is_there(runtime.program()));
    found.copied().ok_or_else(|| {
        let programs: Vec<&str> = fitting.iter().map(|runtime| runtime.program()).collect();
        PlanError::NoRuntime { image: image.to_owned(), programs: programs.join(", ") }
    })
}

/// The runtimes that can run an image, the first of which is chosen where none has it already.
pub(super) fn fitting(image: &str) -> &'static [ContainerRuntime] {
    use ContainerRuntime::{Apptainer, Charliecloud, Docker, Podman, Singularity};
    if image.ends_with(".sif") {
        &[Apptainer, Singularity]
    } else if image.starts_with('/') {
        &[Charliecloud, Apptainer, Singularity, Podman, Docker]
    } else {
        &[Podman, Docker, Apptainer, Singularity, Charliecloud]
    }
}

/// Whether the node has the program of a runtime.
pub(super) fn is_installed(settings: &ContainerSettings, runtime: ContainerRuntime) -> bool {
    !program(settings, runtime).is_empty()
}

/// The runtime whose program a command begins with.
pub(super) fn of_command(command: &[String]) -> Option<ContainerRuntime> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    ContainerRuntime::ALL.into_iter().find(|runtime| runtime.program() == name)
}

/// The runtime's program by its whole path, and its options; empty where there is none.
pub(super) fn program(settings: &ContainerSettings, runtime: ContainerRuntime) -> Vec<String> {
    let own = of_command(&settings.command) == Some(runtime);
    let words = if own { settings.command.clone() } else { vec![runtime.program().to_owned()] };
    let Some((first, options)) = words.split_first() else { return Vec::new() };
    let Some(path) = find(first) else { return Vec::new() };
    std::iter::once(text(&path)).chain(options.iter().cloned()).collect()
}

/// Where the worker finds a program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The placement's devices, and their numbers where only they are seen.
fn gpus(config: &WorkerConfig, indexes: &[u32]) -> (Gpus, String) {
    let within: Vec<String> = (0..indexes.len()).map(|index| index.to_string()).collect();
    let kind = if config.device_type == "cpu" || indexes.is_empty() {
        Gpus::None
    } else if config.watch.source.is_nvidia() || Path::new("/dev/nvidiactl").exists() {
        Gpus::Nvidia(devices::numbers(config, indexes).iter().map(u32::to_string).collect())
    } else if Path::new("/dev/kfd").exists() {
        Gpus::Amd
    } else {
        // Declared devices that are none of a driver's: there is nothing to hand in.
        Gpus::None
    };
    (kind, within.join(","))
}

/// What has to be seen within at the same path, what the site adds, and what of that is not there.
fn needs(wanted: &Wanted<'_>, runtime: ContainerRuntime) -> (Vec<Mount>, Vec<String>) {
    let (config, container) = (wanted.config, wanted.container);
    let mut mounts: Vec<Mount> = Vec::new();
    let mut warnings = Vec::new();
    let site = config.containers.binds.iter().map(|bind| Mount {
        src: bind.src.clone(),
        dst: bind.dst.clone(),
        read_only: bind.read_only,
    });
    mounts.extend(site);
    if container.infiniband {
        for path in &config.containers.infiniband {
            if path.exists() {
                mounts.push(Mount::same(text(path)));
            } else {
                warnings.push(format!("infiniband: this node has no {}", path.display()));
            }
        }
    }
    let mut seen = wanted.tools.to_vec();
    if sees_workdir(wanted) {
        seen.push(wanted.workdir.to_owned());
    }
    if !container.per_node {
        seen.push(wanted.checkpoint_dir.to_owned());
    }
    if runtime.is_engine() {
        // Root in the container is root on the node: only what a task needs is passed in.
        let hosts = if container.per_node { wanted.hostfile.parent() } else { Some(wanted.hostfile) };
        seen.push(progress_socket(&config.state_dir));
        seen.extend(hosts.map(Path::to_owned));
    } else {
        seen.push(config.state_dir.clone());
        seen.extend(wanted.hostfile.parent().map(Path::to_owned));
    }
    for path in seen.iter().filter(|path| is_mountable(path)) {
        let path = text(path);
        let is_there =
            |mount: &Mount| mount.dst == path || mount.src == mount.dst && is_below(&path, &mount.dst);
        if !mounts.iter().any(is_there) && !container.mounts.iter().any(|mount| mount.dst == path) {
            // Root within could write to it; charliecloud gives no process additional rights, and has nothing read-only.
            let is_program = wanted.tools.iter().any(|tool| tool.is_file() && text(tool) == path);
            let read_only = is_program && runtime != ContainerRuntime::Charliecloud;
            mounts.push(Mount { read_only, ..Mount::same(path) });
        }
    }
    (mounts, warnings)
}

/// Whether the job's own folder is to be seen within: a container of the node is made for more than one job.
fn sees_workdir(wanted: &Wanted<'_>) -> bool {
    let Container { workdir, per_node, .. } = wanted.container;
    workdir.is_empty() && !per_node && is_mountable(wanted.workdir)
}

/// Whether a path of the node can take the place of what the image has there.
fn is_mountable(path: &Path) -> bool {
    path.is_absolute() && !OF_IMAGES.iter().any(|own| path == Path::new(own))
}

/// Whether a path lies below another.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use wharf_proto::container::Runtime;

    use super::*;

    fn container(runtime: Runtime, image: &str) -> Container {
        Container { runtime: runtime.into(), image: image.into(), ..Container::default() }
    }

    #[test]
    fn runtime_follows_job_then_site_then_image() {
        let all = ["podman", "docker", "apptainer", "ch-run"];
        let command = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let site = |runtime, line: &str| ContainerSettings {
            runtime,
            command: if line.is_empty() { Vec::new() } else { command(line) },
            ..ContainerSettings::default()
        };
        for (settings, wanted, there, expected) in [
            (site(None, ""), container(Runtime::Docker, "/img"), &all[..], "docker"),
            (site(Some(ContainerRuntime::Apptainer), ""), container(Runtime::Auto, "x:1"), &all, "apptainer"),
            (site(None, "/opt/bin/podman --root /x"), container(Runtime::Auto, "/img"), &all, "podman"),
            (site(None, ""), container(Runtime::Auto, "/img/dir"), &all, "charliecloud"),
            (site(None, ""), container(Runtime::Auto, "/img/x.sif"), &all, "apptainer"),
            (site(None, ""), container(Runtime::Auto, "ubuntu:22.04"), &all, "podman"),
            (site(None, ""), container(Runtime::Auto, "ubuntu:22.04"), &["docker"], "docker"),
        ] {
            let chosen = choose(&settings, &wanted, |program| there.contains(&program)).unwrap();
            assert_eq!(chosen.word(), expected, "{wanted:?}");
        }
        let none =
            choose(&site(None, ""), &container(Runtime::Auto, "/x.sif"), |_| false).unwrap_err().to_string();
        assert!(none.ends_with("install one of apptainer, singularity"), "{none}");
    }

    #[test]
    fn variables_of_the_machine_are_kept_from_the_runtime() {
        for (name, expected) in
            [("PATH", true), ("DOCKER_HOST", true), ("XDG_RUNTIME_DIR", true), ("GREETING", false)]
        {
            assert_eq!(misleads(name), expected, "{name}");
        }
    }

    #[test]
    fn system_paths_of_an_image_are_not_mounted_over() {
        for (path, expected) in [("/", false), ("/usr", false), ("/data/ann/run", true), ("", false)] {
            assert_eq!(is_mountable(Path::new(path)), expected, "{path}");
        }
        assert!(is_below("/a/b", "/a") && !is_below("/ab", "/a") && !is_below("/a", "/a"));
    }
}
