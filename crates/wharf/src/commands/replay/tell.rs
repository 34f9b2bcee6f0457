//! What a replay tells: the same metrics twice, job by job what differs, and whether the same was done.

use std::path::Path;

use serde_json::{Value, json};
use wharf_report::html::{Page, PageRun, render};
use wharf_report::metric::Unit;
use wharf_report::table::{Cell, Column, Table};
use wharf_report::{Metric, Summary};
use wharf_sim::Outcome;

use super::acts::{self, Act, Moment, Parting};
use super::live::Lived;
use super::plan::{Plan, Prediction};
use crate::args::OutputFormat;
use crate::commands::sim::command_line;
use crate::error::CliError;
use crate::output::Terminal;
use wharf_report::files::REPORT_HTML;
use wharf_study::OutDir;

/// A replay beside its prediction.
pub(super) struct Comparison<'a> {
    pub(super) plan: &'a Plan,
    pub(super) start_cost_s: f64,
    pub(super) prediction: &'a Prediction,
    pub(super) outcome: Outcome,
    summary: Summary,
    acts: Vec<Moment>,
    parting: Option<Parting>,
    pub(super) lived: &'a Lived,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        start_cost_s: f64,
        prediction: &'a Prediction,
        lived: &'a Lived,
    ) -> Self {
        let outcome = lived.record.outcome();
        let summary = plan.summary("live", &outcome);
        let mut acts: Vec<Moment> = lived
            .jobs
            .iter()
            .enumerate()
            .flat_map(|(job, detail)| acts::lived(job, &detail.history, lived.began_s))
            .collect();
        acts.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(cutoff_s) = plan.cutoff_s {
            acts.retain(|(at_s, _)| *at_s <= cutoff_s);
        }
        let parting = acts::part(&prediction.acts, &acts);
        Self { plan, start_cost_s, prediction, outcome, summary, acts, parting, lived }
    }

    /// Whether any job was launched on the cluster.
    pub(super) fn has_launches(&self) -> bool {
        self.acts.iter().any(|(_, act)| matches!(act, Act::Launch { .. }))
    }

    /// Prints it in the chosen output format.
    pub(super) fn tell(&self, terminal: &Terminal) -> Result<(), CliError> {
        match terminal.format {
            OutputFormat::Json => terminal.json(&self.document()),
            OutputFormat::Plain | OutputFormat::Csv => {
                terminal.rows(&format!("{}\n{}", self.metrics().to_plain(), self.jobs().to_plain()))
            }
            OutputFormat::Table => terminal.data(&format!(
                "{}\n{}\n{}\n",
                self.metrics().to_text(),
                self.jobs().to_text(),
                self.verdict()
            )),
        }
    }

    /// Puts everything into a directory.
    pub(super) fn write(&self, out: OutDir) -> Result<(), CliError> {
        let jobs = &self.plan.trace.jobs;
        let run =
            |summary: &Summary, outcome| PageRun::new(summary.clone(), &self.plan.cluster, jobs, outcome);
        let page = Page {
            title: format!("{} replayed under {}", self.plan.trace.name, self.plan.policy.name),
            commands: vec![command_line()],
            runs: vec![
                run(&self.summary, &self.outcome),
                run(&self.prediction.summary, &self.prediction.outcome),
            ],
            tables: vec![(self.verdict(), self.metrics()), ("Job by job".to_owned(), self.jobs())],
        };
        out.write(REPORT_HTML.as_ref(), render(&page))?;
        let text = serde_json::to_string_pretty(&self.document()).unwrap_or_default() + "\n";
        out.write(Path::new("summary.json"), &text)?;
        out.write(Path::new("jobs.tsv"), self.jobs().to_plain())?;
        Ok(out.commit()?)
    }

    fn document(&self) -> Value {
        let act = |moment: &Moment| json!({ "time_s": moment.0, "what": moment.1.to_string() });
        let acts = |moments: &[Moment]| moments.iter().map(act).collect::<Vec<Value>>();
        json!({
            "schema": 1,
            "time_scale": self.plan.time_scale,
            "start_cost_s": self.start_cost_s,
            "runs": [self.summary, self.prediction.summary],
            "avg_jct_difference": self.difference(Metric::AvgJct),
            "is_same_sequence": self.parting.is_none(),
            "first_difference": self.parting.as_ref().map(|parting| json!({
                "after": parting.after,
                "live": parting.live.as_ref().map(act),
                "simulated": parting.simulated.as_ref().map(act),
            })),
            "acts": { "live": acts(&self.acts), "simulated": acts(&self.prediction.acts) },
            "jobs": self.jobs().to_json(),
        })
    }

    /// How much more the replay has of a metric than the prediction, as a share of that.
    fn difference(&self, metric: Metric) -> Option<f64> {
        let (live, simulated) = (metric.of(&self.summary)?, metric.of(&self.prediction.summary)?);
        (simulated != 0.0).then(|| live / simulated - 1.0)
    }

    fn metrics(&self) -> Table {
        let mut table = Table::new(vec![
            Column::text("metric", "metric"),
            Column::text("live", "live"),
            Column::text("simulated", "simulated"),
            Column::number("difference", "difference", Unit::Share),
        ]);
        for metric in Metric::ALL {
            let show =
                |run: &Summary| metric.of(run).map_or("-".to_owned(), |value| metric.unit().show(value));
            table.push(vec![
                Cell::text(metric.title()),
                Cell::text(&show(&self.summary)),
                Cell::text(&show(&self.prediction.summary)),
                Cell::number(self.difference(metric)),
            ]);
        }
        table
    }

    fn jobs(&self) -> Table {
        let mut table = Table::new(vec![
            Column::text("name", "job"),
            Column::text("state", "state"),
            Column::number("devices", "devices", Unit::Number),
            Column::number("live_jct_s", "live JCT", Unit::Seconds),
            Column::number("simulated_jct_s", "simulated JCT", Unit::Seconds),
            Column::number("difference", "difference", Unit::Share),
            Column::number("live_queue_s", "live queue", Unit::Seconds),
            Column::number("simulated_queue_s", "simulated queue", Unit::Seconds),
            Column::number("live_preemptions", "live preemptions", Unit::Number),
            Column::number("simulated_preemptions", "simulated preemptions", Unit::Number),
        ]);
        let both = self.outcome.jobs.iter().zip(&self.prediction.outcome.jobs);
        for ((live, simulated), job) in both.zip(&self.lived.record.jobs) {
            let difference =
                live.jct_s().zip(simulated.jct_s()).map(|(live, simulated)| live / simulated - 1.0);
            table.push(vec![
                Cell::text(&job.name),
                Cell::text(&job.state),
                Cell::count(live.devices.into()),
                Cell::number(live.jct_s()),
                Cell::number(simulated.jct_s()),
                Cell::number(difference),
                Cell::number(Some(live.queue_s)),
                Cell::number(Some(simulated.queue_s)),
                Cell::count(live.preemptions.into()),
                Cell::count(simulated.preemptions.into()),
            ]);
        }
        table
    }

    /// Whether the same was done, in a sentence.
    fn verdict(&self) -> String {
        let count = self.acts.len();
        let Some(Parting { after, simulated, live }) = &self.parting else {
            return format!("all {count} launches and preemptions are those of the simulator, in its order");
        };
        let show = |moment: &Option<Moment>| {
            moment.as_ref().map_or("nothing more".to_owned(), |(at_s, act)| format!("{act} at {at_s:.2} s"))
        };
        format!(
            "after {after} equal launches and preemptions the replay differs: live {}, simulated {}",
            show(live),
            show(simulated)
        )
    }
}
