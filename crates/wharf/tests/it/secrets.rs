//! Secrets of jobs: in the environment of their tasks, and nowhere else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cluster::Cluster;

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
