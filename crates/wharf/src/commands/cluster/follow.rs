//! A job's output, shown until it is over.

use std::io::Write as _;
use std::time::Duration;

use tokio::time::sleep;
use wharf_client::{Client, ClientError};
use wharf_proto::{JobPhase, JobSummary, LogsRequest};

use crate::error::CliError;
use crate::output::Terminal;

/// How often a job that waits is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A job that waits longer is worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows what the job says, through preemptions, until it is over.
pub(super) async fn show(client: &Client, terminal: &Terminal, job_id: u32) -> Result<(), CliError> {
    let mut shown = 0;
    let mut waited = Duration::ZERO;
    loop {
        let (job, placements) = look(client, job_id).await?;
        let is_over = job.end_s > 0.0;
        let has_begun = is_over || matches!(job.phase(), JobPhase::Running | JobPhase::Stopping);
        if placements > shown && has_begun {
            copy(client, LogsRequest { job_id, rank: 0, follow: true }).await?;
            shown = placements;
            if look(client, job_id).await?.0.end_s > 0.0 {
                return Ok(());
            }
        } else if is_over {
            return Ok(());
        }
        sleep(LOOK).await;
        if shown == 0 && waited < PATIENCE {
            waited += LOOK;
            if waited >= PATIENCE {
                let reason = client.explain(job_id).await?;
                terminal.note(&format!("job {job_id} waits: {reason}"));
            }
        }
    }
}

/// The job, and how often it was placed.
async fn look(client: &Client, job_id: u32) -> Result<(JobSummary, usize), ClientError> {
    let detail = client.get_job(job_id).await?;
    let placements = detail.history.iter().filter(|entry| entry.what.contains("\"job_placed\"")).count();
    Ok((detail.summary.unwrap_or_default(), placements))
}

async fn copy(client: &Client, request: LogsRequest) -> Result<(), CliError> {
    let mut output = client.logs(request).await?;
    let mut out = std::io::stdout();
    while let Some(data) = output.next().await? {
        out.write_all(&data).and_then(|()| out.flush()).map_err(CliError::stdout)?;
    }
    Ok(())
}
