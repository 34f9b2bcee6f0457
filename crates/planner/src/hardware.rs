//! Device types and what connects them, as the planner sees them.

use std::sync::Arc;

use crate::devices;
use crate::links::{Link, Links, Rings};
use crate::model::Precision;

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
    /// Peak of products of 8-bit and of 4-bit numbers, where it has such.
    pub short_tflops: [Option<f64>; 2],
    /// What large products reach of the peak: less where power limits clocks.
    pub product_share: f64,
    /// Multiprocessors (streaming multiprocessors, compute units).
    pub units: u32,
    /// Its last cache, in bytes.
    pub cache_bytes: f64,
    /// How fast one thread of its host is, compared with the hosts of the A100's generation.
    pub host_speed: f64,
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

/// What a node's adapters pass on of their nominal sum, and the time of a message between nodes.
const NETWORK_SHARE: f64 = 0.9;
const NETWORK_LATENCY_S: f64 = 30e-6;
/// What a node sends to another where nothing is known: one adapter of 100 Gb/s.
const NETWORK_GB_PER_S: f64 = 12.5;
/// Links from which on devices of a node are on one switch.
const SWITCHED_GB_PER_S: f64 = 200.0;
/// A message within a node.
const NEAR_LATENCY_S: f64 = 40e-6;
/// What products of 8 and of 4 bits reach compared with those of 16, each of its own peak.
const SHORT_SHARES: [f64; 2] = [0.92, 0.75];
/// What large products reach of the peak where nothing is known.
const PRODUCT_SHARE: f64 = 0.75;
/// Starting a kernel.
const KERNEL_S: f64 = 6e-6;
/// What the framework and its libraries take of a device's memory.
const WORKSPACE_GIB: f64 = 1.25;

/// A device has no products of a precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device_type} has no products of {precision}; it has {valid}")]
pub struct UnknownPrecision {
    device_type: Arc<str>,
    precision: &'static str,
    valid: &'static str,
}

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
            short_tflops: [None; 2],
            product_share: PRODUCT_SHARE,
            units: 108,
            cache_bytes: 40e6,
            host_speed: 1.0,
            links: Links::of(near, network(NETWORK_GB_PER_S)),
            per_node: None,
            kernel_s: KERNEL_S,
            workspace_gib: WORKSPACE_GIB,
            at_once: None,
        }
    }

    /// Peak of products with numbers of a precision; that of longer ones where it has no shorter.
    #[must_use]
    pub fn tflops(&self, precision: Precision) -> f64 {
        let [eight, four] = self.short_tflops;
        match precision {
            Precision::Single => self.single_tflops,
            Precision::Half => self.half_tflops,
            Precision::Fp8 => eight.unwrap_or(self.half_tflops),
            Precision::Fp4 => four.or(eight).unwrap_or(self.half_tflops),
        }
    }

    /// Whether it multiplies numbers of a precision.
    ///
    /// # Errors
    /// [`UnknownPrecision`] where it has no such products.
    pub fn check(&self, precision: Precision) -> Result<(), UnknownPrecision> {
        let [eight, four] = self.short_tflops;
        let is_known = match precision {
            Precision::Single | Precision::Half => true,
            Precision::Fp8 => eight.is_some(),
            Precision::Fp4 => four.is_some(),
        };
        if is_known {
            return Ok(());
        }
        let valid = if eight.is_some() { "fp32, bf16, fp16 and fp8" } else { "fp32, bf16 and fp16" };
        Err(UnknownPrecision { device_type: self.name.clone(), precision: precision.name(), valid })
    }

    /// What large products reach of that: shorter numbers are converted, and clocks drop.
    #[must_use]
    pub fn reached(&self, precision: Precision) -> f64 {
        self.product_share
            * match precision {
                Precision::Single | Precision::Half => 1.0,
                Precision::Fp8 => SHORT_SHARES[0],
                Precision::Fp4 => SHORT_SHARES[1],
            }
    }

    /// What a device needs of its time while only so many of a node work.
    pub(crate) fn relief(&self, working: u32, per_node: u32) -> f64 {
        let all = f64::from(per_node);
        self.at_once.map_or(1.0, |at_once| (f64::from(working).max(at_once) / all).min(1.0))
    }

    /// A built-in type, in the nodes that its maker sells it in.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let known = devices::planned().find(|device| device.name == name)?;
        let near = Link { gb_per_s: known.link_gb_per_s, latency_s: NEAR_LATENCY_S };
        let device = Self::new(&name, known.peak_tflops, known.memory_gb_per_s, known.memory_gib, near);
        let (single_tflops, is_rounding) = known.single_tflops;
        let mut links = Links::of(near, network(known.network_gb_per_s));
        if known.link_gb_per_s >= SWITCHED_GB_PER_S {
            links.rings = Rings::switched(known.link_gb_per_s);
        }
        Some(Self {
            single_tflops,
            is_rounding,
            price_per_h: known.price_per_h,
            short_tflops: known.short_tflops.map(|tflops| Some(tflops).filter(|tflops| *tflops > 0.0)),
            product_share: known.product_share,
            units: known.units,
            cache_bytes: known.cache_mb * 1e6,
            host_speed: known.host_speed,
            links,
            ..device
        })
    }

    /// The same in nodes that send so much to others.
    #[must_use]
    pub fn on_network(mut self, gb_per_s: f64) -> Self {
        self.links.far = network(gb_per_s);
        self.links.send_far = self.links.far;
        self
    }

    /// The names of all built-in types.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        devices::planned().map(|device| device.name).collect()
    }
}

/// What a node's adapters pass on of their nominal sum.
fn network(gb_per_s: f64) -> Link {
    Link { gb_per_s: NETWORK_SHARE * gb_per_s, latency_s: NETWORK_LATENCY_S }
}
