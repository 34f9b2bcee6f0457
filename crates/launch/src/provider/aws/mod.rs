//! Machines of Amazon's cloud, through the AWS command line with its credentials, which are not read here.
//!
//! What is known of machines is in their tags. Those of one type are asked for at once, because a placement group may not have room for
//! one after the other, and get their nodes' names afterwards: one that an interrupted launcher has left nameless is used by the next.

mod access;
mod request;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::program::{ask, ask_json};
use super::waiting::{Seen, Waiting};
use super::{Channel, Doing, Machine, Made, Provider, ProviderError, Ssh, Waits};
use crate::config::{AwsConfig, Cluster, NodeConfig};
use crate::runner::Log;
use crate::state::Folder;
use access::Access;
pub(crate) use access::has_group;
use request::{CLUSTER, KIND, LAUNCH, NODE};

/// How often it is asked whether machines are there.
const LOOK: Duration = Duration::from_secs(2);
/// How long machines may take to be there, and images.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(600);
const IMAGE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Machines of Amazon's cloud.
pub struct Aws {
    config: AwsConfig,
    cluster: String,
    log: Log,
    /// Where requests are for a moment.
    request: PathBuf,
    ssh: Ssh,
    access: Access,
}

/// What is of interest of an instance; there is much more.
const FIELDS: &str = "Reservations[].Instances[].{InstanceId: InstanceId, State: State, PrivateIpAddress: PrivateIpAddress, \
                      PublicIpAddress: PublicIpAddress, Tags: Tags}";

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    instance_id: String,
    state: State,
    private_ip_address: Option<String>,
    public_ip_address: Option<String>,
    tags: Option<Vec<Tag>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tag {
    key: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Images {
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    image_id: String,
    state: String,
}

impl Instance {
    fn tag(&self, key: &str) -> &str {
        self.tags.iter().flatten().find(|tag| tag.key == key).map_or("", |tag| &tag.value)
    }

    /// Whether it may be given to a node of this kind.
    fn is_free_for(&self, node: &NodeConfig) -> bool {
        self.tag(NODE).is_empty() && self.tag(KIND) == node.kind && self.tag(LAUNCH) == node.launch
    }
}

impl Aws {
    /// Those of a cluster.
    #[must_use]
    pub fn new(config: AwsConfig, cluster: &Cluster, folder: &Folder) -> Self {
        let access = Access::new(&config, cluster, folder);
        Self {
            config,
            access,
            cluster: cluster.name.clone(),
            log: Log::new(folder.provider_log()),
            request: folder.path().join("request.json"),
            ssh: Ssh::new(folder),
        }
    }

    /// The command line with its words; a pager would wait for input.
    fn argv(&self, words: &[&str]) -> Vec<OsString> {
        let region = self.config.region.iter().flat_map(|region| ["--region", region]);
        let all = ["env", "AWS_PAGER=", "aws", "ec2"].into_iter().chain(words.iter().copied());
        all.chain(region).chain(["--output", "json"]).map(OsString::from).collect()
    }

    async fn ask<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T, ProviderError> {
        ask_json(&self.log, &self.argv(words), None).await
    }

    /// Has something done whose answer, if there is any, is of no interest.
    async fn tell(&self, words: &[&str]) -> Result<(), ProviderError> {
        ask(&self.log, &self.argv(words), None).await.map(|_| ())
    }

    async fn instances(&self) -> Result<Vec<Instance>, ProviderError> {
        let cluster = format!("Name=tag:{CLUSTER},Values={}", self.cluster);
        let state = "Name=instance-state-name,Values=pending,running";
        self.ask(&["describe-instances", "--filters", &cluster, state, "--query", FIELDS]).await
    }

    fn machine(&self, instance: &Instance) -> Machine {
        let inner = instance.private_ip_address.clone().unwrap_or_default();
        let outer = instance.public_ip_address.clone().filter(|_| !self.config.use_internal_ips);
        let is_up = instance.state.name == "running";
        Machine {
            name: instance.tag(NODE).to_owned(),
            id: instance.instance_id.clone(),
            address: if is_up { outer.unwrap_or_else(|| inner.clone()) } else { String::new() },
            inner_address: inner,
            launch: instance.tag(LAUNCH).to_owned(),
            ssh_key: self.access.key(),
            ..Machine::default()
        }
    }

    /// Gives nodes of one type instances: those that wait for a name, and new ones.
    async fn assign(&self, nodes: &[&NodeConfig], instances: &[Instance]) -> Result<(), ProviderError> {
        let Some(first) = nodes.first() else { return Ok(()) };
        let mut ids: Vec<String> = instances
            .iter()
            .filter(|instance| instance.is_free_for(first))
            .map(|instance| instance.instance_id.clone())
            .collect();
        if ids.len() < nodes.len() {
            ids.extend(self.launch(first, nodes.len() - ids.len()).await?);
        }
        for (node, id) in nodes.iter().zip(&ids) {
            let (name, title) = (format!("Key={NODE},Value={}", node.name), self.title(node));
            self.tell(&["create-tags", "--resources", id, "--tags", &name, &title]).await?;
        }
        Ok(())
    }

    fn title(&self, node: &NodeConfig) -> String {
        format!("Key=Name,Value=wharf-{}-{}", self.cluster, node.name)
    }

    /// Asks for new instances; zones and subnets are tried one after the other.
    async fn launch(&self, node: &NodeConfig, count: usize) -> Result<Vec<String>, ProviderError> {
        let config = self.config.types.get(&node.kind).cloned().unwrap_or_else(|| json!({}));
        let config = self.with_access(config).await?;
        let mut refused = None;
        for request in request::requests(&config, &self.config.zones, &self.cluster, node, count) {
            let file = self.requested(&request)?;
            let from = format!("file://{}", file.display());
            let words = ["run-instances", "--cli-input-json", &from, "--query", "Instances[].InstanceId"];
            let launched = self.ask(&words).await;
            // It may have secrets in it, such as `UserData`.
            std::fs::remove_file(&file).map_err(|error| cannot_write(&file, &error))?;
            match launched {
                Ok(ids) => return Ok(ids),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| ProviderError::Cannot("there is nowhere to ask".to_owned())))
    }

    /// Writes a request to a file for its owner only: the command line reads it twice, so that it cannot come through a pipe.
    fn requested(&self, request: &Json) -> Result<PathBuf, ProviderError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.request);
        let written = file.and_then(|mut file| file.write_all(request.to_string().as_bytes()));
        written.map_err(|error| cannot_write(&self.request, &error))?;
        Ok(self.request.clone())
    }

    /// All machines, with what the cloud says of them.
    async fn seen(&self) -> Result<Vec<Seen>, ProviderError> {
        let seen = |instance: &Instance| Seen {
            machine: self.machine(instance),
            state: instance.state.name.clone(),
        };
        Ok(self.instances().await?.iter().map(seen).collect())
    }

    async fn image(&self, filter: [&str; 2]) -> Result<Option<Image>, ProviderError> {
        let words = ["describe-images", "--owners", "self", filter[0], filter[1]];
        Ok(self.ask::<Images>(&words).await?.images.into_iter().next())
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> ProviderError {
    ProviderError::Cannot(format!("cannot write `{}`: {error}", path.display()))
}

impl Provider for Aws {
    fn list(&self) -> Doing<'_, Vec<Machine>> {
        Box::pin(async move {
            Ok(self.instances().await?.iter().map(|instance| self.machine(instance)).collect())
        })
    }

    fn admit(&self) -> Doing<'_, ()> {
        Box::pin(self.admit_named())
    }

    fn create<'a>(&'a self, nodes: &'a [NodeConfig], waits: &'a Waits) -> Doing<'a, Made> {
        Box::pin(async move {
            let instances = self.instances().await?;
            let has_one =
                |node: &&NodeConfig| instances.iter().any(|instance| instance.tag(NODE) == node.name);
            let (there, missing): (Vec<&NodeConfig>, Vec<&NodeConfig>) = nodes.iter().partition(has_one);
            let mut kinds: BTreeMap<&str, Vec<&NodeConfig>> = BTreeMap::new();
            for node in missing {
                kinds.entry(&node.kind).or_default().push(node);
            }
            let (mut made, mut known) = (Made::new(), there);
            for nodes in kinds.into_values() {
                match self.assign(&nodes, &instances).await {
                    Ok(()) => known.extend(nodes),
                    Err(error) => {
                        // Some may have been had: they are searched for, and the others get the reason.
                        let instances = self.instances().await?;
                        let has_one = |node: &&NodeConfig| {
                            instances.iter().any(|instance| instance.tag(NODE) == node.name)
                        };
                        let (had, not): (Vec<&NodeConfig>, Vec<&NodeConfig>) =
                            nodes.into_iter().partition(has_one);
                        known.extend(had);
                        made.extend(not.iter().map(|node| (node.name.clone(), Err(error.clone()))));
                    }
                }
            }
            let names = known.iter().map(|node| node.name.clone()).collect();
            let waiting = Waiting { pause: LOOK, limit: MACHINE_TIMEOUT, waits, unseen: None };
            made.extend(waiting.until_ready(names, || Box::pin(self.seen())).await?);
            Ok(made)
        })
    }

    fn terminate<'a>(&'a self, machines: &'a [Machine]) -> Doing<'a, ()> {
        Box::pin(async move {
            let instances = self.instances().await?;
            let is_meant =
                |instance: &&Instance| machines.iter().any(|machine| machine.id == instance.instance_id);
            let (meant, kept): (Vec<&Instance>, Vec<&Instance>) = instances.iter().partition(is_meant);
            if !meant.is_empty() {
                let mut words = vec!["terminate-instances", "--instance-ids"];
                words.extend(meant.iter().map(|instance| instance.instance_id.as_str()));
                self.tell(&words).await?;
            }
            if kept.is_empty() { self.remove_access().await } else { Ok(()) }
        })
    }

    fn channel(&self, _node: &NodeConfig) -> &dyn Channel {
        &self.ssh
    }

    fn bakes(&self) -> bool {
        true
    }

    fn bake<'a>(&'a self, machine: &'a Machine, name: &'a str, waits: &'a Waits) -> Doing<'a, String> {
        Box::pin(async move {
            let named = format!("Name=name,Values={name}");
            let id = match self.image(["--filters", &named]).await? {
                Some(image) => image.image_id,
                None => {
                    let words = ["create-image", "--instance-id", &machine.id, "--name", name];
                    let made: Json = self.ask(&words).await?;
                    made["ImageId"].as_str().unwrap_or_default().to_owned()
                }
            };
            let start = Instant::now();
            loop {
                let state = self.image(["--image-ids", &id]).await?.map(|image| image.state);
                let why = match state.as_deref() {
                    Some("available") => return Ok(id),
                    Some("failed" | "invalid" | "error") => {
                        return Err(ProviderError::Cannot(format!("the image {id} has failed")));
                    }
                    state => format!("the image {id} is {}", state.unwrap_or("in an unknown state")),
                };
                if start.elapsed() > IMAGE_TIMEOUT {
                    return Err(ProviderError::Late { seconds: IMAGE_TIMEOUT.as_secs(), why });
                }
                waits(&machine.name, why);
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}
