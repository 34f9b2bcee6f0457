//! Which pools a job may use: access belongs to nodes, whatever a job names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::NodeSpec;
use crate::job::{Gang, JobSpec, Needs};

/// Who may use which pool, and the pool of nodes and jobs that name none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The pool of nodes and jobs that name none.
    pub default_pool: Option<Arc<str>>,
    /// The users of restricted pools; a pool that is absent is open to every user.
    pub users: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// What [`Access`] means for one job. Derived by the engine, never submitted or stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    default_pool: Option<Arc<str>>,
    /// Pools that the job's owner may not use.
    barred: Vec<Arc<str>>,
}

impl Access {
    /// The pool that a name stands for: the default pool where it is empty.
    pub fn pool<'a>(&'a self, named: &'a str) -> &'a str {
        if named.is_empty() { self.default_pool.as_deref().unwrap_or_default() } else { named }
    }

    /// Whether a user may run jobs in a pool.
    pub fn permits(&self, user: &str, pool: &str) -> bool {
        self.users.get(self.pool(pool)).is_none_or(|users| users.contains(user))
    }

    /// The scope of a user's jobs.
    pub fn scope(&self, user: &str) -> Scope {
        let barred = self.users.iter().filter(|(_, users)| !users.contains(user));
        Scope {
            default_pool: self.default_pool.clone(),
            barred: barred.map(|(pool, _)| pool.clone()).collect(),
        }
    }

    /// Confines a job to the pools that its owner may use.
    pub fn confine(&self, spec: &mut JobSpec) {
        let scope = self.scope(spec.user.as_deref().unwrap_or_default());
        let known = spec.gang.needs.as_deref();
        if known.map_or(scope == Scope::default(), |needs| needs.scope == scope) {
            return;
        }
        let needs = Needs { scope, ..known.cloned().unwrap_or_default() };
        spec.gang.needs = (needs != Needs::default()).then(|| Arc::new(needs));
    }
}

impl Needs {
    /// The pool that its nodes belong to: the one that the job names, or the default.
    pub fn pool(&self) -> Option<&Arc<str>> {
        self.pool.as_ref().or(self.scope.default_pool.as_ref())
    }

    /// Whether a node is in a pool that the job asks for and its owner may use.
    pub(crate) fn admit(&self, node: &NodeSpec) -> bool {
        let pool = match &self.scope.default_pool {
            Some(default) if node.pool.is_empty() => default,
            _ => &node.pool,
        };
        self.pool().is_none_or(|wanted| wanted == pool) && !self.scope.barred.contains(pool)
    }
}

impl Scope {
    /// Whether it rules out any node.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }
}

impl Gang {
    /// The pool that it runs in: the one that the job names, or the default.
    pub fn pool(&self) -> Option<&Arc<str>> {
        self.needs.as_deref().and_then(Needs::pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    /// Pools `open` and `paid`, the latter for cyd only; nodes without a pool belong to `default`.
    fn access(default: Option<&str>) -> Access {
        let users = BTreeMap::from([("paid".into(), BTreeSet::from(["cyd".into()]))]);
        Access { default_pool: default.map(Into::into), users }
    }

    #[test]
    fn job_is_confined_to_the_pools_of_its_owner_whatever_it_names() {
        /// Default pool, user, pool that the job names, nodes (by pool) that it may use.
        type Row = (Option<&'static str>, &'static str, Option<&'static str>, &'static [&'static str]);
        let rows: [Row; 8] = [
            (None, "bob", None, &["", "open"]),
            (None, "cyd", None, &["", "open", "paid"]),
            (None, "bob", Some("paid"), &[]),
            (None, "cyd", Some("paid"), &["paid"]),
            (Some("open"), "bob", None, &["", "open"]),
            (Some("open"), "bob", Some("open"), &["", "open"]),
            (Some("paid"), "bob", None, &[]),
            (Some("paid"), "cyd", None, &["", "paid"]),
        ];
        for (default, user, pool, expected) in rows {
            let mut spec = JobSpec::new("job", Time::ZERO, 1, 1.0, 1.0);
            spec.user = Some(user.into());
            if let Some(pool) = pool {
                let needs = Needs { pool: Some(pool.into()), ..Needs::default() };
                spec.gang.needs = Some(Arc::new(needs));
            }
            access(default).confine(&mut spec);
            let mut node = crate::ClusterSpec::uniform("v100", 1, 1).nodes.remove(0);
            let usable: Vec<&str> = ["", "open", "paid"]
                .into_iter()
                .filter(|pool| {
                    node.pool = (*pool).into();
                    spec.gang.needs.as_ref().is_none_or(|needs| needs.allow(&node))
                })
                .collect();
            assert_eq!(usable, expected, "default {default:?}, {user}, names {pool:?}");
        }
    }

    #[test]
    fn job_without_restrictions_is_left_as_it_was() {
        let mut spec = JobSpec::new("job", Time::ZERO, 1, 1.0, 1.0);
        Access::default().confine(&mut spec);
        assert_eq!(spec.gang.needs, None);
        access(Some("open")).confine(&mut spec);
        assert_eq!(spec.gang.pool().map(|pool| &**pool), Some("open"));
        Access::default().confine(&mut spec);
        assert_eq!(spec.gang.needs, None, "lifted restrictions leave nothing behind");
    }
}
