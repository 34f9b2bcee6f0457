//! `wharf install` and `wharf uninstall`: services, users, folders, configuration, manual pages, completions.

mod place;
mod removal;
mod texts;
mod user;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap_complete::Shell;
use nix::unistd::geteuid;
use serde_json::json;
use wharf_document::node::{Node, Value};

use super::cluster::address;
use crate::args::{InstallCommand, InstallWorkerArgs, OutputFormat, PlaceArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;
use crate::pages;
use place::{File, Folder, place};
pub(super) use removal::uninstall;
use texts::{CONFIG, CONFIG_HEADER, HEAD_HOME, Section, USER, WORKER_HOME};

/// Where a service's unit is.
fn unit(role: &str) -> String {
    format!("/etc/systemd/system/wharf-{role}.service")
}

/// Where things go in a file system.
struct Layout {
    root: PathBuf,
    prefix: PathBuf,
}

impl Layout {
    fn new(args: &PlaceArgs) -> Result<Self, CliError> {
        let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || "%\"'\\$".contains(c));
        if !args.prefix.is_absolute() || !args.prefix.to_str().is_some_and(is_plain) {
            return Err(CliError::usage(format!(
                "`--prefix {}` cannot be in a service",
                args.prefix.display()
            ))
            .hint("expected an absolute path without spaces, quotes, `%` and `$`"));
        }
        let root = std::path::absolute(&args.root).map_err(|error| CliError::read(&args.root, error))?;
        if !root.is_dir() {
            return Err(CliError::usage(format!("the directory `{}` does not exist", root.display())));
        }
        Ok(Self { root, prefix: args.prefix.clone() })
    }

    /// Whether it is the running system, and not an image.
    fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the system as it is from here.
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn in_prefix(&self, path: &str) -> PathBuf {
        self.at(self.prefix.join(path))
    }

    /// Where completions go, shell by shell.
    fn completions(&self) -> [(Shell, PathBuf); 3] {
        [
            (Shell::Bash, self.in_prefix("share/bash-completion/completions/wharf")),
            (Shell::Zsh, self.in_prefix("share/zsh/site-functions/_wharf")),
            (Shell::Fish, self.in_prefix("share/fish/vendor_completions.d/wharf.fish")),
        ]
    }

    fn manual(&self) -> PathBuf {
        self.in_prefix("share/man/man1")
    }
}

/// Everything that has to be there for a role.
struct Plan {
    role: &'static str,
    needs_user: bool,
    folders: Vec<Folder>,
    files: Vec<File>,
    /// What a person has to do next.
    next: Vec<String>,
}

/// Installs a role.
///
/// # Errors
/// Where something cannot be put in its place; nothing is then.
pub(super) fn install(command: &InstallCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    let (args, mut plan, layout) = match command {
        InstallCommand::Head(args) => {
            let layout = Layout::new(&args.place)?;
            let (unit, sections) = (texts::head_unit(&layout.prefix), texts::head_sections(args));
            (&args.place, Plan::new("head", &layout, unit, &sections, args.force)?, layout)
        }
        InstallCommand::Worker(args) => {
            check_worker(args)?;
            let layout = Layout::new(&args.place)?;
            let (unit, sections) = (texts::worker_unit(&layout.prefix), texts::worker_sections(args));
            (&args.place, Plan::new("worker", &layout, unit, &sections, args.force)?, layout)
        }
    };
    let rows = plan.rows(&layout);
    if args.dry_run {
        tell(&rows, "would", terminal)?;
        plan.show_texts(terminal)?;
        return Ok(Exit::Ok);
    }
    if plan.needs_user {
        let owner = match user::find(&layout.root) {
            Some(ids) => ids,
            None => user::make(&layout.root)?,
        };
        if geteuid().is_root() {
            plan.folders.iter_mut().for_each(|folder| folder.owner = Some(owner));
        } else {
            terminal.warn(&format!(
                "only root can change the owner of directories to `{USER}`; systemd does so at the service's start"
            ));
        }
    }
    place(&plan.folders, &plan.files)?;
    if layout.is_here() {
        systemctl(&["daemon-reload"], terminal);
    }
    tell(&rows, "done", terminal)?;
    for line in &plan.next {
        terminal.note(line);
    }
    Ok(Exit::Ok)
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

impl Plan {
    fn new(
        role: &'static str,
        layout: &Layout,
        unit_text: String,
        sections: &[Section],
        is_forced: bool,
    ) -> Result<Self, CliError> {
        let internal = |error: std::io::Error| {
            CliError::new(ErrorKind::Internal, "cannot read this program").caused_by(error)
        };
        let program = std::env::current_exe().and_then(std::fs::read).map_err(internal)?;
        let mut files = vec![
            File { path: layout.in_prefix("bin/wharf"), bytes: program, mode: 0o755 },
            File { path: layout.at(unit(role)), bytes: unit_text.into_bytes(), mode: 0o644 },
        ];
        files.extend(config(layout, sections, is_forced)?);
        let pages = pages::all().map_err(internal)?;
        let page = |(name, bytes)| File { path: layout.manual().join(name), bytes, mode: 0o644 };
        files.extend(pages.into_iter().map(page));
        let script = |(shell, path)| File { path, bytes: pages::completions(shell), mode: 0o644 };
        files.extend(layout.completions().map(script));
        let folder = |path: &str, mode| Folder { path: layout.at(path), mode, owner: None };
        let (folders, next) = match role {
            "head" => (vec![folder(HEAD_HOME, 0o700)], vec![]),
            // Tasks of other users pass through these to what is theirs, and can list nothing.
            _ => (
                vec![folder(WORKER_HOME, 0o711), folder(&format!("{WORKER_HOME}/workers"), 0o711)],
                vec![
                    "the worker joins with the token that join_token_file names; on the head:".to_owned(),
                    format!("  wharf token create --home {HEAD_HOME} --role worker --to join.token"),
                ],
            ),
        };
        let mut plan = Self { role, needs_user: role == "head", folders, files, next };
        plan.next.insert(0, format!("check {CONFIG}, then: systemctl enable --now wharf-{role}"));
        Ok(plan)
    }

    /// What is to be done: how, what, with which rights, for whom.
    fn rows(&self, layout: &Layout) -> Vec<[String; 4]> {
        let mut rows = Vec::new();
        let owner = if self.needs_user { USER } else { "root" };
        if self.needs_user {
            let how = if user::find(&layout.root).is_some() { "same" } else { "new" };
            rows.push([how.to_owned(), format!("user {USER}"), String::new(), String::new()]);
        }
        for folder in &self.folders {
            let how = if folder.path.is_dir() { "same" } else { "new" };
            let mode = format!("{:04o}", folder.mode);
            rows.push([how.to_owned(), folder.path.display().to_string(), mode, owner.to_owned()]);
        }
        for file in &self.files {
            let how = match (file.is_there(), file.path.exists()) {
                (true, _) => "same",
                (false, true) => "changed",
                (false, false) => "new",
            };
            let mode = format!("{:04o}", file.mode);
            rows.push([how.to_owned(), file.path.display().to_string(), mode, "root".to_owned()]);
        }
        rows
    }

    /// The files that people look into.
    fn show_texts(&self, terminal: &Terminal) -> Result<(), CliError> {
        let is_read = |file: &&File| {
            file.path.extension().is_some_and(|ending| ending == "service" || ending == "toml")
        };
        if terminal.format != OutputFormat::Table {
            return Ok(());
        }
        for file in self.files.iter().filter(is_read) {
            let text = String::from_utf8_lossy(&file.bytes);
            terminal.data(&format!("\n--- {}\n{}", file.path.display(), text.trim_start()))?;
        }
        let name = self.role;
        terminal.note(&format!("nothing has been done; without `--dry-run`, `wharf install {name}` does it"));
        Ok(())
    }
}

/// The configuration with sections for a role: what is there stays as it is, what is missing is added.
fn config(layout: &Layout, sections: &[Section], is_forced: bool) -> Result<Vec<File>, CliError> {
    let path = layout.at(CONFIG);
    let file = |path: PathBuf, text: String| File { path, bytes: text.into_bytes(), mode: 0o644 };
    let fresh = || {
        let texts = sections.iter().map(|section| section.text.as_str());
        std::iter::once(CONFIG_HEADER).chain(texts).collect::<String>()
    };
    let old = match std::fs::read_to_string(&path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![file(path, fresh())]),
        Err(error) => return Err(CliError::read(&path, error)),
    };
    if is_forced {
        let kept = path.with_extension("toml.old");
        return Ok(if old == fresh() { vec![] } else { vec![file(kept, old), file(path, fresh())] });
    }
    let node = Node::from_toml(&old).map_err(|wrong| {
        let (line, column) = (wrong.place.line, wrong.place.column);
        CliError::input(format!("{}:{line}:{column}: {}", path.display(), wrong.message))
            .hint("correct it, or replace it with `--force`")
    })?;
    let has =
        |name: &str| matches!(&node.value, Value::Map(all) if all.iter().any(|entry| entry.key == name));
    let missing = sections.iter().filter(|section| !has(section.name)).map(|section| section.text.as_str());
    let missing: String = missing.collect();
    if missing.is_empty() {
        return Ok(vec![]);
    }
    Ok(vec![file(path, format!("{}\n{missing}", old.trim_end()))])
}

/// Tells what is or would be done.
fn tell(rows: &[[String; 4]], moment: &str, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let step = |[how, what, mode, owner]: &[String; 4]| json!({ "how": how, "what": what, "mode": mode, "owner": owner });
        let steps: Vec<_> = rows.iter().map(step).collect();
        return terminal.json(&json!({ "schema": 1, "moment": moment, "steps": steps }));
    }
    let mut grid = Grid::new(["how", "what", "mode", "owner"]);
    for row in rows {
        grid.push(row.each_ref().map(String::as_str));
    }
    terminal.grid(&grid)
}

/// Tells systemd, where it is in charge.
fn systemctl(words: &[&str], terminal: &Terminal) {
    if !Path::new("/run/systemd/system").is_dir() {
        return;
    }
    let run = Command::new("systemctl").args(words).output();
    let said = match &run {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    terminal.warn(&format!("systemctl {}: {said}", words.join(" ")));
}
