//! `wharf sweep`

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;

const SCENARIO: &str = r#"
name = "mini"
[[matrix]]
label = "ours"
policies = ["fifo", { policy = "fifo", set = { backfill = "easy" }, label = "fifo, backfill" }, "srtf"]
traces = ["jobs.csv", { name = "drawn", generate = { jobs = 40, seed = "each", devices = 32 } }]
clusters = ["4x8"]
seeds = [0, 1]
[[matrix]]
label = "again"
policies = ["fifo"]
traces = ["jobs.csv"]
clusters = ["4x8"]
"#;

/// The results without the wall time, which differs.
fn results(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).unwrap();
    for run in document["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("wall_ms");
    }
    document
}

#[test]
fn results_are_complete_and_do_not_depend_on_threads() {
    let sandbox = Sandbox::new();
    sandbox.write("mini.toml", SCENARIO);
    let run = |rest: &str| results(&sandbox.wharf(&format!("sweep mini.toml --output json {rest}")).ok());
    let one = run("--jobs 1 --out one");
    assert_eq!(one, run("--jobs 3 --out three"));
    assert_eq!((&one["schema"], &one["name"]), (&1.into(), &"mini".into()));
    assert_eq!(one["runs"].as_array().unwrap().len(), 12);
    assert_eq!(one["runs"][1]["policy"], "fifo, backfill");
    assert_eq!(one["matrices"][1]["label"], "again");
    assert_eq!(one["matrices"][1]["runs"], serde_json::json!([0]));
    let names = sandbox.names("one");
    // The first matrix has two seeds, and shows their means; the second has one.
    for name in [
        "report.html",
        "results.csv",
        "results.txt",
        "runs",
        "summary.json",
        "01-drawn-4x8-wharf-avg_jct_s.svg",
        "01-drawn-4x8-wharf-avg_jct_s.pdf",
        "02-jobs-4x8-wharf-seed0-avg_jct_s.svg",
        "02-jobs-4x8-wharf-seed0-avg_jct_s.pdf",
    ] {
        assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
    }
    // Means over seeds have error bars, single runs have none.
    assert!(sandbox.read("one/01-drawn-4x8-wharf-avg_jct_s.svg").contains("<path class=\"whisker\""));
    assert!(!sandbox.read("one/02-jobs-4x8-wharf-seed0-avg_jct_s.svg").contains("<path class=\"whisker\""));
    assert!(sandbox.read("one/results.txt").contains("95 % confidence interval over seeds"));
    assert_eq!(sandbox.names("one/runs").len(), 12);
    assert!(sandbox.read("one/results.csv").contains("\n\"fifo, backfill\",jobs,wharf,4x8,"));
}

#[test]
fn finished_runs_are_not_repeated() {
    let sandbox = Sandbox::new();
    sandbox.write("mini.toml", SCENARIO);
    let first = sandbox.wharf("sweep mini.toml --output json");
    assert_eq!(first.stderr, "12 runs\nresults are in `wharf-sweep/mini`\n");
    let runs = "wharf-sweep/mini/runs";
    let names = sandbox.names(runs);
    // One was lost, and one was truncated.
    fs::remove_dir_all(sandbox.path().join(runs).join(&names[0])).unwrap();
    sandbox.write(&format!("{runs}/{}/run.json", names[1]), "{\"schema\": 1, \"ru");
    let again = sandbox.wharf("sweep mini.toml --output json");
    assert!(again.stderr.starts_with("12 runs, 10 of them stored earlier\n"), "{}", again.stderr);
    assert_eq!(results(&again.stdout), results(&first.stdout));
    assert_eq!(sandbox.names(runs), names);
    let fresh = sandbox.wharf("sweep mini.toml --fresh --output plain");
    assert!(fresh.stderr.starts_with("12 runs\n"), "{}", fresh.stderr);
    // A trace with other jobs is another input.
    sandbox.write("jobs.csv", &sandbox.read("jobs.csv").replace("c,20", "c,21"));
    let changed = sandbox.wharf("sweep mini.toml --output plain");
    assert!(changed.stderr.starts_with("12 runs, 6 of them stored earlier\n"), "{}", changed.stderr);
}

#[test]
fn everything_is_checked_before_the_first_run() {
    let sandbox = Sandbox::new();
    sandbox.write("mini.toml", &SCENARIO.replace("\"srtf\"]", "\"srft\"]"));
    insta::assert_snapshot!(sandbox.wharf("sweep mini.toml").fails(3), @"
    error: mini.toml:5:97: `srft` on trace `jobs`, cluster `4x8`, preset `wharf` cannot be run
    caused by: no policy is named `srft`
    hint: did you mean `srtf`?
    hint: `wharf policies` lists them all
    ");
    sandbox.write("mini.toml", &SCENARIO.replace("[\"jobs.csv\"]", "[\"jobz.csv\"]"));
    insta::assert_snapshot!(sandbox.wharf("sweep mini.toml --data data").fails(3), @"
    error: mini.toml:6:11: there is no trace `jobs.csv`
    hint: searched `data/jobs.csv` and `data/traces/jobs.csv`; set another directory with `--data DIR`
    ");
    let error = sandbox.wharf("sweep mini.toml").fails(3);
    assert!(error.starts_with("error: mini.toml:12:11: there is no trace `jobz.csv`"), "{error}");
    sandbox.write("mini.toml", &SCENARIO.replace("seeds", "seed"));
    insta::assert_snapshot!(sandbox.wharf("sweep mini.toml").fails(3), @"
    error: mini.toml:8:1: unknown key `seed` in [[matrix]]
    hint: did you mean `seeds`?
    hint: known keys are label, policies, traces, clusters, presets, seeds
    ");
    sandbox.wharf("sweep nope.toml").fails(3);
    assert_eq!(sandbox.names("."), ["jobs.csv", "mini.toml"]);
}

#[test]
fn dry_run_lists_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("mini.toml", SCENARIO);
    let listed = sandbox.wharf("sweep mini.toml --dry-run --output plain").ok();
    assert_eq!(listed.lines().count(), 13);
    let json = sandbox.wharf("sweep mini.toml --dry-run --output json").ok();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&document["schema"], &document["runs"][1]["settings"]["backfill"]),
        (&1.into(), &"easy".into())
    );
    assert!(listed.contains("fifo backfill=easy\tjobs\t4x8\twharf\t0\t"), "{listed}");
    assert_eq!(sandbox.names("."), ["jobs.csv", "mini.toml"]);
}
