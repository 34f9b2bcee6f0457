//! The command line of Wharf: arguments in, the other crates at work, tables, JSON and files out.
//!
//! `args` holds what can be typed, `commands` what it means, `output` how results are said. Nothing here schedules or
//! simulates. This is a library only so that the binary, the tests and the generator of the reference share it.

pub mod args;
mod carried;
mod commands;
mod config;
pub mod error;
pub mod exit;
mod input;
mod interrupt;
mod moment;
mod output;
mod pages;
pub mod reference;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use crate::args::ColorChoice;
use crate::config::{Parsed, Refusal};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::style::Styles;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    interrupt::install_panic_hook();
    let arguments = commands::slurm::arguments(std::env::args_os().collect());
    let exit = match config::parse(&arguments) {
        Ok(parsed) => run(&parsed),
        Err(Refusal::Arguments(error)) => refuse(&error, &arguments),
        Err(Refusal::File(errors)) => {
            let styles = Styles::for_stderr(color_choice(&arguments));
            errors.iter().fold(Exit::Usage, |_, error| tell(error, &styles))
        }
    };
    exit.into()
}

fn run(parsed: &Parsed) -> Exit {
    let cli = &parsed.cli;
    let terminal = Terminal::new(&cli.global);
    config::hand_to_clients(parsed);
    config::tell(parsed, &terminal);
    // The supervisor of a worker deals with signals itself, and must not have threads; what becomes another program, neither.
    // A step ends with its trainer, whose log is not the place to state this.
    let is_apart = matches!(
        cli.command,
        args::Command::Supervisor(_)
            | args::Command::ExecSession(_)
            | args::Command::Batch(_)
            | args::Command::MpiAgent(_)
            | args::Command::Pace(_)
            | args::Command::RayNode(_)
            | args::Command::Step(_)
    );
    let begun = if is_apart { Ok(()) } else { interrupt::install().and_then(|()| log_events(&cli.command)) };
    let done = begun.and_then(|()| commands::execute(cli, &terminal));
    interrupt::yield_to_interruption();
    match done {
        Ok(exit) => exit,
        Err(error) => tell(&error, terminal.styles()),
    }
}

/// Writes diagnostic events where they are requested, in the format of the command's log.
fn log_events(command: &args::Command) -> Result<(), CliError> {
    output::events::install(match command {
        args::Command::Head(args) => args.log_format,
        args::Command::Worker(args) => args.log_format,
        _ => args::LogFormat::Text,
    })
}

/// Says why the command failed, if it did: a reader of standard output that went away is no failure.
fn tell(error: &CliError, styles: &Styles) -> Exit {
    let exit = error.kind().exit();
    if exit != Exit::Ok {
        // Standard error may be closed.
        let _ = std::io::stderr().write_all(error.render(styles).as_bytes());
    }
    exit
}

/// Prints what the parser has to say: help and versions are data, the rest is an error.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let text = error.render();
    if error.use_stderr() {
        let styles = Styles::for_stderr(color_choice(arguments));
        let text = if styles.is_colored() { text.ansi().to_string() } else { text.to_string() };
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Exit::Usage;
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.to_string().as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Ok,
        Err(error) => tell(&CliError::stdout(error), &Styles::for_stderr(color_choice(arguments))),
    }
}

/// What `--color` says on a command line that could not be parsed.
fn color_choice(arguments: &[OsString]) -> ColorChoice {
    let texts: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let given = |choice: &str| {
        texts.contains(&format!("--color={choice}").as_str())
            || texts.windows(2).any(|pair| pair == ["--color", choice])
    };
    if given("never") {
        ColorChoice::Never
    } else if given("always") {
        ColorChoice::Always
    } else {
        ColorChoice::Auto
    }
}
