//! Which variables of the submitting shell a job gets.

use std::collections::BTreeMap;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// What `--export` gives a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The variables.
    pub variables: Variables,
    /// Those that its owner has after a login on the node come before these.
    pub wants_login: bool,
    /// What SLURM_EXPORT_ENV says; none where everything is exported.
    pub said: Option<String>,
}

/// The variables in a file of `--export-file`: `NAME=value`, each ended by a zero byte. What is not UTF-8 is left out.
#[must_use]
pub fn of_file(bytes: &[u8]) -> Variables {
    let pair = |bytes: &[u8]| {
        let (name, value) = std::str::from_utf8(bytes).ok()?.split_once('=')?;
        (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

/// What a job gets of a shell's environment.
#[must_use]
pub fn exported(export: Option<&str>, shell: &Variables) -> Exported {
    let own = || shell.iter().filter(|(name, _)| name.starts_with("SLURM_") || name.starts_with("SPANK_"));
    let cloned = |(name, value): (&String, &String)| (name.clone(), value.clone());
    let all = || shell.iter().map(cloned).collect::<Variables>();
    let mut result = match export {
        None | Some("ALL") => return Exported { variables: all(), ..Exported::default() },
        Some("NONE") => Exported { variables: own().map(cloned).collect(), wants_login: true, said: None },
        Some("NIL") => Exported { variables: own().map(cloned).collect(), wants_login: false, said: None },
        Some(list) => of_list(list, shell, own().map(cloned).collect(), all),
    };
    result.said = export.map(str::to_owned);
    result
}

fn of_list(list: &str, shell: &Variables, own: Variables, all: impl Fn() -> Variables) -> Exported {
    let words = words(list);
    let is_all = words.iter().any(|word| word == "ALL");
    let mut variables = if is_all { all() } else { own };
    for word in words {
        match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                drop(variables.insert(name.to_owned(), value.to_owned()))
            }
            _ => drop(shell.get(&word).map(|value| variables.insert(word.clone(), value.clone()))),
        }
    }
    Exported { variables, wants_login: !is_all, said: None }
}

/// A list of `--export` as it may be shown: values of variables that are named like secrets are masked.
#[must_use]
pub fn masked(list: &str, is_secret: impl Fn(&str) -> bool) -> String {
    let mut is_masked = false;
    let mut shown = words(list);
    for word in &mut shown {
        if let Some((name, _)) = word.split_once('=').filter(|(name, _)| is_secret(name)) {
            *word = format!("{name}=***");
            is_masked = true;
        }
    }
    if is_masked { shown.join(",") } else { list.to_owned() }
}

/// Splits at commas that are not in quotes, and takes the quotes away.
fn words(list: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for letter in list.chars() {
        match (letter, quote) {
            (',', None) => words.push(String::new()),
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if open == letter => quote = None,
            _ => {
                if let Some(word) = words.last_mut() {
                    word.push(letter);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_files() {
        let read = of_file(b"A=1\0B=x=y\nz\0=odd\0none\0EMPTY=\0");
        let expected = [("A", "1"), ("B", "x=y\nz"), ("EMPTY", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
