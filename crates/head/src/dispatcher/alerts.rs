//! What an admin has to know about, since the head was started.

use std::collections::VecDeque;

use wharf_proto::Alert;

use crate::dispatcher::Dispatcher;

/// Older alerts are dropped; the log has all of them.
const ALERTS_MAX: usize = 100;
/// Seconds within which the log has the same alert once.
const REPEAT_S: f64 = 60.0;

/// The latest alerts, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Alerts(VecDeque<Alert>);

impl Alerts {
    /// Adds an alert and returns whether it is to be logged.
    fn add(&mut self, time_s: f64, text: &str) -> bool {
        let known = self.0.iter().position(|alert| alert.text == text);
        let earlier = known.and_then(|known| self.0.remove(known));
        let count = earlier.as_ref().map_or(0, |alert| alert.count).saturating_add(1);
        self.0.push_back(Alert { time_s, text: text.to_owned(), count });
        if self.0.len() > ALERTS_MAX {
            self.0.pop_front();
        }
        earlier.is_none_or(|alert| time_s - alert.time_s > REPEAT_S)
    }

    /// All of them, the oldest first.
    pub(crate) fn to_wire(&self) -> Vec<Alert> {
        self.0.iter().cloned().collect()
    }
}

impl Dispatcher {
    /// Logs something that an admin has to know about, and keeps it for those who ask.
    pub(crate) fn alert(&mut self, text: &str) {
        let time_s = self.epoch_unix_s + self.now().seconds();
        if self.alerts.add(time_s, text) {
            self.warn(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_repeated_are_counted_and_bounded() {
        let mut alerts = Alerts::default();
        assert!(alerts.add(0.0, "full"));
        assert!(!alerts.add(1.0, "full"), "logged a second ago");
        assert!(alerts.add(100.0, "full"));
        for index in 0..ALERTS_MAX {
            assert!(alerts.add(200.0, &index.to_string()));
        }
        assert_eq!(alerts.to_wire().len(), ALERTS_MAX);
        alerts.add(300.0, "0");
        assert_eq!(alerts.to_wire().last().map(|alert| alert.count), Some(2));
    }
}
