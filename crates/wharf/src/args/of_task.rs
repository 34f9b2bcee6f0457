//! Commands of tasks, parsed by themselves. They run once for every task, and building the parser of the whole command line takes longer
//! than their work.

use std::ffi::OsString;

use clap::{Args, FromArgMatches as _};

use super::{Cli, Command, GlobalArgs};

/// The command of a task on a command line; `None` for other commands, and for errors, which the full parser reports.
pub(crate) fn of_task(arguments: &[OsString]) -> Option<Cli> {
    let words = arguments.get(1..)?;
    match words.first()?.to_str()? {
        // The second names are those of earlier versions: a worker of one, upgraded on disk, starts this program.
        "supervisor" | "keeper" => alone(words, Command::Supervisor),
        "exec-session" | "beside" => alone(words, Command::ExecSession),
        "batch" => alone(words, Command::Batch),
        "step" => alone(words, Command::Step),
        "pace" => alone(words, Command::Pace),
        _ => None,
    }
}

fn alone<T: Args>(words: &[OsString], command: fn(T) -> Command) -> Option<Cli> {
    let parser = GlobalArgs::augment_args(T::augment_args(clap::Command::new("wharf")));
    let matches = parser.try_get_matches_from(words).ok()?;
    let global = GlobalArgs::from_arg_matches(&matches).ok()?;
    Some(Cli { global, command: command(T::from_arg_matches(&matches).ok()?) })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn commands_of_tasks_mean_what_they_mean_in_the_whole() {
        for line in [
            "supervisor --state-dir /s",
            "keeper --state-dir /s",
            "supervisor --state-dir /s --stage",
            "exec-session --task 7 --start-time 9 --uid 1 --gid 2 --cgroup /c --terminal -- ls -l",
            "beside --task 7 --start-time 9 --uid 1 --gid 2 -- ls",
            "batch --input /in -- script --a b",
            "batch",
            "step 3 --quiet",
            "pace 5",
        ] {
            let words: Vec<OsString> =
                std::iter::once("wharf").chain(line.split(' ')).map(OsString::from).collect();
            let whole = Cli::try_parse_from(&words).unwrap();
            let alone = of_task(&words).unwrap();
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"), "{line}");
        }
        for line in ["step --help", "supervisor", "batch --nonsense", "jobs", ""] {
            let words: Vec<OsString> =
                std::iter::once("wharf").chain(line.split(' ')).map(OsString::from).collect();
            assert!(of_task(&words).is_none(), "{line}");
        }
    }
}
