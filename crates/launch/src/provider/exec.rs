//! Machines that a program of the user's makes: it is asked in JSON on its standard input, and answers in JSON on its standard output.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::program::ask_json;
use super::{Channel, Doing, Enter, Machine, Made, Provider, ProviderError, Ssh, Waits};
use crate::config::{Cluster, ExecConfig, NodeConfig, Role};
use crate::runner::Log;
use crate::state::Folder;

/// The version of what is spoken.
const PROTOCOL: u32 = 1;

/// What the program is asked.
#[derive(Serialize)]
struct Question<'a> {
    protocol: u32,
    verb: &'a str,
    cluster: &'a str,
    config: &'a serde_json::Value,
    nodes: Vec<Asked<'a>>,
}

/// A node in a question.
#[derive(Serialize)]
struct Asked<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    role: &'a str,
    launch: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
}

/// What it answers.
#[derive(Deserialize)]
struct Answer {
    protocol: u32,
    #[serde(default)]
    nodes: Vec<Machine>,
}

/// Machines of a program.
pub struct Exec {
    config: ExecConfig,
    cluster: String,
    ssh: Ssh,
    log: Log,
}

impl Exec {
    /// Those of a cluster.
    #[must_use]
    pub fn new(config: ExecConfig, cluster: &Cluster, folder: &Folder) -> Self {
        let log = Log::new(folder.provider_log());
        Self { config, cluster: cluster.name.clone(), ssh: Ssh::new(folder), log }
    }

    async fn ask(&self, verb: &str, nodes: Vec<Asked<'_>>) -> Result<Vec<Machine>, ProviderError> {
        let question =
            Question { protocol: PROTOCOL, verb, cluster: &self.cluster, config: &self.config.config, nodes };
        let question = serde_json::to_string(&question).map_err(|error| self.wrong(error.to_string()))?;
        let argv: Vec<OsString> = self.config.command.iter().map(OsString::from).collect();
        let answer: Answer = ask_json(&self.log, &argv, Some(&question)).await?;
        if answer.protocol != PROTOCOL {
            return Err(
                self.wrong(format!("it uses protocol version {}, expected {PROTOCOL}", answer.protocol))
            );
        }
        if let Some(machine) =
            answer.nodes.iter().find(|machine| machine.name.is_empty() || machine.id.is_empty())
        {
            return Err(self.wrong(format!("a machine without a name or an id: {machine:?}")));
        }
        Ok(answer.nodes)
    }

    fn wrong(&self, why: String) -> ProviderError {
        ProviderError::Answer { program: self.config.command.first().cloned().unwrap_or_default(), why }
    }
}

fn asked(node: &NodeConfig) -> Asked<'_> {
    let role = match node.role {
        Role::Head => "head",
        Role::Worker => "worker",
    };
    Asked { name: &node.name, role, launch: &node.launch, id: "" }
}

impl Provider for Exec {
    fn list(&self) -> Doing<'_, Vec<Machine>> {
        Box::pin(self.ask("list", vec![]))
    }

    fn create<'a>(&'a self, nodes: &'a [NodeConfig], _waits: &'a Waits) -> Doing<'a, Made> {
        Box::pin(async move {
            let machines = self.ask("create", nodes.iter().map(asked).collect()).await?;
            let made = nodes.iter().map(|node| {
                let machine = machines.iter().find(|machine| machine.name == node.name && machine.is_ready());
                let missing = || self.wrong(format!("it has made no `{}` with an address", node.name));
                (node.name.clone(), machine.cloned().ok_or_else(missing))
            });
            Ok(made.collect())
        })
    }

    fn terminate<'a>(&'a self, machines: &'a [Machine]) -> Doing<'a, ()> {
        Box::pin(async move {
            let asked = |machine: &'a Machine| Asked {
                name: &machine.name,
                role: "",
                launch: &machine.launch,
                id: &machine.id,
            };
            self.ask("terminate", machines.iter().map(asked).collect()).await.map(|_| ())
        })
    }

    fn channel(&self, node: &NodeConfig) -> &dyn Channel {
        match &node.machine {
            Some(machine) if !machine.enter.is_empty() => &Enter,
            _ => &self.ssh,
        }
    }
}
