//! Job notifications for their owners.

use wharf_core::{JobEnd, JobId, Phase};
use wharf_proto::JobSummary;
use wharf_proto::notify::Moment;

use crate::dispatcher::Dispatcher;
use crate::dispatcher::alerts::Warn;
use crate::notify::{Facts, Notice, Notifier, NotifyConfig};
use crate::query::views;

/// Sends notices; the thread that does it is started with the first one.
pub(crate) struct LazyNotifier {
    notifier: Option<Notifier>,
    config: NotifyConfig,
    warn: Warn,
}

impl LazyNotifier {
    pub(crate) fn new(config: NotifyConfig, warn: Warn) -> Self {
        Self { notifier: None, config, warn }
    }

    pub(crate) fn send(&mut self, notice: Notice) {
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
        if let Some(Err(error)) = self.notifier.as_ref().map(|notifier| notifier.send(notice)) {
            (self.warn)(&format!("cannot send notification: {error}"));
        }
    }
}

impl Dispatcher {
    /// Notes an event of a job, of which its owner is notified once it is durable.
    pub(crate) fn notify_owner(&mut self, job: JobId, moment: Moment) {
        let target = self.spec(job).and_then(|spec| spec.notify.as_ref());
        let facts =
            || facts(views::summary(self, job), self.engine.state().job(job).generation, self.exit_code(job));
        if let Some(notice) = Notice::wanted(target, moment, facts) {
            self.outbox.notify(notice);
        }
    }

    /// Notes how a job ended.
    pub(crate) fn notify_end(&mut self, job: JobId) {
        let moment = match self.engine.state().job(job).phase {
            Phase::Ended(JobEnd::Finished) => Moment::Finished,
            Phase::Ended(JobEnd::Cancelled) => Moment::Cancelled,
            _ => Moment::Failed,
        };
        self.notify_owner(job, moment);
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
