//! Device types: what their makers publish of them, and what an hour of one is taken to cost.

/// A device type of the built-in table. Peaks are those of dense products (half of what data sheets print for sparse ones).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Its name in cluster descriptions.
    pub name: &'static str,
    /// Peak of what training multiplies matrices with (tensor cores where there are any) in 16 bits, in 10¹² operations a second.
    pub peak_tflops: f64,
    /// The same in 32 bits, as frameworks compute it by default, and whether that rounds to fewer (TF32).
    pub single_tflops: (f64, bool),
    /// The same in 8 and in 4 bits; 0 where there is none.
    pub short_tflops: [f64; 2],
    /// Memory bandwidth, in 10⁹ bytes a second.
    pub memory_gb_per_s: f64,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// What one device sends to another of its node, in 10⁹ bytes a second: three quarters of the link's figure for one
    /// direction.
    pub link_gb_per_s: f64,
    /// What the nodes that the maker sells them in send to others, each, in 10⁹ bytes a second: the sum of their adapters.
    pub network_gb_per_s: f64,
    /// Multiprocessors, and the last cache in 10⁶ bytes.
    pub units: u32,
    /// The last cache, in 10⁶ bytes.
    pub cache_mb: f64,
    /// What large products reach of the peak: by published benchmarks of libraries of products, less where power limits clocks.
    pub product_share: f64,
    /// How fast a thread of the usual host is, compared with that of the A100's generation.
    pub host_speed: f64,
    /// An hour of one device. An assumption of this project in no particular currency: what matters is the ratios, which
    /// follow those of on-demand offers.
    pub price_per_h: f64,
}

const PCIE3: f64 = 12.0;
const PCIE4: f64 = 24.0;
const PCIE5: f64 = 48.0;

/// A row: peaks [16 bits, 32 bits, 8 bits, 4 bits] and whether 32 bits are rounded, memory [GB/s, GiB], ways [link, network],
/// chip [units, cache, share of products, host], price.
type Row = (&'static str, [f64; 4], bool, [f64; 2], [f64; 2], (u32, f64, f64, f64), f64);

/// Sources: the makers' data sheets and white papers (NVIDIA V100, T4, A10, A40, A100, L4, L40S, H100, H200, GH200, Blackwell, Ada;
/// AMD CDNA 2 and 3).
const ROWS: &[Row] = &[
    ("k80", [4.1, 4.1, 0.0, 0.0], false, [240.0, 12.0], [PCIE3, 1.25], (13, 1.5, 0.6, 0.8), 0.45),
    ("p100", [18.7, 9.3, 0.0, 0.0], false, [732.0, 16.0], [PCIE3, 12.5], (56, 4.0, 0.8, 0.8), 1.2),
    ("v100", [125.0, 15.7, 0.0, 0.0], false, [900.0, 16.0], [112.0, 12.5], (80, 6.0, 0.75, 0.9), 2.4),
    ("v100-32gb", [125.0, 15.7, 0.0, 0.0], false, [900.0, 32.0], [112.0, 50.0], (80, 6.0, 0.75, 0.9), 2.9),
    ("t4", [65.0, 8.1, 0.0, 0.0], false, [320.0, 16.0], [PCIE3, 6.25], (40, 4.0, 0.45, 0.9), 0.4),
    ("rtx2080ti", [53.8, 13.4, 0.0, 0.0], false, [616.0, 11.0], [PCIE3, 1.25], (68, 5.5, 0.8, 0.9), 0.35),
    ("a10", [125.0, 62.5, 0.0, 0.0], true, [600.0, 24.0], [PCIE4, 12.5], (72, 6.0, 0.55, 1.0), 1.0),
    ("a40", [149.7, 74.8, 0.0, 0.0], true, [696.0, 48.0], [PCIE4, 12.5], (84, 6.0, 0.65, 1.0), 1.3),
    ("l4", [121.0, 60.0, 242.0, 0.0], true, [300.0, 24.0], [PCIE3, 12.5], (58, 48.0, 0.5, 1.1), 0.7),
    ("l40s", [362.0, 183.0, 733.0, 0.0], true, [864.0, 48.0], [PCIE4, 50.0], (142, 96.0, 0.6, 1.2), 1.9),
    ("rtx4090", [165.2, 82.6, 330.3, 0.0], true, [1008.0, 24.0], [PCIE3, 1.25], (128, 72.0, 0.85, 1.3), 0.5),
    (
        "rtx6000-ada",
        [364.2, 182.1, 728.5, 0.0],
        true,
        [960.0, 48.0],
        [PCIE4, 12.5],
        (142, 96.0, 0.65, 1.2),
        1.2,
    ),
    ("a100", [312.0, 156.0, 0.0, 0.0], true, [1555.0, 40.0], [225.0, 200.0], (108, 40.0, 0.863, 1.0), 3.2),
    (
        "a100-80gb",
        [312.0, 156.0, 0.0, 0.0],
        true,
        [2039.0, 80.0],
        [225.0, 200.0],
        (108, 40.0, 0.863, 1.0),
        3.9,
    ),
    ("a100-pcie", [312.0, 156.0, 0.0, 0.0], true, [1555.0, 40.0], [PCIE4, 25.0], (108, 40.0, 0.75, 1.0), 2.9),
    (
        "a100-pcie-80gb",
        [312.0, 156.0, 0.0, 0.0],
        true,
        [1935.0, 80.0],
        [PCIE4, 25.0],
        (108, 40.0, 0.78, 1.0),
        3.4,
    ),
    ("h100", [989.0, 494.0, 1979.0, 0.0], true, [3350.0, 80.0], [337.0, 400.0], (132, 50.0, 0.70, 1.3), 5.5),
    (
        "h100-pcie",
        [756.0, 378.0, 1513.0, 0.0],
        true,
        [2000.0, 80.0],
        [PCIE5, 50.0],
        (114, 50.0, 0.62, 1.3),
        4.5,
    ),
    ("h200", [989.0, 494.0, 1979.0, 0.0], true, [4800.0, 141.0], [337.0, 400.0], (132, 50.0, 0.70, 1.3), 6.5),
    ("gh200", [989.0, 494.0, 1979.0, 0.0], true, [4000.0, 96.0], [337.0, 100.0], (132, 60.0, 0.66, 1.2), 6.0),
    (
        "b200",
        [2250.0, 1125.0, 4500.0, 9000.0],
        true,
        [8000.0, 180.0],
        [675.0, 400.0],
        (148, 126.0, 0.70, 1.4),
        9.5,
    ),
    (
        "gb200",
        [2500.0, 1250.0, 5000.0, 10000.0],
        true,
        [8000.0, 186.0],
        [675.0, 3600.0],
        (148, 126.0, 0.70, 1.2),
        11.0,
    ),
    // One of the two dies of a package, which frameworks see as a device of its own.
    ("mi250x", [191.5, 47.9, 0.0, 0.0], false, [1638.0, 64.0], [PCIE5, 100.0], (110, 8.0, 0.65, 1.1), 1.8),
    (
        "mi300x",
        [1307.0, 653.0, 2614.0, 0.0],
        true,
        [5300.0, 192.0],
        [336.0, 400.0],
        (304, 256.0, 0.5, 1.3),
        5.0,
    ),
    ("l20", [119.5, 59.8, 239.0, 0.0], true, [864.0, 48.0], [PCIE4, 25.0], (92, 96.0, 0.8, 1.2), 1.2),
];

/// One socket of a server: for planning only.
static HOST: Device =
    device(("cpu", [3.0, 1.5, 0.0, 0.0], false, [100.0, 64.0], [20.0, 12.5], (32, 32.0, 0.7, 1.0), 0.2));

const fn device(row: Row) -> Device {
    let (name, peaks, is_rounding, memory, ways, chip, price_per_h) = row;
    Device {
        name,
        peak_tflops: peaks[0],
        single_tflops: (peaks[1], is_rounding),
        short_tflops: [peaks[2], peaks[3]],
        memory_gb_per_s: memory[0],
        memory_gib: memory[1],
        link_gb_per_s: ways[0],
        network_gb_per_s: ways[1],
        units: chip.0,
        cache_mb: chip.1,
        product_share: chip.2,
        host_speed: chip.3,
        price_per_h,
    }
}

static DEVICES: [Device; ROWS.len()] = {
    let mut all = [device(ROWS[0]); ROWS.len()];
    let mut at = 1;
    while at < ROWS.len() {
        all[at] = device(ROWS[at]);
        at += 1;
    }
    all
};

/// The built-in device types.
pub fn devices() -> &'static [Device] {
    &DEVICES
}

/// The built-in device type of that name.
pub fn find(name: &str) -> Option<&'static Device> {
    DEVICES.iter().find(|device| device.name == name)
}

/// What can be planned for: the built-in device types, and a host.
pub(crate) fn planned() -> impl Iterator<Item = &'static Device> {
    DEVICES.iter().chain([&HOST])
}
