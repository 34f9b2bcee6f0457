//! The agent's clock of how long the head was not heard of, after which its tasks are stopped.
//!
//! A head that does not hear of a worker for long enough runs its tasks elsewhere, and two of a task would write the same
//! checkpoint. So the worker stops them first. It need not where the head's machine states that no head listens: a head that is not
//! there gives nothing away, and the next one gives workers their time again.

use tokio::time::Instant;

use super::head::{Contact, SILENCE};
use crate::supervisor::protocol::Fence;

/// How long a worker whose stream broke has at least to find out why.
const SETTLING: std::time::Duration = std::time::Duration::from_secs(5);

pub(crate) struct Clock {
    pub(crate) fence: Fence,
    /// When the head was heard of last; none while there is a stream.
    silent_since: Option<Instant>,
    /// The tasks were requested to stop.
    pub(crate) is_cut_off: bool,
}

impl Clock {
    /// For a worker that has not heard of its head yet.
    pub(crate) fn new(fence: Fence, now: Instant) -> Self {
        Self { fence, silent_since: Some(now), is_cut_off: false }
    }

    pub(crate) fn on_welcome(&mut self, fence: Fence) {
        *self = Self { fence, silent_since: None, is_cut_off: false };
    }

    pub(crate) fn on_away(&mut self, contact: Contact, now: Instant) {
        let since = match contact {
            Contact::Now => now,
            Contact::Broken => self.broken_since(now),
            Contact::NotSince => self.silent_since.unwrap_or(now),
        };
        self.silent_since = Some(since);
    }

    /// The head may not have been heard of for a while when that is noticed.
    fn broken_since(&self, now: Instant) -> Instant {
        let spare = self.fence.after().map_or(SILENCE, |after| after.saturating_sub(SETTLING));
        now.checked_sub(SILENCE.min(spare)).unwrap_or(now)
    }

    /// When the tasks have to be stopped, if nothing is heard.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.is_cut_off {
            return None;
        }
        self.silent_since?.checked_add(self.fence.after()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn due_counts_from_the_last_contact() {
        let start = Instant::now() + Duration::from_secs(1000);
        let at = |seconds| start + Duration::from_secs(seconds);
        // The fence, what ended the last stream and then failed ten seconds later, and when tasks are stopped.
        for (fence_s, events, due) in [
            (60.0, [Contact::Now, Contact::NotSince], Some(at(60))),
            (60.0, [Contact::Now, Contact::Now], Some(at(70))),
            (60.0, [Contact::Broken, Contact::NotSince], Some(at(40))),
            (60.0, [Contact::Broken, Contact::Now], Some(at(70))),
            (8.0, [Contact::Broken, Contact::NotSince], Some(at(5))),
            (2.0, [Contact::Broken, Contact::NotSince], Some(at(2))),
            (0.0, [Contact::Broken, Contact::NotSince], None),
        ] {
            let mut clock = Clock::new(Fence::default(), start);
            clock.on_welcome(Fence::new(fence_s, 1.0));
            assert_eq!(clock.due(), None, "there is a stream");
            for (contact, seconds) in events.into_iter().zip([0, 10]) {
                clock.on_away(contact, at(seconds));
            }
            assert_eq!(clock.due(), due, "{fence_s} {events:?}");
        }
    }
}
