//! `wharf mpi-agent`: Open MPI calls it instead of ssh to start its daemon on another node of the job. The daemon runs beside the task that holds
//! the job's devices there, with that task's devices, user and limits.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use wharf_client::Access;
use wharf_proto::ExecOpen;
use wharf_tls::Token;

use super::srun::{OF_NODES, interruptions};
use super::step_task::{Output, Reach, Task, key};
use super::{Console, MpiError};
use crate::grammar::hostlist;

/// Name of the command in its messages.
pub const MPI_AGENT: &str = "wharf mpi-agent";

/// Variables that mpirun sets for itself.
const OF_MPIRUN: &[&str] = &["OMPI_", "ORTE_", "PMIX_", "PRTE_"];

/// Runs a shell command line on a node of this job's gang and returns its exit code.
///
/// # Errors
/// [`MpiError`], none of which has been printed.
pub async fn mpi_agent(console: Arc<dyn Console>, host: &str, line: &[String]) -> Result<u8, MpiError> {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let path = PathBuf::from(of("WHARF_TASK_TOKEN_FILE"));
    if path.as_os_str().is_empty() {
        return Err(MpiError::Outside);
    }
    let token = std::fs::read_to_string(&path).map_err(|source| MpiError::Token { path, source })?;
    let token = Token::new(&token);
    let authority = token.authority().ok_or(MpiError::Outside)?;
    let job_id: u32 = of("WHARF_JOB_ID").parse().map_err(|_| MpiError::Outside)?;
    let access = Access { address: of("WHARF_TASK_HEAD"), authority, token };
    let addresses = of("WHARF_ADDRESSES");
    let Some(rank) = rank_of(host, &addresses, &of("SLURM_JOB_NODELIST")) else {
        return Err(MpiError::UnknownNode { host: host.to_owned(), job: job_id, nodes: addresses });
    };
    let shell = Some(of("SHELL")).filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".to_owned());
    let open = ExecOpen {
        job_id,
        rank,
        command: vec![shell, "-c".to_owned(), line.join(" ")],
        env: std::env::vars().filter(|(name, _)| is_common(name)).collect(),
        key: key()?,
        ..ExecOpen::default()
    };
    let reach = Arc::new(Reach::Direct(access));
    let (node, output) = (host.to_owned(), Output::own());
    let task = Task { reach, console, command: MPI_AGENT, rank, node, output, open };
    let (_, stopped) = interruptions()?;
    // A daemon reads nothing.
    let (_, input) = mpsc::channel(1);
    let code = task.run(None, input, stopped).await;
    Ok(u8::try_from(code & 0xff).unwrap_or(1))
}

/// The place of a node in the gang, by its address or its name.
fn rank_of(host: &str, addresses: &str, nodes: &str) -> Option<u32> {
    let of_address = addresses.split(',').position(|address| address == host);
    let of_name = || hostlist::expand(nodes).ok()?.iter().position(|name| name == host);
    of_address.or_else(of_name).and_then(|rank| u32::try_from(rank).ok())
}

/// Whether a variable means the same on all nodes.
fn is_common(name: &str) -> bool {
    !OF_NODES.contains(&name)
        && !name.starts_with("WHARF_")
        && !OF_MPIRUN.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_address_or_name() {
        for (host, expected) in
            [("10.0.0.1", Some(0)), ("10.0.0.2", Some(1)), ("n2", Some(1)), ("n3", None), ("", None)]
        {
            assert_eq!(rank_of(host, "10.0.0.1,10.0.0.2", "n[1-2]"), expected, "{host}");
        }
        assert_eq!(rank_of("n1", "10.0.0.1", ""), None);
    }

    #[test]
    fn variables_of_one_node_or_of_mpirun_stay_there() {
        for (name, expected) in [
            ("PATH", true),
            ("LD_LIBRARY_PATH", true),
            ("CUDA_VISIBLE_DEVICES", false),
            ("WHARF_TASK_TOKEN_FILE", false),
            ("OMPI_MCA_ess_base_jobid", false),
        ] {
            assert_eq!(is_common(name), expected, "{name}");
        }
    }
}
