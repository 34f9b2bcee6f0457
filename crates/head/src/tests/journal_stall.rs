//! A journal that cannot grow: nothing is acknowledged that is not durable, and the head continues by itself.

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};
use wharf_proto::{Gang, JobSpec};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::dispatcher::Input;

fn job() -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        command: vec!["true".to_owned(), "x".repeat(3000)],
        gang: Some(Gang { devices: 1, ..Gang::default() }),
        ..JobSpec::default()
    }
}

#[test]
fn full_disk_refuses_submissions_serves_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 1, 2);
    let mut world = VirtualCluster::new(&path, &cluster, regime("fifo", 0));
    world.submit(vec![job()]);
    world.dispatcher.log.journal.set_full(true);
    let mut last = 0;
    let refused = loop {
        match world.try_submit(vec![job()]) {
            Ok(ids) => last = ids[0],
            Err(reason) => break reason,
        }
    };
    assert!(
        refused.contains("cannot write its journal") && refused.contains("hint: free space"),
        "{refused}"
    );
    assert!(world.has_warned("cannot write its journal"));
    // It serves, and what runs continues.
    world.reconnect();
    assert_eq!(world.dispatcher.nodes.connections.connected().count(), 1);
    let (sender, answer) = std::sync::mpsc::channel();
    world.step([Input::Ask(Box::new(move |head| {
        sender.send(head.engine.state().jobs().count()).unwrap();
    }))]);
    assert_eq!(answer.try_recv(), Ok(last as usize + 1), "what was acknowledged, and nothing else");
    assert_eq!(world.phase(0), Phase::Running);
    assert!(world.try_submit(vec![job()]).is_err());
    let (pipe, _output, _flow) = crate::tasks::output_readers::pipe();
    world.step([Input::ReadOutput { job: JobId(0), rank: 0, generation: 0, follow: true, pipe }]);
    assert_eq!(world.outputs.len(), 1, "output can be read");
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    assert_eq!(world.phase(0), Phase::Running, "its end is not durable");
    // A head that is killed and started now comes back as it was.
    world.dispatcher.log.journal.set_full(false);
    world.set_time(world.now().plus(2.0));
    world.step([]);
    assert!(world.has_warned("can write its journal again"));
    world.adopt(JobId(0), 1, vec![1]);
    world.reconnect();
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Finished));
    assert_eq!(world.submit(vec![job()]), [last + 1], "no id is lost or given twice");
}
