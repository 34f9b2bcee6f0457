//! Who has used how much: device-seconds that fade, by user and by group, and the order that follows from them.
//!
//! All usage fades alike, so nothing is faded: what is used later counts for more instead, and the unit grows. An
//! account's usage then is a line over the *growth* of the unit, with a slope that depends on its running devices only.
//! Accounts with equal devices and weights keep their order while time passes, so sorted sets can hold them; to find
//! the first of all, one checks the first of each set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::Time;

use crate::priority::Key;

/// Half-lives after which the unit begins again, long before numbers overflow.
const HALF_LIVES_MAX: f64 = 64.0;

/// Who shares, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// Weights of users; 1 where not named.
    pub users: BTreeMap<String, f64>,
    /// Weights of groups; 1 where not named.
    pub groups: BTreeMap<String, f64>,
    /// The groups of users. Who has none counts as a group of one, with the user's weight.
    pub group_of: BTreeMap<String, String>,
}

/// How usage is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// Seconds after which usage counts half; 0: it never fades.
    pub(super) half_life_s: f64,
    /// What runs is charged for so many seconds in advance.
    pub(super) ahead_s: f64,
    origin: Time,
}

impl Unit {
    pub(super) fn new(half_life_s: f64, ahead_s: f64) -> Self {
        Self { half_life_s, ahead_s, origin: Time::ZERO }
    }

    /// What a device-second counts at that time; 1 at the origin.
    fn scale(&self, time: Time) -> f64 {
        if self.half_life_s > 0.0 { (time.since(self.origin) / self.half_life_s).exp2() } else { 1.0 }
    }

    /// What one device has used from the origin to that time.
    fn growth(&self, time: Time) -> f64 {
        if self.half_life_s > 0.0 {
            self.half_life_s / std::f64::consts::LN_2 * (self.scale(time) - 1.0)
        } else {
            time.since(self.origin)
        }
    }

    /// What one device is charged in advance at that time.
    fn advance(&self, time: Time) -> f64 {
        self.ahead_s * self.scale(time)
    }

    fn is_worn(&self, time: Time) -> bool {
        self.half_life_s > 0.0 && time.since(self.origin) > self.half_life_s * HALF_LIVES_MAX
    }
}

/// What a user or a group has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    weight: f64,
    /// Usage less `devices` times the growth.
    base: f64,
    /// Devices in use now.
    devices: u32,
}

impl Account {
    fn new(weight: f64) -> Self {
        Self { weight, base: 0.0, devices: 0 }
    }

    /// Usage in the unit of that time, without the advance.
    fn used(&self, unit: &Unit, time: Time) -> f64 {
        (self.base + f64::from(self.devices) * unit.growth(time)).max(0.0)
    }

    /// Usage per weight, with the advance for `more` devices than there are.
    fn level(&self, unit: &Unit, time: Time, more: i64) -> f64 {
        let ahead = (i64::from(self.devices) + more) as f64 * unit.advance(time);
        (self.used(unit, time) + ahead) / self.weight
    }

    fn place(&self) -> Place {
        ((self.devices, self.weight.to_bits()), Key::of(self.base))
    }
}

/// Devices and weight, which decide how fast a level rises; and the place among those who are alike in that.
type Place = ((u32, u64), Key);

/// Accounts that want devices, in an order that stands still while time passes.
#[derive(Debug, Default)]
struct Ranking {
    alike: BTreeMap<(u32, u64), BTreeSet<(Key, usize)>>,
}

impl Ranking {
    fn insert(&mut self, index: usize, account: &Account) {
        let (slope, base) = account.place();
        self.alike.entry(slope).or_default().insert((base, index));
    }

    fn remove(&mut self, index: usize, account: &Account) -> bool {
        let (slope, base) = account.place();
        let Some(set) = self.alike.get_mut(&slope) else { return false };
        let is_removed = set.remove(&(base, index));
        if set.is_empty() {
            self.alike.remove(&slope);
        }
        is_removed
    }

    fn is_empty(&self) -> bool {
        self.alike.is_empty()
    }

    /// The one with the least usage per weight.
    fn first(&self, level: impl Fn(usize) -> f64) -> Option<usize> {
        let heads = self.alike.values().filter_map(|set| set.first());
        heads.map(|&(_, index)| (Key::of(level(index)), index)).min().map(|(_, index)| index)
    }
}

#[derive(Debug)]
struct User {
    group: usize,
    account: Account,
}

#[derive(Debug)]
struct Group {
    account: Account,
    wanting: Ranking,
}

/// All accounts, and who of them wants devices.
pub(super) struct Ledger {
    unit: Unit,
    shares: Shares,
    users: Vec<User>,
    groups: Vec<Group>,
    user_ids: BTreeMap<Arc<str>, usize>,
    /// Groups by name; those of one by their user's.
    group_ids: BTreeMap<(bool, String), usize>,
    wanting: Ranking,
}

impl Ledger {
    pub(super) fn new(unit: Unit, shares: Shares) -> Self {
        Self {
            unit,
            shares,
            users: Vec::new(),
            groups: Vec::new(),
            user_ids: BTreeMap::new(),
            group_ids: BTreeMap::new(),
            wanting: Ranking::default(),
        }
    }

    /// The account of a user; jobs without one share one account.
    pub(super) fn user(&mut self, name: Option<&Arc<str>>) -> usize {
        let no_user: Arc<str> = Arc::from("");
        let name = name.unwrap_or(&no_user);
        if let Some(&user) = self.user_ids.get(name) {
            return user;
        }
        let weight = self.shares.users.get(&**name).copied().unwrap_or(1.0);
        let (key, group_weight) = match self.shares.group_of.get(&**name) {
            Some(group) => ((true, group.clone()), self.shares.groups.get(group).copied().unwrap_or(1.0)),
            None => ((false, name.to_string()), weight),
        };
        let next = self.groups.len();
        let group = *self.group_ids.entry(key).or_insert(next);
        if group == next {
            self.groups.push(Group { account: Account::new(group_weight), wanting: Ranking::default() });
        }
        self.users.push(User { group, account: Account::new(weight) });
        self.user_ids.insert(name.clone(), self.users.len() - 1);
        self.users.len() - 1
    }

    /// Charges a user for devices from `since` on.
    pub(super) fn start(&mut self, user: usize, devices: u32, since: Time) {
        let used = f64::from(devices) * self.unit.growth(since);
        self.change(user, |account| {
            account.base -= used;
            account.devices += devices;
        });
    }

    /// Charges a user no longer.
    pub(super) fn stop(&mut self, user: usize, devices: u32, until: Time) {
        let used = f64::from(devices) * self.unit.growth(until);
        self.change(user, |account| {
            account.base += used;
            account.devices -= devices;
            if account.devices == 0 {
                // Rounding must not leave a debt.
                account.base = account.base.max(0.0);
            }
        });
    }

    /// Charges a user for what was used at some time in the past.
    pub(super) fn charge(&mut self, user: usize, device_s: f64, at: Time) {
        let used = device_s * self.unit.scale(at);
        self.change(user, |account| account.base += used);
    }

    fn change(&mut self, user: usize, change: impl Fn(&mut Account)) {
        let group_id = self.users[user].group;
        let is_wanting = self.withdraw(user);
        let was_group_wanting = self.wanting.remove(group_id, &self.groups[group_id].account);
        change(&mut self.users[user].account);
        change(&mut self.groups[group_id].account);
        if was_group_wanting {
            self.wanting.insert(group_id, &self.groups[group_id].account);
        }
        if is_wanting {
            self.want(user);
        }
    }

    /// A user wants devices.
    pub(super) fn want(&mut self, user: usize) {
        let User { group: group_id, account } = &self.users[user];
        let group = &mut self.groups[*group_id];
        if group.wanting.is_empty() {
            self.wanting.insert(*group_id, &group.account);
        }
        group.wanting.insert(user, account);
    }

    /// A user does not want devices, or cannot use what there is. Returns whether that is new.
    pub(super) fn withdraw(&mut self, user: usize) -> bool {
        let User { group: group_id, account } = &self.users[user];
        let group = &mut self.groups[*group_id];
        let is_removed = group.wanting.remove(user, account);
        if is_removed && group.wanting.is_empty() {
            self.wanting.remove(*group_id, &group.account);
        }
        is_removed
    }

    /// Whose turn it is: of those who want devices, of the group with the least usage per weight, the user with the least.
    pub(super) fn first(&self, now: Time) -> Option<usize> {
        let group = self.wanting.first(|index| self.groups[index].account.level(&self.unit, now, 0))?;
        self.groups[group].wanting.first(|index| self.users[index].account.level(&self.unit, now, 0))
    }

    /// Usage per weight of two users, with `more` devices each, where they meet: that of their groups, or their own within
    /// one group.
    pub(super) fn levels(&self, now: Time, one: (usize, i64), other: (usize, i64)) -> (f64, f64) {
        let (a, b) = (&self.users[one.0], &self.users[other.0]);
        let level = |account: &Account, more| account.level(&self.unit, now, more);
        if a.group == b.group {
            (level(&a.account, one.1), level(&b.account, other.1))
        } else {
            let account = |user: &User| self.groups[user.group].account;
            (level(&account(a), one.1), level(&account(b), other.1))
        }
    }

    /// Device-hours per weight that count at present, of two users where they meet.
    pub(super) fn used_h(&self, now: Time, one: usize, other: usize) -> (f64, f64) {
        let (a, b) = self.levels(now, (one, 0), (other, 0));
        let hours = 3600.0 * self.unit.scale(now);
        (a / hours, b / hours)
    }

    /// Users with running jobs.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> {
        self.users.iter().enumerate().filter(|(_, user)| user.account.devices > 0).map(|(index, _)| index)
    }

    /// Begins the unit again where it has become large: every so many half-lives.
    pub(super) fn renew(&mut self, now: Time) {
        if !self.unit.is_worn(now) {
            return;
        }
        let wanting: Vec<usize> = (0..self.users.len()).filter(|&user| self.withdraw(user)).collect();
        let old = self.unit;
        self.unit.origin = now;
        let accounts = self.users.iter_mut().map(|user| &mut user.account);
        for account in accounts.chain(self.groups.iter_mut().map(|group| &mut group.account)) {
            account.base = account.used(&old, now) / old.scale(now);
        }
        for user in wanting {
            self.want(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: f64 = 3600.0;

    fn at(hours: f64) -> Time {
        Time::from_seconds(hours * HOUR_S)
    }

    fn ledger(half_life_h: f64, weights: &[(&str, f64)]) -> (Ledger, usize, usize) {
        let users = weights.iter().map(|&(name, weight)| (name.to_owned(), weight)).collect();
        let shares = Shares { users, ..Shares::default() };
        let mut ledger = Ledger::new(Unit::new(half_life_h * HOUR_S, 0.0), shares);
        let (a, b) = (ledger.user(Some(&"a".into())), ledger.user(Some(&"b".into())));
        ledger.want(a);
        ledger.want(b);
        (ledger, a, b)
    }

    #[test]
    fn usage_fades_by_half_in_a_half_life_and_counts_what_runs() {
        for origin in [0.0, 1000.0] {
            let (mut ledger, a, b) = ledger(1.0, &[]);
            ledger.renew(at(origin));
            ledger.start(a, 4, at(origin));
            let (used, _) = ledger.used_h(at(origin + 1.0), a, b);
            // The integral of 2^(-t) over one half-life, times four devices.
            assert!((used - 2.0 / std::f64::consts::LN_2).abs() < 1e-9, "{used}");
            ledger.stop(a, 4, at(origin + 1.0));
            let (later, _) = ledger.used_h(at(origin + 2.0), a, b);
            assert!((later - used / 2.0).abs() < 1e-9, "{later}");
        }
    }

    #[test]
    fn order_changes_by_use_only() {
        let (mut ledger, a, b) = ledger(1.0, &[("b", 2.0)]);
        ledger.charge(a, 100.0, at(0.0));
        ledger.charge(b, 150.0, at(0.0));
        for hours in [0.0, 5.0, 63.0, 65.0, 300.0] {
            ledger.renew(at(hours));
            assert_eq!(ledger.first(at(hours)), Some(b), "after {hours} h");
        }
        ledger.start(b, 1, at(300.0));
        assert_eq!(ledger.first(at(301.0)), Some(a));
    }

    #[test]
    fn users_meet_in_their_groups() {
        let group_of = [("a", "x"), ("b", "x")].map(|(user, group)| (user.to_owned(), group.to_owned()));
        let shares = Shares { group_of: group_of.into(), ..Shares::default() };
        let mut ledger = Ledger::new(Unit::new(0.0, 0.0), shares);
        let [a, b, c] = ["a", "b", "c"].map(|name| ledger.user(Some(&name.into())));
        for user in [a, b, c] {
            ledger.want(user);
        }
        ledger.charge(a, 60.0, at(0.0));
        ledger.charge(c, 50.0, at(0.0));
        assert_eq!(ledger.first(at(0.0)), Some(c), "its group of one has used less than the other");
        ledger.charge(c, 20.0, at(0.0));
        assert_eq!(ledger.first(at(0.0)), Some(b), "within the group, the one who has used nothing");
        ledger.withdraw(b);
        assert_eq!(ledger.first(at(0.0)), Some(a));
    }
}
