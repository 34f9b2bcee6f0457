//! Programs in which two jobs may share devices: jobs are sorted into kinds, since only kinds have speeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::JobSpec;
use wharf_solver::packing::{self, Answer, CLASSES, Method, PIVOTS, Program};

use super::program::Measure;
use crate::fractional::{Allocation, Combo, Problem};

/// Most kinds that pairs are searched for among; a table of pairs has an entry for each two and each device type.
const KINDS_MAX: usize = 512;

/// Two jobs with equal marks are slowed down alike by their neighbours, and by the same part on every type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    devices: u32,
    model: Option<Arc<str>>,
    batch_size: Option<u32>,
    types: Arc<[Arc<str>]>,
    /// Parts of an iteration that its stages take, in thousandths.
    stages: Option<[u64; 3]>,
    has_needs: bool,
    /// The types on which its speed is known to be above zero.
    can_run: Vec<bool>,
}

impl Mark {
    fn of(spec: &JobSpec, row: &[f64]) -> Self {
        let part =
            |stage_ms: f64| (stage_ms / spec.iteration_ms.max(f64::MIN_POSITIVE) * 1000.0).round() as u64;
        Self {
            devices: spec.gang.devices,
            model: spec.model.clone(),
            batch_size: spec.batch_size,
            types: spec.gang.device_types.clone(),
            stages: spec
                .stages
                .map(|stages| [stages.data_ms, stages.compute_ms, stages.network_ms].map(part)),
            has_needs: spec.gang.needs.is_some(),
            can_run: row.iter().map(|&speed| speed > 0.0).collect(),
        }
    }
}

/// The claims by kind.
struct Kinds {
    of_claim: Vec<usize>,
    /// How many times faster each claim is than the first of its kind.
    scale: Vec<f64>,
    /// The first claim of each kind.
    first: Vec<usize>,
}

impl Kinds {
    fn new(problem: &Problem<'_>) -> Self {
        let mut known: BTreeMap<Mark, usize> = BTreeMap::new();
        let mut kinds = Self { of_claim: Vec::new(), scale: Vec::new(), first: Vec::new() };
        for position in 0..problem.claims.len() {
            let row = problem.row(position);
            let mark = Mark::of(problem.pairs.spec(position), row);
            let kind = *known.entry(mark).or_insert_with(|| {
                kinds.first.push(position);
                kinds.first.len() - 1
            });
            let model = problem.row(kinds.first[kind]);
            let fastest =
                (0..row.len()).reduce(|best, kind| if model[kind] > model[best] { kind } else { best });
            kinds.of_claim.push(kind);
            kinds.scale.push(fastest.map_or(1.0, |fastest| row[fastest] / model[fastest]));
        }
        kinds
    }

    /// Speeds beside each other: kinds × kinds × types.
    fn beside(&self, problem: &Problem<'_>) -> Vec<f64> {
        let (kinds, types) = (self.first.len(), problem.types());
        let mut beside = vec![0.0; kinds * kinds * types];
        for a in 0..kinds {
            for b in a..kinds {
                let (first, second) = (self.first[a], self.first[b]);
                if !problem.can_pair(first, second) {
                    continue;
                }
                for kind in 0..types {
                    let can_run = problem.row(first)[kind] > 0.0 && problem.row(second)[kind] > 0.0;
                    if can_run {
                        let [own, other] = problem.pairs.speeds(first, second, kind);
                        beside[(a * kinds + b) * types + kind] = own;
                        beside[(b * kinds + a) * types + kind] = other;
                    }
                }
            }
        }
        beside
    }
}

/// Solves one of the programs. `targets` are throughputs of jobs that are equally well off, `allowances_s` the times that
/// finish-time fairness compares with.
pub(super) fn solve(
    problem: &Problem<'_>,
    measure: &Measure,
    targets: &[f64],
    allowances_s: &[f64],
) -> Allocation {
    let kinds = Kinds::new(problem);
    if kinds.first.len() > KINDS_MAX {
        let shares = wharf_solver::sharing::max_min(
            &wharf_solver::sharing::Program {
                capacities: &problem.capacities,
                devices: &problem.devices(),
                speeds: &problem.speeds,
            },
            &targets.iter().map(|target| 1.0 / target.max(f64::MIN_POSITIVE)).collect::<Vec<_>>(),
        );
        let fallback = Some("too many kinds of jobs to search for pairs: no job shares devices");
        return Allocation { fallback, ..Allocation::of_rows(problem, &shares.values) };
    }
    let alone: Vec<f64> = kinds.first.iter().flat_map(|&first| problem.row(first).to_vec()).collect();
    let beside = kinds.beside(problem);
    let devices: Vec<u32> = problem.claims.iter().map(|claim| claim.devices).collect();
    let program = Program {
        capacities: &problem.capacities,
        kinds: &kinds.of_claim,
        devices: &devices,
        alone: &alone,
        beside: &beside,
        classes: CLASSES,
        pivots: PIVOTS,
    };
    let scaled = |values: &[f64]| -> Vec<f64> {
        values.iter().zip(&kinds.scale).map(|(value, scale)| value / scale).collect()
    };
    let remaining: Vec<f64> = problem.claims.iter().map(|claim| claim.remaining).collect();
    let answer = match measure {
        Measure::MaxMin | Measure::Sum { .. } => program.max_min(&scaled(targets)),
        Measure::WaterFilling => program.water_filling(&scaled(targets)),
        Measure::Makespan => program.makespan(&scaled(&remaining)),
        Measure::FinishTime(_) => {
            let claims = problem.claims.iter().zip(scaled(&remaining)).zip(allowances_s);
            let claim = |((claim, remaining), &isolated_s): ((&crate::fractional::Claim, f64), &f64)| {
                packing::Claim { remaining, elapsed_s: claim.elapsed_s, isolated_s }
            };
            program.finish_time(&claims.map(claim).collect::<Vec<_>>())
        }
    };
    to_allocation(problem, &answer)
}

fn to_allocation(problem: &Problem<'_>, answer: &Answer) -> Allocation {
    let mut shares: BTreeMap<Combo, Vec<f64>> =
        problem.claims.iter().map(|claim| (Combo::single(claim.job), vec![0.0; problem.types()])).collect();
    for share in &answer.shares {
        let job = problem.claims[share.job].job;
        let combo =
            share.partner.map_or(Combo::single(job), |partner| Combo::pair(job, problem.claims[partner].job));
        let row = shares.entry(combo).or_insert_with(|| vec![0.0; problem.types()]);
        row[share.device_type] += share.share;
    }
    let fallback = match answer.method {
        Method::Exact => None,
        Method::Merged => Some("jobs of one kind with like demands were taken together"),
        Method::Parts(_) => Some("jobs and devices were dealt out to parts"),
        Method::Stopped => {
            Some("only the smallest share is as large as possible, since the work limit was reached")
        }
        Method::Greedy => Some("equal shares, since the work limit was reached"),
    };
    Allocation { shares: shares.into_iter().collect(), fallback }
}
