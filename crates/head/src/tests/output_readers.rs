//! Buffers for slow readers of a job's output.

use tokio::sync::mpsc::error::TryRecvError;
use wharf_core::{ClusterSpec, JobId};
use wharf_proto::{Gang, JobSpec, SendOutput, TaskOutput, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::tasks::output_readers::pipe;

const CHUNK: usize = 256 * 1024;

/// The output of the job: every byte can be distinguished from its neighbours.
fn output(offset: u64) -> Vec<u8> {
    (offset..offset + CHUNK as u64).map(|at| (at % 251) as u8).collect()
}

/// A worker sends one more piece of what it was asked for.
fn send(world: &mut VirtualCluster, wanted: &SendOutput, sent: u64) {
    let data = output(wanted.offset + sent);
    let told = TaskOutput { request: wanted.request, data, ..TaskOutput::default() };
    world.step([input((0, from_worker::Message::Output(told)))]);
}

#[test]
fn a_slow_reader_costs_a_window_and_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ClusterSpec::uniform("v100", 1, 1);
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0));
    let gang = Some(Gang { devices: 1, ..Gang::default() });
    world.submit(vec![JobSpec { command: vec!["train".to_owned()], gang, ..JobSpec::default() }]);
    let (end, mut receiver, flow) = pipe();
    world.step([Input::ReadOutput { job: JobId(0), rank: 0, generation: 0, follow: true, pipe: end }]);
    let first = world.outputs.pop().unwrap();
    assert_eq!((first.offset, first.follow, first.stop), (0, true, false));

    // The worker sends far more than the client has read.
    for piece in 0..40 {
        send(&mut world, &first, piece * CHUNK as u64);
    }
    let stop = world.outputs.pop().unwrap();
    assert_eq!(
        (stop.request, stop.stop, world.outputs.len()),
        (first.request, true, 0),
        "it is requested to stop, once"
    );

    // What waits is read: little more than the window, then the worker is asked for the rest.
    let mut read = Vec::new();
    let mut is_asked = 0;
    loop {
        match receiver.try_recv() {
            Ok(data) => {
                read.extend_from_slice(&data);
                is_asked += usize::from(flow.taken(data.len()));
            }
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => panic!("the stream has ended"),
        }
    }
    assert_eq!((read.len(), is_asked), (5 * CHUNK, 1), "a window and the piece that went beyond it");
    world.step([Input::ReadOn { flow: flow.clone() }]);
    let second = world.outputs.pop().unwrap();
    assert_eq!((second.offset, second.stop), (5 * CHUNK as u64, false), "from where it was");
    assert_ne!(
        second.request, first.request,
        "what is late of the first request is not taken for the second"
    );
    send(&mut world, &first, 40 * CHUNK as u64);
    send(&mut world, &second, 0);
    read.extend_from_slice(&receiver.try_recv().unwrap());
    assert!(receiver.try_recv().is_err());
    assert!(
        read.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8),
        "nothing is missing or there twice"
    );

    // A client that disconnects is forgotten, and the worker is informed.
    drop(receiver);
    send(&mut world, &second, CHUNK as u64);
    assert!(world.outputs.pop().unwrap().stop);
}
