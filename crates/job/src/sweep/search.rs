//! Which configurations a search checks.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use wharf_document::decode::{Decode, Fields, Problem, written};
use wharf_document::node::{Node, Value};
use wharf_proto::{Configuration, Parameters};

use super::number;
use crate::check::ARRAY_MAX;
use crate::choice::choices;
use crate::units::UnitError;

/// What a parameter can be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Domain {
    /// One of these.
    Values(Vec<String>),
    /// Anything in between.
    Span(Span),
}

/// Numbers from `min` to `max`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    min: f64,
    max: f64,
    is_log: bool,
    is_whole: bool,
}

/// A number as it is written.
struct Number(f64);

impl std::str::FromStr for Number {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        number(text).map(Self)
    }
}

impl Decode for Number {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        written(node, at, "a number")
    }
}

choices! {
    /// How numbers are spread between two.
    Scale: "the name of a scale" {
        /// Evenly
        Linear = "linear",
        /// Evenly in their logarithms
        Log = "log",
    }
}

fn wrong(node: &Node, at: &str, message: &str) -> Problem {
    Problem { place: node.place, field: at.to_owned(), message: message.to_owned(), hint: None }
}

impl Decode for Domain {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let Value::Map(entries) = &node.value else {
            let items = match &node.value {
                Value::List(items) => items.iter().collect(),
                _ => vec![node],
            };
            if items.is_empty() {
                return Err(wrong(node, at, "it has no values; name one, or leave it out"));
            }
            return items.into_iter().map(|item| value(item, at)).collect::<Result<_, _>>().map(Self::Values);
        };
        if entries.iter().any(|entry| matches!(entry.key.as_str(), "from" | "to" | "step")) {
            return steps(node, at);
        }
        let fields = Fields::new(node, at, &["min", "max", "scale", "whole"])?;
        let (min, max) = (fields.take::<Number>("min")?, fields.take::<Number>("max")?);
        let (Some(Number(min)), Some(Number(max))) = (min, max) else {
            return Err(wrong(node, at, "name values, `from`, `to` and `step`, or `min` and `max`"));
        };
        let is_log = fields.take("scale")? == Some(Scale::Log);
        if min >= max || is_log && min <= 0.0 {
            return Err(wrong(node, at, "`min` must be below `max`, and above 0 on a logarithmic scale"));
        }
        let is_whole = fields.take("whole")?.unwrap_or(false);
        Ok(Self::Span(Span { min, max, is_log, is_whole }))
    }
}

/// A value as it was written.
fn value(node: &Node, at: &str) -> Result<String, Problem> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::List(_) | Value::Map(_) => {
            Err(wrong(node, at, "a value is a text, a number, `true` or `false`"))
        }
    }
}

/// `from`, `from + step`, ... up to `to`.
fn steps(node: &Node, at: &str) -> Result<Domain, Problem> {
    let fields = Fields::new(node, at, &["from", "to", "step"])?;
    let (from, to) = (fields.take::<Number>("from")?, fields.take::<Number>("to")?);
    let (Some(Number(from)), Some(Number(to))) = (from, to) else {
        return Err(wrong(node, at, "`from` and `to` go together; name both"));
    };
    let step = fields.take::<Number>("step")?.map_or(1.0, |Number(step)| step);
    if step <= 0.0 || from > to {
        return Err(wrong(node, at, "`step` must be above 0, and `from` not above `to`"));
    }
    // A little more than the quotient: 0 to 0.3 by 0.1 has four values.
    let count = ((to - from) / step + 1e-9).floor();
    if count >= ARRAY_MAX as f64 {
        return Err(wrong(node, at, "these are too many values; take larger steps"));
    }
    let values = (0..=count as u64).map(|index| shown(from + index as f64 * step));
    Ok(Domain::Values(values.collect()))
}

/// A number with enough digits for tuning.
fn shown(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    rounded.to_string()
}

impl Span {
    fn draw(&self, generator: &mut ChaCha8Rng) -> String {
        let share: f64 = generator.random();
        let between = |min: f64, max: f64| min + share * (max - min);
        let value = if self.is_log {
            between(self.min.ln(), self.max.ln()).exp()
        } else if self.is_whole {
            // Both ends as likely as what is between them.
            between(self.min - 0.5, self.max + 0.5)
        } else {
            between(self.min, self.max)
        };
        let value = value.clamp(self.min, self.max);
        if self.is_whole { value.round().to_string() } else { shown(value) }
    }
}

choices! {
    /// Which combinations are tried.
    pub(super) Kind: "the name of a search" {
        /// All
        Grid = "grid",
        /// The first values of all parameters, then the second ones
        List = "list",
        /// So many, drawn
        Random = "random",
    }
}

/// How configurations are made of what parameters can be.
pub(super) struct Search {
    pub(super) kind: Kind,
    pub(super) count: Option<u32>,
    pub(super) seed: u64,
}

type Wrong = (String, String);

impl Search {
    /// All configurations, in their order; or which field is wrong, and why.
    pub(super) fn parameters(&self, domains: &[(String, Domain)]) -> Result<Parameters, Wrong> {
        if self.count.is_some() && self.kind != Kind::Random {
            return Err(("count".to_owned(), "only `search: random` draws so many; leave it out".to_owned()));
        }
        let rows = match self.kind {
            Kind::Grid => grid(&values(domains)?)?,
            Kind::List => list(&values(domains)?)?,
            Kind::Random => self.random(domains)?,
        };
        let rows = rows.into_iter().map(|values| Configuration { values }).collect();
        Ok(Parameters { names: domains.iter().map(|(name, _)| name.clone()).collect(), rows })
    }

    fn random(&self, domains: &[(String, Domain)]) -> Result<Vec<Vec<String>>, Wrong> {
        let count =
            self.count.filter(|&count| count > 0 && count as usize <= ARRAY_MAX).ok_or_else(|| {
                (
                    "count".to_owned(),
                    "`search: random` needs the number of elements, as in `count: 20`".to_owned(),
                )
            })?;
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        let mut draw = |domain: &Domain| match domain {
            Domain::Values(values) => values[generator.random_range(0..values.len())].clone(),
            Domain::Span(span) => span.draw(&mut generator),
        };
        Ok((0..count).map(|_| domains.iter().map(|(_, domain)| draw(domain)).collect()).collect())
    }
}

/// The values of parameters that all have some.
fn values(domains: &[(String, Domain)]) -> Result<Vec<&[String]>, Wrong> {
    let of = |(name, domain): &'_ (String, Domain)| match domain {
        Domain::Values(_) => Ok(()),
        Domain::Span(_) => Err((
            format!("parameters.{name}"),
            "no list of values; give one, or set `search: random`".to_owned(),
        )),
    };
    domains.iter().try_for_each(of)?;
    let values = domains.iter().filter_map(|(_, domain)| match domain {
        Domain::Values(values) => Some(values.as_slice()),
        Domain::Span(_) => None,
    });
    Ok(values.collect())
}

/// Every combination; the last parameter changes the fastest.
fn grid(values: &[&[String]]) -> Result<Vec<Vec<String>>, Wrong> {
    let count = values.iter().try_fold(1usize, |count, values| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > ARRAY_MAX) {
        let message =
            format!("these are more than {ARRAY_MAX} combinations; draw some with `search: random`");
        return Err(("parameters".to_owned(), message));
    }
    let mut rows = vec![Vec::new()];
    for values in values {
        let longer = |row: &Vec<String>| {
            values
                .iter()
                .map(|value| row.iter().chain([value]).cloned().collect())
                .collect::<Vec<Vec<String>>>()
        };
        rows = rows.iter().flat_map(longer).collect();
    }
    Ok(rows)
}

/// One after the other; a single value goes with all.
fn list(values: &[&[String]]) -> Result<Vec<Vec<String>>, Wrong> {
    let count = values.iter().map(|values| values.len()).max().unwrap_or(0);
    if values.iter().any(|values| values.len() != count && values.len() != 1) {
        let message = "`search: list` needs as many values of each parameter, or a single one".to_owned();
        return Err(("parameters".to_owned(), message));
    }
    let row =
        |index: usize| values.iter().map(|values| values[index.min(values.len() - 1)].clone()).collect();
    Ok((0..count).map(row).collect())
}
