//! `wharf tune`: a sweep over parameters as one object, which is an array and a folder.

use std::path::PathBuf;

use wharf_client::Client;
use wharf_job::{
    Format, Source, Sweep, SweepFolderError, SweepRecord, SweepResults, SweepResultsError, sweep,
};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{
    ChangeJobsRequest, JobMetrics, JobPhase, JobSpec, JobSummary, ListJobsRequest, MetricsRequest,
};
use wharf_report::table::{Cell, Column, Table, csv};

use super::connect::with;
use super::metrics;
use super::submit::{context, read, wait, warn_about};
use crate::args::{
    Axis, OutputFormat, TuneArgs, TuneCommand, TuneReportArgs, TuneResultsArgs, TuneRetryArgs, TuneStartArgs,
};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Where sweeps have their folders.
const FOLDER: &str = "wharf-tune";

/// Does what the arguments say.
pub(in crate::commands) fn tune(command: &TuneCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        TuneCommand::Start(args) => start(args, terminal),
        TuneCommand::Status(args) => status(args, terminal),
        TuneCommand::Retry(args) => retry(args, terminal),
        TuneCommand::Results(args) => results(args, terminal),
        TuneCommand::Cancel(args) => cancel(args, terminal),
        TuneCommand::Report(args) => report(args, terminal),
    }
}

fn start(args: &TuneStartArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let sweep = planned(args)?;
    warn_about(&sweep.spec, terminal);
    let mut record = SweepRecord::new(&sweep);
    if args.dry_run {
        return tell(&SweepResults::new(&record, vec![]), terminal);
    }
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(FOLDER).join(file_name(&sweep.name)));
    if SweepRecord::is_in(&folder) {
        return Err(CliError::usage(format!("`{}` already contains a sweep", folder.display()))
            .hint("run its failed elements with `wharf tune retry`, or set another directory with `--dir`"));
    }
    // Before anything runs: what cannot be written down would be lost.
    record.write(&folder)?;
    with(&args.home, async |client| {
        let ids = submit(client, &mut record, sweep.spec).await;
        if ids.is_err() {
            // Nothing was taken: the folder is free again.
            let _ = SweepRecord::discard(&folder);
        }
        let ids = ids?;
        record.write(&folder)?;
        let job = ids.first().copied().unwrap_or_default();
        match terminal.format {
            OutputFormat::Json => {
                let count = ids.len();
                terminal.json(
                    &serde_json::json!({ "schema": 1, "job_id": job, "count": count, "dir": folder }),
                )?;
            }
            OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => {
                terminal.data(&format!("{job}\n"))?
            }
        }
        terminal.note(&format!(
            "{} configurations as array {job}; `wharf tune results {}`",
            ids.len(),
            folder.display()
        ));
        if args.wait { wait(client, terminal, &ids).await } else { Ok(Exit::Ok) }
    })
}

fn planned(args: &TuneStartArgs) -> Result<Sweep, CliError> {
    let context = context(Some(&args.file), &args.job)?;
    let (name, text) = read(&args.file)?;
    let format = args.format.or_else(|| Format::of(&args.file)).ok_or_else(|| {
        CliError::usage(format!("cannot detect the format of `{name}`"))
            .hint("set `--format yaml`, `toml` or `json`")
    })?;
    Ok(sweep(Source { name: &name, text: &text, format }, &args.job.to_job(&[]), &context)?)
}

/// A name as a folder can have it.
fn file_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    name.chars().map(plain).collect::<String>().trim_start_matches('.').to_owned()
}

/// Hands an array in and writes down which jobs it is.
async fn submit(client: &Client, record: &mut SweepRecord, spec: JobSpec) -> Result<Vec<u32>, CliError> {
    let indexes = spec.array.clone();
    let ids = client.submit(vec![spec]).await?;
    record.add(&ids, indexes);
    Ok(ids)
}

/// The latest jobs of a sweep's elements.
async fn jobs(client: &Client, record: &SweepRecord) -> Result<Vec<JobSummary>, CliError> {
    let job_ids: Vec<u32> = record.latest().into_iter().flatten().collect();
    if job_ids.is_empty() {
        return Ok(vec![]);
    }
    Ok(client.list_jobs(ListJobsRequest { job_ids, ..Default::default() }).await?)
}

fn table(args: &TuneArgs) -> Result<(SweepRecord, SweepResults), CliError> {
    let record = SweepRecord::read(&args.dir)?;
    let jobs = with(&args.home, async |client| jobs(client, &record).await)?;
    let table = SweepResults::new(&record, jobs);
    Ok((record, table))
}

fn status(args: &TuneArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (record, table) = table(args)?;
    let job_id = record.first_job();
    let document = serde_json::json!({
        "schema": 1,
        "name": record.name,
        "job_id": job_id,
        "elements": record.rows.len(),
        "attempts": record.submissions.len(),
        "states": table.counts(),
    });
    match terminal.format {
        OutputFormat::Json => terminal.json(&document)?,
        OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
        OutputFormat::Table => {
            let mut grid = Grid::new(["state", "elements"]);
            for (state, count) in table.counts() {
                grid.push([state, &count.to_string()]);
            }
            grid.push(["all", &record.rows.len().to_string()]);
            terminal.grid(&grid)?;
        }
    }
    Ok(Exit::Ok)
}

fn retry(args: &TuneRetryArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let folder = &args.sweep.dir;
    let mut record = SweepRecord::read(folder)?;
    with(&args.sweep.home, async |client| {
        let jobs = jobs(client, &record).await?;
        let has_failed = |job: &&JobSummary| matches!(job.phase(), JobPhase::Failed | JobPhase::TimedOut);
        let mut failed: Vec<u32> = jobs.iter().filter(has_failed).filter_map(|job| job.array_index).collect();
        failed.sort_unstable();
        let Some(first) = record.first_job().filter(|_| !failed.is_empty()) else {
            terminal.note("no element has failed");
            return Ok(Exit::Ok);
        };
        // As it was submitted, whatever has become of the file since; with its secrets, which only the head has.
        let count = failed.len();
        let ids = client.resubmit(first, failed.clone()).await?;
        record.add(&ids, failed);
        record.write(folder)?;
        let job = ids.first().copied().unwrap_or_default();
        terminal.data(&format!("{job}\n"))?;
        terminal.note(&format!("{count} of {} elements resubmitted as array {job}", record.rows.len()));
        if args.wait { wait(client, terminal, &ids).await } else { Ok(Exit::Ok) }
    })
}

fn results(args: &TuneResultsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (record, mut table) = table(&args.sweep)?;
    if let Some(by) = &args.sort {
        if args.best_over_time {
            let name = by.trim_start_matches('-').to_owned();
            let names = vec![name];
            let curves = with(&args.sweep.home, async |client| curves(client, &record, names).await)?;
            table.add_best(by, &curves);
        }
        table.sort(by)?;
    }
    if let Some(by) = args.sort.as_ref().filter(|_| args.best) {
        table.keep_best(by)?;
    }
    tell(&table, &terminal.with_csv(args.csv))
}

/// The stored metrics of a sweep's latest jobs.
async fn curves(
    client: &Client,
    record: &SweepRecord,
    names: Vec<String>,
) -> Result<Vec<JobMetrics>, CliError> {
    let job_ids: Vec<u32> = record.latest().into_iter().flatten().collect();
    if job_ids.is_empty() {
        return Ok(vec![]);
    }
    metrics::read(client, MetricsRequest { job_ids, names, elements_only: true }, Axis::Step).await
}

fn cancel(args: &TuneArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let record = SweepRecord::read(&args.dir)?;
    with(&args.home, async |client| {
        let jobs = jobs(client, &record).await?;
        let open: Vec<u32> = jobs.iter().filter(|job| job.end_s <= 0.0).map(|job| job.job_id).collect();
        if open.is_empty() {
            terminal.note("all elements have ended");
            return Ok(Exit::Ok);
        }
        let count = open.len();
        let request = ChangeJobsRequest {
            change: Change::Cancel.into(),
            job_ids: open,
            elements_only: true,
            ..ChangeJobsRequest::default()
        };
        let refused = client.change_jobs(request).await?;
        for refusal in &refused {
            terminal.warn(&format!("job {}: {}", refusal.job_id, refusal.reason));
        }
        terminal.note(&format!("{} of {} elements are cancelled", count - refused.len(), record.rows.len()));
        Ok(if refused.is_empty() { Exit::Ok } else { Exit::Passed(1) })
    })
}

fn report(args: &TuneReportArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let record = SweepRecord::read(&args.sweep.dir)?;
    let (table, curves) = with(&args.sweep.home, async |client| {
        let jobs = jobs(client, &record).await?;
        Ok((SweepResults::new(&record, jobs), curves(client, &record, vec![]).await?))
    })?;
    let path = args.out.clone().unwrap_or_else(|| args.sweep.dir.join("report.html"));
    let page = wharf_report::html::sweep_page(&record.name, &table.to_page(&record, &curves));
    wharf_staging::write(&path, &page)?;
    terminal.note(&format!("wrote {}", path.display()));
    Ok(Exit::Ok)
}

fn tell(results: &SweepResults, terminal: &Terminal) -> Result<Exit, CliError> {
    let columns = results.header().into_iter().map(|name| Column::text(name, name)).collect();
    let mut table = Table::new(columns);
    results.cells().for_each(|cells| table.push(cells.iter().map(|cell| Cell::text(cell)).collect()));
    match terminal.format {
        OutputFormat::Json => terminal.json(&results.to_json())?,
        OutputFormat::Plain => terminal.data(&table.to_plain())?,
        OutputFormat::Csv => terminal.data(&csv(&table.to_plain()))?,
        OutputFormat::Table => terminal.data(&table.to_text())?,
    }
    Ok(Exit::Ok)
}

impl From<SweepFolderError> for CliError {
    fn from(error: SweepFolderError) -> Self {
        let kind = match &error {
            SweepFolderError::Read { .. } | SweepFolderError::Malformed { .. } => ErrorKind::Input,
            SweepFolderError::Folder { .. } => ErrorKind::Output,
            SweepFolderError::Json(_) | SweepFolderError::Csv(_) => ErrorKind::Internal,
            SweepFolderError::Write(_) => ErrorKind::Output,
        };
        let failed = Self::from_error(kind, &error);
        match error {
            SweepFolderError::Read { .. } => {
                failed.hint("give the directory that `wharf tune start` has printed")
            }
            _ => failed,
        }
    }
}

impl From<SweepResultsError> for CliError {
    fn from(error: SweepResultsError) -> Self {
        match &error {
            SweepResultsError::UnknownColumn { known, .. } => {
                Self::from_error(ErrorKind::Usage, &error).hint(format!("known are {}", known.join(", ")))
            }
            SweepResultsError::NoValue => Self::from_error(ErrorKind::Input, &error)
                .hint("an element whose metric is now NaN or infinite has diverged and is never the best"),
        }
    }
}
