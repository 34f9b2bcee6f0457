//! Words for the shell of a node.

pub use wharf_document::shell::{line, quote};

/// A path on a node as one word, with the node's own home instead of `~`.
#[must_use]
pub fn quote_path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quote(rest)),
        None if path == "~" => "\"$HOME\"".to_owned(),
        None => quote(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_finds_its_own_home() {
        let script = format!("printf '%s|' {} {}", quote_path("~/a b"), quote_path("~"));
        let said = std::process::Command::new("sh").args(["-c", &script]).env("HOME", "/h").output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "/h/a b|/h|");
    }
}
