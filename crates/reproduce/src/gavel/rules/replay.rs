//! Recorded allocations in place of a policy's own: `--set allocations=FILE`.
//!
//! A file is JSON with a list `alloc`, as in recordings of the published simulator, or the lines of Wharf's own
//! `allocations.jsonl`; either may be compressed by gzip. An entry has the time `t` and the shares `x`: a job's name, or two
//! names with a comma between, to a type to a fraction. Jobs and pairs that are not in it have none.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::super::error::GavelError;
use super::super::keys::{Members, NO_JOB};
use super::super::workload::Workload;
use super::{Rule, Shares, Snapshot};

#[derive(Deserialize)]
struct Recording {
    alloc: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    t: f64,
    x: BTreeMap<String, BTreeMap<String, f64>>,
}

/// One recorded allocation, in numbers.
struct Recorded {
    time: f64,
    rows: Vec<(Members, Vec<f64>)>,
}

/// Follows a recording.
pub(super) struct Replay {
    path: String,
    recorded: Vec<Recorded>,
    next: usize,
}

impl Replay {
    /// Reads a recording whose jobs and types are those of the run.
    pub(super) fn read(path: &Path, workload: &Workload<'_>) -> Result<Self, GavelError> {
        let path_text = path.display().to_string();
        let read = || {
            let bytes = std::fs::read(path)?;
            let mut text = String::new();
            if bytes.starts_with(&[0x1f, 0x8b]) {
                MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
            } else {
                bytes.as_slice().read_to_string(&mut text)?;
            }
            Ok(text)
        };
        let text =
            read().map_err(|source| GavelError::ReadAllocations { path: path_text.clone(), source })?;
        let names: HashMap<&str, u32> =
            workload.specs.iter().zip(0..).map(|(spec, index)| (&*spec.name, index)).collect();
        let mut replay = Self { path: path_text, recorded: Vec::new(), next: 0 };
        for (index, entry) in replay.entries(&text)?.into_iter().enumerate() {
            let rows = entry.x.iter().map(|(key, row)| replay.row(index, key, row, &names, &workload.types));
            let rows = rows.collect::<Result<_, _>>()?;
            replay.recorded.push(Recorded { time: entry.t, rows });
        }
        Ok(replay)
    }

    fn wrong(&self, index: Option<usize>, problem: String) -> GavelError {
        let place = index.map_or(String::new(), |index| format!(", entry {}", index + 1));
        GavelError::Allocations { path: self.path.clone(), place, problem }
    }

    fn entries(&self, text: &str) -> Result<Vec<Entry>, GavelError> {
        if let Ok(recording) = serde_json::from_str::<Recording>(text) {
            return Ok(recording.alloc);
        }
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let entry = |(index, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| {
                let problem = format!(
                    "{error}; expected a line such as {{\"t\":0.0,\"x\":{{\"0\":{{\"v100\":0.5}}}}}}"
                );
                self.wrong(Some(index), problem)
            })
        };
        lines.map(entry).collect()
    }

    fn row(
        &self,
        index: usize,
        key: &str,
        row: &BTreeMap<String, f64>,
        names: &HashMap<&str, u32>,
        types: &[Arc<str>],
    ) -> Result<(Members, Vec<f64>), GavelError> {
        let members = members(key, names).ok_or_else(|| {
            self.wrong(Some(index), format!("the trace has no job or pair of jobs `{key}`"))
        })?;
        let mut shares = vec![0.0; types.len()];
        for (name, &share) in row {
            let Some(place) = types.iter().position(|known| **known == **name) else {
                return Err(self.wrong(Some(index), format!("the cluster has no type `{name}`")));
            };
            if !(share.is_finite() && share >= 0.0) {
                return Err(
                    self.wrong(Some(index), format!("`{key}` has {share} of `{name}`, expected 0 or more"))
                );
            }
            shares[place] = share;
        }
        Ok((members, shares))
    }
}

/// A job's name, or two with a comma between; names may have commas themselves.
fn members(key: &str, names: &HashMap<&str, u32>) -> Option<Members> {
    if let Some(&job) = names.get(key) {
        return Some([job, NO_JOB]);
    }
    key.match_indices(',').find_map(|(comma, _)| {
        let (first, second) = (*names.get(&key[..comma])?, *names.get(&key[comma + 1..])?);
        (first != second).then_some([first.min(second), first.max(second)])
    })
}

impl Rule for Replay {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        let Some(recorded) = self.recorded.get(self.next) else {
            // The published code records nothing when there are no jobs.
            if snapshot.jobs.is_empty() {
                return Ok(());
            }
            let problem = format!("there is none for {} s, after the last", snapshot.now);
            return Err(self.wrong(None, problem));
        };
        if recorded.time != snapshot.now {
            if snapshot.jobs.is_empty() {
                return Ok(());
            }
            let problem = format!("it is for {} s, and the run is at {} s", recorded.time, snapshot.now);
            return Err(self.wrong(Some(self.next), problem));
        }
        self.next += 1;
        let width = snapshot.workload.width();
        for (members, row) in &recorded.rows {
            if members[1] != NO_JOB {
                shares.pairs.insert(*members, row.clone());
            } else if let Ok(place) = snapshot.jobs.binary_search(&members[0]) {
                shares.singles[place * width..(place + 1) * width].copy_from_slice(row);
            }
        }
        Ok(())
    }
}
