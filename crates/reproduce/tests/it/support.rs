//! Reads the reference's traces and results from the shared data beside the repository.

use std::path::Path;

use serde::de::DeserializeOwned;
use wharf_core::{ClusterSpec, JobSpec, StageTimes, Time};
use wharf_outcome::{NoRecorder, Outcome, Recorder};
use wharf_policy::Settings;
use wharf_reproduce::muri::Numbers;
use wharf_reproduce::{Mechanism, Refusal, Request};

/// A shipped preset's numbers.
pub(crate) fn numbers<N: DeserializeOwned>(preset: &str) -> N {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../presets/{preset}.toml"));
    let text = std::fs::read_to_string(path).expect("the preset is in the repository");
    let table: toml::Table = toml::from_str(&text).expect("the preset parses");
    table[preset].clone().try_into().expect("its numbers parse")
}

/// A trace in the reference's format.
pub(crate) fn trace(path: &Path) -> Vec<JobSpec> {
    let mut reader = csv::Reader::from_path(path).expect("a trace");
    let headers = reader.headers().expect("a header").clone();
    let column = |name: &str| headers.iter().position(|header| header == name).expect(name);
    let names =
        ["job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time"];
    let [id, gpus, submit, iterations, model, duration, iteration] = names.map(column);
    let stages = [0, 1, 2].map(|index| column(&format!("resource_time_{index}")));
    let priority = column("priority");
    reader
        .records()
        .map(|record| {
            let record = record.expect("a row");
            let number = |column: usize| record[column].parse::<f64>().expect("a number");
            let submit = Time::from_seconds(number(submit) / 1000.0);
            let mut job =
                JobSpec::new(&record[id], submit, number(gpus) as u32, number(iterations), number(iteration));
            job.duration_s = Some(number(duration).trunc() / 1000.0);
            job.model = Some(record[model].into());
            let [data_ms, compute_ms, network_ms] = stages.map(number);
            job.stages = Some(StageTimes { data_ms, compute_ms, network_ms });
            job.priority = -(number(priority) as i32);
            job
        })
        .collect()
}

/// The reference's cluster: 8 nodes of 8 devices.
pub(crate) fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 8, 8)
}

/// Runs a policy, given as `policy` or `policy setting=value ...`.
pub(crate) fn run(jobs: &[JobSpec], variant: &str) -> Outcome {
    run_recorded(jobs, variant, &mut NoRecorder)
}

/// As [`run`], with a recorder.
pub(crate) fn run_recorded(jobs: &[JobSpec], variant: &str, recorder: &mut dyn Recorder) -> Outcome {
    run_on(jobs, &cluster(), variant, recorder).expect("a run")
}

/// As [`run_recorded`], on any cluster.
pub(crate) fn run_on(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    variant: &str,
    recorder: &mut dyn Recorder,
) -> Result<Outcome, Refusal> {
    let mut words = variant.split(' ');
    let policy = words.next().expect("a policy");
    let settings = &Settings::parse(words).expect("name=value");
    let request = Request { jobs, cluster, profile: None, policy, settings, seed: 0, rounds: None };
    numbers::<Numbers>("muri").simulate(&request, recorder)
}
