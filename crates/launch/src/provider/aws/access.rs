//! How one gets into machines whose file names neither a key nor a group: a key of the cluster's own, made here, and a group that lets ssh in,
//! and the cluster's machines to each other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::super::ProviderError;
use super::super::program::ask;
use super::Aws;
use crate::config::{AwsConfig, Cluster};
use crate::state::Folder;

/// What is made for a cluster.
pub(super) struct Access {
    /// What key and group are called there.
    name: String,
    /// The private half; `None` where the file says with which key machines are reached.
    key: Option<PathBuf>,
    /// Whether some type names no group.
    needs_group: bool,
}

/// Fields of RunInstances that state how one gets in.
const KEYS: [&str; 2] = ["KeyName", "UserData"];
const GROUPS: [&str; 4] = ["SecurityGroupIds", "SecurityGroups", "NetworkInterfaces", "LaunchTemplate"];

/// Whether a type has its own access rules, so that no group is created for it.
pub(crate) fn has_group(config: &Json) -> bool {
    has(config, &GROUPS)
}

fn has(config: &Json, keys: &[&str]) -> bool {
    keys.iter().any(|key| config.get(key).is_some())
}

/// A group with its access rules.
struct Group {
    id: String,
    rules: Vec<Json>,
}

/// Where a rule has networks, and what they are called there.
const RANGES: [(&str, &str); 2] = [("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")];

impl Group {
    /// The networks with access by ssh.
    fn ssh_from(&self) -> BTreeSet<String> {
        let is_ssh =
            |rule: &&Json| rule["IpProtocol"] == "tcp" && rule["FromPort"] == 22 && rule["ToPort"] == 22;
        let mut networks = BTreeSet::new();
        for rule in self.rules.iter().filter(is_ssh) {
            for (list, key) in RANGES {
                let ranges = rule[list].as_array().into_iter().flatten();
                networks.extend(ranges.filter_map(|range| range[key].as_str().map(str::to_owned)));
            }
        }
        networks
    }

    /// Whether its machines may connect to each other.
    fn has_itself(&self) -> bool {
        let is_it = |pair: &Json| pair["GroupId"] == self.id.as_str();
        self.rules
            .iter()
            .filter(|rule| rule["IpProtocol"] == "-1")
            .any(|rule| rule["UserIdGroupPairs"].as_array().is_some_and(|pairs| pairs.iter().any(is_it)))
    }
}

/// The rule that lets ssh in from networks; `None` where there are none.
fn ssh_rule(networks: &[&String]) -> Option<Json> {
    let (v6, v4): (Vec<&String>, Vec<&String>) = networks.iter().partition(|network| network.contains(':'));
    let mut rule = json!({"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22});
    for ((list, key), networks) in RANGES.into_iter().zip([v4, v6]) {
        if !networks.is_empty() {
            rule[list] = networks.iter().map(|network| json!({key: network})).collect();
        }
    }
    (!networks.is_empty()).then_some(rule)
}

impl Access {
    pub(super) fn new(config: &AwsConfig, cluster: &Cluster, folder: &Folder) -> Self {
        let needs_group = config.types.values().any(|config| !has_group(config));
        let has_key = cluster.nodes.iter().any(|node| node.ssh.private_key.is_some());
        let key = (!has_key).then(|| folder.path().join("key"));
        Self { name: format!("wharf-{}", cluster.name), key, needs_group }
    }

    /// The key that was made, if one was.
    pub(super) fn key(&self) -> Option<PathBuf> {
        self.key.clone().filter(|key| key.exists())
    }
}

impl Aws {
    /// A type's fields, with a key and a group where it names none.
    pub(super) async fn with_access(&self, mut config: Json) -> Result<Json, ProviderError> {
        if !has(&config, &KEYS)
            && let Some(key) = &self.access.key
        {
            self.make_key(key).await?;
            config["KeyName"] = json!(self.access.name);
        }
        if !has_group(&config) {
            let subnet =
                config.get("SubnetId").or_else(|| config.get("SubnetIds").and_then(|list| list.get(0)));
            let subnet = subnet.and_then(Json::as_str).map(str::to_owned);
            config["SecurityGroupIds"] = json!([self.make_group(subnet.as_deref()).await?]);
        }
        Ok(config)
    }

    /// The private half stays here; the public one is what the cloud gets.
    async fn make_key(&self, key: &std::path::Path) -> Result<(), ProviderError> {
        if !key.exists() {
            let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", &self.access.name, "-f"];
            let argv: Vec<OsString> = words.map(OsString::from).into_iter().chain([key.into()]).collect();
            ask(&self.log, &argv, None).await?;
            // One of this name is of an earlier cluster, whose folder is gone: the private key is lost.
            self.tell(&["delete-key-pair", "--key-name", &self.access.name]).await?;
        }
        let named = format!("Name=key-name,Values={}", self.access.name);
        let known: Json = self.ask(&["describe-key-pairs", "--filters", &named]).await?;
        if known["KeyPairs"].as_array().is_some_and(|pairs| !pairs.is_empty()) {
            return Ok(());
        }
        let public = format!("fileb://{}.pub", key.display());
        let words = ["import-key-pair", "--key-name", &self.access.name, "--public-key-material", &public];
        self.tell(&words).await
    }

    async fn make_group(&self, subnet: Option<&str>) -> Result<String, ProviderError> {
        let network = match subnet {
            None => None,
            Some(subnet) => {
                let said: Json = self.ask(&["describe-subnets", "--subnet-ids", subnet]).await?;
                said["Subnets"][0]["VpcId"].as_str().map(str::to_owned)
            }
        };
        if let Some(group) = self.group().await? {
            self.let_in(&group).await?;
            return Ok(group.id);
        }
        let about = format!("Wharf's cluster {}", self.cluster);
        let mut words =
            vec!["create-security-group", "--group-name", &self.access.name, "--description", &about];
        words.extend(network.iter().flat_map(|network| ["--vpc-id", network]));
        let made: Json = self.ask(&words).await?;
        let group = Group { id: made["GroupId"].as_str().unwrap_or_default().to_owned(), rules: vec![] };
        self.let_in(&group).await?;
        Ok(group.id)
    }

    /// Updates the access rules of a created group to those of the file.
    pub(super) async fn admit_named(&self) -> Result<(), ProviderError> {
        if !self.access.needs_group {
            return Ok(());
        }
        match self.group().await? {
            Some(group) => self.let_in(&group).await,
            None => Ok(()),
        }
    }

    /// Changes what is different; first what is missing, so that access is never interrupted. Rules for anything but ssh are not ours to remove.
    async fn let_in(&self, group: &Group) -> Result<(), ProviderError> {
        let wanted: BTreeSet<String> = self.config.ssh_from.iter().cloned().collect();
        let there = group.ssh_from();
        let (new, old): (Vec<_>, Vec<_>) =
            (wanted.difference(&there).collect(), there.difference(&wanted).collect());
        let mut missing: Vec<Json> = Vec::new();
        if !group.has_itself() {
            missing.push(json!({"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group.id}]}));
        }
        missing.extend(ssh_rule(&new));
        self.change(group, "authorize-security-group-ingress", missing).await?;
        self.change(group, "revoke-security-group-ingress", ssh_rule(&old).into_iter().collect()).await
    }

    async fn change(&self, group: &Group, how: &str, rules: Vec<Json>) -> Result<(), ProviderError> {
        if rules.is_empty() {
            return Ok(());
        }
        self.tell(&[how, "--group-id", &group.id, "--ip-permissions", &json!(rules).to_string()]).await
    }

    async fn group(&self) -> Result<Option<Group>, ProviderError> {
        let named = format!("Name=group-name,Values={}", self.access.name);
        let known: Json = self.ask(&["describe-security-groups", "--filters", &named]).await?;
        let group = &known["SecurityGroups"][0];
        let rules = group["IpPermissions"].as_array().cloned().unwrap_or_default();
        Ok(group["GroupId"].as_str().map(|id| Group { id: id.to_owned(), rules }))
    }

    /// Removes what was made, when no machine is left that uses it.
    pub(super) async fn remove_access(&self) -> Result<(), ProviderError> {
        if let Some(key) = self.access.key() {
            self.tell(&["delete-key-pair", "--key-name", &self.access.name]).await?;
            for path in [key.with_extension("pub"), key] {
                std::fs::remove_file(&path).map_err(|error| {
                    ProviderError::Cannot(format!("cannot remove `{}`: {error}", path.display()))
                })?;
            }
        }
        if !self.access.needs_group {
            return Ok(());
        }
        let Some(group) = self.group().await? else { return Ok(()) };
        // It is in use until the machines are gone for good, which takes a minute or two.
        self.wait_terminated().await?;
        self.tell(&["delete-security-group", "--group-id", &group.id]).await
    }

    async fn wait_terminated(&self) -> Result<(), ProviderError> {
        let cluster = format!("Name=tag:{},Values={}", super::CLUSTER, self.cluster);
        self.tell(&["wait", "instance-terminated", "--filters", &cluster]).await
    }
}
