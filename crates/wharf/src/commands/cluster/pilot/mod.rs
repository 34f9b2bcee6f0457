//! `wharf pilot`: keeps workers in a Slurm, shows them, and is what they run.

mod lead;
mod node;
mod slurm;

use std::path::PathBuf;

use wharf_pilot::{CommandQueue, PilotError, Queue, RestQueue, RestTarget, Status, Store};

use super::home::Home;
use crate::args::{HomeArgs, OutputFormat, PilotCommand, PilotFolderArgs, PilotStatusArgs, QueueArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Does what the arguments say.
pub(in crate::commands) fn pilot(command: &PilotCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        PilotCommand::Slurm(args) => slurm::keep(args, terminal),
        PilotCommand::Status(args) => status(args, terminal),
        PilotCommand::Node(args) => node::run(args, terminal),
        PilotCommand::Lead(args) => lead::run(args, terminal),
    }
}

/// The way to Slurm.
pub(in crate::commands::cluster) fn queue(args: &QueueArgs) -> Result<Box<dyn Queue>, CliError> {
    if let Some(socket) = &args.rest_socket {
        return Ok(Box::new(RestQueue::new(RestTarget::Socket(socket.clone()))));
    }
    let (Some(address), Some(token_file)) = (&args.rest, &args.rest_token_file) else {
        return Ok(Box::new(CommandQueue::default()));
    };
    let user = match &args.rest_user {
        Some(user) => user.clone(),
        None => own_name()?,
    };
    let (address, token_file) = (address.clone(), token_file.clone());
    Ok(Box::new(RestQueue::new(RestTarget::Address { address, user, token_file })))
}

fn own_name() -> Result<String, CliError> {
    let known = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    known.map(|user| user.name).ok_or_else(|| {
        CliError::usage("the current user has no name")
            .hint("set the user of the token with `--rest-user NAME`")
    })
}

/// Where those who keep pilots of this cluster write.
fn folder(home: &HomeArgs, args: &PilotFolderArgs) -> Result<PathBuf, CliError> {
    match &args.folder {
        Some(folder) => Ok(folder.clone()),
        None => Ok(Home::new(home)?.path().join("pilots")),
    }
}

impl From<PilotError> for CliError {
    fn from(error: PilotError) -> Self {
        let kind = match error {
            PilotError::Setting { .. } | PilotError::Job { .. } | PilotError::Container(_) => {
                ErrorKind::Usage
            }
            PilotError::File { what: "write" | "make" | "remove", .. } => ErrorKind::Output,
            _ => ErrorKind::Input,
        };
        let hint = match &error {
            PilotError::InUse { .. } => Some("see `wharf pilot status`"),
            PilotError::Queue(wharf_pilot::QueueError::Program { .. }) => {
                Some("is Slurm installed? its programs must be in PATH")
            }
            PilotError::Queue(wharf_pilot::QueueError::Refused { message, .. })
                if ["(gres)", "node configuration is not available"]
                    .iter()
                    .any(|part| message.contains(part)) =>
            {
                Some(
                    "does this Slurm have such devices? `--type cpu` (in a file `gang: {types: [cpu]}`) asks for processors",
                )
            }
            _ => None,
        };
        let told = Self::from_error(kind, &error);
        hint.into_iter().fold(told, CliError::hint)
    }
}

fn status(args: &PilotStatusArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let folder = folder(&args.home, &args.folder)?;
    let missing = || {
        CliError::input(format!("no pilot state in `{}`", folder.display()))
            .hint("start pilots with `wharf pilot slurm`, or set another directory with `--folder DIR`")
    };
    if !folder.is_dir() {
        return Err(missing());
    }
    let store = Store::open(&folder)?;
    let status = store.status()?.ok_or_else(missing)?;
    let is_kept = store.is_kept();
    let now_s = wharf_client::unix_s();
    if terminal.format == OutputFormat::Json {
        let document = serde_json::json!({ "schema": 1, "is_kept": is_kept, "status": status });
        terminal.json(&document)?;
        return Ok(Exit::Ok);
    }
    facts(&status, is_kept, now_s, terminal)?;
    if status.pilots.is_empty() {
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["pilot", "state", "slot", "nodes", "for", "reason"]);
    for (id, row) in &status.pilots {
        let since_s = row.start_s.unwrap_or(row.submitted_s);
        let age = if since_s > 0.0 { wharf_report::human::duration(now_s - since_s) } else { String::new() };
        grid.push([id, &row.stage, &row.slot.to_string(), &row.nodes, &age, &row.reason]);
    }
    terminal.data("\n")?;
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// How things are, above the pilots.
fn facts(status: &Status, is_kept: bool, now_s: f64, terminal: &Terminal) -> Result<(), CliError> {
    let duration = wharf_report::human::duration;
    let count = |stage: &str| status.pilots.values().filter(|row| row.stage == stage).count();
    let kept = match is_kept {
        true => format!("by process {}", status.pid),
        false => format!("not running, since {} ago", duration((now_s - status.updated_s).max(0.0))),
    };
    let pilots = format!(
        "{} up, {} starting, {} pending, {} ending",
        count("up"),
        count("starting"),
        count("pending"),
        count("ending")
    );
    let wait_s = status.retry_at_s - now_s;
    let backoff = match (status.failures, wait_s > 0.0) {
        (0, _) => String::new(),
        (failures, true) => {
            format!("{failures} failures in a row; the next attempt is in {}", duration(wait_s))
        }
        (failures, false) => format!("{failures} failures in a row; one pilot at a time is tried"),
    };
    let rows = [
        ("kept", kept),
        ("pilots", pilots),
        ("waiting", format!("{} jobs, for which {} more pilots would do", status.waiting, status.needed)),
        ("submitted", format!("{} so far", status.submitted)),
        ("back-off", backoff),
        ("trouble", status.trouble.clone()),
        ("head", status.head_away.clone()),
    ];
    let mut grid = Grid::new(["field", "value"]);
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        grid.push([name, value]);
    }
    terminal.grid(&grid)
}
