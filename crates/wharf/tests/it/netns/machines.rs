//! Machines made of namespaces, on one switch, with a head and workers.
//!
//! Everything, the switch between them included, lives in namespaces, so that tests do not see each other.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

pub(crate) use wharf_testing::machine::{Machine, until};

/// The machine that the head runs on; the switch is there as well.
const HUB: &str = "hub";
const HUB_ADDRESS: &str = "10.77.0.254";
const PORT: u16 = 7717;

/// A head and workers, each on a machine of its own, on one switch.
pub(crate) struct Cluster {
    machines: Vec<Machine>,
    hub: Machine,
    daemons: Vec<Child>,
    folder: TempDir,
}

impl Cluster {
    /// Nodes `nd1`, `nd2`, ... with two devices each, that have joined with a token.
    pub(crate) fn new(nodes: usize, lost_after_s: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("hosts");
        let names = (1..=nodes).map(|index| format!("10.77.0.{index} nd{index}\n"));
        std::fs::write(
            &hosts,
            format!("127.0.0.1 localhost\n{HUB_ADDRESS} {HUB}\n{}", names.collect::<String>()),
        )
        .unwrap();
        let hub = Machine::boot(HUB, &hosts);
        hub.switch(HUB_ADDRESS);
        let mut cluster = Self { machines: Vec::new(), hub, daemons: Vec::new(), folder };
        cluster.start_head(lost_after_s);
        for index in 1..=nodes {
            cluster.add(index, &hosts);
        }
        cluster
    }

    fn start_head(&mut self, lost_after_s: u32) {
        self.say(&["head", "init", "--host", HUB_ADDRESS]);
        let listen = format!("{HUB_ADDRESS}:{PORT}");
        let seconds = lost_after_s.to_string();
        let head = self.wharf(&["head", "--listen", &listen, "--lost-after", &seconds]);
        self.start(head, HUB, "listens on");
        let token = self.path("join.token");
        self.say(&["token", "create", "--role", "worker", "--nodes", "8", "--to", token.to_str().unwrap()]);
    }

    fn add(&mut self, index: usize, hosts: &Path) {
        let (name, address) = (format!("nd{index}"), format!("10.77.0.{index}"));
        let machine = Machine::boot(&name, hosts);
        self.hub.connect(&machine, &address);
        let mut worker = machine.command(env!("CARGO_BIN_EXE_wharf"));
        worker
            .args(["worker", "--devices", "cpu:2", "--node", &name, "--address", &address])
            .args(["--head", &format!("{HUB_ADDRESS}:{PORT}")])
            .arg("--join-token-file")
            .arg(self.path("join.token"))
            .env("WHARF_HOME", self.path(&name));
        self.machines.push(machine);
        self.start(worker, &name, WELCOME);
    }

    /// Starts a daemon whose messages go to a file, and waits until it is ready.
    fn start(&mut self, mut command: Command, name: &str, ready: &str) {
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        self.daemons.push(command.stderr(log).spawn().unwrap());
        until(&format!("{name}: {ready}"), Duration::from_secs(30), || {
            (self.messages(name, ready) > 0).then_some(())
        });
    }

    /// How often the worker of a node, or the head, has said something.
    pub(crate) fn messages(&self, name: &str, text: &str) -> usize {
        self.read(&format!("{name}.log")).matches(text).count()
    }

    /// A file or folder that all machines see.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a file has so far.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A command of Wharf on the head's machine.
    pub(crate) fn wharf(&self, words: &[&str]) -> Command {
        let mut command = self.hub.command(env!("CARGO_BIN_EXE_wharf"));
        command.args(words).env("WHARF_HOME", self.path("head"));
        command
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.wharf(words).output().unwrap();
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// A command that submits a job, which runs in the folder that all machines see.
    pub(crate) fn submit(&self, options: &str, command: &[&str]) -> Command {
        let mut submit = self.wharf(&["submit", "--workdir"]);
        submit.arg(self.folder.path()).args(options.split(' ')).arg("--").args(command);
        submit
    }

    /// Shows what there is to find out with why a test has failed.
    fn tell_all(&self) {
        let jobs = self.wharf(&["jobs", "--all"]).output();
        let jobs = jobs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        eprintln!("{}", jobs.unwrap_or_default());
        for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = self.read(&name);
            let from = text.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
            if !name.ends_with("token") && !text.is_empty() {
                eprintln!("--- {name}\n{}", &text[from..]);
            }
        }
    }

    /// Ports with listeners on a node.
    pub(crate) fn listening(&self, node: &str) -> Vec<u16> {
        let machine = self.machines.iter().find(|machine| machine.name == node).unwrap();
        machine.listening()
    }

    /// Pulls the network cable of a node, or plugs it in again.
    pub(crate) fn plug(&self, node: &str, is_in: bool) {
        self.hub.ip(&format!("link set {node} {}", if is_in { "up" } else { "down" }));
    }

    /// Cuts the power of a node: everything stops immediately, without a deregistration.
    pub(crate) fn cut_power(&self, node: &str) {
        self.plug(node, false);
        let machine = self.machines.iter().find(|machine| machine.name == node).unwrap();
        kill(machine.init, Signal::SIGKILL).unwrap();
    }
}

/// What a worker states when the head has taken it.
pub(crate) const WELCOME: &str = "accepted this worker";

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell_all();
        }
        for machine in self.machines.iter().chain([&self.hub]) {
            // Fails where its power was cut.
            let _ = kill(machine.init, Signal::SIGKILL);
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}
