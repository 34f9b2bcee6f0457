//! Models and devices that users describe in files: YAML, TOML or JSON, by the file's name.

mod hardware;
mod model;

use std::path::{Path, PathBuf};

use crate::{Hardware, Model};
use wharf_document::decode::{Fields, Problem, path};
use wharf_document::node::Node;

/// Why there is no description.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// Its name does not state what it is written in.
    #[error("`{}` has an unknown format: the name must end with .yaml, .toml or .json", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// It states what cannot be.
    #[error("{}", problem.told(path))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What, and where.
        problem: Problem,
    },
}

/// Whether a text names a file that could describe something, rather than something built in.
#[must_use]
pub fn is_file(name: &str) -> bool {
    Node::of_file(Path::new(name), "").is_some() || name.contains('/')
}

/// The model that a file's text describes: a built-in family in any size, or a list of layers.
///
/// # Errors
/// What is wrong with the text, with line and field.
pub fn model(path: &Path, text: &str) -> Result<Model, DescriptionError> {
    read(path, text, model::decode)
}

/// The devices and links that a file's text describes.
///
/// # Errors
/// As [`model`].
pub fn hardware(path: &Path, text: &str) -> Result<Vec<Hardware>, DescriptionError> {
    read(path, text, hardware::decode)
}

fn read<T>(path: &Path, text: &str, decode: fn(&Node) -> Result<T, Problem>) -> Result<T, DescriptionError> {
    let node = Node::of_file(path, text).ok_or_else(|| DescriptionError::Format { path: path.to_owned() })?;
    let decoded = node.map_err(Problem::from).and_then(|node| decode(&node));
    decoded.map_err(|problem| DescriptionError::Invalid { path: path.to_owned(), problem })
}

/// Something is wrong with a field.
fn wrong(node: &Node, at: &str, field: &str, message: impl Into<String>) -> Problem {
    let field_path = path(at, field);
    Problem {
        place: wharf_document::decode::place_of(node, field),
        ..Problem::new(node, &field_path, message)
    }
}

/// A number above 0, where it is given.
fn positive(fields: &Fields<'_>, node: &Node, at: &str, name: &str) -> Result<Option<f64>, Problem> {
    match fields.take::<f64>(name)? {
        Some(value) if value <= 0.0 => {
            Err(wrong(node, at, name, format!("expected a number above 0, found {value}")))
        }
        value => Ok(value),
    }
}

/// A whole number from 1 to `most`, where it is given.
fn count(fields: &Fields<'_>, node: &Node, at: &str, name: &str, most: u32) -> Result<Option<u32>, Problem> {
    match fields.take::<u32>(name)? {
        Some(value) if !(1..=most).contains(&value) => {
            Err(wrong(node, at, name, format!("expected a whole number from 1 to {most}, found {value}")))
        }
        value => Ok(value),
    }
}

/// A name out of a list.
fn choose<T: Copy>(
    fields: &Fields<'_>,
    node: &Node,
    at: &str,
    name: &str,
    known: &[(&str, T)],
) -> Result<Option<T>, Problem> {
    let Some(given) = fields.take::<String>(name)? else { return Ok(None) };
    let found = known.iter().find(|(known, _)| *known == given);
    found.map(|(_, value)| Some(*value)).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        wrong(node, at, name, format!("`{given}` is unknown; expected one of {}", names.join(", ")))
    })
}
