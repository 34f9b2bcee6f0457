//! Values that are one of a few names.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use wharf_proto as proto;
use wharf_proto::notify::Moment;

/// A moment that is worth telling, or several by one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Moments {
    /// It started
    Started,
    /// It was stopped to make room
    Preempted,
    /// It succeeded
    Finished,
    /// It failed
    Failed,
    /// It was cancelled
    Cancelled,
    /// It makes no progress any more
    Stalled,
    /// It is over, in whatever way
    End,
}

impl Moments {
    /// The moments as the contract has them.
    #[must_use]
    pub fn to_wire(self) -> &'static [Moment] {
        match self {
            Self::Started => &[Moment::Started],
            Self::Preempted => &[Moment::Preempted],
            Self::Finished => &[Moment::Finished],
            Self::Failed => &[Moment::Failed],
            Self::Cancelled => &[Moment::Cancelled],
            Self::Stalled => &[Moment::Stall],
            Self::End => &[Moment::Finished, Moment::Failed, Moment::Cancelled],
        }
    }
}

/// Action at a job's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnTimeLimit {
    /// Stop it; it has timed out
    Stop,
    /// Requeue it, to continue from its checkpoint
    Requeue,
}

/// Action on a job that has stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnStall {
    /// Show it, and notify
    Report,
    /// Stop it and run it again from its checkpoint
    Restart,
    /// Stop it; it has failed
    Fail,
}

impl From<OnStall> for proto::OnStall {
    fn from(action: OnStall) -> Self {
        match action {
            OnStall::Report => Self::StallReport,
            OnStall::Restart => Self::StallRestart,
            OnStall::Fail => Self::StallFail,
        }
    }
}

/// Action on a metric that is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnNan {
    /// Stop it; it has failed
    Fail,
    /// Stop it with its grace period, and cancel it
    Stop,
    /// Continue, with a remark
    Ignore,
}

impl From<OnNan> for proto::OnNan {
    fn from(on_nan: OnNan) -> Self {
        match on_nan {
            OnNan::Fail => Self::NanFail,
            OnNan::Stop => Self::NanStop,
            OnNan::Ignore => Self::NanIgnore,
        }
    }
}

/// A name that is none of a few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoChoice {
    given: String,
    known: String,
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is unknown; expected one of {}", self.given, self.known)
    }
}

impl std::error::Error for NoChoice {}

/// The value of that name.
pub(super) fn choice<T: ValueEnum>(text: &str) -> Result<T, NoChoice> {
    let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let known: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
    T::from_str(text, false).map_err(|_| NoChoice { given: text.to_owned(), known: known.join(", ") })
}

macro_rules! named {
    ($($name:ident),*) => {
        $(impl FromStr for $name {
            type Err = NoChoice;

            fn from_str(text: &str) -> Result<Self, NoChoice> {
                choice(text)
            }
        })*
    };
}
named!(Moments, OnTimeLimit, OnStall, OnNan);
