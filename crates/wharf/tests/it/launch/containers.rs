//! Nodes whose work is done in containers of a real podman, or a real docker.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use wharf_testing::needs;

use crate::launch::lab::{Lab, Said, program, until};
use crate::launch::ssh::{Machines, NODES, address};
use wharf_testing::machine::Machine;

const IMAGE: &str = "localhost/lab:1";

/// A podman or docker of a test's own: it comes first in the lab's search path.
struct Engine<'a> {
    lab: &'a Lab,
    name: &'static str,
    /// What docker has, and podman does without.
    daemon: Option<Child>,
}

impl<'a> Engine<'a> {
    /// podman with an image.
    fn podman(lab: &'a Lab) -> Self {
        std::fs::create_dir_all(lab.path("bin")).unwrap();
        let conf = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\",\"nproc=32768:32768\"]\nlog_driver = \"k8s-file\"\n\
                    [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        let conf = lab.write("containers.conf", conf);
        let at = |name: &str| lab.path(name).display().to_string();
        let real = found("podman").unwrap();
        executable(&lab.path("bin/podman"), &shim(&conf, &real, &at("podman.root"), &at("podman.run")));
        Self { lab, name: "podman", daemon: None }.with_image()
    }

    /// docker with an image, and with a daemon that has everything below a folder and no network of its own.
    fn docker(lab: &'a Lab) -> Self {
        std::fs::create_dir_all(lab.path("bin")).unwrap();
        let at = |name: &str| lab.path(&format!("docker.{name}")).display().to_string();
        let mut command = Command::new("dockerd");
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--config-file"]);
        command.arg(lab.write("docker.json", "{}"));
        command.args(["--data-root", &at("root"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        command.args(["--host", &format!("unix://{}", at("sock"))]);
        let log = std::fs::File::create(lab.path("docker.log")).unwrap();
        let daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let docker = Self { lab, name: "docker", daemon: Some(daemon) };
        let real = found("docker").unwrap();
        let text = format!("#!/bin/sh\nexec {} --host unix://{} \"$@\"\n", real.display(), at("sock"));
        executable(&lab.path("bin/docker"), &text);
        until("dockerd", || docker.command(&["version"]).output().unwrap().status.success().then_some(()));
        docker.with_image()
    }

    fn with_image(self) -> Self {
        make_root(&self.lab.path("image"));
        self.import("1");
        self
    }

    /// The image again, with another word in it.
    fn import(&self, word: &str) {
        std::fs::write(self.lab.path("image/etc/image"), format!("{word}\n")).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(self.lab.path("image")).arg("-cf").arg(self.lab.path("image.tar")).arg(".");
        assert!(tar.status().unwrap().success());
        self.run(&["import", self.lab.path("image.tar").to_str().unwrap(), IMAGE]);
    }

    fn command(&self, words: &[&str]) -> Command {
        let program = self.lab.path("bin").join(self.name);
        let mut command = self.lab.hermetic(Command::new(program));
        command.args(words);
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        let said: Said = self.command(words).output().unwrap().into();
        said.ends(0).stdout
    }

    /// Gives a machine of the lab a podman with containers of its own, in place of the system's, and the image.
    fn install(&self, machine: &Machine) {
        let folder = self.lab.path(&format!("{}.podman", machine.name));
        let (shim_path, real) = (folder.join("shim"), folder.join("real"));
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            std::fs::copy(found("podman").unwrap(), &real).unwrap();
            // What runs is forgotten when the power is cut; containers are not.
            let root = folder.join("root").display().to_string();
            let text = shim(&self.lab.path("containers.conf"), &real, &root, "/run/podman.lab");
            executable(&shim_path, &text);
        }
        let mut bash = machine.command("bash");
        bash.args(["-c", FOR_CONTAINERS]).arg(&shim_path).arg(found("podman").unwrap());
        Said::from(bash.output().unwrap()).ends(0);
        let mut import = machine.command("podman");
        import.args(["import", self.lab.path("image.tar").to_str().unwrap(), IMAGE]);
        Said::from(import.output().unwrap()).ends(0);
    }

    /// The containers that there are.
    fn containers(&self) -> Vec<String> {
        let listed = self.run(&["ps", "-a", "--format", "{{.Names}}"]);
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        let Some(pid) = self.daemon.as_ref().map(Child::id) else { return };
        let listed = self.command(&["ps", "-aq"]).output().map(|said| said.stdout).unwrap_or_default();
        for id in String::from_utf8_lossy(&listed).split_whitespace() {
            let _ = self.command(&["rm", "-f", id]).output();
        }
        // By a signal, so that it ends its own helpers.
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
        let _ = self.daemon.as_mut().map(Child::wait);
        for mounted in ["docker.exec/netns/default", "docker.root"] {
            let _ = Command::new("umount").arg(self.lab.path(mounted)).stderr(Stdio::null()).status();
        }
    }
}

/// A podman with files of its own.
fn shim(conf: &Path, real: &Path, root: &str, run: &str) -> String {
    format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={}\nexec {} --root {root} --runroot {run} \"$@\"\n",
        conf.display(),
        real.display()
    )
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

pub(crate) fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A small root: busybox, bash, and what this program needs to run.
fn make_root(root: &Path) {
    for folder in ["bin", "etc", "dev", "proc", "sys", "tmp", "root", "run", "var/tmp", "opt"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let busybox = found("busybox").unwrap();
    std::fs::copy(&busybox, root.join("bin/busybox")).unwrap();
    let listed = Command::new(&busybox).arg("--list").output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    std::fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    executable(&root.join("bin/python"), "#!/bin/sh\nexec sh \"$@\"\n");
    let bash = found("bash").unwrap();
    std::fs::copy(&bash, root.join("bin/bash")).unwrap();
    for program in [program(), bash.as_path()] {
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(library, target).unwrap();
        }
    }
}

/// A cluster of two nodes in containers; `more` goes into its section.
fn boxed(engine: &Engine<'_>, more: &str) -> String {
    let is_podman = engine.name == "podman";
    format!(
        "cluster_name: boxed\nprovider: {{type: process, workers: 1}}\n\
         docker: {{image: '{IMAGE}', container_name: box, pull_before_run: false, use_podman: {is_podman}{more}}}\n"
    )
}

#[test]
fn work_is_done_in_containers_that_are_made_and_removed() {
    needs!(PODMAN, BUSYBOX, SSHD);
    let lab = Lab::new();
    work_is_done_in_containers(&lab, &Engine::podman(&lab));
}

#[test]
fn work_is_done_in_containers_of_docker() {
    needs!(DOCKER, BUSYBOX, SSHD);
    let lab = Lab::new();
    work_is_done_in_containers(&lab, &Engine::docker(&lab));
}

fn work_is_done_in_containers(lab: &Lab, engine: &Engine<'_>) {
    std::fs::create_dir(lab.path("app")).unwrap();
    lab.write("app/code.py", "1\n");
    lab.write("note", "1\n");
    let rest = "file_mounts: {~/app: app, /opt/note.txt: note}\ninitialization_commands: ['echo \"i $GREETING\" >> ~/trail']\n\
                setup_commands: ['echo \"$GREETING,$HEAD,$RAY_HEAD_IP,$(cat /etc/image ~/app/code.py /opt/note.txt | xargs)\" >> ~/trail']\n";
    let with = |options: &str| {
        let options =
            format!(", run_options: [\"-e GREETING='a b'\"{options}], head_run_options: ['-e HEAD=1']");
        lab.describe(&format!("{}{rest}", boxed(engine, &options)));
    };
    with("");
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach sync initialise container setup start"; 2]);
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach"; 2], "a second time there is nothing to do");
    assert_eq!(engine.containers(), ["box-boxed-head", "box-boxed-worker-1"]);
    let exec = |words: &[&str]| lab.wharf(&[&["cluster", "exec", "c.yaml"], words].concat()).ends(0).stdout;
    assert_eq!(exec(&["--", "cat ~/trail"]), "a b,1,127.0.0.1,1 1 1\n");
    assert_eq!(exec(&["--workers", "--", "cat ~/trail"]), "worker-1: a b,,127.0.0.1,1 1 1\n");
    assert_eq!(exec(&["--run-env", "host", "--", "cat ~/trail"]), "i \n", "initialised beside it");

    // A job, too, runs in the containers.
    let mut submit =
        lab.command(&["submit", "--wait", "--gang", "2x1", "--workdir", "/", "--output-file", "/opt/%n.out"]);
    submit.args(["--", "sh", "-c", "cat /etc/image; env | grep -c -e ^NAME= -e ^STAMP= || true"]);
    let submitted: Said =
        submit.env("WHARF_HOME", lab.state("boxed").join("client")).output().unwrap().into();
    submitted.ends(0);
    let mut said = exec(&["--all", "--", "cat /opt/*.out"]).lines().map(str::to_owned).collect::<Vec<_>>();
    said.sort_unstable();
    assert_eq!(
        said,
        ["head: 0", "head: 1", "worker-1: 0", "worker-1: 1"],
        "in the image, with no variable of ours"
    );

    // Files that are mounted follow, each in its way; what was set up is set up again.
    lab.write("note", "2\n");
    lab.write("app/code.py", "2\n");
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach sync setup"; 2]);
    assert_eq!(exec(&["--", "tail -n 1 ~/trail"]), "a b,1,127.0.0.1,1 2 2\n");
    lab.write("app/code.py", "3\n");
    lab.wharf(&["rsync-up", "c.yaml"]).ends(0);
    lab.wharf(&["rsync-up", "c.yaml", "note", "deep/er/n.txt", "-A"]).ends(0);
    assert_eq!(exec(&["--", "cat ~/app/code.py ~/deep/er/n.txt"]), "3\n2\n");
    lab.wharf(&["rsync-down", "c.yaml", "deep", "back"]).ends(0);
    assert_eq!(lab.read("back/deep/er/n.txt"), "2\n");
    lab.write("job.py", "echo \"$1|$2\"; cat /etc/image; exit 7\n");
    let said = lab.wharf(&["cluster", "submit", "c.yaml", "job.py", "--", "x y", "$HOME"]).ends(7);
    assert_eq!(said.stdout, "x y|$HOME\n1\n");
    lab.up(&[]).ends(0);

    changes(lab, engine, &with, &exec);
    lab.down("boxed");
    assert_eq!(engine.containers(), Vec::<String>::new());
}

/// Containers that change, stop and are removed.
fn changes(lab: &Lab, engine: &Engine<'_>, with: &dyn Fn(&str), exec: &dyn Fn(&[&str]) -> String) {
    with(", '-e MORE=1'");
    let said = lab.up(&["--no-restart"]).ends(0);
    assert_eq!(said.phases(), ["reach container setup start"; 2], "another specification");
    assert!(said.stderr.contains("head: container (changed)"), "{said:?}");
    assert_eq!(exec(&["--", "wc -l < ~/trail; echo $MORE"]), "1\n1\n", "a new one");
    engine.import("2");
    let said = lab.up(&["--restart-only"]).ends(0);
    assert_eq!(said.phases(), ["reach container setup start"; 2], "another image");
    assert!(said.stderr.contains("worker-1: container (its image has changed)"), "{said:?}");
    assert_eq!(exec(&["--", "cat /etc/image"]), "2\n");
    engine.run(&["stop", "box-boxed-worker-1"]);
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach", "reach container start"], "what was set up is still there");
    assert!(said.stderr.contains("worker-1: container (its container has stopped)"), "{said:?}");
    engine.run(&["rm", "-f", "box-boxed-head"]);
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach container setup start", "reach"], "the head comes back");
    let status = lab.wharf(&["cluster", "status", "c.yaml", "--output", "json"]).ends(0);
    let told: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(told["nodes"][0]["runs"], serde_json::json!(["container", "head", "worker"]));

    // Without containers, and with them again.
    let file = lab.read("c.yaml");
    let bare: String =
        file.lines().filter(|line| !line.starts_with("docker")).map(|line| format!("{line}\n")).collect();
    lab.describe(
        &bare.replace("/opt/note.txt: note", "~/note.txt: note").replace("/opt/note.txt | ", "~/note.txt | "),
    );
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach sync container setup start"; 2]);
    assert_eq!(engine.containers(), Vec::<String>::new(), "the containers are gone");
    lab.describe(&file);
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach sync container setup start"; 2]);
}

#[test]
fn containers_that_cannot_be_made_are_explained_and_made_by_the_next_launcher() {
    needs!(PODMAN, BUSYBOX, SSHD);
    let lab = Lab::new();
    let podman = Engine::podman(&lab);
    let commands = "head_start_ray_commands: ['sleep 600 & disown']\nworker_start_ray_commands: []\nsetup_commands: ['true']\n";
    let with = |image: &str, pull: bool| {
        lab.describe(&format!(
            "{}{commands}",
            boxed(&podman, "")
                .replace(IMAGE, image)
                .replace("pull_before_run: false", &format!("pull_before_run: {pull}"))
        ));
    };
    // The registry does not answer, and the launcher is interrupted.
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    with(&format!("{}/nothing:1", registry.local_addr().unwrap()), true);
    let mut up = lab.spawn_up();
    until("the image to be asked for", || {
        registry.set_nonblocking(true).is_ok().then(|| registry.accept().ok()).flatten()
    });
    kill(Pid::from_raw(up.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    // An image that does not exist.
    with("localhost/nothing:1", false);
    let said = lab.up(&[]).ends(13);
    assert!(said.stderr.contains("head: making its container failed"), "{said:?}");
    // A name in use.
    with(IMAGE, false);
    podman.run(&["run", "-d", "--name", "box-boxed-head", "--net=host", IMAGE, "sleep", "600"]);
    let said = lab.up(&[]).ends(13);
    assert!(said.stderr.contains("is already in use"), "{said:?}");
    podman.run(&["rm", "-f", "-t", "0", "box-boxed-head"]);
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach container setup start"; 2]);
    assert!(said.stderr.contains("head: container (the last attempt did not end well)"), "{said:?}");
    assert_eq!(
        crate::launch::lab::processes(&lab.marks("boxed")).len(),
        1,
        "what the file starts, and nothing else"
    );
    // A command that is interrupted does not continue in the container.
    let mut exec = lab.command(&["cluster", "exec", "c.yaml", "--", "echo begun; sleep 601; echo never"]);
    let mut exec = exec.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(exec.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    kill(Pid::from_raw(exec.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(exec.wait().unwrap().code(), Some(130));
    let running = podman.run(&["exec", "box-boxed-head", "ps", "-o", "args"]);
    assert!(running.contains("sleep 600") && !running.contains("sleep 601"), "{running}");
    lab.down("boxed");
    assert_eq!(podman.containers(), Vec::<String>::new());
}

/// Control groups again, which machines of the lab do without, and a podman in place of the system's.
const FOR_CONTAINERS: &str = r#"
set -e
kinds=$(awk '!/^#/ && $2 > 0 { print $1 }' /proc/cgroups)
if [ -n "$kinds" ]; then
  mount -t tmpfs tmpfs /sys/fs/cgroup
  for kind in $kinds; do
    mkdir "/sys/fs/cgroup/$kind"
    mount -t cgroup -o "$kind" cgroup "/sys/fs/cgroup/$kind"
  done
else
  mount -t cgroup2 none /sys/fs/cgroup
fi
mount --bind "$0" "$1"
"#;

#[test]
fn containers_of_machines_are_made_entered_and_removed_over_ssh() {
    needs!(NAMESPACES, SSHD, PODMAN, BUSYBOX);
    let mut machines = Machines::new();
    let boxes = |machines: &Machines| {
        let listed = NODES.map(|name| {
            let mut podman = machines.machine(name).command("podman");
            Said::from(podman.args(["ps", "-a", "--format", "{{.Names}} {{.Status}}"]).output().unwrap())
        });
        // "Up 3 seconds ago"
        let short = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        listed.map(|said| said.ends(0).stdout.lines().map(short).collect::<Vec<_>>().join(", "))
    };
    {
        let podman = Engine::podman(&machines.lab);
        NODES.iter().for_each(|name| podman.install(machines.machine(name)));
    }
    machines.lab.write("note", "1\n");
    machines.describe(&format!(
        "docker: {{image: '{IMAGE}', container_name: box, pull_before_run: false, use_podman: true}}\n\
         file_mounts: {{~/note: note}}\nsetup_commands: ['cat /etc/image ~/note > ~/trail']\n"
    ));
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach sync container setup start"; 3]);
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach"; 3], "a second time there is nothing to do");
    assert_eq!(boxes(&machines), ["box Up"; 3]);
    machines.lab.write("note", "2\n");
    assert_eq!(machines.up(&[]).ends(0).phases(), ["reach sync setup"; 3], "a changed file");
    let said = machines.wharf(&["cluster", "exec", "c.yaml", "--", "cat ~/trail; exit 3"]).ends(3);
    assert_eq!(said.stdout, "1\n2\n");
    // A job runs in the containers of all three.
    let words = ["submit", "--wait", "--gang", "3x1", "--workdir", "/", "--output-file", "/opt/out", "--"];
    let mut submit = machines.command(&[&words[..], &["sh", "-c", "cat /etc/image; hostname"]].concat());
    let submitted = submit.env("WHARF_HOME", machines.lab.state("ns").join("client")).output().unwrap();
    Said::from(submitted).ends(0);
    let said = machines.wharf(&["cluster", "exec", "c.yaml", "--all", "--", "cat /opt/out"]).ends(0);
    let mut told: Vec<&str> = said.stdout.lines().collect();
    told.sort_unstable();
    let of = |name: &str| [format!("{}: 1", address(name)), format!("{}: {name}", address(name))];
    assert_eq!(told, NODES.map(of).concat());
    // A machine whose power was cut comes back with its container, which has stopped.
    machines.cut_power("nd3");
    machines.boot("nd3");
    Engine { lab: &machines.lab, name: "podman", daemon: None }.install(machines.machine("nd3"));
    let said = machines.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach", "reach", "reach container start"]);
    assert_eq!(boxes(&machines), ["box Up"; 3]);
    machines.down();
    assert_eq!(boxes(&machines), [""; 3]);
}
