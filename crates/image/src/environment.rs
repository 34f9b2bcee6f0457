//! The active Python environment, as a directory from which an image can be built.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ImageError;
use crate::tool::Tool;

/// An environment of Python packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Conda's, at this prefix.
    Conda(PathBuf),
    /// A virtual environment, or a Python's own packages: the program.
    Pip(PathBuf),
}

/// What was written, and what an image built from it will not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it came from.
    pub kind: Kind,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Packages that come from this machine's own folders.
    pub left_out: Vec<String>,
}

/// The active environment: conda's, else a virtual one, else what `python3` sees.
#[must_use]
pub fn found() -> Option<Kind> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(venv) = folder("VIRTUAL_ENV") {
        return Some(Kind::Pip(venv.join("bin/python")));
    }
    if let Some(prefix) = folder("CONDA_PREFIX") {
        return Some(Kind::Conda(prefix));
    }
    crate::find("python3").map(Kind::Pip)
}

/// Writes a Dockerfile and the list of packages into a folder.
///
/// # Errors
/// The environment cannot be asked, or one of the files is there already and `is_forced` is not said.
pub fn export(kind: Kind, folder: &Path, is_forced: bool) -> Result<Exported, ImageError> {
    let (list, text, left_out, dockerfile) = match &kind {
        Kind::Conda(prefix) => {
            let tool = Tool::new("conda").args(["env", "export", "--no-builds", "--prefix"]).arg(prefix);
            // The prefix is a path of this machine.
            let text: String = tool
                .output()?
                .lines()
                .filter(|line| !line.starts_with("prefix:"))
                .map(|line| format!("{line}\n"))
                .collect();
            ("environment.yml", text, Vec::new(), CONDA.to_owned())
        }
        Kind::Pip(python) => {
            let (packages, left_out) = packages(python)?;
            let version = said(python, &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])?;
            ("requirements.txt", packages, left_out, PIP.replace("{version}", version.trim()))
        }
    };
    fs::create_dir_all(folder).map_err(ImageError::file("cannot make the folder", folder))?;
    let files = [(folder.join("Dockerfile"), dockerfile), (folder.join(list), text)];
    for (path, _) in &files {
        if path.exists() && !is_forced {
            return Err(ImageError::InTheWay(path.clone()));
        }
    }
    for (path, text) in &files {
        fs::write(path, text).map_err(ImageError::file("cannot write", path))?;
    }
    Ok(Exported { kind, files: files.map(|(path, _)| path).to_vec(), left_out })
}

/// What pip lists, apart from packages that no other machine can have.
fn packages(python: &Path) -> Result<(String, Vec<String>), ImageError> {
    let listed = said(python, &["-m", "pip", "freeze", "--disable-pip-version-check"])?;
    let is_local = |line: &&str| line.starts_with("-e ") || line.contains("@ file:");
    let (local, plain): (Vec<&str>, Vec<&str>) =
        listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).partition(is_local);
    let text = plain.iter().map(|line| format!("{line}\n")).collect();
    Ok((text, local.into_iter().map(str::to_owned).collect()))
}

/// What a program at a path says.
fn said(program: &Path, args: &[&str]) -> Result<String, ImageError> {
    let output = std::process::Command::new(program).args(args).output();
    let output = output.map_err(ImageError::file("cannot run", program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = args.join(" ");
        return Err(ImageError::Environment(format!(
            "`{} {line}` failed: {}",
            program.display(),
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `BASE` can be given where there is no registry.
const PIP: &str = "\
ARG BASE=docker.io/library/python:{version}-slim
FROM ${BASE}
COPY requirements.txt /opt/requirements.txt
RUN python3 -m pip install --no-cache-dir --requirement /opt/requirements.txt
";

const CONDA: &str = "\
ARG BASE=docker.io/condaforge/miniforge3:latest
FROM ${BASE}
COPY environment.yml /opt/environment.yml
RUN conda env create --prefix /opt/env --file /opt/environment.yml && conda clean --all --yes
ENV PATH=/opt/env/bin:$PATH
";
