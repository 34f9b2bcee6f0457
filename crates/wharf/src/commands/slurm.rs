//! Slurm's commands: where their messages go, and how they end.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use wharf_client::Client;
use wharf_proto::ExecOpen;
use wharf_slurm::commands::{self, CommandError, Console, Context, MPI_AGENT, MpiError, NAMES, shims};
use wharf_slurm::grammar::{Kind, Refusal};

use super::cluster::{locator, runtime, session, state_home};
use crate::args::{BatchArgs, MpiAgentArgs, ShimsArgs, SlurmArgs, env};
use crate::config::client_value;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::style::Styles;
use crate::output::{Terminal, confirm, escaped};

/// Standard output and standard error, without characters that could change a terminal.
struct Standard;

impl Console for Standard {
    fn print(&self, lines: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{}", escaped(line))).and_then(|()| out.flush())
    }

    fn note(&self, line: &str) {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "{}", escaped(line));
    }
}

impl commands::Terminal for Standard {
    async fn session(&self, client: &Client, open: ExecOpen) -> Result<u8, Box<dyn Error + Send + Sync>> {
        Ok(session(client, open, true).await?.code())
    }
}

/// A command line with everything after the name of such a command kept from Wharf's own parser; the name may be the
/// program's.
pub(crate) fn arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_one = |word: &OsString| NAMES.iter().any(|name| word == name);
    let called = arguments.first().and_then(|first| Path::new(first).file_name()).map(OsString::from);
    let at = match called.filter(is_one) {
        Some(name) => {
            arguments.insert(1, name);
            2
        }
        None if arguments.get(1).is_some_and(is_one) => 2,
        None => return arguments,
    };
    // Help is Wharf's own.
    if arguments.get(at).is_none_or(|word| word != "--help") {
        arguments.insert(at, "--".into());
    }
    arguments
}

/// Runs one of them.
///
/// # Errors
/// None that is not told in the command's own way, except for output without a reader.
pub(super) fn execute(name: &str, args: &SlurmArgs) -> Result<Exit, CliError> {
    let context = Context {
        locator: locator(args.home.home.clone().or_else(|| state_home("").ok())),
        console: Arc::new(Standard),
        variables: cluster_variables().collect(),
        links: state_home("").ok().map(|state| state.join("slurm")),
    };
    let done = runtime()?.block_on(commands::execute(name, &context, &Standard, &args.words));
    let error = match done {
        Ok(code) | Err(CommandError::Reported(code)) => return Ok(Exit::Passed(code)),
        Err(CommandError::Refused(refusal)) => return Ok(refuse(name, &refusal)),
        Err(error) => translate(error),
    };
    if error.kind().exit() == Exit::Ok {
        return Err(error);
    }
    let text = error.render(&Styles::plain());
    text.lines().for_each(|line| Standard.note(&format!("{name}: {line}")));
    Ok(Exit::Passed(1))
}

/// Prints a refusal in Slurm's words.
fn refuse(name: &str, refusal: &Refusal) -> Exit {
    refusal.lines(name).iter().for_each(|line| Standard.note(line));
    if refusal.kind == Kind::Usage {
        Standard.note(&format!("Try \"{name} --help\" for more information"));
    }
    Exit::Passed(refusal.code())
}

fn translate(error: CommandError) -> CliError {
    match error {
        CommandError::Client(error) => error.into(),
        CommandError::Output(error) => CliError::stdout(error),
        CommandError::Session(error) => match error.downcast::<CliError>() {
            Ok(error) => *error,
            Err(error) => CliError::input(error.to_string()),
        },
        CommandError::Refused(_) | CommandError::Reported(_) => CliError::input(error.to_string()),
    }
}

/// The variables that tell commands within a job where the cluster is, with absolute paths.
fn cluster_variables() -> impl Iterator<Item = (String, String)> {
    [env::HOME, env::HEAD, env::TOKEN_FILE, env::CA_FILE].into_iter().filter_map(|variable| {
        let value = client_value(&variable)?;
        let absolute = (variable.name != env::HEAD.name).then(|| std::path::absolute(&value).ok()).flatten();
        let value = absolute.map_or(value, std::path::PathBuf::into_os_string);
        Some((variable.name.to_owned(), value.into_string().ok()?))
    })
}

/// Writes links to this program, into a folder that contains other files only after a confirmation: they would hide Slurm's own
/// commands from every user of such a folder.
///
/// # Errors
/// If they cannot be written.
pub(super) fn shims(args: &ShimsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(other) = shims::other_file(&args.folder) {
        let folder = args.folder.display();
        let question = format!(
            "{folder} contains other files (such as `{other}`). Write links to {} there?",
            NAMES.join(", ")
        );
        if !confirm(&question, args.yes, terminal)? {
            terminal.note("nothing was written");
            return Ok(Exit::Ok);
        }
    }
    shims::link(&args.folder).map_err(|error| CliError::write(&args.folder, error))?;
    terminal.note(&format!("add {} to the beginning of PATH", args.folder.display()));
    Ok(Exit::Ok)
}

/// Becomes a batch script, which finds Slurm's commands whatever is installed on its node.
pub(super) fn batch(args: &BatchArgs) -> Exit {
    let spool = args.command.first().and_then(|script| Path::new(script).parent());
    let script = args.command.first().map(Path::new);
    let variables = spool.map(|spool| spool.join("bin")).and_then(|links| {
        // Most scripts call none of these commands, and run without them.
        let failed = |error| {
            let links = links.display();
            Standard.note(&format!("wharf: no links to Slurm commands such as srun in {links}: {error}"));
        };
        shims::of_script(&links, script).map_err(failed).ok()
    });
    let variables = variables.unwrap_or_default();
    Exit::Passed(wharf_worker::batch_main(args.input.as_deref(), &variables, &args.command))
}

/// Runs a line on a node of this job's gang and ends with its exit code.
///
/// # Errors
/// If this is not a task of a job, or the host none of its nodes.
pub(super) fn mpi_agent(args: &MpiAgentArgs) -> Result<Exit, CliError> {
    let done = runtime()?.block_on(commands::mpi_agent(Arc::new(Standard), &args.host, &args.line));
    let error = match done {
        Ok(code) | Err(MpiError::Command(CommandError::Reported(code))) => return Ok(Exit::Passed(code)),
        Err(error) => error,
    };
    Err(match error {
        MpiError::Outside => CliError::usage(error.to_string()),
        MpiError::Token { path, source } => CliError::read(&path, source),
        MpiError::UnknownNode { ref nodes, .. } => {
            let hint = format!("its nodes are {nodes}");
            CliError::input(error.to_string()).hint(hint)
        }
        MpiError::Command(CommandError::Refused(refusal)) => {
            refusal.lines(MPI_AGENT).iter().for_each(|line| Standard.note(line));
            return Ok(Exit::Passed(1));
        }
        MpiError::Command(error) => translate(error),
    })
}
