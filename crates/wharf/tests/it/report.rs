//! `wharf report` of folders, `wharf compare`, `wharf sim --report`. What they look like is tested in a browser (`dashboard/report.py`).

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A sandbox with runs of two policies and two seeds, in which nodes fail.
fn with_runs() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 60 --seed 5 --load 2 --to big.csv").ok();
    for seed in [1, 2] {
        let sim = "sim --trace big.csv --cluster 4x8 --policy fifo,srtf --failures mtbf=30,repair=1";
        sandbox.wharf(&format!("{sim} --seed {seed} --out seed-{seed} --report page-{seed}.html")).ok();
    }
    sandbox
}

#[test]
fn runs_are_compared_pair_by_pair() {
    let sandbox = with_runs();
    let told: Value =
        serde_json::from_str(&sandbox.wharf("compare seed-1 seed-2 --output json").ok()).unwrap();
    assert_eq!((&told["schema"], told["rows"].as_array().unwrap().len()), (&1.into(), 2));
    let winners = told["winners"].as_array().unwrap();
    let winner = winners.iter().find(|one| one["metric"] == "avg_jct_s").unwrap();
    assert_eq!((&winner["method"], &winner["count"]), (&"paired_t".into(), &2.into()));
    // The same from the summaries themselves.
    let jct = |seed: u32, policy: &str| {
        let text =
            sandbox.read(&format!("seed-{seed}/big-{policy}-node_mtbf_h-30-node_repair_h-1/summary.json"));
        serde_json::from_str::<Value>(&text).unwrap()["runs"][0]["avg_jct_s"].as_f64().unwrap()
    };
    let mean = (jct(1, "fifo") - jct(1, "srtf") + jct(2, "fifo") - jct(2, "srtf")) / 2.0;
    let found = winner["difference"].as_f64().unwrap();
    assert!((found.abs() - mean.abs()).abs() < 1e-6 * mean.abs(), "{found} {mean}");
    let text = sandbox.wharf("compare seed-1 seed-2").ok();
    for part in
        ["mean ± half of the 95 % confidence interval", "next best", "2 pairs", "seed by seed (paired)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let alone = sandbox.wharf("compare seed-1").ok();
    assert!(alone.contains("one run each: unknown") && alone.contains("run several seeds"), "{alone}");
    let plain = sandbox.wharf("compare seed-1 seed-2 --output plain").ok();
    assert!(plain.starts_with("policy\ttrace\t") && plain.lines().count() == 3, "{plain}");
}

#[test]
fn a_page_is_made_from_folders_as_from_the_run_itself() {
    let sandbox = with_runs();
    let said = sandbox.wharf("report seed-1 --to again.html");
    assert_eq!(said.stderr, "the report of 2 runs is `again.html`\n");
    let data = |page: &str| {
        let html = sandbox.read(page);
        let after = html.split_once("id=\"stays\">").unwrap().1.to_owned();
        after.split_once("</script>").unwrap().0.to_owned()
    };
    assert_eq!(data("again.html"), data("page-1.html"));
    assert!(sandbox.read("again.html").contains("wharf sim --policy srtf --trace big.csv --cluster 4x8"));
    sandbox.wharf("compare seed-1 seed-2 --report both.html").ok();
    assert!(sandbox.read("both.html").contains("2 pairs"));
}

#[test]
fn unreadable_file_is_named_and_nothing_is_written() {
    let sandbox = with_runs();
    let run = sandbox.names("seed-1")[0].clone();
    let digest = format!("seed-1/{run}/run.json");
    let whole = sandbox.read(&digest);
    let refuse = |command: &str, parts: &[&str]| {
        let said = sandbox.wharf(command);
        assert_ne!(said.code, Some(0), "{command}");
        for part in parts {
            assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
        }
        assert!(!sandbox.path().join("page.html").exists());
    };
    refuse("report . --to page.html", &["holds no run", "hint: `wharf sim --out DIR`"]);
    refuse("compare nowhere", &["nowhere"]);
    refuse("compare big.csv", &["big.csv is no folder", "give the folder"]);
    sandbox.write(&digest, &whole[..whole.len() / 3]);
    refuse(
        "report seed-1 --to page.html",
        &[&digest, "caused by: EOF while parsing", "hint: the file is cut off"],
    );
    sandbox.wharf("compare seed-1").ok();
    sandbox.write(&digest, &whole.replacen("\"schema\":1", "\"schema\":7", 1));
    refuse(
        "report seed-1 --to page.html",
        &[&digest, "it has schema 7, expected 1", "another version of Wharf"],
    );
    fs::remove_file(sandbox.path().join(&digest)).unwrap();
    refuse("report seed-1 --to page.html", &[&digest, "older Wharf"]);
    sandbox.write(&digest, &whole.replacen("\"wharf\":\"", "\"wharf\":\"0.0.", 1));
    let said = sandbox.wharf("report seed-1 --to mixed.html");
    assert!(said.stderr.contains("different versions of Wharf"), "{}", said.stderr);
    let twice = sandbox.wharf("compare seed-1 seed-1");
    assert!(twice.stderr.contains("occurs more than once"), "{}", twice.stderr);
    refuse("sim --trace big.csv --cluster 4x8 --policy fifo --report none/such/page.html", &["none/such"]);
}
