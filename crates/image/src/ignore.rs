//! What a folder to build from has that no image gets: `.dockerignore`, as engines read it.

use std::fs;
use std::path::Path;

use crate::ImageError;
use crate::place::Engine;

/// Patterns, of which the last that fits decides.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    parts: Vec<String>,
    /// What fits is not ignored after all.
    is_exception: bool,
}

impl Ignored {
    /// The file that an engine would take: one beside the Dockerfile with its name, or the folder's. Charliecloud reads none.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(crate) fn read(engine: Engine, context: &Path, dockerfile: &Path) -> Result<Self, ImageError> {
        let mut beside = dockerfile.as_os_str().to_owned();
        beside.push(".dockerignore");
        let files = match engine {
            Engine::ChImage => Vec::new(),
            Engine::Docker => vec![beside.into(), context.join(".dockerignore")],
            Engine::Podman => vec![context.join(".containerignore"), context.join(".dockerignore")],
        };
        let Some(path) = files.into_iter().find(|path| path.is_file()) else { return Ok(Self::default()) };
        let text = fs::read_to_string(&path).map_err(ImageError::file("cannot read", &path))?;
        Ok(Self::parse(&text))
    }

    /// One pattern in a line; `#` begins a comment, `!` an exception.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines();
        let lines = lines.filter(|line| !line.starts_with('#')).map(str::trim);
        let pattern = |line: &str| {
            let (rest, is_exception) = match line.strip_prefix('!') {
                Some(rest) => (rest.trim(), true),
                None => (line, false),
            };
            let parts = rest.split('/').filter(|part| !part.is_empty() && *part != ".");
            let parts: Vec<String> = parts.map(str::to_owned).collect();
            (!parts.is_empty()).then_some(Pattern { parts, is_exception })
        };
        Self { patterns: lines.filter_map(pattern).collect() }
    }

    /// Whether a path of the folder is ignored, itself or with a folder that it is in.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let fitting = self.patterns.iter().rev().find(|pattern| pattern.fits(&names));
        fitting.is_some_and(|pattern| !pattern.is_exception)
    }

    /// Whether something in an ignored folder may be wanted all the same.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_exception)
    }
}

impl Pattern {
    fn fits(&self, names: &[&str]) -> bool {
        (1..=names.len()).any(|length| fit_parts(&self.parts, &names[..length]))
    }
}

fn fit_parts(parts: &[String], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part == "**" => {
            (0..=names.len()).any(|skipped| fit_parts(rest, &names[skipped..]))
        }
        (Some((part, rest)), Some((name, below))) => fits_name(part, name) && fit_parts(rest, below),
        _ => false,
    }
}

/// `*`, `?`, `[a-z]`, `[^a]` and `\\x`, within one name.
fn fits_name(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    fits_letters(&pattern, &name)
}

fn fits_letters(pattern: &[char], name: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match first {
        '*' => (0..=name.len()).any(|skipped| fits_letters(rest, &name[skipped..])),
        '?' => name.split_first().is_some_and(|(_, below)| fits_letters(rest, below)),
        '[' => match (class(rest), name.split_first()) {
            (Some((set, rest)), Some((letter, below))) => set.has(*letter) && fits_letters(rest, below),
            _ => false,
        },
        _ => {
            let (letter, rest) = match (first, rest.split_first()) {
                ('\\', Some((escaped, rest))) => (escaped, rest),
                _ => (first, rest),
            };
            name.split_first().is_some_and(|(other, below)| other == letter && fits_letters(rest, below))
        }
    }
}

/// Letters in brackets.
struct Class<'a> {
    is_negated: bool,
    letters: &'a [char],
}

impl Class<'_> {
    fn has(&self, letter: char) -> bool {
        let mut rest = self.letters;
        let mut is_in = false;
        while let Some((first, more)) = rest.split_first() {
            rest = match more {
                ['-', last, more @ ..] => {
                    is_in |= (*first..=*last).contains(&letter);
                    more
                }
                _ => {
                    is_in |= *first == letter;
                    more
                }
            };
        }
        is_in != self.is_negated
    }
}

/// What is in brackets, and what comes after them.
fn class(pattern: &[char]) -> Option<(Class<'_>, &[char])> {
    let (is_negated, inner) = match pattern {
        ['^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let end = inner.iter().position(|letter| *letter == ']')?;
    Some((Class { is_negated, letters: &inner[..end] }, &inner[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_engines_have_it() {
        for (text, path, expected) in [
            ("data", "data", true),
            ("data", "data/a/b", true),
            ("/data/", "data/a", true),
            ("data", "more/data", false),
            ("*.log", "x.log", true),
            ("*.log", "logs/x.log", false),
            ("**/*.log", "logs/deep/x.log", true),
            ("**/*.log", "x.log", true),
            ("*/temp*", "a/temporary.txt", true),
            ("*/temp*", "a/b/temporary.txt", false),
            ("a/**/z", "a/b/c/z", true),
            ("a/**", "a/b", true),
            ("temp?", "tempa", true),
            ("temp?", "temp", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("# data\n", "# data", false),
            ("*.md\n!README.md", "README.md", false),
            ("*.md\n!README.md", "NEWS.md", true),
            ("!README.md\n*.md", "README.md", true),
            ("*\n!src", "src/main.py", false),
            ("*\n!src", "doc/x", true),
            ("./data", "data", true),
            ("", "data", false),
        ] {
            assert_eq!(Ignored::parse(text).has(Path::new(path)), expected, "{text:?}: {path}");
        }
    }

    #[test]
    fn each_engine_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let dockerfile = folder.path().join("train.Dockerfile");
        fs::write(folder.path().join(".dockerignore"), "common").unwrap();
        fs::write(folder.path().join("train.Dockerfile.dockerignore"), "dockers").unwrap();
        fs::write(folder.path().join(".containerignore"), "podmans").unwrap();
        for (engine, expected) in [
            (Engine::Podman, ["podmans"].as_slice()),
            (Engine::Docker, ["dockers"].as_slice()),
            (Engine::ChImage, [].as_slice()),
        ] {
            let ignored = Ignored::read(engine, folder.path(), &dockerfile).unwrap();
            let all = ["common", "dockers", "podmans"].into_iter();
            let has: Vec<&str> = all.filter(|name| ignored.has(Path::new(name))).collect();
            assert_eq!(has, expected, "{engine:?}");
        }
    }
}
