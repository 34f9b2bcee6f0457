//! Who is owed how much time on which device type.
//!
//! An allocation promises shares of time; a round gives whole devices. What was promised and not given is a *deficit*, in
//! seconds, and the job with the largest deficit goes first. Deficits grow with the shares in force, so a new allocation changes
//! what happens from then on and forgets nothing.

use std::collections::BTreeMap;

use wharf_core::{JobId, Time};

use super::problem::{Allocation, Combo};

/// Rounds of deficit that are remembered: what could not be given for longer is not made up for.
const OWED_ROUNDS_MAX: f64 = 10.0;

/// One combination's shares, and what it is owed.
#[derive(Clone, Debug)]
struct Account {
    shares: Vec<f64>,
    deficits_s: Vec<f64>,
}

/// The accounts of all combinations that have a share, or are owed time.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<Combo, Account>,
    /// Until when shares have been credited.
    credited: Option<Time>,
    has_pairs: bool,
}

impl Ledger {
    /// Credits what was promised up to now. What is owed stays within bounds: devices that no other job wanted are not held
    /// against a job for longer than a round.
    pub(super) fn credit(&mut self, now: Time, round_s: f64) {
        let elapsed_s = self.credited.replace(now).map_or(0.0, |before| now.since(before).max(0.0));
        for account in self.accounts.values_mut() {
            for (deficit_s, share) in account.deficits_s.iter_mut().zip(&account.shares) {
                *deficit_s = (*deficit_s + share * elapsed_s).clamp(-round_s, OWED_ROUNDS_MAX * round_s);
            }
        }
    }

    /// Charges time that a combination had on devices of a type.
    pub(super) fn charge(&mut self, combo: Combo, device_type: usize, seconds: f64) {
        if let Some(deficit_s) =
            self.accounts.get_mut(&combo).and_then(|account| account.deficits_s.get_mut(device_type))
        {
            *deficit_s -= seconds;
        }
    }

    /// Lets a new allocation hold from now on. Combinations without a share in it lose what they were owed; their jobs
    /// have other combinations.
    pub(super) fn replace(&mut self, allocation: Allocation) {
        let mut before = std::mem::take(&mut self.accounts);
        self.has_pairs = allocation.shares.iter().any(|(combo, _)| combo.second.is_some());
        for (combo, shares) in allocation.shares {
            let known = before.remove(&combo).map(|account| account.deficits_s);
            let mut deficits_s = known.unwrap_or_default();
            deficits_s.resize(shares.len(), 0.0);
            self.accounts.insert(combo, Account { shares, deficits_s });
        }
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.accounts.remove(&Combo::single(job));
        if self.has_pairs {
            self.accounts.retain(|combo, _| combo.jobs().all(|member| member != job));
        }
    }

    /// A combination's share of the time on a type.
    pub(super) fn share(&self, combo: Combo, device_type: usize) -> f64 {
        self.accounts.get(&combo).and_then(|account| account.shares.get(device_type)).copied().unwrap_or(0.0)
    }

    /// All shares with what is owed on them: combination, device type, share, deficit.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Combo, usize, f64, f64)> {
        self.accounts.iter().flat_map(|(&combo, account)| {
            let pairs = account.shares.iter().zip(&account.deficits_s).enumerate();
            pairs.map(move |(kind, (&share, &deficit_s))| (combo, kind, share, deficit_s))
        })
    }
}
