//! Steps of batch scripts, one by one: listed, signalled, cancelled, with files of their own; scripts in containers.

use wharf_testing::{engines, needs};

use crate::cluster::write;
use crate::slurm::{Lab, text};

const WHARF: &str = env!("CARGO_BIN_EXE_wharf");

#[test]
fn steps_are_listed_signalled_and_cancelled_alone() {
    let lab = Lab::new();
    let (up, gate) = (lab.pipe("up"), lab.pipe("gate"));
    let (shown_up, shown_gate) = (up.display(), gate.display());
    let body = format!(
        "{WHARF} srun -N2 -n2 sh -c 'test $SLURM_PROCID = 0 && echo > {shown_up}; exec sleep 600' 2> errors &
         read line < {shown_gate}
         {WHARF} srun -N1 -n1 sh -c 'trap \"echo told; exit 3\" USR1; echo > {shown_up}; while :; do sleep 0.1; done' 2> /dev/null &
         wait %1; echo first $?
         wait %2; echo second $?"
    );
    let id = lab.submit(&["-N2", "-o", "out"], &body);
    std::fs::read(&up).unwrap();
    write(&gate, "go\n");
    std::fs::read(&up).unwrap();
    lab.until("a job that runs", &id, "RUNNING None");
    let steps = |more: &[&str]| lab.say(&[&["squeue", "-h", "-o", "%i %j %P %N"], more].concat());
    let expected = format!("{id}.0 sh main n[1-2]\n{id}.1 sh main n1\n{id}.batch batch main n1\n");
    assert_eq!(steps(&["-s"]), expected);
    assert_eq!(steps(&["-s", &format!("{id}.1")]), format!("{id}.1 sh main n1\n"));
    assert_eq!(steps(&["-s", "-w", "n3"]), "");
    let shown = lab.say(&["squeue", "-s"]);
    assert!(shown.starts_with("         STEPID     NAME PARTITION     USER      TIME NODELIST\n"), "{shown}");
    for (words, expected) in [
        (&["squeue", "-s", "-o", "%T"][..], "Invalid job step format specification: T"),
        (&["scancel", &format!("{id}.7")], "Kill job error on job step id"),
        (&["scancel", "99.0"], "Kill job error on job step id"),
        (&["scancel", &format!("{id}.batch")], "Invalid job id"),
        (&["srun", "--jobid", &id, "--container-image=x", "true"], "a step has the container of its job"),
    ] {
        let refused = lab.run(words);
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(text(&refused.stderr).contains(expected), "{words:?}: {}", text(&refused.stderr));
    }

    lab.say(&["scancel", &format!("{id}.0")]);
    lab.say(&["scancel", "-s", "USR1", &format!("{id}.1")]);
    lab.until("the end", &id, "COMPLETED None");
    let said = lab.read("out");
    assert!(
        said.contains("first 137\n") && said.ends_with("second 3\n") && said.contains("told\n"),
        "{said}"
    );
    let errors = lab.read("errors");
    assert!(errors.contains("srun: error: n2: task 1: Killed\n"), "{errors}");
}

#[test]
fn a_full_signal_reaches_the_children_of_a_script() {
    let lab = Lab::new();
    let up = lab.pipe("up");
    let body = format!(
        "trap 'echo shell' USR1
         bash -c 'trap \"echo child; exit 0\" USR1; echo > {}; while :; do sleep 0.1; done' 2> /dev/null
         echo end",
        up.display()
    );
    let id = lab.submit(&["-o", "out"], &body);
    std::fs::read(&up).unwrap();
    lab.until("a job that runs", &id, "RUNNING None");
    lab.say(&["scancel", "-f", "-s", "USR1", &id]);
    lab.until("the end", &id, "COMPLETED None");
    assert_eq!(lab.read("out"), "child\nshell\nend\n");
}

#[test]
fn steps_have_files_by_task_and_inputs() {
    let lab = Lab::new();
    std::fs::write(lab.cluster.path("in"), "read\n").unwrap();
    let body = format!(
        "{WHARF} srun -n2 --cpu_bind=cores --output=job%j-%t.out sh -c 'echo $SLURM_PROCID'
         {WHARF} srun -n2 -o one-%J.out sh -c 'echo same'
         {WHARF} srun -n2 -o none sh -c 'echo unheard'
         {WHARF} srun -n2 -o 1 sh -c 'echo task $SLURM_PROCID'
         {WHARF} srun -n1 -i in cat
         echo typed | {WHARF} srun -n1 -i none cat"
    );
    let id = lab.submit(&["-n2", "--wait", "-o", "out"], &body);
    assert_eq!(lab.read("out"), "task 1\nread\n");
    assert_eq!(
        (lab.read(&format!("job{id}-0.out")), lab.read(&format!("job{id}-1.out"))),
        ("0\n".into(), "1\n".into())
    );
    assert_eq!(lab.read(&format!("one-{id}.1.out")), "same\nsame\n");
}

#[test]
fn scripts_and_steps_run_in_the_container_of_their_job() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let lab = Lab::new();
    let image = engines::image(lab.cluster.folder.path());
    // As an image that was not made for charliecloud: it has no variables of its own.
    std::fs::remove_dir_all(image.join("ch")).unwrap();
    let image = format!("--container-image={}", image.display());
    std::fs::write(lab.cluster.path("in"), "read\n").unwrap();
    let mount = format!("--container-mounts={}:/mnt/in:ro", lab.cluster.path("in").display());
    let script =
        "cat /etc/image; cat; cat /mnt/in; echo $SLURM_JOB_ID $WHARF_CONTAINER $SLURM_NNODES; exit 5";
    let words = ["sbatch", "--wait", "-N2", &image, &mount, "-i", "in", "-o", "out", "--wrap", script];
    let waited = lab.run(&words);
    assert_eq!(waited.status.code(), Some(5), "{}", text(&waited.stderr));
    let said = lab.read("out");
    assert!(said.ends_with("inside\nread\nread\n0 charliecloud 2\n"), "{said}");

    lab.say(&[
        "sbatch",
        "--wait",
        "--array=1-3",
        &image,
        "-o",
        "a-%a",
        "--wrap",
        "cat /etc/image; echo $SLURM_ARRAY_TASK_ID",
    ]);
    assert_eq!((lab.read("a-1"), lab.read("a-3")), ("inside\n1\n".into(), "inside\n3\n".into()));

    // Steps from outside find the image on every node.
    let said = lab.say(&["salloc", "-N2", &image, WHARF, "srun", "-n2", "cat", "/etc/image"]);
    assert_eq!(said, "inside\ninside\n");

    let up = lab.pipe("up");
    let script = format!("echo > {}; sleep 600", up.display());
    let id =
        lab.say(&["sbatch", "--parsable", &image, "-o", "/dev/null", "--wrap", &script]).trim().to_owned();
    std::fs::read(&up).unwrap();
    lab.say(&["scancel", &id]);
    lab.until("the end", &id, "CANCELLED None");
}

#[test]
fn srun_takes_nodes_from_the_head_and_joins_jobs_from_outside() {
    let lab = Lab::new();
    let (up, gate) = (lab.pipe("up"), lab.pipe("gate"));
    // Clients that start steps clear the variables of their job but for its id.
    let body = format!(
        "unset $(env | sed -n 's/^\\(SLURM_[A-Z_]*\\)=.*/\\1/p' | grep -v '^SLURM_JOB_ID$')
         {WHARF} srun -N2 -n3 --cpu-bind=q sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $SLURM_JOB_NODELIST' 2> /dev/null | sort
         echo > {}; read line < {}",
        up.display(),
        gate.display()
    );
    let id = lab.submit(&["-N2", "-n4", "-J", "host", "-o", "out"], &body);
    std::fs::read(&up).unwrap();
    assert_eq!(lab.read("out"), "0 n1 n[1-2]\n1 n1 n[1-2]\n2 n2 n[1-2]\n", "three tasks on two nodes");

    let joined = ["srun", "--jobid", &id, "--overlap", "-N1", "-w", "n2", "sh", "-c"];
    let shown = "echo $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_JOB_NAME $SLURMD_NODENAME";
    assert_eq!(lab.say(&[&joined[..], &[shown]].concat()), format!("{id} 1 host n2\n"));
    std::fs::write(
        lab.cluster.path("programs"),
        "# two of four\n0,3 echo %o of %t\n* sh -c 'echo rank %t'\n",
    )
    .unwrap();
    let said = lab.say(&[
        "srun",
        "--jobid",
        &id,
        "-n4",
        "-l",
        "--multi-prog",
        &lab.cluster.path("programs").to_string_lossy(),
    ]);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0 of 0", "1: rank 1", "2: rank 2", "3: 1 of 3"]);
    std::fs::write(lab.cluster.path("programs"), "0 true\n").unwrap();
    for (words, expected) in [
        (&["-n2", "--multi-prog", "programs"][..], "no command for task 1"),
        (&["--multi-prog", "missing"], "Unable to open missing"),
        (&["-w", "n3", "true"], "Requested node configuration is not available"),
    ] {
        let refused = lab.run(&[&["srun", "--jobid", &id], words].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(text(&refused.stderr).contains(expected), "{words:?}: {}", text(&refused.stderr));
    }
    write(&gate, "go\n");
    lab.until("the end", &id, "COMPLETED None");
    let steps = lab.say(&["sacct", "-n", "-P", "-j", &id, "-o", "jobid,ntasks,state"]);
    assert!(steps.contains(&format!("{id}.1|1|COMPLETED\n{id}.2|4|COMPLETED\n")), "{steps}");
}
