//! `wharf install` and `wharf uninstall`: services, users, folders, configuration, manual pages, completions.

use serde_json::json;
use wharf_install::{
    HeadSettings, InstallError, Layout, Moment, Payload, Plan, Removal, Role, Shell, Step, USER,
    WorkerSettings,
};

use super::cluster::address;
use crate::args::{InstallCommand, InstallWorkerArgs, InstalledRole, OutputFormat, PlaceArgs, UninstallArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;
use crate::pages;

/// Installs a role.
///
/// # Errors
/// Where something cannot be put in its place; nothing is then.
pub(super) fn install(command: &InstallCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    let (args, role) = match command {
        InstallCommand::Head(args) => (&args.place, Role::Head),
        InstallCommand::Worker(args) => (&args.place, Role::Worker),
    };
    if let InstallCommand::Worker(args) = command {
        check_worker(args)?;
    }
    let layout = layout(args)?;
    let mut plan = match command {
        InstallCommand::Head(args) => {
            Plan::head(&layout, &HeadSettings { listen: args.listen }, payload()?, args.force)?
        }
        InstallCommand::Worker(args) => {
            let (head, address) = (args.head.clone(), args.address.clone());
            let settings = WorkerSettings { head, join_token_file: args.join_token_file.clone(), address };
            Plan::worker(&layout, &settings, payload()?, args.force)?
        }
    };
    let steps = plan.steps(&layout);
    if args.dry_run {
        show(&steps, Moment::Would, terminal)?;
        show_texts(&plan, role, terminal)?;
        return Ok(Exit::Ok);
    }
    plan.apply(&layout)?.iter().for_each(|warning| terminal.warn(warning));
    show(&steps, Moment::Done, terminal)?;
    plan.next().iter().for_each(|line| terminal.note(line));
    Ok(Exit::Ok)
}

/// Removes a role, and with the last one what the roles share.
///
/// # Errors
/// Where something cannot be removed.
pub(super) fn uninstall(args: &UninstallArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let layout = layout(&args.place)?;
    let role = match args.role {
        InstalledRole::Head => Role::Head,
        InstalledRole::Worker => Role::Worker,
    };
    let removal = Removal::new(&layout, role, args.purge)?;
    if !args.place.dry_run {
        removal.apply(&layout)?.iter().for_each(|warning| terminal.warn(warning));
    }
    let moment = if args.place.dry_run { Moment::Would } else { Moment::Done };
    show(&removal.steps(), moment, terminal)?;
    if !args.purge {
        terminal.note("configuration and state stay; `--purge` removes them");
    } else if role == Role::Head {
        terminal.note(&format!("the system user `{USER}` stays"));
    }
    Ok(Exit::Ok)
}

fn layout(args: &PlaceArgs) -> Result<Layout, CliError> {
    Ok(Layout::new(&args.root, &args.prefix)?)
}

/// This program, its manual pages and completions.
fn payload() -> Result<Payload, CliError> {
    let internal = |error: std::io::Error| {
        CliError::new(ErrorKind::Internal, "cannot read this program").caused_by(error)
    };
    let completions = |shell| {
        pages::completions(match shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        })
    };
    let program = std::env::current_exe().and_then(std::fs::read).map_err(internal)?;
    Ok(Payload { program, pages: pages::all().map_err(internal)?, completions })
}

/// Refuses what the configuration could not hold.
fn check_worker(args: &InstallWorkerArgs) -> Result<(), CliError> {
    args.head.iter().try_for_each(|head| address(head).map(|_| ()))?;
    match args.join_token_file.as_ref().filter(|path| !path.is_absolute()) {
        Some(path) => {
            Err(CliError::usage(format!("`--join-token-file {}` is not an absolute path", path.display()))
                .hint("the service reads the file where it is: put it at /etc/wharf/join.token, for example"))
        }
        None => Ok(()),
    }
}

/// Prints the files that people look into.
fn show_texts(plan: &Plan, role: Role, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format != OutputFormat::Table {
        return Ok(());
    }
    for (path, text) in plan.texts() {
        terminal.data(&format!("\n--- {}\n{}", path.display(), text.trim_start()))?;
    }
    let name = role.name();
    terminal.note(&format!("nothing has been done; without `--dry-run`, `wharf install {name}` does it"));
    Ok(())
}

/// Prints what is or would be done.
fn show(steps: &[Step], moment: Moment, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        return terminal.json(&json!({ "schema": 1, "moment": moment, "steps": steps }));
    }
    let mut grid = Grid::new(["how", "what", "mode", "owner"]);
    for Step { how, what, mode, owner } in steps {
        grid.push([how, what, mode, owner]);
    }
    terminal.grid(&grid)
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        let kind = match &error {
            InstallError::Prefix(_) | InstallError::NoRoot(_) => ErrorKind::Usage,
            InstallError::Read { .. } | InstallError::Config { .. } => ErrorKind::Input,
            InstallError::Write { .. } | InstallError::Staging(_) | InstallError::User { .. } => {
                ErrorKind::Output
            }
        };
        let failed = Self::from_error(kind, &error);
        match error {
            InstallError::Prefix(_) => {
                failed.hint("expected an absolute path without spaces, quotes, `%` and `$`")
            }
            InstallError::Config { .. } => failed.hint("correct it, or replace it with `--force`"),
            InstallError::Staging(error) => error.into(),
            InstallError::User { user, reports } => reports
                .into_iter()
                .fold(failed, Self::hint)
                .hint(format!("create the system user `{user}` and try again")),
            _ => failed,
        }
    }
}
