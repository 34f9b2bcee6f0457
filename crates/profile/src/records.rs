//! What is known, entry by entry: more than the speeds, and where they come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_perf::cells::Cells;
use wharf_perf::{Entry, Locality, PairEntry, Place, Profile, Workload};
use wharf_planner::comm::{CommTables, Route};

use crate::choice::Choice;
use crate::tally::Tally;

/// Who states what follows from cells.
const CELLS_SOURCE: &str = "exact cells";

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// What is trained.
    pub workload: Workload,
    /// On what.
    pub place: Place,
    /// The parallel plan, such as `pp2.dp4.tp1`, or any other name; empty where none is told.
    pub plan: String,
    /// What else runs on the same devices, in order.
    pub beside: Vec<Workload>,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// 0 where it does not fit.
    pub iterations_per_s: f64,
    /// Most memory of a device that it needs, where known.
    pub memory_mib: Option<f64>,
    /// Whether a model made it up.
    pub is_estimate: bool,
    /// Who states this: a file, a machine, a model.
    pub source: String,
    /// When it was measured, or taken in, as RFC 3339 writes it; empty if not recorded.
    pub recorded: String,
}

/// What an hour of one device costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// In whatever currency all prices are.
    pub per_hour: f64,
    /// Who states this.
    pub source: String,
}

/// Everything that a profile knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    entries: BTreeMap<Key, Facts>,
    prices: BTreeMap<Arc<str>, Price>,
    /// The type that jobs mean that tell their speed and no type.
    pub reference: Option<Arc<str>>,
    /// What moving data between devices costs.
    pub comm: CommTables,
    /// The exact cells that speeds come from.
    pub cells: Option<Cells>,
}

/// An entry that says something else than before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What it is about.
    pub key: Key,
    /// Before.
    pub before: Facts,
    /// After.
    pub after: Facts,
}

impl Change {
    /// How many times faster than before; `None` where it did not fit before.
    pub fn ratio(&self) -> Option<f64> {
        let before = self.before.iterations_per_s;
        (before > 0.0).then(|| self.after.iterations_per_s / before)
    }
}

/// How two profiles differ, or what adding one to another does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Entries that only the second has.
    pub new: Vec<Key>,
    /// Entries that only the first has.
    pub gone: Vec<Key>,
    /// Entries with another speed, memory, or word on whether they were measured.
    pub changed: Vec<Change>,
    /// Entries that say the same.
    pub equal: usize,
    /// Types with a new or another price.
    pub prices: Vec<Arc<str>>,
    /// Times, memory, devices and families of exact cells.
    pub cells: Tally,
    /// Communication times.
    pub comm: Tally,
}

impl Changes {
    /// The same, where the second was added to the first: nothing goes.
    #[must_use]
    pub fn of_addition(mut self) -> Self {
        self.gone.clear();
        (self.cells.gone, self.comm.gone) = (0, 0);
        self
    }
}

impl Facts {
    /// Whether both have the same values, regardless of source and time.
    fn agrees(&self, other: &Self) -> bool {
        (self.iterations_per_s, self.memory_mib, self.is_estimate)
            == (other.iterations_per_s, other.memory_mib, other.is_estimate)
    }
}

impl Records {
    /// What a table of speeds says, on the word of `source`.
    pub fn of_profile(profile: &Profile, source: &str) -> Self {
        let mut records = Self {
            reference: profile.told_reference().cloned(),
            cells: profile.cells().cloned(),
            ..Self::default()
        };
        let facts = |iterations_per_s, is_estimate| Facts {
            iterations_per_s,
            memory_mib: None,
            is_estimate,
            source: source.to_owned(),
            recorded: String::new(),
        };
        let key = |workload: &Workload, place: &Place, beside: Vec<Workload>| Key {
            workload: workload.clone(),
            place: place.clone(),
            plan: String::new(),
            beside,
        };
        for (workload, place, entry) in profile.all_entries() {
            let facts = facts(entry.iterations_per_s, entry.is_estimate);
            records.entries.insert(key(workload, place, vec![]), facts);
        }
        for (first, second, place, entry) in profile.all_pairs() {
            let facts = facts(entry.iterations_per_s[0], entry.is_estimate);
            records.entries.insert(key(first, place, vec![second.clone()]), facts);
        }
        for (name, per_hour) in profile.prices() {
            records.set_price(name, Price { per_hour, source: source.to_owned() });
        }
        records
    }

    /// The table of speeds that runs use. Of several plans one counts: see [`Choice`]. Entries with several neighbours, and
    /// pairs of which only one side is known, have no place in it.
    pub fn profile(&self) -> Profile {
        let mut profile = Profile::default();
        let mut best: BTreeMap<(&Workload, &Place, &[Workload]), Choice<'_>> = BTreeMap::new();
        let derived = self.derived();
        let derived = derived.iter().filter(|(key, _)| !self.entries.contains_key(key));
        for (key, facts) in self.entries.iter().chain(derived) {
            best.entry((&key.workload, &key.place, &key.beside))
                .and_modify(|choice| choice.look(&key.plan, facts))
                .or_insert_with(|| Choice::new(key.place.devices, &key.plan, facts));
        }
        for (&(workload, place, beside), choice) in &best {
            let Entry { iterations_per_s, is_estimate } = choice.entry();
            match beside {
                [] => {
                    profile.insert_entry(workload.clone(), place.clone(), choice.entry());
                    if let Some(plan) = choice.plan() {
                        profile.insert_plan(workload.clone(), place.clone(), plan);
                    }
                    if let Some(entry) = self.data_parallel(workload, place, choice) {
                        profile.insert_data_parallel(workload.clone(), place.clone(), entry);
                    }
                }
                [other] => {
                    let own = std::slice::from_ref(workload);
                    let Some(theirs) = best.get(&(other, place, own)).map(Choice::entry) else { continue };
                    let entry = PairEntry {
                        iterations_per_s: [iterations_per_s, theirs.iterations_per_s],
                        is_estimate: is_estimate || theirs.is_estimate,
                    };
                    profile.insert_pair_entry(workload.clone(), other.clone(), place.clone(), entry);
                }
                _ => {}
            }
        }
        for (name, price) in &self.prices {
            profile.set_price(name, price.per_hour);
        }
        if let Some(reference) = &self.reference {
            profile.set_reference(reference);
        }
        if let Some(cells) = &self.cells {
            profile.set_cells(cells.clone());
        }
        profile
    }

    /// How fast data parallelism is, where it is known: not at all where a copy does not fit a device.
    fn data_parallel(&self, workload: &Workload, place: &Place, choice: &Choice<'_>) -> Option<Entry> {
        let fits = |cells: &Cells| cells.data_parallel_fits(workload, &place.device_type, place.devices);
        match self.cells.as_ref().and_then(fits) {
            Some(false) => Some(Entry { iterations_per_s: 0.0, is_estimate: true }),
            _ => choice.data_parallel(),
        }
    }

    /// What the cells say of places; entries count more.
    fn derived(&self) -> BTreeMap<Key, Facts> {
        match &self.cells {
            Some(cells) if cells.times().next().is_some() => {
                Self::of_profile(&cells.speeds(), CELLS_SOURCE).entries
            }
            _ => BTreeMap::new(),
        }
    }

    /// Writes out what the cells say of places as entries, for those who do not know cells.
    pub fn unfold(&mut self) {
        for (key, facts) in self.derived() {
            self.entries.entry(key).or_insert(facts);
        }
    }

    /// Notes an entry, instead of what there was.
    pub fn insert(&mut self, mut key: Key, facts: Facts) {
        key.beside.sort();
        self.entries.insert(key, facts);
    }

    /// Notes a price, instead of what there was.
    pub fn set_price(&mut self, device_type: &str, price: Price) {
        self.prices.insert(device_type.into(), price);
    }

    /// Takes in what others know, which counts more, and states what that changed. What was there stays.
    pub fn add(&mut self, other: Self) -> Changes {
        let changes = self.changes_to(&other).of_addition();
        for (key, facts) in other.entries {
            let is_known = self.entries.get(&key).is_some_and(|known| known.agrees(&facts));
            if !is_known {
                self.entries.insert(key, facts);
            }
        }
        self.prices.extend(other.prices);
        self.reference = other.reference.or(self.reference.take());
        self.comm.add(other.comm);
        if let Some(cells) = other.cells {
            self.cells.get_or_insert_default().add(cells);
        }
        changes
    }

    /// How another profile differs from this one.
    pub fn changes_to(&self, other: &Self) -> Changes {
        let mut changes = Changes::default();
        for (key, facts) in &other.entries {
            match self.entries.get(key) {
                None => changes.new.push(key.clone()),
                Some(before) if before.agrees(facts) => changes.equal += 1,
                Some(before) => changes.changed.push(Change {
                    key: key.clone(),
                    before: before.clone(),
                    after: facts.clone(),
                }),
            }
        }
        changes.gone = self.entries.keys().filter(|key| !other.entries.contains_key(key)).cloned().collect();
        let price = |records: &Self, name: &Arc<str>| records.prices.get(name).map(|price| price.per_hour);
        let is_other = |name: &&Arc<str>| price(self, name) != price(other, name);
        changes.prices = other.prices.keys().filter(is_other).cloned().collect();
        changes.cells = cells_tally(self.cells.as_ref(), other.cells.as_ref());
        changes.comm = Tally::of(points(&self.comm), points(&other.comm));
        changes
    }

    /// Sets the time of records without one.
    pub fn date(&mut self, now: &str) {
        for facts in self.entries.values_mut().filter(|facts| facts.recorded.is_empty()) {
            now.clone_into(&mut facts.recorded);
        }
    }

    /// Changes what entries say.
    pub fn update(&mut self, change: impl Fn(&Key, &mut Facts)) {
        self.entries.iter_mut().for_each(|(key, facts)| change(key, facts));
    }

    /// Says who says all this.
    pub fn set_source(&mut self, source: &str) {
        self.entries.values_mut().for_each(|facts| source.clone_into(&mut facts.source));
        self.prices.values_mut().for_each(|price| source.clone_into(&mut price.source));
    }

    /// Keeps the entries that are wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Key, &Facts) -> bool) {
        self.entries.retain(|key, facts| is_wanted(key, facts));
    }

    /// What an entry says.
    pub fn get(&self, key: &Key) -> Option<&Facts> {
        self.entries.get(key)
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&Key, &Facts)> {
        self.entries.iter()
    }

    /// All prices, by type.
    pub fn prices(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Price)> {
        self.prices.iter()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.prices.is_empty()
            && self.cells.as_ref().is_none_or(Cells::is_empty)
            && self.comm.is_empty()
    }
}

/// How exact cells differ.
fn cells_tally(before: Option<&Cells>, after: Option<&Cells>) -> Tally {
    let nothing = Cells::default();
    let (before, after) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
    let times = |cells: &'_ Cells| -> Vec<_> {
        cells.times().map(|(workload, cell, time_s)| ((workload.clone(), cell.clone()), time_s)).collect()
    };
    let memory = |cells: &Cells| -> Vec<_> {
        cells.memory().map(|(workload, row)| (workload.clone(), row.to_vec())).collect()
    };
    Tally::of(times(before).into_iter(), times(after).into_iter())
        + Tally::of(memory(before).into_iter(), memory(after).into_iter())
        + Tally::of(before.devices(), after.devices())
        + Tally::of(before.families(), after.families())
}

/// Communication times by what they are about.
fn points(comm: &CommTables) -> impl Iterator<Item = ((&Route, u64), f64)> {
    comm.curves().flat_map(|(route, curve)| {
        curve.points().map(move |(elements, seconds)| ((route, elements), seconds))
    })
}

/// How localities are written.
pub fn locality_name(locality: Locality) -> &'static str {
    match locality {
        Locality::Packed => "packed",
        Locality::Spread => "spread",
    }
}

/// The locality of that name; nothing means packed.
pub(crate) fn locality(name: &str) -> Option<Locality> {
    match name {
        "" | "packed" => Some(Locality::Packed),
        "spread" => Some(Locality::Spread),
        _ => None,
    }
}
