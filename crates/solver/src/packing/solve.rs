//! The way from demands to an answer.

use super::classes::{self, Class};
use super::level::{Level, Usage};
use super::simplex::Stop;
use super::{Answer, Demand, Method, Program, Share, greedy, parts, spread};

/// What is wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Aim {
    /// The highest level of the worst-off job.
    Highest,
    /// Then of the second, and so on. Demands must be linear.
    Fill,
}

pub(super) fn answer(program: &Program<'_>, demands: &[Demand], aim: Aim) -> Answer {
    // Slices of different lengths cannot be meant; jobs without a demand or size take no part.
    let jobs = program.kinds.len().min(program.devices.len()).min(demands.len());
    let program = Program { kinds: &program.kinds[..jobs], devices: &program.devices[..jobs], ..*program };
    let (classes, stranded) = classes::classes(&program, &demands[..jobs]);
    if classes.len() > 2 * program.classes.max(64) {
        return parts::answer(&program, &classes, stranded, demands, aim);
    }
    let mut unit = usual_level(&program, &classes, demands);
    if program.classes > 1 && demands.iter().any(|demand| demand.elapsed > 0.0) {
        // Tangents are good near the level that is sought, and few classes tell it quickly.
        let coarse = answer(&Program { classes: 1, ..program }, demands, Aim::Highest);
        unit = if coarse.objective > 0.0 { coarse.objective } else { unit };
    }
    of_classes(&program, &classes, stranded, demands, aim, unit)
}

/// The answer for given classes; `unit` is a level of about the right size.
pub(super) fn of_classes(
    program: &Program<'_>,
    classes: &[Class],
    stranded: Vec<usize>,
    demands: &[Demand],
    aim: Aim,
    unit: f64,
) -> Answer {
    let Ok(point) = climb(Level::new(program, classes, demands, unit), aim) else {
        let shares = greedy::shares(program, classes);
        let objective = level_of(program, &shares, classes, demands);
        return Answer { shares, objective, method: Method::Greedy, stranded, pivots: program.pivots };
    };
    let method = match point.stopped {
        true => Method::Stopped,
        false if classes.iter().all(|class| class.even) => Method::Exact,
        false => Method::Merged,
    };
    let mut shares = spread::shares(classes, &point.usage, &point.needs);
    fit(program, &mut shares);
    let objective = level_of(program, &shares, classes, demands);
    Answer { shares, objective, method, stranded, pivots: point.pivots }
}

/// Makes shares smaller by what rounding has made them too large.
fn fit(program: &Program<'_>, shares: &mut [Share]) {
    let mut times = vec![0.0; program.kinds.len()];
    let mut used = vec![0.0; program.types()];
    for share in shares.iter() {
        used[share.device_type] += share.share * f64::from(program.devices[share.job]);
        for job in [Some(share.job), share.partner].into_iter().flatten() {
            times[job] += share.share;
        }
    }
    let filled = used.iter().zip(program.capacities).map(|(used, capacity)| used / capacity);
    let excess = times.iter().copied().chain(filled).fold(1.0, f64::max);
    for share in shares {
        share.share /= excess;
    }
}

/// Where a search has ended.
struct Point {
    usage: Usage,
    needs: Vec<f64>,
    pivots: usize,
    stopped: bool,
}

fn climb(mut level: Level<'_>, aim: Aim) -> Result<Point, Stop> {
    let mut simplex = level.start()?;
    loop {
        let (usage, needs, pivots) =
            (level.usage(&simplex), level.needs(simplex.objective()), simplex.pivots());
        let more = if aim == Aim::Fill { level.fill(&mut simplex) } else { Ok(false) };
        if more != Ok(true) {
            return Ok(Point { usage, needs, pivots, stopped: more.is_err() });
        }
    }
}

/// A level of about the right size: as if all devices were equal and shared equally.
pub(super) fn usual_level(program: &Program<'_>, classes: &[Class], demands: &[Demand]) -> f64 {
    let wanted: f64 = classes.iter().map(|class| f64::from(class.devices) * class.jobs.len() as f64).sum();
    let share = (program.capacities.iter().sum::<f64>() / wanted).min(1.0);
    let of_class = |class: &Class| {
        let speed = class.scale * share;
        class.jobs.iter().map(move |&job| demands[job].reached(speed)).fold(f64::INFINITY, f64::min)
    };
    let level = classes.iter().map(of_class).fold(f64::INFINITY, f64::min);
    if level.is_finite() && level > 0.0 { level } else { 1.0 }
}

/// The level that shares reach for the worst-off job.
pub(super) fn level_of(
    program: &Program<'_>,
    shares: &[Share],
    classes: &[Class],
    demands: &[Demand],
) -> f64 {
    let speeds = program.throughputs(shares);
    let jobs = classes.iter().flat_map(|class| &class.jobs);
    let level = jobs.map(|&job| demands[job].reached(speeds[job])).fold(f64::INFINITY, f64::min);
    if level.is_finite() { level } else { 0.0 }
}
