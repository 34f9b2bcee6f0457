//! Histories and exports as messages: they contain what the journal has.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use wharf_core::{ClusterSpec, JobId, NodeId, Scope, State};
use wharf_job::event_json;
use wharf_proto::prost::Message as _;
use wharf_proto::{Exported, HistoryEntry, JobDetail};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::journal::record::Record;
use crate::journal::{HeadState, JobImageRecord, wire};
use crate::query::live::{self, Live};
use crate::query::views;

/// A record of each kind that histories contain, with all its fields, and without the optional ones.
const RECORDS: [&str; 40] = [
    r#"{"job_submitted":{"job":3,"spec":{"name":"a","submit_s":1.5,"devices":1,"devices_min":1,"devices_max":1,"iterations":10.0,"iteration_ms":100.0,"priority":0}}}"#,
    r#"{"job_submitted":{"job":3,"spec":{"name":"b","user":"ann","submit_s":1.5,"devices":4,"devices_min":2,"devices_max":8,"device_types":["a40","v100"],"iterations":1e12,"iteration_ms":0.1,"duration_s":7.0,"model":"gpt","batch_size":64,"priority":-5,"weight":2.5,"deadline_s":900.0,"needs":{"nodes":2,"pool":"big","node":"n1","names":["n1","n2"],"reservation":"r","cpus":8,"memory_mib":1024},"array_index":0,"stages_ms":[1.0,2.0,0.0]}}}"#,
    r#"{"job_submitted":{"job":0,"spec":{"name":"","submit_s":0.0,"devices":0,"devices_min":0,"devices_max":0,"iterations":0.0,"iteration_ms":0.0,"priority":0,"needs":{"cpus":0,"memory_mib":0}}}}"#,
    r#"{"array_submitted":{"job":4,"spec":{"name":"a","submit_s":1.5,"devices":1,"devices_min":1,"devices_max":1,"iterations":10.0,"iteration_ms":100.0,"priority":0},"indexes":[[0,3],[7,7]]}}"#,
    r#"{"job_placed":{"job":3,"generation":2,"shares":[[0,[0,3]],[17,[]]]}}"#,
    r#"{"job_placed":{"job":3,"generation":0,"shares":[]}}"#,
    r#"{"job_launched":{"job":3,"ready":3.25,"iteration_s":0.1}}"#,
    r#"{"job_rated":{"job":3,"iteration_s":0.2}}"#,
    r#"{"job_saved":{"job":3,"done":100.0}}"#,
    r#"{"job_gave_way":{"job":3,"to":7,"chosen":"last_in_order"}}"#,
    r#"{"job_gave_way":{"job":3,"to":0,"chosen":"lowest_priority"}}"#,
    r#"{"job_gave_way":{"job":3,"to":null,"chosen":"least_unsaved_work"}}"#,
    r#"{"job_gave_way":{"job":3,"to":null,"chosen":"opportunistic"}}"#,
    r#"{"job_stopping":{"job":3,"why":"preempted"}}"#,
    r#"{"job_stopping":{"job":3,"why":"node_lost"}}"#,
    r#"{"job_stopping":{"job":3,"why":"time_limit"}}"#,
    r#"{"job_replaced":{"job":3,"by":0}}"#,
    r#"{"job_stopped":{"job":3,"done":0.0}}"#,
    r#"{"job_held":{"job":3}}"#,
    r#"{"job_released":{"job":3}}"#,
    r#"{"job_reprioritised":{"job":3,"priority":-7}}"#,
    r#"{"job_ended":{"job":3,"end":"finished"}}"#,
    r#"{"job_ended":{"job":3,"end":{"failed":{"code":0}}}}"#,
    r#"{"job_ended":{"job":3,"end":{"failed":{"code":-1}}}}"#,
    r#"{"job_ended":{"job":3,"end":"timed_out"}}"#,
    r#"{"hold_wanted":{"job":3}}"#,
    r#"{"hold_lifted":{"job":3}}"#,
    r#"{"job_retried":{"job":3}}"#,
    r#"{"job_noted":{"job":3,"reason":"cannot run \"x\""}}"#,
    r#"{"job_caused":{"job":3,"cause":"out-of-memory","node":0,"code":0}}"#,
    r#"{"job_caused":{"job":3,"cause":"user"}}"#,
    r#"{"job_signalled":{"job":3,"signal":9}}"#,
    r#"{"job_stalled":{"job":3,"reason":"rank 1 is stopped"}}"#,
    r#"{"job_delayed":{"job":3,"until":12.5}}"#,
    r#"{"job_watched":{"job":3,"watched_s":10.0,"idle_s":0.0,"iterations":7.0,"total":0.0}}"#,
    r#"{"job_measured":{"job":3,"metrics":{"loss":0.25,"bad":"nan","far":"-inf"},"remarks":["loss is NaN"]}}"#,
    r#"{"job_timed":{"job":3,"device_type":"a40","devices":2,"nodes":1,"plan":[2,1,1],"iterations":10.0,"span_s":5.0}}"#,
    r#"{"job_planned":{"job":3,"plan":null}}"#,
    r#"{"job_amended":{"job":3,"amended":{"time_limit_s":0.0,"name":"n","steps":{"0":{"name":"s","nodes":["n1"],"tasks":2,"start_s":1.0,"end_s":2.0,"exit_code":3,"signal":9}}}}}"#,
    r#"{"array_changed":{"job":3,"change":"cancel","by":"ann"}}"#,
];

/// A history as a client receives it.
fn received(detail: &JobDetail) -> Vec<HistoryEntry> {
    JobDetail::decode(detail.encode_to_vec().as_slice()).unwrap().history
}

#[test]
fn events_contain_all_fields_of_their_records() {
    for text in RECORDS {
        let record: Record = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let entry = HistoryEntry { event: wire::event(&record), ..HistoryEntry::default() };
        let entry = HistoryEntry::decode(entry.encode_to_vec().as_slice()).unwrap();
        assert_eq!(event_json(&entry), serde_json::to_value(&record).unwrap(), "{text}");
    }
    // Nodes and the head itself have no place in the history of a job.
    for text in [r#"{"node_lost":{"node":1}}"#, r#"{"ids_skipped":{"job":3,"count":2}}"#] {
        assert_eq!(wire::event(&serde_json::from_str(text).unwrap()), None, "{text}");
    }
}

/// The head of a journal that an earlier version wrote.
fn recorded(name: &str, folder: &Path) -> VirtualCluster {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let journal = folder.join("journal.sqlite");
    fs::copy(golden.join(format!("{name}.sqlite")), &journal).unwrap();
    VirtualCluster::new(&journal, &ClusterSpec::default(), regime("fifo", 0))
}

/// A job of the engine, but for its scope, which follows from the limits in force.
fn image(state: &State, job: u32) -> String {
    let mut image = state.job_image(JobId(job));
    if let Some(needs) = &mut image.spec.gang.needs {
        Arc::make_mut(needs).scope = Scope::default();
    }
    format!("{image:?}")
}

#[test]
fn histories_and_exports_of_recorded_journals_are_whole_as_messages() {
    for name in ["small", "mixed", "arrays", "dependencies", "limits"] {
        let folder = tempfile::tempdir().unwrap();
        let world = recorded(name, folder.path());
        let state = world.dispatcher.engine.state();
        for (job, ..) in state.jobs() {
            let detail = views::detail(&world.dispatcher, job).unwrap();
            for entry in received(&detail) {
                let written: Record = serde_json::from_str(&entry.what).unwrap();
                let written: Value = serde_json::to_value(&written).unwrap();
                assert!(entry.event.is_some(), "{name}: {}", entry.what);
                assert_eq!(event_json(&entry), written, "{name}");
            }
        }

        let exported = live::export(&world.dispatcher, usize::MAX, true).unwrap();
        let exported = Exported::decode(exported.encode_to_vec().as_slice()).unwrap();
        assert!(exported.nodes.is_empty() && exported.jobs.iter().all(|job| job.image.is_empty()));
        let live = Live::read(exported).unwrap();
        assert_eq!(live.jobs.len(), state.jobs().count(), "{name}");
        for job in &live.jobs {
            assert_eq!(format!("{:?}", job.image), image(state, job.id), "{name}");
        }
        assert_eq!(live.nodes.len(), state.topology().nodes().len(), "{name}");
        for (index, node) in live.nodes.iter().enumerate() {
            let expected = state.node_image(NodeId::from_index(index));
            assert_eq!(format!("{node:?}"), format!("{expected:?}"), "{name}");
        }

        // Older clients read the same as JSON.
        let exported = live::export(&world.dispatcher, usize::MAX, false).unwrap();
        assert!(exported.node_images.is_empty() && exported.nodes.len() == live.nodes.len());
        for job in exported.jobs {
            let record: JobImageRecord = serde_json::from_str(&job.image).unwrap();
            let read = record.to_core(job.job_id, &mut HeadState::default()).unwrap();
            assert_eq!((job.state, format!("{read:?}")), (None, image(state, job.job_id)), "{name}");
        }
    }
}
