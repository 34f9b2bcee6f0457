//! The profile that is always there.

use crate::records::Records;

/// The name of the built-in profile, where no file has it.
pub const BUILTIN: &str = "default";

/// The name of the profile that knows nothing, where no file has it.
pub const NONE: &str = "none";

/// Who says what is in it.
const SOURCE: &str = "built-in model";

/// The built-in profile: made by a model of Wharf's own, nothing in it measured.
pub fn builtin() -> Records {
    Records::of_profile(&wharf_perf::analytic::profile(), SOURCE)
}
