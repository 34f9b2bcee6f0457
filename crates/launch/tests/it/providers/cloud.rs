//! Amazon's cloud: its own command line, and moto's server, which answers as the cloud does. Its machines cannot be reached; an sshd of this
//! machine stands in for them.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use wharf_launch::read;
use wharf_launch::state::Folder;

use crate::providers::lab::{self, Lab, within};
use crate::providers::suite::{Subject, done};
use wharf_testing::moto;
use wharf_testing::sshd::Sshd;

pub(crate) fn conforms() {
    if std::env::var_os(lab::WITHIN).is_some() {
        return is_within();
    }
    let lab = Lab::new();
    let cloud = moto::start(&lab.path(""));
    let env: Vec<_> = cloud.env.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    within("providers::aws", &env);
}

/// Asks the cloud something, as a person would.
fn aws(words: &[&str]) -> Json {
    let said = lab::run("aws", &[words, &["--region", "us-west-2", "--output", "json"]].concat());
    assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap_or(Json::Null)
}

/// A machine of the template's shape: in a placement group, from the spot market, with a larger disk.
fn file(lab: &Lab, auth: &str, own: &str, zones: &str, workers: u32) -> PathBuf {
    file_from(lab, auth, own, zones, workers, "198.51.100.0/24, 'fd00::/8'")
}

/// The same, with networks that have access by ssh.
fn file_from(lab: &Lab, auth: &str, own: &str, zones: &str, workers: u32, ssh_from: &str) -> PathBuf {
    let config = format!(
        "node_config: {{InstanceType: p3.2xlarge, ImageId: ami-12c6146b, {own}Placement: {{GroupName: near}}, \
         InstanceMarketOptions: {{MarketType: spot}}, BlockDeviceMappings: [{{DeviceName: /dev/sda1, Ebs: {{VolumeSize: 200}}}}]}}"
    );
    lab.file(&format!(
        "cluster_name: lab\n\
         provider: {{type: aws, region: us-west-2, availability_zone: '{zones}', ssh_from: [{ssh_from}]}}\n{auth}\
         head_node_type: h\navailable_node_types:\n  h: {{{config}}}\n  w: {{min_workers: {workers}, {config}}}\n"
    ))
}

fn is_within() {
    let lab = Lab::new();
    let sshd = Sshd::start(&lab.path(""), None);
    let vanish = |id: &str| drop(aws(&["ec2", "terminate-instances", "--instance-ids", id]));
    let own = "KeyName: mine, SecurityGroups: [default], ";
    let with_key = file(&lab, &sshd.auth(), own, "us-west-2b", 1);
    aws(&["ec2", "create-key-pair", "--key-name", "mine"]);
    Subject { lab: &lab, file: with_key, vanish: Some(&vanish), is_reached: true }.conforms();
    what_is_asked_for_is_there(&lab);
}

/// Inspects machines through the cloud's API; here neither a key nor a group is named, so that both are made, and gone with the machines.
fn what_is_asked_for_is_there(lab: &Lab) {
    let cluster = read(&file(lab, "", "", "us-west-2z,us-west-2b", 0)).unwrap();
    let folder = Folder::new(&lab.path("state"), &cluster.name);
    folder.create().unwrap();
    let provider = wharf_launch::provider::of(&cluster, &folder);
    let made = done(provider.create(&cluster.nodes, &|_, _| {})).unwrap();
    let made: Vec<_> = made.into_iter().map(|(_, machine)| machine.unwrap()).collect();
    let key = made[0].ssh_key.clone().unwrap();
    assert!(is_private(&key));
    let seen = aws(&["ec2", "describe-instances", "--instance-ids", &made[0].id]);
    let instance = &seen["Reservations"][0]["Instances"][0];
    assert_eq!(instance["InstanceType"], "p3.2xlarge");
    assert_eq!(instance["InstanceLifecycle"], "spot");
    // moto forgets the placement group; that it is asked for is a test of requests.
    assert_eq!(
        instance["Placement"]["AvailabilityZone"], "us-west-2b",
        "the first zone of the file does not exist"
    );
    assert_eq!(instance["KeyName"], "wharf-lab");
    assert_eq!(instance["SecurityGroups"][0]["GroupName"], "wharf-lab");
    assert_eq!(let_in(), ["-1 the group", "22 198.51.100.0/24", "22 fd00::/8"]);
    who_is_let_in_follows_the_file(lab, &folder);
    let image = done(provider.bake(&made[0], "prepared-1", &|_, _| {})).unwrap();
    assert!(image.starts_with("ami-"), "{image}");
    assert_eq!(done(provider.bake(&made[0], "prepared-1", &|_, _| {})).unwrap(), image, "one of a name");
    done(provider.terminate(&made)).unwrap();
    assert_eq!(aws(&GROUPS)["SecurityGroups"], serde_json::json!([]));
    let keys = aws(&["ec2", "describe-key-pairs", "--filters", "Name=key-name,Values=wharf-lab"]);
    assert_eq!(keys["KeyPairs"], serde_json::json!([]));
    assert!(!key.exists() && !folder.path().join("request.json").exists());
}

const GROUPS: [&str; 4] =
    ["ec2", "describe-security-groups", "--filters", "Name=group-name,Values=wharf-lab"];

/// Access rules of the cluster's group by port.
fn let_in() -> Vec<String> {
    let group = &aws(&GROUPS)["SecurityGroups"][0];
    let mut told = Vec::new();
    for rule in group["IpPermissions"].as_array().unwrap() {
        let of = |list: &str, key: &str| {
            let list = rule[list].as_array().into_iter().flatten();
            list.map(|entry| entry[key].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let networks =
            [of("IpRanges", "CidrIp"), of("Ipv6Ranges", "CidrIpv6"), of("UserIdGroupPairs", "GroupId")];
        let port = rule["FromPort"].as_i64().unwrap_or(-1);
        told.extend(networks.concat().iter().map(|from| format!("{port} {from}")));
    }
    told.sort();
    told.iter().map(|line| line.replace(group["GroupId"].as_str().unwrap(), "the group")).collect()
}

/// A group that is there already gets the networks of the file, and loses those that are not in it any more; other rules stay.
fn who_is_let_in_follows_the_file(lab: &Lab, folder: &Folder) {
    let admit = |ssh_from: &str| {
        let cluster = read(&file_from(lab, "", "", "us-west-2b", 0, ssh_from)).unwrap();
        done(wharf_launch::provider::of(&cluster, folder).admit()).unwrap();
    };
    let id = aws(&GROUPS)["SecurityGroups"][0]["GroupId"].as_str().unwrap().to_owned();
    let change = |how: &str, rules: &str| {
        drop(aws(&["ec2", how, "--group-id", &id, "--ip-permissions", rules]));
    };
    change(
        "authorize-security-group-ingress",
        r#"[{"IpProtocol": "tcp", "FromPort": 8265, "ToPort": 8265, "IpRanges": [{"CidrIp": "192.0.2.0/24"}]}]"#,
    );
    for _ in 0..2 {
        // Written as people write it: with the address of a machine of the network.
        admit("198.51.100.0/24, 203.0.113.9/24, 'FD01:0::1/16'");
        assert_eq!(
            let_in(),
            ["-1 the group", "22 198.51.100.0/24", "22 203.0.113.0/24", "22 fd01::/16", "8265 192.0.2.0/24"]
        );
    }
    // As a launcher leaves it that was interrupted between making and opening it.
    let rules = aws(&GROUPS)["SecurityGroups"][0]["IpPermissions"].to_string();
    change("revoke-security-group-ingress", &rules);
    assert_eq!(let_in(), Vec::<String>::new());
    admit("203.0.113.0/24");
    assert_eq!(let_in(), ["-1 the group", "22 203.0.113.0/24"]);
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0
}
