//! Names of metrics.

/// Metrics of a job that are stored.
pub const NAMES_MAX: usize = 64;

/// Bytes of a metric's name.
pub const NAME_BYTES_MAX: usize = 64;

/// A name that no metric may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// It has a character that is not printed.
    Unprintable,
}

impl std::fmt::Display for NameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "a metric's name is empty"),
            Self::TooLong => write!(f, "a metric's name has more than {NAME_BYTES_MAX} bytes"),
            Self::Unprintable => write!(f, "a metric's name has a control character"),
        }
    }
}

impl std::error::Error for NameError {}

/// Checks the name of a metric.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if name.chars().any(is_unprintable) {
        return Err(NameError::Unprintable);
    }
    Ok(())
}

/// Control characters, and those that change the direction of text.
fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name as it can be shown, whatever is in it.
pub fn shown(name: &str) -> String {
    let escape = |letter: char| match is_unprintable(letter) {
        true => letter.escape_unicode().to_string(),
        false => letter.to_string(),
    };
    let mut text: String = name.chars().take(NAME_BYTES_MAX).map(escape).collect();
    if text.len() > NAME_BYTES_MAX {
        text.truncate(text.floor_char_boundary(NAME_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["loss", "val/loss", "top-5 acc", "größe", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, error) in [
            ("", NameError::Empty),
            (&*"x".repeat(65), NameError::TooLong),
            ("a\u{1b}[31m", NameError::Unprintable),
            ("a\nb", NameError::Unprintable),
            ("a\u{202e}b", NameError::Unprintable),
        ] {
            assert_eq!(check_name(name), Err(error), "{name:?}");
            assert!(check_name(&shown(name)).is_ok() || name.is_empty() || name.len() > 64, "{name:?}");
        }
    }
}
