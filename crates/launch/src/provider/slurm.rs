//! Machines that are allocations of a Slurm: one job of one node for each, so that one that is lost takes no other with it.
//!
//! What is known of them is in the comments of the jobs. Processes that a step of `srun` has started end with the step, so what is to stay is
//! started by the job's own script, the *keeper*: it searches for requests in the node's folder and runs them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::program::ask;
use super::waiting::{Seen, Waiting};
use super::{
    Argv, Channel, Doing, Enter, Left, Machine, Made, Provider, ProviderError, Shell, Ssh, Unreached, Waits,
};
use crate::config::{Cluster, NodeConfig, Reach, SlurmConfig};
use crate::runner::Log;
use crate::shell::{line, quote};
use crate::state::Folder;

/// How often Slurm is asked whether jobs have started.
const LOOK: Duration = Duration::from_millis(500);
/// Between the parts of a line of squeue; comments are last.
const SEPARATOR: char = '|';

/// The job's script. It makes no folder: one that is gone was removed because the node is not needed any more.
const KEEPER: &str = r#"#!/bin/sh
cd
while :; do
  for request in "$HOME/.wharf/$PLACE/spool"/*/request; do
    [ -e "$request" ] || continue
    d=${request%/*}
    mv "$request" "$d/taken" || continue
    (
      setsid sh "$d/taken" > "$d/out" 2> "$d/err" < /dev/null
      echo $? > "$d/code.new"
      mv "$d/code.new" "$d/code"
    ) &
  done
  sleep 0.2
done
"#;

/// Has the keeper run something, and hands on what it says and how it ends.
const RELAY: &str = r#"
umask 077
spool="$HOME/.wharf/$1/spool"
mkdir -p "$spool" && d=$(mktemp -d "$spool/XXXXXX") || exit 1
trap 'rm -rf "$d"' EXIT
trap 'exit 143' TERM INT HUP
printf '%s\n' "$2" > "$d/new" && : > "$d/out" && : > "$d/err" && mv "$d/new" "$d/request" || exit 1
out=0 err=0 last=
more() { tail -c +$(($2 + 1)) "$d/$1" > "$d/part"; cat "$d/part"; n=$(($2 + $(wc -c < "$d/part"))); }
while :; do
  [ ! -e "$d/code" ] || last=yes
  more out $out; out=$n
  more err $err >&2; err=$n
  [ -z "$last" ] || break
  sleep 0.2
done
read -r code < "$d/code"
exit "$code"
"#;

/// What srun says, and what that means.
const OVER: [&str; 4] =
    ["Invalid job id", "already completing or completed", "Job credential revoked", "Expired or invalid job"];
const CUT_OFF: [&str; 6] = [
    "Unable to confirm allocation",
    "Unable to create step",
    "Communication connection failure",
    "Node failure",
    "Timed out",
    "Unable to contact slurm controller",
];

/// Allocations of a Slurm.
pub struct Slurm {
    config: SlurmConfig,
    cluster: String,
    log: Log,
    output: PathBuf,
    ssh: Ssh,
    srun: Srun,
}

/// How things are done inside of an allocation.
struct Srun {
    cluster: String,
}

impl Slurm {
    /// Those of a cluster.
    #[must_use]
    pub fn new(config: SlurmConfig, cluster: &Cluster, folder: &Folder) -> Self {
        Self {
            config,
            cluster: cluster.name.clone(),
            log: Log::new(folder.provider_log()),
            output: folder.logs(),
            ssh: Ssh::new(folder),
            srun: Srun { cluster: cluster.name.clone() },
        }
    }

    async fn run(&self, words: &[&str], input: Option<&str>) -> Result<String, ProviderError> {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        ask(&self.log, &argv, input).await
    }

    /// What the jobs of this cluster are called.
    fn title(&self) -> String {
        format!("wharf-{}", self.cluster)
    }

    async fn jobs(&self) -> Result<Vec<Seen>, ProviderError> {
        let title = self.title();
        let format = ["%i", "%T", "%r", "%N", "%k"].join("|");
        let words = ["squeue", "--me", "--noheader", "--name", &title, "--format", &format];
        let said = self.run(&words, None).await?;
        let mut jobs: Vec<Seen> = said.lines().filter_map(|line| self.job(line)).collect();
        let addresses = self.addresses(&jobs).await?;
        for Seen { machine, .. } in &mut jobs {
            machine.inner_address = addresses.get(&machine.address).cloned().unwrap_or_default();
        }
        Ok(jobs)
    }

    /// Where nodes of jobs are: their names are Slurm's, and others need not know them.
    async fn addresses(&self, jobs: &[Seen]) -> Result<BTreeMap<String, String>, ProviderError> {
        let names: Vec<&str> = jobs.iter().map(|job| job.machine.address.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names = names.join(",");
        let words = ["sinfo", "--noheader", "--Node", "--nodes", &names, "--format", "%N|%o"];
        let said = self.run(&words, None).await?;
        let pairs = said.lines().filter_map(|line| line.split_once(SEPARATOR));
        Ok(pairs.map(|(name, address)| (name.trim().to_owned(), address.trim().to_owned())).collect())
    }

    /// A job of this cluster; others may have jobs of the same name.
    fn job(&self, line: &str) -> Option<Seen> {
        let mut parts = line.splitn(5, SEPARATOR).map(str::trim);
        let (id, state, reason, host) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let mut known = parts.next()?.strip_prefix("wharf:")?.split(':');
        let (cluster, name, launch) = (known.next()?, known.next()?, known.next()?);
        if cluster != self.cluster || state == "COMPLETING" {
            return None;
        }
        let is_up = state == "RUNNING";
        let machine = Machine {
            name: name.to_owned(),
            id: id.to_owned(),
            address: if is_up { host.to_owned() } else { String::new() },
            launch: launch.to_owned(),
            enter: match self.config.reach {
                Reach::Srun => srun(id),
                Reach::Ssh => vec![],
            },
            ..Machine::default()
        };
        Some(Seen { machine, state: format!("{state} ({reason})") })
    }

    /// Asks for a node; it comes when Slurm has one.
    async fn submit(&self, node: &NodeConfig) -> Result<(), ProviderError> {
        let comment = format!("wharf:{}:{}:{}", self.cluster, node.name, node.launch);
        let output = self.output.join(format!("{}.slurm", node.name));
        let (title, output) = (self.title(), output.to_string_lossy().into_owned());
        let mut words = vec!["sbatch", "--parsable", "--nodes=1", "--ntasks=1", "--no-requeue", "--chdir=/"];
        words.extend(self.config.options.iter().map(String::as_str));
        words.extend(["--job-name", &title, "--comment", &comment, "--output", &output]);
        let place = quote(&self.place(&self.cluster, node));
        let script = KEEPER.replacen("#!/bin/sh\n", &format!("#!/bin/sh\nPLACE={place}\n"), 1);
        self.run(&words, Some(&script)).await.map(|_| ())
    }
}

/// What is in front of commands that are to run in an allocation. Steps share what the job has, however much that is; what they say is handed on
/// as it comes, because it may be no lines.
fn srun(id: &str) -> Vec<String> {
    let job = format!("--jobid={id}");
    ["srun", &job, "--overlap", "--mem=0", "--nodes=1", "--ntasks=1", "--unbuffered", "--quiet"]
        .map(str::to_owned)
        .to_vec()
}

impl Provider for Slurm {
    fn list(&self) -> Doing<'_, Vec<Machine>> {
        Box::pin(async move { Ok(self.jobs().await?.into_iter().map(|job| job.machine).collect()) })
    }

    fn create<'a>(&'a self, nodes: &'a [NodeConfig], waits: &'a Waits) -> Doing<'a, Made> {
        Box::pin(async move {
            let jobs = self.jobs().await?;
            let (mut made, mut missing) = (Made::new(), Vec::new());
            for node in nodes {
                let has_job = jobs.iter().any(|job| job.machine.name == node.name);
                match if has_job { Ok(()) } else { self.submit(node).await } {
                    Ok(()) => missing.push(node.name.clone()),
                    Err(error) => made.push((node.name.clone(), Err(error))),
                }
            }
            let waiting = Waiting {
                pause: LOOK,
                limit: self.config.queue_timeout,
                waits,
                unseen: Some(ProviderError::Cannot("Slurm has ended its job".to_owned())),
            };
            made.extend(waiting.until_ready(missing, || Box::pin(self.jobs())).await?);
            Ok(made)
        })
    }

    fn terminate<'a>(&'a self, machines: &'a [Machine]) -> Doing<'a, ()> {
        Box::pin(async move {
            let ids: Vec<&str> = machines.iter().map(|machine| machine.id.as_str()).collect();
            if ids.is_empty() {
                return Ok(());
            }
            // Jobs that have ended are none to Slurm after a while, and no failure.
            let mut words = vec!["scancel", "--quiet"];
            words.extend(&ids);
            let cancelled = self.run(&words, None).await;
            loop {
                let jobs = self.jobs().await?;
                if !jobs.iter().any(|job| ids.contains(&job.machine.id.as_str())) {
                    return Ok(());
                }
                cancelled.clone()?;
                tokio::time::sleep(LOOK).await;
            }
        })
    }

    fn channel(&self, _node: &NodeConfig) -> &dyn Channel {
        match self.config.reach {
            Reach::Srun => &self.srun,
            Reach::Ssh => &self.ssh,
        }
    }

    fn shares_homes(&self) -> bool {
        // Nodes of a Slurm mostly do.
        true
    }
}

impl Channel for Srun {
    fn run(&self, node: &NodeConfig, shell: Shell, env: &[(&str, &str)], script: &str) -> Argv {
        if shell == Shell::Plain {
            return Enter.run(node, shell, env, script);
        }
        let words = Enter::words(shell, env, script);
        let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let request = format!("cd; exec {}", line(words.iter().map(String::as_str)));
        let place = format!("{}/{}", self.cluster, node.name);
        let enter = node.machine.iter().flat_map(|machine| &machine.enter).map(OsString::from);
        enter.chain(["sh", "-c", RELAY, "relay", &place, &request].map(OsString::from)).collect()
    }

    fn attach(&self, node: &NodeConfig, script: &str, ports: &[u16]) -> Argv {
        let mut argv = Enter.attach(node, script, ports);
        argv.insert(1, "--pty".into());
        argv
    }

    fn upload(&self, node: &NodeConfig, from: &Path, to: &str, left: &Left<'_>) -> Argv {
        Enter.upload(node, from, to, left)
    }

    fn download(&self, node: &NodeConfig, from: &str, to: &Path, left: &Left<'_>) -> Argv {
        Enter.download(node, from, to, left)
    }

    fn unreached(&self, code: i32, stderr: &str) -> Option<Unreached> {
        let told = |list: &[&str]| {
            let is_of =
                |line: &&str| line.starts_with("srun:") && list.iter().any(|said| line.contains(said));
            stderr.lines().find(is_of).map(str::to_owned)
        };
        if code == 0 {
            return None;
        }
        let over = told(&OVER).map(|line| Unreached::Final(format!("its allocation has ended ({line})")));
        over.or_else(|| told(&CUT_OFF).map(Unreached::Passing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_srun_is_distinguished_from_that_of_the_command() {
        let srun = Srun { cluster: String::new() };
        let of = |code, stderr: &str| srun.unreached(code, stderr);
        assert!(matches!(
            of(1, "srun: error: Unable to confirm allocation for job 7: Invalid job id specified"),
            Some(Unreached::Final(_))
        ));
        assert!(matches!(
            of(1, "srun: error: Unable to create step for job 7: Requested nodes are busy"),
            Some(Unreached::Passing(_))
        ));
        assert_eq!(of(5, "srun: error: n1: task 0: Exited with exit code 5"), None);
        assert_eq!(of(1, "it: Timed out"), None, "a command may say that");
        assert_eq!(of(0, "srun: error: Node failure on n2"), None);
    }
}
