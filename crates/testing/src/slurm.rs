//! A private Slurm: several nodes on this machine, with files that stand for GPUs. Everything of it lives below one folder and
//! listens on free ports. All its processes end with the value.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::{component, find, machine};

/// How soon what is waited for is checked again.
const LOOK: Duration = Duration::from_millis(50);
/// What is waited for happens within this time on a busy machine, or not at all.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A Slurm.
#[derive(Debug)]
pub struct Slurm {
    folder: TempDir,
    rest: Option<Child>,
}

/// How slurmrestd authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Every client of the socket has the rights of the daemon's user.
    Socket,
    /// By a token.
    Token,
}

/// Waits until something is so.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    machine::until(what, PATIENCE, look)
}

impl Slurm {
    /// Starts one of so many nodes with so many processors and GPUs each.
    pub fn start(nodes: u32, cpus: u32, gpus: u32) -> Self {
        component::SLURM.probe().expect("a test declares that it needs Slurm");
        let slurm = Self { folder: tempfile::Builder::new().prefix("sl").tempdir().unwrap(), rest: None };
        let path = slurm.folder.path();
        for name in ["log", "state", "spool", "munge", "socket", "dev", "rest"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        for (name, mode) in [("", 0o755), ("munge", 0o700), ("socket", 0o755), ("rest", 0o777)] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        slurm.munge();
        slurm.configure(nodes, cpus, gpus);
        slurm.run("slurmctld", &[]);
        for node in 1..=nodes {
            slurm.start_node(&format!("n{node}"));
        }
        until("all nodes", || {
            (slurm.run("sinfo", &["-h", "-N", "-o", "%T"]).matches("idle").count() == nodes as usize)
                .then_some(())
        });
        slurm
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What programs have to know to reach it.
    pub fn conf(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    fn munge(&self) {
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        for (name, bytes) in [("munge/key", 1024), ("state/jwt.key", 32)] {
            // No other Slurm is on the same socket or ports.
            fs::write(path(name), vec![7; bytes]).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let options = [
            ("key-file", "munge/key"),
            ("socket", "socket/munge.sock"),
            ("pid-file", "socket/munged.pid"),
            ("log-file", "munge/munged.log"),
            ("seed-file", "munge/seed"),
        ];
        let options: Vec<String> =
            options.iter().map(|(name, file)| format!("--{name}={}", path(file))).collect();
        self.run("munged", &options.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn configure(&self, nodes: u32, cpus: u32, gpus: u32) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, path) = (host.trim(), self.folder.path().display());
        // Held until all are chosen, so that they differ.
        let ports: Vec<TcpListener> =
            (0..=nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |index: u32| ports[index as usize].local_addr().unwrap().port();
        let mut text = format!(
            "ClusterName=t\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={path}/socket/munge.sock\nCredType=cred/munge\n\
             AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={path}/state/jwt.key\n\
             StateSaveLocation={path}/state\nSlurmdSpoolDir={path}/spool/%n\nSlurmctldPidFile={path}/slurmctld.pid\n\
             SlurmdPidFile={path}/slurmd.%n.pid\nSlurmctldLogFile={path}/log/slurmctld.log\n\
             SlurmdLogFile={path}/log/slurmd.%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             SlurmdParameters=config_overrides\nGresTypes=gpu\nMpiDefault=none\nReturnToService=2\nSwitchType=switch/none\n\
             SchedulerType=sched/backfill\nSchedulerParameters=sched_min_interval=20000,sched_interval=1,batch_sched_delay=0,bf_interval=1\n\
             MinJobAge=300\nKillWait=10\nInactiveLimit=0\nSlurmdTimeout=5\nWaittime=0\n\
             AccountingStorageType=accounting_storage/none\n\
             PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            port(0)
        );
        let mut gres = String::new();
        for node in 1..=nodes {
            writeln!(
                text,
                "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs={cpus} Boards=1 SocketsPerBoard=1 \
                 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN{}",
                port(node),
                if gpus == 0 { String::new() } else { format!(" Gres=gpu:{gpus}") }
            )
            .unwrap();
            if let Some(last) = gpus.checked_sub(1) {
                writeln!(gres, "NodeName=n{node} Name=gpu File={path}/dev/n{node}-gpu[0-{last}]").unwrap();
            }
            for gpu in 0..gpus {
                let file = self.path(&format!("dev/n{node}-gpu{gpu}"));
                self.run("mknod", &[&file.to_string_lossy(), "c", "1", "3"]);
            }
        }
        fs::write(self.conf(), text).unwrap();
        fs::write(self.path("gres.conf"), gres).unwrap();
    }

    /// Starts a node's daemon.
    pub fn start_node(&self, node: &str) {
        self.run("slurmd", &["-N", node]);
    }

    /// A program with this Slurm around it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.conf()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs a program of Slurm's, which must succeed, and returns what it prints.
    #[track_caller]
    pub fn run(&self, program: &str, words: &[&str]) -> String {
        let output = self.command(find(program).unwrap()).args(words).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ids of jobs in these states, such as `RUNNING`, or `all`.
    pub fn jobs(&self, states: &str) -> Vec<String> {
        let text = self.run("squeue", &["-h", "-o", "%i", "-t", states]);
        text.lines().map(str::to_owned).collect()
    }

    /// Starts slurmrestd, which does not run as root.
    pub fn start_rest(&mut self, how: Rest) -> String {
        let mut command = self.command("setpriv");
        command
            .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"])
            .arg(find("slurmrestd").unwrap());
        command.args(["-s", "openapi/v0.0.38"]);
        let listen = match how {
            Rest::Socket => format!("unix:{}", self.path("rest/rest.sock").display()),
            Rest::Token => {
                let free = TcpListener::bind("127.0.0.1:0").unwrap();
                free.local_addr().unwrap().to_string()
            }
        };
        match how {
            Rest::Socket => command.args(["-a", "rest_auth/local"]),
            Rest::Token => command.args(["-a", "rest_auth/jwt"]).env("SLURM_JWT", "daemon"),
        };
        let log = fs::File::create(self.path("log/restd.log")).unwrap();
        self.rest = Some(command.arg(&listen).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        match how {
            Rest::Socket => {
                let socket = self.path("rest/rest.sock");
                until("slurmrestd", || std::os::unix::net::UnixStream::connect(&socket).ok());
                socket.to_string_lossy().into_owned()
            }
            Rest::Token => {
                until("slurmrestd", || std::net::TcpStream::connect(&listen).ok());
                listen
            }
        }
    }

    /// Cuts a node's power: its daemon, its steps and all that they have started are gone at once.
    pub fn cut_power(&self, node: &str) {
        let daemon = read_pid(&self.path(&format!("slurmd.{node}.pid"))).expect("the node runs");
        // Steps are no longer children of the daemon: they are known by the node's name.
        let named = format!("SLURMD_NODENAME={node}");
        let mut doomed = vec![daemon];
        for pid in self.processes() {
            if environment(pid).split('\0').any(|word| word == named) {
                doomed.extend(ancestors_and_descendants(pid, daemon));
            }
        }
        for pid in doomed {
            // Some end with others.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    /// All processes that have to do with this Slurm.
    pub fn processes(&self) -> Vec<Pid> {
        let mark = format!("SLURM_CONF={}", self.conf().display());
        let own = std::process::id().cast_signed();
        let has_mark = |pid: &Pid| environment(*pid).split('\0').any(|word| word == mark);
        pids().into_iter().filter(|pid| pid.as_raw() != own).filter(has_mark).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if let Some(rest) = &mut self.rest {
            let _ = rest.kill();
            let _ = rest.wait();
        }
        // Until none is left: one may have started another meanwhile.
        for _ in 0..100 {
            let left: Vec<Pid> = self.processes().into_iter().filter(|pid| !is_dead(*pid)).collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

fn read_pid(path: &Path) -> Option<Pid> {
    fs::read_to_string(path).ok()?.trim().parse().ok().map(Pid::from_raw)
}

fn pids() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.map(Pid::from_raw).collect()
}

fn environment(pid: Pid) -> String {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// State and parent of a process.
fn stat(pid: Pid) -> Option<(char, Pid)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, Pid::from_raw(words.next()?.parse().ok()?)))
}

/// A process that has ended, reaped or not.
pub fn is_dead(pid: Pid) -> bool {
    stat(pid).is_none_or(|(state, _)| state == 'Z')
}

/// A process, the step that it belongs to, and all that it has started.
fn ancestors_and_descendants(pid: Pid, daemon: Pid) -> Vec<Pid> {
    let mut found = vec![pid];
    let mut above = stat(pid).map(|(_, parent)| parent);
    while let Some(parent) = above.filter(|parent| parent.as_raw() > 1 && *parent != daemon) {
        found.push(parent);
        above = stat(parent).map(|(_, parent)| parent);
    }
    let all: Vec<(Pid, Pid)> = pids().into_iter().filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut next = 0;
    while next < found.len() {
        let children = all.iter().filter(|(_, parent)| *parent == found[next]).map(|(child, _)| *child);
        let new: Vec<Pid> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
        next += 1;
    }
    found
}
