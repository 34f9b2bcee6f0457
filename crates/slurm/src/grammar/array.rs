//! Job arrays: `1-10:3,20%2`.

use std::collections::BTreeSet;
use std::fmt;

use super::refusal::Refusal;

/// The indexes of an array, and how many of its elements may run at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Each once, ascending.
    pub indexes: Vec<u32>,
    /// None: as many as there are.
    pub limit: Option<u32>,
    /// What SLURM_ARRAY_TASK_STEP says: the number after the first colon.
    pub step: u32,
}

impl Array {
    /// Reads a specification; indexes must be below `size_max`.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn parse(text: &str, size_max: u32) -> Result<Self, Refusal> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let indexes = indexes(inner, size_max).filter(|indexes| !indexes.is_empty());
        let refused = "Batch job submission failed: Invalid job array specification";
        let indexes = indexes.ok_or_else(|| Refusal::failed(refused))?;
        let after = |sign: char| inner.split_once(sign).map(|(_, rest)| leading(rest).0);
        let positive = |number: i64| u32::try_from(number).ok().filter(|number| *number > 0);
        Ok(Self {
            indexes: indexes.into_iter().collect(),
            limit: after('%').and_then(positive),
            step: after(':').and_then(positive).unwrap_or(1),
        })
    }
}

fn indexes(text: &str, size_max: u32) -> Option<BTreeSet<u32>> {
    let mut indexes = BTreeSet::new();
    for token in text.split(',').filter(|token| !token.is_empty()) {
        let (first, rest) = leading(token);
        let (last, step, rest) = match rest.strip_prefix('-') {
            None => (first, 1, rest),
            Some(rest) => {
                let (last, rest) = leading(rest);
                match rest.strip_prefix(':') {
                    None => (last, 1, rest),
                    Some(rest) => {
                        let (step, rest) = leading(rest);
                        (last, step, rest)
                    }
                }
            }
        };
        let is_whole = rest.is_empty() || rest.starts_with('%');
        if !is_whole || first < 0 || last < first || step <= 0 || last >= i64::from(size_max) {
            return None;
        }
        let step = usize::try_from(step).ok()?;
        indexes.extend((first..=last).step_by(step).filter_map(|index| u32::try_from(index).ok()));
    }
    Some(indexes)
}

/// A number as C reads it from the beginning of a text: no digits are 0. Blanks are not skipped.
fn leading(text: &str) -> (i64, &str) {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    if digits.is_empty() {
        return (0, text);
    }
    let number = digits.parse::<i64>().unwrap_or(i64::MAX);
    (if text.starts_with('-') { -number } else { number }, rest)
}

/// Ascending numbers as runs: `0,6,16-18`.
#[must_use]
pub fn runs(indexes: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", runs(&self.indexes))?;
        self.limit.map_or(Ok(()), |limit| write!(f, "%{limit}"))
    }
}
