//! A synthetic workload with the stage times that Muri's authors measured.

use wharf_core::{ClusterSpec, JobSpec, StageTimes, Time};

/// Models with milliseconds of an iteration, and of its data, compute and network stages, on 1, 4 and 8 or more devices.
const PROFILES: [(&str, [[f64; 4]; 3]); 8] = [
    ("a2c", [[517.0, 514.0, 14.0, 0.0], [533.0, 502.0, 10.0, 0.3], [555.0, 502.0, 14.0, 0.4]]),
    ("dqn", [[490.0, 446.0, 8.0, 0.0], [505.0, 440.0, 8.0, 0.4], [509.0, 435.0, 8.0, 0.5]]),
    ("bert", [[178.0, 0.5, 160.0, 0.0], [190.0, 0.5, 163.0, 18.0], [192.0, 0.5, 167.0, 59.0]]),
    ("gpt2", [[426.0, 0.6, 410.0, 0.0], [433.0, 0.6, 413.0, 20.0], [437.0, 0.6, 419.0, 49.0]]),
    ("resnet18", [[779.0, 711.0, 110.0, 0.0], [921.0, 723.0, 113.0, 73.0], [1010.0, 784.0, 117.0, 77.0]]),
    (
        "shufflenet_v2_x1_0",
        [[798.0, 706.0, 59.0, 0.0], [886.0, 703.0, 62.0, 17.0], [957.0, 769.0, 57.0, 10.0]],
    ),
    ("vgg16", [[107.0, 117.0, 68.0, 0.0], [201.0, 82.0, 72.0, 67.0], [214.0, 82.0, 75.0, 66.0]]),
    ("vgg19", [[109.0, 114.0, 80.0, 0.0], [212.0, 84.0, 85.0, 73.0], [226.0, 82.0, 88.0, 60.0]]),
];

/// `count` jobs with heavy-tailed lengths that arrive `load` times as fast as 64 devices, one job each, can serve them.
pub(crate) fn overloaded(count: usize, load: f64) -> (Vec<JobSpec>, ClusterSpec) {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let (nodes, devices) = (8, 8);
    let gangs = [1, 1, 1, 1, 1, 1, 2, 4, 4, 8, 8, 16];
    let mut jobs: Vec<JobSpec> = Vec::with_capacity(count);
    let mut work_s = 0.0;
    for index in 0..count {
        let pick = |share: f64, len: usize| ((share * len as f64) as usize).min(len - 1);
        let gang = gangs[pick(random(), gangs.len())];
        let (model, sizes) = PROFILES[pick(random(), PROFILES.len())];
        let size = match gang {
            1 => 0,
            2..=4 => 1,
            _ => 2,
        };
        let [iteration_ms, data_ms, compute_ms, network_ms] = sizes[size];
        // Between two minutes and thirty hours, evenly on a logarithmic scale.
        let solo_s = 120.0 * (900.0_f64).powf(random());
        work_s += solo_s * f64::from(gang);
        let submit = work_s / f64::from(nodes * devices) / load;
        let iterations = (solo_s * 1000.0 / iteration_ms).ceil();
        let mut job =
            JobSpec::new(&index.to_string(), Time::from_seconds(submit), gang, iterations, iteration_ms);
        job.stages = Some(StageTimes { data_ms, compute_ms, network_ms });
        job.model = Some(model.into());
        jobs.push(job);
    }
    (jobs, ClusterSpec::uniform("gpu", nodes, devices))
}
