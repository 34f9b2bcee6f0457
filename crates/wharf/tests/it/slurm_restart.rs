//! A batch script with steps while the head and the workers of its nodes are killed and started again: it continues, ends as it
//! should, and nothing of its output is missing or there twice.

use std::fmt::Write as _;

use crate::cluster::write;
use crate::slurm::Lab;

/// Lines that each task of the first step says at once: more than a window is wide.
const LINES: u32 = 60_000;

#[test]
fn a_script_and_its_steps_continue_while_head_and_workers_are_killed() {
    let mut lab = Lab::new();
    let shims = lab.cluster.path("shims");
    lab.say(&["slurm-shims", &shims.to_string_lossy()]);
    let pipes = ["up-0", "up-1", "go-0", "go-1", "ready", "next"].map(|name| lab.pipe(name));
    let [up0, up1, go0, go1, ready, next] = &pipes;
    let folder = lab.cluster.folder.path().display();
    let script = format!(
        "export PATH={}:$PATH F={folder}\necho begin\n\
         srun -l -N2 -n2 sh -c 'echo > $F/up-$SLURM_PROCID; seq {LINES}; read line < $F/go-$SLURM_PROCID; echo $line; cat; exit 3' < $F/input > $F/first 2> $F/errors\n\
         echo first $?\n\
         srun -N2 -n2 sh -c 'echo > $F/up-$SLURM_PROCID; read line < $F/go-$SLURM_PROCID; echo $line $SLURM_PROCID' | sort\n\
         echo second $?\n\
         echo > $F/ready; read line < $F/next\n\
         srun -n1 -N1 echo third 2> $F/waited\n\
         echo end; exit 5",
        shims.display()
    );
    std::fs::write(lab.cluster.path("input"), "from the input\n").unwrap();
    let script = lab.script("steps.sh", &script);
    let id = lab.say(&["sbatch", "--parsable", "-N2", "-n4", "-o", "out", &script]).trim().to_owned();

    // The head dies while both tasks talk; one of them continues before there is another.
    std::fs::read(up0).unwrap();
    std::fs::read(up1).unwrap();
    lab.daemons[0].kill();
    write(go0, "without a head\n");
    lab.daemons[0] = lab.cluster.head();
    write(go1, "with another head\n");

    // Both workers die while the second step waits.
    std::fs::read(up0).unwrap();
    std::fs::read(up1).unwrap();
    lab.daemons[1].kill();
    lab.daemons[2].kill();
    write(go0, "without workers\n");
    lab.daemons[1] = lab.worker("n1");
    lab.daemons[2] = lab.worker("n2");
    write(go1, "with other workers\n");

    // The third step is asked for while there is no head.
    std::fs::read(ready).unwrap();
    lab.daemons[0].kill();
    write(next, "go\n");
    let start = std::time::Instant::now();
    while !std::fs::read_to_string(lab.cluster.path("waited")).is_ok_and(|text| text.contains("will retry")) {
        assert!(start.elapsed() < crate::slurm::PATIENCE, "srun does not wait for the head");
        std::thread::yield_now();
    }
    lab.daemons[0] = lab.cluster.head();

    lab.until("the end", &id, "FAILED NonZeroExitCode");
    let expected = "begin\nfirst 3\nwith other workers 1\nwithout workers 0\nsecond 0\nthird\nend\n";
    assert_eq!(lab.read("out"), expected);
    let first = lab.read("first");
    for (rank, said) in [(0, "without a head"), (1, "with another head")] {
        let mut expected = String::new();
        (1..=LINES).for_each(|line| writeln!(expected, "{line}").unwrap());
        write!(expected, "{said}\nfrom the input\n").unwrap();
        let label = format!("{rank}: ");
        let own: String = first
            .lines()
            .filter_map(|line| line.strip_prefix(&label))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(
            own == expected,
            "task {rank} said {} bytes, and should have said {}",
            own.len(),
            expected.len()
        );
    }
    let mut errors: Vec<String> = lab.read("errors").lines().map(str::to_owned).collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "srun: error: n1: task 0: Exited with exit code 3",
            "srun: error: n2: task 1: Exited with exit code 3"
        ]
    );
    let ended =
        lab.say(&["sacct", "-n", "-P", "-j", &id, "-o", "jobid,jobname,state,exitcode,derivedexitcode"]);
    let expected = format!(
        "{id}|steps.sh|FAILED|5:0|3:0\n{id}.batch|batch|FAILED|5:0|\n{id}.0|sh|FAILED|3:0|\n\
         {id}.1|sh|COMPLETED|0:0|\n{id}.2|echo|COMPLETED|0:0|\n"
    );
    assert_eq!(ended, expected);
    assert_eq!(lab.say(&["squeue", "-h"]), "", "nothing is left");
}
