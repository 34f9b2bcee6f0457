//! Scenario files from text to results.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_outcome::Outcome;

use super::{PlannedRun, RunSink, Scenario, SweepPlan, execute};

const SMALL: &str = r#"
[[matrix]]
label = "both"
policies = ["fifo", { policy = "fifo", set = { backfill = "easy" }, label = "fifo with backfill" }]
traces = [{ generate = { jobs = 20, seed = 3, devices = 32 }, name = "small" }]
clusters = ["4x8"]
seeds = [0, 1]
"#;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What is wrong with the scenario `a.toml`, the folder's name left out.
fn complaint(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let scenario = Scenario::load(&folder.path().join("a.toml"));
    let error = match scenario {
        Err(error) => error,
        Ok(scenario) => SweepPlan::new(&scenario, folder.path(), "test").unwrap_err(),
    };
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

fn plan(text: &str) -> SweepPlan {
    let folder = folder(&[("a.toml", text)]);
    let scenario = Scenario::load(&folder.path().join("a.toml")).unwrap();
    SweepPlan::new(&scenario, folder.path(), "test").unwrap()
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let matrix = |body: &str| format!("name = \"x\"\n[[matrix]]\n{body}\n");
    let full = |change: (&str, &str)| {
        let lines = ["policies = [\"fifo\"]", "traces = [{ generate = {} }]", "clusters = [\"64x8\"]"];
        matrix(&lines.join("\n")).replace(change.0, change.1)
    };
    for (text, expected) in [
        ("name = ".to_owned(), "a.toml:1:8: not valid TOML: "),
        ("polices = 1".to_owned(), "a.toml:1:1: unknown key `polices` in the scenario"),
        ("name = \"x/y\"".to_owned(), "a.toml:1:8: `name` is `x/y`, but may only have letters"),
        ("name = 3".to_owned(), "a.toml:1:8: `name` must be text, not a whole number"),
        ("name = \"x\"".to_owned(), "scenario `a.toml` has no [[matrix]]: there is nothing to run"),
        (matrix("polices = [\"fifo\"]"), "a.toml:3:1: unknown key `polices` in [[matrix]]"),
        (matrix("traces = []"), "a.toml:2:1: [[matrix]] has no `policies`"),
        (full(("[\"fifo\"]", "[]")), "a.toml:3:12: `policies` is empty"),
        (
            full(("fifo", "fifi")),
            "a.toml:3:13: `fifi` on trace `generated-1000-seed1`, cluster `64x8`, preset `wharf` cannot be run",
        ),
        (
            full(("[\"fifo\"]", "[{ policy = \"fifo\", sets = {} }]")),
            "a.toml:3:32: unknown key `sets` in a policy",
        ),
        (full(("{ generate = {} }", "\"none.csv\"")), "a.toml:4:11: there is no trace `none.csv`"),
        (full(("{}", "{ job = 3 }")), "a.toml:4:26: unknown key `job` in `generate`"),
        (full(("{}", "{ jobs = -3 }")), "a.toml:4:33: `jobs` must be between 0 and 18446744073709551615"),
        (
            full(("{}", "{ load = 1, rate = 2 }")),
            "a.toml:4:33: only one of `load`, `rate` and `at_once` can be given",
        ),
        (full(("{}", "{ jobs = 0 }")), "job_count is 0, expected 1 to 100 000 000"),
        (full(("64x8", "n8g8.csv")), "a.toml:5:13: there is no cluster `n8g8.csv`"),
        (full(("64x8", "8by8")), "a.toml:5:13: cluster cannot be used"),
        (full(("64x8", "1x1")), "cluster `1x1`, preset `wharf` cannot be run"),
        (full(("clusters", "presets = [\"wharv\"]\nclusters")), "a.toml:5:12: preset cannot be used"),
        (
            full(("clusters", "seeds = [1.5]\nclusters")),
            "a.toml:5:10: `seeds` must be a whole number, not a number",
        ),
    ] {
        let found = complaint(&[("a.toml", &text)]);
        assert!(found.contains(expected), "{text}\n{found}");
    }
}

#[test]
fn inclusion_of_itself_is_reported_with_the_chain() {
    let include = |name: &str| format!("include = [\"{name}\"]");
    assert_eq!(
        complaint(&[("a.toml", &include("a.toml"))]),
        "a.toml:1:12: scenario includes itself: `a.toml` includes `a.toml`"
    );
    assert_eq!(
        complaint(&[
            ("a.toml", &include("b.toml")),
            ("b.toml", &include("c.toml")),
            ("c.toml", &include("./b.toml"))
        ]),
        "c.toml:1:12: scenario includes itself: `b.toml` includes `c.toml` includes `b.toml`"
    );
    assert_eq!(complaint(&[("a.toml", &include("b.toml"))]), "a.toml:1:12: there is no scenario `b.toml`");
}

#[test]
fn file_included_twice_counts_once() {
    let both = "include = [\"b.toml\", \"c.toml\"]";
    let folder = folder(&[("a.toml", both), ("b.toml", "include = [\"c.toml\"]"), ("c.toml", SMALL)]);
    let scenario = Scenario::load(&folder.path().join("a.toml")).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.matrices.len()), ("a", 1));
}

#[test]
fn equal_runs_are_planned_once_and_listed_where_wanted() {
    let twice =
        format!("{SMALL}\n{}", SMALL.replace("both", "again").replace("fifo with backfill", "other name"));
    let plan = plan(&twice);
    assert_eq!((plan.runs.len(), plan.rows.len()), (4, 8));
    assert_eq!(plan.matrices, ["both", "again"]);
    let labels: Vec<&str> = plan.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels[..2], ["fifo", "fifo with backfill"]);
    assert_eq!(labels[6..], ["fifo", "other name"]);
    assert_eq!(plan.rows[0].run, plan.rows[4].run);
}

#[test]
fn key_depends_on_every_input() {
    let key = |text: &str| plan(text).runs[0].key;
    let base = key(SMALL);
    assert_eq!(base, key(SMALL));
    for (from, to) in
        [("seed = 3", "seed = 4"), ("4x8", "5x8"), ("[\"fifo\",", "[\"srtf\","), ("[0, 1]", "[2]")]
    {
        assert_ne!(base, key(&SMALL.replace(from, to)), "{from}");
    }
    let folder = folder(&[("a.toml", SMALL)]);
    let scenario = Scenario::load(&folder.path().join("a.toml")).unwrap();
    assert_ne!(base, SweepPlan::new(&scenario, folder.path(), "other").unwrap().runs[0].key);
}

/// Keeps ends in memory and has some runs stored already.
struct Memory {
    stored: Vec<usize>,
    ran: AtomicUsize,
}

impl RunSink for Memory {
    type Kept = Vec<Option<u64>>;
    type Error = String;

    fn stored(&self, run: &PlannedRun) -> Option<Self::Kept> {
        self.stored.contains(&(run.seed as usize)).then(Vec::new)
    }

    fn keep(&self, _: &PlannedRun, outcome: &Outcome, wall_ms: f64) -> Result<Self::Kept, String> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        assert!(wall_ms >= 0.0);
        Ok(outcome.jobs.iter().map(|job| job.end.map(|end| end.to_bits())).collect())
    }

    fn done(&self, _: &PlannedRun, _: bool) {}
}

#[test]
fn results_do_not_depend_on_the_thread_count_and_stored_runs_are_not_repeated() {
    let plan = plan(SMALL);
    let run = |threads, stored: &[usize]| {
        let sink = Memory { stored: stored.to_vec(), ran: AtomicUsize::new(0) };
        let kept = execute(&plan, NonZeroUsize::new(threads).unwrap(), &sink).unwrap();
        (kept, sink.ran.into_inner())
    };
    let (alone, ran) = run(1, &[]);
    assert_eq!((alone.len(), ran), (4, 4));
    assert_eq!(run(3, &[]).0, alone);
    assert_eq!(run(2, &[1]).1, 2);
}

#[test]
fn shipped_scenarios_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let quick = Scenario::load(&folder.join("quick.toml")).unwrap();
    SweepPlan::new(&quick, &folder, "test").unwrap();
    let figures = Scenario::load(&folder.join("muri-figures.toml")).unwrap();
    assert_eq!(figures.matrices.len(), 4);
    let run_count: usize = figures.matrices.iter().map(|m| m.policies.len() * m.traces.len()).sum();
    // 7 policies on 8 traces; 2 and 3 variants on the same; 7 policies on 4 traces.
    assert_eq!(run_count, 56 + 16 + 24 + 28);
}
