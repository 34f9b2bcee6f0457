//! `wharf image`: images of containers, by the tools that the machine has.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;
use wharf_image::{
    self as image, Bootstrap, Build, Done, Engine, ImageError, Index, Kind, Note, Place, Source, ToolError,
};

use crate::args::{
    EngineArg, ImageBaseArgs, ImageBuildArgs, ImageCommand, ImageConvertArgs, ImageFromEnvArgs,
    ImageLoginArgs, ImagePruneArgs, OutputFormat,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Does what the arguments say.
///
/// # Errors
/// A tool is missing or fails, or a file is not accessible.
pub(super) fn execute(command: &ImageCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    interrupt::handle_with(image::interrupt);
    let done = carry_out(command, terminal);
    match interrupt::handled() {
        // What it made fail is not worth telling.
        Some(signal) => Ok(signal),
        None => done.map(|()| Exit::Ok),
    }
}

fn carry_out(command: &ImageCommand, terminal: &Terminal) -> Result<(), CliError> {
    match command {
        ImageCommand::Build(args) => build(args, terminal)?,
        ImageCommand::Base(args) => base(args, terminal)?,
        ImageCommand::FromEnv(args) => from_env(args, terminal)?,
        ImageCommand::Convert(args) => convert(args, terminal)?,
        ImageCommand::Commit(args) => {
            let note = Note { author: args.author.clone(), message: args.message.clone() };
            image::commit(engine(args.engine)?, &args.container, &args.name, &note)
                .map_err(|error| told(&error))?;
            terminal.note(&format!("{} is `{}` as it was now", args.name, args.container));
        }
        ImageCommand::Login(args) => login(args, terminal)?,
        ImageCommand::Push(args) => {
            image::push(engine(args.engine)?, &logins()?, &args.name).map_err(|error| told(&error))?;
        }
        ImageCommand::Pull(args) => {
            image::pull(engine(args.engine)?, &logins()?, &args.name).map_err(|error| told(&error))?;
        }
        ImageCommand::List(_) => list(terminal)?,
        ImageCommand::Prune(args) => prune(args, terminal)?,
    }
    Ok(())
}

fn build(args: &ImageBuildArgs, terminal: &Terminal) -> Result<(), CliError> {
    let engine = engine(args.engine)?;
    let wanted = Build {
        engine,
        name: args.tag.clone(),
        context: args.context.clone(),
        file: args.file.clone().unwrap_or_else(|| args.context.join("Dockerfile")),
        args: args.args.clone(),
        base: args.base.clone(),
        network: args.network.clone(),
        is_forced: args.force,
    };
    let mut index = index()?;
    let done = image::build(&mut index, &wanted).map_err(|error| told(&error))?;
    let built = Place::Named(engine, args.tag.clone());
    tell(terminal, &built, done);
    match &args.to {
        None => Ok(()),
        Some(to) => {
            let done = image::convert(&mut index, &built, to, args.force).map_err(|error| told(&error))?;
            tell(terminal, to, done);
            Ok(())
        }
    }
}

fn base(args: &ImageBaseArgs, terminal: &Terminal) -> Result<(), CliError> {
    let wanted = Bootstrap {
        suite: args.suite.clone(),
        mirror: args.mirror.clone(),
        include: args.include.clone(),
        to: args.to.clone(),
        is_forced: args.force,
    };
    let done = image::bootstrap(&mut index()?, &wanted).map_err(|error| told(&error))?;
    tell(terminal, &args.to, done);
    Ok(())
}

fn from_env(args: &ImageFromEnvArgs, terminal: &Terminal) -> Result<(), CliError> {
    let named = args.python.clone().map(Kind::Pip).or_else(|| args.conda.clone().map(Kind::Conda));
    let kind = named.or_else(image::found).ok_or_else(|| {
        CliError::input("no Python environment is active, and there is no `python3` in PATH")
            .hint("activate one, or set `--python` or `--conda`")
    })?;
    let exported = image::export(kind, &args.folder, args.force).map_err(|error| told(&error))?;
    for package in &exported.left_out {
        terminal
            .warn(&format!("`{package}` comes from a folder of this machine: the image will not have it"));
    }
    for file in &exported.files {
        terminal.note(&format!("wrote {}", file.display()));
    }
    terminal.note(&format!("next: wharf image build {} --tag NAME", args.folder.display()));
    Ok(())
}

fn convert(args: &ImageConvertArgs, terminal: &Terminal) -> Result<(), CliError> {
    let from = match &args.from {
        Source::Place(place) => place.clone(),
        Source::Registry(name) => {
            let engine = engine(None)?;
            image::pull(engine, &logins()?, name).map_err(|error| told(&error))?;
            Place::Named(engine, name.clone())
        }
    };
    let done = image::convert(&mut index()?, &from, &args.to, args.force).map_err(|error| told(&error))?;
    tell(terminal, &args.to, done);
    Ok(())
}

fn login(args: &ImageLoginArgs, terminal: &Terminal) -> Result<(), CliError> {
    let password = match &args.password_file {
        Some(path) => std::fs::read(path)
            .map_err(|error| CliError::input(format!("cannot read `{}`: {error}", path.display())))?,
        None => {
            let mut password = Vec::new();
            std::io::stdin()
                .read_to_end(&mut password)
                .map_err(|error| CliError::input(format!("cannot read the password: {error}")))?;
            password
        }
    };
    image::login(engine(args.engine)?, &logins()?, &args.registry, &args.user, &password)
        .map_err(|error| told(&error))?;
    terminal.note(&format!("{} is logged in at {}", args.user, args.registry));
    Ok(())
}

fn list(terminal: &Terminal) -> Result<(), CliError> {
    let images = index()?.list();
    if terminal.format == OutputFormat::Json {
        let rows: Vec<_> = images
            .iter()
            .map(|(place, entry)| json!({"image": place, "made_s": entry.made_s, "source": entry.source}))
            .collect();
        return terminal.json(&json!({"schema": 1, "images": rows}));
    }
    let mut grid = Grid::new(["image", "made", "from"]);
    for (place, entry) in &images {
        let source = entry.source.strip_prefix("sha256:").unwrap_or(&entry.source);
        grid.push([place, &moment(entry.made_s), &source[..source.len().min(12)]]);
    }
    terminal.grid(&grid)
}

fn prune(args: &ImagePruneArgs, terminal: &Terminal) -> Result<(), CliError> {
    let before_s = Timestamp::now().as_second().saturating_sub(args.older_than.0 as i64);
    let pruned = index()?.prune(before_s, args.dry_run).map_err(|error| told(&error))?;
    let word = if args.dry_run { "would remove" } else { "removed" };
    for image in &pruned {
        terminal.note(&format!("{word} {}, made {}", image.place, moment(image.made_s)));
    }
    if pruned.is_empty() {
        terminal.note("no image is older");
    }
    Ok(())
}

fn moment(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |moment| moment.strftime("%Y-%m-%d %H:%M").to_string())
}

fn tell(terminal: &Terminal, place: &Place, done: Done) {
    terminal.note(&match done {
        Done::Made => format!("made {place}"),
        Done::UpToDate => format!("{place} is up to date"),
    });
}

fn engine(named: Option<EngineArg>) -> Result<Engine, CliError> {
    named.map(Engine::from).or_else(Engine::any).ok_or_else(|| {
        CliError::input("none of podman, docker and ch-image is in PATH").hint("install one of them")
    })
}

fn index() -> Result<Index, CliError> {
    Index::open(&folder("XDG_STATE_HOME", ".local/state")?.join("images.json")).map_err(|error| told(&error))
}

/// Where logins at registries are kept, for their owner alone.
fn logins() -> Result<PathBuf, CliError> {
    image::logins().ok_or_else(|| homeless("XDG_CONFIG_HOME"))
}

fn folder(variable: &str, usual: &str) -> Result<PathBuf, CliError> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = || std::env::var_os("HOME").map(|home| Path::new(&home).join(usual));
    let base = named.or_else(own).ok_or_else(|| homeless(variable))?;
    Ok(base.join("wharf"))
}

fn homeless(variable: &str) -> CliError {
    CliError::usage("HOME is not set, which stores the image index")
        .hint(format!("set {variable} to a directory"))
}

fn told(error: &ImageError) -> CliError {
    match error {
        ImageError::Tool(ToolError::Missing { program, package }) => {
            CliError::input(format!("`{program}` is required but not in PATH"))
                .hint(format!("install {package}"))
        }
        _ => CliError::input(error.to_string()),
    }
}
