//! Running jobs are given more or better devices that are idle, one step at a time.

use super::super::job::Quota;
use super::super::query::INFEASIBLE;
use super::super::site::Shape;
use super::super::table::Owner;
use super::super::world::World;
use super::Searcher;
use super::judge::{Wish, can_run, worth};

/// A step for a job.
#[derive(Clone, Copy, Debug)]
struct Step {
    gain: f64,
    wish: Wish,
    shape: Shape,
}

impl Searcher {
    /// Makes the step that gains most, again and again.
    pub(super) fn upgrade(&mut self, world: &mut World) {
        let mut budget = world.options.global_budget;
        for _ in 0..world.options.upgrades_max {
            self.outlooks.clear();
            let mut best: Option<Step> = None;
            for &job in &world.running {
                let floor = best.map_or(0.0, |best| best.gain);
                let Some(step) = self.best_step(world, job, budget, floor) else { continue };
                if can_run(world, Wish::of(world, job), step.wish.kind, step.shape) {
                    best = Some(step);
                }
            }
            let Some(Step { wish, .. }) = best else { return };
            let mut table = world.table.clone();
            table.release_of(Owner::job(wish.job), world.job(wish.job).quota.kind);
            budget = self.seeker.seek(world, &mut table, wish, budget, None).budget;
            world.table = table;
            self.survey.refresh(world);
        }
    }

    /// The step of a job that gains most, where that is more than `floor`: another type, or twice as many devices.
    fn best_step(&mut self, world: &World, job: u32, budget: u32, floor: f64) -> Option<Step> {
        let Quota { kind, devices, shape } = world.job(job).quota;
        let mut best: Option<Step> = None;
        let mut most = INFEASIBLE;
        let mut consider = |wish: Wish, new: Option<Shape>| {
            let Some(new) = new else { return };
            let gain = worth(world, wish, (wish.kind, new), Some((kind, shape)));
            if gain > most {
                most = gain;
                best = Some(Step { gain, wish, shape: new });
            }
        };
        let asked = Wish::of(world, job);
        if self.flags.can_change_type {
            for &other in &self.order {
                if other != kind && world.table.idle_of(other) >= devices {
                    let wish = asked.with(other, devices);
                    let found = self.seeker.tell(world, &world.table, &mut self.outlooks, wish, budget);
                    consider(wish, found.shape);
                }
            }
        }
        let twice = devices * 2;
        if self.flags.can_scale && devices < world.options.devices_max && world.table.idle_of(kind) >= devices
        {
            let wish = asked.with(kind, twice);
            let found = self.seeker.tell_without(world, &world.table, wish, budget);
            consider(wish, found.shape);
        }
        best.filter(|best| best.gain > floor)
    }
}
