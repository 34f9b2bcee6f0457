//! What a site grants the tasks of a node.

use std::ffi::OsString;
use std::time::Duration;

use crate::WorkerConfig;

/// Variables of the worker's own environment that tasks inherit. A name that ends with `*` stands for all that begin so.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "CH_IMAGE_STORAGE",
    "DOCKER_HOST",
    "CONTAINER_HOST",
];

/// What a site grants the tasks of a node.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// More variables of the worker's environment that tasks inherit, beside those of a session; `*` at the end of a name stands
    /// for any rest.
    pub pass_env: Vec<String>,
    /// Highest values of resource limits that jobs may ask for, by the name that `ulimit` has for them; none: unlimited. Others
    /// cannot be raised above the worker's own.
    pub max_limits: Vec<(String, Option<u64>)>,
    /// Nodes of devices, with `{}` for a device's number, beside those of well-known drivers: a root worker lets jobs open those of their own
    /// devices only.
    pub device_files: Vec<String>,
    /// What the output of a task may take of the worker's disk before its middle is left out; 0: what it needs.
    pub output_bytes: u64,
    /// How long output is kept after the task's end.
    pub output_retention: Duration,
    /// What has to be free on the worker's disk for tasks to be started.
    pub disk_reserve_bytes: u64,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            pass_env: Vec::new(),
            max_limits: Vec::new(),
            device_files: Vec::new(),
            output_bytes: 1 << 30,
            output_retention: Duration::from_secs(30 * 24 * 3600),
            disk_reserve_bytes: 64 << 20,
        }
    }
}

impl TaskSettings {
    /// What of an environment tasks inherit. A variable with the worker's token in it is not among it, whatever its name is.
    pub(crate) fn passed(
        &self,
        environment: impl Iterator<Item = (OsString, OsString)>,
        token: &str,
    ) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &str| {
            let more = self.pass_env.iter().map(String::as_str);
            PASSED.iter().copied().chain(more).any(|pattern| matches(pattern, name))
        };
        let fits = |(name, value): &(OsString, OsString)| {
            name.to_str().is_some_and(is_passed) && !contains_token(&value.to_string_lossy(), token)
        };
        environment.filter(fits).collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Variables of this process that contain the token, which no child may inherit.
pub(crate) fn variables_with_token(config: &WorkerConfig) -> impl Iterator<Item = OsString> {
    let has_token = |value: &OsString| contains_token(&value.to_string_lossy(), &config.token);
    std::env::vars_os().filter(move |(_, value)| has_token(value)).map(|(name, _)| name)
}

/// Whether a value contains the token; a very short token is compared as a whole.
fn contains_token(value: &str, token: &str) -> bool {
    const SEARCHED_BYTES_MIN: usize = 8;
    !token.is_empty() && (value == token || (token.len() >= SEARCHED_BYTES_MIN && value.contains(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_takes_listed_names_only() {
        let environment = || {
            ["PATH", "LC_ALL", "LC", "AWS_SECRET_ACCESS_KEY", "NCCL_DEBUG", "LD_PRELOAD", "TZ"]
                .map(|name| {
                    (OsString::from(name), OsString::from(if name == "TZ" { "secret-token" } else { "x" }))
                })
                .into_iter()
        };
        let names = |settings: &TaskSettings| -> Vec<String> {
            let passed = settings.passed(environment(), "secret-token");
            passed.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
        };
        assert_eq!(names(&TaskSettings::default()), ["PATH", "LC_ALL"]);
        let site = TaskSettings { pass_env: vec!["NCCL_*".into(), "LC".into()], ..TaskSettings::default() };
        assert_eq!(names(&site), ["PATH", "LC_ALL", "LC", "NCCL_DEBUG"]);
    }
}
