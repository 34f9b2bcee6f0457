//! Placeholders that were not filled in: `ImageId: { AMI ID }`, which is valid YAML (a map whose key has no value), and words in capitals such as
//! `YOUR_HEAD_NODE_HOSTNAME`, which Ray's examples have instead of addresses, users and numbers.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_document::decode::{Problem, path};
use wharf_document::node::{Malformed, Node, Value};

use super::value_error::ValueError;
use super::{ConfigError, Findings};

/// A place to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placeholder {
    name: String,
    problem: Problem,
}

/// Finds all of them, and refuses them.
pub(super) fn refuse(node: &Node, at: &str, findings: &mut Findings) {
    let mut found = Vec::new();
    find(node, at, &mut found);
    findings.problems.extend(found.into_iter().map(|placeholder| placeholder.problem));
    let mut words = Vec::new();
    find_capitals(node, at, &mut words);
    findings.problems.extend(words);
}

/// Fields that hold an address, a user, an image or a number: a word in capitals is none. Elsewhere, as in commands and tags, it may be meant.
fn is_filled_in(at: &str) -> bool {
    let name = at.rsplit('.').next().unwrap_or_default();
    let name = name.split('[').next().unwrap_or_default();
    match at.split('.').next().unwrap_or_default() {
        // What a coordinator is has an explanation of its own; programs have arguments of their own.
        "provider" => {
            let of_others = ["provider.config", "provider.cloud_formation", "provider.cloudwatch"];
            !of_others.iter().any(|section| at.starts_with(section))
                && !["command", "coordinator_address"].contains(&name)
        }
        "auth" => !["ssh_private_key", "ssh_public_key", "ssh_proxy_command"].contains(&name),
        "docker" => ["image", "head_image", "worker_image"].contains(&name),
        "available_node_types" | "min_workers" | "max_workers" => {
            name == "min_workers" || name == "max_workers"
        }
        _ => false,
    }
}

fn find_capitals(node: &Node, at: &str, found: &mut Vec<Problem>) {
    match &node.value {
        Value::Map(entries) => {
            entries.iter().for_each(|entry| find_capitals(&entry.value, &path(at, &entry.key), found));
        }
        Value::List(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| find_capitals(item, &format!("{at}[{index}]"), found));
        }
        Value::Text(text) if is_filled_in(at) && (is_capitals(text) || text == "...") => {
            found.push(unfilled(node, at, text));
        }
        Value::Text(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether it is several words in capitals, as in `YOUR_USERNAME`. `GPU_1` is one word and a number, and may be a name.
fn is_capitals(text: &str) -> bool {
    let is_word = |part: &&str| part.contains(|character: char| character.is_ascii_uppercase());
    text.chars()
        .all(|character| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_')
        && text.split('_').filter(is_word).count() > 1
}

/// What is said of a path of this machine that does not exist, where a part of it is a word in capitals.
pub(super) fn in_path(node: &Node, at: &str, text: &str) -> Option<Problem> {
    text.split('/').find(|part| is_capitals(part)).map(|part| unfilled(node, at, part))
}

fn unfilled(node: &Node, at: &str, name: &str) -> Problem {
    let hint = Some("write the value in its place".to_owned());
    Problem { hint, ..Problem::new(node, at, format!("the placeholder `{name}` is not filled in")) }
}

fn find(node: &Node, at: &str, found: &mut Vec<Placeholder>) {
    match &node.value {
        Value::Map(entries) => match entries.as_slice() {
            [entry] if entry.value.value == Value::Null && is_prose(&entry.key) => {
                found.push(placeholder(node, at, &entry.key));
            }
            _ => entries.iter().for_each(|entry| find(&entry.value, &path(at, &entry.key), found)),
        },
        Value::List(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| find(item, &format!("{at}[{index}]"), found));
        }
        Value::Text(text) => found.extend(within(text).map(|(_, name)| placeholder(node, at, name))),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn placeholder(node: &Node, at: &str, name: &str) -> Placeholder {
    let message = format!("the placeholder `{{ {name} }}` is not filled in");
    let hint = Some("write the value in its place, without the braces".to_owned());
    Placeholder { name: name.to_owned(), problem: Problem { hint, ..Problem::new(node, at, message) } }
}

/// Whether a key is something that people are requested to fill in, and no key of anything.
fn is_prose(key: &str) -> bool {
    key.contains(' ') || key.chars().all(|character| character.is_ascii_uppercase() || character == '_')
}

/// Placeholders in the middle of a text, such as a command, with the bytes that they take: words in braces of which the first begins
/// with a capital character. Shells' `${NAME}`, groups and lists, `awk`'s programs, JSON and Go's `{{ }}` are none.
fn within(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, &str)> {
    text.match_indices('{').filter_map(|(start, _)| {
        let is_other = text[..start].ends_with(['$', '{', '\\']);
        let end = start + 1 + text[start + 1..].find('}')?;
        let inner = text[start + 1..end].trim();
        let is_words = inner.len() > 1
            && inner.starts_with(|character: char| character.is_ascii_uppercase())
            && inner.chars().all(|character| character.is_ascii_alphanumeric() || " -_".contains(character));
        (is_words && !is_other).then_some((start..end + 1, inner))
    })
}

/// What may be filled in: ids, names, numbers, paths. Whatever it stands in, YAML and a shell read it as it is.
fn check_value(name: &str, value: &str) -> Result<(), ValueError> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@+=,~".contains(character);
    if !value.is_empty()
        && value.chars().all(is_plain)
        && !value.ends_with(':')
        && !value.starts_with(['-', ',', '@', '='])
    {
        return Ok(());
    }
    Err(ValueError::Placeholder { name: name.to_owned(), value: value.to_owned() })
}

/// Fills a template's placeholders. Nothing else of it changes, comments included.
///
/// # Errors
/// The file cannot be read; a placeholder has no value, or a value no placeholder.
pub fn render(path: &Path, values: &BTreeMap<String, String>) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let invalid = |problems| ConfigError::Invalid { path: path.to_owned(), problems };
    let found = names(path, &text)?;
    let known: Vec<&str> = found.iter().map(|placeholder| placeholder.name.as_str()).collect();
    let mut problems: Vec<Problem> = Vec::new();
    let whole = |message: String, hint: Option<String>| Problem {
        place: wharf_document::node::Place::default(),
        field: String::new(),
        message,
        hint,
    };
    for (name, value) in values {
        if !known.contains(&name.as_str()) {
            let near = wharf_document::nearest(name, known.iter().copied());
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            problems.push(whole(format!("there is no placeholder `{{ {name} }}`"), hint));
        }
        problems.extend(check_value(name, value).err().map(|error| whole(error.message(), None)));
    }
    let is_missing = |placeholder: &&Placeholder| !values.contains_key(&placeholder.name);
    problems.extend(found.iter().filter(is_missing).map(|Placeholder { name, problem }| Problem {
        hint: Some(format!("set it with `--set '{name}=VALUE'`")),
        ..problem.clone()
    }));
    if problems.is_empty() { Ok(filled(&text, values)) } else { Err(invalid(problems)) }
}

/// The names of a template's placeholders, in their order.
///
/// # Errors
/// The file cannot be read, or is no YAML.
pub fn placeholders(path: &Path) -> Result<Vec<String>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mut found: Vec<String> = Vec::new();
    for Placeholder { name, .. } in names(path, &text)? {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    Ok(found)
}

fn names(path: &Path, text: &str) -> Result<Vec<Placeholder>, ConfigError> {
    let malformed = |Malformed { place, message }| ConfigError::Invalid {
        path: path.to_owned(),
        problems: vec![Problem { place, field: String::new(), message, hint: None }],
    };
    let mut found = Vec::new();
    find(&Node::from_yaml(text).map_err(malformed)?, "", &mut found);
    Ok(found)
}

/// Every `{ NAME }` of the text that has a value, with it.
fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut rest = 0;
    let mut result = String::new();
    for (start, _) in text.match_indices('{') {
        let Some(end) = text[start + 1..].find('}').map(|end| start + 1 + end) else { break };
        let is_other = text[..start].ends_with(['$', '{', '\\']);
        if let Some(value) = values.get(text[start + 1..end].trim()).filter(|_| !is_other && start >= rest) {
            result.push_str(&text[rest..start]);
            result.push_str(value);
            rest = end + 1;
        }
    }
    result.push_str(&text[rest..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_are_placeholders_where_an_address_a_user_or_a_number_stands() {
        for (at, text, is) in [
            ("provider.head_ip", "YOUR_HEAD_NODE_HOSTNAME", true),
            ("provider.worker_ips[1]", "WORKER_NODE_2_HOSTNAME", true),
            ("provider.worker_ips[2]", "...", true),
            ("provider.worker_ips[0]", "GPU_1", false),
            ("provider.worker_ips[0]", "NODE1", false),
            ("provider.worker_ips[0]", "gpu_node", false),
            ("provider.config.tag", "MY_TAG_NAME", false),
            ("provider.command[1]", "MAKE_IT", false),
            ("auth.ssh_user", "YOUR_USERNAME", true),
            ("auth.ssh_proxy_command", "MY_PROXY", false),
            ("min_workers", "TYPICALLY_THE_NUMBER_OF_WORKER_IPS", true),
            ("available_node_types.gpu.max_workers", "HOW_MANY", true),
            ("available_node_types.gpu.node_config.Tags", "MY_TAG", false),
            ("docker.image", "YOUR_IMAGE", true),
            ("docker.container_name", "RAY_BOX", false),
            ("setup_commands[0]", "RUN_ALL", false),
        ] {
            assert_eq!(is_filled_in(at) && (is_capitals(text) || text == "..."), is, "{at}: {text}");
        }
    }

    #[test]
    fn placeholders_in_commands_are_distinguished_from_shell() {
        for (text, found) in [
            ("sudo mount -t efs { EFS ID }:/ ~/efs", &["EFS ID"] as &[&str]),
            ("mount {Your EFS file system ID}:/ x; echo {Name}", &["Your EFS file system ID", "Name"]),
            ("echo ${HOME} ${USER}", &[]),
            ("{ echo A; }", &[]),
            ("cp a.{c,h} b; seq {1..3}; find . -exec ls {} +", &[]),
            ("awk '{ print $1 }' x; awk '{print NR}' y", &[]),
            (r#"ray start --resources='{"machine": 1}'"#, &[]),
            ("docker inspect -f '{{.State.Running}}' x; docker info -f '{{Name}}'", &[]),
        ] {
            assert_eq!(within(text).map(|(_, name)| name).collect::<Vec<_>>(), found, "{text}");
        }
    }

    #[test]
    fn only_placeholders_are_filled() {
        let values =
            BTreeMap::from([("EFS ID".to_owned(), "fs-1".to_owned()), ("N".to_owned(), "7".to_owned())]);
        let text = "# { EFS ID }\nn: {N}\nc: mount {EFS ID}:/ ~/x; echo ${N} '{\"a\": 1}' {N}{N}\n";
        let filled = filled(text, &values);
        assert_eq!(filled, "# fs-1\nn: 7\nc: mount fs-1:/ ~/x; echo ${N} '{\"a\": 1}' 77\n");
    }

    #[test]
    fn values_that_could_mean_something_else_are_refused() {
        for value in ["ami-1", "us-west-2a,us-west-2b", "fs-1.efs.x.com:/", "~/efs", "10.0.0.1", "7"] {
            check_value("x", value).unwrap();
        }
        for value in ["", "a b", "a: b", "x:", "-n", "$(id)", "'", "\"", "{x}", "#", "a;b", "é"] {
            check_value("x", value).unwrap_err();
        }
    }
}
