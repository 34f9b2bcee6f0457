//! Limits of a head: kept through its death, told when a job is refused, and no trouble to what runs.

use tokio::sync::oneshot;
use wharf_core::{ClusterSpec, JobId, Phase, Time};
use wharf_proto::{Gang, JobSpec, TaskEnded, TaskId, TaskState, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::dispatcher::request_error::with_cause;
use crate::policy::active_policy::PolicyChoice;

const LIMITS: &str = "[user.ann]\ndevices = 2\n\n[pool.small]\ntime_limit_default = \"1h\"\ngang_max = 1\n";

fn apply(world: &mut VirtualCluster, text: &str) -> Result<(), String> {
    let choice = PolicyChoice { name: "fifo".to_owned(), ..PolicyChoice::default() };
    world.dispatcher.note_policy(choice, "root");
    let (reply, mut receiver) = oneshot::channel();
    world.step([Input::SetLimits { text: text.to_owned(), by: "root".to_owned(), reply }]);
    receiver.try_recv().unwrap().map_err(|error| with_cause(&error))
}

fn submit(world: &mut VirtualCluster, spec: JobSpec) -> Result<Vec<u32>, String> {
    let (reply, mut receiver) = oneshot::channel();
    world.step([Input::Submit { specs: vec![spec], key: None, reply }]);
    receiver.try_recv().unwrap().map_err(|error| with_cause(&error))
}

fn job(devices: u32) -> JobSpec {
    JobSpec {
        name: "train".to_owned(),
        user: "ann".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn running(world: &VirtualCluster) -> Vec<u32> {
    let jobs = world.dispatcher.engine.state().jobs();
    jobs.filter(|(.., life)| life.phase == Phase::Running).map(|(job, ..)| job.0).collect()
}

fn reason(world: &VirtualCluster, job: u32) -> String {
    world.dispatcher.engine.explain(world.now(), JobId(job)).to_string()
}

#[test]
fn limits_hold_through_a_restart_from_its_first_decision_on() {
    for is_in_snapshot in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let cluster = ClusterSpec::uniform("v100", 1, 8);
        let mut world = VirtualCluster::new(&path, &cluster, regime("fifo", 0));
        apply(&mut world, LIMITS).unwrap();
        for _ in 0..4 {
            submit(&mut world, job(1)).unwrap();
        }
        assert_eq!(running(&world), [0, 1]);
        assert_eq!(
            reason(&world, 2),
            "user ann may have 2 devices: 2 are used or promised, and it asks for 1"
        );
        let reply = world.dispatcher.limits("ann");
        assert_eq!((reply.by.as_str(), reply.uses.len()), ("root", 1));
        assert_eq!((reply.uses[0].limit, reply.uses[0].used, reply.uses[0].waiting), (2.0, 2.0, 2));
        if is_in_snapshot {
            let (dispatcher, now) = (&mut world.dispatcher, Time::ZERO);
            dispatcher.log.journal.snapshot(dispatcher.engine.state(), &dispatcher.log.state, now).unwrap();
        }
        drop(world);

        let tasks = |_| {
            let task =
                |job_id| TaskState { task: Some(TaskId { job_id, generation: 1 }), ..TaskState::default() };
            vec![task(0), task(1)]
        };
        let mut world = VirtualCluster::after_restart(&path, &cluster, regime("fifo", 0), tasks);
        assert_eq!(running(&world), [0, 1]);
        submit(&mut world, job(1)).unwrap();
        assert_eq!(running(&world), [0, 1]);
        let task = Some(TaskId { job_id: 0, generation: 1 });
        let ended = TaskEnded { task, by_itself: true, ..TaskEnded::default() };
        world.step([input((0, from_worker::Message::Ended(ended)))]);
        assert_eq!(running(&world), [1, 2], "what ends makes room for one more");
    }
}

#[test]
fn jobs_are_refused_or_filled_in_when_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ClusterSpec::uniform("v100", 1, 8);
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0));
    submit(&mut world, job(4)).unwrap();
    assert!(
        apply(&mut world, "[user.ann]\ndevces = 2")
            .unwrap_err()
            .starts_with("line 2, column 1: unknown field")
    );
    apply(&mut world, LIMITS).unwrap();
    assert_eq!(running(&world), [0], "what runs continues, though it is more than the limit");
    let refused = [
        (job(3), "job `train` is refused: it asks for 3 devices, and user ann may have 2"),
        (
            JobSpec { pool: "small".to_owned(), ..job(2) },
            "a gang of 2 devices is more than pool small allows",
        ),
        (JobSpec { reservation: "party".to_owned(), ..job(1) }, "reservation party does not exist"),
    ];
    for (spec, expected) in refused {
        let error = submit(&mut world, spec).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let ids = submit(&mut world, JobSpec { pool: "small".to_owned(), ..job(1) }).unwrap();
    let spec = world.dispatcher.jobs.spec(ids[0]).unwrap();
    assert_eq!(spec.time_limit_s, 3600.0);
    assert!(reason(&world, ids[0]).contains("4 are used or promised"));
}

#[test]
fn a_maintenance_window_empties_its_nodes_in_time_and_gives_them_back() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ClusterSpec::uniform("v100", 2, 4);
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0));
    let window = "[[reservation]]\nname = \"disks\"\nnodes = [\"v100-0\"]\nstart = \"+2h\"\nend = \"+3h\"\n";
    apply(&mut world, window).unwrap();
    submit(&mut world, job(4)).unwrap();
    submit(&mut world, job(4)).unwrap();
    assert_eq!(running(&world), [0, 1]);
    submit(&mut world, job(1)).unwrap();
    let at = |world: &mut VirtualCluster, seconds: f64| {
        world.set_time(Time::from_seconds(seconds));
        world.step([]);
    };
    at(&mut world, 3601.0);
    assert_eq!(running(&world), [0, 1], "no job is preempted before the window");
    at(&mut world, 7201.0);
    assert_eq!(running(&world), [1], "it begins with an empty node");
    assert!(reason(&world, 0).starts_with("devices that it could use are kept for reservation disks"));
    at(&mut world, 10_801.0);
    assert_eq!(running(&world), [0, 1], "and ends with the node in use");
}
