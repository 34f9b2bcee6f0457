//! Jobs that try to get at root's rights, at other users' data or out of their limits.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::adversary::site::{Account, Site, until};
use crate::daemon::Daemon;
use wharf_testing::needs;

/// A site with a head and one worker.
struct Cluster {
    site: Site,
    _worker: Daemon,
    _head: Daemon,
}

impl Cluster {
    fn new(worker: &[&str], env: &[(&str, &str)]) -> Self {
        Self::with_devices("a40:2", worker, env)
    }

    fn with_devices(devices: &str, worker: &[&str], env: &[(&str, &str)]) -> Self {
        let site = Site::new();
        let head = site.head(&[]);
        let words = [&["worker", "--node", "n0", "--devices", devices], worker].concat();
        let mut command = site.admin_command(&words);
        command.envs(env.iter().copied());
        let worker = Daemon::start(&mut command, "accepted this worker");
        Self { site, _worker: worker, _head: head }
    }

    /// Submits a script with options and waits for its end; returns the job's id.
    fn run(&self, user: &Account, options: &[&str], script: &str) -> String {
        let words = [&["submit", "--wait"], options, &["--", "sh", "-c", script]].concat();
        let said = self.site.as_user(user, &words);
        said.stdout.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Submits a script that runs on; returns its id when it has printed `ready`.
    fn start(&self, user: &Account, options: &[&str], script: &str) -> String {
        let words = [&["submit"], options, &["--", "bash", "-c", script]].concat();
        let id = self.site.as_user(user, &words).ok().split_whitespace().next().unwrap().to_owned();
        until("the job is ready", || self.logs(user, &id).contains("ready"));
        id
    }

    fn logs(&self, user: &Account, job: &str) -> String {
        let said = self.site.as_user(user, &["logs", job]);
        format!("{}{}", said.stdout, said.stderr)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Tasks would outlive the worker, and accounts with processes cannot be removed.
        let jobs = self.site.admin(&["jobs", "--output", "plain"]).stdout;
        for id in jobs.lines().filter_map(|line| line.split_whitespace().next()) {
            let _ = self.site.admin(&["cancel", id]);
        }
        let uids = [self.site.ann.uid, self.site.bob.uid];
        let is_theirs = |entry: fs::DirEntry| {
            entry.metadata().is_ok_and(|found| uids.contains(&std::os::unix::fs::MetadataExt::uid(&found)))
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while fs::read_dir("/proc").into_iter().flatten().flatten().any(is_theirs)
            && std::time::Instant::now() < deadline
        {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
}

/// A shared library that writes the effective user id to a file when it is loaded.
fn evil_library(user: &Account) -> (PathBuf, PathBuf) {
    let trace = user.home.join("loaded-by");
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void load(void) {{\n\
         FILE *file = fopen(\"{}\", \"a\"); if (file) {{ fprintf(file, \"%d\\n\", (int)geteuid()); fclose(file); }} }}\n\
         unsigned la_version(unsigned version) {{ return version; }}\n\
         void gconv_init(void) {{ load(); }}\n",
        trace.display()
    );
    let source = user.write("evil.c", source, 0o644);
    let library = user.home.join("evil.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
    (library, trace)
}

#[test]
fn job_environment_does_not_reach_the_root_stage() {
    needs!(ROOT);
    let cluster = Cluster::new(&[], &[]);
    let ann = &cluster.site.ann;
    let (library, trace) = evil_library(ann);
    let library = library.display();
    for variable in [
        format!("LD_PRELOAD={library}"),
        format!("LD_AUDIT={library}"),
        format!("LD_LIBRARY_PATH={}", ann.home.display()),
        format!("GCONV_PATH={}", ann.home.display()),
        format!("PATH={}:/usr/bin:/bin", ann.home.display()),
        format!("TMPDIR={}", ann.home.display()),
    ] {
        cluster.run(ann, &["--env", &variable], "true");
        cluster.run(ann, &["--env", &variable, "--cpus", "1"], "true");
    }
    let loaded: BTreeSet<String> =
        fs::read_to_string(&trace).unwrap_or_default().lines().map(str::to_owned).collect();
    assert_eq!(loaded, BTreeSet::from([ann.uid.to_string()]), "loaded by the job, and by nothing else");
}

#[test]
fn exec_beside_a_setuid_program_is_not_root() {
    needs!(ROOT);
    let cluster = Cluster::new(&[], &[]);
    let ann = &cluster.site.ann;
    // `su` waits for a password with the effective user id 0.
    let script = "echo ready; exec su root -c true < <(sleep 600)";
    let job = cluster.start(ann, &[], script);
    let is_root = || {
        let children = fs::read_dir("/proc").unwrap().flatten();
        children.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok()).any(|status| {
            let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
            let mut ids = uid.split_whitespace();
            ids.next() == Some(&ann.uid.to_string()) && ids.next() == Some("0")
        })
    };
    until("su runs with root's rights", is_root);
    let said = cluster.site.as_user(ann, &["exec", &job, "--", "id", "-u"]);
    assert_ne!(said.stdout.trim(), "0", "{}", said.stderr);
    assert!(said.stdout.is_empty() || said.stdout.trim() == ann.uid.to_string(), "{}", said.stdout);
    let secret = cluster.site.folder.path().join("secret");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let copied = ann.home.join("copied");
    let from = format!("{job}:{}", secret.display());
    let said = cluster.site.as_user(ann, &["cp", &from, copied.to_str().unwrap()]);
    assert!(!copied.exists() || fs::read_to_string(&copied).unwrap().is_empty(), "{}", said.stderr);
}

#[test]
fn exec_runs_as_the_user_of_the_task() {
    needs!(ROOT);
    let cluster = Cluster::new(&[], &[]);
    let ann = &cluster.site.ann;
    let job = cluster.start(ann, &["--env", "COLOUR=blue"], "cd /tmp; echo ready; sleep 600");
    let said = cluster.site.as_user(ann, &["exec", &job, "--", "sh", "-c", "id -u; echo $COLOUR; pwd"]).ok();
    assert_eq!(said.lines().collect::<Vec<_>>(), [ann.uid.to_string().as_str(), "blue", "/tmp"]);
}

/// Whether a process with this argument runs.
fn runs(argument: &str) -> bool {
    let lines = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

#[test]
fn processes_that_hide_are_killed_with_their_job() {
    needs!(ROOT);
    let cluster = Cluster::with_devices("a40:3", &[], &[]);
    let (ann, bob) = (&cluster.site.ann, &cluster.site.bob);
    // Another task runs on, so that orphans cannot be distinguished by their user's being alone.
    let mark = 700_000_000 + u64::from(std::process::id());
    cluster.start(bob, &[], &format!("setsid env -i sleep {} & echo ready; sleep 600", mark + 1));
    cluster.start(ann, &[], &format!("setsid env -i sleep {} & echo ready; sleep 600", mark + 2));
    let script = format!("(setsid env -i sh -c 'sleep {mark} & sleep {mark}' &) ; sleep 0.2; echo gone");
    cluster.run(ann, &[], &script);
    until("the strays are gone", || !runs(&mark.to_string()));
    assert!(runs(&(mark + 1).to_string()) && runs(&(mark + 2).to_string()), "others' processes stay");
}

#[test]
fn fork_bomb_ends_with_its_job() {
    needs!(ROOT);
    let cluster = Cluster::new(&[], &[]);
    let ann = &cluster.site.ann;
    let mark = format!("bomb-{}", std::process::id());
    // Each generation starts the next in a session of its own and ends, faster than a list of processes can be read.
    let bomb = ann.write(
        "bomb",
        "#!/bin/bash\nfor i in 1 2; do setsid env -i \"$0\" $1 & done\nexec -a $1 sleep 0.3\n",
        0o755,
    );
    let bomb = bomb.display();
    let script = format!("ulimit -u 200; setsid env -i {bomb} {mark} & echo ready; sleep 600");
    let job = cluster.start(ann, &[], &script);
    until("the bomb runs", || runs(&mark));
    cluster.site.as_user(ann, &["cancel", &job]).ok();
    until("the job is over", || cluster.site.as_user(ann, &["job", &job]).stdout.contains("cancelled"));
    let is_left = || {
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let found = fs::metadata(entry.path()).map(|found| std::os::unix::fs::MetadataExt::uid(&found));
            found.is_ok_and(|uid| uid == ann.uid)
        })
    };
    until("no process of the user is left", || !is_left());
}

/// Device nodes of a test, which are removed with it.
struct Nodes(Vec<PathBuf>);

impl Nodes {
    fn new() -> Self {
        let path = |index: u32| PathBuf::from(format!("/dev/wht{}-{index}", std::process::id()));
        let nodes = Self((0..2).map(path).collect());
        for node in &nodes.0 {
            // The same as /dev/zero.
            let made = Command::new("mknod").arg("-m").arg("666").arg(node).args(["c", "1", "5"]).status();
            assert!(made.unwrap().success());
        }
        nodes
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.iter().for_each(|node| drop(fs::remove_file(node)));
    }
}

#[test]
fn devices_of_others_cannot_be_opened() {
    needs!(ROOT);
    let nodes = nix::unistd::geteuid().is_root().then(Nodes::new);
    let pattern = format!("/dev/wht{}-{{}}", std::process::id());
    let cluster = Cluster::new(&["--device-file", &pattern], &[]);
    let nodes = nodes.unwrap();
    let ann = &cluster.site.ann;
    let probe =
        |path: &Path| format!("head -c1 {} > /dev/null 2>&1 && echo opened || echo refused", path.display());
    let both = format!("echo dev:$WHARF_DEVICES; {}; {}", probe(&nodes.0[0]), probe(&nodes.0[1]));
    let script = format!("{both}; {}; echo ready; sleep 600", probe(Path::new("/dev/urandom")));
    let job = cluster.start(ann, &["--gang", "1"], &script);
    let said = cluster.logs(ann, &job);
    let expected = |device: u32| match device {
        0 => ["opened", "refused"],
        _ => ["refused", "opened"],
    };
    let device = if said.contains("dev:0") { 0 } else { 1 };
    let lines: Vec<&str> = said.lines().filter(|line| ["opened", "refused"].contains(line)).collect();
    assert_eq!(lines, [&expected(device)[..], &["opened"]].concat(), "{said}");
    let beside = cluster.site.as_user(ann, &["exec", &job, "--", "sh", "-c", &both]).ok();
    let lines: Vec<&str> = beside.lines().filter(|line| ["opened", "refused"].contains(line)).collect();
    assert_eq!(lines, expected(device), "a command beside the task");
    let terminal = ["exec", &job, "--", "script", "-qc", "tty", "/dev/null"];
    assert!(cluster.site.as_user(ann, &terminal).ok().contains("/dev/pts/"), "terminals can be made");
    let tricks = format!(
        "unshare -Urm sh -c 'mount --bind /dev /mnt 2>/dev/null; umount -l /dev 2>/dev/null; {}'",
        probe(&nodes.0[1 - device as usize])
    );
    let said = cluster.site.as_user(ann, &["exec", &job, "--", "sh", "-c", &tricks]);
    assert!(!said.stdout.contains("opened"), "in a user namespace: {}", said.stdout);
}

#[test]
fn tasks_do_not_inherit_the_worker_environment() {
    needs!(ROOT);
    let secret = [("AWS_SECRET_ACCESS_KEY", "hunter2"), ("SITE_SETTING", "passed"), ("LANG", "C.UTF-8")];
    let cluster = Cluster::new(&["--pass-env", "SITE_*"], &secret);
    let ann = &cluster.site.ann;
    let root = cluster.site.admin(&["submit", "--wait", "--", "env"]);
    let job = cluster.run(ann, &[], "env");
    let said = cluster.logs(ann, &job);
    assert!(!said.contains("hunter2"), "{said}");
    assert!(said.contains("SITE_SETTING=passed") && said.contains("LANG=C.UTF-8"), "{said}");
    let id = root.stdout.split_whitespace().next().unwrap_or_default().to_owned();
    assert!(!cluster.site.admin(&["logs", &id]).stdout.contains("hunter2"));
    let job = cluster.start(ann, &[], "echo ready; sleep 600");
    let said = cluster.site.as_user(ann, &["exec", &job, "--", "env"]).ok();
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn limits_are_capped_by_the_site() {
    needs!(ROOT);
    let cluster = Cluster::new(&["--max-limit", "nofile=4096"], &[]);
    let ann = &cluster.site.ann;
    let job = cluster.run(ann, &["--limit", "nofile=4096"], "ulimit -n");
    assert_eq!(cluster.logs(ann, &job).trim(), "4096");
    let job = cluster.run(ann, &[], "ulimit -Hn");
    assert_eq!(cluster.logs(ann, &job).trim(), "4096");
    // Above what the site grants, and above what a user may have without.
    for limit in ["nofile=unlimited", "nofile=8192", "rtprio=99", "nice=40"] {
        let said = cluster.site.as_user(ann, &["submit", "--wait", "--limit", limit, "--", "true"]);
        assert_ne!(said.code, Some(0), "{limit}");
    }
}

#[test]
fn output_named_by_a_job_is_read_as_its_user() {
    needs!(ROOT);
    let cluster = Cluster::new(&[], &[]);
    let ann = &cluster.site.ann;
    let secret = cluster.site.folder.path().join("secret");
    fs::write(&secret, "root's\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let output = ann.home.join("out");
    let link =
        format!("echo visible; echo ready; ln -sf {} {}; sleep 600", secret.display(), output.display());
    let job = cluster.run(ann, &["--output-file", output.to_str().unwrap()], "echo visible");
    assert_eq!(cluster.logs(ann, &job).trim(), "visible");
    let words = ["submit", "--output-file", output.to_str().unwrap(), "--", "sh", "-c", &link];
    let job = cluster.site.as_user(ann, &words).ok().split_whitespace().next().unwrap().to_owned();
    until("the link is there", || output.is_symlink());
    assert!(!cluster.logs(ann, &job).contains("root's"));
    // The file is not even opened: a writer of a pipe waits until a reader has opened it.
    let pipe = cluster.site.folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg("--mode=600").arg(&pipe).status().unwrap().success());
    fs::remove_file(&output).unwrap();
    std::os::unix::fs::symlink(&pipe, &output).unwrap();
    let (opened, is_opened) = std::sync::mpsc::channel();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || opened.send(fs::OpenOptions::new().write(true).open(pipe).is_ok()).unwrap()
    });
    cluster.logs(ann, &job);
    assert!(is_opened.try_recv().is_err(), "root has opened what only root may open");
    drop(fs::File::open(&pipe).unwrap());
    writer.join().unwrap();
}

#[test]
fn tasks_have_no_inherited_descriptors() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let secret = site.folder.path().join("secret");
    fs::write(&secret, "root's\n").unwrap();
    let program = crate::sandbox::program().display().to_string();
    let mut shell = Command::new("bash");
    let line = format!("exec 7<{} {program} worker --node n0 --devices a40:1", secret.display());
    shell.args(["-c", &line]).env("WHARF_HOME", site.state()).env("WHARF_CONFIG", "/dev/null");
    let _worker = Daemon::start(&mut shell, "accepted this worker");
    for said in [
        site.as_user(&site.ann, &["submit", "--wait", "--", "sh", "-c", "ls -l /proc/$$/fd"]),
        site.admin(&["submit", "--wait", "--", "sh", "-c", "ls -l /proc/$$/fd"]),
    ] {
        let id = said.stdout.split_whitespace().next().unwrap_or_default().to_owned();
        let said = site.admin(&["logs", &id]).stdout;
        assert!(said.contains(" 1 -> ") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn full_disk_is_the_fault_of_the_node() {
    needs!(ROOT);
    let site = Site::new();
    let head = site.head(&[]);
    let disk = site.state().join("workers");
    fs::create_dir_all(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m,mode=711", "wharf-test"])
        .arg(&disk)
        .status();
    assert!(mounted.unwrap().success());
    let _mounted = Mounted(disk.clone());
    let worker = site.worker("n0", &["--devices", "a40:1"]);
    let said = site.as_user(&site.ann, &["submit", "--", "sh", "-c", "yes | head -c 20000000; exit 1"]);
    let id = said.ok().split_whitespace().next().unwrap().to_owned();
    let told = || site.as_user(&site.ann, &["job", &id]).stdout;
    until("the node is blamed", || told().contains("× node"));
    assert!(!told().contains("× user"), "{}", told());
    drop((worker, head));
}

/// A mount that is removed with its test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
