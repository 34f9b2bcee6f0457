//! Secrets of a job: where the submitting client finds their values.

use std::collections::BTreeMap;
use std::str::FromStr;

use wharf_document::decode::{Decode, Problem};
use wharf_document::node::{Node, Value};
use wharf_proto as proto;

use crate::error::FieldError;
use crate::job::Job;
use crate::resolve::{Context, path_below};

/// Where the value of a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the submitting shell; empty: of the same name.
    Env(String),
    /// A file on the client's machine.
    File(String),
}

/// Secrets by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretSources(pub BTreeMap<String, SecretSource>);

/// Why a text states nothing of where a secret is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `env`, `env:NAME` or `file:PATH`; the value of a secret is not written into a job file")]
pub struct NoSource;

impl FromStr for SecretSource {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Self, NoSource> {
        match text.split_once(':') {
            None if text == "env" => Ok(Self::Env(String::new())),
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.to_owned())),
            _ => Err(NoSource),
        }
    }
}

impl SecretSources {
    /// `NAME`, or `NAME=SOURCE`, as flags have it.
    ///
    /// # Errors
    /// Where the source is none.
    pub fn flag(text: &str) -> Result<(String, SecretSource), NoSource> {
        match text.split_once('=') {
            Some((name, source)) => Ok((name.to_owned(), source.parse()?)),
            None => Ok((text.to_owned(), SecretSource::Env(String::new()))),
        }
    }
}

impl Decode for SecretSources {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        if let Value::List(_) = &node.value {
            let names: Vec<String> = Vec::decode(node, at)?;
            return Ok(Self(
                names.into_iter().map(|name| (name, SecretSource::Env(String::new()))).collect(),
            ));
        }
        let written: BTreeMap<String, String> = BTreeMap::decode(node, at)?;
        let read = |(name, text): (String, String)| match text.parse() {
            Ok(source) => Ok((name, source)),
            Err(NoSource) => Err(Problem {
                place: node.place,
                field: format!("{at}.{name}"),
                message: NoSource.to_string(),
                hint: None,
            }),
        };
        written.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// The values of a job's secrets.
pub(crate) fn secrets(job: &Job, context: &Context) -> Result<Option<proto::Secrets>, FieldError> {
    let Some(SecretSources(sources)) = &job.secrets else { return Ok(None) };
    let value = |(name, source): (&String, &SecretSource)| -> Result<(String, String), FieldError> {
        let wrong = |message: String| FieldError { field: format!("secrets.{name}"), message };
        let value = match source {
            SecretSource::Env(variable) => {
                let variable = if variable.is_empty() { name } else { variable };
                let unset = || wrong(format!("the variable {variable} is not set in this shell"));
                context.shell.get(variable).cloned().ok_or_else(unset)?
            }
            SecretSource::File(path) => {
                let path = path_below(context, &context.folder, path);
                let read = std::fs::read_to_string(&path);
                let text =
                    read.map_err(|error| wrong(format!("cannot read `{}`: {error}", path.display())))?;
                text.trim_end_matches(['\n', '\r']).to_owned()
            }
        };
        Ok((name.clone(), value))
    };
    let values = sources.iter().map(value).collect::<Result<_, _>>()?;
    Ok(Some(proto::Secrets { values, ..proto::Secrets::default() }))
}
