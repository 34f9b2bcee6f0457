//! Waiting jobs are tried again, in the order in which they came.

use super::super::site::Kind;
use super::super::table::{Owner, Table};
use super::super::world::World;
use super::Crius;
use super::downgrade::Choice;

impl Crius {
    /// Starts waiting jobs until none fits any more. After each the queue is gone through again from where that one was.
    pub(super) fn restart(&mut self, world: &mut World) {
        let mut from = 0;
        for _ in 0..world.options.restarts_max {
            if world.pending.is_empty() {
                return;
            }
            let Some((place, choice)) = self.next_restart(world, from) else { return };
            from = place;
            self.carry_out(world, place, choice);
        }
    }

    /// The first waiting job that fits.
    fn next_restart(&mut self, world: &World, from: usize) -> Option<(usize, Choice)> {
        let mut failed: Vec<u32> = Vec::new();
        let mut blocked: Vec<Kind> = Vec::new();
        for place in from..self.queue.len() {
            let state = world.job(self.queue[place]);
            // Once a job has failed, all of the same model and batch size are passed over, whatever they ask for, as published.
            if (world.options.has_deadlines && state.is_timed_out)
                || failed.contains(&state.workload)
                || state.is_opportunistic
                || blocked.contains(&state.quota.kind)
            {
                continue;
            }
            let budget = world.options.global_budget;
            let table = self.reserved(world, place);
            if let Some(choice) = self.searcher.fit(world, &table, self.queue[place], budget) {
                return Some((place, choice));
            }
            if !self.searcher.flags.has_opportunism {
                blocked.push(state.quota.kind);
            }
            failed.push(state.workload);
        }
        None
    }

    /// The table as a waiting job sees it: a job that blocks may have the devices of the opportunistic ones after it.
    fn reserved(&self, world: &World, place: usize) -> Table {
        let mut table = world.table.clone();
        if !world.job(self.queue[place]).is_blocker {
            return table;
        }
        for &job in &self.queue[place + 1..] {
            let state = world.job(job);
            if state.is_opportunistic {
                let owner = Owner::job(job);
                for device in world.table.devices_of(owner) {
                    table.set(device, false, owner);
                }
            } else if !state.is_blocker {
                break;
            }
        }
        table
    }

    fn carry_out(&mut self, world: &mut World, place: usize, choice: Choice) {
        let mut table = choice.table;
        let suspended = self.suspended(world, &table);
        for device in 0..world.site().device_count() as usize {
            if !table.is_used(device) && table.owner(device) != Owner::FREE {
                table.set(device, true, table.owner(device));
            }
        }
        for &job in &suspended {
            table.release(Owner::job(job));
        }
        let job = self.queue.remove(place);
        world.pending.retain(|other| *other != job);
        world.running.push(job);
        world.job_mut(job).is_blocker = false;
        for &job in &suspended {
            self.suspend(world, job);
        }
        let leading = self.queue.iter().take_while(|job| world.job(**job).is_opportunistic).count();
        for job in self.queue.drain(..leading) {
            world.job_mut(job).is_opportunistic = false;
        }
        world.table = table;
        self.searcher.survey.refresh(world);
    }

    /// Opportunistic jobs that have fewer devices than before, in the order of those.
    fn suspended(&mut self, world: &World, table: &Table) -> Vec<u32> {
        let survey = &mut self.searcher.survey;
        survey.read(&world.table, &world.jobs);
        let candidates = survey.held.iter().filter(|held| world.job(held.job).is_opportunistic);
        candidates
            .filter(|held| table.devices_of(Owner::job(held.job)).count() != held.devices as usize)
            .map(|held| held.job)
            .collect()
    }

    /// An opportunistic job waits again. What is left of it becomes its whole, but what it ran still counts, as published.
    fn suspend(&mut self, world: &mut World, job: u32) {
        world.job_mut(job).is_opportunistic = false;
        if let Some(place) = self.queue.iter().position(|other| *other == job) {
            let has_others = self.unblock_above(world, place);
            world.job_mut(job).is_blocker = has_others;
        }
        let state = world.job_mut(job);
        state.iterations = state.remaining;
        world.running.retain(|other| *other != job);
        world.pending.push(job);
    }
}
