//! `wharf submit --slurm`: jobs become Slurm's own, which are handed in, and followed where asked to.

use std::time::Duration;

use wharf_job::{Planned, SlurmExecutor};
use wharf_pilot::direct::{Options, follow, submission};
use wharf_pilot::{CommandQueue, JobState, Queue as _, QueueJob, Submission, sbatch_options};

use super::daemon::runtime;
use crate::args::{OutputFormat, SubmitArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// How often Slurm is asked how a job is: its programs poll less often, and others are served, too.
const LOOK: Duration = Duration::from_secs(1);

/// Hands jobs to Slurm; none unless all can be.
pub(super) fn submit(planned: &[Planned], args: &SubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if args.follow {
        return Err(CliError::usage("`--follow` shows the output of jobs of a head")
            .hint("Slurm writes it to the file that `--output-file` names; `--wait` waits for the end"));
    }
    let made = planned.iter().map(made).collect::<Result<Vec<_>, CliError>>()?;
    if args.dry_run {
        let scripts: Vec<String> = made.iter().map(whole_script).collect();
        terminal.data(&scripts.join("\n"))?;
        return Ok(Exit::Ok);
    }
    runtime()?.block_on(async {
        let queue = CommandQueue::default();
        let mut ids = Vec::new();
        for submission in &made {
            let submitted = queue.submit(submission).await.map_err(wharf_pilot::PilotError::from);
            ids.push(submitted.map_err(|error| taken_so_far(error.into(), &ids))?);
        }
        match terminal.format {
            OutputFormat::Json => {
                terminal.json(&serde_json::json!({ "schema": 1, "executor": "slurm", "slurm_ids": ids }))?;
            }
            OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => {
                terminal.data(&(ids.join("\n") + "\n"))?
            }
        }
        if args.wait { wait(&queue, &ids, terminal).await } else { Ok(Exit::Ok) }
    })
}

/// A script with the options of sbatch in it, so that sbatch does the same with it alone.
fn whole_script(submission: &Submission) -> String {
    let (first, rest) = submission.script.split_once('\n').unwrap_or((&submission.script, ""));
    let line = |option: &String| format!("#SBATCH {}\n", wharf_document::shell::quote(option));
    let options: String = sbatch_options(submission).iter().map(line).collect();
    format!("{first}\n{options}{rest}")
}

fn made(planned: &Planned) -> Result<Submission, CliError> {
    let Some(SlurmExecutor { partition, account, qos, options }) =
        planned.job.executor.clone().and_then(|executor| executor.slurm)
    else {
        return Err(CliError::usage(format!(
            "`{}` is a job for the head, but other jobs are for Slurm",
            planned.spec.name
        ))
        .hint("submit them from different files"));
    };
    if !planned.waits.is_empty() {
        return Err(CliError::usage(format!("`{}` depends on another job of the file", planned.spec.name))
            .hint("set Slurm dependencies with `--slurm-option --dependency=...`"));
    }
    let options = Options {
        partition: partition.unwrap_or_default(),
        account: account.unwrap_or_default(),
        qos: qos.unwrap_or_default(),
        extra: options.unwrap_or_default(),
    };
    Ok(submission(&planned.spec, &options)?)
}

fn taken_so_far(error: CliError, ids: &[String]) -> CliError {
    if ids.is_empty() {
        return error;
    }
    error.hint(format!("others were submitted before; cancel them with `scancel {}`", ids.join(" ")))
}

/// Waits for all; the exit code is the first that is not 0.
async fn wait(queue: &CommandQueue, ids: &[String], terminal: &Terminal) -> Result<Exit, CliError> {
    let mut worst = 0;
    for id in ids {
        let told = |job: &QueueJob| terminal.note(&format!("{}: {}", job.id, shown(job)));
        let ended = follow(queue, id, LOOK, told).await.map_err(wharf_pilot::PilotError::from)?;
        let codes = ended.iter().map(QueueJob::exit_code);
        worst = codes.fold(worst, |worst, code| if worst == 0 { code } else { worst });
    }
    Ok(Exit::Passed(u8::try_from(worst & 0xff).unwrap_or(1)))
}

fn shown(job: &QueueJob) -> String {
    match &job.state {
        JobState::Pending => format!("waits ({})", job.reason),
        JobState::Running => format!("runs on {}", job.nodes),
        JobState::Ending => "ends".to_owned(),
        JobState::Over(word) => format!("{word}, exit code {}", job.exit_code()),
    }
}
