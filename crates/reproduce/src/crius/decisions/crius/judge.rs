//! What devices are worth to a job, in the published currency.

use super::super::job::Quota;
use super::super::query::{INFEASIBLE, NEVER_S, Question};
use super::super::site::{Kind, Shape};
use super::super::world::World;

/// A job as one branch of a search sees it: what it asks for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) job: u32,
    pub(super) kind: Kind,
    pub(super) devices: u32,
}

impl Wish {
    /// What a job asks for outside of all searches.
    pub(super) fn of(world: &World, job: u32) -> Self {
        let Quota { kind, devices, .. } = world.job(job).quota;
        Self { job, kind, devices }
    }

    /// The same job with so many devices of a type.
    pub(super) fn with(self, kind: Kind, devices: u32) -> Self {
        Self { kind, devices, ..self }
    }

    /// As few nodes as hold what it asks for.
    pub(super) fn best(self, world: &World) -> Shape {
        world.site().best(self.kind, self.devices)
    }
}

/// Whether a wish could be met with devices that lie like this.
pub(super) fn can_run(world: &World, wish: Wish, kind: Kind, shape: Shape) -> bool {
    let is_late = world.options.has_deadlines && !is_in_time(world, wish, kind, shape);
    !is_late && world.ask(world.question(false), wish.job, kind, shape) > 0.0
}

/// The throughput of a job on devices that lie like this, or what it gains over others. Where it cannot run now, nothing is
/// worse; where it could not run before, nothing is better.
pub(super) fn worth(world: &World, wish: Wish, new: (Kind, Shape), before: Option<(Kind, Shape)>) -> f64 {
    if world.options.has_deadlines && !is_in_time(world, wish, new.0, new.1) {
        return INFEASIBLE;
    }
    let throughput = world.throughput(wish.job, new.0, new.1);
    if throughput <= 0.0 {
        return INFEASIBLE;
    }
    let Some((kind, shape)) = before else { return throughput };
    let before = world.throughput(wish.job, kind, shape);
    throughput - if before > 0.0 { before } else { INFEASIBLE }
}

/// Whether a job would be done in time. What tuning costs goes by what it asks for, not by what is tried.
fn is_in_time(world: &World, wish: Wish, kind: Kind, shape: Shape) -> bool {
    let state = world.job(wish.job);
    let is_new = world.timer - state.submitted_s <= world.options.round_s;
    let overhead_s = if is_new { world.options.pruned.cost_s(wish.devices) } else { state.debt_s };
    let iteration_s = world.iteration_s(Question::BILLED, wish.job, kind, shape);
    iteration_s < NEVER_S && world.is_in_time(wish.job, overhead_s, iteration_s)
}
