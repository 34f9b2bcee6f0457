//! Secrets of jobs: in the environment of their tasks, and nowhere else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cluster::Cluster;
use crate::daemon::Daemon;

const FROM_SHELL: &str = "value-of-the-shell-7261";
const FROM_FILE: &str = "value-of-the-file-9934";

/// All files below a folder.
fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn secrets_reach_the_task_and_nothing_else() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let _worker = cluster.worker("only");
    let apart = tempfile::tempdir().unwrap();
    let (file, told) = (apart.path().join("token"), apart.path().join("told"));
    std::fs::write(&file, format!("{FROM_FILE}\n")).unwrap();
    std::fs::write(
        cluster.path("job.yaml"),
        format!(
            "name: secret\nsecrets: {{FIRST: 'env:SHELL_SECRET', SECOND: 'file:{}'}}\nenv: {{PLAIN_TOKEN: plain-5512}}\n\
             command: [sh, -c, 'echo $FIRST $SECOND $PLAIN_TOKEN > {}']\n",
            file.display(),
            told.display()
        ),
    )
    .unwrap();
    let job = cluster.path("job.yaml").display().to_string();
    let submit = |words: &[&str]| {
        let output = cluster.command(words).env("SHELL_SECRET", FROM_SHELL).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let unset = cluster.run(&["submit", &job]);
    let problem = String::from_utf8_lossy(&unset.stderr).into_owned();
    assert!(
        problem.contains("secrets.FIRST: the variable SHELL_SECRET is not set in this shell"),
        "{problem}"
    );
    assert!(submit(&["submit", "--held", &job]).0);

    // Only the journal knows it now.
    head.kill();
    let _head = cluster.head();
    cluster.say(&["release", "0"]);
    cluster.say(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    assert_eq!(std::fs::read_to_string(&told).unwrap(), format!("{FROM_SHELL} {FROM_FILE} plain-5512\n"));

    let shown = cluster.say(&["job", "0", "--output", "json"]);
    let dry = submit(&["submit", "--dry-run", "--output", "json", &job]);
    let mut found = Vec::new();
    files(cluster.folder.path(), &mut found);
    for secret in [FROM_SHELL, FROM_FILE] {
        assert!(!shown.contains(secret) && !dry.1.contains(secret));
        for path in &found {
            let bytes = std::fs::read(path).unwrap_or_default();
            let has = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!has, "{} has a secret", path.display());
        }
    }
    let private = ["journal.sqlite", "metrics.sqlite", "secrets.key"];
    let is_private = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        private.iter().any(|prefix| name.starts_with(prefix))
    };
    let own: Vec<_> = found.iter().filter(is_private).collect();
    assert!(own.len() >= 2, "{found:?}");
    for path in own {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn diagnostic_events_follow_their_selection_and_contain_no_secrets() {
    let cluster = Cluster::new();
    // Where clients find the next one.
    cluster.head().kill();
    let log = cluster.path("head.log");
    let listen = format!("127.0.0.1:{}", cluster.port);
    let mut command = cluster.command(&["head", "--listen", &listen, "--allow-root", "--log-format", "json"]);
    command.env("WHARF_LOG", "info,wharf_head=trace").stderr(std::fs::File::create(&log).unwrap());
    let _head = Daemon::quiet(&mut command);
    let _worker = cluster.worker("only");
    let token = cluster.say(&["token", "create", "--user", "ann"]);
    let submitted = cluster
        .command(&["submit", "--wait", "--secret", "FIRST=env:SHELL_SECRET", "--", "true", "argument-3318"])
        .env("SHELL_SECRET", FROM_SHELL)
        .output()
        .unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));

    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let has = |target: &str, level: &str, message: &str| {
        let is_it = |line: &serde_json::Value| {
            line["target"] == target && line["level"] == level && line["message"] == message
        };
        lines.iter().any(is_it)
    };
    assert!(has("wharf_head::nodes", "info", "worker connected"), "{text}");
    assert!(has("wharf_head::tasks", "debug", "task launched"), "{text}");
    assert!(has("wharf_head::dispatcher::cycle", "trace", "events are durable"), "{text}");
    for secret in [FROM_SHELL, token.trim(), "argument-3318"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let malformed = cluster.command(&["jobs"]).env("WHARF_LOG", "loud").output().unwrap();
    assert_eq!(malformed.status.code(), Some(2));
}
