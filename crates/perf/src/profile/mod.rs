//! How many iterations per second a workload makes on devices of a type, alone and beside others.

mod index;
mod plans;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cells::Cells;
use index::{Index, hash_name, hash_numbers};
use plans::Planned;

pub use plans::{parse_plan, plan_name};

/// What is trained, as far as speed depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The model, as traces name it.
    pub model: Arc<str>,
    /// Samples per iteration, over the whole gang.
    pub batch_size: Option<u32>,
}

impl Workload {
    /// A workload from a label such as `ResNet-18 (batch size 128)`.
    pub fn from_label(label: &str) -> Self {
        let batch = |label: &str| {
            let (model, rest) = label.split_once(" (batch size ")?;
            Some((model.to_owned(), rest.strip_suffix(')')?.parse().ok()?))
        };
        match batch(label) {
            Some((model, batch_size)) => Self { model: model.into(), batch_size: Some(batch_size) },
            None => Self { model: label.into(), batch_size: None },
        }
    }

    /// The label that [`Workload::from_label`] reads.
    pub fn label(&self) -> String {
        match self.batch_size {
            Some(batch_size) => format!("{} (batch size {batch_size})", self.model),
            None => self.model.to_string(),
        }
    }
}

/// How the devices of a gang lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On as few nodes as hold them.
    Packed,
    /// Over more nodes than that.
    Spread,
}

/// Where a workload runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The type of all devices.
    pub device_type: Arc<str>,
    /// How many.
    pub devices: u32,
    /// How they lie.
    pub locality: Locality,
}

/// One speed of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// 0 where the workload does not fit the devices.
    pub iterations_per_s: f64,
    /// Whether a model made it up; it was measured otherwise.
    pub is_estimate: bool,
}

/// The speeds of two workloads on the same devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairEntry {
    /// Of the first and of the second.
    pub iterations_per_s: [f64; 2],
    /// Whether a model made them up; they were measured otherwise.
    pub is_estimate: bool,
}

/// A workload of a profile, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadId(u32);

/// A device type of a profile, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(u32);

impl TypeId {
    /// The position.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of speeds, cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Profile(Arc<Tables>);

#[derive(Clone, Debug, Default)]
struct Tables {
    models: Vec<Model>,
    models_by_name: Index,
    workloads: Vec<Workload>,
    types: Vec<Type>,
    places: Vec<Place>,
    /// By workload, then by place; rows end with their last entry.
    alone: Vec<Vec<Option<Entry>>>,
    /// By workload and place.
    planned: BTreeMap<(u32, u32), Planned>,
    pairs: Vec<(PairKey, PairEntry)>,
    pairs_by_key: Index,
    prices: BTreeMap<Arc<str>, f64>,
    reference: Option<Arc<str>>,
    cells: Option<Cells>,
}

#[derive(Clone, Debug)]
struct Model {
    name: Arc<str>,
    /// Its workloads, by batch size.
    workloads: Vec<(Option<u32>, WorkloadId)>,
}

#[derive(Clone, Debug)]
struct Type {
    name: Arc<str>,
    /// Its places, by how they lie and how many devices they have.
    places: Vec<(Locality, u32, u32)>,
}

/// First workload, second workload, place.
type PairKey = [u32; 3];

impl Profile {
    /// Notes a measured speed in iterations per second; 0 where the workload does not fit the devices.
    pub fn insert(&mut self, workload: Workload, place: Place, iterations_per_s: f64) {
        self.insert_entry(workload, place, Entry { iterations_per_s, is_estimate: false });
    }

    /// Notes a speed.
    pub fn insert_entry(&mut self, workload: Workload, place: Place, entry: Entry) {
        let tables = Arc::make_mut(&mut self.0);
        let (workload, place) = (tables.add_workload(workload), tables.add_place(place));
        let row = &mut tables.alone[workload as usize];
        if row.len() <= place as usize {
            row.resize(place as usize + 1, None);
        }
        row[place as usize] = Some(entry);
    }

    /// Notes the measured speeds of two workloads that share the same devices.
    pub fn insert_pair(&mut self, first: Workload, second: Workload, place: Place, speeds: [f64; 2]) {
        self.insert_pair_entry(
            first,
            second,
            place,
            PairEntry { iterations_per_s: speeds, is_estimate: false },
        );
    }

    /// Notes the speeds of two workloads that share the same devices.
    pub fn insert_pair_entry(&mut self, first: Workload, second: Workload, place: Place, entry: PairEntry) {
        let tables = Arc::make_mut(&mut self.0);
        let place = tables.add_place(place);
        let (first, second) = (tables.add_workload(first), tables.add_workload(second));
        let [own, other] = entry.iterations_per_s;
        tables.put_pair([second, first, place], PairEntry { iterations_per_s: [other, own], ..entry });
        tables.put_pair([first, second, place], entry);
    }

    /// Notes what an hour of one device of a type costs.
    pub fn set_price(&mut self, device_type: &str, price_per_h: f64) {
        Arc::make_mut(&mut self.0).prices.insert(device_type.into(), price_per_h);
    }

    /// What an hour of one device of a type costs, where that is known.
    pub fn price(&self, device_type: &str) -> Option<f64> {
        self.0.prices.get(device_type).copied()
    }

    /// All prices, by type.
    pub fn prices(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        self.0.prices.iter().map(|(name, &price)| (name, price))
    }

    /// States which type jobs mean that tell their speed and no type.
    pub fn set_reference(&mut self, device_type: &str) {
        Arc::make_mut(&mut self.0).reference = Some(device_type.into());
    }

    /// The type that was said to be the one that jobs mean, where any was.
    pub fn told_reference(&self) -> Option<&Arc<str>> {
        self.0.reference.as_ref()
    }

    /// Notes the exact cells that the speeds come from.
    pub fn set_cells(&mut self, cells: Cells) {
        Arc::make_mut(&mut self.0).cells = Some(cells);
    }

    /// The exact cells that the speeds come from, where it has any.
    pub fn cells(&self) -> Option<&Cells> {
        self.0.cells.as_ref()
    }

    /// The speed of a workload by itself.
    pub fn alone(&self, workload: &Workload, place: &Place) -> Option<f64> {
        let id = self.workload(&workload.model, workload.batch_size)?;
        let device_type = self.device_type(&place.device_type)?;
        self.entry(id, device_type, place.devices, place.locality).map(|entry| entry.iterations_per_s)
    }

    /// The speeds of two workloads on the same devices, of the first and of the second.
    pub fn beside(&self, first: &Workload, second: &Workload, place: &Place) -> Option<[f64; 2]> {
        let id = |workload: &Workload| self.workload(&workload.model, workload.batch_size);
        let device_type = self.device_type(&place.device_type)?;
        let entry = self.pair_entry(id(first)?, id(second)?, device_type, place.devices, place.locality)?;
        Some(entry.iterations_per_s)
    }

    /// Whether there is no speed at all.
    pub fn is_empty(&self) -> bool {
        self.0.workloads.is_empty()
    }

    /// All speeds of workloads by themselves, by workload and place.
    pub fn entries(&self) -> impl Iterator<Item = (&Workload, &Place, f64)> {
        self.all_entries().map(|(workload, place, entry)| (workload, place, entry.iterations_per_s))
    }

    /// As [`Profile::entries`], with where they come from.
    pub fn all_entries(&self) -> impl Iterator<Item = (&Workload, &Place, Entry)> {
        let tables = &*self.0;
        let mut all: Vec<(&Workload, &Place, Entry)> = tables
            .workloads
            .iter()
            .zip(&tables.alone)
            .flat_map(|(workload, row)| {
                row.iter()
                    .zip(&tables.places)
                    .filter_map(move |(entry, place)| Some((workload, place, (*entry)?)))
            })
            .collect();
        all.sort_by_key(|&(workload, place, _)| (workload, place));
        all.into_iter()
    }

    /// All pairs, each in both orders, by workloads and place.
    pub fn pairs(&self) -> impl Iterator<Item = (&Workload, &Workload, &Place, [f64; 2])> {
        self.all_pairs().map(|(first, second, place, entry)| (first, second, place, entry.iterations_per_s))
    }

    /// As [`Profile::pairs`], with where they come from.
    pub fn all_pairs(&self) -> impl Iterator<Item = (&Workload, &Workload, &Place, PairEntry)> {
        let tables = &*self.0;
        let mut all: Vec<(&Workload, &Workload, &Place, PairEntry)> = tables
            .pairs
            .iter()
            .map(|&([first, second, place], entry)| {
                let workload = |id: u32| &tables.workloads[id as usize];
                (workload(first), workload(second), &tables.places[place as usize], entry)
            })
            .collect();
        all.sort_by_key(|&(first, second, place, _)| (first, second, place));
        all.into_iter()
    }

    /// The device types that there are speeds of, by first appearance.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, &Arc<str>)> {
        self.0.types.iter().enumerate().map(|(index, known)| (TypeId(index as u32), &known.name))
    }

    /// The id of a device type.
    #[inline]
    pub fn device_type(&self, name: &str) -> Option<TypeId> {
        self.0.types.iter().position(|known| &*known.name == name).map(|index| TypeId(index as u32))
    }

    /// The name of a device type.
    #[inline]
    pub fn type_name(&self, id: TypeId) -> &Arc<str> {
        &self.0.types[id.index()].name
    }

    /// The id of a workload.
    #[inline]
    pub fn workload(&self, model: &str, batch_size: Option<u32>) -> Option<WorkloadId> {
        let found = self.model(model)?.workloads.iter().find(|(batch, _)| *batch == batch_size);
        found.map(|&(_, id)| id)
    }

    /// What a workload is.
    pub fn workload_of(&self, id: WorkloadId) -> &Workload {
        &self.0.workloads[id.0 as usize]
    }

    /// All workloads.
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadId> {
        (0..self.0.workloads.len() as u32).map(WorkloadId)
    }

    /// The workload of a model whose batch size is nearest, by ratio: the one itself; one of any batch size; the nearest,
    /// and of two equally near the smaller; the smallest where the batch size is not known.
    pub fn nearest_workload(&self, model: &str, batch_size: Option<u32>) -> Option<WorkloadId> {
        let known = &self.model(model)?.workloads;
        let exact = known.iter().find(|(batch, _)| *batch == batch_size);
        let any = || known.iter().find(|(batch, _)| batch.is_none());
        let distance = |batch: Option<u32>| {
            let ratio = f64::from(batch.unwrap_or(1).max(1)) / f64::from(batch_size.unwrap_or(1).max(1));
            ratio.max(1.0 / ratio)
        };
        let near = || known.iter().min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)));
        exact.or_else(any).or_else(near).map(|&(_, id)| id)
    }

    /// A speed alone.
    #[inline]
    pub fn entry(
        &self,
        workload: WorkloadId,
        device_type: TypeId,
        devices: u32,
        locality: Locality,
    ) -> Option<Entry> {
        let place = self.0.place(device_type, devices, locality)?;
        *self.0.alone[workload.0 as usize].get(place as usize)?
    }

    /// The speeds of two workloads on the same devices.
    #[inline]
    pub fn pair_entry(
        &self,
        first: WorkloadId,
        second: WorkloadId,
        device_type: TypeId,
        devices: u32,
        locality: Locality,
    ) -> Option<PairEntry> {
        let place = self.0.place(device_type, devices, locality)?;
        self.0.pair([first.0, second.0, place])
    }

    /// The speeds of a workload on a type by how many devices there are, ascending.
    pub fn curve(
        &self,
        workload: WorkloadId,
        device_type: TypeId,
        locality: Locality,
    ) -> impl Iterator<Item = (u32, Entry)> {
        let row = &self.0.alone[workload.0 as usize];
        let places = &self.0.types[device_type.0 as usize].places;
        places
            .iter()
            .filter(move |(lies, ..)| *lies == locality)
            .filter_map(|&(_, devices, place)| Some((devices, (*row.get(place as usize)?)?)))
    }

    #[inline]
    fn model(&self, name: &str) -> Option<&Model> {
        let tables = &*self.0;
        let found = tables.models_by_name.find(hash_name(name), |model| &*tables.models[model].name == name);
        found.map(|model| &tables.models[model])
    }
}

impl PartialEq for Profile {
    /// By what is in them, not by the order in which it came there.
    fn eq(&self, other: &Self) -> bool {
        self.all_entries().eq(other.all_entries())
            && self.all_plans().eq(other.all_plans())
            && self.all_pairs().eq(other.all_pairs())
            && self.0.prices == other.0.prices
            && self.0.reference == other.0.reference
            && self.0.cells == other.0.cells
    }
}

impl Tables {
    fn add_workload(&mut self, workload: Workload) -> u32 {
        let name = &*workload.model;
        let known = self.models_by_name.find(hash_name(name), |model| &*self.models[model].name == name);
        let model = known.unwrap_or_else(|| {
            self.models.push(Model { name: workload.model.clone(), workloads: vec![] });
            self.models_by_name.push(|model| hash_name(&self.models[model].name));
            self.models.len() - 1
        });
        let workloads = &mut self.models[model].workloads;
        match workloads.binary_search_by_key(&workload.batch_size, |&(batch, _)| batch) {
            Ok(position) => workloads[position].1.0,
            Err(position) => {
                let id = self.workloads.len() as u32;
                workloads.insert(position, (workload.batch_size, WorkloadId(id)));
                self.workloads.push(workload);
                self.alone.push(vec![]);
                id
            }
        }
    }

    fn add_place(&mut self, place: Place) -> u32 {
        let known = self.types.iter().position(|known| known.name == place.device_type);
        let index = known.unwrap_or_else(|| {
            self.types.push(Type { name: place.device_type.clone(), places: vec![] });
            self.types.len() - 1
        });
        let places = &mut self.types[index].places;
        let key = (place.locality, place.devices);
        match places.binary_search_by_key(&key, |&(locality, devices, _)| (locality, devices)) {
            Ok(position) => places[position].2,
            Err(position) => {
                let id = self.places.len() as u32;
                places.insert(position, (place.locality, place.devices, id));
                self.places.push(place);
                id
            }
        }
    }

    #[inline]
    fn place(&self, device_type: TypeId, devices: u32, locality: Locality) -> Option<u32> {
        let places = &self.types[device_type.0 as usize].places;
        places.iter().find(|&&(lies, count, _)| (lies, count) == (locality, devices)).map(|&(.., id)| id)
    }

    #[inline]
    fn pair(&self, key: PairKey) -> Option<PairEntry> {
        let found = self.pairs_by_key.find(hash_numbers(key), |pair| self.pairs[pair].0 == key);
        found.map(|pair| self.pairs[pair].1)
    }

    fn put_pair(&mut self, key: PairKey, entry: PairEntry) {
        match self.pairs_by_key.find(hash_numbers(key), |pair| self.pairs[pair].0 == key) {
            Some(pair) => self.pairs[pair].1 = entry,
            None => {
                self.pairs.push((key, entry));
                self.pairs_by_key.push(|pair| hash_numbers(self.pairs[pair].0));
            }
        }
    }
}
