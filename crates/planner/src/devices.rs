//! Device types: what their makers publish of them, and what an hour of one is taken to cost.

/// A device type of the built-in table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Its name in cluster descriptions.
    pub name: &'static str,
    /// Peak of what training multiplies matrices with (tensor cores where there are any), in 10¹² operations a second.
    pub peak_tflops: f64,
    /// Memory bandwidth, in 10⁹ bytes a second.
    pub memory_gb_per_s: f64,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// What one device sends to another of its node, in 10⁹ bytes a second: three quarters of the link's figure for one
    /// direction.
    pub link_gb_per_s: f64,
    /// An hour of one device. An assumption of this project in no particular currency: what matters is the ratios, which
    /// follow those of on-demand offers.
    pub price_per_h: f64,
}

const PCIE3: f64 = 12.0;
const PCIE4: f64 = 24.0;

const DEVICES: &[Device] = &[
    device("k80", 4.1, 240.0, 12.0, PCIE3, 0.45),
    device("p100", 18.7, 732.0, 16.0, PCIE3, 1.2),
    device("v100", 125.0, 900.0, 16.0, 112.0, 2.4),
    device("t4", 65.0, 320.0, 16.0, PCIE3, 0.4),
    device("rtx2080ti", 53.8, 616.0, 11.0, PCIE3, 0.35),
    device("a10", 125.0, 600.0, 24.0, PCIE4, 1.0),
    device("a40", 149.7, 696.0, 48.0, PCIE4, 1.3),
    device("a100", 312.0, 1555.0, 40.0, 225.0, 3.2),
    device("h100", 989.0, 3350.0, 80.0, 337.0, 5.5),
];

const fn device(
    name: &'static str,
    peak_tflops: f64,
    memory_gb_per_s: f64,
    memory_gib: f64,
    link_gb_per_s: f64,
    price_per_h: f64,
) -> Device {
    Device { name, peak_tflops, memory_gb_per_s, memory_gib, link_gb_per_s, price_per_h }
}

/// The built-in device types.
pub fn devices() -> &'static [Device] {
    DEVICES
}

/// The built-in device type of that name.
pub fn find(name: &str) -> Option<&'static Device> {
    DEVICES.iter().find(|device| device.name == name)
}
