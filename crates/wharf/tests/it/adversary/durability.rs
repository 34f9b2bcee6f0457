//! Full disks, restored copies, damaged journals, panics and rogue workers.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::adversary::site::{Site, until};
use crate::daemon::Daemon;
use wharf_testing::needs;

/// A small file system in memory, as long as this value exists.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path, size: &str) -> Self {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
            .arg(path)
            .output()
            .unwrap();
        assert!(done.status.success(), "mount: {}", String::from_utf8_lossy(&done.stderr));
        Self(path.to_owned())
    }

    /// Takes all space that is left.
    fn fill(&self) {
        let mut file = File::create(self.0.join("filler")).unwrap();
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// A worker whose state is not in the head's state directory.
fn worker_elsewhere(site: &Site, node: &str) -> Daemon {
    let token = site.folder.path().join(format!("{node}.token"));
    let token_text = token.to_str().unwrap();
    site.admin(&["token", "create", "--role", "worker", "--to", token_text]).ok();
    let head = format!("127.0.0.1:{}", site.port);
    let home = site.folder.path().join(node);
    let mut command = site.admin_command(&[
        "worker",
        "--node",
        node,
        "--devices",
        "a40:2",
        "--head",
        &head,
        "--join-token-file",
        token_text,
    ]);
    Daemon::start(command.env("WHARF_HOME", home), "accepted this worker")
}

#[test]
fn head_on_a_full_disk_serves_starts_and_recovers() {
    needs!(ROOT);
    let site = Site::new();
    let disk = SmallDisk::mount(&site.state(), "3m");
    let mut head = site.head(&[]);
    let _worker = worker_elsewhere(&site, "n1");
    let go = site.ann.home.join("go");
    let line = format!("echo begun; until test -e {}; do sleep 0.05; done; echo done", go.display());
    site.as_user(&site.ann, &["submit", "--", "sh", "-c", &line]).ok();
    until("the job has written", || site.as_user(&site.ann, &["logs", "0"]).stdout.contains("begun"));
    disk.fill();
    let submit = || site.as_user(&site.ann, &["submit", "--", "true"]);
    until("a submission is refused", || submit().code != Some(0));
    let refused = submit();
    assert!(refused.stderr.contains("cannot write its journal"), "{}", refused.stderr);
    assert!(site.as_user(&site.ann, &["jobs"]).ok().contains("running"));
    assert!(site.admin(&["nodes"]).stderr.contains("cannot write its journal"));
    // Killed and started on the full disk, it serves as before.
    head.kill();
    drop(head);
    let _head = site.head(&[]);
    assert!(site.as_user(&site.ann, &["jobs"]).ok().contains("running"));
    assert!(submit().stderr.contains("cannot write its journal"));
    until("output can be read", || site.as_user(&site.ann, &["logs", "0"]).stdout.contains("begun"));
    disk.free();
    until("submissions are accepted again", || submit().code == Some(0));
    site.ann.write("go", "", 0o644);
    until("the job ends", || site.as_user(&site.ann, &["jobs", "--all"]).ok().contains("finished"));
    assert!(site.as_user(&site.ann, &["logs", "0"]).ok().contains("done"), "it was never stopped");
}

#[test]
fn restored_copy_of_the_state_reuses_no_id_and_shows_no_output_of_others() {
    needs!(ROOT);
    let site = Site::new();
    let head = site.head(&[]);
    let _worker = worker_elsewhere(&site, "n1");
    site.as_user(&site.ann, &["submit", "--", "true"]).ok();
    until("the first job is over", || site.as_user(&site.ann, &["jobs", "--all"]).ok().contains("finished"));
    drop(head);
    let copy = site.folder.path().join("copy");
    let copied = Command::new("cp").arg("-a").arg(site.state()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let head = site.head(&[]);
    let submit = |user, line: &str| site.as_user(user, &["submit", "--", "sh", "-c", line]).ok();
    let secret = submit(&site.bob, "echo the secret of bob; exec sleep 600").trim().to_owned();
    until("bob's job has written", || {
        site.as_user(&site.bob, &["logs", &secret]).stdout.contains("the secret of bob")
    });
    drop(head);
    fs::rename(site.state(), site.folder.path().join("newer")).unwrap();
    fs::rename(&copy, site.state()).unwrap();
    let _head = site.head(&[]);
    let job = submit(&site.ann, "echo hello").trim().to_owned();
    assert_ne!(job, secret);
    until("ann's job is over", || {
        site.as_user(&site.ann, &["jobs", "--all", "--output", "json"]).stdout.matches("finished").count()
            >= 2
    });
    let output = site.as_user(&site.ann, &["logs", &job]).ok();
    assert_eq!(output.trim(), "hello");
    assert_ne!(site.as_user(&site.ann, &["logs", &secret]).code, Some(0), "there is no such job");
    until("bob's task is reported", || {
        let alerts = site.admin(&["nodes"]).stderr;
        alerts.contains("job ids continue at") && alerts.contains("they are stopped")
    });
    until("bob's task is stopped", || {
        let running = Command::new("pgrep").args(["-u", &site.bob.name, "sleep"]).output().unwrap();
        running.stdout.is_empty()
    });
}
