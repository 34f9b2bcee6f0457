//! First come, first served on the type that a job asks for; with relaxed locality also on more nodes than needed.

use super::Rules;
use super::world::{Tried, World};

/// `fcfs` and `fcfs-r`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fcfs {
    /// Whether jobs may lie on more nodes than needed.
    pub(super) is_relaxed: bool,
}

impl Fcfs {
    fn place(self, world: &mut World, job: u32) -> bool {
        let asked = world.job(job).asked;
        world.place(job, asked.kind, asked.devices, true, self.is_relaxed)
    }

    /// Drops jobs that came and cannot run as they were asked for: without a word, as published. They never wait and never count.
    pub(super) fn drop_unfit(world: &mut World) {
        let mut submitted = std::mem::take(&mut world.submitted);
        submitted.retain(|&job| {
            let asked = world.job(job).asked;
            world.is_feasible(job, asked.kind, asked.shape, true)
        });
        world.submitted = submitted;
    }

    /// Whether an earlier job waits for the same type.
    pub(super) fn has_earlier(world: &World, job: u32) -> bool {
        let kind = world.job(job).asked.kind;
        world.pending.iter().any(|other| world.job(*other).asked.kind == kind)
    }
}

impl Rules for Fcfs {
    fn on_ends(&mut self, world: &mut World) {
        world.release_ended();
        world.retry(|world, job| Tried::or_blocks(self.place(world, job)));
    }

    fn on_arrivals(&mut self, world: &mut World) {
        Self::drop_unfit(world);
        world.take_in(|world, job| Tried::or_waits(!Self::has_earlier(world, job) && self.place(world, job)));
    }
}
