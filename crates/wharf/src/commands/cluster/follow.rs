//! A job's output, shown until it has ended.

use std::io::Write as _;
use std::time::Duration;

use tokio::time::sleep;
use wharf_client::Client;
use wharf_proto::{JobPhase, LogsRequest};

use super::logs::{adds_to_one_file, runs};
use super::seen::Seen;
use crate::error::CliError;
use crate::output::Terminal;

/// How often a job that waits is checked.
const LOOK: Duration = Duration::from_millis(50);
/// A job that waits longer is worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows the output of a job's runs, through preemptions and retries, until it has ended.
pub(super) async fn show(
    client: &Client,
    terminal: &Terminal,
    job_id: u32,
    rank: u32,
) -> Result<(), CliError> {
    let mut shown = 0;
    let mut seen = Seen::default();
    let mut waited = Duration::ZERO;
    loop {
        let detail = client.get_job(job_id).await?;
        let runs = runs(&detail);
        let is_one_file = detail.spec.as_ref().is_some_and(adds_to_one_file);
        let job = detail.summary.unwrap_or_default();
        let is_over = job.end_s > 0.0;
        let has_begun = is_over || matches!(job.phase(), JobPhase::Running | JobPhase::Stopping);
        let fresh: Vec<u32> = runs.iter().map(|run| run.number).filter(|&number| number > shown).collect();
        // The last one may not have begun; those before it have.
        let begun = if has_begun { fresh.len() } else { fresh.len().saturating_sub(1) };
        for &generation in &fresh[..begun] {
            if shown > 0 {
                terminal.note(&format!("job {job_id}: run {generation}"));
            }
            seen.begin(is_one_file);
            follow(client, LogsRequest { job_id, rank, follow: true, generation }, &mut seen).await?;
            shown = generation;
        }
        if is_over {
            return Ok(());
        }
        if begun > 0 {
            continue;
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

/// Copies the output of one run to standard output, without what was shown before.
pub(super) async fn follow(client: &Client, request: LogsRequest, seen: &mut Seen) -> Result<(), CliError> {
    let mut output = client.logs(request).await?;
    let mut out = std::io::stdout();
    let mut print = |data: &[u8]| out.write_all(data).and_then(|()| out.flush()).map_err(CliError::stdout);
    while let Some(data) = output.next().await? {
        print(&seen.unseen(&data))?;
    }
    print(&seen.end())
}
