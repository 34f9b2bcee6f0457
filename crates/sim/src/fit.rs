//! Which jobs of a trace a cluster can hold: the checks that a simulation and the linter share.

use wharf_core::{ClusterSpec, Gang, JobSpec, State, Unmet};
use wharf_external::Program;
use wharf_perf::Unresolved;
use wharf_policy::{Placer, Strategy};

use crate::run::{RunError, RunSpec, check, resolved};

/// Everything that keeps the jobs of a trace from being simulated, in the order of the trace.
///
/// Under the presets of published systems, only the first problem: their checks end with it.
pub fn refusals(spec: &RunSpec<'_>) -> Vec<RunError> {
    if let Err(error) = spec.check_portions() {
        return vec![error];
    }
    let Some(rules) = spec.preset.rules() else {
        return check(spec).err().into_iter().collect();
    };
    let jobs = match resolved(spec) {
        Ok(jobs) => jobs,
        Err(RunError::NoSpeed(unresolved)) => {
            let alone = |job| RunError::NoSpeed(Unresolved { jobs: vec![job] });
            return unresolved.jobs.into_iter().map(alone).collect();
        }
        Err(error) => return vec![error],
    };
    match rules.with(spec.settings) {
        Ok(rules) => misfits(spec, &jobs, rules.placement).collect(),
        Err(error) => vec![error.into()],
    }
}

/// The jobs that would wait indefinitely: their gang does not fit the empty cluster, or their pool does not exist.
pub(crate) fn misfits<'a>(
    spec: &'a RunSpec<'_>,
    jobs: &'a [JobSpec],
    placement: Strategy,
) -> impl Iterator<Item = RunError> + 'a {
    let empty = State::new(spec.cluster, 1);
    let mut placer = placement.placer(spec.seed);
    let mut fitting: Vec<&Gang> = Vec::new();
    let mut shares = Vec::new();
    let is_elastic = Program::is_named(spec.policy)
        || wharf_reproduce::find(spec.policy).is_ok_and(|policy| policy.is_elastic);
    jobs.iter().enumerate().filter_map(move |(index, job)| {
        if let Some(place) = fitting.iter().position(|gang| **gang == job.gang) {
            // Traces repeat few gangs: those seen last are compared first.
            fitting[..=place].rotate_right(1);
            return None;
        }
        if let Some(error) = unknown_pool(spec.cluster, job, index) {
            return Some(error);
        }
        // What a job asks of its nodes beside devices fixes their number.
        let is_fixed = !is_elastic || job.gang.needs.is_some();
        let devices = if is_fixed { job.gang.devices } else { job.gang.devices_min };
        let least = Gang { devices, ..job.gang.clone() };
        let refused = |unmet| RunError::Unmet { job: job.name.to_string(), row: index + 1, unmet };
        let is_asked = |unmet: &Unmet| job.gang.needs.is_some() || unmet.is_slice();
        if let Some(unmet) = Unmet::malformed(empty.topology(), &least).filter(is_asked) {
            return Some(refused(unmet));
        }
        if placer.place(empty.topology(), empty.schedule(), &least, &mut shares) {
            fitting.insert(0, &job.gang);
            return None;
        }
        let mut is_placed = |gang: &Gang| placer.place(empty.topology(), empty.schedule(), gang, &mut shares);
        match Unmet::of(empty.topology(), empty.schedule(), &least, &mut is_placed) {
            Some(unmet) if is_asked(&unmet) => Some(refused(unmet)),
            _ => Some(impossible_gang(spec, &empty, placer.as_mut(), job, index, devices)),
        }
    })
}

fn unknown_pool(cluster: &ClusterSpec, job: &JobSpec, index: usize) -> Option<RunError> {
    let pool = job.gang.pool().filter(|_| cluster.has_pools())?;
    let mut pools: Vec<&str> =
        cluster.nodes.iter().map(|node| &*node.pool).filter(|name| !name.is_empty()).collect();
    pools.sort_unstable();
    pools.dedup();
    (!pools.contains(&&**pool)).then(|| RunError::UnknownPool {
        job: job.name.to_string(),
        row: index + 1,
        pool: pool.to_string(),
        pools: pools.join(", "),
    })
}

fn impossible_gang(
    spec: &RunSpec<'_>,
    empty: &State,
    placer: &mut dyn Placer,
    job: &JobSpec,
    index: usize,
    devices: u32,
) -> RunError {
    let mut shares = Vec::new();
    let mut fits = |devices: u32| {
        let gang = Gang { devices, devices_min: devices, devices_max: devices, ..job.gang.clone() };
        placer.place(empty.topology(), empty.schedule(), &gang, &mut shares)
    };
    let most = (1..=devices.min(spec.cluster.device_count())).rev().find(|&devices| fits(devices));
    RunError::ImpossibleGang { job: job.name.to_string(), row: index + 1, devices, most: most.unwrap_or(0) }
}
