//! Images and engines of a test's own: a small root file system, and podman with its own folders.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{component, find};

/// More than an engine takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of an image with busybox in it.
pub fn image(folder: &Path) -> PathBuf {
    component::BUSYBOX.probe().expect("a test declares that it needs busybox");
    let busybox = find("busybox").unwrap();
    let image = folder.join("image");
    for name in ["bin", "etc", "dev", "proc", "sys", "tmp", "home", "root", "data", "ch", "mnt/0", "var/tmp"]
    {
        std::fs::create_dir_all(image.join(name)).unwrap();
    }
    std::fs::copy(&busybox, image.join("bin/busybox")).unwrap();
    let listed = Command::new(&busybox).arg("--list").output().unwrap();
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| *name != "busybox") {
        symlink("busybox", image.join("bin").join(name)).unwrap();
    }
    std::fs::write(image.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    std::fs::write(image.join("etc/group"), "root:x:0:\n").unwrap();
    std::fs::write(image.join("etc/hosts"), "").unwrap();
    std::fs::write(image.join("etc/resolv.conf"), "").unwrap();
    std::fs::write(image.join("ch/environment"), "IMGVAR=from_image\n").unwrap();
    std::fs::write(image.join("etc/image"), "inside\n").unwrap();
    image
}

/// Podman with everything below a folder.
#[derive(Debug)]
pub struct Podman {
    folder: PathBuf,
    service: Option<std::process::Child>,
}

impl Podman {
    /// Ready to run.
    pub fn new(folder: &Path) -> Self {
        component::PODMAN.probe().expect("a test declares that it needs podman");
        let folder = folder.join("podman");
        std::fs::create_dir_all(&folder).unwrap();
        let conf = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\",\"nproc=32768:32768\"]\nlog_driver = \"k8s-file\"\n\
                    [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        std::fs::write(folder.join("containers.conf"), conf).unwrap();
        Self { folder, service: None }
    }

    /// The value of `CONTAINERS_CONF` for every process that runs it.
    pub fn conf(&self) -> PathBuf {
        self.folder.join("containers.conf")
    }

    /// The program with its folders, as a worker is told.
    pub fn words(&self) -> Vec<String> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let conf = format!("CONTAINERS_CONF={}", self.conf().display());
        // A small program that sets the variable, so that tests need not change their own environment.
        let script = format!(
            "#!/bin/sh\nexport {conf}\nexec {} --root {} --runroot {} \"$@\"\n",
            find("podman").unwrap().display(),
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

    /// The output of a command of it.
    pub fn run(&self, words: &[&str]) -> String {
        let program = self.words();
        let output = Command::new(&program[0]).args(words).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Serves docker's API at a socket of its own.
    pub fn serve(&mut self) -> String {
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
#[derive(Debug)]
pub struct Docker {
    folder: PathBuf,
    daemon: std::process::Child,
}

impl Docker {
    /// Ready to run.
    pub fn new(folder: &Path) -> Self {
        component::DOCKER.probe().expect("a test declares that it needs docker");
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
        docker
    }

    /// The address of its API.
    pub fn socket(&self) -> String {
        format!("unix://{}", self.folder.join("api.sock").display())
    }

    /// The output of a command of its client.
    pub fn run(&self, words: &[&str]) -> String {
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
