//! The components that tests use: what is missing, and its installation.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

use wharf_testing::component::{ALL, AWS, Component, JAX, RAY, ROOT, Source};

use crate::phases::succeeds;
use crate::{Complaints, root, tell};

/// Prints all components; those that are missing are complaints.
pub(crate) fn print() -> Complaints {
    print_of(|_| true)
}

fn print_of(is_wanted: fn(&Component) -> bool) -> Complaints {
    let mut missing = Vec::new();
    for component in ALL.iter().filter(|component| is_wanted(component)) {
        match component.probe() {
            Ok(()) => tell(&format!("{:32} here", component.name)),
            Err(why) => {
                let advice = component.advice();
                missing.push(format!("{:32} MISSING: {why}; to get it: {advice}", component.name));
            }
        }
    }
    missing
}

/// Installs what is missing; returns what could not be.
pub(crate) fn install() -> Complaints {
    install_of(|_| true)
}

/// The same, without what only `.ci/full` uses.
pub(crate) fn install_for_ci() -> Complaints {
    install_of(|component| ![AWS.name, JAX.name, RAY.name].contains(&component.name))
}

fn install_of(is_wanted: fn(&Component) -> bool) -> Complaints {
    let wanted = ALL.iter().copied().filter(|component| is_wanted(component));
    let missing: Vec<&Component> = wanted.filter(|component| component.probe().is_err()).collect();
    let debian = packages(&missing);
    // Apptainer is unpacked with programs of Debian.
    let scripts: Vec<(&str, &str)> = missing.iter().filter_map(|component| script(component)).collect();
    let mut complaints = thread::scope(|scope| {
        let system = scope.spawn(|| {
            let installed = if debian.is_empty() { Ok(()) } else { apt(&debian) };
            let built: Result<Vec<()>, String> =
                scripts.iter().map(|(script, name)| run_script(script, name)).collect();
            installed.err().into_iter().chain(built.err()).collect::<Complaints>()
        });
        let environments: Vec<_> = missing
            .iter()
            .filter_map(|component| match component.source {
                Source::Python(name, packages) => Some(scope.spawn(move || environment(name, packages))),
                _ => None,
            })
            .collect();
        let mut complaints = Vec::new();
        for environment in environments {
            complaints
                .extend(environment.join().map_or_else(|_| Some("pip panicked".to_owned()), Result::err));
        }
        complaints.extend(system.join().unwrap_or_else(|_| vec!["apt-get panicked".to_owned()]));
        complaints
    });
    complaints.extend(print_of(is_wanted));
    complaints
}

fn script(component: &Component) -> Option<(&'static str, &'static str)> {
    match component.source {
        Source::Script(script, name) => Some((script, name)),
        _ => None,
    }
}

/// Packages of Debian, each once. The script of a component needs some that no probe asks for.
fn packages(missing: &[&Component]) -> BTreeSet<&'static str> {
    let of = |component: &&Component| match component.source {
        Source::Debian(packages) => packages,
        Source::Script(..) => &["patchelf"],
        _ => &[],
    };
    missing.iter().flat_map(of).copied().collect()
}

fn apt(packages: &BTreeSet<&str>) -> Result<(), String> {
    let line = packages.iter().copied().collect::<Vec<_>>().join(" ");
    if ROOT.probe().is_err() || wharf_testing::find("apt-get").is_none() {
        return Err(format!("only root of a Debian can install {line}"));
    }
    tell(&format!("components: apt-get install {line}"));
    let run = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null());
        succeeds(&mut command)
    };
    run(&["update", "-qq"])?;
    let words = ["install", "-y", "-qq", "--no-install-recommends"];
    run(&words.into_iter().chain(packages.iter().copied()).collect::<Vec<_>>())
}

/// An environment of Python below `target`.
fn environment(name: &str, packages: &[&str]) -> Result<(), String> {
    let folder = root().join("target").join(name);
    tell(&format!("components: pip install {}", packages.join(" ")));
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    succeeds(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--no-compile", "--disable-pip-version-check"])
            .args(packages),
    )
}

fn run_script(script: &str, name: &str) -> Result<(), String> {
    tell(&format!("components: {script} target/{name}"));
    succeeds(Command::new(root().join(script)).arg(root().join("target").join(name)))
}
