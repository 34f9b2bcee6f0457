//! Parameters that nothing uses, and placeholders that no parameter fills in.

use std::path::Path;

use wharf_proto::JobSpec;

/// Largest script that is searched for variables of parameters.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;

/// How a program finds a parameter in its environment.
const VARIABLE: &str = "WHARF_PARAM_";

/// What is wrong with the placeholders of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders {
    /// Parameters without a placeholder, in a job that does not read their variables either.
    pub unused: Vec<String>,
    /// Placeholders without a parameter.
    pub unknown: Vec<String>,
    /// The same within a line of shell or another language, where braces mean other things too.
    pub doubtful: Vec<String>,
}

/// Compares the placeholders of a job with its parameters.
#[must_use]
pub fn placeholders(spec: &JobSpec) -> Placeholders {
    let names: &[String] = spec.parameters.as_ref().map_or(&[], |all| &all.names);
    let written = written(spec);
    let steps = spec.steps.iter().flat_map(|step| step.env.values());
    let texts: Vec<&str> =
        spec.env.values().chain(steps).map(String::as_str).chain(written.iter().copied()).collect();
    let is_used = |name: &&String| texts.iter().any(|text| text.contains(&format!("{{{name}}}")));
    let mut unused: Vec<String> = names.iter().filter(|name| !is_used(name)).cloned().collect();
    if !unused.is_empty() && reads_variables(spec, &texts) {
        unused.clear();
    }
    let mut found = Placeholders { unused, ..Placeholders::default() };
    for text in written {
        let is_doubtful = text.contains(char::is_whitespace);
        for name in braced(text).filter(|name| !names.iter().any(|known| known == name)) {
            let list = if is_doubtful { &mut found.doubtful } else { &mut found.unknown };
            if !list.iter().any(|known| known == name) {
                list.push(name.to_owned());
            }
        }
    }
    found
}

/// What a job's owner writes that parameters are filled in to; variables, which may come from a shell, are not among it.
fn written(spec: &JobSpec) -> Vec<&str> {
    let steps = spec.steps.iter().flat_map(|step| step.command.iter().chain([&step.name]));
    let checkpoint = spec.checkpoint.as_ref().map(|checkpoint| &checkpoint.dir);
    let files = [&spec.output, &spec.error_output].into_iter().chain(checkpoint);
    spec.command.iter().chain(steps).chain(files).map(String::as_str).collect()
}

/// Names in braces: `{lr}`, but neither `${HOME}` nor `{"a": 1}`.
fn braced(text: &str) -> impl Iterator<Item = &str> {
    let name = |(at, _): (usize, &str)| {
        let inner = &text[at + 1..];
        let name = &inner[..inner.find('}')?];
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.chars().all(is_letter);
        (is_name && !text[..at].ends_with('$')).then_some(name)
    };
    text.match_indices('{').filter_map(name)
}

/// Whether the job, or a script that it names and that can be read here, uses the variables of parameters.
fn reads_variables(spec: &JobSpec, texts: &[&str]) -> bool {
    let is_script = |word: &&str| {
        let path = Path::new(&spec.workdir).join(word);
        let is_small = path.metadata().is_ok_and(|found| found.is_file() && found.len() <= SCRIPT_BYTES_MAX);
        is_small
            && std::fs::read(path)
                .is_ok_and(|text| text.windows(VARIABLE.len()).any(|window| window == VARIABLE.as_bytes()))
    };
    let lines = spec.activate.iter().map(String::as_str);
    texts.iter().copied().chain(lines).any(|text| text.contains(VARIABLE) || is_script(&text))
}

#[cfg(test)]
mod tests {
    use wharf_proto::{Configuration, Parameters};

    use super::*;

    fn found(names: &[&str], command: &[&str], env: &[(&str, &str)]) -> Placeholders {
        let row = Configuration { values: names.iter().map(ToString::to_string).collect() };
        placeholders(&JobSpec {
            command: command.iter().map(ToString::to_string).collect(),
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            parameters: Some(Parameters {
                names: names.iter().map(ToString::to_string).collect(),
                rows: vec![row],
            }),
            ..JobSpec::default()
        })
    }

    fn of(unused: &[&str], unknown: &[&str], doubtful: &[&str]) -> Placeholders {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Placeholders { unused: owned(unused), unknown: owned(unknown), doubtful: owned(doubtful) }
    }

    #[test]
    fn placeholders_and_parameters_are_compared() {
        assert_eq!(found(&["lr", "n"], &["train", "--lr={lr}"], &[("N", "{n}")]), of(&[], &[], &[]));
        assert_eq!(found(&["lr"], &["train", "{learning_rate}"], &[]), of(&["lr"], &["learning_rate"], &[]));
        assert_eq!(found(&["lr"], &["sh", "-c", "echo $WHARF_PARAM_LR ${HOME}"], &[]), of(&[], &[], &[]));
        let other = ["awk", "{print $1}", "{\"a\": {}}", "{lr}", "${lr}", "echo {x} {x}"];
        assert_eq!(found(&["lr"], &other, &[]), of(&[], &[], &["x"]));
    }

    #[test]
    fn script_that_reads_variables_uses_its_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("train.py");
        std::fs::write(&script, "lr = 0.1\n").unwrap();
        let path = script.to_str().unwrap();
        assert_eq!(found(&["lr"], &["python", path], &[]).unused, ["lr"]);
        std::fs::write(&script, "lr = float(os.environ['WHARF_PARAM_LR'])\n").unwrap();
        assert!(found(&["lr"], &["python", path], &[]).unused.is_empty());
    }
}
