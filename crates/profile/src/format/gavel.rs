//! Gavel's throughput tables: JSON by device type, then by workload and gang, then by neighbour.

use std::collections::BTreeMap;

use serde::Deserialize;
use wharf_perf::{Locality, Place, Profile, Workload};

use crate::ProfileError;

/// What follows the name of a type whose gangs are spread out.
const SPREAD: &str = "_unconsolidated";

/// The neighbour of a workload that has none.
const NO_JOB: &str = "null";

type Table = BTreeMap<String, BTreeMap<String, BTreeMap<String, Speed>>>;

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Speed {
    Alone(f64),
    Beside([f64; 2]),
}

/// Reads a table; `path` is for messages.
pub(crate) fn parse(text: &str, path: &str) -> Result<Profile, ProfileError> {
    let table: Table = serde_json::from_str(text)
        .map_err(|source| ProfileError::Unknown { path: path.to_owned(), source: Box::new(source) })?;
    let mut profile = Profile::default();
    for (device_type, rows) in &table {
        let (name, locality) = match device_type.strip_suffix(SPREAD) {
            Some(name) => (name, Locality::Spread),
            None => (device_type.as_str(), Locality::Packed),
        };
        for (row, cells) in rows {
            let wrong = |field: &str, problem: String| ProfileError::Entry {
                path: path.to_owned(),
                field: field.to_owned(),
                problem,
            };
            let key = |text: &str| {
                gang(text).ok_or_else(|| {
                    wrong(
                        text,
                        format!("in `{device_type}`: expected a workload such as `('LM (batch size 5)', 2)`"),
                    )
                })
            };
            let (workload, devices) = key(row)?;
            let place = Place { device_type: name.into(), devices, locality };
            for (neighbour, speed) in cells {
                let is_speed = |speed: f64| speed.is_finite() && speed >= 0.0;
                match *speed {
                    Speed::Alone(speed) if neighbour == NO_JOB && is_speed(speed) => {
                        profile.insert(workload.clone(), place.clone(), speed);
                    }
                    Speed::Beside(speeds) if neighbour != NO_JOB && speeds.into_iter().all(is_speed) => {
                        let (other, _) = key(neighbour)?;
                        profile.insert_pair(workload.clone(), other, place.clone(), speeds);
                    }
                    Speed::Alone(_) | Speed::Beside(_) => {
                        let problem = "expected one speed for `null`, two for a neighbour, each 0 or more";
                        return Err(wrong(
                            row,
                            format!("beside `{neighbour}` in `{device_type}`: {problem}"),
                        ));
                    }
                }
            }
        }
    }
    Ok(profile)
}

/// The parts of `('ResNet-18 (batch size 128)', 4)`.
fn gang(text: &str) -> Option<(Workload, u32)> {
    let inner = text.strip_prefix("('")?.strip_suffix(')')?;
    let (label, devices) = inner.rsplit_once("', ")?;
    Some((Workload::from_label(label), devices.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_speeds_alone_and_beside() {
        let text = r#"{
            "v100": {"('LM (batch size 5)', 2)": {"null": 4.5, "('A3C', 2)": [3.0, 1.5]}},
            "v100_unconsolidated": {"('LM (batch size 5)', 2)": {"null": 2.5}}}"#;
        let profile = parse(text, "t").unwrap();
        let (lm, a3c) = (Workload::from_label("LM (batch size 5)"), Workload::from_label("A3C"));
        let packed = Place { device_type: "v100".into(), devices: 2, locality: Locality::Packed };
        let spread = Place { locality: Locality::Spread, ..packed.clone() };
        assert_eq!(lm.batch_size, Some(5));
        assert_eq!(profile.alone(&lm, &packed), Some(4.5));
        assert_eq!(profile.alone(&lm, &spread), Some(2.5));
        assert_eq!(profile.beside(&a3c, &lm, &packed), Some([1.5, 3.0]));
    }

    #[test]
    fn wrong_entries_are_named() {
        for (text, part) in [
            ("[]", "no profile"),
            (r#"{"v100": {"LM": {"null": 1}}}"#, "LM"),
            (r#"{"v100": {"('LM', 1)": {"null": -1}}}"#, "0 or more"),
            (r#"{"v100": {"('LM', 1)": {"('A', 1)": 1}}}"#, "two for a neighbour"),
        ] {
            let message = parse(text, "t").unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
