//! Every environment variable that Wharf reads.

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    /// Its name.
    pub name: &'static str,
    /// Its effect, in one line.
    pub help: &'static str,
}

impl EnvVar {
    /// Whether it is set to something.
    pub fn is_set(&self) -> bool {
        std::env::var_os(self.name).is_some_and(|value| !value.is_empty())
    }
}

/// `--config`
pub const CONFIG: EnvVar = EnvVar { name: "WHARF_CONFIG", help: "default of `--config`: configuration file" };
/// `--output`
pub const OUTPUT: EnvVar =
    EnvVar { name: "WHARF_OUTPUT", help: "default of `--output`: `table`, `json` or `plain`" };
/// `--color`
pub const COLOR: EnvVar =
    EnvVar { name: "WHARF_COLOR", help: "default of `--color`: `auto`, `always` or `never`" };
/// `--preset`
pub const PRESET: EnvVar =
    EnvVar { name: "WHARF_PRESET", help: "default of `--preset` of `sim`: built-in preset or file" };
/// `--threads`, `--jobs`
pub const THREADS: EnvVar = EnvVar {
    name: "WHARF_THREADS",
    help: "default of `--threads` of `sim` and `demo` and of `--jobs` of `sweep`",
};
/// `--data`
pub const DATA: EnvVar = EnvVar {
    name: "WHARF_DATA",
    help: "default of `--data` of `sweep`: directory with the traces and clusters of scenarios",
};
/// `--home`
pub const HOME: EnvVar =
    EnvVar { name: "WHARF_HOME", help: "default of `--home`: state directory of a cluster's head" };
/// Address of the head for clients.
pub const HEAD: EnvVar = EnvVar {
    name: "WHARF_HEAD",
    help: "address of the head for clients, as HOST:PORT, instead of the one in the state directory",
};
/// Token file for clients.
pub const TOKEN_FILE: EnvVar = EnvVar {
    name: "WHARF_TOKEN_FILE",
    help: "token file for clients, instead of the one in the state directory",
};
/// Certificate authority for clients.
pub const CA_FILE: EnvVar = EnvVar {
    name: "WHARF_CA_FILE",
    help: "certificate file of the cluster's authority; usually not needed, because tokens contain its fingerprint",
};
/// `wharf step`
pub const PROGRESS_SOCKET: EnvVar = EnvVar {
    name: "WHARF_PROGRESS_SOCKET",
    help: "set in a job by its worker: socket to which `wharf step` and the Python SDK report progress",
};
/// Diagnostic events.
pub const LOG: EnvVar = EnvVar {
    name: "WHARF_LOG",
    help: "diagnostic events on standard error: a level (`info`, `debug`, `trace`) or TARGET=LEVEL, separated by commas",
};
/// No colour.
pub const NO_COLOR: EnvVar = EnvVar {
    name: "NO_COLOR",
    help: "disables colour unless `--color always` is given (https://no-color.org)",
};

/// All of them, as the help lists them.
pub const ALL: &[EnvVar] = &[
    CONFIG,
    OUTPUT,
    COLOR,
    PRESET,
    THREADS,
    DATA,
    HOME,
    HEAD,
    TOKEN_FILE,
    CA_FILE,
    LOG,
    PROGRESS_SOCKET,
    NO_COLOR,
];
