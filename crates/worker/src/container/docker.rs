//! What docker and podman are told.

use super::argv::{Argv, ArgvError};
use super::{Contained, ContainerRuntime, Gpus, Mount, Shm};

/// The program and the options that stand before its command, with the socket where one is set.
pub(crate) fn prefix(contained: &Contained) -> Vec<String> {
    let mut words = contained.program.clone();
    if let (Some(socket), false) = (&contained.socket, words.is_empty()) {
        match contained.runtime {
            ContainerRuntime::Podman => words.extend(["--remote".to_owned(), "--url".to_owned()]),
            _ => words.push("--host".to_owned()),
        }
        words.push(socket.clone());
    }
    words
}

/// `run`, for a container that lives as long as its command.
///
/// `variables` is the file of [`variables_file`].
pub(crate) fn run(
    contained: &Contained,
    image: &str,
    variables: &str,
    command: &[String],
) -> Result<Argv, ArgvError> {
    let mut argv = Argv { words: prefix(contained), warnings: Vec::new() };
    argv.push("run");
    if !contained.spec.name.is_empty() {
        argv.pair("--name", &contained.spec.name);
    }
    argv.flag("--rm", !contained.spec.keep);
    argv.flag("-i", contained.input().is_some());
    for label in labels(contained) {
        argv.pair("--label", label);
    }
    options(contained, &mut argv)?;
    self::variables(contained, variables, &mut argv);
    argv.pair("-w", &contained.workdir);
    entry(contained, image, command, &mut argv);
    Ok(argv)
}

/// `run`, for a container that stays and does nothing by itself. It has none of a task's variables.
pub(crate) fn run_detached(contained: &Contained, image: &str) -> Result<Argv, ArgvError> {
    let mut argv = Argv { words: prefix(contained), warnings: Vec::new() };
    for word in ["run", "-d", "--init", "--name", &contained.spec.name] {
        argv.push(word);
    }
    argv.pair("--label", format!("wharf.worker={}", contained.state_dir.display()));
    argv.pair("--label", format!("wharf.node={}", contained.spec.name));
    argv.pair("--label", format!("wharf.owner={}", contained.owner));
    argv.pair("--label", format!("wharf.spec={}", contained.spec.hash));
    options(contained, &mut argv)?;
    argv.pair("--entrypoint", "sleep");
    argv.push(image);
    argv.push("infinity");
    Ok(argv)
}

/// `exec`, for a command in a container that stays; `variables` as with [`run`].
pub(crate) fn exec(contained: &Contained, variables: &str, command: &[String]) -> Argv {
    let mut argv = Argv { words: prefix(contained), warnings: Vec::new() };
    argv.push("exec");
    if !contained.spec.user.is_empty() {
        argv.pair("--user", &contained.spec.user);
    }
    if !contained.spec.env_file.is_empty() {
        argv.pair("--env-file", &contained.spec.env_file);
    }
    self::variables(contained, variables, &mut argv);
    argv.pair("-w", &contained.workdir);
    argv.push(&contained.spec.name);
    argv.words.extend(contained.spec.entrypoint.iter().cloned());
    argv.words.extend(command.iter().cloned());
    argv
}

/// What a task's container is known by.
pub(super) fn labels(contained: &Contained) -> Vec<String> {
    let mut labels = contained.labels().to_vec();
    labels.push(format!("wharf.owner={}", contained.owner));
    labels.push(format!("wharf.job={}", contained.task.job));
    labels.push(format!("wharf.generation={}", contained.task.generation));
    labels.push(format!("wharf.spec={}", contained.spec.hash));
    labels
}

fn options(contained: &Contained, argv: &mut Argv) -> Result<(), ArgvError> {
    let spec = &contained.spec;
    let is_podman = contained.runtime == ContainerRuntime::Podman;
    devices(contained, argv);
    match spec.shm {
        Shm::Usual => {}
        Shm::Bytes(bytes) => argv.glued("--shm-size", format!("{bytes}{}", if is_podman { "b" } else { "" })),
        Shm::Host => argv.push("--ipc=host"),
    }
    if let Some(network) = spec.network.word() {
        argv.glued("--network", network);
    }
    for mount in contained.mounts() {
        self::mount(contained, mount, argv)?;
    }
    argv.flag("--privileged", spec.privileged);
    argv.flag("--init", spec.init && !spec.per_node);
    if !spec.user.is_empty() && !spec.per_node {
        argv.pair("--user", &spec.user);
    }
    for limit in &spec.ulimits {
        let value = limit.value.map_or_else(|| "-1".to_owned(), |value| value.to_string());
        argv.pair("--ulimit", format!("{}={value}:{value}", limit.name));
    }
    // Of a container that several tasks share, none of them sets the limits.
    if !spec.per_node {
        if contained.cpus > 0 {
            argv.glued("--cpus", contained.cpus);
        }
        if contained.memory_mib > 0 {
            argv.glued("--memory", format!("{}m", contained.memory_mib));
        }
        if !spec.env_file.is_empty() {
            argv.pair("--env-file", &spec.env_file);
        }
    }
    Ok(())
}

fn devices(contained: &Contained, argv: &mut Argv) {
    match (&contained.gpus, contained.runtime) {
        (Gpus::None, _) => {}
        // A container that stays is there for whatever placement comes.
        (Gpus::Nvidia(_), ContainerRuntime::Docker) if contained.spec.per_node => argv.pair("--gpus", "all"),
        // The quotes are docker's: without them the numbers would be something else after the first comma.
        (Gpus::Nvidia(ids), ContainerRuntime::Docker) => {
            argv.pair("--gpus", format!("\"device={}\"", ids.join(",")));
        }
        (Gpus::Nvidia(ids), _) => {
            let all = vec!["all".to_owned()];
            for id in if contained.spec.per_node { &all } else { ids } {
                argv.pair("--device", format!("nvidia.com/gpu={id}"));
            }
            argv.push("--security-opt=label=disable");
        }
        (Gpus::Amd, _) => {
            argv.pair("--device", "/dev/kfd");
            argv.pair("--device", "/dev/dri");
        }
    }
    for device in &contained.spec.devices {
        argv.pair("--device", device);
    }
}

fn mount(contained: &Contained, mount: &Mount, argv: &mut Argv) -> Result<(), ArgvError> {
    let Mount { src, dst, read_only } = mount;
    if src.starts_with("/dev/") && src == dst {
        argv.pair("--device", src);
    } else if !src.contains(':') && !dst.contains(':') {
        argv.pair("-v", format!("{src}:{dst}{}", if *read_only { ":ro" } else { "" }));
    } else if !src.contains(',') && !dst.contains(',') {
        let read_only = if *read_only { ",readonly" } else { "" };
        argv.pair("--mount", format!("type=bind,src={src},dst={dst}{read_only}"));
    } else {
        return Err(ArgvError::Path(src.clone(), contained.runtime.word()));
    }
    Ok(())
}

/// Values are in no command line: variables are named, and their values are in the environment of the program, or in a file where
/// they would mislead the program itself.
fn variables(contained: &Contained, file: &str, argv: &mut Argv) {
    for name in &contained.names {
        argv.pair("-e", name);
    }
    if !contained.set.is_empty() {
        argv.pair("--env-file", file);
    }
    for name in contained.set.iter().filter(|(_, value)| value.contains('\n')).map(|(name, _)| name) {
        let runtime = contained.runtime.word();
        argv.warnings
            .push(format!("{runtime} cannot have `{name}`, whose value has several lines: it is ignored"));
    }
}

/// The lines of a file with variables that would mislead the program itself.
pub(crate) fn variables_file(contained: &Contained) -> String {
    let lines = contained.set.iter().filter(|(_, value)| !value.contains('\n'));
    lines.map(|(name, value)| format!("{name}={value}\n")).collect()
}

fn entry(contained: &Contained, image: &str, command: &[String], argv: &mut Argv) {
    let rest = match contained.spec.entrypoint.split_first() {
        Some((first, rest)) => {
            argv.pair("--entrypoint", first);
            rest
        }
        None => &[],
    };
    argv.push(image);
    argv.words.extend(rest.iter().chain(command).cloned());
}
