//! A base image from a distribution's packages, where there is no registry.

use std::path::PathBuf;

use crate::convert::import;
use crate::hash::Hasher;
use crate::index::Index;
use crate::place::{Engine, Place};
use crate::tool::Tool;
use crate::{Done, ImageError};

/// What is to be had.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The release, such as `bookworm`.
    pub suite: String,
    /// Where packages come from; none: where debootstrap looks by itself.
    pub mirror: Option<String>,
    /// Packages beyond the smallest system.
    pub include: Vec<String>,
    /// Where it is to be: an engine's image, or a folder.
    pub to: Place,
    /// Also where it is there already.
    pub is_forced: bool,
}

/// Makes a small system of packages, unless the same was made before. Needs root, as debootstrap does.
///
/// # Errors
/// debootstrap is missing or fails; what it says has been shown.
pub fn bootstrap(index: &mut Index, wanted: &Bootstrap) -> Result<Done, ImageError> {
    let source = source(wanted);
    if !wanted.is_forced && index.is_current(&wanted.to, &source)? {
        return Ok(Done::UpToDate);
    }
    let aside = tempfile::Builder::new().prefix("wharf-base-").tempdir();
    let aside =
        aside.map_err(ImageError::file("cannot make a temporary folder in", &std::env::temp_dir()))?;
    let files: PathBuf = aside.path().join("files");
    let mut tool = Tool::new("debootstrap").arg("--variant=minbase");
    if !wanted.include.is_empty() {
        tool = tool.arg(format!("--include={}", wanted.include.join(",")));
    }
    tool = tool.arg(&wanted.suite).arg(&files);
    if let Some(mirror) = &wanted.mirror {
        tool = tool.arg(mirror);
    }
    tool.shown()?;
    match &wanted.to {
        Place::Named(engine @ (Engine::Podman | Engine::Docker), name) => {
            import(*engine, &files, name, aside.path(), &[])?;
            index.note(&wanted.to, &source)?;
        }
        Place::Named(Engine::ChImage, _) | Place::At(..) => {
            let from = Place::At(crate::Form::Folder, files);
            crate::convert(index, &from, &wanted.to, wanted.is_forced)?;
            // What it was asked for states whether to make it again; two runs never give quite the same files.
            index.note(&wanted.to, &source)?;
        }
    }
    Ok(Done::Made)
}

fn source(wanted: &Bootstrap) -> String {
    let mut hasher = Hasher::new();
    hasher.add(b"debootstrap minbase");
    hasher.add(wanted.suite.as_bytes());
    hasher.add(wanted.mirror.as_deref().unwrap_or_default().as_bytes());
    wanted.include.iter().for_each(|package| hasher.add(package.as_bytes()));
    hasher.finish()
}
