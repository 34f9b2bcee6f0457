//! Words for a shell: whatever a text holds, the shell that reads it sees one word.

/// A text as one word of a line of shell.
#[must_use]
pub fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Words as a line.
#[must_use]
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The words of a line that [`line`] made; `None` where a quote has no end.
#[must_use]
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        character => word.push(character),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_as_they_were() {
        for text in [
            "a b",
            "$(touch x)",
            "it's",
            "`id`",
            "a\nb",
            "-n",
            "",
            "\\",
            "*",
            "ä;&|<>",
            "~",
            "!",
            "$HOME `id` \"x\"",
            "ü€",
        ] {
            let script = format!("printf %s {}", quote(text));
            let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), text);
            assert_eq!(split(&line(["a", text, "b"])), Some(vec!["a".into(), text.into(), "b".into()]));
        }
        assert_eq!(split("a 'b"), None);
        assert_eq!(line(["wharf", "sim", "a b"]), "wharf sim 'a b'");
    }
}
