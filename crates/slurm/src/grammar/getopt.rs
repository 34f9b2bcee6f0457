//! Command lines as `getopt_long` reads them: abbreviations, letters in bundles, optional values.

use super::refusal::{Kind, Refusal};

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// Always, glued to it or as the next word.
    Value,
    /// If it is glued to it with `=`.
    Maybe,
}

/// An option as it can be typed. Several may mean the same.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// What is typed after `--`.
    pub long: &'static str,
    /// The letter that is typed after `-`; a blank: none.
    pub short: char,
    /// Whether it has a value.
    pub takes: Takes,
    /// What it means: the name of the option that it is, or is another name of.
    pub name: &'static str,
}

impl Opt {
    /// An option whose name is what is typed.
    #[must_use]
    pub const fn new(long: &'static str, short: char, takes: Takes) -> Self {
        Self { long, short, takes, name: long }
    }
}

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its name, whatever was typed.
    pub name: &'static str,
    /// Its value, where it has one.
    pub value: Option<String>,
}

/// Whether options can come after other words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first other word ends them.
    First,
    /// Anywhere.
    Anywhere,
}

/// A command line: its options, and all other words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// As they were given.
    pub given: Vec<Given>,
    /// What is no option.
    pub rest: Vec<String>,
}

impl Parsed {
    /// Whether an option is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.name == name)
    }

    /// The value of an option; of several, the last one counts.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|given| given.name == name)?.value.as_deref()
    }

    /// The words of an option whose occurrences add up to one list, separated by commas.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let values =
            self.given.iter().filter(|given| given.name == name).filter_map(|given| given.value.as_deref());
        let words = values.flat_map(|value| value.split(',')).map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}

/// Reads a command line without the program's name.
///
/// # Errors
/// [`Refusal`] for options that are unknown or ambiguous, and values that are missing or too many.
pub fn parse(table: &[Opt], words: &[String], order: Order) -> Result<Parsed, Refusal> {
    let mut parsed = Parsed::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            parsed.rest.extend(words.by_ref().cloned());
        } else if let Some(text) = word.strip_prefix("--") {
            parsed.given.push(long(table, text, &mut words)?);
        } else if word.len() > 1 && word.starts_with('-') {
            shorts(table, &word[1..], &mut words, &mut parsed.given)?;
        } else {
            parsed.rest.push(word.clone());
            if order == Order::First {
                parsed.rest.extend(words.by_ref().cloned());
            }
        }
    }
    Ok(parsed)
}

fn usage(text: String) -> Refusal {
    Refusal::new(Kind::Usage, text)
}

fn long<'a>(
    table: &[Opt],
    text: &str,
    words: &mut impl Iterator<Item = &'a String>,
) -> Result<Given, Refusal> {
    let (typed, value) = match text.split_once('=') {
        Some((typed, value)) => (typed, Some(value.to_owned())),
        None => (text, None),
    };
    let option = find(table, typed, text)?;
    let value = match (option.takes, value) {
        (Takes::Nothing, Some(_)) => {
            return Err(usage(format!("option '--{}' doesn't allow an argument", option.long)));
        }
        (Takes::Value, None) => match words.next() {
            Some(value) => Some(value.clone()),
            None => return Err(usage(format!("option '--{}' requires an argument", option.long))),
        },
        (_, value) => value,
    };
    Ok(Given { name: option.name, value })
}

fn find<'a>(table: &'a [Opt], typed: &str, text: &str) -> Result<&'a Opt, Refusal> {
    if let Some(exact) = table.iter().find(|option| option.long == typed) {
        return Ok(exact);
    }
    let like: Vec<&Opt> = table.iter().filter(|option| option.long.starts_with(typed)).collect();
    let Some(first) = like.first().filter(|_| !typed.is_empty()) else {
        return Err(usage(format!("unrecognized option '--{text}'")));
    };
    if like.iter().all(|option| option.name == first.name) {
        return Ok(first);
    }
    let names: Vec<String> = like.iter().map(|option| format!("'--{}'", option.long)).collect();
    Err(usage(format!("option '--{text}' is ambiguous; possibilities: {}", names.join(" "))))
}

fn shorts<'a>(
    table: &[Opt],
    letters: &str,
    words: &mut impl Iterator<Item = &'a String>,
    given: &mut Vec<Given>,
) -> Result<(), Refusal> {
    let mut left = letters.chars();
    while let Some(letter) = left.next() {
        let option = table.iter().find(|option| option.short == letter && letter != ' ');
        let option = option.ok_or_else(|| usage(format!("invalid option -- '{letter}'")))?;
        let glued = left.as_str();
        let value = match option.takes {
            Takes::Nothing => None,
            Takes::Maybe => Some(glued.to_owned()).filter(|glued| !glued.is_empty()),
            Takes::Value if glued.is_empty() => match words.next() {
                Some(value) => Some(value.clone()),
                None => return Err(usage(format!("option requires an argument -- '{letter}'"))),
            },
            Takes::Value => Some(glued.to_owned()),
        };
        given.push(Given { name: option.name, value });
        if option.takes != Takes::Nothing {
            return Ok(());
        }
    }
    Ok(())
}
