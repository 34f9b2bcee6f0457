//! `wharf step` where there is no Wharf around it; with one, see `cluster.rs`.

use std::process::Command;

fn step(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
    for name in ["WHARF_PROGRESS_SOCKET", "WHARF_JOB_ID", "WHARF_GENERATION"] {
        command.env_remove(name);
    }
    let output = command.arg("step").args(words).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn step_outside_of_a_job_continues() {
    for words in [&["120"][..], &["120", "--checkpointed", "100", "--metric", "loss=0.3"], &[]] {
        let (code, said) = step(words);
        assert_eq!(
            (code, said.as_str()),
            (Some(0), "not run by Wharf: nothing reported, continue\n"),
            "{words:?}"
        );
    }
    assert_eq!(step(&["-q", "120"]), (Some(0), String::new()));
}

#[test]
fn step_nonsense_is_refused() {
    for words in
        [&["1e999"][..], &["--metric", "loss"], &["--metric", "=1"], &["--metric", "loss=low"], &["x"]]
    {
        assert_eq!(step(words).0, Some(2), "{words:?}");
    }
}

#[test]
fn step_worker_away_continues() {
    let output = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .args(["step", "3"])
        .envs([("WHARF_PROGRESS_SOCKET", "/nowhere/progress.sock"), ("WHARF_JOB_ID", "1")])
        .env("WHARF_GENERATION", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not answer"));
}
