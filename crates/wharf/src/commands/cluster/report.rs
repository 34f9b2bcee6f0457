//! `wharf report`: a page about what a cluster has done.

use std::io::Write as _;

use wharf_report::html::{Page, PageRun, render};
use wharf_report::{RunLabels, Summary};

use super::connect::with;
use super::record::record;
use crate::args::ReportArgs;
use crate::commands::sim::command_line;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Terminal, counted};
use wharf_staging::StagedFile;

/// Writes the page.
pub(in crate::commands) fn report(args: &ReportArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (record, info) = with(&args.home, async |client| Ok((record(client).await?, client.info().await?)))?;
    let (nodes, specs, outcome) = (record.cluster(), record.specs(), record.outcome());
    let kinds = record.nodes.iter().map(|node| format!("{}:{}", node.device_type, node.devices));
    let labels = RunLabels {
        policy: if info.policy.is_empty() { "cluster".to_owned() } else { info.policy },
        trace: "submitted".to_owned(),
        preset: "real processes".to_owned(),
        cluster: kinds.collect::<Vec<_>>().join(" + "),
        seed: 0,
    };
    let summary = Summary::new(labels, &outcome, 0.0);
    let page = Page {
        title: "Cluster usage".to_owned(),
        commands: vec![command_line()],
        runs: vec![PageRun::new(summary, &nodes, &specs, &outcome)],
        tables: vec![("Jobs".to_owned(), record.table())],
    };
    let mut file = StagedFile::create(&args.to)?;
    file.write_all(render(&page).as_bytes()).map_err(|error| CliError::write(&args.to, error))?;
    file.commit()?;
    terminal.note(&format!("{} in `{}`", counted(record.jobs.len(), "job"), args.to.display()));
    Ok(Exit::Ok)
}
