//! `wharf plan`: how models are split, what is refused, and what measured times make of it.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

fn json(sandbox: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&sandbox.wharf(&format!("{line} --output json")).ok()).unwrap()
}

#[test]
fn plans_are_ranked_with_reasons() {
    let sandbox = Sandbox::new();
    let document = json(&sandbox, "plan --model gpt-2.6b --batch 256 --gpus a40:8 --per-node 2 --top 100");
    let gang = &document["gangs"][0];
    assert_eq!(
        (&document["model"], &gang["devices"], &gang["source"]),
        (&"gpt-2.6b".into(), &8.into(), &"estimated".into())
    );
    let plans = gang["plans"].as_array().unwrap();
    let times: Vec<f64> = plans
        .iter()
        .filter(|plan| plan["fits"].as_bool().unwrap())
        .map(|plan| plan["iteration_s"].as_f64().unwrap())
        .collect();
    assert!(times.len() > 3 && times.is_sorted(), "{times:?}");
    for plan in plans {
        let degree = |name: &str| plan[name].as_u64().unwrap();
        assert_eq!(degree("pipeline") * degree("data") * degree("tensor"), 8, "{plan}");
        assert!(degree("tensor") <= 2, "layers are shared within a node: {plan}");
        let stages = plan["stages"].as_array().unwrap();
        assert_eq!(stages.len() as u64, degree("pipeline"));
        assert_eq!(stages.last().unwrap()[1], 32, "all layers are somewhere: {plan}");
        let parts: f64 =
            plan["estimate_s"].as_object().unwrap().values().map(|part| part.as_f64().unwrap()).sum();
        assert!((parts - plan["iteration_s"].as_f64().unwrap()).abs() < 1e-9);
    }
    // A replica of 2.6 billion parameters with Adam does not fit on one of them.
    let whole = plans.iter().find(|plan| plan["data"] == 8).unwrap();
    let why = whole["why"].as_str().unwrap();
    assert!(whole["fits"] == false && why.starts_with("needs "), "{whole}");
    assert!(why.ends_with(" GiB, may take 43.2 of 48"), "nine tenths of what there is: {why}");
    let shown = sandbox.wharf("plan --model gpt-2.6b --gpus a40:8 --per-node 2 --top 3").ok();
    assert!(shown.lines().count() == 4 && shown.contains("samples/s"), "{shown}");
}

#[test]
fn sharing_out_state_needs_less_memory() {
    let sandbox = Sandbox::new();
    let memory = |more: &str| {
        let line = format!("plan --model gpt-1.3b --batch 64 --gpus h100:8 --top 100 {more}");
        let document = json(&sandbox, &line);
        let plans = document["gangs"][0]["plans"].as_array().unwrap().clone();
        let replicas = plans.iter().find(|plan| plan["data"] == 8).unwrap();
        replicas["memory_gib"].as_f64().unwrap()
    };
    let all = ["--zero 0", "--zero 1", "--zero 2", "--zero 3"].map(memory);
    assert!(all.is_sorted_by(|more, less| more > less), "{all:?}");
    assert!(memory("--no-recompute") > all[0]);
}

#[test]
fn gradients_that_are_summed_meanwhile_take_less_time() {
    let sandbox = Sandbox::new();
    let data_s = |more: &str| {
        let line = format!("plan --model gpt-1.3b --batch 64 --gpus h100:8 --zero 1 --top 100 {more}");
        let plans = json(&sandbox, &line)["gangs"][0]["plans"].as_array().unwrap().clone();
        let replicas = plans.iter().find(|plan| plan["data"] == 8).unwrap();
        replicas["estimate_s"]["data"].as_f64().unwrap()
    };
    assert!(data_s("--overlap") < data_s("--overlap=false"));
    assert_eq!(data_s("--overlap"), data_s(""), "on such devices Megatron-LM does so anyway");
}

#[test]
fn sweep_lists_every_number_of_devices() {
    let sandbox = Sandbox::new();
    let shown =
        sandbox.wharf("plan --model gpt-6.7b --gpus a100:16 --gpus h100:2 --sweep --output plain").ok();
    let rows: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let named: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(
        named,
        [
            ("a100", "1"),
            ("a100", "2"),
            ("a100", "4"),
            ("a100", "8"),
            ("a100", "16"),
            ("h100", "1"),
            ("h100", "2")
        ]
    );
    assert_eq!(rows[0][2], "does not fit");
    assert_ne!(rows[4][2], "does not fit");
}

/// Twelve devices are a sweep's last number; thirteen replicas cannot share twelve samples.
#[test]
fn a_sweep_continues_where_samples_cannot_be_split() {
    let sandbox = Sandbox::new();
    let line = "plan --model vit-b --batch 12 --gpus a40:13 --sweep";
    let shown = sandbox.wharf(&format!("{line} --output plain --out curves")).ok();
    let rows: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.iter().map(|row| row[1]).collect::<Vec<_>>(), ["1", "2", "4", "8", "13"]);
    assert_eq!(
        rows.iter().map(|row| row[2] == "cannot be split").filter(|is_refused| *is_refused).count(),
        1
    );
    assert!(sandbox.read("curves/sweep.csv").contains("a40,13,,,,,,cannot be split"));
    let document = json(&sandbox, line);
    assert!(document["gangs"][4]["refusal"].as_str().unwrap().contains("12 over 12 devices"), "{document}");
}

/// torchrun starts equally many processes on every node.
#[test]
fn as_many_processes_are_started_as_there_are_devices() {
    let sandbox = Sandbox::new();
    for devices in [4, 8, 12, 16, 20] {
        let document = json(&sandbox, &format!("plan --model gpt-1.3b --batch 240 --gpus a40:{devices}"));
        let gang = &document["gangs"][0];
        let line = gang["launch"]["torchrun"].as_str().unwrap();
        let number = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap();
            rest.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let (nodes, each) = (number("--nnodes="), number("--nproc-per-node="));
        assert!(nodes * each == devices && each <= 8, "{line}");
        assert_eq!(each % gang["plans"][0]["tensor"].as_u64().unwrap(), 0, "{line}");
    }
}

/// The best plan for each number of stages; what no other beats is marked.
#[test]
fn cells_are_reported_with_those_that_are_efficient() {
    let sandbox = Sandbox::new();
    let line = "plan --model gpt-2.6b --batch 256 --gpus a40:8 --per-node 2 --sweep --cells --output plain";
    let shown = sandbox.wharf(line).ok();
    let rows: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let eights: Vec<&str> = rows.iter().filter(|row| row[1] == "8").map(|row| row[2]).collect();
    assert_eq!(eights, ["1", "2", "4", "8"], "{shown}");
    let fastest = rows.iter().min_by(|one, two| {
        let time = |row: &[&str]| row[4].parse::<f64>().unwrap();
        time(one).total_cmp(&time(two))
    });
    assert_eq!(fastest.unwrap()[6], "yes");
}

#[test]
fn a_sweep_becomes_a_table_and_plots() {
    let sandbox = Sandbox::new();
    sandbox.wharf("plan --model gpt-1.3b --gpus a100:8 --gpus a10:8 --sweep --out curves/new").ok();
    let read = |name: &str| std::fs::read_to_string(sandbox.path().join("curves/new").join(name)).unwrap();
    let table = read("sweep.csv");
    assert_eq!(table.lines().count(), 1 + 8, "{table}");
    assert!(table.contains("a10,1,,,,,,does not fit"), "{table}");
    for name in ["scaling.svg", "cost.svg"] {
        let plot = read(name);
        assert!(plot.starts_with("<svg") && plot.contains(">a100<") && plot.contains("gpt-1.3b"), "{name}");
    }
    let error = sandbox.wharf("plan --model gpt-1.3b --gpus a100:8 --out curves").fails(2);
    assert!(error.contains("--sweep"), "{error}");
}

/// A job on a real head that reports its steps; its times go into a database, and the planner knows them.
#[test]
fn lengths_are_learned_from_finished_jobs() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("left");
    let none = cluster.run(&["profile", "learn", "--into", "lab.db"]);
    assert_eq!(none.status.code(), Some(3), "nothing has run yet");
    let trainer = "i=0; while [ $i -lt 12 ]; do i=$((i+1)); $0 step $i; sleep 0.2; done";
    let wharf = env!("CARGO_BIN_EXE_wharf");
    let gang = ["submit", "--wait", "--gang", "2", "--model", "vit-b", "--batch-size", "64"];
    cluster.say(&[&gang[..], &["--", "sh", "-c", trainer, wharf]].concat());
    let said = |words: &[&str]| -> Value {
        serde_json::from_str(&cluster.say(&[words, &["--output", "json"]].concat())).unwrap()
    };
    let database = cluster.path("lab.db");
    let database = database.to_str().unwrap();
    assert_eq!(said(&["profile", "learn", "--into", database, "--dry-run"])["new"], 1);
    assert!(!cluster.path("lab.db").exists());
    assert_eq!(said(&["profile", "learn", "--into", database])["new"], 1);
    assert_eq!(said(&["profile", "learn", "--into", database])["equal"], 1, "nothing new");
    let history = said(&["job", "0"])["history"].to_string();
    assert!(history.contains("iterations took") && history.contains("each on 2 x v100"), "{history}");

    let plan = |devices: &str, more: &[&str]| {
        let words = ["plan", "--model", "vit-b", "--batch", "64", "--gpus", devices, "--per-node", "4"];
        said(&[&words[..], more].concat())["gangs"][0].clone()
    };
    let measured = plan("v100:2", &["--profile", database]);
    assert_eq!(measured["source"], "measured", "{measured}");
    let time_s = measured["measured_s"].as_f64().unwrap();
    assert!(time_s >= 0.2, "a step sleeps for 0.2 s: {time_s}");
    let (before, after) = (plan("v100:4", &[]), plan("v100:4", &["--profile", database]));
    let iteration_s = |gang: &Value| gang["plans"][0]["iteration_s"].as_f64().unwrap();
    assert_eq!((&before["source"], &after["source"]), (&"estimated".into(), &"corrected".into()));
    assert!(iteration_s(&after) > iteration_s(&before), "slower than the data sheet on two, and so on four");
    assert_eq!(after["plans"][0]["source"], "corrected");
}

/// Jobs of models that only the planner knows: their speeds, and where they fit, are estimated.
#[test]
fn jobs_that_no_profile_knows_are_simulated_by_the_planner() {
    let sandbox = Sandbox::new();
    let header = "job_id,user,submit_s,devices,devices_min,iterations,iteration_ms,model,batch_size";
    sandbox.write(
        "jobs.csv",
        &format!("{header}\nlarge,ann,0,4,1,50,,gpt-2.6b,64\nsmall,bob,10,2,1,200,,bert-125m,64\n"),
    );
    sandbox.write("nodes.csv", "name,device_type,devices\nleft,a40,4\nright,v100,4\n");
    let line = "sim --trace jobs.csv --cluster nodes.csv --policy crius,srtf --output json";
    let told: Value = serde_json::from_str(&sandbox.wharf(line).ok()).unwrap();
    assert!(told.to_string().contains("crius"), "{told}");
    sandbox.write("jobs.csv", &format!("{header}\nhuge,ann,0,1,1,50,,gpt-175b,64\n"));
    let error = sandbox.wharf("sim --trace jobs.csv --cluster nodes.csv --policy crius").fails(3);
    assert!(error.contains("`gpt-175b` on 1 devices fits no device type"), "{error}");
}

#[test]
fn measured_times_correct_estimates() {
    let sandbox = Sandbox::new();
    let cells = r#"{"optimal": {"bert_1.3B_128": {"1_a40_1_n_2_d": 26.0}}}"#;
    std::fs::create_dir(sandbox.path().join("lab")).unwrap();
    sandbox.write("lab/prof_database.json", cells);
    sandbox.write("lab/dp_mem.json", "[{}]");
    let hardware = r#"{"NODE_CAPACITY": {"a40": 2}, "gpu_specs": {"a40": {"max_mem_gb": 48.0}},
        "supported_model_cfgs": {"bert": {"param_num": ["1.3B"], "batch_size": [128]}}}"#;
    sandbox.write("lab/hardware_specs.json", hardware);
    let asked = |devices: u32, more: &str| {
        let line = format!("plan --model bert-1.3b --batch 128 --gpus a40:{devices} --per-node 2 {more}");
        let gang = json(&sandbox, &line)["gangs"][0].clone();
        (gang["source"].as_str().unwrap().to_owned(), gang["plans"][0]["iteration_s"].as_f64().unwrap())
    };
    let (source, estimated_s) = asked(2, "");
    assert_eq!(source, "estimated");
    let (source, corrected_s) = asked(2, "--profile lab");
    assert_eq!(source, "measured");
    assert!((corrected_s - 26.0).abs() < 26.0 * 0.06, "{estimated_s} {corrected_s}");
    let (source, corrected_s) = asked(4, "--profile lab");
    assert_eq!(source, "corrected");
    assert!(corrected_s > asked(4, "--framework jax").1, "{corrected_s}");
}

const HEADER: &str = "model,batch_size,device_type,devices,iterations_per_s,plan";

/// One of several ways to share out experts was run, and in one number of microbatches, not recorded which.
#[test]
fn measurements_of_one_plan_are_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("lab.csv", &format!("{HEADER}\nmoe-690m,64,a40,4,0.02,pp1.dp4.tp1\n"));
    let measured = |more: &str| {
        let line =
            format!("plan --model moe-690m --batch 64 --gpus a40:4 --top 100 --profile lab.csv {more}");
        let plans = json(&sandbox, &line)["gangs"][0]["plans"].as_array().unwrap().clone();
        assert!(
            plans.iter().filter(|plan| plan["plan"].as_str().unwrap().starts_with("p1 d4 t1")).count() == 2
        );
        let found = plans.into_iter().filter(|plan| plan["source"] == "measured");
        found.map(|plan| (plan["microbatches"].clone(), plan["iteration_s"].clone())).collect::<Vec<_>>()
    };
    let [(microbatches, time_s)] = measured("").try_into().unwrap();
    assert_eq!(time_s, 50.0);
    assert_eq!(measured(&format!("--microbatches {microbatches}")).len(), 1);
    let other = if microbatches == 16 { 8 } else { 16 };
    assert!(measured(&format!("--microbatches {other}")).is_empty(), "that was not run");

    // How past runs were split does not depend on what is asked now.
    let corrected_s = |more: &str| {
        let line = format!("plan --model moe-690m --batch 64 --gpus a40:2 --framework jax --top 100 {more}");
        json(&sandbox, &line)["gangs"][0]["plans"][0]["iteration_s"].as_f64().unwrap()
    };
    let factor = |more: &str| corrected_s(&format!("{more} --profile lab.csv")) / corrected_s(more);
    assert!((factor("--microbatches 32") / factor("") - 1.0).abs() < 1e-9);
}

/// Whatever is estimated, what ran fits; and what is measured counts in which plans beat others.
#[test]
fn measured_plans_fit_and_decide_efficiency() {
    let sandbox = Sandbox::new();
    let refused = sandbox.wharf("plan --model gpt-2.6b --batch 16 --gpus a40:1").fails(3);
    assert!(
        refused.contains("fits on none")
            && refused.contains("of each a40, and may take 43.2 of 48; 2 of them"),
        "{refused}"
    );
    sandbox.write("lab.csv", &format!("{HEADER}\ngpt-2.6b,16,a40,1,0.05,pp1.dp1.tp1\n"));
    let gang =
        json(&sandbox, "plan --model gpt-2.6b --batch 16 --gpus a40:1 --profile lab.csv")["gangs"][0].clone();
    let best = &gang["plans"][0];
    assert_eq!(
        (&best["fits"], &best["iteration_s"], &best["source"]),
        (&true.into(), &20.0.into(), &"measured".into())
    );

    let line = "plan --model gpt-1.3b --batch 64 --gpus a40:8 --cells --sweep --output plain";
    let cells = |more: &str| {
        let shown = sandbox.wharf(&format!("{line} {more}")).ok();
        let rows: Vec<Vec<String>> =
            shown.lines().skip(1).map(|row| row.split('\t').map(str::to_owned).collect()).collect();
        rows
    };
    let plan = cells("").into_iter().find(|row| row[1] == "8" && row[6] == "yes").unwrap();
    let degrees: Vec<&str> = plan[3].split(' ').map(|word| &word[1..]).collect();
    let named = format!("pp{}.dp{}.tp{}", degrees[0], degrees[1], degrees[2]);
    // Longer than on one device: never chosen.
    sandbox.write("slow.csv", &format!("{HEADER}\ngpt-1.3b,64,a40,8,0.0001,{named}\n"));
    let slow = cells("--profile slow.csv");
    for row in &slow {
        let cost = |row: &[String]| [1, 4, 5].map(|column: usize| row[column].parse::<f64>().unwrap());
        let is_beaten = slow.iter().any(|other| {
            let pairs = || cost(row).into_iter().zip(cost(other));
            pairs().all(|(own, theirs)| theirs <= own) && pairs().any(|(own, theirs)| theirs < own)
        });
        assert!(!(is_beaten && row[6] == "yes"), "{row:?} in {slow:?}");
    }
}

#[test]
fn list_contains_all_models() {
    let sandbox = Sandbox::new();
    let listed = json(&sandbox, "plan --list");
    let models = listed["models"].as_array().unwrap();
    let moe = models.iter().find(|model| model["model"] == "moe-690m").unwrap();
    assert!((moe["parameters"].as_f64().unwrap() / 690e6 - 1.0).abs() < 0.02, "{moe}");
    let types: Vec<&str> =
        listed["device_types"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in ["v100", "a10", "a40", "a100", "h100", "l20", "cpu"] {
        assert!(types.contains(&name), "{name}");
    }
    assert_eq!(sandbox.wharf("plan --list").ok().lines().count(), models.len() + 1 + types.len() + 1);
}

/// User-defined models and devices, in files; see `examples/planner`.
#[test]
fn files_describe_models_and_devices() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "tiny.toml",
        "name = 'tiny'\nsplits = 8\n[[layers]]\nrepeat = 6\nflop = 2e9\nparameters = 3e6\n\
         output_bytes = 3e5\nactivation_bytes = 4e6\n",
    );
    sandbox.write("lab.yaml", "devices:\n  - {name: big, like: a40, memory_gib: 96, per_node: 2}\n");
    let document =
        json(&sandbox, "plan --model tiny.toml --hardware lab.yaml --batch 32 --gpus big:4 --gpus a40:4");
    assert_eq!((&document["model"], &document["parameters"]), (&"tiny".into(), &18e6.into()));
    let per_node = |gang: usize| document["gangs"][gang]["per_node"].as_u64().unwrap();
    assert_eq!((per_node(0), per_node(1)), (2, 4));
    let listed = json(&sandbox, "plan --list --model tiny.toml --hardware lab.yaml");
    assert!(listed["models"].as_array().unwrap().iter().any(|model| model["model"] == "tiny"));
    assert!(listed["device_types"].as_array().unwrap().contains(&"big".into()));
    for (line, told) in [
        ("plan --model lab.yaml --gpus a40:2", "lab.yaml:1:1: `devices`: unknown field `devices`"),
        (
            "plan --model tiny.toml --hardware tiny.toml --gpus a40:2",
            "tiny.toml:1:1: `name`: unknown field `name`",
        ),
        ("plan --model no/such.yaml --gpus a40:2", "cannot read `no/such.yaml`"),
        ("plan --list --hardware none.yaml", "cannot read `none.yaml`"),
    ] {
        let error = sandbox.wharf(line).fails(3);
        assert!(error.contains(told), "{line}: {error}");
    }
}

/// A profile that was cut off, or is none, is told with what a profile is: nothing is planned as if it were empty.
#[test]
fn profiles_that_are_none_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.wharf("profile import default --into cut.db").ok();
    let whole = std::fs::read(sandbox.path().join("cut.db")).unwrap();
    std::fs::write(sandbox.path().join("cut.db"), &whole[..whole.len() / 2]).unwrap();
    sandbox.write("notes.txt", "this is no profile\n");
    sandbox.write("half.json", "{\"schema\": 1, \"entries\": [{\"model\"");
    for file in ["cut.db", "notes.txt", "half.json"] {
        for line in [
            "plan --model gpt-125m --gpus a40:2 --profile",
            "profile show",
            "profile query --model resnet50",
            "profile import --into new.db",
        ] {
            let error = sandbox.wharf(&format!("{line} {file}")).fails(3);
            assert!(error.contains(file) && error.contains("hint:"), "{line} {file}: {error}");
        }
    }
    assert!(!sandbox.path().join("new.db").exists());
}

/// How far off the planner is from what a folder has measured, as a table and plots.
#[test]
fn errors_are_written_and_told() {
    let sandbox = Sandbox::new();
    let cells = r#"{"optimal": {
        "bert_1.3B_128": {"1_a40_1_n_1_d": 47.0, "1_a40_1_n_2_d": 26.0, "2_a40_2_n_2_d": 14.0},
        "bert_760M_128": {"1_a40_1_n_2_d": 15.0},
        "nobody_1B_128": {"1_a40_1_n_2_d": 26.0}}}"#;
    std::fs::create_dir(sandbox.path().join("lab")).unwrap();
    sandbox.write("lab/prof_database.json", cells);
    sandbox.write("lab/dp_mem.json", "[{}]");
    let hardware = r#"{"NODE_CAPACITY": {"a40": 2}, "gpu_specs": {"a40": {"max_mem_gb": 48.0}},
        "supported_model_cfgs": {"bert": {"param_num": ["760M", "1.3B"], "batch_size": [128]},
        "nobody": {"param_num": ["1B"], "batch_size": [128]}}}"#;
    sandbox.write("lab/hardware_specs.json", hardware);
    let told = sandbox.wharf("plan --profile lab --errors off/new").ok();
    assert!(told.contains("bert on a40") && told.contains("corrected by others"), "{told}");
    let table = sandbox.read("off/new/errors.csv");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 4, "what the planner does not know is left out: {table}");
    let column = |name: &str| rows[0].iter().position(|title| *title == name).unwrap();
    for row in &rows[1..] {
        let number = |name: &str| row[column(name)].parse::<f64>().unwrap();
        let error = number("estimated_s") / number("measured_s") - 1.0;
        assert!((error - number("estimated_error")).abs() < 1e-9, "{row:?}");
        assert!(number("corrected_error").abs() < 0.5, "{row:?}");
    }
    for name in ["estimated.svg", "corrected.svg"] {
        let plot = sandbox.read(&format!("off/new/{name}"));
        assert!(
            plot.starts_with("<svg") && plot.contains("Seconds of an iteration") && plot.contains("measured"),
            "{name}"
        );
    }
    let error = sandbox.wharf("plan --profile default --errors none").fails(3);
    assert!(error.contains("has no measurements") && error.contains("--list"), "{error}");
}

/// A head under Crius gives a job that no profile knows what the planner would: more devices than it asks for at least, and the plan.
#[test]
fn crius_runs_jobs_on_a_real_head_as_the_planner_says() {
    let cluster = Cluster::new();
    let listen = format!("127.0.0.1:{}", cluster.port);
    let _head = cluster.daemon(&["head", "--listen", &listen, "--policy", "crius"], "listens on");
    let _worker = cluster.worker("left");
    let out = cluster.path("plan");
    let script = format!(
        "echo $WHARF_PIPELINE_STAGES $WHARF_DATA_PARALLEL $WHARF_TENSOR_PARALLEL > {0}.new; mv {0}.new {0}",
        out.display()
    );
    let gang = ["submit", "--wait", "--gang", "4", "--model", "gpt-1.3b", "--batch-size", "64"];
    cluster.say(&[&gang[..], &["--", "sh", "-c", &script]].concat());
    let degrees: Vec<u64> =
        std::fs::read_to_string(out).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
    let words = ["plan", "--model", "gpt-1.3b", "--batch", "64", "--gpus", "v100:4", "--output", "json"];
    let best: Value = serde_json::from_str(&cluster.say(&words)).unwrap();
    let best = &best["gangs"][0]["plans"][0];
    let planned: Vec<u64> =
        ["pipeline", "data", "tensor"].iter().map(|name| best[name].as_u64().unwrap()).collect();
    assert_eq!(degrees, planned);
    assert_ne!(degrees, [1, 4, 1], "a replica does not fit on one device");
}

#[test]
fn invalid_choice_is_rejected_with_the_choices() {
    let sandbox = Sandbox::new();
    for (line, code, told) in [
        ("plan --model gpt-2.6x --gpus a40:8", 2, "`gpt` has no size `2.6x`; known are 125m"),
        ("plan --model gtp-2.6b --gpus a40:8", 2, "`gtp-2.6b` is of no known family; known are gpt, bert"),
        ("plan --model gpt-2.6b --gpus a41:8", 2, "did you mean `a40`?"),
        ("plan --model gpt-2.6b --gpus a40", 2, "TYPE:COUNT"),
        ("plan --model gpt-2.6b --gpus a40:0", 2, "TYPE:COUNT"),
        ("plan --model gpt-2.6b --gpus a40:8 --memory-share 2", 2, "`--memory-share` takes"),
        ("plan --model gpt-39b --gpus a10:2", 3, "of them would do"),
        ("plan --model gpt-2.6b --batch 3 --gpus a40:8 --microbatches 2", 3, "a multiple of 2 can"),
        ("plan --model vit-b --batch 12 --gpus a40:13", 3, "a multiple of 13 can, and 12 over 12 devices"),
        ("plan --model vit-b --batch 0 --gpus a40:1", 2, "--batch"),
        ("plan --model gpt-125m --batch 1 --gpus a40:65536", 3, "devices in 1 microbatches; a multiple of"),
        (
            "plan --model gpt-175b --batch 1048576 --gpus k80:1048576 --zero 3 --memory 1.3",
            3,
            "try devices with more memory",
        ),
        ("plan --model gpt-2.6b --gpus a40:8 --profile nowhere.db", 3, "nowhere.db"),
    ] {
        let run = sandbox.wharf(line);
        let error = run.fails(code);
        assert!(error.contains(told), "{line}: {error}");
    }
}

/// One exact plan, what contradicts it, and where the network decides.
#[test]
fn one_plan_is_estimated_as_it_was_asked_for() {
    let sandbox = Sandbox::new();
    let line = "plan --model gpt-175b --sequence-length 2048 --batch 64 --node dgx-a100 --gpus a100-80gb:64 \
                --plan tp=8,pp=8,dp=1,mb=1,vp=3,recompute=selective --sequence-parallel";
    let document = json(&sandbox, line);
    let [plan] = &document["gangs"][0]["plans"].as_array().unwrap()[..] else { panic!("{document}") };
    assert_eq!((&plan["plan"], &plan["microbatches"]), (&"p8 d1 t8".into(), &64.into()));
    let time_s = plan["iteration_s"].as_f64().unwrap();
    // Table 5 of arXiv 2205.05198.
    assert!((time_s / 13.75 - 1.0).abs() < 0.1, "{time_s}");
    let tokens_per_s = plan["tokens_per_s"].as_f64().unwrap();
    assert!((tokens_per_s / (64.0 * 2048.0 / time_s) - 1.0).abs() < 1e-9);
    let interval = plan["interval_s"].as_array().unwrap();
    assert!(interval[0].as_f64().unwrap() < time_s && time_s < interval[1].as_f64().unwrap());
    let warned =
        json(&sandbox, "plan --model gpt-1.3b --batch 64 --gpus a100:16 --network 1 --plan tp=1,pp=1");
    assert!(
        warned["gangs"][0]["warnings"].to_string().contains("the network decides this answer"),
        "{warned}"
    );
    for (more, code, told) in [
        ("--plan tp=3", 3, "degrees divide 64: 1, 2, 4"),
        ("--plan tp=8,pp=8,dp=2", 3, "dp=1 would use them"),
        ("--plan tp=x", 2, "a whole number"),
        ("--plan colour=1", 2, "keys are tp, pp"),
        ("--precision fp8", 3, "a100-80gb has no products of fp8"),
        ("--stages 1,2", 2, "the model has 96"),
        ("--node dgx-a10", 2, "dgx-a100"),
    ] {
        let run = sandbox.wharf(&format!("plan --model gpt-175b --batch 64 --gpus a100-80gb:64 {more}"));
        let error = run.fails(code);
        assert!(error.contains(told), "{more}: {error}");
    }
}

/// A table of measurements is judged, and what is wrong with one is named.
#[test]
fn tables_of_measurements_are_judged() {
    let sandbox = Sandbox::new();
    let header = "devices,batch,mb,hidden,heads,layers,tokens,tp,dp,pp,time_s";
    sandbox.write(
        "runs.csv",
        &format!("{header}\n8,8,1,2048,16,20,1024,2,4,1,0.16\n8,8,1,2048,16,20,1024,1,4,2,0.136\n"),
    );
    let judged = json(&sandbox, "plan --judge runs.csv --gpus a100-80gb:8");
    assert_eq!((&judged["measurements"], &judged["impossible"]), (&2.into(), &0.into()));
    assert!(judged["median_error"].as_f64().unwrap() < 0.1, "{judged}");
    assert!(sandbox.wharf("plan --judge runs.csv").ok().contains("Kendall's tau"));
    sandbox.write("odd.csv", &format!("{header}\n8,8,1,2048,16,20,1024,2,4,1,-1\n"));
    let error = sandbox.wharf("plan --judge odd.csv").fails(3);
    assert!(error.contains("line 2: `time_s` is `-1`, expected a number above 0"), "{error}");
}
