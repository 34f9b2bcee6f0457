//! Templates that somebody forgot to fill in: `ImageId: { AMI ID }` is valid YAML, a map whose key has no value.

use wharf_document::decode::{Problem, path};
use wharf_document::node::{Node, Value};

use super::Findings;

/// Finds all of them.
pub(super) fn refuse(node: &Node, at: &str, findings: &mut Findings) {
    match &node.value {
        Value::Map(entries) => match entries.as_slice() {
            [entry] if entry.value.value == Value::Null && is_prose(&entry.key) => {
                findings.problems.push(problem(node, at, &entry.key));
            }
            _ => entries.iter().for_each(|entry| refuse(&entry.value, &path(at, &entry.key), findings)),
        },
        Value::List(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| refuse(item, &format!("{at}[{index}]"), findings));
        }
        Value::Text(text) => {
            let found = within(text).map(|name| problem(node, at, name));
            findings.problems.extend(found);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn problem(node: &Node, at: &str, name: &str) -> Problem {
    let message = format!("the placeholder `{{ {name} }}` is not filled in");
    let hint = Some("write the value in its place, without the braces".to_owned());
    Problem { hint, ..Problem::new(node, at, message) }
}

/// Whether a key is something that people are told to fill in, and no key of anything.
fn is_prose(key: &str) -> bool {
    key.contains(' ') || key.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// Placeholders in the middle of a text, such as a command: words in braces of which the first begins with a capital letter.
/// Shells' `${NAME}`, groups and lists, `awk`'s programs, JSON and Go's `{{ }}` are none.
fn within(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(start, _)| {
        let is_other = text[..start].ends_with(['$', '{', '\\']);
        let inner = text[start + 1..].split('}').next()?.trim();
        let is_closed = text[start + 1..].contains('}');
        let is_words = inner.len() > 1
            && inner.starts_with(|letter: char| letter.is_ascii_uppercase())
            && inner.chars().all(|letter| letter.is_ascii_alphanumeric() || " -_".contains(letter));
        (is_words && is_closed && !is_other).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_commands_are_told_from_shell() {
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
            assert_eq!(within(text).collect::<Vec<_>>(), found, "{text}");
        }
    }
}
