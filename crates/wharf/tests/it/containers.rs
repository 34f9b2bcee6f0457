//! Jobs in real containers, from the command line: the examples, commands and copies that go into them, restarts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use wharf_testing::engines::{self, Podman};
use wharf_testing::needs;

use crate::cluster::{Cluster, Daemon, write};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::yield_now();
    }
}

/// A copy of an example's folder.
fn example(cluster: &Cluster, name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows").join(name);
    let to = cluster.path(name);
    assert!(Command::new("cp").arg("-r").arg(from).arg(&to).status().unwrap().success());
    to
}

fn worker(cluster: &Cluster, more: &[&str]) -> Daemon {
    let words = [&["worker", "--node", "only", "--devices", "cpu:8"], more].concat();
    cluster.daemon(&words, "accepted this worker")
}

fn say(cluster: &Cluster, folder: &Path, words: &[&str]) -> String {
    let output = cluster.command(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn example_hpc_charliecloud_selects_a_model() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = worker(&cluster, &[]);
    let folder = example(&cluster, "hpc-charliecloud");
    let made = Command::new("sh").args(["make-image.sh", "./image"]).current_dir(&folder).status();
    assert!(made.unwrap().success());
    say(&cluster, &folder, &["submit", "--wait", "job.yaml"]);
    let result = |index: u32| std::fs::read_to_string(folder.join(format!("results/{index}.txt"))).unwrap();
    assert_eq!(result(1), "selection 1: learning rate 0.1, 2 layers, in charliecloud\n");
    assert_eq!(result(8), "selection 8: learning rate 0.0001, 4 layers, in charliecloud\n");
    let mut results: Vec<String> = (1..=8).map(result).collect();
    results.dedup();
    assert_eq!(results.len(), 8, "each has its own configuration and output");
    let words = ["submit", "--wait", "--no-container", "--array", "1", "job.yaml"];
    say(&cluster, &folder, &words);
    assert!(result(1).ends_with(" 1: learning rate 0.1, 2 layers, in no container\n"), "{}", result(1));
}

#[test]
fn commands_and_copies_go_into_charliecloud() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let cluster = Cluster::new();
    let image = engines::image(cluster.folder.path());
    commands_and_copies_go_into(&cluster, "charliecloud", "ch-run", &image);
}

#[test]
fn commands_and_copies_go_into_apptainer() {
    needs!(APPTAINER, BUSYBOX);
    let program = wharf_testing::component::apptainer().unwrap().display().to_string();
    let cluster = Cluster::new();
    let image = engines::image(cluster.folder.path());
    let file = cluster.path("image.sif");
    let built = Command::new(&program).arg("build").arg(&file).arg(&image).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    commands_and_copies_go_into(&cluster, "apptainer", &program, &file);
}

fn commands_and_copies_go_into(cluster: &Cluster, runtime: &str, program: &str, image: &Path) {
    let mut head = cluster.head();
    let settings = ["--container-command", program];
    let mut daemon = worker(cluster, &settings);
    let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
    let script = format!("echo > {}; read line < {}; exit 7", started.display(), gate.display());
    let image = image.display().to_string();
    cluster.say(&["submit", "--container", &image, "--runtime", runtime, "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    until("the job to run", || cluster.say(&["jobs"]).contains("running"));
    assert_eq!(cluster.say(&["exec", "0", "--", "cat", "/etc/image"]), "inside\n");
    let shown: serde_json::Value =
        serde_json::from_str(&cluster.say(&["job", "0", "--output", "json"])).unwrap();
    assert_eq!(shown["container"], serde_json::json!({ "runtime": runtime, "image": image }));

    // A file and a folder in, and back.
    let long = vec![b'x'; 3_000_000];
    std::fs::create_dir(cluster.path("folder")).unwrap();
    std::fs::write(cluster.path("folder/one"), &long).unwrap();
    let at = |name: &str| cluster.path(name).display().to_string();
    let (inside, outside) = (at("shared"), at("back"));
    std::fs::create_dir(&inside).unwrap();
    cluster.say(&["cp", &at("folder/one"), &format!("0:{inside}")]);
    cluster.say(&["cp", &at("folder"), &format!("0:{inside}/many")]);
    assert_eq!(
        cluster.say(&["exec", "0", "--", "wc", "-c", &format!("{inside}/many/one")]).split(' ').next(),
        Some("3000000")
    );
    cluster.say(&["cp", &format!("0:0:{inside}"), &outside]);
    assert!(
        std::fs::read(cluster.path("back/one")).unwrap() == long && cluster.path("back/many/one").is_file()
    );
    cluster.say(&["cp", "0:/etc/image", &at("taken")]);
    assert_eq!(std::fs::read_to_string(cluster.path("taken")).unwrap(), "inside\n");
    for (words, told) in [
        (["cp", "0:/no/such", outside.as_str()], "nothing was copied: /no/such: no such file"),
        (["cp", &at("taken"), "0:/no/such/folder"], "nothing was copied: "),
        (["cp", &at("taken"), "0:3:/tmp/x"], "no task of rank 3"),
        (["cp", "a", "b"], "exactly one of source and destination must be in a job"),
    ] {
        let output = cluster.run(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(told), "{words:?}: {said}");
    }

    // The container outlives everything around it.
    head.kill();
    let _head = cluster.head();
    daemon.kill();
    let _daemon = worker(cluster, &settings);
    assert_eq!(cluster.say(&["exec", "0", "--", "cat", "/etc/image"]), "inside\n");
    write(&gate, "go\n");
    cluster.run(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    assert!(cluster.say(&["explain", "0"]).contains("exit code 7"), "its exit code was not lost");
}

#[test]
fn a_command_runs_in_a_container_without_a_cluster() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let cluster = Cluster::new();
    let image = engines::image(cluster.folder.path());
    std::fs::create_dir(cluster.path("data")).unwrap();
    std::fs::write(cluster.path("data/in"), "from outside\n").unwrap();
    let mount = format!("{}:/data", cluster.path("data").display());
    let image = image.display().to_string();
    let words = ["run", "--devices", "cpu:1", "--container", &image, "--mount", &mount, "--"];
    let ran = cluster.run(&[&words[..], &["sh", "-c", "cat /etc/image /data/in; exit 5"]].concat());
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(
        (ran.status.code(), ran.stdout.as_slice()),
        (Some(5), &b"inside\nfrom outside\n"[..]),
        "{told}"
    );
}

#[test]
fn example_crius_worker_profiles_in_a_container_that_stays() {
    needs!(PODMAN, BUSYBOX);
    let cluster = Cluster::new();
    let (engine, image) = (Podman::new(cluster.folder.path()), engines::image(cluster.folder.path()));
    let line = engine.words().join(" ");
    let mut head = cluster.head();
    let mut daemon = worker(&cluster, &["--container-command", &line]);
    let folder = example(&cluster, "crius-worker");
    for name in ["prof_database", "profile_result"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    // The example's image comes from a registry; a folder stands for it.
    let text = std::fs::read_to_string(folder.join("job.yaml")).unwrap();
    let text = text.replace("localhost/crius-worker:v1", &image.display().to_string());
    std::fs::write(folder.join("job.yaml"), text).unwrap();
    say(&cluster, &folder, &["submit", "--wait", "job.yaml"]);
    let containers = || engine.run(&["ps", "-q", "--filter", "name=crius-worker"]);
    let first = containers();
    assert_eq!(first.lines().count(), 1, "it stays");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("profile_result/wide_resnet-64"), "batch 64: pass 2 of this node\n");

    // A command that is cancelled ends within, and the container continues; so it does when head and worker are killed.
    let gate = folder.join("passes/gate");
    let script = "echo $$ > passes/up; while ! [ -e passes/gate ]; do sleep 0.05; done; exit 6";
    let job = read("job.yaml");
    let steps = job.find("steps:").unwrap();
    std::fs::write(folder.join("wait.yaml"), format!("{}command: [sh, -c, \"{script}\"]\n", &job[..steps]))
        .unwrap();
    let begin = || {
        let _ = std::fs::remove_file(folder.join("passes/up"));
        say(&cluster, &folder, &["submit", "wait.yaml"]);
        until("the pass", || folder.join("passes/up").exists());
    };
    begin();
    assert_eq!(cluster.say(&["exec", "1", "--", "cat", "/etc/image"]), "inside\n");
    // A command in a task begins where the task did, in a container of the node, too.
    assert_eq!(cluster.say(&["exec", "1", "--", "ls", "passes/up"]), "passes/up\n");
    cluster.say(&["cancel", "1"]);
    cluster.run(&["submit", "--wait", "--after-any", "1", "--", "true"]);
    assert_eq!(engine.run(&["exec", "crius-worker", "sh", "-c", "ps | grep -c [g]ate"]), "0");
    begin();
    head.kill();
    let _head = cluster.head();
    daemon.kill();
    let daemon = worker(&cluster, &["--container-command", &line]);
    std::fs::write(&gate, "").unwrap();
    cluster.run(&["submit", "--wait", "--after-any", "3", "--", "true"]);
    assert!(cluster.say(&["explain", "3"]).contains("exit code 6"));
    assert_eq!(containers(), first, "it is still the same");
    // A worker that ends removes unused containers.
    drop(daemon);
    until("the container's end", || containers().is_empty());
}
