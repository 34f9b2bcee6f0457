//! The last phase: Wharf's own head and workers, or the lines of the file.

use std::net::IpAddr;

use crate::config::{Role, Runtime, WharfRuntime};
use crate::hash::Hasher;
use crate::phase::Phase;
use crate::provider::Shell;
use crate::runner::Use;
use crate::script::START;
use crate::shell::{line, quote};
use crate::state::Record;
use crate::up::Head;
use crate::visit::{NodeError, Visit};

/// What daemons state when they are ready.
const HEAD_READY: &str = "head listens on";
const WORKER_READY: &str = "accepted this worker";

/// What a hash of how a node's processes are started is made of.
pub(crate) fn hash(visit: &Visit<'_>) -> String {
    let mut hasher = Hasher::new();
    let node = visit.node;
    match &visit.launcher.cluster.runtime {
        Runtime::Wharf(wharf) => {
            let head = visit.launcher.head();
            hasher.add("wharf").add(visit.launcher.program_on(wharf, node)).add(&head.inner_address);
            hasher.add(wharf.port.to_le_bytes()).add(&node.name).add(&node.inner_address);
            hasher.add(node.devices.as_deref().unwrap_or_default());
            if node.role == Role::Head {
                hasher.add(wharf.policy.as_deref().unwrap_or_default());
            }
        }
        Runtime::Commands { head, worker } => {
            hasher.add("commands");
            for line in if node.role == Role::Head { head } else { worker } {
                hasher.add(line);
            }
        }
    }
    hasher.finish()
}

/// Starts what is to run on a node. `head` is the one that workers belong to.
pub(crate) async fn start(
    visit: &Visit<'_>,
    record: &mut Record,
    head: Option<&Head>,
) -> Result<(), NodeError> {
    let visit = &visit.inside();
    match &visit.launcher.cluster.runtime {
        Runtime::Wharf(wharf) => {
            let address = match visit.node.role {
                Role::Head => start_head(visit, record, wharf).await?,
                Role::Worker => head.and_then(|head| head.address.clone()).unwrap_or_default(),
            };
            start_worker(visit, record, wharf, &address).await?;
            record.head_address = Some(address);
            record.head_stamp = Some(head.map_or_else(|| record.stamp.clone(), |head| head.stamp.clone()));
        }
        Runtime::Commands { head, worker } => {
            let lines = if visit.node.role == Role::Head { head } else { worker };
            let head_ip = &visit.launcher.head().inner_address;
            // Started again, not a second time beside itself.
            let before = "end \"WHARF_LAUNCHED=$STAMP\"";
            visit.ask("ending earlier processes", before, &[("STAMP", &record.stamp)], None).await?;
            for line in lines {
                let env = [("WHARF_LAUNCHED", record.stamp.as_str()), ("RAY_HEAD_IP", head_ip)];
                visit.line(Phase::Start, line, &env).await?;
            }
            record.has_processes = Visit::new(visit.launcher, visit.node)
                .reach(&record.stamp, None, visit.launcher.cluster.start_timeout)
                .await?
                .running
                .iter()
                .any(|name| name == "marked");
        }
    }
    Ok(())
}

/// Starts the head, and leaves what clients need in the cluster's folder; returns where it listens.
async fn start_head(visit: &Visit<'_>, record: &Record, wharf: &WharfRuntime) -> Result<String, NodeError> {
    let node = visit.node;
    let before = record.head_address.as_deref().and_then(|address| address.rsplit_once(':')?.1.parse().ok());
    let port = if wharf.port == 0 { before.unwrap_or(0) } else { wharf.port };
    // A name is not something to listen on: what it means differs from where one stands.
    let listen = match node.inner_address.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Ok(ip) => format!("{ip}:{port}"),
        Err(_) => format!("0.0.0.0:{port}"),
    };
    let mut words = vec!["--listen", &listen];
    if let Some(policy) = &wharf.policy {
        words.extend(["--policy", policy]);
    }
    let command = format!("{} head --home \"$D\" {}", visit.launcher.program_word(wharf, node), line(words));
    daemon(visit, record, "head", HEAD_READY, &command).await?;
    let said =
        visit.ask("asking for the head's address", "cat \"$D/address\" \"$D/token\"", &[], None).await?;
    let mut lines = said.lines();
    let (told, token) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let port = told.rsplit_once(':').map_or("", |(_, port)| port);
    let host = &node.inner_address;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    visit.launcher.write_client(&address, token)?;
    Ok(address)
}

/// Lets a node join, and starts its worker. The token goes through the connections of the launcher and nowhere else.
async fn start_worker(
    visit: &Visit<'_>,
    record: &Record,
    wharf: &WharfRuntime,
    head: &str,
) -> Result<(), NodeError> {
    let node = visit.node;
    let on_head = visit.at(visit.launcher.head()).inside();
    let make = format!(
        "{UNLED}{} token create --home \"$D\" --role worker --ttl 1h --replace --node {}",
        visit.launcher.program_word(wharf, on_head.node),
        quote(&node.name)
    );
    let token = on_head.ask("making a token for it", &make, &[], None).await?;
    visit.ask("handing over its token", "umask 077; cat > \"$D/join.token\"", &[], Some(&token)).await?;
    let mut words = vec!["--head", head, "--node", &node.name, "--address", &node.inner_address];
    if let Some(devices) = &node.devices {
        words.extend(["--devices", devices]);
    }
    let command = format!(
        "{} worker --home \"$D\" --join-token-file \"$D/join.token\" {}",
        visit.launcher.program_word(wharf, node),
        line(words)
    );
    let started = daemon(visit, record, "worker", WORKER_READY, &command).await;
    // It has its certificate now, or has failed: in both cases the token is not needed any more.
    let removed = visit.ask("removing its token", "rm -f \"$D/join.token\"", &[], None).await;
    started.and(removed.map(|_| ()))
}

/// Variables that would lead a command to another head than the one in its folder.
pub(crate) const UNLED: &str = "unset WHARF_HOME WHARF_HEAD WHARF_TOKEN_FILE WHARF_CA_FILE WHARF_CONFIG\n";

async fn daemon(
    visit: &Visit<'_>,
    record: &Record,
    name: &'static str,
    ready: &str,
    command: &str,
) -> Result<(), NodeError> {
    visit.log.title(&format!("start: {command}"))?;
    let script = format!("{UNLED}set -- {name} {} {command}\n{START}", quote(ready));
    let env = [("STAMP", record.stamp.as_str())];
    let ended = visit.own(Shell::Login, &script, &env, Use::default()).await?;
    if ended.code == 0 {
        return Ok(());
    }
    Err(NodeError::Command {
        phase: Phase::Start,
        command: format!("wharf {name}"),
        code: ended.code,
        said: ended.said,
    })
}
