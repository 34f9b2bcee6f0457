//! `ElasticFlow` as Crius's simulator has it: a job is admitted where the deadlines of all jobs of its type still hold, and what is
//! left over goes to the job that gains most from twice as many devices.

use super::Rules;
use super::job::Quota;
use super::query::{INFEASIBLE, NEVER_S};
use super::site::{Kind, Shape};
use super::table::Owner;
use super::world::{Tried, World};

/// `elasticflow` and `elasticflow-l`.
#[derive(Clone, Debug, Default)]
pub(super) struct ElasticFlow {
    members: Vec<Member>,
}

/// A job of the type at hand.
#[derive(Clone, Copy, Debug)]
struct Member {
    job: u32,
    /// Devices.
    share: u32,
    /// What twice as many would bring.
    gain: f64,
    is_placed: bool,
}

impl ElasticFlow {
    /// Runs a job beside those of its type, if all of them can still be done in time.
    fn fit(&mut self, world: &mut World, job: u32) -> bool {
        let kind = world.job(job).quota.kind;
        if !self.admit(world, job, kind) {
            return false;
        }
        self.fill(world, kind);
        self.lay_out(world, kind)
    }

    /// The least that every job needs; `false` where that is more than there is, or nothing is enough for one of them.
    fn admit(&mut self, world: &World, job: u32, kind: Kind) -> bool {
        let same = world.running.iter().copied().filter(|other| world.job(*other).quota.kind == kind);
        self.members.clear();
        for job in std::iter::once(job).chain(same) {
            let Some(share) = least_share(world, job) else { return false };
            self.members.push(Member { job, share, gain: INFEASIBLE, is_placed: false });
        }
        self.members.iter().map(|member| member.share).sum::<u32>() <= world.site().kind(kind).device_count()
    }

    /// Doubles the job that gains most, as long as there are devices. The gain may be a loss: any step that is possible is taken.
    fn fill(&mut self, world: &World, kind: Kind) {
        let used: u32 = self.members.iter().map(|member| member.share).sum();
        let mut free = world.site().kind(kind).device_count() - used;
        for member in &mut self.members {
            member.gain = doubling_gain(world, member, kind);
        }
        while free > 0 {
            let mut best: Option<usize> = None;
            let mut most = INFEASIBLE;
            for (index, member) in self.members.iter().enumerate() {
                if member.share <= free && member.share < world.options.devices_max && member.gain > most {
                    most = member.gain;
                    best = Some(index);
                }
            }
            let Some(best) = best else { return };
            let member = &mut self.members[best];
            free -= member.share;
            member.share *= 2;
            member.gain = doubling_gain(world, member, kind);
        }
    }

    /// Places all jobs of the type again: the largest first, on whole nodes, then node by node the jobs that fit.
    fn lay_out(&mut self, world: &mut World, kind: Kind) -> bool {
        let per_node = world.site().per_node(kind);
        self.members.sort_by_key(|member| std::cmp::Reverse(member.share));
        let mut table = world.table.clone();
        for member in &self.members {
            table.release_of(Owner::job(member.job), kind);
        }
        let mut nodes = world.site().nodes(kind);
        let mut first = 0;
        for member in self.members.iter_mut().take_while(|member| member.share > per_node) {
            let shape = Shape::best(member.share, per_node);
            let whole: Vec<u32> = nodes.by_ref().take(shape.hosts as usize).collect();
            member.is_placed = table.place(Owner::job(member.job), member.share, &whole);
            first += 1;
        }
        for node in nodes {
            for member in self.members[first..].iter_mut().filter(|member| !member.is_placed) {
                if table.idle(node) == 0 {
                    break;
                }
                if member.share <= table.idle(node) {
                    member.is_placed = table.place(Owner::job(member.job), member.share, &[node]);
                }
            }
            while self.members.get(first).is_some_and(|member| member.is_placed) {
                first += 1;
            }
        }
        // With powers of two on nodes of powers of two no job is left over; elsewhere the newcomer has to wait.
        if self.members.iter().any(|member| !member.is_placed) {
            return false;
        }
        world.table = table;
        for member in &self.members {
            world.job_mut(member.job).quota = Quota::new(kind, Shape::best(member.share, per_node));
        }
        true
    }
}

/// The fewest devices with which a job is done in time.
fn least_share(world: &World, job: u32) -> Option<u32> {
    let quota = world.job(job).quota;
    let overhead_s = world.options.unpruned.cost_s(quota.devices);
    let question = world.question(false);
    let doublings = std::iter::successors(Some(1_u32), |share| Some(share * 2));
    doublings.take_while(|share| *share <= world.options.devices_max).find(|&share| {
        let shape = world.site().best(quota.kind, share);
        let iteration_s = world.iteration_s(question, job, quota.kind, shape);
        iteration_s < NEVER_S && world.is_in_time(job, overhead_s, iteration_s)
    })
}

fn doubling_gain(world: &World, member: &Member, kind: Kind) -> f64 {
    let (site, share) = (world.site(), member.share);
    let (before, new) = (site.best(kind, share), site.best(kind, share * 2));
    world.gain(member.job, (kind, new), Some((kind, before)))
}

impl Rules for ElasticFlow {
    fn before(&mut self, world: &mut World) {
        world.mark_timed_out();
    }

    fn on_ends(&mut self, world: &mut World) {
        world.release_ended();
        world.retry(|world, job| match world.job(job).is_timed_out {
            true => Tried::Waits,
            false => Tried::or_blocks(self.fit(world, job)),
        });
    }

    fn on_arrivals(&mut self, world: &mut World) {
        world.take_in(|world, job| Tried::or_waits(self.fit(world, job)));
    }
}
