//! Ray clusters on the gangs of jobs, with real Ray: several at a time, exit codes, cancelling, and that nothing is left.
//!
//! Needs a `ray` program: what `WHARF_TEST_RAY` names, else the one in the search path.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wharf_testing::engines::{self, Podman};
use wharf_testing::needs;

use crate::cluster::Daemon;
use crate::marked::Marked;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ray-multinode");
/// Long enough for a busy machine to start Ray.
const PATIENCE: Duration = Duration::from_secs(180);

/// A driver that states that it is up, waits for a word, runs a task on every node, and fails in its own way.
const DRIVER: &str = "\
import os, sys, time
sys.path.insert(0, sys.argv[1])
import nodes
open('up', 'w').close()
while not os.path.exists('go'): time.sleep(0.05)
nodes.main()
sys.exit(6)
";

/// The folder of the `ray` program.
fn ray_folder() -> PathBuf {
    wharf_testing::component::ray().unwrap().parent().unwrap().to_owned()
}

/// A cluster on this machine whose jobs find Ray.
struct Rays {
    marked: Marked,
    path: String,
}

impl Rays {
    fn new(nodes: usize, ray: &Path) -> Self {
        Self::with(Marked::new(), nodes, &[ray])
    }

    /// Workers that search for programs in these folders first.
    fn with(marked: Marked, nodes: usize, folders: &[&Path]) -> Self {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&search));
        let path = std::env::join_paths(all).unwrap().into_string().unwrap();
        let rays = Self { marked, path };
        let mut words = vec!["local", "--detach"];
        words.extend(std::iter::repeat_n(["--worker", "cpu:1"], nodes).flatten());
        rays.say(&words);
        rays
    }

    #[track_caller]
    fn say(&self, words: &[&str]) -> String {
        let output = self.marked.command(words).env("PATH", &self.path).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn code(&self, words: &[&str]) -> Option<i32> {
        self.marked.command(words).env("PATH", &self.path).output().unwrap().status.code()
    }

    /// Waits until something is so; states what the job said where it is not.
    #[track_caller]
    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "waited for {what}: {}", self.say(&["jobs", "--all"]));
            // What is checked is outside of this process and cannot tell.
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// Folders of Ray nodes that are there.
    fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.marked.path("tmp")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("wr-")).collect()
    }

    /// Neither processes nor folders of jobs are left, and the ports are free.
    #[track_caller]
    fn assert_clean(&self, ports: &[u16]) {
        self.until("the end of all processes of jobs", || {
            self.marked.processes_with("WHARF_JOB_ID=").is_empty().then_some(())
        });
        assert_eq!(self.folders(), Vec::<PathBuf>::new());
        let left: Vec<u16> = listening().into_iter().filter(|port| is_within(*port, ports)).collect();
        assert_eq!(left, [0; 0], "of {ports:?}");
    }

    fn stop(self) {
        self.say(&["local", "--stop"]);
        self.marked.assert_nothing_left();
    }
}

/// Whether a port belongs to a block that begins at one of these.
fn is_within(port: u16, blocks: &[u16]) -> bool {
    blocks.iter().any(|base| (*base..base + 256).contains(&port))
}

/// Ports of this machine with listeners.
fn listening() -> Vec<u16> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_listening = fields.get(3) == Some(&"0A");
        let port = fields.get(1)?.rsplit(':').next()?;
        u16::from_str_radix(port, 16).ok().filter(|_| is_listening)
    };
    tables.iter().flat_map(|table| table.lines().filter_map(port)).collect()
}

/// Where Ray's head of a job is, as the job's log says.
fn base(log: &str) -> u16 {
    let (_, rest) = log.split_once("is up at 127.0.0.2:").unwrap_or_else(|| panic!("{log}"));
    rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn two_clusters_on_one_machine_do_not_meet_and_exit_as_their_drivers() {
    needs!(RAY);
    let ray = ray_folder();
    let rays = Rays::new(5, &ray);
    // The first one waits while the other comes and goes.
    let file = rays.marked.path("wait.yaml");
    let text = format!(
        "name: waits\ncommand: [python, -c, {DRIVER:?}, {EXAMPLE:?}]\nlauncher: ray\ngang: 2x1\n\
         ray: {{cpus: 1, object_store_memory: 100MB, dashboard: false}}\n"
    );
    std::fs::write(&file, text).unwrap();
    rays.say(&["submit", file.to_str().unwrap()]);
    rays.until("the first driver", || rays.marked.path("up").exists().then_some(()));
    assert_eq!(rays.folders().len(), 2, "each Ray node has its own");
    let first = base(&rays.say(&["logs", "0"]));

    let job = format!("{EXAMPLE}/job.yaml");
    rays.say(&["submit", &job, "--workdir", EXAMPLE, "--wait"]);
    let log = rays.say(&["logs", "1"]);
    assert!(log.contains("a Ray cluster of 3 nodes is up at"), "{log}");
    assert!(log.contains("a task ran on each of 3 nodes\n"), "{log}");
    let second = base(&log);
    assert_ne!(first, second);
    assert_eq!(rays.folders().len(), 2, "those of the first are left alone");
    let second_left: Vec<u16> = listening().into_iter().filter(|port| is_within(*port, &[second])).collect();
    assert_eq!(second_left, [0; 0]);

    std::fs::write(rays.marked.path("go"), "").unwrap();
    assert_eq!(rays.code(&["submit", "--wait", "--after-any", "0", "--", "true"]), Some(0));
    let log = rays.say(&["logs", "0"]);
    assert!(log.contains("a task ran on each of 2 nodes\n"), "{log}");
    assert_eq!(rays.marked.json(&["job", "0"])["job"]["exit_code"], 6, "{log}");
    assert_eq!(rays.marked.json(&["job", "0"])["job"]["phase"], "failed");
    rays.assert_clean(&[first, second]);
    rays.stop();
}

/// A driver that needs all nodes of its cluster once more when it is requested to stop.
const SAVER: &str = "\
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import nodes
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
with open('up.part', 'w') as up: print(os.environ['RAY_ADDRESS'], os.environ['ip_head'], os.environ['OMP_NUM_THREADS'], file=up)
os.rename('up.part', 'up')
while not told: time.sleep(0.05)
sys.exit(nodes.main())
";

/// A `ray` of a version that does not know an option yet.
const OLD_RAY: &str = "\
#!/bin/sh
case \"$*\" in *--runtime-env-agent-port=*) echo 'Error: No such option: --runtime-env-agent-port' >&2; exit 2 ;; esac
exec ray \"$@\"
";

#[test]
fn cancelled_while_it_runs_it_can_save_and_while_it_starts_too_nothing_is_left() {
    use std::os::unix::fs::PermissionsExt as _;

    needs!(RAY);
    let ray = ray_folder();
    let rays = Rays::new(2, &ray);
    let old = rays.marked.path("old-ray");
    std::fs::write(&old, OLD_RAY).unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = rays.marked.path("save.yaml");
    let text = format!(
        "name: saves\ncommand: [python, -c, {SAVER:?}, {EXAMPLE:?}]\nlauncher: ray\ngang: 2x1\ngrace: 90s\n\
         ray: {{program: {old:?}, cpus: 1, object_store_memory: 100MB, dashboard: false}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    rays.say(&["submit", file]);
    let up = rays.until("the driver", || std::fs::read_to_string(rays.marked.path("up")).ok());
    let base = base(&rays.say(&["logs", "0"]));
    assert_eq!(up, format!("127.0.0.2:{base} 127.0.0.2:{base} 1\n"));
    rays.say(&["cancel", "0"]);
    assert_eq!(rays.code(&["submit", "--wait", "--after-any", "0", "--", "true"]), Some(0));
    let log = rays.say(&["logs", "0"]);
    assert!(log.contains("a task ran on each of 2 nodes\n"), "all nodes stay while it saves: {log}");
    assert_eq!(rays.marked.json(&["job", "0"])["job"]["phase"], "cancelled");
    rays.assert_clean(&[base]);

    rays.say(&["submit", file]);
    rays.until("a Ray that starts", || {
        rays.folders().iter().any(|folder| folder.join("start.log").exists()).then_some(())
    });
    rays.say(&["cancel", "2"]);
    assert_eq!(rays.code(&["submit", "--wait", "--after-any", "2", "--", "true"]), Some(0));
    assert_eq!(rays.marked.json(&["job", "2"])["job"]["phase"], "cancelled");
    rays.assert_clean(&[]);
    rays.stop();
}

/// The folders that this machine's Python and Ray are made of, as mounts of a container.
fn mounts(ray: &Path) -> String {
    let python = std::process::Command::new(ray.join("python"))
        .args(["-c", "import sys; print(sys.prefix); print(sys.base_prefix)"])
        .output()
        .unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let example = Path::new(EXAMPLE).canonicalize().unwrap().display().to_string();
    let mut folders = vec!["/usr", "/lib", "/lib64", &example];
    folders.extend(python.lines().filter(|folder| !folder.starts_with("/usr")));
    folders.iter().map(|folder| format!("    - {folder}:{folder}\n")).collect()
}

/// A cluster of two nodes in containers of a runtime, whose driver waits, runs a task on each, and ends with 6.
fn lives_in(runtime: &str, ray: &Path, program: &Path) {
    let marked = Marked::new();
    let image = engines::image(&marked.path(""));
    let rays = Rays::with(marked, 2, &[ray, program.parent().unwrap()]);
    let job = "0";
    let file = rays.marked.path("contained.yaml");
    let path = format!("{}:/usr/bin:/bin", ray.display());
    let example = Path::new(EXAMPLE).canonicalize().unwrap();
    let text = format!(
        "name: contained\ncommand: [python, -c, {DRIVER:?}, {example:?}]\nlauncher: ray\ngang: 2x1\n\
         ray: {{cpus: 1, object_store_memory: 100MB, dashboard: false}}\ncontainer:\n  runtime: {runtime}\n  \
         image: {}\n  env: {{PATH: {path:?}}}\n  mounts:\n{}",
        image.display(),
        mounts(ray)
    );
    std::fs::write(&file, text).unwrap();
    rays.say(&["submit", file.to_str().unwrap()]);
    rays.until("the driver", || {
        let phase = rays.marked.json(&["job", job])["job"]["phase"].to_string();
        let told = || rays.say(&["logs", job]) + &rays.say(&["logs", "--rank", "1", job]);
        assert!(!phase.contains("failed"), "{}", told());
        rays.marked.path("up").exists().then_some(())
    });
    assert_eq!(rays.say(&["exec", job, "--", "cat", "/etc/image"]), "inside\n");
    let base = base(&rays.say(&["logs", job]));
    std::fs::write(rays.marked.path("go"), "").unwrap();
    assert_eq!(rays.code(&["submit", "--wait", "--after-any", job, "--", "true"]), Some(0));
    let log = rays.say(&["logs", job]);
    assert!(log.contains("a task ran on each of 2 nodes\n"), "{log}");
    assert_eq!(rays.marked.json(&["job", job])["job"]["exit_code"], 6, "{log}");
    rays.assert_clean(&[base]);
    rays.stop();
}

#[test]
fn a_cluster_lives_in_charliecloud() {
    needs!(RAY, CHARLIECLOUD, BUSYBOX);
    lives_in("charliecloud", &ray_folder(), Path::new("/usr/bin/ch-run"));
}

#[test]
fn a_cluster_lives_in_apptainer() {
    needs!(RAY, APPTAINER, BUSYBOX);
    lives_in("apptainer", &ray_folder(), &wharf_testing::component::apptainer().unwrap());
}

#[test]
fn a_cluster_lives_in_podman() {
    needs!(RAY, PODMAN, BUSYBOX);
    let folder = tempfile::tempdir().unwrap();
    let engine = Podman::new(folder.path());
    lives_in("podman", &ray_folder(), Path::new(&engine.words()[0]));
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
}

#[test]
fn missing_ray_is_reported() {
    let marked = Marked::new();
    marked.say(&["local", "--detach", "--worker", "cpu:1"]);
    std::fs::write(marked.path("job.yaml"), "command: 'true'\nlauncher: ray\nray: {program: /no/such/ray}\n")
        .unwrap();
    assert_eq!(marked.run(&["submit", "--wait", "job.yaml"]).status.code(), Some(127));
    let log = marked.say(&["logs", "0"]);
    assert!(log.contains("`/no/such/ray` not found in this job's environment"), "{log}");
    assert!(log.contains("set `ray.program`"), "{log}");
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}

#[test]
fn a_ray_cluster_that_is_there_takes_jobs_through_its_own_api() {
    needs!(RAY, CHARLIECLOUD, BUSYBOX);
    let ray = ray_folder();
    let rays = Rays::new(2, &ray);
    let file = rays.marked.path("cluster.yaml");
    let text = "name: cluster\ncommand: [sh, -c, 'touch up; until [ -e go ]; do sleep 0.1; done']\nlauncher: ray\n\
                ray: {cpus: 2, object_store_memory: 100MB, head_args: [--port=19379]}\n";
    std::fs::write(&file, text).unwrap();
    rays.say(&["submit", file.to_str().unwrap()]);
    rays.until("the cluster", || rays.marked.path("up").exists().then_some(()));
    let log = rays.say(&["logs", "0"]);
    let address = log.split_once("its dashboard at ").unwrap_or_else(|| panic!("{log}")).1.trim();
    assert!(log.contains(" is up at 127.0.0.2:19379, "), "{log}");
    let token = rays.folders()[0].join("token");
    // Another cluster cannot have the same port on this machine, and does not wait for it.
    let begin = Instant::now();
    assert_eq!(rays.code(&["submit", "--wait", file.to_str().unwrap()]), Some(75));
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let refused = rays.say(&["logs", "1"]);
    assert_eq!(
        refused,
        "wharf: port 19379 of `--port` is in use on this node; choose another port, or omit the option for a free one\n"
    );
    let ask = |words: &[&str]| {
        let mut command = rays.marked.command(words);
        let output = command.env("RAY_AUTH_TOKEN_PATH", &token).env("PATH", &rays.path).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let listed = rays.until("the dashboard", || {
        let (code, listed, _) = ask(&["ray", "list", "--ray-address", address, "--output", "json"]);
        (code == Some(0)).then_some(listed)
    });
    assert!(listed.contains("\"jobs\""), "{listed}");
    let stranger = rays.marked.run(&["ray", "list", "--ray-address", address]);
    assert_eq!(stranger.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&stranger.stderr).contains("RAY_AUTH_TOKEN_PATH"));

    let submit = ["submit", "--ray-address", address, "--env", "WHO=ray's own"];
    let print = ["--follow", "--", "sh", "-c", "echo \"hello, $WHO\""];
    let (code, said, told) = ask(&[&submit[..], &print[..]].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(said.contains("hello, ray's own\n"), "{said}");
    let image = engines::image(&rays.marked.path(""));
    let container = ["--container", image.to_str().unwrap(), "--runtime", "charliecloud"];
    let within = ["--follow", "--", "sh", "-c", "echo \"$WHO: $(cat /etc/image)\""];
    let (code, said, told) = ask(&[&submit[..], &container[..], &within[..]].concat());
    assert_eq!(code, Some(0), "{said}{told}");
    assert!(said.contains("ray's own: inside\n"), "{said}");
    let (code, _, told) = ask(&[&submit[..], &["--wait", "--", "sh", "-c", "exit 5"]].concat());
    assert_eq!(code, Some(5), "{told}");
    let (code, id, told) = ask(&[&submit[..], &["--name", "long", "--", "sleep", "600"]].concat());
    assert_eq!(code, Some(0), "{told}");
    let id = id.trim();
    let status = || {
        let (_, said, _) = ask(&["ray", "status", "--ray-address", address, id, "--output", "json"]);
        let told: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(told["job"]["metadata"]["name"], "long");
        told["job"]["status"].as_str().unwrap().to_owned()
    };
    rays.until("the long job", || (status() == "RUNNING").then_some(()));
    assert_eq!(ask(&["ray", "stop", "--ray-address", address, id]).0, Some(0));
    assert_eq!(ask(&["ray", "logs", "--ray-address", address, "--follow", id]).0, Some(143));
    assert_eq!(status(), "STOPPED");
    let (code, _, told) = ask(&["ray", "status", "--ray-address", address, "no-such-job"]);
    assert_eq!(code, Some(2), "{told}");
    behind_tls(&rays, address, &token);

    std::fs::write(rays.marked.path("go"), "").unwrap();
    assert_eq!(rays.code(&["submit", "--wait", "--after-ok", "0", "--", "true"]), Some(0));
    rays.assert_clean(&[base(&log)]);
    rays.stop();
}

/// TLS in front of a dashboard, as sites have it.
const TLS_PROXY: &str = r#"
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def hand_on(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    finally:
        other.close()
while True:
    plain, _ = listener.accept()
    try:
        client = context.wrap_socket(plain, server_side=True)
    except OSError:
        continue
    server = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=hand_on, args=pair, daemon=True).start()
"#;

/// A dashboard behind TLS is used with a trusted certificate.
fn behind_tls(rays: &Rays, address: &str, token: &Path) {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (rays.marked.path("cert.pem"), rays.marked.path("key.pem"));
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let mut proxy = std::process::Command::new("python3");
    proxy.args(["-c", TLS_PROXY]).args([&cert, &key]).arg(address.rsplit(':').next().unwrap());
    let mut proxy = Daemon::quiet(proxy.stdout(std::process::Stdio::piped()));
    let mut port = String::new();
    let said = proxy.child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut port).unwrap();
    let address = format!("https://localhost:{}", port.trim());
    let list = |trusted: Option<&Path>| {
        let mut command = rays.marked.command(&["ray", "list", "--ray-address", &address]);
        command.env("RAY_AUTH_TOKEN_PATH", token).envs(trusted.map(|path| ("SSL_CERT_FILE", path)));
        command.output().unwrap()
    };
    let told = list(Some(&cert));
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = list(None);
    assert_eq!(told.status.code(), Some(3), "{}", String::from_utf8_lossy(&told.stderr));
    assert!(String::from_utf8_lossy(&told.stderr).contains("certificate"), "{told:?}");
}
