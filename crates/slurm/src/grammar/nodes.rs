//! How many nodes a job wants.

use std::fmt;

use super::refusal::{Kind, Refusal};

/// At least and at most so many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCount {
    /// The least.
    pub min: u32,
    /// The most.
    pub max: u32,
}

impl NodeCount {
    /// Reads `n` or `min-max`, each with an optional `k` or `m`.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = |text: &str| Refusal::new(Kind::Value, format!("\"{text}\" is not a valid node count"));
        let (min, max) = match text.split_once('-') {
            Some((min, max)) => (min, Some(max)),
            None => (text, None),
        };
        let less = |max: &str, min: u32| {
            let text = format!("Maximum node count {max} is less than minimum node count {min}");
            Refusal::new(Kind::Value, text)
        };
        let min = count(min).ok_or_else(|| bad(min))?;
        let max = match max {
            None => min,
            Some("") => return Err(less("-1", min)),
            Some(max) => count(max).ok_or_else(|| bad(max))?,
        };
        if max < min { Err(less(&max.to_string(), min)) } else { Ok(Self { min, max }) }
    }
}

fn count(text: &str) -> Option<u32> {
    let text = text.trim_end();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1 << 10),
        'm' | 'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u32>().ok().filter(|_| is_number)?.checked_mul(factor)
}

impl fmt::Display for NodeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}-{}", self.min, self.max) }
    }
}
