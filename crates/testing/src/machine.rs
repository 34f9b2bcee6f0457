//! A machine made of namespaces: it has a network, a name, processes and mounts of its own, and shares the file system.
//!
//! It ends with its first process, and that one ends when its standard input does. So nothing is left behind, however a test ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::component;

const NAMESPACES: [&str; 5] = ["--net", "--uts", "--mount", "--pid", "--ipc"];
/// The first process of a machine. It ends when its standard input is closed, and all others with it. There are no
/// cgroups, which would outlive a machine whose power is cut.
const INIT: &str = "umount -lR /sys/fs/cgroup 2>/dev/null; hostname \"$0\" && mount --bind \"$1\" /etc/hosts && ip link set lo up && echo up \
                    && while read -r line; do :; done";
/// How soon what is waited for is checked again.
const LOOK: Duration = Duration::from_millis(50);

fn unshare(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).args(["--fork", "--kill-child", "--mount-proc", program]);
    command
}

/// Waits until something is so.
#[track_caller]
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        // Polled: the condition is outside of this process and cannot notify.
        std::thread::park_timeout(LOOK);
    }
}

/// One machine. It ends with this value.
#[derive(Debug)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    unshare: Child,
    /// Its first process, as the outside numbers it.
    pub init: Pid,
}

impl Machine {
    /// Switches it on.
    pub fn boot(name: &str, hosts: &Path) -> Self {
        component::NAMESPACES.probe().expect("a test declares that it needs namespaces");
        let mut command = unshare("sh");
        command.args(["-c", INIT, name]).arg(hosts).stdin(Stdio::piped()).stdout(Stdio::piped());
        // It complains of how its child has ended.
        command.stderr(Stdio::null());
        let mut unshare = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(unshare.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "{name}");
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let init = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        Self { name: name.to_owned(), unshare, init: Pid::from_raw(init) }
    }

    /// A command on this machine.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.init.to_string()).args(NAMESPACES).arg("--").arg(program);
        command.stdin(Stdio::null());
        command
    }

    /// Sets up its network.
    #[track_caller]
    pub fn ip(&self, words: &str) {
        let output = self.command("ip").args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Machine {
    /// Lays a cable from the switch of a hub to another machine.
    pub fn connect(&self, machine: &Self, address: &str) {
        let name = &machine.name;
        // The other end is in the machine, whose process this is for `ip` of the outside only.
        let outside = Command::new("nsenter")
            .args(["--target", &self.init.to_string(), "--net", "ip", "link", "add", name])
            .args(["type", "veth", "peer", "name", "eth0", "netns", &machine.init.to_string()])
            .status();
        assert!(outside.unwrap().success(), "a cable to {name}");
        self.ip(&format!("link set {name} master br0 up"));
        machine.ip(&format!("addr add {address}/24 dev eth0"));
        machine.ip("link set eth0 up");
    }

    /// Makes it a hub: a switch, and an address on it.
    pub fn switch(&self, address: &str) {
        self.ip("link add br0 type bridge");
        self.ip(&format!("addr add {address}/24 dev br0"));
        self.ip("link set br0 up");
    }

    /// Ports that have a listener on it.
    pub fn listening(&self) -> Vec<u16> {
        let table = |name: &str| {
            std::fs::read_to_string(format!("/proc/{}/net/{name}", self.init)).unwrap_or_default()
        };
        let port = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_listening = fields.get(3) == Some(&"0A");
            u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok().filter(|_| is_listening)
        };
        [table("tcp"), table("tcp6")].iter().flat_map(|table| table.lines().filter_map(port)).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Fails where its power was cut.
        let _ = kill(self.init, Signal::SIGKILL);
        let _ = self.unshare.wait();
    }
}
