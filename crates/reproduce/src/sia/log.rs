//! Logs of Sia's simulator: one line of JSON for each round.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::error::SiaError;

/// One round, as it was at its end.
#[derive(Clone, Debug, Deserialize)]
pub struct Round {
    /// Seconds since the start.
    pub timestamp: u64,
    /// Every job that has been submitted, also those that have ended.
    pub submitted_jobs: Vec<JobLine>,
}

/// One job at the end of a round.
#[derive(Clone, Debug, Deserialize)]
pub struct JobLine {
    /// Its name.
    pub name: String,
    /// Epochs that it has done.
    pub epoch: usize,
    /// Progress in steps at the initial batch size.
    pub progress: f64,
    /// Starts but the first.
    pub num_restarts: Option<u32>,
    /// The devices that it has from now on.
    pub allocation: Allocation,
    /// Samples of a step from now on.
    pub batch_size: u32,
    /// How often gradients are accumulated before a step.
    pub accum_steps: u32,
    /// When it was done.
    pub completion_time: Option<u64>,
}

/// A job's devices: their type, and each one's node, counted within the type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Allocation {
    /// Devices, or none and no type.
    Devices(Option<String>, Vec<u32>),
    /// None.
    None([(); 0]),
}

impl Allocation {
    /// The type and the nodes of its devices; `None` where there are none.
    pub fn devices(&self) -> Option<(&str, &[u32])> {
        match self {
            Self::Devices(Some(device_type), nodes) if !nodes.is_empty() => Some((device_type, nodes)),
            _ => None,
        }
    }
}

/// Reads a log, gzip-compressed or plain.
///
/// # Errors
/// A file that cannot be read, or a line that is not a round.
pub fn read_log(path: &Path) -> Result<Vec<Round>, SiaError> {
    let read = |source| SiaError::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(read)?);
    let is_gzip = file.fill_buf().map_err(read)?.starts_with(&[0x1f, 0x8b]);
    let content: Box<dyn Read> = if is_gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    BufReader::new(content)
        .lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(&line.map_err(read)?).map_err(|source| SiaError::Log {
                path: path.to_owned(),
                line: index + 1,
                source,
            })
        })
        .collect()
}
