//! A gang as large as the cluster starts within the stated bound, whatever stream of small jobs it meets.

use wharf_core::{ClusterSpec, JobId, JobSpec, Phase, Reason, Time};
use wharf_policy::Settings;
use wharf_policy::governor::Limits;

use crate::governed::world::{RESTART_S, World};

const STARVATION_S: f64 = 3600.0;
const SMALL_S: f64 = 900.0;

/// One job for every device that becomes free, and more; the gang comes after the first of them.
fn stream() -> (Vec<JobSpec>, JobId) {
    let mut jobs = Vec::new();
    let mut at_s = 0.0;
    while at_s < 20_000.0 {
        let mut job = JobSpec::new("small", Time::from_seconds(at_s), 1, SMALL_S, 1000.0);
        job.user = Some("many".into());
        jobs.push(job);
        at_s += 12.0;
    }
    let at = jobs.partition_point(|job| job.submit.seconds() <= 1500.0);
    let mut gang = JobSpec::new("gang", Time::from_seconds(1500.0), 64, 7200.0, 1000.0);
    gang.user = Some("one".into());
    jobs.insert(at, gang);
    (jobs, JobId::from_index(at))
}

fn first_start(policy: &str, settings: &[&str], limits: &Limits) -> Option<f64> {
    let (jobs, gang) = stream();
    let info = wharf_reproduce::find(policy).expect("registered");
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let mut world = World::new(info, &settings, &ClusterSpec::uniform("gpu", 8, 8), Some(limits));
    let (mut kept_for_it, mut stops) = (0, 0);
    world
        .run(&jobs, 40_000, |world| {
            let state = world.state();
            if gang >= state.next_job() {
                return Ok(());
            }
            let starving = |(_, reason): &(JobId, Reason)| *reason == Reason::Starving { holder: gang };
            if state.job(gang).phase == Phase::Waiting && world.now.seconds() > 1500.0 + STARVATION_S {
                // Checked now and then, because it checks every waiting job.
                kept_for_it +=
                    u32::from(world.now.seconds() % 7.0 < 1.0 && world.reasons().any(|one| starving(&one)));
            }
            stops = state.job(gang).preemptions;
            Ok(())
        })
        .expect("no rule is broken");
    let life = world.state().job(gang);
    assert!(life.is_ended(), "{policy}: everything ends at last");
    if limits.starvation_s.is_some()
        && life.first_start.is_some_and(|at| at.seconds() > 1500.0 + STARVATION_S)
    {
        assert!(kept_for_it > 0, "{policy}: reasons of others name the devices kept for the gang");
        assert_eq!(stops, 0, "{policy}: what it has waited for so long is not taken away again");
    }
    life.first_start.map(Time::seconds)
}

#[test]
fn a_large_gang_starts_within_the_stated_bound() {
    let guarded = Limits { starvation_s: Some(STARVATION_S), ..Limits::default() };
    // Small jobs that start at the last moment still run to their ends.
    let bound_s = 1500.0 + STARVATION_S + SMALL_S + RESTART_S;
    for (policy, settings) in
        [("fifo", &["backfill=greedy"][..]), ("srtf", &[]), ("tiresias", &[]), ("las", &[]), ("themis", &[])]
    {
        let start_s = first_start(policy, settings, &guarded).expect("it ran");
        assert!(start_s <= bound_s, "{policy}: {start_s} s, but the bound is {bound_s} s");
    }
    let unbounded = first_start("fifo", &["backfill=greedy"], &Limits::default()).expect("it ran");
    assert!(unbounded > bound_s, "without the bound it starts only when the stream is over: {unbounded} s");
}
