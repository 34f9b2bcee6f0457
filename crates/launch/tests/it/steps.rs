//! Ready-made steps, run as nodes run them: done where they are not, left alone where they are, and told what is missing.
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use wharf_launch::steps::undo;
use wharf_launch::{Cluster, read};
use wharf_testing::needs;

/// A node: a home, and programs in front of the system's.
struct Node {
    folder: TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self { folder: TempDir::new().unwrap() };
        std::fs::create_dir(node.path("bin")).unwrap();
        // The test does not change the system for any user: actions of root are recorded.
        node.program("sudo", "[ \"$1\" != -n ] || shift\ncase $1 in ln|mkdir|tar) exec \"$@\" ;; esac\nprintf '%s\\n' \"$*\" >> ~/asked\n[ \"$1\" != tee ] || cat > /dev/null");
        node.program("id", "echo 1000");
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn cluster(&self, steps: &str) -> Cluster {
        self.named("lab", &format!("steps:\n{steps}"))
    }

    fn named(&self, name: &str, more: &str) -> Cluster {
        let file = self.path("c.yaml");
        let text = format!(
            "cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: [10.9.9.9]}}\n{more}"
        );
        std::fs::write(&file, text).unwrap();
        read(&file).unwrap()
    }

    /// Runs the first step of a cluster as the head runs it.
    fn run(&self, steps: &str) -> Output {
        let cluster = self.cluster(steps);
        self.sh(&cluster.steps[0].script(&cluster, &cluster.nodes[0]))
    }

    fn sh(&self, script: &str) -> Output {
        self.command(script).output().unwrap()
    }

    fn command(&self, script: &str) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("HOME", self.folder.path()).env("PATH", path);
        command
    }

    /// The files that `node_ssh` finds: the user's own, and the cluster's key.
    fn with_key(&self, cluster: &str, authorized: &str, config: &str) {
        std::fs::create_dir_all(self.path(".ssh")).unwrap();
        std::fs::write(self.path(".ssh/config"), config).unwrap();
        std::fs::write(self.path(".ssh/authorized_keys"), authorized).unwrap();
        std::fs::write(self.path(&format!(".ssh/wharf_{cluster}")), "PRIVATE\n").unwrap();
        let public = format!("ssh-ed25519 KEY wharf-{cluster}\n");
        std::fs::write(self.path(&format!(".ssh/wharf_{cluster}.pub")), public).unwrap();
    }

    /// Runs a script many times at once, as nodes do that share a home.
    #[track_caller]
    fn at_once(&self, script: &str) {
        let run = |_| self.command(script).stderr(Stdio::piped()).spawn().unwrap();
        for running in (0..8).map(run).collect::<Vec<_>>() {
            let said = running.wait_with_output().unwrap();
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        }
    }

    fn ssh_files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.path(".ssh")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[track_caller]
    fn works(&self, steps: &str) {
        let said = self.run(steps);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    #[track_caller]
    fn fails(&self, steps: &str, why: &str) {
        let said = self.run(steps);
        let told = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && told.contains(why), "{told}");
    }
}

#[test]
fn nodes_reach_each_other_with_a_key_of_their_cluster() {
    let node = Node::new();
    node.fails("- node_ssh\n", "it is copied by `wharf up`");
    // The last line of keys has no end.
    node.with_key("lab", "ssh-ed25519 OTHER ann", "Host mine\n  User ann\n");
    for _ in 0..2 {
        node.works("- node_ssh\n");
        assert_eq!(node.read(".ssh/authorized_keys"), "ssh-ed25519 OTHER ann\nssh-ed25519 KEY wharf-lab\n");
        let config = node.read(".ssh/config");
        assert_eq!(
            config,
            "Host mine\n  User ann\n# wharf lab begin\nHost 10.9.9.9 127.0.0.1\n  IdentityFile ~/.ssh/wharf_lab\n  \
             StrictHostKeyChecking accept-new\n# wharf lab end\n"
        );
    }
    let mode = std::fs::metadata(node.path(".ssh/wharf_lab")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // When the cluster goes, so does its key, whatever its file says then; twice, as after an interruption.
    for _ in 0..2 {
        let cluster = node.named("lab", "");
        let said = node.sh(&undo(&cluster, &cluster.nodes[0]));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(node.read(".ssh/authorized_keys"), "ssh-ed25519 OTHER ann\n");
        assert_eq!(node.read(".ssh/config"), "Host mine\n  User ann\n");
        assert!(!node.path(".ssh/wharf_lab").exists() && !node.path(".ssh/wharf_lab.pub").exists());
    }
}

#[test]
fn nodes_that_share_a_home_leave_the_users_own_lines_in_it() {
    for shell in ["dash", "bash"] {
        let node = Node::new();
        node.program("sh", &format!("exec {shell} \"$@\""));
        let authorized: String = (0..200).map(|index| format!("ssh-ed25519 OTHER{index} ann\n")).collect();
        let config: String = (0..200).map(|index| format!("Host h{index}\n  User ann\n")).collect();
        for _ in 0..5 {
            node.with_key("lab", &authorized, &config);
            std::fs::set_permissions(
                node.path(".ssh/authorized_keys"),
                std::fs::Permissions::from_mode(0o640),
            )
            .unwrap();
            let cluster = node.cluster("- node_ssh\n");
            node.at_once(&cluster.steps[0].script(&cluster, &cluster.nodes[0]));
            let changed = node.read(".ssh/config");
            assert!(changed.starts_with(&config) && changed.matches("# wharf lab begin").count() == 1);
            assert!(node.read(".ssh/authorized_keys").starts_with(&authorized));
            node.at_once(&undo(&cluster, &cluster.nodes[0]));
            assert_eq!(node.read(".ssh/authorized_keys"), authorized);
            assert_eq!(node.read(".ssh/config"), config);
            assert_eq!(node.ssh_files(), ["authorized_keys", "config"]);
            let mode = std::fs::metadata(node.path(".ssh/authorized_keys")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
        }
    }
}

#[test]
fn files_that_cannot_be_rewritten_stay_as_they_are() {
    for shell in ["dash", "bash"] {
        for broken in ["awk", "mktemp", "mv", "cp"] {
            let node = Node::new();
            node.program("sh", &format!("exec {shell} \"$@\""));
            let authorized = "ssh-ed25519 OTHER ann\nssh-ed25519 KEY wharf-lab\n";
            node.with_key("lab", authorized, "Host mine\n");
            node.program(broken, "exit 1");
            let cluster = node.named("lab", "");
            assert!(!node.sh(&undo(&cluster, &cluster.nodes[0])).status.success(), "{shell}, {broken}");
            assert_eq!(node.read(".ssh/authorized_keys"), authorized, "{shell}, {broken}");
            assert_eq!(node.ssh_files(), ["authorized_keys", "config", "wharf_lab", "wharf_lab.pub"]);
        }
    }
}

#[test]
fn only_lines_of_the_cluster_itself_are_its_own() {
    let node = Node::new();
    let of = |name: &str, host: &str| format!("# wharf {name} begin\nHost {host}\n# wharf {name} end\n");
    // Other clusters, one whose name is alike, and a start marker without its end marker.
    let others = format!("{}# wharf a.b begin\nHost mine\n", of("aXb", "other"));
    let linked = node.path("dotfiles");
    node.with_key("a.b", "ssh-ed25519 KEY wharf-aXb\n", "");
    std::fs::write(&linked, format!("{others}{}", of("a.b", "old"))).unwrap();
    std::fs::remove_file(node.path(".ssh/config")).unwrap();
    symlink(&linked, node.path(".ssh/config")).unwrap();
    let cluster = node.named("a.b", "steps: [node_ssh]\n");
    let said = node.sh(&cluster.steps[0].script(&cluster, &cluster.nodes[0]));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let config = node.read(".ssh/config");
    assert!(
        config.starts_with(&others) && !config.contains("old") && config.contains("10.9.9.9"),
        "{config}"
    );
    let said = node.sh(&undo(&cluster, &cluster.nodes[0]));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(node.read("dotfiles"), others);
    assert!(node.path(".ssh/config").is_symlink());
    assert_eq!(node.read(".ssh/authorized_keys"), "ssh-ed25519 KEY wharf-aXb\n");
}

#[test]
fn a_shared_file_system_is_mounted_where_its_server_answers() {
    let node = Node::new();
    node.program("mount.nfs4", "exit 0");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let step = format!("- mount: {{source: '127.0.0.1:/data', target: ~/efs, mode: '777', port: {port}}}\n");
    node.works(&step);
    let target = node.path("efs");
    assert_eq!(
        node.read("asked"),
        format!(
            "mount -t nfs4 -o nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport 127.0.0.1:/data {t}\nchmod 777 {t}\n",
            t = target.display()
        )
    );
    drop(server);
    node.fails(
        &step,
        &format!("127.0.0.1 does not answer at port {port}: its security group must allow TCP {port}"),
    );
    // What is mounted there already is not mounted again, and what is something else is told.
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let there = |kind: &str| {
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[2] == kind)
    };
    let Some(proc) = there("proc") else { return };
    node.fails(
        &format!("- mount: {{source: '127.0.0.1:/data', target: {}, port: {port}}}\n", proc[1]),
        "is in use already, for proc",
    );
}

#[test]
fn a_file_system_of_efs_is_named_by_its_id_and_region() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("c.yaml");
    let with = |region: &str, step: &str| {
        let text = format!(
            "cluster_name: lab\nprovider: {{type: aws{region}}}\nhead_node_type: h\navailable_node_types: {{h: {{node_config: {{}}}}}}\nsteps:\n- {step}\n"
        );
        std::fs::write(&file, text).unwrap();
        read(&file).map_err(|error| error.to_string())
    };
    let cluster = with(", region: us-west-2", "mount: {efs: fs-0a1b, target: ~/efs}").unwrap();
    assert!(format!("{:?}", cluster.steps[0]).contains("fs-0a1b.efs.us-west-2.amazonaws.com:/"));
    for (region, step, told) in [
        ("", "mount: {efs: fs-0a1b, target: ~/efs}", ":6:16: `steps[0].mount.efs`: the region is missing"),
        ("", "mount: {target: ~/efs}", "set one of `source` and `efs`"),
        ("", "mount: {source: nowhere, target: ~/efs}", "`nowhere` is no source; write HOST:/PATH"),
        ("", "mount: {source: 'a:/b', target: ~/efs, mode: 999}", "`999` is no mode"),
        ("", "cuda", "`steps[0].cuda.version`: it is missing: which version"),
        ("", "cuda: {version: '10.2', prefx: /x}", "unknown key `prefx` (did you mean `prefix`?)"),
        ("", "nodessh", "there is no step `nodessh` (did you mean `node_ssh`?)"),
        ("", "network: {interface: '-x'}", "`-x` is not an interface"),
    ] {
        let said = with(region, step).unwrap_err();
        assert!(said.contains(told), "{step}: {said}");
    }
}

#[test]
fn cuda_is_switched_between_versions_that_are_there() {
    let node = Node::new();
    for version in ["cuda-10.1", "cuda-10.2"] {
        std::fs::create_dir(node.path(version)).unwrap();
    }
    symlink(node.path("cuda-10.1"), node.path("cuda")).unwrap();
    let step = |version: &str| {
        format!("- cuda: {{version: '{version}', prefix: {}}}\n", node.folder.path().display())
    };
    let is = |version: &str| std::fs::read_link(node.path("cuda")).unwrap() == node.path(version);
    node.works(&step("10.2"));
    assert!(is("cuda-10.2"));
    node.works(&step("10.2"));
    node.fails(&step("12.0"), "cuda-12.0; there are: cuda-10.1 cuda-10.2");
    assert!(is("cuda-10.2"));
}

#[test]
fn nccl_is_unpacked_once_and_again_when_the_archive_is_another() {
    let node = Node::new();
    let pack = |text: &str| {
        let inner = node.path("nccl_2.7.8/lib");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("libnccl.so.2"), text).unwrap();
        let packed = Command::new("tar")
            .args(["-cJf", "nccl.txz", "nccl_2.7.8"])
            .current_dir(node.folder.path())
            .status();
        assert!(packed.unwrap().success());
    };
    // Marks are written by tee.
    node.program("sudo", "[ \"$1\" != -n ] || shift\ncase \"$*\" in *ld.so*|ldconfig) printf '%s\\n' \"$*\" >> ~/asked; cat > /dev/null < /dev/null ;; *) exec \"$@\" ;; esac");
    let step = format!("- nccl: {{archive: ~/nccl.txz, prefix: '{}'}}\n", node.path("opt").display());
    node.fails(&step, "copy it with `file_mounts`");
    pack("one");
    node.works(&step);
    assert_eq!(node.read("opt/lib/libnccl.so.2"), "one");
    assert!(node.read("asked").contains("ldconfig"));
    std::fs::write(node.path("opt/lib/libnccl.so.2"), "touched").unwrap();
    node.works(&step);
    assert_eq!(node.read("opt/lib/libnccl.so.2"), "touched", "what is there is left alone");
    pack("two");
    node.works(&step);
    assert_eq!(node.read("opt/lib/libnccl.so.2"), "two");
}

#[test]
fn apex_is_built_where_it_cannot_be_imported() {
    let node = Node::new();
    node.program("git", "printf 'git %s\\n' \"$*\" >> ~/asked; [ \"$1\" != clone ] || mkdir -p \"$4\"");
    node.program(
        "python3",
        "case \"$*\" in *'import torch'*) [ -e ~/torch ] ;; *amp_C*) [ -e ~/built ] ;; *pip*) printf 'python3 %s\\n' \"$*\" >> ~/asked; touch ~/built ;; esac",
    );
    let step = "- apex: {revision: abc1}\n";
    node.fails(step, "Apex is built against PyTorch");
    std::fs::write(node.path("torch"), "").unwrap();
    node.works(step);
    let apex = node.path("apex");
    let asked = node.read("asked");
    assert_eq!(
        asked,
        format!(
            "git clone --quiet https://github.com/NVIDIA/apex {a}\ngit -C {a} checkout --quiet abc1\n\
             python3 -m pip install -v --no-cache-dir --no-build-isolation --global-option=--cpp_ext --global-option=--cuda_ext {a}\n",
            a = apex.display()
        )
    );
    node.works(step);
    assert_eq!(node.read("asked"), asked, "a second time there is nothing to do");
}

#[test]
fn the_interface_is_that_of_the_nodes_address() {
    needs!(IP);
    let node = Node::new();
    std::fs::write(node.path(".profile"), "export MINE=1\n").unwrap();
    for _ in 0..2 {
        node.works("- network\n");
        assert_eq!(
            node.read(".profile"),
            "export MINE=1\n# wharf network begin\nexport NCCL_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=lo\n# wharf network end\n"
        );
    }
    node.fails("- network: {interface: eno99}\n", "there is no interface eno99; there are:");
}
