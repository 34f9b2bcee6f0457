//! What owners have and have used, from the state of everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{JobId, Phase, State, Time, View};

use super::accounts::Accounts;
use super::hours::Hours;
use super::limits::{Caps, Limits, user_of};

/// One owner's limits, and how far they are used.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// `user ann`, `group vision`, `pool big`.
    pub whose: Arc<str>,
    /// What the owner may have.
    pub caps: Caps,
    /// Jobs with devices.
    pub running: u32,
    /// Their devices.
    pub devices: u32,
    /// Their devices by type.
    pub devices_of: BTreeMap<Arc<str>, u32>,
    /// GPU-hours used within the owner's window.
    pub gpu_hours: f64,
    /// Jobs that wait.
    pub waiting: u32,
}

/// When a job last had devices for as long as it had them in all: what was earlier is taken to be as late as possible.
fn service(now: Time, life: &wharf_core::JobState) -> Option<(Time, Time)> {
    let attained_s = life.attained_s(now);
    let to = life.end.unwrap_or(now);
    (attained_s > 0.0).then(|| (Time::from_seconds(to.seconds() - attained_s), to))
}

/// Counts the GPU-hours that jobs used before a governor took over.
pub(crate) fn recall(accounts: &mut Accounts, limits: &Limits, view: &View<'_>) {
    let counts_hours = |caps: &Caps| caps.hours.is_some();
    let is_counted = counts_hours(&limits.default_user)
        || limits.users.values().any(counts_hours)
        || limits.groups.values().any(|group| counts_hours(&group.caps))
        || limits.pools.values().any(|pool| counts_hours(&pool.caps));
    if !is_counted {
        return;
    }
    for job in view.all_jobs() {
        let (spec, life) = (view.spec(job), view.job(job));
        let Some((from, to)) = service(view.now, life) else { continue };
        let queue = accounts.queue(limits, view.now, spec);
        for ledger in accounts.queues[queue].ledgers.clone() {
            if let Some(hours) = &mut accounts.ledgers[ledger].hours {
                hours.add(from, to, spec.gang.devices);
            }
        }
    }
}

/// All owners with jobs or limits of their own, by name.
pub fn usage(limits: &Limits, state: &State, now: Time) -> Vec<Usage> {
    let mut rows: BTreeMap<Arc<str>, (Usage, Option<Hours>)> = BTreeMap::new();
    let users = limits.users.keys().chain(limits.groups.values().flat_map(|group| &group.users));
    let owners = users.flat_map(|name| limits.owners(name, None));
    let pools = limits.pools.keys().flat_map(|name| limits.owners("", Some(name)));
    for owner in owners.chain(pools.filter(|(whose, _)| whose.starts_with("pool "))) {
        row(&mut rows, owner, now);
    }
    for (job, spec, life) in state.jobs() {
        let pool = spec.gang.pool().map(|pool| &**pool);
        let owners = limits.owners(&user_of(spec), pool);
        if owners.is_empty() {
            continue;
        }
        let service = service(now, life);
        for owner in owners {
            let (usage, hours) = row(&mut rows, owner, now);
            if let (Some((from, to)), Some(hours)) = (service, hours) {
                hours.add(from, to, spec.gang.devices);
            }
            count(usage, state, job, life.phase);
        }
    }
    let finish = |(mut usage, hours): (Usage, Option<Hours>)| {
        if let Some(mut hours) = hours {
            hours.advance(now);
            usage.gpu_hours = hours.used(now);
        }
        usage
    };
    rows.into_values().map(finish).collect()
}

fn row<'a>(
    rows: &'a mut BTreeMap<Arc<str>, (Usage, Option<Hours>)>,
    (whose, caps): (Arc<str>, &Caps),
    now: Time,
) -> &'a mut (Usage, Option<Hours>) {
    rows.entry(whose.clone()).or_insert_with(|| {
        let usage = Usage {
            whose,
            caps: caps.clone(),
            running: 0,
            devices: 0,
            devices_of: BTreeMap::new(),
            gpu_hours: 0.0,
            waiting: 0,
        };
        (usage, caps.hours.map(|(hours, window_s)| Hours::new(hours, window_s, 1.0, now)))
    })
}

fn count(usage: &mut Usage, state: &State, job: JobId, phase: Phase) {
    match state.schedule().placement(job) {
        Some(shares) => {
            usage.running += 1;
            for share in shares {
                let kind = &state.topology().node(share.node).spec.device_type;
                usage.devices += share.devices.len();
                *usage.devices_of.entry(kind.clone()).or_default() += share.devices.len();
            }
        }
        None if matches!(phase, Phase::Waiting | Phase::Held) => usage.waiting += 1,
        None => {}
    }
}
