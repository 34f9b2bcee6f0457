//! Which variables a job gets: some of the submitting shell's, those of a file, and its own.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::job::{Job, Nccl, Xla};
use crate::words;

/// Parts of variables' names, between underscores, that secrets have.
const SECRET_WORDS: [&str; 5] = ["KEY", "KEYS", "PASSPHRASE", "AUTHORIZATION", "COOKIE"];
/// Ends of such parts.
const SECRET_ENDS: [&str; 10] = [
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
];

/// Whether a variable is named like a secret, as `WANDB_API_KEY` or `HF_TOKEN`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let is_secret =
        |part: &str| SECRET_WORDS.contains(&part) || SECRET_ENDS.iter().any(|end| part.ends_with(end));
    name.to_uppercase().split(['_', '-', '.']).any(is_secret)
}

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// What a job usually gets of the shell that submits it: where programs and libraries are found, and the language. Names that
/// end with `*` stand for all that begin so.
pub const USUAL: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_*",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "MODULEPATH",
    "LOADEDMODULES",
    "CUDA_HOME",
    "JAVA_HOME",
];

/// What a job gets of the submitting shell's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    base: Base,
    names: Vec<(String, Option<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Usual,
    All,
    Nothing,
}

impl Default for Export {
    fn default() -> Self {
        Self { base: Base::Usual, names: vec![] }
    }
}

impl FromStr for Export {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from_words(text.split(',')))
    }
}

impl Export {
    /// None of the shell's.
    pub(crate) fn nothing() -> Self {
        Self { base: Base::Nothing, names: vec![] }
    }

    /// `USUAL`, `ALL` or `NONE`, and variables by name, with a value or with the shell's.
    pub(crate) fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut export = Self { base: Base::Nothing, names: vec![] };
        for word in words.map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "USUAL" => export.base = Base::Usual,
                "ALL" => export.base = Base::All,
                "NONE" => export.base = Base::Nothing,
                _ => export.names.push(match word.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (word.to_owned(), None),
                }),
            }
        }
        export
    }

    /// What is exported of a shell's environment.
    ///
    /// Names that look like secrets are left out unless they are asked for one by one; those of Wharf itself always are.
    pub(crate) fn of(&self, shell: &Variables) -> Variables {
        let is_based = |name: &str| match self.base {
            Base::Usual => USUAL.iter().any(|usual| matches(usual, name)),
            Base::All => !is_secret_name(name),
            Base::Nothing => false,
        };
        let based = shell.iter().filter(|(name, _)| is_based(name));
        let mut variables: Variables = based.map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in &self.names {
            if let Some(value) = value.as_ref().or_else(|| shell.get(name)) {
                variables.insert(name.clone(), value.clone());
            }
        }
        variables.retain(|name, _| !name.starts_with("WHARF_"));
        variables
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix) && !is_secret_name(name),
        None => name == pattern,
    }
}

/// Reads `NAME=VALUE` lines; blank lines and those that begin with `#` do not count, values may be quoted.
///
/// The error is the number of the line and what is wrong with it.
pub(crate) fn read_lines(text: &str) -> Result<Variables, (usize, String)> {
    let mut variables = Variables::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = |message: String| (index + 1, message);
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
            .ok_or_else(|| refused(format!("`{line}` is not of the form NAME=VALUE")))?;
        let is_quoted = value.starts_with(['\'', '"']);
        let value = match words::split(value) {
            Ok(words) if is_quoted && words.len() == 1 => words.concat(),
            Ok(_) if !is_quoted => value.to_owned(),
            Ok(_) => return Err(refused(format!("the value of `{name}` is more than one quoted text"))),
            Err(_) if !is_quoted => value.to_owned(),
            Err(error) => return Err(refused(error.to_string())),
        };
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

impl Job {
    /// The variables of its settings, then those that it sets itself.
    #[must_use]
    pub fn variables(&self) -> Variables {
        let mut variables = self.xla.as_ref().map(of_xla).unwrap_or_default();
        variables.extend(self.nccl.as_ref().map(of_nccl).unwrap_or_default());
        variables.extend(self.env.clone().unwrap_or_default());
        variables
    }
}

/// XLA's settings as JAX and XLA read them.
fn of_xla(xla: &Xla) -> Variables {
    let mut variables = Variables::new();
    if let Some(fraction) = xla.memory_fraction {
        variables.insert("XLA_PYTHON_CLIENT_MEM_FRACTION".into(), fraction.0.to_string());
    }
    if let Some(preallocate) = xla.preallocate {
        variables.insert("XLA_PYTHON_CLIENT_PREALLOCATE".into(), preallocate.to_string());
    }
    if let Some(flags) = &xla.flags {
        variables.insert("XLA_FLAGS".into(), flags.0.join(" "));
    }
    variables
}

/// NCCL's settings as NCCL reads them.
fn of_nccl(nccl: &Nccl) -> Variables {
    let bit = |value: Option<bool>| value.map(|value| if value { "1" } else { "0" }.to_owned());
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let settings = [
        ("NCCL_SOCKET_IFNAME", nccl.socket_ifname.clone()),
        ("NCCL_DEBUG", nccl.debug.clone()),
        ("NCCL_DEBUG_SUBSYS", nccl.debug_subsys.clone()),
        ("NCCL_IB_DISABLE", bit(nccl.ib_disable)),
        ("NCCL_IB_HCA", nccl.ib_hca.clone()),
        ("NCCL_IB_TIMEOUT", number(nccl.ib_timeout)),
        ("NCCL_P2P_DISABLE", bit(nccl.p2p_disable)),
        ("NCCL_P2P_LEVEL", nccl.p2p_level.clone()),
        ("NCCL_SHM_DISABLE", bit(nccl.shm_disable)),
        ("NCCL_NET_GDR_LEVEL", nccl.net_gdr_level.clone()),
        ("NCCL_ALGO", nccl.algo.clone()),
        ("NCCL_PROTO", nccl.proto.clone()),
        ("NCCL_MIN_NCHANNELS", number(nccl.min_nchannels)),
        ("NCCL_MAX_NCHANNELS", number(nccl.max_nchannels)),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Variables {
        let names = [
            "PATH",
            "LC_ALL",
            "CONDA_PREFIX",
            "CONDA_TOKEN",
            "EDITOR",
            "AWS_SECRET_ACCESS_KEY",
            "WANDB_API_KEY",
            "WHARF_TOKEN",
            "WHARF_HOME",
        ];
        names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect()
    }

    #[test]
    fn names_of_secrets_are_recognised() {
        for name in [
            "WANDB_API_KEY",
            "HF_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "db_password",
            "KEY",
            "GitHubToken",
            "SSH_PASSPHRASE",
            "MY_CREDENTIALS",
            "OPENAI_APIKEY",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "TOKENIZERS_PARALLELISM", "MONKEY", "KEYBOARD", "HOME", "PWD", "SECRETARY_NAME"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn little_is_exported_unless_asked_for_and_secrets_only_by_name() {
        for (export, names) in [
            ("USUAL", "CONDA_PREFIX LC_ALL PATH"),
            ("ALL", "CONDA_PREFIX EDITOR LC_ALL PATH"),
            ("NONE", ""),
            ("EDITOR,B=1,MISSING", "B EDITOR"),
            ("USUAL,WANDB_API_KEY", "CONDA_PREFIX LC_ALL PATH WANDB_API_KEY"),
            ("WHARF_TOKEN,WHARF_TOKEN_FILE=x", ""),
        ] {
            let exported = export.parse::<Export>().unwrap().of(&shell());
            let found: Vec<&str> = exported.keys().map(String::as_str).collect();
            assert_eq!(found.join(" "), names, "{export}");
        }
        assert_eq!(Export::default(), "USUAL".parse().unwrap());
    }

    #[test]
    fn files_of_variables_are_read() {
        let text = "# comment\n\nA=1\nexport B='two words'\nC=it's plain\nD=\"x=\\\"y\\\"\"\nE=\n";
        let read = read_lines(text).unwrap();
        let found: Vec<String> = read.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["A=1", "B=two words", "C=it's plain", "D=x=\"y\"", "E="]);
        for (text, expected) in [
            ("A=1\nB\n", (2, "`B` is not of the form NAME=VALUE")),
            ("=x", (1, "`=x` is not of the form NAME=VALUE")),
            ("A='x", (1, "a quote `'` is not closed")),
            ("A='x' y", (1, "the value of `A` is more than one quoted text")),
        ] {
            let (line, message) = read_lines(text).unwrap_err();
            assert_eq!((line, message.as_str()), expected);
        }
    }
}
