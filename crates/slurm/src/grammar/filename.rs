//! Names of files with patterns such as `%j`.

/// Where a job that is no array writes, and an element of one.
pub const OUTPUT: &str = "slurm-%j.out";
/// Where an element of an array writes.
pub const OUTPUT_OF_ARRAY: &str = "slurm-%A_%a.out";

/// The most digits that a number is padded to.
const WIDTH_MAX: usize = 10;
/// What `%a` is of a job that is no array.
const NO_INDEX: u32 = 4_294_967_294;

/// What the patterns of a batch script's files stand for.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The job's id.
    pub job: u32,
    /// The array's id and the element's index.
    pub array: Option<(u32, u32)>,
    /// The first node's name.
    pub node: &'a str,
    /// The job's name.
    pub name: &'a str,
    /// Its owner.
    pub user: &'a str,
    /// The task of a step that they are of; none: they are the batch script's.
    pub task: Option<Task>,
}

/// A task of a step.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Which step.
    pub step: u32,
    /// Which of the step's nodes it is on.
    pub node: u32,
    /// Its rank in the step.
    pub rank: u32,
}

impl Names<'_> {
    /// Fills in a pattern. A backslash anywhere turns that off, and one level of them is taken away.
    #[must_use]
    pub fn expand(&self, pattern: &str) -> String {
        if pattern.contains('\\') {
            return unescaped(pattern);
        }
        let mut text = String::with_capacity(pattern.len());
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('%') {
            text += before;
            let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
            let (digits, after) = after.split_at(end);
            let width = digits.parse::<usize>().unwrap_or(if digits.is_empty() { 0 } else { WIDTH_MAX });
            let mut letters = after.chars();
            let letter = letters.next();
            match letter.and_then(|letter| self.value(letter, width.min(WIDTH_MAX))) {
                Some(value) => text += &value,
                None => {
                    text.push('%');
                    text += digits;
                    text.extend(letter);
                }
            }
            rest = letters.as_str();
        }
        text + rest
    }

    fn value(&self, letter: char, width: usize) -> Option<String> {
        let padded = |number: u32| format!("{number:0width$}");
        Some(match (letter, self.task) {
            ('J', Some(task)) => format!("{}.{}", padded(self.job), task.step),
            ('n', Some(task)) => padded(task.node),
            ('s', Some(task)) => padded(task.step),
            ('t', Some(task)) => padded(task.rank),
            // The batch script is task 0 on node 0 of a step of its own.
            ('n' | 't', None) => padded(0),
            ('s', None) => "batch".to_owned(),
            ('j' | 'J', _) => padded(self.job),
            ('A', _) => padded(self.array.map_or(self.job, |(array, _)| array)),
            ('a', _) => padded(self.array.map_or(NO_INDEX, |(_, index)| index)),
            ('N', _) => self.node.split('.').next().unwrap_or(self.node).to_owned(),
            ('u', _) => self.user.to_owned(),
            ('x', _) => self.name.to_owned(),
            ('%', _) => "%".to_owned(),
            _ => return None,
        })
    }
}

fn unescaped(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_step_are_distinguished_by_task_and_node() {
        let task = Some(Task { step: 3, node: 1, rank: 5 });
        let names = Names { job: 12, array: None, node: "n2.site", name: "run", user: "ann", task };
        for (pattern, expected) in [
            ("job%j-%t.out", "job12-5.out"),
            ("%J_%2n_%N", "12.3_01_n2"),
            ("%x.%s.%u%%", "run.3.ann%"),
            ("plain", "plain"),
        ] {
            assert_eq!(names.expand(pattern), expected, "{pattern}");
        }
    }
}
