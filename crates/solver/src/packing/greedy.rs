//! The answer that is always possible: every job has its equal share of the devices and runs alone.

use super::classes::Class;
use super::{Program, Share};

pub(super) fn shares(program: &Program<'_>, classes: &[Class]) -> Vec<Share> {
    let jobs: usize = classes.iter().map(|class| class.jobs.len()).sum();
    let mut shares = Vec::new();
    for class in classes {
        let devices = f64::from(class.devices) * jobs as f64;
        let runs = |&index: &usize| program.speed(class.kind, index) > 0.0 && program.capacities[index] > 0.0;
        let types: Vec<usize> = (0..program.types()).filter(runs).collect();
        let sum: f64 = types.iter().map(|&index| program.capacities[index] / devices).sum();
        for &job in &class.jobs {
            let share = |&device_type: &usize| Share {
                job,
                partner: None,
                device_type,
                share: program.capacities[device_type] / devices / sum.max(1.0),
            };
            shares.extend(types.iter().map(share));
        }
    }
    shares.sort_by_key(|share| (share.job, share.device_type));
    shares
}
