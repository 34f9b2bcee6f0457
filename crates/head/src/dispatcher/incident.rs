//! Panics of the dispatcher's thread: caught, given an id, and reported instead of ending the head.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_core::{Change, Decision, JobId, Knowledge, Policy, Reason, RoundNotes, Time, View};
use wharf_tls::random_hex;

thread_local! {
    static CAUGHT: RefCell<Vec<Incident>> = const { RefCell::new(Vec::new()) };
    static IS_IN_POLICY: Cell<bool> = const { Cell::new(false) };
}

/// A panic that was caught. Its text is for a requester: the log has the details under the same id.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("internal error, incident {id}: nothing was changed; hint: the head's log has the details")]
pub(crate) struct Incident {
    pub(crate) id: String,
    /// The panic's message.
    pub(crate) details: String,
    /// The policy's code panicked.
    pub(crate) is_policy: bool,
}

/// Runs something and catches its panic. What it has changed until then is the caller's to discard.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Incident> {
    IS_IN_POLICY.set(false);
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let incident = Incident {
            id: random_hex(4).unwrap_or_else(|_| "without-id".to_owned()),
            details: text(&*payload),
            is_policy: IS_IN_POLICY.replace(false),
        };
        CAUGHT.with_borrow_mut(|caught| caught.push(incident.clone()));
        incident
    })
}

/// What was caught on this thread since the last call.
pub(crate) fn take_caught() -> Vec<Incident> {
    CAUGHT.take()
}

/// The message of a panic.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

/// A policy whose panics can be distinguished from those of the head.
pub(crate) struct Watched(pub(crate) Box<dyn Policy>);

fn within<T>(call: impl FnOnce() -> T) -> T {
    IS_IN_POLICY.set(true);
    let result = call();
    IS_IN_POLICY.set(false);
    result
}

impl Policy for Watched {
    fn knowledge(&self) -> Knowledge {
        self.0.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        within(|| {
            crate::dispatcher::fault_points::point("observe");
            self.0.observe(view, change);
        });
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        within(|| {
            self.0.schedule(decision);
            crate::dispatcher::fault_points::point("schedule");
        });
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        within(|| self.0.explain(view, job))
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        within(|| self.0.rounds())
    }

    fn wake(&self) -> Option<Time> {
        self.0.wake()
    }
}
