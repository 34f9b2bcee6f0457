//! Every policy states why a job waits, and what it says is true.

use wharf_core::{
    Cadence, ClusterSpec, Command, Engine, JobId, JobSpec, Phase, Reason, Regime, StageTimes, State, Time,
};
use wharf_perf::{Costs, Model, Order};
use wharf_policy::{BuildArgs, PolicyInfo, Settings, Strategy};
use wharf_reproduce::policies;

/// An engine that has just decided about more jobs than two nodes of four devices can hold, and a gang of eight.
fn decided(info: &PolicyInfo) -> Engine {
    let settings = Settings::default();
    let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
    let policy = (info.build)(&args).expect("defaults");
    let costs = Costs {
        restart_s: 30.0,
        spread_slowdown: 0.0,
        switch_slowdown: 0.0,
        interleave_factors: [1.3, 1.5, 1.4],
    };
    let model = Box::new(Model::new(costs, info.sharing, Order::Best));
    let cluster = ClusterSpec::uniform("gpu", 2, 4);
    let mut engine = Engine::new(
        &cluster,
        Regime {
            policy,
            perf: model,
            cadence: Cadence::Events,
            slots: info.slots,
            access: wharf_core::Access::default(),
        },
    );
    for index in 0..40_u32 {
        let gang = [1, 2, 4, 1, 8, 1][index as usize % 6];
        let mut job = JobSpec::new("j", Time::ZERO, gang, 10_000.0 + f64::from(index * 100), 100.0);
        job.priority = if index % 3 == 0 { -1 } else { 0 };
        job.user = Some(["ann", "bob"][index as usize / 6 % 2].into());
        job.stages =
            (index % 2 == 0).then_some(StageTimes { data_ms: 1.0, compute_ms: 98.0, network_ms: 1.0 });
        engine.handle(Time::ZERO, Command::SubmitJob(job), &mut ()).expect("accepted");
    }
    engine.settle(Time::ZERO, &mut ());
    engine
}

fn is_true(state: &State, job: JobId, reason: &Reason) -> bool {
    let gang = state.spec(job).gang.devices;
    let is_waiting = |other: JobId| other != job && state.job(other).phase == Phase::Waiting;
    match *reason {
        Reason::NotWaiting | Reason::Held | Reason::NodesOut { .. } => false,
        // There are no limits here.
        Reason::Quota(_)
        | Reason::QuotaBehind { .. }
        | Reason::OverLimit(_)
        | Reason::PoolRefuses { .. }
        | Reason::PoolTooSmall { .. }
        | Reason::ReservationBegins { .. }
        | Reason::ReservationRefuses { .. }
        | Reason::ReservationBusy { .. }
        | Reason::Kept { .. }
        | Reason::Starving { .. }
        | Reason::Scarce(_)
        | Reason::Told { .. } => false,
        Reason::DevicesBusy { needed, free }
        | Reason::NoPartner { needed, free }
        | Reason::NotWorthIt { needed, free } => needed == gang && free < needed,
        Reason::Fragmented { needed, free } => needed == gang && free >= needed,
        Reason::Behind { first, ahead } => {
            is_waiting(first) && ahead > 0 && state.spec(first).gang.devices == gang
        }
        Reason::HeadOfLine { head: other }
        | Reason::Reserved { holder: other }
        | Reason::Blocked { first: other, .. } => is_waiting(other),
        Reason::DeadlineLost { deadline, earliest } => deadline < earliest,
        Reason::Share { first, used_h, least_h } => {
            is_waiting(first) && state.spec(first).gang.devices == gang && least_h <= used_h
        }
        Reason::NextRound { at } => at > Time::ZERO,
        Reason::BetterLater { ref device_type } => state.topology().type_id(device_type).is_some(),
        Reason::Leased { until, ahead } => until > Time::ZERO && ahead < state.counts().waiting,
    }
}

#[test]
fn every_waiting_job_has_a_true_reason() {
    for info in policies() {
        let engine = decided(info);
        assert!(engine.violations().is_empty(), "{}: {:?}", info.name, engine.violations());
        let state = engine.state();
        let waiting: Vec<JobId> =
            state.jobs().filter(|(.., life)| life.phase == Phase::Waiting).map(|(job, ..)| job).collect();
        assert!(!waiting.is_empty(), "{}", info.name);
        for job in waiting {
            let reason = engine.explain(Time::ZERO, job);
            assert!(is_true(state, job, &reason), "{}: {job} waits: {reason}", info.name);
        }
    }
}
