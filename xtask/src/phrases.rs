//! Banned phrases: words that the project's text replaces by technical terms.
//!
//! Sources, documents and scripts are checked line by line, with comments, messages and test names.

use crate::Complaints;

/// Endings of the checked files.
const ENDINGS: [&str; 4] = [".rs", ".md", ".py", ".js"];

/// Files that are not checked: generated ones, the history, and this list.
const EXEMPT: [&str; 3] = ["CHANGELOG.md", "crates/proto/src/generated.rs", "xtask/src/phrases.rs"];

/// Banned phrases in lower case, with their replacements.
const BANNED: [(&str, &str); 44] = [
    ("whoever", "the noun: user, caller, client, process"),
    ("nobody", "`no user`, `no job`, `not set`, or the passive voice"),
    ("somebody", "the noun: a user, another process"),
    ("anybody", "the noun: any user, any client"),
    ("everybody", "`all users`, `all jobs`"),
    ("nought", "zero"),
    ("in vain", "without success"),
    ("farewell", "deregistration"),
    ("a letter to", "an email to"),
    ("gets a letter", "is notified by email"),
    ("sends a letter", "sends an email"),
    ("takes letters", "sendmail-compatible"),
    ("and its like", "`and similar`, or the list"),
    ("as it were", "nothing: leave it out"),
    ("put right", "corrected, repaired"),
    ("puts right", "corrects, repairs"),
    ("hopeless", "unsatisfiable, infeasible"),
    ("what becomes of", "the result, the state, the handling of"),
    ("is not what it should be", "`malformed`, with the expected form"),
    ("cannot be spoken with", "I/O error while talking to"),
    ("cannot be had", "not available, not supported"),
    ("have its say", "decide, report"),
    ("of one's own", "user-defined"),
    ("what was asked for", "the request"),
    ("told to stop", "requested to stop"),
    ("told apart", "distinguished"),
    ("says otherwise", "`by default`, or the setting"),
    ("in the place of", "instead of"),
    ("as things are", "currently, on the current nodes"),
    ("unless told otherwise", "by default"),
    ("went on", "continued"),
    ("is let in", "is accepted, admitted, permitted"),
    ("lets in", "accepts, admits, permits"),
    ("what became of", "the result, the outcome"),
    ("says so", "reports this, prints a warning"),
    ("say so", "report this, print a warning"),
    ("looks at", "checks, reads, inspects"),
    ("looked at", "checked, read, inspected"),
    ("looked for", "searched for"),
    ("told to", "requested to"),
    ("for ever", "indefinitely"),
    ("and the like", "and similar, or the list"),
    ("has no say", "is ignored, has no effect"),
    ("have no say", "are ignored, have no effect"),
];

/// Checks one file.
pub(crate) fn check(name: &str, text: &str, complaints: &mut Complaints) {
    let is_checked = ENDINGS.iter().any(|ending| name.ends_with(ending));
    if !is_checked || EXEMPT.contains(&name) {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, replacement) in BANNED {
            if contains_phrase(&line, phrase) {
                complaints.push(format!("{name}:{}: `{phrase}`: write {replacement}", index + 1));
            }
        }
    }
}

/// Whether a line has a phrase as whole words; `_` separates words of names. `nobody` is also a system user.
fn contains_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + phrase.len()..]);
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let is_whole = !is_letter(before.chars().next_back()) && !is_letter(after.chars().next());
        is_whole && !(phrase == "nobody" && is_system_user(before, after))
    })
}

/// Whether the words around `nobody` show that it is the user of that name: a quoted word, a value, or an identifier.
fn is_system_user(before: &str, after: &str) -> bool {
    before.ends_with(['"', '`', '=', '(', '.'])
        || before.ends_with("\\n")
        || before.ends_with("--user ")
        || before.ends_with("let ")
        || before.ends_with("nobody ")
        || after.starts_with([')', '.', '"', '`', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_phrase_is_reported_with_line_and_replacement() {
        let mut complaints = Vec::new();
        check("docs/x.md", "fine\nWhoever reads this\n", &mut complaints);
        assert_eq!(complaints, ["docs/x.md:2: `whoever`: write the noun: user, caller, client, process"]);
    }

    #[test]
    fn phrase_counts_as_whole_words_only() {
        for (line, phrase, expected) in [
            ("zero, not nought", "nought", true),
            ("fn is_nought()", "nought", true),
            ("noughts", "nought", false),
            ("nobody waits", "nobody", true),
            ("run as --user nobody here", "nobody", false),
            ("user(\"nobody\")", "nobody", false),
        ] {
            assert_eq!(contains_phrase(line, phrase), expected, "{line}");
        }
    }

    #[test]
    fn exempt_files_are_not_checked() {
        let mut complaints = Vec::new();
        for name in ["CHANGELOG.md", "crates/proto/src/generated.rs", "a.toml"] {
            check(name, "whoever\n", &mut complaints);
        }
        assert_eq!(complaints, Vec::<String>::new());
    }
}
