//! What was made, from what, and when: one file, so that the same is not made twice and old images can be found.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ImageError;
use crate::place::{Engine, Form, Place};
use crate::tool::{Tool, find};

/// One image that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The hash of what it was made from.
    pub source: String,
    /// When, in seconds since the Unix epoch.
    pub made_s: i64,
}

/// The images that were made here, by place.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The image.
    pub place: String,
    /// When it was made.
    pub made_s: i64,
}

impl Index {
    /// Reads the index, or begins a new one.
    ///
    /// # Errors
    /// The file is there and is no index.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let entries = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| ImageError::Index { path: path.to_owned(), error })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(ImageError::file("cannot read", path)(error)),
        };
        Ok(Self { path: path.to_owned(), entries })
    }

    /// All images that are still there, by place. One whose engine is away or does not answer is not.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Entry)> {
        let is_left = |name: &str| name.parse().is_ok_and(|place| is_there(&place).unwrap_or(false));
        let left = self.entries.iter().filter(|(name, _)| is_left(name));
        left.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Whether an image is there and was made from this.
    pub(crate) fn is_current(&self, place: &Place, source: &str) -> Result<bool, ImageError> {
        let is_known = self.entries.get(&key(place)).is_some_and(|entry| entry.source == source);
        Ok(is_known && is_there(place)?)
    }

    /// Whether it was made here at all.
    pub(crate) fn knows(&self, place: &Place) -> bool {
        self.entries.contains_key(&key(place))
    }

    /// Notes that an image was made.
    pub(crate) fn note(&mut self, place: &Place, source: &str) -> Result<(), ImageError> {
        let made_s = Timestamp::now().as_second();
        self.entries.insert(key(place), Entry { source: source.to_owned(), made_s });
        self.write()
    }

    /// Removes images that were made here before a moment; only states which they are, where `is_rehearsal`.
    ///
    /// # Errors
    /// One cannot be removed; those before it are.
    pub fn prune(&mut self, before_s: i64, is_rehearsal: bool) -> Result<Vec<Pruned>, ImageError> {
        let old: Vec<(String, i64)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.made_s < before_s)
            .map(|(name, entry)| (name.clone(), entry.made_s))
            .collect();
        let mut pruned = Vec::new();
        for (name, made_s) in old {
            let place = name.parse::<Place>().ok();
            let is_left = match &place {
                Some(place) => is_there(place)?,
                None => false,
            };
            if !is_rehearsal {
                if let Some(place) = place.filter(|_| is_left) {
                    remove(&place)?;
                }
                self.entries.remove(&name);
                self.write()?;
            }
            if is_left {
                pruned.push(Pruned { place: name, made_s });
            }
        }
        Ok(pruned)
    }

    /// Written aside and moved there, so that a reader never sees half of it.
    fn write(&self) -> Result<(), ImageError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(ImageError::file("cannot make the folder", folder))?;
        let wrong = |error| ImageError::file("cannot write", &self.path)(error);
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
        let text = serde_json::to_vec_pretty(&self.entries)
            .map_err(|error| ImageError::Index { path: self.path.clone(), error })?;
        file.write_all(&text).map_err(wrong)?;
        file.persist(&self.path).map_err(|error| wrong(error.error))?;
        Ok(())
    }
}

/// The same image has the same key in all working directories.
fn key(place: &Place) -> String {
    match place {
        Place::At(form, path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Place::At(*form, path).to_string()
        }
        Place::Named(..) => place.to_string(),
    }
}

fn is_there(place: &Place) -> Result<bool, ImageError> {
    match place {
        Place::At(Form::Folder, path) => Ok(path.is_dir()),
        Place::At(_, path) => Ok(path.is_file()),
        Place::Named(engine, _) if find(engine.program()).is_none() => Ok(false),
        Place::Named(Engine::ChImage, name) => {
            let names = Tool::new("ch-image").arg("list").output()?;
            Ok(names.lines().any(|line| line.trim() == name))
        }
        Place::Named(engine, name) => {
            Ok(Tool::new(engine.program()).args(["image", "inspect", name]).holds()?)
        }
    }
}

pub(crate) fn remove(place: &Place) -> Result<(), ImageError> {
    match place {
        Place::At(Form::Folder, path) => {
            fs::remove_dir_all(path).map_err(ImageError::file("cannot remove", path))?;
        }
        Place::At(_, path) => fs::remove_file(path).map_err(ImageError::file("cannot remove", path))?,
        Place::Named(Engine::ChImage, name) => {
            Tool::new("ch-image").args(["delete", name]).output()?;
        }
        Place::Named(engine, name) => {
            Tool::new(engine.program()).args(["image", "rm", name]).output()?;
        }
    }
    Ok(())
}
