//! Images and engines of a test's own: a small root file system, and podman with its own folders.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wharf_worker::ContainerSettings;

/// More than an engine takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says that a test did not run, and why.
pub(crate) fn not_run(what: &str, needs: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {what} needs {needs}; apt-get install {needs}");
}

pub(crate) fn has(program: &str) -> bool {
    found(program).is_some()
}

/// Where a program is in the search path.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Apptainer's program: what `WHARF_TEST_APPTAINER` names, or the one in the search path; said loudly where there is none.
pub(crate) fn apptainer() -> Option<String> {
    let named = std::env::var("WHARF_TEST_APPTAINER").ok().filter(|path| Path::new(path).is_file());
    let found = named.or_else(|| has("apptainer").then(|| "apptainer".to_owned()));
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: a test of apptainer needs it in PATH or in WHARF_TEST_APPTAINER; `.ci/apptainer FOLDER` gets it"
        );
    }
    found
}

/// The folder of an image with busybox in it; none where the machine has no busybox that needs no libraries.
pub(crate) fn image(folder: &Path) -> Option<PathBuf> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).is_file())?;
    let image = folder.join("image");
    for name in ["bin", "etc", "dev", "proc", "sys", "tmp", "home", "root", "data", "ch", "mnt/0", "var/tmp"]
    {
        std::fs::create_dir_all(image.join(name)).unwrap();
    }
    std::fs::copy(busybox, image.join("bin/busybox")).unwrap();
    let listed = Command::new(busybox).arg("--list").output().unwrap();
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| *name != "busybox") {
        symlink("busybox", image.join("bin").join(name)).unwrap();
    }
    std::fs::write(image.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    std::fs::write(image.join("etc/group"), "root:x:0:\n").unwrap();
    std::fs::write(image.join("etc/hosts"), "").unwrap();
    std::fs::write(image.join("etc/resolv.conf"), "").unwrap();
    std::fs::write(image.join("ch/environment"), "IMGVAR=from_image\n").unwrap();
    std::fs::write(image.join("etc/image"), "inside\n").unwrap();
    Some(image)
}

/// Podman with everything below a folder.
pub(crate) struct Podman {
    folder: PathBuf,
    service: Option<std::process::Child>,
}

impl Podman {
    /// Ready to run; none where the machine cannot.
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        if !has("podman") || !has("runc") {
            not_run("a test of podman", "podman runc");
            return None;
        }
        let folder = folder.join("podman");
        std::fs::create_dir_all(&folder).unwrap();
        let conf = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\",\"nproc=32768:32768\"]\nlog_driver = \"k8s-file\"\n\
                    [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        std::fs::write(folder.join("containers.conf"), conf).unwrap();
        Some(Self { folder, service: None })
    }

    /// What has to be in the environment of everybody who runs it.
    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.join("containers.conf")
    }

    /// The program with its folders, as a worker is told.
    pub(crate) fn words(&self) -> Vec<String> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let conf = format!("CONTAINERS_CONF={}", self.conf().display());
        // A small program that sets the variable, so that tests need not change their own environment.
        let script = format!(
            "#!/bin/sh\nexport {conf}\nexec {} --root {} --runroot {} \"$@\"\n",
            found("podman").unwrap().display(),
            at("root"),
            at("run")
        );
        let path = self.folder.join("bin/podman");
        if !path.exists() {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::create_dir_all(self.folder.join("bin")).unwrap();
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        vec![path.display().to_string()]
    }

    pub(crate) fn settings(&self) -> ContainerSettings {
        ContainerSettings { command: self.words(), ..ContainerSettings::default() }
    }

    pub(crate) fn run(&self, words: &[&str]) -> String {
        let program = self.words();
        let output = Command::new(&program[0]).args(words).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Serves docker's API at a socket of its own.
    pub(crate) fn serve(&mut self) -> String {
        let socket = self.folder.join("api.sock");
        let address = format!("unix://{}", socket.display());
        let program = self.words();
        let mut command = Command::new(&program[0]);
        command.args(["system", "service", "--time=0", &address]).stdin(Stdio::null());
        self.service = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < PATIENCE, "the engine's socket did not come about");
            std::thread::yield_now();
        }
        address
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.run(&["rm", "-f", "-a", "-t", "0"]);
        if let Some(service) = &mut self.service {
            let _ = service.kill();
            let _ = service.wait();
        }
        // What is mounted below the folder would keep it from being removed.
        let overlay = self.folder.join("root/overlay");
        let _ = Command::new("umount").arg(&overlay).stderr(Stdio::null()).status();
    }
}

/// Docker with everything below a folder, and without a network of its own.
pub(crate) struct Docker {
    folder: PathBuf,
    daemon: std::process::Child,
}

impl Docker {
    /// Ready to run; none where the machine cannot.
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        if !has("dockerd") || !has("docker") {
            not_run("a test of docker", "docker.io");
            return None;
        }
        if !nix::unistd::geteuid().is_root() {
            not_run("a test of docker", "root to start dockerd, and docker.io");
            return None;
        }
        let folder = folder.join("docker");
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name).display().to_string();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new("dockerd");
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        command.args(["--data-root", &at("root"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        command.args(["--host", &format!("unix://{}", at("api.sock")), "--config-file", &at("none.json")]);
        std::fs::write(folder.join("none.json"), "{}").unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let docker = Self { daemon: command.spawn().unwrap(), folder };
        let begun = Instant::now();
        while docker.run(&["version", "--format", "{{.Server.Version}}"]).is_empty() {
            let said = || std::fs::read_to_string(docker.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "dockerd does not answer: {}", said());
        }
        Some(docker)
    }

    pub(crate) fn socket(&self) -> String {
        format!("unix://{}", self.folder.join("api.sock").display())
    }

    pub(crate) fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new("docker");
        let output = command.args(["--host", &self.socket()]).args(words).stdin(Stdio::null()).output();
        String::from_utf8_lossy(&output.unwrap().stdout).trim().to_owned()
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let left = self.run(&["ps", "-aq"]);
        for id in left.split_whitespace() {
            self.run(&["rm", "-f", id]);
        }
        let pid = nix::unistd::Pid::from_raw(self.daemon.id().cast_signed());
        // By a signal, so that it ends its own helpers.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.daemon.wait();
        for mounted in ["exec/netns/default", "root"] {
            let _ = Command::new("umount").arg(self.folder.join(mounted)).stderr(Stdio::null()).status();
        }
    }
}
