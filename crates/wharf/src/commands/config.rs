//! `wharf config`: what is in force and where it comes from, and whether a file makes sense.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use clap::ArgMatches;
use serde_json::{Value, json};

use super::cluster::{address, check_policy};
use crate::args::{ConfigCommand, ConfigShowArgs, OutputFormat};
use crate::config::keys::{self, CLIENT, Key, KeyKind, ROLES};
use crate::config::{ConfigFile, Layers, Origin, Said, section_of};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Shows, checks or explains the configuration; `named` is the file that was asked for.
///
/// # Errors
/// Where the file is wrong.
pub(super) fn execute(
    command: &ConfigCommand,
    named: Option<&Path>,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    match command {
        ConfigCommand::Show(args) => show(args, named, terminal),
        ConfigCommand::Check(args) => check(args.file.as_deref().or(named), terminal),
        ConfigCommand::Example => {
            terminal.data(&example())?;
            Ok(Exit::Ok)
        }
    }
}

/// Tells all errors but the last, which ends the command.
fn last(errors: Vec<CliError>, terminal: &Terminal) -> CliError {
    let mut errors = errors.into_iter();
    let last = errors.next_back();
    for error in errors {
        terminal.error(&error);
    }
    last.unwrap_or_else(|| CliError::new(ErrorKind::Internal, "unknown error"))
}

fn check(file: Option<&Path>, terminal: &Terminal) -> Result<Exit, CliError> {
    let Some(file) = ConfigFile::find(file).map_err(|errors| last(errors, terminal))? else {
        terminal.note("no configuration file found: all values are defaults");
        return Ok(Exit::Ok);
    };
    let errors: Vec<CliError> = file.said.iter().filter_map(|said| meaning(&file, said).err()).collect();
    if !errors.is_empty() {
        return Err(last(errors, terminal));
    }
    for warning in ROLES.into_iter().chain([CLIENT]).flat_map(|section| file.open_secrets(section)) {
        terminal.warn(&warning);
    }
    terminal.note(&format!("{} is valid: {} keys", file.path.display(), file.said.len()));
    Ok(Exit::Ok)
}

/// Whether what is well formed also makes sense: daemons would refuse it when they start.
fn meaning(file: &ConfigFile, said: &Said) -> Result<(), CliError> {
    let policy = file.get(said.key.section, "policy").and_then(|said| said.values.first());
    let policy = policy.map(String::as_str);
    let looked_at = match (said.key.section, said.key.name.as_str()) {
        (_, "policy") => check_policy(policy, &[]),
        // What is wrong with the policy is told there.
        (_, "set") if check_policy(policy, &[]).is_ok() => check_policy(policy, &said.values),
        ("worker" | "client", "head") => said.values.iter().try_for_each(|text| address(text).map(|_| ())),
        ("worker", "devices") => said.values.iter().try_for_each(|text| input::devices(text).map(|_| ())),
        _ => Ok(()),
    };
    looked_at.map_err(|error| file.wrong(said, error.to_string()).with_hints_of(error))
}

fn show(args: &ConfigShowArgs, named: Option<&Path>, terminal: &Terminal) -> Result<Exit, CliError> {
    let layers = Layers::new(ConfigFile::find(named).map_err(|errors| last(errors, terminal))?);
    let shown = if args.command.is_empty() {
        let of = |command: &str| rows(&layers, &["wharf".into(), command.into()]);
        let sections = ROLES.into_iter().chain(["jobs"]).map(of);
        sections.collect::<Result<Vec<_>, _>>()?.concat()
    } else {
        let words: Vec<OsString> =
            std::iter::once("wharf".into()).chain(args.command.iter().cloned()).collect();
        rows(&layers, &words)?
    };
    if terminal.format == OutputFormat::Json {
        let values: Vec<Value> = shown.iter().map(Row::document).collect();
        let file = layers.file.as_ref().map(|file| file.path.to_string_lossy());
        terminal.json(&json!({ "schema": 1, "file": file, "values": values }))?;
        return Ok(Exit::Ok);
    }
    terminal.note(&match &layers.file {
        Some(file) => format!("configuration: {}", file.path.display()),
        None => "there is no configuration file".to_owned(),
    });
    let mut grid = Grid::new(["key", "value", "from"]);
    for row in &shown {
        grid.push([&row.key.path(), &row.text(), &row.origin()]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// A key with its value.
#[derive(Clone)]
struct Row {
    key: Key,
    values: Vec<String>,
    origin: Origin,
}

impl Row {
    /// For people: where there is no value, what happens then.
    fn text(&self) -> String {
        let default = self.key.help.rsplit_once("[default: ").map(|(_, rest)| rest.trim_end_matches(']'));
        match (self.values.is_empty(), default) {
            (true, Some(default)) => format!("({default})"),
            _ => self.values.join(" "),
        }
    }

    fn origin(&self) -> String {
        match &self.origin {
            Origin::Flag => "flag".to_owned(),
            Origin::Environment(name) => format!("env {name}"),
            Origin::File(path, line) => format!("{}:{line}", path.display()),
            Origin::Default => "default".to_owned(),
        }
    }

    fn document(&self) -> Value {
        let value = match (self.key.kind, self.values.first()) {
            (KeyKind::One, first) => json!(first),
            _ => json!(self.values),
        };
        json!({ "key": self.key.path(), "value": value, "from": self.origin() })
    }
}

/// What a command goes by.
fn rows(layers: &Layers, words: &[OsString]) -> Result<Vec<Row>, CliError> {
    let matches = layers.parse(words).map_err(|error| {
        let text = error.render().to_string();
        CliError::usage(text.trim_end().trim_start_matches("error: ").to_owned())
    })?;
    let Some((name, mut inner)) = matches.subcommand() else { return Ok(vec![]) };
    let section = section_of(name);
    while let Some((_, below)) = inner.subcommand() {
        inner = below;
    }
    let own = keys::all().into_iter().filter(|key| key.section == section);
    let has = |key: &Key, matches: &ArgMatches| {
        key.arg.as_ref().is_none_or(|arg| matches.try_contains_id(arg).is_ok())
    };
    let row = |key: Key| {
        let (values, origin) = layers.effective(&key, inner);
        Row { key, values, origin }
    };
    Ok(own.filter(|key| has(key, inner)).map(row).collect())
}

/// A file in which every line is a comment, except for the names of the sections.
fn example() -> String {
    let mut text = "\
# Configuration of Wharf. Command-line flags override environment variables, which override this file, which overrides
# the defaults. The file is set by `--config` or WHARF_CONFIG; otherwise it is the first existing one of
# ~/.config/wharf/config.toml ($XDG_CONFIG_HOME) and /etc/wharf/config.toml. It contains names of secret files, never secrets.
# `wharf config check` lists errors, `wharf config show` the effective values.
"
    .to_owned();
    let mut section = "";
    for key in keys::all() {
        if key.section != section {
            section = key.section;
            let whose = if section == CLIENT {
                "every other command".to_owned()
            } else {
                format!("`wharf {section}`")
            };
            let _ = write!(text, "\n# For {whose}.\n[{section}]\n");
        }
        let _ = write!(text, "# {} ({})\n# {}\n", key.help, key.env, key.line());
    }
    text
}
