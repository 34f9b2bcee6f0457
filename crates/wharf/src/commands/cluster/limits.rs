//! `wharf limits`: who may have how much.

use wharf_proto::{LimitUse, LimitsReply};

use super::connect::with;
use crate::args::{LimitsApplyArgs, LimitsCommand, LimitsShowArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Does what is wanted of limits.
///
/// # Errors
/// Where the file or the head will not have it.
pub(in crate::commands) fn limits(command: &LimitsCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        LimitsCommand::Check(args) => {
            let (text, _) = input::limits(&args.file)?;
            terminal.note(&format!("`{}` can be applied", args.file.display()));
            // The file itself is right: a head that is away, or another's, is no mistake in it.
            match with(&args.home, async |client| Ok(client.set_limits(text, true).await?)) {
                Ok(reply) => warn_of_blocked(&reply, "would be blocked", terminal),
                Err(_) => {
                    terminal.note("not compared with live jobs: no head that an administrator can reach")
                }
            }
        }
        LimitsCommand::Apply(args) => apply(args, terminal)?,
        LimitsCommand::Show(LimitsShowArgs { home, user }) => {
            let reply = with(home, async |client| Ok(client.limits(user).await?))?;
            show(&reply, terminal)?;
        }
    }
    Ok(Exit::Ok)
}

fn apply(args: &LimitsApplyArgs, terminal: &Terminal) -> Result<(), CliError> {
    // Told here, a mistake comes with the file's name.
    let (text, _) = input::limits(&args.file)?;
    let reply = with(&args.home, async |client| Ok(client.set_limits(text, false).await?))?;
    warn_of_blocked(&reply, "is blocked", terminal);
    match terminal.format {
        OutputFormat::Json => show(&reply, terminal),
        _ => {
            terminal.note("the limits are active; running jobs continue");
            Ok(())
        }
    }
}

fn warn_of_blocked(reply: &LimitsReply, what: &str, terminal: &Terminal) {
    const SHOWN_MAX: usize = 20;
    for line in reply.blocked.iter().take(SHOWN_MAX) {
        terminal.warn(&format!("{what}: {line}"));
    }
    if let Some(more) = reply.blocked.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        terminal.warn(&format!("{what}: {more} more jobs"));
    }
}

fn show(reply: &LimitsReply, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let row = |row: &LimitUse| {
            serde_json::json!({
                "whose": row.whose,
                "what": row.what,
                "limit": row.limit,
                "used": row.used,
                "per_s": (row.per_s > 0.0).then_some(row.per_s),
                "waiting": row.waiting,
            })
        };
        let limits: Vec<_> = reply.uses.iter().map(row).collect();
        return terminal.json(&serde_json::json!({
            "schema": 1,
            "by": reply.by,
            "applied_s": reply.applied_s,
            "text": reply.text,
            "limits": limits,
        }));
    }
    let mut grid = Grid::new(["whose", "what", "limit", "used", "waiting"]);
    for row in &reply.uses {
        let what = match row.per_s > 0.0 {
            true => format!("{} in {:.1} h", row.what, row.per_s / 3600.0),
            false => row.what.clone(),
        };
        let used = (row.used * 10.0).round() / 10.0;
        let (limit, used) = (row.limit.to_string(), used.to_string());
        grid.push([row.whose.as_str(), &what, &limit, &used, &row.waiting.to_string()]);
    }
    terminal.grid(&grid)
}
