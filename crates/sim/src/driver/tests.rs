//! Runs that are taken up in the middle.

use wharf_core::ClusterSpec;
use wharf_policy::Settings;
use wharf_trace::{GangMix, GeneratorSettings, Rate, generate};

use super::*;
use crate::go_on;
use crate::preset::Preset;

/// Has seen enough when so many jobs have started.
struct Until(usize);

impl Recorder for Until {
    fn is_satisfied(&self) -> bool {
        self.0 == 0
    }

    fn started(&mut self, _: Time, _: JobId, _: &[NodeShare], _: &[JobId]) {
        self.0 = self.0.saturating_sub(1);
    }
}

fn regime(policy: &str) -> wharf_core::Regime {
    let rules = *Preset::load("wharf").unwrap().rules().unwrap();
    crate::regime(&rules, policy, &Settings::default(), 0).unwrap().0
}

#[test]
fn resumed_run_ends_like_the_whole_run() {
    let settings = GeneratorSettings {
        seed: 3,
        job_count: 120,
        rate: Rate::Load { devices: 16, load: 1.3 },
        gangs: GangMix::philly().at_most(8).unwrap(),
        ..GeneratorSettings::default()
    };
    let trace = generate(&settings).unwrap();
    let cluster = ClusterSpec::uniform("v100", 4, 4);
    let none = || Failures::draw(4, 0.0, 1.0, 0);
    // A policy that preempts checks everything once more when it takes over, and may find something to do.
    for (policy, tolerance) in
        [("fifo", 0.0), ("sjf", 0.0), ("srtf", 0.01), ("tiresias", 0.01), ("muri-s", 0.01)]
    {
        let mut seen = Until(usize::MAX);
        let engine = Engine::new(&cluster, regime(policy));
        let whole = Driver::new(engine, &trace.jobs, none(), f64::INFINITY, &mut seen);
        let (whole, _) = whole.run().unwrap();
        for count in [1, 10, 60, 119] {
            let mut seen = Until(count);
            let engine = Engine::new(&cluster, regime(policy));
            let mut driver = Driver::new(engine, &trace.jobs, none(), f64::INFINITY, &mut seen);
            driver.advance().unwrap();
            let rest = go_on(driver.present(), policy, regime(policy), &mut crate::NoRecorder).unwrap();
            let sum_s = |outcome: &Outcome| outcome.jobs.iter().map(|job| job.jct_s().unwrap()).sum::<f64>();
            let apart = (sum_s(&rest) / sum_s(&whole) - 1.0).abs();
            assert!(apart <= tolerance + 1e-9, "{policy} taken up after {count} starts: {apart}");
        }
    }
}
