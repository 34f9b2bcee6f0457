//! Batch scripts on a real cluster: arrays, dependencies, exit codes, steps, and their representation in squeue and other commands.

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Daemon, write};

/// More than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Two nodes with four processors each.
pub(crate) struct Lab {
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) cluster: Cluster,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let cluster = Cluster::new();
        let daemons = vec![cluster.head()];
        let mut lab = Self { daemons, cluster };
        lab.daemons.extend(["n1", "n2"].map(|node| lab.worker(node)));
        lab
    }

    /// Starts the worker of a node, also again.
    pub(crate) fn worker(&self, node: &str) -> Daemon {
        let words = ["worker", "--node", node, "--devices", "cpu:4", "--feature", "ib"];
        self.cluster.daemon(&words, "accepted this worker")
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = self.cluster.command(words);
        command.current_dir(self.cluster.folder.path()).env_remove("SLURM_CONF");
        command.output().unwrap()
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    pub(crate) fn script(&self, name: &str, body: &str) -> String {
        let path = self.cluster.path(name);
        std::fs::write(&path, format!("#!/bin/bash\n{body}\n")).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Submits a script and returns its id.
    #[track_caller]
    pub(crate) fn submit(&self, options: &[&str], body: &str) -> String {
        let script = self.script("script.sh", body);
        let words = [&["sbatch", "--parsable"], options, &[&script]].concat();
        self.say(&words).trim().to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.cluster.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        self.cluster.pipe(name)
    }

    /// What squeue says of a job, also when it has ended.
    pub(crate) fn state(&self, id: &str) -> String {
        self.say(&["squeue", "-h", "-r", "-t", "all", "-j", id, "-o", "%T %r"]).trim().to_owned()
    }

    pub(crate) fn until(&self, what: &str, id: &str, expected: &str) {
        let start = Instant::now();
        while self.state(id) != expected {
            assert!(start.elapsed() < PATIENCE, "{what}: {}", self.state(id));
            std::thread::yield_now();
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn arrays_have_their_files_their_limit_and_the_worst_exit_code() {
    let lab = Lab::new();
    let script = lab.script(
        "array.sh",
        "#SBATCH --array=1-4 -J swarm\n#SBATCH -o out-%A_%a_%4a_%x.txt\n\
         echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_ARRAY_JOB_ID: $1\nexit $SLURM_ARRAY_TASK_ID",
    );
    let waited = lab.run(&["sbatch", "--wait", &script, "argument"]);
    assert_eq!(
        (waited.status.code(), text(&waited.stdout)),
        (Some(4), "Submitted batch job 0\n"),
        "{}",
        text(&waited.stderr)
    );
    for index in 1..=4 {
        let said = lab.read(&format!("out-0_{index}_000{index}_swarm.txt"));
        assert_eq!(said, format!("{index} of 4 in 0: argument\n"));
    }
    let ended = lab.say(&["sacct", "-n", "-P", "-j", "0", "-o", "jobid,state,exitcode"]);
    let expected = [1, 2, 3, 4].map(|n| format!("0_{n}|FAILED|{n}:0\n0_{n}.batch|FAILED|{n}:0\n"));
    assert_eq!(ended, expected.concat());

    // Elements that overwrite each other's output are warned of.
    let warning = |options: &[&str]| {
        let said = lab.run(&[&["sbatch", "--hold", "--array=1-2", "--wrap", "true"], options].concat());
        lab.say(&["scancel", text(&said.stdout).rsplit(' ').next().unwrap().trim()]);
        text(&said.stderr).to_owned()
    };
    let told = warning(&["-o", "all.txt", "-e", "errors-%a.txt"]);
    assert!(
        told.starts_with("sbatch: warning: all elements of the array write to ")
            && told.contains("/all.txt and "),
        "{told}"
    );
    for options in
        [&["-o", "%j.txt"][..], &["-o", "all.txt", "--open-mode=append"], &["-o", "/dev/null"], &[]]
    {
        assert_eq!(warning(options), "", "{options:?}");
    }

    let gate = lab.pipe("gate");
    let id = lab.submit(&["--array=5-8%1", "-o", "/dev/null"], &format!("read line < {}", gate.display()));
    lab.until("the first element", &format!("{id}_5"), "RUNNING None");
    lab.until("the second", &format!("{id}_6"), "PENDING JobArrayTaskLimit");
    let rows = lab.say(&["squeue", "-h", "-o", "%i %t %r"]);
    assert_eq!(rows, format!("{id}_[6-8%1] PD JobArrayTaskLimit\n{id}_5 R None\n"));
    let explained = lab.say(&["explain", &format!("{id}_6")]);
    assert!(explained.contains("it may run 1 at a time"), "{explained}");
    write(&gate, "go\n");
    lab.until("the next one", &format!("{id}_6"), "RUNNING None");
    lab.say(&["scancel", &format!("{id}_[7-8]")]);
    lab.until("the end of the last", &format!("{id}_8"), "CANCELLED None");
    write(&gate, "go\n");
    lab.until("the end", &format!("{id}_6"), "COMPLETED None");
}

#[test]
fn exit_codes_are_those_of_slurm() {
    let lab = Lab::new();
    // What the script does, its state and exit code, what sbatch --wait exits with.
    let rows = [
        ("exit 0", "COMPLETED", "0:0", 0),
        ("exit 3", "FAILED", "3:0", 3),
        ("exit 255", "FAILED", "255:0", 255),
        ("kill -9 $$", "FAILED", "0:9", 1),
        ("kill -15 $$", "FAILED", "0:15", 1),
        ("sh -c 'kill -9 $$'; exit $?", "FAILED", "137:0", 137),
        ("/no/such/cmd", "FAILED", "127:0", 127),
        ("false; true", "COMPLETED", "0:0", 0),
    ];
    for (index, (body, state, exit, code)) in rows.iter().enumerate() {
        let script = lab.script("code.sh", body);
        let waited = lab.run(&["sbatch", "--wait", "-o", "out", &script]);
        assert_eq!(waited.status.code(), Some(*code), "{body}: {}", text(&waited.stderr));
        let ended = lab.say(&["sacct", "-X", "-n", "-P", "-j", &index.to_string(), "-o", "state,exitcode"]);
        assert_eq!(ended, format!("{state}|{exit}\n"), "{body}");
    }
    let script = lab.script("code.sh", "true");
    for options in [["-o", "no/such/folder/%j"], ["-D", "/no/such/folder"]] {
        let waited = lab.run(&[&["sbatch", "--wait", "--parsable"], &options[..], &[&script]].concat());
        assert_eq!(waited.status.code(), Some(1), "{}", text(&waited.stderr));
        let ended =
            lab.say(&["sacct", "-X", "-n", "-P", "-j", text(&waited.stdout).trim(), "-o", "state,exitcode"]);
        assert_eq!(ended, "FAILED|0:53\n", "{options:?}");
    }
    // What the clients themselves exit with.
    for (words, code) in [
        (&["sbatch", "--nosuch", &script][..], 255),
        (&["sbatch", "-n", "0", &script], 1),
        (&["sbatch", "-p", "nowhere", &script], 1),
        (&["sbatch", "-C", "nothing", &script], 1),
        (&["sbatch", "-N", "9", &script], 1),
        (&["sbatch", "--gres=gpu:1", &script], 1),
        (&["sbatch", "-d", "afterok:999", &script], 1),
        (&["scancel", "99999"], 0),
        (&["scancel", "abc"], 1),
        (&["scancel", "0.0"], 1),
        (&["squeue", "-j", "99999"], 1),
        (&["squeue", "-t", "bogus"], 1),
        (&["squeue", "-u", "nosuchuser"], 0),
    ] {
        assert_eq!(lab.run(words).status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn dependencies_wait_for_all_any_or_for_ever() {
    let lab = Lab::new();
    let good = lab.submit(&["-o", "/dev/null", "--wait"], "true");
    let script = lab.script("bad.sh", "exit 1");
    lab.run(&["sbatch", "--wait", "-o", "/dev/null", &script]);
    let bad = "1";
    let depend = |on: &str| lab.submit(&["-o", "/dev/null", "-d", on], "true");
    for (on, expected) in [
        (format!("after:{good}+5"), "PENDING BeginTime"),
        (format!("afterok:{good}"), "COMPLETED None"),
        (format!("afterok:{bad}"), "PENDING DependencyNeverSatisfied"),
        (format!("afternotok:{bad}"), "COMPLETED None"),
        (format!("afterany:{good}:{bad}"), "COMPLETED None"),
        (format!("afterok:{good}?afterok:{bad}"), "COMPLETED None"),
        (format!("afterok:{bad}?afternotok:{good}"), "PENDING DependencyNeverSatisfied"),
        (good.clone(), "COMPLETED None"),
    ] {
        lab.until(&on, &depend(&on), expected);
    }
    let killed = lab.submit(&["-o", "/dev/null", "-d", "afterok:1", "--kill-on-invalid-dep=yes"], "true");
    lab.until("one that is not to wait", &killed, "CANCELLED None");
    let later = lab.submit(&["-o", "/dev/null", "--begin=now+1hour"], "true");
    lab.until("one for later", &later, "PENDING BeginTime");
    lab.say(&["scontrol", "update", &format!("jobid={later}"), "starttime=now"]);
    lab.until("one for now", &later, "COMPLETED None");
}

#[test]
fn jobs_are_held_released_requeued_signalled_and_cancelled() {
    let lab = Lab::new();
    let held = lab.submit(&["-H", "-o", "held.txt"], "echo ran");
    lab.until("a held job", &held, "PENDING JobHeldUser");
    lab.say(&["scontrol", "release", &held]);
    lab.until("a released job", &held, "COMPLETED None");

    let (started, gate) = (lab.pipe("started"), lab.pipe("gate"));
    let body = format!(
        "echo restart $SLURM_RESTART_COUNT\necho > {}\nread line < {}\necho over",
        started.display(),
        gate.display()
    );
    let id = lab.submit(&["-o", "again-%j.txt"], &body);
    std::fs::read(&started).unwrap();
    lab.until("a job that runs", &id, "RUNNING None");
    lab.say(&["scontrol", "requeue", &id]);
    std::fs::read(&started).unwrap();
    write(&gate, "go\n");
    lab.until("a job that ran again", &id, "COMPLETED None");
    assert_eq!(lab.read(&format!("again-{id}.txt")), "restart 1\nover\n", "the file was truncated");
    let once = lab.submit(&["--no-requeue", "-o", "/dev/null"], &format!("read line < {}", gate.display()));
    lab.until("a job that runs", &once, "RUNNING None");
    let refused = lab.run(&["scontrol", "requeue", &once]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("Requested operation is presently disabled"));
    lab.say(&["scancel", &once]);
    lab.until("a cancelled job", &once, "CANCELLED None");

    // A signal for the script alone, and one before the time limit.
    let body =
        format!("trap 'echo told; exit 9' USR1\necho > {}\nwhile :; do sleep 0.1; done", started.display());
    let id = lab.submit(&["-o", "told.txt"], &body);
    std::fs::read(&started).unwrap();
    lab.until("a job that runs", &id, "RUNNING None");
    lab.say(&["scancel", "-b", "-s", "USR1", &id]);
    lab.until("a job that was told", &id, "FAILED NonZeroExitCode");
    assert_eq!(lab.read("told.txt"), "told\n");
    let id = lab.submit(&["-o", "warned.txt", "-t", "1", "--signal=B:USR1@50"], &body);
    std::fs::read(&started).unwrap();
    lab.until("a job that was warned", &id, "FAILED NonZeroExitCode");
    assert_eq!(lab.read("warned.txt"), "told\n");
}

#[test]
fn steps_run_on_the_whole_gang() {
    let lab = Lab::new();
    // A script finds `srun`, whatever the machine has by that name.
    let body = "export GREETING=hello\n\
         srun -l sh -c 'echo $GREETING $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME $SLURM_STEP_ID' | sort\n\
         srun -N1 -n1 sh -c 'echo step $SLURM_STEP_ID of $SLURM_STEP_NUM_TASKS on $SLURM_STEP_NODELIST'\n\
         srun -n2 sh -c 'exit $((SLURM_PROCID * 5))' 2> /dev/null\necho $?\nsrun --export=ALL,A=b printenv A | sort -u\n\
         srun -N1 -n1 sh -c 'exit 7' 2> errors";
    let script = lab.script("steps.sh", body);
    let waited = lab.run(&["sbatch", "--wait", "-N2", "-n4", "-o", "steps.txt", &script]);
    assert_eq!(waited.status.code(), Some(7), "{}", lab.read("steps.txt"));
    let expected = "0: hello 0 0 0 n1 0\n1: hello 1 1 0 n1 0\n2: hello 2 0 1 n2 0\n3: hello 3 1 1 n2 0\n\
                    step 1 of 1 on n1\n5\nb\n";
    assert_eq!(lab.read("steps.txt"), expected);
    assert_eq!(lab.read("errors"), "srun: error: n1: task 0: Exited with exit code 7\n");

    // Outside of a job srun takes devices for itself, and salloc for a command.
    let own = lab.say(&["srun", "-N2", "sh", "-c", "echo $SLURM_PROCID/$SLURM_NTASKS"]);
    let mut lines: Vec<&str> = own.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/2", "1/2"]);
    let nested = "scontrol show hostnames; srun -n1 printenv SLURM_PROCID";
    assert_eq!(lab.say(&["salloc", "-N2", "sh", "-c", nested]), "n1\nn2\n0\n");
    // Without a directory for links to Slurm commands there is a warning, and the command runs.
    for state in [None, Some("/dev/null/state")] {
        let mut command = lab.cluster.command(&["salloc", "-N1", "echo", "it runs"]);
        let said = command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        let said = said.envs(state.map(|state| ("XDG_STATE_HOME", state))).output().unwrap();
        let told = String::from_utf8_lossy(&said.stderr);
        assert_eq!((said.status.code(), &*said.stdout), (Some(0), b"it runs\n".as_slice()), "{told}");
        assert!(told.contains("salloc: no links to Slurm commands such as srun"), "{told}");
    }
    let jobs = lab.say(&["sacct", "-X", "-n", "-P", "-o", "state"]);
    assert_eq!(jobs, "FAILED\nCOMPLETED\nCOMPLETED\nCOMPLETED\nCOMPLETED\n");
    assert_eq!(lab.say(&["squeue", "-h"]), "", "nothing is left");
}

#[test]
fn the_environment_and_the_files_are_those_of_slurm() {
    let lab = Lab::new();
    std::fs::write(lab.cluster.path("input.txt"), "from a file\n").unwrap();
    let body = "#SBATCH -n 2 -c 2 --mem=100 -J named\n#SBATCH -i input.txt\n#SBATCH -e err-%j\n\
                cat; env | grep ^SLURM_ | sort; echo $0; echo $TMPDIR $ENVIRONMENT; [ $SLURM_TASK_PID = $$ ] && echo mine; echo oops >&2";
    let id = lab.submit(&["--wait", "--export=ALL,FOO=new"], body);
    let said = lab.read(&format!("slurm-{id}.out"));
    for line in [
        "from a file",
        "SLURM_CPUS_ON_NODE=4",
        "SLURM_CPUS_PER_TASK=2",
        "SLURM_JOB_NAME=named",
        "SLURM_JOB_NODELIST=n1",
        "SLURM_MEM_PER_NODE=100",
        "SLURM_NTASKS=2",
        "SLURM_TASKS_PER_NODE=2",
        "SLURM_EXPORT_ENV=ALL,FOO=new",
        "SLURM_JOB_PARTITION=main",
        "/tmp BATCH",
        "mine",
    ] {
        assert!(said.lines().any(|one| one == line), "{line} in {said}");
    }
    assert!(said.contains(&format!("/job{:05}/slurm_script", id.parse::<u32>().unwrap())), "{said}");
    assert_eq!(lab.read(&format!("err-{id}")), "oops\n");
    let body = "echo again";
    for (mode, expected) in [("append", "again\nagain\n"), ("truncate", "again\n")] {
        let file = format!("{mode}.txt");
        for _ in 0..2 {
            lab.submit(&["--wait", "-o", &file, "--open-mode", mode], body);
        }
        assert_eq!(lab.read(&file), expected, "{mode}");
    }
    let shown = lab.say(&["scontrol", "-o", "show", "job", &id]);
    for part in ["JobState=COMPLETED", "ExitCode=0:0", "NumTasks=2", "JobName=named"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(lab.say(&["scontrol", "show", "hostnames", "n[1-2]"]), "n1\nn2\n");
    let nodes = lab.say(&["sinfo"]);
    let expected = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nmain*        up   infinite      2   idle n[1-2]\n";
    assert_eq!(nodes, expected);
    let tested = lab.run(&["sbatch", "--test-only", "-N9", "script.sh"]);
    assert_eq!(tested.status.code(), Some(1));
    assert_eq!(text(&tested.stderr), "allocation failure: Requested node configuration is not available\n");
}
