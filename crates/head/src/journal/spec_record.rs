//! Jobs as the journal has them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_core::{ArrayElement, Gang, JobSpec, Needs, Request, Scope, StageTimes, Time};
use wharf_proto::{RecordedNeeds, RecordedSpec, Stages};

use crate::journal::record::BadRecord;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpecRecord {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    submit_s: f64,
    devices: u32,
    devices_min: u32,
    devices_max: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    device_types: Vec<String>,
    iterations: f64,
    iteration_ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_size: Option<u32>,
    priority: i32,
    #[serde(default = "usual_weight", skip_serializing_if = "is_usual_weight")]
    weight: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needs: Option<NeedsRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    array_index: Option<u32>,
    /// Milliseconds for data, computation and network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stages_ms: Option<[f64; 3]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NeedsRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    cpus: u32,
    memory_mib: u64,
}

impl NeedsRecord {
    fn of(needs: &Needs) -> Self {
        Self {
            nodes: needs.nodes,
            pool: needs.pool.as_deref().map(str::to_owned),
            node: needs.node.as_deref().map(str::to_owned),
            names: needs.names.iter().map(|name| name.to_string()).collect(),
            reservation: needs.reservation.as_deref().map(str::to_owned),
            cpus: needs.request.task.cpus(),
            memory_mib: needs.request.task.memory_mib,
        }
    }

    fn to_core(&self) -> Needs {
        Needs {
            nodes: self.nodes,
            scope: Scope::default(),
            groups: Vec::new(),
            pool: self.pool.as_deref().map(Into::into),
            node: self.node.as_deref().map(Into::into),
            names: self.names.iter().map(|name| name.as_str().into()).collect(),
            reservation: self.reservation.as_deref().map(Into::into),
            request: Request::per_device(self.cpus, self.memory_mib),
        }
    }

    fn to_wire(&self) -> RecordedNeeds {
        RecordedNeeds {
            nodes: self.nodes,
            pool: self.pool.clone(),
            node: self.node.clone(),
            names: self.names.clone(),
            reservation: self.reservation.clone(),
            cpus: self.cpus,
            memory_mib: self.memory_mib,
        }
    }

    fn of_wire(needs: RecordedNeeds) -> Self {
        Self {
            nodes: needs.nodes,
            pool: needs.pool,
            node: needs.node,
            names: needs.names,
            reservation: needs.reservation,
            cpus: needs.cpus,
            memory_mib: needs.memory_mib,
        }
    }
}

impl SpecRecord {
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or_default()
    }

    pub(crate) fn pool(&self) -> &str {
        self.needs.as_ref().and_then(|needs| needs.pool.as_deref()).unwrap_or_default()
    }

    pub(crate) fn of(spec: &JobSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            user: spec.user.as_deref().map(str::to_owned),
            submit_s: spec.submit.seconds(),
            devices: spec.gang.devices,
            devices_min: spec.gang.devices_min,
            devices_max: spec.gang.devices_max,
            device_types: spec.gang.device_types.iter().map(|name| name.to_string()).collect(),
            iterations: spec.iterations,
            iteration_ms: spec.iteration_ms,
            duration_s: spec.duration_s,
            model: spec.model.as_deref().map(str::to_owned),
            batch_size: spec.batch_size,
            priority: spec.priority,
            weight: spec.weight,
            deadline_s: spec.deadline.map(Time::seconds),
            needs: spec.gang.needs.as_deref().map(NeedsRecord::of),
            array_index: spec.array.as_ref().map(|element| element.index),
            stages_ms: spec.stages.map(|stages| [stages.data_ms, stages.compute_ms, stages.network_ms]),
        }
    }

    pub(crate) fn to_core(&self) -> Result<JobSpec, BadRecord> {
        let submit = Time::try_new(self.submit_s).ok_or(BadRecord)?;
        let gang = Gang {
            devices: self.devices,
            devices_min: self.devices_min,
            devices_max: self.devices_max,
            device_types: self.device_types.iter().map(|name| name.as_str().into()).collect(),
            needs: self.needs.as_ref().map(|needs| Arc::new(needs.to_core())),
        };
        let deadline = self.deadline_s.map(|deadline_s| Time::try_new(deadline_s).ok_or(BadRecord));
        let name: Arc<str> = self.name.as_str().into();
        Ok(JobSpec {
            array: self.array_index.map(|index| ArrayElement { array: name.clone(), index }),
            weight: self.weight,
            deadline: deadline.transpose()?,
            stages: self.stages_ms.map(|[data_ms, compute_ms, network_ms]| StageTimes {
                data_ms,
                compute_ms,
                network_ms,
            }),
            user: self.user.as_deref().map(Into::into),
            gang,
            duration_s: self.duration_s,
            model: self.model.as_deref().map(Into::into),
            batch_size: self.batch_size,
            priority: self.priority,
            ..JobSpec::new(&name, submit, self.devices, self.iterations, self.iteration_ms)
        })
    }

    pub(crate) fn to_wire(&self) -> RecordedSpec {
        RecordedSpec {
            name: self.name.clone(),
            user: self.user.clone(),
            submit_s: self.submit_s,
            devices: self.devices,
            devices_min: self.devices_min,
            devices_max: self.devices_max,
            device_types: self.device_types.clone(),
            iterations: self.iterations,
            iteration_ms: self.iteration_ms,
            duration_s: self.duration_s,
            model: self.model.clone(),
            batch_size: self.batch_size,
            priority: self.priority,
            weight: self.weight,
            deadline_s: self.deadline_s,
            needs: self.needs.as_ref().map(NeedsRecord::to_wire),
            array_index: self.array_index,
            stages: self.stages_ms.map(|[data_ms, compute_ms, network_ms]| Stages {
                data_ms,
                compute_ms,
                network_ms,
            }),
        }
    }

    pub(crate) fn of_wire(spec: RecordedSpec) -> Self {
        Self {
            name: spec.name,
            user: spec.user,
            submit_s: spec.submit_s,
            devices: spec.devices,
            devices_min: spec.devices_min,
            devices_max: spec.devices_max,
            device_types: spec.device_types,
            iterations: spec.iterations,
            iteration_ms: spec.iteration_ms,
            duration_s: spec.duration_s,
            model: spec.model,
            batch_size: spec.batch_size,
            priority: spec.priority,
            weight: spec.weight,
            deadline_s: spec.deadline_s,
            needs: spec.needs.map(NeedsRecord::of_wire),
            array_index: spec.array_index,
            stages_ms: spec.stages.map(|stages| [stages.data_ms, stages.compute_ms, stages.network_ms]),
        }
    }
}

fn usual_weight() -> f64 {
    1.0
}

// The signature is serde's.
fn is_usual_weight(weight: &f64) -> bool {
    *weight == usual_weight()
}
