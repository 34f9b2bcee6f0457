//! Measurements for profiles: a Python process measures ([`Profiler`]), a session selects what is missing and stores every answer
//! in the database ([`Session`]), and a head's history states how long iterations took ([`learn`]).

mod error;
mod hardware;
mod learn;
mod process;
mod session;

pub use error::ProfilerError;
pub use hardware::{Described, describe};
pub use learn::learn;
pub use process::{Interrupt, Profiler};
pub use session::{Count, Known, Offer, Session, SessionSettings};

/// The time of day, to the second.
#[must_use]
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
