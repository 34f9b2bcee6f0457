//! Lists of jobs in pages and steps, on a head with many jobs.

use std::ops::Range;
use std::path::Path;

use wharf_core::{ClusterSpec, JobId};
use wharf_proto::{ChangeJobsRequest, Gang, JobFilter, JobSpec, ListJobsRequest};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::query::listing::{DESCRIBED_MAX, EXAMINED_MAX, EXPLAINED_MAX, Page, to_explain};
use crate::query::views;

/// A head with 12,000 jobs, most of them elements of one array with a limit; every third job is cancelled.
fn crowded(folder: &Path) -> VirtualCluster {
    let mut world =
        VirtualCluster::new(&folder.join("journal.sqlite"), &ClusterSpec::default(), regime("fifo", 0));
    let spec = |user: &str, array: Range<u32>| JobSpec {
        user: user.to_owned(),
        name: "train".to_owned(),
        gang: Some(Gang { devices: 1, ..Gang::default() }),
        command: vec!["true".to_owned()],
        array_limit: if array.is_empty() { 0 } else { 5 },
        array: array.collect(),
        ..JobSpec::default()
    };
    world.submit(vec![spec("ann", 0..9000)]);
    let single = (0..3000).map(|index| spec(if index % 2 == 0 { "ann" } else { "bob" }, 0..0));
    world.submit(single.collect());
    let job_ids = (0..12_000).filter(|id| id % 3 == 0).collect();
    let cancel = ChangeJobsRequest { job_ids, elements_only: true, ..ChangeJobsRequest::default() };
    assert_eq!(world.change(cancel), []);
    world
}

/// The ids that a request finds, by definition.
fn expected(world: &VirtualCluster, request: &ListJobsRequest) -> Vec<u32> {
    let state = world.dispatcher.engine.state();
    let filter = request.filter.clone().unwrap_or_default();
    let is_wanted = |id: u32| {
        let (spec, life) = (state.spec(JobId(id)), state.job(JobId(id)));
        (request.job_ids.is_empty() || request.job_ids.contains(&id))
            && !((request.live_only || filter.live_only) && life.is_ended())
            && filter.user.as_deref().is_none_or(|user| spec.user.as_deref() == Some(user))
            && id >= request.from_id
    };
    (0..state.next_job().0).filter(|&id| is_wanted(id)).collect()
}

#[test]
fn pages_contain_each_matching_job_once_and_steps_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let world = crowded(folder.path());
    let bob = JobFilter { user: Some("bob".to_owned()), ..JobFilter::default() };
    let requests = [
        (ListJobsRequest::default(), 12_000, 12_000),
        (ListJobsRequest { live_only: true, ..Default::default() }, 8000, 8000),
        (ListJobsRequest { filter: Some(bob), ..Default::default() }, 12_000, 1500),
        (ListJobsRequest { job_ids: vec![7, 3, 7, 11_000, 50_000], ..Default::default() }, 4, 3),
        (ListJobsRequest { from_id: 11_000, live_only: true, ..Default::default() }, 1000, 667),
    ];
    for (request, examined_max, found) in requests {
        let all = expected(&world, &request);
        assert_eq!(all.len(), found, "{request:?}");
        for page_size in [0, 1000, 7000] {
            let (mut listed, mut from_id, mut examined) = (Vec::new(), request.from_id, 0);
            loop {
                let mut page = Page::new(ListJobsRequest { page_size, from_id, ..request.clone() });
                loop {
                    let (jobs, seen) = (page.jobs.len(), page.search.examined);
                    let is_complete = page.step(&world.dispatcher);
                    assert!(page.jobs.len() - jobs <= DESCRIBED_MAX);
                    assert!(page.search.examined - seen <= EXAMINED_MAX);
                    if is_complete {
                        break;
                    }
                }
                examined += page.search.examined;
                let (jobs, next) = (page.jobs, page.search.next_id());
                assert!(page_size == 0 || jobs.len() <= page_size as usize);
                listed.extend(jobs.iter().map(|job| job.job_id));
                match next {
                    Some(next) => from_id = next,
                    None => break,
                }
            }
            assert_eq!(listed, all, "{request:?} in pages of {page_size}");
            // No job is examined twice, however many pages there are.
            assert!(examined <= examined_max, "{examined} of {request:?} in pages of {page_size}");
        }
    }
}

#[test]
fn explanations_are_for_the_first_waiting_jobs_and_one_for_each_array() {
    let folder = tempfile::tempdir().unwrap();
    let world = crowded(folder.path());
    let mut page = Page::new(ListJobsRequest { live_only: true, ..Default::default() });
    while !page.step(&world.dispatcher) {}
    let jobs = page.jobs;
    let explained = |most: u32| -> Vec<u32> {
        to_explain(&jobs, most).into_iter().map(|index| jobs[index].job_id).collect()
    };
    // Five elements wait for devices, and the others for the limit of their array.
    assert_eq!(explained(4), [1, 8, 9001, 9002]);
    assert_eq!(explained(u32::MAX).len(), EXPLAINED_MAX);
    assert!(explained(0).is_empty());
}

#[test]
fn brief_details_have_no_history_and_the_spec_of_an_array_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = crowded(folder.path());
    let named = views::jobs_of(&world.dispatcher, &[9005, 0, 9005, 50_000]);
    assert_eq!(named.len(), 9001, "an array by its first job, and jobs once");
    assert_eq!(views::jobs_of(&world.dispatcher, &[7]), [7], "one element alone");
    let some: Vec<JobId> = [3, 4, 8999, 9005, 9006].map(JobId).to_vec();
    let details = views::details(&world.dispatcher, &some, true).unwrap();
    let whole = views::details(&world.dispatcher, &some, false).unwrap();
    assert_eq!(
        details.iter().map(|one| one.spec.is_some()).collect::<Vec<_>>(),
        [true, false, false, true, true]
    );
    for (brief, whole) in details.iter().zip(&whole) {
        assert_eq!(brief.summary, whole.summary);
        assert!(brief.history.is_empty() && !whole.history.is_empty());
        assert!(brief.spec.is_none() || brief.spec == whole.spec);
    }
}
