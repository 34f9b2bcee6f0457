//! A program with a worker and a keeper in it, as `wharf` has them, for tests that kill it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use wharf_worker::{StepAnswer, StepReport, WorkerConfig, keeper_main, run, tell_step};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result: Result<(), Box<dyn std::error::Error>> = match arguments.as_slice() {
        [command, _, state_dir] if command == "keeper" => {
            keeper_main(Path::new(state_dir)).map_err(Into::into)
        }
        [command, head, state_dir] if command == "worker" => worker(head, state_dir.into()),
        [command, iterations, metric, value] if command == "step" => step(iterations, metric, value),
        _ => Err("usage: keeper --state-dir DIR | worker HEAD DIR | step ITERATIONS METRIC VALUE".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{error}: {:?}", error.source());
            ExitCode::FAILURE
        }
    }
}

fn step(iterations: &str, metric: &str, value: &str) -> Result<(), Box<dyn std::error::Error>> {
    let metrics = [(metric.to_owned(), value.parse()?)].into();
    let report = StepReport { iterations: Some(iterations.parse()?), metrics, ..StepReport::default() };
    match tell_step(&report) {
        StepAnswer::GoOn => Ok(()),
        answer => Err(format!("{answer:?}").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn worker(head: &str, state_dir: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let config = WorkerConfig {
        head: head.to_owned(),
        token: std::env::var("PROBE_TOKEN").unwrap_or_default(),
        node: "n0".into(),
        device_type: "v100".into(),
        devices: 4,
        cpus: 4,
        memory_gib: 1,
        switch: 0,
        address: "127.0.0.1".into(),
        state_dir,
        keeper_program: None,
    };
    Ok(run(config, std::future::pending()).await?)
}
