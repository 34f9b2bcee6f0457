//! How long choices of configurations take: Sia's own size, and ten thousand jobs on six types.

#[expect(clippy::disallowed_types, reason = "a benchmark measures time")]
use std::time::Instant;

use wharf_solver::choice::{Configuration, Limits, Problem, choose};

/// A sequence without a pattern that matters here.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Jobs that speed up with less than linear returns, worth what Sia makes of that.
fn jobs(count: usize, kinds: &[(u32, u32)], noise: &mut Noise) -> (Vec<Configuration>, Vec<usize>) {
    let mut configurations = Vec::new();
    let mut starts = vec![0];
    for _ in 0..count {
        let exponent = 0.5 + 0.5 * noise.next();
        let restart = 0.5 + 0.5 * noise.next();
        let first = configurations.len();
        for (kind, &(nodes, size)) in kinds.iter().enumerate() {
            let speed = 1.0 + 3.0 * noise.next();
            let within = (0..).map(|power| 1 << power).take_while(|&count| count <= size);
            let whole = (2..=nodes.min(8)).map(|nodes| nodes * size);
            for count in within.chain(whole) {
                let goodput = (speed * f64::from(count).powf(exponent) * restart).max(1.0);
                let value = 1.1 - (goodput.powf(-0.5) * 100.0).round() / 100.0;
                configurations.push(Configuration { kind, count, value });
            }
        }
        assert!(configurations.len() > first);
        starts.push(configurations.len());
    }
    (configurations, starts)
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    let six = [(500, 4), (200, 8), (200, 8), (400, 4), (300, 8), (100, 8)];
    for (count, kinds) in [
        (40, &[(6, 4), (2, 8), (3, 8)][..]),
        (160, &[(6, 4), (2, 8), (3, 8)]),
        (256, &[(10, 4), (5, 8), (5, 8), (8, 4), (8, 8), (3, 8)]),
        (2048, &[(80, 4), (40, 8), (40, 8), (60, 4), (60, 8), (20, 8)]),
        (10_000, &six),
    ] {
        let mut noise = Noise(count as u64);
        let capacity: Vec<u32> = kinds.iter().map(|&(nodes, size)| nodes * size).collect();
        let (configurations, starts) = jobs(count, kinds, &mut noise);
        let problem =
            Problem { capacity: &capacity, configurations: &configurations, starts: &starts, current: &[] };
        for (name, steps) in [("default", 200_000_000), ("short", 400 * configurations.len() as u64)] {
            let start = Instant::now();
            let choice = choose(&problem, &Limits { steps, resolution: 0.005 });
            println!(
                "{count} jobs, {} devices, {} configurations, {name}: {} {:.3} of {:.3} in {:.2} ms, {} steps",
                capacity.iter().sum::<u32>(),
                configurations.len(),
                choice.method.name(),
                choice.value,
                choice.bound,
                start.elapsed().as_secs_f64() * 1e3,
                choice.steps
            );
        }
    }
}
