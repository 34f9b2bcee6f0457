//! `wharf sim --explain` and `wharf explain --run`: what happened to one job of a simulation.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Four devices: `a` has three of them until 100, `b` needs all, `c` comes last and is small.
const QUEUE: &str = "job_id,submit_s,devices,duration_s\na,0,3,100\nb,0,4,50\nc,10,1,30\n";

/// Both policies on it, as a sweep.
const SWEEP: &str = r#"
name = "queue"
[[matrix]]
policies = [{ policy = "fifo", set = { restart_s = 0 } }, { policy = "srtf", set = { restart_s = 0 } }]
traces = ["queue.csv"]
clusters = ["1x4"]
"#;

#[test]
fn waits_have_reasons_and_the_jobs_that_went_first() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    let sim = "sim --trace queue.csv --cluster 1x4 --policy fifo,srtf --set restart_s=0";
    insta::assert_snapshot!(sandbox.wharf(&format!("{sim} --explain c")).ok(), @"
    job c, 1 device, under fifo
           10s  it is submitted
           10s  waits: strict order: job b is first and does not fit yet
        1m 40s  waits: needs 1 device, 0 that it may use are free
                ahead: job b
        2m 30s  it runs on gpu-0:0
         3m 0s  it is finished

    job c, 1 device, under srtf
           10s  it is submitted
           10s  waits: needs 1 device, 0 that it may use are free
           50s  it runs on gpu-0:0
        1m 20s  it is finished
    ");
}

#[test]
fn preemptions_and_lost_nodes_have_reasons() {
    let sandbox = Sandbox::new();
    sandbox.write("pair.csv", "job_id,submit_s,devices,duration_s\nlong,0,1,100\nshort,20,1,10\n");
    let preempted = "sim --trace pair.csv --cluster 1x1 --policy srtf --set restart_s=10 --set min_run_s=0";
    insta::assert_snapshot!(sandbox.wharf(&format!("{preempted} --explain long")).ok(), @"
    job long, 1 device, under srtf
            0s  it is submitted
            0s  it runs on gpu-0:0
           20s  it made room for job short (last in order)
           20s  waits: needs 1 device, 0 that it may use are free
                ahead: job short
           40s  it runs on gpu-0:0
        2m 20s  it is finished
    ");
    sandbox.write("failures.csv", "time_s,node,event\n50,0,down\n60,0,up\n");
    let failed = "sim --trace pair.csv --cluster 1x1 --policy fifo --failures failures.csv --set restart_s=0";
    insta::assert_snapshot!(sandbox.wharf(&format!("{failed} --explain long")).ok(), @"
    job long, 1 device, under fifo
            0s  it is submitted
            0s  it runs on gpu-0:0
           50s  node gpu-0 was lost
           50s  waits: cannot start on the current nodes: needs 1 device, the working nodes have 0 that it may use together
         1m 0s  it runs on gpu-0:0
        2m 40s  it is finished
    ");
}

#[test]
fn run_folders_explain_as_the_simulation_does() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    let sim = "sim --trace queue.csv --cluster 1x4 --policy fifo,srtf --set restart_s=0";
    let explained = sandbox.wharf(&format!("{sim} --explain c")).ok();
    sandbox.wharf(&format!("{sim} --out results")).ok();
    assert_eq!(sandbox.wharf("explain --run results c").ok(), explained);
    let text = sandbox.wharf("explain --run results c --output json").ok();
    let document: Value = serde_json::from_str(&text).unwrap();
    let events = document["runs"][0]["events"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("submitted", "finished"));
    // Without the trace there are the recorded events.
    std::fs::remove_file(sandbox.path().join("queue.csv")).unwrap();
    let said = sandbox.wharf("explain --run results/queue-fifo-restart_s-0 c");
    assert!(said.stderr.contains("cannot be simulated again"), "{}", said.stderr);
    insta::assert_snapshot!(said.ok(), @"
    job c, 1 device, under fifo
           10s  it is submitted
                ahead: job b
        2m 30s  it runs on node 0:0
         3m 0s  it is finished
                (wait reasons are not available: starts and stops only)
    ");
    // Nor with another one of the same name.
    sandbox.write("queue.csv", &QUEUE.replace("50", "60"));
    let said = sandbox.wharf("explain --run results/queue-fifo-restart_s-0 c");
    assert!(said.stderr.contains("comes out otherwise"), "{}", said.stderr);
    let wrong = sandbox.wharf("explain --run results unknown").fails(3);
    assert!(wrong.contains("there is no job `unknown`"), "{wrong}");
    let wrong = sandbox.wharf("explain --run no-such-folder c").fails(3);
    assert!(wrong.contains("cannot read no-such-folder"), "{wrong}");
}

#[test]
fn runs_of_a_sweep_are_explained_by_simulating_them_again() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    sandbox.write("plan.toml", SWEEP);
    sandbox.wharf("sweep plan.toml --out swept").ok();
    let explained = "sim --trace queue.csv --cluster 1x4 --policy fifo,srtf --set restart_s=0 --explain c";
    let explained = sandbox.wharf(explained).ok();
    // Settings are part of a sweep's labels.
    let of_sweep = |line: &str| sandbox.wharf(line).ok().replace(" restart_s=0\n", "\n");
    assert_eq!(of_sweep("explain --run swept c"), explained);
    let key = sandbox.names("swept/runs").remove(0);
    let one = of_sweep(&format!("explain --run swept/runs/{key} c"));
    assert!(explained.contains(&one), "{one}");
    sandbox.write("plan.toml", &SWEEP.replace("fifo", "las").replace("srtf", "sjf"));
    let said = sandbox.wharf("explain --run swept c").fails(3);
    assert!(said.contains("the scenario has changed") && said.contains("has no events.jsonl"), "{said}");
    assert!(said.contains("hint: `wharf sim --out DIR` stores events"), "{said}");
}

#[test]
fn jobs_that_were_stopped_are_not_ahead() {
    let sandbox = Sandbox::new();
    let trace = "job_id,submit_s,devices,duration_s\nsmall,0,1,20000\nlong,10,6,100000\nurgent,20,5,9000\n";
    sandbox.write("moves.csv", trace);
    let explain = |job: &str| {
        sandbox.wharf(&format!("sim --trace moves.csv --cluster 2x4 --policy srtf --explain {job}")).ok()
    };
    insta::assert_snapshot!(explain("urgent"), @"
    job urgent, 5 devices, under srtf
           20s  it is submitted
           20s  it runs on gpu-1:0,1,2,3 + gpu-0:1
        2h 31m  it is finished
    ");
    let long = explain("long");
    assert!(
        long.contains("it made room for job urgent (last in order)") && long.contains("ahead: job urgent\n"),
        "{long}"
    );
    sandbox.wharf("sim --trace moves.csv --cluster 2x4 --policy srtf --out results").ok();
    std::fs::remove_file(sandbox.path().join("moves.csv")).unwrap();
    let recorded = sandbox.wharf("explain --run results urgent").ok();
    assert!(!recorded.contains("ahead"), "{recorded}");
}

#[test]
fn wait_reasons_that_are_equal_are_printed_once() {
    let sandbox = Sandbox::new();
    // Two devices are free, one while `e` runs, and then two again.
    let trace = "job_id,submit_s,devices,duration_s\na,0,2,400\nd,1,4,300\ne,2,1,100\n";
    sandbox.write("equal.csv", trace);
    let text =
        sandbox.wharf("sim --trace equal.csv --cluster 1x4 --policy sjf --set restart_s=0 --explain d").ok();
    let waits: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("waits: ")).map(|(_, why)| why).collect();
    assert_eq!(waits, ["needs 4 devices, 2 that it may use are free"], "{text}");
}

#[test]
fn gandiva_preempts_for_other_jobs_and_schedulers_without_placements_show_counts() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 60 --devices 8 --load 1.4 --seed 3 --to many.csv").ok();
    let explain = |more: &str| sandbox.wharf(&format!("sim --trace many.csv --cluster 2x4 {more}")).ok();
    let all: String = (0..20).map(|job| explain(&format!("--policy gandiva --explain {job}"))).collect();
    assert!(all.contains("it was preempted for other jobs (not selected for this round)"), "{all}");
    let placed = explain("--policy tiresias --preset muri --explain 20");
    assert!(placed.contains("it runs on ") && !placed.contains("it runs on \n"), "{placed}");
}

#[test]
fn other_presets_have_starts_and_stops_only() {
    let sandbox = Sandbox::new();
    sandbox.write("queue.csv", QUEUE);
    for (preset, policy) in [("muri", "srtf"), ("blox", "las")] {
        let line =
            format!("sim --trace queue.csv --cluster 1x4 --policy {policy} --preset {preset} --explain c");
        let text = sandbox.wharf(&line).ok();
        assert!(text.contains("it runs on ") && text.contains("it is finished"), "{preset}: {text}");
        assert!(
            text.contains("wait reasons are not available") && !text.contains("waits: "),
            "{preset}: {text}"
        );
    }
    let wrong = sandbox.wharf("sim --trace queue.csv --cluster 1x4 --policy fifo --explain d").fails(3);
    assert!(wrong.contains("there is no job `d` in trace `queue`"), "{wrong}");
}
