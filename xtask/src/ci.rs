//! Everything that must hold for a change.

use std::process::Command;
use std::thread;

use crate::phases::{Outcome, Phases, cargo, none, succeeds};
use crate::{Complaints, components, root, suite, tidy};

/// Runs all phases, also after one failed, so that one run shows everything.
pub(crate) fn run(installs: bool) -> Complaints {
    let mut phases = Phases::begin("ci: format, tidiness, build, tests, lints, trainers");
    // Components come over the network while everything is compiled.
    let installed = installs.then(|| thread::spawn(components::install_for_ci));
    phases.phase("format", || cargo(&["fmt", "--all", "--check"]).map(|()| Vec::new()));
    phases.phase("tidiness", || none(&tidy::check(&root())));
    phases.phase("build", || suite::build().map(|()| Vec::new()));
    if let Some(installed) = installed {
        phases.phase("components", || {
            let complaints = installed.join().map_err(|_| "the installation panicked".to_owned())?;
            // A component that cannot be installed fails the tests that need it, which state this.
            Ok(complaints)
        });
    }
    phases.phase("tests", suite::run);
    phases.phase("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).map(|()| Vec::new())
    });
    phases.phase("trainers", trainers);
    phases.end()
}

/// The trainers' side is Python: its own tests, and those of the examples.
fn trainers() -> Outcome {
    python_tests("python3")
}

/// Tests of a Python; those that need JAX are skipped where it has none.
pub(crate) fn python_tests(python: &str) -> Outcome {
    let mut command = Command::new(python);
    // Without files beside the sources, which would be taken for sources.
    command.args(["-B", "-W", "error", "-m", "unittest", "discover", "-s", "python/tests"]);
    succeeds(&mut command).map(|()| Vec::new())
}
