//! `wharf replay` and `wharf submit --trace`; that a replay equals its simulation is shown in `live`.

use std::fmt::Write as _;

use nix::sys::signal::Signal;

use crate::cluster::Cluster;
use crate::marked::Marked;

/// Jobs by when they come, how many devices they need, and how long they take, in seconds.
fn trace(jobs: &[(f64, u32, f64)]) -> String {
    let mut text = "job_id,submit_s,devices,iterations,iteration_ms\n".to_owned();
    for (index, (at_s, devices, solo_s)) in jobs.iter().enumerate() {
        writeln!(text, "j{index},{at_s},{devices},100,{}", solo_s * 10.0).unwrap();
    }
    text
}

#[test]
fn dry_run_prints_plan_and_prediction_without_starting() {
    let marked = Marked::new();
    std::fs::write(marked.path("trace.csv"), trace(&[(0.0, 1, 3600.0), (600.0, 2, 1800.0)])).unwrap();
    let replay =
        ["replay", "--trace", "trace.csv", "--cluster", "1x2", "--policy", "tiresias", "--time-scale", "60"];
    let told = marked.json(&[&replay[..], &["--dry-run", "--start-cost", "0.5"]].concat());
    let settings = told["settings"].as_array().unwrap();
    assert!(settings.contains(&"queue_limits_s=54.166666666666664:120".into()), "{settings:?}");
    assert!(settings.contains(&"restart_s=0.5".into()), "{settings:?}");
    assert_eq!(
        (told["jobs"][1]["submit_s"].as_f64(), told["jobs"][1]["solo_s"].as_f64()),
        (Some(10.0), Some(30.0))
    );
    // One after the other; the first is stopped when it leaves its queue, so that there are three starts.
    let wall_s = told["wall_s"].as_f64().unwrap();
    assert!((wall_s - 91.5).abs() < 1e-6, "{wall_s}");
    assert_eq!(told["prediction"]["jobs"], 2);
    let text = marked.say(&[&replay[..], &["--dry-run"]].concat());
    assert!(text.contains("j1: 2 devices, 30.00 s alone"), "{text}");
    marked.assert_nothing_left();
}

#[test]
fn replay_refuses_what_makes_no_sense() {
    let marked = Marked::new();
    std::fs::write(marked.path("trace.csv"), trace(&[(0.0, 4, 1.0)])).unwrap();
    let base = ["replay", "--trace", "trace.csv", "--policy", "srtf"];
    for (more, expected) in [
        (&["--cluster", "1x2"][..], "needs 4 devices, but the cluster can give it at most 2"),
        (&["--cluster", "1x4", "--time-scale", "0"], "`--time-scale` takes a number above 0"),
        (&["--cluster", "1x4", "--rounds", "0"], "`--rounds` takes a number from 1 on"),
        (&["--cluster", "1x4", "--set", "restart_s=3"], "hint: see `--start-cost`"),
        (&["--cluster", "1x4", "--set", "failures=x.csv"], "`failures` cannot be set"),
        (&["--cluster", "1x4", "--start-cost", "-1"], "--start-cost"),
        (&["--cluster", "1x4", "--network-interface", "none0"], "network interface `none0` does not exist"),
        (
            &["--cluster", "1x4", "--network-interface", "none0", "--dry-run"],
            "hint: name an interface of this machine",
        ),
        (&["--home", "nowhere"], "hint: start one with `wharf head`"),
        (&[], "--cluster"),
    ] {
        let output = marked.run(&[&base[..], more].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(expected), "{more:?}: {told}");
    }
    marked.assert_nothing_left();
}

#[test]
fn replay_stops_after_its_rounds_and_writes_a_report() {
    let marked = Marked::new();
    std::fs::write(marked.path("trace.csv"), trace(&[(0.0, 1, 60.0), (0.0, 1, 6000.0)])).unwrap();
    let words = [
        "replay",
        "--trace",
        "trace.csv",
        "--cluster",
        "1x2",
        "--policy",
        "fifo",
        "--time-scale",
        "60",
        "--set",
        "round_s=60",
        "--rounds",
        "3",
        "--start-cost",
        "0.03",
        "--out",
        "out",
    ];
    let told = marked.json(&words);
    let finished = |run: usize| told["runs"][run]["finished"].clone();
    assert_eq!((finished(0), finished(1)), (1.into(), 1.into()), "three seconds are enough for one of them");
    assert_eq!(told["is_same_sequence"], true, "{told:#}");
    assert_eq!(told["acts"]["live"].as_array().unwrap().len(), 2);
    let states: Vec<&str> =
        told["jobs"].as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states[0], "finished");
    for name in ["report.html", "summary.json", "jobs.tsv"] {
        assert!(marked.path("out").join(name).is_file(), "{name}");
    }
    marked.assert_nothing_left();
}

#[test]
fn interrupted_replay_cleans_up() {
    let marked = Marked::new();
    std::fs::write(marked.path("trace.csv"), trace(&[(0.0, 1, 600.0), (0.1, 2, 600.0)])).unwrap();
    let words =
        ["replay", "--trace", "trace.csv", "--cluster", "2x2", "--policy", "srtf", "--start-cost", "0.1"];
    let mut replay = marked.start(&words);
    replay.wait_for("2 jobs on 4 devices");
    replay.signal(Signal::SIGINT);
    assert_eq!(replay.end().0, Some(130));
    marked.assert_nothing_left();
}

#[test]
fn settings_of_a_head_that_are_not_scaled_are_warned_of() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    cluster.say(&["policy", "set", "tiresias"]);
    std::fs::write(cluster.path("trace.csv"), trace(&[(0.0, 1, 60.0)])).unwrap();
    let (path, home) = (cluster.path("trace.csv"), cluster.path(""));
    let words = ["replay", "--dry-run", "--policy", "tiresias", "--trace", path.to_str().unwrap()];
    let warned = |scale: &str| {
        let words = [&words[..], &["--time-scale", scale, "--home", home.to_str().unwrap()]].concat();
        let output = cluster.run(&words);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = warned("60");
    let warning = told.lines().find(|line| line.starts_with("warning: the settings of the head differ"));
    let warning = warning.unwrap_or_else(|| panic!("{told}"));
    assert!(warning.contains("`--time-scale 60` does not scale those of a head: "), "{warning}");
    assert!(warning.contains("; align them with `wharf policy set tiresias --set "), "{warning}");
    // What it names makes them equal.
    let (_, command) = warning.split_once("`wharf ").unwrap();
    let words: Vec<&str> = command.split('`').next().unwrap().split(' ').collect();
    let words: Vec<&str> = words.into_iter().skip_while(|word| *word != "policy").collect();
    cluster.say(&words);
    assert!(!warned("60").contains("differ from the prediction"), "{}", warned("60"));
}

#[test]
fn trace_is_submitted_to_a_running_head_and_outlasts_it() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let mut worker = cluster.worker("left");
    std::fs::write(cluster.path("trace.csv"), trace(&[(0.0, 1, 60.0), (6.0, 2, 120.0)])).unwrap();
    let path = cluster.path("trace.csv").to_string_lossy().into_owned();
    let folder = cluster.path("").to_string_lossy().into_owned();
    let submit = ["submit", "--trace", &path, "--time-scale", "20", "--workdir", &folder];
    assert_eq!(cluster.say(&submit), "0\n1\n");
    // Neither the head's death nor the worker's makes a paced job lose its way.
    head.kill();
    let _head = cluster.head();
    worker.kill();
    let _worker = cluster.worker("left");
    for job in ["0", "1"] {
        let said = cluster.say(&["logs", "--follow", job]);
        assert!(said.contains("began at") && said.contains("with 5 of 5 iterations"), "{said}");
        let told: serde_json::Value =
            serde_json::from_str(&cluster.say(&["job", job, "--output", "json"])).unwrap();
        let told = told.to_string();
        assert!(told.contains("finished") && told.matches("job_launched").count() <= 1, "{told}");
    }
    // No node has a pool, so that those of rows do not matter.
    let rows = std::fs::read_to_string(&path).unwrap();
    let pooled: Vec<String> =
        rows.lines().zip(["pool", "vc1", "vc2"]).map(|(row, pool)| format!("{row},{pool}\n")).collect();
    std::fs::write(&path, pooled.concat()).unwrap();
    let words =
        ["submit", "--trace", &path, "--now", "--wait", "--workdir", &folder, "--output-file", "%x.out"];
    let ids = cluster.say(&[&words[..], &["--", "echo", "{job} {devices}", "{iterations}"]].concat());
    assert_eq!(ids, "2\n3\n");
    let said = std::fs::read_to_string(cluster.path("j1.out")).unwrap();
    assert_eq!(said, "j1 2 100\n");
}
