//! The names of jobs and times in texts for users.

use wharf_core::{JobId, Names, Time};

use crate::dispatcher::Dispatcher;

/// Names of jobs and times as users see them.
pub(crate) struct Called<'a>(pub(crate) &'a Dispatcher);

impl Called<'_> {
    /// A job's number, or its array's with its index.
    pub(crate) fn number(&self, job: JobId) -> String {
        match &self.0.engine.state().spec(job).array {
            Some(element) => format!("{}_{}", self.0.log.state.first_of(job.0), element.index),
            None => job.0.to_string(),
        }
    }
}

impl Names for Called<'_> {
    fn job(&self, job: JobId) -> String {
        format!("job {}", self.number(job))
    }

    fn moment(&self, time: Time) -> String {
        let unix_s = self.0.clock.epoch_unix_s() + time.seconds();
        match jiff::Timestamp::from_second(unix_s as i64) {
            Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            Err(_) => "a moment that no clock shows".to_owned(),
        }
    }
}
