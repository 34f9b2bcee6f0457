//! What people ask of a head: connecting, and handing jobs in.

use wharf_client::{Client, ClientError};
use wharf_proto::{Dependency, Gang, JobSpec, dependency};

use super::daemon::runtime;
use super::home::Home;
use crate::args::{HomeArgs, OutputFormat, SubmitArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;

/// Connects and asks.
pub(super) fn with<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let home = Home::new(args)?;
    runtime()?.block_on(async { ask(&Client::connect(home.path()).await?).await })
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::Refused { .. } => ErrorKind::Usage,
            _ => ErrorKind::Input,
        };
        let hint = match error {
            ClientError::NoHead { .. } => "start one with `wharf head`, or name its folder with `--home DIR`",
            ClientError::Away { .. } => "is `wharf head` running?",
            ClientError::Token => "is the folder really a head's?",
            _ => return Self::from_error(kind, &error),
        };
        Self::from_error(kind, &error).hint(hint)
    }
}

/// Hands a job in, and waits for it where asked to.
pub(in crate::commands) fn submit(args: &SubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let jobs = vec![spec(args)?];
    with(&args.home, async |client| {
        let ids = client.submit(jobs).await?;
        let text: Vec<String> = ids.iter().map(u32::to_string).collect();
        match terminal.format {
            OutputFormat::Json => terminal.json(&serde_json::json!({ "schema": 1, "job_ids": ids }))?,
            OutputFormat::Table | OutputFormat::Plain => terminal.data(&(text.join("\n") + "\n"))?,
        }
        if !args.wait {
            return Ok(Exit::Ok);
        }
        let mut worst = 0;
        for job_id in ids {
            let code = client.wait(job_id).await?.exit_code;
            if worst == 0 {
                worst = code;
            }
        }
        Ok(Exit::Passed(u8::try_from(worst & 0xff).unwrap_or(1)))
    })
}

fn spec(args: &SubmitArgs) -> Result<JobSpec, CliError> {
    let program = args.command.first().map(String::as_str).unwrap_or_default();
    let after = |kind: dependency::Kind, ids: &[u32]| {
        ids.iter()
            .map(|&job_id| Dependency { kind: kind.into(), job_id, array_index: None })
            .collect::<Vec<_>>()
    };
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("there is no working directory").caused_by(error))?;
    Ok(JobSpec {
        name: args.name.clone().unwrap_or_else(|| program.to_owned()),
        user: std::env::var("USER").unwrap_or_default(),
        gang: Some(Gang { devices: args.gang, device_types: args.types.clone(), ..Gang::default() }),
        command: args.command.clone(),
        workdir: workdir.to_string_lossy().into_owned(),
        output: args.output_file.clone().unwrap_or_default(),
        priority: args.priority,
        time_limit_s: args.time_limit.unwrap_or_default(),
        dependencies: [
            after(dependency::Kind::AfterOk, &args.after_ok),
            after(dependency::Kind::AfterAny, &args.after_any),
        ]
        .concat(),
        retries: args.retries,
        grace_s: 10.0,
        held: args.held,
        array: args.array.clone(),
        ..JobSpec::default()
    })
}
