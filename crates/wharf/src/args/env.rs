//! Every environment variable that Wharf reads.

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct EnvVar {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
}

impl EnvVar {
    /// Whether it is set to something.
    pub fn is_set(&self) -> bool {
        std::env::var_os(self.name).is_some_and(|value| !value.is_empty())
    }
}

/// `--config`
pub const CONFIG: EnvVar =
    EnvVar { name: "WHARF_CONFIG", help: "default of `--config`: the configuration file" };
/// `--output`
pub const OUTPUT: EnvVar =
    EnvVar { name: "WHARF_OUTPUT", help: "default of `--output`: `table`, `json` or `plain`" };
/// `--color`
pub const COLOR: EnvVar =
    EnvVar { name: "WHARF_COLOR", help: "default of `--color`: `auto`, `always` or `never`" };
/// `--preset`
pub const PRESET: EnvVar =
    EnvVar { name: "WHARF_PRESET", help: "default of `--preset` of `sim`: a built-in name or a file" };
/// `--threads`, `--jobs`
pub const THREADS: EnvVar = EnvVar {
    name: "WHARF_THREADS",
    help: "default of `--threads` of `sim` and `demo` and of `--jobs` of `sweep`",
};
/// `--data`
pub const DATA: EnvVar = EnvVar {
    name: "WHARF_DATA",
    help: "default of `--data` of `sweep`: where scenario files find their traces",
};
/// `--home`
pub const HOME: EnvVar =
    EnvVar { name: "WHARF_HOME", help: "default of `--home`: the folder of a cluster's head" };
/// The head that clients ask.
pub const HEAD: EnvVar = EnvVar {
    name: "WHARF_HEAD",
    help: "the head that clients ask, as HOST:PORT, instead of the one in the folder",
};
/// The token that clients show.
pub const TOKEN_FILE: EnvVar =
    EnvVar { name: "WHARF_TOKEN_FILE", help: "the file with the token, instead of the one in the folder" };
/// The authority that clients believe.
pub const CA_FILE: EnvVar = EnvVar {
    name: "WHARF_CA_FILE",
    help: "the file with the certificate of the cluster's authority; tokens say by themselves which it is",
};
/// `wharf step`
pub const PROGRESS_SOCKET: EnvVar = EnvVar {
    name: "WHARF_PROGRESS_SOCKET",
    help: "set in a job by its worker: where `wharf step` and the Python SDK tell progress",
};
/// No colour.
pub const NO_COLOR: EnvVar =
    EnvVar { name: "NO_COLOR", help: "no colour unless `--color always` asks for it (https://no-color.org)" };

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
    PROGRESS_SOCKET,
    NO_COLOR,
];
