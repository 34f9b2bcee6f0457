//! What a head serves to browsers and to Prometheus, with the real ones. The tests themselves are Python, beside this file.

use std::path::{Path, PathBuf};
use std::process::Command;

use wharf_testing::needs;

use crate::sandbox::program;

/// Runs one of the scripts; what it measured is told past the harness.
fn run(script: &str, arguments: &[&Path]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dashboard");
    let mut command = Command::new("python3");
    command.args(["-B", "-W", "error"]).arg(folder.join(script)).arg(program()).args(arguments);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}{}", said[0], said[1]);
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(said[0].as_bytes());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn requests_without_tokens_and_path_tricks_are_rejected() {
    needs!(PYTHON);
    run("served.py", &[]);
}

#[test]
fn dashboard_lives_in_a_real_browser() {
    needs!(BROWSER);
    run("browser.py", &[&artifacts().join("dashboard")]);
}

#[test]
fn reports_open_from_disk_in_a_real_browser() {
    needs!(BROWSER);
    run("report.py", &[&artifacts().join("report")]);
}

/// Where pictures go.
fn artifacts() -> PathBuf {
    std::env::var_os("WHARF_TEST_ARTIFACTS").map_or_else(|| root().join("target/artifacts"), PathBuf::from)
}

#[test]
fn prometheus_scrapes_what_the_journal_has() {
    needs!(PROMETHEUS);
    run("prometheus.py", &[&root().join("docs")]);
}
