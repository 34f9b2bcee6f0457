//! Jobs that have changed places for nothing change back.

use super::super::table::{Owner, Table};
use super::super::world::World;

/// A job that had whole nodes and has as many other ones of the same type now gets the old ones back; the job that is there now goes
/// where it was.
pub(super) fn undo(world: &mut World, before: &Table) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for index in 0..world.running.len() {
        let job = world.running[index];
        let owner = Owner::job(job);
        before.shares_of(owner, &mut old);
        world.table.shares_of(owner, &mut new);
        let (Some(&first_old), Some(&first_new)) = (old.first(), new.first()) else { continue };
        let site = world.table.site().clone();
        let quota = world.job(job).quota;
        let is_same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| old.0 == new.0);
        let is_whole = quota.devices / old.len() as u32 >= site.per_node(quota.kind);
        let is_alike = site.kind_of(first_old.0) == site.kind_of(first_new.0)
            && old.len() == new.len()
            && first_old.1 == first_new.1;
        if is_same || !is_whole || !is_alike {
            continue;
        }
        let is_in = |shares: &[(u32, u32)], node: u32| shares.iter().any(|share| share.0 == node);
        let left = old.iter().filter(|share| !is_in(&new, share.0));
        let entered = new.iter().filter(|share| !is_in(&old, share.0));
        for (from, to) in entered.zip(left) {
            if site.devices(to.0).any(|device| world.table.owner(device) == Owner::OUT) {
                continue;
            }
            for (here, there) in site.devices(from.0).zip(site.devices(to.0)) {
                let (is_used, other) = (world.table.is_used(there), world.table.owner(there));
                world.table.set(here, is_used, other);
                world.table.set(there, true, owner);
            }
        }
    }
}
