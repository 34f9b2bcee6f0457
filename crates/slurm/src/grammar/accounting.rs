//! Jobs and steps as sacct shows them: its fields, their titles, widths and values.

use super::limit::{Full, TimeLimit};
use super::memory;
use super::outcome::State;
use super::squeue::Job;
use super::table::{self, Column, Field};

/// Fields in the order of `sacct --helpformat`.
pub const FIELDS: &[Field] = &[
    ("Account", 10),
    ("AdminComment", 15),
    ("AllocCPUS", 10),
    ("AllocNodes", 10),
    ("AllocTRES", 10),
    ("AssocID", 7),
    ("AveCPU", 10),
    ("AveCPUFreq", 10),
    ("AveDiskRead", 14),
    ("AveDiskWrite", 14),
    ("AvePages", 10),
    ("AveRSS", 10),
    ("AveVMSize", 10),
    ("BlockID", 16),
    ("Cluster", 10),
    ("Comment", 14),
    ("Constraints", 19),
    ("ConsumedEnergy", 14),
    ("ConsumedEnergyRaw", 17),
    ("Container", 19),
    ("CPUTime", 10),
    ("CPUTimeRAW", 10),
    ("DBIndex", -10),
    ("DerivedExitCode", 15),
    ("Elapsed", 10),
    ("ElapsedRaw", 10),
    ("Eligible", 19),
    ("End", 19),
    ("ExitCode", 8),
    ("Flags", 19),
    ("GID", 6),
    ("Group", 9),
    ("JobID", -12),
    ("JobIDRaw", -12),
    ("JobName", 10),
    ("Layout", 9),
    ("MaxDiskRead", 12),
    ("MaxDiskReadNode", 15),
    ("MaxDiskReadTask", 15),
    ("MaxDiskWrite", 12),
    ("MaxDiskWriteNode", 16),
    ("MaxDiskWriteTask", 16),
    ("MaxPages", 8),
    ("MaxPagesNode", 12),
    ("MaxPagesTask", 14),
    ("MaxRSS", 10),
    ("MaxRSSNode", 10),
    ("MaxRSSTask", 10),
    ("MaxVMSize", 10),
    ("MaxVMSizeNode", 14),
    ("MaxVMSizeTask", 14),
    ("McsLabel", 12),
    ("MinCPU", 10),
    ("MinCPUNode", 10),
    ("MinCPUTask", 10),
    ("NCPUS", 10),
    ("NNodes", 8),
    ("NodeList", 15),
    ("NTasks", 8),
    ("Partition", 10),
    ("Priority", 10),
    ("QOS", 10),
    ("QOSRAW", 6),
    ("Reason", 22),
    ("ReqCPUFreq", 10),
    ("ReqCPUFreqGov", 13),
    ("ReqCPUFreqMax", 13),
    ("ReqCPUFreqMin", 13),
    ("ReqCPUS", 8),
    ("ReqMem", 10),
    ("ReqNodes", 8),
    ("ReqTRES", 10),
    ("Reservation", 20),
    ("ReservationId", 8),
    ("Reserved", 10),
    ("ResvCPU", 10),
    ("ResvCPURAW", 10),
    ("Start", 19),
    ("State", 10),
    ("Submit", 19),
    ("SubmitLine", 20),
    ("Suspended", 10),
    ("SystemComment", 15),
    ("SystemCPU", 10),
    ("Timelimit", 10),
    ("TimelimitRaw", 10),
    ("TotalCPU", 10),
    ("TRESUsageInAve", 14),
    ("TRESUsageInMax", 14),
    ("TRESUsageInMaxNode", 18),
    ("TRESUsageInMaxTask", 18),
    ("TRESUsageInMin", 14),
    ("TRESUsageInMinNode", 18),
    ("TRESUsageInMinTask", 18),
    ("TRESUsageInTot", 14),
    ("TRESUsageOutAve", 15),
    ("TRESUsageOutMax", 15),
    ("TRESUsageOutMaxNode", 19),
    ("TRESUsageOutMaxTask", 19),
    ("TRESUsageOutMin", 15),
    ("TRESUsageOutMinNode", 19),
    ("TRESUsageOutMinTask", 19),
    ("TRESUsageOutTot", 15),
    ("UID", 6),
    ("User", 9),
    ("UserCPU", 10),
    ("WCKey", 10),
    ("WCKeyID", 10),
    ("WorkDir", 20),
];

/// What sacct prints by default.
pub const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
/// With `--brief`.
pub const BRIEF: &str = "jobid,state,exitcode";
/// With `--long`.
pub const LONG: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,\
    maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,\
    state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode,\
    maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,\
    tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,\
    tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot";

/// Older names of fields.
const SYNONYMS: &[(&str, &str)] =
    &[("planned", "reserved"), ("plannedcpu", "resvcpu"), ("plannedcpuraw", "resvcpuraw")];

/// The columns of `--format`.
///
/// # Errors
/// What is the name of no field.
pub fn columns(format: &str) -> Result<Vec<Column>, String> {
    let known = |word: &str| {
        let (name, width) = word.split_once('%').map_or((word, None), |(name, width)| (name, Some(width)));
        let synonym = SYNONYMS.iter().find(|(newer, _)| newer.eq_ignore_ascii_case(name.trim()));
        let name = synonym.map_or(name, |(_, older)| older);
        width.map_or_else(|| name.to_owned(), |width| format!("{name}%{width}"))
    };
    table::columns(FIELDS, &format.split(',').map(known).collect::<Vec<_>>().join(","))
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A job.
    Allocation,
    /// Its script.
    Batch,
    /// A command on its nodes.
    Step,
}

/// An amount of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// Memory; 0: not limited.
    pub memory_mib: u64,
    /// GPUs, and their type.
    pub gpus: Option<(String, u32)>,
}

impl Resources {
    /// As `billing=2,cpu=2,mem=100M,node=1`.
    fn tres(&self, is_billed: bool) -> String {
        let mut parts = Vec::new();
        if is_billed {
            parts.push(format!("billing={}", self.cpus));
        }
        parts.push(format!("cpu={}", self.cpus));
        if let Some((kind, count)) = &self.gpus {
            parts.push(format!("gres/gpu:{kind}={count}"));
            parts.push(format!("gres/gpu={count}"));
        }
        if self.memory_mib > 0 {
            parts.push(format!("mem={}", mebibytes(self.memory_mib)));
        }
        parts.push(format!("node={}", self.nodes));
        parts.join(",")
    }
}

/// Amounts that the tasks of a row have used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The most memory that a task had at a time.
    pub max_rss_bytes: u64,
    /// The mean of all tasks'.
    pub average_rss_bytes: u64,
    /// The node and the rank of the task with the most.
    pub max_rss_at: (String, u32),
    /// Seconds of processors in the program and in the system.
    pub cpu_s: (f64, f64),
}

/// A job or a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As squeue has it.
    pub job: Job,
    /// What it is.
    pub level: Level,
    /// The highest exit code of the steps.
    pub derived: String,
    /// Requested, and allocated.
    pub resources: [Resources; 2],
    /// Tasks of a step.
    pub tasks: u32,
    /// Measured; none where nothing is.
    pub usage: Option<Usage>,
    /// When it could have started.
    pub eligible: String,
    /// Seconds between that and its start.
    pub reserved_s: u64,
    /// Its user's and group's numbers and the group's name.
    pub ids: [String; 3],
    /// `--comment`.
    pub comment: String,
    /// `--qos`.
    pub qos: String,
    /// `--constraint`.
    pub constraints: String,
    /// `--reservation`.
    pub reservation: String,
    /// The image that it runs in.
    pub container: String,
    /// The command that submitted it.
    pub submit_line: String,
}

impl Row {
    /// The value of one of [`FIELDS`]; empty where Wharf has no such fact.
    #[must_use]
    pub fn value(&self, field: &str, cluster: &str) -> String {
        let job = &self.job;
        let is_job = self.level == Level::Allocation;
        let of_job = |value: String| if is_job { value } else { String::new() };
        let of_step = |value: String| if is_job { String::new() } else { value };
        let or = |text: &str| if text.is_empty() { "Unknown".to_owned() } else { text.to_owned() };
        let cpu_s = job.used_s * u64::from(job.cpus);
        match field {
            "Account" => job.account.clone(),
            "AllocCPUS" | "NCPUS" => if job.state == State::Pending { 0 } else { job.cpus }.to_string(),
            "AllocNodes" => if job.state == State::Pending { 0 } else { job.nodes }.to_string(),
            "AllocTRES" if job.state == State::Pending => String::new(),
            "AllocTRES" => self.resources[1].tres(is_job),
            "Cluster" => cluster.to_owned(),
            "Comment" => of_job(self.comment.clone()),
            "Constraints" => of_job(self.constraints.clone()),
            "Container" => self.container.clone(),
            "CPUTime" => Full(cpu_s).to_string(),
            "CPUTimeRAW" => cpu_s.to_string(),
            "DBIndex" => job.job.to_string(),
            "DerivedExitCode" => self.derived.clone(),
            "Elapsed" => Full(job.used_s).to_string(),
            "ElapsedRaw" => job.used_s.to_string(),
            "Eligible" => or(&self.eligible),
            "End" => or(&job.times[2]),
            "ExitCode" => job.exit.clone(),
            "GID" => of_job(self.ids[1].clone()),
            "Group" => of_job(self.ids[2].clone()),
            "JobID" => job.id.clone(),
            "JobIDRaw" if is_job => job.job.to_string(),
            "JobIDRaw" => format!("{}.{}", job.job, job.id.rsplit('.').next().unwrap_or_default()),
            "JobName" => job.name.clone(),
            "Layout" => of_step("Unknown".to_owned()),
            "NNodes" => job.nodes.to_string(),
            "NodeList" if job.nodelist.is_empty() => "None assigned".to_owned(),
            "NodeList" => job.nodelist.clone(),
            "NTasks" => of_step(self.tasks.to_string()),
            "Partition" => of_job(job.partition.clone()),
            "Priority" => of_job(job.priority.to_string()),
            "QOS" => of_job(self.qos.clone()),
            "QOSRAW" => of_job("1".to_owned()),
            "Reason" => of_job(job.reason.clone()),
            "ReqCPUFreq" | "ReqCPUFreqGov" | "ReqCPUFreqMax" | "ReqCPUFreqMin" => {
                of_job("Unknown".to_owned())
            }
            "ReqCPUS" => self.resources[0].cpus.to_string(),
            "ReqMem" => of_job(mebibytes(self.resources[0].memory_mib)),
            "ReqNodes" => of_job(self.resources[0].nodes.to_string()),
            "ReqTRES" => of_job(self.resources[0].tres(true)),
            "Reservation" => of_job(self.reservation.clone()),
            "Reserved" => of_job(Full(self.reserved_s).to_string()),
            "ResvCPU" => of_job(Full(self.reserved_s * u64::from(job.cpus)).to_string()),
            "ResvCPURAW" => of_job((self.reserved_s * u64::from(job.cpus)).to_string()),
            "Start" => or(&job.times[1]),
            "State" => job.state.names().1.to_owned(),
            "Submit" => or(&job.times[0]),
            "SubmitLine" => of_job(self.submit_line.clone()),
            "Suspended" => "00:00:00".to_owned(),
            "Timelimit" => of_job(job.limit.to_string()),
            "TimelimitRaw" => of_job(match job.limit {
                TimeLimit::Minutes(minutes) => minutes.to_string(),
                TimeLimit::Unlimited => "UNLIMITED".to_owned(),
            }),
            "UID" => of_job(self.ids[0].clone()),
            "User" => of_job(job.user.clone()),
            "WorkDir" => of_job(job.workdir.clone()),
            _ => self.measured(field),
        }
    }

    /// Fields of what was measured.
    fn measured(&self, field: &str) -> String {
        let is_job = self.level == Level::Allocation;
        let Some(usage) = &self.usage else {
            let is_time = ["SystemCPU", "TotalCPU", "UserCPU"].contains(&field);
            return if is_time { Full(0).to_string() } else { String::new() };
        };
        let (user_s, system_s) = usage.cpu_s;
        match field {
            "SystemCPU" => processor_time(system_s),
            "TotalCPU" => processor_time(user_s + system_s),
            "UserCPU" => processor_time(user_s),
            // Memory is that of steps.
            _ if is_job => String::new(),
            "AveCPU" | "MinCPU" => {
                Full(((user_s + system_s) / f64::from(self.tasks.max(1))) as u64).to_string()
            }
            "AveRSS" => kibibytes(usage.average_rss_bytes),
            "MaxRSS" => kibibytes(usage.max_rss_bytes),
            "MaxRSSNode" | "MinCPUNode" => usage.max_rss_at.0.clone(),
            "MaxRSSTask" | "MinCPUTask" => usage.max_rss_at.1.to_string(),
            "TRESUsageInAve" => {
                format!("cpu={},mem={}", self.measured("AveCPU"), kibibytes(usage.average_rss_bytes))
            }
            "TRESUsageInMax" | "TRESUsageInTot" => {
                format!("cpu={},mem={}", Full((user_s + system_s) as u64), kibibytes(usage.max_rss_bytes))
            }
            _ => String::new(),
        }
    }
}

/// Memory as `100M` or `2G`; none is `0`.
fn mebibytes(amount: u64) -> String {
    match amount {
        0 => "0".to_owned(),
        amount if amount.is_multiple_of(1024) => memory::shown(amount),
        amount => format!("{amount}M"),
    }
}

fn kibibytes(bytes: u64) -> String {
    format!("{}K", bytes.div_ceil(1024))
}

/// Seconds as `MM:SS.mmm`, or with days and hours where there are some.
fn processor_time(seconds: f64) -> String {
    if seconds <= 0.0 {
        return Full(0).to_string();
    }
    let (whole, millis) = (seconds as u64, (seconds.fract() * 1000.0) as u64);
    match whole / 3600 {
        0 => format!("{:02}:{:02}.{millis:03}", whole / 60, whole % 60),
        _ => Full(whole).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_names_of_newer_versions_too() {
        let widths = |format: &str| {
            columns(format).map(|all| all.iter().map(|one| (one.field, one.width)).collect::<Vec<_>>())
        };
        assert_eq!(widths("planned%20,JobIDRaw"), Ok(vec![("Reserved", 20), ("JobIDRaw", 12)]));
        assert_eq!(widths("state,nosuch"), Err("nosuch".to_owned()));
        for format in [DEFAULT, BRIEF, LONG] {
            assert!(columns(format).is_ok(), "{format}");
        }
    }

    #[test]
    fn amounts_are_written_as_slurm_writes_them() {
        // Measured with Slurm 22.05.8.
        for (seconds, expected) in
            [(0.0, "00:00:00"), (0.5095, "00:00.509"), (75.25, "01:15.250"), (7261.5, "02:01:01")]
        {
            assert_eq!(processor_time(seconds), expected);
        }
        let of = Resources { cpus: 2, nodes: 1, memory_mib: 4000, gpus: None };
        assert_eq!(of.tres(true), "billing=2,cpu=2,mem=4000M,node=1");
        assert_eq!(Resources { memory_mib: 2048, ..of.clone() }.tres(false), "cpu=2,mem=2G,node=1");
        let gpus = Resources { gpus: Some(("v100".into(), 3)), memory_mib: 0, ..of };
        assert_eq!(gpus.tres(true), "billing=2,cpu=2,gres/gpu:v100=3,gres/gpu=3,node=1");
    }
}
