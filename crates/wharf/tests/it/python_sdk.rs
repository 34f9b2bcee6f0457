//! The trainers' SDK from the binary, and from the sources with pip.

use std::path::Path;
use std::process::Command;

use crate::sandbox::{Said, Sandbox};

fn imports(python: &Path, path: Option<&Path>) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import wharf, wharf.policy; assert list(wharf.steps(3)) == [0, 1, 2]"]);
    command.current_dir("/").env_remove("PYTHONPATH");
    if let Some(path) = path {
        command.env("PYTHONPATH", path);
    }
    command.status().unwrap().success()
}

#[test]
fn sdk_is_installed_from_the_binary_and_from_the_sources() {
    let sandbox = Sandbox::new();
    let folder = tempfile::tempdir().unwrap();
    let python = Path::new("python3");
    let path = || {
        let mut command = sandbox.command("python-sdk path");
        Said::from(&command.env("XDG_STATE_HOME", sandbox.path()).output().unwrap()).ok()
    };
    let shown = path();
    assert!(imports(python, Some(Path::new(shown.trim()))));
    assert_eq!(path(), shown, "again");

    let venv = folder.path().join("venv");
    let made = Command::new(python).args(["-m", "venv"]).arg(&venv).status().unwrap();
    assert!(made.success());
    let python = venv.join("bin/python");
    assert!(!imports(&python, None));
    sandbox.wharf(&format!("python-sdk install --python {}", python.display())).ok();
    assert!(imports(&python, None));
    let pip = |words: &[&str]| {
        let output = Command::new(&python)
            .args(["-m", "pip", "--disable-pip-version-check"])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(pip(&["list"]).contains("wharf-trainer"));
    pip(&["uninstall", "-y", "wharf-trainer"]);
    assert!(!imports(&python, None));

    // From the sources, as documented.
    let sources = folder.path().join("python");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    assert!(Command::new("cp").arg("-r").args([&from, &sources]).status().unwrap().success());
    pip(&["install", "--no-deps", &sources.display().to_string()]);
    assert!(imports(&python, None));
    let refused = sandbox.wharf("python-sdk install --python /nowhere/python");
    assert!(refused.fails(2).contains("--target"));
}
