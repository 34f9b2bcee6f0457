//! The demo on a real cluster of four nodes within this process: real jobs, preemptions, checkpoints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wharf_client::Client;
use wharf_proto::{JobSummary, ListJobsRequest};
use wharf_report::cluster::Record;
use wharf_report::html::{Page, PageRun, render};
use wharf_report::plot;
use wharf_report::{Breakdown, Report, RunLabels, Summary, files as tables};

use super::files;
use super::load::{self, Arrival};
use super::show::Show;
use crate::args::{DemoArgs, OutputFormat};
use crate::carried;
use crate::commands::cluster::{self, Embedded, EmbeddedPlan, Frame, Hurry, Interruptions, WorkerPlan};
use crate::commands::sim::command_line;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;
use wharf_report::files::REPORT_HTML;
use wharf_study::OutDir;

/// How often the table is brought up to date.
const LOOK: Duration = Duration::from_millis(200);
/// Nodes and their devices.
const WORKERS: [(&str, &str); 4] = [("n0", "v100:4"), ("n1", "v100:4"), ("n2", "a40:4"), ("n3", "a40:4")];
/// The jobs of the demo where no number is given.
const JOBS: u64 = 12;
/// More than that is no demo.
const JOBS_MAX: u64 = 1000;
/// Where the details of the run are, among the results.
const FOLDER: &str = "cluster";

/// Runs the demo and writes its report.
pub(super) fn execute(args: &DemoArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let jobs = args.jobs.unwrap_or(JOBS);
    if !(1..=JOBS_MAX).contains(&jobs) {
        return Err(CliError::usage(format!("`--jobs` is {jobs}, but must be from 1 to {JOBS_MAX}")));
    }
    if !(1.0..=3600.0).contains(&args.seconds) {
        return Err(CliError::usage("`--seconds` takes a number from 1 to 3600"));
    }
    files::check_python()?;
    let out = OutDir::new(&args.out)?;
    let folder = tempfile::Builder::new().prefix("wharf-demo-").tempdir();
    let folder = folder.map_err(|error| CliError::write(&std::env::temp_dir(), error))?;
    carried::unpack(folder.path(), carried::SDK)?;
    carried::unpack(folder.path(), carried::TRAINERS)?;
    let arrivals = load::arrivals(usize::try_from(jobs).unwrap_or(usize::MAX), args.seconds, folder.path());
    for arrival in &arrivals {
        let path = PathBuf::from(&arrival.spec.workdir);
        std::fs::create_dir_all(&path).map_err(|error| CliError::write(&path, error))?;
    }
    let record = cluster::runtime()?.block_on(run(args, &arrivals, folder.path(), terminal))?;
    if let Some(signal) = interrupt::handled() {
        return Ok(signal);
    }
    let report = write(args, &record, &arrivals, out)?;
    tell(&record, &report, terminal)?;
    let dir = args.out.display();
    terminal
        .note(&format!("the report is `{dir}/{REPORT_HTML}`; the jobs' output is in `{dir}/{FOLDER}/logs`"));
    terminal.note("try next: wharf local, and then wharf submit -- python3 train.py");
    let failed = record.jobs.iter().filter(|job| !job.is_finished).count();
    match failed {
        0 => Ok(Exit::Ok),
        _ => Err(CliError::new(ErrorKind::Internal, format!("{failed} of {jobs} jobs did not finish"))
            .hint(format!("their output is in `{dir}/{FOLDER}/logs`"))),
    }
}

/// Starts the cluster, lets the jobs run, and stops it, whatever happens.
async fn run(
    args: &DemoArgs,
    arrivals: &[Arrival],
    folder: &Path,
    terminal: &Terminal,
) -> Result<Record, CliError> {
    let interruptions = Interruptions::watch();
    let plan = EmbeddedPlan {
        home: folder.join("home"),
        workers: WORKERS.map(|(node, devices)| WorkerPlan::new(node, devices)).to_vec(),
        policy: Some(args.policy.clone()),
        set: args.set.clone(),
        seed: 0,
        profile: None,
        http: None,
    };
    let cluster = Embedded::start(&plan, terminal).await?;
    terminal.note(&format!(
        "{} training jobs on a real cluster of four local nodes with declared devices, policy {}",
        arrivals.len(),
        args.policy
    ));
    let recorded = tokio::select! {
        recorded = follow(&plan.home, args, arrivals, terminal) => recorded,
        () = interruptions.clone().reach(1) => {
            terminal.note("stopping the jobs; press Ctrl-C again to kill them");
            Ok(Record::default())
        }
    };
    cluster.stop(Hurry::After(interruptions, 2)).await?;
    recorded
}

/// Submits each job at its time and shows how they fare until all have ended.
async fn follow(
    home: &Path,
    args: &DemoArgs,
    arrivals: &[Arrival],
    terminal: &Terminal,
) -> Result<Record, CliError> {
    let client = Client::connect(home).await?;
    let began = Instant::now();
    let submitting = async {
        for arrival in arrivals {
            sleep_until(began + Duration::from_secs_f64(arrival.at_s)).await;
            client.submit(vec![arrival.spec.clone()]).await?;
        }
        Ok::<(), CliError>(())
    };
    let showing = async {
        let mut show = Show::new(terminal);
        loop {
            let all = jobs(&client, arrivals).await?;
            let ended = all.iter().filter(|job| job.end_s > 0.0).count();
            show.update(&frame(&client, args, &all, arrivals.len()).await?, &all);
            if ended == arrivals.len() {
                show.end();
                return Ok::<(), CliError>(());
            }
            sleep(LOOK).await;
        }
    };
    tokio::try_join!(submitting, showing)?;
    cluster::record(&client).await
}

/// All jobs, with what the demo knows of their lengths.
async fn jobs(client: &Client, arrivals: &[Arrival]) -> Result<Vec<JobSummary>, CliError> {
    let request = ListJobsRequest { explain_max: cluster::EXPLAIN_MAX, ..ListJobsRequest::default() };
    let mut jobs = client.list_jobs(request).await?;
    for job in &mut jobs {
        if let Some(arrival) = arrivals.iter().find(|arrival| arrival.spec.name == job.name) {
            job.iterations = arrival.spec.iterations;
        }
    }
    Ok(jobs)
}

async fn frame(
    client: &Client,
    args: &DemoArgs,
    all: &[JobSummary],
    count: usize,
) -> Result<Frame, CliError> {
    let live: Vec<JobSummary> = all.iter().filter(|job| job.end_s == 0.0).cloned().collect();
    let preemptions: u32 = all.iter().map(|job| job.preemptions).sum();
    let title = format!(
        "wharf demo · {} · {} of {count} jobs over · {preemptions} preemptions",
        args.policy,
        all.len() - live.len()
    );
    let (nodes, now_s) = (client.list_nodes().await?, wharf_client::unix_s());
    Ok(Frame { title, nodes, jobs: live, now_s, ..Frame::default() })
}

/// Writes the page, the tables and what the jobs said.
fn write(args: &DemoArgs, record: &Record, arrivals: &[Arrival], out: OutDir) -> Result<Report, CliError> {
    let (nodes, specs, outcome) = (record.cluster(), record.specs(), record.outcome());
    let labels = RunLabels {
        policy: args.policy.clone(),
        trace: "demo".to_owned(),
        preset: "real processes".to_owned(),
        cluster: WORKERS.map(|(_, devices)| devices).join(" + "),
        seed: 0,
    };
    let wall_ms = outcome.timeline.last().map_or(0.0, |sample| sample.time.seconds() * 1000.0);
    let summary = Summary::new(labels, &outcome, wall_ms);
    let report = Report::new(vec![summary.clone()]);
    let run = PageRun::new(summary, &nodes, &specs, &outcome);
    let gantt = plot::gantt("jobs on devices", &plot::node_devices(&nodes), &outcome.spans, &specs).to_svg();
    let page = Page {
        title: format!("A real cluster under {}", args.policy),
        commands: vec![command_line()],
        runs: vec![run],
        tables: vec![("Jobs".to_owned(), record.table())],
    };
    out.write(REPORT_HTML.as_ref(), render(&page))?;
    let within = |name: &str| Path::new(FOLDER).join(name);
    out.write(&within("gantt.svg"), &gantt)?;
    for (name, text) in carried::TRAINERS.iter().chain(carried::SDK) {
        out.write(&within(name), text)?;
    }
    for arrival in arrivals {
        // A job that was never started has said nothing.
        let said = std::fs::read(&arrival.spec.output).unwrap_or_default();
        let name = within("logs").join(format!("{}.txt", arrival.spec.name));
        out.write(&name, &said)?;
    }
    let dir = out.path().join(FOLDER);
    let written = tables::write_jobs(&dir.join(tables::JOBS_CSV), &specs, &outcome)
        .and_then(|()| tables::write_timeline(&dir.join(tables::TIMELINE_CSV), &outcome))
        .and_then(|()| {
            tables::write_breakdown(&dir.join(tables::BREAKDOWN_CSV), &Breakdown::new(&specs, &outcome))
        })
        .and_then(|()| tables::write_summary(&dir.join(tables::SUMMARY_JSON), &report));
    written.map_err(|error| out.failed(error))?;
    out.commit()?;
    Ok(report)
}

/// The summary on standard output.
fn tell(record: &Record, report: &Report, terminal: &Terminal) -> Result<(), CliError> {
    let table = record.table();
    match terminal.format {
        OutputFormat::Json => {
            let runs = &report.runs;
            terminal.json(&serde_json::json!({ "schema": 1, "runs": runs, "jobs": table.to_json() }))
        }
        OutputFormat::Plain | OutputFormat::Csv => terminal.rows(&table.to_plain()),
        OutputFormat::Table => terminal.data(&format!("{}\n{}", table.to_text(), report.to_text())),
    }
}
