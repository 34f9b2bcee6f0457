//! `wharf head init`: the cluster's authority, the head's certificate, the first tokens.

use nix::unistd::{User, getuid};
use wharf_head::{Access, AccessError, Setup};

use super::home::Home;
use crate::args::{InitArgs, OutputFormat};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;

/// Makes what is missing and states where it is.
pub(super) fn init(args: &InitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let home = Home::new(&args.home)?;
    let access = open(&home, &args.host, args.renew)?;
    let file = |name: &str| home.path().join(name).display().to_string();
    let document = serde_json::json!({
        "schema": 1,
        "fingerprint": access.fingerprint().to_string(),
        "authority": file("auth/ca.pem"),
        "admin_token": file("token"),
        "worker_token": file("worker-token"),
    });
    match terminal.format {
        OutputFormat::Json => terminal.json(&document)?,
        OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
    }
    Ok(Exit::Ok)
}

/// Opens what is in a head's folder and makes what is missing.
pub(super) fn open(home: &Home, hosts: &[String], renew: bool) -> Result<Access, CliError> {
    let is_host = |host: &&String| host.is_empty() || host.contains(char::is_whitespace);
    if let Some(host) = hosts.iter().find(is_host) {
        return Err(CliError::usage(format!("`{host}` is not a host name or address")));
    }
    let setup = Setup { folder: home.path().to_owned(), hosts: hosts.to_vec(), owner: user_name(), renew };
    Access::open(&setup).map_err(|error| {
        let kind = match error {
            AccessError::Write { .. } => ErrorKind::Output,
            AccessError::Certificate { .. } if !hosts.is_empty() => ErrorKind::Usage,
            _ => ErrorKind::Input,
        };
        let failed = CliError::from_error(kind, &error);
        match error {
            AccessError::InUse { .. } => {
                failed.hint("stop it first, or set another state directory with `--home DIR`")
            }
            _ => failed,
        }
    })
}

/// Who runs this, by the system's word and not by the environment's.
fn user_name() -> String {
    let uid = getuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        // A user id may have no name.
        Ok(None) | Err(_) => format!("uid-{uid}"),
    }
}
