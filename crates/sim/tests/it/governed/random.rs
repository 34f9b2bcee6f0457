//! Random traces under random limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_core::{ClusterSpec, JobId, JobSpec, Needs, Phase, Reason, State, Time};
use wharf_policy::Settings;
use wharf_policy::governor::{Caps, Group, Limits, Moment, Nodes, Reservation};
use wharf_reproduce::policies;

use crate::governed::world::World;

const USERS: [&str; 3] = ["ann", "bob", "eve"];

fn caps_strategy() -> impl Strategy<Value = Caps> {
    let small = prop::option::weighted(0.5, 1..6u32);
    let devices = prop::option::weighted(0.6, 4..17u32);
    let of = prop::option::weighted(0.4, (prop::sample::select(vec!["gpu", "other"]), 2..13u32));
    let hours = prop::option::weighted(0.4, (1..20u32, 1..5u32));
    (small, devices, of, hours, any::<bool>()).prop_map(|(jobs, devices, of, hours, stop)| Caps {
        jobs,
        devices,
        devices_of: of.into_iter().map(|(kind, count)| (Arc::from(kind), count)).collect(),
        hours: hours.map(|(hours, windows)| (f64::from(hours), f64::from(windows) * 3600.0)),
        stop_at_limit: stop && hours.is_some(),
    })
}

fn reservation_strategy() -> impl Strategy<Value = Reservation> {
    let users = prop::sample::select(vec![vec![], vec!["ann"], vec!["ann", "bob"]]);
    (0..2u32, 100..4000u32, 100..4000u32, 0..1500u32, users).prop_map(|(node, start, length, lead, users)| {
        let named = Nodes::Named([Arc::from(format!("gpu-{node}"))].into());
        Reservation {
            name: "kept".into(),
            nodes: if node == 0 { named } else { Nodes::Some { count: 1, pool: None } },
            start: Moment::After(f64::from(start)),
            end: Moment::After(f64::from(start + length)),
            lead_s: f64::from(lead),
            users: users.into_iter().map(Arc::from).collect(),
        }
    })
}

fn limits_strategy() -> impl Strategy<Value = Limits> {
    let starvation = prop::option::of(200..5000u32);
    let group = prop::option::weighted(0.5, caps_strategy());
    let reservations = prop::collection::vec(reservation_strategy(), 0..2);
    (starvation, caps_strategy(), caps_strategy(), group, reservations).prop_map(
        |(starvation, default_user, ann, group, reservations)| Limits {
            starvation_s: starvation.map(f64::from),
            default_user,
            users: [(Arc::from("ann"), ann)].into(),
            groups: group
                .map(|caps| {
                    (Arc::from("vision"), Group { users: ["ann", "bob"].map(Arc::from).into(), caps })
                })
                .into_iter()
                .collect(),
            reservations,
            ..Limits::default()
        },
    )
}

fn job_strategy() -> impl Strategy<Value = JobSpec> {
    let gang = prop::sample::select(vec![1u32, 1, 1, 2, 4, 8, 16]);
    let types = prop::option::weighted(0.3, Just(Arc::from([Arc::from("gpu")])));
    (gang, 0..12u32, 1..30u32, -1..2i32, 0..USERS.len(), types, prop::bool::weighted(0.15)).prop_map(
        |(gang, submit, length, priority, user, types, is_booked)| {
            let submit = Time::from_seconds(f64::from(submit) * 150.0);
            let mut job = JobSpec::new("j", submit, gang, f64::from(length) * 100.0, 1000.0);
            job.priority = priority;
            job.user = Some(USERS[user].into());
            job.gang.device_types = types.unwrap_or_else(|| Arc::from([]));
            let needs = Needs { reservation: Some("kept".into()), ..Needs::default() };
            job.gang.needs = is_booked.then(|| Arc::new(needs));
            job
        },
    )
}

fn trace_strategy() -> impl Strategy<Value = Vec<JobSpec>> {
    prop::collection::vec(job_strategy(), 1..30).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.submit);
        jobs
    })
}

/// What each owner has, from placements alone.
fn held(limits: &Limits, state: &State) -> BTreeMap<Arc<str>, (Caps, u32, u32)> {
    let mut held: BTreeMap<Arc<str>, (Caps, u32, u32)> = BTreeMap::new();
    for (job, spec, _) in state.jobs() {
        let Some(shares) = state.schedule().placement(job) else { continue };
        let devices: u32 = shares.iter().map(|share| share.devices.len()).sum();
        for (whose, caps) in limits.owners(spec.user.as_deref().unwrap_or_default(), None) {
            let entry = held.entry(whose).or_insert_with(|| (caps.clone(), 0, 0));
            entry.1 += 1;
            entry.2 += devices;
        }
    }
    held
}

/// No limit is exceeded. All devices are of one type, so a limit of that type is one on devices.
fn check_limits(limits: &Limits, state: &State) -> Result<(), String> {
    for (whose, (caps, jobs, devices)) in held(limits, state) {
        let of_type = caps.devices_of.get("gpu").copied();
        let most = [caps.devices, of_type].into_iter().flatten().min().unwrap_or(u32::MAX);
        if jobs > caps.jobs.unwrap_or(u32::MAX) || devices > most {
            return Err(format!("{whose} has {jobs} jobs and {devices} devices, but may have {caps:?}"));
        }
    }
    Ok(())
}

/// Nodes are given to no other job while they are kept, and are empty while they are reserved.
fn check_windows(limits: &Limits, world: &World) -> Result<(), String> {
    let (state, now_s) = (world.state(), world.now.seconds());
    for one in &limits.reservations {
        let (Moment::After(start_s), Moment::After(end_s)) = (one.start, one.end) else { continue };
        let Nodes::Named(names) = &one.nodes else { continue };
        for (job, spec, life) in state.jobs() {
            let shares = state.schedule().placement(job).unwrap_or_default();
            let is_there =
                shares.iter().any(|share| names.contains(&state.topology().node(share.node).spec.name));
            let is_own = spec.gang.needs.as_ref().is_some_and(|needs| needs.reservation.is_some());
            if !is_there || is_own {
                continue;
            }
            let placed_s = life.placed_at().seconds();
            if (start_s..end_s).contains(&now_s) {
                return Err(format!("{job} is on a node that is reserved"));
            }
            if placed_s > start_s - one.lead_s && placed_s < end_s {
                return Err(format!("{job} was placed at {placed_s} s on a node that is kept"));
            }
        }
    }
    Ok(())
}

/// Whether there is a place for the job on free devices.
fn could_start(state: &State, job: JobId) -> bool {
    let gang = &state.spec(job).gang;
    wharf_policy::Strategy::default().placer(0).place(
        state.topology(),
        state.schedule(),
        gang,
        &mut Vec::new(),
    )
}

fn check_reason(world: &World, job: JobId, reason: &Reason) -> Result<(), String> {
    let state = world.state();
    let gang = &state.spec(job).gang;
    let is_waiting = |other: JobId| other != job && state.job(other).phase == Phase::Waiting;
    let is_true = match reason {
        Reason::NotWaiting | Reason::Held => false,
        Reason::Scarce(_) => !could_start(state, job),
        Reason::DevicesBusy { needed, free }
        | Reason::NoPartner { needed, free }
        | Reason::NotWorthIt { needed, free } => {
            let is_alone = state.schedule().slots() == 1;
            *needed == gang.devices
                && free < needed
                && (!is_alone || (*free == state.schedule().free_count() && !could_start(state, job)))
        }
        Reason::Fragmented { needed, free } => {
            *needed == gang.devices && free >= needed && !could_start(state, job)
        }
        Reason::Behind { first, ahead } => is_waiting(*first) && *ahead > 0,
        Reason::HeadOfLine { head: other }
        | Reason::Reserved { holder: other }
        | Reason::Blocked { first: other, .. } => is_waiting(*other),
        Reason::DeadlineLost { deadline, earliest } => deadline < earliest,
        Reason::Share { first, used_h, least_h } => is_waiting(*first) && least_h < used_h,
        Reason::NextRound { at } => *at > world.now,
        Reason::Leased { until, ahead } => *until >= world.now && *ahead < state.counts().waiting,
        Reason::BetterLater { device_type } => state.topology().type_id(device_type).is_some(),
        Reason::NodesOut { needed, working } | Reason::PoolTooSmall { needed, working, .. } => {
            needed > working
        }
        // Those who are stopped at the limit begin again below half of it.
        Reason::Quota(quota) if quota.asked == 0.0 => quota.used > quota.limit / 2.0 - 1e-3,
        Reason::Quota(quota) => quota.used + quota.asked > quota.limit,
        Reason::QuotaBehind { first, ahead } => is_waiting(*first) && *ahead > 0,
        Reason::OverLimit(quota) => quota.asked > quota.limit,
        Reason::PoolRefuses { .. } => false,
        Reason::ReservationBegins { at, .. } => *at > world.now,
        Reason::ReservationRefuses { .. } | Reason::ReservationBusy { .. } => {
            gang.needs.as_ref().is_some_and(|needs| needs.reservation.is_some())
        }
        Reason::Kept { until, .. } => *until > world.now,
        Reason::Starving { holder } => is_waiting(*holder),
        Reason::Told { .. } => false,
    };
    if is_true { Ok(()) } else { Err(format!("{job} is said to wait because {reason}: {reason:?}")) }
}

/// Whether nothing but another document could ever let the job run.
fn is_final(reason: &Reason) -> bool {
    matches!(reason, Reason::OverLimit(_) | Reason::ReservationRefuses { .. })
}

fn simulate(limits: &Limits, jobs: &[JobSpec], policy: &wharf_policy::PolicyInfo) -> Result<(), String> {
    let cluster = ClusterSpec::uniform("gpu", 2, 8);
    let mut world = World::new(policy, &Settings::default(), &cluster, Some(limits));
    world.run(jobs, 20_000, |world| {
        check_limits(limits, world.state())?;
        check_windows(limits, world)?;
        world.reasons().try_for_each(|(job, reason)| check_reason(world, job, &reason))
    })?;
    let left: Vec<String> = world
        .reasons()
        .filter(|(_, reason)| !is_final(reason))
        .map(|(job, reason)| format!("{job} waits indefinitely: {reason}"))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_within_limits(jobs in trace_strategy(), limits in limits_strategy()) {
        for policy in policies() {
            let result = simulate(&limits, &jobs, policy);
            prop_assert_eq!(result, Ok(()), "{}", policy.name);
        }
    }
}
