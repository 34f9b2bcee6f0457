//! Images that go to a real registry and come back: by hand, and to the nodes of jobs.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wharf_testing::engines::Podman;
use wharf_testing::needs;

use crate::cluster::{Cluster, Daemon};
use crate::image::Shipyard;

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "s3cret-word";
/// Who may come in: `ann`, with that password.
const USERS: &str = "ann:$2y$05$m9feCKisLWH6tMgYN9HVfedV8bwCdcXZPiIduHrXJLuPYG0IMJ0RC\n";
/// The user and the password, as they stand in requests.
const ENCODED: &str = "YW5uOnMzY3JldC13b3Jk";

struct Registry {
    daemon: Child,
    port: u16,
    log: PathBuf,
}

impl Registry {
    /// Listens on this machine only, without TLS.
    fn start(folder: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |name: &str| folder.join(name);
        fs::write(at("users"), USERS).unwrap();
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n\
             auth:\n  htpasswd:\n    realm: lab\n    path: {}\n",
            at("blobs").display(),
            at("users").display()
        );
        fs::write(at("registry.yml"), config).unwrap();
        let log = File::create(at("registry.log")).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(at("registry.yml")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let registry = Self { daemon: command.spawn().unwrap(), port, log: at("registry.log") };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the registry does not listen: {}", registry.said());
            std::thread::yield_now();
        }
        registry
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// How often each part of an image was fetched since the log was so long.
    fn fetched(&self, since: usize) -> Vec<usize> {
        let said = self.said();
        let mut blobs: Vec<&str> = said[since..]
            .lines()
            .filter_map(|line| line.split_once("\"GET /v2/lab/busy/blobs/"))
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default())
            .collect();
        blobs.sort_unstable();
        blobs.chunk_by(|one, other| one == other).map(<[&str]>::len).collect()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A podman that writes down what it is told, before all others in the search path.
fn noting_podman(yard: &Shipyard) -> String {
    let tools = yard.path("tools");
    fs::create_dir_all(&tools).unwrap();
    let script =
        format!("#!/bin/sh\necho \"$@\" >> {}\nexec /usr/bin/podman \"$@\"\n", yard.path("told").display());
    fs::write(tools.join("podman"), script).unwrap();
    fs::set_permissions(tools.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", tools.display())
}

/// Puts the image `lab/busy:1` there, as `ann`.
fn filled(yard: &Shipyard, registry: &Registry) -> String {
    let path = noting_podman(yard);
    let run = |words: &str, input: &str| yard.run_in(words, &[("PATH", &path)], input.as_bytes());
    let name = format!("127.0.0.1:{}/lab/busy:1", registry.port);
    yard.rootfs("rootfs");
    run(&format!("image convert ./rootfs podman:{name}"), "").ok();
    let stranger = run(&format!("image push {name} --engine podman"), "");
    assert!(stranger.code != Some(0) && stranger.stderr.contains("failed"), "{}", stranger.stderr);
    let login = format!("image login 127.0.0.1:{} --user ann --engine podman", registry.port);
    let wrong = run(&login, "another-word").fails(3);
    assert!(!wrong.contains("another-word"), "{wrong}");
    let said = run(&login, &format!("{PASSWORD}\n"));
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
    assert!(said.stderr.contains("ann is logged in"), "{}", said.stderr);
    run(&format!("image push {name} --engine podman"), "").ok();
    name
}

#[test]
fn images_go_to_a_registry_and_come_back() {
    needs!(REGISTRY, PODMAN, BUSYBOX);
    let yard = Shipyard::new();
    let registry = Registry::start(yard.sandbox.path());
    let name = filled(&yard, &registry);
    let path = noting_podman(&yard);
    let run = |words: &str| yard.run_in(words, &[("PATH", &path)], b"");
    let mut remove = Command::new("podman");
    remove.env("CONTAINERS_CONF", yard.path("containers.conf"));
    remove.env("CONTAINERS_STORAGE_CONF", yard.path("storage.conf"));
    assert!(remove.args(["image", "rm", &name]).stdout(Stdio::null()).status().unwrap().success());
    assert!(run("image list").ok().lines().all(|line| !line.contains("busy")), "it is gone here");
    // Pulled first, by the writing that apptainer has for it.
    run(&format!("image convert docker://{name} ./back")).ok();
    run(&format!("image pull {name} --engine podman")).ok();
    assert_eq!(yard.sandbox.read("back/ch/environment").lines().last(), Some("GREETING=ahoy"));
    // Only the owner can read the login; neither arguments nor output contain the password.
    let kept = yard.path(".config/wharf/registries/config.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&kept).unwrap().contains(ENCODED));
    for said in [yard.sandbox.read("told"), registry.said()] {
        assert!(said.contains("lab/busy") && !said.contains(PASSWORD) && !said.contains(ENCODED), "{said}");
    }
}

/// Several jobs at once with the image; what they say, one after the other.
fn jobs(cluster: &Cluster, name: &str, runtime: &str, first: u32) -> String {
    let job = format!(
        "container:\n  image: {name}\n  runtime: {runtime}\n  network: host\n  workdir: /\ncommand: [sh, -c, \"echo $GREETING\"]\n"
    );
    fs::write(cluster.path("job.yaml"), job).unwrap();
    let file = cluster.path("job.yaml").display().to_string();
    let ids: Vec<String> = (first..first + 4).map(|id| id.to_string()).collect();
    for _ in &ids {
        cluster.say(&["submit", &file]);
    }
    let after = ids.join(",");
    cluster.say(&["submit", "--wait", "--after-ok", &after, "--", "true"]);
    ids.iter().map(|id| cluster.say(&["logs", id])).collect()
}

#[test]
fn jobs_have_their_image_pulled_once() {
    needs!(REGISTRY, PODMAN, BUSYBOX, APPTAINER);
    let yard = Shipyard::new();
    let registry = Registry::start(yard.sandbox.path());
    let engine = Podman::new(yard.sandbox.path());
    let name = filled(&yard, &registry);
    let cluster = Cluster::new();
    let _head = cluster.head();
    let line = engine.words().join(" ");
    let words = ["worker", "--node", "only", "--devices", "cpu:8", "--container-command", &line];
    let mut command = cluster.command(&words);
    let apptainer = wharf_testing::component::apptainer().unwrap().display().to_string();
    command.env("HOME", yard.path("")).env_remove("XDG_CONFIG_HOME");
    command.env("PATH", yard.with_apptainer(&apptainer));
    let _worker = Daemon::start(&mut command, "accepted this worker");
    for (runtime, first) in [("podman", 0), ("apptainer", 5)] {
        let before = registry.said().len();
        let said = jobs(&cluster, &name, runtime, first);
        assert_eq!(said.matches("ahoy").count(), 4, "{runtime}: {said}");
        assert_eq!(said.matches("pulls the image").count(), 1, "{runtime}: {said}");
        let fetched = registry.fetched(before);
        assert!(!fetched.is_empty() && fetched.iter().all(|times| *times == 1), "{runtime}: {fetched:?}");
        assert!(!said.contains(PASSWORD) && !said.contains(ENCODED), "{said}");
    }
}
