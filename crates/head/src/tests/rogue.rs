//! A worker that reports about another node.

use wharf_core::{ClusterSpec, JobId, Phase};
use wharf_proto::{Gang, JobSpec, TaskEnded, TaskId, TaskOutput, TaskProgress, TaskStarted, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::tasks::output_readers;

const TASK: TaskId = TaskId { job_id: 0, generation: 1 };

#[test]
fn worker_messages_about_tasks_of_another_node_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&path, &ClusterSpec::uniform("v100", 2, 1), regime("fifo", 0));
    world.is_silent = true;
    let spec = JobSpec {
        name: "victim".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 1, ..Gang::default() }),
        ..JobSpec::default()
    };
    world.submit(vec![spec]);
    let own = world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[0].share.node.0;
    let (own, rogue) = (u64::from(own), 1 - u64::from(own));
    let (pipe, mut output, _flow) = output_readers::pipe();
    world.step([Input::ReadOutput { job: JobId(0), rank: 0, generation: 0, follow: true, pipe }]);
    let request = world.outputs[0].request;
    let ended = |is_blameless, interrupted| {
        from_worker::Message::Ended(TaskEnded {
            task: Some(TASK),
            exit_code: 3,
            error: "forged".to_owned(),
            is_blameless,
            interrupted,
            by_itself: true,
            ..TaskEnded::default()
        })
    };
    let told =
        TaskProgress { task: Some(TASK), iterations: 1e9, checkpointed: 1e9, ..TaskProgress::default() };
    let data = b"forged".to_vec();
    let messages = [
        from_worker::Message::Started(TaskStarted { task: Some(TASK) }),
        from_worker::Message::Progress(told.clone()),
        from_worker::Message::Output(TaskOutput { request, data: data.clone(), end: true }),
        ended(false, false),
        ended(true, false),
        ended(false, true),
    ];
    for message in messages {
        world.step([input((rogue, message))]);
    }
    assert_eq!(world.phase(0), Phase::Placed, "its own node has not started it");
    assert!(world.dispatcher.tasks.progress(JobId(0)).is_none());
    assert!(world.dispatcher.log.state.reasons.is_empty());
    assert!(output.try_recv().is_err(), "nothing was read, and the reader still waits");
    world.step([
        input((own, from_worker::Message::Started(TaskStarted { task: Some(TASK) }))),
        input((own, from_worker::Message::Progress(TaskProgress { iterations: f64::NAN, ..told }))),
        input((own, from_worker::Message::Output(TaskOutput { request, data, end: false }))),
    ]);
    assert_eq!(world.phase(0), Phase::Running);
    assert!(world.dispatcher.tasks.progress(JobId(0)).is_none(), "no amount");
    assert_eq!(output.try_recv(), Ok(b"forged".to_vec()));
}
