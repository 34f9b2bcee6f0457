//! Filters of jobs as the head takes them.

use wharf_client::{Client, unix_s};
use wharf_proto::{JobFilter, JobPhase};

use crate::args::{FilterArgs, JobStateArg};
use crate::error::CliError;

/// Placeholder for the current user.
const ME: &str = "me";

/// What the flags say; a head has to be asked who `me` is.
pub(super) async fn filter(client: &Client, args: &FilterArgs) -> Result<JobFilter, CliError> {
    let user = match args.user.as_deref() {
        Some(ME) => Some(client.info().await?.user),
        user => user.map(str::to_owned),
    };
    let now_s = unix_s();
    Ok(JobFilter {
        phases: args.state.iter().map(|&state| asked_phase(state).into()).collect(),
        user,
        account: args.account.clone(),
        pool: args.pool.clone(),
        name: args.name.clone().unwrap_or_default(),
        since_s: args.since.map(|moment| moment.unix_s(now_s)),
        until_s: args.until.map(|moment| moment.unix_s(now_s)),
        cause: args.cause.map_or(0, Into::into),
        live_only: false,
    })
}

fn asked_phase(state: JobStateArg) -> JobPhase {
    match state {
        JobStateArg::Waiting => JobPhase::Waiting,
        JobStateArg::Held => JobPhase::Held,
        JobStateArg::Placed => JobPhase::Placed,
        JobStateArg::Running => JobPhase::Running,
        JobStateArg::Stopping => JobPhase::Stopping,
        JobStateArg::Finished => JobPhase::Finished,
        JobStateArg::Failed => JobPhase::Failed,
        JobStateArg::Cancelled => JobPhase::Cancelled,
        JobStateArg::TimedOut => JobPhase::TimedOut,
    }
}
