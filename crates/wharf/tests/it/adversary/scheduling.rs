//! Where jobs may run, in which order, and how much of the head one user can take.

use std::fs;

use crate::adversary::site::{Account, Site, until};
use wharf_testing::needs;

/// The phase of a job.
fn phase(site: &Site, job: &str) -> String {
    let shown = site.admin(&["jobs", "--all", "--output", "json"]).ok();
    let document: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let jobs = document["jobs"].as_array().unwrap().clone();
    let id: u64 = job.parse().unwrap();
    let found = jobs.iter().find(|one| one["id"].as_u64().or(one["job_id"].as_u64()) == Some(id));
    found.unwrap()["phase"].as_str().unwrap().to_owned()
}

/// Submits a job as a user and returns its id.
fn submit(site: &Site, user: &Account, words: &[&str]) -> String {
    let mut all = vec!["submit"];
    all.extend(words);
    site.as_user(user, &all).ok().trim().to_owned()
}

fn apply(site: &Site, limits: &str) {
    let file = site.state().join("limits.toml");
    fs::write(&file, limits).unwrap();
    site.admin(&["limits", "apply", file.to_str().unwrap()]).ok();
}

#[test]
fn restricted_pool_gets_no_job_of_another_user() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let _open = site.worker("n1", &["--devices", "v100:1"]);
    let _paid = site.worker("n2", &["--devices", "a40:2", "--pool", "gpu2"]);
    apply(&site, &format!("[pool.gpu2]\nusers = [\"{}\"]\n", site.ann.name));

    let named = site.as_user(&site.bob, &["submit", "--pool", "gpu2", "--", "true"]).fails(2);
    assert!(named.contains("does not take jobs of user"), "{named}");
    // By the device type of its only node, by Slurm's words, and for every node.
    let by_type = submit(&site, &site.bob, &["--type", "a40", "--", "true"]);
    let script = site.bob.write("job.sh", "#!/bin/sh\nhostname\n", 0o755);
    let batch = ["sbatch", "--parsable", "--gres=gpu:a40:1", script.to_str().unwrap()];
    let by_gres = site.as_user(&site.bob, &batch);
    let own = submit(&site, &site.ann, &["--type", "a40", "--", "true"]);
    until("the owner's job on the pool", || phase(&site, &own) == "finished");
    assert_eq!(phase(&site, &by_type), "waiting");
    let reason = site.as_user(&site.bob, &["explain", &by_type]).ok();
    assert!(reason.contains("pools that its owner may use have 0"), "{reason}");
    if by_gres.code == Some(0) {
        assert_eq!(phase(&site, by_gres.stdout.trim()), "waiting");
    }
}

#[test]
fn example_of_the_sharing_guide_does_not_stop_the_cluster() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let _worker = site.worker("n1", &["--devices", "v100:2"]);
    apply(&site, "default_pool = \"main\"\n\n[pool.main]\ntime_limit_default = \"4h\"\ngang_max = 32\n");
    let job = submit(&site, &site.ann, &["--", "true"]);
    until("a job in the default pool", || phase(&site, &job) == "finished");

    // A check names live jobs and nodes that a change would block.
    let held = submit(&site, &site.bob, &["--held", "--", "true"]);
    let file = site.state().join("tighter.toml");
    fs::write(&file, format!("default_pool = \"main\"\n[pool.main]\nusers = [\"{}\"]\n", site.ann.name))
        .unwrap();
    let checked = site.admin(&["limits", "check", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stderr.contains("node n1: only"), "{}", checked.stderr);
    assert!(checked.stderr.contains(&format!("job {held}: pool main does not take")), "{}", checked.stderr);
}

#[test]
fn dependency_on_a_missing_array_element_is_rejected_and_the_head_lives() {
    needs!(ROOT);
    let site = Site::new();
    let mut head = site.head(&[]);
    let _worker = site.worker("n1", &["--devices", "v100:2"]);
    submit(&site, &site.ann, &["--array", "0-3", "--", "true"]);
    let script = site.ann.write("s.sh", "#!/bin/sh\ntrue\n", 0o755);
    for dependency in ["afterok:0_99?afterok:1", "afterok:0_99", "aftercorr:0", "afterok:4000?afterok:1"] {
        let option = format!("--dependency={dependency}");
        let mut words = vec!["sbatch", "--gpus=1", option.as_str()];
        if dependency.starts_with("aftercorr") {
            words.push("--array=2-5");
        }
        words.push(script.to_str().unwrap());
        let refused = site.as_user(&site.ann, &words);
        assert_ne!(refused.code, Some(0), "{dependency}");
        assert!(
            refused.stderr.contains("dependency") || refused.stderr.contains("does not exist"),
            "{}",
            refused.stderr
        );
        site.as_user(&site.ann, &["jobs", "--all"]).ok();
    }
    assert!(head.child.try_wait().unwrap().is_none(), "the head is still there");
}

#[test]
fn hold_and_release_do_not_start_a_job_whose_dependency_failed() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let _worker = site.worker("n1", &["--devices", "v100:1"]);
    let failed = submit(&site, &site.ann, &["--", "false"]);
    until("the first job's end", || phase(&site, &failed) == "failed");
    let dependency = format!("--dependency=afterok:{failed}");
    let marker = site.ann.home.join("ran");
    let command = format!("touch {}", marker.display());
    let words = ["sbatch", "--parsable", "--gpus=1", &dependency, "--wrap", &command];
    let job = site.as_user(&site.ann, &words).ok().trim().to_owned();
    site.as_user(&site.ann, &["hold", &job]).ok();
    site.as_user(&site.ann, &["release", &job]).ok();
    let after = submit(&site, &site.ann, &["--", "true"]);
    until("a later job's end", || phase(&site, &after) == "finished");
    assert_eq!(phase(&site, &job), "held");
    assert!(!marker.exists());
}

#[test]
fn job_of_an_unknown_device_type_does_not_crash_the_head() {
    needs!(ROOT);
    let site = Site::new();
    let mut head = site.head(&["--policy", "srtf"]);
    let _worker = site.worker("n1", &["--devices", "v100:1"]);
    let busy =
        submit(&site, &site.ann, &["--iterations", "1000", "--iteration-ms", "1000", "--", "sleep", "600"]);
    until("a busy device", || phase(&site, &busy) == "running");
    let words = ["--type", "h100", "--iterations", "1", "--iteration-ms", "1", "--", "true"];
    let job = submit(&site, &site.bob, &words);
    assert_eq!(phase(&site, &job), "waiting");
    assert!(head.child.try_wait().unwrap().is_none());
    site.as_user(&site.ann, &["cancel", &busy]).ok();
}

#[test]
fn user_cannot_take_the_head_from_others() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&["--max-user-jobs", "5000", "--max-request-jobs", "2000"]);
    let _worker = site.worker("n1", &["--devices", "v100:1"]);
    submit(&site, &site.ann, &["--array", "0-1999", "--held", "--", "true"]);
    let script = site.ann.write("s.sh", "#!/bin/sh\ntrue\n", 0o755);
    let many = format!("--dependency={}", ["afterany:0"; 20].join(","));
    for (words, expected) in [
        (vec!["submit", "--array", "0-2000", "--", "true"], "max_request_jobs"),
        (vec!["sbatch", "--gpus=1", &many, script.to_str().unwrap()], "max_request_jobs"),
        (vec!["submit", "--priority", "1", "--", "true"], "max_user_priority"),
    ] {
        let refused = site.as_user(&site.ann, &words);
        assert_ne!(refused.code, Some(0), "{words:?}");
        assert!(refused.stderr.contains(expected), "{words:?}: {}", refused.stderr);
    }
    submit(&site, &site.ann, &["--array", "0-1999", "--held", "--", "true"]);
    let over = site.as_user(&site.ann, &["submit", "--array", "0-1999", "--", "true"]);
    assert!(over.stderr.contains("max_user_jobs"), "{}", over.stderr);
    let other = submit(&site, &site.bob, &["--", "true"]);
    until("another user's job", || phase(&site, &other) == "finished");
    // A priority can be lowered, not raised; an administrator is not bound.
    let own = submit(&site, &site.bob, &["--held", "--", "true"]);
    site.as_user(&site.bob, &["priority", "--", "-3", &own]).ok();
    let raised = site.as_user(&site.bob, &["priority", "7", &own]);
    assert_ne!(raised.code, Some(0), "{}", raised.stdout);
    site.admin(&["priority", "7", &own]).ok();
}
