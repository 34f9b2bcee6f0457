//! Errors of policies and simulations.

use std::io;
use std::path::PathBuf;

use wharf_client::ClientError;
use wharf_head::live::BadExport;
use wharf_sim::{PresetError, RunError};

/// Why a policy cannot decide in a head, or a simulation cannot begin with a head's state.
#[derive(Debug, thiserror::Error)]
pub enum ForesightError {
    /// The head does not answer, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The head's export cannot be read.
    #[error(transparent)]
    Export(#[from] BadExport),
    /// The policy cannot be built, or the run fails.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The built-in rules cannot be loaded.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// The built-in rules are those of another system.
    #[error("the default preset is not Wharf's own")]
    ForeignPreset,
    /// A setting has no meaning on real machines.
    #[error("`{key}` is for simulations: on real machines it happens by itself")]
    SimulatedSetting {
        /// The setting.
        key: String,
    },
    /// The file of a policy program is missing.
    #[error("cannot read `{}`", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The head has no such node.
    #[error("there is no node `{name}`")]
    UnknownNode {
        /// The name.
        name: String,
        /// The nodes that there are.
        known: Vec<String>,
    },
    /// The client of a comparison has disconnected.
    #[error("the client has disconnected")]
    Disconnected,
}
