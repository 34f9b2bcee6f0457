//! Cluster files as Ray's repository has them: omitted keys, empty sections, repeated keys, placeholders, old keys.
use std::path::Path;

use tempfile::TempDir;
use wharf_launch::config::{Machines, told};
use wharf_launch::steps::setup_lines;
use wharf_launch::{Cluster, read};

/// Reads a text as the file `c.yaml`; what is wrong with it otherwise.
fn parse(text: &str) -> Result<Cluster, String> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).unwrap();
    let start = format!("{}/", folder.path().display());
    read(&path).map_err(|error| error.to_string().replace(&start, ""))
}

fn warnings(cluster: &Cluster) -> Vec<String> {
    cluster.warnings.iter().map(|warning| told(Path::new("c.yaml"), warning)).collect()
}

fn names(cluster: &Cluster) -> Vec<&str> {
    cluster.nodes.iter().map(|node| node.name.as_str()).collect()
}

const LOCAL: &str = "cluster_name: lab\nprovider: {type: local, head_ip: h1, worker_ips: [w1, w2]}\n";
const AWS: &str = "cluster_name: lab\nprovider: {type: aws, region: eu-west-1, ssh_from: [10.0.0.0/8]}\n";
const IMAGE: &str = "node_config: {InstanceType: m5.large, ImageId: ami-1}";

#[test]
fn head_node_type_that_is_omitted_is_the_default_type() {
    let types = |head: &str| {
        format!(
            "{AWS}available_node_types:\n  {head}: {{{IMAGE}}}\n  ray.worker.default: {{min_workers: 1, max_workers: 4, {IMAGE}}}\n"
        )
    };
    let cluster = parse(&types("ray.head.default")).unwrap();
    assert_eq!(names(&cluster), ["head", "ray.worker.default-1"]);
    assert_eq!((cluster.nodes[0].kind.as_str(), warnings(&cluster).len()), ("ray.head.default", 0));
    assert_eq!(
        parse(&types("big")).unwrap_err(),
        "c.yaml:4:3: `head_node_type`: it is missing, and no node type is named `ray.head.default`: \
         name one of big, ray.worker.default"
    );
    assert_eq!(
        parse(&format!("{}head_node_type: huge\n", types("big"))).unwrap_err(),
        "c.yaml:6:17: `head_node_type`: `huge` is not a node type: expected one of big, ray.worker.default"
    );
}

#[test]
fn a_cloud_cluster_without_node_types_is_refused() {
    let expected = "c.yaml:2:11: `available_node_types`: it is missing: the type of the head's machine is not assumed \
                    (as in `available_node_types: {ray.head.default: {node_config: {InstanceType: m5.large, ImageId: ami-...}}}`)";
    assert_eq!(parse(AWS).unwrap_err(), expected);
    assert_eq!(
        parse(&format!("{AWS}available_node_types: {{}}\n")).unwrap_err(),
        expected.replace("2:11", "3:23")
    );
}

#[test]
fn an_image_that_only_ray_would_fill_in_keeps_machines_from_being_made() {
    let with = |config: &str| {
        let text = format!("{AWS}available_node_types:\n  ray.head.default: {{node_config: {{{config}}}}}\n");
        let blockers = parse(&text).unwrap().blockers;
        blockers.iter().map(|problem| told(Path::new("c.yaml"), problem)).collect::<Vec<_>>()
    };
    let hint = "(name an image (`ami-...`), or `resolve:ssm:PARAMETER` for the newest of a series)";
    let at = "c.yaml:4:35: `available_node_types.ray.head.default.node_config.ImageId`:";
    assert_eq!(
        with("InstanceType: m5.large"),
        [format!("{at} it is missing: `wharf up` has no default image {hint}")]
    );
    assert_eq!(
        with("ImageId: latest_dlami"),
        [format!("{at} `latest_dlami` is a name of Ray's own: the cloud does not know it {hint}")]
    );
    for fine in ["ImageId: ami-1", "LaunchTemplate: {LaunchTemplateName: x}"] {
        assert_eq!(with(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn a_docker_section_of_empty_texts_means_no_container() {
    for docker in [
        "{image: '', container_name: ''}",
        "{image: '', container_name: '', pull_before_run: true, run_options: []}",
        "{image: '', head_image: '', worker_image: '', container_name: ''}",
    ] {
        let cluster = parse(&format!("{LOCAL}docker: {docker}\n")).unwrap();
        assert_eq!((cluster.nodes[0].container.clone(), warnings(&cluster)), (None, vec![]), "{docker}");
    }
    for docker in ["{image: '', container_name: box}", "{container_name: box}"] {
        let cluster = parse(&format!("{LOCAL}docker: {docker}\n")).unwrap();
        let warned =
            ["c.yaml:3:9: `docker`: it names a container, but no image: nodes are used without containers"];
        assert_eq!(
            (cluster.nodes[0].container.clone(), warnings(&cluster)),
            (None, warned.map(str::to_owned).into())
        );
    }
    for (docker, refused) in [
        (
            "{image: x, container_name: ''}",
            "c.yaml:3:36: `docker.container_name`: the container needs a name",
        ),
        (
            "{head_image: x, container_name: box}",
            "c.yaml:3:9: `docker.image`: missing; set `image` for all nodes, or `head_image` and `worker_image`",
        ),
    ] {
        assert_eq!(parse(&format!("{LOCAL}docker: {docker}\n")).unwrap_err(), refused, "{docker}");
    }
}

#[test]
fn the_old_key_pull_of_docker_becomes_pull_before_run() {
    let cluster = parse(&format!("{LOCAL}docker: {{image: x, container_name: box, pull: false}}\n")).unwrap();
    assert!(!cluster.nodes[0].container.as_ref().unwrap().pulls);
    assert_eq!(
        warnings(&cluster),
        ["c.yaml:3:41: `docker.pull`: it is an old key: it became `pull_before_run`"]
    );
}

#[test]
fn of_repeated_keys_the_last_counts_with_a_warning() {
    let cluster = parse(&format!(
        "{LOCAL}setup_commands: []\nauth: {{ssh_user: a, ssh_user: b}}\nsetup_commands: [echo 1]\nsetup_commands: [echo 2]\n"
    ))
    .unwrap();
    assert_eq!(
        (&*cluster.nodes[0].setup, cluster.nodes[0].ssh.user.as_deref()),
        (&["echo 2".to_owned()][..], Some("b"))
    );
    let mut told = warnings(&cluster);
    told.sort();
    assert_eq!(
        told,
        [
            "c.yaml:4:21: `auth.ssh_user`: the key is repeated: the value in line 4 is ignored, the last one counts",
            "c.yaml:5:1: `setup_commands`: the key is repeated: the value in line 3 is ignored, the last one counts",
            "c.yaml:6:1: `setup_commands`: the key is repeated: the value in line 5 is ignored, the last one counts",
        ]
    );
}

#[test]
fn words_in_capitals_are_named_as_placeholders_once_each() {
    let text = "cluster_name: lab\n\
                provider:\n  type: local\n  head_ip: YOUR_HEAD_NODE_HOSTNAME\n  worker_ips: [WORKER_NODE_1_HOSTNAME, ...]\n\
                auth: {ssh_user: YOUR_USERNAME}\n\
                min_workers: TYPICALLY_THE_NUMBER_OF_WORKER_IPS\n\
                file_mounts: {/tmp/x: /YOUR/REPO/heads/YOUR_BRANCH}\n\
                setup_commands: [echo SOME_WORD]\n";
    assert_eq!(
        parse(text).unwrap_err().lines().collect::<Vec<_>>(),
        [
            "c.yaml:4:12: `provider.head_ip`: the placeholder `YOUR_HEAD_NODE_HOSTNAME` is not filled in (write the value in its place)",
            "c.yaml:5:16: `provider.worker_ips[0]`: the placeholder `WORKER_NODE_1_HOSTNAME` is not filled in (write the value in its place)",
            "c.yaml:5:40: `provider.worker_ips[1]`: the placeholder `...` is not filled in (write the value in its place)",
            "c.yaml:6:18: `auth.ssh_user`: the placeholder `YOUR_USERNAME` is not filled in (write the value in its place)",
            "c.yaml:7:14: `min_workers`: the placeholder `TYPICALLY_THE_NUMBER_OF_WORKER_IPS` is not filled in (write the value in its place)",
            "c.yaml:8:23: `file_mounts./tmp/x`: the placeholder `YOUR_BRANCH` is not filled in (write the value in its place)",
        ]
    );
}

#[test]
fn an_automatic_local_cluster_is_refused_with_an_explanation() {
    let text = "cluster_name: lab\nprovider: {type: local, coordinator_address: 'COORDINATOR_HOST:COORDINATOR_PORT'}\n\
                max_workers: 2\navailable_node_types: {}\nhead_node_type: {}\nhead_start_ray_commands: []\nfile_mounts: {}\n";
    assert_eq!(
        parse(text).unwrap_err(),
        "c.yaml:2:46: `provider.coordinator_address`: automatic local clusters are not supported: Ray's coordinator server lends \
         machines to clusters, and `wharf up` uses the machines that the file names (name them with `head_ip` and `worker_ips` in \
         place of `coordinator_address`; users share one such cluster, because its head schedules their jobs)"
    );
}

#[test]
fn setup_commands_run_where_steps_name_them() {
    let order = |steps: &str| {
        let text = format!(
            "{LOCAL}setup_commands: [pip install torch]\nhead_setup_commands: [echo head]\nsteps: {steps}\n"
        );
        let cluster = parse(&text)?;
        let first =
            |line: &String| line.lines().next().unwrap_or_default().trim_start_matches(": ").to_owned();
        Ok::<_, String>(
            setup_lines(&cluster, &cluster.nodes[0]).iter().map(first).collect::<Vec<_>>().join(", "),
        )
    };
    for (steps, expected) in [
        ("[network, apex]", "step network, step apex, pip install torch, echo head"),
        ("[network, setup_commands, apex]", "step network, pip install torch, echo head, step apex"),
        ("[setup_commands, apex]", "pip install torch, echo head, step apex"),
        ("[apex, setup_commands]", "step apex, pip install torch, echo head"),
    ] {
        assert_eq!(order(steps).unwrap(), expected, "{steps}");
    }
    for (steps, refused) in [
        (
            "[setup_commands, apex, setup_commands]",
            "c.yaml:5:31: `steps[2]`: `setup_commands` is repeated: they run once",
        ),
        (
            "[{setup_commands: [x]}]",
            "c.yaml:5:26: `steps[0].setup_commands`: it is only the position of the setup commands; \
             write them under the key `setup_commands` of the file",
        ),
    ] {
        assert_eq!(order(steps).unwrap_err(), refused, "{steps}");
    }
}

#[test]
fn old_sections_beside_node_types_are_their_defaults() {
    let text = format!(
        "{AWS}available_node_types:\n  small: {{node_config: {{InstanceType: m4.xlarge}}, resources: {{CPU: 4}}}}\n  \
         spot:\n    node_config: {{InstanceType: m4.4xlarge, ImageId: ami-own}}\n    resources: {{CPU: 16, Custom1: 1, 'accelerator_type:K80': 1}}\n    \
         min_workers: 1\n    worker_setup_commands: [pip install x]\n\
         head_node_type: small\nworker_default_node_type: spot\nhead_node: {{ImageId: ami-head}}\nworker_nodes: {{ImageId: ami-worker, KeyName: k}}\n"
    );
    let cluster = parse(&text).unwrap();
    assert_eq!(names(&cluster), ["head", "spot-1"]);
    let Machines::Aws(aws) = &cluster.machines else { panic!("{:?}", cluster.machines) };
    assert_eq!(aws.types["small"], serde_json::json!({"InstanceType": "m4.xlarge", "ImageId": "ami-head"}));
    assert_eq!(
        aws.types["spot"],
        serde_json::json!({"InstanceType": "m4.4xlarge", "ImageId": "ami-own", "KeyName": "k"})
    );
    assert_eq!(
        warnings(&cluster),
        [
            "c.yaml:11:1: `worker_default_node_type`: it is ignored: the launcher starts as many workers of each type as its `min_workers`",
            "c.yaml:12:1: `head_node`: it is an old key: it fills in `node_config` of the head's type",
            "c.yaml:13:1: `worker_nodes`: it is an old key: it fills in `node_config` of the workers' types",
        ]
    );
}

#[test]
fn workers_of_the_type_auto_are_of_the_default_type() {
    let text = |types: &str| {
        format!(
            "cluster_name: lab\nmin_workers: 1\nprovider:\n  type: aws\n  region: eu-west-1\n  ssh_from: [10.0.0.0/8]\n  \
             available_instance_types: {types}\n\
             head_node: {{InstanceType: m4.large, ImageId: ami-1}}\nworker_nodes: {{InstanceType: auto, ImageId: ami-1}}\n"
        )
    };
    let cluster = parse(&text(
        "{p2.xlarge: {resources: {GPU: 1}, max_count: 8}, m4.4xlarge: {max_count: 10, default: true}}",
    ))
    .unwrap();
    let Machines::Aws(aws) = &cluster.machines else { panic!("{:?}", cluster.machines) };
    assert_eq!(aws.types["worker"]["InstanceType"], "m4.4xlarge");
    assert_eq!(
        warnings(&cluster)[0],
        "c.yaml:7:3: `provider.available_instance_types`: it is an old key: workers are machines of its default type, `m4.4xlarge`"
    );
    assert_eq!(
        parse(&text("{p2.xlarge: {resources: {GPU: 1}}}")).unwrap_err(),
        "c.yaml:9:30: `worker_nodes.InstanceType`: `auto` is none of the cloud's types, and \
         `provider.available_instance_types` names no default (write the type of the machines in its place)"
    );
}

#[test]
fn sections_that_only_rays_launcher_deploys_are_warned_of() {
    let text = format!(
        "cluster_name: lab\nprovider:\n  type: aws\n  region: eu-west-1\n  ssh_from: [10.0.0.0/8]\n  \
         cloud_formation:\n  - {{stack_name: S, template_file: t.yaml, create_stack_args: {{Capabilities: [CAPABILITY_NAMED_IAM]}}}}\n  \
         cloudwatch: {{agent: {{config: a.json, retryer: {{max_attempts: 3}}}}, dashboard: {{name: d, config: d.json}}}}\n\
         available_node_types:\n  ray.head.default: {{{IMAGE}}}\n"
    );
    assert_eq!(
        warnings(&parse(&text).unwrap()),
        [
            "c.yaml:8:15: `provider.cloudwatch`: it is ignored: agents, dashboards and alarms of CloudWatch are not set up",
            "c.yaml:7:5: `provider.cloud_formation`: it is ignored: stacks are not deployed; run `aws cloudformation deploy` before `wharf up`",
        ]
    );
}

#[test]
fn fields_of_the_cloud_are_passed_on_as_they_are() {
    let config = "{InstanceType: m5.large, ImageId: ami-1, LaunchTemplate: {LaunchTemplateId: lt-1, Version: $Latest}, \
                  NetworkInterfaces: [{DeviceIndex: 0, NetworkCardIndex: 0, AssociatePublicIpAddress: false, SubnetId: subnet-1, \
                  PrivateIpAddress: 172.31.64.10, Groups: [sg-1], InterfaceType: efa}], IamInstanceProfile: {Name: r}, \
                  BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 256}}], InstanceMarketOptions: {MarketType: spot}}";
    let text = format!(
        "{AWS}available_node_types:\n  ray.head.default: {{resources: {{}}, node_config: {config}}}\n"
    );
    let cluster = parse(&text).unwrap();
    let Machines::Aws(aws) = &cluster.machines else { panic!("{:?}", cluster.machines) };
    let sent = &aws.types["ray.head.default"];
    assert_eq!(sent["LaunchTemplate"], serde_json::json!({"LaunchTemplateId": "lt-1", "Version": "$Latest"}));
    assert_eq!(sent["NetworkInterfaces"][0]["Groups"], serde_json::json!(["sg-1"]));
    assert_eq!(
        (sent["NetworkInterfaces"][0]["AssociatePublicIpAddress"].as_bool(), warnings(&cluster)),
        (Some(false), vec![])
    );
}

#[test]
fn a_node_type_with_an_image_of_its_own_keeps_the_clusters_container() {
    let text = format!(
        "{AWS}docker: {{image: 'ray:gpu', container_name: ray_box}}\navailable_node_types:\n  big: {{{IMAGE}}}\n  \
         small: {{docker: {{worker_image: 'ray:cpu'}}, min_workers: 1, {IMAGE}}}\nhead_node_type: big\n"
    );
    let cluster = parse(&text).unwrap();
    let image = |index: usize| cluster.nodes[index].container.as_ref().unwrap().image.clone();
    assert_eq!((image(0), image(1)), ("ray:gpu".to_owned(), "ray:cpu".to_owned()));
}

#[test]
fn files_that_describe_no_cluster_are_refused_with_what_is_missing() {
    let refused = parse("list_of_node_ips: [n1, n2]\nserver_address: '127.0.0.1:4321'\n").unwrap_err();
    assert!(refused.contains("unknown key `list_of_node_ips`"), "{refused}");
    assert!(refused.contains("`provider`: expected the nodes, as in"), "{refused}");
    assert_eq!(
        parse(
            "cluster_name: sg\nmax_worker_nodes: 1\nprovider: {type: local, head_ip: h1, worker_ips: []}\n"
        )
        .unwrap_err(),
        "c.yaml:2:1: `max_worker_nodes`: unknown key `max_worker_nodes` (did you mean `max_workers`?)"
    );
}
