//! The trace, the cluster and the profile as the published code numbers them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wharf_core::{ClusterSpec, DeviceSet, JobSpec, NodeId, NodeShare};
use wharf_perf::{Locality, Place, Profile, Workload as Trained};

use super::error::GavelError;
use super::numbers::Numbers;
use super::settings::{Goal, Policy};

/// What never changes about a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub submit: f64,
    pub steps: f64,
    pub gang: u32,
    /// Row in [`Workload::classes`]: jobs with equal workloads and gangs share one.
    pub class: u32,
    pub weight: f64,
    pub deadline: Option<f64>,
}

/// Jobs that are equally fast everywhere.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub trained: Trained,
    pub gang: u32,
    /// Steps per second by type.
    pub speeds: Vec<f64>,
}

/// One device, by the number that the published code gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    pub node: u32,
    pub device: u32,
}

/// Everything that does not change during a run.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    pub specs: &'a [JobSpec],
    pub jobs: Vec<Job>,
    pub classes: Vec<Class>,
    /// The types of the cluster, by name.
    pub types: Vec<Arc<str>>,
    pub capacities: Vec<u32>,
    /// Types in the order in which they choose.
    pub type_order: Vec<usize>,
    /// The type that policies without speeds take for all.
    pub reference_type: usize,
    /// Devices, numbered type by type and node by node.
    pub workers: Vec<Worker>,
    /// The first device of each type.
    pub first_worker: Vec<u32>,
    pub prices: Vec<Option<f64>>,
    profile: &'a Profile,
}

/// The devices of the cluster, type by type.
struct Devices {
    types: Vec<Arc<str>>,
    capacities: Vec<u32>,
    workers: Vec<Worker>,
    first_worker: Vec<u32>,
}

impl<'a> Workload<'a> {
    pub(super) fn new(
        specs: &'a [JobSpec],
        cluster: &ClusterSpec,
        profile: Option<&'a Profile>,
        policy: Policy,
        numbers: &Numbers,
    ) -> Result<Self, GavelError> {
        let profile = profile.ok_or(GavelError::NoProfile)?;
        let Devices { types, capacities, workers, first_worker } = Devices::new(cluster)?;
        let mut classes = Classes {
            profile,
            types: &types,
            capacities: &capacities,
            list: Vec::new(),
            known: HashMap::new(),
        };
        let mut jobs = Vec::with_capacity(specs.len());
        for spec in specs {
            check(spec, policy)?;
            jobs.push(Job {
                submit: spec.submit.seconds(),
                steps: spec.iterations,
                gang: spec.gang.devices,
                class: classes.find(spec)?,
                weight: spec.weight,
                deadline: spec.deadline.map(|deadline| deadline.seconds()),
            });
        }
        let classes = classes.list;
        let place = |name: &str| types.iter().position(|known| **known == *name);
        let mut type_order: Vec<usize> = numbers.type_order.iter().filter_map(|name| place(name)).collect();
        type_order.extend(
            (0..types.len()).filter(|index| !numbers.type_order.iter().any(|name| **name == *types[*index])),
        );
        let reference_type = place(&numbers.reference_type).unwrap_or(type_order[0]);
        let prices: Vec<Option<f64>> =
            types.iter().map(|name| numbers.prices.get(&**name).copied()).collect();
        if matches!(policy.goal, Goal::Cost | Goal::CostWithDeadlines)
            && let Some(index) = prices.iter().position(Option::is_none)
        {
            return Err(GavelError::NoPrice { device_type: types[index].to_string(), policy: policy.name });
        }
        Ok(Self {
            specs,
            jobs,
            classes,
            types,
            capacities,
            type_order,
            reference_type,
            workers,
            first_worker,
            prices,
            profile,
        })
    }

    /// Number of types.
    pub(super) fn width(&self) -> usize {
        self.types.len()
    }

    /// A job's steps per second alone, by type.
    pub(super) fn speeds(&self, job: u32) -> &[f64] {
        &self.classes[self.jobs[job as usize].class as usize].speeds
    }

    /// The steps per second of both when jobs of two classes share devices, by type; zeros where it was not measured.
    pub(super) fn speeds_beside(&self, first: u32, second: u32) -> Vec<[f64; 2]> {
        let (first, second) = (&self.classes[first as usize], &self.classes[second as usize]);
        let speeds = |device_type: &Arc<str>| {
            let place = packed(device_type, first.gang);
            self.profile.beside(&first.trained, &second.trained, &place).unwrap_or([0.0; 2])
        };
        self.types.iter().map(speeds).collect()
    }

    /// Devices as shares of nodes.
    pub(super) fn shares(&self, workers: &[u32]) -> Vec<NodeShare> {
        let mut shares: Vec<NodeShare> = Vec::new();
        for &worker in workers {
            let Worker { node, device } = self.workers[worker as usize];
            let bit = DeviceSet(1 << device);
            match shares.iter_mut().find(|share| share.node == NodeId(node)) {
                Some(share) => share.devices.0 |= bit.0,
                None => shares.push(NodeShare::new(NodeId(node), bit)),
            }
        }
        shares
    }
}

impl Devices {
    fn new(cluster: &ClusterSpec) -> Result<Self, GavelError> {
        let mut nodes: BTreeMap<&Arc<str>, Vec<(u32, u32)>> = BTreeMap::new();
        for (index, node) in cluster.nodes.iter().enumerate().filter(|(_, node)| node.devices > 0) {
            nodes.entry(&node.device_type).or_default().push((index as u32, node.devices));
        }
        if nodes.is_empty() {
            return Err(GavelError::NoDevices);
        }
        let mut devices = Self { types: vec![], capacities: vec![], workers: vec![], first_worker: vec![] };
        for (name, nodes) in nodes {
            devices.types.push(Arc::clone(name));
            devices.first_worker.push(devices.workers.len() as u32);
            devices.capacities.push(nodes.iter().map(|(_, count)| count).sum());
            for (node, count) in nodes {
                devices.workers.extend((0..count).map(|device| Worker { node, device }));
            }
        }
        Ok(devices)
    }
}

/// Classes of jobs, found as jobs name them.
struct Classes<'a> {
    profile: &'a Profile,
    types: &'a [Arc<str>],
    capacities: &'a [u32],
    list: Vec<Class>,
    known: HashMap<(Arc<str>, Option<u32>, u32), u32>,
}

impl Classes<'_> {
    fn find(&mut self, spec: &JobSpec) -> Result<u32, GavelError> {
        let Some(model) = spec.model.clone() else {
            return Err(GavelError::NoModel { job: spec.name.to_string() });
        };
        let key = (model, spec.batch_size, spec.gang.devices);
        if let Some(&class) = self.known.get(&key) {
            return Ok(class);
        }
        let class = self.measure(spec, Trained { model: key.0.clone(), batch_size: key.1 })?;
        self.check_fit(spec, &class)?;
        let index = self.list.len() as u32;
        self.list.push(class);
        self.known.insert(key, index);
        Ok(index)
    }

    fn measure(&self, spec: &JobSpec, trained: Trained) -> Result<Class, GavelError> {
        let gang = spec.gang.devices;
        let mut speeds = Vec::with_capacity(self.types.len());
        for device_type in self.types {
            let speed = self.profile.alone(&trained, &packed(device_type, gang));
            let speed = speed.ok_or_else(|| GavelError::NoSpeed {
                job: spec.name.to_string(),
                workload: label(&trained),
                devices: gang,
                device_type: device_type.to_string(),
                known: self.known_of(&trained),
            })?;
            speeds.push(speed);
        }
        Ok(Class { trained, gang, speeds })
    }

    /// What the profile does know of a workload, in words.
    fn known_of(&self, trained: &Trained) -> String {
        let places = || {
            self.profile.entries().filter(|(workload, ..)| *workload == trained).map(|(_, place, _)| place)
        };
        let mut types: Vec<&str> = places().map(|place| &*place.device_type).collect();
        let mut gangs: Vec<u32> = places().map(|place| place.devices).collect();
        types.sort_unstable();
        types.dedup();
        gangs.sort_unstable();
        gangs.dedup();
        if types.is_empty() {
            let mut models: Vec<&str> =
                self.profile.entries().map(|(workload, ..)| &*workload.model).collect();
            models.dedup();
            return match wharf_core::nearest::nearest(&trained.model, models.iter().copied()) {
                Some(near) => format!("it does not know this workload; it has `{near}`"),
                None => "it does not know this workload".to_owned(),
            };
        }
        let gangs: Vec<String> = gangs.iter().map(u32::to_string).collect();
        format!("it knows types {} and {} devices", types.join(", "), gangs.join(", "))
    }

    fn check_fit(&self, spec: &JobSpec, class: &Class) -> Result<(), GavelError> {
        let usable = || class.speeds.iter().zip(self.capacities).filter(|(speed, _)| **speed > 0.0);
        let Some(most) = usable().map(|(_, &capacity)| capacity).max() else {
            let workload = label(&class.trained);
            return Err(GavelError::NoFit { job: spec.name.to_string(), workload, devices: class.gang });
        };
        if class.gang > most {
            return Err(GavelError::TooLarge { job: spec.name.to_string(), devices: class.gang, most });
        }
        Ok(())
    }
}

/// The published code never checks how a gang lies.
fn packed(device_type: &Arc<str>, devices: u32) -> Place {
    Place { device_type: Arc::clone(device_type), devices, locality: Locality::Packed }
}

fn label(trained: &Trained) -> String {
    match trained.batch_size {
        Some(batch_size) => format!("`{}` (batch size {batch_size})", trained.model),
        None => format!("`{}`", trained.model),
    }
}

fn check(spec: &JobSpec, policy: Policy) -> Result<(), GavelError> {
    let job = || spec.name.to_string();
    let devices = spec.gang.devices;
    if devices == 0 {
        return Err(GavelError::NoGang { job: job() });
    }
    if !(spec.iterations > 0.0 && spec.iterations.is_finite()) {
        return Err(GavelError::NoLength { job: job(), iterations: spec.iterations });
    }
    if policy.goal == Goal::AlloX && devices != 1 {
        return Err(GavelError::OneDeviceOnly { job: job(), devices });
    }
    Ok(())
}
