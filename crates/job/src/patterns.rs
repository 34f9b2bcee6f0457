//! Patterns in the paths of jobs, such as `%j`.

/// What the patterns in a job's paths stand for, in one of its tasks.
#[derive(Clone, Copy, Debug)]
pub struct PatternValues<'a> {
    /// The job's id.
    pub job: u32,
    /// The first job of its array, or its own id.
    pub array_job: u32,
    /// Its index in the array.
    pub array_index: Option<u32>,
    /// The node's rank in the gang.
    pub rank: usize,
    /// The node's name.
    pub node: &'a str,
    /// The job's name.
    pub name: &'a str,
    /// The job's user.
    pub user: &'a str,
}

impl PatternValues<'_> {
    /// Fills in `%j`, `%A`, `%a`, `%n`, `%N`, `%x`, `%u` and `%%`; other letters stay as they are.
    #[must_use]
    pub fn expand(&self, pattern: &str) -> String {
        let mut text = String::with_capacity(pattern.len());
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            match letters.next() {
                Some('j') => text += &self.job.to_string(),
                Some('A') => text += &self.array_job.to_string(),
                Some('a') => text += &self.array_index.unwrap_or(0).to_string(),
                Some('n') => text += &self.rank.to_string(),
                Some('N') => text += self.node,
                Some('x') => text += self.name,
                Some('u') => text += self.user,
                Some('%') => text.push('%'),
                Some(other) => text.extend(['%', other]),
                None => text.push('%'),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled_in() {
        let names = PatternValues {
            job: 12,
            array_job: 10,
            array_index: Some(2),
            rank: 1,
            node: "left",
            name: "train",
            user: "ann",
        };
        for (pattern, expected) in [
            ("logs/%x-%A_%a.%n", "logs/train-10_2.1"),
            ("%j-%N-%u", "12-left-ann"),
            ("100%% %q %", "100% %q %"),
            ("", ""),
        ] {
            assert_eq!(names.expand(pattern), expected, "{pattern}");
        }
    }
}
