//! `--out`: which files, what is in them, and that they are the same every time.

use std::fs;
use std::path::Path;

use crate::sandbox::Sandbox;

const FILES: [&str; 14] = [
    "breakdown.csv",
    "events.jsonl",
    "gantt.pdf",
    "gantt.svg",
    "jct-cdf.pdf",
    "jct-cdf.svg",
    "jobs.csv",
    "queue.pdf",
    "queue.svg",
    "run.json",
    "summary.json",
    "timeline.csv",
    "utilization.pdf",
    "utilization.svg",
];

#[test]
fn every_run_has_its_files() {
    let sandbox = Sandbox::new();
    let said =
        sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy fifo,srtf --set restart_s=1 --out a/out");
    assert_eq!(said.stderr, "results are in `a/out`\n");
    said.ok();
    assert_eq!(sandbox.names("a/out"), ["jobs-fifo-restart_s-1", "jobs-srtf-restart_s-1", "report.html"]);
    assert_eq!(sandbox.names("a/out/jobs-fifo-restart_s-1"), FILES);
    let jobs = sandbox.read("a/out/jobs-fifo-restart_s-1/jobs.csv");
    let header = "job_id,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,run_s,preemptions,name,user,model,device_type,devices";
    assert_eq!(jobs.lines().next(), Some(header));
    assert_eq!(jobs.lines().nth(1), Some("a,1,0.0,0.0,101.0,101.0,0.0,101.0,0,a,,,,1"));
}

#[test]
fn events_are_json_lines_in_order() {
    let sandbox = Sandbox::new();
    sandbox.wharf("sim --trace jobs.csv --cluster 1x2 --policy fifo --set restart_s=0 --out out").ok();
    insta::assert_snapshot!(sandbox.read("out/jobs-fifo-restart_s-0/events.jsonl"), @r#"
    {"t":0.0,"event":"submitted","job":"a"}
    {"t":0.0,"event":"started","job":"a","nodes":[[0,[0]]]}
    {"t":10.0,"event":"submitted","job":"b"}
    {"t":20.0,"event":"submitted","job":"c"}
    {"t":100.0,"event":"finished","job":"a"}
    {"t":100.0,"event":"started","job":"b","nodes":[[0,[0,1]]]}
    {"t":150.0,"event":"finished","job":"b"}
    {"t":150.0,"event":"started","job":"c","nodes":[[0,[0]]]}
    {"t":160.0,"event":"finished","job":"c"}
    "#);
}

/// All files of a folder, without what states how long the run took.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if !path.ends_with("summary.json") && !path.ends_with("report.html") {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn bytes_do_not_depend_on_process_or_threads() {
    for (preset, policies) in [("wharf", "fifo,srtf,las,tiresias"), ("muri", "srtf,tiresias,muri-s,muri-l")] {
        let sandbox = Sandbox::new();
        sandbox.wharf("trace generate --jobs 80 --seed 5 --load 2 --to big.csv").ok();
        let run = |threads: u32| {
            let sim = "sim --trace big.csv --cluster 8x8 --out out";
            sandbox.wharf(&format!("{sim} --preset {preset} --policy {policies} --threads {threads}")).ok();
            let contents = contents(&sandbox.path().join("out"));
            fs::remove_dir_all(sandbox.path().join("out")).unwrap();
            contents
        };
        let alone = run(1);
        assert_eq!(alone.len(), 4 * (FILES.len() - 1));
        assert!(alone == run(2), "{preset}: two threads differ from one");
        assert!(alone == run(1), "{preset}: two processes differ");
    }
}

#[test]
fn results_of_the_same_run_are_replaced_and_others_kept() {
    let sandbox = Sandbox::new();
    let sim = "sim --trace jobs.csv --cluster 1x2 --out out --policy";
    sandbox.wharf(&format!("{sim} fifo")).ok();
    sandbox.write("out/notes.txt", "mine");
    sandbox.write("out/jobs-fifo/jobs.csv", "old");
    sandbox.wharf(&format!("{sim} fifo,srtf")).ok();
    assert_eq!(sandbox.names("out"), ["jobs-fifo", "jobs-srtf", "notes.txt", "report.html"]);
    assert_eq!(sandbox.read("out/jobs-fifo/jobs.csv").lines().count(), 4);
}

/// Below the table, on a terminal: a real one, of `script`.
#[test]
fn a_person_at_a_terminal_sees_curves() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 80 --seed 5 --load 2 --to big.csv").ok();
    let sim = "sim --trace big.csv --cluster 4x8 --policy fifo,srtf";
    let piped = sandbox.wharf(sim).ok();
    assert!(!piped.contains("jobs waiting"), "programs get the table alone: {piped}");
    let line = format!("{} {sim}", env!("CARGO_BIN_EXE_wharf"));
    let mut script = std::process::Command::new("script");
    let seen =
        script.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path()).env("TERM", "xterm").output();
    let seen = String::from_utf8(seen.unwrap().stdout).unwrap().replace('\r', "");
    let curves = seen.split_once("devices in use (█ is all of them), over ").expect(&seen).1;
    let of =
        |policy: &str| curves.lines().filter(|line| line.starts_with(policy) && line.contains('█')).count();
    assert!(curves.contains("jobs waiting (█ is "), "{seen}");
    assert_eq!(of("fifo  "), 2, "{seen}");
}
