//! A program with a worker and a keeper in it, as `wharf` has them, for tests that kill it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use wharf_worker::{WorkerConfig, keeper_main, run, stage_main};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result: Result<(), Box<dyn std::error::Error>> = match arguments.as_slice() {
        [command, _, state_dir] if command == "keeper" => {
            keeper_main(Path::new(state_dir)).map_err(Into::into)
        }
        [command, _, state_dir, _, stage, _, task @ ..] if command == "keeper" => {
            return ExitCode::from(stage_main(Path::new(state_dir), stage, task));
        }
        [command, head, state_dir] if command == "worker" => worker(head, state_dir.into()),
        _ => Err("usage: keeper --state-dir DIR | worker HEAD DIR".into()),
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
        network_interface: None,
    };
    Ok(run(config, std::future::pending()).await?)
}
