//! Cuts a row of layers into stages so that the slowest is as fast as can be.

use std::ops::Range;

/// Halvings of the interval in which the best capacity lies: enough to tell layers apart that differ by a billionth.
const HALVINGS: u32 = 40;

/// The cut into so many stages, none empty, with the smallest largest sum of weights. `fits` says of a stage, by its number and
/// its layers, whether it can be; longer ones of the same beginning need more. `None` where no cut fits.
pub(crate) fn split(
    weights: &[f64],
    stages: usize,
    fits: impl Fn(usize, &Range<usize>) -> bool,
) -> Option<Vec<Range<usize>>> {
    if stages == 0 || stages > weights.len() {
        return None;
    }
    let mut sums = Vec::with_capacity(weights.len() + 1);
    sums.push(0.0);
    for weight in weights {
        sums.push(sums.last().copied().unwrap_or_default() + weight);
    }
    let total = sums.last().copied().unwrap_or_default();
    // Rounding must not keep the whole row from fitting into its own sum.
    let mut high = total * (1.0 + 1e-9);
    let mut best = fill(&sums, stages, high, &fits)?;
    let mut low = weights.iter().copied().fold(total / stages as f64, f64::max);
    if let Some(cut) = fill(&sums, stages, low * (1.0 + 1e-9), &fits) {
        return Some(cut);
    }
    for _ in 0..HALVINGS {
        let capacity = f64::midpoint(low, high);
        match fill(&sums, stages, capacity, &fits) {
            Some(cut) => (best, high) = (cut, capacity),
            None => low = capacity,
        }
    }
    Some(best)
}

/// Fills stage after stage up to a capacity, leaving at least one layer for each of the rest.
fn fill(
    sums: &[f64],
    stages: usize,
    capacity: f64,
    fits: &impl Fn(usize, &Range<usize>) -> bool,
) -> Option<Vec<Range<usize>>> {
    let layers = sums.len() - 1;
    let mut cut = Vec::with_capacity(stages);
    let mut from = 0;
    for stage in 0..stages {
        let last = layers - (stages - stage - 1);
        let can = |to: usize| sums[to] - sums[from] <= capacity && fits(stage, &(from..to));
        let to = last_that(from, last, can);
        if to == from {
            return None;
        }
        cut.push(from..to);
        from = to;
    }
    (from == layers).then_some(cut)
}

/// The last number up to `most` for which something holds that holds for all numbers behind `from` up to it; `from` where there is none.
fn last_that(from: usize, most: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (from, most + 1);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if holds(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use proptest::prelude::*;

    use super::*;

    fn slowest(weights: &[f64], cut: &[Range<usize>]) -> f64 {
        cut.iter().map(|stage| weights[stage.clone()].iter().sum()).fold(0.0, f64::max)
    }

    /// All cuts, one by one.
    fn best(weights: &[f64], stages: usize) -> f64 {
        if stages == 1 {
            return weights.iter().sum();
        }
        let ends = 1..=weights.len() - (stages - 1);
        let one = |end: usize| weights[..end].iter().sum::<f64>().max(best(&weights[end..], stages - 1));
        ends.map(one).fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn no_cut_is_better(weights in prop::collection::vec(0.01_f64..5.0, 1..9), stages in 1_usize..6) {
            let cut = split(&weights, stages, |_, _| true);
            if stages > weights.len() {
                prop_assert!(cut.is_none());
            } else {
                let cut = cut.unwrap();
                prop_assert_eq!(cut.len(), stages);
                prop_assert!(slowest(&weights, &cut) <= best(&weights, stages) * (1.0 + 1e-6));
            }
        }
    }

    #[test]
    fn infeasible_cut_moves_the_boundary() {
        let weights = [1.0; 6];
        assert_eq!(split(&weights, 2, |_, _| true).unwrap(), [0..3, 3..6]);
        assert_eq!(split(&weights, 2, |stage, layers| stage > 0 || layers.len() < 3).unwrap(), [0..2, 2..6]);
        assert!(split(&weights, 2, |_, layers| layers.len() < 3).is_none());
    }
}
