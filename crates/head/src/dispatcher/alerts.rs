//! Alerts for administrators, since the head was started.

use std::collections::VecDeque;
use std::sync::Arc;

use wharf_proto::Alert;

use crate::dispatcher::Dispatcher;

/// Logs a message for the operator of the head.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Older alerts are dropped; the log has all of them.
const ALERTS_MAX: usize = 100;
/// Seconds within which the log has the same alert once.
const REPEAT_S: f64 = 60.0;

/// The head's log, and the latest alerts in it.
pub(crate) struct Alerts {
    warn: Warn,
    /// The oldest first.
    latest: VecDeque<Alert>,
}

impl Alerts {
    pub(crate) fn new(warn: Warn) -> Self {
        Self { warn, latest: VecDeque::new() }
    }

    /// Logs a message for the operator of the head.
    pub(crate) fn warn(&self, text: &str) {
        (self.warn)(text);
    }

    /// Stores an alert, and logs it unless it was logged just before.
    fn alert(&mut self, time_s: f64, text: &str) {
        let known = self.latest.iter().position(|alert| alert.text == text);
        let earlier = known.and_then(|known| self.latest.remove(known));
        let count = earlier.as_ref().map_or(0, |alert| alert.count).saturating_add(1);
        self.latest.push_back(Alert { time_s, text: text.to_owned(), count });
        if self.latest.len() > ALERTS_MAX {
            self.latest.pop_front();
        }
        if earlier.is_none_or(|alert| time_s - alert.time_s > REPEAT_S) {
            self.warn(text);
        }
    }

    /// All of them, the oldest first.
    pub(crate) fn to_wire(&self) -> Vec<Alert> {
        self.latest.iter().cloned().collect()
    }
}

impl Dispatcher {
    /// Alerts administrators: logs a text, and stores it for queries.
    pub(crate) fn alert(&mut self, text: &str) {
        self.alerts.alert(self.clock.unix_s(self.clock.now()), text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn alerts_repeated_are_counted_and_bounded() {
        let logged = Arc::new(AtomicUsize::new(0));
        let counter = logged.clone();
        let mut alerts = Alerts::new(Arc::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        let mut is_logged = |time_s: f64, text: &str| {
            let before = logged.load(Ordering::Relaxed);
            alerts.alert(time_s, text);
            logged.load(Ordering::Relaxed) > before
        };
        assert!(is_logged(0.0, "full"));
        assert!(!is_logged(1.0, "full"), "logged a second ago");
        assert!(is_logged(100.0, "full"));
        for index in 0..ALERTS_MAX {
            assert!(is_logged(200.0, &index.to_string()));
        }
        is_logged(300.0, "0");
        let latest = alerts.to_wire();
        assert_eq!(latest.len(), ALERTS_MAX);
        assert_eq!(latest.last().map(|alert| alert.count), Some(2));
    }
}
