//! `wharf tune`: a sweep over parameters with real processes, its failures run again, its results.

use crate::marked::Marked;

const SWEEP: &str = "\
name: rates
parameters:
  lr: [0.1, 0.2, 0.3]
  optimiser: [sgd, 'a b']
job:
  command: [sh, train.sh, --lr, '{lr}', '{optimiser}', 'an {other}']
  env: {RATE: 'rate {lr}'}
  output: '%x-{lr}-%a.txt'
  container: {image: /nowhere/image}
  gang: 1
";

/// Tells a loss, fails where it is requested to, and states what it was given.
const TRAIN: &str = "\
echo \"$2|$3|$4|$RATE|$WHARF_PARAM_LR|$WHARF_PARAM_OPTIMISER|$WHARF_ARRAY_INDEX\"
$WHARF step 10 --metric loss=$(expr 10 - $WHARF_ARRAY_INDEX).5
if [ \"$2\" = 0.2 ] && ! [ -e fixed ]; then exit 3; fi
";

#[test]
fn a_sweep_runs_is_repaired_and_compared() {
    let marked = Marked::new();
    marked.say(&["local", "--detach", "--worker", "cpu:4"]);
    std::fs::write(marked.path("sweep.yaml"), SWEEP).unwrap();
    std::fs::write(
        marked.path("train.sh"),
        TRAIN.replace("$WHARF step", &format!("{} step", env!("CARGO_BIN_EXE_wharf"))),
    )
    .unwrap();
    let shown = marked.say(&["tune", "start", "sweep.yaml", "--dry-run", "--output", "plain"]);
    assert!(shown.contains("\n3\t\t0.2\ta b\tplanned\t\n"), "{shown}");

    // The same sweep as in its container, on the node itself.
    let started = marked.run(&["tune", "start", "sweep.yaml", "--no-container", "--wait"]);
    assert_eq!(started.status.code(), Some(3), "{}", String::from_utf8_lossy(&started.stderr));
    assert_eq!(started.stdout, b"0\n", "one array");
    let read = |name: &str| {
        std::fs::read_to_string(marked.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert_eq!(read("rates-0.1-1.txt"), "0.1|a b|an {other}|rate 0.1|0.1|a b|1\n");
    assert!(read("wharf-tune/rates/manifest.csv").starts_with("index,lr,optimiser\n0,0.1,sgd\n1,0.1,a b\n"));
    let states = || marked.json(&["tune", "status", "wharf-tune/rates"])["states"].clone();
    assert_eq!(states(), serde_json::json!({ "failed": 2, "finished": 4 }));
    let again = marked.run(&["tune", "start", "sweep.yaml"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("wharf tune retry"));

    // Only those that failed run again, as they were submitted.
    std::fs::write(marked.path("sweep.yaml"), "nonsense").unwrap();
    std::fs::write(marked.path("fixed"), "").unwrap();
    std::fs::remove_file(marked.path("rates-0.1-1.txt")).unwrap();
    assert_eq!(marked.say(&["tune", "retry", "wharf-tune/rates", "--wait"]), "6\n");
    assert!(!marked.path("rates-0.1-1.txt").exists());
    assert_eq!(states(), serde_json::json!({ "finished": 6 }));
    assert_eq!(marked.say(&["tune", "retry", "wharf-tune/rates"]), "");

    let results = marked.say(&["tune", "results", "wharf-tune/rates", "--sort", "loss", "--csv"]);
    let lines: Vec<&str> = results.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "index,job,lr,optimiser,loss,state,exit",
            "5,0_5,0.3,a b,5.5,finished,0",
            "4,0_4,0.3,sgd,6.5,finished,0"
        ]
    );
    let sorted = marked.json(&["tune", "results", "wharf-tune/rates", "--sort=-loss"]);
    assert_eq!(sorted["elements"][0]["parameters"], serde_json::json!({ "lr": "0.1", "optimiser": "sgd" }));
    assert_eq!(sorted["elements"][3]["job"], "6_3", "{sorted}");
    // The journal has what trainers told.
    marked.say(&["local", "--stop"]);
    marked.say(&["local", "--detach", "--worker", "cpu:4"]);
    let replayed = marked.say(&["tune", "results", "wharf-tune/rates", "--sort", "loss", "--csv"]);
    assert_eq!(replayed, results);
    let unknown = marked.run(&["tune", "results", "wharf-tune/rates", "--sort", "accuracy"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("known are loss, lr, optimiser"));
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}

#[test]
fn elements_that_would_write_the_same_file_are_warned_of() {
    let marked = Marked::new();
    let text = "parameters: {lr: [1, 2]}\njob: {command: 'train {lr} --save-dir models', output: log.txt}\n";
    std::fs::write(marked.path("sweep.yaml"), text).unwrap();
    let output = marked.run(&["tune", "start", "sweep.yaml", "--dry-run"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("warning: several elements have the same `output`"), "{told}");
    assert!(told.contains("warning: all elements have `--save-dir models`"), "{told}");
}

/// Two of its elements diverge; one is at its best in the middle.
const DIVERGING: &str = "\
case $WHARF_ARRAY_INDEX in
  0) values='5 4 3';; 1) values='0.5 nan';; 2) values='4 1 6';; 3) values='-inf';; 4) values='9 8 2.5';;
esac
step=0
for value in $values; do step=$(expr $step + 10); $WHARF step $step --metric loss=$value; done
test $WHARF_ARRAY_INDEX != 5 || sleep 600
";

#[test]
fn diverged_elements_rank_last_and_the_best_is_found() {
    let marked = Marked::new();
    marked.say(&["local", "--detach", "--worker", "cpu:6"]);
    let text = "name: rates\nparameters: {lr: [0, 1, 2, 3, 4, 5]}\njob: {command: [sh, train.sh, '{lr}'], output: '%a.txt'}\n";
    std::fs::write(marked.path("sweep.yaml"), text).unwrap();
    let script = DIVERGING.replace("$WHARF step", &format!("{} step", env!("CARGO_BIN_EXE_wharf")));
    std::fs::write(marked.path("train.sh"), script).unwrap();
    assert_eq!(marked.say(&["tune", "start", "sweep.yaml"]), "0\n");
    let results = |more: &[&str]| marked.json(&[&["tune", "results", "wharf-tune/rates"][..], more].concat());
    let order = |more: &[&str]| {
        let found = results(more);
        let elements = found["elements"].as_array().unwrap().iter();
        elements.map(|element| element["index"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let begin = std::time::Instant::now();
    while marked.json(&["tune", "status", "wharf-tune/rates"])["states"]["finished"] != 5 {
        assert!(begin.elapsed().as_secs() < 120, "{}", marked.say(&["jobs", "--all"]));
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        order(&["--sort", "loss"]),
        [4, 0, 2, 1, 3, 5],
        "what is not finite, and what is missing, comes last"
    );
    assert_eq!(order(&["--sort=-loss"])[..3], [2, 0, 4]);
    assert_eq!(results(&["--sort", "loss"])["elements"][3]["metrics"]["loss"], "nan");
    assert_eq!(order(&["--sort", "loss", "--best"]), [4]);
    // An element that has diverged comes last, whatever it reported before.
    assert_eq!(order(&["--sort", "loss", "--best-over-time"]), [2, 4, 0, 1, 3, 5]);
    assert_eq!(order(&["--sort=-loss", "--best-over-time"]), [4, 2, 0, 1, 3, 5]);
    let best = results(&["--sort", "loss", "--best-over-time", "--best"]);
    let expected = serde_json::json!({ "metric": "loss", "value": 1.0, "step": 20 });
    assert_eq!(
        (&best["elements"][0]["index"], &best["elements"][0]["best"]),
        (&serde_json::json!(2), &expected)
    );
    let csv =
        marked.say(&["tune", "results", "wharf-tune/rates", "--sort", "loss", "--best-over-time", "--csv"]);
    assert!(
        csv.starts_with("index,job,lr,loss,best,best_step,state,exit\n2,0_2,2,6,1,20,finished,0\n"),
        "{csv}"
    );

    marked.say(&["tune", "report", "wharf-tune/rates"]);
    let page = std::fs::read_to_string(marked.path("wharf-tune/rates/report.html")).unwrap();
    assert!(page.contains(r#""value":[4.0,1.0,6.0]"#) && page.contains(r#""nan""#));
    marked.say(&["tune", "cancel", "wharf-tune/rates"]);
    while marked.json(&["tune", "status", "wharf-tune/rates"])["states"]["cancelled"] != 1 {
        assert!(begin.elapsed().as_secs() < 120, "{}", marked.say(&["jobs", "--all"]));
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}
