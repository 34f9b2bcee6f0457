//! Where an image is, and in which form: what people type.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::tool;

/// What an image of a registry begins with.
const REGISTRY: &str = "docker://";

/// A program that keeps images by name and makes them from Dockerfiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// `podman`.
    Podman,
    /// `docker`.
    Docker,
    /// Charliecloud's `ch-image`.
    ChImage,
}

impl Engine {
    /// All of them, in the order in which they are searched for.
    pub const ALL: [Self; 3] = [Self::Podman, Self::Docker, Self::ChImage];

    /// The program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::ChImage => "ch-image",
        }
    }

    /// The first that this machine has.
    #[must_use]
    pub fn any() -> Option<Self> {
        Self::ALL.into_iter().find(|engine| tool::find(engine.program()).is_some())
    }
}

/// A form that an image has as a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder with all its files.
    Folder,
    /// A squashfs file.
    Squash,
    /// Apptainer's file.
    Sif,
    /// A tar of all its files, perhaps compressed.
    Tar,
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// With an engine, under a name.
    Named(Engine, String),
    /// At a path.
    At(Form, PathBuf),
}

/// Why a text is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// An empty name.
    #[error(
        "`{0}` is not an image; expected one of `podman:name:tag`, `./folder`, `image.sqfs`, `image.sif` or `files.tar.gz`"
    )]
    Empty(String),
    /// An image of a registry, which can only be a source.
    #[error(
        "`docker://{0}` is in a registry: convert to `podman:{0}` or `docker:{0}`, and send that there with `wharf image push {0}`"
    )]
    Registry(String),
    /// A name without an engine.
    #[error(
        "`{0}` is an image's name, and none of podman, docker and ch-image is in PATH; install one, or give a path such as `./{0}`"
    )]
    NoEngine(String),
}

/// What an image is made from: a place, or a name in a registry that it is pulled from first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `docker://NAME`, in the writing of apptainer and singularity.
    Registry(String),
    /// Anything else.
    Place(Place),
}

impl FromStr for Source {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        match text.strip_prefix(REGISTRY) {
            Some("") => Err(PlaceError::Empty(text.to_owned())),
            Some(name) => Ok(Self::Registry(name.to_owned())),
            None => text.parse().map(Self::Place),
        }
    }
}

/// `podman:NAME`, `docker:NAME`, `ch-image:NAME`; a path is one that begins with `/`, `./` or `../` or has an image's
/// ending; anything else is a name with the first engine that is there.
impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if let Some(name) = text.strip_prefix(REGISTRY) {
            return Err(PlaceError::Registry(name.to_owned()));
        }
        let named = |engine: Engine| {
            let rest = text.strip_prefix(engine.program())?.strip_prefix(':')?;
            Some((engine, rest.to_owned()))
        };
        if let Some((engine, name)) = Engine::ALL.into_iter().find_map(named) {
            return if name.is_empty() {
                Err(PlaceError::Empty(text.to_owned()))
            } else {
                Ok(Self::Named(engine, name))
            };
        }
        let path = Path::new(text);
        if let Some(form) = Form::of(text) {
            return Ok(Self::At(form, path.to_owned()));
        }
        if text.starts_with('/')
            || text.starts_with("./")
            || text.starts_with("../")
            || matches!(text, "." | "..")
        {
            return Ok(Self::At(Form::Folder, path.to_owned()));
        }
        if text.is_empty() {
            return Err(PlaceError::Empty(text.to_owned()));
        }
        Engine::any()
            .map(|engine| Self::Named(engine, text.to_owned()))
            .ok_or_else(|| PlaceError::NoEngine(text.to_owned()))
    }
}

impl Form {
    /// By the ending of a file's name.
    fn of(name: &str) -> Option<Self> {
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if ends(&[".sqfs", ".squashfs"]) {
            Some(Self::Squash)
        } else if ends(&[".sif"]) {
            Some(Self::Sif)
        } else if ends(&[".tar", ".tar.gz", ".tgz"]) {
            Some(Self::Tar)
        } else {
            None
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Squash => "squashfs",
            Self::Sif => "sif",
            Self::Tar => "tar",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(engine, name) => write!(f, "{}:{name}", engine.program()),
            Self::At(_, path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinguished_by_how_they_are_written() {
        let at = |form, path: &str| Ok(Place::At(form, path.into()));
        let named = |engine, name: &str| Ok(Place::Named(engine, name.into()));
        let rows = [
            ("podman:demo:1", named(Engine::Podman, "demo:1")),
            ("docker:registry/a/b", named(Engine::Docker, "registry/a/b")),
            ("ch-image:base", named(Engine::ChImage, "base")),
            ("./images/demo", at(Form::Folder, "./images/demo")),
            ("/opt/images/demo", at(Form::Folder, "/opt/images/demo")),
            ("..", at(Form::Folder, "..")),
            ("demo.sqfs", at(Form::Squash, "demo.sqfs")),
            ("out/demo.sif", at(Form::Sif, "out/demo.sif")),
            ("/x/demo.tar.gz", at(Form::Tar, "/x/demo.tar.gz")),
            ("docker://python:3.12", Err(PlaceError::Registry("python:3.12".into()))),
            ("podman:", Err(PlaceError::Empty("podman:".into()))),
            ("", Err(PlaceError::Empty(String::new()))),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Place>(), expected, "{text}");
            let source = text.parse::<Source>();
            match expected {
                Err(PlaceError::Registry(name)) => assert_eq!(source, Ok(Source::Registry(name))),
                expected => assert_eq!(source, expected.map(Source::Place), "{text}"),
            }
        }
    }
}
