//! Who runs a job instead of the head's own workers.

use wharf_document::decode::{Decode, Fields, Problem};
use wharf_document::node::{Node, Value};

use crate::error::FieldError;
use crate::job::Job;

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

/// Whether a job states what devices it wants; otherwise it only wants to run.
pub(crate) fn names_devices(job: &Job) -> bool {
    let gang = job.gang.clone().unwrap_or_default();
    gang.types.is_some()
        || [gang.devices, gang.devices_per_node, gang.min, gang.max].iter().any(Option::is_some)
}

/// Refuses fields that Slurm would forget, and that a spec does not tell from what is usual.
pub(crate) fn refuse_for_slurm(job: &Job) -> Result<(), FieldError> {
    if job.grace.is_some() {
        let message = "a job of Slurm's own cannot have it; use `--slurm-option --signal=...`";
        return Err(FieldError::new("grace", message));
    }
    if job.account.is_some() {
        let message = "it is an account of Wharf's; name Slurm's as `executor: {slurm: {account: NAME}}`, \
                       or with `--slurm-option --account=NAME`";
        return Err(FieldError::new("account", message));
    }
    Ok(())
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
    use super::*;
    use crate::document::{Format, read};

    #[test]
    fn devices_are_named_by_sizes_and_types_but_not_by_nodes() {
        for (gang, expected) in [
            ("{}", false),
            ("{nodes: 2}", false),
            ("2", true),
            ("2x4", true),
            ("{types: [cpu]}", true),
            ("{min: 1, max: 2}", true),
        ] {
            let jobs = read(&format!("command: x\ngang: {gang}\n"), Format::Yaml).unwrap();
            assert_eq!(names_devices(&jobs[0].job), expected, "{gang}");
        }
    }

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
