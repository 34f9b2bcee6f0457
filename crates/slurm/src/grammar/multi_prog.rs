//! Files of `srun --multi-prog`: which task runs which command.

use super::refusal::Refusal;
use super::script;

/// A line: ranks, none for all others, and the command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    ranks: Option<Vec<u32>>,
    words: Vec<String>,
}

/// The commands of a step's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs(Vec<Line>);

impl Programs {
    /// Reads lines such as `0-3,5 program %t %o`, `* other`; `#` begins a comment, `\` at the end continues a line.
    ///
    /// # Errors
    /// [`Refusal`] with the line that is none.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let mut lines = Vec::new();
        for line in text.replace("\\\n", " ").lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid = || Refusal::failed(format!("Invalid line of the --multi-prog file: {line}"));
            let (ranks, command) = line.split_once(char::is_whitespace).ok_or_else(invalid)?;
            let ranks = if ranks == "*" { None } else { Some(numbers(ranks).ok_or_else(invalid)?) };
            let words = script::words(command)?;
            if words.is_empty() {
                return Err(invalid());
            }
            lines.push(Line { ranks, words });
        }
        Ok(Self(lines))
    }

    /// The command of a task: `%t` is its rank, `%o` its position among the ranks of its line.
    ///
    /// # Errors
    /// [`Refusal`] where no line is for it.
    pub fn command(&self, rank: u32) -> Result<Vec<String>, Refusal> {
        let position = |line: &Line| match &line.ranks {
            Some(ranks) => ranks.iter().position(|one| *one == rank),
            None => Some(rank as usize),
        };
        let found = self.0.iter().find_map(|line| Some((line, position(line)?)));
        let (line, offset) = found
            .ok_or_else(|| Refusal::failed(format!("Configuration file has no command for task {rank}")))?;
        let expanded =
            |word: &String| word.replace("%t", &rank.to_string()).replace("%o", &offset.to_string());
        Ok(line.words.iter().map(expanded).collect())
    }
}

/// Numbers of `0-3,5`.
fn numbers(text: &str) -> Option<Vec<u32>> {
    const RANK_MAX: u32 = 1_000_000;
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last > RANK_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_the_commands_of_their_lines() {
        let text = "# an example of Slurm's manual\n4-6       hostname\n1,7       echo  task:%t\n0,2-3     echo 'offset: %o'\n";
        let programs = Programs::parse(text).unwrap();
        for (rank, expected) in [
            (0, Ok(vec!["echo", "offset: 0"])),
            (1, Ok(vec!["echo", "task:1"])),
            (3, Ok(vec!["echo", "offset: 2"])),
            (5, Ok(vec!["hostname"])),
            (7, Ok(vec!["echo", "task:7"])),
            (8, Err(())),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(programs.command(rank).map_err(drop), expected, "{rank}");
        }
        let rest = Programs::parse("0 server --port 5 \\\n --verbose\n* client %t\n").unwrap();
        assert_eq!(rest.command(0).unwrap(), ["server", "--port", "5", "--verbose"]);
        assert_eq!(rest.command(9).unwrap(), ["client", "9"]);
        for text in ["0", "a-b true", "5-2000000 true"] {
            assert!(Programs::parse(text).is_err(), "{text}");
        }
    }
}
