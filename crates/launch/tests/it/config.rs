//! Cluster files: what is read, what is warned of, and what is refused, with lines.
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wharf_launch::config::{Provider, Role, Runtime, WharfRuntime, told};
use wharf_launch::{Cluster, ConfigError, read};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Reads a text as a file.
fn parse(text: &str) -> Result<Cluster, String> {
    let folder = TempDir::new().unwrap();
    write(&folder, "there.txt", "");
    let path = write(&folder, "c.yaml", text);
    let start = format!("{}/", folder.path().display());
    read(&path).map_err(|error| error.to_string().replace(&start, ""))
}

fn warnings(cluster: &Cluster) -> Vec<String> {
    cluster.warnings.iter().map(|warning| told(Path::new("c.yaml"), warning)).collect()
}

const HEAD: &str =
    "cluster_name: lab\nprovider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, n3]}\n";

#[test]
fn machines_merge_common_and_own_settings() {
    let text = format!(
        "{HEAD}auth:\n  ssh_user: ann\n  ssh_port: 2222\n  ssh_options: {{ServerAliveInterval: 15}}\n\
         devices: v100:4\nstart_timeout_s: 30\n\
         setup_commands: [a]\nhead_setup_commands: [b]\nworker_setup_commands: [c]\ninitialization_commands: i\n\
         file_mounts: {{~/there.txt: there.txt}}\nrsync_exclude: ['**/.git']\nx-notes: {{any: thing}}\n\
         nodes:\n  n3: {{ssh_port: 22, name: third, devices: 'a40:2', ssh_options: {{Compression: 'yes'}}}}\n"
    );
    let cluster = parse(&text).unwrap();
    assert_eq!((cluster.name.as_str(), cluster.provider, cluster.min_workers), ("lab", Provider::Local, 2));
    assert_eq!(cluster.start_timeout.as_secs(), 30);
    let shown: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| {
            let (ssh, options) = (&node.ssh, node.ssh.options.keys().cloned().collect::<Vec<_>>().join("+"));
            format!(
                "{} {:?} {} {} {} {options} {} {:?} {:?}",
                node.name,
                node.role,
                node.address,
                ssh.user.as_deref().unwrap(),
                ssh.port.unwrap(),
                node.devices.as_deref().unwrap(),
                node.initialization,
                node.setup
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"10.0.0.1 Head 10.0.0.1 ann 2222 ServerAliveInterval v100:4 ["i"] ["a", "b"]"#,
            r#"10.0.0.2 Worker 10.0.0.2 ann 2222 ServerAliveInterval v100:4 ["i"] ["a", "c"]"#,
            r#"third Worker n3 ann 22 Compression+ServerAliveInterval a40:2 ["i"] ["a", "c"]"#,
        ]
    );
    assert_eq!(cluster.mounts[0].remote, "~/there.txt");
    assert!(warnings(&cluster).is_empty());
    let own = WharfRuntime { program: None, port: 7717, policy: None };
    assert_eq!(cluster.runtime, Runtime::Wharf(own));
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    for (text, expected) in [
        (
            "cluster_name: lab\n",
            "c.yaml:1:1: `provider`: expected the nodes, as in `provider: {type: local, head_ip: ..., worker_ips: [...]}`",
        ),
        ("provider: {type: process}\n", "c.yaml:1:1: `cluster_name`: the cluster needs a name"),
        (
            "cluster_name: a b\nprovider: {type: process}\n",
            "c.yaml:1:15: `cluster_name`: `a b` is no name; it has up to 63 letters, digits, `_`, `.` and `-`",
        ),
        (
            "cluster_name: a\nprovider: {type: proces}\n",
            "c.yaml:2:18: `provider.type`: the provider `proces` is unknown; expected one of local, process, slurm, aws, exec (did you mean `process`?)",
        ),
        (
            "cluster_name: a\nprovider: {type: local}\n",
            "c.yaml:2:11: `provider.head_ip`: the head's address is missing",
        ),
        (
            "cluster_name: a\nprovider: {type: local, head_ip: -oProxyCommand=x}\n",
            "c.yaml:2:34: `provider.head_ip`: `-oProxyCommand=x` is not an address",
        ),
        (
            "cluster_name: a\nprovider: {type: local, head_ip: n, workers_ips: [m]}\n",
            "c.yaml:2:37: `provider.workers_ips`: unknown key `workers_ips` (did you mean `worker_ips`?)",
        ),
        (
            "cluster_name: a\nprovider: {type: local, head_ip: n, worker_ips: [m, n]}\n",
            "c.yaml:2:11: `provider`: there are two nodes `n`; each is named once",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nsetup_comands: [x]\n",
            "c.yaml:3:1: `setup_comands`: unknown key `setup_comands` (did you mean `setup_commands`?)",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nsetup_commands: [{a: b}]\n",
            "c.yaml:3:18: `setup_commands[0]`: expected a text, found a map",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nfile_mounts: {~/x: gone}\n",
            "c.yaml:3:20: `file_mounts.~/x`: there is no `gone` on this machine",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nfile_mounts: {/x: there.txt}\n",
            "c.yaml:3:19: `file_mounts./x`: nodes of the provider `process` share this machine's files: write the target below `~/`",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nfile_mounts: {~/a/../../x: there.txt}\n",
            "c.yaml:3:28: `file_mounts.~/a/../../x`: the target must begin with `/` or `~/`, and go nowhere up",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nauth: {ssh_port: 70000}\n",
            "c.yaml:3:18: `auth.ssh_port`: 70000 is no port; they go from 1 to 65535",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nauth: {ssh_private_key: gone}\n",
            "c.yaml:3:25: `auth.ssh_private_key`: the key `gone` cannot be read: No such file or directory (os error 2)",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ndevices: v100\n",
            "c.yaml:3:10: `devices`: `v100` names no devices; write TYPE:COUNT, as in `v100:4`",
        ),
        (
            "cluster_name: a\nprovider: {type: process, workers: 3}\nmax_workers: 1\n",
            "c.yaml:3:14: `max_workers`: it is 1, below the 3 workers that there have to be",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nno_restart: true\n",
            "c.yaml:3:13: `no_restart`: it is no key for a file; use `wharf up --no-restart`",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nnodes: {worker-2: {devices: 'cpu:2'}}\n",
            "c.yaml:3:9: `nodes.worker-2`: unknown node `worker-2` (did you mean `worker-1`?)",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\navailable_node_types: {t: {}}\n",
            "c.yaml:3:23: `available_node_types`: this provider has no node types; set differences of single nodes under `nodes`",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\nhead_start_ray_commands: []\nwharf: {port: 1}\n",
            "c.yaml:4:8: `wharf`: the file starts other daemons, with `head_start_ray_commands` and `worker_start_ray_commands`",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ndocker: {image: x}\n",
            "c.yaml:3:9: `docker.container_name`: the container needs a name",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ndocker: {container_name: box, head_image: x}\n",
            "c.yaml:3:9: `docker.image`: missing; set `image` for all nodes, or `head_image` and `worker_image`",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ndocker: {container_name: box, image: --privileged}\n",
            "c.yaml:3:38: `docker.image`: `--privileged` is not an image's name",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ndocker: {container_name: box, image: x, run_option: [y]}\n",
            "c.yaml:3:41: `docker.run_option`: unknown key `run_option` (did you mean `run_options`?)",
        ),
        (
            "cluster_name: a\nprovider: {type: process}\ncluster_synced_files: [data]\n",
            "c.yaml:3:23: `cluster_synced_files`: `data` must begin with `/` or `~/`, and go nowhere up",
        ),
        (
            "cluster_name: a\nprovider: {type: aws, ssh_from: [10.0.0.1]}\nhead_node_type: h\navailable_node_types: {h: {}}\n",
            "c.yaml:2:33: `provider.ssh_from`: `10.0.0.1` is no network; write `203.0.113.0/24`",
        ),
        (
            "cluster_name: a\nprovider: {type: aws, ssh_from: []}\nhead_node_type: h\navailable_node_types: {h: {}}\n",
            "c.yaml:2:33: `provider.ssh_from`: no network has access to the machines; add at least one",
        ),
        (
            "cluster_name: { Your Name }\nprovider: {type: process}\n",
            "c.yaml:1:15: `cluster_name`: the placeholder `{ Your Name }` is not filled in (write the value in its place, without the braces)",
        ),
    ] {
        let told = parse(text).unwrap_err();
        assert!(told.starts_with(expected), "{text}\n{told}\n{expected}");
    }
}

#[test]
fn containers_are_read_for_head_and_workers() {
    let text = format!(
        "{HEAD}docker:\n  image: both:1\n  head_image: head:1\n  container_name: ray_c\n  run_options: ['--ulimit nofile=9']\n  \
         worker_run_options: [-e W=1]\n  pull_before_run: false\n  disable_shm_size_detection: true\n\
         cluster_synced_files: [~/shared, /data/x]\nfile_mounts: {{/opt/x: there.txt}}\n"
    );
    let cluster = parse(&text).unwrap();
    let shown = |index: usize| {
        let container = cluster.nodes[index].container.clone().unwrap();
        assert_eq!((container.name.as_str(), container.pulls, container.sizes_shm), ("ray_c", false, false));
        assert_eq!((container.finds_runtime, container.is_podman), (true, false));
        format!("{} {}", container.image, container.options.join(" "))
    };
    assert_eq!(shown(0), "head:1 --ulimit nofile=9");
    assert_eq!(shown(2), "both:1 --ulimit nofile=9 -e W=1");
    assert_eq!(cluster.synced, ["~/shared", "/data/x"]);
    for (docker, warned) in [("{}", 0), ("{pull_before_run: true}", 1)] {
        let cluster = parse(&format!("{HEAD}docker: {docker}\n")).unwrap();
        assert_eq!(
            (cluster.nodes[0].container.clone(), warnings(&cluster).len()),
            (None, warned),
            "{docker}"
        );
    }
}

#[test]
fn containers_of_a_node_type_lie_over_those_of_all_workers() {
    let types = "head_node_type: small\navailable_node_types:\n  small: {node_config: {}}\n  \
                 large:\n    min_workers: 1\n    docker: {worker_image: 'gpu:2', worker_run_options: [-e L=1], pull_before_run: false}\n  \
                 plain: {min_workers: 1, docker: {disable_automatic_runtime_detection: true, disable_shm_size_detection: false}}\n";
    let text = |docker: &str| format!("cluster_name: c\nprovider: {{type: aws}}\n{docker}{types}");
    let all = "docker: {image: 'cpu:1', container_name: box, run_options: [-e A=1], worker_run_options: [-e W=1], disable_shm_size_detection: true}\n";
    let cluster = parse(&text(all)).unwrap();
    let shown: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| {
            let container = node.container.as_ref().unwrap();
            let is = [container.pulls, container.finds_runtime, container.sizes_shm];
            format!("{} {} {} {is:?}", node.name, container.image, container.options.join(" "))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "head cpu:1 -e A=1 [true, true, false]",
            "large-1 gpu:2 -e A=1 -e L=1 [false, true, false]",
            "plain-1 cpu:1 -e A=1 -e W=1 [true, false, true]"
        ]
    );
    let told = parse(&text(all).replace("worker_image", "image")).unwrap_err();
    let refused = "c.yaml:9:14: `available_node_types.large.docker.image`: unknown key `image` (did you mean `worker_image`?)";
    assert!(told.starts_with(refused), "{told}");
    let cluster = parse(&text("")).unwrap();
    let expected = "c.yaml:8:13: `available_node_types.large.docker`: it lies over the file's own `docker`, which names no image";
    assert!(
        warnings(&cluster).iter().any(|warning| warning.starts_with(expected)),
        "{:?}",
        warnings(&cluster)
    );
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let folder = TempDir::new().unwrap();
    let key = write(&folder, "id", "");
    let file = write(&folder, "c.yaml", &format!("{HEAD}auth: {{ssh_private_key: id}}\n"));
    for (mode, is_fine) in [(0o600, true), (0o400, true), (0o644, false)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(read(&file).is_ok(), is_fine, "{mode:o}");
    }
    assert!(read(&file).unwrap_err().to_string().contains("chmod 600"));
}

#[test]
fn files_of_old_launchers_load_with_warnings() {
    let cluster = read(&Path::new(FILES).join("initial-cluster.yaml")).unwrap();
    assert_eq!((cluster.provider, cluster.nodes.len()), (Provider::Aws, 1));
    assert_eq!(
        warnings(&cluster),
        [
            "c.yaml:4:1: `initial_workers`: it is an old key: `min_workers` is as large now",
            "c.yaml:12:1: `head_node`: it is an old key: it became `available_node_types.head`",
            "c.yaml:19:1: `worker_nodes`: it is an old key and empty: it is ignored",
            "c.yaml:7:3: `provider.ssh_from`: ssh to the machines is allowed from all addresses, with the key alone; \
             name your network, as in `ssh_from: [203.0.113.0/24]`",
        ]
    );
}

#[test]
fn a_template_is_refused_by_its_placeholders_and_loads_when_they_are_filled_in() {
    let path = Path::new(FILES).join("cluster-template.yaml");
    let Err(ConfigError::Invalid { problems, .. }) = read(&path) else { panic!("it was taken") };
    let told: Vec<String> = problems
        .iter()
        .map(|problem| format!("{} {} {}", problem.place.line, problem.field, problem.message))
        .collect();
    assert_eq!(
        told,
        [
            "18 head_node.ImageId the placeholder `{ AMI ID }` is not filled in",
            "20 head_node.Placement.GroupName the placeholder `{ Placement Group Name }` is not filled in",
            "23 worker_nodes.ImageId the placeholder `{ AMI ID }` is not filled in",
            "28 setup_commands[1] the placeholder `{ EFS ID }` is not filled in",
        ]
    );
    let template = std::fs::read_to_string(&path).unwrap();
    let filled = template.replace("{ AMI ID }", "ami-1").replace("{ Placement Group Name }", "near");
    let cluster = parse(&filled.replace("{ EFS ID }", "fs-1")).unwrap();
    assert_eq!((cluster.nodes.len(), cluster.min_workers), (8, 7));
    assert_eq!((&cluster.nodes[1].name, cluster.nodes[1].role), (&"worker-1".to_owned(), Role::Worker));
    let Runtime::Commands { head, .. } = &cluster.runtime else { panic!("{:?}", cluster.runtime) };
    assert_eq!(head[0], "ray stop");
    assert_eq!(warnings(&cluster).len(), 6, "{:?}", warnings(&cluster));
}

#[test]
fn a_cluster_spec_of_crius_is_a_cluster_of_machines() {
    let folder = TempDir::new().unwrap();
    let text = r#"[{"gpu_type": {"a40": {"node_num": 2, "ip_addr": ["10.2.64.81", "10.2.64.82"], "port": [4160, 4160]}}}]"#;
    let cluster = read(&write(&folder, "cluster_spec.json", text)).unwrap();
    let nodes: Vec<_> = cluster.nodes.iter().map(|node| (node.address.as_str(), node.role)).collect();
    assert_eq!(nodes, [("10.2.64.81", Role::Head), ("10.2.64.82", Role::Worker)]);
    assert_eq!(cluster.nodes[1].devices.as_deref(), Some("a40:2"));
    let without = write(&folder, "plain.json", r#"[{"gpu_type": {"a40": {"node_num": 2}}}]"#);
    assert!(read(&without).unwrap_err().to_string().contains("add `ip_addr`"));
}
