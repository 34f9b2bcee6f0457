//! A program that needs nothing of the machine it runs on: statically linked, with musl where that is here, else with glibc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Complaints, root, tell};

/// Builds it and prints where it is.
pub(crate) fn run() -> Complaints {
    match build() {
        Ok(program) => {
            use std::io::Write as _;
            let printed = writeln!(std::io::stdout(), "{}", program.display());
            printed.err().map(|error| error.to_string()).into_iter().collect()
        }
        Err(complaint) => vec![complaint],
    }
}

fn build() -> Result<PathBuf, String> {
    let arch = std::env::consts::ARCH;
    let musl = format!("{arch}-unknown-linux-musl");
    let mut cargo = crate::cargo();
    let target = if has_target(&musl) && has_program("musl-gcc") {
        cargo.env(format!("CC_{}", musl.replace('-', "_")), "musl-gcc");
        musl
    } else {
        tell(&format!(
            "no musl here (`rustup target add {musl}`, `apt-get install musl-tools`): glibc, with +crt-static"
        ));
        cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
        format!("{arch}-unknown-linux-gnu")
    };
    // A target that is named keeps the flags away from build scripts and macros.
    cargo.args(["build", "--release", "--package", "wharf", "--target", &target]);
    let status = cargo.current_dir(root()).status().map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build --target {target}: {status}"));
    }
    let program = crate::target().join(&target).join("release/wharf");
    match is_static(&program)? {
        true => Ok(program),
        false => Err(format!("{} is not statically linked", program.display())),
    }
}

fn has_target(target: &str) -> bool {
    let asked = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let folder = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    folder.is_ok_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir())
}

fn has_program(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether a program names no loader of libraries: its ELF file has no segment of that type.
fn is_static(program: &Path) -> Result<bool, String> {
    const INTERPRETER: u32 = 3;
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let number = |at: usize, length: usize| {
        let part = bytes.get(at..at + length).unwrap_or_default();
        part.iter().rev().fold(0, |number, &byte| (number << 8) | usize::from(byte))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(format!("{} is no program for a 64-bit little-endian machine", program.display()));
    }
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    Ok((0..count).all(|index| number(table + index * size, 4) != INTERPRETER as usize))
}
