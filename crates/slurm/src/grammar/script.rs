//! Batch scripts: which are taken, and the options that they hold.

use super::refusal::{Kind, Refusal};

/// Whether a text can be a batch script; it must also be UTF-8, which Slurm does not ask for.
///
/// # Errors
/// [`Refusal`] with what sbatch would say.
pub fn accept(bytes: &[u8]) -> Result<&str, Refusal> {
    let refused = |text: &str| Err(Refusal::new(Kind::Failed, text));
    if bytes.is_empty() {
        return refused("Batch script is empty!");
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return refused("Batch script contains only whitespace!");
    }
    if !bytes.starts_with(b"#!") {
        return refused(
            "This does not look like a batch script.  The first\n\
             line must start with #! followed by the path to an interpreter.\n\
             For instance: #!/bin/sh",
        );
    }
    if bytes.contains(&0) {
        return refused("The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.");
    }
    if bytes.windows(2).any(|pair| pair == b"\r\n") {
        return refused(
            "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n).",
        );
    }
    std::str::from_utf8(bytes).map_err(|_| Refusal::new(Kind::Failed, "Batch script is not UTF-8 text"))
}

/// The script that `--wrap` makes of a command.
#[must_use]
pub fn wrapped(command: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
}

/// What the directives of a script say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// The words of all `#SBATCH` lines, one after the other.
    pub words: Vec<String>,
    /// There was a `#SLURM` line.
    pub says_slurm: bool,
    /// What `#PBS` and `#BSUB` lines say in sbatch's words.
    pub translated: Vec<String>,
}

/// Finds the directives of a script; `name` is what messages call it.
///
/// # Errors
/// [`Refusal`] for a quote that is not closed, a word that begins with a colon, and heterogeneous jobs.
pub fn directives(name: &str, script: &str) -> Result<Directives, Refusal> {
    let mut found = Directives::default();
    for (index, line) in script.split('\n').enumerate() {
        let place = Place { name, line: index + 1 };
        if let Some(rest) = line.strip_prefix("#SBATCH") {
            place.words(rest, &mut found.words)?;
        } else if let Some(rest) = line.strip_prefix("#SLURM") {
            found.says_slurm = true;
            place.words(rest, &mut found.words)?;
        } else if let Some(rest) = line.strip_prefix("#PBS") {
            let mut words = Vec::new();
            place.words(rest, &mut words)?;
            found.translated.extend(of_pbs(&words));
        } else if let Some(rest) = line.strip_prefix("#BSUB") {
            let mut words = Vec::new();
            place.words(rest, &mut words)?;
            found.translated.extend(of_lsf(&words));
        } else if line.trim_start().starts_with('#') || line.trim().is_empty() {
            continue;
        } else {
            break;
        }
    }
    Ok(found)
}

struct Place<'a> {
    name: &'a str,
    line: usize,
}

impl Place<'_> {
    fn words(&self, rest: &str, words: &mut Vec<String>) -> Result<(), Refusal> {
        let shown = rest.trim_start();
        let fatal = |what: String| {
            let text = format!("{}: line {}: {what} in [{shown}]", self.name, self.line);
            Refusal::new(Kind::Fatal, text)
        };
        let mut letters = rest.chars().peekable();
        let mut is_first = true;
        loop {
            match word(&mut letters).map_err(|quote| fatal(format!("Unmatched `{quote}`")))? {
                None => return Ok(()),
                Some(word) if word.starts_with(':') => return Err(fatal("Unexpected `:`".to_owned())),
                Some(word) if is_first && (word == "hetjob" || word == "packjob") => {
                    return Err(Refusal::failed(
                        "heterogeneous jobs (hetjob) are not supported; submit their parts",
                    ));
                }
                Some(word) => words.push(word),
            }
            is_first = false;
        }
    }
}

/// The words of a line, with quotes as in directives.
pub(super) fn words(line: &str) -> Result<Vec<String>, Refusal> {
    let mut letters = line.chars().peekable();
    let mut words = Vec::new();
    let unmatched = |quote| Refusal::failed(format!("Unmatched `{quote}` in [{line}]"));
    while let Some(word) = word(&mut letters).map_err(unmatched)? {
        words.push(word);
    }
    Ok(words)
}

/// The next word of a line; none at its end, which a word without letters is too. The error is a quote that is not closed.
fn word(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<String>, char> {
    while letters.next_if(|letter| letter.is_ascii_whitespace()).is_some() {}
    let mut word = String::new();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => match letters.next() {
                // A blank ends the word all the same, as up to Slurm 23.11.
                Some(next) if quote.is_none() && next.is_ascii_whitespace() => break,
                Some(next) => word.push(next),
                None => {}
            },
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if open == letter => quote = None,
            (_, Some(_)) => word.push(letter),
            ('#', None) => {
                letters.by_ref().for_each(drop);
                break;
            }
            (_, None) if letter.is_ascii_whitespace() => break,
            (_, None) => word.push(letter),
        }
    }
    match quote {
        Some(quote) => Err(quote),
        None => Ok(Some(word).filter(|word| !word.is_empty())),
    }
}

/// PBS options in sbatch's words; what has no counterpart is left out.
fn of_pbs(words: &[String]) -> Vec<String> {
    pairs(words)
        .flat_map(|(letter, value)| match letter {
            'N' => vec![format!("--job-name={value}")],
            'o' => vec![format!("--output={value}")],
            'e' => vec![format!("--error={value}")],
            'q' => vec![format!("--partition={value}")],
            'A' => vec![format!("--account={value}")],
            'J' | 't' => vec![format!("--array={value}")],
            'a' => vec![format!("--begin={value}")],
            'h' => vec!["--hold".to_owned()],
            'l' => value.split(',').filter_map(pbs_resource).collect(),
            _ => Vec::new(),
        })
        .collect()
}

fn pbs_resource(resource: &str) -> Option<String> {
    let (name, value) = resource.split_once('=')?;
    match name {
        "walltime" => Some(format!("--time={value}")),
        "mem" | "pmem" => Some(format!("--mem={}", value.trim_end_matches(['b', 'B']))),
        "nodes" => Some(format!("--nodes={}", value.split(':').next().unwrap_or(value))),
        "ncpus" | "ppn" => Some(format!("--cpus-per-task={value}")),
        _ => None,
    }
}

/// LSF options in sbatch's words; what has no counterpart is left out.
fn of_lsf(words: &[String]) -> Vec<String> {
    pairs(words)
        .filter_map(|(letter, value)| match letter {
            'J' => Some(format!("--job-name={value}")),
            'o' => Some(format!("--output={value}")),
            'e' => Some(format!("--error={value}")),
            'i' => Some(format!("--input={value}")),
            'q' => Some(format!("--partition={value}")),
            'n' => Some(format!("--ntasks={value}")),
            'W' => Some(format!("--time={value}")),
            'P' => Some(format!("--account={value}")),
            'x' => Some("--exclusive".to_owned()),
            _ => None,
        })
        .collect()
}

/// Options of one letter with their values, as both systems write them.
fn pairs(words: &[String]) -> impl Iterator<Item = (char, String)> {
    let mut words = words.iter();
    std::iter::from_fn(move || {
        let mut letters = words.next()?.strip_prefix('-')?.chars();
        let letter = letters.next()?;
        let glued = letters.as_str();
        let value = match (letter, glued) {
            ('h' | 'x', _) => String::new(),
            (_, "") => words.next().cloned().unwrap_or_default(),
            (_, glued) => glued.to_owned(),
        };
        Some((letter, value))
    })
}
