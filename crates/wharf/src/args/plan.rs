//! `wharf plan`

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use wharf_planner::Schedule;

/// `wharf plan`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf plan --model gpt-2.6b --batch 256 --gpus a40:8
  wharf plan --model llama-8b --batch 128 --gpus h100:16 --zero 1 --output json
  wharf plan --model moe-10b --batch 512 --gpus v100:16 --gpus a100:8 --per-node 4
  wharf plan --model gpt-6.7b --batch 256 --gpus a100:64 --gpus h100:64 --sweep --out curves
  wharf plan --model gpt-2.6b --gpus a40:16 --sweep --cells                List the alternatives for schedulers
  wharf plan --model bert-1.3b --batch 128 --gpus a40:4 --profile lab.db   Use measured links and times
  wharf plan --model my-model.yaml --hardware lab.yaml --gpus rtx4090:4    Use descriptions from files
  wharf plan --list                                                        List models and devices")]
pub struct PlanArgs {
    /// Model: a name such as `gpt-2.6b` (see `--list`), or a description file
    #[arg(long, value_name = "NAME|FILE", required_unless_present_any = ["list", "errors"])]
    pub model: Option<String>,
    /// Description file of additional devices and links
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Global batch size: samples per iteration
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub batch: u32,
    /// Devices; may be given several times to compare
    #[arg(long, value_name = "TYPE:COUNT", required_unless_present_any = ["list", "errors"])]
    pub gpus: Vec<Devices>,
    /// Devices per node [default: 8, or all if fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 12))]
    pub per_node: Option<u32>,
    /// Show the best plan for every power of two up to the number of devices
    #[arg(long)]
    pub sweep: bool,
    /// Show the best plan for each number of stages, and mark the Pareto-optimal ones in devices, time and memory
    #[arg(long)]
    pub cells: bool,
    /// Output directory of the sweep: `sweep.csv`, `scaling.svg` and `cost.svg`
    #[arg(long, value_name = "FOLDER", requires = "sweep")]
    pub out: Option<PathBuf>,
    /// Maximum number of plans to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Number of microbatches per replica [default: the fastest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub microbatches: Option<u32>,
    /// Pipeline schedule
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ScheduleArg::OneForwardOneBackward)]
    pub schedule: ScheduleArg,
    /// Store activations within layers instead of recomputing them
    #[arg(long)]
    pub no_recompute: bool,
    /// ZeRO stage: 1 shards the optimizer state, 2 also gradients, 3 also parameters
    #[arg(long, value_name = "STAGE", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// Allow tensor parallelism across nodes
    #[arg(long)]
    pub tensor_between_nodes: bool,
    /// Overlap gradient reduction with the backward pass, as trainers with gradient buckets do
    #[arg(long)]
    pub overlap: bool,
    /// Usable share of a device's memory
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub memory_share: f64,
    /// Device memory in GiB [default: from the profile, else from the data sheet]
    #[arg(long, value_name = "GIB")]
    pub memory: Option<f64>,
    /// Profile with measured links, memory and times: a database, a table, or a folder of them
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Output directory for a comparison of estimates with all measurements of the profile: a table and plots
    #[arg(long, value_name = "FOLDER", requires = "profile")]
    pub errors: Option<PathBuf>,
    /// List known models and device types
    #[arg(long)]
    pub list: bool,
}

/// Number of devices of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    /// Device type.
    pub device_type: String,
    /// Number of devices.
    pub count: u32,
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not TYPE:COUNT, such as a40:8");
        let (device_type, count) = text.split_once(':').ok_or_else(wrong)?;
        let count = count.parse().ok().filter(|count| (1..=1 << 20).contains(count)).ok_or_else(wrong)?;
        if device_type.is_empty() {
            return Err(wrong());
        }
        Ok(Self { device_type: device_type.to_lowercase(), count })
    }
}

/// Pipeline schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleArg {
    /// All forward passes, then all backward passes
    Gpipe,
    /// One forward, one backward (1F1B)
    #[value(name = "1f1b")]
    OneForwardOneBackward,
}

impl From<ScheduleArg> for Schedule {
    fn from(schedule: ScheduleArg) -> Self {
        match schedule {
            ScheduleArg::Gpipe => Self::Gpipe,
            ScheduleArg::OneForwardOneBackward => Self::OneForwardOneBackward,
        }
    }
}
