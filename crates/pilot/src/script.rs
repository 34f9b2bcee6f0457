//! What Slurm runs: scripts for the shell, made of words that the shell takes as they are.

/// A word that a POSIX shell takes as it is.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-+=:,./@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words as one line of shell.
pub(crate) fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// What a pilot's Slurm job runs: a worker on each of its nodes.
///
/// On one node that is the job's own process, which Slurm tells to end before it kills it. On several the first one leads.
pub(crate) fn pilot(program: &str, spec: &str, nodes: u32) -> String {
    let role = if nodes == 1 { "node" } else { "lead" };
    let start = format!("exec {}", line([program, "pilot", role, "--spec", spec]));
    format!(
        "#!/bin/sh\n# A pilot of Wharf: lends this allocation to a head for as long as it has work.\n{start}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn words_reach_programs_as_they_are() {
        let words =
            ["plain", "", "a b", "it's", "$HOME `id` \"x\"", "new\nline", "a\\b", "*", "~", "-n", "ü€"];
        let script = format!("printf '%s\\0' {}", line(words));
        let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        assert_eq!(found.trim_end_matches('\0').split('\0').collect::<Vec<_>>(), words);
    }

    #[test]
    fn several_nodes_have_one_that_leads() {
        assert!(
            pilot("/opt/wharf", "/x y/spec.json", 1)
                .ends_with("\nexec /opt/wharf pilot node --spec '/x y/spec.json'\n")
        );
        let several = pilot("/opt/wharf", "/spec.json", 3);
        assert!(several.ends_with("\nexec /opt/wharf pilot lead --spec /spec.json\n"));
    }
}
