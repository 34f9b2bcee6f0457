//! What an installation consists of, and carrying it out.

use std::path::PathBuf;

use nix::unistd::geteuid;
use serde::Serialize;
use wharf_document::node::{Node, Value};

use crate::layout::unit;
use crate::place::{File, Folder, place};
use crate::texts::{self, CONFIG, CONFIG_HEADER, HEAD_HOME, Section, USER, WORKER_HOME};
use crate::{HeadSettings, InstallError, Layout, Role, Shell, WorkerSettings, systemctl, user};

/// What an installation copies: it follows from the program and its command line.
pub struct Payload {
    /// The program itself.
    pub program: Vec<u8>,
    /// Manual pages with the names of their files.
    pub pages: Vec<(String, Vec<u8>)>,
    /// Makes the completions of a shell.
    pub completions: fn(Shell) -> Vec<u8>,
}

/// Whether steps are planned or carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// They would be carried out.
    Would,
    /// They have been carried out.
    Done,
}

/// One step of an installation or a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `new`, `changed`, `same` or `gone`.
    pub how: &'static str,
    /// The user, directory or file.
    pub what: String,
    /// Its permissions; empty if it has none.
    pub mode: String,
    /// Its owner; empty if it has none.
    pub owner: String,
}

/// Everything that has to be there for a role.
pub struct Plan {
    role: Role,
    folders: Vec<Folder>,
    files: Vec<File>,
    next: Vec<String>,
}

impl Plan {
    /// The installation of a head.
    ///
    /// # Errors
    /// [`InstallError`] if the configuration cannot be read.
    pub fn head(
        layout: &Layout,
        settings: &HeadSettings,
        payload: Payload,
        is_forced: bool,
    ) -> Result<Self, InstallError> {
        let sections = texts::head_sections(settings);
        Self::new(Role::Head, layout, texts::head_unit(&layout.prefix), &sections, payload, is_forced)
    }

    /// The installation of a worker.
    ///
    /// # Errors
    /// [`InstallError`] if the configuration cannot be read.
    pub fn worker(
        layout: &Layout,
        settings: &WorkerSettings,
        payload: Payload,
        is_forced: bool,
    ) -> Result<Self, InstallError> {
        let sections = texts::worker_sections(settings);
        Self::new(Role::Worker, layout, texts::worker_unit(&layout.prefix), &sections, payload, is_forced)
    }

    /// What a person has to do afterwards, a line each.
    pub fn next(&self) -> &[String] {
        &self.next
    }

    /// Carries it out, and returns warnings.
    ///
    /// # Errors
    /// [`InstallError`] if something cannot be put in its place; nothing is then.
    pub fn apply(&mut self, layout: &Layout) -> Result<Vec<String>, InstallError> {
        let mut warnings = Vec::new();
        if self.needs_user() {
            let owner = match user::find(&layout.root) {
                Some(ids) => ids,
                None => user::make(&layout.root)?,
            };
            if geteuid().is_root() {
                self.folders.iter_mut().for_each(|folder| folder.owner = Some(owner));
            } else {
                warnings.push(format!(
                    "only root can change the owner of directories to `{USER}`; systemd does so at the service's start"
                ));
            }
        }
        place(&self.folders, &self.files)?;
        if layout.is_here() {
            warnings.extend(systemctl(&["daemon-reload"]));
        }
        Ok(warnings)
    }

    /// The services and configurations that it writes.
    pub fn texts(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let is_read = |file: &&File| {
            file.path.extension().is_some_and(|ending| ending == "service" || ending == "toml")
        };
        let text = |file: &File| (file.path.clone(), String::from_utf8_lossy(&file.bytes).into_owned());
        self.files.iter().filter(is_read).map(text)
    }

    fn needs_user(&self) -> bool {
        self.role == Role::Head
    }

    fn new(
        role: Role,
        layout: &Layout,
        unit_text: String,
        sections: &[Section],
        payload: Payload,
        is_forced: bool,
    ) -> Result<Self, InstallError> {
        let Payload { program, pages, completions } = payload;
        let mut files = vec![
            File { path: layout.in_prefix("bin/wharf"), bytes: program, mode: 0o755 },
            File { path: layout.at(unit(role)), bytes: unit_text.into_bytes(), mode: 0o644 },
        ];
        files.extend(config(layout, sections, is_forced)?);
        let page = |(name, bytes)| File { path: layout.manual().join(name), bytes, mode: 0o644 };
        files.extend(pages.into_iter().map(page));
        let script = |(shell, path)| File { path, bytes: completions(shell), mode: 0o644 };
        files.extend(layout.completions().map(script));
        let folder = |path: &str, mode| Folder { path: layout.at(path), mode, owner: None };
        let (folders, next) = match role {
            Role::Head => (vec![folder(HEAD_HOME, 0o700)], vec![]),
            // Tasks of other users pass through these to what is theirs, and can list nothing.
            Role::Worker => (
                vec![folder(WORKER_HOME, 0o711), folder(&format!("{WORKER_HOME}/workers"), 0o711)],
                vec![
                    "the worker joins with the token that join_token_file names; on the head:".to_owned(),
                    format!("  wharf token create --home {HEAD_HOME} --role worker --to join.token"),
                ],
            ),
        };
        let mut plan = Self { role, folders, files, next };
        let name = role.name();
        plan.next.insert(0, format!("check {CONFIG}, then: systemctl enable --now wharf-{name}"));
        Ok(plan)
    }

    /// What is to be done.
    pub fn steps(&self, layout: &Layout) -> Vec<Step> {
        let mut steps = Vec::new();
        let owner = if self.needs_user() { USER } else { "root" };
        if self.needs_user() {
            let how = if user::find(&layout.root).is_some() { "same" } else { "new" };
            let what = format!("user {USER}");
            steps.push(Step { how, what, mode: String::new(), owner: String::new() });
        }
        for folder in &self.folders {
            let how = if folder.path.is_dir() { "same" } else { "new" };
            let (what, mode) = (folder.path.display().to_string(), format!("{:04o}", folder.mode));
            steps.push(Step { how, what, mode, owner: owner.to_owned() });
        }
        for file in &self.files {
            let how = match (file.is_there(), file.path.exists()) {
                (true, _) => "same",
                (false, true) => "changed",
                (false, false) => "new",
            };
            let (what, mode) = (file.path.display().to_string(), format!("{:04o}", file.mode));
            steps.push(Step { how, what, mode, owner: "root".to_owned() });
        }
        steps
    }
}

/// The configuration with sections for a role: what is there stays as it is, what is missing is added.
fn config(layout: &Layout, sections: &[Section], is_forced: bool) -> Result<Vec<File>, InstallError> {
    let path = layout.at(CONFIG);
    let file = |path: PathBuf, text: String| File { path, bytes: text.into_bytes(), mode: 0o644 };
    let fresh = || {
        let texts = sections.iter().map(|section| section.text.as_str());
        std::iter::once(CONFIG_HEADER).chain(texts).collect::<String>()
    };
    let old = match std::fs::read_to_string(&path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![file(path, fresh())]),
        Err(error) => return Err(InstallError::read(&path, error)),
    };
    if is_forced {
        let kept = path.with_extension("toml.old");
        return Ok(if old == fresh() { vec![] } else { vec![file(kept, old), file(path, fresh())] });
    }
    let node = Node::from_toml(&old).map_err(|wrong| InstallError::Config {
        path: path.clone(),
        line: wrong.place.line,
        column: wrong.place.column,
        message: wrong.message,
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
