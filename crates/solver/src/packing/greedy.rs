//! The answer that is always possible: every job has its equal share of the devices and runs alone.

use super::{Answer, Demand, Method, Program, Share};

pub(super) fn answer(program: &Program<'_>, demands: &[Demand], pivots: usize) -> Answer {
    let jobs = program.kinds.len();
    let mut shares = Vec::new();
    for job in 0..jobs {
        let devices = f64::from(program.devices[job].max(1)) * jobs as f64;
        let runs = |&kind: &usize| program.speed(program.kinds[job], kind) > 0.0;
        let types: Vec<usize> = (0..program.types()).filter(runs).collect();
        let sum: f64 = types.iter().map(|&kind| program.capacities[kind] / devices).sum();
        for device_type in types {
            let share = program.capacities[device_type] / devices / sum.max(1.0);
            if share > 0.0 {
                shares.push(Share { job, partner: None, device_type, share });
            }
        }
    }
    let speeds = program.throughputs(&shares);
    let mut objective = f64::INFINITY;
    let mut stranded = Vec::new();
    for (job, (demand, &speed)) in demands.iter().zip(&speeds).enumerate() {
        if speed > 0.0 && demand.amount.is_finite() {
            objective = objective.min(demand.reached(speed));
        } else {
            stranded.push(job);
        }
    }
    let objective = if objective.is_finite() { objective } else { 0.0 };
    Answer { shares, objective, method: Method::Greedy, stranded, pivots }
}
