//! What people call a job: its id, or an array's with the index of an element.

use std::fmt;
use std::str::FromStr;

use wharf_proto::JobSummary;

use crate::array::Array;

/// Characters of indexes in a list; more are left out.
const INDEXES_MAX: usize = 24;

/// A job, as in `12`, or an element of an array, as in `12_3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobNumber {
    /// The job's id; of an array that of its first element.
    pub job: u32,
    /// The element's index.
    pub index: Option<u32>,
}

/// A text that is no job's number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNumber {
    /// It is nothing that is known.
    #[error("expected a job id such as `12`, or an array element such as `12_3`")]
    Other,
    /// It is a file, as launchers have it in this place.
    #[error(
        "expected a job id such as `12`; for cluster files use `wharf cluster`, as in `wharf cluster exec {0} -- nvidia-smi`"
    )]
    File(String),
}

impl NoNumber {
    fn of(text: &str) -> Self {
        let is_file = [".yaml", ".yml"].iter().any(|end| text.ends_with(end));
        if is_file { Self::File(text.to_owned()) } else { Self::Other }
    }
}

impl FromStr for JobNumber {
    type Err = NoNumber;

    fn from_str(text: &str) -> Result<Self, NoNumber> {
        let number = |part: &str| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_plain).ok_or_else(|| NoNumber::of(text))
        };
        match text.split_once('_') {
            Some((job, index)) => Ok(Self { job: number(job)?, index: Some(number(index)?) }),
            None => Ok(Self { job: number(text)?, index: None }),
        }
    }
}

impl fmt::Display for JobNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}_{index}", self.job),
            None => write!(f, "{}", self.job),
        }
    }
}

impl JobNumber {
    /// What a job is called.
    #[must_use]
    pub fn of(job: &JobSummary) -> Self {
        let first = if job.array_index.is_some() { job.array_job } else { job.job_id };
        Self { job: first, index: job.array_index }
    }
}

/// Elements of one array, as in `12_[5-99]`; a single one as `12_5`.
#[must_use]
pub fn elements(job: u32, indexes: Vec<u32>) -> String {
    let (first, last) = (indexes.first().copied(), indexes.last().copied());
    let all = match Array::new(indexes) {
        Ok(all) => all.to_string(),
        Err(_) => return job.to_string(),
    };
    match (first, last) {
        (Some(first), Some(last)) if first == last => format!("{job}_{first}"),
        (Some(first), Some(last)) if all.len() > INDEXES_MAX => format!("{job}_[{first}..{last}]"),
        _ => format!("{job}_[{all}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written() {
        for text in ["0", "12", "12_0", "12_99999"] {
            assert_eq!(text.parse::<JobNumber>().unwrap().to_string(), text);
        }
        for text in ["", "_", "12_", "_3", "12_3_4", "-1", "+1", "12_+3", "4294967296", "a"] {
            assert_eq!(text.parse::<JobNumber>(), Err(NoNumber::Other), "{text}");
        }
        let told = "lab_1.yaml".parse::<JobNumber>().unwrap_err().to_string();
        assert!(told.contains("wharf cluster exec lab_1.yaml"), "{told}");
    }

    #[test]
    fn elements_are_shown_in_short() {
        for (indexes, expected) in [
            (vec![5], "12_5"),
            ((5..100).collect(), "12_[5-99]"),
            (vec![1, 2, 9], "12_[1-2,9]"),
            ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512].to_vec(), "12_[1..512]"),
        ] {
            assert_eq!(elements(12, indexes), expected);
        }
    }
}
