//! Events of a job's history as JSON: `{NAME: {"job": ID, ...}}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wharf_curve::Number;
use wharf_proto::job_event::Event;
use wharf_proto::recorded_end::Outcome;
use wharf_proto::{HistoryEntry, NodeDevices, Plan, RecordedEnd, RecordedNeeds, RecordedSpec};

/// An event as JSON. Events of heads without typed events are JSON already.
pub fn event_json(entry: &HistoryEntry) -> Value {
    let Some(event) = &entry.event else {
        return serde_json::from_str(&entry.what).unwrap_or_else(|_| Value::from(entry.what.as_str()));
    };
    let Some((name, mut fields)) = event.event.as_ref().map(fields) else { return Value::Null };
    fields["job"] = json!(event.job_id);
    json!({ name: fields })
}

/// The name of an event and its fields, but for the job.
fn fields(event: &Event) -> (&'static str, Value) {
    match event {
        Event::JobSubmitted(spec) => ("job_submitted", json!({ "spec": spec_json(spec) })),
        Event::ArraySubmitted(array) => {
            let indexes: Vec<_> = array.indexes.iter().map(|range| (range.first, range.last)).collect();
            ("array_submitted", json!({ "spec": array.spec.as_ref().map(spec_json), "indexes": indexes }))
        }
        Event::JobPlaced(placed) => {
            ("job_placed", json!({ "generation": placed.generation, "shares": shares(&placed.shares) }))
        }
        Event::JobLaunched(launched) => {
            ("job_launched", json!({ "ready": launched.ready_s, "iteration_s": launched.iteration_s }))
        }
        Event::JobRated(iteration_s) => ("job_rated", json!({ "iteration_s": iteration_s })),
        Event::JobSaved(done) => ("job_saved", json!({ "done": done })),
        Event::JobGaveWay(gave) => {
            ("job_gave_way", json!({ "to": gave.to, "chosen": word(gave.chosen().as_str_name()) }))
        }
        Event::JobStopping(stopping) => {
            ("job_stopping", json!({ "why": word(stopping.why().as_str_name()) }))
        }
        Event::JobReplaced(by) => ("job_replaced", json!({ "by": by })),
        Event::JobStopped(done) => ("job_stopped", json!({ "done": done })),
        Event::JobHeld(_) => ("job_held", json!({})),
        Event::JobReleased(_) => ("job_released", json!({})),
        Event::JobReprioritised(priority) => ("job_reprioritised", json!({ "priority": priority })),
        Event::JobEnded(end) => ("job_ended", json!({ "end": end_json(*end) })),
        Event::HoldWanted(_) => ("hold_wanted", json!({})),
        Event::HoldLifted(_) => ("hold_lifted", json!({})),
        Event::JobRetried(_) => ("job_retried", json!({})),
        Event::JobNoted(reason) => ("job_noted", json!({ "reason": reason })),
        Event::JobCaused(caused) => {
            let mut fields = json!({ "cause": caused.cause().word() });
            add(
                &mut fields,
                [("node", caused.node.map(Value::from)), ("code", caused.code.map(Value::from))],
            );
            ("job_caused", fields)
        }
        Event::JobSignalled(signal) => ("job_signalled", json!({ "signal": signal })),
        Event::JobStalled(reason) => ("job_stalled", json!({ "reason": reason })),
        Event::JobDelayed(until) => ("job_delayed", json!({ "until": until })),
        Event::JobWatched(watched) => {
            let mut fields = json!({
                "watched_s": watched.watched_s, "idle_s": watched.idle_s, "iterations": watched.iterations,
            });
            add(&mut fields, [("total", watched.total.map(Value::from))]);
            ("job_watched", fields)
        }
        Event::JobMeasured(measured) => {
            let metrics: BTreeMap<_, _> =
                measured.metrics.iter().map(|(name, value)| (name, Number(*value))).collect();
            let mut fields = json!({ "metrics": metrics });
            let remarks = Some(&measured.remarks).filter(|remarks| !remarks.is_empty());
            add(&mut fields, [("remarks", remarks.map(|remarks| json!(remarks)))]);
            ("job_measured", fields)
        }
        Event::JobTimed(timed) => {
            let fields = json!({
                "device_type": timed.device_type, "devices": timed.devices, "nodes": timed.nodes,
                "plan": timed.plan.as_ref().map(plan), "iterations": timed.iterations, "span_s": timed.span_s,
            });
            ("job_timed", fields)
        }
        Event::JobPlanned(planned) => ("job_planned", json!({ "plan": planned.plan.as_ref().map(plan) })),
        Event::JobAmended(amended) => {
            let step = |step: &wharf_proto::StepSummary| {
                let fields = json!({
                    "name": step.name, "nodes": step.nodes, "tasks": step.tasks, "start_s": step.start_s,
                    "end_s": step.end_s, "exit_code": step.exit_code, "signal": step.signal,
                });
                (step.id.to_string(), fields)
            };
            let steps: Map<String, Value> = amended.steps.iter().map(step).collect();
            let mut fields = json!({});
            let steps = Some(steps).filter(|steps| !steps.is_empty());
            add(
                &mut fields,
                [
                    ("time_limit_s", amended.time_limit_s.map(Value::from)),
                    ("name", amended.name.as_deref().map(Value::from)),
                    ("steps", steps.map(Value::from)),
                ],
            );
            ("job_amended", json!({ "amended": fields }))
        }
        Event::JobChanged(change) => ("job_changed", json!({ "change": change.change, "by": change.by })),
        Event::ArrayChanged(change) => ("array_changed", json!({ "change": change.change, "by": change.by })),
    }
}

/// Adds the fields that are present.
fn add<const N: usize>(fields: &mut Value, optional: [(&str, Option<Value>); N]) {
    for (name, value) in optional {
        if let Some(value) = value {
            fields[name] = value;
        }
    }
}

fn word(name: &str) -> String {
    name.to_lowercase()
}

fn shares(shares: &[NodeDevices]) -> Vec<(u32, &[u32])> {
    shares.iter().map(|share| (share.node, share.devices.as_slice())).collect()
}

fn plan(plan: &Plan) -> (u32, u32, u32) {
    (plan.stages, plan.data, plan.tensor)
}

fn end_json(end: RecordedEnd) -> Value {
    match end.outcome() {
        Outcome::Failed => json!({ "failed": { "code": end.exit_code } }),
        outcome => json!(word(outcome.as_str_name())),
    }
}

fn needs_json(needs: &RecordedNeeds) -> Value {
    let mut fields = json!({ "cpus": needs.cpus, "memory_mib": needs.memory_mib });
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let names = Some(&needs.names).filter(|names| !names.is_empty());
    add(
        &mut fields,
        [
            ("nodes", needs.nodes.map(Value::from)),
            ("pool", text(&needs.pool)),
            ("node", text(&needs.node)),
            ("names", names.map(|names| json!(names))),
            ("reservation", text(&needs.reservation)),
        ],
    );
    fields
}

fn spec_json(spec: &RecordedSpec) -> Value {
    let mut fields = json!({
        "name": spec.name, "submit_s": spec.submit_s, "devices": spec.devices, "devices_min": spec.devices_min,
        "devices_max": spec.devices_max, "iterations": spec.iterations, "iteration_ms": spec.iteration_ms,
        "priority": spec.priority,
    });
    let types = Some(&spec.device_types).filter(|types| !types.is_empty());
    let stages = spec.stages.map(|stages| json!([stages.data_ms, stages.compute_ms, stages.network_ms]));
    add(
        &mut fields,
        [
            ("user", spec.user.as_deref().map(Value::from)),
            ("device_types", types.map(|types| json!(types))),
            ("duration_s", spec.duration_s.map(Value::from)),
            ("model", spec.model.as_deref().map(Value::from)),
            ("batch_size", spec.batch_size.map(Value::from)),
            ("weight", (spec.weight != 1.0).then(|| spec.weight.into())),
            ("deadline_s", spec.deadline_s.map(Value::from)),
            ("needs", spec.needs.as_ref().map(needs_json)),
            ("array_index", spec.array_index.map(Value::from)),
            ("stages_ms", stages),
        ],
    );
    fields
}
