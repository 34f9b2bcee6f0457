//! Jobs that lie on parts of several nodes are brought together within their own devices.

use super::super::query::INFEASIBLE;
use super::super::table::{Owner, Table};
use super::super::world::World;
use super::Searcher;
use super::judge::{Wish, worth};
use super::survey::shape_of;

impl Searcher {
    /// Rearranges for the job that gains most, until none gains. Other idle devices stay idle: they are in use by stand-ins
    /// meanwhile.
    pub(super) fn introspect(&mut self, world: &mut World) {
        let mut budget = world.options.global_budget;
        let mut queue: Vec<u32> = world.running.iter().copied().filter(|job| is_split(world, *job)).collect();
        loop {
            let mut best: Option<(usize, f64, Table, u32)> = None;
            for (index, &job) in queue.iter().enumerate() {
                let Some((gain, table, left)) = self.together(world, job, budget) else { continue };
                if gain > best.as_ref().map_or(0.0, |best| best.1) {
                    best = Some((index, gain, table, left));
                }
            }
            let Some((index, _, table, left)) = best else { return };
            queue.remove(index);
            budget = left;
            world.table = table;
            self.survey.refresh(world);
        }
    }

    /// What a job gains by rearranging within its own devices, the table then, and the rounds of rearranging that are left.
    fn together(&mut self, world: &World, job: u32, budget: u32) -> Option<(f64, Table, u32)> {
        let wish = Wish::of(world, job);
        let before = world.job(job).quota.shape;
        if before == wish.best(world) {
            return None;
        }
        let mut table = world.table.clone();
        let site = table.site().clone();
        for device in 0..site.device_count() as usize {
            if table.owner(device) == Owner::job(job) {
                table.set(device, false, Owner::FREE);
            } else if !table.is_used(device) {
                table.set(device, true, Owner::fake(site.kind_of(site.node_of(device))));
            }
        }
        let found = self.seeker.seek(world, &mut table, wish, budget, None);
        for device in 0..site.device_count() as usize {
            if table.owner(device).is_fake() {
                table.set(device, false, Owner::FREE);
            }
        }
        found.shape?;
        let after = shape_of(&table, job, wish.kind)?;
        let gain = worth(world, wish, (wish.kind, after), Some((wish.kind, before)));
        (gain > INFEASIBLE).then_some((gain, table, found.budget))
    }
}

/// Whether a job lies on parts of several nodes.
fn is_split(world: &World, job: u32) -> bool {
    let quota = world.job(job).quota;
    quota.shape.hosts > 1 && quota.shape.per_host < world.site().per_node(quota.kind)
}
