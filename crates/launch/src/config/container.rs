//! `docker`: the container that everything on a node happens in.

use serde::{Deserialize, Serialize};
use wharf_document::decode::Problem;
use wharf_document::node::{Node as Tree, Value};

use super::Findings;
use super::nodes::{Role, word};
use super::section::Section;
use super::value_error::ValueError;

/// A node's container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// What it is made of.
    pub image: String,
    /// What it is called on its machine.
    pub name: String,
    /// Whether the image is asked for again whenever the container is made; otherwise only where it is not there.
    pub pulls: bool,
    /// More for the engine's `run`, as words of shell.
    pub options: Vec<String>,
    /// Whether docker's runtime for GPUs is used where there is one.
    pub finds_runtime: bool,
    /// Whether its shared memory gets a part of the machine's.
    pub sizes_shm: bool,
    /// Whether podman makes it, even where there is docker.
    pub is_podman: bool,
}

impl Container {
    /// Whether an option is among those for `run`.
    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|words| words.contains(option))
    }
}

const KEYS: [&str; 11] = [
    "image",
    "head_image",
    "worker_image",
    "container_name",
    "pull_before_run",
    "run_options",
    "head_run_options",
    "worker_run_options",
    "disable_automatic_runtime_detection",
    "disable_shm_size_detection",
    "use_podman",
];

/// Keys of a node type's `docker`, which lie over the section's for its workers.
const TYPE_KEYS: [&str; 5] = [
    "worker_image",
    "worker_run_options",
    "pull_before_run",
    "disable_automatic_runtime_detection",
    "disable_shm_size_detection",
];

/// The section as it is written: one container for the head, one for workers.
pub(super) struct Containers {
    head: Container,
    worker: Container,
    /// Options for both.
    common: Vec<String>,
}

impl Containers {
    /// Reads it; `None` where nothing is to be in containers.
    pub(super) fn read(top: &Section<'_>, findings: &mut Findings) -> Option<Self> {
        let node = top.get("docker")?;
        let section = Section::new(node, "docker", &KEYS, findings);
        // In Ray's files an empty text means that there are no containers.
        let is_blank =
            |key: &str| section.get(key).is_some_and(|node| node.value == Value::Text(String::new()));
        let is_image = |text: &String| word(text, "an image's name");
        let mut image =
            |key: &str| if is_blank(key) { None } else { section.checked(key, findings, is_image) };
        let (both, head, worker) = (image("image"), image("head_image"), image("worker_image"));
        let has_name = section.get("container_name").is_some() && !is_blank("container_name");
        let name = if has_name {
            section.checked("container_name", findings, |text: &String| check_name(text))
        } else {
            None
        };
        let has_image = both.is_some() || head.is_some() || worker.is_some();
        if name.is_none() && !has_image {
            if !is_blank("image") && !is_blank("container_name") {
                warn_of_the_rest(&section, node, findings);
            }
            return None;
        }
        if !has_image && !findings.problems.iter().any(|problem| problem.field.starts_with("docker")) {
            // As Ray does.
            let message = "it names a container, but no image: nodes are used without containers";
            findings.warnings.push(Problem::new(node, "docker", message));
            return None;
        }
        if !has_name {
            findings.problems.push(section.problem(node, "container_name", "the container needs a name"));
        }
        let (head, worker) = (head.or_else(|| both.clone()), worker.or(both));
        if head.is_none() || worker.is_none() {
            let message = "missing; set `image` for all nodes, or `head_image` and `worker_image`";
            findings.problems.push(section.problem(node, "image", message));
        }
        let mut words = |key: &str| -> Vec<String> { section.take(key, findings).unwrap_or_default() };
        let (common, of_head, of_worker) =
            (words("run_options"), words("head_run_options"), words("worker_run_options"));
        let mut is = |key: &str| section.take(key, findings).unwrap_or(false);
        let shared = Container {
            image: String::new(),
            name: name?,
            finds_runtime: !is("disable_automatic_runtime_detection"),
            sizes_shm: !is("disable_shm_size_detection"),
            is_podman: is("use_podman"),
            pulls: section.take("pull_before_run", findings).unwrap_or(true),
            options: common,
        };
        let with = |image: String, more: Vec<String>| {
            let options = shared.options.iter().cloned().chain(more).collect();
            Container { image, options, ..shared.clone() }
        };
        let (head, worker) = (with(head?, of_head), with(worker?, of_worker));
        Some(Self { head, worker, common: shared.options })
    }

    /// The container of a node type's workers, where the type says anything of it.
    pub(super) fn of_type(&self, own: &Section<'_>, findings: &mut Findings) -> Option<Container> {
        let section = Section::new(own.get("docker")?, &own.path("docker"), &TYPE_KEYS, findings);
        let mut container = self.worker.clone();
        let is_image = |text: &String| word(text, "an image's name");
        if let Some(image) = section.checked("worker_image", findings, is_image) {
            container.image = image;
        }
        if let Some(options) = section.take::<Vec<String>>("worker_run_options", findings) {
            container.options = self.common.iter().cloned().chain(options).collect();
        }
        let mut is = |key: &str| section.take::<bool>(key, findings);
        container.pulls = is("pull_before_run").unwrap_or(container.pulls);
        container.finds_runtime =
            is("disable_automatic_runtime_detection").map_or(container.finds_runtime, |disabled| !disabled);
        container.sizes_shm =
            is("disable_shm_size_detection").map_or(container.sizes_shm, |disabled| !disabled);
        Some(container)
    }

    /// The container of a node.
    pub(super) fn of(&self, role: Role) -> Container {
        match role {
            Role::Head => self.head.clone(),
            Role::Worker => self.worker.clone(),
        }
    }
}

/// Without an image there are no containers; other settings there are reported.
fn warn_of_the_rest(section: &Section<'_>, node: &Tree, findings: &mut Findings) {
    let is_known_problem = findings.problems.iter().any(|problem| problem.field.starts_with("docker"));
    if section.entries().next().is_some() && !is_known_problem {
        let message = "it names no `image` and no `container_name`: nodes are used without containers";
        findings.warnings.push(Problem::new(node, "docker", message));
    }
}

/// What engines take as a name.
fn check_name(name: &str) -> Result<(), ValueError> {
    if name.len() < 2 {
        return Err(ValueError::ShortContainerName { name: name.to_owned() });
    }
    super::ray::check_name(name)
}
