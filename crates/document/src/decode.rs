//! From a document's tree to typed values, with every refusal at its place.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use wharf_core::nearest::nearest;

pub use super::node::path;
use super::node::{Entry, Malformed, Node, Place, Value};

/// What is wrong, where, and what may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The path to the field: `gang.min`, `steps[1].command`; empty for the whole document.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
}

impl Problem {
    /// Something is wrong with a value; `at` is the path to it.
    pub fn new(node: &Node, at: &str, message: impl Into<String>) -> Self {
        Self { place: node.place, field: at.to_owned(), message: message.into(), hint: None }
    }

    /// A value is something else than was expected.
    #[must_use]
    pub fn expected(node: &Node, at: &str, what: &str) -> Self {
        Self::new(node, at, format!("expected {what}, found {}", node.kind()))
    }

    /// In one line, with its file and hint.
    #[must_use]
    pub fn told(&self, path: &Path) -> String {
        let Self { place, field, message, hint } = self;
        let place = if place.line == 0 { String::new() } else { format!(":{}:{}", place.line, place.column) };
        let field = if field.is_empty() { String::new() } else { format!("`{field}`: ") };
        let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}{place}: {field}{message}{hint}", path.display())
    }
}

/// What is said of a text that is no document at all.
impl From<Malformed> for Problem {
    fn from(Malformed { place, message }: Malformed) -> Self {
        Self { place, field: String::new(), message, hint: None }
    }
}

/// A value that a document can hold.
pub trait Decode: Sized {
    /// Reads it; `at` is the path to it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn decode(node: &Node, at: &str) -> Result<Self, Problem>;
}

/// A map whose fields are all known.
pub struct Fields<'a> {
    entries: &'a [Entry],
    at: &'a str,
    place: Place,
}

impl<'a> Fields<'a> {
    /// Refuses what is no map, and unknown fields.
    ///
    /// # Errors
    /// What is refused.
    pub fn new(node: &'a Node, at: &'a str, known: &[&str]) -> Result<Self, Problem> {
        let Value::Map(entries) = &node.value else {
            return Err(Problem::expected(node, at, "a map of fields"));
        };
        if let Some(entry) = entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            return Err(unknown(entry, at, "field", known));
        }
        Ok(Self { entries, at, place: node.place })
    }

    /// A field's value; `None` where it is not given or empty.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take<T: Decode>(&self, name: &str) -> Result<Option<T>, Problem> {
        match self.entries.iter().find(|entry| entry.key == name) {
            None | Some(Entry { value: Node { value: Value::Null, .. }, .. }) => Ok(None),
            Some(entry) => T::decode(&entry.value, &path(self.at, name)).map(Some),
        }
    }

    /// A field's value, which must be given.
    ///
    /// # Errors
    /// That it is not, or what is wrong with it.
    pub fn need<T: Decode>(&self, name: &str) -> Result<T, Problem> {
        let missing = || Problem {
            place: self.place,
            field: path(self.at, name),
            message: "required".to_owned(),
            hint: None,
        };
        self.take(name)?.ok_or_else(missing)
    }
}

/// A name that is none of those that are known.
#[must_use]
pub fn unknown(entry: &Entry, at: &str, what: &str, known: &[&str]) -> Problem {
    let hint = match nearest(&entry.key, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    let message = format!("unknown {what} `{}`", entry.key);
    Problem { place: entry.place, field: path(at, &entry.key), message, hint: Some(hint) }
}

/// Reads a map from names that must be among `known`.
///
/// # Errors
/// An unknown name, or what is wrong with a value.
pub fn named<T: Decode>(
    node: &Node,
    at: &str,
    what: &str,
    known: &[&str],
) -> Result<BTreeMap<String, T>, Problem> {
    let Value::Map(entries) = &node.value else {
        return Err(Problem::expected(node, at, "a map of fields"));
    };
    let mut values = BTreeMap::new();
    for entry in entries {
        if !known.contains(&entry.key.as_str()) {
            return Err(unknown(entry, at, what, known));
        }
        values.insert(entry.key.clone(), T::decode(&entry.value, &path(at, &entry.key))?);
    }
    Ok(values)
}

/// Reads a value that has a written form, from a text or a number.
///
/// # Errors
/// What is wrong with it.
pub fn written<T>(node: &Node, at: &str, what: &str) -> Result<T, Problem>
where
    T: FromStr,
    T::Err: Display,
{
    match &node.value {
        Value::Text(text) | Value::Number(text) => {
            text.parse().map_err(|error: T::Err| Problem::new(node, at, error.to_string()))
        }
        _ => Err(Problem::expected(node, at, what)),
    }
}

/// Reads a number of a type, and states what it must be where it is not.
fn number<T: FromStr>(node: &Node, at: &str, what: &str) -> Result<T, Problem> {
    let Value::Number(text) = &node.value else { return Err(Problem::expected(node, at, what)) };
    text.parse().map_err(|_| Problem::new(node, at, format!("expected {what}, found {text}")))
}

impl Decode for u32 {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        number(node, at, "a whole number from 0 to 4294967295")
    }
}

impl Decode for u64 {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        written(node, at, "a whole number from 0 on")
    }
}

impl Decode for i32 {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        number(node, at, "a whole number")
    }
}

impl Decode for f64 {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let value: Self = number(node, at, "a number")?;
        if value.is_finite() && value >= 0.0 {
            return Ok(value);
        }
        Err(Problem::new(node, at, format!("expected a number from 0 on, found {value}")))
    }
}

impl Decode for bool {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::Bool(value) => Ok(*value),
            _ => Err(Problem::expected(node, at, "`true` or `false`")),
        }
    }
}

impl Decode for String {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            // `name: 7` is a name.
            Value::Text(text) | Value::Number(text) => Ok(text.clone()),
            _ => Err(Problem::expected(node, at, "a text")),
        }
    }
}

/// A list, or one value that stands for a list of it.
impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::List(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| T::decode(item, &format!("{at}[{index}]"))).collect()
            }
            _ => T::decode(node, at).map(|value| vec![value]),
        }
    }
}

/// Variables by name. Values are taken as they are written: `yes` from YAML is `yes`, `1.10` is `1.10`.
impl Decode for BTreeMap<String, String> {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let Value::Map(entries) = &node.value else {
            return Err(Problem::expected(node, at, "a map from names to values"));
        };
        let value = |entry: &Entry| {
            let value = match &entry.value.value {
                Value::Text(text) | Value::Number(text) => text.clone(),
                Value::Bool(value) => value.to_string(),
                Value::Null => String::new(),
                Value::List(_) | Value::Map(_) => {
                    return Err(Problem::expected(&entry.value, &path(at, &entry.key), "a text"));
                }
            };
            Ok((entry.key.clone(), value))
        };
        entries.iter().map(value).collect()
    }
}

/// Where a field stands in a document; where the document begins if it does not have it.
#[must_use]
pub fn place_of(node: &Node, field: &str) -> Place {
    let mut found = node.place;
    let mut node = node;
    for name in field.split(['.', '[', ']']).filter(|name| !name.is_empty()) {
        let next = match &node.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == name).map(|entry| {
                found = entry.place;
                &entry.value
            }),
            Value::List(items) => {
                name.parse().ok().and_then(|index: usize| items.get(index)).inspect(|item| {
                    found = item.place;
                })
            }
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    found
}
