//! Where the value of an option comes from: the command line, else the environment, else a file, else its default.
//!
//! What the file says becomes the default of the option before the command line is parsed, so the parser itself sees to
//! the order.

mod file;
pub(crate) mod keys;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches as _, Parser as _};

use crate::args::env::EnvVar;
use crate::args::{Cli, Command, of_task};
use crate::error::CliError;
use crate::output::Terminal;
pub(crate) use file::{ConfigFile, Said};
use keys::{CLIENT, Key, KeyKind, ROLES};

/// Commands of tasks: nothing may keep them from their work, and they are started often.
const OF_TASKS: &[&str] = &["supervisor", "keeper", "exec-session", "beside", "batch", "step", "pace"];
/// Commands that a wrong file must not stop: they help to write one.
const ABOUT_FILE: &[&str] = &["config", "help", "completions", "man", "install", "uninstall"];

/// What clients are told by the file in place of the environment; set once, before anything runs.
static CLIENT_VALUES: OnceLock<BTreeMap<String, OsString>> = OnceLock::new();

/// Why a command line does not become a command.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The command line's fault, or no fault: `--help`.
    Arguments(clap::Error),
    /// The file's.
    File(Vec<CliError>),
}

/// A command, and the file that its defaults are from.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) cli: Cli,
    pub(crate) file: Option<ConfigFile>,
    /// Whether the command line or the environment names the head's folder.
    is_home_given: bool,
}

/// Parses a command line with the defaults of the configuration file.
///
/// # Errors
/// Where the command line or the file is wrong.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Parsed, Refusal> {
    if let Some(cli) = of_task(arguments) {
        return Ok(Parsed { cli, file: None, is_home_given: false });
    }
    if arguments.get(1).is_some_and(|word| OF_TASKS.iter().any(|name| word == name)) {
        let cli = Cli::try_parse_from(arguments).map_err(Refusal::Arguments)?;
        return Ok(Parsed { cli, file: None, is_home_given: false });
    }
    let given = keys::command().try_get_matches_from(arguments).map_err(Refusal::Arguments)?;
    let is_home_given = is_home_given(&given);
    let layers = if given.subcommand_name().is_some_and(|name| ABOUT_FILE.contains(&name)) {
        Layers::new(None)
    } else {
        let named = given.get_one::<PathBuf>("config").map(PathBuf::as_path);
        Layers::new(ConfigFile::find(named).map_err(Refusal::File)?)
    };
    let matches = layers.over(given, arguments).map_err(Refusal::Arguments)?;
    let cli = Cli::from_arg_matches(&matches).map_err(Refusal::Arguments)?;
    Ok(Parsed { cli, file: layers.file, is_home_given })
}

fn is_home_given(matches: &ArgMatches) -> bool {
    if let Some((_, below)) = matches.subcommand() {
        return is_home_given(below);
    }
    matches.try_contains_id("home").is_ok()
        && matches!(matches.value_source("home"), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// Lets clients know what the file states where they would ask the environment. Daemons know their own sections only, and a
/// folder that is named means the head in it.
pub(crate) fn hand_to_clients(parsed: &Parsed) {
    let is_daemon = matches!(
        parsed.cli.command,
        Command::Head(_) | Command::Worker(_) | Command::Local(_) | Command::Demo(_)
    );
    if let Some(file) = parsed.file.as_ref().filter(|_| !is_daemon && !parsed.is_home_given) {
        let own = file.said.iter().filter(|said| said.key.section == CLIENT && said.key.arg.is_none());
        let values = own.filter_map(|said| Some((said.key.env.clone(), said.values.first()?.into())));
        // It is set once, by the command that runs.
        let _ = CLIENT_VALUES.set(values.collect());
    }
}

/// The value of a variable: the environment's, else what the file says to clients.
pub(crate) fn client_value(variable: &EnvVar) -> Option<OsString> {
    let own = std::env::var_os(variable.name).filter(|value| !value.is_empty());
    own.or_else(|| CLIENT_VALUES.get()?.get(variable.name).cloned())
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Environment(String),
    /// A line of the file.
    File(PathBuf, usize),
    /// Default.
    Default,
}

/// What lies below the command line.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) file: Option<ConfigFile>,
}

impl Layers {
    pub(crate) fn new(file: Option<ConfigFile>) -> Self {
        Self { file }
    }

    /// Parses a command line above them.
    pub(crate) fn parse(&self, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
        self.over(keys::command().try_get_matches_from(arguments)?, arguments)
    }

    /// What a command line means above them; `given` is what it means without.
    fn over(&self, given: ArgMatches, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
        let keys = keys::all();
        match keys.iter().any(|key| self.value(key).is_some()) {
            true => self.command(&keys, &given).try_get_matches_from(arguments),
            false => Ok(given),
        }
    }

    /// The command line with their values as defaults; `given` is what it says without them.
    fn command(&self, all: &[Key], given: &ArgMatches) -> clap::Command {
        let value = |section: &str, arg: &Arg| {
            let key = all
                .iter()
                .find(|key| key.section == section && key.arg.as_deref() == Some(arg.get_id().as_str()));
            key.filter(|key| !self.is_for_another_policy(key, given)).and_then(|key| self.value(key))
        };
        let root = keys::command().mut_subcommands(|sub| {
            let section = section_of(sub.get_name());
            with_defaults(sub, &|arg| value(section, arg))
        });
        root.mut_args(|arg| defaulted(arg, &|arg| value(CLIENT, arg)))
    }

    /// What they say about a key; the parser itself asks the environment where it is about one value.
    fn value(&self, key: &Key) -> Option<Vec<String>> {
        let list = || env_list(key).or_else(|| self.said(key).map(|said| said.values.clone()));
        list().filter(|values| !values.is_empty())
    }

    fn said(&self, key: &Key) -> Option<&Said> {
        self.file.as_ref()?.get(key.section, &key.name)
    }

    /// Settings in the file are of the policy in the file: where another one is asked for they have no meaning.
    fn is_for_another_policy(&self, key: &Key, given: &ArgMatches) -> bool {
        let Some((name, matches)) = given.subcommand().filter(|_| key.kind == KeyKind::Settings) else {
            return false;
        };
        let Ok(Some(asked)) = matches.try_get_one::<String>("policy") else { return false };
        let is_said = matches!(
            matches.value_source("policy"),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        let in_file = self.file.as_ref().and_then(|file| file.get(key.section, "policy"));
        let is_same = in_file.is_some_and(|said| said.values.first() == Some(asked));
        name == key.section && is_said && !is_same
    }

    /// The value of a key for a command that has been parsed, and where it comes from.
    pub(crate) fn effective(&self, key: &Key, command: &ArgMatches) -> (Vec<String>, Origin) {
        let from_env = || Origin::Environment(key.env.clone());
        let from_file = || {
            let (file, said) = (self.file.as_ref()?, self.said(key)?);
            Some(Origin::File(file.path.clone(), said.place.line))
        };
        let Some(arg) = &key.arg else {
            let own = std::env::var(&key.env).ok().filter(|value| !value.is_empty());
            return match (own, self.said(key)) {
                (Some(value), _) => (vec![value], from_env()),
                (None, Some(said)) => (said.values.clone(), from_file().unwrap_or(Origin::Default)),
                (None, None) => (vec![], Origin::Default),
            };
        };
        let raw = command.try_get_raw(arg).ok().flatten().into_iter().flatten();
        let values: Vec<String> = raw.map(|value| value.to_string_lossy().into_owned()).collect();
        let origin = match command.value_source(arg) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => from_env(),
            _ if env_list(key).is_some() => from_env(),
            Some(_) if self.said(key).is_some_and(|said| said.values == values) => {
                from_file().unwrap_or(Origin::Default)
            }
            _ => Origin::Default,
        };
        (values, origin)
    }
}

/// The section that a command's options are in.
pub(crate) fn section_of(command: &str) -> &'static str {
    ROLES.into_iter().find(|role| *role == command).unwrap_or(CLIENT)
}

/// A list in the environment, its values separated by blanks.
fn env_list(key: &Key) -> Option<Vec<String>> {
    let text = std::env::var(&key.env).ok().filter(|_| key.kind != KeyKind::One)?;
    Some(text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).filter(|words| !words.is_empty())
}

type Defaults<'a> = dyn Fn(&Arg) -> Option<Vec<String>> + 'a;

fn with_defaults(command: clap::Command, value: &Defaults<'_>) -> clap::Command {
    command.mut_args(|arg| defaulted(arg, value)).mut_subcommands(|sub| with_defaults(sub, value))
}

fn defaulted(arg: Arg, value: &Defaults<'_>) -> Arg {
    match value(&arg) {
        Some(values) => arg.default_values(values),
        None => arg,
    }
}

/// States which file is in force, and warns of secrets that are none.
pub(crate) fn tell(parsed: &Parsed, terminal: &Terminal) {
    let Some(file) = &parsed.file else { return };
    let section = match parsed.cli.command {
        Command::Head(_) => "head",
        Command::Worker(_) => "worker",
        Command::Local(_) => "local",
        _ => CLIENT,
    };
    let line = format!("configuration: {}", file.path.display());
    if section == CLIENT {
        terminal.detail(&line)
    } else {
        terminal.note(&line)
    }
    for warning in file.open_secrets(section) {
        terminal.warn(&warning);
    }
}
