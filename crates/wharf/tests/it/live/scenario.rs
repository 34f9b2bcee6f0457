//! Workloads whose events are far enough apart to be distinguished on a real machine.

use std::fmt::Write as _;

use wharf_core::{ClusterSpec, JobId, JobSpec, NodeShare, StageTimes, Time};
use wharf_sim::{Preset, Recorder, RunSpec, Settings, run, scale_settings, scale_trace};
use wharf_trace::{Format, Trace, write_trace};

/// How many times faster than the trace.
pub(crate) const TIME_SCALE: f64 = 60.0;
/// The same must be done whatever a start costs within this range, in seconds: what is measured differs from run to run.
const START_COSTS_S: [f64; 4] = [0.005, 0.03, 0.1, 0.25];
/// Most seeds that are tried.
const SEEDS: u64 = 20_000;
/// How one iteration divides: by storage, by device and by network.
const STAGES: [[f64; 3]; 3] = [[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.1, 0.4, 0.5]];

/// What is searched for. All times are those of the wall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) policy: &'static str,
    pub(crate) cluster: &'static str,
    pub(crate) jobs: usize,
    /// The shortest job, alone.
    pub(crate) job_s: f64,
    /// Submissions come within this time.
    pub(crate) arrivals_s: f64,
    /// Between two moments at which anything happens.
    pub(crate) gap_s: f64,
    pub(crate) preemptions: usize,
    /// Launches beside others on the same devices.
    pub(crate) shared: usize,
    pub(crate) makespan_s: f64,
}

/// A workload that is as wanted.
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) trace: Trace,
    pub(crate) gap_s: f64,
}

/// Devices of one type.
pub(crate) const UNIFORM: &str = "v100:2x2";
/// Devices of two types, of which the built-in profile knows how fast they are.
pub(crate) const MIXED: &str = "v100:1x4,p100:1x4";
/// The models of the jobs, by the built-in profile's names.
const MODELS: [(&str, u32); 3] = [("resnet50", 64), ("bert-base", 16), ("vgg19", 32)];

/// The first that is as wanted.
pub(crate) fn find(wanted: &Wanted) -> Scenario {
    let mut seeds = 0..SEEDS;
    let found = seeds.find_map(|seed| {
        let trace = draw(seed, wanted);
        let gap_s = suits(&trace, wanted)?;
        Some(Scenario { seed, trace, gap_s })
    });
    found.unwrap_or_else(|| panic!("no seed below {SEEDS} gives {wanted:?}"))
}

impl Scenario {
    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        write_trace(&self.trace, Format::NATIVE_CSV, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

/// A small generator of numbers: equal seeds give equal workloads on all machines.
struct Numbers(u64);

impl Numbers {
    /// From 0 to below `below`.
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn draw(seed: u64, wanted: &Wanted) -> Trace {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66);
    let mut tenths: Vec<u64> =
        (1..wanted.jobs).map(|_| numbers.below((wanted.arrivals_s * 10.0) as u64)).collect();
    tenths.push(0);
    tenths.sort_unstable();
    let jobs = tenths.iter().enumerate().map(|(index, &at)| {
        let submit = Time::from_seconds(at as f64 / 10.0 * TIME_SCALE);
        // From the shortest to four times as long.
        let solo_s = wanted.job_s * TIME_SCALE * (1.0 + numbers.below(31) as f64 / 10.0);
        let devices = [1, 1, 2, 2, 4][numbers.below(5) as usize];
        let iteration_ms = 3000.0;
        let mut job =
            JobSpec::new(&format!("j{index}"), submit, devices, solo_s * 1000.0 / iteration_ms, iteration_ms);
        let kind = numbers.below(3) as usize;
        let (model, batch_size) = MODELS[kind];
        job.model = Some(model.into());
        job.batch_size = Some(batch_size * devices);
        let [data, compute, network] = STAGES[kind];
        job.stages = Some(StageTimes {
            data_ms: data * iteration_ms,
            compute_ms: compute * iteration_ms,
            network_ms: network * iteration_ms,
        });
        job
    });
    Trace { name: format!("live-{seed}"), jobs: jobs.collect() }
}

/// Everything that happens, with its time.
#[derive(Default)]
struct Events {
    times: Vec<f64>,
    acts: Vec<String>,
    preemptions: usize,
    shared: usize,
}

impl Recorder for Events {
    fn submitted(&mut self, time: Time, _job: JobId) {
        self.times.push(time.seconds());
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], group: &[JobId]) {
        self.times.push(time.seconds());
        self.shared += usize::from(group.len() > 1);
        let mut act = format!("{job:?} on");
        for share in placement {
            write!(act, " {:?} {:?}", share.node, share.devices.iter().collect::<Vec<_>>()).unwrap();
        }
        self.acts.push(act);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.times.push(time.seconds());
        self.acts.push(format!("{job:?} off"));
        self.preemptions += 1;
    }

    fn finished(&mut self, time: Time, _job: JobId) {
        self.times.push(time.seconds());
    }
}

/// The shortest time between two moments, where the workload is as wanted.
fn suits(trace: &Trace, wanted: &Wanted) -> Option<f64> {
    let mut shortest = f64::INFINITY;
    let mut before: Option<Vec<String>> = None;
    for start_cost_s in START_COSTS_S {
        let events = simulate(trace, wanted, start_cost_s);
        let gap_s = events
            .times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .filter(|gap| *gap > 1e-6)
            .fold(f64::INFINITY, f64::min);
        let last = events.times.last().copied().unwrap_or(0.0);
        let is_same = before.as_ref().is_none_or(|before| *before == events.acts);
        if gap_s < wanted.gap_s
            || !is_same
            || events.preemptions < wanted.preemptions
            || events.shared < wanted.shared
            || last > wanted.makespan_s
        {
            return None;
        }
        shortest = shortest.min(gap_s);
        before = Some(events.acts);
    }
    Some(shortest)
}

fn simulate(trace: &Trace, wanted: &Wanted, start_cost_s: f64) -> Events {
    let policy = wanted.policy;
    let preset = Preset::load("wharf").unwrap();
    let rules = preset.rules().expect("it is Wharf's own");
    let info = wharf_reproduce::find(policy).unwrap();
    let mut settings = scale_settings(info, rules, &Settings::default(), TIME_SCALE);
    settings.set("restart_s", &start_cost_s.to_string());
    let cluster: ClusterSpec = wharf_trace::parse_cluster(wanted.cluster).unwrap();
    let trace = scale_trace(trace, TIME_SCALE);
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 0,
        profile: None,
        rounds: None,
        failures: None,
    };
    let mut events = Events::default();
    run(&spec, &mut events).unwrap();
    events
}
