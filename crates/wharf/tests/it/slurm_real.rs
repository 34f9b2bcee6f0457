//! The same scripts through a real Slurm and through Wharf: what comes of them is the same.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cluster::{Cluster, Daemon};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const NODES: [&str; 2] = ["n1", "n2"];
const CPUS: u32 = 4;

/// Slurm's daemons on private ports, in a private folder.
struct Slurm {
    folder: TempDir,
}

impl Slurm {
    /// Starts them; none, and loudly so, where they are not installed or this is not root.
    fn start() -> Option<Self> {
        let is_installed = ["munged", "slurmctld", "slurmd", "sbatch"].iter().all(|name| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
            folders.into_iter().any(|folder| folder.join(name).exists())
        });
        if !is_installed || !nix::unistd::geteuid().is_root() {
            crate::sandbox::not_run(
                "comparison with a real Slurm needs root and Slurm; apt-get install slurmctld slurmd slurm-client munge",
            );
            return None;
        }
        let slurm = Self { folder: tempfile::Builder::new().prefix("sl").tempdir_in("/tmp").unwrap() };
        slurm.configure();
        slurm.daemon("munged", &slurm.munge_options());
        slurm.daemon("slurmctld", &[]);
        for node in NODES {
            slurm.daemon("slurmd", &["-N".into(), node.into()]);
        }
        let start = Instant::now();
        while slurm.say("sinfo", &["-h", "-N", "-o", "%T"]).matches("idle").count() < NODES.len() {
            assert!(start.elapsed() < PATIENCE, "Slurm's nodes do not come up: {}", slurm.say("sinfo", &[]));
            std::thread::yield_now();
        }
        Some(slurm)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn munge_options(&self) -> Vec<String> {
        let option = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        vec![
            option("key-file", "munge/key"),
            option("socket", "run/munge.sock"),
            option("pid-file", "munged.pid"),
            option("log-file", "munge/log"),
            option("seed-file", "munge/seed"),
            "--num-threads=2".to_owned(),
        ]
    }

    fn configure(&self) {
        let mode = |name: &str, mode| {
            std::fs::create_dir_all(self.path(name)).unwrap();
            std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::set_permissions(self.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        ["log", "state", "spool", "run"].iter().for_each(|name| mode(name, 0o755));
        mode("munge", 0o700);
        std::fs::write(self.path("munge/key"), [7_u8; 1024]).unwrap();
        std::fs::set_permissions(self.path("munge/key"), std::fs::Permissions::from_mode(0o400)).unwrap();
        let listeners: Vec<TcpListener> =
            (0..=NODES.len()).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|one| one.local_addr().unwrap().port()).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, root) = (host.trim(), self.folder.path().display());
        let mut text = format!(
            "ClusterName=t\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={root}/run/munge.sock\nCredType=cred/munge\nStateSaveLocation={root}/state\n\
             SlurmdSpoolDir={root}/spool/%n\nSlurmctldPidFile={root}/slurmctld.pid\nSlurmdPidFile={root}/slurmd.%n.pid\n\
             SlurmctldLogFile={root}/log/slurmctld.log\nSlurmdLogFile={root}/log/slurmd.%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\nMpiDefault=none\n\
             ReturnToService=2\nSwitchType=switch/none\nSchedulerType=sched/backfill\n\
             SchedulerParameters=sched_min_interval=20000,sched_interval=1,batch_sched_delay=0,bf_interval=1\n\
             MinJobAge=300\nKillWait=5\nInactiveLimit=0\nAccountingStorageType=accounting_storage/none\n\
             PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0]
        );
        for (node, port) in NODES.iter().zip(&ports[1..]) {
            text += &format!(
                "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} Boards=1 SocketsPerBoard=1 \
                 CoresPerSocket={CPUS} ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN\n"
            );
        }
        std::fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin")).env("SLURM_CONF", self.path("slurm.conf"));
        command.stdin(Stdio::null());
        command
    }

    /// A daemon that goes into the background by itself, and leaves its number in a file.
    fn daemon(&self, program: &str, options: &[String]) {
        let done = self.command(program).args(options).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn say(&self, program: &str, words: &[&str]) -> String {
        String::from_utf8(self.command(program).args(words).output().unwrap().stdout).unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let mut names: Vec<String> = NODES.iter().map(|node| format!("slurmd.{node}.pid")).collect();
        names.extend(["slurmctld.pid".to_owned(), "munged.pid".to_owned()]);
        for name in names {
            let pid =
                std::fs::read_to_string(self.path(&name)).ok().and_then(|text| text.trim().parse().ok());
            if let Some(pid) = pid {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
                let start = Instant::now();
                while is_running(pid) && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// A process that has ended and that nobody has collected yet does not run.
fn is_running(pid: nix::unistd::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Both, each with a folder for its scripts.
struct Both {
    slurm: Slurm,
    _daemons: Vec<Daemon>,
    wharf: Cluster,
    folders: [TempDir; 2],
}

/// What came of a script: exit code of `sbatch --wait`, and the files that it left, with the job's id in their names and texts as `J`.
#[derive(Debug, PartialEq)]
struct Came {
    code: Option<i32>,
    files: BTreeMap<String, String>,
}

impl Both {
    fn new() -> Option<Self> {
        let slurm = Slurm::start()?;
        let wharf = Cluster::new();
        let mut daemons = vec![wharf.head()];
        for node in NODES {
            let devices = format!("cpu:{CPUS}");
            daemons.push(
                wharf.daemon(&["worker", "--node", node, "--devices", &devices], "has let this worker in"),
            );
        }
        let folder = |_| tempfile::tempdir().unwrap();
        Some(Self { slurm, _daemons: daemons, wharf, folders: [0, 1].map(folder) })
    }

    /// Runs a script through one of the two, in a folder of its own.
    fn run(&self, which: usize, name: &str, script: &str, options: &[&str]) -> Came {
        let folder = self.folders[which].path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("s.sh"), script).unwrap();
        let words = [&["--wait", "--parsable"], options, &["s.sh", "word"]].concat();
        let output = self.sbatch(which, &folder, &words);
        let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        assert!(
            !id.is_empty() || output.status.code() != Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::remove_file(folder.join("s.sh")).unwrap();
        let root = folder.to_string_lossy().into_owned();
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap().replace(&root, "FOLDER");
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (if id.is_empty() { name } else { numbered(&name, &id) }, text)
        };
        Came { code: output.status.code(), files: std::fs::read_dir(&folder).unwrap().map(file).collect() }
    }

    fn sbatch(&self, which: usize, folder: &Path, words: &[&str]) -> Output {
        let mut command = match which {
            0 => self.slurm.command("sbatch"),
            _ => {
                let mut command = self.wharf.command(&["sbatch"]);
                command.env_remove("SLURM_CONF");
                command
            }
        };
        command.args(words).current_dir(folder).env("GREETING", "hello").output().unwrap()
    }
}

/// A name with the job's id, where it stands alone, as `J`.
fn numbered(name: &str, id: &str) -> String {
    let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once(id) {
        text += before;
        let is_alone = !is_digit(text.chars().last()) && !is_digit(after.chars().next());
        text += if is_alone { "J" } else { id };
        rest = after;
    }
    text + rest
}

/// Scripts, and how they are submitted.
const SCRIPTS: &[(&str, &str, &[&str])] = &[
    ("plain", "#!/bin/bash\necho $GREETING $1 $SLURM_JOB_NAME\n", &[]),
    ("code", "#!/bin/bash\nexit 3\n", &[]),
    ("killed", "#!/bin/bash\nkill -9 $$\n", &[]),
    (
        "files",
        "#!/bin/sh\n#SBATCH -J nm -o o-%x_%j_%A_%a_%t_%s_%q_%% -e e-%u\necho out; echo err >&2\n",
        &["-w", "n1"],
    ),
    (
        "array",
        "#!/bin/sh\n#SBATCH --array=102-108:3%2 -o a-%A_%a\necho $SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID\n",
        &[],
    ),
    ("usual", "#!/bin/sh\n#SBATCH --array=101,105\ntrue\n", &[]),
    (
        "python",
        "#!/usr/bin/env python3\n#SBATCH -o out\nimport os\nprint(os.environ['SLURM_NNODES'])\n",
        &["-N2"],
    ),
    ("none", "#!/bin/sh\necho $GREETING-$SLURM_EXPORT_ENV\n", &["-o", "out", "--export=NONE"]),
    ("some", "#!/bin/sh\necho $GREETING $A-$SLURM_EXPORT_ENV\n", &["-o", "out", "--export=GREETING,A=1"]),
    ("cwd", "#!/bin/sh\npwd; echo $SLURM_SUBMIT_DIR\n", &["-o", "FOLDER/out", "-D", "/tmp"]),
];

/// Variables whose values are the same in both; of those of `env` scripts.
const VARIABLES: &str = "#!/bin/bash\nfor name in JOB_NAME JOB_NODELIST NODELIST NNODES JOB_NUM_NODES JOB_CPUS_PER_NODE CPUS_ON_NODE \
    TASKS_PER_NODE NTASKS NPROCS NTASKS_PER_NODE CPUS_PER_TASK MEM_PER_NODE MEM_PER_CPU ARRAY_TASK_ID ARRAY_TASK_COUNT ARRAY_TASK_MIN \
    ARRAY_TASK_MAX ARRAY_TASK_STEP NODEID PROCID LOCALID GTIDS SUBMIT_DIR SUBMIT_HOST JOB_USER JOB_UID JOB_GID NODE_ALIASES \
    PRIO_PROCESS TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN JOB_PARTITION OVERCOMMIT RESTART_COUNT GPUS EXPORT_ENV; do\n\
    name=SLURM_$name; echo $name=${!name-unset}; done\necho $SLURMD_NODENAME $ENVIRONMENT $TMPDIR\n";

/// How those are submitted.
const ENVIRONMENTS: &[&[&str]] = &[
    &["-w", "n1"],
    &["-N2"],
    &["-n4", "-w", "n1"],
    &["-N2", "--ntasks-per-node=2"],
    &["-c3", "-w", "n1"],
    &["-n2", "-c2", "-J", "named", "-w", "n1"],
    &["--overcommit", "-n4", "-w", "n1"],
    &["--exclusive", "-w", "n1"],
    &["--array=105", "-w", "n1"],
    &["--array=102-108:3%2", "-w", "n1"],
];

#[test]
fn scripts_come_to_the_same_through_slurm_and_wharf() {
    let Some(both) = Both::new() else { return };
    for (name, script, options) in SCRIPTS {
        let came = [0, 1].map(|which| {
            let folder = both.folders[which].path().join(name).to_string_lossy().into_owned();
            let options: Vec<String> =
                options.iter().map(|option| option.replace("FOLDER", &folder)).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            both.run(which, name, script, &options)
        });
        assert_eq!(came[1], came[0], "{name}: Wharf at the left, Slurm at the right");
    }
    for (index, options) in ENVIRONMENTS.iter().enumerate() {
        let options = [options, &["-o", "env-%a"][..]].concat();
        let came = [0, 1].map(|which| both.run(which, &format!("env{index}"), VARIABLES, &options));
        assert!(!came[0].files.is_empty(), "{options:?}");
        assert_eq!(came[1], came[0], "{options:?}: Wharf at the left, Slurm at the right");
    }
}

#[test]
fn states_and_names_of_variables_are_slurms() {
    let Some(both) = Both::new() else { return };
    // Those that Slurm sets and Wharf does not: where its configuration is.
    let all = "#!/bin/sh\nenv | sed -n 's/^\\(SLURM[A-Z_]*\\)=.*/\\1/p' | sort\n";
    let names = [0, 1].map(|which| {
        let came = both.run(which, "names", all, &["-o", "out", "-n2", "-c2", "--mem=100"]);
        came.files["out"].lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let missing: Vec<&String> =
        names[0].iter().filter(|name| !names[1].contains(name) && *name != "SLURM_CONF").collect();
    assert!(missing.is_empty(), "Slurm has {missing:?}, too; Wharf has {:?}", names[1]);
    let more: Vec<&String> = names[1].iter().filter(|name| !names[0].contains(name)).collect();
    assert!(more.is_empty(), "Wharf has {more:?}, too");

    for (body, expected) in [
        ("true", "COMPLETED 0:0"),
        ("exit 5", "FAILED 5:0"),
        ("kill -15 $$", "FAILED 0:15"),
        ("exec 2>&1; /no/such", "FAILED 127:0"),
    ] {
        let script = format!("#!/bin/bash\n#SBATCH -o /dev/null\n{body}\n");
        let states = [0, 1].map(|which| {
            let folder = both.folders[which].path();
            std::fs::write(folder.join("state.sh"), &script).unwrap();
            let output = both.sbatch(which, folder, &["--wait", "--parsable", "state.sh"]);
            let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            let shown = match which {
                0 => both.slurm.say("scontrol", &["-o", "show", "job", &id]),
                _ => both.wharf.say(&["scontrol", "-o", "show", "job", &id]),
            };
            let value = |name: &str| {
                let found = shown.split_whitespace().find_map(|word| word.strip_prefix(name));
                found.unwrap_or_else(|| panic!("{name} in {shown}")).to_owned()
            };
            format!("{} {}", value("JobState="), value("ExitCode="))
        });
        assert_eq!(states, [expected, expected], "{body}");
    }
}
