//! Text of others on a terminal.

use std::borrow::Cow;

use wharf_job::check::is_disruptive;

/// A text without characters that could change what a terminal shows around it: they become escapes such as `\\u{1b}`. Line breaks
/// and tabs stay.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_escaped = |letter: char| is_disruptive(letter) && !matches!(letter, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_line_end = letter == '\r' && letters.peek() == Some(&'\n');
        match is_escaped(letter) && !is_line_end {
            true => safe.extend(letter.escape_unicode()),
            false => safe.push(letter),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_other_text_stays() {
        for (text, expected) in [
            ("train – ä 训练\n\tx", "train – ä 训练\n\tx"),
            ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\r\nb\rc", "a\r\nb\\u{d}c"),
            ("\u{8}\u{7f}", "\\u{8}\\u{7f}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
