//! `wharf run`: one job, followed to its end.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;
use wharf_client::{Client, ClientError};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, Gang, JobPhase, JobSpec, JobSummary, LogsRequest};

use super::daemon::runtime;
use super::embedded::{Embedded, Hurry, Interruptions, Plan, WorkerPlan};
use super::home::Home;
use crate::args::RunArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// How often a job that waits is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A job that waits longer is worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command as a job and passes its exit code on.
pub(in crate::commands) fn run(args: &RunArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let spec = spec(args)?;
    runtime()?.block_on(async {
        let interruptions = Interruptions::watch();
        if let Some(client) = serving(args).await? {
            let ended = Followed { client, terminal, interruptions }.follow(spec).await;
            return ended.map(exit);
        }
        args.devices.as_deref().map(input::devices).transpose()?;
        let home = tempfile::Builder::new().prefix("wharf-run-").tempdir();
        let home = home.map_err(|error| CliError::write(&std::env::temp_dir(), error))?;
        let plan = Plan {
            home: home.path().to_owned(),
            workers: vec![WorkerPlan { node: "n0".to_owned(), devices: args.devices.clone() }],
            policy: "fifo".to_owned(),
            set: vec![],
        };
        let cluster = Embedded::start(&plan, terminal).await?;
        let ended = alone(home.path(), terminal, interruptions.clone(), spec).await;
        cluster.stop(Hurry::After(interruptions, 2)).await?;
        home.close().map_err(|error| CliError::write(&plan.home, error))?;
        ended.map(exit)
    })
}

async fn alone(
    home: &Path,
    terminal: &Terminal,
    interruptions: Interruptions,
    spec: JobSpec,
) -> Result<i32, CliError> {
    let client = Client::connect(home).await?;
    let wanted = spec.gang.as_ref().map_or(0, |gang| gang.devices);
    let count: u32 = client.list_nodes().await?.iter().map(|node| node.devices).sum();
    if wanted > count {
        return Err(CliError::usage(format!("the job needs {wanted} devices, but there are {count}"))
            .hint("declare more with `--devices TYPE:COUNT`, or ask for fewer with `--gang N`"));
    }
    Followed { client, terminal, interruptions }.follow(spec).await
}

/// A signal that came is what the command ended with.
fn exit(code: i32) -> Exit {
    interrupt::handled().unwrap_or(Exit::Passed(u8::try_from(code & 0xff).unwrap_or(1)))
}

/// The cluster that the job is to run on, if it is not to have its own.
async fn serving(args: &RunArgs) -> Result<Option<Client>, CliError> {
    if args.devices.is_some() {
        return Ok(None);
    }
    let home = match Home::new(&args.home) {
        Ok(home) => home,
        // Without a home there is no cluster in it.
        Err(_) => return Ok(None),
    };
    match Client::connect(home.path()).await {
        Ok(client) => Ok(Some(client)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn spec(args: &RunArgs) -> Result<JobSpec, CliError> {
    let mut command = Vec::new();
    for word in &args.command {
        let text = word.to_str().ok_or_else(|| {
            CliError::usage(format!("`{}` is not UTF-8, which jobs' commands are", word.to_string_lossy()))
        })?;
        command.push(text.to_owned());
    }
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("there is no working directory").caused_by(error))?;
    Ok(JobSpec {
        name: command.first().cloned().unwrap_or_default(),
        user: std::env::var("USER").unwrap_or_default(),
        gang: Some(Gang { devices: args.gang, ..Gang::default() }),
        command,
        workdir: workdir.to_string_lossy().into_owned(),
        grace_s: 10.0,
        ..JobSpec::default()
    })
}

/// A job whose output is shown until it is over.
struct Followed<'a> {
    client: Client,
    terminal: &'a Terminal,
    interruptions: Interruptions,
}

impl Followed<'_> {
    /// Submits the job, shows its output, and gives its exit code. Ctrl-C cancels it; the second one gives up on it.
    async fn follow(&self, spec: JobSpec) -> Result<i32, CliError> {
        let job_id = self.client.submit(vec![spec]).await?.first().copied().unwrap_or_default();
        let over = async {
            let (shown, ended) = tokio::join!(self.show(job_id), self.client.wait(job_id));
            let ended = ended?;
            shown?;
            if !ended.reason.is_empty() && !matches!(ended.phase(), JobPhase::Finished | JobPhase::Failed) {
                self.terminal.note(&ended.reason);
            }
            Ok(ended.exit_code)
        };
        tokio::select! {
            code = over => code,
            () = self.cancel(job_id) => Ok(0),
        }
    }

    /// Cancels the job on the first Ctrl-C, returns on the second.
    async fn cancel(&self, job_id: u32) {
        self.interruptions.clone().reach(1).await;
        self.terminal.note("stopping the job; Ctrl-C again does not wait for it");
        let request =
            ChangeJobsRequest { change: Change::Cancel.into(), job_ids: vec![job_id], ..Default::default() };
        if let Err(error) = self.client.change_jobs(request).await {
            self.terminal.warn(&error.to_string());
        }
        self.interruptions.clone().reach(2).await;
    }

    /// Shows what the job says, through preemptions, until it is over.
    async fn show(&self, job_id: u32) -> Result<(), CliError> {
        let mut shown = 0;
        let mut waited = Duration::ZERO;
        loop {
            let (job, placements) = self.look(job_id).await?;
            let is_over = job.end_s > 0.0;
            let has_begun = is_over || matches!(job.phase(), JobPhase::Running | JobPhase::Stopping);
            if placements > shown && has_begun {
                self.copy(LogsRequest { job_id, rank: 0, follow: true }).await?;
                shown = placements;
                if self.look(job_id).await?.0.end_s > 0.0 {
                    return Ok(());
                }
            } else if is_over {
                return Ok(());
            }
            sleep(LOOK).await;
            if shown == 0 && waited < PATIENCE {
                waited += LOOK;
                if waited >= PATIENCE {
                    let reason = self.client.explain(job_id).await?;
                    self.terminal.note(&format!("job {job_id} waits: {reason}"));
                }
            }
        }
    }

    /// The job, and how often it was placed.
    async fn look(&self, job_id: u32) -> Result<(JobSummary, usize), ClientError> {
        let detail = self.client.get_job(job_id).await?;
        let placements = detail.history.iter().filter(|entry| entry.what.contains("\"job_placed\"")).count();
        Ok((detail.summary.unwrap_or_default(), placements))
    }

    async fn copy(&self, request: LogsRequest) -> Result<(), CliError> {
        let mut output = self.client.logs(request).await?;
        let mut out = std::io::stdout();
        while let Some(data) = output.next().await? {
            out.write_all(&data).and_then(|()| out.flush()).map_err(CliError::stdout)?;
        }
        Ok(())
    }
}
