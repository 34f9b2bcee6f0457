//! Limits as an administrator writes them, and what can be wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use wharf_core::parse_seconds;

use super::limits::{Caps, Group, Limits, Nodes, Pool, Reservation};
use super::units::{Duration, Moment};

/// Seconds after which a job has waited too long, where the document does not say.
const STARVATION_S: f64 = 86_400.0;

/// Seconds before a reservation during which its nodes get no other jobs, where it does not say.
const LEAD_S: f64 = 3600.0;

/// Limits that cannot be used: where, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct LimitsError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// Sections that have the same limits, each beside keys of its own.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            jobs: Option<u32>,
            devices: Option<u32>,
            #[serde(default)]
            devices_of: BTreeMap<String, u32>,
            gpu_hours: Option<f64>,
            per: Option<Duration>,
            stop_at_limit: Option<bool>,
            $(#[serde(default)] $field: $kind,)*
        }

        impl $name {
            fn caps(&self) -> Result<Caps, CapsError> {
                caps(self.jobs, self.devices, &self.devices_of, (self.gpu_hours, self.per), self.stop_at_limit)
            }
        }
    };
}

section!(
    /// `[user.NAME]`, `[default.user]`
    UserSection {});
section!(
/// `[group.NAME]`
GroupSection {
    users: Option<Vec<String>>,
});
section!(
/// `[pool.NAME]`
PoolSection {
    users: Vec<String>,
    groups: Vec<String>,
    time_limit_default: Option<Duration>,
    time_limit_max: Option<Duration>,
    gang_max: Option<u32>,
    priority: i32,
});

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    starvation: Option<Spanned<String>>,
    default_pool: Option<Spanned<String>>,
    #[serde(default)]
    default: Defaults,
    #[serde(default)]
    user: BTreeMap<String, Spanned<UserSection>>,
    #[serde(default)]
    group: BTreeMap<String, Spanned<GroupSection>>,
    #[serde(default)]
    pool: BTreeMap<String, Spanned<PoolSection>>,
    #[serde(default)]
    reservation: Vec<Spanned<ReservationSection>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    user: Option<Spanned<UserSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservationSection {
    name: String,
    #[serde(default)]
    nodes: Vec<String>,
    pool: Option<String>,
    count: Option<u32>,
    start: Moment,
    end: Moment,
    lead: Option<Duration>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
}

/// Why the limits of a section cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
enum CapsError {
    #[error("`gpu_hours` needs a `per`, such as per = \"7d\"")]
    NoPeriod,
    #[error("`{key}` belongs to `gpu_hours`, which is missing")]
    NoHours { key: &'static str },
    #[error("`gpu_hours` is {hours}; write a number from 0 on")]
    Hours { hours: f64 },
    #[error("`per` is no time at all; write one such as \"7d\"")]
    EmptyPeriod,
}

fn caps(
    jobs: Option<u32>,
    devices: Option<u32>,
    devices_of: &BTreeMap<String, u32>,
    (gpu_hours, per): (Option<f64>, Option<Duration>),
    stop_at_limit: Option<bool>,
) -> Result<Caps, CapsError> {
    let hours = match (gpu_hours, per) {
        (None, None) => None,
        (Some(_), None) => return Err(CapsError::NoPeriod),
        (None, Some(_)) => return Err(CapsError::NoHours { key: "per" }),
        (Some(hours), Some(Duration(per_s))) => {
            if !hours.is_finite() || hours < 0.0 {
                return Err(CapsError::Hours { hours });
            }
            if per_s <= 0.0 {
                return Err(CapsError::EmptyPeriod);
            }
            Some((hours, per_s))
        }
    };
    if stop_at_limit.is_some() && hours.is_none() {
        return Err(CapsError::NoHours { key: "stop_at_limit" });
    }
    let devices_of = devices_of.iter().map(|(name, &count)| (name.as_str().into(), count)).collect();
    Ok(Caps { jobs, devices, devices_of, hours, stop_at_limit: stop_at_limit.unwrap_or(false) })
}

/// A text, for turning offsets into places.
struct Source<'t>(&'t str);

impl Source<'_> {
    fn error(&self, offset: usize, message: String) -> LimitsError {
        let before = &self.0[..self.0.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        LimitsError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }

    /// An error about a part of the text, which its key or heading names.
    fn at<T>(&self, part: &Spanned<T>, what: &str, message: &str) -> LimitsError {
        self.error(part.span().start, format!("{what}: {message}"))
    }
}

fn names(all: &[String]) -> impl Iterator<Item = Arc<str>> {
    all.iter().map(|name| name.as_str().into())
}

impl Limits {
    /// Reads limits from a TOML document.
    ///
    /// # Errors
    /// [`LimitsError`] with the place of the first mistake.
    pub fn parse(text: &str) -> Result<Self, LimitsError> {
        let source = Source(text);
        let document: Document = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            source.error(offset, error.message().trim().replace('\n', "; "))
        })?;
        let mut limits = Self { starvation_s: starvation(&source, &document)?, ..Self::default() };
        limits.add_owners(&source, &document)?;
        limits.add_pools(&source, &document)?;
        for (index, section) in document.reservation.iter().enumerate() {
            limits.add_reservation(&source, section, index)?;
        }
        Ok(limits)
    }

    fn add_owners(&mut self, source: &Source<'_>, document: &Document) -> Result<(), LimitsError> {
        if let Some(section) = &document.default.user {
            self.default_user = section
                .get_ref()
                .caps()
                .map_err(|error| source.at(section, "default.user", &error.to_string()))?;
        }
        for (name, section) in &document.user {
            let own = section.get_ref().caps();
            let own = own.map_err(|error| source.at(section, &format!("user.{name}"), &error.to_string()))?;
            self.users.insert(name.as_str().into(), own.over(&self.default_user));
        }
        for (name, section) in &document.group {
            let what = format!("group.{name}");
            let group = section.get_ref();
            let Some(users) = &group.users else {
                return Err(source.at(section, &what, "has no `users`; list its members"));
            };
            let caps = group.caps().map_err(|error| source.at(section, &what, &error.to_string()))?;
            let group = Group { users: names(users).collect(), caps };
            self.groups.insert(name.as_str().into(), group);
        }
        Ok(())
    }

    fn add_pools(&mut self, source: &Source<'_>, document: &Document) -> Result<(), LimitsError> {
        for (name, section) in &document.pool {
            let what = format!("pool.{name}");
            let pool = section.get_ref();
            let caps = pool.caps().map_err(|error| source.at(section, &what, &error.to_string()))?;
            let time_limit_default_s = pool.time_limit_default.map(|limit| limit.0);
            let time_limit_max_s = pool.time_limit_max.map(|limit| limit.0);
            if time_limit_default_s.zip(time_limit_max_s).is_some_and(|(default, max)| default > max) {
                return Err(source.at(section, &what, "`time_limit_default` is more than `time_limit_max`"));
            }
            let is_open = pool.users.is_empty() && pool.groups.is_empty();
            let users = self.members(source, section, &what, &pool.users, &pool.groups)?;
            let pool = Pool {
                caps,
                users: (!is_open).then_some(users),
                time_limit_default_s,
                time_limit_max_s,
                gang_max: pool.gang_max,
                priority: pool.priority,
            };
            self.pools.insert(name.as_str().into(), pool);
        }
        if let Some(name) = &document.default_pool {
            if !self.pools.contains_key(name.get_ref().as_str()) {
                let message = format!("there is no [pool.{}]", name.get_ref());
                return Err(source.at(name, "default_pool", &message));
            }
            self.default_pool = Some(name.get_ref().as_str().into());
        }
        Ok(())
    }

    /// Named users and those of named groups.
    fn members<T>(
        &self,
        source: &Source<'_>,
        section: &Spanned<T>,
        what: &str,
        users: &[String],
        groups: &[String],
    ) -> Result<std::collections::BTreeSet<Arc<str>>, LimitsError> {
        let mut members: std::collections::BTreeSet<Arc<str>> = names(users).collect();
        for name in groups {
            let group = self.groups.get(name.as_str()).ok_or_else(|| {
                source.at(section, what, &format!("there is no [group.{name}]; add one with its users"))
            })?;
            members.extend(group.users.iter().cloned());
        }
        Ok(members)
    }

    fn add_reservation(
        &mut self,
        source: &Source<'_>,
        section: &Spanned<ReservationSection>,
        index: usize,
    ) -> Result<(), LimitsError> {
        let one = section.get_ref();
        let what = format!("reservation {} ({})", index + 1, one.name);
        let wrong = |message: &str| Err(source.at(section, &what, message));
        let nodes = match (&one.nodes[..], &one.pool, one.count) {
            ([], pool, Some(count)) if count > 0 => {
                Nodes::Some { count, pool: pool.as_deref().map(Into::into) }
            }
            ([_, ..], None, None) => Nodes::Named(names(&one.nodes).collect()),
            _ => return wrong("give either `nodes`, or a `count` of nodes with or without a `pool`"),
        };
        let is_ordered = match (one.start, one.end) {
            (Moment::Unix(start), Moment::Unix(end)) | (Moment::After(start), Moment::After(end)) => {
                start < end
            }
            _ => return wrong("write `start` and `end` both as dates, or both as `+` and a duration"),
        };
        if one.name.is_empty() || !is_ordered {
            return wrong("it needs a name, and an `end` after its `start`");
        }
        if self.reservations.iter().any(|other| *other.name == *one.name) {
            return wrong("there is another reservation of that name");
        }
        let users = self.members(source, section, &what, &one.users, &one.groups)?;
        let reservation = Reservation {
            name: one.name.as_str().into(),
            nodes,
            start: one.start,
            end: one.end,
            lead_s: one.lead.map_or(LEAD_S, |lead| lead.0),
            users,
        };
        if let Some(other) = self.reservations.iter().find(|other| other.clashes(&reservation)) {
            return wrong(&format!("reservation {} has some of its nodes at the same time", other.name));
        }
        self.reservations.push(reservation);
        Ok(())
    }
}

fn starvation(source: &Source<'_>, document: &Document) -> Result<Option<f64>, LimitsError> {
    let Some(value) = &document.starvation else { return Ok(Some(STARVATION_S)) };
    match value.get_ref().as_str() {
        "off" => Ok(None),
        text => parse_seconds(text).filter(|seconds| *seconds > 0.0).map(Some).ok_or_else(|| {
            source.at(value, "starvation", &format!("`{text}` is not a duration; write `24h`, or `off`"))
        }),
    }
}
