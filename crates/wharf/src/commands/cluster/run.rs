//! `wharf run`: one job, followed to its end.

use std::path::Path;

use wharf_client::Client;
use wharf_job::Container;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, Gang, JobSpec};

use super::daemon::runtime;
use super::embedded::{Embedded, EmbeddedPlan, Hurry, Interruptions, WorkerPlan};
use super::follow::show;
use super::home::Home;
use crate::args::RunArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

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
        let plan = EmbeddedPlan {
            home: home.path().to_owned(),
            workers: vec![WorkerPlan { devices: args.devices.clone(), ..WorkerPlan::new("n0", "") }],
            policy: None,
            set: vec![],
            seed: 0,
            profile: None,
            http: None,
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
            .hint("declare more with `--devices TYPE:COUNT`, or request fewer with `--gang N`"));
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
    let found = match home.is_elsewhere() {
        true => Client::connect_to(&home.head()?).await,
        false => Client::connect(home.path()).await,
    };
    match found {
        Ok(client) => Ok(Some(client)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn spec(args: &RunArgs) -> Result<JobSpec, CliError> {
    let mut command = Vec::new();
    for word in &args.command {
        let text = word
            .to_str()
            .ok_or_else(|| CliError::usage(format!("`{}` is not UTF-8", word.to_string_lossy())))?;
        command.push(text.to_owned());
    }
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("cannot determine the working directory").caused_by(error))?;
    let container = args.container.as_ref().map(|image| Container {
        image: Some(image.clone()),
        mounts: Some(args.mounts.clone()),
        ..Container::default()
    });
    Ok(JobSpec {
        container: container.map(|container| container.to_wire(|path| workdir.join(path))),
        name: command.first().cloned().unwrap_or_default(),
        gang: Some(Gang { devices: args.gang, ..Gang::default() }),
        command,
        workdir: workdir.to_string_lossy().into_owned(),
        grace_s: 10.0,
        ..JobSpec::default()
    })
}

/// A job whose output is shown until it has ended.
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
            let (shown, ended) =
                tokio::join!(show(&self.client, self.terminal, job_id, 0), self.client.wait(job_id));
            let ended = ended?;
            shown?;
            if !ended.reason.is_empty() {
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
        self.terminal.note("stopping the job; press Ctrl-C again to exit without waiting");
        let request =
            ChangeJobsRequest { change: Change::Cancel.into(), job_ids: vec![job_id], ..Default::default() };
        if let Err(error) = self.client.change_jobs(request).await {
            self.terminal.warn(&error.to_string());
        }
        self.interruptions.clone().reach(2).await;
    }
}
