//! What a head serves to browsers and to Prometheus, with the real ones. The tests themselves are Python, beside this file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{not_run, program};

fn has(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

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
fn only_those_with_tokens_are_let_in_and_tricks_find_nothing() {
    if !has("python3") {
        return not_run("what is served over HTTP: there is no python3");
    }
    run("served.py", &[]);
}

#[test]
fn dashboard_lives_in_a_real_browser() {
    if !has("python3") || !has("chromium") || !has("chromedriver") {
        return not_run("the dashboard: it needs python3, chromium and chromedriver");
    }
    run("browser.py", &[&artifacts().join("dashboard")]);
}

#[test]
fn reports_open_from_disk_in_a_real_browser() {
    if !has("python3") || !has("chromium") || !has("chromedriver") {
        return not_run("reports: they need python3, chromium and chromedriver");
    }
    run("report.py", &[&artifacts().join("report")]);
}

/// Where pictures go.
fn artifacts() -> PathBuf {
    std::env::var_os("WHARF_TEST_ARTIFACTS").map_or_else(|| root().join("target/artifacts"), PathBuf::from)
}

#[test]
fn prometheus_scrapes_what_the_journal_has() {
    if !has("python3") || !has("prometheus") || !has("promtool") {
        return not_run("metrics: they need python3 and prometheus");
    }
    run("prometheus.py", &[&root().join("docs")]);
}
