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
mod pai;
mod philly;
mod request;
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
use crate::error::TraceError;
use crate::finding::Findings;
use crate::placed::Placed;
use crate::row::{RowCheck, Schema};
use crate::write::Loss;
use wharf_core::nearest::nearest;

/// All formats, in the order in which they are tried: text before headers, and the first of headers that match equally well.
/// `job_id` is in many headers, so Wharf's own columns precede the others.
static TABLE: [Format; 18] = [
    Format(&native::CSV),
    Format(&muri::CODEC),
    Format(&gavel::CODEC),
    Format(&blox::STREAM),
    Format(&native::JSONL),
    Format(&blox::REPLAY),
    Format(&sia::CODEC),
    Format(&crius::CODEC),
    Format(&philly::LOG),
    Format(&philly::TABLE),
    Format(&helios::CODEC),
    Format(&openb::CODEC),
    Format(&openb::PODS),
    Format(&pai::CODEC),
    Format(&swf::CODEC),
    Format(&sacct::GPUS),
    Format(&sacct::CPUS),
    Format(&sacct::NODES),
];

/// A trace format: a row of the table of formats.
#[derive(Clone, Copy)]
pub struct Format(&'static Codec);

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
        let names: Vec<_> = Format::all().iter().map(|format| format.name()).collect();
        match nearest(&self.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known formats are {}", names.join(", ")),
        }
    }
}

impl Format {
    /// Wharf's own columns as CSV.
    pub const NATIVE_CSV: Self = Self(&native::CSV);
    /// Wharf's own columns as JSON Lines.
    pub const NATIVE_JSONL: Self = Self(&native::JSONL);

    /// The pods of Alibaba's GPU log of 2023 as requests for CPUs, memory and parts of devices.
    pub const OPENB_PODS: Self = Self(&openb::PODS);

    /// Every format.
    pub fn all() -> &'static [Self] {
        &TABLE
    }

    /// Whether traces can be written in it. The logs of others are only read.
    pub const fn is_writable(self) -> bool {
        self.0.encode.is_some()
    }

    /// Whether a row names a job of its own, so that a name that comes again is a mistake.
    pub(crate) fn names_each_row(self) -> bool {
        self.0.merge.is_none() && self.0.log.is_none_or(|log| log.names_each_row)
    }

    /// What to do about a file without any job to replay.
    pub(crate) fn hint_of_no_jobs(self) -> &'static str {
        self.0.log.map_or(LogSource::ROWS.if_empty, |log| log.if_empty)
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
    /// The first format whose test of the text holds wins. Otherwise the first line is taken as a CSV header: the format that
    /// knows most of its columns wins, and one that knows none of them is not considered.
    pub fn detect(head: &[u8], path: Option<&Path>) -> Option<Self> {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let is_text = |format: &&Self| match format.0.recognise {
            Recognise::Text(test) | Recognise::HeaderOrText(test) => test(text),
            Recognise::Header | Recognise::ByName => false,
        };
        if let Some(format) = TABLE.iter().find(is_text) {
            return Some(*format);
        }
        let header = text.lines().next().unwrap_or_default();
        let names: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
        let known = |format: Self| names.iter().filter(|name| format.0.schema.find(name).is_some()).count();
        let has_header =
            |format: &&Self| matches!(format.0.recognise, Recognise::Header | Recognise::HeaderOrText(_));
        let best = TABLE.iter().rev().filter(has_header).max_by_key(|format| known(**format)).copied();
        best.filter(|format| known(*format) > 0).or_else(|| Self::from_path(path?))
    }

    /// Tells the format from a file's name alone, where its ending belongs to one format only.
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let is_json_lines = [".jsonl", ".ndjson"].iter().any(|ending| name.ends_with(ending));
        is_json_lines.then_some(Self::NATIVE_JSONL)
    }

    pub(crate) const fn codec(self) -> &'static Codec {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
        let found = TABLE.iter().find(|format| format.name().eq_ignore_ascii_case(name));
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
    /// How a file is recognised.
    pub(crate) recognise: Recognise,
    /// Present in logs of what happened: their clock begins anywhere, and not all of their rows are jobs to replay.
    pub(crate) log: Option<LogSource>,
    /// Writes a trace and lists what the format could not hold; none where the format is only read.
    pub(crate) encode: Option<Encode>,
}

/// Writes a trace and lists what the format could not hold.
pub(crate) type Encode = fn(&Trace, &mut dyn Write) -> io::Result<Vec<Loss>>;

/// How the files of a format are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recognise {
    /// By a test of the text at the beginning.
    Text(fn(&str) -> bool),
    /// By the columns of the header.
    Header,
    /// By the columns of a header where there is one, else by a test of the text.
    HeaderOrText(fn(&str) -> bool),
    /// Only where it is named.
    ByName,
}

/// How a log is published and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSource {
    /// The name of the file in a folder, as its owners publish it.
    pub(crate) file: Option<&'static str>,
    /// A table beside it with more about its jobs.
    pub(crate) job_table: Option<JobTable>,
    /// Whether the name of a job can occur once only.
    pub(crate) names_each_row: bool,
    /// What to do about a file without any job to replay.
    pub(crate) if_empty: &'static str,
}

impl LogSource {
    /// One file with a row for each job.
    pub(crate) const ROWS: Self =
        Self { file: None, job_table: None, names_each_row: true, if_empty: "see `wharf trace lint`" };
}

/// A table beside a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobTable {
    /// The name of its file.
    pub(crate) file: &'static str,
    /// Called with the path of the table, where it exists.
    pub(crate) add: AddJobTable,
}

/// Adds what a table says to the jobs.
pub(crate) type AddJobTable = fn(&mut [JobSpec], Option<&Path>, &mut Findings) -> Result<(), TraceError>;

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
        for format in Format::all() {
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
            ("job_id,num_gpu,submit_time,iterations,iteration_time\n", "", Some("muri")),
            ("\u{feff}job_id,submit_s,devices,duration_s\r\n", "", Some("csv")),
            ("\"job_id\", \"submit_s\"\n", "x.jsonl", Some("csv")),
            ("job_id\n", "", Some("csv")),
            ("\n  {\"job_id\": 1}\n", "x.csv", Some("jsonl")),
            ("garbage\n", "x.jsonl.gz", Some("jsonl")),
            ("garbage\n", "x.csv", None),
            ("0,1,0,5853661\n", "", None),
            ("A3C\tc\td\t-n\t1\t7\t1\t1\t-1\t0\n", "", Some("gavel")),
            ("A3C\tcd d && c\t-n\t1\t7\t0.5\t1\n", "", Some("gavel")),
            ("A3C\t7\t1\n", "", None),
            ("", "", None),
            ("{\"columns\": [\"job_id\"], \"jobs\": [[0, 1, 2, 3]]}", "", Some("blox")),
            ("{\"job_id\": \"jobs\", \"user\": \"x\"}", "", Some("jsonl")),
            ("[[0, 174, 348277.8, 1]]", "", Some("blox")),
            (" [\n {\"status\": \"Pass\"", "", Some("philly")),
            ("job_id,model_name,arrival_time,num_iters,gpu_demand\n", "", Some("blox-csv")),
            ("name,time,application,num_replicas,batch_size\n", "", Some("sia")),
            ("job_id,submission_time,num_iteration,model_name,deadline\n", "", Some("crius")),
            ("timestamp,duration,num_gpus,gpu_time,cluster\n", "", Some("philly-csv")),
            (
                "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
                "",
                Some("helios"),
            ),
            (
                "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time",
                "",
                Some("openb"),
            ),
            ("JobID|User|Submit|State\n", "", Some("sacct")),
            ("JobIDRaw,User,Submit,State\n", "", Some("sacct")),
            ("; Version: 2\n; Computer: x\n", "", Some("swf")),
            ("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1\n", "", Some("swf")),
            ("1 0 0 60 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1\n", "", None),
            ("0ab,worker,1.0,Terminated,5.0,9.0,600.0,29.3,100.0,V100\n", "", Some("pai")),
            (
                "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
                "",
                Some("pai"),
            ),
        ] {
            let found = Format::detect(head.as_bytes(), Some(Path::new(path)));
            assert_eq!(found.map(Format::name), expected, "{head:?} {path}");
        }
    }
}
