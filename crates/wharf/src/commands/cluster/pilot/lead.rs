//! `wharf pilot lead`: what a pilot of several nodes runs on the first of them. It starts a worker on each node, and stays until all
//! are gone.
//!
//! Slurm tells every process of an allocation to end at the same moment. `srun` then kills at once what it has started, and with it
//! the time that workers have to leave. So `srun` only starts them: when all are up it is killed, after its child, which is there to
//! end the step in its place. The step continues under Slurm's own daemons, who tell its processes as they tell all others.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wharf_pilot::node::{Mark, NodeSpec, marked};

use crate::args::PilotNodeArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;

/// How often the others are looked after.
const LOOK: Duration = Duration::from_millis(250);
/// As much of what a node said is told where it went wrong.
const SAID_BYTES: usize = 4096;

/// Starts the workers and waits for their end.
pub(super) fn run(args: &PilotNodeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let spec = NodeSpec::read(&args.spec)?;
    let nodes = spec.nodes.len();
    // Slurm tells the workers, too. This process ends when they have.
    interrupt::handle_with(|| ());
    let failed = |error| CliError::input("cannot start the workers with `srun`").caused_by(error);
    let mut srun = start(&args.spec).map_err(failed)?;
    while marked(&args.spec, Mark::Up).len() < nodes {
        if let Some(status) = srun.try_wait().map_err(failed)? {
            return Ok(ended(args, terminal, status.code().unwrap_or(1)));
        }
        std::thread::park_timeout(LOOK);
    }
    if interrupt::handled().is_none() {
        let_go(&srun);
    }
    srun.wait().map_err(failed)?;
    let codes = loop {
        let codes = marked(&args.spec, Mark::Gone);
        if codes.len() == nodes {
            break codes;
        }
        std::thread::park_timeout(LOOK);
    };
    let worst = codes.iter().filter_map(|code| code.trim().parse().ok()).max().unwrap_or(1);
    Ok(ended(args, terminal, worst))
}

fn start(spec: &Path) -> std::io::Result<Child> {
    let mut command = Command::new("srun");
    command.args(["--ntasks-per-node=1", "--kill-on-bad-exit=0", "--export=ALL", "--input=none"]);
    // Written by Slurm's daemons, who outlive `srun`.
    command.arg(format!("--output={}", spec.with_file_name("node-%n.txt").display()));
    command.arg(std::env::current_exe()?).args(["pilot", "node", "--spec"]).arg(spec);
    command.stdin(Stdio::null()).spawn()
}

/// Ends `srun` without the step that it has started.
fn let_go(srun: &Child) {
    let pid = srun.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let all = children.split_whitespace().filter_map(|child| child.parse::<i32>().ok());
    for process in all.chain([pid.cast_signed()]) {
        // One that has just ended does no harm.
        let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
    }
}

/// States what the nodes said, where something went wrong.
fn ended(args: &PilotNodeArgs, terminal: &Terminal, code: i32) -> Exit {
    if code == 0 {
        return Exit::Ok;
    }
    let folder = args.spec.parent().unwrap_or(Path::new("."));
    let mut files: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("node-") {
            let said = fs::read(&path).unwrap_or_default();
            let tail = &said[said.len().saturating_sub(SAID_BYTES)..];
            terminal.warn(&format!("{name}: {}", String::from_utf8_lossy(tail).trim()));
        }
    }
    Exit::Passed(u8::try_from(code).unwrap_or(1))
}
