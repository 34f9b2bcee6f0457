//! Traces, cluster files and policy names of published systems on a real cluster: what their users type, unchanged but for the program.

use crate::marked::Marked;
use crate::sandbox::Sandbox;

/// A trace as Crius's runtime reads it: late times, and speeds in no column.
const RUNTIME_TRACE: &str = "\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type
first,240179,12,moe__690M,248944,256,2,a40
second,240179,28,moe__690M,249184,256,1,a40
third,240302,23,moe__1.3B,251560,256,2,a40
";

/// A cluster as Crius's runtime reads it.
const CLUSTER_SPEC: &str = r#"[{"gpu_type": {"a40": {"node_num": 2,
    "ip_addr": ["10.2.64.81", "10.2.64.82"], "port": [4160, 4160]}}}]"#;

fn crius() -> Marked {
    let marked = Marked::new();
    std::fs::write(marked.path("runtime_trace.csv"), RUNTIME_TRACE).unwrap();
    std::fs::write(marked.path("cluster_spec.json"), CLUSTER_SPEC).unwrap();
    marked
}

const REPLAY: [&str; 5] = ["replay", "--trace", "runtime_trace.csv", "--cluster", "cluster_spec.json"];

#[test]
fn runtime_of_crius_runs_from_its_trace_and_cluster_file() {
    let marked = crius();
    let words =
        ["--policy", "gavel", "--set", "sched_with_opt=true", "--rounds", "10", "--time-scale", "120"];
    let more = ["--network-interface", "lo", "--start-cost", "0.1", "--out", "out"];
    let told = marked.json(&[&REPLAY[..], &words, &more].concat());
    assert_eq!(told["runs"][0]["policy"], "crius/gavel");
    assert_eq!(told["runs"][0]["finished"], 3, "{told:#}");
    assert_eq!(told["is_same_sequence"], true, "{}", told["first_difference"]);
    let first = &told["acts"]["live"][0];
    assert!(first["time_s"].as_f64().unwrap() < 3.0, "the first job starts at once: {first}");
    assert!(marked.path("out/report.html").is_file());
    marked.assert_nothing_left();
}

#[test]
fn replay_that_would_launch_nothing_is_refused() {
    let marked = crius();
    let late = [&REPLAY[..], &["--policy", "crius", "--rounds", "10", "--time-scale", "60", "--keep-offset"]]
        .concat();
    for dry_run in [&["--dry-run"][..], &["--start-cost", "0.1"]] {
        let refused = marked.run(&[&late[..], dry_run].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(
            String::from_utf8_lossy(&refused.stderr),
            "error: the replay starts no job: its rounds end after 50.0 s, the first job is submitted at 4003.0 s\n\
             hint: omit `--keep-offset` to start at the first submission, or increase `--rounds`\n"
        );
    }
    marked.assert_nothing_left();
}

#[test]
fn time_scale_divides_the_work_of_jobs_whose_speed_is_in_a_profile() {
    let marked = crius();
    let csv = "model,batch_size,device_type,devices,iterations_per_s\n\
               moe__690M,256,a40,1,0.2\nmoe__690M,256,a40,2,0.4\nmoe__1.3B,256,a40,2,0.25\n";
    std::fs::write(marked.path("measured.csv"), csv).unwrap();
    // Speeds of the planner, and measured ones; the first job alone has 12 iterations.
    for profile in [&[][..], &["--profile", "measured.csv"]] {
        let predicted = |scale: &str| {
            let words = ["--policy", "fifo", "--dry-run", "--start-cost", "0", "--time-scale", scale];
            marked.json(&[&REPLAY[..], &words, profile].concat())
        };
        let whole = predicted("1");
        let jct_s = |told: &serde_json::Value| told["prediction"]["avg_jct_s"].as_f64().unwrap();
        let solo_s = |told: &serde_json::Value, job: usize| told["jobs"][job]["solo_s"].as_f64().unwrap();
        if !profile.is_empty() {
            assert!((solo_s(&whole, 0) - 12.0 / 0.4).abs() < 1e-9, "{whole:#}");
        }
        for scale in ["10", "60"] {
            let (told, factor) = (predicted(scale), scale.parse::<f64>().unwrap());
            for job in 0..3 {
                let expected = solo_s(&whole, job) / factor;
                assert!((solo_s(&told, job) / expected - 1.0).abs() < 1e-9, "{scale} {profile:?}: job {job}");
            }
            assert!((jct_s(&told) * factor / jct_s(&whole) - 1.0).abs() < 1e-9, "{scale} {profile:?}");
        }
    }
}

#[test]
fn policy_name_that_only_the_system_of_the_trace_has_is_its_policy() {
    let marked = crius();
    let note = |policy: &str| {
        let told =
            marked.run(&[&REPLAY[..], &["--policy", policy, "--dry-run", "--output", "json"]].concat());
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.success(), "{policy}: {text}");
        let document: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        (document["policy"].as_str().unwrap().to_owned(), text)
    };
    for (name, policy, expected) in [
        ("fcfs", "crius/fcfs", "policy `fcfs` of Crius is `--policy crius/fcfs`\n"),
        ("gavel", "crius/gavel", "policy `gavel` of Crius is `--policy crius/gavel`\n"),
        ("sia", "sia", "policy `sia` is Wharf's own; `sia` of Crius is `--policy crius/sia`\n"),
        ("crius", "crius", ""),
    ] {
        let (found, text) = note(name);
        assert_eq!((found.as_str(), text.as_str()), (policy, expected));
    }
    let trace = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,\
                 resource_time_0,resource_time_1,resource_time_2,priority\n0,1,0,100,gpt2,4,43700,0,437,0.6,419,49,0\n";
    std::fs::write(marked.path("muri.csv"), trace).unwrap();
    let name = "multi-resource-blossom-same-gpu-unaware-worstordering";
    let told =
        marked.json(&["replay", "--trace", "muri.csv", "--cluster", "1x2", "--policy", name, "--dry-run"]);
    assert_eq!(told["policy"], "muri-l");
    assert!(told["settings"].as_array().unwrap().contains(&"ordering=worst".into()), "{told:#}");
}

#[test]
fn network_interface_that_does_not_exist_is_refused_with_those_that_do() {
    let marked = crius();
    let refused = marked.run(
        &[&REPLAY[..], &["--policy", "crius", "--network-interface", "ib9", "--start-cost", "0.1"]].concat(),
    );
    assert_eq!(refused.status.code(), Some(3));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    let error = told.lines().find(|line| line.starts_with("error:")).unwrap_or(&told);
    let listed = error.strip_prefix("error: network interface `ib9` does not exist on this node, which has ");
    assert!(listed.is_some_and(|listed| listed.split(", ").any(|name| name == "lo")), "{told}");
    assert!(
        told.ends_with("hint: name an interface of this machine, or leave `--network-interface` out\n"),
        "{told}"
    );
    marked.assert_nothing_left();
}

#[test]
fn options_of_the_runtime_of_crius_are_settings_of_every_policy_of_it() {
    let marked = crius();
    for (policy, set, expected) in [
        ("crius", "sched_with_opt=true", None),
        ("crius/fcfs", "sched_with_opt=on", None),
        ("crius/gavel", "sched_with_opt=off", None),
        ("crius", "sched_with_opt=off", Some("this policy decides by the best plan of each job")),
        ("crius-dp", "sched_with_opt=on", Some("`sched_with_opt` is not a setting of policy `crius-dp`")),
        ("crius/gavel", "sched_with_opt=maybe", Some("on or off")),
    ] {
        let output = marked.run(&[&REPLAY[..], &["--policy", policy, "--set", set, "--dry-run"]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), expected.is_none(), "{policy} {set}: {told}");
        assert!(expected.is_none_or(|expected| told.contains(expected)), "{policy} {set}: {told}");
    }
}

#[test]
fn policies_from_a_system_are_listed_with_their_names_here() {
    let sandbox = Sandbox::new();
    let listed = |system: &str| {
        let plain = sandbox.wharf(&format!("policies --from {system} --output plain")).ok();
        plain.lines().map(|line| format!("{}\n", line.replace('\t', " | ").trim_end())).collect::<String>()
    };
    insta::assert_snapshot!(listed("crius"), @"
    crius | wharf | note
    crius | --policy crius | `crius/crius` decides as published, defects included
    crius-dp | --policy crius-dp |
    crius-ns | --policy crius-ns |
    crius-nh | --policy crius-nh |
    crius-no | --policy crius-no |
    crius-nm | --policy crius-nm |
    crius-ddl | --policy crius-ddl |
    fcfs | --policy crius/fcfs | `fifo` starts jobs at once, not in rounds
    fcfs-r | --policy crius/fcfs-r |
    gandiva | --policy crius/gandiva | `gandiva` is Gandiva as Gavel has it
    elasticflow | --policy crius/elasticflow | `elasticflow` is ElasticFlow as its paper has it
    elasticflow-l | --policy crius/elasticflow-l | `elasticflow-l` is ElasticFlow as its paper has it
    gavel | --policy crius/gavel | `max-sum-throughput-perf` is Gavel's own policy of that objective
    sia | --policy crius/sia | `sia` is Sia as its paper has it
    ");
    insta::assert_snapshot!(listed("muri"), @"
    muri | wharf | note
    shortest | --policy srtf |
    shortest-gpu | --policy srsf |
    dlas-gpu | --policy tiresias |
    multi-resource-blossom-same-gpu | --policy muri-s |
    multi-resource-blossom-same-gpu-unaware | --policy muri-l |
    multi-resource-blossom-same-gpu-unaware-worstordering | --policy muri-l --set ordering=worst |
    multi-resource-gpu-unaware | --policy muri-l --set blossom=off |
    themis | --policy themis |
    antman | --policy antman |
    fifo | --policy fifo |
    sjf | --policy srtf | `sjf` does not preempt
    Tiresias | --policy tiresias --set queue_limits_s=700 --set gputime=off |
    sjf-ffs | --policy sjf-ffs | with `-m` there: workers use MPS where it works
    sjf-ffs-no-preempt | --policy sjf-ffs --set preempt=off |
    sjf-ffss | --policy sjf-ffss | with `-m` there: workers use MPS where it works
    sjf-ffss-no-preempt | --policy sjf-ffss --set preempt=off |
    sjf-bsbf | --policy sjf-bsbf | with `-m` there: workers use MPS where it works
    sjf-bsbf-no-preempt | --policy sjf-bsbf --set preempt=off |
    sjf-bsbfs | --policy sjf-bsbfs | with `-m` there: workers use MPS where it works
    sjf-bsbfs-no-preempt | --policy sjf-bsbfs --set preempt=off |
    ");
    let gavel = listed("gavel");
    assert!(gavel.contains("max_min_fairness_perf | --policy max-min-fairness-perf |\n"), "{gavel}");
    let document: serde_json::Value =
        serde_json::from_str(&sandbox.wharf("policies --from muri --output json").ok()).unwrap();
    assert_eq!(document["from"], "muri");
    assert_eq!(document["policies"][0]["policy"], "srtf");
    let error = sandbox.wharf("policies --from slurm").fails(2);
    assert!(error.contains("[possible values: crius, muri, gavel]"), "{error}");
}
