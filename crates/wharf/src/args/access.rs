//! `wharf head init` and `wharf token`: who may do what.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::HomeArgs;

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
    /// Make a token and print it: nobody will see it again
    Create(TokenCreateArgs),
    /// List tokens and certificates of workers
    List(TokenListArgs),
    /// End tokens or certificates at once
    Revoke(TokenRevokeArgs),
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
  wharf token create --role admin --user bob --ttl 90d --to bob.token
  wharf token create --role worker --to join.token            For any new node, for a day
  wharf token create --role worker --node n7 --to n7.token    For this node, also if it has joined before")]
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
    /// The only node that a worker may join as with it
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// How long it is good: seconds, or a number with s, m, h or d [default: a day for workers, otherwise without end]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub ttl: Option<f64>,
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
        for text in ["", "d", "-1d", "0", "nan", "inf", "1w", "1e400"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
