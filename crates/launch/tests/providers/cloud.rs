//! Amazon's cloud: its own command line, and moto's server, which answers as the cloud does. Its machines cannot be reached; an sshd of this
//! machine stands in for them.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use wharf_launch::read;
use wharf_launch::state::Folder;

use crate::lab::{self, Lab, within};
use crate::moto;
use crate::sshd::Sshd;
use crate::suite::{Subject, done};

pub(crate) fn conforms() {
    if std::env::var_os(lab::WITHIN).is_some() {
        return is_within();
    }
    let lab = Lab::new();
    let Some(cloud) = moto::start(&lab.path("")) else { return };
    let env: Vec<_> = cloud.env.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    within("aws", &env);
}

/// Asks the cloud something, as a person would.
fn aws(words: &[&str]) -> Json {
    let said = lab::run("aws", &[words, &["--region", "us-west-2", "--output", "json"]].concat());
    assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap_or(Json::Null)
}

/// A machine of the template's shape: in a placement group, from the spot market, with a larger disk.
fn file(lab: &Lab, auth: &str, own: &str, zones: &str, workers: u32) -> PathBuf {
    let config = format!(
        "node_config: {{InstanceType: p3.2xlarge, ImageId: ami-12c6146b, {own}Placement: {{GroupName: near}}, \
         InstanceMarketOptions: {{MarketType: spot}}, BlockDeviceMappings: [{{DeviceName: /dev/sda1, Ebs: {{VolumeSize: 200}}}}]}}"
    );
    lab.file(&format!(
        "cluster_name: lab\n\
         provider: {{type: aws, region: us-west-2, availability_zone: '{zones}', ssh_from: [198.51.100.0/24, 'fd00::/8']}}\n{auth}\
         head_node_type: h\navailable_node_types:\n  h: {{{config}}}\n  w: {{min_workers: {workers}, {config}}}\n"
    ))
}

fn is_within() {
    let lab = Lab::new();
    let Some(sshd) = Sshd::start(&lab.path(""), None) else { return };
    let vanish = |id: &str| drop(aws(&["ec2", "terminate-instances", "--instance-ids", id]));
    let own = "KeyName: mine, SecurityGroups: [default], ";
    let with_key = file(&lab, &sshd.auth(), own, "us-west-2b", 1);
    aws(&["ec2", "create-key-pair", "--key-name", "mine"]);
    Subject { lab: &lab, file: with_key, vanish: Some(&vanish), is_reached: true }.conforms();
    what_is_asked_for_is_there(&lab);
}

/// Looks at machines from the cloud's side; here neither a key nor a group is named, so that both are made, and gone with the machines.
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
    let groups = ["ec2", "describe-security-groups", "--filters", "Name=group-name,Values=wharf-lab"];
    let rules = aws(&groups)["SecurityGroups"][0]["IpPermissions"].clone();
    let ssh = rules.as_array().unwrap().iter().find(|rule| rule["FromPort"] == 22).unwrap();
    assert_eq!(ssh["IpRanges"][0]["CidrIp"], "198.51.100.0/24", "{rules}");
    assert_eq!(ssh["Ipv6Ranges"][0]["CidrIpv6"], "fd00::/8", "{rules}");
    let image = done(provider.bake(&made[0], "prepared-1", &|_, _| {})).unwrap();
    assert!(image.starts_with("ami-"), "{image}");
    assert_eq!(done(provider.bake(&made[0], "prepared-1", &|_, _| {})).unwrap(), image, "one of a name");
    done(provider.terminate(&made)).unwrap();
    assert_eq!(aws(&groups)["SecurityGroups"], serde_json::json!([]));
    let keys = aws(&["ec2", "describe-key-pairs", "--filters", "Name=key-name,Values=wharf-lab"]);
    assert_eq!(keys["KeyPairs"], serde_json::json!([]));
    assert!(!key.exists() && !folder.path().join("request.json").exists());
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0
}
