//! What people do on the nodes of a launched cluster: a shell, commands, files, a look.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use wharf_launch::config::{Mount, NodeConfig, Role};
use wharf_launch::remote::{self, Errand, ErrandPlace, Files, Line, Seen, Window};
use wharf_launch::state::Record;
use wharf_launch::{Launcher, NodeError};

use super::{folder, interruptible, prepared, read, tell_failure, unknown, unusable};
use crate::args::{
    AddressArgs, AttachArgs, ClusterCommand, ClusterExecArgs, ClusterLogsArgs, ClusterSubmitArgs, DaemonArg,
    LaunchedArgs, OutputFormat, RsyncDownArgs, RsyncUpArgs, RunEnvArg, WindowArgs,
};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// How many nodes files are copied to or from at once.
const COPIES: usize = 16;

/// Does what the arguments say.
pub(in crate::commands) fn cluster(command: &ClusterCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        ClusterCommand::Exec(args) => exec(args, terminal),
        ClusterCommand::Submit(args) => submit(args, terminal),
        ClusterCommand::Status(args) => status(&args.launched, terminal),
        ClusterCommand::Logs(args) => logs(args, terminal),
        ClusterCommand::Bake(args) => super::bake::bake(args, terminal),
        ClusterCommand::Render(args) => super::bake::render(args, terminal),
    }
}

/// A cluster that is up, as far as is known.
fn launched(args: &LaunchedArgs, terminal: &Terminal) -> Result<Launcher, CliError> {
    let cluster = read(&args.file, terminal)?;
    let folder = folder(args, &cluster)?;
    if folder.load().map_err(|error| unusable(&error))?.is_empty() {
        let file = args.file.display();
        return Err(
            CliError::input(format!("{} is not up", cluster.name)).hint(format!("run `wharf up {file}`"))
        );
    }
    prepared(cluster, folder, terminal)
}

/// The node of a name; the head where none is named.
fn node<'a>(launcher: &'a Launcher, name: Option<&str>) -> Result<&'a NodeConfig, CliError> {
    let nodes = &launcher.cluster.nodes;
    let is_it = |node: &&NodeConfig| match name {
        Some(name) => node.name == name || node.address == name,
        None => node.role == Role::Head,
    };
    nodes.iter().find(is_it).ok_or_else(|| {
        let name = name.unwrap_or("head");
        CliError::usage(format!("there is no node `{name}`"))
            .hint_nearest(name, nodes.iter().map(|node| node.name.as_str()))
            .hint("list them with `wharf cluster status FILE`")
    })
}

fn window(args: &WindowArgs) -> Option<Window> {
    match (args.tmux, args.screen) {
        (true, _) => Some(Window::Tmux),
        (_, true) => Some(Window::Screen),
        _ => None,
    }
}

/// Becomes a program, so that terminal, signals and exit code are its own.
fn become_program(argv: &[std::ffi::OsString]) -> CliError {
    let Some((program, args)) = argv.split_first() else {
        return CliError::new(ErrorKind::Internal, "no program given");
    };
    let error = Command::new(program).args(args).exec();
    CliError::input(format!("cannot run `{}`", program.to_string_lossy())).caused_by(error)
}

/// Opens a shell on a node.
pub(in crate::commands) fn attach(args: &AttachArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if args.new && window(&args.window).is_none() {
        return Err(CliError::usage("`--new` requires a window").hint("add `--tmux` or `--screen`"));
    }
    let launcher = launched(&args.launched, terminal)?;
    let node = node(&launcher, args.node.as_deref())?;
    let line = remote::attach_line(window(&args.window), args.new).to_owned();
    let errand = Errand::new(line, ErrandPlace::Auto);
    Err(become_program(&errand.attached(&launcher, node, &args.port_forward)))
}

fn exec(args: &ClusterExecArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    let place = match args.run_env {
        RunEnvArg::Auto => ErrandPlace::Auto,
        RunEnvArg::Host => ErrandPlace::Machine,
        RunEnvArg::Docker => ErrandPlace::Container,
    };
    if place == ErrandPlace::Container && launcher.cluster.nodes.iter().all(|node| node.container.is_none()) {
        return Err(CliError::usage("the nodes have no containers").hint("omit `--run-env docker`"));
    }
    let line = remote::command_line(&args.command);
    if !args.all && !args.workers {
        let node = node(&launcher, args.node.as_deref())?.clone();
        return one(launcher, node, line, window(&args.window), place, &args.port_forward);
    }
    let line = windowed(window(&args.window), line);
    let is_meant = |node: &&NodeConfig| args.all || node.role == Role::Worker;
    let nodes: Vec<NodeConfig> = launcher.cluster.nodes.iter().filter(is_meant).cloned().collect();
    many(launcher, nodes, Errand::new(line, place), terminal)
}

fn windowed(window: Option<Window>, line: String) -> String {
    window.map_or(line.clone(), |window| remote::detached(window, &line))
}

/// Runs a line on one node. A person's terminal is the line's own, so that Ctrl-C is as well; otherwise an interruption ends the
/// line on the node, too.
fn one(
    launcher: Launcher,
    node: NodeConfig,
    line: String,
    window: Option<Window>,
    place: ErrandPlace,
    ports: &[u16],
) -> Result<Exit, CliError> {
    let errand = Errand::new(windowed(window, line), place);
    let has_person = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if has_person || !ports.is_empty() {
        return Err(become_program(&errand.attached(&launcher, &node, ports)));
    }
    let launcher = Arc::new(launcher);
    let Some(ended) = interruptible(remote::run_here(&launcher, &node, &errand))? else {
        return interrupted(launcher, vec![node], errand);
    };
    let code = ended.map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
    Ok(if code == 0 { Exit::Ok } else { Exit::Passed(u8::try_from(code).unwrap_or(1)) })
}

/// Ends what was interrupted where it runs.
fn interrupted(launcher: Arc<Launcher>, nodes: Vec<NodeConfig>, errand: Errand) -> Result<Exit, CliError> {
    let exit = interrupt::handled().unwrap_or(Exit::Ok);
    interruptible(remote::end(launcher, nodes, errand))?;
    Ok(exit)
}

/// Runs an errand on nodes at once.
fn many(
    launcher: Launcher,
    nodes: Vec<NodeConfig>,
    errand: Errand,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let said = terminal.clone();
    let told = Arc::new(move |Line { node, is_error, text }: Line| {
        let line = format!("{node}: {text}");
        if is_error {
            said.note(&line);
        } else {
            // Without a reader, the commands continue and their exit codes count.
            let _ = said.data(&(line + "\n"));
        }
    });
    let launcher = Arc::new(launcher);
    let work = remote::run_on(launcher.clone(), nodes.clone(), errand.clone(), told);
    let Some(ended) = interruptible(work)? else {
        return interrupted(launcher, nodes, errand);
    };
    let mut exit = Exit::Ok;
    for (node, ended) in ended {
        let code = ended.map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
        if code != 0 {
            terminal.warn(&format!("{node}: exited with {code}"));
        }
        if exit == Exit::Ok && code != 0 {
            exit = Exit::Passed(u8::try_from(code).unwrap_or(1));
        }
    }
    Ok(exit)
}

/// Copies a script to the head and runs it there.
fn submit(args: &ClusterSubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    let name = match args.script.file_name().and_then(|name| name.to_str()) {
        Some(name) if args.script.is_file() => name,
        _ => return Err(CliError::read(&args.script, std::io::ErrorKind::NotFound.into())),
    };
    let head = node(&launcher, None)?.clone();
    let mount = remote::mount(args.script.clone(), name);
    let exit = copy(launcher.clone(), vec![(head.clone(), Files::Up(vec![mount]))], terminal)?;
    if exit != Exit::Ok {
        return Ok(exit);
    }
    let line = remote::script_line(name, &args.arguments);
    one(launcher, head, line, window(&args.window), ErrandPlace::Auto, &args.port_forward)
}

/// Copies files to nodes.
pub(in crate::commands) fn rsync_up(args: &RsyncUpArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    let mounts: Vec<Mount> = match (&args.source, &args.target) {
        (Some(source), Some(target)) if source.exists() => vec![remote::mount(source.clone(), target)],
        (Some(source), _) => return Err(CliError::read(source, std::io::ErrorKind::NotFound.into())),
        _ => launcher.cluster.mounts.clone(),
    };
    let of = |node: &NodeConfig| (node.clone(), Files::Up(mounts.clone()));
    let files = copied_nodes(&launcher, args.all)?.iter().map(of).collect();
    copy(launcher, files, terminal)
}

/// The nodes that files are copied to or from: all, or the head.
fn copied_nodes(launcher: &Launcher, all: bool) -> Result<&[NodeConfig], CliError> {
    if all { Ok(&launcher.cluster.nodes) } else { node(launcher, None).map(std::slice::from_ref) }
}

fn copy(launcher: Launcher, files: Vec<(NodeConfig, Files)>, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = Arc::new(launcher);
    let Some(outcomes) = interruptible(remote::copy(launcher.clone(), files, COPIES))? else {
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    Ok(concluded(&launcher, outcomes, terminal))
}

/// Copies files from nodes.
pub(in crate::commands) fn rsync_down(args: &RsyncDownArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    let from = remote::mount(PathBuf::new(), &args.source).remote;
    let mut files = Vec::new();
    for node in copied_nodes(&launcher, args.all)? {
        let to = if args.all { args.target.join(&node.name).join("") } else { args.target.clone() };
        if args.all {
            std::fs::create_dir_all(&to).map_err(|error| CliError::write(&to, error))?;
        }
        files.push((node.clone(), Files::Down { from: from.clone(), to }));
    }
    copy(launcher, files, terminal)
}

fn concluded(
    launcher: &Launcher,
    outcomes: Vec<(String, Result<(), NodeError>)>,
    terminal: &Terminal,
) -> Exit {
    let mut exit = Exit::Ok;
    for (node, outcome) in outcomes {
        if let Err(error) = outcome {
            tell_failure(launcher, &node, &error, terminal);
            exit = Exit::NodesFailed;
        }
    }
    exit
}

/// Prints where the head is.
pub(in crate::commands) fn get_head_ip(args: &AddressArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    addresses(args, Role::Head, terminal)
}

/// Prints where the workers are.
pub(in crate::commands) fn get_worker_ips(args: &AddressArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    addresses(args, Role::Worker, terminal)
}

fn addresses(args: &AddressArgs, role: Role, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    for node in launcher.cluster.nodes.iter().filter(|node| node.role == role) {
        terminal.data(&format!(
            "{}\n",
            if launcher.provider.channel(node).is_here() { &node.inner_address } else { &node.address }
        ))?;
    }
    Ok(Exit::Ok)
}

fn status(args: &LaunchedArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = Arc::new(launched(args, terminal)?);
    let Some(seen) = interruptible(remote::look(launcher))? else {
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let seen = seen.map_err(|error| unknown(&error))?;
    if terminal.format == OutputFormat::Json {
        let nodes: Vec<_> = seen.iter().map(as_json).collect();
        terminal.json(&json!({"schema": 1, "nodes": nodes}))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["node", "address", "role", "done", "runs", "trouble"]);
    for one in &seen {
        let record = &one.record;
        let runs = one.running.as_ref().map(|running| running.join(",")).unwrap_or_default();
        let trouble = trouble(one).unwrap_or_default();
        let trouble = trouble.lines().next().unwrap_or_default().to_owned();
        grid.push([
            &record.node.name,
            &record.node.address,
            role(record),
            &done(record).join(","),
            &runs,
            &trouble,
        ]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

fn role(record: &Record) -> &'static str {
    match record.node.role {
        Role::Head => "head",
        Role::Worker => "worker",
    }
}

fn done(record: &Record) -> Vec<String> {
    record.done.keys().map(ToString::to_string).collect()
}

fn trouble(seen: &Seen) -> Option<String> {
    seen.running.as_ref().err().map(NodeError::told).or_else(|| seen.record.failure.clone())
}

fn as_json(seen: &Seen) -> serde_json::Value {
    let record = &seen.record;
    json!({
        "node": record.node.name,
        "address": record.node.address,
        "role": role(record),
        "done": done(record),
        "unfinished": record.dirty.map(|phase| phase.to_string()),
        "reached": seen.running.is_ok(),
        "runs": seen.running.as_ref().ok(),
        "trouble": trouble(seen),
    })
}

fn logs(args: &ClusterLogsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let launcher = launched(&args.launched, terminal)?;
    let node = node(&launcher, args.node.as_deref())?;
    let Some(daemon) = args.daemon else {
        let path = launcher.folder.log(&node.name);
        let bytes = std::fs::read(&path).map_err(|error| CliError::read(&path, error))?;
        terminal.raw(&String::from_utf8_lossy(&bytes))?;
        return Ok(Exit::Ok);
    };
    let daemon = match daemon {
        DaemonArg::Head => "head",
        DaemonArg::Worker => "worker",
    };
    match interruptible(remote::daemon_log(&launcher, node, daemon))? {
        None => Ok(interrupt::handled().unwrap_or(Exit::Ok)),
        Some(Ok(text)) => {
            terminal.raw(&text)?;
            Ok(Exit::Ok)
        }
        Some(Err(error)) => {
            tell_failure(&launcher, &node.name, &error, terminal);
            Ok(Exit::NodesFailed)
        }
    }
}
