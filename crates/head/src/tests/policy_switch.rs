//! Another policy takes over while everything runs.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;
use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};

use super::decisions::{play, trace};
use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, regime};
use crate::dispatcher::Input;
use crate::dispatcher::request_error::with_cause;
use crate::journal::Journal;
use crate::policy::active_policy::PolicyChoice;

fn choose(world: &mut VirtualCluster, name: &str, settings: &[(&str, &str)]) -> Result<(), String> {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let choice = PolicyChoice { name: name.to_owned(), settings };
    let (reply, mut receiver) = oneshot::channel();
    world.step([Input::SetPolicy { choice, by: "ann".to_owned(), reply }]);
    receiver.try_recv().unwrap().map_err(|error| with_cause(&error))
}

/// The jobs that hold devices, with the placement that they are in.
fn placed(world: &VirtualCluster) -> BTreeMap<JobId, u32> {
    let jobs = world.dispatcher.engine.state().jobs();
    jobs.filter(|(_, _, life)| matches!(life.phase, Phase::Placed | Phase::Running))
        .map(|(job, _, life)| (job, life.generation))
        .collect()
}

#[test]
fn every_policy_takes_over_from_every_kind_and_nothing_is_lost() {
    // Each kind of policy hands over to each other kind: one job on a device, or several; by order, or by whole schedules.
    let turns = [
        "fifo", "srtf", "muri-s", "tiresias", "antman", "fifo", "muri-s", "themis", "antman", "srtf", "fifo",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (trace, cluster) = (trace(), ClusterSpec::uniform("v100", 4, 8));
    let mut world = VirtualCluster::new(&path, &cluster, regime("fifo", 0));
    let mut moments = 0;
    let mut switches = 0;
    play(&mut world, &trace, |world| {
        moments += 1;
        if moments % 25 == 0 {
            let before = placed(world);
            let name = turns[switches % turns.len()];
            switches += 1;
            choose(world, name, &[]).unwrap();
            // By its own order a new policy may preempt, but what it leaves alone runs on in the same placement.
            for (job, generation) in placed(world) {
                let life = world.dispatcher.engine.state().job(job);
                assert!(before.get(&job).is_none_or(|&was| was == generation || life.preemptions > 0));
            }
        }
    });
    assert!(switches > turns.len(), "{switches} switches");
    assert_eq!(world.dispatcher.engine.violations(), []);
    let state = world.dispatcher.engine.state().clone();
    assert!(state.jobs().all(|(_, _, life)| life.phase == Phase::Ended(JobEnd::Finished)));
    let kept = world.dispatcher.log.state.policy.clone();
    drop(world);
    let (journal, replayed) = Journal::open(&path, EPOCH_UNIX_S, f64::MAX).unwrap();
    assert_eq!(replayed.head_state.policy, kept);
    let all = journal.policies().unwrap();
    assert_eq!(all.len(), switches);
    assert!(all.iter().all(|(time_s, by, _)| *time_s > 0.0 && by == "ann"));
    for (job, _, life) in replayed.state.jobs() {
        assert_eq!(life, state.job(job));
    }
}

#[test]
fn switch_to_a_policy_without_preemption_keeps_running_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, cluster) = (trace(), ClusterSpec::uniform("v100", 4, 8));
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("srtf", 0));
    let mut moments = 0;
    let mut seen = BTreeSet::new();
    play(&mut world, &trace, |world| {
        moments += 1;
        if moments % 20 == 0 {
            // What shares devices continues sharing them under a policy that would not have it.
            for name in ["muri-s", "fifo"] {
                choose(world, name, &[]).unwrap();
                let before = placed(world);
                choose(world, "fifo", &[("backfill", "greedy")]).unwrap();
                let after = placed(world);
                assert!(before.iter().all(|(job, generation)| after.get(job) == Some(generation)));
                seen.extend(before.into_keys());
            }
        }
    });
    assert!(seen.len() > 50, "{} jobs", seen.len());
}

#[test]
fn unknown_policy_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    let mut world = VirtualCluster::new(&path, &cluster, regime("fifo", 0));
    assert!(choose(&mut world, "sfrt", &[]).unwrap_err().contains("sfrt"));
    assert_eq!(world.dispatcher.log.state.policy, None);
    choose(&mut world, "srtf", &[("preempt_ratio", "1.5")]).unwrap();
    let kept = world.dispatcher.log.state.policy.clone();
    let (state, now) = (world.dispatcher.engine.state().clone(), world.now());
    world.dispatcher.log.journal.snapshot(&state, &world.dispatcher.log.state, now).unwrap();
    drop(world);
    let (_, replayed) = Journal::open(&path, EPOCH_UNIX_S, 0.0).unwrap();
    assert_eq!(replayed.head_state.policy, kept, "a snapshot knows who decides");
}
