//! Who may have how much: the model behind the document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{Access, Gang, JobSpec, Quota};

use super::units::Moment;

/// Limits that a governor enforces. The default has none, and bounds no wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Seconds after which devices are kept for a job that waits; `None` where that is off.
    pub starvation_s: Option<f64>,
    /// The pool of jobs that name none.
    pub default_pool: Option<Arc<str>>,
    /// Limits of every user without limits of their own.
    pub default_user: Caps,
    /// Limits of single users.
    pub users: BTreeMap<Arc<str>, Caps>,
    /// Users who share limits.
    pub groups: BTreeMap<Arc<str>, Group>,
    /// Parts of the cluster.
    pub pools: BTreeMap<Arc<str>, Pool>,
    /// Nodes that are kept at certain times.
    pub reservations: Vec<Reservation>,
}

/// The most that an owner may have at once, or over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// Jobs that run, or are next to.
    pub jobs: Option<u32>,
    /// Devices.
    pub devices: Option<u32>,
    /// Devices of single types.
    pub devices_of: BTreeMap<Arc<str>, u32>,
    /// GPU-hours, and the seconds within which they may be used.
    pub hours: Option<(f64, f64)>,
    /// Whether running jobs are stopped when the GPU-hours are used up.
    pub stop_at_limit: bool,
}

/// Users who share limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Who belongs to it.
    pub users: BTreeSet<Arc<str>>,
    /// What they may have together.
    pub caps: Caps,
}

/// A part of the cluster with its own limits and defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What all its jobs may have together.
    pub caps: Caps,
    /// Permitted users; `None` for all.
    pub users: Option<BTreeSet<Arc<str>>>,
    /// The time limit of jobs that have none.
    pub time_limit_default_s: Option<f64>,
    /// The longest time limit.
    pub time_limit_max_s: Option<f64>,
    /// The largest gang.
    pub gang_max: Option<u32>,
    /// Added to the priority of its jobs.
    pub priority: i32,
}

/// Nodes that are kept for some users, or for maintenance where it names none.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// What jobs ask for it by.
    pub name: Arc<str>,
    /// Which nodes.
    pub nodes: Nodes,
    /// When they have to be free.
    pub start: Moment,
    /// Time at which they are available to all jobs again.
    pub end: Moment,
    /// Seconds before the start from which on others are not given these nodes.
    pub lead_s: f64,
    /// Whose jobs may use them; empty for maintenance.
    pub users: BTreeSet<Arc<str>>,
}

/// Which nodes a reservation has.
#[derive(Clone, Debug, PartialEq)]
pub enum Nodes {
    /// These.
    Named(BTreeSet<Arc<str>>),
    /// As many of a pool, or of all.
    Some {
        /// How many.
        count: u32,
        /// Of which pool.
        pool: Option<Arc<str>>,
    },
}

/// What a job is refused for when it is submitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The pool is not for this user.
    #[error("pool {pool} does not take jobs of user {user}; ask an administrator, or use another pool")]
    PoolUser {
        /// The pool.
        pool: Arc<str>,
        /// The user.
        user: Arc<str>,
    },
    /// The gang is larger than the pool allows.
    #[error("a gang of {devices} devices is more than pool {pool} allows, which is {most}")]
    GangMax {
        /// The pool.
        pool: Arc<str>,
        /// The request.
        devices: u32,
        /// What is allowed.
        most: u32,
    },
    /// The time limit is longer than the pool allows.
    #[error("a time limit of {limit_s} s is more than pool {pool} allows, which is {most_s} s")]
    TimeLimit {
        /// The pool.
        pool: Arc<str>,
        /// The request.
        limit_s: f64,
        /// What is allowed.
        most_s: f64,
    },
    /// More than a limit will ever give.
    #[error("it asks for {} {}, and {} may have {}", .0.asked, .0.what, .0.whose, .0.limit)]
    OverLimit(Quota),
    /// No such reservation, or not for this user.
    #[error("reservation {name} {why}")]
    Reservation {
        /// The reservation.
        name: Arc<str>,
        /// Why.
        why: &'static str,
    },
}

/// What a pool adds to a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Its time limit, where there is one.
    pub time_limit_s: Option<f64>,
    /// What is added to its priority.
    pub priority: i32,
}

/// What is counted for a job in one of its owner's limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dimension {
    Jobs,
    Devices,
    Of(Arc<str>),
    Hours,
}

impl Dimension {
    /// Whether a gang counts in this dimension: one that may use several types counts for each of them.
    pub(crate) fn counts(&self, gang: &Gang) -> bool {
        match self {
            Self::Of(kind) => is_of(gang, kind),
            Self::Jobs | Self::Devices | Self::Hours => true,
        }
    }

    pub(crate) fn words(&self) -> Arc<str> {
        match self {
            Self::Jobs => "jobs".into(),
            Self::Devices => "devices".into(),
            Self::Of(kind) => format!("{kind} devices").into(),
            Self::Hours => "GPU-hours".into(),
        }
    }
}

/// Whether a gang could be given devices of this type.
pub(crate) fn is_of(gang: &Gang, kind: &Arc<str>) -> bool {
    gang.allows(kind)
}

/// The user whom a job counts for; one for all jobs that name none.
pub(crate) fn user_of(spec: &JobSpec) -> Arc<str> {
    spec.user.clone().unwrap_or_else(|| Arc::from(""))
}

impl Caps {
    /// These limits, and where one is missing that of `other`.
    pub(crate) fn over(self, other: &Self) -> Self {
        let mut devices_of = other.devices_of.clone();
        devices_of.extend(self.devices_of);
        let (hours, stop_at_limit) = if self.hours.is_some() {
            (self.hours, self.stop_at_limit)
        } else {
            (other.hours, other.stop_at_limit)
        };
        Self {
            jobs: self.jobs.or(other.jobs),
            devices: self.devices.or(other.devices),
            devices_of,
            hours,
            stop_at_limit,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that a gang counts in, with what it asks for of each and the most there may be.
    pub(crate) fn asked(&self, gang: &Gang) -> impl Iterator<Item = (Dimension, u32, u32)> {
        let jobs = self.jobs.map(|most| (Dimension::Jobs, 1, most));
        let devices = self.devices.map(|most| (Dimension::Devices, gang.devices_max, most));
        let of = self.devices_of.iter().filter(|(kind, _)| is_of(gang, kind));
        let of = of.map(|(kind, &most)| (Dimension::Of(kind.clone()), gang.devices_max, most));
        jobs.into_iter().chain(devices).chain(of)
    }

    /// The first limit that this gang can never keep.
    pub(crate) fn never(&self, whose: &Arc<str>, gang: &Gang) -> Option<Quota> {
        let quota = |dimension: &Dimension, asked, limit| Quota {
            whose: whose.clone(),
            what: dimension.words(),
            used: 0.0,
            asked,
            limit,
        };
        let over = self.asked(gang).find(|(_, asked, most)| asked > most);
        over.map(|(dimension, asked, most)| quota(&dimension, asked.into(), most.into())).or_else(|| {
            let (hours, _) = self.hours.filter(|(hours, _)| *hours <= 0.0)?;
            Some(quota(&Dimension::Hours, 1.0, hours))
        })
    }
}

impl Reservation {
    /// Whether both want a node by name at the same time. Moments of different kinds cannot be compared.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        let (Nodes::Named(mine), Nodes::Named(theirs)) = (&self.nodes, &other.nodes) else { return false };
        let is_before = |one: Moment, two: Moment| match (one, two) {
            (Moment::Unix(one), Moment::Unix(two)) | (Moment::After(one), Moment::After(two)) => one < two,
            _ => false,
        };
        !mine.is_disjoint(theirs) && is_before(self.start, other.end) && is_before(other.start, self.end)
    }

    /// Why a user's job may not use it.
    pub(crate) fn refuses(&self, user: &str) -> Option<&'static str> {
        if self.users.is_empty() {
            Some("is a maintenance window, and no job can use it")
        } else if self.users.contains(user) {
            None
        } else {
            Some("is not for this user")
        }
    }
}

impl Limits {
    /// Whether any moment is a date, which a simulated clock does not have.
    pub fn has_dates(&self) -> bool {
        self.reservations.iter().any(|one| matches!(one.start, Moment::Unix(_)))
    }

    /// What a user may have.
    pub fn caps_of_user(&self, user: &str) -> &Caps {
        self.users.get(user).unwrap_or(&self.default_user)
    }

    /// The limits that a job counts in, each with whose it is.
    pub fn owners(&self, user: &str, pool: Option<&str>) -> Vec<(Arc<str>, &Caps)> {
        let mut owners = vec![(user_words(user), self.caps_of_user(user))];
        let groups = self.groups.iter().filter(|(_, group)| group.users.contains(user));
        owners.extend(groups.map(|(name, group)| (format!("group {name}").into(), &group.caps)));
        let pool = pool.and_then(|name| Some((name, self.pools.get(name)?)));
        owners.extend(pool.map(|(name, pool)| (format!("pool {name}").into(), &pool.caps)));
        owners.retain(|(_, caps)| !caps.is_empty());
        owners
    }

    /// Admission of a job with this gang.
    ///
    /// # Errors
    /// [`Refused`] where it could never run.
    pub fn terms(&self, user: &str, gang: &Gang, time_limit_s: Option<f64>) -> Result<Terms, Refused> {
        let needs = gang.needs.as_deref();
        let pool = needs.and_then(|needs| needs.pool.clone()).or_else(|| self.default_pool.clone());
        let mut terms = Terms { time_limit_s, priority: 0 };
        if let Some((name, pool)) = pool.as_ref().and_then(|name| Some((name, self.pools.get(name)?))) {
            if pool.users.as_ref().is_some_and(|users| !users.contains(user)) {
                return Err(Refused::PoolUser { pool: name.clone(), user: user.into() });
            }
            if let Some(most) = pool.gang_max.filter(|&most| gang.devices_max > most) {
                return Err(Refused::GangMax { pool: name.clone(), devices: gang.devices_max, most });
            }
            terms.time_limit_s = time_limit_s.or(pool.time_limit_default_s).or(pool.time_limit_max_s);
            if let Some((limit_s, most_s)) = terms.time_limit_s.zip(pool.time_limit_max_s)
                && limit_s > most_s
            {
                return Err(Refused::TimeLimit { pool: name.clone(), limit_s, most_s });
            }
            terms.priority = pool.priority;
        }
        let owners = self.owners(user, pool.as_deref());
        if let Some(quota) = owners.iter().find_map(|(whose, caps)| caps.never(whose, gang)) {
            return Err(Refused::OverLimit(quota));
        }
        if let Some(name) = needs.and_then(|needs| needs.reservation.as_ref()) {
            let why = match self.reservations.iter().find(|one| one.name == *name) {
                None => Some("does not exist"),
                Some(reservation) => reservation.refuses(user),
            };
            if let Some(why) = why {
                return Err(Refused::Reservation { name: name.clone(), why });
            }
        }
        Ok(terms)
    }

    /// Fills in what a job's pool says, where it can run at all: a simulated job is not refused, it waits.
    pub fn fill(&self, spec: &mut JobSpec) {
        self.access().confine(spec);
        let Ok(terms) = self.terms(&user_of(spec), &spec.gang, None) else { return };
        spec.priority = spec.priority.saturating_add(terms.priority);
    }

    /// Who may use which pool.
    pub fn access(&self) -> Access {
        let restricted =
            self.pools.iter().filter_map(|(name, pool)| Some((name.clone(), pool.users.clone()?)));
        Access { default_pool: self.default_pool.clone(), users: restricted.collect() }
    }
}

pub(crate) fn user_words(user: &str) -> Arc<str> {
    if user.is_empty() { "users without a name".into() } else { format!("user {user}").into() }
}
