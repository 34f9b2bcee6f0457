//! `wharf trace`

use serde_json::Value;

use crate::sandbox::{Sandbox, TRACE};

#[test]
fn conversion_there_and_back_is_the_same() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 200 --seed 3 --deadline-share 0.5 --to t.csv").ok();
    sandbox.wharf("trace convert t.csv t.jsonl").ok();
    assert!(sandbox.read("t.jsonl").starts_with('{'));
    sandbox.wharf("trace convert t.jsonl back.csv").ok();
    assert_eq!(sandbox.read("t.csv"), sandbox.read("back.csv"));
    let piped = sandbox.shell("\"$WHARF\" trace convert - --to csv < t.jsonl").ok();
    assert_eq!(piped, sandbox.read("t.csv"));
}

#[test]
fn losses_are_warnings_on_standard_error() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 20 --deadline-share 1 --to t.csv").ok();
    let said = sandbox.wharf("trace convert t.csv - --to muri");
    assert!(said.stderr.starts_with("warning: "), "{}", said.stderr);
    assert!(said.stderr.contains("deadline"), "{}", said.stderr);
    assert!(said.ok().starts_with("job_id,num_gpu,submit_time,"));
    let quiet = sandbox.wharf("trace convert t.csv - --to muri --quiet");
    assert_eq!(quiet.stderr, "");
}

#[test]
fn lint_lists_all_findings_and_fails() {
    let sandbox = Sandbox::new();
    let clean = sandbox.wharf("trace lint jobs.csv");
    assert_eq!((clean.stderr.as_str(), clean.code), ("valid: 0 errors, 0 warnings\n", Some(0)));
    sandbox.write("bad.csv", &TRACE.replace("50,1000", "50,-7").replace("a,0,1", "c,0,1"));
    let said = sandbox.wharf("trace lint bad.csv jobs.csv");
    assert_eq!(said.code, Some(3));
    assert!(said.stdout.contains("bad.csv:3:iteration_ms: error[negative-duration]: "), "{}", said.stdout);
    assert!(said.stdout.contains("bad.csv:4:job_id: error[duplicate-id]: "), "{}", said.stdout);
    assert_eq!(said.stderr, "not valid: 2 errors, 0 warnings\n");
    let said = sandbox.wharf("trace lint bad.csv --output json");
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&document["schema"], &document["errors"]), (&1.into(), &2.into()));
    assert_eq!(document["findings"][0]["rule"], "negative-duration");
    let plain = sandbox.wharf("trace lint bad.csv --output plain").stdout;
    assert!(plain.starts_with("file\tline\tcolumn\tseverity\trule\tmessage\thint\nbad.csv\t3\t"), "{plain}");
    let said = sandbox.wharf("trace lint jobs.csv --cluster 1x1");
    assert!(said.stdout.contains("error[impossible-gang]"), "{}", said.stdout);
    assert_eq!(said.code, Some(3));
    sandbox.wharf("trace lint nope.csv").fails(3);
}

#[test]
fn stats_describe_a_trace() {
    let sandbox = Sandbox::new();
    let text = sandbox.wharf("trace stats jobs.csv --cluster 1x2").ok();
    assert!(text.contains("jobs"), "{text}");
    let document: Value =
        serde_json::from_str(&sandbox.wharf("trace stats jobs.csv --output json").ok()).unwrap();
    assert_eq!((&document["schema"], &document["job_count"]), (&1.into(), &3.into()));
    assert_eq!(document.get("offered_load"), None);
    let plain = sandbox.wharf("trace stats jobs.csv --cluster 1x2 --output plain").ok();
    assert!(plain.starts_with("field\tvalue\n"), "{plain}");
    assert!(plain.contains("\njob_count\t3\n") && plain.contains("\noffered_load\t5.25\n"), "{plain}");
}

#[test]
fn generated_traces_depend_on_the_seed_only() {
    let sandbox = Sandbox::new();
    let generate = |options: &str| sandbox.wharf(&format!("trace generate --jobs 30 {options}")).ok();
    assert_eq!(generate("--seed 1"), generate("--seed 1"));
    assert_ne!(generate("--seed 1"), generate("--seed 2"));
    assert_eq!(generate("--at-once --format jsonl").lines().count(), 30);
    let error = sandbox.wharf("trace generate --load 1 --rate 2").fails(2);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = sandbox.wharf("trace generate --gangs phily").fails(2);
    assert!(error.contains("did you mean `philly`?"), "{error}");
    let error = sandbox.wharf("trace generate --jobs 0 --to t.csv").fails(2);
    assert!(error.contains("job_count is 0"), "{error}");
    assert_eq!(sandbox.names("."), ["jobs.csv"]);
}

/// A sample beside the repository's examples.
fn sample(name: &str) -> String {
    format!("{}/../../examples/traces/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn logs_are_converted_and_what_is_left_out_is_reported() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf(&format!("trace convert {} helios.csv", sample("helios.csv")));
    assert!(
        said.stderr.contains("helios.csv:3: 1 row dropped: no GPU asked for (first: `902`)\n"),
        "{}",
        said.stderr
    );
    said.ok();
    let header = "job_id,user,submit_s,devices,iterations,iteration_ms,duration_s,pool\n";
    assert_eq!(
        sandbox.read("helios.csv"),
        format!(
            "{header}901,uAaaa,0,8,7200,1000,7200,vcOne\n903,uAaaa,120,16,120,1000,120,vcTwo\n\
             906,uBbbb,600,4,86400,1000,86400,vcOne\n"
        )
    );
    let quiet = sandbox.wharf(&format!("trace convert {} - --quiet", sample("openb.csv")));
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.ok().lines().count(), 4);
    // A folder, as it is published.
    let said = sandbox.wharf(&format!("trace stats {} --output json", sample("pai")));
    assert!(said.stderr.contains("not in the job table"), "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!((&document["job_count"], &document["user_count"]), (&3.into(), &2.into()));
}

#[test]
fn lint_counts_the_rows_of_a_log_as_warnings() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf(&format!("trace lint {} --output json", sample("philly.json")));
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["errors"], 0);
    let findings: Vec<(&str, u64)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["rule"].as_str().unwrap(), finding["line"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("adapted-jobs", 2),
        ("dropped-rows", 21),
        ("adapted-jobs", 29),
        ("dropped-rows", 43),
        ("dropped-rows", 57),
        ("adapted-jobs", 71),
        ("adapted-jobs", 71),
    ];
    assert_eq!(findings, expected);
    said.ok();
}

#[test]
fn formats_that_are_only_read_are_not_written() {
    let sandbox = Sandbox::new();
    let error = sandbox.wharf("trace convert jobs.csv out.json --to philly").fails(2);
    assert!(error.contains("traces are not written as `philly`, only read"), "{error}");
    assert!(error.contains("hint: write csv, muri, gavel, jsonl"), "{error}");
    let error = sandbox.wharf("trace convert jobs.csv --from helios").fails(3);
    assert!(error.contains("missing-column"), "{error}");
}

#[test]
fn blox_preset_runs_a_stream() {
    let sandbox = Sandbox::new();
    let trace = sample("blox-stream.json");
    let said = sandbox.wharf(&format!(
        "sim --trace {trace} --cluster 2x4 --policy las,fifo,srtf --preset blox --output json --set track=0..2"
    ));
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!((&run["preset"], &run["jobs"], &run["finished"]), (&"blox".into(), &3.into(), &3.into()));
    }
    let error =
        sandbox.wharf(&format!("sim --trace {trace} --cluster 2x4 --policy muri-s --preset blox")).fails(2);
    assert!(error.contains("the preset has las, fifo, srtf, tiresias"), "{error}");
}

/// Traces and clusters that `wharf sim` rejects: the linter rejects them at the job's line, with the same options.
#[test]
fn lint_rejects_what_sim_rejects() {
    let sandbox = Sandbox::new();
    let native =
        "job_id,submit_s,devices,duration_s,iterations,iteration_ms,model,device_types,pool,devices_min\n";
    sandbox.write("pools.csv", "name,device_type,devices,pool\nn0,v100,4,x\nn1,v100,4,y\n");
    sandbox.write("racks.csv", "name,device_type,devices,switch\nn0,gpu,4,0\nn1,gpu,4,1\n");
    sandbox.write("uneven.csv", "name,device_type,devices\nn0,gpu,4\nn1,gpu,2\n");
    for (row, cluster, options, expected) in [
        (
            "a,0,25,5,,,,,,",
            "a100:2x4,v100:4x4",
            "",
            "4:devices: error[impossible-gang]: needs 25 devices, the cluster can give it at most 16",
        ),
        // Of two types, a gang has one.
        (
            "a,0,24,5,,,,,,",
            "a100:2x4,v100:4x4",
            "",
            "4:devices: error[impossible-gang]: needs 24 devices, the cluster can give it at most 16",
        ),
        (
            "a,0,16,5,,,,a100,,",
            "a100:2x4,v100:4x4",
            "",
            "4:devices: error[impossible-gang]: needs 16 devices, the cluster can give it at most 8",
        ),
        // An elastic job is placed on what it asks for.
        (
            "a,0,16,5,,,,,,4",
            "2x4",
            "",
            "4:devices: error[impossible-gang]: needs 16 devices, the cluster can give it at most 8",
        ),
        (
            "a,0,2,5,,,,tpu;k80,,",
            "a100:2x4,v100:4x4",
            "",
            "4:device_types: error[impossible-gang]: the cluster has no device of type `tpu;k80`",
        ),
        // No gang spans switches.
        (
            "a,0,8,5,,,,,,",
            "racks.csv",
            "",
            "4:devices: error[impossible-gang]: needs 8 devices, the cluster can give it at most 4",
        ),
        (
            "a,0,8,5,,,,,x,",
            "pools.csv",
            "",
            "4:devices: error[impossible-gang]: needs 8 devices, the cluster can give it at most 4",
        ),
        ("a,0,2,5,,,,,z,", "pools.csv", "", "4:job_id: error[unknown-pool]: the cluster has no pool `z`"),
        (
            "a,0,2,,50,,nonesuch,,,",
            "2x4",
            "",
            "4:model: error[not-simulated]: the job has no `iteration_ms`, and the profile has no model `nonesuch`",
        ),
        (
            "a,0,1,5,,,,,,",
            "1x1",
            "--preset muri --policy muri-l",
            "2:job_id: error[not-simulated]: job ok has no usable stage times, which muri-l needs",
        ),
        (
            "a,0,6,5,,,,,,",
            "2x4",
            "--preset blox --policy fifo",
            "4:job_id: error[not-simulated]: job a needs 6 devices, which this mechanism never finds",
        ),
    ] {
        sandbox.write("t.csv", &format!("{native}ok,0,1,5,,,,,,\n\n{row}\n"));
        let policy = if options.is_empty() { "--policy fifo" } else { "" };
        let simulated = sandbox.wharf(&format!("sim --trace t.csv --cluster {cluster} {policy} {options}"));
        let linted = sandbox.wharf(&format!("trace lint t.csv --cluster {cluster} {options}"));
        let shown = format!("{row} on {cluster} {options}:\n{}\n{}", simulated.stderr, linted.stdout);
        assert_eq!(linted.code == Some(0), simulated.code == Some(0), "{shown}");
        if linted.code != Some(0) {
            assert!(linted.stdout.contains(&format!("t.csv:{expected}")), "{shown}");
            assert_eq!(linted.code, Some(3), "{shown}");
        }
    }
    let error = sandbox.wharf("trace lint jobs.csv --cluster uneven.csv --preset muri").fails(3);
    assert!(error.contains("this mechanism needs equal nodes"), "{error}");
}

#[test]
fn trace_commands_compose_in_a_pipe() {
    let sandbox = Sandbox::new();
    let dump = sample("sacct.txt");
    let piped = sandbox
        .shell(&format!(
            "\"$WHARF\" trace convert {dump} -q | \"$WHARF\" trace filter --user bob,cyd --devices ..8 | \
             \"$WHARF\" trace slice --jobs 1.. | \"$WHARF\" trace scale --durations 0.5 | \"$WHARF\" trace shift | \
             \"$WHARF\" trace head -n 1 - --to csv"
        ))
        .ok();
    assert_eq!(
        piped,
        "job_id,user,submit_s,devices,device_types,iterations,iteration_ms,duration_s,array,array_index,pool\n\
         1202_2,bob,0,1,v100,1815,1000,1800,1202,2,gpu\n"
    );
    sandbox.wharf(&format!("trace filter {dump} completed.csv --only-completed --quiet")).ok();
    assert_eq!(
        sandbox.read("completed.csv").lines().count(),
        4,
        "a header, two completed jobs and a requeued one"
    );
    let twice = |seed: u32| sandbox.wharf(&format!("trace resample jobs.csv -n 20 --seed {seed}")).ok();
    assert_eq!(twice(3), twice(3));
    assert_eq!(twice(3).lines().count(), 21);
    assert_ne!(twice(3), twice(4));
}

#[test]
fn trace_commands_that_leave_nothing_fail_with_the_file() {
    let sandbox = Sandbox::new();
    for (command, code, expected) in [
        ("trace filter jobs.csv --user nobody", 3, "error: jobs.csv: no job passes the filter, of 3"),
        (
            "trace slice jobs.csv --jobs 3..9",
            3,
            "error: jobs.csv: positions 3..9 are outside the trace, which has jobs 0 to 2",
        ),
        (
            "trace slice jobs.csv --jobs 2..2",
            3,
            "error: jobs.csv: the range 2..2 is empty: its end is excluded",
        ),
        (
            "trace shift jobs.csv --start -5",
            3,
            "error: jobs.csv: the first submission cannot be at -5 s, expected a number from 0",
        ),
        (
            "trace slice jobs.csv --time 1e6..",
            3,
            "error: jobs.csv: no job is submitted in the window 1000000.. s",
        ),
        ("trace head jobs.csv -n 0", 3, "error: jobs.csv: no job is left of 3: the requested number is 0"),
        (
            "trace scale jobs.csv --devices 0",
            3,
            "error: jobs.csv: the factor of devices is 0, expected a number above 0",
        ),
        (
            "trace filter jobs.csv --devices 8..1",
            2,
            "expected FROM..TO, FROM.., ..TO or one number from 0, found `8..1`",
        ),
        ("trace slice jobs.csv", 2, "the following required arguments were not provided"),
        ("trace slice jobs.csv --jobs 1.. --time 1..", 2, "cannot be used with"),
    ] {
        let error = sandbox.wharf(command).fails(code);
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn invalid_rows_of_a_dump_are_skipped_with_a_report() {
    let sandbox = Sandbox::new();
    let dump = std::fs::read_to_string(sample("sacct.txt")).unwrap();
    sandbox.write("bad.txt", &dump.replace("2024-03-04T09:11:10", "2024-03-04T09:01:05"));
    let error = sandbox.wharf("trace convert bad.txt").fails(3);
    assert!(
        error.contains(
            "bad.txt:5:End: error[times-backwards]: the job ends at 2024-03-04T09:01:05, 5 s before it starts"
        ),
        "{error}"
    );
    let said = sandbox.wharf("trace convert bad.txt good.csv --skip-invalid");
    assert!(
        said.stderr.contains("warning: bad.txt:5: 1 row skipped (times-backwards): the job ends at 2024-03-04T09:01:05, 5 s before it starts (line 5)\n"),
        "{}",
        said.stderr
    );
    said.ok();
    assert_eq!(sandbox.read("good.csv").lines().count(), 5);
}

/// The commands of the worked example, as its page shows them, on its dump.
#[test]
fn worked_example_from_slurm_runs_as_documented() {
    let folder = format!("{}/../../examples/slurm-accounting", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
    let sandbox = Sandbox::new();
    for name in ["sacct.txt", "cluster.csv"] {
        sandbox.write(name, &std::fs::read_to_string(format!("{folder}/{name}")).unwrap());
    }
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("wharf ")).collect();
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let command = command.split("  #").next().unwrap_or_default();
        sandbox.shell(&format!("\"$WHARF\" {}", command.replace("| wharf ", "| \"$WHARF\" "))).ok();
    }
    let policies = ["fifo", "las", "sjf", "srtf", "tiresias"];
    let runs = sandbox.names("results");
    let has = |policy: &str| runs.iter().any(|run| run.starts_with(&format!("jobs-{policy}")));
    assert!(policies.into_iter().all(has), "{runs:?}");
    let report = sandbox.read("report.html");
    assert!(policies.iter().all(|policy| report.contains(policy)));
    // Every job ran in the partition that Slurm ran it in.
    let jobs = sandbox.read("jobs.csv");
    let pools: std::collections::BTreeMap<&str, &str> = jobs
        .lines()
        .skip(1)
        .filter_map(|row| row.split_once(',').zip(row.rsplit_once(',')))
        .map(|(first, last)| (first.0, last.1))
        .collect();
    let run = runs.iter().find(|run| run.starts_with("jobs-srtf")).unwrap();
    let mut checked = 0;
    for line in sandbox.read(&format!("results/{run}/events.jsonl")).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let Some(nodes) = event.get("nodes").and_then(Value::as_array) else { continue };
        let pool = pools[event["job"].as_str().unwrap()];
        // Nodes 0 to 2 are `gpu`, 3 and 4 are `legacy`.
        let is_gpu = |node: &Value| node[0].as_u64().unwrap() < 3;
        assert!(nodes.iter().all(|node| is_gpu(node) == (pool == "gpu")), "{line}");
        checked += 1;
    }
    assert!(checked >= pools.len(), "{checked} placements of {} jobs", pools.len());
}

#[test]
fn pools_of_jobs_are_ignored_on_a_cluster_without_pools() {
    let sandbox = Sandbox::new();
    let trace = sample("helios.csv");
    let said = sandbox.wharf(&format!("sim --trace {trace} --cluster 4x8 --policy fifo --output json"));
    let note = "the pools of 3 jobs are ignored: no node of the cluster belongs to a pool\n";
    assert!(said.stderr.contains(note), "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!(document["runs"][0]["finished"], 3);
    sandbox.write(
        "pools.csv",
        "name,device_type,devices,pool\nn0,gpu,8,vcOne\nn1,gpu,8,vcTwo\nn2,gpu,8,vcTwo\n",
    );
    let said = sandbox.wharf(&format!("sim --trace {trace} --cluster pools.csv --policy fifo --output json"));
    assert!(!said.stderr.contains("ignored"), "{}", said.stderr);
    said.ok();
    sandbox.write("other.csv", "name,device_type,devices,pool\nn0,gpu,16,vcTwo\n");
    let error = sandbox.wharf(&format!("sim --trace {trace} --cluster other.csv --policy fifo")).fails(3);
    assert!(
        error.contains("job `901` (row 1 of the trace) belongs to pool `vcOne`; the cluster has vcTwo"),
        "{error}"
    );
}
