//! What apptainer and singularity are told.
//!
//! Variables go in by the environment, with a prefix: on the command line a comma in a value would part it.

use super::argv::{Argv, ArgvError, refuse_volumes};
use super::{Contained, ContainerRuntime, Gpus, Mount, Network};

/// `exec`: the task's process is the parent of the command.
pub(crate) fn exec(contained: &Contained, image: &str, command: &[String]) -> Result<Argv, ArgvError> {
    refuse_volumes(contained, contained.mounts())?;
    let mut argv = Argv { words: contained.program.clone(), warnings: Vec::new() };
    // Its information about itself is not the task's output.
    argv.push("--quiet");
    argv.push("exec");
    options(contained, &mut argv);
    argv.push("--cleanenv");
    if !contained.spec.env_file.is_empty() {
        argv.pair("--env-file", &contained.spec.env_file);
    }
    argv.pair("--pwd", &contained.workdir);
    argv.push(image);
    argv.words.extend(contained.spec.entrypoint.iter().chain(command).cloned());
    Ok(argv)
}

/// An instance that stays.
pub(crate) fn start_instance(contained: &Contained, image: &str) -> Result<Argv, ArgvError> {
    refuse_volumes(contained, contained.mounts())?;
    let mut argv = Argv { words: contained.program.clone(), warnings: Vec::new() };
    for word in ["--quiet", "instance", "start"] {
        argv.push(word);
    }
    options(contained, &mut argv);
    argv.push(image);
    argv.push(&contained.spec.name);
    Ok(argv)
}

fn options(contained: &Contained, argv: &mut Argv) {
    let spec = &contained.spec;
    match contained.gpus {
        Gpus::None => {}
        Gpus::Nvidia(_) => argv.push("--nv"),
        Gpus::Amd => argv.push("--rocm"),
    }
    // Its devices are the node's anyway.
    for mount in contained.mounts().filter(|mount| !mount.dst.starts_with("/dev/")) {
        argv.pair("--bind", bind(mount));
    }
    for device in &spec.devices {
        argv.pair("--bind", escaped(device));
    }
    argv.flag("--writable-tmpfs", spec.writable_root);
    if spec.network == Network::None {
        argv.push("--net");
        argv.push("--network=none");
    }
    argv.unsupported(contained, "network: bridge", spec.network == Network::Bridge);
    argv.unsupported(contained, "privileged", spec.privileged);
    argv.unsupported(contained, "user", !spec.user.is_empty());
}

fn bind(mount: &Mount) -> String {
    let read_only = if mount.read_only { ":ro" } else { "" };
    format!("{}:{}{read_only}", escaped(&mount.src), escaped(&mount.dst))
}

fn escaped(path: &str) -> String {
    path.replace(',', "\\,").replace(':', "\\:")
}

/// What a variable has to be called outside so that it has its own name within.
pub(crate) fn outside(runtime: ContainerRuntime, name: &str) -> String {
    format!("{}ENV_{name}", prefix(runtime))
}

/// A variable without which values would be taken for words of a shell. As an option, old versions would not know it.
pub(crate) fn literal(runtime: ContainerRuntime) -> (String, &'static str) {
    (format!("{}_NO_EVAL", prefix(runtime)), "true")
}

fn prefix(runtime: ContainerRuntime) -> &'static str {
    if runtime == ContainerRuntime::Singularity { "SINGULARITY" } else { "APPTAINER" }
}
