//! Recorded runs, job by job.

use wharf_sim::Outcome;

use crate::gavel::data;
use crate::gavel::recorded::{self, Inputs, Notes};
use wharf_testing::{needs, reference};

/// The first job, or round, that differs from the recording in any bit.
fn first_difference(inputs: &Inputs, outcome: &Outcome, notes: &Notes) -> Option<String> {
    let recording = &inputs.recording;
    let rounds = recording.rounds.iter().zip(&notes.rounds);
    if let Some((index, (theirs, ours))) = rounds.enumerate().find(|(_, (theirs, ours))| theirs != ours) {
        return Some(format!("round {index}: {ours:?} is not {theirs:?}"));
    }
    for (record, spec) in outcome.jobs.iter().zip(&inputs.trace.jobs) {
        let theirs = recording.jct.get(&*spec.name).copied().flatten();
        if record.jct_s().map(f64::to_bits) != theirs.map(f64::to_bits) {
            return Some(format!("job {}: {:?} is not {theirs:?}", spec.name, record.jct_s()));
        }
    }
    let over = outcome.tally.over.map(wharf_core::Time::seconds);
    if over.map(f64::to_bits) != Some(recording.meta.makespan.to_bits()) {
        return Some(format!("makespan {over:?} is not {}", recording.meta.makespan));
    }
    let leases = [outcome.tally.lease_extensions, outcome.tally.lease_chances];
    if leases != recording.meta.lease_ext {
        return Some(format!("leases {leases:?} are not {:?}", recording.meta.lease_ext));
    }
    (recording.rounds.len() != notes.rounds.len())
        .then(|| format!("{} rounds are not {}", notes.rounds.len(), recording.rounds.len()))
}

fn check(name: &str, count: usize, differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{name}: {} of {count} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(count > 0, "{name}: nothing was checked");
}

#[test]
fn recorded_allocations_give_the_recorded_rounds() {
    needs!(REFERENCE);
    let folder = reference("gavel");
    let profiles = data::profiles(&folder);
    let (mut count, mut differences) = (0, Vec::new());
    for inputs in recorded::recordings(&folder) {
        let profile = &profiles[&inputs.recording.meta.throughputs];
        let path = inputs.path.display().to_string();
        let (outcome, notes) = recorded::run(&inputs, profile, &[("allocations", &path)]);
        count += 1;
        let difference = first_difference(&inputs, &outcome, &notes);
        differences.extend(difference.map(|difference| format!("{}: {difference}", inputs.name)));
        let meta = &inputs.recording.meta;
        if let Some(theirs) = meta.utilization {
            let devices = f64::from(inputs.cluster.device_count());
            let ours = outcome.busy_device_s / (devices * meta.makespan);
            assert!((ours - theirs).abs() < 1e-9, "{}: {ours} is not {theirs}", inputs.name);
        }
    }
    check("replay", count, &differences);
}

#[test]
fn policies_without_a_program_are_equal() {
    needs!(REFERENCE);
    let folder = reference("gavel");
    let profiles = data::profiles(&folder);
    let (mut count, mut differences) = (0, Vec::new());
    let exact = ["isolated", "fifo", "fifo_perf", "fifo_packed", "gandiva", "allox"];
    for inputs in recorded::recordings(&folder) {
        let meta = &inputs.recording.meta;
        if inputs.name.starts_with("solver__") || !exact.contains(&&*meta.policy) {
            continue;
        }
        let (outcome, notes) = recorded::run(&inputs, &profiles[&meta.throughputs], &[]);
        count += 1;
        let difference = first_difference(&inputs, &outcome, &notes);
        differences.extend(difference.map(|difference| format!("{}: {difference}", inputs.name)));
    }
    check("policies", count, &differences);
}

/// How far the mean completion time (or, for the policies that minimise it, the makespan) may be from the recorded one: as
/// far as the published simulator's own solvers are from each other.
fn bound(policy: &str) -> f64 {
    match policy {
        _ if policy.starts_with("min_total_duration") => 0.03,
        _ if policy.ends_with("_perf") || policy.ends_with("_packed") => 0.06,
        _ => 0.30,
    }
}

#[test]
fn policies_with_a_program_are_as_near_as_solvers_are_to_each_other() {
    needs!(REFERENCE);
    let folder = reference("gavel");
    let profiles = data::profiles(&folder);
    let (mut count, mut differences) = (0, Vec::new());
    for inputs in recorded::recordings(&folder).iter().filter(|inputs| !inputs.name.starts_with("solver__")) {
        let meta = &inputs.recording.meta;
        let (outcome, _) = recorded::run(inputs, &profiles[&meta.throughputs], &[]);
        let mean = |jcts: Vec<f64>| jcts.iter().sum::<f64>() / jcts.len() as f64;
        let ours = mean(outcome.jobs.iter().filter_map(wharf_sim::JobRecord::jct_s).collect());
        let theirs = mean(inputs.recording.jct.values().copied().flatten().collect());
        let over = outcome.tally.over.map_or(0.0, wharf_core::Time::seconds);
        let (jct, makespan) = ((ours / theirs - 1.0).abs(), (over / meta.makespan - 1.0).abs());
        let off = if meta.policy.starts_with("min_total_duration") { makespan } else { jct };
        count += 1;
        if off > bound(&meta.policy) {
            differences.push(format!("{}: JCT {jct:.4}, makespan {makespan:.4}", inputs.name));
        }
    }
    check("programs", count, &differences);
}
