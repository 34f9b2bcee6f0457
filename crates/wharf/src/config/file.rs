//! The configuration file: where it is, and what it says at which line.

use std::io::ErrorKind as IoErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use wharf_document::decode::Problem;
use wharf_document::node::{Entry, Malformed, Node, Place, Value};
use wharf_sim::nearest::nearest;

use super::keys::{self, CLIENT, Key, KeyKind, ROLES};
use crate::args::Cli;
use crate::error::CliError;

/// Where administrators put it.
const SYSTEM: &str = "/etc/wharf/config.toml";

/// What a file says about one key.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// The key.
    pub(crate) key: Key,
    /// Where it stands.
    pub(crate) place: Place,
    /// Its values as the command line would have them.
    pub(crate) values: Vec<String>,
}

/// A configuration file that has been read.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) said: Vec<Said>,
}

impl ConfigFile {
    /// The file in force: the named one, or the first that exists of the user's and the system's.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn find(named: Option<&Path>) -> Result<Option<Self>, Vec<CliError>> {
        if let Some(path) = named {
            return Self::read(path).map(Some);
        }
        for path in usual() {
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&path, &text).map(Some),
                Err(error) if matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory) => {}
                Err(error) => return Err(vec![CliError::read(&path, error)]),
            }
        }
        Ok(None)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<CliError>> {
        let text = std::fs::read_to_string(path).map_err(|error| vec![CliError::read(path, error)])?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Vec<CliError>> {
        let malformed =
            |Malformed { place, message }| Problem { place, field: String::new(), message, hint: None };
        let mut problems = Vec::new();
        let said = match Node::from_toml(text) {
            Ok(node) => sections(&node, &mut problems),
            Err(error) => {
                problems.push(malformed(error));
                vec![]
            }
        };
        if problems.is_empty() {
            return Ok(Self { path: path.to_owned(), said });
        }
        Err(problems.into_iter().map(|problem| told(path, problem)).collect())
    }

    /// What it says about a key.
    pub(crate) fn get(&self, section: &str, name: &str) -> Option<&Said> {
        self.said.iter().find(|said| said.key.section == section && said.key.name == name)
    }

    /// An error about what it says.
    pub(crate) fn wrong(&self, said: &Said, message: String) -> CliError {
        told(&self.path, Problem { place: said.place, field: said.key.path(), message, hint: None })
    }

    /// World-readable files with secrets that it names.
    pub(crate) fn open_secrets(&self, section: &str) -> Vec<String> {
        let is_secret = |said: &&Said| said.key.section == section && said.key.name.ends_with("token_file");
        let warning = |said: &Said| {
            let path = said.values.first()?;
            // A missing file is reported where it is used.
            let mode = std::fs::metadata(path).ok()?.mode();
            let whole = format!("{} names `{path}`, which is world-readable: run chmod 600", said.key.path());
            (mode & 0o004 != 0).then_some(whole)
        };
        self.said.iter().filter(is_secret).filter_map(warning).collect()
    }
}

/// Default locations.
fn usual() -> Vec<PathBuf> {
    let absolute = |path: std::ffi::OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let xdg = std::env::var_os("XDG_CONFIG_HOME").and_then(absolute);
    let own = || std::env::var_os("HOME").and_then(absolute).map(|home| home.join(".config"));
    let user = xdg.or_else(own).map(|folder| folder.join("wharf/config.toml"));
    user.into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

fn told(path: &Path, problem: Problem) -> CliError {
    let Place { line, column } = problem.place;
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    let error = CliError::usage(format!("{}:{line}:{column}: {field}{}", path.display(), problem.message));
    problem.hint.into_iter().fold(error, CliError::hint)
}

/// Reads every section, and continues after what is wrong.
fn sections(node: &Node, problems: &mut Vec<Problem>) -> Vec<Said> {
    let keys = keys::all();
    let names: Vec<&str> = ROLES.into_iter().chain([CLIENT]).collect();
    let mut said = Vec::new();
    let Value::Map(entries) = &node.value else { return said };
    for section in entries {
        let Some(name) = names.iter().find(|name| **name == section.key) else {
            problems.push(unknown(section, "", "section", &names));
            continue;
        };
        let own: Vec<&Key> = keys.iter().filter(|key| key.section == *name).collect();
        let Value::Map(fields) = &section.value.value else {
            problems.push(expected(&section.value, name, "a section with keys"));
            continue;
        };
        for field in fields {
            match read_key(field, name, &own) {
                Ok(one) => said.push(one),
                Err(problem) => problems.push(problem),
            }
        }
    }
    said
}

fn read_key(field: &Entry, section: &str, keys: &[&Key]) -> Result<Said, Problem> {
    let Some(key) = keys.iter().find(|key| key.name == field.key) else {
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        return Err(unknown(field, section, "key", &names));
    };
    let values = values(&field.value, key)?;
    if let Some(arg) = &key.arg {
        check_values(&field.value, key, arg, &values)?;
    }
    Ok(Said { key: (*key).clone(), place: field.place, values })
}

fn unknown(entry: &Entry, section: &str, what: &str, known: &[&str]) -> Problem {
    let is_secret = ["token", "password", "secret"].iter().any(|word| entry.key.contains(word));
    let hint = match nearest(&entry.key, known.iter().copied()) {
        Some(name) if is_secret && name.ends_with("_file") => {
            format!("secrets are never in this file; name the file that holds it with `{name}`")
        }
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    let field = if section.is_empty() { entry.key.clone() } else { format!("{section}.{}", entry.key) };
    Problem {
        place: entry.place,
        field,
        message: format!("unknown {what} `{}`", entry.key),
        hint: Some(hint),
    }
}

fn expected(node: &Node, field: &str, what: &str) -> Problem {
    let message = format!("expected {what}, found {}", node.kind());
    Problem { place: node.place, field: field.to_owned(), message, hint: None }
}

/// A value as the words of a command line.
fn values(node: &Node, key: &Key) -> Result<Vec<String>, Problem> {
    match (key.kind, &node.value) {
        (KeyKind::Settings, Value::Map(entries)) => {
            let setting = |entry: &Entry| {
                let field = format!("{}.{}", key.path(), entry.key);
                Ok(format!("{}={}", entry.key, scalar(&entry.value, &field)?))
            };
            entries.iter().map(setting).collect()
        }
        (KeyKind::Many | KeyKind::Settings, Value::List(items)) => {
            items.iter().map(|item| scalar(item, &key.path())).collect()
        }
        (KeyKind::Settings, _) => Err(expected(node, &key.path(), "a table of settings")),
        (KeyKind::Many, _) => Err(expected(node, &key.path(), "a list")),
        (KeyKind::One, _) => {
            let value = scalar(node, &key.path())?;
            Ok(vec![if key.is_path { path(node, key, &value)? } else { value }])
        }
    }
}

fn scalar(node: &Node, field: &str) -> Result<String, Problem> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => Err(expected(node, field, "a text or a number")),
    }
}

/// A path that means the same wherever a command is started.
fn path(node: &Node, key: &Key, text: &str) -> Result<String, Problem> {
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Ok(format!("{home}/{rest}")),
        (None, _) if text.starts_with('/') => Ok(text.to_owned()),
        _ => Err(Problem {
            place: node.place,
            field: key.path(),
            message: format!("`{text}` depends on where a command is started"),
            hint: Some("write the whole path, or begin it with `~/`".to_owned()),
        }),
    }
}

/// Lets the command line's own parser check them.
fn check_values(node: &Node, key: &Key, arg: &str, values: &[String]) -> Result<(), Problem> {
    let option = key.name.replace('_', "-");
    let command = if key.section == CLIENT { "jobs" } else { key.section };
    for value in values {
        let words = ["wharf".to_owned(), command.to_owned(), format!("--{option}={value}")];
        let Err(error) = Cli::command().try_get_matches_from(words) else { continue };
        // The library's own sentence is about a command line.
        let why = std::error::Error::source(&error).map(ToString::to_string);
        let choices = match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(names)) => Some(format!("one of {}", names.join(", "))),
            _ => None,
        };
        let why = why.or(choices).unwrap_or_else(|| format!("not a value of {arg}"));
        return Err(Problem {
            place: node.place,
            field: key.path(),
            message: format!("cannot be `{value}`: {why}"),
            hint: None,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_files_name_line_column_key_and_what_may_be_meant() {
        let cases = [
            ("[head]\nlisten = ", "f:2:10: "),
            ("[haed]\n", "f:1:2: haed: unknown section `haed` (did you mean `head`?)"),
            (
                "[head]\n  lisen = '127.0.0.1:1'",
                "f:2:3: head.lisen: unknown key `lisen` (did you mean `listen`?)",
            ),
            ("head = 3", "f:1:8: head: expected a section with keys, found a number"),
            (
                "[head]\nlisten = 'here'",
                "f:2:10: head.listen: cannot be `here`: invalid socket address syntax",
            ),
            ("[head]\nlisten = ['a']", "f:2:10: head.listen: expected a text or a number, found a list"),
            ("[worker]\nswitch = 'x'", "f:2:10: worker.switch: cannot be `x`: invalid digit found in string"),
            ("[client]\noutput = 'xml'", "f:2:10: client.output: cannot be `xml`: one of table, json, plain"),
            ("[local]\nworker = 'v100:4'", "f:2:10: local.worker: expected a list, found a text"),
            ("[worker]\nhome = 'here'", "f:2:8: worker.home: `here` depends on where a command is started"),
            (
                "[worker]\njoin_token = 'x'",
                "f:2:1: worker.join_token: unknown key `join_token` (secrets are never",
            ),
            ("[head]\nset = 3", "f:2:7: head.set: expected a table of settings, found a number"),
        ];
        for (text, expected) in cases {
            let errors = ConfigFile::parse(Path::new("f"), text).unwrap_err();
            let shown = errors[0].render(&crate::output::style::Styles::plain());
            let shown = shown.trim_start_matches("error: ").trim_end().replace("\nhint: ", " (") + ")";
            assert!(shown.starts_with(expected), "{text:?}: {shown}");
        }
    }

    #[test]
    fn every_problem_is_reported() {
        let errors = ConfigFile::parse(Path::new("f"), "[head]\na = 1\nb = 2\n[x]\n").unwrap_err();
        assert_eq!(errors.len(), 3);
    }

    #[test]
    fn values_are_words_of_the_command_line() {
        let text = "[head]\nlost_after = 60\nset = { backfill = 'easy', restart_s = 5 }\n[local]\nworker = ['v100:4']\n";
        let file = ConfigFile::parse(Path::new("f"), text).unwrap();
        let values = |section: &str, name: &str| file.get(section, name).map(|said| said.values.join(" "));
        assert_eq!(values("head", "lost_after").as_deref(), Some("60"));
        assert_eq!(values("head", "set").as_deref(), Some("backfill=easy restart_s=5"));
        assert_eq!(values("local", "worker").as_deref(), Some("v100:4"));
        assert_eq!(file.get("head", "set").map(|said| said.place.line), Some(3));
    }
}
