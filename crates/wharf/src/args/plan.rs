//! `wharf plan`

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use wharf_planner::{Attention, Exact, Framework, Recompute, Schedule};

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
  wharf plan --model gpt-175b --batch 1536 --node dgx-a100 --gpus a100-80gb:1024 --plan tp=8,pp=16,dp=8,mb=1,vp=2
  wharf plan --judge measured.csv --gpus a100-80gb:8 --network 100         Compare estimates with measurements
  wharf plan --list                                                        List models and devices")]
pub struct PlanArgs {
    /// Model: a name such as `gpt-2.6b` (see `--list`), or a description file
    #[arg(long, value_name = "NAME|FILE", required_unless_present_any = ["list", "errors", "judge"])]
    pub model: Option<String>,
    /// Description file of additional devices and links
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Global batch size: samples per iteration
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub batch: u32,
    /// Devices; may be given several times to compare
    #[arg(long, value_name = "TYPE:COUNT", required_unless_present_any = ["list", "errors", "judge"])]
    pub gpus: Vec<Devices>,
    /// Devices per node [default: 8, or all if fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 12))]
    pub per_node: Option<u32>,
    /// Framework, which decides launch overheads, overlap and attention [default: megatron, or jax with `--profile`]
    #[arg(long, value_name = "NAME", value_enum)]
    pub framework: Option<FrameworkArg>,
    /// Degrees and microbatches of the plan; those not given are chosen, such as `tp=8,pp=8,dp=4,mb=2,vp=2,recompute=selective`
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub plan: Option<Exact>,
    /// Layers of each stage, such as `15,16,16,15`
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub stages: Vec<usize>,
    /// Precision: fp32, bf16, fp16, fp8 or fp4 [default: of the model]
    #[arg(long, value_name = "NAME")]
    pub precision: Option<String>,
    /// Tokens of a sample [default: of the model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub sequence_length: Option<u32>,
    /// Node design, which decides devices per node and their network (see `--list`)
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Network bandwidth per node in GB/s, all adapters together [default: of the node design or device type]
    #[arg(long, value_name = "GB/S")]
    pub network: Option<f64>,
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
    /// Activation recomputation
    #[arg(long, value_name = "NAME", value_enum, default_value_t = RecomputeArg::Full, conflicts_with = "no_recompute")]
    pub recompute: RecomputeArg,
    /// Store activations within layers instead of recomputing them: `--recompute none`
    #[arg(long)]
    pub no_recompute: bool,
    /// Attention kernel [default: fused on devices with 8-bit products]
    #[arg(long, value_name = "NAME", value_enum)]
    pub attention: Option<AttentionArg>,
    /// Sequence parallelism within tensor-parallel groups [default: of the framework]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub sequence_parallel: Option<bool>,
    /// Overlap of tensor-parallel traffic with products [default: of the framework]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub tp_overlap: Option<bool>,
    /// Parameters of adapters beside frozen weights (LoRA), in millions
    #[arg(long, value_name = "MILLIONS")]
    pub adapters: Option<f64>,
    /// ZeRO stage: 1 shards the optimizer state, 2 also gradients, 3 also parameters
    #[arg(long, value_name = "STAGE", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// Allow tensor parallelism across nodes
    #[arg(long)]
    pub tensor_between_nodes: bool,
    /// Overlap gradient reduction with the backward pass, as trainers with gradient buckets do
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub overlap: Option<bool>,
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
    /// Table of measured iterations to compare estimates with: error, bias, ranking, coverage
    #[arg(long, value_name = "FILE")]
    pub judge: Option<PathBuf>,
    /// Table of measured iterations to learn from, in the format of `--judge`
    #[arg(long, value_name = "FILE")]
    pub calibrate: Option<PathBuf>,
    /// List known models, device types and node designs
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

/// Why a text is no number of devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not TYPE:COUNT, such as a40:8")]
pub struct DevicesError(String);

impl FromStr for Devices {
    type Err = DevicesError;

    fn from_str(text: &str) -> Result<Self, DevicesError> {
        let wrong = || DevicesError(text.to_owned());
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
    /// 1F1B with weight gradients where a stage would wait
    ZeroBubble,
}

/// Training framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FrameworkArg {
    /// Megatron-LM
    Megatron,
    /// PyTorch with DDP or FSDP
    Torch,
    /// DeepSpeed
    Deepspeed,
    /// JAX: compiled programs
    Jax,
}

impl From<FrameworkArg> for Framework {
    fn from(framework: FrameworkArg) -> Self {
        match framework {
            FrameworkArg::Megatron => Self::Megatron,
            FrameworkArg::Torch => Self::Torch,
            FrameworkArg::Deepspeed => Self::DeepSpeed,
            FrameworkArg::Jax => Self::Jax,
        }
    }
}

/// Activation recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecomputeArg {
    /// Nothing
    None,
    /// Scores of attention
    Selective,
    /// Whole layers
    Full,
}

impl From<RecomputeArg> for Recompute {
    fn from(recompute: RecomputeArg) -> Self {
        match recompute {
            RecomputeArg::None => Self::None,
            RecomputeArg::Selective => Self::Selective,
            RecomputeArg::Full => Self::Full,
        }
    }
}

/// Attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttentionArg {
    /// Scores are written to memory
    Unfused,
    /// One kernel (FlashAttention)
    Fused,
}

impl From<AttentionArg> for Attention {
    fn from(attention: AttentionArg) -> Self {
        match attention {
            AttentionArg::Unfused => Self::Unfused,
            AttentionArg::Fused => Self::Fused,
        }
    }
}

impl From<ScheduleArg> for Schedule {
    fn from(schedule: ScheduleArg) -> Self {
        match schedule {
            ScheduleArg::Gpipe => Self::Gpipe,
            ScheduleArg::OneForwardOneBackward => Self::OneForwardOneBackward,
            ScheduleArg::ZeroBubble => Self::ZeroBubble,
        }
    }
}
