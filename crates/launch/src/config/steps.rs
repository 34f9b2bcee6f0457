//! `steps`: ready-made set-up, with what each is told.

use wharf_document::decode::Problem;
use wharf_document::node::{Node as Tree, Value};

use super::Findings;
use super::nodes::{port_number, word};
use super::section::Section;
use super::value_error::ValueError;
use crate::steps::Step;

const NAMES: [&str; 7] = ["node_ssh", "mount", "cuda", "nccl", "apex", "network", COMMANDS];
/// Not a step of its own: where among the steps the nodes' setup commands run.
const COMMANDS: &str = "setup_commands";
/// How Amazon's own documents mount their file system.
const NFS_OPTIONS: &str = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport";
const NFS_PORT: u32 = 2049;
const APEX: &str = "https://github.com/NVIDIA/apex";

/// Reads them in their order, and how many come before the setup commands: all, unless the list states where those run. `region` is where
/// file systems are that are named by their ids.
pub(super) fn read(node: &Tree, region: Option<&str>, findings: &mut Findings) -> (Vec<Step>, usize) {
    let Value::List(items) = &node.value else {
        findings.problems.push(Problem::expected(node, "steps", "a list of steps"));
        return (vec![], 0);
    };
    let mut steps = Vec::new();
    let mut before = None;
    for (index, item) in items.iter().enumerate() {
        let at = format!("steps[{index}]");
        if item.value != Value::Text(COMMANDS.to_owned()) {
            steps.extend(one(item, &at, region, findings));
        } else if before.is_some() {
            let message = "`setup_commands` is repeated: they run once";
            findings.problems.push(Problem::new(item, &at, message));
        } else {
            before = Some(steps.len());
        }
    }
    let before = before.unwrap_or(steps.len());
    (steps, before)
}

fn one(node: &Tree, at: &str, region: Option<&str>, findings: &mut Findings) -> Option<Step> {
    let nothing = Tree { place: node.place, value: Value::Null };
    let (name, told) = match &node.value {
        Value::Text(name) => (name.as_str(), &nothing),
        Value::Map(entries) if entries.len() == 1 => (entries[0].key.as_str(), &entries[0].value),
        _ => {
            let what = "a step's name, or a step and its parameters, as in `cuda: {version: '10.2'}`";
            findings.problems.push(Problem::expected(node, at, what));
            return None;
        }
    };
    let at = format!("{at}.{name}");
    match name {
        "node_ssh" => {
            Section::new(told, &at, &[], findings);
            Some(Step::NodeSsh)
        }
        "mount" => mount(told, &at, region, findings),
        "cuda" => {
            let section = Section::new(told, &at, &["version", "prefix"], findings);
            let version = needed(&section, told, "version", "which version, such as '10.2'", findings)?;
            Some(Step::Cuda { version, prefix: path(&section, "prefix", "/usr/local", findings) })
        }
        "nccl" => {
            let section = Section::new(told, &at, &["archive", "prefix"], findings);
            let about = "the archive on the nodes, as NVIDIA has it; `file_mounts` copies it there";
            let archive = needed(&section, told, "archive", about, findings)?;
            Some(Step::Nccl { archive, prefix: path(&section, "prefix", "/usr/local/nccl", findings) })
        }
        "apex" => {
            let section = Section::new(told, &at, &["repository", "revision", "folder", "python"], findings);
            let repository =
                section.checked("repository", findings, |text: &String| word(text, "a repository"));
            Some(Step::Apex {
                repository: repository.unwrap_or_else(|| APEX.to_owned()),
                revision: section.checked("revision", findings, |text: &String| word(text, "a revision")),
                folder: path(&section, "folder", "~/apex", findings),
                python: section
                    .checked("python", findings, |text: &String| word(text, "a program"))
                    .unwrap_or_else(|| "python3".to_owned()),
            })
        }
        "network" => {
            let section = Section::new(told, &at, &["interface"], findings);
            let interface =
                section.checked("interface", findings, |text: &String| word(text, "an interface"));
            Some(Step::Network { interface })
        }
        COMMANDS => {
            let message = "it is only the position of the setup commands; write them under the key `setup_commands` of the file";
            findings.problems.push(Problem::new(told, &at, message));
            None
        }
        _ => {
            let near = wharf_document::nearest(name, NAMES).map(|name| format!("did you mean `{name}`?"));
            let hint = near.unwrap_or_else(|| format!("known are {}", NAMES.join(", ")));
            let message = format!("there is no step `{name}`");
            findings.problems.push(Problem { hint: Some(hint), ..Problem::new(node, &at, message) });
            None
        }
    }
}

fn mount(told: &Tree, at: &str, region: Option<&str>, findings: &mut Findings) -> Option<Step> {
    let section = Section::new(told, at, &["source", "efs", "target", "options", "mode", "port"], findings);
    let is_source = |text: &String| match text.split_once(":/") {
        Some((host, _)) if !host.is_empty() => word(text, "a source"),
        _ => Err(ValueError::MountSource { text: text.clone() }),
    };
    let is_efs = |text: &String| match text.strip_prefix("fs-") {
        Some(id) if !id.is_empty() && id.chars().all(|letter| letter.is_ascii_alphanumeric()) => Ok(()),
        _ => Err(ValueError::FileSystem { text: text.clone() }),
    };
    let efs: Option<String> = section.checked("efs", findings, is_efs);
    let source: Option<String> = section.checked("source", findings, is_source);
    let source = match (efs, source, region) {
        (Some(id), None, Some(region)) => Some(format!("{id}.efs.{region}.amazonaws.com:/")),
        (Some(_), None, None) => {
            let message = "the region is missing: set `provider: {region: ...}` or a `source`";
            findings.problems.push(section.problem(told, "efs", message));
            None
        }
        (None, Some(source), _) => Some(source),
        (efs, _, _) => {
            if efs.is_some() || (section.get("efs").is_none() && section.get("source").is_none()) {
                let message = "set one of `source` and `efs`";
                findings.problems.push(section.problem(told, "source", message));
            }
            None
        }
    };
    let target = needed(&section, told, "target", "where it is mounted, such as `~/efs`", findings);
    let is_mode = |text: &String| {
        let is_octal =
            (3..=4).contains(&text.len()) && text.chars().all(|digit| ('0'..='7').contains(&digit));
        if is_octal { Ok(()) } else { Err(ValueError::Mode { text: text.clone() }) }
    };
    let port: Option<u32> = section.checked("port", findings, |&port| port_number(port));
    Some(Step::Mount {
        source: source?,
        target: target?,
        options: section
            .checked("options", findings, |text: &String| word(text, "options of mount"))
            .unwrap_or_else(|| NFS_OPTIONS.to_owned()),
        mode: section.checked("mode", findings, is_mode),
        port: u16::try_from(port.unwrap_or(NFS_PORT)).unwrap_or_default(),
    })
}

fn needed(
    section: &Section<'_>,
    told: &Tree,
    key: &str,
    about: &str,
    findings: &mut Findings,
) -> Option<String> {
    if section.get(key).is_none() {
        findings.problems.push(section.problem(told, key, format!("it is missing: {about}")));
    }
    section.checked(key, findings, |text: &String| plain(text))
}

fn path(section: &Section<'_>, key: &str, usual: &str, findings: &mut Findings) -> String {
    section.checked(key, findings, |text: &String| plain(text)).unwrap_or_else(|| usual.to_owned())
}

/// What may stand in a path or a version; blanks may.
fn plain(text: &str) -> Result<(), ValueError> {
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err(ValueError::Path { text: text.to_owned() });
    }
    Ok(())
}
