//! Why a client refuses: what it says, and with which exit code.

/// How a refusal is said, and what the client exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Said by the option parser itself.
    Usage,
    /// A value that an option cannot take.
    Value,
    /// Something that makes no sense, or that the cluster cannot do.
    Failed,
    /// As `Failed`, said as a fatal error.
    Fatal,
}

/// Why a client refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// One or several lines, without the program's name.
    pub text: String,
    /// How it is said.
    pub kind: Kind,
}

impl Refusal {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { text: text.into(), kind }
    }

    pub(crate) fn value(option: &str) -> Self {
        Self::new(Kind::Value, format!("Invalid --{option} specification"))
    }

    /// One that the cluster itself could have said.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Kind::Failed, text)
    }

    /// The lines as a program says them.
    #[must_use]
    pub fn lines(&self, program: &str) -> Vec<String> {
        let before = match self.kind {
            Kind::Usage => "",
            Kind::Value | Kind::Failed => "error: ",
            Kind::Fatal => "fatal: ",
        };
        self.text.lines().map(|line| format!("{program}: {before}{line}")).collect()
    }

    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::Usage | Kind::Value => 255,
            Kind::Failed | Kind::Fatal => 1,
        }
    }
}
