//! TOML with places: every complaint about a scenario names file, line and column.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ScenarioError;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<Path>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A file's text, for turning offsets into places.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) file: &'t Arc<Path>,
    pub(super) text: &'t str,
}

impl<'t> Source<'t> {
    /// Parses the whole file as a table.
    pub(super) fn parse(self) -> Result<Section<'t>, ScenarioError> {
        let table = DeTable::parse(self.text).map_err(|error| ScenarioError::Syntax {
            place: self.place(error.span().map_or(0, |span| span.start)),
            message: error.message().trim().replace('\n', "; "),
        })?;
        Ok(Section { source: self, context: "the scenario", offset: 0, table: table.into_inner() })
    }

    fn place(self, offset: usize) -> Place {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Place {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A table whose keys are taken one by one, after a check that all of them are known.
pub(super) struct Section<'t> {
    source: Source<'t>,
    context: &'static str,
    offset: usize,
    table: DeTable<'t>,
}

impl<'t> Section<'t> {
    /// Where the table begins.
    pub(super) fn place(&self) -> Place {
        self.source.place(self.offset)
    }

    /// Takes a key's value.
    pub(super) fn take(&mut self, key: &str) -> Option<Item<'t>> {
        let value = self.table.remove(key)?;
        Some(Item { source: self.source, key: key.to_owned(), value })
    }

    /// Takes a key's value, which must be there.
    pub(super) fn require(&mut self, key: &'static str) -> Result<Item<'t>, ScenarioError> {
        let place = self.place();
        self.take(key).ok_or(ScenarioError::MissingKey { place, key, context: self.context })
    }

    /// Takes everything that is left.
    pub(super) fn take_rest(&mut self) -> Vec<Item<'t>> {
        let rest = std::mem::take(&mut self.table);
        let item = |(key, value): (Spanned<_>, _)| {
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            Item { source: self.source, key: key.into_owned(), value }
        };
        rest.into_iter().map(item).collect()
    }

    /// Complains about the first key that is not `known`: before a missing one is, which it may be meant to be.
    pub(super) fn check_keys(&self, known: &[&str]) -> Result<(), ScenarioError> {
        let unknown = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => Err(ScenarioError::UnknownKey {
                place: self.source.place(key.span().start),
                key: key.get_ref().to_string(),
                context: self.context,
                known: known.iter().map(|name| (*name).to_owned()).collect(),
            }),
        }
    }
}

/// One value with the key it stands under.
pub(super) struct Item<'t> {
    source: Source<'t>,
    key: String,
    value: Spanned<DeValue<'t>>,
}

impl<'t> Item<'t> {
    /// The key.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Where the value is.
    pub(super) fn place(&self) -> Place {
        self.source.place(self.value.span().start)
    }

    /// An error about the value.
    pub(super) fn bad(&self, message: impl Into<String>) -> ScenarioError {
        ScenarioError::BadValue { place: self.place(), message: message.into() }
    }

    fn wrong_type(&self, expected: &'static str) -> ScenarioError {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        ScenarioError::WrongType { place: self.place(), key: self.key.clone(), expected, found }
    }

    /// The value as text.
    pub(super) fn text(&self) -> Result<&str, ScenarioError> {
        self.value.get_ref().as_str().ok_or_else(|| self.wrong_type("text"))
    }

    /// Whether the value is text.
    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// The value as a whole number.
    pub(super) fn whole(&self) -> Result<u64, ScenarioError> {
        let number = self.value.get_ref().as_integer();
        let number = number.ok_or_else(|| self.wrong_type("a whole number"))?;
        let parsed = u64::from_str_radix(number.as_str(), number.radix());
        parsed.map_err(|_| self.bad(format!("`{}` must be between 0 and {}", self.key, u64::MAX)))
    }

    /// The value as a count.
    pub(super) fn count(&self) -> Result<u32, ScenarioError> {
        let whole = self.whole()?;
        u32::try_from(whole).map_err(|_| self.bad(format!("`{}` must be at most {}", self.key, u32::MAX)))
    }

    /// The value as a number, whole or not.
    pub(super) fn number(&self) -> Result<f64, ScenarioError> {
        match self.value.get_ref() {
            DeValue::Integer(_) => Ok(self.whole()? as f64),
            DeValue::Float(number) => {
                number.as_str().parse().map_err(|_| self.bad(format!("`{}` is no number", number.as_str())))
            }
            _ => Err(self.wrong_type("a number")),
        }
    }

    /// The value as true or false.
    pub(super) fn boolean(&self) -> Result<bool, ScenarioError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    /// The value in the form that `--set key=value` would have: text, a number, `on` or `off`.
    pub(super) fn setting(&self) -> Result<String, ScenarioError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            DeValue::Integer(_) => Ok(self.whole()?.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
            _ => Err(self.wrong_type("text, a number, true or false")),
        }
    }

    /// The value as a list.
    pub(super) fn list(self) -> Result<Vec<Self>, ScenarioError> {
        let failed = self.wrong_type("a list");
        match self.value.into_inner() {
            DeValue::Array(values) => {
                let item = |value| Self { source: self.source, key: self.key.clone(), value };
                Ok(values.into_iter().map(item).collect())
            }
            _ => Err(failed),
        }
    }

    /// The value as a table.
    pub(super) fn section(self, context: &'static str) -> Result<Section<'t>, ScenarioError> {
        let failed = self.wrong_type("a table");
        let offset = self.value.span().start;
        match self.value.into_inner() {
            DeValue::Table(table) => Ok(Section { source: self.source, context, offset, table }),
            _ => Err(failed),
        }
    }
}
