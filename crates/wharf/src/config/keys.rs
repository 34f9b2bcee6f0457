//! The keys of the configuration file: those options of a role's command that take a value.
//!
//! Nothing is listed twice: a new option of `wharf head` is a key of `[head]` and a variable of the environment by
//! itself.

use clap::builder::ValueHint;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::args::{Cli, env, groups};
use crate::reference::capitalised;

/// Sections that are named after the command they are for.
pub(crate) const ROLES: [&str; 3] = ["head", "worker", "local"];
/// The section of every other command.
pub(crate) const CLIENT: &str = "client";

/// How a key's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// One value.
    One,
    /// A list.
    Many,
    /// A table of settings, or a list of `key=value`.
    Settings,
}

/// A key of the file.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Its section.
    pub(crate) section: &'static str,
    /// Its name in the section.
    pub(crate) name: String,
    /// The argument that it is a default of; `None` where there is only a variable of the environment.
    pub(crate) arg: Option<String>,
    /// How its value is written.
    pub(crate) kind: KeyKind,
    /// Whether the value is a path.
    pub(crate) is_path: bool,
    /// The variable of the environment that says the same.
    pub(crate) env: String,
    /// What it is for, in one line.
    pub(crate) help: String,
    /// Default value, or placeholder.
    pub(crate) sample: String,
}

impl Key {
    /// `head.listen`
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    fn of(section: &'static str, arg: &Arg) -> Self {
        let name = arg.get_long().unwrap_or_default().replace('-', "_");
        let is_settings =
            arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "KEY=VALUE"));
        let kind = match (arg.get_action(), is_settings) {
            (ArgAction::Append, true) => KeyKind::Settings,
            (ArgAction::Append, false) => KeyKind::Many,
            _ => KeyKind::One,
        };
        let own = || format!("WHARF_{section}_{name}").to_uppercase();
        Self {
            section,
            arg: Some(arg.get_id().to_string()),
            kind,
            is_path: matches!(arg.get_value_hint(), ValueHint::AnyPath),
            env: arg.get_env().map_or_else(own, |env| env.to_string_lossy().into_owned()),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            sample: sample(arg),
            name,
        }
    }

    /// A key that only clients have, who have no option for it.
    fn of_variable(name: &str, variable: &env::EnvVar, is_path: bool) -> Self {
        Self {
            section: CLIENT,
            name: name.to_owned(),
            arg: None,
            kind: KeyKind::One,
            is_path,
            env: variable.name.to_owned(),
            help: capitalised(variable.help),
            sample: if is_path { "~/FILE" } else { "HOST:PORT" }.to_owned(),
        }
    }

    /// A line of a file, with its default.
    pub(crate) fn line(&self) -> String {
        let is_number = self.sample.parse::<f64>().is_ok_and(f64::is_finite);
        let text = if is_number { self.sample.clone() } else { format!("{:?}", self.sample) };
        let value = match self.kind {
            KeyKind::One => text,
            KeyKind::Many => format!("[{text}]"),
            KeyKind::Settings => "{ KEY = \"VALUE\" }".to_owned(),
        };
        format!("{} = {value}", self.name)
    }
}

fn sample(arg: &Arg) -> String {
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    default.filter(|value| !value.is_empty()).or(name).unwrap_or_default()
}

/// Whether an option can stand in the file: it is shown, it has a name and it takes a value.
fn is_key(arg: &Arg) -> bool {
    arg.get_long().is_some() && !arg.is_hide_set() && arg.get_action().takes_values()
}

/// Every key, section by section.
pub(crate) fn all() -> Vec<Key> {
    let root = Cli::command();
    let mut keys = Vec::new();
    for section in ROLES {
        let command = root.find_subcommand(section);
        let args = command.into_iter().flat_map(Command::get_arguments);
        keys.extend(args.filter(|arg| is_key(arg)).map(|arg| Key::of(section, arg)));
    }
    let jobs = root.find_subcommand("jobs").into_iter().flat_map(Command::get_arguments);
    keys.extend(jobs.filter(|arg| arg.get_id() == "home").map(|arg| Key::of(CLIENT, arg)));
    keys.extend([
        Key::of_variable("head", &env::HEAD, false),
        Key::of_variable("token_file", &env::TOKEN_FILE, true),
        Key::of_variable("ca_file", &env::CA_FILE, true),
    ]);
    let is_common = |arg: &&Arg| ["output", "color"].contains(&arg.get_id().as_str());
    keys.extend(root.get_arguments().filter(is_common).map(|arg| Key::of(CLIENT, arg)));
    keys
}

/// The command line, where every key that takes one value can also be given by the environment.
pub(crate) fn command() -> Command {
    let keys = all();
    let with_env = |section: &str, arg: Arg| {
        let is_own = |key: &&Key| {
            let is_arg = key.arg.as_deref() == Some(arg.get_id().as_str());
            key.section == section && key.kind == KeyKind::One && is_arg
        };
        match keys.iter().find(is_own) {
            Some(key) if arg.get_env().is_none() => arg.env(key.env.clone()).hide_env_values(true),
            _ => arg,
        }
    };
    let root = Cli::command().mut_subcommands(|sub| {
        let section = sub.get_name().to_owned();
        if ROLES.contains(&section.as_str()) { sub.mut_args(|arg| with_env(&section, arg)) } else { sub }
    });
    groups::with_groups(root)
}

/// The variables that follow from keys, with what they do.
pub(crate) fn variables() -> Vec<(String, String)> {
    let is_derived = |key: &Key| env::ALL.iter().all(|variable| variable.name != key.env);
    let row = |key: Key| {
        let option = key.name.replace('_', "-");
        let blanks = if key.kind == KeyKind::One { "" } else { "; several are separated by blanks" };
        (key.env, format!("default of `--{option}` of `wharf {}`{blanks}", key.section))
    };
    all().into_iter().filter(is_derived).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_options_that_take_values() {
        let of = |section: &str| {
            let own = all().into_iter().filter(|key| key.section == section);
            own.map(|key| key.name).collect::<Vec<_>>()
        };
        for (section, expected) in [
            ("head", &["home", "listen", "policy", "set", "lost_after"][..]),
            ("worker", &["home", "head", "join_token_file", "node", "devices", "health_check", "switch"]),
            ("local", &["home", "worker", "policy", "set"]),
            ("client", &["home", "head", "token_file", "ca_file", "output", "color"]),
        ] {
            let keys = of(section);
            assert!(expected.iter().all(|key| keys.iter().any(|own| own == key)), "{section}: {keys:?}");
        }
        assert!(!of("worker").iter().any(|key| key == "rehearse"), "what is hidden is no key");
        assert!(!of("local").iter().any(|key| key == "detach"), "what takes no value is no key");
    }

    #[test]
    fn variables_are_named_after_section_and_key() {
        let keys = all();
        let env = |path: &str| keys.iter().find(|key| key.path() == path).map(|key| key.env.clone());
        for (path, expected) in [
            ("head.listen", "WHARF_HEAD_LISTEN"),
            ("head.home", "WHARF_HOME"),
            ("worker.join_token_file", "WHARF_WORKER_JOIN_TOKEN_FILE"),
            ("worker.head", "WHARF_HEAD"),
            ("local.policy", "WHARF_LOCAL_POLICY"),
            ("client.output", "WHARF_OUTPUT"),
        ] {
            assert_eq!(env(path).as_deref(), Some(expected), "{path}");
        }
        command().debug_assert();
    }
}
