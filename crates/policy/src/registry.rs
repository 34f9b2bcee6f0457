//! Every policy by name: what it is, whose it is, and which knobs it has.

/// What people are told about a policy, and how it is made.
#[derive(Debug)]
pub struct PolicyInfo {
    /// The name in files, on the command line and in reports: as its paper names it.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// How it decides, in a paragraph or two.
    pub explanation: &'static str,
    /// What can be set with `--set`.
    pub knobs: &'static [KnobInfo],
}

/// One setting of a policy.
#[derive(Debug)]
pub struct KnobInfo {
    /// The key in `--set key=value`.
    pub name: &'static str,
    /// What it takes, for people: `on|off`, `1..4`, `seconds`.
    pub values: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// One line: what it changes.
    pub help: &'static str,
}

/// There is no policy of that name.
#[derive(Debug, thiserror::Error)]
#[error("no policy is named `{name}`")]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
    /// The closest name that exists, where one is close.
    pub nearest: Option<&'static str>,
}

/// All policies, in the order in which they are listed.
pub fn policies() -> &'static [PolicyInfo] {
    &[]
}

/// The policy of that name.
///
/// # Errors
/// [`UnknownPolicy`] with the nearest name where there is none.
pub fn find(name: &str) -> Result<&'static PolicyInfo, UnknownPolicy> {
    policies()
        .iter()
        .find(|policy| policy.name == name)
        .ok_or_else(|| UnknownPolicy { name: name.to_owned(), nearest: None })
}
