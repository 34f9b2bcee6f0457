//! Which policy decides, when, and under which rules.

use crate::access::Access;
use crate::perf::PerfModel;
use crate::policy::Policy;

/// When the policy is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cadence {
    /// After every arrival, end, loss and return, and when the policy asked for it.
    Events,
    /// At multiples of a period only.
    Rounds {
        /// Seconds from one round to the next.
        period_s: f64,
    },
}

/// Who decides, and what that takes.
pub struct Regime {
    /// Who decides.
    pub policy: Box<dyn Policy>,
    /// The speeds that it assumes.
    pub perf: Box<dyn PerfModel>,
    /// When it is called.
    pub cadence: Cadence,
    /// Most jobs that it puts on one device.
    pub slots: usize,
    /// Who may use which pool.
    pub access: Access,
}
