//! `wharf explain`: what a job waits for, who is ahead, what would let it start, and when it will.

use wharf_core::Time;
use wharf_foresight::{Foresight, Outlook, PAST_MAX};
use wharf_job::JobNumber;
use wharf_sim::forecast::CONFIDENCE;

use super::super::connect::with;
use super::super::jobs::id_of;
use crate::args::{ExplainJobArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::moment;
use crate::output::Terminal;

/// Prints why a job is where it is, and its outlook.
pub(in crate::commands) fn explain(args: &ExplainJobArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let number: JobNumber = args.job.parse().map_err(|error| {
        CliError::usage(format!("invalid job id `{}`: {error}", args.job))
            .hint("for a job of a simulated run, use `--run DIR`")
    })?;
    let (id, reason, foresight) = with(&args.home, async |client| {
        let id = id_of(client, number).await?;
        // The state first: if the job has started meanwhile, the reason reports it.
        let foresight = Foresight::fetch(client, PAST_MAX).await?;
        Ok((id, client.explain(id).await?, foresight))
    })?;
    let outlook = foresight.waiting(id).map(|job| Outlook::new(&foresight, job)).transpose()?;
    match terminal.format {
        OutputFormat::Json => {
            let outlook = outlook.map(|outlook| outlook.json(&foresight));
            let document =
                serde_json::json!({ "schema": 1, "job": id, "reason": reason, "outlook": outlook });
            terminal.json(&document)?;
        }
        OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => {
            let more = outlook.map(|outlook| outlook_text(&outlook, &foresight)).unwrap_or_default();
            terminal.data(&format!("{reason}\n{more}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn outlook_text(outlook: &Outlook, foresight: &Foresight) -> String {
    let mut text = String::new();
    if !outlook.ahead.is_empty() {
        text += &format!("ahead:     {}\n", wharf_report::human::jobs(&outlook.ahead));
    }
    for (index, way) in outlook.now_if.iter().enumerate() {
        text += &format!("{}{way}\n", if index == 0 { "now with:  " } else { "       or  " });
    }
    let away = |time: Time| wharf_report::human::duration(time.since(foresight.now()));
    let at = |time: Time| moment::local(foresight.unix_s(time));
    text += &match (outlook.start.median, outlook.start.low, outlook.start.high) {
        (Some(median), Some(low), Some(high)) => format!(
            "expected:  {} (in {}), with {:.0} % certainty in {} to {}\n",
            at(median),
            away(median),
            100.0 * CONFIDENCE,
            away(low),
            away(high)
        ),
        (Some(median), Some(low), None) => format!(
            "expected:  {} (in {}), not before {} from now; it may take much longer\n",
            at(median),
            away(median),
            away(low)
        ),
        _ => "expected:  no start is predicted with the current nodes\n".to_owned(),
    };
    text
}
