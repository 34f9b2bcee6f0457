//! Elements of an array that would write the same file.

use std::collections::BTreeMap;

use wharf_proto::JobSpec;

/// Parts of names by which a file or folder is known to be written to.
const WRITTEN: [&str; 8] = ["out", "log", "save", "ckpt", "checkpoint", "result", "dest", "model-dir"];

/// Warnings, in words.
#[must_use]
pub fn clashes(spec: &JobSpec) -> Vec<String> {
    if spec.array.len() < 2 {
        return vec![];
    }
    let mut found = Vec::new();
    let checkpoint = checkpoint_dir(spec);
    for (field, path) in
        [("output", spec.output.as_str()), ("error", &spec.error_output), ("checkpoint.dir", checkpoint)]
    {
        if !path.is_empty() && !is_apart(spec, path) {
            found.push(format!("several elements have the same `{field}`, {path}; put %a into it"));
        }
    }
    let Some(parameters) = &spec.parameters else { return found };
    for (column, name) in parameters.names.iter().enumerate().filter(|(_, name)| is_written(name)) {
        let values =
            spec.array.iter().filter_map(|&index| parameters.rows.get(index as usize)?.values.get(column));
        if let Some((value, count)) = most_frequent(values.map(String::as_str)) {
            found.push(format!("{count} elements have `{name}` {value}, and may write the same file"));
        }
    }
    let words = spec.steps.iter().map(|step| &step.command).chain([&spec.command]);
    for (option, value) in words.flat_map(|words| options(words)) {
        if is_written(option) && !is_apart(spec, value) && !value.contains("WHARF_") {
            found.push(format!(
                "all elements have `{option} {value}` and may write the same file; use a {{...}} placeholder"
            ));
        }
    }
    found
}

fn checkpoint_dir(spec: &JobSpec) -> &str {
    spec.checkpoint.as_ref().map_or("", |checkpoint| checkpoint.dir.as_str())
}

/// Whether elements would keep their checkpoints in the same directory.
pub(super) fn shares_checkpoint_dir(spec: &JobSpec) -> bool {
    let dir = checkpoint_dir(spec);
    spec.array.len() > 1 && !dir.is_empty() && !is_apart(spec, dir)
}

/// Options of a command with their values: `--out file` and `--out=file`.
fn options(words: &[String]) -> Vec<(&str, &str)> {
    let pair = |(at, word): (usize, &'_ String)| -> Option<(usize, usize)> {
        word.starts_with("--").then(|| (at, word.find('=').unwrap_or(0)))
    };
    let found = words.iter().enumerate().filter_map(pair);
    let value = |(at, equals): (usize, usize)| match equals {
        0 => {
            let next = words.get(at + 1).filter(|next| !next.starts_with('-'))?;
            Some((words[at].as_str(), next.as_str()))
        }
        _ => Some((&words[at][..equals], &words[at][equals + 1..])),
    };
    found.filter_map(value).collect()
}

fn is_written(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase().replace('_', "-");
    // `dropout` is no file.
    let is_part = |part: &str, known: &str| {
        part == known || part.starts_with(known) && known.len() > 3 || part == format!("{known}put")
    };
    name == "model-dir" || name.split('-').any(|part| WRITTEN.iter().any(|known| is_part(part, known)))
}

/// Whether every element has its own, once patterns and parameters are filled in.
fn is_apart(spec: &JobSpec, text: &str) -> bool {
    if text.contains("%a") || text.contains("%j") {
        return true;
    }
    let Some(parameters) = &spec.parameters else { return false };
    let filled = spec.array.iter().filter_map(|&index| {
        let row = parameters.rows.get(index as usize)?;
        let pairs = parameters.names.iter().zip(&row.values);
        Some(pairs.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value)))
    });
    let filled: Vec<String> = filled.collect();
    most_frequent(filled.iter().map(String::as_str)).is_none()
}

/// The text that is there most often, if it is there more than once.
fn most_frequent<'a>(texts: impl Iterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    let mut counts = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_insert(0) += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1)
}
