//! "Did you mean": the name that a misspelt one is closest to.

/// The one of `names` that is few enough edits away from `given` to be what was meant; the first of equals.
///
/// ```
/// assert_eq!(wharf_sim::nearest::nearest("tiresas", ["fifo", "tiresias"]), Some("tiresias"));
/// assert_eq!(wharf_sim::nearest::nearest("hello", ["fifo", "tiresias"]), None);
/// ```
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.to_lowercase().chars().collect();
    // A third of the letters may be wrong; a short name may have one slip.
    let allowed = (given.len() / 3).max(1);
    let close = |name: &'a str| {
        let letters: Vec<char> = name.to_lowercase().chars().collect();
        let edits = edit_distance(&given, &letters);
        (edits <= allowed && edits < letters.len()).then_some((edits, name))
    };
    names.into_iter().filter_map(close).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one word from the other.
fn edit_distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = vec![];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut row = vec![i + 1; to.len() + 1];
        for (j, &b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == to[j - 1] && from[i - 1] == b {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_close_or_nothing() {
        let names = ["fifo", "sjf", "srtf", "srsf", "muri-s", "muri-l", "themis"];
        for (given, expected) in [
            ("fiof", Some("fifo")),
            ("SRTF", Some("srtf")),
            ("muri_l", Some("muri-l")),
            ("temis", Some("themis")),
            ("gavel", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, names), expected, "{given}");
        }
    }
}
