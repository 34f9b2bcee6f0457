//! Who runs a job in the place of the head's own workers.

use super::decode::{Decode, Fields, Problem};
use super::node::{Node, Value};

/// Who runs a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executor {
    /// The address of the dashboard of a Ray cluster that is there already.
    pub ray: Option<String>,
    /// A Slurm: the job becomes one of Slurm's own.
    pub slurm: Option<SlurmExecutor>,
}

/// What Slurm has to know that a job does not say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmExecutor {
    /// The partition, where it is not the job's pool.
    pub partition: Option<String>,
    /// Slurm's account.
    pub account: Option<String>,
    /// Slurm's quality of service.
    pub qos: Option<String>,
    /// Further options of sbatch.
    pub options: Option<Vec<String>>,
}

/// The field for a Ray cluster.
const RAY: &str = "ray";
/// The word for a Slurm of which nothing has to be said.
const SLURM: &str = "slurm";

impl Executor {
    /// The names of its fields.
    pub const FIELDS: &[&str] = &[RAY, SLURM];
}

impl SlurmExecutor {
    /// The names of its fields.
    pub const FIELDS: &[&str] = &["partition", "account", "qos", "options"];
}

impl Decode for Executor {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        if matches!(&node.value, Value::Text(word) if word == SLURM) {
            return Ok(Self { slurm: Some(SlurmExecutor::default()), ..Self::default() });
        }
        let fields = Fields::new(node, at, Self::FIELDS)?;
        Ok(Self { ray: fields.take(RAY)?, slurm: fields.take(SLURM)? })
    }
}

impl Decode for SlurmExecutor {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let fields = Fields::new(node, at, Self::FIELDS)?;
        Ok(Self {
            partition: fields.take("partition")?,
            account: fields.take("account")?,
            qos: fields.take("qos")?,
            options: fields.take("options")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, read};
    use super::*;

    #[test]
    fn slurm_is_a_word_or_has_settings() {
        let executor = |text: &str| {
            let jobs = read(&format!("command: x\nexecutor: {text}\n"), Format::Yaml);
            jobs.map(|jobs| jobs[0].job.executor.clone()).map_err(|problem| problem.message)
        };
        let slurm = |slurm| Ok(Some(Executor { slurm: Some(slurm), ..Executor::default() }));
        assert_eq!(executor("slurm"), slurm(SlurmExecutor::default()));
        let options = Some(vec!["--exclusive".to_owned()]);
        let partition = Some("gpu".to_owned());
        let set = SlurmExecutor { partition, options, ..SlurmExecutor::default() };
        assert_eq!(executor("{slurm: {partition: gpu, options: [--exclusive]}}"), slurm(set));
        assert!(executor("{slurm: {queue: gpu}}").unwrap_err().contains("unknown field `queue`"));
        assert!(executor("pbs").is_err());
    }
}
