//! What is asked of RunInstances: the file's fields as they are, with what every machine of ours needs.

use serde_json::{Map, Value as Json, json};

use crate::config::NodeConfig;

/// Tags of our machines.
pub(super) const CLUSTER: &str = "wharf-cluster";
pub(super) const NODE: &str = "wharf-node";
pub(super) const KIND: &str = "wharf-type";
pub(super) const LAUNCH: &str = "wharf-launch";

/// Requests to try, one after the other: where the file names several subnets or zones, one for each.
pub(super) fn requests(
    config: &Json,
    zones: &[String],
    cluster: &str,
    node: &NodeConfig,
    count: usize,
) -> Vec<Json> {
    let mut fields = config.as_object().cloned().unwrap_or_default();
    // One of Ray's own: RunInstances knows one subnet.
    let subnets = fields.remove("SubnetIds");
    let subnets: Vec<Json> = subnets.and_then(|list| list.as_array().cloned()).unwrap_or_default();
    // All of them in one place, or none: nodes of a cluster have to be near each other.
    fields.insert("MinCount".to_owned(), json!(count));
    fields.insert("MaxCount".to_owned(), json!(count));
    tag(&mut fields, cluster, node);
    let has_zone = fields.contains_key("SubnetId")
        || fields.contains_key("NetworkInterfaces")
        || fields.get("Placement").is_some_and(|placement| placement.get("AvailabilityZone").is_some());
    let with = |key: &str, value: Json| {
        let mut fields = fields.clone();
        fields.insert(key.to_owned(), value);
        Json::Object(fields)
    };
    if !subnets.is_empty() {
        return subnets.into_iter().map(|subnet| with("SubnetId", subnet)).collect();
    }
    if zones.is_empty() || has_zone {
        return vec![Json::Object(fields)];
    }
    let in_zone = |zone: &String| {
        let mut placement = fields.get("Placement").cloned().unwrap_or_else(|| json!({}));
        placement["AvailabilityZone"] = json!(zone);
        with("Placement", placement)
    };
    zones.iter().map(in_zone).collect()
}

/// Adds our tags to those that the file has for instances.
fn tag(fields: &mut Map<String, Json>, cluster: &str, node: &NodeConfig) {
    let tags = [(CLUSTER, cluster), (KIND, &node.kind), (LAUNCH, &node.launch)];
    let tags = tags.map(|(key, value)| json!({"Key": key, "Value": value}));
    let list = fields.entry("TagSpecifications").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    let place = list.iter().position(|part| part["ResourceType"] == "instance");
    let index = place.unwrap_or_else(|| {
        list.push(json!({"ResourceType": "instance", "Tags": []}));
        list.len() - 1
    });
    match list[index]["Tags"].as_array_mut() {
        Some(own) => own.extend(tags),
        None => list[index]["Tags"] = json!(tags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Role;

    fn node() -> NodeConfig {
        let node = json!({"name": "head", "role": Role::Head, "address": "", "inner_address": "", "ssh": {"options": {}},
            "initialization": [], "setup": [], "kind": "big", "launch": "abc"});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn the_files_fields_are_passed_on_as_they_are() {
        let config = json!({
            "InstanceType": "p3.16xlarge", "ImageId": "ami-1", "KeyName": "k", "SecurityGroupIds": ["sg-1"],
            "Placement": {"GroupName": "near"}, "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "9"}},
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200}}],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "ann"}]}],
        });
        let made = requests(&config, &[], "lab", &node(), 7);
        let [made] = made.as_slice() else { panic!("{made:?}") };
        for (key, value) in config.as_object().unwrap() {
            if key != "TagSpecifications" {
                assert_eq!(&made[key], value, "{key}");
            }
        }
        assert_eq!((&made["MinCount"], &made["MaxCount"]), (&json!(7), &json!(7)));
        let tags = made["TagSpecifications"][0]["Tags"].as_array().unwrap();
        assert_eq!(tags.len(), 4, "{tags:?}");
        assert_eq!((&tags[0]["Value"], &tags[1]["Key"]), (&json!("ann"), &json!("wharf-cluster")));
    }

    #[test]
    fn zones_and_subnets_are_tried_one_after_the_other() {
        let zones = ["a".to_owned(), "b".to_owned()];
        let of = |config: Json| requests(&config, &zones, "lab", &node(), 1);
        let made = of(json!({"Placement": {"GroupName": "near"}}));
        let places: Vec<&Json> = made.iter().map(|request| &request["Placement"]).collect();
        let placement = |zone: &str| json!({"GroupName": "near", "AvailabilityZone": zone});
        assert_eq!(places, [&placement("a"), &placement("b")]);
        let made = of(json!({"SubnetIds": ["s1", "s2", "s3"]}));
        let subnets: Vec<&Json> = made.iter().map(|request| &request["SubnetId"]).collect();
        assert_eq!(subnets, ["s1", "s2", "s3"]);
        assert!(made.iter().all(|request| request.get("SubnetIds").is_none()));
        assert_eq!(of(json!({"SubnetId": "s1"})).len(), 1);
        assert_eq!(
            of(json!({"Placement": {"AvailabilityZone": "c"}}))[0]["Placement"]["AvailabilityZone"],
            "c"
        );
    }
}
