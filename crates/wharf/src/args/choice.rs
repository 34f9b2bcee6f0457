//! Parsers of options with a fixed set of values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wharf_job::Choice;

/// A parser of the names of a choice, which completes them and lists them in the help.
pub(crate) fn one_of<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL.iter().map(|named| PossibleValue::new(named.name).help(named.about.trim()));
    PossibleValuesParser::new(values).try_map(|name| T::of_name(&name))
}
