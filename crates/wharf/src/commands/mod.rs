//! What each command does. Low arguments are resolved here: names looked up, files read.

mod demo;
mod help;
mod policies;
mod presets;
mod run;
mod sim;
mod sweep;
mod trace;

use clap::CommandFactory as _;

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Does what the arguments say.
///
/// # Errors
/// Whatever the command fails with.
pub(crate) fn execute(cli: &Cli, terminal: &Terminal) -> Result<Exit, CliError> {
    match &cli.command {
        Command::Sim(args) => sim::execute(args, terminal),
        Command::Sweep(args) => sweep::execute(args, terminal),
        Command::Trace(command) => trace::execute(command, terminal),
        Command::Policies => policies::list(terminal),
        Command::Policy(command) => policies::execute(command, terminal),
        Command::Presets(args) => presets::execute(args, terminal),
        Command::Demo(args) => demo::execute(args, terminal),
        Command::Run(args) => run::execute(args, terminal),
        Command::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "wharf", &mut script);
            terminal.data(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Ok)
        }
        Command::Help(args) => help::execute(&args.topic, terminal),
    }
}
