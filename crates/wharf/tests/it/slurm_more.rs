//! Batch scripts on a real cluster: what is changed while they run, steps and their accounts, files that options name, GPUs,
//! allocations whose client is gone.

use std::process::Stdio;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::write;
use crate::slurm::{Lab, PATIENCE, text};

#[test]
fn limits_and_names_of_jobs_change_while_they_wait_and_run() {
    let mut lab = Lab::new();
    let (started, gate) = (lab.pipe("started"), lab.pipe("gate"));
    let body = format!("echo > {}\nread line < {}\n", started.display(), gate.display());
    let limit = |lab: &Lab, id: &str| lab.say(&["squeue", "-h", "-j", id, "-o", "%l %j"]).trim().to_owned();

    let held = lab.submit(&["-H", "-t", "10", "-J", "before", "-o", "/dev/null"], &body);
    assert_eq!(limit(&lab, &held), "10:00 before");
    lab.say(&["scontrol", "update", &format!("jobid={held}"), "TimeLimit=1-00:00:00", "JobName=after"]);
    assert_eq!(limit(&lab, &held), "1-00:00:00 after");
    for (change, expected) in
        [("+60", "1-01:00:00 after"), ("-1-00:30", "30:00 after"), ("UNLIMITED", "UNLIMITED after")]
    {
        lab.say(&["scontrol", "update", &format!("jobid={held}"), &format!("TimeLimit={change}")]);
        assert_eq!(limit(&lab, &held), expected, "{change}");
    }
    // A restarted head knows.
    lab.daemons[0].kill();
    lab.daemons[0] = lab.cluster.head();
    lab.daemons[1].wait_for("accepted this worker");
    lab.daemons[2].wait_for("accepted this worker");
    assert_eq!(limit(&lab, &held), "UNLIMITED after");
    lab.say(&["scontrol", "release", &held]);
    std::fs::read(&started).unwrap();
    lab.until("a job that runs", &held, "RUNNING None");
    // Slurm counts in minutes: how such a limit ends a job is checked with a clock that does not take them.
    lab.say(&["scontrol", "update", &format!("jobid={held}"), "TimeLimit=0:01"]);
    assert_eq!(limit(&lab, &held), "1:00 after");
    write(&gate, "go\n");
    lab.until("the end", &held, "COMPLETED None");

    for (words, expected) in [
        (&["update", "jobid=0", "TimeLimit=5"][..], "over"),
        (&["update", "jobid=0", "TimeLimit=soon"], "Invalid TimeLimit value: soon"),
        (
            &["update", "jobid=0", "Partition=other"],
            "partition of a job cannot be changed in Wharf: `scancel` it",
        ),
        (
            &["update", "jobid=0", "Shared=yes"],
            "shared of a job cannot be changed in Wharf; TimeLimit, JobName,",
        ),
        (&["suspend", "0"], "`scontrol requeuehold ID` stops a job"),
        (&["resume", "0"], "`scontrol requeuehold ID` stops a job"),
    ] {
        let refused = lab.run(&[&["scontrol"], words].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn signals_before_the_limit_go_to_steps_and_steps_have_terminals() {
    let lab = Lab::new();
    let program = env!("CARGO_BIN_EXE_wharf");
    let body = format!(
        "{program} srun -n1 sh -c 'trap \"echo step told; exit 5\" USR1; while :; do sleep 0.1; done' 2> /dev/null\necho $?"
    );
    let id = lab.submit(&["-t", "1", "--signal=USR1@52", "-o", "told"], &body);
    lab.until("a job whose step was told", &id, "COMPLETED None");
    assert_eq!(lab.read("told"), "step told\n5\n");
    let shown = lab.say(&["scontrol", "-o", "show", "job", &id]);
    assert!(shown.contains("DerivedExitCode=5:0"), "{shown}");

    let said =
        lab.say(&["srun", "--pty", "sh", "-c", "test -t 0 && test -t 1 && echo $SLURM_PROCID on a terminal"]);
    assert_eq!(said.trim_end(), "0 on a terminal");
    let refused = lab.run(&["srun", "--pty", "sh", "-c", "exit 4"]);
    assert_eq!(refused.status.code(), Some(4));
}

#[test]
fn options_name_files_with_nodes_and_variables() {
    let lab = Lab::new();
    std::fs::write(lab.cluster.path("nodes"), "# the second one\nn2\n").unwrap();
    std::fs::write(lab.cluster.path("both"), "n[1-2]\n").unwrap();
    std::fs::write(lab.cluster.path("variables"), "FROM_FILE=a b\0SECOND=2\0PATH=/usr/bin:/bin\0").unwrap();
    for (options, expected) in [
        (&["-w", "./nodes"][..], "n2"),
        (&["-F", "nodes"], "n2"),
        (&["--nodefile=both"], "n[1-2]"),
        (&["-x", "./nodes"], "n1"),
    ] {
        let options = [options, &["--wait", "-o", "out"]].concat();
        lab.submit(&options, "echo $SLURM_JOB_NODELIST");
        assert_eq!(lab.read("out").trim(), expected, "{options:?}");
    }
    let body = "echo \"$FROM_FILE\" $SECOND ${GREETING-none} ${SLURM_JOB_ID:+an id}";
    let script = lab.script("exported.sh", body);
    let mut command =
        lab.cluster.command(&["sbatch", "--wait", "-o", "out", "--export-file=variables", &script]);
    let output = command.current_dir(lab.cluster.folder.path()).env("GREETING", "hello").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(lab.read("out"), "a b 2 none an id\n");
    for words in [["-w", "./missing"], ["-F", "missing"], ["--export-file", "missing"]] {
        let refused = lab.run(&[&["sbatch"], &words[..], &[&script]].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(text(&refused.stderr).contains("missing"), "{words:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn devices_of_a_client_that_is_gone_are_given_back() {
    let mut lab = Lab::new();
    let (up, gate) = (lab.pipe("up"), lab.pipe("gate"));
    let command = format!("echo $$ > {}; read line < {}", up.display(), gate.display());
    let mut client = lab.cluster.command(&["salloc", "-N2", "sh", "-c", &command]);
    let mut client = client.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let child: i32 = std::fs::read_to_string(&up).unwrap().trim().parse().unwrap();
    assert_eq!(lab.state("0"), "RUNNING None");
    // A head that comes back gives it the time to say that it is there.
    lab.daemons[0].kill();
    lab.daemons[0] = lab.cluster.head();
    assert_eq!(lab.state("0"), "RUNNING None");
    client.kill().unwrap();
    client.wait().unwrap();
    let start = Instant::now();
    lab.until("devices without a holder", "0", "CANCELLED None");
    assert!(start.elapsed() < PATIENCE);
    kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    assert_eq!(lab.say(&["sinfo", "-h", "-o", "%t %D"]), "idle 2\n");
}

#[test]
fn scripts_have_the_gpus_they_ask_for() {
    let lab = Lab::new();
    let words = ["worker", "--node", "g1", "--devices", "v100:4", "--cpus", "16"];
    let _gpus = lab.cluster.daemon(&words, "accepted this worker");
    let body = "echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE ${SLURM_GPUS-none} ${SLURM_GPUS_PER_TASK-none}";
    for (options, expected) in [
        (&["--gres=gpu:2"][..], "0,1 0,1 2 none none"),
        (&["--gres=gpu:v100:1"], "0 0 1 none none"),
        (&["--gpus=3"], "0,1,2 0,1,2 3 3 none"),
        (&["-n2", "--gpus-per-task=2"], "0,1,2,3 0,1,2,3 4 none 2"),
    ] {
        let options = [options, &["--wait", "-o", "out"]].concat();
        lab.submit(&options, body);
        assert_eq!(lab.read("out").trim(), expected, "{options:?}");
    }
    // Two at a time share the node and not a device.
    let started = lab.pipe("started");
    let gates = ["a", "b"].map(|name| {
        let gate = lab.pipe(&format!("gate-{name}"));
        let body = format!(
            "echo $CUDA_VISIBLE_DEVICES\necho > {}\nread line < {}",
            started.display(),
            gate.display()
        );
        assert!(!lab.submit(&["--gres=gpu:2", "-o", name], &body).is_empty());
        std::fs::read(&started).unwrap();
        gate
    });
    let mut devices = [lab.read("a"), lab.read("b")];
    devices.sort();
    assert_eq!(devices, ["0,1\n", "2,3\n"]);
    gates.iter().for_each(|gate| write(gate, "go\n"));
}

#[test]
fn login_shells_find_slurm_commands_and_mails_are_sent() {
    let mut lab = Lab::new();
    let sent = lab.cluster.path("sent");
    let sendmail = lab.script("sendmail", &format!("cat >> {}", sent.display()));
    std::fs::set_permissions(&sendmail, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    lab.daemons[0].kill();
    let listen = format!("127.0.0.1:{}", lab.cluster.port);
    let words = ["head", "--listen", &listen, "--allow-root", "--sendmail", &sendmail];
    lab.daemons[0] = lab.cluster.daemon(&words, "listens on");
    lab.daemons[1].wait_for("accepted this worker");
    lab.daemons[2].wait_for("accepted this worker");

    let script = lab.cluster.path("login.sh");
    std::fs::write(&script, "#!/bin/bash -l\nsrun -n1 echo a step\necho \"[$OWN] [$BASH_ENV]\"\n").unwrap();
    std::fs::write(lab.cluster.path("own"), "OWN=sourced\n").unwrap();
    // The profile of this user replaces the search path.
    std::fs::write(lab.cluster.path(".bash_profile"), "PATH=/usr/bin:/bin\n").unwrap();
    let own = lab.cluster.path("own").to_string_lossy().into_owned();
    let submit = |bash_env: &str| {
        let options = ["sbatch", "--wait", "-o", "out", "--mail-type=END,FAIL", "--mail-user=ann@lab.org"];
        let mut command = lab.cluster.command(&options);
        command.arg(&script).current_dir(lab.cluster.folder.path());
        let output =
            command.env("HOME", lab.cluster.folder.path()).env("BASH_ENV", bash_env).output().unwrap();
        assert!(output.status.success(), "{} {}", text(&output.stderr), lab.read("out"));
        assert_eq!(text(&output.stderr), "", "nothing is ignored");
        lab.read("out")
    };
    assert_eq!(submit(&own), format!("a step\n[sourced] [{own}]\n"));
    assert_eq!(submit(""), "a step\n[] []\n");
    let start = Instant::now();
    while std::fs::read_to_string(&sent).unwrap_or_default().matches("To: ann@lab.org").count() < 2 {
        assert!(start.elapsed() < PATIENCE, "two emails");
        std::thread::yield_now();
    }
    for (users, expected) in [
        ("ann@lab.org,bob@lab.org", "sbatch: warning: emails are sent to ann@lab.org only\n"),
        ("<ann@lab.org>", "sbatch: warning: `<ann@lab.org>` is not an email address; no email is sent\n"),
    ] {
        let user = format!("--mail-user={users}");
        let accepted = lab.run(&["sbatch", "--mail-type=FAIL", &user, "-o", "/dev/null", "--wrap", "true"]);
        assert_eq!((accepted.status.code(), text(&accepted.stderr)), (Some(0), expected));
    }
    let refused = lab.run(&["sbatch", "--mail-type=SOMETIMES", "--wrap", "true"]);
    assert_ne!(refused.status.code(), Some(0));
}
