//! `wharf salloc`, and devices that are held for steps.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crate::grammar::environ::Placed;
use crate::grammar::export::Variables;
use crate::grammar::getopt::{self, Order};
use crate::grammar::shape::CPU;
use crate::grammar::{Request, options, signal};
use crate::launch::CLUSTER;
use tokio::task::AbortHandle;
use wharf_client::{Client, Locator};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, JobPhase, JobSummary, ListJobsRequest};

use super::job::{Made, Script, make};
use super::{CommandError, Context, name_of, option_files, shims, view};

/// How often a job that is waited for is checked.
const LOOK: Duration = Duration::from_millis(50);
/// How long devices stay taken of whose client nothing is heard.
const LEASE: Duration = Duration::from_secs(30);

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(&options::sbatch(), words, Order::First)?;
    let mut request = Request::of_command_line(&parsed.given)?;
    option_files::read_in(&mut request)?;
    request.check()?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let command = if parsed.rest.is_empty() { vec![shell] } else { parsed.rest };
    let path = path_with_links(context);
    let client = context.connect().await?;
    let allocation = Allocation::acquire(context, &client, &request, "salloc", &name_of(&command)).await?;
    let id = allocation.job.job_id;
    context.note(&format!("salloc: Granted job allocation {id}"));
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).envs(path.map(|path| ("PATH", path))).envs(&allocation.variables);
    let status = tokio::task::spawn_blocking(move || process.status()).await;
    allocation.release().await?;
    context.note(&format!("salloc: Relinquishing job allocation {id}"));
    match status.map_err(std::io::Error::other).and_then(|status| status) {
        Ok(status) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => Err(CommandError::failed(format!("{}: {error}", command[0]))),
    }
}

/// The search path with the folder of links to Slurm commands in front, if there is one.
fn path_with_links(context: &Context) -> Option<OsString> {
    // Not per command: it would remain if the command is killed.
    let Some(folder) = &context.links else {
        context.note("salloc: no links to Slurm commands such as srun: HOME is not set");
        return None;
    };
    let failed = |error| {
        let folder = folder.display();
        context.note(&format!("salloc: no links to Slurm commands such as srun in {folder}: {error}"));
    };
    shims::search_path(folder).map_err(failed).ok()
}

/// Waits until a job runs; tells once that it has to be waited for.
pub(super) async fn running(client: &Client, id: u32, tell: impl Fn()) -> Result<JobSummary, CommandError> {
    let mut is_told = false;
    loop {
        let filter = ListJobsRequest { job_ids: vec![id], ..ListJobsRequest::default() };
        let job = client.list_jobs(filter).await?.into_iter().next();
        let job = job.ok_or_else(|| CommandError::failed(format!("Invalid job id {id}")))?;
        if job.phase() == JobPhase::Running {
            return Ok(job);
        }
        if view::outcome(&job).is_some() {
            return Err(CommandError::failed(format!(
                "Job allocation {id} has been revoked: {}",
                job.reason
            )));
        }
        if !is_told {
            tell();
            is_told = true;
        }
        // The head states when a job ends, not when it begins.
        tokio::time::sleep(LOOK).await;
    }
}

/// Devices that are held for commands in the job's tasks.
pub(super) struct Allocation {
    pub(super) job: JobSummary,
    /// What a batch script would find in its environment.
    pub(super) variables: Variables,
    locator: Locator,
    keeping: AbortHandle,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Allocation {
    /// Submits a job that holds devices, and waits until it has them.
    pub(super) async fn acquire(
        context: &Context,
        client: &Client,
        request: &Request,
        who: &str,
        name: &str,
    ) -> Result<Self, CommandError> {
        let script = Script { name, text: None, arguments: &[], path: name };
        let Made { mut spec, shape, .. } = make(context, client, request, &script).await?;
        if let Some(batch) = &mut spec.batch {
            batch.lease_s = LEASE.as_secs_f64();
        }
        let env: Variables = spec.env.clone().into_iter().collect();
        let ids = client.submit(vec![spec]).await?;
        let id = ids.first().copied().unwrap_or_default();
        let keeping = tokio::spawn(keep(context.locator.clone(), client.clone(), id)).abort_handle();
        let job =
            running(client, id, || context.note(&format!("{who}: Pending job allocation {id}"))).await?;
        let nodes: Vec<String> = job.placement.iter().map(|share| share.node.clone()).collect();
        let cpus: Vec<u32> = job.placement.iter().map(|share| share.devices.len() as u32).collect();
        let first = job.placement.first().map(|share| share.devices.clone()).unwrap_or_default();
        let placed = Placed {
            job: id,
            array: None,
            name: &job.name,
            user: &job.user,
            partition: &view::partition(&job.pool),
            cluster: CLUSTER,
            nodes: &nodes,
            cpus: &cpus,
            tasks: shape.tasks,
            cpus_per_task: shape.cpus_per_task,
            gpus: if job.device_type == CPU { &[] } else { &first },
            rank: 0,
            restarts: 0,
        };
        let is_slurm = |(name, _): &(String, String)| name.starts_with("SLURM_");
        let mut variables: Variables = env.into_iter().filter(is_slurm).collect();
        variables.extend(placed.variables());
        Ok(Self { job, variables, locator: context.locator.clone(), keeping })
    }

    /// Lets the job end well, and waits for it.
    pub(super) async fn release(self) -> Result<(), CommandError> {
        let request = ChangeJobsRequest {
            change: Change::Signal.into(),
            job_ids: vec![self.job.job_id],
            signal: signal::number("USR1").unwrap_or_default(),
            signal_script: true,
            ..ChangeJobsRequest::default()
        };
        loop {
            let client = self.locator.connect_patiently(|| ()).await?;
            // One that has ended already, for whatever reason, has given them back.
            let asked = match client.change_jobs(request.clone()).await {
                Ok(refused) if refused.is_empty() => client.wait(self.job.job_id).await.map(drop),
                asked => asked.map(drop),
            };
            match asked {
                Err(error) if error.is_away() => tokio::time::sleep(LOOK).await,
                asked => return Ok(asked?),
            }
        }
    }
}

/// Renews the lease of an allocation; without that the head releases its devices.
async fn keep(locator: Locator, mut client: Client, id: u32) {
    let request = ChangeJobsRequest {
        change: Change::Keep.into(),
        job_ids: vec![id],
        elements_only: true,
        ..ChangeJobsRequest::default()
    };
    loop {
        // What is refused is told where the job is used.
        if client.change_jobs(request.clone()).await.is_err()
            && let Ok(again) = locator.connect_patiently(|| ()).await
        {
            client = again;
        }
        tokio::time::sleep(LEASE / 6).await;
    }
}
