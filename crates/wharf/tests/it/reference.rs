//! The generated reference and the help.

use std::fs;
use std::path::Path;

use crate::sandbox::Sandbox;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn reference_is_up_to_date() {
    let same = document("cli.md") == wharf_cli::reference::markdown();
    assert!(same, "docs/cli.md is not up to date: run `cargo xtask docs`");
    let same = document("policies.md") == wharf_cli::reference::policies_markdown();
    assert!(same, "docs/policies.md is not up to date: run `cargo xtask docs`");
}

#[test]
fn help_comes_in_every_way_and_goes_to_standard_output() {
    let sandbox = Sandbox::new();
    let help = sandbox.wharf("trace convert --help").ok();
    assert_eq!(sandbox.wharf("help trace convert").ok(), help);
    assert!(help.contains("Examples:\n  wharf trace convert trace1.csv jobs.jsonl"), "{help}");
    assert!(sandbox.wharf("help exit-codes").ok().contains("130  interrupted by Ctrl-C"));
    assert!(sandbox.wharf("help environment").ok().contains("WHARF_OUTPUT"));
    assert!(sandbox.wharf("help").ok().contains("Commands:"));
    assert!(sandbox.wharf("--version").ok().starts_with("wharf "));
    assert!(sandbox.wharf("completions bash").ok().contains("_wharf()"));
    sandbox.wharf("").fails(2);
}
