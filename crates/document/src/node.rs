//! A document as a tree whose every part knows where it stands, the same for YAML, TOML and JSON.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

/// A line and a column, both from 1; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// How deep a document may go: far deeper than a job's, and not so deep that reading it could run out of stack.
const DEPTH_MAX: usize = 32;

/// A text whose offsets can be told as places.
struct Source<'a> {
    text: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { text, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Where the byte at `offset` stands.
    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }

    /// The digits of a number as they stand in the text: `1.10` must not become `1.1`.
    fn as_written(&self, place: Place, read: String) -> String {
        let start = self.starts.get(place.line.saturating_sub(1)).copied().unwrap_or_default();
        let rest = self.text[start..].chars().skip(place.column.saturating_sub(1));
        let written: String = rest.take_while(|c| c.is_ascii_alphanumeric() || "+-._".contains(*c)).collect();
        if written.is_empty() { read } else { written }
    }
}

/// What is wrong with a document as such.
#[derive(Debug)]
pub struct Malformed {
    /// Where reading it ended.
    pub place: Place,
    /// What was found there.
    pub message: String,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub value: Value,
}

/// What a document can hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// As it was written.
    Number(String),
    /// A text.
    Text(String),
    /// Values in their order.
    List(Vec<Node>),
    /// Fields in their order.
    Map(Vec<Entry>),
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where its name stands.
    pub place: Place,
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Node,
}

/// A key that a map has more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Where the later one stands, which counts.
    pub place: Place,
    /// Where the one before it stands.
    pub ignored: Place,
    /// The path to the key.
    pub field: String,
}

/// The field of a map by its path.
#[must_use]
pub fn path(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

impl Node {
    /// Reads a document in the format that its file's name tells; `None` where that tells none.
    ///
    /// # Errors
    /// Where and why it is none of that format.
    #[must_use]
    pub fn of_file(path: &Path, text: &str) -> Option<Result<Self, Malformed>> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::from_yaml(text)),
            "toml" => Some(Self::from_toml(text)),
            "json" => Some(Self::from_json(text)),
            _ => None,
        }
    }

    /// Reads YAML.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn from_yaml(text: &str) -> Result<Self, Malformed> {
        // Only `true` and `false` are no texts: `on`, `yes` and `NO` are values of variables, too.
        Self::read_yaml(text, serde_saphyr::options! { strict_booleans: true })
    }

    /// Reads YAML in which keys may be repeated. The last value of a key counts, as in PyYAML, and the others are returned.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn from_yaml_last(text: &str) -> Result<(Self, Vec<Repeated>), Malformed> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        };
        let mut node = Self::read_yaml(text, options)?;
        let mut repeated = Vec::new();
        node.keep_last("", &mut repeated);
        Ok((node, repeated))
    }

    fn read_yaml(text: &str, options: serde_saphyr::Options) -> Result<Self, Malformed> {
        let read: Result<YamlNode, _> = serde_saphyr::from_str_with_options(text, options);
        let source = Source::new(text);
        read.map(|node| node.into_node(&source)).map_err(|error| {
            let place = error.location().map(yaml_place).unwrap_or_default();
            // Messages for developers name the library's functions and options, which documents cannot set.
            let message = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
            // The library ends its sentence with the place, which is told first here.
            let message = message.split(" at line ").next().unwrap_or_default().trim_start_matches("error: ");
            Malformed { place, message: message.to_owned() }
        })
    }

    /// Removes all but the last entry of each key, here and below.
    fn keep_last(&mut self, at: &str, repeated: &mut Vec<Repeated>) {
        match &mut self.value {
            Value::Map(entries) => {
                let mut kept: Vec<Entry> = Vec::new();
                for entry in std::mem::take(entries) {
                    if let Some(index) = kept.iter().position(|earlier| earlier.key == entry.key) {
                        let ignored = kept.remove(index).place;
                        repeated.push(Repeated { place: entry.place, ignored, field: path(at, &entry.key) });
                    }
                    kept.push(entry);
                }
                for entry in &mut kept {
                    entry.value.keep_last(&path(at, &entry.key), repeated);
                }
                *entries = kept;
            }
            Value::List(items) => {
                let items = items.iter_mut().enumerate();
                items.for_each(|(index, item)| item.keep_last(&format!("{at}[{index}]"), repeated));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }

    /// Reads TOML.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn from_toml(text: &str) -> Result<Self, Malformed> {
        let source = Source::new(text);
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            Malformed { place: source.place(offset), message: error.message().to_owned() }
        })?;
        Ok(Self { place: source.place(0), value: toml_table(&source, table.get_ref()) })
    }

    /// Reads JSON.
    ///
    /// # Errors
    /// Where and why it is none.
    pub fn from_json(text: &str) -> Result<Self, Malformed> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
            let place = Place { line: error.line(), column: error.column() };
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Malformed { place, message: message.to_owned() }
        })?;
        json_node(&Source::new(text), raw, 0)
    }

    /// What kind of thing it is, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a yes or no",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

// --- YAML ---

struct YamlNode(serde_saphyr::Spanned<YamlValue>);

enum YamlValue {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(serde_saphyr::Spanned<String>, YamlNode)>),
}

fn yaml_place(location: serde_saphyr::Location) -> Place {
    let number = |value: u64| usize::try_from(value).unwrap_or_default();
    Place { line: number(location.line()), column: number(location.column()) }
}

impl YamlNode {
    fn into_node(self, source: &Source<'_>) -> Node {
        let place = yaml_place(self.0.referenced);
        let value = match self.0.value {
            YamlValue::Null => Value::Null,
            YamlValue::Bool(is) => Value::Bool(is),
            YamlValue::Number(read) => Value::Number(source.as_written(yaml_place(self.0.defined), read)),
            YamlValue::Text(text) => Value::Text(text),
            YamlValue::List(items) => {
                Value::List(items.into_iter().map(|item| item.into_node(source)).collect())
            }
            YamlValue::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Entry {
                        place: yaml_place(key.referenced),
                        key: key.value,
                        value: value.into_node(source),
                    })
                    .collect(),
            ),
        };
        Node { place, value }
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_saphyr::Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(YamlValue::Map(map))
    }
}

// --- TOML ---

fn toml_table(source: &Source<'_>, table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            place: source.place(key.span().start),
            key: key.get_ref().to_string(),
            value: toml_node(source, value),
        })
        .collect();
    entries.sort_by_key(|entry| (entry.place.line, entry.place.column));
    Value::Map(entries)
}

fn toml_node(source: &Source<'_>, value: &toml::Spanned<DeValue<'_>>) -> Node {
    let written = || source.text.get(value.span()).unwrap_or_default().replace('_', "");
    let place = source.place(value.span().start);
    let value = match value.get_ref() {
        DeValue::String(value) => Value::Text(value.to_string()),
        DeValue::Integer(_) | DeValue::Float(_) => Value::Number(written()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(value) => Value::Text(value.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| toml_node(source, item)).collect()),
        DeValue::Table(table) => toml_table(source, table),
    };
    Node { place, value }
}

// --- JSON ---

/// The fields of an object in their order, each value as its part of the text.
struct RawMap<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawMap<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMap<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawMap(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

fn json_node(source: &Source<'_>, raw: &RawValue, depth: usize) -> Result<Node, Malformed> {
    let offset = source.offset_of(raw.get());
    let place = source.place(offset);
    let broken = |error: serde_json::Error| Malformed { place, message: error.to_string() };
    if depth > DEPTH_MAX {
        return Err(Malformed { place, message: format!("it is nested more than {DEPTH_MAX} levels deep") });
    }
    let value = match raw.get().as_bytes().first() {
        Some(b'{') => {
            let fields: RawMap<'_> = serde_json::from_str(raw.get()).map_err(broken)?;
            let mut entries: Vec<Entry> = Vec::new();
            for (key, value) in fields.0 {
                let place = source.place(source.key_offset(&key, value.get()));
                if entries.iter().any(|entry| entry.key == key) {
                    return Err(Malformed { place, message: format!("field `{key}` is given twice") });
                }
                entries.push(Entry { place, key, value: json_node(source, value, depth + 1)? });
            }
            Value::Map(entries)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(broken)?;
            let items = items.into_iter().map(|item| json_node(source, item, depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Some(b'"') => Value::Text(serde_json::from_str(raw.get()).map_err(broken)?),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'n') => Value::Null,
        _ => Value::Number(raw.get().to_owned()),
    };
    Ok(Node { place, value })
}

impl Source<'_> {
    /// Where a part of the text begins in it.
    fn offset_of(&self, part: &str) -> usize {
        part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    /// Where a field's name stands: before its value; at the value where it was written with escapes.
    fn key_offset(&self, key: &str, value: &str) -> usize {
        let offset = self.offset_of(value);
        self.text[..offset].rfind(&format!("\"{key}\"")).unwrap_or(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_yaml_errors_name_nothing_of_the_library() {
        for (text, place, expected) in [
            ("a: 1\na: 2\n", (2, 1), "duplicate mapping key: a not allowed here"),
            ("a: 1\n---\na: 2\n", (3, 1), "only single YAML document expected but multiple found"),
            ("a: &x [*x]\n", (1, 8), "Recursive reference not allowed here"),
            (
                "a: !!binary /w==\n",
                (1, 13),
                "!!binary scalar is not valid UTF-8 so cannot be stored into string.",
            ),
            ("a: [1\n", (1, 4), "unclosed bracket '['"),
        ] {
            let malformed = Node::from_yaml(text).expect_err(text);
            let found = ((malformed.place.line, malformed.place.column), malformed.message.as_str());
            assert_eq!(found, (place, expected), "{text}");
        }
    }
}
