//! Numbers in JSON, NaN and infinity included.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A number that JSON has no form for is the text `nan`, `inf` or `-inf`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("nan"),
            f64::INFINITY => f.write_str("inf"),
            f64::NEG_INFINITY => f.write_str("-inf"),
            value => write!(f, "{value}"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { serializer.serialize_f64(self.0) } else { serializer.collect_str(self) }
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or \"nan\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        Ok(Number(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Number, E> {
        Ok(Number(f64::NAN))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        match text {
            "nan" => Ok(Number(f64::NAN)),
            "inf" => Ok(Number(f64::INFINITY)),
            "-inf" => Ok(Number(f64::NEG_INFINITY)),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_json() {
        for (value, text) in
            [(0.5, "0.5"), (-3.0, "-3.0"), (f64::INFINITY, "\"inf\""), (f64::NEG_INFINITY, "\"-inf\"")]
        {
            assert_eq!(serde_json::to_string(&Number(value)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Number>(text).unwrap(), Number(value));
        }
        assert_eq!(serde_json::to_string(&Number(f64::NAN)).unwrap(), "\"nan\"");
        for text in ["\"nan\"", "null"] {
            assert!(serde_json::from_str::<Number>(text).unwrap().0.is_nan());
        }
        assert_eq!(serde_json::from_str::<Number>("7").unwrap(), Number(7.0));
        assert!(serde_json::from_str::<Number>("\"seven\"").is_err());
    }
}
