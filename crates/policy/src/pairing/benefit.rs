//! Whether two jobs finish sooner, on average, beside each other than one after the other.

use wharf_core::{JobId, View};

/// Seconds of the pair's mean completion if `a` joins `b`, where that is less than if `a` waits for the end of `b`.
pub(super) fn beside(view: &View<'_>, a: JobId, b: JobId) -> Option<f64> {
    let (left_a, left_b) = (view.remaining_s(a)?, view.remaining_s(b)?);
    let (ratio_a, ratio_b) = (interference(view, a, b), interference(view, b, a));
    let together_s = together_s(left_a, left_b, ratio_a, ratio_b);
    (together_s < left_b + 0.5 * left_a).then_some(together_s)
}

/// Mean completion of two jobs that share: both are slowed until the shorter one is done, then the other runs alone.
fn together_s(left_a: f64, left_b: f64, ratio_a: f64, ratio_b: f64) -> f64 {
    if ratio_a * left_a >= ratio_b * left_b {
        0.5 * left_a + (1.0 - 0.5 / ratio_a) * ratio_b * left_b
    } else {
        0.5 * left_b + (1.0 - 0.5 / ratio_b) * ratio_a * left_a
    }
}

/// How many times longer an iteration of `job` takes beside `other` than alone.
fn interference(view: &View<'_>, job: JobId, other: JobId) -> f64 {
    let (own, neighbour) = (view.spec(job), view.spec(other));
    let alone_s = view.perf().iteration_s(view.topology(), own, &[], &[]);
    let beside_s = view.perf().iteration_s(view.topology(), own, &[], &[neighbour]);
    if alone_s > 0.0 { (beside_s / alone_s).max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_pays_while_interference_is_small() {
        // Two equal jobs of 100 s: one after the other they end after 150 s on average.
        for (ratio, expected) in [(1.0, 100.0), (1.5, 150.0), (2.0, 200.0)] {
            assert!((together_s(100.0, 100.0, ratio, ratio) - expected).abs() < 1e-9, "ratio {ratio}");
        }
    }
}
