//! A real Slurm on this machine, with several nodes and tuned for arrays of short jobs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const CONTROLLER_PORT: u32 = 16_817;
const NODE_PORT: u32 = 17_000;

pub(crate) struct Slurm {
    folder: TempDir,
}

impl Slurm {
    /// Starts one, where there is one to start.
    pub(crate) fn start(nodes: u32, cpus: u32) -> Option<Self> {
        let has = |program: &str| find(program).is_some();
        if !nix::unistd::geteuid().is_root()
            || !["munged", "slurmctld", "slurmd", "sbatch"].into_iter().all(has)
        {
            return None;
        }
        let slurm = Self { folder: tempfile::tempdir().unwrap() };
        let path = slurm.folder.path();
        for name in ["log", "state", "spool", "munge", "socket"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        for (name, mode) in [("", 0o755), ("munge", 0o700), ("socket", 0o755)] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        slurm.munge();
        fs::write(path.join("slurm.conf"), configuration(path, nodes, cpus)).unwrap();
        slurm.run("slurmctld", &[]);
        for node in 1..=nodes {
            slurm.run("slurmd", &["-N", &format!("n{node}")]);
        }
        while slurm.run("sinfo", &["-h", "-N", "-o", "%T"]).matches("idle").count() < nodes as usize {}
        Some(slurm)
    }

    fn munge(&self) {
        let path = |name: &str| self.folder.path().join(name).to_string_lossy().into_owned();
        let key = path("munge/key");
        fs::write(&key, [7; 1024]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
        let (socket, pid) = (path("socket/munge.sock"), path("socket/munged.pid"));
        let (log, seed) = (path("munge/munged.log"), path("munge/seed"));
        self.run(
            "munged",
            &[
                &format!("--key-file={key}"),
                &format!("--socket={socket}"),
                &format!("--pid-file={pid}"),
                &format!("--log-file={log}"),
                &format!("--seed-file={seed}"),
            ],
        );
    }

    /// Runs a program of Slurm's and returns what it prints.
    fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(find(program).unwrap());
        command.args(words).env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        command.current_dir(self.folder.path());
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs an array of `/bin/true` and states how long that took: until as many jobs are noted as completed.
    pub(crate) fn run_array(&self, count: u32) -> Duration {
        let log = self.folder.path().join("log/jobcomp.txt");
        let done = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        let before = done();
        let began = Instant::now();
        let array = format!("--array=1-{count}");
        self.run("sbatch", &[&array, "--output=/dev/null", "--wrap=/bin/true"]);
        while done() < before + count as usize {
            // Looking without a pause would take the processor from what is measured.
            self.run("sleep", &["0.05"]);
        }
        began.elapsed()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            stop(&entry.path());
        }
        stop(&self.folder.path().join("socket/munged.pid"));
    }
}

/// Ends the daemon that a file names.
fn stop(path: &Path) {
    if path.extension().is_some_and(|extension| extension == "pid")
        && let Ok(text) = fs::read_to_string(path)
        && let Ok(pid) = text.trim().parse()
    {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].into_iter().map(Path::new);
    folders.map(|folder| folder.join(program)).find(|path| path.exists())
}

fn configuration(path: &Path, nodes: u32, cpus: u32) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (path, host) = (path.display(), host.trim());
    let mut text = format!(
        "ClusterName=t\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={CONTROLLER_PORT}\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={path}/socket/munge.sock\nCredType=cred/munge\n\
         StateSaveLocation={path}/state\nSlurmdSpoolDir={path}/spool/%n\nSlurmctldPidFile={path}/slurmctld.pid\n\
         SlurmdPidFile={path}/slurmd.%n.pid\nSlurmctldLogFile={path}/log/slurmctld.log\nSlurmdLogFile={path}/log/slurmd.%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\nMpiDefault=none\n\
         ReturnToService=2\nSwitchType=switch/none\nSchedulerType=sched/backfill\n\
         SchedulerParameters=default_queue_depth=2000,partition_job_depth=2000,sched_min_interval=20000,sched_interval=1,\
         batch_sched_delay=0,bf_interval=1\nMaxArraySize=100001\nMaxJobCount=100000\nMinJobAge=300\nKillWait=5\nInactiveLimit=0\n\
         SlurmdTimeout=300\nWaittime=0\nJobCompType=jobcomp/filetxt\nJobCompLoc={path}/log/jobcomp.txt\n\
         AccountingStorageType=accounting_storage/none\nPartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    );
    for node in 1..=nodes {
        let port = NODE_PORT + node;
        writeln!(
            text,
            "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 SocketsPerBoard=1 \
             CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN"
        )
        .unwrap();
    }
    text
}
