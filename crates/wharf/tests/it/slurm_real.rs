//! The same scripts through a real Slurm and through Wharf: what comes of them is the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use wharf_testing::needs;
use wharf_testing::slurm::Slurm;

use crate::cluster::{Cluster, Daemon};

const NODES: [&str; 2] = ["n1", "n2"];
const CPUS: u32 = 4;

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
    fn new() -> Self {
        Self::with(0)
    }

    /// Where `gpus` is not 0, Wharf's devices are those, and Slurm has them beside its processors.
    fn with(gpus: u32) -> Self {
        let slurm = Slurm::start(NODES.len() as u32, CPUS, gpus);
        let wharf = Cluster::new();
        let mut daemons = vec![wharf.head()];
        for node in NODES {
            let devices = if gpus == 0 { format!("cpu:{CPUS}") } else { format!("v100:{gpus}") };
            let words = ["worker", "--node", node, "--devices", &devices, "--cpus", "4"];
            daemons.push(wharf.daemon(&words, "accepted this worker"));
        }
        let folder = |_| tempfile::tempdir().unwrap();
        Self { slurm, _daemons: daemons, wharf, folders: [0, 1].map(folder) }
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
        // Wharf's checkpoint directories, which are removed some moments after their jobs.
        let is_own =
            |entry: &std::io::Result<std::fs::DirEntry>| entry.as_ref().unwrap().file_name() == ".wharf";
        let files = std::fs::read_dir(&folder).unwrap().filter(|entry| !is_own(entry)).map(file).collect();
        Came { code: output.status.code(), files }
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
    needs!(SLURM);
    let both = Both::new();
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
    needs!(SLURM);
    let both = Both::new();
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
                0 => both.slurm.run("scontrol", &["-o", "show", "job", &id]),
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

/// What scripts and their steps see of GPUs; a step's program is whose the script is. On a busy machine srun states that it waits.
const GPUS: &str = r#"#!/bin/bash
names='CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK'
show="for name in $names SLURM_STEP_GPUS SLURM_NTASKS SLURM_NNODES; do eval echo \$SLURM_PROCID \$name=\\\${\$name-unset}; done"
eval "$show"
echo step; $SRUN bash -c "$show" 2> /dev/null | sort
echo part; $SRUN -N1 -n1 --gpus=1 bash -c "$show" 2> /dev/null | sort
"#;

/// How those are submitted.
const WITH_GPUS: &[&[&str]] = &[
    &["--gres=gpu:2"],
    &["--gres=gpu"],
    &["--gpus=3"],
    &["--gpus-per-node=2", "-N2"],
    &["-n2", "--gpus-per-task=1"],
    &["-n2", "--gpus-per-task=2"],
];

#[test]
fn gpus_are_shown_as_in_slurm() {
    needs!(SLURM);
    let both = Both::with(4);
    for (index, options) in WITH_GPUS.iter().enumerate() {
        let options = [options, &["-o", "gpus"][..]].concat();
        let came = [0, 1].map(|which| {
            let srun =
                if which == 0 { "srun".to_owned() } else { format!("{} srun", env!("CARGO_BIN_EXE_wharf")) };
            both.run(which, &format!("gpus{index}"), &GPUS.replace("$SRUN", &srun), &options)
        });
        assert!(!came[0].files.is_empty(), "{options:?}");
        assert_eq!(came[1], came[0], "{options:?}: Wharf at the left, Slurm at the right");
    }
}
