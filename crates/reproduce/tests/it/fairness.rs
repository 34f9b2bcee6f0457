//! Finish-time fairness: shares are feasible, and the worst-off job is as well off as any shares allow.

use proptest::prelude::*;
use wharf_reproduce::muri::fairness::{Claim, FinishTimeFairness};

/// The ratio that shares give to the worst-off claim.
fn worst_ratio(claims: &[Claim], shares: &[f64]) -> f64 {
    let ratio = |(claim, share): (&Claim, &f64)| {
        (claim.elapsed_s + claim.remaining / (claim.throughput * share)) / claim.isolated
    };
    claims.iter().zip(shares).map(ratio).fold(0.0, f64::max)
}

/// The least ratio that can be reached, by bisection: a ratio is feasible if the shares it needs fit.
fn least_ratio(claims: &[Claim], devices: f64) -> f64 {
    let fits = |ratio: f64| {
        let needs = claims.iter().map(|claim| {
            let left_s = ratio * claim.isolated - claim.elapsed_s;
            let share = claim.remaining / (claim.throughput * left_s);
            if left_s > 0.0 && share <= 1.0 { share * claim.devices } else { f64::INFINITY }
        });
        needs.sum::<f64>() <= devices
    };
    let (mut low, mut high) = (0.0, 1.0);
    while !fits(high) {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}

fn claim() -> impl Strategy<Value = Claim> {
    (0.0..1e6_f64, 10.0..1e6_f64, 0.5..10.0_f64, 0_u32..6, 0.1..1.0_f64).prop_map(
        |(elapsed_s, remaining, throughput, devices_log, fraction)| Claim {
            elapsed_s,
            remaining,
            throughput,
            isolated: remaining / fraction,
            devices: f64::from(1 << devices_log),
        },
    )
}

proptest! {
    #[test]
    fn shares_are_feasible_and_the_worst_ratio_is_least(claims in proptest::collection::vec(claim(), 2..40)) {
        let mut solver = FinishTimeFairness::new();
        let shares = solver.solve(&claims, 64.0);
        prop_assert!(shares.iter().all(|&share| share > 0.0 && share < 1.0 + 1e-6), "{shares:?}");
        let used: f64 = claims.iter().zip(shares).map(|(claim, share)| claim.devices * share).sum();
        prop_assert!(used < 64.0 * (1.0 + 1e-6), "{used}");
        let (ours, least) = (worst_ratio(&claims, shares), least_ratio(&claims, 64.0));
        prop_assert!((ours / least - 1.0).abs() < 1e-4, "{ours} instead of {least}");
    }
}

#[test]
fn lone_claim_gets_everything_and_equal_claims_get_equal_shares() {
    let claim = Claim { elapsed_s: 5.0, remaining: 100.0, throughput: 2.0, isolated: 400.0, devices: 4.0 };
    let mut solver = FinishTimeFairness::new();
    assert_eq!(solver.solve(&[claim], 64.0), [1.0]);
    assert!(solver.solve(&[], 64.0).is_empty());
    let shares = solver.solve(&[claim; 64], 64.0);
    assert!(shares.iter().all(|share| (share - 0.25).abs() < 1e-6), "{shares:?}");
}

#[test]
fn free_shares_end_where_the_published_solver_ends() {
    let claim = |elapsed_s, remaining, throughput, isolated| Claim {
        elapsed_s,
        remaining,
        throughput,
        isolated,
        devices: 4.0,
    };
    // The second job is the worst off whatever it gets; the first may have any share from a fifth up.
    let claims = [
        claim(282.0, 3_025_794.577_4, 5.1854, 3_027_205.0),
        claim(351_260.0, 629_834.484_9, 1.0697, 1_005_573.0),
        claim(352_710.0, 654_616.046_2, 1.112, 1_046_811.0),
        claim(0.0, 915_071.0, 1.0697, 915_071.0),
    ];
    let mut solver = FinishTimeFairness::new();
    let shares = solver.solve(&claims, 64.0);
    // From ECOS 2.0.14.
    let expected = [0.698_680_85, 1.0, 0.970_337_33, 0.999_998_12];
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 1e-3, "{shares:?}");
    }
}
