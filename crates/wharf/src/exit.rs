//! Every exit code of `wharf`, in one place: what scripts may rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Ok,
    /// Wharf itself is at fault.
    Internal,
    /// The command line asks for something that does not exist or cannot be.
    Usage,
    /// An input cannot be read, or says something that cannot be.
    Input,
    /// An output cannot be written.
    Output,
    /// `wharf step`: the trainer is to save a checkpoint and exit with 0.
    LeaseOver,
    /// Another launcher is changing the same cluster.
    Busy,
    /// `wharf up`, `wharf down`: some nodes are not as they should be.
    NodesFailed,
    /// `wharf up`: the head is not up, so that no worker is.
    HeadFailed,
    /// A signal ended the command.
    Signal(u8),
    /// `wharf run`, `wharf submit --wait`: what the command that was run exited with.
    Passed(u8),
}

impl Exit {
    /// Each code with the explanation that the help and the reference print.
    pub const DOCUMENTED: &[(&str, &str)] = &[
        ("0", "success; also if the reader of standard output exits early (`wharf ... | head`)"),
        ("1", "a bug in Wharf: please report it with the printed text"),
        (
            "2",
            "wrong usage, on the command line or in the configuration file: an unknown option, policy, preset, format or setting, or an invalid value",
        ),
        (
            "3",
            "an input file that is missing, unreadable or invalid, a job too large for the cluster, or a head that does not answer",
        ),
        ("4", "an output that cannot be written: no permission, a full disk, an existing directory"),
        (
            "10",
            "`wharf step`: the job's lease has ended or the job is to stop: save a checkpoint and exit with 0",
        ),
        ("11", "`wharf up`, `wharf down`: another launcher is changing the same cluster"),
        (
            "12",
            "`wharf up`: fewer workers than required have started; `wharf down`: some nodes are not stopped; repeat the command to continue",
        ),
        ("13", "`wharf up`: the head did not start, and no worker was started"),
        ("130", "interrupted by Ctrl-C (143: terminated, 129: hung up); no partial output is left"),
        (
            "other",
            "`wharf run` and `wharf submit --wait` pass on the exit code of the job (126, 127: cannot start)",
        ),
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Input => 3,
            Self::Output => 4,
            Self::LeaseOver => 10,
            Self::Busy => 11,
            Self::NodesFailed => 12,
            Self::HeadFailed => 13,
            Self::Signal(signal) => 128u8.saturating_add(signal),
            Self::Passed(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_code_is_documented() {
        let fixed = [Exit::Ok, Exit::Internal, Exit::Usage, Exit::Input, Exit::Output, Exit::LeaseOver];
        let fixed = fixed.into_iter().chain([Exit::Busy, Exit::NodesFailed, Exit::HeadFailed]);
        for exit in fixed.chain([Exit::Signal(2)]) {
            let code = exit.code().to_string();
            assert!(Exit::DOCUMENTED.iter().any(|(documented, _)| *documented == code), "{exit:?}");
        }
    }
}
