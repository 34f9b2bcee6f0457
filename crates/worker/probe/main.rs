//! A program with a worker and a supervisor in it, as `wharf` has them, for tests that kill it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use wharf_worker::{
    ContainerSettings, Inventory, SessionTask, StepAnswer, StepReport, TaskSettings, Watch, WorkerConfig,
    exec_session_main, pace_main, run, stage_main, supervisor_main, tell_step,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result: Result<(), Box<dyn std::error::Error>> = match arguments.as_slice() {
        [command, _, state_dir] if command == "supervisor" => {
            supervisor_main(Path::new(state_dir)).map_err(Into::into)
        }
        [command, _, state_dir, stage] if command == "supervisor" && stage == "--stage" => {
            return ExitCode::from(stage_main(Path::new(state_dir)));
        }
        [command, head, state_dir] if command == "worker" => worker(head, state_dir.into()),
        [command, words @ ..] if command == "exec-session" => return exec_session(words),
        [command, iterations] if command == "pace" => pace(iterations),
        [command, iterations, metric, value] if command == "step" => step(iterations, metric, value),
        _ => Err("usage: supervisor --state-dir DIR | worker HEAD DIR | step ITERATIONS METRIC VALUE | \
                  pace ITERATIONS | exec-session --task PID [--terminal] -- COMMAND"
            .into()),
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

fn exec_session(words: &[String]) -> ExitCode {
    let split = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (options, command) = (&words[..split], words.get(split + 1..).unwrap_or_default());
    let values = |name: &str| -> Vec<&String> {
        options.windows(2).filter(|pair| pair[0] == name).map(|pair| &pair[1]).collect()
    };
    let number = |name: &str| values(name).first().and_then(|value| value.parse().ok()).unwrap_or_default();
    let id = |name: &str| u32::try_from(number(name)).unwrap_or_default();
    let task = SessionTask {
        pid: id("--task"),
        start_time: number("--start-time"),
        uid: id("--uid"),
        gid: id("--gid"),
        cgroups: values("--cgroup").into_iter().map(PathBuf::from).collect(),
        denied_devices: values("--denied-device").into_iter().map(PathBuf::from).collect(),
    };
    ExitCode::from(exec_session_main(&task, options.iter().any(|word| word == "--terminal"), command))
}

fn pace(iterations: &str) -> Result<(), Box<dyn std::error::Error>> {
    Ok(pace_main(iterations.parse()?)?)
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
    let mut config = WorkerConfig {
        head: head.to_owned(),
        token: std::env::var("PROBE_TOKEN").unwrap_or_default(),
        node: "n0".into(),
        device_type: "v100".into(),
        devices: 4,
        cpus: 4,
        memory_gib: 1,
        switch: 0,
        pool: String::new(),
        features: Vec::new(),
        address: "127.0.0.1".into(),
        state_dir,
        supervisor_program: None,
        rehearsal: None,
        network_interface: None,
        watch: Watch::default(),
        containers: ContainerSettings::default(),
        tasks: TaskSettings::default(),
        lifetime: None,
    };
    if let Ok(line) = std::env::var("PROBE_CONTAINER_COMMAND") {
        config.containers.command = line.split(' ').map(String::from).collect();
    }
    if std::env::var_os("PROBE_DISCOVER").is_some() {
        let found = Inventory::discover(128).await;
        config.device_type = found.device_type;
        config.devices = u32::try_from(found.devices.len())?;
        config.watch.devices = found.devices;
        config.watch.source = found.source;
        config.watch.interval = Duration::from_millis(100);
    }
    Ok(run(config, std::future::pending()).await?)
}
