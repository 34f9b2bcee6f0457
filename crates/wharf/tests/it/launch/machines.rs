//! Clusters whose machines are made: by a program, by a Slurm, by a cloud.

use std::process::Command;

use wharf_testing::moto;
use wharf_testing::needs;
use wharf_testing::slurm::Slurm;
use wharf_testing::sshd::Sshd;

use crate::launch::lab::{Lab, Said, program};
use crate::launch::ssh::{Machines, SSH_PORT};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/machines/machines");
const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../launch/tests/files/cluster-template.yaml");

/// A free port.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Submits a gang over all nodes; each states where it is.
#[track_caller]
fn runs_everywhere(lab: &Lab, cluster: &str, nodes: &[&str]) {
    says_where(lab, &|words| lab.command(words), cluster, nodes);
}

/// The same from the machine that machines with sshd are launched from.
#[track_caller]
fn runs_on(machines: &Machines, cluster: &str, nodes: &[&str]) {
    says_where(&machines.lab, &|words| machines.command(words), cluster, nodes);
}

#[track_caller]
fn says_where(lab: &Lab, command: &dyn Fn(&[&str]) -> Command, cluster: &str, nodes: &[&str]) {
    let client = lab.state(cluster).join("client");
    let gang = format!("{}x1", nodes.len());
    let mut submit = command(&["submit", "--wait", "--gang", &gang, "--output-file"]);
    submit.arg(lab.path("%n.out")).args(["--", "sh", "-c", "echo $WHARF_NODE"]).env("WHARF_HOME", &client);
    Said::from(submit.output().unwrap()).ends(0);
    let mut told: Vec<String> =
        (0..nodes.len()).map(|rank| lab.read(&format!("{rank}.out")).trim().to_owned()).collect();
    told.sort();
    assert_eq!(told, nodes);
}

#[test]
fn machines_of_a_program_come_up_come_back_and_go() {
    needs!(PYTHON);
    let lab = Lab::new();
    let port = free_port();
    let file = |version: u32| {
        lab.describe(&format!(
            "cluster_name: made\nprovider: {{type: exec, command: [{EXAMPLE}], workers: 1, config: {{folder: {}, version: {version}}}}}\n\
             devices: cpu:1\nwharf: {{program: {}, port: {port}}}\nsetup_commands: ['echo set up >> ~/trail']\nsteps: [network]\n",
            lab.path("machines").display(),
            program().display()
        ));
    };
    file(1);
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach setup start"; 2]);
    assert!(said.stderr.contains("worker-1: creating its machine"), "{said:?}");
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach"; 2], "they are found again");
    runs_everywhere(&lab, "made", &["head", "worker-1"]);
    let home = lab.path("machines/made/worker-1");
    assert!(std::fs::read_to_string(home.join(".profile")).unwrap().contains("NCCL_SOCKET_IFNAME=lo"));
    let said = lab
        .wharf(&["cluster", "exec", "c.yaml", "--node", "worker-1", "--", "sh", "-c", "pwd; exit 3"])
        .ends(3);
    assert_eq!(said.stdout.trim(), home.to_str().unwrap());
    // Made from something else: replaced, after a confirmation.
    file(2);
    assert!(lab.up(&[]).ends(2).stderr.contains("machines of head, worker-1 has changed"));
    assert_eq!(lab.up(&["--yes"]).ends(0).phases(), ["reach setup start"; 2]);
    assert_eq!(std::fs::read_to_string(home.join("trail")).unwrap(), "set up\n");
    // Whatever the launcher knew is lost: the machines are not.
    let marks = lab.marks("made");
    std::fs::remove_dir_all(lab.path("state")).unwrap();
    lab.wharf(&["down", "c.yaml", "--yes"]).ends(0);
    assert!(std::fs::read_dir(lab.path("machines/made")).unwrap().next().is_none());
    assert_eq!(crate::launch::lab::processes(&marks), Vec::<String>::new());
    assert!(!lab.state("made").exists());
}

#[test]
fn allocations_of_a_slurm_come_up_come_back_and_go() {
    needs!(SLURM);
    let slurm = Slurm::start(2, 2, 0);
    let lab = Lab::new();
    let port = free_port();
    let describe = |workers: u32, steps: &str| {
        lab.describe(&format!(
            "cluster_name: hpc\nprovider: {{type: slurm, workers: {workers}, options: [--exclusive, '--mem=100M']}}\ndevices: cpu:1\n\
             wharf: {{program: {}, port: {port}}}\nsetup_commands: ['echo set up >> ~/trail-$SLURM_JOB_ID']\nsteps: [{steps}]\n",
            program().display(),
        ));
    };
    describe(1, "node_ssh");
    let run = |words: &[&str]| {
        let mut command = lab.command(words);
        Said::from(command.env("SLURM_CONF", slurm.conf()).env("USER", "root").output().unwrap())
    };
    let up = || run(&["up", "c.yaml", "--output", "json"]);
    let said = up().ends(0);
    assert_eq!(said.phases(), ["reach sync setup start"; 2]);
    assert_eq!(up().ends(0).phases(), ["reach"; 2], "what was started continues when its step is over");
    assert!(lab.path("trail-1").exists());
    runs_everywhere(&lab, "hpc", &["head", "worker-1"]);
    run(&["cluster", "exec", "c.yaml", "--all", "--", "exit 4"]).ends(4);
    slurm.run("scancel", &["2"]);
    let said = up().ends(0);
    assert_eq!(
        said.phases(),
        ["reach", "reach sync setup start"],
        "one that Slurm has taken is asked for again"
    );
    // The home directory is shared: the key is removed with the cluster, not with one of its nodes.
    let key = lab.path(".ssh/wharf_hpc");
    let is_let_in = || lab.read(".ssh/authorized_keys").contains("wharf-hpc");
    describe(0, "node_ssh");
    run(&["up", "c.yaml", "--yes"]).ends(0);
    assert!(key.exists() && is_let_in());
    // Nor does it matter what the file says by then.
    describe(0, "");
    run(&["down", "c.yaml", "--yes"]).ends(0);
    crate::launch::lab::until("jobs to be over", || {
        slurm.jobs("RUNNING,PENDING,COMPLETING").is_empty().then_some(())
    });
    assert!(!lab.path(".wharf").exists() && !lab.state("hpc").exists());
    assert!(!key.exists() && !is_let_in());
}

#[test]
fn template_without_all_values_is_rejected() {
    let lab = Lab::new();
    let said =
        lab.wharf(&["cluster", "render", TEMPLATE, "--set", "AMI ID=ami-1", "--set", "EFS IT=fs-1"]).ends(3);
    for told in [
        "there is no placeholder `{ EFS IT }` (did you mean `EFS ID`?)",
        ":20:16: `head_node.Placement.GroupName`: the placeholder `{ Placement Group Name }` is not filled in",
        "`setup_commands[1]`: the placeholder `{ EFS ID }` is not filled in (set it with `--set 'EFS ID=VALUE'`)",
    ] {
        assert!(said.stderr.contains(told), "{told}: {said:?}");
    }
    lab.write("ours.yaml", "EFS ID: fs-1\nPlacement Group Name: far\n");
    let words = ["cluster", "render", TEMPLATE, "--values", "ours.yaml", "--to", "c.yaml", "--set"];
    lab.wharf(&[&words[..], &["AMI ID=ami-1", "--set", "Placement Group Name=near"]].concat()).ends(0);
    let filled = lab.read("c.yaml");
    assert!(filled.contains("ImageId: ami-1\n") && filled.contains("GroupName: near\n"), "{filled}");
    assert!(filled.contains("mount -t efs fs-1:/ ~/efs") && filled.starts_with("# What all clusters copy"));
    let said = lab.up(&["--check"]).ends(0);
    assert!(said.stderr.contains("8 nodes"), "{said:?}");
    lab.describe("cluster_name: x\nprovider: {type: process}\n");
    let said = lab.wharf(&["cluster", "bake", "c.yaml"]).ends(3);
    assert!(said.stderr.contains("the provider `process` makes no images"), "{said:?}");
}

#[test]
fn a_machine_is_prepared_and_becomes_the_image_of_a_template() {
    needs!(AWS, SSHD);
    let lab = Lab::new();
    let home = lab.path("home");
    std::fs::create_dir(&home).unwrap();
    let cloud = moto::start(&lab.path(""));
    let sshd = Sshd::start(&lab.path(""), Some(&home));
    let describe = |setup: &str| {
        lab.describe(&format!(
            "cluster_name: initial\nprovider: {{type: aws, region: us-west-2}}\n{}head_node_type: h\navailable_node_types:\n  \
             h: {{node_config: {{InstanceType: p3.2xlarge, ImageId: ami-12c6146b, KeyName: mine, SecurityGroups: [default]}}}}\n\
             setup_commands: ['{setup}']\n",
            sshd.auth()
        ));
    };
    describe("[ ! -e ~/prepared ] && echo by hand > ~/prepared");
    let words = [
        "cluster",
        "bake",
        "c.yaml",
        "--template",
        TEMPLATE,
        "--to",
        "filled.yaml",
        "--set",
        "EFS ID=fs-1",
        "--set",
    ];
    let bake = |more: &[&str]| {
        let mut command = lab.command(&[&words[..], more].concat());
        Said::from(command.envs(cloud.env.iter().map(|(name, value)| (name, value))).output().unwrap())
    };
    let said = bake(&["Placement Group=near"]).ends(3);
    assert!(said.stderr.contains("there is no placeholder `{ Placement Group }`"), "{said:?}");
    assert!(!lab.state("initial").exists(), "nothing is begun for a template that cannot be filled");
    describe("echo no such package; exit 4");
    let said = bake(&["Placement Group Name=near"]).ends(13);
    let left = "the machine is still running: `wharf cluster bake c.yaml` continues with it, `wharf down c.yaml` terminates it";
    assert!(said.stderr.contains(left), "{said:?}");
    describe("[ ! -e ~/prepared ] && echo by hand > ~/prepared");
    let said = bake(&["Placement Group Name=near"]).ends(0);
    let filled = lab.read("filled.yaml");
    assert_eq!(filled.matches("ImageId: ami-").count(), 2, "{filled} {said:?}");
    assert!(!filled.contains("ami-12c6146b") && filled.contains("GroupName: near"), "{filled}");
    assert_eq!(std::fs::read_to_string(home.join("prepared")).unwrap(), "by hand\n");
    assert!(!home.join(".wharf").exists(), "nothing of ours is in the image");
    assert!(!lab.state("initial").exists(), "the machine is given back");
}

/// moto's machines cannot be reached, but may have addresses that others have: three machines with real sshd are what the cloud gives out.
#[test]
fn machines_of_a_cloud_come_up_work_and_go() {
    needs!(NAMESPACES, SSHD, AWS);
    let machines = Machines::new();
    let lab = &machines.lab;
    let in_hub = |program: std::path::PathBuf| machines.hub().command(program);
    let cloud = moto::start_by(&lab.path(""), in_hub);
    let run = |mut command: Command| {
        Said::from(command.envs(cloud.env.iter().map(|(name, value)| (name, value))).output().unwrap())
    };
    let wharf = |words: &[&str]| run(machines.command(words));
    let aws = |words: &[&str]| {
        let mut command = machines.hub().command("aws");
        command.arg("ec2").args(words).args(["--region", "us-west-2", "--output", "text"]);
        run(command).ends(0).stdout
    };
    let kind = |name: &str, at: u32, disk: u32| {
        format!(
            "  {name}: {{min_workers: {}, node_config: {{InstanceType: p3.2xlarge, ImageId: ami-12c6146b, PrivateIpAddress: 10.77.0.{at}, \
             BlockDeviceMappings: [{{DeviceName: /dev/sda1, Ebs: {{VolumeSize: {disk}}}}}]}}}}\n",
            u32::from(at > 1)
        )
    };
    let describe = |disk: u32| {
        lab.describe(&format!(
            "cluster_name: sky\nprovider: {{type: aws, region: us-west-2, use_internal_ips: true, ssh_from: [10.0.0.0/8]}}\n\
             auth: {{ssh_user: root, ssh_port: {SSH_PORT}, ssh_private_key: id}}\ndevices: cpu:1\nwharf: {{program: {}}}\n\
             steps: [node_ssh]\nhead_node_type: h\navailable_node_types:\n{}{}{}",
            program().display(),
            kind("h", 1, 100),
            kind("a", 2, 100),
            kind("b", 3, disk)
        ));
    };
    let up = |words: &[&str]| wharf(&[&["up", "c.yaml", "--output", "json"], words].concat());
    let planned = || {
        let said = up(&["--dry-run"]).ends(0);
        let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let nodes = told["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["machine"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let running = ["describe-instances", "--filters", "Name=instance-state-name,Values=running", "--query"];
    let ids = || aws(&[&running[..], &["Reservations[].Instances[].InstanceId"]].concat());
    describe(100);
    assert_eq!(planned(), "made made made");
    assert_eq!(ids().trim(), "", "nothing was asked for");
    assert_eq!(up(&[]).ends(0).phases(), ["reach sync setup start"; 3]);
    assert_eq!(up(&[]).ends(0).phases(), ["reach"; 3]);
    assert_eq!(planned(), "kept kept kept");
    runs_on(&machines, "sky", &["a-1", "b-1", "head"]);
    let key = |name: &str| machines.disk(name).join(".ssh/wharf_sky").exists();
    assert!(key("nd1") && key("nd3"));
    // One that is made from something else is replaced.
    describe(200);
    assert_eq!(planned(), "kept kept replaced");
    assert!(up(&[]).ends(2).stderr.contains("machines of b-1 has changed"));
    assert_eq!(up(&["--yes"]).ends(0).phases(), ["reach", "reach", "reach sync setup start"]);
    assert_eq!(ids().split_whitespace().count(), 3);
    wharf(&["down", "c.yaml", "--yes"]).ends(0);
    assert_eq!(ids().trim(), "");
    assert_eq!(machines.left(), Vec::<String>::new());
    assert!(!key("nd1") && !key("nd3") && !lab.state("sky").exists());
}
