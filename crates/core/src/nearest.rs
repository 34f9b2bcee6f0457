//! "Did you mean": the name that a misspelt one is closest to.

/// The one of `names` that is few enough edits away from `given` to be what was meant; the first of equals.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not worth comparing: nothing is called that.
    const LETTERS_MAX: usize = 64;
    let letters = |name: &str| name.trim().to_lowercase().chars().take(LETTERS_MAX).collect::<Vec<char>>();
    let given = letters(given);
    // Two letters in five may be wrong, or some left out (`iter_ms` for `iteration_ms`).
    let close = |name: &'a str| {
        let name_letters = letters(name);
        let edits = edit_distance(&given, &name_letters);
        let is_typo = edits * 5 <= given.len().max(name_letters.len()) * 2;
        let is_part = given.len() >= 3 && is_subsequence(&given, &name_letters);
        (is_typo || is_part).then_some((!is_typo, edits, name))
    };
    names
        .into_iter()
        .filter_map(close)
        .min_by_key(|&(is_part, edits, _)| (is_part, edits))
        .map(|(.., name)| name)
}

fn is_subsequence(part: &[char], whole: &[char]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|wanted| rest.any(|letter| letter == wanted))
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

    #[test]
    fn nearest_finds_typos_and_parts_only() {
        let known = ["job_id", "submit_s", "devices", "iteration_ms", "network_ms"];
        for (typed, expected) in [
            ("jobid", Some("job_id")),
            ("Devices", Some("devices")),
            ("device", Some("devices")),
            ("jbo_id", Some("job_id")),
            ("submit", Some("submit_s")),
            ("submit_time", Some("submit_s")),
            ("iter_ms", Some("iteration_ms")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}
