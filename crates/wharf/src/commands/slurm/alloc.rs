//! `wharf salloc`, and devices that are held for steps.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use tokio::task::AbortHandle;
use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, JobPhase, JobSummary, ListJobsRequest};
use wharf_slurm::environ::Placed;
use wharf_slurm::export::Variables;
use wharf_slurm::getopt::{self, Order};
use wharf_slurm::shape::CPU;
use wharf_slurm::{Request, options, signal};

use super::job::{Made, Script, make};
use super::shims::search_path;
use super::{Fail, files, say, view};
use crate::args::HomeArgs;
use crate::commands::cluster::{connect, connect_patiently, runtime, state_home};

/// How often a job that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long devices stay taken of whose client nothing is heard.
const LEASE: Duration = Duration::from_secs(30);

pub(super) fn execute(home: &HomeArgs, words: &[String]) -> Result<u8, Fail> {
    let parsed = getopt::parse(&options::sbatch(), words, Order::First)?;
    let mut request = Request::of_command_line(&parsed.given)?;
    files::read_in(&mut request)?;
    request.check()?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let command = if parsed.rest.is_empty() { vec![shell] } else { parsed.rest };
    let path = path_with_links();
    runtime()?.block_on(async {
        let client = connect(home).await?;
        let held = Held::take(home, &client, &request, "salloc", &name_of(&command)).await?;
        say(&format!("salloc: Granted job allocation {}", held.job.job_id));
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]).envs(path.map(|path| ("PATH", path))).envs(&held.variables);
        let status = tokio::task::spawn_blocking(move || process.status()).await;
        let id = held.job.job_id;
        held.give_back().await?;
        say(&format!("salloc: Relinquishing job allocation {id}"));
        match status.map_err(std::io::Error::other).and_then(|status| status) {
            Ok(status) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
            Err(error) => Err(Fail::failed(format!("{}: {error}", command[0]))),
        }
    })
}

/// The search path with the folder of links to Slurm commands in front, if there is one.
fn path_with_links() -> Option<OsString> {
    // Not per command: it would remain if the command is killed.
    match state_home("") {
        Ok(state) => search_path(&state.join("slurm"), "salloc"),
        Err(_) => {
            say("salloc: no links to Slurm commands such as srun: HOME is not set");
            None
        }
    }
}

fn name_of(command: &[String]) -> String {
    let first = command.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or(first).to_owned()
}

/// Waits until a job runs; tells once that it has to be waited for.
pub(super) async fn running(client: &Client, id: u32, tell: impl Fn()) -> Result<JobSummary, Fail> {
    let mut is_told = false;
    loop {
        let filter = ListJobsRequest { job_ids: vec![id], ..ListJobsRequest::default() };
        let job = client.list_jobs(filter).await?.into_iter().next();
        let job = job.ok_or_else(|| Fail::failed(format!("Invalid job id {id}")))?;
        if job.phase() == JobPhase::Running {
            return Ok(job);
        }
        if view::outcome(&job).is_some() {
            return Err(Fail::failed(format!("Job allocation {id} has been revoked: {}", job.reason)));
        }
        if !is_told {
            tell();
            is_told = true;
        }
        // The head says when a job ends, not when it begins.
        tokio::time::sleep(LOOK).await;
    }
}

/// Devices that are held for commands beside the job's tasks.
pub(super) struct Held {
    pub(super) job: JobSummary,
    /// What a batch script would find in its environment.
    pub(super) variables: Variables,
    home: HomeArgs,
    keeping: AbortHandle,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Held {
    /// Submits a job that holds devices, and waits until it has them.
    pub(super) async fn take(
        home: &HomeArgs,
        client: &Client,
        request: &Request,
        who: &str,
        name: &str,
    ) -> Result<Self, Fail> {
        let script = Script { name, text: None, arguments: &[], path: name };
        let Made { mut spec, shape, .. } = make(client, request, &script).await?;
        if let Some(batch) = &mut spec.batch {
            batch.lease_s = LEASE.as_secs_f64();
        }
        let env: Variables = spec.env.clone().into_iter().collect();
        let ids = client.submit(vec![spec]).await?;
        let id = ids.first().copied().unwrap_or_default();
        let own = || HomeArgs { home: home.home.clone() };
        let keeping = tokio::spawn(keep(own(), client.clone(), id)).abort_handle();
        let job = running(client, id, || say(&format!("{who}: Pending job allocation {id}"))).await?;
        let nodes: Vec<String> = job.placement.iter().map(|share| share.node.clone()).collect();
        let cpus: Vec<u32> = job.placement.iter().map(|share| share.devices.len() as u32).collect();
        let first = job.placement.first().map(|share| share.devices.clone()).unwrap_or_default();
        let placed = Placed {
            job: id,
            array: None,
            name: &job.name,
            user: &job.user,
            partition: &view::partition(&job.pool),
            cluster: "wharf",
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
        Ok(Self { job, variables, home: own(), keeping })
    }

    /// Lets the job end well, and waits for it.
    pub(super) async fn give_back(self) -> Result<(), Fail> {
        let request = ChangeJobsRequest {
            change: Change::Signal.into(),
            job_ids: vec![self.job.job_id],
            signal: signal::number("USR1").unwrap_or_default(),
            signal_script: true,
            ..ChangeJobsRequest::default()
        };
        loop {
            let client = connect_patiently(&self.home, || ()).await?;
            // One that is over already, for whatever reason, has given them back.
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
async fn keep(home: HomeArgs, mut client: Client, id: u32) {
    let request = ChangeJobsRequest {
        change: Change::Keep.into(),
        job_ids: vec![id],
        elements_only: true,
        ..ChangeJobsRequest::default()
    };
    loop {
        // What is refused is told where the job is used.
        if client.change_jobs(request.clone()).await.is_err()
            && let Ok(again) = connect_patiently(&home, || ()).await
        {
            client = again;
        }
        tokio::time::sleep(LEASE / 6).await;
    }
}
