//! Plans as users write them: `tp=8,pp=8,dp=4,mb=2,vp=2,recompute=selective`. What is not said is for the planner to choose.

use std::str::FromStr;

use crate::options::{Fixed, Options, Recompute};

/// Keys of a plan, and what they mean.
pub const KEYS: [(&str, &str); 9] = [
    ("tp", "tensor parallelism"),
    ("pp", "pipeline stages"),
    ("dp", "replicas"),
    ("cp", "context parallelism"),
    ("ep", "expert parallelism"),
    ("mb", "samples of a microbatch"),
    ("vp", "chunks of layers on each stage"),
    ("recompute", "none, selective, full"),
    ("zero", "ZeRO stage"),
];

/// What a user decides of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// Degrees.
    pub fixed: Fixed,
    /// Chunks of layers on each stage.
    pub chunks: Option<u32>,
    /// What the backward pass computes anew.
    pub recompute: Option<Recompute>,
    /// ZeRO stage.
    pub zero: Option<u8>,
}

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactError {
    /// A part is not KEY=VALUE.
    #[error("`{part}` is not KEY=VALUE; keys are {}", KEYS.map(|(key, _)| key).join(", "))]
    Part {
        /// The part.
        part: String,
    },
    /// A value is none.
    #[error("`{key}={value}`: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it can be.
        expected: &'static str,
    },
    /// A key is there twice.
    #[error("`{key}` is given twice")]
    Twice {
        /// The key.
        key: String,
    },
}

impl FromStr for Exact {
    type Err = ExactError;

    fn from_str(text: &str) -> Result<Self, ExactError> {
        let mut exact = Self::default();
        let mut known: Vec<&str> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || ExactError::Part { part: part.to_owned() };
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let (key, value) = (key.trim(), value.trim());
            if known.contains(&key) {
                return Err(ExactError::Twice { key: key.to_owned() });
            }
            known.push(key);
            let value_error =
                |expected| ExactError::Value { key: key.to_owned(), value: value.to_owned(), expected };
            let count = || {
                let count = value.parse::<u32>().ok().filter(|count| *count > 0);
                count.map(Some).ok_or_else(|| value_error("a whole number of at least 1"))
            };
            match key {
                "tp" => exact.fixed.tensor = count()?,
                "pp" => exact.fixed.pipeline = count()?,
                "dp" => exact.fixed.data = count()?,
                "cp" => exact.fixed.context = count()?,
                "ep" => exact.fixed.expert = count()?,
                "mb" => exact.fixed.samples = count()?,
                "vp" => exact.chunks = count()?,
                "recompute" => {
                    let found = Recompute::from_name(value);
                    exact.recompute = Some(found.ok_or_else(|| value_error("none, selective or full"))?);
                }
                "zero" => {
                    let stage = value.parse::<u8>().ok().filter(|stage| *stage <= 3);
                    exact.zero = Some(stage.ok_or_else(|| value_error("0, 1, 2 or 3"))?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(exact)
    }
}

impl Exact {
    /// Options with what is decided here.
    #[must_use]
    pub fn over(self, options: Options) -> Options {
        Options {
            fixed: self.fixed,
            chunks: self.chunks.unwrap_or(options.chunks),
            recompute: self.recompute.unwrap_or(options.recompute),
            zero: self.zero.unwrap_or(options.zero),
            ..options
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_mistakes_name_what_would_be_valid() {
        let plan: Result<Exact, _> = "tp=8, pp=4,dp=2,mb=2,vp=2,recompute=selective,zero=1".parse();
        let fixed =
            Fixed { tensor: Some(8), pipeline: Some(4), data: Some(2), samples: Some(2), ..Fixed::default() };
        let expected = Exact { fixed, chunks: Some(2), recompute: Some(Recompute::Selective), zero: Some(1) };
        assert_eq!(plan, Ok(expected));
        assert_eq!("".parse(), Ok(Exact::default()));
        for (text, part) in [
            ("tp", "keys are tp, pp"),
            ("xp=2", "keys are tp, pp"),
            ("tp=0", "at least 1"),
            ("tp=2,tp=4", "twice"),
            ("recompute=half", "none, selective or full"),
            ("zero=4", "0, 1, 2 or 3"),
        ] {
            let error = text.parse::<Exact>().map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(part)), "{text}: {error:?}");
        }
    }
}
