//! Iteration times by exact cell (device type, hosts, devices of each), as Crius's tables have them, and the rules by which those
//! are asked: what was not measured is taken from the best locality, or from the next larger model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::profile::{Locality, Place, Profile, Workload};

/// What separates a model's family from its size in its name.
const FAMILY_END: &str = "__";
/// What half the devices on a host cost, where it was not measured.
const LOCALITY_FACTOR: f64 = 0.9;
/// How much faster than the next larger one a model is.
const SIZE_FACTOR: f64 = 1.8;
/// Iterations that take longer than this count as impossible.
const ITERATION_MAX_S: f64 = 300.0;
/// Memory that a data-parallel copy needs beyond what the table says.
const MEMORY_MARGIN: f64 = 1.2;
/// The part of a device's memory that a job can use.
const MEMORY_USABLE: f64 = 0.8;
/// Throughput where a job cannot run.
pub const INFEASIBLE: f64 = -1e9;
/// Numbers of devices that jobs run on.
pub const DEVICE_COUNTS: [u32; 5] = [1, 2, 4, 8, 16];

/// Devices of a type: so many on each of so many hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The type.
    pub device_type: Arc<str>,
    /// Hosts.
    pub hosts: u32,
    /// Devices on each.
    pub per_host: u32,
}

/// What is known of a device type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Memory of a device.
    pub memory_gb: f64,
    /// Devices on a node.
    pub per_node: u32,
}

/// How the tables are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The best plan, with what a worse locality or a smaller model makes of it.
    Best,
    /// Data parallelism as the published code has it: the same figures, without what locality and size make of them.
    DataParallel,
}

/// Whether a job can run, and how many samples per second it makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Whether it can.
    pub is_feasible: bool,
    /// Samples per second; below 0 where it cannot.
    pub throughput: f64,
}

impl Answer {
    const NO: Self = Self { is_feasible: false, throughput: INFEASIBLE };
}

/// The tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells {
    times_s: BTreeMap<Workload, BTreeMap<Cell, f64>>,
    memory_gb: BTreeMap<Workload, Vec<f64>>,
    devices: BTreeMap<Arc<str>, Device>,
    families: BTreeMap<Arc<str>, Family>,
}

/// Models that differ in size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// The sizes, ascending.
    pub sizes: Vec<Arc<str>>,
    /// Samples per iteration with which they are trained.
    pub batch_sizes: Vec<u32>,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Seconds per iteration, as the table has them.
    pub time_s: f64,
    /// How often the devices of a host were halved.
    pub halvings: u32,
    /// How many sizes larger the model is.
    pub growths: u32,
}

impl Cells {
    /// Notes the time of an iteration; below 0 where it was tried and did not run.
    pub fn insert_time(&mut self, workload: Workload, cell: Cell, time_s: f64) {
        self.times_s.entry(workload).or_default().insert(cell, time_s);
    }

    /// Notes the memory of a data-parallel copy on 1, 2, 4 ... devices; -1 where it does not fit, 0 where it does not matter.
    pub fn set_memory(&mut self, workload: Workload, memory_gb: Vec<f64>) {
        self.memory_gb.insert(workload, memory_gb);
    }

    /// Notes what a device type is.
    pub fn set_device(&mut self, name: &str, device: Device) {
        self.devices.insert(name.into(), device);
    }

    /// Notes the sizes of a family of models.
    pub fn set_family(&mut self, name: &str, family: Family) {
        self.families.insert(name.into(), family);
    }

    /// What is known of a device type.
    pub fn device(&self, name: &str) -> Option<Device> {
        self.devices.get(name).copied()
    }

    /// All device types, by name.
    pub fn devices(&self) -> impl Iterator<Item = (&Arc<str>, Device)> {
        self.devices.iter().map(|(name, &device)| (name, device))
    }

    /// All families, by name.
    pub fn families(&self) -> impl Iterator<Item = (&Arc<str>, &Family)> {
        self.families.iter()
    }

    /// All times, by workload and cell.
    pub fn times(&self) -> impl Iterator<Item = (&Workload, &Cell, f64)> {
        self.times_s
            .iter()
            .flat_map(|(workload, row)| row.iter().map(move |(cell, &time_s)| (workload, cell, time_s)))
    }

    /// All memory tables, by workload.
    pub fn memory(&self) -> impl Iterator<Item = (&Workload, &[f64])> {
        self.memory_gb.iter().map(|(workload, row)| (workload, row.as_slice()))
    }

    /// Takes in other tables, which count more.
    pub fn add(&mut self, other: Self) {
        for (workload, row) in other.times_s {
            self.times_s.entry(workload).or_default().extend(row);
        }
        self.memory_gb.extend(other.memory_gb);
        self.devices.extend(other.devices);
        self.families.extend(other.families);
    }

    /// Keeps the workloads and cells that are wanted, and the devices of types that are.
    pub fn retain(
        &mut self,
        is_workload: impl Fn(&Workload) -> bool,
        is_cell: impl Fn(&Cell) -> bool,
        is_type: impl Fn(&str) -> bool,
    ) {
        for row in self.times_s.values_mut() {
            row.retain(|cell, _| is_cell(cell) && is_type(&cell.device_type));
        }
        self.times_s.retain(|workload, row| is_workload(workload) && !row.is_empty());
        self.memory_gb.retain(|workload, _| is_workload(workload));
        self.devices.retain(|name, _| is_type(name));
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cell with so many devices on as few hosts as hold them.
    pub fn best_locality(&self, device_type: &str, devices: u32) -> Option<Cell> {
        let (device_type, per_node) = match self.devices.get_key_value(device_type) {
            Some((name, device)) => (name.clone(), device.per_node),
            None => (device_type.into(), self.per_node(device_type)?),
        };
        let per_host = devices.min(per_node);
        Some(Cell { device_type, hosts: devices / per_host.max(1), per_host })
    }

    /// Devices on a node; by default the largest number on a host of the tables.
    pub fn per_node(&self, device_type: &str) -> Option<u32> {
        let seen = || {
            let cells = self.times_s.values().flat_map(BTreeMap::keys);
            cells.filter(|cell| *cell.device_type == *device_type).map(|cell| cell.per_host).max()
        };
        self.device(device_type).map(|device| device.per_node).or_else(seen)
    }

    /// Whether, and how fast, a workload runs in a cell. With `checks_memory` a data-parallel copy must fit a device.
    pub fn query(&self, mode: Mode, checks_memory: bool, workload: &Workload, cell: &Cell) -> Answer {
        let devices = cell.hosts * cell.per_host;
        if checks_memory && self.data_parallel_fits(workload, &cell.device_type, devices) != Some(true) {
            return Answer::NO;
        }
        let Some(found) = self.find(workload, cell) else { return Answer::NO };
        if found.time_s == 0.0 || found.time_s > ITERATION_MAX_S {
            return Answer::NO;
        }
        let mut throughput = rounded(f64::from(workload.batch_size.unwrap_or(0)) / found.time_s);
        if mode == Mode::Best {
            // In this order, as the published code multiplies.
            if found.halvings > 0 {
                throughput *= LOCALITY_FACTOR.powf(f64::from(found.halvings));
            }
            if found.growths > 0 {
                throughput *= SIZE_FACTOR.powf(f64::from(found.growths));
            }
        }
        Answer { is_feasible: throughput > 0.0, throughput }
    }

    /// Whether a data-parallel copy fits a device where there are so many; `None` if unknown.
    pub fn data_parallel_fits(&self, workload: &Workload, device_type: &str, devices: u32) -> Option<bool> {
        let (row, device) = (self.memory_gb.get(workload)?, self.devices.get(device_type)?);
        let memory_gb = *row.get(devices.checked_ilog2().unwrap_or(0) as usize)?;
        let is_small = memory_gb * MEMORY_MARGIN <= device.memory_gb * MEMORY_USABLE;
        Some(memory_gb == 0.0 || memory_gb != -1.0 && is_small)
    }

    /// The figure that a query goes by: that of the cell, of the best locality, or of a larger model.
    pub fn find(&self, workload: &Workload, cell: &Cell) -> Option<Found> {
        let time = |workload: &Workload, cell: &Cell| self.times_s.get(workload)?.get(cell).copied();
        if let Some(time_s) = time(workload, cell) {
            return Some(Found { time_s, halvings: 0, growths: 0 });
        }
        if let Some(best) = self.best_locality(&cell.device_type, cell.hosts * cell.per_host)
            && let Some(time_s) = time(workload, &best)
        {
            let halvings = (best.per_host / cell.per_host.max(1)).checked_ilog2().unwrap_or(0);
            return Some(Found { time_s, halvings, growths: 0 });
        }
        let (family, size) = workload.model.split_once(FAMILY_END)?;
        let sizes = &self.families.get(family)?.sizes;
        let own = sizes.iter().position(|known| **known == *size)?;
        sizes[own + 1..].iter().zip(1..).find_map(|(size, growths)| {
            let larger = sized(family, size, workload.batch_size?);
            Some(Found { time_s: time(&larger, cell)?, halvings: 0, growths })
        })
    }

    /// The speeds that Wharf's own rules go by: packed, and spread where each host has half as many devices. What the tables
    /// cannot tell counts as impossible, as it does in Crius; of types without any time nothing is said.
    pub fn speeds(&self) -> Profile {
        let mut profile = Profile::default();
        let seen = self.times_s.values().flat_map(BTreeMap::keys).map(|cell| &cell.device_type);
        let names: BTreeSet<&Arc<str>> = seen.collect();
        let types: Vec<(&Arc<str>, u32)> =
            names.into_iter().filter_map(|name| Some((name, self.per_node(name)?))).collect();
        for workload in self.workloads() {
            for (name, per_node) in &types {
                for devices in DEVICE_COUNTS {
                    let Some(packed) = self.best_locality(name, devices) else { continue };
                    let spread =
                        Cell { hosts: packed.hosts * 2, per_host: packed.per_host / 2, ..packed.clone() };
                    self.insert(&mut profile, &workload, &packed, Locality::Packed);
                    if spread.per_host > 0 && *per_node > 1 {
                        self.insert(&mut profile, &workload, &spread, Locality::Spread);
                    }
                }
            }
        }
        profile.set_cells(self.clone());
        profile
    }

    fn insert(&self, profile: &mut Profile, workload: &Workload, cell: &Cell, locality: Locality) {
        let answer = self.query(Mode::Best, false, workload, cell);
        let samples = f64::from(workload.batch_size.unwrap_or(1).max(1));
        let iterations_per_s = if answer.is_feasible { answer.throughput / samples } else { 0.0 };
        let place =
            Place { device_type: cell.device_type.clone(), devices: cell.hosts * cell.per_host, locality };
        profile.insert(workload.clone(), place, iterations_per_s);
    }

    /// Everything that was measured, and every size of every family with its usual batch sizes.
    fn workloads(&self) -> Vec<Workload> {
        let usual = self.families.iter().flat_map(|(family, Family { sizes, batch_sizes })| {
            sizes
                .iter()
                .flat_map(move |size| batch_sizes.iter().map(move |&batch| sized(family, size, batch)))
        });
        let mut all: Vec<Workload> = self.times_s.keys().cloned().chain(usual).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// The workload of a family's model of some size.
pub fn sized(family: &str, size: &str, batch_size: u32) -> Workload {
    Workload { model: format!("{family}{FAMILY_END}{size}").into(), batch_size: Some(batch_size) }
}

/// To three decimals, as the nearest number that is written with them; of two equally near ones the even.
pub fn rounded(value: f64) -> f64 {
    let scaled = value * 1000.0;
    let nearest = scaled.round_ties_even();
    let from_middle = ((scaled - nearest).abs() - 0.5).abs();
    // Away from the middle between two, the error of the product does not matter.
    if from_middle > scaled.abs() * 1e-15 + 1e-9 {
        return nearest / 1000.0;
    }
    format!("{value:.3}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Cells {
        let mut cells = Cells::default();
        cells.set_device("a40", Device { memory_gb: 48.0, per_node: 2 });
        let sizes = ["1B", "2B", "4B"].map(Arc::from).to_vec();
        cells.set_family("net", Family { sizes, batch_sizes: vec![256] });
        let mut time = |size, hosts, per_host, time_s| {
            let cell = Cell { device_type: "a40".into(), hosts, per_host };
            cells.insert_time(sized("net", size, 256), cell, time_s);
        };
        time("1B", 1, 2, 3.0);
        time("1B", 4, 2, -1.0);
        time("4B", 1, 1, 10.0);
        time("4B", 8, 2, 301.0);
        cells.set_memory(sized("net", "1B", 256), vec![-1.0, 33.0, 31.9, 0.0]);
        cells
    }

    /// The rules, one after the other.
    #[test]
    fn query_takes_the_exact_cell_then_the_best_locality_then_a_larger_model() {
        let cells = cells();
        let ask = |mode, checks_memory, size, hosts, per_host| {
            let cell = Cell { device_type: "a40".into(), hosts, per_host };
            let answer = cells.query(mode, checks_memory, &sized("net", size, 256), &cell);
            assert_eq!(answer.is_feasible, answer.throughput > 0.0);
            answer.throughput
        };
        for (mode, checks_memory, size, hosts, per_host, expected) in [
            (Mode::Best, false, "1B", 1, 2, 85.333),
            (Mode::Best, false, "1B", 2, 1, 85.333 * 0.9),
            (Mode::DataParallel, false, "1B", 2, 1, 85.333),
            // Two sizes up, the same cell.
            (Mode::Best, false, "1B", 1, 1, 25.6 * 1.8_f64.powf(2.0)),
            (Mode::Best, false, "2B", 1, 1, 25.6 * 1.8),
            // Tried, and did not run.
            (Mode::Best, false, "1B", 4, 2, -256.0),
            // Too slow, and never tried.
            (Mode::Best, false, "4B", 8, 2, INFEASIBLE),
            (Mode::Best, false, "4B", 1, 2, INFEASIBLE),
            // 33 GB and a fifth more are above 0.8 x 48 GB; 31.9 and a fifth more are not, but were not measured.
            (Mode::Best, true, "1B", 1, 2, INFEASIBLE),
            (Mode::Best, true, "1B", 2, 2, INFEASIBLE),
            (Mode::Best, true, "1B", 1, 1, INFEASIBLE),
            (Mode::Best, true, "1B", 4, 2, -256.0),
            (Mode::Best, true, "4B", 1, 1, INFEASIBLE),
        ] {
            assert_eq!(
                ask(mode, checks_memory, size, hosts, per_host),
                expected,
                "{size} {hosts}x{per_host}"
            );
        }
    }

    #[test]
    fn speeds_are_packed_and_spread_and_zero_where_unknown() {
        let profile = cells().speeds();
        let alone = |devices, locality| {
            let place = Place { device_type: "a40".into(), devices, locality };
            profile.alone(&sized("net", "1B", 256), &place).unwrap_or(f64::NAN)
        };
        assert_eq!(alone(2, Locality::Packed), 85.333 / 256.0);
        assert_eq!(alone(2, Locality::Spread), 85.333 * 0.9 / 256.0);
        assert_eq!(alone(8, Locality::Packed), 0.0);
        assert!(profile.cells().is_some());
        // No attempts on this type.
        let mut cells = cells();
        cells.set_device("new", Device { memory_gb: 80.0, per_node: 8 });
        assert_eq!(cells.speeds().device_type("new"), None);
    }

    #[test]
    fn rounding_goes_by_the_exact_value() {
        for (value, expected) in [
            (2.675, 2.675),
            (1.0005, 1.0), // just below the middle as a number
            (0.0625, 0.062),
            (0.1875, 0.188),
            (85.333_333_333, 85.333),
            (-256.000_4, -256.0),
            (1e9, 1e9),
            (0.000_49, 0.0),
        ] {
            assert_eq!(rounded(value), expected, "{value}");
        }
    }
}
