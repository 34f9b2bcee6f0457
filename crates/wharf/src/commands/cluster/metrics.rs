//! `wharf metrics`: the stored history of jobs' metrics.

use serde_json::{Value, json};
use wharf_client::Client;
use wharf_curve::Number;
use wharf_proto::{JobMetrics, MetricPoints, MetricsRequest};

use super::connect::with;
use super::jobs::id_of;
use crate::args::{Axis, MetricsArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// The metrics of jobs, each with its points in order.
pub(super) async fn read(
    client: &Client,
    request: MetricsRequest,
    by: Axis,
) -> Result<Vec<JobMetrics>, CliError> {
    let mut stream = client.metrics(request).await?;
    let mut jobs = Vec::new();
    while let Some(mut job) = stream.message().await.map_err(wharf_client::ClientError::from)? {
        if by == Axis::Time {
            job.metrics = job.metrics.into_iter().map(by_time).collect();
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// The values of a metric's points: step, time, value, run.
pub(super) fn points(metric: &MetricPoints) -> impl Iterator<Item = (u64, f64, f64, u32)> {
    let steps = metric.step.iter().zip(&metric.time_s);
    let values = metric.value.iter().zip(metric.run.iter().copied().chain(std::iter::repeat(0)));
    steps.zip(values).map(|((step, time_s), (value, run))| (*step, *time_s, *value, run))
}

fn by_time(metric: MetricPoints) -> MetricPoints {
    let mut found: Vec<_> = points(&metric).collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    MetricPoints {
        step: found.iter().map(|point| point.0).collect(),
        time_s: found.iter().map(|point| point.1).collect(),
        value: found.iter().map(|point| point.2).collect(),
        run: found.iter().map(|point| point.3).collect(),
        ..metric
    }
}

/// Shows or exports metrics.
pub(in crate::commands) fn metrics(args: &MetricsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let jobs = with(&args.home, async |client| {
        let mut found = Vec::new();
        for number in &args.jobs {
            let (job_id, names) = (id_of(client, *number).await?, args.names.clone());
            let elements_only = number.index.is_some();
            let request = MetricsRequest { job_ids: vec![job_id], names, elements_only };
            found.extend(read(client, request, args.by).await?);
        }
        Ok(found)
    })?;
    for job in &jobs {
        if let Some(refused) = &job.refused {
            terminal.warn(&format!(
                "job {}: metric {} and perhaps others are not stored ({} values): a job has at most {} metrics, with names of 1 to 64 \
                 bytes without control characters",
                job.job_id,
                refused.example,
                refused.points,
                wharf_curve::NAMES_MAX
            ));
        }
    }
    if jobs.iter().all(|job| job.metrics.is_empty()) {
        terminal.note(if args.names.is_empty() {
            "no metrics are stored; trainers report them with `wharf.report` or `wharf step --metric`"
        } else {
            "no metric of that name is stored; without `--name` all are shown"
        });
    }
    match terminal.format {
        OutputFormat::Json => {
            let jobs: Vec<Value> = jobs.iter().map(document).collect();
            terminal.json(&json!({ "schema": 1, "jobs": jobs }))?;
        }
        OutputFormat::Plain | OutputFormat::Csv => terminal.grid(&all(&jobs))?,
        OutputFormat::Table => terminal.grid(&summary(&jobs))?,
    }
    Ok(Exit::Ok)
}

fn document(job: &JobMetrics) -> Value {
    let metric = |one: &MetricPoints| {
        let points = points(one).map(|(step, time_s, value, run)| {
            json!({ "step": step, "time_s": time_s, "value": Number(value), "run": run })
        });
        json!({ "name": one.name, "stride": one.stride, "points": points.collect::<Vec<_>>() })
    };
    let refused =
        job.refused.as_ref().map(|refused| json!({ "values": refused.points, "example": refused.example }));
    json!({
        "job_id": job.job_id,
        "metrics": job.metrics.iter().map(metric).collect::<Vec<_>>(),
        "refused": refused,
    })
}

/// All points.
fn all(jobs: &[JobMetrics]) -> Grid<6> {
    let mut grid = Grid::new(["job", "metric", "step", "time_s", "value", "run"]);
    for job in jobs {
        let id = job.job_id.to_string();
        for metric in &job.metrics {
            for (step, time_s, value, run) in points(metric) {
                let (step, run) = (step.to_string(), run.to_string());
                grid.push([
                    &id,
                    &metric.name,
                    &step,
                    &format!("{time_s:.3}"),
                    &Number(value).to_string(),
                    &run,
                ]);
            }
        }
    }
    grid
}

/// A line for each metric.
fn summary(jobs: &[JobMetrics]) -> Grid<8> {
    let mut grid = Grid::new(["job", "metric", "points", "steps", "lowest", "highest", "last", "not finite"]);
    for job in jobs {
        for metric in &job.metrics {
            let finite = || metric.value.iter().copied().filter(|value| value.is_finite());
            let shown = |value: Option<f64>| value.map(|value| Number(value).to_string()).unwrap_or_default();
            let (first, last) = (metric.step.first(), metric.step.last());
            let steps = first.zip(last).map(|(first, last)| format!("{first}-{last}")).unwrap_or_default();
            let not_finite = metric.value.len() - finite().count();
            grid.push([
                &job.job_id.to_string(),
                &metric.name,
                &metric.value.len().to_string(),
                &steps,
                &shown(finite().min_by(f64::total_cmp)),
                &shown(finite().max_by(f64::total_cmp)),
                &shown(metric.value.last().copied()),
                &not_finite.to_string(),
            ]);
        }
    }
    grid
}
