//! Indexes of an array: `0-99`, `1,3,5-9:2`.

use std::fmt;
use std::str::FromStr;

use crate::check::ARRAY_MAX;

/// The indexes of an array's elements, in ascending order without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Array(Vec<u32>);

/// Why a text names no indexes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// A text that is no number.
    #[error("`{0}` is not an index; expected indexes and ranges such as `0-99` or `1,3,5-9:2`")]
    Number(String),
    /// A range the wrong way round.
    #[error("range `{0}` ends before it begins; swap its ends")]
    Backwards(String),
    /// A range that would never get on.
    #[error("range `{0}` has a step of 0; steps begin at 1")]
    Step(String),
    /// An index twice.
    #[error("index {0} is listed twice")]
    Twice(u32),
    /// Too many indexes.
    #[error("more than {ARRAY_MAX} indexes; split the array into several")]
    Large,
    /// No index at all.
    #[error("it is empty; set indexes such as `0-99`, or remove the array")]
    Empty,
}

impl Array {
    /// The indexes.
    #[must_use]
    pub fn into_indexes(self) -> Vec<u32> {
        self.0
    }

    /// An array of these indexes, in whatever order.
    ///
    /// # Errors
    /// [`ArrayError`] where there is none, or one twice.
    pub fn new(mut indexes: Vec<u32>) -> Result<Self, ArrayError> {
        indexes.sort_unstable();
        if let Some(pair) = indexes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ArrayError::Twice(pair[0]));
        }
        if indexes.is_empty() {
            return Err(ArrayError::Empty);
        }
        Ok(Self(indexes))
    }
}

impl FromStr for Array {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let mut indexes: Vec<u32> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let number = |text: &str| text.parse().map_err(|_| ArrayError::Number(text.to_owned()));
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if last < first {
                return Err(ArrayError::Backwards(part.to_owned()));
            }
            if step == 0 {
                return Err(ArrayError::Step(part.to_owned()));
            }
            // Counted before it is made: `0-4000000000` must not fill the memory.
            let count = ((last - first) / step) as usize + 1;
            if indexes.len() + count > ARRAY_MAX {
                return Err(ArrayError::Large);
            }
            indexes.extend((first..=last).step_by(step as usize));
        }
        Self::new(indexes)
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some((&first, others)) = rest.split_first() {
            let step = others.first().map_or(1, |next| next - first);
            let run = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
            // Two indexes are a range only where they are neighbours.
            let run = if run == 2 && step > 1 { 1 } else { run };
            let last = rest[run - 1];
            match (run, step) {
                (1, _) => write!(f, "{separator}{first}")?,
                (_, 1) => write!(f, "{separator}{first}-{last}")?,
                _ => write!(f, "{separator}{first}-{last}:{step}")?,
            }
            separator = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        for (text, indexes, written) in [
            ("0-3", &[0u32, 1, 2, 3] as &[u32], "0-3"),
            ("1,3,5-9:2", &[1, 3, 5, 7, 9], "1-9:2"),
            ("7", &[7], "7"),
            ("4, 2", &[2, 4], "2,4"),
            ("0-10:4", &[0, 4, 8], "0-8:4"),
        ] {
            let array: Array = text.parse().unwrap();
            assert_eq!(array.to_string(), written);
            assert_eq!(array.into_indexes(), indexes, "{text}");
        }
    }

    #[test]
    fn malformed_array_is_rejected() {
        for (text, message) in [
            ("", "`` is not an index; expected indexes and ranges such as `0-99` or `1,3,5-9:2`"),
            ("a-b", "`a` is not an index; expected indexes and ranges such as `0-99` or `1,3,5-9:2`"),
            ("-1", "`` is not an index; expected indexes and ranges such as `0-99` or `1,3,5-9:2`"),
            ("9-5", "range `9-5` ends before it begins; swap its ends"),
            ("0-9:0", "range `0-9:0` has a step of 0; steps begin at 1"),
            ("1,0-3", "index 1 is listed twice"),
            ("0-4000000000", "more than 1000000 indexes; split the array into several"),
        ] {
            assert_eq!(text.parse::<Array>().unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(indexes in btree_set(0u32..200, 1..60)) {
            let array = Array::new(indexes.into_iter().collect()).unwrap();
            prop_assert_eq!(array.to_string().parse::<Array>().unwrap(), array);
        }
    }
}
