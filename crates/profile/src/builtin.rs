//! The profile that is always there.

use crate::records::Records;

/// The name of the built-in profile, where no file has it.
pub const BUILTIN: &str = "default";

/// Who says what is in it.
const SOURCE: &str = "built-in model";

/// The built-in profile: made by a model of Wharf's own, nothing in it measured.
pub fn builtin() -> Records {
    Records::of_profile(&wharf_perf::analytic::profile(), SOURCE)
}
