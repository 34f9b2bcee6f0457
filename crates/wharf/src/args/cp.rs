//! `wharf cp`

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use wharf_job::JobNumber;

use super::cluster::HomeArgs;
use super::value::ArgError;

/// `wharf cp`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cp config.json 3:/app/config.json     Copy into the container or onto the node of job 3
  wharf cp 3:/app/results ./results           Copy a directory from the job
  wharf cp new.py 12_4:1:/app/                Copy to rank 1 of array element 12_4
  wharf cp ./odd:name 3:/tmp/                 Start local names with a colon with ./ or /")]
pub struct CpArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Source: local path, JOB:PATH or JOB:RANK:PATH
    #[arg(value_name = "FROM")]
    pub from: CpPlace,
    /// Destination: local path, JOB:PATH or JOB:RANK:PATH
    #[arg(value_name = "TO")]
    pub to: CpPlace,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpPlace {
    /// A local path.
    Here(PathBuf),
    /// A path in a task's file system.
    Task {
        /// The job.
        job: JobNumber,
        /// Node rank in the gang.
        rank: u32,
        /// Path in its container, if it has one.
        path: String,
    },
}

impl FromStr for CpPlace {
    type Err = ArgError;

    fn from_str(text: &str) -> Result<Self, ArgError> {
        let Some((job, rest)) = text.split_once(':') else { return Ok(Self::Here(text.into())) };
        if job.starts_with(['.', '/', '~']) {
            return Ok(Self::Here(text.into()));
        }
        let job = job.parse().map_err(|error| ArgError::Job { job: job.to_owned(), error })?;
        let ranked = rest.split_once(':').and_then(|(rank, path)| Some((rank.parse().ok()?, path)));
        let (rank, path) = ranked.unwrap_or((0, rest));
        if path.is_empty() {
            return Err(ArgError::NoPath);
        }
        Ok(Self::Task { job, rank, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_here_or_of_a_task() {
        let task = |job, index, rank, path: &str| CpPlace::Task {
            job: JobNumber { job, index },
            rank,
            path: path.to_owned(),
        };
        for (text, expected) in [
            ("a/b.txt", Some(CpPlace::Here("a/b.txt".into()))),
            ("./a:b", Some(CpPlace::Here("./a:b".into()))),
            ("3:/x", Some(task(3, None, 0, "/x"))),
            ("3:rel", Some(task(3, None, 0, "rel"))),
            ("12_4:1:/x:y", Some(task(12, Some(4), 1, "/x:y"))),
            ("3:", None),
            ("host:/x", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
