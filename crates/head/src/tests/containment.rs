//! Panics while inputs and decisions are handled: the head continues, and nothing else is lost.

use tokio::sync::oneshot;
use wharf_core::{ClusterSpec, JobId, Phase};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, Gang, JobSpec};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::dispatcher::Input;
use crate::dispatcher::fault_points::{arm, left};
use crate::policy::active_policy::PolicyChoice;

fn job(devices: u32) -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn start(folder: &tempfile::TempDir) -> VirtualCluster {
    let path = folder.path().join("journal.sqlite");
    VirtualCluster::new(&path, &ClusterSpec::uniform("v100", 2, 4), regime("fifo", 0))
}

fn set_policy(world: &mut VirtualCluster, name: &str) {
    let (reply, mut done) = oneshot::channel();
    let choice = PolicyChoice { name: name.to_owned(), ..PolicyChoice::default() };
    world.step([Input::SetPolicy { choice, by: "admin".to_owned(), reply }]);
    done.try_recv().unwrap().unwrap();
}

fn policy(world: &VirtualCluster) -> String {
    world.dispatcher.log.state.policy.clone().unwrap().name
}

#[test]
fn submit_that_panics_is_refused_with_an_incident_and_the_rest_of_the_batch_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    world.submit(vec![job(4), job(4), job(4)]);
    arm("submit", 1);
    let (reply_cancel, mut cancelled) = oneshot::channel();
    let (reply_bad, mut bad) = oneshot::channel();
    let (reply_good, mut good) = oneshot::channel();
    let request =
        ChangeJobsRequest { job_ids: vec![2], change: Change::Cancel.into(), ..ChangeJobsRequest::default() };
    world.step([
        Input::Change { request, is_user: false, by: String::new(), reply: reply_cancel },
        Input::Submit { specs: vec![job(1)], key: None, reply: reply_bad },
        Input::Submit { specs: vec![job(1)], key: None, reply: reply_good },
    ]);
    assert_eq!(cancelled.try_recv().unwrap(), [], "it came before");
    let refused = bad.try_recv().unwrap().unwrap_err().to_string();
    let id = refused.strip_prefix("internal error, incident ").unwrap().split(':').next().unwrap();
    assert!(world.has_warned(&format!("incident {id}: the head panicked: fault point `submit`")));
    assert_eq!(good.try_recv().unwrap(), Ok(vec![3]));
    assert!(matches!(world.phase(2), Phase::Ended(_)));
    world.reconnect();
    assert_eq!([world.phase(0), world.phase(1)], [Phase::Running; 2], "{:?}", world.warnings);
    assert_eq!(world.stops, [], "nothing was disturbed");
    let ends = [world.exit(JobId(0), 0), world.exit(JobId(1), 0)].concat_inputs();
    world.step(ends);
    assert_eq!(world.phase(3), Phase::Running);
}

/// Inputs of several sources, in order.
trait ConcatInputs {
    fn concat_inputs(self) -> Vec<Input>;
}

impl<const N: usize> ConcatInputs for [Vec<Input>; N] {
    fn concat_inputs(self) -> Vec<Input> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn question_that_panics_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    world.submit(vec![job(4)]);
    world.step([Input::Ask(Box::new(|_| panic!("a view")))]);
    assert!(world.has_warned("a view"));
    assert_eq!(world.dispatcher.nodes.connections.connected().count(), 2, "workers stay connected");
    assert_eq!(world.submit(vec![job(4)]), [1]);
}

#[test]
fn policy_that_panics_twice_on_the_same_state_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    set_policy(&mut world, "srtf");
    arm("schedule", 1);
    assert_eq!(world.submit(vec![job(4)]), [0], "the request is not the policy's fault");
    world.step([]);
    world.reconnect();
    assert_eq!((policy(&world).as_str(), world.phase(0)), ("srtf", Phase::Running), "once is forgiven");
    arm("schedule", 2);
    assert_eq!(world.submit(vec![job(4)]), [1]);
    world.step([]);
    assert_eq!((left("schedule"), policy(&world).as_str()), (0, "fifo"));
    assert!(world.has_warned("policy `srtf` panicked and is replaced by `fifo`"));
    world.step([]);
    world.reconnect();
    assert_eq!([world.phase(0), world.phase(1)], [Phase::Running; 2]);
    assert_eq!(world.stops, []);
}

#[test]
fn policy_that_panics_while_the_state_is_rebuilt_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    set_policy(&mut world, "srtf");
    world.submit(vec![job(4)]);
    arm("submit", 1);
    arm("observe", 2);
    // The first panic is the request's own: the policy observes its job.
    assert!(world.try_submit(vec![job(1)]).is_err());
    assert_eq!((left("observe"), policy(&world).as_str()), (0, "fifo"));
    arm("submit", 0);
    world.reconnect();
    assert_eq!(world.phase(0), Phase::Running);
    assert_eq!(world.submit(vec![job(1)]), [1]);
}

#[test]
fn panics_of_timers_do_not_end_the_head() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    world.submit(vec![job(4)]);
    for place in ["expire", "publish", "snapshot"] {
        arm(place, 1);
        if place == "snapshot" {
            world.dispatcher.log.journal.make_snapshot_due();
        }
        let ids = world.try_submit(vec![job(1)]);
        assert!(ids.is_ok(), "{place}: {ids:?}");
        assert_eq!(left(place), 0, "{place}");
        assert!(world.has_warned(&format!("fault point `{place}`")));
        world.reconnect();
        assert_eq!(world.phase(0), Phase::Running, "{place}");
    }
    assert_eq!(world.stops, []);
}

#[test]
fn worker_whose_messages_panic_is_rejected_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder);
    world.submit(vec![job(4)]);
    arm("attach", 1);
    let register = wharf_proto::Register {
        node: "poison".to_owned(),
        device_type: "v100".to_owned(),
        devices: 1,
        ..wharf_proto::Register::default()
    };
    world.attach(register.clone());
    assert!(world.has_warned("a message of node poison caused incident"));
    world.reconnect();
    let is_known =
        |world: &VirtualCluster| crate::query::views::node_named(&world.dispatcher, "poison").is_some();
    assert!(!is_known(&world) && world.phase(0) == Phase::Running);
    world.set_time(world.now().plus(2.0));
    world.attach(register);
    assert!(is_known(&world), "it may try again");
}
