//! `wharf head init` and `wharf token`: who may do what.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wharf_head::Network;

use super::HomeArgs;
use crate::jobfile::Past;

/// What to do with a head beside starting it.
#[derive(Debug, Subcommand)]
pub enum HeadCommand {
    /// Make the cluster's authority, the head's certificate and the first tokens
    Init(InitArgs),
}

/// `wharf head init`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf head init                             What `wharf head` would make by itself
  wharf head init --host node1 --host 10.0.0.7
  wharf head init --renew                     A new certificate for the head, by the same authority")]
pub struct InitArgs {
    /// Where the head keeps its state.
    #[command(flatten)]
    pub home: HomeArgs,
    /// A name or an address of the head for its certificate, beside those of loopback; may be given several times
    #[arg(long, value_name = "NAME|IP")]
    pub host: Vec<String>,
    /// Renew the head's certificate even if it is still good
    #[arg(long)]
    pub renew: bool,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; it cannot be shown again
    Create(TokenCreateArgs),
    /// List tokens and certificates of workers
    List(TokenListArgs),
    /// Give tokens another expiry
    Renew(TokenRenewArgs),
    /// Revoke tokens or certificates, and end their open streams
    Revoke(TokenRevokeArgs),
}

/// How long a token is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ttl {
    /// So many seconds
    Seconds(f64),
    /// Without expiry
    Never,
}

impl std::str::FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self::Never) } else { seconds(text).map(Self::Seconds) }
    }
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// List and show; read the output of own jobs
    ReadOnly,
    /// Submit jobs, change own jobs, run commands beside them
    Submit,
    /// Change all jobs, and nodes
    Operate,
    /// Everything
    Admin,
}

/// The roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Everything
    Admin,
    /// Submit jobs, and change one's own
    User,
    /// Join as a worker
    Worker,
}

/// `wharf token create`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf token create --user ann --to ann.token
  wharf token create --user ci --scope submit --from 10.0.0.0/8 --ttl 30d --to ci.token
  wharf token create --role admin --user bob --scope operate --to bob.token
  wharf token create --role worker --to join.token            For one new node, for a day
  wharf token create --role worker --nodes 20 --to join.token
  wharf token create --role worker --node n7 --replace --to n7.token    For a node that was set up anew")]
pub struct TokenCreateArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// What its holder may do
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = RoleArg::User)]
    pub role: RoleArg,
    /// Whose it is: the name that jobs are submitted under, and run as where workers are root
    #[arg(long, value_name = "NAME", required_if_eq_any = [("role", "user"), ("role", "admin")])]
    pub user: Option<String>,
    /// What it may be used for [default: everything that the role may do]
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub scope: Option<ScopeArg>,
    /// Address or network that it may be used from, as in 10.0.0.0/8; may be given several times [default: anywhere]
    #[arg(long, value_name = "NETWORK")]
    pub from: Vec<Network>,
    /// The only node that a worker may join as with it
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Number of new nodes that may join with it [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "node", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Let it replace the certificate of a node that has joined before
    #[arg(long, requires = "node")]
    pub replace: bool,
    /// Time until it expires: seconds, a number with s, m, h or d, or `never` [default: a day for workers, otherwise the head's
    /// `--token-ttl`]
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Ttl>,
    /// Write it to a new file that only its owner can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// `wharf token list`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf token list
  wharf token list --output json")]
pub struct TokenListArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
}

/// `wharf token renew`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf token renew 1f2e3d4c
  wharf token renew 1f2e3d4c --ttl 30d")]
pub struct TokenRenewArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Time from now until it expires: seconds, a number with s, m, h or d, or `never` [default: as for a new token]
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Ttl>,
    /// Their ids, as `wharf token list` shows them
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// `wharf audit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf audit                                 The latest entries
  wharf audit --job 12                        Who changed a job
  wharf audit --result refused --since 1d
  wharf audit --user ann --action submit --since 2026-11-01 --output json")]
pub struct AuditArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Entries of this user, or of the worker of this node
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Entries of this action, such as submit, cancel, login, token-create, limits-set
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Entries about this job
    #[arg(long, value_name = "ID")]
    pub job: Option<u32>,
    /// Entries with this result
    #[arg(long, value_name = "RESULT", value_enum)]
    pub result: Option<ResultArg>,
    /// From when on: `7d` (ago), `2026-11-01` or `2026-11-01T12:00`
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// Until when [default: now]
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
    /// Maximum number of entries, the latest first to be kept
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u32,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultArg {
    /// It was done
    Ok,
    /// It was not allowed
    Refused,
    /// It could not be done
    Failed,
}

/// `wharf token revoke`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf token revoke 1f2e3d4c")]
pub struct TokenRevokeArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Their ids, as `wharf token list` shows them
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// A length of time.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, text.chars().next_back()),
        None => (text, None),
    };
    let factor = match unit {
        Some('m') => 60.0,
        Some('h') => 3600.0,
        Some('d') => 86_400.0,
        _ => 1.0,
    };
    let number: f64 = number.parse().map_err(|_| "a number, or one with s, m, h or d".to_owned())?;
    let seconds = number * factor;
    if seconds.is_finite() && seconds > 0.0 { Ok(seconds) } else { Err("more than 0".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_units() {
        for (text, expected) in
            [("90", 90.0), ("90s", 90.0), ("2m", 120.0), ("1.5h", 5400.0), ("30d", 2_592_000.0)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "d", "-1d", "0", "nan", "inf", "1w", "1e400", "Never"] {
            assert!(text.parse::<Ttl>().is_err(), "{text}");
        }
        assert_eq!("never".parse(), Ok(Ttl::Never));
    }
}
