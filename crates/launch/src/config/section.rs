//! Reading a map key by key, and collecting everything that is wrong on the way.

use wharf_document::decode::{Decode, Problem, path, unknown};
use wharf_document::node::{Entry, Node, Value};

use super::Findings;
use super::value_error::ValueError;

/// A map of the file.
pub(super) struct Section<'a> {
    entries: &'a [Entry],
    at: String,
}

impl<'a> Section<'a> {
    /// The map without unknown keys, which are reported. Keys that begin with `x-` are the user's own.
    pub(super) fn new(node: &'a Node, at: &str, known: &[&str], findings: &mut Findings) -> Self {
        let section = Self::open(node, at, findings);
        let strange = |entry: &&Entry| !known.contains(&entry.key.as_str()) && !entry.key.starts_with("x-");
        for entry in section.entries.iter().filter(strange) {
            findings.problems.push(unknown(entry, at, "key", known));
        }
        section
    }

    /// A map with foreign keys, such as a cloud's.
    pub(super) fn open(node: &'a Node, at: &str, findings: &mut Findings) -> Self {
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            // `docker:` with nothing behind it is an empty section.
            Value::Null => &[],
            _ => {
                findings.problems.push(Problem::expected(node, at, "a map of keys"));
                &[]
            }
        };
        Self { entries, at: at.to_owned() }
    }

    /// The path to a key.
    pub(super) fn path(&self, name: &str) -> String {
        path(&self.at, name)
    }

    /// Keys and values.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'a Entry> + use<'a> {
        self.entries.iter()
    }

    /// A key's value, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        let found = self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value);
        found.filter(|node| node.value != Value::Null)
    }

    /// A key's value as what it should be.
    pub(super) fn take<T: Decode>(&self, name: &str, findings: &mut Findings) -> Option<T> {
        let node = self.get(name)?;
        T::decode(node, &self.path(name)).map_err(|problem| findings.problems.push(problem)).ok()
    }

    /// The same, with what is wrong with it beyond its form.
    pub(super) fn checked<T: Decode>(
        &self,
        name: &str,
        findings: &mut Findings,
        check: impl FnOnce(&T) -> Result<(), ValueError>,
    ) -> Option<T> {
        let value = self.take(name, findings)?;
        if let Err(error) = check(&value) {
            findings.problems.push(Problem::new(self.get(name)?, &self.path(name), error.message()));
            return None;
        }
        Some(value)
    }

    /// Where a key is, or should be, for what is said of it later.
    pub(super) fn problem(&self, parent: &Node, name: &str, message: impl Into<String>) -> Problem {
        Problem::new(self.get(name).unwrap_or(parent), &self.path(name), message)
    }
}
