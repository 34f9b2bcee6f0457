//! Records that cannot be replayed: the head starts, names them, and loses nothing else.

use std::path::Path;

use wharf_core::{ClusterSpec, JobId, Phase, Time};
use wharf_proto::{Gang, JobSpec};

use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, regime};
use crate::journal::Journal;
use crate::journal::record::Record;

fn start(path: &Path) -> VirtualCluster {
    VirtualCluster::new(path, &ClusterSpec::uniform("v100", 2, 4), regime("fifo", 0))
}

fn job() -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 8, nodes: 2, ..Gang::default() }),
        held: true,
        ..JobSpec::default()
    }
}

fn write(path: &Path, records: Vec<Record>) {
    let (mut journal, replayed) = Journal::open(path, EPOCH_UNIX_S, f64::MAX).unwrap();
    records.into_iter().for_each(|record| journal.note(replayed.last, record));
    journal.commit().unwrap();
}

#[test]
fn journal_with_poisoned_records_starts_and_names_them() {
    let poisons: [(&str, Vec<Record>); 3] = [
        (
            "a placement of an unknown job",
            vec![Record::JobPlaced { job: 999, generation: 1, shares: vec![(0, vec![0])] }],
        ),
        ("an unknown node", vec![Record::NodeLost { node: 77 }, Record::HoldLifted { job: 0 }]),
        (
            "a device beyond the largest node, and what depends on it",
            vec![
                Record::JobReleased { job: 1 },
                Record::JobPlaced { job: 1, generation: 1, shares: vec![(0, vec![200])] },
                Record::JobLaunched { job: 1, ready: 1.0, iteration_s: 1.0 },
            ],
        ),
    ];
    for (what, records) in poisons {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let mut world = start(&path);
        world.submit(vec![job(), job(), job()]);
        drop(world);
        write(&path, records);
        let mut world = start(&path);
        assert!(world.has_warned("cannot be replayed, which is left out: record"), "{what}");
        assert_eq!(world.submit(vec![job()]), [3], "{what}");
        drop(world);
        let world = start(&path);
        let state = world.dispatcher.engine.state();
        assert_eq!(state.jobs().count(), 4, "{what}");
        assert!((0..4).all(|id| !matches!(state.job(JobId(id)).phase, Phase::Ended(_))), "{what}");
        assert!(state.schedule().placement(JobId(1)).is_none_or(|shares| shares.len() == 2), "{what}");
    }
}

#[test]
fn journal_with_a_poisoned_submission_keeps_the_ids_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let mut world = start(&path);
    world.submit(vec![job()]);
    let spec = world.dispatcher.engine.state().spec(JobId(0)).clone();
    drop(world);
    let spec = Box::new(crate::journal::spec_record::SpecRecord::of(&wharf_core::JobSpec {
        submit: Time::from_seconds(1.0),
        ..spec
    }));
    // An array whose last element comes before its first one claims an id and is no array.
    write(
        &path,
        vec![
            Record::ArraySubmitted { job: 1, spec: spec.clone(), indexes: vec![(9, 2)] },
            Record::JobHeld { job: 1 },
            Record::JobSubmitted { job: 2, spec },
        ],
    );
    let mut world = start(&path);
    assert!(world.has_warned("cannot be replayed"), "{:?}", world.warnings);
    assert_eq!(world.submit(vec![job()]), [3]);
    let state = world.dispatcher.engine.state();
    assert!(state.has_job(JobId(2)) && !state.has_job(JobId(1)));
}
