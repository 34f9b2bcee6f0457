//! Device types and what connects them, as the planner sees them.

use std::sync::Arc;

use crate::devices;
use crate::links::{Link, Links};

/// What one device of a type can do, and its way to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Its name in cluster descriptions.
    pub name: Arc<str>,
    /// Peak of products of 16-bit matrices, in 10¹² operations a second.
    pub half_tflops: f64,
    /// The same of 32-bit matrices, in the way that frameworks choose by default.
    pub single_tflops: f64,
    /// Whether products of 32-bit matrices are rounded to fewer bits to be faster.
    pub is_rounding: bool,
    /// Memory bandwidth, in 10⁹ bytes a second.
    pub memory_gb_per_s: f64,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// What one device costs an hour, as in the built-in table; 0 where nothing is known.
    pub price_per_h: f64,
    /// Its way to others.
    pub links: Links,
    /// Devices of a node, where that is known.
    pub per_node: Option<u32>,
    /// Starting a kernel, in seconds.
    pub kernel_s: f64,
    /// What the framework and its libraries take of its memory, in GiB.
    pub workspace_gib: f64,
    /// How many devices of a node can compute at the same time, where not all can: XLA's host devices share the cores of a machine.
    /// What is said of a device is while all of them work.
    pub at_once: Option<f64>,
}

/// What a node sends to another where nothing was measured: 10⁹ bytes a second, and the time of a message.
const NETWORK: Link = Link { gb_per_s: 10.0, latency_s: 60e-6 };
/// A message within a node.
const NEAR_LATENCY_S: f64 = 40e-6;
/// Starting a kernel.
const KERNEL_S: f64 = 6e-6;
/// What the framework and its libraries take of a device's memory.
const WORKSPACE_GIB: f64 = 1.25;

/// Products of 32-bit matrices, and whether they are rounded.
const SINGLE: &[(&str, f64, bool)] = &[
    ("k80", 4.1, false),
    ("p100", 9.3, false),
    ("v100", 15.7, false),
    ("t4", 8.1, false),
    ("rtx2080ti", 13.4, false),
    ("a10", 62.5, true),
    ("a40", 74.8, true),
    ("a100", 156.0, true),
    ("h100", 494.0, true),
];

impl Hardware {
    /// A device of which the data sheet's numbers are known, among others that it reaches in the usual way.
    #[must_use]
    pub fn new(name: &str, half_tflops: f64, memory_gb_per_s: f64, memory_gib: f64, near: Link) -> Self {
        Self {
            name: name.into(),
            half_tflops,
            single_tflops: half_tflops / 2.0,
            is_rounding: false,
            memory_gb_per_s,
            memory_gib,
            price_per_h: 0.0,
            links: Links::of(near, NETWORK),
            per_node: None,
            kernel_s: KERNEL_S,
            workspace_gib: WORKSPACE_GIB,
            at_once: None,
        }
    }

    /// What a device needs of its time while only so many of a node work.
    pub(crate) fn relief(&self, working: u32, per_node: u32) -> f64 {
        let all = f64::from(per_node);
        self.at_once.map_or(1.0, |at_once| (f64::from(working).max(at_once) / all).min(1.0))
    }

    /// A built-in type.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let one = |half, single_tflops, is_rounding, [bandwidth, memory, link, price_per_h]: [f64; 4]| {
            let near = Link { gb_per_s: link, latency_s: NEAR_LATENCY_S };
            let device = Self::new(&name, half, bandwidth, memory, near);
            Self { single_tflops, is_rounding, price_per_h, ..device }
        };
        match name.as_str() {
            "l20" => Some(one(119.5, 59.8, true, [864.0, 48.0, 24.0, 1.2])),
            // One socket of a server.
            "cpu" => Some(one(3.0, 1.5, false, [100.0, 64.0, 20.0, 0.2])),
            _ => {
                let device = devices::find(&name)?;
                let &(_, single, is_rounding) = SINGLE.iter().find(|(known, ..)| *known == name)?;
                let numbers =
                    [device.memory_gb_per_s, device.memory_gib, device.link_gb_per_s, device.price_per_h];
                Some(one(device.peak_tflops, single, is_rounding, numbers))
            }
        }
    }

    /// The names of all built-in types.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        SINGLE.iter().map(|(name, ..)| *name).chain(["l20", "cpu"]).collect()
    }
}
