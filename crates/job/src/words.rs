//! Words as a shell would split and quote them, without a shell.

/// Why a line is not a list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quote without its partner.
    #[error("a quote `{0}` is not closed")]
    OpenQuote(char),
    /// A backslash with nothing after it.
    #[error("trailing backslash")]
    LastBackslash,
}

/// Splits a line into words: blanks separate, `'...'` keeps everything, `"..."` keeps all but `\"`, `\\`, `` \` ``, `\$`,
/// and `\` keeps the next character. Nothing is expanded: `$HOME`, `*` and `|` are ordinary characters.
///
/// # Errors
/// [`WordsError`] where a quote is open at the end.
pub(crate) fn split(line: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let open = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(WordsError::OpenQuote('\''))? {
                        '\'' => break,
                        other => open.push(other),
                    }
                }
            }
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next().ok_or(WordsError::LastBackslash)? {
                // A line that continues in the next one.
                '\n' => {}
                other => word.get_or_insert_default().push(other),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    const OPEN: WordsError = WordsError::OpenQuote('"');
    loop {
        match rest.next().ok_or(OPEN)? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or(OPEN)? {
                '\n' => {}
                protected @ ('"' | '\\' | '`' | '$') => word.push(protected),
                other => word.extend(['\\', other]),
            },
            other => word.push(other),
        }
    }
}

/// Program and arguments: a list, or a line that is split into words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl std::str::FromStr for Words {
    type Err = WordsError;

    fn from_str(line: &str) -> Result<Self, WordsError> {
        split(line).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wharf_document::shell::quote;

    use super::*;

    #[test]
    fn lines_are_split_as_a_shell_would() {
        for (line, words) in [
            ("python train.py --lr 0.1", &["python", "train.py", "--lr", "0.1"] as &[&str]),
            ("  a \t b\n", &["a", "b"]),
            ("", &[]),
            ("sh -c 'echo $HOME; exit 3'", &["sh", "-c", "echo $HOME; exit 3"]),
            (r#"echo "a \"b\" \n" c\ d"#, &["echo", r#"a "b" \n"#, "c d"]),
            ("a''b \"\"", &["ab", ""]),
            ("python train.py \\\n  --epochs 3", &["python", "train.py", "--epochs", "3"]),
            ("ls *.txt | wc -l", &["ls", "*.txt", "|", "wc", "-l"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert_eq!(split("echo 'a").unwrap_err().to_string(), "a quote `'` is not closed");
        assert_eq!(split("echo \"a").unwrap_err().to_string(), "a quote `\"` is not closed");
        assert_eq!(split("echo \\").unwrap_err(), WordsError::LastBackslash);
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_one_word(text in any::<String>()) {
            prop_assert_eq!(split(&quote(&text)).unwrap(), vec![text]);
        }
    }
}
