//! Journals that earlier versions wrote: later ones must read them. The text beside each journal lists its jobs as
//! that version printed them.

use std::fs;
use std::path::Path;

use wharf_core::{ClusterSpec, JobId, Phase};
use wharf_proto::{JobSpec, ListJobsRequest};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::query::listing::Page;
use crate::query::views;

/// Name, and whether its last jobs were submitted after the list was printed.
const JOURNALS: [(&str, usize); 5] =
    [("small", 0), ("mixed", 0), ("arrays", 0), ("dependencies", 1), ("limits", 0)];

fn word(phase: Phase) -> &'static str {
    use wharf_core::JobEnd::{Cancelled, Failed, Finished, Rejected, TimedOut};
    match phase {
        Phase::Waiting => "waiting",
        Phase::Held => "held",
        Phase::Placed => "placed",
        Phase::Running => "running",
        Phase::Stopping => "stopping",
        Phase::Ended(Finished) => "finished",
        Phase::Ended(Failed { .. }) => "failed",
        Phase::Ended(Cancelled) => "cancelled",
        Phase::Ended(TimedOut) => "timed-out",
        Phase::Ended(Rejected) => "rejected",
    }
}

#[test]
fn journals_of_earlier_versions_are_read() {
    for (name, unlisted) in JOURNALS {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal.sqlite");
        fs::copy(recorded.join(format!("{name}.sqlite")), &journal).unwrap();
        let expected = fs::read_to_string(recorded.join(format!("{name}.txt"))).unwrap();

        let mut world = VirtualCluster::new(&journal, &ClusterSpec::default(), regime("fifo", 0));
        let state = world.dispatcher.engine.state();
        let line = |job: JobId| {
            let spec = state.spec(job);
            format!("{} {} {} {}\n", job.0, spec.name, word(state.job(job).phase), spec.priority)
        };
        let listed = state.jobs().count() - unlisted;
        let found: String = (0..listed).map(|index| line(JobId::from_index(index))).collect();
        assert_eq!(found, expected, "{name}");

        let mut page = Page::new(ListJobsRequest::default());
        // Every view of every job can be computed, and jobs can be submitted.
        while !page.step(&world.dispatcher) {}
        assert_eq!(page.jobs.len(), world.dispatcher.engine.state().jobs().count(), "{name}");
        let jobs: Vec<JobId> = world.dispatcher.engine.state().jobs().map(|(job, ..)| job).collect();
        for &job in &jobs {
            views::explain(&world.dispatcher, job);
            views::detail(&world.dispatcher, job).unwrap();
        }
        let command = vec!["true".to_owned()];
        let ids = world.submit(vec![JobSpec { command, ..JobSpec::default() }]);
        assert_eq!(ids, [jobs.len() as u32], "{name}");
    }
}
