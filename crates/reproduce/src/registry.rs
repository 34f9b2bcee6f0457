//! Every policy by name: Wharf's own, and those that decide as a published system does.

use wharf_core::nearest::nearest;
use wharf_policy::{PolicyInfo, UnknownPolicy};

use crate::crius::POLICIES;

/// The policy of Wharf's own before which the published ones are listed.
const NEXT: &str = "elasticflow";

/// All policies, in the order in which they are listed.
pub fn policies() -> impl Iterator<Item = &'static PolicyInfo> {
    let own = wharf_policy::policies();
    let place = own.iter().position(|policy| policy.name == NEXT).unwrap_or(own.len());
    let (before, after) = own.split_at(place);
    before.iter().chain(POLICIES).chain(after)
}

/// The policy of that name, as [`wharf_policy::find`] finds Wharf's own.
///
/// # Errors
/// [`UnknownPolicy`] with the nearest name where there is none.
pub fn find(name: &str) -> Result<&'static PolicyInfo, UnknownPolicy> {
    if let Some(published) = POLICIES.iter().find(|policy| policy.name == name) {
        return Ok(published);
    }
    wharf_policy::find(name).map_err(|unknown| UnknownPolicy {
        nearest: nearest(name, policies().map(|policy| policy.name)),
        ..unknown
    })
}

/// The registered name of a policy that never resizes jobs; none for others.
pub fn never_resizes(name: &str) -> Option<&'static str> {
    find(name).ok().filter(|policy| !policy.is_elastic).map(|policy| policy.name)
}

#[cfg(test)]
mod tests {
    use wharf_policy::{BuildArgs, Settings, Strategy};

    use super::*;

    #[test]
    fn published_policies_are_found_and_build_with_their_defaults() {
        let settings = Settings::default();
        for policy in POLICIES {
            assert_eq!(find(policy.name).map(|found| found.name).ok(), Some(policy.name));
            let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
            assert!((policy.build)(&args).is_ok(), "{}", policy.name);
        }
        assert_eq!(find("crius/fcfz").err().and_then(|unknown| unknown.nearest), Some("crius/fcfs"));
    }

    #[test]
    fn policies_of_a_paper_are_listed_after_those_of_its_published_code() {
        let names: Vec<&str> = policies().map(|policy| policy.name).collect();
        let place = |name: &str| names.iter().position(|listed| *listed == name);
        assert_eq!(place("crius/crius").map(|place| place + 1), place(NEXT));
        assert_eq!(names.len(), wharf_policy::policies().len() + POLICIES.len());
    }
}
