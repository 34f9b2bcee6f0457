//! The formats: their names, how they are distinguished, and the table of what reads and writes each.

mod blox;
mod crius;
mod date;
mod gavel;
mod helios;
mod job;
pub(crate) mod log;
mod muri;
mod native;
mod openb;
pub(crate) mod pai;
mod philly;
mod sacct;
mod sia;
mod swf;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;
use wharf_core::JobSpec;

pub(crate) use job::Shared;
pub(crate) use sacct::Steps;

use crate::Trace;
use crate::csv::Separator;
use crate::placed::Placed;
use crate::row::{RowCheck, Schema};
use crate::write::Loss;
use wharf_core::nearest::nearest;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The tab-separated rows of the Gavel simulator: no header, speeds only in a profile.
    Gavel,
    /// The CSV of the Muri simulator: milliseconds, three stage columns.
    Muri,
    /// Wharf's own columns as CSV.
    NativeCsv,
    /// Wharf's own columns as JSON Lines.
    NativeJsonl,
    /// A job stream of the Blox simulator as JSON: lists of id, arrival, iterations and GPUs.
    Blox,
    /// The CSV that the Blox simulator replays.
    BloxCsv,
    /// Workloads of the Sia and Pollux simulators.
    Sia,
    /// The CSV of the Crius simulator.
    Crius,
    /// Microsoft's Philly log, `cluster_job_log`.
    Philly,
    /// The jobs of the Philly log as a table, as the Pollux and Sia artifacts have it.
    PhillyCsv,
    /// SenseTime's Helios log, `cluster_log.csv`.
    Helios,
    /// Alibaba's PAI log of 2020, `pai_task_table.csv`.
    Pai,
    /// Alibaba's GPU log of 2023, `openb_pod_list_*.csv`.
    Openb,
    /// Slurm's accounting, as `sacct --parsable2` prints it; GPUs are devices.
    Sacct,
    /// As [`Format::Sacct`], with CPUs as devices.
    SacctCpus,
    /// As [`Format::Sacct`], with nodes as devices.
    SacctNodes,
    /// The Standard Workload Format of the Parallel Workloads Archive; processors are devices.
    Swf,
}

/// The name of no format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown trace format `{name}`")]
pub struct UnknownFormat {
    /// What was given.
    pub name: String,
}

impl UnknownFormat {
    /// Which names there are.
    pub fn hint(&self) -> String {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        match nearest(&self.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known formats are {}", names.join(", ")),
        }
    }
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Gavel,
        Self::Muri,
        Self::NativeCsv,
        Self::NativeJsonl,
        Self::Blox,
        Self::BloxCsv,
        Self::Sia,
        Self::Crius,
        Self::Philly,
        Self::PhillyCsv,
        Self::Helios,
        Self::Pai,
        Self::Openb,
        Self::Sacct,
        Self::SacctCpus,
        Self::SacctNodes,
        Self::Swf,
    ];

    /// Formats that are distinguished by the columns of their header; earlier ones win where the scores are equal.
    const WITH_HEADER: &'static [Self] = &[
        Self::NativeCsv,
        Self::Muri,
        Self::BloxCsv,
        Self::Sia,
        Self::Crius,
        Self::PhillyCsv,
        Self::Helios,
        Self::Openb,
        Self::Pai,
    ];

    /// Whether traces can be written in it. The logs of others are only read.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Gavel | Self::Muri | Self::NativeCsv | Self::NativeJsonl)
    }

    /// Whether it is a log of what happened: its clock begins anywhere, and not all of its rows are jobs to replay.
    pub(crate) const fn is_log(self) -> bool {
        matches!(self, Self::Philly | Self::PhillyCsv | Self::Helios | Self::Pai | Self::Openb | Self::Swf)
            || self.is_sacct()
    }

    /// Whether a row names a job of its own, so that a name that comes again is a mistake.
    pub(crate) const fn names_each_row(self) -> bool {
        self.codec().merge.is_none() && !matches!(self, Self::PhillyCsv)
    }

    const fn is_sacct(self) -> bool {
        matches!(self, Self::Sacct | Self::SacctCpus | Self::SacctNodes)
    }

    /// What to do about a file without any job to replay.
    pub(crate) const fn hint_of_no_jobs(self) -> &'static str {
        match self {
            Self::Sacct => {
                "`wharf trace lint` says why; on a cluster without GPUs, read CPUs or nodes as devices: format `sacct-cpus` \
                 or `sacct-nodes`"
            }
            _ => "see `wharf trace lint`",
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        self.codec().name
    }

    /// What it is, in a few words for a help text.
    pub const fn about(self) -> &'static str {
        self.codec().about
    }

    /// The usual ending of a file's name, without a dot.
    pub const fn extension(self) -> &'static str {
        self.codec().extension
    }

    /// Tells the format from the beginning of a file and, where that leaves it open, from its name.
    ///
    /// A JSON list of objects is a Philly log, one of lists is a Blox stream; a JSON object is such a stream where it has a
    /// list `jobs`, and else means JSON Lines. Tabs between a job's values are Gavel's rows, 18 numbers (after comments with
    /// `;`) are the Standard Workload Format, and a header with `JobID` is Slurm's. Otherwise the first line is taken as a
    /// CSV header: the format that knows most of its columns wins, and one that knows none of them is not considered.
    pub fn detect(head: &[u8], path: Option<&Path>) -> Option<Self> {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match text.as_bytes().first() {
            Some(b'{') if blox::is_stream(text) => return Some(Self::Blox),
            Some(b'{') => return Some(Self::NativeJsonl),
            Some(b'[') => {
                let is_object = text[1..].trim_start().starts_with('{');
                return Some(if is_object { Self::Philly } else { Self::Blox });
            }
            _ => {}
        }
        let header = text.lines().next().unwrap_or_default();
        if gavel::is_row(header) {
            return Some(Self::Gavel);
        }
        if swf::is_log(text) {
            return Some(Self::Swf);
        }
        if sacct::is_header(header) {
            return Some(Self::Sacct);
        }
        let names: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
        let known = |format: Self| {
            let schema = format.codec().schema;
            names.iter().filter(|name| schema.find(name).is_some()).count()
        };
        // `job_id` is in many headers, so equal scores go to Wharf's own format.
        let best = Self::WITH_HEADER.iter().rev().max_by_key(|format| known(**format)).copied();
        let best = best.filter(|format| known(*format) > 0);
        best.or_else(|| pai::is_row(&names).then_some(Self::Pai)).or_else(|| Self::from_path(path?))
    }

    /// Tells the format from a file's name alone, where its ending belongs to one format only.
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let is_json_lines = [".jsonl", ".ndjson"].iter().any(|ending| name.ends_with(ending));
        is_json_lines.then_some(Self::NativeJsonl)
    }

    pub(crate) const fn codec(self) -> &'static Codec {
        match self {
            Self::Gavel => &gavel::CODEC,
            Self::Muri => &muri::CODEC,
            Self::NativeCsv => &native::CSV,
            Self::NativeJsonl => &native::JSONL,
            Self::Blox => &blox::STREAM,
            Self::BloxCsv => &blox::REPLAY,
            Self::Sia => &sia::CODEC,
            Self::Crius => &crius::CODEC,
            Self::Philly => &philly::LOG,
            Self::PhillyCsv => &philly::TABLE,
            Self::Helios => &helios::CODEC,
            Self::Pai => &pai::CODEC,
            Self::Openb => &openb::CODEC,
            Self::Sacct => &sacct::GPUS,
            Self::SacctCpus => &sacct::CPUS,
            Self::SacctNodes => &sacct::NODES,
            Self::Swf => &swf::CODEC,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// How a format's rows are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Fields with a separator between them, below a header.
    Csv(Separator),
    CsvWithoutHeader,
    JsonLines,
    JsonDocument,
    /// No header: what a field is follows from its place.
    Placed(Placed),
}

/// Everything the rest of the crate knows about a format.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) extension: &'static str,
    pub(crate) syntax: Syntax,
    pub(crate) schema: &'static Schema,
    pub(crate) roles: Roles,
    /// Adds a row to the job of the same name, where several rows may make a job.
    pub(crate) merge: Option<fn(&mut JobSpec, &JobSpec)>,
    /// Makes a job of a row, or reports why not.
    pub(crate) decode: fn(&mut RowCheck<'_>, &mut Shared) -> Option<JobSpec>,
    /// Writes a trace and lists what the format could not hold.
    pub(crate) encode: fn(&Trace, &mut dyn Write) -> io::Result<Vec<Loss>>,
}

/// Which column is to blame in checks that every format shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles {
    pub(crate) id: usize,
    pub(crate) submit: usize,
    pub(crate) devices: usize,
    pub(crate) device_types: Option<usize>,
    pub(crate) model: usize,
    /// The first of the three stage columns.
    pub(crate) stages: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
            assert_eq!(format.to_string(), format.name());
        }
        let unknown = "jsnl".parse::<Format>().unwrap_err();
        assert_eq!(unknown.to_string(), "unknown trace format `jsnl`");
        assert_eq!(unknown.hint(), "did you mean `jsonl`?");
    }

    #[test]
    fn detect_looks_at_content_before_the_name() {
        for (head, path, expected) in [
            ("job_id,num_gpu,submit_time,iterations,iteration_time\n", "", Some(Format::Muri)),
            ("\u{feff}job_id,submit_s,devices,duration_s\r\n", "", Some(Format::NativeCsv)),
            ("\"job_id\", \"submit_s\"\n", "x.jsonl", Some(Format::NativeCsv)),
            ("job_id\n", "", Some(Format::NativeCsv)),
            ("\n  {\"job_id\": 1}\n", "x.csv", Some(Format::NativeJsonl)),
            ("garbage\n", "x.jsonl.gz", Some(Format::NativeJsonl)),
            ("garbage\n", "x.csv", None),
            ("0,1,0,5853661\n", "", None),
            ("A3C\tc\td\t-n\t1\t7\t1\t1\t-1\t0\n", "", Some(Format::Gavel)),
            ("A3C\tcd d && c\t-n\t1\t7\t0.5\t1\n", "", Some(Format::Gavel)),
            ("A3C\t7\t1\n", "", None),
            ("", "", None),
            ("{\"columns\": [\"job_id\"], \"jobs\": [[0, 1, 2, 3]]}", "", Some(Format::Blox)),
            ("{\"job_id\": \"jobs\", \"user\": \"x\"}", "", Some(Format::NativeJsonl)),
            ("[[0, 174, 348277.8, 1]]", "", Some(Format::Blox)),
            (" [\n {\"status\": \"Pass\"", "", Some(Format::Philly)),
            ("job_id,model_name,arrival_time,num_iters,gpu_demand\n", "", Some(Format::BloxCsv)),
            ("name,time,application,num_replicas,batch_size\n", "", Some(Format::Sia)),
            ("job_id,submission_time,num_iteration,model_name,deadline\n", "", Some(Format::Crius)),
            ("timestamp,duration,num_gpus,gpu_time,cluster\n", "", Some(Format::PhillyCsv)),
            (
                "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
                "",
                Some(Format::Helios),
            ),
            (
                "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time",
                "",
                Some(Format::Openb),
            ),
            ("JobID|User|Submit|State\n", "", Some(Format::Sacct)),
            ("JobIDRaw,User,Submit,State\n", "", Some(Format::Sacct)),
            ("; Version: 2\n; Computer: x\n", "", Some(Format::Swf)),
            ("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1\n", "", Some(Format::Swf)),
            ("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1\n", "", None),
            ("0ab,worker,1.0,Terminated,5.0,9.0,600.0,29.3,100.0,V100\n", "", Some(Format::Pai)),
            (
                "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
                "",
                Some(Format::Pai),
            ),
        ] {
            assert_eq!(Format::detect(head.as_bytes(), Some(Path::new(path))), expected, "{head:?} {path}");
        }
    }
}
