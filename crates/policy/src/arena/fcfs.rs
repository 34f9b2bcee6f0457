//! First come, first served on the type that a job asks for; with relaxed locality also on more nodes than needed.

use super::Rules;
use super::site::Kind;
use super::world::World;

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

    /// Whether a job cannot run as it was asked for. Such a job is dropped without a word, as published: it never waits and never
    /// counts.
    pub(super) fn is_dropped(world: &World, job: u32) -> bool {
        let asked = world.job(job).asked;
        !world.is_feasible(job, asked.kind, asked.shape, true)
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
        let mut blocked: Vec<Kind> = Vec::new();
        let mut waiting = Vec::new();
        for job in std::mem::take(&mut world.pending) {
            let kind = world.job(job).asked.kind;
            if !blocked.contains(&kind) {
                if self.place(world, job) {
                    world.running.push(job);
                    continue;
                }
                blocked.push(kind);
            }
            waiting.push(job);
        }
        world.pending = waiting;
    }

    fn on_arrivals(&mut self, world: &mut World) {
        for job in world.submitted.clone() {
            if Self::is_dropped(world, job) {
                continue;
            }
            if !Self::has_earlier(world, job) && self.place(world, job) {
                world.running.push(job);
            } else {
                world.pending.push(job);
            }
        }
    }
}
