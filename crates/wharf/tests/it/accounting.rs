//! Why jobs ended, who used what, and changes to many jobs at once, on a real cluster.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use wharf_testing::needs;

use crate::cluster::Cluster;

fn json(cluster: &Cluster, words: &[&str]) -> Value {
    serde_json::from_str(&cluster.say(&[words, &["--output", "json"]].concat())).unwrap()
}

fn job(cluster: &Cluster, id: u32) -> Value {
    json(cluster, &["job", &id.to_string()])
}

/// What a job's history says of causes.
fn causes(job: &Value) -> Vec<String> {
    let texts = job["history"].as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap());
    texts.filter(|text| text.starts_with("cause: ")).map(str::to_owned).collect()
}

#[test]
fn causes_are_distinguished_shown_and_found_again() {
    needs!(MEMORY_CGROUP);
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("left");
    // What is submitted, its cause, and what its history says.
    let hungry = "head -c 600000000 /dev/zero | tail";
    let rows: [(&[&str], &str, &str); 5] = [
        (&["--", "sh", "-c", "exit 3"], "user", "cause: user on left, exit code 3"),
        (&["--", "/no/such/program"], "launch", "cause: launch on left, exit code 127"),
        (&["--workdir", "/no/such/folder", "--", "true"], "launch", "cause: launch on left, exit code 127"),
        (
            &["--memory", "64MiB", "--", "sh", "-c", hungry],
            "out-of-memory",
            "cause: out-of-memory on left, exit code 137",
        ),
        (&["--time-limit", "1s", "--", "sleep", "600"], "time-limit", "cause: time-limit"),
    ];
    for (id, (words, cause, history)) in rows.into_iter().enumerate() {
        let ended = cluster.run(&[&["submit", "--wait"], words].concat());
        assert_ne!(ended.status.code(), Some(0), "{words:?}");
        let job = job(&cluster, id as u32);
        assert_eq!(
            (job["job"]["cause"].as_str(), causes(&job)),
            (Some(cause), vec![history.to_owned()]),
            "{words:?}"
        );
    }
    let told = cluster.say(&["explain", "3"]);
    assert_eq!(told, "it failed: out of memory: the kernel killed processes of the task at its limit\n");
    cluster.say(&["submit", "--wait", "--", "true"]);
    let found = json(&cluster, &["jobs", "--cause", "launch"]);
    let ids: Vec<u64> =
        found["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2]);
    let table = cluster.say(&["jobs", "--state", "failed,timed-out", "--since", "1h", "--csv"]);
    assert!(table.starts_with("job,name,user,phase,") && table.contains("launch"), "{table}");
    assert_eq!(json(&cluster, &["jobs", "--until", "1h"])["jobs"], Value::Array(vec![]));

    // One that failed waits before it is run again, and reports this.
    cluster.say(&[
        "submit",
        "--retries",
        "1",
        "--retry-delay",
        "1h",
        "--name",
        "again",
        "--",
        "sh",
        "-c",
        "exit 4",
    ]);
    let reason = loop {
        let row = job(&cluster, 6)["job"].clone();
        if row["phase"] == "held" {
            break row["reason"].as_str().unwrap().to_owned();
        }
        assert_ne!(row["phase"], "failed");
    };
    assert!(
        reason.starts_with("retries in 3") && reason.ends_with(" s after exit code 4 on left"),
        "{reason}"
    );
    cluster.say(&["release", "6"]);
    let ended = cluster.run(&["submit", "--wait", "--after-any", "6", "--", "true"]);
    assert_eq!(ended.status.code(), Some(0));
    let again = job(&cluster, 6);
    assert_eq!((again["job"]["phase"].as_str(), causes(&again).len()), (Some("failed"), 2));
    assert_eq!(again["job"]["causes"]["user"], 2);
}

#[test]
fn usage_is_booked_on_users_accounts_and_types() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let _worker = cluster.worker("left");
    cluster.say(&["submit", "--wait", "--account", "lab", "--gang", "2", "--", "true"]);
    assert_eq!(
        cluster.run(&["submit", "--wait", "--account", "guests", "--", "false"]).status.code(),
        Some(1)
    );
    head.kill();
    drop(head);
    let _head = cluster.head();
    let usage = json(&cluster, &["usage", "--by", "account"]);
    let total = &usage["total"];
    assert_eq!(
        (&total["submitted"], &total["finished"], &total["failed"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(total["interrupted"], serde_json::json!({"user": 1}));
    let keys: Vec<&str> =
        usage["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"lab") && keys.contains(&"guests"), "{keys:?}");
    assert!(total["allocated_h"].as_f64().unwrap() > 0.0);
    let types = cluster.say(&["usage", "--by", "type", "--csv"]);
    assert!(types.starts_with("type,allocated_h,") && types.contains("\r\nv100,"), "{types}");
    let shown = cluster.say(&["usage", "--by", "cause", "--since", "1d"]);
    assert!(shown.contains("1 × user"), "{shown}");
    let nothing = json(&cluster, &["usage", "--until", "1d"]);
    assert_eq!(nothing["total"]["submitted"], 0);
}

#[test]
fn many_jobs_are_changed_at_once_and_only_one_s_own() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let (ann, bob) = (cluster.token_for("ann"), cluster.token_for("bob"));
    for (token, name) in [(&ann, "sweep-1"), (&ann, "sweep-2"), (&ann, "other"), (&bob, "sweep-3")] {
        let said = cluster.run_as(token, &["submit", "--name", name, "--", "true"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    let phases = || -> Vec<String> {
        let jobs = json(&cluster, &["jobs", "--all"]);
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["phase"].as_str().unwrap().to_owned()).collect()
    };
    let would = cluster.run_as(&ann, &["cancel", "--name", "sweep-*", "--dry-run", "--output", "plain"]);
    assert_eq!(would.stdout.lines().count(), 3, "a header and two of hers: {}", would.stdout);
    assert_eq!(phases(), ["waiting"; 4]);
    let foreign = cluster.run_as(&ann, &["cancel", "--user", "bob"]);
    assert!(foreign.code != Some(0) && foreign.stderr.contains("permission denied"), "{}", foreign.stderr);
    let held = cluster.run_as(&ann, &["hold", "--user", "me"]);
    assert!(held.stderr.contains("hold: 3 jobs"), "{}", held.stderr);
    assert_eq!(phases(), ["held", "held", "held", "waiting"]);
    cluster.run_as(&ann, &["cancel", "--name", "sweep-*", "--state", "held"]);
    assert_eq!(phases(), ["cancelled", "cancelled", "held", "waiting"]);
    cluster.run_as(&bob, &["cancel", "--all"]);
    assert_eq!(phases(), ["cancelled", "cancelled", "held", "cancelled"]);
    // An admin may do it to jobs of all users.
    cluster.say(&["priority", "7", "--user", "ann"]);
    cluster.say(&["release", "--all"]);
    assert_eq!(phases(), ["cancelled", "cancelled", "waiting", "cancelled"]);
    assert_eq!(job(&cluster, 2)["job"]["priority"], 7);
    let none = cluster.run(&["requeue", "--user", "ann"]);
    assert!(none.status.success() && String::from_utf8_lossy(&none.stderr).contains("no job matches"));
}

#[test]
fn emails_are_sent_and_retried_when_sendmail_fails() {
    let cluster = Cluster::new();
    let (script, letters, done) = (cluster.path("sendmail"), cluster.path("letters"), cluster.pipe("done"));
    // It refuses the first letter, and takes the next.
    let text = format!(
        "#!/bin/sh\ncat > {letters}\nif [ ! -e {letters}.tried ]; then touch {letters}.tried; exit 75; fi\n\
         echo \"$@\" > {done}\n",
        letters = letters.display(),
        done = done.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let listen = format!("127.0.0.1:{}", cluster.port);
    let words = ["head", "--listen", &listen, "--sendmail", script.to_str().unwrap()];
    let _head = cluster.daemon(&words, "listens on");
    let _worker = cluster.worker("left");
    let mail = ["--notify-mail", "me@lab.org", "--notify-on", "failed", "--name", "größe"];
    cluster.run(&[&["submit", "--wait"], &mail[..], &["--", "sh", "-c", "exit 9"]].concat());
    assert_eq!(std::fs::read_to_string(&done).unwrap(), "-t -i\n", "who it is for is not in a command line");
    let letter = std::fs::read_to_string(&letters).unwrap();
    let (head, body) = letter.split_once("\n\n").unwrap();
    assert!(head.starts_with("To: me@lab.org\nSubject: =?utf-8?B?"), "{head}");
    assert!(body.contains("exit code: 9\ncause: user\n"), "{body}");
    let refused = cluster.run(&["submit", "--notify-mail", "me@lab.org\nBcc: all@lab.org", "--", "true"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not an email address"));
}
