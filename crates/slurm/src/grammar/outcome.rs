//! States of jobs, and how they end.

use std::fmt;

/// The state of a job as squeue and sacct name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It waits.
    Pending,
    /// It runs.
    Running,
    /// It is stopped and keeps its devices.
    Suspended,
    /// It went well.
    Completed,
    /// Cancelled.
    Cancelled,
    /// It did not go well.
    Failed,
    /// It reached its time limit.
    Timeout,
    /// Its node went away.
    NodeFail,
    /// It made room for another.
    Preempted,
    /// It needed more memory than there was.
    OutOfMemory,
    /// It is on its way out.
    Completing,
    /// It has its devices and is being started.
    Configuring,
    /// It could not be done in time.
    Deadline,
    /// Its node did not come up.
    BootFail,
}

impl State {
    /// All states, in the order in which they are sorted.
    pub const ALL: [Self; 14] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
        Self::Timeout,
        Self::NodeFail,
        Self::Preempted,
        Self::OutOfMemory,
        Self::Completing,
        Self::Configuring,
        Self::Deadline,
        Self::BootFail,
    ];

    /// In one or few letters, and in full.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Pending => ("PD", "PENDING"),
            Self::Running => ("R", "RUNNING"),
            Self::Suspended => ("S", "SUSPENDED"),
            Self::Completed => ("CD", "COMPLETED"),
            Self::Cancelled => ("CA", "CANCELLED"),
            Self::Failed => ("F", "FAILED"),
            Self::Timeout => ("TO", "TIMEOUT"),
            Self::NodeFail => ("NF", "NODE_FAIL"),
            Self::Preempted => ("PR", "PREEMPTED"),
            Self::OutOfMemory => ("OOM", "OUT_OF_MEMORY"),
            Self::Completing => ("CG", "COMPLETING"),
            Self::Configuring => ("CF", "CONFIGURING"),
            Self::Deadline => ("DL", "DEADLINE"),
            Self::BootFail => ("BF", "BOOT_FAIL"),
        }
    }

    /// The state of that name, in letters or in full, in any case.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let is_it = |state: &Self| {
            let (short, long) = state.names();
            name.eq_ignore_ascii_case(short) || name.eq_ignore_ascii_case(long)
        };
        Self::ALL.into_iter().find(is_it)
    }
}

/// How a job's batch script came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Cancelled.
    Cancelled,
    /// It reached its time limit.
    TimedOut,
    /// Its folder or its files could not be had.
    NotLaunched,
    /// Its node went away.
    NodeFailed,
    /// It needed more memory than there was.
    OutOfMemory,
}

/// What Slurm has instead of a signal where a job could not be launched.
const SIGNAL_NOT_LAUNCHED: i32 = 53;
const SIGTERM: i32 = 15;

impl Outcome {
    /// The state that the job is in then.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Exited(0) => State::Completed,
            Self::Exited(_) | Self::Killed(_) | Self::NotLaunched => State::Failed,
            Self::Cancelled => State::Cancelled,
            Self::TimedOut => State::Timeout,
            Self::NodeFailed => State::NodeFail,
            Self::OutOfMemory => State::OutOfMemory,
        }
    }

    /// Its exit code.
    #[must_use]
    pub fn exit(self) -> ExitCode {
        let killed = |signal| ExitCode { code: 0, signal };
        match self {
            Self::Exited(code) => ExitCode { code, signal: 0 },
            Self::Killed(signal) => killed(signal),
            Self::Cancelled | Self::TimedOut => killed(SIGTERM),
            Self::NotLaunched => killed(SIGNAL_NOT_LAUNCHED),
            Self::NodeFailed => ExitCode { code: 1, signal: 0 },
            Self::OutOfMemory => ExitCode { code: 0, signal: 125 },
        }
    }

    /// What `sbatch --wait` exits with.
    #[must_use]
    pub fn wait_code(self) -> u8 {
        match self.exit() {
            ExitCode { code, signal: 0 } => u8::try_from(code & 0xff).unwrap_or(1),
            _ => 1,
        }
    }

    /// What squeue and scontrol say of why.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Exited(0) | Self::Cancelled => "None",
            Self::Exited(_) => "NonZeroExitCode",
            Self::Killed(_) => "RaisedSignal",
            Self::TimedOut => "TimeLimit",
            Self::NotLaunched => "JobLaunchFailure",
            Self::NodeFailed => "NodeDown",
            Self::OutOfMemory => "OutOfMemory",
        }
    }
}

/// An exit code and the signal that there was instead of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCode {
    /// The code.
    pub code: i32,
    /// The signal.
    pub signal: i32,
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}
