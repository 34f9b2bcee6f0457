//! From a Dockerfile to an image, by whichever engine there is.

use std::path::{Path, PathBuf};

use crate::convert::import;
use crate::hash::{Hasher, tree, tree_without, whole_file};
use crate::ignore::Ignored;
use crate::index::Index;
use crate::place::{Engine, Place};
use crate::tool::Tool;
use crate::{Done, ImageError};

/// The label that states what an image was built from.
const LABEL: &str = "wharf.source";

/// What to build.
#[derive(Clone, Debug)]
pub struct Build {
    /// With what.
    pub engine: Engine,
    /// What the image is to be called.
    pub name: String,
    /// The folder whose files `COPY` sees.
    pub context: PathBuf,
    /// The Dockerfile.
    pub file: PathBuf,
    /// Values of `ARG`s.
    pub args: Vec<(String, String)>,
    /// A folder or tar of files that `FROM ${BASE}` is to be, where there is no registry to have a base from.
    pub base: Option<PathBuf>,
    /// The network that `RUN` has: `host`, `none`, or the engine's choice.
    pub network: Option<String>,
    /// Also where it is there already.
    pub is_forced: bool,
}

/// Builds an image, unless it was built from the same before.
///
/// # Errors
/// A file is missing, or the engine is or fails; what it says has been shown.
pub fn build(index: &mut Index, build: &Build) -> Result<Done, ImageError> {
    let base = build.base.as_deref().map(base_digest).transpose()?;
    let source = source(build, base.as_deref())?;
    let place = Place::Named(build.engine, build.name.clone());
    if !build.is_forced && index.is_current(&place, &source)? {
        return Ok(Done::UpToDate);
    }
    let mut args = build.args.clone();
    if let (Some(path), Some(digest)) = (&build.base, &base) {
        args.push(("BASE".to_owned(), take_base(build.engine, path, digest)?));
    }
    let mut tool =
        Tool::new(build.engine.program()).args(["build", "--tag", &build.name, "--file"]).arg(&build.file);
    for (name, value) in &args {
        tool = tool.arg("--build-arg").arg(format!("{name}={value}"));
    }
    if build.engine != Engine::ChImage {
        tool = tool.arg("--label").arg(format!("{LABEL}={source}"));
        if let Some(network) = &build.network {
            tool = tool.arg(format!("--network={network}"));
        }
    }
    tool.arg(&build.context).shown()?;
    index.note(&place, &source)?;
    Ok(Done::Made)
}

/// Everything that goes into the image, as one hash.
fn source(build: &Build, base: Option<&str>) -> Result<String, ImageError> {
    let mut hasher = Hasher::new();
    hasher.add(whole_file(&build.file)?.as_bytes());
    let ignored = Ignored::read(build.engine, &build.context, &build.file)?;
    hasher.add(tree_without(&build.context, &ignored)?.as_bytes());
    for (name, value) in &build.args {
        hasher.add(name.as_bytes());
        hasher.add(value.as_bytes());
    }
    hasher.add(base.unwrap_or_default().as_bytes());
    Ok(hasher.finish())
}

fn base_digest(path: &Path) -> Result<String, ImageError> {
    if path.is_dir() { tree(path) } else { whole_file(path) }
}

/// The base as an image of the engine, named by what it holds.
fn take_base(engine: Engine, path: &Path, digest: &str) -> Result<String, ImageError> {
    let short = &digest[..digest.len().min(16)];
    let name = match engine {
        Engine::ChImage => format!("wharf-base-{short}"),
        Engine::Podman | Engine::Docker => format!("localhost/wharf-base:{short}"),
    };
    let aside = tempfile::tempdir().map_err(ImageError::file("cannot make a temporary folder for", path))?;
    match engine {
        Engine::ChImage => {
            Tool::new("ch-image").arg("import").arg(path).arg(&name).output()?;
        }
        _ if path.is_dir() => import(engine, path, &name, aside.path(), &[(LABEL, digest)])?,
        _ => {
            Tool::new(engine.program()).arg("import").arg(path).arg(&name).output()?;
        }
    }
    Ok(name)
}
