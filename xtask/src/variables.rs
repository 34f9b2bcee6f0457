//! Environment variables: every `WHARF_` name in sources and scripts is in `docs/reference.md`.

use std::collections::BTreeMap;

use crate::Complaints;

/// The document with the table of variables.
pub(crate) const DOCUMENT: &str = "docs/reference.md";

const PREFIX: &str = "WHARF_";

/// Endings of files that read or set variables.
const ENDINGS: [&str; 3] = [".rs", ".py", ".sh"];

/// Names in sources with the first place of each.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    first_use: BTreeMap<String, String>,
}

impl Variables {
    /// Collects the names in a file.
    pub(crate) fn collect(&mut self, name: &str, text: &str) {
        let is_source = ENDINGS.iter().any(|ending| name.ends_with(ending)) || name.starts_with(".ci/");
        if !is_source || name.starts_with("xtask/") {
            return;
        }
        for (index, line) in text.lines().enumerate() {
            for variable in names(line) {
                self.first_use.entry(variable).or_insert_with(|| format!("{name}:{}", index + 1));
            }
        }
    }

    /// Complains about names that the document does not have. A name that ends with `_` is a prefix, and `WHARF_PARAM_` stands for
    /// the parameters of all sweeps.
    pub(crate) fn check(&self, document: &str, complaints: &mut Complaints) {
        let documented: Vec<String> = document.lines().flat_map(names).collect();
        for (variable, place) in &self.first_use {
            let is_open = variable.ends_with('_') || variable.starts_with("WHARF_PARAM_");
            if !is_open && !documented.contains(variable) {
                complaints.push(format!("{place}: `{variable}` is not in {DOCUMENT}"));
            }
        }
    }
}

fn names(line: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let starts = line.match_indices(PREFIX).filter(|(start, _)| !line[..*start].ends_with(is_part));
    let name =
        |(start, _): (usize, &str)| line[start..].chars().take_while(|letter| is_part(*letter)).collect();
    starts.map(name).filter(|name: &String| name != PREFIX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undocumented_variable_is_reported_with_its_first_use() {
        let mut variables = Variables::default();
        variables.collect("a.rs", "x\nenv(\"WHARF_A\"), env(\"WHARF_B\")\n");
        variables.collect("b.py", "WHARF_B, WHARF_PARAM_LR, WHARF_NOTIFY_\n");
        variables.collect("c.md", "WHARF_C\n");
        let mut complaints = Vec::new();
        variables.check("| `WHARF_A` |", &mut complaints);
        assert_eq!(complaints, ["a.rs:2: `WHARF_B` is not in docs/reference.md"]);
    }
}
