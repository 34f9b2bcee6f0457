//! The profile that is always there.

use wharf_perf::analytic;

use crate::records::Records;

const MIB_PER_GIB: f64 = 1024.0;

/// The name of the built-in profile, where no file has it.
pub const BUILTIN: &str = "default";

/// The name of the profile that knows nothing, where no file has it.
pub const NONE: &str = "none";

/// Who states what is in it.
const SOURCE: &str = "built-in model";

/// The built-in profile: made by a model of Wharf's own, nothing in it measured.
pub fn builtin() -> Records {
    let mut records = Records::of_profile(&analytic::profile(), SOURCE);
    records.update(|key, facts| {
        let model = analytic::models().iter().find(|model| *model.name == *key.workload.model);
        let memory_mib = |batch_size| {
            Some((analytic::memory_gib(model?, batch_size, key.place.devices) * MIB_PER_GIB).round())
        };
        facts.memory_mib = key.workload.batch_size.and_then(memory_mib);
    });
    records
}
