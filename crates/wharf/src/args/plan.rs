//! `wharf plan`

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use wharf_perf::planner::Schedule;

/// `wharf plan`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf plan --model gpt-2.6b --batch 256 --gpus a40:8
  wharf plan --model llama-8b --batch 128 --gpus h100:16 --zero 1 --output json
  wharf plan --model moe-10b --batch 512 --gpus v100:16 --gpus a100:8 --per-node 4
  wharf plan --model gpt-6.7b --batch 256 --gpus a100:64 --gpus h100:64 --sweep --out curves
  wharf plan --model gpt-2.6b --gpus a40:16 --sweep --cells                What schedulers choose among
  wharf plan --model bert-1.3b --batch 128 --gpus a40:4 --profile lab.db   With measured links and times
  wharf plan --model my-model.yaml --hardware lab.yaml --gpus rtx4090:4    What files describe
  wharf plan --list                                                        Models and devices it knows")]
pub struct PlanArgs {
    /// The model: a name such as `gpt-2.6b` (`--list` shows all), or a file that describes it
    #[arg(long, value_name = "NAME|FILE", required_unless_present_any = ["list", "errors"])]
    pub model: Option<String>,
    /// A file that describes devices and their links, beside the built-in ones
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Samples of an iteration, over all devices
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub batch: u32,
    /// Devices; may be given several times to compare
    #[arg(long, value_name = "TYPE:COUNT", required_unless_present_any = ["list", "errors"])]
    pub gpus: Vec<Devices>,
    /// Devices of a node [default: 8, or all where there are fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 12))]
    pub per_node: Option<u32>,
    /// Estimate every power of two up to the number of devices, and tell the best plan of each
    #[arg(long)]
    pub sweep: bool,
    /// Tell the best plan for each number of stages, and which of them no other beats in devices, time and memory
    #[arg(long)]
    pub cells: bool,
    /// Write the sweep into this folder: `sweep.csv`, and `scaling.svg` and `cost.svg` as plots
    #[arg(long, value_name = "FOLDER", requires = "sweep")]
    pub out: Option<PathBuf>,
    /// How many plans to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Parts that each replica's samples are split into [default: what is fastest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub microbatches: Option<u32>,
    /// In which order the stages of a pipeline work
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ScheduleArg::OneForwardOneBackward)]
    pub schedule: ScheduleArg,
    /// Keep what the forward pass computes within a layer, instead of computing it anew
    #[arg(long)]
    pub no_recompute: bool,
    /// What replicas share out: 1 the optimizer's state, 2 also gradients, 3 also parameters
    #[arg(long, value_name = "STAGE", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// Let devices of different nodes share layers
    #[arg(long)]
    pub tensor_between_nodes: bool,
    /// Sum gradients while the backward pass goes on, as trainers do that sum them in buckets
    #[arg(long)]
    pub overlap: bool,
    /// What of a device's memory may be used
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub memory_share: f64,
    /// Memory of a device, in GiB [default: the profile's, else the data sheet's]
    #[arg(long, value_name = "GIB")]
    pub memory: Option<f64>,
    /// Take measured links, memory and times from here: a database, a table, or a folder of them
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Compare estimates with everything that the profile has measured: a table and plots in this folder
    #[arg(long, value_name = "FOLDER", requires = "profile")]
    pub errors: Option<PathBuf>,
    /// List the models and device types that it knows
    #[arg(long)]
    pub list: bool,
}

/// So many devices of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    /// The type.
    pub device_type: String,
    /// How many.
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

/// In which order stages work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleArg {
    /// All forward passes, then all backward ones
    Gpipe,
    /// A backward pass as soon as there can be one
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
