//! `wharf sdiag`: counts of the head.

use crate::grammar::getopt::{self, Opt, Order, Takes};
use jiff::Zoned;
use serde_json::json;
use wharf_proto::{JobPhase, ListJobsRequest};

use super::{CommandError, Context, accounting_json};

use Takes::{Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("all", 'a', Nothing),
    Opt::new("cluster", 'M', Value),
    Opt::new("help", 'h', Nothing),
    Opt::new("json", ' ', Nothing),
    Opt::new("sort-by-id", 'i', Nothing),
    Opt::new("version", 'V', Nothing),
];

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let client = &context.connect().await?;
    let info = client.info().await?;
    let live = client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?;
    let count = |phases: &[JobPhase]| live.iter().filter(|job| phases.contains(&job.phase())).count();
    let pending = count(&[JobPhase::Waiting, JobPhase::Held]);
    let running = count(&[JobPhase::Placed, JobPhase::Running, JobPhase::Stopping]);
    let submitted = info.jobs_live + info.jobs_ended;
    let now = Zoned::now();
    if parsed.has("json") {
        let statistics = json!({
            "req_time": now.timestamp().as_second(),
            "jobs_submitted": submitted,
            "jobs_completed": info.jobs_ended,
            "jobs_pending": pending,
            "jobs_running": running,
        });
        let document = json!({ "meta": accounting_json::meta(), "errors": [], "statistics": statistics });
        context.print(&[document.to_string()])?;
        return Ok(0);
    }
    let line = "*******************************************************".to_owned();
    context.print(&[
        line.clone(),
        format!("sdiag output at {} ({})", now.strftime("%a %b %d %H:%M:%S %Y"), now.timestamp().as_second()),
        line,
        format!("Scheduling policy: {}", info.policy),
        String::new(),
        format!("Jobs submitted: {submitted}"),
        format!("Jobs completed: {}", info.jobs_ended),
        String::new(),
        format!("Jobs pending:   {pending}"),
        format!("Jobs running:   {running}"),
    ])?;
    Ok(0)
}
