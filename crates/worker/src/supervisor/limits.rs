//! Resource limits of a task's processes, by the names that `ulimit` and limits.conf have for them.

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::supervisor::protocol::Limit;

/// All limits that there are on Linux and that mean something to a job.
const NAMES: &[(&str, Resource)] = &[
    ("as", Resource::RLIMIT_AS),
    ("core", Resource::RLIMIT_CORE),
    ("cpu", Resource::RLIMIT_CPU),
    ("data", Resource::RLIMIT_DATA),
    ("fsize", Resource::RLIMIT_FSIZE),
    ("locks", Resource::RLIMIT_LOCKS),
    ("memlock", Resource::RLIMIT_MEMLOCK),
    ("msgqueue", Resource::RLIMIT_MSGQUEUE),
    ("nice", Resource::RLIMIT_NICE),
    ("nofile", Resource::RLIMIT_NOFILE),
    ("nproc", Resource::RLIMIT_NPROC),
    ("rss", Resource::RLIMIT_RSS),
    ("rtprio", Resource::RLIMIT_RTPRIO),
    ("sigpending", Resource::RLIMIT_SIGPENDING),
    ("stack", Resource::RLIMIT_STACK),
];

/// Why a limit cannot be set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitError {
    #[error("unknown limit '{name}'; expected one of {}", known())]
    Unknown { name: String },
    #[error("the limit {name} cannot be {}: this node allows at most {}", shown(*wanted), shown(*allowed))]
    Forbidden { name: String, wanted: Option<u64>, allowed: Option<u64> },
    #[error("the limit {name} cannot be {}: this node's `--max-limit` allows at most {}", shown(*wanted), shown(*allowed))]
    Above { name: String, wanted: Option<u64>, allowed: Option<u64> },
    #[error("the limit {name} cannot be {}: {errno}", shown(*wanted))]
    Failed { name: String, wanted: Option<u64>, errno: Errno },
}

/// Checks that all limits exist, and that none is above what the site grants.
pub(crate) fn check(limits: &[Limit], granted: &[Limit]) -> Result<(), LimitError> {
    let value = |limit: &Limit| limit.value.unwrap_or(RLIM_INFINITY);
    for limit in limits {
        resource(&limit.name)?;
        let highest = granted.iter().find(|granted| granted.name == limit.name);
        if let Some(highest) = highest.filter(|highest| value(limit) > value(highest)) {
            let (name, wanted, allowed) = (limit.name.clone(), limit.value, highest.value);
            return Err(LimitError::Above { name, wanted, allowed });
        }
    }
    Ok(())
}

/// Sets the hard limits of this process to what the site grants, so that whichever user it becomes can go as far.
pub(super) fn grant(granted: &[Limit]) -> Result<(), LimitError> {
    for Limit { name, value: wanted } in granted {
        let (resource, hard) = (resource(name)?, wanted.unwrap_or(RLIM_INFINITY));
        let (soft, own) = getrlimit(resource).unwrap_or((hard, hard));
        let granted = match setrlimit(resource, soft.min(hard), hard) {
            // In a container root may not raise limits: what a job asks for is refused, then, with the limit that there is.
            Err(Errno::EPERM) => setrlimit(resource, soft.min(own.min(hard)), own.min(hard)),
            granted => granted,
        };
        granted.map_err(|errno| LimitError::Failed { name: name.clone(), wanted: *wanted, errno })?;
    }
    Ok(())
}

/// Sets the limits of this process and all that come from it, for good: with the rights that it has.
pub(super) fn apply(limits: &[Limit]) -> Result<(), LimitError> {
    for limit in limits {
        let resource = resource(&limit.name)?;
        let (name, wanted) = (limit.name.clone(), limit.value);
        let value = wanted.unwrap_or(RLIM_INFINITY);
        match setrlimit(resource, value, value) {
            Ok(()) => (),
            Err(Errno::EPERM) => {
                let hard = getrlimit(resource).map_or(0, |(_, hard)| hard);
                let allowed = (hard != RLIM_INFINITY).then_some(hard);
                return Err(LimitError::Forbidden { name, wanted, allowed });
            }
            Err(errno) => return Err(LimitError::Failed { name, wanted, errno }),
        }
    }
    Ok(())
}

fn resource(name: &str) -> Result<Resource, LimitError> {
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, resource)| *resource);
    found.ok_or_else(|| LimitError::Unknown { name: name.to_owned() })
}

fn known() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn shown(value: Option<u64>) -> String {
    value.map_or("unlimited".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_unknown_names_the_known() {
        let limit = |name: &str| Limit { name: name.into(), value: Some(1) };
        assert_eq!(check(&[limit("nofile"), limit("memlock"), limit("core")], &[limit("core")]), Ok(()));
        let error = check(&[limit("files")], &[]).unwrap_err().to_string();
        assert!(error.contains("unknown limit 'files'") && error.contains("nofile"), "{error}");
    }

    #[test]
    fn check_refuses_more_than_granted() {
        let limit = |value| Limit { name: "memlock".into(), value };
        for (wanted, granted, is_fine) in
            [(Some(5), Some(5), true), (Some(6), Some(5), false), (None, Some(5), false), (None, None, true)]
        {
            assert_eq!(check(&[limit(wanted)], &[limit(granted)]).is_ok(), is_fine, "{wanted:?} {granted:?}");
        }
    }

    #[test]
    fn errors_name_expected_and_allowed_values() {
        let error = LimitError::Forbidden { name: "memlock".into(), wanted: None, allowed: Some(65536) };
        let expected = "the limit memlock cannot be unlimited: this node allows at most 65536";
        assert_eq!(error.to_string(), expected);
    }
}
