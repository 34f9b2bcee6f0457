//! Clusters of machines with real sshd: what comes up, what changes, what is left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use wharf_testing::machine::Machine;
use wharf_testing::needs;

use crate::launch::lab::{Lab, Said, program, until};

/// Where the launcher is.
const HUB: &str = "10.77.0.254";
/// Where sshd listens: not where it usually does.
pub(crate) const SSH_PORT: u16 = 2222;

const SSHD: &str = "/usr/sbin/sshd";

/// Three machines, and one from which they are launched.
pub(crate) struct Machines {
    pub(crate) lab: Lab,
    machines: BTreeMap<String, Machine>,
    sshd: BTreeMap<String, Child>,
    hub: Machine,
}

impl Machines {
    pub(crate) fn new() -> Self {
        let lab = Lab::new();
        let hosts = lab.write("hosts", "127.0.0.1 localhost\n");
        let hub = Machine::boot("hub", &hosts);
        hub.switch(HUB);
        for name in ["id", "stranger"] {
            keygen(&lab.path(name));
        }
        std::fs::copy(lab.path("id.pub"), lab.path("authorized_keys")).unwrap();
        let mut machines = Self { lab, machines: BTreeMap::new(), sshd: BTreeMap::new(), hub };
        for name in NODES {
            keygen(&machines.lab.path(&format!("{name}.hostkey")));
            std::fs::create_dir(machines.disk(name)).unwrap();
            machines.boot(name);
        }
        machines
    }

    /// What a machine has as its user's home, and keeps when its power is cut.
    pub(crate) fn disk(&self, name: &str) -> PathBuf {
        self.lab.path(&format!("{name}.disk"))
    }

    /// Switches a machine on.
    pub(crate) fn boot(&mut self, name: &str) {
        let machine = Machine::boot(name, &self.lab.path("hosts"));
        self.hub.connect(&machine, &address(name));
        // Its network card is another one after each boot, and the others would search for the old one for a while.
        for other in self.machines.values().chain([&self.hub]) {
            other.ip("neigh flush all");
        }
        let run = "mount --bind \"$0\" ~root && mount -t tmpfs tmpfs /run && mkdir /run/sshd";
        let mounted = machine.command("bash").args(["-c", run]).arg(self.disk(name)).status().unwrap();
        assert!(mounted.success());
        self.machines.insert(name.to_owned(), machine);
        self.start_sshd(name);
    }

    pub(crate) fn start_sshd(&mut self, name: &str) {
        self.start_sshd_at(name, &address(name), "");
    }

    /// Has a machine's sshd listen at an address, with more settings.
    pub(crate) fn start_sshd_at(&mut self, name: &str, address: &str, more: &str) {
        let folder = self.lab.path("");
        let settings = format!(
            "ListenAddress {address}:{SSH_PORT}\nHostKey {f}{name}.hostkey\nPidFile none\nAuthorizedKeysFile {f}authorized_keys\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin prohibit-password\n\
             StrictModes no\nUseDNS no\nMaxStartups 200\nMaxSessions 200\nPrintMotd no\nPrintLastLog no\nLogLevel ERROR\n{more}",
            f = folder.display(),
        );
        let settings = self.lab.write(&format!("{name}.sshd"), &settings);
        let machine = &self.machines[name];
        let mut command = machine.command(SSHD);
        command.args(["-D", "-e", "-f"]).arg(settings).env_clear().stderr(Stdio::null());
        self.sshd.insert(name.to_owned(), command.spawn().unwrap());
        until("sshd", || machine.listening().contains(&SSH_PORT).then_some(()));
    }

    /// The process of a machine's sshd that listens, as the outside numbers it.
    fn sshd(&self, name: &str) -> nix::unistd::Pid {
        let parent = self.sshd[name].id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let pid = std::fs::read_to_string(children).unwrap();
        nix::unistd::Pid::from_raw(pid.trim().parse().unwrap())
    }

    /// Has a machine's sshd do nothing for a while; it still listens.
    pub(crate) fn freeze_sshd(&self, name: &str) {
        kill(self.sshd(name), Signal::SIGSTOP).unwrap();
    }

    pub(crate) fn thaw_sshd(&self, name: &str) {
        kill(self.sshd(name), Signal::SIGCONT).unwrap();
        // What waits for it has stopped as well.
        let parent = i32::try_from(self.sshd[name].id()).unwrap();
        kill(nix::unistd::Pid::from_raw(parent), Signal::SIGCONT).unwrap();
    }

    pub(crate) fn stop_sshd(&mut self, name: &str) {
        kill(self.sshd(name), Signal::SIGKILL).unwrap();
        self.sshd.remove(name).unwrap().wait().unwrap();
    }

    pub(crate) fn cut_power(&mut self, name: &str) {
        self.hub.ip(&format!("link del {name}"));
        self.machines.remove(name).unwrap();
        self.sshd.remove(name).unwrap().wait().unwrap();
    }

    pub(crate) fn machine(&self, name: &str) -> &Machine {
        &self.machines[name]
    }

    /// The launcher's machine.
    pub(crate) fn hub(&self) -> &Machine {
        &self.hub
    }

    /// How many processes of the machines have this in their command lines.
    pub(crate) fn count(&self, text: &str) -> usize {
        let count = |machine: &Machine| {
            let listed = machine.command("ps").args(["-e", "-o", "args="]).output().unwrap();
            String::from_utf8(listed.stdout).unwrap().lines().filter(|line| line.contains(text)).count()
        };
        self.machines.values().map(count).sum()
    }

    /// A command of Wharf on the launcher's machine.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.hub.init.to_string(), "--net", "--"]).arg(program()).args(words);
        self.lab.hermetic(command)
    }

    pub(crate) fn wharf(&self, words: &[&str]) -> Said {
        self.command(words).output().unwrap().into()
    }

    pub(crate) fn up(&self, words: &[&str]) -> Said {
        let start = Instant::now();
        let said = self.wharf(&[&["up", "c.yaml", "--output", "json"], words].concat());
        eprintln!("up: {:.1} s, {:?}", start.elapsed().as_secs_f64(), said.code);
        said
    }

    /// A cluster of the three machines, and more of its file. A busy machine takes its time to answer.
    pub(crate) fn describe(&self, more: &str) {
        self.describe_within(60, more);
    }

    /// The same for tests in which machines do not answer: they are waited for so many seconds.
    pub(crate) fn describe_within(&self, seconds: u32, more: &str) {
        self.lab.describe(&format!(
            "cluster_name: ns\nprovider: {{type: local, head_ip: {}, worker_ips: [{}, {}]}}\n\
             auth: {{ssh_user: root, ssh_port: {SSH_PORT}, ssh_private_key: id}}\ndevices: cpu:1\nstart_timeout_s: {seconds}\n{more}\n",
            address("nd1"),
            address("nd2"),
            address("nd3"),
        ));
    }

    /// What is left of a cluster on the machines: processes, ports, files.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (name, machine) in &self.machines {
            let ports: Vec<u16> = machine.listening().into_iter().filter(|&port| port != SSH_PORT).collect();
            if !ports.is_empty() {
                left.push(format!("{name}: ports {ports:?}"));
            }
            if self.disk(name).join(".wharf").exists() {
                left.push(format!("{name}: files"));
            }
            let listed = machine.command("ps").args(["-e", "-o", "args="]).output().unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            let ours = listed.lines().filter(|line| line.contains(program().to_str().unwrap()));
            left.extend(ours.map(|line| format!("{name}: {line}")));
        }
        left
    }

    #[track_caller]
    pub(crate) fn down(&self) {
        let said = self.wharf(&["down", "c.yaml", "--yes"]).ends(0);
        assert!(said.stderr.contains("ns is down: 3 nodes"), "{said:?}");
        assert_eq!(self.left(), Vec::<String>::new());
        assert!(!self.lab.state("ns").exists());
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // Connections that are kept end with the machines; the processes that keep them soon after.
        self.machines.clear();
        for sshd in self.sshd.values_mut() {
            let _ = sshd.wait();
        }
    }
}

pub(crate) const NODES: [&str; 3] = ["nd1", "nd2", "nd3"];

pub(crate) fn address(name: &str) -> String {
    format!("10.77.0.{}", &name[2..])
}

pub(crate) fn keygen(path: &std::path::Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

/// The program is on all machines, as they share the file system.
pub(crate) fn own_program() -> String {
    format!("wharf: {{program: {}}}", program().display())
}

#[test]
fn machines_come_up_change_come_back_and_go_down() {
    needs!(NAMESPACES, SSHD);
    let mut machines = Machines::new();
    std::fs::create_dir(machines.lab.path("app")).unwrap();
    machines.lab.write("app/it's code.py", "1\n");
    let more = |setup: u32, policy: &str| {
        format!(
            "file_mounts: {{'~/my app': app}}\nsetup_commands: ['echo \"{setup} $RAY_HEAD_IP\" >> ~/trail']\n\
             wharf: {{program: {}, policy: {policy}}}",
            program().display()
        )
    };
    machines.describe(&more(1, "fifo"));
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach sync setup start"; 3]);
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach"; 3]);
    machines.lab.write("app/it's code.py", "2\n");
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach sync setup"; 3], "a changed file");
    let copied = machines.disk("nd3").join("my app/it's code.py");
    assert_eq!(std::fs::read_to_string(copied).unwrap(), "2\n");
    machines.describe(&more(2, "fifo"));
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach setup"; 3], "a changed set-up");
    let trail = std::fs::read_to_string(machines.disk("nd2").join("trail")).unwrap();
    assert_eq!(trail, "1 10.77.0.1\n1 10.77.0.1\n2 10.77.0.1\n");
    machines.describe(&more(2, "srtf"));
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach start", "reach", "reach"], "a changed start");

    let client = machines.lab.state("ns").join("client");
    let mut submit = machines.command(&["submit", "--wait", "--gang", "3x1", "--output-file"]);
    submit.arg(machines.lab.path("%n.out")).args(["--", "sh", "-c", "hostname"]).env("WHARF_HOME", &client);
    Said::from(submit.output().unwrap()).ends(0);
    let mut hosts: Vec<String> =
        (0..3).map(|rank| machines.lab.read(&format!("{rank}.out")).trim().to_owned()).collect();
    hosts.sort();
    assert_eq!(hosts, NODES);

    machines.cut_power("nd3");
    machines.describe_within(3, &more(2, "srtf"));
    let said = machines.up(&[]).ends(12);
    assert_eq!(said.phases(), ["reach", "reach", "failed"]);
    assert!(said.stderr.contains("10.77.0.3: it cannot be reached"), "{said:?}");
    machines.describe(&more(2, "srtf"));
    machines.boot("nd3");
    let said = machines.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach", "reach", "reach start"], "a node that is back");
    machines.down();
}

#[test]
fn the_program_is_copied_to_machines_that_do_not_have_it() {
    needs!(NAMESPACES, SSHD);
    let machines = Machines::new();
    machines.describe("");
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach sync start"; 3]);
    assert!(machines.disk("nd2").join(".wharf/ns/wharf").exists());
    let known = std::fs::read_to_string(machines.lab.state("ns").join("known_hosts")).unwrap();
    assert_eq!(known.lines().count(), 3, "{known}");
    machines.down();
}
