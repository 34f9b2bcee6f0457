//! Jobs of job files as jobs of Slurm's.

use std::fs;

use wharf_testing::needs;
use wharf_testing::slurm::{Slurm, until};

/// A folder for jobs, and the program with a Slurm around it.
fn wharf(slurm: &Slurm, words: &[&str]) -> std::process::Output {
    let mut command = slurm.command(env!("CARGO_BIN_EXE_wharf"));
    command.args(words).env("WHARF_CONFIG", "/dev/null").env("WHARF_HOME", slurm.path("no-head"));
    command.output().unwrap()
}

#[test]
fn job_file_is_run_by_slurm_and_its_state_is_followed() {
    needs!(SLURM);
    let slurm = Slurm::start(2, 16, 2);
    let read = |name: &str| fs::read_to_string(slurm.path(name)).unwrap_or_default();
    let job = "name: direct\n\
               executor: slurm\n\
               gang: 2x2\n\
               array: 1,3\n\
               time_limit: 5m\n\
               env: {GREETING: \"it's $HOME\"}\n\
               output: out-%A_%a.txt\n\
               command: [sh, -c, 'echo \"$GREETING|$RANK|$WORLD_SIZE|$CUDA_VISIBLE_DEVICES|$WHARF_ARRAY_INDEX|$1\"', sh, \"a 'b' `c`\"]\n";
    fs::write(slurm.path("job.yaml"), job).unwrap();
    let output = wharf(&slurm, &["submit", "job.yaml", "--wait"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(said.contains(&format!("{id}_1: COMPLETED, exit code 0")), "{said}");
    for index in [1, 3] {
        let text = read(&format!("out-{id}_{index}.txt"));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let line = |rank: u32| format!("it's $HOME|{rank}|2|0,1|{index}|a 'b' `c`");
        assert_eq!(lines, [line(0), line(1)]);
    }
    let shown = slurm.run("squeue", &["-h", "-r", "-t", "all", "-j", &id, "-o", "%j %D %b %l"]);
    assert!(shown.lines().all(|line| line == "direct 2 gres:gpu:2 5:00"), "{shown}");
}

#[test]
fn containers_run_on_slurm_and_no_gpu_is_requested_unasked() {
    needs!(SLURM, CHARLIECLOUD, BUSYBOX);
    let slurm = Slurm::start(1, 16, 0);
    let image = wharf_testing::engines::image(&slurm.path(""));
    let job = format!(
        "name: boxed\nexecutor: slurm\ncontainer: {{image: {}, runtime: charliecloud}}\nenv: {{GREETING: \"it's $HOME\"}}\n\
         output: boxed.txt\ncommand: [sh, -c, 'echo \"$(cat /etc/image)|$IMGVAR|$GREETING|$RANK|$(pwd)|$1\"; exit 3', sh, \"a 'b'\"]\n",
        image.display()
    );
    fs::write(slurm.path("boxed.yaml"), job).unwrap();
    let output = wharf(&slurm, &["submit", "boxed.yaml", "--wait"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = slurm.path("").display().to_string();
    assert_eq!(
        fs::read_to_string(slurm.path("boxed.txt")).unwrap(),
        format!("inside|from_image|it's $HOME|0|{}|a 'b'\n", folder.trim_end_matches('/'))
    );
    let shown = slurm.run("squeue", &["-h", "-t", "all", "-n", "boxed", "-o", "%b"]);
    assert_eq!(shown.trim(), "N/A", "no generic resources");
    let named = ["submit", "boxed.yaml", "--gang", "1"];
    let refused = wharf(&slurm, &named);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("hint: does this Slurm have such devices? `--type cpu` (in a file"), "{told}");
}

#[test]
fn exit_codes_refusals_and_cancelling_are_reported() {
    needs!(SLURM);
    let slurm = Slurm::start(1, 16, 1);
    let failed =
        wharf(&slurm, &["submit", "--slurm", "--wait", "--output-file", "o", "--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7), "{}", String::from_utf8_lossy(&failed.stderr));

    let options = ["submit", "--slurm", "--slurm-option", "--partition=nowhere", "--", "true"];
    let refused = wharf(&slurm, &options);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nvalid partition"));

    let held = wharf(&slurm, &["submit", "--slurm", "--held", "--name", "h", "--", "sleep", "600"]);
    let id = String::from_utf8(held.stdout).unwrap().trim().to_owned();
    let mut command = slurm.command(env!("CARGO_BIN_EXE_wharf"));
    command.args(["submit", "--slurm", "--wait"]).args([
        "--name",
        "w",
        "--output-file",
        "w.txt",
        "--",
        "sleep",
        "600",
    ]);
    let mut child = command.env("WHARF_CONFIG", "/dev/null").spawn().unwrap();
    let running = until("the job", || {
        let jobs = slurm.run("squeue", &["-h", "-t", "RUNNING", "-n", "w", "-o", "%i"]);
        Some(jobs.trim().to_owned()).filter(|id| !id.is_empty())
    });
    slurm.run("scancel", &[&running, &id]);
    assert_ne!(child.wait().unwrap().code(), Some(0), "it was cancelled");
    let state = slurm.run("squeue", &["-h", "-t", "all", "-j", &id, "-o", "%T"]);
    assert_eq!(state.trim(), "CANCELLED");

    let script = wharf(&slurm, &["submit", "--slurm", "--dry-run", "--", "echo", "a b"]);
    assert!(String::from_utf8(script.stdout).unwrap().contains("echo 'a b'\n"));
}
