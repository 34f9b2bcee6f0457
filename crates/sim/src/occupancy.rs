//! How many devices are in use, for how long, and what that costs.

use wharf_core::{DeviceTypeId, Engine, NodeId, State, Time};

use wharf_outcome::Sample;

const HOUR_S: f64 = 3600.0;

/// Devices in use, by type.
pub(crate) struct Occupancy {
    /// Devices of working nodes.
    up: Vec<u32>,
    busy: Vec<u32>,
    /// What an hour of a device costs.
    prices: Vec<Option<f64>>,
    last: Option<Time>,
    pub(crate) busy_device_s: f64,
    cost: f64,
    wants_timeline: bool,
    pub(crate) timeline: Vec<Sample>,
}

impl Occupancy {
    pub(crate) fn new(engine: &Engine, wants_timeline: bool) -> Self {
        let topology = engine.state().topology();
        let types = (0..topology.types().len()).map(DeviceTypeId::from_index);
        let mut occupancy = Self {
            up: vec![0; topology.types().len()],
            busy: vec![0; topology.types().len()],
            prices: types.map(|kind| engine.perf().price_per_h(topology, kind)).collect(),
            last: None,
            busy_device_s: 0.0,
            cost: 0.0,
            wants_timeline,
            timeline: Vec::new(),
        };
        for node in engine.state().nodes_up() {
            occupancy.node_returned(engine.state(), node);
        }
        occupancy
    }

    pub(crate) fn node_returned(&mut self, state: &State, node: NodeId) {
        let node = state.topology().node(node);
        self.up[node.device_type.index()] += node.spec.devices;
    }

    pub(crate) fn node_lost(&mut self, state: &State, node: NodeId) {
        let node = state.topology().node(node);
        self.up[node.device_type.index()] -= node.spec.devices;
    }

    /// When something last happened.
    pub(crate) fn last(&self) -> Option<Time> {
        self.last
    }

    /// Adds up device-seconds until `now`.
    pub(crate) fn accrue(&mut self, now: Time) {
        if let Some(last) = self.last {
            let elapsed_s = now.since(last);
            self.busy_device_s += f64::from(self.busy.iter().sum::<u32>()) * elapsed_s;
            let rate: f64 = self
                .busy
                .iter()
                .zip(&self.prices)
                .map(|(&busy, price)| f64::from(busy) * price.unwrap_or(0.0))
                .sum();
            self.cost += rate * elapsed_s / HOUR_S;
        }
        self.last = Some(now);
    }

    /// What is in use from now on.
    pub(crate) fn sample(&mut self, now: Time, state: &State) {
        let free = state.schedule().free_index();
        for (kind, (busy, up)) in self.busy.iter_mut().zip(&self.up).enumerate() {
            let free =
                free.of_type(DeviceTypeId::from_index(kind)).map_or(0, wharf_core::FreeOfType::devices);
            *busy = up - free;
        }
        if self.wants_timeline {
            let counts = state.counts();
            let sample = Sample {
                time: now,
                busy_devices: self.busy.iter().sum(),
                running: counts.placed,
                waiting: counts.waiting,
            };
            let is_change = self.timeline.last().is_none_or(|last| {
                (last.busy_devices, last.running, last.waiting)
                    != (sample.busy_devices, sample.running, sample.waiting)
            });
            if is_change {
                self.timeline.push(sample);
            }
        }
    }

    /// What the devices cost while they were in use, where every type has a price.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.prices.iter().all(Option::is_some).then_some(self.cost)
    }
}
