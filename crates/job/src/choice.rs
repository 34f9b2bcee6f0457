//! Values that are one of a few names.

use wharf_proto as proto;
use wharf_proto::notify::Moment;

/// A value of a choice: its name, and a line of help.
#[derive(Clone, Copy, Debug)]
pub struct Named<T: 'static> {
    /// The value.
    pub value: T,
    /// The name in documents and flags.
    pub name: &'static str,
    /// What it means, for help.
    pub about: &'static str,
}

/// A type whose values have names.
pub trait Choice: Copy + PartialEq + 'static {
    /// All values, in the order of the help.
    const ALL: &'static [Named<Self>];

    /// The name of this value.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|named| named.value == self).map_or("", |named| named.name)
    }

    /// The value of that name.
    ///
    /// # Errors
    /// [`UnknownChoice`] with the names that there are.
    fn of_name(text: &str) -> Result<Self, UnknownChoice> {
        let found = Self::ALL.iter().find(|named| named.name == text);
        found.map(|named| named.value).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|named| named.name).collect();
            UnknownChoice { given: text.to_owned(), known: known.join(", ") }
        })
    }
}

/// A name that is none of a choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is unknown; expected one of {known}")]
pub struct UnknownChoice {
    given: String,
    known: String,
}

/// An enum whose values have names in documents; the text is what a document is expected to hold.
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis $name:ident: $expected:literal { $(#[doc = $about:literal] $value:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $(#[doc = $about] $value,)* }

        impl $crate::choice::Choice for $name {
            const ALL: &'static [$crate::choice::Named<Self>] =
                &[$($crate::choice::Named { value: Self::$value, name: $word, about: $about },)*];
        }

        impl std::str::FromStr for $name {
            type Err = $crate::choice::UnknownChoice;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <Self as $crate::choice::Choice>::of_name(text)
            }
        }

        impl wharf_document::decode::Decode for $name {
            fn decode(
                node: &wharf_document::node::Node,
                at: &str,
            ) -> Result<Self, wharf_document::decode::Problem> {
                wharf_document::decode::written(node, at, $expected)
            }
        }
    };
}
pub(crate) use choices;

/// The choice that the contract's value stands for; `None` for one that no document can ask for.
pub(crate) fn of_wire<T: Choice, W: From<T> + PartialEq>(wire: W) -> Option<T> {
    T::ALL.iter().map(|named| named.value).find(|&value| W::from(value) == wire)
}

/// The contract's value for each of a choice.
macro_rules! wire {
    ($name:ident => $wire:ty { $($value:ident => $other:ident,)* }) => {
        impl From<$name> for $wire {
            fn from(value: $name) -> Self {
                match value { $($name::$value => Self::$other,)* }
            }
        }
    };
}

choices! {
    /// How a job's processes are started on its gang.
    pub Launcher: "the name of a launcher" {
        /// One process on each node
        Plain = "plain",
        /// One process for each device
        PerDevice = "per-device",
        /// `torchrun` on each node
        Torchrun = "torchrun",
        /// `mpirun` on the first node
        Mpirun = "mpirun",
        /// A Ray cluster, with the command as its driver
        Ray = "ray",
    }
}
wire! { Launcher => proto::Launcher {
    Plain => Plain, PerDevice => PerDevice, Torchrun => Torchrun, Mpirun => Mpirun, Ray => Ray,
} }

choices! {
    /// A moment to notify of, or several by one name.
    pub Moments: "a moment such as `failed`" {
        /// The job has started
        Started = "started",
        /// The job was preempted
        Preempted = "preempted",
        /// The job has finished successfully
        Finished = "finished",
        /// The job has failed
        Failed = "failed",
        /// The job was cancelled
        Cancelled = "cancelled",
        /// The job has stopped making progress
        Stalled = "stalled",
        /// The job has ended, with any result
        End = "end",
    }
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

choices! {
    /// Action at a job's time limit.
    pub OnTimeLimit: "`stop` or `requeue`" {
        /// Stop the job, with state `timed-out`
        Stop = "stop",
        /// Requeue the job; it continues from its checkpoint
        Requeue = "requeue",
    }
}

choices! {
    /// Action on a job that has stalled.
    pub OnStall: "`report`, `restart` or `fail`" {
        /// Show the job as stalled, and notify its owner
        Report = "report",
        /// Requeue the job; it continues from its checkpoint
        Restart = "restart",
        /// Stop the job, with state `failed`
        Fail = "fail",
    }
}
wire! { OnStall => proto::OnStall { Report => StallReport, Restart => StallRestart, Fail => StallFail, } }

choices! {
    /// Action on a metric that is NaN or infinite.
    pub OnNan: "`fail`, `stop` or `ignore`" {
        /// Stop the job, with state `failed`
        Fail = "fail",
        /// Stop the job with its grace period, with state `cancelled`
        Stop = "stop",
        /// Continue, with a note in the job's history
        Ignore = "ignore",
    }
}
wire! { OnNan => proto::OnNan { Fail => NanFail, Stop => NanStop, Ignore => NanIgnore, } }

choices! {
    /// A program that runs containers.
    pub Runtime: "the name of a runtime" {
        /// An installed runtime that supports the image
        Auto = "auto",
        /// Docker
        Docker = "docker",
        /// Podman
        Podman = "podman",
        /// Apptainer
        Apptainer = "apptainer",
        /// Singularity
        Singularity = "singularity",
        /// Charliecloud
        Charliecloud = "charliecloud",
    }
}
wire! { Runtime => proto::container::Runtime {
    Auto => Auto, Docker => Docker, Podman => Podman, Apptainer => Apptainer, Singularity => Singularity,
    Charliecloud => Charliecloud,
} }

choices! {
    /// What a container sees of the network.
    pub Network: "`host`, `bridge` or `none`" {
        /// The node's own
        Host = "host",
        /// One of its own, behind the node's
        Bridge = "bridge",
        /// Nothing
        None = "none",
    }
}
wire! { Network => proto::container::Network { Host => Host, Bridge => Bridge, None => None, } }
