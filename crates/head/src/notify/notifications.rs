//! Job notifications for their owners.

use wharf_core::{JobEnd, JobId, Phase};
use wharf_proto::JobSummary;
use wharf_proto::notify::Moment;

use crate::dispatcher::Dispatcher;
use crate::notify::{Facts, Notice, Notifier, NotifyConfig};
use crate::query::views;

/// Tells notices; the thread that does it is started with the first one.
pub(crate) struct Teller {
    notifier: Option<Notifier>,
    config: NotifyConfig,
    warn: std::sync::Arc<dyn Fn(&str) + Send + Sync>,
}

impl Teller {
    pub(crate) fn new(config: NotifyConfig, warn: std::sync::Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self { notifier: None, config, warn }
    }

    /// Logs a message for the operator of the head.
    pub(crate) fn warn(&self, text: &str) {
        (self.warn)(text);
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        if self.notifier.is_none() {
            let warn = self.warn.clone();
            let log = move |notice: &Notice, error: &crate::notify::NotifyError| {
                warn(&format!("cannot send notification of job {}: {error}", notice.facts.job_id));
            };
            match Notifier::start_with(self.config.clone(), log) {
                Ok(notifier) => self.notifier = Some(notifier),
                Err(error) => (self.warn)(&format!("cannot send notifications: {error}")),
            }
        }
        if let Some(Err(error)) = self.notifier.as_ref().map(|notifier| notifier.tell(notice)) {
            (self.warn)(&format!("cannot send notification: {error}"));
        }
    }
}

impl Dispatcher {
    /// Notes something that became of a job, to be told once it is durable.
    pub(crate) fn became(&mut self, job: JobId, moment: Moment) {
        let target = self.spec(job).and_then(|spec| spec.notify.as_ref());
        let facts =
            || facts(views::summary(self, job), self.engine.state().job(job).generation, self.exit_code(job));
        if let Some(notice) = Notice::wanted(target, moment, facts) {
            self.notices.push(notice);
        }
    }

    /// Notes how a job ended.
    pub(crate) fn became_over(&mut self, job: JobId) {
        let moment = match self.engine.state().job(job).phase {
            Phase::Ended(JobEnd::Finished) => Moment::Finished,
            Phase::Ended(JobEnd::Cancelled) => Moment::Cancelled,
            _ => Moment::Failed,
        };
        self.became(job, moment);
    }
}

fn facts(summary: JobSummary, generation: u32, exit_code: Option<i32>) -> Facts {
    let happened = |time_s: f64| (time_s > 0.0).then_some(time_s);
    Facts {
        job_id: summary.job_id,
        generation,
        phase: summary.phase().word().to_owned(),
        cause: summary.cause().word().to_owned(),
        exit_code,
        submit_s: summary.submit_s,
        start_s: happened(summary.start_s),
        end_s: happened(summary.end_s),
        nodes: summary.placement.into_iter().map(|share| share.node).collect(),
        array_index: summary.array_index,
        reason: summary.reason,
        name: summary.name,
        user: summary.user,
    }
}
