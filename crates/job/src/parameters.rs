//! What the elements of an array have different from each other: a sweep over parameters is one array.
//!
//! The spec is one for all elements. What an element is told is filled in when it is launched, so that neither a file that all
//! nodes see nor a program before the command is needed.

use std::collections::BTreeSet;

use wharf_proto::{JobSpec, Parameters, Step};

use crate::check::Problem;

/// The values of one element.
#[derive(Clone, Debug)]
pub struct Chosen<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Chosen<'a> {
    /// Those of an element; none for a job without any.
    #[must_use]
    pub fn of(spec: &'a JobSpec, index: Option<u32>) -> Self {
        let found = spec.parameters.as_ref().zip(index).and_then(|(parameters, index)| {
            let row = parameters.rows.get(index as usize)?;
            Some(
                parameters.names.iter().zip(&row.values).map(|(name, value)| (name.as_str(), value.as_str())),
            )
        });
        Self(found.map(Iterator::collect).unwrap_or_default())
    }

    /// The text with values instead of `{name}`. Other braces stay as they are, and values are not checked again.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{').filter(|_| !self.0.is_empty()) {
            let (before, from) = rest.split_at(at);
            filled += before;
            let found = self.0.iter().find_map(|(name, value)| {
                let after = from.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}')?;
                Some((*value, after))
            });
            rest = match found {
                Some((value, after)) => {
                    filled += value;
                    after
                }
                None => {
                    filled.push('{');
                    &from[1..]
                }
            };
        }
        filled + rest
    }

    /// The texts, filled in.
    #[must_use]
    pub fn fill_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.fill(text)).collect()
    }

    /// A step, filled in.
    #[must_use]
    pub fn fill_step(&self, step: &Step) -> Step {
        let env = step.env.iter().map(|(name, value)| (name.clone(), self.fill(value))).collect();
        Step { name: self.fill(&step.name), command: self.fill_all(&step.command), env }
    }

    /// The variables that an element has: its own with values filled in, and one for each parameter.
    #[must_use]
    pub fn variables<M>(&self, env: &M) -> M
    where
        M: Clone + Extend<(String, String)> + FromIterator<(String, String)>,
        for<'m> &'m M: IntoIterator<Item = (&'m String, &'m String)>,
    {
        if self.0.is_empty() {
            return env.clone();
        }
        let own = env.into_iter().map(|(name, value)| (name.clone(), self.fill(value)));
        let told = self.0.iter().map(|(name, value)| (variable(name), (*value).to_owned()));
        own.chain(told).collect()
    }
}

/// The variable that tells a parameter: `learning-rate` is `WHARF_PARAM_LEARNING_RATE`.
fn variable(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("WHARF_PARAM_{}", name.chars().map(plain).collect::<String>())
}

/// What is wrong with a job's parameters, where anything is.
pub(crate) fn problem(spec: &JobSpec) -> Option<Problem> {
    let Parameters { names, rows } = spec.parameters.as_ref()?;
    let is_plain = |name: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        !name.is_empty() && name.len() <= 64 && name.chars().all(is_letter)
    };
    if let Some(name) = names.iter().find(|name| !is_plain(name)) {
        return Some(Problem::ParameterName(name.escape_debug().to_string()));
    }
    let mut variables = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !variables.insert(variable(name))) {
        return Some(Problem::ParameterTwice(name.clone()));
    }
    if rows.iter().any(|row| row.values.len() != names.len()) {
        return Some(Problem::ParameterRows);
    }
    if rows.iter().flat_map(|row| &row.values).any(|value| value.contains('\0')) {
        return Some(Problem::Nul);
    }
    let has_row = |index: &u32| (*index as usize) < rows.len();
    (spec.array.is_empty() || !spec.array.iter().all(has_row)).then_some(Problem::ParameterRows)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use wharf_proto::Configuration;

    use super::*;

    fn spec(names: &[&str], rows: &[&[&str]]) -> JobSpec {
        let row =
            |values: &&[&str]| Configuration { values: values.iter().map(ToString::to_string).collect() };
        let names = names.iter().map(ToString::to_string).collect();
        JobSpec {
            array: (0..rows.len() as u32).collect(),
            parameters: Some(Parameters { names, rows: rows.iter().map(row).collect() }),
            ..JobSpec::default()
        }
    }

    #[test]
    fn values_take_the_place_of_their_names_and_nothing_else_changes() {
        let spec = spec(&["lr", "act"], &[&["0.1", "{lr}"], &["0.2", "relu"]]);
        for (index, text, expected) in [
            (Some(1), "--lr={lr} {act}{act}", "--lr=0.2 relurelu"),
            (Some(0), "{act}", "{lr}"),
            (Some(1), "{} {LR} ${lr} {{lr}} {lr", "{} {LR} $0.2 {0.2} {lr"),
            (Some(7), "{lr}", "{lr}"),
            (None, "{lr}", "{lr}"),
        ] {
            assert_eq!(Chosen::of(&spec, index).fill(text), expected, "{text}");
        }
        let env = HashMap::from([("RATE".to_owned(), "{lr}".to_owned())]);
        let told = Chosen::of(&spec, Some(1)).variables(&env);
        let mut told: Vec<String> = told.iter().map(|(name, value)| format!("{name}={value}")).collect();
        told.sort();
        assert_eq!(told, ["RATE=0.2", "WHARF_PARAM_ACT=relu", "WHARF_PARAM_LR=0.2"]);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        assert_eq!(problem(&spec(&["lr"], &[&["1"], &["2"]])), None);
        assert_eq!(problem(&JobSpec::default()), None);
        type Rows<'a> = &'a [&'a [&'a str]];
        let table: &[(&[&str], Rows<'_>, Problem)] = &[
            (&["a b"], &[&["1"]], Problem::ParameterName("a b".into())),
            (&["a-b", "a_b"], &[&["1", "2"]], Problem::ParameterTwice("a_b".into())),
            (&["a"], &[&["1", "2"]], Problem::ParameterRows),
            (&["a"], &[], Problem::ParameterRows),
            (&["a"], &[&["\0"]], Problem::Nul),
        ];
        for (names, rows, expected) in table {
            assert_eq!(problem(&spec(names, rows)).as_ref(), Some(expected), "{names:?}");
        }
        let beyond = JobSpec { array: vec![2], ..spec(&["a"], &[&["1"]]) };
        assert_eq!(problem(&beyond), Some(Problem::ParameterRows));
    }
}
