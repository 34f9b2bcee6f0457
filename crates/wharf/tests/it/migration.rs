//! `docs/migration.md`: every command of Wharf that it shows is executed here, and none is executed that it does not show.
//!
//! A command is shown with names instead of files and jobs, and sometimes without its arguments: each row has what stands in their place, and
//! what is added. What needs a machine that a test does not have is checked without being done (`--dry-run`), or only read (`--help`).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wharf_testing::{needs, reference};

use crate::cluster::Cluster;
use crate::sandbox::program;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A command that the document shows, and the words that make it one that can be executed.
struct Shown {
    command: &'static str,
    in_place: &'static [(&'static str, &'static str)],
    added: &'static str,
}

const fn shown(command: &'static str) -> Shown {
    Shown { command, in_place: &[], added: "" }
}

const fn with(command: &'static str, added: &'static str) -> Shown {
    Shown { command, in_place: &[], added }
}

/// On a cluster of one node, `n1`, on which job 0 runs; jobs 1 to 8, 9 to 16, 17 and 18 wait.
const SLURM: &[Shown] = &[
    with("wharf slurm-shims ~/bin/slurm", "&& ~/bin/slurm/squeue --me"),
    shown("wharf sbatch --array=1-8%4 train.sh"),
    shown("wharf submit --array 1-8 -- ./train.sh"),
    with("wharf submit", "-- true"),
    Shown { command: "wharf submit", in_place: &[], added: "--held -- true" },
    shown("wharf squeue --me"),
    shown("wharf jobs"),
    Shown { command: "wharf explain JOB", in_place: &[("JOB", "17")], added: "" },
    shown("wharf scancel 17"),
    Shown { command: "wharf cancel 17", in_place: &[("17", "18")], added: "" },
    shown("wharf sinfo -N -l"),
    shown("wharf nodes"),
    Shown { command: "wharf exec --pty JOB", in_place: &[("JOB", "0")], added: "-- true" },
    with("wharf top", "--once"),
    shown("wharf sacct"),
    shown("wharf usage"),
    shown("wharf limits apply limits.toml"),
    Shown { command: "wharf policy set NAME", in_place: &[("NAME", "srtf")], added: "" },
    shown("wharf whatif --policy srtf,tiresias"),
    shown("wharf node drain n1 --reason disk"),
    // Needs a Slurm: `pilot::` has one.
    with("wharf pilot slurm", "--help"),
];

/// On a cluster file whose nodes are processes of this machine.
const LAUNCHER: &[Shown] = &[
    with("wharf up", "cluster.yaml --check"),
    shown("wharf up cluster.yaml"),
    with("wharf attach cluster.yaml", "< commands"),
    shown("wharf cluster exec cluster.yaml -- nvidia-smi"),
    with("wharf rsync-up", "cluster.yaml train.sh train.sh"),
    with("wharf rsync-down", "cluster.yaml train.sh copy.sh"),
    with("wharf get-head-ip", "cluster.yaml"),
    with("wharf get-worker-ips", "cluster.yaml"),
    with("wharf down cluster.yaml", "--yes"),
    with("wharf down", "cluster.yaml --yes"),
    // Ports and addresses of the hosts in it: checked, not used.
    with("wharf up cluster_spec.json", "--check"),
    // Needs Ray: `ray::` has one.
    Shown {
        command: "wharf submit --ray-address http://host:8265 -- python train.py",
        in_place: &[("submit", "submit --dry-run")],
        added: "",
    },
    with("wharf ray", "list --help"),
    with("wharf tune", "start --help"),
];

/// Without a cluster, on files of published systems.
const FILES: &[Shown] = &[
    shown("wharf sim --preset muri --policy muri-s --trace trace.csv --cluster n8g8.csv"),
    shown("wharf policies --from muri"),
    shown("wharf presets show muri"),
    shown("wharf policy explain muri-l"),
    with(
        "wharf replay --trace trace.csv --policy multi-resource-blossom-same-gpu --cluster 4x8",
        "--dry-run",
    ),
    shown("wharf policies --from gavel"),
    shown("wharf presets show gavel"),
    with("wharf sweep scenario.toml", "--out swept"),
    shown("wharf policy explain crius"),
    shown("wharf policies --from crius"),
    Shown {
        command: "wharf replay --policy gavel --set sched_with_opt=on --rounds 72 --network-interface ib0.8068 --trace runtime_trace.csv --cluster cluster_spec.json",
        in_place: &[("ib0.8068", "lo")],
        added: "--dry-run",
    },
    with(
        "wharf replay --network-interface",
        "lo --policy fcfs --trace runtime_trace.csv --cluster cluster_spec.json --dry-run",
    ),
    shown("wharf plan --model gpt-2.6b --batch 256 --gpus a40:8"),
    // Daemons: `cluster::` starts them.
    with("wharf head", "--help"),
    with("wharf worker", "--help"),
    with("wharf worker --network-interface", "lo --help"),
    // Needs a registry: `registry::` has one.
    with("wharf image pull", "--help"),
];

/// On the reference data of published systems.
const REFERENCE: &[Shown] = &[
    Shown {
        command: "wharf sim --preset gavel --trace TRACE --policy max-min-fairness-perf --cluster v100:36,p100:36,k80:36 --profile simulation_throughputs.json",
        in_place: &[("TRACE", "gavel.trace")],
        added: "",
    },
    Shown {
        command: "wharf sim --preset crius --policy crius --trace simulate_trace_philly.csv --cluster sim_cluster_spec.json --profile FOLDER --rounds 2000",
        in_place: &[
            ("simulate_trace_philly.csv", "simulate_trace_tiny.csv"),
            ("FOLDER", "crius"),
            ("2000", "20"),
        ],
        added: "",
    },
    with("wharf profile import", "--into speeds.json simulation_throughputs.json --dry-run"),
];

/// A folder in which such commands are executed.
struct Lab {
    cluster: Cluster,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { cluster: Cluster::new() };
        std::fs::create_dir_all(lab.path("bin")).unwrap();
        std::os::unix::fs::symlink(program(), lab.path("bin/wharf")).unwrap();
        lab.script("train.sh", "#!/bin/sh\necho trained\n");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.path(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn link(&self, name: &str, to: &Path) {
        std::os::unix::fs::symlink(to.canonicalize().unwrap(), self.path(name)).unwrap();
    }

    /// Executes a command as people do, in a shell.
    #[track_caller]
    fn execute(&self, shown: &Shown) -> String {
        let mut line = shown.command.to_owned();
        for (word, with) in shown.in_place {
            assert!(line.contains(word), "{line} has no {word}");
            line = line.replacen(word, with, 1);
        }
        let line = format!("{line} {}", shown.added);
        let search = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let home = self.cluster.folder.path();
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(home).stdin(Stdio::null()).env_clear();
        shell.env("PATH", search).env("HOME", home).env("WHARF_HOME", home).env("WHARF_CONFIG", "/dev/null");
        shell.env("USER", std::env::var("USER").unwrap_or_else(|_| "root".to_owned()));
        let output = shell.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {:?} {told}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned() + &told
    }

    #[track_caller]
    fn execute_all(&self, commands: &[Shown]) {
        commands.iter().for_each(|shown| drop(self.execute(shown)));
    }
}

/// All commands of Wharf that the document shows.
fn of_document() -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(WORKSPACE).join("docs/migration.md")).unwrap();
    // Every second piece between backquotes is code.
    let spans = text.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "));
    spans.filter(|span| span.starts_with("wharf ")).collect()
}

#[test]
fn every_command_of_the_document_is_executed() {
    let executed = [SLURM, LAUNCHER, FILES, REFERENCE].into_iter().flatten();
    let executed: BTreeSet<String> = executed.map(|shown| shown.command.to_owned()).collect();
    let document = of_document();
    let missing: Vec<_> = document.difference(&executed).collect();
    let unknown: Vec<_> = executed.difference(&document).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "not executed: {missing:#?}; not shown: {unknown:#?}");
    assert!(document.len() > 50, "{}", document.len());
}

#[test]
fn commands_for_users_of_slurm_work_on_a_cluster() {
    let lab = Lab::new();
    lab.write("limits.toml", "[default.user]\njobs = 100\n");
    let _head = lab.cluster.head();
    let worker = ["worker", "--node", "n1", "--devices", "cpu:4"];
    let _worker = lab.cluster.daemon(&worker, "accepted this worker");
    lab.cluster.say(&["submit", "--gang", "4", "--", "sleep", "600"]);
    crate::exec::until("the job to run", || lab.cluster.say(&["jobs"]).contains("running"));
    lab.execute_all(SLURM);
    let jobs = lab.cluster.say(&["jobs", "--all", "--output", "plain"]);
    let is_cancelled = |id: &str| {
        jobs.lines().any(|line| line.starts_with(&format!("{id}\t")) && line.contains("cancelled"))
    };
    assert!(is_cancelled("17") && is_cancelled("18"), "{jobs}");
    assert!(lab.cluster.say(&["policy", "show"]).contains("srtf"));
    let nodes = lab.cluster.say(&["nodes", "--output", "plain"]);
    assert!(nodes.lines().any(|line| line.starts_with("n1\t") && line.ends_with("\tdisk")), "{nodes}");
    lab.cluster.say(&["cancel", "--all"]);
    lab.cluster.say(&["node", "resume", "n1"]);
    lab.cluster.say(&["submit", "--wait", "--", "true"]);
}

#[test]
fn commands_for_users_of_rays_launcher_work_on_processes() {
    let lab = Lab::new();
    let found = format!("echo 'export PATH={}:$PATH' >> ~/.bashrc", lab.path("bin").display());
    lab.write(
        "cluster.yaml",
        &format!("cluster_name: moved\nprovider: {{type: process, workers: 1}}\ndevices: cpu:1\nsetup_commands:\n- {found}\n"),
    );
    lab.script("bin/nvidia-smi", "#!/bin/sh\necho stand-in\n");
    lab.write("commands", "echo attached\nexit\n");
    lab.link(
        "cluster_spec.json",
        &Path::new(WORKSPACE).join("examples/workflows/crius-runtime/cluster_spec.json"),
    );
    let said: Vec<String> = LAUNCHER.iter().map(|shown| lab.execute(shown)).collect();
    let of = |command: &str| {
        let index = LAUNCHER.iter().position(|shown| shown.command == command).unwrap();
        said[index].as_str()
    };
    assert!(of("wharf attach cluster.yaml").contains("attached"), "{said:#?}");
    assert!(of("wharf cluster exec cluster.yaml -- nvidia-smi").contains("stand-in"), "{said:#?}");
    assert_eq!(std::fs::read(lab.path("copy.sh")).unwrap(), std::fs::read(lab.path("train.sh")).unwrap());
    assert_eq!(of("wharf get-head-ip").trim(), "127.0.0.1", "{said:#?}");
}

#[test]
fn commands_without_a_cluster_read_files_of_published_systems() {
    let lab = Lab::new();
    for (name, file) in [
        ("trace.csv", "muri-cluster/jobs.csv"),
        ("n8g8.csv", "muri-cluster/n4g8.csv"),
        ("runtime_trace.csv", "crius-runtime/runtime_trace.csv"),
        ("cluster_spec.json", "crius-runtime/cluster_spec.json"),
    ] {
        lab.link(name, &Path::new(WORKSPACE).join("examples/workflows").join(file));
    }
    let scenario = "name = \"two\"\n[[matrix]]\npolicies = [\"fifo\", \"srtf\"]\n\
                    traces = [{ name = \"steady\", generate = { jobs = 20, seed = 1, devices = 32, load = 1.1 } }]\nclusters = [\"8x4\"]\n";
    lab.write("scenario.toml", scenario);
    lab.execute_all(FILES);
}

#[test]
fn commands_for_users_of_published_simulators_read_their_data() {
    needs!(REFERENCE);
    let lab = Lab::new();
    lab.link("gavel.trace", &reference("gavel/traces_generated/static60_seed0.trace"));
    lab.link("simulation_throughputs.json", &reference("gavel/simulation_throughputs.json"));
    lab.link("simulate_trace_tiny.csv", &reference("crius/traces/simulate_trace_tiny.csv"));
    lab.link("sim_cluster_spec.json", &reference("crius/cluster/sim_cluster_spec.json"));
    lab.link("crius", &reference("crius"));
    lab.execute_all(REFERENCE);
}
