//! How a job is to divide its work: decided once for each placement, the same for all its tasks, and shown.

use wharf_core::{
    ClusterSpec, DeviceTypeId, JobId, JobSpec as CoreSpec, NodeShare, PerfModel, Plan, Regime, Topology,
};
use wharf_proto::{ChangeJobsRequest, Gang, JobSpec, Plan as WirePlan, change_jobs_request::Change};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::query::views;

/// Pipelines of so many stages, where the gang has as many devices or more.
struct Staged(u32);

impl PerfModel for Staged {
    fn iteration_s(&self, _: &Topology, _: &CoreSpec, _: &[NodeShare], _: &[&CoreSpec]) -> f64 {
        1.0
    }

    fn plan(&self, _: &Topology, _: &CoreSpec, _: DeviceTypeId, devices: u32) -> Option<Plan> {
        let stages = self.0;
        (devices >= stages).then(|| Plan { stages, data: devices / stages, tensor: 1 })
    }

    fn restart_s(&self, _: &CoreSpec) -> f64 {
        0.0
    }
}

fn staged(stages: u32) -> Regime {
    Regime { perf: Box::new(Staged(stages)), ..regime("fifo", 0) }
}

fn job(devices: u32, data_parallel: bool) -> JobSpec {
    JobSpec {
        name: "trainer".to_owned(),
        command: vec!["train".to_owned()],
        gang: Some(Gang { devices, ..Gang::default() }),
        data_parallel,
        ..JobSpec::default()
    }
}

fn wire(plan: Option<(u32, u32, u32)>) -> Option<WirePlan> {
    plan.map(|(stages, data, tensor)| WirePlan { stages, data, tensor })
}

#[test]
fn plan_comes_from_the_profile_else_data_parallelism_if_allowed() {
    // Devices, whether the job states that it is data parallel, and the plan.
    let cases = [
        (4, false, Some((2, 2, 1))),
        (4, true, Some((2, 2, 1))),
        (1, true, Some((1, 1, 1))),
        (1, false, None),
        // On two nodes.
        (8, false, Some((2, 4, 1))),
    ];
    for (devices, is_data_parallel, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let cluster = ClusterSpec::uniform("v100", 2, 4);
        let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, staged(2));
        world.submit(vec![job(devices, is_data_parallel)]);
        let case = format!("{devices} {is_data_parallel}");
        assert!(!world.launches.is_empty(), "{case}");
        assert!(world.launches.iter().all(|launch| launch.plan == wire(expected)), "{case}");
        let summary = views::summary(&world.dispatcher, JobId(0));
        assert_eq!((summary.plan, summary.device_type.as_str()), (wire(expected), "v100"), "{case}");
    }
}

#[test]
fn plan_stands_until_the_next_placement_also_through_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    let mut world = VirtualCluster::new(&journal, &cluster, staged(2));
    world.is_silent = true;
    world.submit(vec![job(4, false)]);
    assert_eq!(world.launches[0].plan, wire(Some((2, 2, 1))));
    drop(world);
    // The workers have not heard of it, and the profile says something else now.
    let mut world = VirtualCluster::after_restart(&journal, &cluster, staged(4), |_| Vec::new());
    assert_eq!(world.launches[0].plan, wire(Some((2, 2, 1))));
    let request = ChangeJobsRequest {
        change: Change::Requeue.into(),
        job_ids: vec![0],
        ..ChangeJobsRequest::default()
    };
    assert!(world.change(request).is_empty());
    assert_eq!(world.launches[1].plan, wire(Some((4, 1, 1))));
    let history = views::detail(&world.dispatcher, JobId(0)).unwrap().history;
    let planned: Vec<String> =
        history.into_iter().map(|entry| entry.what).filter(|text| text.contains("planned")).collect();
    let expected =
        ["[2,2,1]", "[4,1,1]"].map(|plan| format!(r#"{{"job_planned":{{"job":0,"plan":{plan}}}}}"#));
    assert_eq!(planned, expected);
}
