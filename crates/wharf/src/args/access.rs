//! `wharf head init` and `wharf token`: authority, certificates and access tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wharf_head::Network;
use wharf_job::{Past, Seconds};

use super::HomeArgs;
use super::value::ArgError;

/// Subcommands of `wharf head`.
#[derive(Debug, Subcommand)]
pub enum HeadCommand {
    /// Create the cluster's authority, the head's certificate and the first tokens
    Init(InitArgs),
}

/// `wharf head init`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf head init                             Create the files that `wharf head` would create at its first start
  wharf head init --host node1 --host 10.0.0.7
  wharf head init --renew                     Issue a new certificate for the head from the same authority")]
pub struct InitArgs {
    /// State directory of the head.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Name or address of the head for its certificate, in addition to loopback; may be given several times
    #[arg(long, value_name = "NAME|IP")]
    pub host: Vec<String>,
    /// Renew the head's certificate even if it is still valid
    #[arg(long)]
    pub renew: bool,
}

/// Subcommands of `wharf token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; it cannot be shown again
    Create(TokenCreateArgs),
    /// List tokens and worker certificates
    List(TokenListArgs),
    /// Change the expiry of tokens
    Renew(TokenRenewArgs),
    /// Revoke tokens or certificates, and end their open streams
    Revoke(TokenRevokeArgs),
}

/// Validity of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ttl {
    /// Number of seconds
    Seconds(f64),
    /// Without expiry
    Never,
}

impl std::str::FromStr for Ttl {
    type Err = ArgError;

    fn from_str(text: &str) -> Result<Self, ArgError> {
        match text {
            "never" => Ok(Self::Never),
            _ => match text.parse()? {
                Seconds(seconds) if seconds > 0.0 => Ok(Self::Seconds(seconds)),
                Seconds(_) => Err(ArgError::Zero),
            },
        }
    }
}

/// Permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// List and show; read the output of the user's own jobs
    ReadOnly,
    /// Submit jobs, change the user's own jobs, run commands in them
    Submit,
    /// Change all jobs and nodes
    Operate,
    /// All permissions
    Admin,
}

/// The roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// All permissions
    Admin,
    /// Submit jobs and change the user's own
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
  wharf token create --role worker --node n7 --replace --to n7.token    For a node that was reinstalled")]
pub struct TokenCreateArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Role of the token
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = RoleArg::User)]
    pub role: RoleArg,
    /// User of the token: owner of its jobs, and their system user where workers run as root
    #[arg(long, value_name = "NAME", required_if_eq_any = [("role", "user"), ("role", "admin")])]
    pub user: Option<String>,
    /// Permissions of the token [default: all of the role]
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub scope: Option<ScopeArg>,
    /// Address or network from which the token is accepted, as in 10.0.0.0/8; may be given several times [default: any]
    #[arg(long, value_name = "NETWORK")]
    pub from: Vec<Network>,
    /// Only node name that may join with the token
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Number of new nodes that may join with the token [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "node", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Allow the token to replace the certificate of a node that has joined before
    #[arg(long, requires = "node")]
    pub replace: bool,
    /// Time to expiry: seconds, a number with s, m, h or d, or `never` [default: a day for workers, otherwise the head's
    /// `--token-ttl`]
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Ttl>,
    /// Write the token to a new file with mode 600, instead of printing it
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
    /// State directory of the cluster.
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
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Time from now to expiry: seconds, a number with s, m, h or d, or `never` [default: as for a new token]
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Ttl>,
    /// Token ids, as shown by `wharf token list`
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// `wharf audit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf audit                                 Latest entries
  wharf audit --job 12                        Changes of one job
  wharf audit --result refused --since 1d
  wharf audit --user ann --action submit --since 2026-11-01 --output json")]
pub struct AuditArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// User, or node name of a worker
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Action, such as submit, cancel, login, token-create, limits-set
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Job id
    #[arg(long, value_name = "ID")]
    pub job: Option<u32>,
    /// Result
    #[arg(long, value_name = "RESULT", value_enum)]
    pub result: Option<ResultArg>,
    /// Start of the period: `7d` (ago), `2026-11-01` or `2026-11-01T12:00`
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// End of the period [default: now]
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
    /// Maximum number of entries; the latest are kept
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u32,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultArg {
    /// The request succeeded
    Ok,
    /// The request was not permitted
    Refused,
    /// The request failed
    Failed,
}

/// `wharf token revoke`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf token revoke 1f2e3d4c")]
pub struct TokenRevokeArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Token ids, as shown by `wharf token list`
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_units() {
        for (text, expected) in
            [("90", 90.0), ("90s", 90.0), ("2m", 120.0), ("1.5h", 5400.0), ("30d", 2_592_000.0)]
        {
            assert_eq!(text.parse(), Ok(Ttl::Seconds(expected)), "{text}");
        }
        for text in ["", "d", "-1d", "0", "nan", "inf", "1e400", "Never"] {
            assert!(text.parse::<Ttl>().is_err(), "{text}");
        }
        assert_eq!("never".parse(), Ok(Ttl::Never));
    }
}
