//! The matcher against the reference's recorded matchings, and against exhaustive search.

#![expect(clippy::disallowed_types, reason = "tests read recorded data")]

use std::io::Read;

use proptest::prelude::*;
use wharf_solver::matching::{Matcher, UNMATCHED, maximum_weight, mutual_pairs};
use wharf_testing::{needs, reference};

/// The recorded cases.
fn recorded_cases() -> String {
    let file = std::fs::File::open(reference("muri/golden/blossom_cases.jsonl.gz")).expect("recorded cases");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("cases decompress");
    text
}

#[test]
fn matcher_recorded_graphs_same_partners() {
    needs!(REFERENCE);
    let text = recorded_cases();
    let mut matcher = Matcher::new();
    let mut count = 0;
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("a case is JSON");
        let rows = case["w"].as_array().expect("weights");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let weights: Vec<f64> =
            rows.iter().flat_map(|row| row.as_array().expect("a row").iter().map(number)).collect();
        let expected: Vec<usize> = case["match"]
            .as_array()
            .expect("partners")
            .iter()
            .map(|mate| (mate.as_u64().expect("an index") as usize).checked_sub(1).unwrap_or(UNMATCHED))
            .collect();
        assert_eq!(matcher.solve(rows.len(), &weights), expected, "case {count}");
        count += 1;
    }
    assert_eq!(count, 90);
}

/// The best total weight of a matching, by trying all.
fn best_total(n: usize, weights: &[f64], used: u32) -> f64 {
    let Some(u) = (0..n).find(|u| used >> u & 1 == 0) else { return 0.0 };
    let alone = best_total(n, weights, used | 1 << u);
    (u + 1..n)
        .filter(|v| used >> v & 1 == 0 && weights[u * n + v] > 0.0)
        .map(|v| weights[u * n + v] + best_total(n, weights, used | 1 << u | 1 << v))
        .fold(alone, f64::max)
}

proptest! {
    #[test]
    fn maximum_weight_small_graphs_is_optimal(
        n in 1_usize..=9,
        // Few distinct values and many missing edges make many ties and blossoms.
        levels in proptest::collection::vec(0_u8..=6, 81),
    ) {
        let mut weights = vec![0.0; n * n];
        for u in 0..n {
            for v in u + 1..n {
                let weight = f64::from(levels[u * 9 + v]) * 0.13;
                weights[u * n + v] = weight;
                weights[v * n + u] = weight;
            }
        }
        let pairs = maximum_weight(n, &weights);
        let total: f64 = pairs.iter().map(|&(u, v)| weights[u * n + v]).sum();
        let mut seen = vec![false; n];
        for &(u, v) in &pairs {
            prop_assert!(weights[u * n + v] > 0.0 && !seen[u] && !seen[v]);
            (seen[u], seen[v]) = (true, true);
        }
        prop_assert!((total - best_total(n, &weights, 0)).abs() < 1e-4, "{total} {weights:?}");
    }
}

#[test]
fn mutual_pairs_drops_unanswered_partners() {
    assert_eq!(mutual_pairs(&[1, 0, 1, UNMATCHED]).collect::<Vec<_>>(), [(0, 1)]);
    assert!(maximum_weight(0, &[]).is_empty());
}

#[test]
fn matcher_diagonal_entries_are_ignored() {
    let mut matcher = Matcher::new();
    // A star whose centre would match another vertex if the diagonal set the starting duals.
    let weights =
        |diagonal: f64| [diagonal, 0.3, 0.2, 0.3, 0.3, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0];
    let without = matcher.solve(4, &weights(0.0)).to_vec();
    assert_eq!(matcher.solve(4, &weights(9.0)), without);
}
