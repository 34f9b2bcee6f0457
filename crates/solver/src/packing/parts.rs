//! Programs with many kinds of jobs: kinds and devices are dealt out to parts, and each part is solved by itself.

use super::classes::Class;
use super::solve::{self, Aim};
use super::{Answer, Demand, Method, Program, Share};

/// Classes of one part. The work grows with the third power, so it is well below what one program may have.
const CLASSES: usize = 64;

pub(super) fn answer(
    program: &Program<'_>,
    classes: &[Class],
    stranded: Vec<usize>,
    demands: &[Demand],
    aim: Aim,
) -> Answer {
    let count = classes.len().div_ceil(CLASSES);
    let unit = solve::usual_level(program, classes, demands);
    let loads: Vec<f64> = classes.iter().map(|class| load(class, demands, unit)).collect();
    let all: f64 = loads.iter().sum();
    let order = similar(program, classes);
    let mut shares: Vec<Share> = Vec::new();
    let mut pivots = 0;
    for part in 0..count {
        let members: Vec<usize> = order.iter().copied().skip(part).step_by(count).collect();
        let load: f64 = members.iter().map(|&class| loads[class]).sum();
        let portion = if all > 0.0 { load / all } else { 1.0 / count as f64 };
        let capacities: Vec<f64> = program.capacities.iter().map(|capacity| capacity * portion).collect();
        let classes: Vec<Class> = members.iter().map(|&class| classes[class].clone()).collect();
        let part = Program { capacities: &capacities, ..*program };
        let answer = solve::of_classes(&part, &classes, Vec::new(), demands, aim, unit);
        pivots += answer.pivots;
        shares.extend(answer.shares);
    }
    shares.sort_by_key(|share| (share.job, share.partner, share.device_type));
    let objective = solve::level_of(program, &shares, classes, demands);
    Answer { shares, objective, method: Method::Parts(count), stranded, pivots }
}

/// The devices that a class needs at a level.
fn load(class: &Class, demands: &[Demand], level: f64) -> f64 {
    let needs = class.jobs.iter().map(|&job| demands[job].at(level)).filter(|need| need.is_finite());
    f64::from(class.devices) * needs.sum::<f64>() / class.scale
}

/// Classes in an order in which neighbours are alike, so that every part gets some of each.
fn similar(program: &Program<'_>, classes: &[Class]) -> Vec<usize> {
    let relative = |class: &Class| -> Vec<f64> {
        (0..program.types()).map(|index| program.speed(class.kind, index) / class.scale).collect()
    };
    let speeds: Vec<Vec<f64>> = classes.iter().map(relative).collect();
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by(|&a, &b| {
        let by_speed = speeds[a].iter().zip(&speeds[b]).map(|(x, y)| x.total_cmp(y));
        let by_speed = by_speed.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        classes[a].devices.cmp(&classes[b].devices).then(by_speed).then(a.cmp(&b))
    });
    order
}
