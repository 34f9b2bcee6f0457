//! Large clusters: that the structured method proves its answers, and how far programs in parts are from the whole.

use wharf_solver::sharing::{Finish, Part, Program, Shares, Whole};
use wharf_solver::sharing::{finish_time, makespan, makespan_bisect, max_min, max_sum, split, water_filling};

/// Numbers between 0 and 1 from a seeded sequence.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

struct Cluster {
    capacities: Vec<f64>,
    devices: Vec<f64>,
    speeds: Vec<f64>,
    factors: Vec<f64>,
    weights: Vec<f64>,
    /// Device-seconds at the mean speed.
    work: Vec<f64>,
    remaining: Vec<f64>,
    claims: Vec<Finish>,
}

/// Jobs with one to eight devices, weights of one and five, and speeds that differ by type up to six times.
fn cluster(jobs: usize, types: usize, seed: u64) -> Cluster {
    let mut random = Random(seed);
    let mut cluster = Cluster {
        capacities: vec![jobs as f64 / 20.0; types],
        devices: Vec::new(),
        speeds: Vec::new(),
        factors: Vec::new(),
        weights: Vec::new(),
        work: Vec::new(),
        remaining: Vec::new(),
        claims: Vec::new(),
    };
    for _ in 0..jobs {
        let devices = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0][(random.next() * 10.0) as usize];
        let weight = if random.next() < 0.2 { 5.0 } else { 1.0 };
        let base = 10.0_f64.powf(2.0 * random.next());
        let row: Vec<f64> = (0..types).map(|j| base * (1.0 + 2.5 * j as f64 * random.next())).collect();
        let mean = row.iter().sum::<f64>() / types as f64;
        let duration = 60.0 * 10.0_f64.powf(1.5 + 1.5 * random.next());
        cluster.devices.push(devices);
        cluster.weights.push(weight);
        cluster.work.push(devices * duration);
        cluster.factors.push(devices / (weight * mean));
        cluster.remaining.push(duration * mean);
        let elapsed_s = 20_000.0 * random.next();
        cluster.claims.push(Finish { elapsed_s, remaining: duration * mean, allowance_s: 4.0 * duration });
        cluster.speeds.extend(row);
    }
    cluster
}

fn fits(cluster: &Cluster, answer: &Shares) {
    let types = cluster.capacities.len();
    for (j, capacity) in cluster.capacities.iter().enumerate() {
        let shares = answer.values.iter().skip(j).step_by(types);
        let used: f64 = shares.zip(&cluster.devices).map(|(share, devices)| share * devices).sum();
        assert!(used <= capacity * (1.0 + 1e-9), "{used} of {capacity}");
    }
    for row in answer.values.chunks_exact(types) {
        assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9);
    }
}

#[test]
fn split_parts_of_256_jobs_are_within_two_percent() {
    let mut worst = [0.0_f64; 5];
    for (parts, types, seed) in [(2, 3, 1), (4, 3, 2), (4, 6, 3), (8, 3, 4)] {
        let cluster = cluster(256 * parts, types, seed);
        let program =
            Program { capacities: &cluster.capacities, devices: &cluster.devices, speeds: &cluster.speeds };
        let (c, p) = (&cluster, &program);
        let deal = (parts, seed);
        let pairs = [
            (
                max_min(p, &c.factors),
                split(p, &c.weights, deal, Whole::Smallest, |part, own| max_min(part, &own.of(&c.factors))),
            ),
            (
                makespan(p, &c.remaining),
                split(p, &c.work, deal, Whole::Largest, |part, own| makespan(part, &own.of(&c.remaining))),
            ),
            (
                finish_time(p, &c.claims),
                split(p, &c.devices, deal, Whole::Largest, |part, own| finish_time(part, &own.of(&c.claims))),
            ),
            (
                max_sum(p, &c.speeds, None),
                split(p, &c.devices, deal, Whole::Sum, |part, own| max_sum(part, &own.rows(&c.speeds), None)),
            ),
            (
                water_filling(p, &c.factors),
                split(p, &c.weights, deal, Whole::Smallest, |part, own| {
                    water_filling(part, &own.of(&c.factors))
                }),
            ),
        ];
        for (worst, (exact, split)) in worst.iter_mut().zip(&pairs) {
            fits(&cluster, split);
            assert_eq!((exact.fallback, split.fallback), (None, None));
            let apart = (split.objective / exact.objective - 1.0).abs();
            *worst = worst.max(apart);
        }
    }
    #[expect(clippy::print_stderr, reason = "figures of the test")]
    {
        let [max_min, makespan, finish_time, max_sum, water_filling] = worst.map(|apart| 100.0 * apart);
        eprintln!(
            "worst distance in percent: max-min {max_min:.2}, makespan {makespan:.2}, finish-time {finish_time:.2}, \
             max-sum {max_sum:.2}, water-filling {water_filling:.2}"
        );
    }
    assert!(worst.iter().all(|&apart| apart < 0.02), "{worst:?}");
}

#[test]
fn split_is_the_whole_with_one_part_and_the_same_with_the_same_seed() {
    let cluster = cluster(40, 3, 9);
    let program =
        Program { capacities: &cluster.capacities, devices: &cluster.devices, speeds: &cluster.speeds };
    let parts = |parts, seed| {
        let solve = |part: &Program<'_>, own: &Part| max_min(part, &own.of(&cluster.factors));
        split(&program, &cluster.weights, (parts, seed), Whole::Smallest, solve)
    };
    let exact = max_min(&program, &cluster.factors);
    assert_eq!(parts(1, 3), exact);
    assert_eq!(parts(0, 3), exact);
    assert_eq!(parts(41, 3), exact);
    assert_eq!(parts(4, 3), parts(4, 3));
    assert_ne!(parts(4, 3), parts(4, 4));
}

/// Clusters of all kinds: few and many jobs and types, idle and crowded, alike and far apart.
fn any_cluster(seed: u64) -> Cluster {
    let mut random = Random(seed * 7919 + 1);
    let mut pick = |choices: &[f64]| choices[(random.next() * choices.len() as f64) as usize];
    let (types, wide, zero) =
        (pick(&[1.0, 2.0, 3.0, 4.0, 8.0]) as usize, pick(&[0.0, 1.0, 4.0]), pick(&[0.0, 0.3]));
    let (jobs, load) = (pick(&[1.0, 7.0, 60.0, 300.0]) as usize, pick(&[0.1, 1.0, 3.0, 50.0]));
    let (gangs, kinds) = (pick(&[0.0, 1.0]) > 0.0, pick(&[2.0, 1000.0]) as usize);
    let mut cluster = cluster(jobs, types, seed);
    for capacity in &mut cluster.capacities {
        *capacity = (jobs as f64 / load / types as f64 * (0.2 + 2.0 * random.next())).ceil();
    }
    for (cell, speed) in cluster.speeds.iter_mut().enumerate() {
        // Jobs of a kind are equal.
        let mut of_kind = Random((cell / types % kinds * types + cell % types) as u64 * 31 + seed);
        of_kind.next();
        *speed = if random.next() < zero { 0.0 } else { 10.0_f64.powf(wide * of_kind.next()) };
    }
    if !gangs {
        cluster.devices.fill(1.0);
    }
    cluster
}

#[test]
fn programs_clusters_of_all_kinds_need_no_fallback() {
    for seed in 0..120 {
        let cluster = any_cluster(seed);
        let (c, types) = (&cluster, cluster.capacities.len());
        let program = Program { capacities: &c.capacities, devices: &c.devices, speeds: &c.speeds };
        let even = max_min(&program, &vec![1.0; c.devices.len()]);
        let rates = even.values.chunks_exact(types).zip(c.speeds.chunks_exact(types));
        let demands: Vec<f64> = rates
            .map(|(x, speeds)| 0.7 * x.iter().zip(speeds).map(|(x, speed)| x * speed).sum::<f64>())
            .collect();
        for (name, answer) in [
            ("max-min", max_min(&program, &c.factors)),
            ("makespan", makespan_bisect(&program, &c.remaining)),
            ("finish-time", finish_time(&program, &c.claims)),
            ("max-sum", max_sum(&program, &c.speeds, None)),
            ("max-sum with demands", max_sum(&program, &c.speeds, Some(&demands))),
            ("water-filling", water_filling(&program, &c.factors)),
        ] {
            assert_eq!(answer.fallback, None, "{name}, seed {seed}");
            fits(c, &answer);
        }
    }
}
