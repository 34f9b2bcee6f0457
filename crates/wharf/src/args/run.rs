//! `wharf run`

use std::ffi::OsString;

use clap::Args;

/// `wharf run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf run -- python train.py
  wharf run --devices gpu:4 --gang 2 -- python train.py --epochs 3")]
pub struct RunArgs {
    /// The devices of this machine, as TYPE:COUNT
    #[arg(long, value_name = "TYPE:COUNT", default_value = "cpu:1")]
    pub devices: String,

    /// How many of them the command needs, all or nothing
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gang: u32,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
