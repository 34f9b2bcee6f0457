//! The published simulator's own files, for tests and benches.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_core::ClusterSpec;
use wharf_perf::Profile;

/// A cluster from `4:4:4`: devices of v100, p100 and k80, and the same for devices in a server.
pub(crate) fn cluster(counts: &str, per_server: &str) -> ClusterSpec {
    let numbers =
        |text: &str| -> Vec<u32> { text.split(':').map(|part| part.parse().expect("a number")).collect() };
    let groups = ["v100", "p100", "k80"].into_iter().zip(numbers(counts)).zip(numbers(per_server));
    let groups = groups.filter(|((_, count), _)| *count > 0);
    let form: Vec<String> =
        groups.map(|((name, count), per)| format!("{name}:{}x{per}", count / per)).collect();
    wharf_trace::parse_cluster(&form.join(",")).expect("a short form")
}

/// The measured speeds that runs were recorded with, by file name.
pub(crate) fn profiles(data: &Path) -> BTreeMap<String, Profile> {
    ["simulation_throughputs.json", "physical_cluster_throughputs.json"]
        .map(|name| (name.to_owned(), wharf_profile::load(&data.join(name)).expect("speeds")))
        .into()
}
