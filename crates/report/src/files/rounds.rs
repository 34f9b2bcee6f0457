//! `rounds.jsonl` and `allocations.jsonl`: what ran in each round, and the shares that were computed, a JSON object a line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use wharf_core::{JobId, JobSpec};
use wharf_outcome::{Allocation, Round, RoundJob};

use super::events::{write_name, write_placement};

/// Name of the file with what ran in each round.
const ROUNDS_JSONL: &str = "rounds.jsonl";
/// Name of the file with the shares of time that were computed.
const ALLOCATIONS_JSONL: &str = "allocations.jsonl";

/// Writes both files; a file without a line is not made.
///
/// A round has its number, `t` (seconds), `running` (`job`, `type`, `devices`, `nodes`, `remaining` iterations and, where
/// devices are shared, `beside`) and `pending`. An allocation has `t` and `x`: a job, or several with commas between, to a type
/// to a fraction of time; sets of several that have none are left out. That is what `--set allocations=FILE` reads.
pub struct RoundWriter<'a> {
    jobs: &'a [JobSpec],
    rounds: LazyFile,
    allocations: LazyFile,
}

/// A file that is made by its first line, and keeps its first failure.
struct LazyFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    error: Option<io::Error>,
}

impl LazyFile {
    fn new(path: PathBuf) -> Self {
        Self { path, file: None, error: None }
    }

    fn write(&mut self, line: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = self.open().and_then(line).err();
        }
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.file.is_none() {
            self.file = Some(BufWriter::with_capacity(1 << 18, File::create(&self.path)?));
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("the file was just made"))
    }

    fn finish(self) -> io::Result<()> {
        match (self.error, self.file) {
            (Some(error), _) => Err(error),
            (None, Some(mut file)) => file.flush(),
            (None, None) => Ok(()),
        }
    }
}

impl<'a> RoundWriter<'a> {
    /// Writes into a folder; `jobs` have the names.
    pub fn new(folder: &Path, jobs: &'a [JobSpec]) -> Self {
        let file = |name| LazyFile::new(folder.join(name));
        Self { jobs, rounds: file(ROUNDS_JSONL), allocations: file(ALLOCATIONS_JSONL) }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first failure of any write.
    pub fn finish(self) -> io::Result<()> {
        self.rounds.finish()?;
        self.allocations.finish()
    }

    /// Writes a round.
    pub fn round(&mut self, round: &Round) {
        let jobs = self.jobs;
        self.rounds.write(|out| write_round(out, jobs, round));
    }

    /// Writes an allocation.
    pub fn allocated(&mut self, allocation: &Allocation) {
        let jobs = self.jobs;
        self.allocations.write(|out| write_allocation(out, jobs, allocation));
    }
}

fn write_round(out: &mut impl Write, jobs: &[JobSpec], round: &Round) -> io::Result<()> {
    write!(out, "{{\"round\":{},\"t\":", round.index)?;
    serde_json::to_writer(&mut *out, &round.time.seconds())?;
    out.write_all(b",\"running\":[")?;
    for (index, running) in round.running.iter().enumerate() {
        out.write_all(if index > 0 { b",{\"job\":" } else { b"{\"job\":" })?;
        write_running(out, jobs, running)?;
    }
    out.write_all(b"],\"pending\":")?;
    write_names(out, jobs, &round.pending)?;
    out.write_all(b"}\n")
}

fn write_running(out: &mut impl Write, jobs: &[JobSpec], running: &RoundJob) -> io::Result<()> {
    write_name(out, jobs, running.job)?;
    out.write_all(b",\"type\":")?;
    serde_json::to_writer(&mut *out, &*running.device_type)?;
    write!(out, ",\"devices\":{}", running.devices)?;
    write_placement(out, &running.nodes)?;
    out.write_all(b",\"remaining\":")?;
    serde_json::to_writer(&mut *out, &running.remaining)?;
    if !running.beside.is_empty() {
        out.write_all(b",\"beside\":")?;
        write_names(out, jobs, &running.beside)?;
    }
    out.write_all(b"}")
}

fn write_names(out: &mut impl Write, jobs: &[JobSpec], names: &[JobId]) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, &job) in names.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        write_name(out, jobs, job)?;
    }
    out.write_all(b"]")
}

fn write_allocation(out: &mut impl Write, jobs: &[JobSpec], allocation: &Allocation) -> io::Result<()> {
    out.write_all(b"{\"t\":")?;
    serde_json::to_writer(&mut *out, &allocation.time.seconds())?;
    out.write_all(b",\"x\":{")?;
    let is_told = |members: &[JobId], row: &[f64]| members.len() < 2 || row.iter().any(|share| *share != 0.0);
    let told = allocation.fractions.iter().filter(|(members, row)| is_told(members, row));
    for (index, (members, row)) in told.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        let names: Vec<&str> = members.iter().map(|job| &*jobs[job.index()].name).collect();
        serde_json::to_writer(&mut *out, &names.join(","))?;
        for (index, (name, share)) in allocation.device_types.iter().zip(row).enumerate() {
            out.write_all(if index > 0 { b"," } else { b":{" })?;
            serde_json::to_writer(&mut *out, &**name)?;
            out.write_all(b":")?;
            serde_json::to_writer(&mut *out, share)?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"}}\n")
}

#[cfg(test)]
mod tests {
    use wharf_core::{DeviceSet, NodeId, NodeShare, Time};

    use super::*;

    #[test]
    fn lines_are_objects_and_files_without_lines_are_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = ["a", "b", "c"].map(|name| JobSpec::new(name, Time::ZERO, 1, 1.0, 1.0)).to_vec();
        let mut writer = RoundWriter::new(folder.path(), &jobs);
        let nodes = vec![NodeShare::new(NodeId(3), DeviceSet(0b1))];
        let running = |job: u32, beside: u32| RoundJob {
            job: JobId(job),
            device_type: "v100".into(),
            devices: 1,
            nodes: nodes.clone(),
            remaining: 7.5,
            beside: vec![JobId(beside)],
        };
        writer.round(&Round {
            index: 2,
            time: Time::from_seconds(0.1),
            running: vec![running(0, 1), running(1, 0)],
            pending: vec![JobId(2)],
        });
        writer.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join(ROUNDS_JSONL)).unwrap();
        insta::assert_snapshot!(text, @r#"{"round":2,"t":0.1,"running":[{"job":"a","type":"v100","devices":1,"nodes":[[3,[0]]],"remaining":7.5,"beside":["b"]},{"job":"b","type":"v100","devices":1,"nodes":[[3,[0]]],"remaining":7.5,"beside":["a"]}],"pending":["c"]}"#);
        assert!(!folder.path().join(ALLOCATIONS_JSONL).exists());
    }

    #[test]
    fn allocations_are_as_recordings_have_them() {
        let jobs = ["0", "1"].map(|name| JobSpec::new(name, Time::ZERO, 1, 1.0, 1.0)).to_vec();
        let mut out = Vec::new();
        let allocation = Allocation {
            time: Time::ZERO,
            device_types: vec!["k80".into(), "v100".into()],
            fractions: vec![
                (vec![JobId(0)], vec![0.0, 0.25]),
                (vec![JobId(1)], vec![0.0, 0.0]),
                (vec![JobId(0), JobId(1)], vec![0.5, 0.0]),
            ],
        };
        write_allocation(&mut out, &jobs, &allocation).unwrap();
        let text = String::from_utf8(out).unwrap();
        let x = r#"{"0":{"k80":0.0,"v100":0.25},"1":{"k80":0.0,"v100":0.0},"0,1":{"k80":0.5,"v100":0.0}}"#;
        assert_eq!(text, format!("{{\"t\":0.0,\"x\":{x}}}\n"));
    }
}
