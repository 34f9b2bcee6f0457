//! `wharf demo`, real and simulated.

use nix::sys::signal::Signal;

use crate::marked::Marked;
use crate::sandbox::Sandbox;

#[test]
fn demo_compares_all_policies_and_writes_a_report() {
    let sandbox = Sandbox::new();
    let said = sandbox.wharf("demo --simulate --jobs 60");
    assert!(said.stderr.contains("the report is `wharf-demo/report.html`"), "{}", said.stderr);
    let table = said.ok();
    for policy in ["fifo", "srtf", "tiresias"] {
        assert!(table.contains(&format!("\n{policy} ")), "{table}");
        assert!(sandbox.read(&format!("wharf-demo/demo-{policy}/jobs.csv")).lines().count() == 61);
    }
    assert!(sandbox.read("wharf-demo/report.html").contains("wharf demo --simulate --jobs 60"));
    sandbox.wharf("trace lint wharf-demo/trace.csv --cluster 8x8").ok();
    sandbox.wharf("demo --simulate --jobs 60 -q").ok();
    sandbox.wharf("demo --simulate --jobs 60 --cluster 1x2 --out tiny").ok();
    let error = sandbox.wharf("demo --simulate --jobs 0 --out none").fails(2);
    assert!(error.contains("job_count is 0"), "{error}");
}

#[test]
fn demo_runs_real_jobs_with_preemptions_and_writes_a_report() {
    let marked = Marked::new();
    // The first four jobs fill the cluster, the fifth is short enough to push one of them aside.
    let said = marked.json(&["demo", "--jobs", "5", "--seconds", "16"]);
    let jobs = said["jobs"].as_array().unwrap();
    assert!(jobs.iter().all(|job| job["state"] == "finished"), "{said}");
    assert!(said["runs"][0]["preemptions"].as_u64().unwrap() > 0, "{said}");
    let page = std::fs::read_to_string(marked.path("wharf-demo/report.html")).unwrap();
    assert!(page.contains("clouds-quick") && page.contains("Jobs on devices"));
    let log = std::fs::read_dir(marked.path("wharf-demo/cluster/logs")).unwrap();
    let texts: Vec<String> =
        log.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("done: ")).count(), 5, "{texts:?}");
    // A job that was pushed aside continues where it was; on a busy machine it may not have begun.
    for text in &texts {
        let number = |line: &str| line.strip_prefix("iteration ")?.split('/').next()?.parse::<u32>().ok();
        let iterations: Vec<u32> = text.lines().filter_map(number).collect();
        assert!(iterations.is_sorted(), "{text}");
    }
    marked.assert_nothing_left();
}

#[test]
fn interrupted_demo_cleans_up() {
    let marked = Marked::new();
    let mut demo = marked.start(&["demo", "--jobs", "4"]);
    demo.wait_for("runs on");
    demo.signal(Signal::SIGINT);
    assert_eq!(demo.end(), (Some(130), String::new()));
    assert!(!marked.path("wharf-demo").exists());
    marked.assert_nothing_left();
}

#[test]
fn demo_without_python_has_a_hint() {
    let marked = Marked::new();
    let said = marked.command(&["demo"]).env("PATH", marked.path("tmp")).output().unwrap();
    assert_eq!(said.status.code(), Some(3));
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("need `python3`") && told.contains("wharf demo --simulate"), "{told}");
}
