//! Every policy on clusters that no trace has: device types that no node has, no nodes, nodes without devices, all nodes
//! lost. Nothing may panic, break a rule, or be left without a reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use wharf_core::{ClusterSpec, Command, Gang, JobId, JobSpec, Needs, NodeId, Phase, Request, audit};
use wharf_policy::Settings;
use wharf_policy::governor::Limits;

use crate::governed::world::World;

/// Most of the types are on some node of some cluster; one is on none.
const TYPES: [&str; 3] = ["v100", "a40", "tpu"];
const USERS: [&str; 2] = ["ann", "bob"];

#[derive(Clone, Debug)]
enum Step {
    Submit(Box<JobSpec>),
    Lose(u32),
    Return(u32),
    Cordon(u32),
    Open(u32),
    Join(u32, usize),
    Cancel(u32),
    Hold(u32),
    Release(u32),
    Requeue(u32),
    Priority(u32, i32),
    Wait(f64),
}

fn cluster() -> impl Strategy<Value = ClusterSpec> {
    let node = (0_usize..2, 0_u32..5, 0_usize..3, 0_u32..9);
    prop::collection::vec(node, 0..4).prop_map(|nodes| {
        let node = |(index, (kind, devices, pool, cpus)): (usize, (usize, u32, usize, u32))| {
            let mut spec = ClusterSpec::uniform(TYPES[kind], 1, devices).nodes.remove(0);
            spec.name = format!("n{index}").into();
            spec.pool = ["", "main", "paid"][pool].into();
            spec.cpus = cpus;
            spec
        };
        ClusterSpec::of(nodes.into_iter().enumerate().map(node).collect())
    })
}

fn job() -> impl Strategy<Value = JobSpec> {
    let gang = (1_u32..7, 0_u32..3, 0_u32..3, prop::collection::btree_set(0_usize..3, 0..3), 0_u32..4);
    let length = (0_u32..3, 0_u32..3);
    (gang, length, 0_usize..3, 0_usize..2, -1_i32..2).prop_map(
        |((devices, less, more, types, cpus), (iterations, speed), pool, user, priority)| {
            let mut spec = JobSpec::new(
                "job",
                wharf_core::Time::ZERO,
                devices,
                [0.0, 1.0, 5e4][iterations as usize],
                [0.0, 1.0, 100.0][speed as usize],
            );
            let named: BTreeSet<&str> = types.iter().map(|&kind| TYPES[kind]).collect();
            let needs = Needs {
                pool: (pool > 0).then(|| ["", "main", "nowhere"][pool].into()),
                request: Request::per_device(cpus, 0),
                ..Needs::default()
            };
            spec.gang = Gang {
                devices,
                devices_min: devices.saturating_sub(less).max(1),
                devices_max: devices + more,
                device_types: named.into_iter().map(Arc::from).collect(),
                needs: (needs != Needs::default()).then(|| Arc::new(needs)),
            };
            spec.user = Some(USERS[user].into());
            spec.priority = priority;
            spec
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => job().prop_map(|job| Step::Submit(Box::new(job))),
        2 => (0_u32..5).prop_map(Step::Lose),
        1 => (0_u32..5).prop_map(Step::Return),
        1 => (0_u32..5).prop_map(Step::Cordon),
        1 => (0_u32..5).prop_map(Step::Open),
        1 => (0_u32..5, 0_usize..2).prop_map(|(devices, kind)| Step::Join(devices, kind)),
        1 => (0_u32..20).prop_map(Step::Cancel),
        1 => (0_u32..20).prop_map(Step::Hold),
        1 => (0_u32..20).prop_map(Step::Release),
        1 => (0_u32..20).prop_map(Step::Requeue),
        1 => (0_u32..20, -2_i32..3).prop_map(|(job, priority)| Step::Priority(job, priority)),
        3 => (0.0..400.0).prop_map(Step::Wait),
    ]
}

fn command(step: Step) -> Option<Command> {
    Some(match step {
        Step::Submit(spec) => Command::SubmitJob(*spec),
        Step::Lose(node) => Command::LoseNode(NodeId(node)),
        Step::Return(node) => Command::ReturnNode(NodeId(node)),
        Step::Cordon(node) => Command::CordonNode(NodeId(node)),
        Step::Open(node) => Command::OpenNode(NodeId(node)),
        Step::Join(devices, kind) => {
            Command::AddNode(ClusterSpec::uniform(TYPES[kind], 1, devices).nodes.remove(0))
        }
        Step::Cancel(job) => Command::CancelJob(JobId(job)),
        Step::Hold(job) => Command::HoldJob(JobId(job)),
        Step::Release(job) => Command::ReleaseJob(JobId(job)),
        Step::Requeue(job) => Command::RequeueJob(JobId(job)),
        Step::Priority(job, priority) => Command::SetPriority { job: JobId(job), priority },
        Step::Wait(_) => return None,
    })
}

fn check(cluster: &ClusterSpec, steps: &[Step], limits: Option<&Limits>) -> Result<(), String> {
    for info in wharf_reproduce::policies() {
        let mut world = World::new(info, &Settings::default(), cluster, limits);
        for step in steps {
            if let Step::Wait(seconds) = step {
                world.wait(*seconds);
            } else if let Some(command) = command(step.clone()) {
                world.act(command);
            }
            let failed = |what: String| format!("{} after {step:?}: {what}", info.name);
            if let Some(violation) = world.engine.violations().first() {
                return Err(failed(violation.to_string()));
            }
            if let Some(violation) = audit::check_all(world.state()).first() {
                return Err(failed(violation.to_string()));
            }
            for (job, reason) in world.reasons() {
                if reason.to_string().is_empty() {
                    return Err(failed(format!("{job} has no reason")));
                }
            }
        }
        // A job on a type that no node has never runs, and reports this.
        let lost = world.state().jobs().find(|(job, spec, _)| {
            let types = &spec.gang.device_types;
            let is_nowhere = types.iter().all(|kind| &**kind == "tpu") && !types.is_empty();
            is_nowhere && world.state().job(*job).phase == Phase::Running
        });
        if let Some((job, ..)) = lost {
            return Err(format!("{}: {job} runs on a device type that no node has", info.name));
        }
    }
    Ok(())
}

/// The same clusters in every run; `WHARF_ODD_CLUSTERS` asks for more of them.
fn config() -> ProptestConfig {
    let cases = std::env::var("WHARF_ODD_CLUSTERS").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(64), rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn policies_survive_odd_clusters(cluster in cluster(), steps in prop::collection::vec(step(), 1..24)) {
        check(&cluster, &steps, None).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn policies_survive_odd_clusters_with_restricted_pools(
        cluster in cluster(),
        steps in prop::collection::vec(step(), 1..16),
        is_default in any::<bool>(),
    ) {
        let default = if is_default { "default_pool = \"main\"\n" } else { "" };
        let limits = Limits::parse(&format!("{default}[pool.main]\n[pool.paid]\nusers = [\"ann\"]\n"));
        check(&cluster, &steps, Some(&limits.expect("good limits"))).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn antman_device_whose_jobs_have_become_of_one_kind_is_full() {
    let cluster = ClusterSpec::uniform("v100", 1, 1);
    let submit = |priority: i32| {
        let job = JobSpec::new("job", wharf_core::Time::ZERO, 1, 1e6, 100.0);
        Step::Submit(Box::new(JobSpec { priority, ..job }))
    };
    let steps = [submit(0), submit(-1), Step::Priority(1, 0), submit(-1), Step::Wait(100.0)];
    check(&cluster, &steps, None).unwrap();
    // A waiting job changes its queue with its kind.
    let steps = [submit(0), submit(0), Step::Priority(1, -1), Step::Wait(100.0), Step::Cancel(0)];
    check(&cluster, &steps, None).unwrap();
}

#[test]
fn job_of_an_unknown_type_waits_when_all_devices_are_busy() {
    let cluster = ClusterSpec::uniform("v100", 1, 1);
    let busy = Step::Submit(Box::new(JobSpec::new("busy", wharf_core::Time::ZERO, 1, 1e6, 100.0)));
    let mut other = JobSpec::new("other", wharf_core::Time::ZERO, 1, 1.0, 1.0);
    other.gang.device_types = Arc::from([Arc::from("tpu")]);
    check(&cluster, &[busy, Step::Submit(Box::new(other)), Step::Wait(1000.0)], None).unwrap();
}
