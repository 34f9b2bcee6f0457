//! Which of a node's runtimes has an image already: a job that leaves the runtime to the node gets that one.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use wharf_proto::Container;

use super::plan::{fitting, is_installed, of_command, program};
use super::{ContainerRuntime, ContainerSettings, image};
use crate::WorkerConfig;

/// How long an engine may take to answer; one that does not answer has no image.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sets the runtime of a container that leaves it to the node, if one of several that are installed has the image for that user.
pub(crate) fn prefer(config: &WorkerConfig, container: &mut Container, user: Option<&str>) {
    let settings = &config.containers;
    let is_settled = ContainerRuntime::of_wire(container.runtime()).is_some()
        || settings.runtime.is_some()
        || of_command(&settings.command).is_some();
    // A file is seen by every runtime.
    if is_settled || container.image.starts_with('/') {
        return;
    }
    let name = container.image.strip_prefix("docker://").unwrap_or(&container.image);
    let installed: Vec<ContainerRuntime> =
        fitting(name).iter().copied().filter(|runtime| is_installed(settings, *runtime)).collect();
    if installed.len() < 2 {
        return;
    }
    let Some(account) = account(user) else { return };
    if let Some(runtime) = installed.into_iter().find(|runtime| has(config, *runtime, name, &account)) {
        container.set_runtime(runtime.into());
    }
}

fn account(user: Option<&str>) -> Option<User> {
    let found = match user {
        Some(name) => User::from_name(name),
        None => User::from_uid(geteuid()),
    };
    found.ok().flatten()
}

fn has(config: &WorkerConfig, runtime: ContainerRuntime, name: &str, account: &User) -> bool {
    match runtime {
        ContainerRuntime::Docker | ContainerRuntime::Podman => {
            engine_has(&config.containers, runtime, name, account)
        }
        ContainerRuntime::Apptainer | ContainerRuntime::Singularity => {
            let cache = config.state_dir.join("images").join(account.uid.to_string());
            cache.join(image::built_name(name)).exists()
        }
        ContainerRuntime::Charliecloud => {
            let store = PathBuf::from(format!("/var/tmp/{}.ch", account.name));
            image::stored_name(&store, name).is_some()
        }
    }
}

/// Asks an engine with the user's rights: users of podman have images of their own.
fn engine_has(settings: &ContainerSettings, runtime: ContainerRuntime, name: &str, account: &User) -> bool {
    let words = program(settings, runtime);
    let Some((program, options)) = words.split_first() else { return false };
    let mut ask = Command::new(program);
    ask.args(options).args(["image", "inspect", "--format", "{{.Id}}", name]);
    ask.env("HOME", &account.dir).env_remove("XDG_RUNTIME_DIR").current_dir("/");
    ask.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if geteuid().is_root() && !account.uid.is_root() {
        ask.uid(account.uid.as_raw()).gid(account.gid.as_raw());
    }
    let Ok(mut child) = ask.spawn() else { return false };
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, ended) = mpsc::channel();
    // The receiver is gone where the answer comes too late.
    thread::spawn(move || drop(sender.send(child.wait())));
    match ended.recv_timeout(PATIENCE) {
        Ok(status) => status.is_ok_and(|status| status.success()),
        Err(_) => {
            // The other thread takes its end. Gone by itself meanwhile, which is as good.
            let _ = kill(pid, Signal::SIGKILL);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that has the images that it is called with, in place of the engine of a command.
    fn stand_in(folder: &std::path::Path, images: &str) -> String {
        let path = folder.join("podman");
        fs::write(
            &path,
            format!("#!/bin/sh\nfor last; do :; done\ncase $last in {images}) exit 0;; esac\nexit 1\n"),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn an_engine_is_asked_and_one_that_hangs_has_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let command = vec![stand_in(dir.path(), "here:1")];
        let settings = ContainerSettings { command, ..ContainerSettings::default() };
        let account = account(None).unwrap();
        for (name, expected) in [("here:1", true), ("away:1", false)] {
            assert_eq!(engine_has(&settings, ContainerRuntime::Podman, name, &account), expected, "{name}");
        }
        fs::write(dir.path().join("podman"), "#!/bin/sh\nexec sleep 60\n").unwrap();
        assert!(!engine_has(&settings, ContainerRuntime::Podman, "here:1", &account));
    }
}
