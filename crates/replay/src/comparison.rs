//! A replay beside its prediction: the same metrics twice, the differences job by job, and the first different act.

use std::path::Path;

use serde_json::{Value, json};
use wharf_report::cluster::Record;
use wharf_report::files::REPORT_HTML;
use wharf_report::html::{Page, PageRun, render};
use wharf_report::metric::Unit;
use wharf_report::table::{Cell, Column, Table};
use wharf_report::{Metric, Summary};
use wharf_sim::Outcome;
use wharf_study::{OutDir, StudyError};

use crate::acts::{self, Act, Difference, Moment};
use crate::{Prediction, ReplayPlan, Replayed};

/// A replay beside its prediction.
pub struct Comparison<'a> {
    plan: &'a ReplayPlan,
    start_cost_s: f64,
    prediction: &'a Prediction,
    record: &'a Record,
    outcome: Outcome,
    summary: Summary,
    acts: Vec<Moment>,
    difference: Option<Difference>,
}

impl<'a> Comparison<'a> {
    /// Compares a replay, and its record as a cluster's, with its prediction.
    pub fn new(
        plan: &'a ReplayPlan,
        start_cost_s: f64,
        prediction: &'a Prediction,
        replayed: &Replayed,
        record: &'a Record,
    ) -> Self {
        let outcome = record.outcome();
        let summary = plan.summary("live", &outcome);
        let jobs = replayed.jobs.iter().enumerate();
        let mut acts: Vec<Moment> =
            jobs.flat_map(|(job, detail)| acts::lived(job, &detail.history, replayed.began_s)).collect();
        acts.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(cutoff_s) = plan.cutoff_s {
            acts.retain(|(at_s, _)| *at_s <= cutoff_s);
        }
        let difference = acts::first_difference(&prediction.acts, &acts);
        Self { plan, start_cost_s, prediction, record, outcome, summary, acts, difference }
    }

    /// Whether any job was launched on the cluster.
    pub fn has_launches(&self) -> bool {
        self.acts.iter().any(|(_, act)| matches!(act, Act::Launch { .. }))
    }

    /// Writes the report, the document and the table of jobs. The page names the `command` that made it.
    ///
    /// # Errors
    /// [`StudyError`] where a file cannot be written.
    pub fn write(&self, out: OutDir, command: String) -> Result<(), StudyError> {
        let jobs = &self.plan.trace.jobs;
        let run =
            |summary: &Summary, outcome| PageRun::new(summary.clone(), &self.plan.cluster, jobs, outcome);
        let page = Page {
            title: format!("{} replayed under {}", self.plan.trace.name, self.plan.policy.name),
            commands: vec![command],
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
        out.commit()
    }

    /// The document of `wharf replay --output json`.
    pub fn document(&self) -> Value {
        let act = |moment: &Moment| json!({ "time_s": moment.0, "what": moment.1.to_string() });
        let acts = |moments: &[Moment]| moments.iter().map(act).collect::<Vec<Value>>();
        json!({
            "schema": 1,
            "time_scale": self.plan.time_scale,
            "start_cost_s": self.start_cost_s,
            "runs": [self.summary, self.prediction.summary],
            "avg_jct_difference": self.relative(Metric::AvgJct),
            "is_same_sequence": self.difference.is_none(),
            "first_difference": self.difference.as_ref().map(|difference| json!({
                "after": difference.after,
                "live": difference.live.as_ref().map(act),
                "simulated": difference.simulated.as_ref().map(act),
            })),
            "acts": { "live": acts(&self.acts), "simulated": acts(&self.prediction.acts) },
            "jobs": self.jobs().to_json(),
        })
    }

    /// The difference of a metric, as a share of the prediction.
    fn relative(&self, metric: Metric) -> Option<f64> {
        let (live, simulated) = (metric.of(&self.summary)?, metric.of(&self.prediction.summary)?);
        (simulated != 0.0).then(|| live / simulated - 1.0)
    }

    /// The metrics of both runs.
    pub fn metrics(&self) -> Table {
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
                Cell::number(self.relative(metric)),
            ]);
        }
        table
    }

    /// The jobs of both runs.
    pub fn jobs(&self) -> Table {
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
        for ((live, simulated), job) in both.zip(&self.record.jobs) {
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

    /// Whether both runs have the same acts, in a sentence.
    pub fn verdict(&self) -> String {
        let count = self.acts.len();
        let Some(Difference { after, simulated, live }) = &self.difference else {
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
