//! What a user asks for.

use std::sync::Arc;

use crate::access::Scope;
use crate::cluster::NodeSpec;
use crate::request::{Request, is_slice};
use crate::time::Time;

/// A job as submitted, or as read from a trace. Plain facts: nothing here changes while the job runs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The name the outside knows the job by; unique within a trace.
    pub name: Arc<str>,
    /// Who submitted it.
    pub user: Option<Arc<str>>,
    /// When it is submitted.
    pub submit: Time,
    /// The devices it needs, all or nothing.
    pub gang: Gang,
    /// Iterations until it is done.
    pub iterations: f64,
    /// One iteration alone on the gang it asks for, in milliseconds; 0 where only a profile can tell.
    pub iteration_ms: f64,
    /// What its owner (or the trace) says the whole run takes, where that is distinguished from
    /// `iterations` × `iteration_ms`.
    pub duration_s: Option<f64>,
    /// The model it trains, as profile tables name it.
    pub model: Option<Arc<str>>,
    /// Samples per iteration, over the whole gang.
    pub batch_size: Option<u32>,
    /// How one iteration divides into stages that use different resources.
    pub stages: Option<StageTimes>,
    /// Larger is more urgent; 0 by default.
    pub priority: i32,
    /// What it should get in relation to others, under a policy that shares in proportion; 1 by default.
    pub weight: f64,
    /// When it should be done.
    pub deadline: Option<Time>,
    /// The array it is an element of.
    pub array: Option<ArrayElement>,
    /// Its row in a trace file that is not sorted by submission, from 0; 0 for all jobs of a sorted one.
    pub row: u32,
}

impl JobSpec {
    /// A job with a gang, a length and defaults for the rest.
    pub fn new(name: &str, submit: Time, devices: u32, iterations: f64, iteration_ms: f64) -> Self {
        Self {
            name: name.into(),
            user: None,
            submit,
            gang: Gang::fixed(devices),
            iterations,
            iteration_ms,
            duration_s: None,
            model: None,
            batch_size: None,
            stages: None,
            priority: 0,
            weight: 1.0,
            deadline: None,
            array: None,
            row: 0,
        }
    }

    /// What stands where an id is left out: no job.
    pub(crate) fn placeholder(now: Time) -> Self {
        Self::new("", now, 0, 0.0, 0.0)
    }

    /// Whether it only stands for an id that was left out.
    pub(crate) fn is_placeholder(&self) -> bool {
        self.gang.devices == 0 && self.name.is_empty()
    }

    /// Seconds of undisturbed running on the gang it asks for.
    pub fn solo_s(&self) -> f64 {
        self.iterations * self.iteration_ms / 1000.0
    }

    /// The length that its owner declares: `duration_s`, or the solo time.
    pub fn declared_s(&self) -> f64 {
        self.duration_s.unwrap_or_else(|| self.solo_s())
    }
}

/// The devices that a job needs at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gang {
    /// Devices that it asks for.
    pub devices: u32,
    /// Fewest devices it can run on; equals `devices` unless elastic.
    pub devices_min: u32,
    /// Most devices it can use; equals `devices` unless elastic.
    pub devices_max: u32,
    /// Device types it may run on, best first; empty means any, and [`Gang::OTHERS`] as the last means any other too.
    pub device_types: Arc<[Arc<str>]>,
    /// What else matters about where it runs; most jobs do not care.
    pub needs: Option<Arc<Needs>>,
}

/// What a gang asks of its nodes beside devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needs {
    /// Exactly so many nodes, with equally many devices each.
    pub nodes: Option<u32>,
    /// The pool that its nodes belong to.
    pub pool: Option<Arc<str>>,
    /// The one node that it can run on.
    pub node: Option<Arc<str>>,
    /// The only nodes that will do; empty where any will.
    pub names: Vec<Arc<str>>,
    /// The named reservation whose nodes it runs on.
    pub reservation: Option<Arc<str>>,
    /// What its tasks take of machines beside whole devices.
    pub request: Request,
    /// The pools that its owner may use.
    pub scope: Scope,
    /// Further groups of tasks, with requests of their own, that start with it (a heterogeneous job).
    pub groups: Vec<Gang>,
}

impl Needs {
    /// Whether a gang is divided evenly over its nodes: where it can be, it is.
    pub fn is_even(&self, gang: &Gang) -> bool {
        self.nodes
            .is_some_and(|nodes| nodes > 0 && gang.size().is_multiple_of(nodes.saturating_mul(gang.step())))
    }

    /// Whether a node can be one of its nodes.
    pub fn allow(&self, node: &NodeSpec) -> bool {
        self.admit(node)
            && self.node.as_deref().is_none_or(|name| name == node.machine())
            && (self.names.is_empty() || self.names.iter().any(|name| **name == *node.machine()))
    }
}

impl Gang {
    /// Instead of a device type: all that are not named.
    pub const OTHERS: &'static str = "*";

    /// Whether devices of a type may be among its devices. Slices of devices go to those that name them.
    pub fn allows(&self, device_type: &str) -> bool {
        let is_any =
            || self.device_types.is_empty() || self.device_types.iter().any(|name| &**name == Self::OTHERS);
        self.device_types.iter().any(|allowed| **allowed == *device_type)
            || is_any() && !is_slice(device_type)
    }

    /// Exactly `devices` devices of any type.
    pub fn fixed(devices: u32) -> Self {
        Self { devices, devices_min: devices, devices_max: devices, device_types: Arc::from([]), needs: None }
    }
}

/// One iteration's stages in milliseconds, each alone on its resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageTimes {
    /// Reading and preprocessing samples (storage, CPU).
    pub data_ms: f64,
    /// Forward and backward passes (device).
    pub compute_ms: f64,
    /// Gradient exchange (network).
    pub network_ms: f64,
}

/// A place in a job array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayElement {
    /// The array's name.
    pub array: Arc<str>,
    /// The element's index, as the user counts.
    pub index: u32,
}
