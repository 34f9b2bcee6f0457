//! What people do on the nodes of a launched cluster.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use wharf_testing::needs;

use crate::launch::lab::{Lab, Said, until};
use crate::launch::ssh::Machines;

const TWO: &str = "cluster_name: two\nprovider: {type: process, workers: 1}\nhead_start_ray_commands: []\n\
                   worker_start_ray_commands: []\nfile_mounts: {~/app: app}\n";

/// Runs a command that reads what a person types.
fn typed(mut command: Command, text: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn commands_run_on_nodes_and_pass_on_their_codes() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("app")).unwrap();
    lab.describe(TWO);
    let said = lab.wharf(&["cluster", "exec", "c.yaml", "--", "true"]).ends(3);
    assert!(said.stderr.contains("two is not up"), "{said:?}");
    lab.up(&[]).ends(0);
    let exec = |words: &[&str]| lab.wharf(&[&["cluster", "exec", "c.yaml"], words].concat());
    for (words, code, stdout) in [
        (&["--", "exit 5"] as &[&str], 5, ""),
        (&["--", "printf", "%s|", "a b", "$HOME", "it's"], 0, "a b|$HOME|it's|"),
        (&["--node", "worker-1", "--", "basename ~"], 0, "worker-1\n"),
        (&["--workers", "--", "basename ~; exit 7"], 7, "worker-1: worker-1\n"),
        (&["--", "kill -9 $$"], 137, ""),
    ] {
        let said = exec(words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(code), stdout), "{words:?} {said:?}");
    }
    let said = exec(&["--all", "--", "basename ~; [ $(basename ~) = head ] || exit 3"]).ends(3);
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["head: head", "worker-1: worker-1"]);
    assert!(said.stderr.contains("worker-1: exited with 3"), "{said:?}");
    let said = exec(&["--node", "worker1", "--", "true"]).ends(2);
    assert!(said.stderr.contains("did you mean `worker-1`?"), "{said:?}");
    let said =
        typed(lab.command(&["attach", "c.yaml", "--node", "worker-1"]), "basename ~\nexit 4\n").ends(4);
    assert_eq!(said.stdout, "worker-1\n");
    lab.wharf(&["attach", "c.yaml", "--new"]).ends(2);
    lab.down("two");
}

#[test]
fn files_are_copied_both_ways_and_nodes_are_inspected() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("app")).unwrap();
    lab.write("app/code.py", "1\n");
    lab.describe(TWO);
    lab.up(&[]).ends(0);
    lab.write("app/code.py", "2\n");
    lab.wharf(&["rsync-up", "c.yaml"]).ends(0);
    let code = |node: &str| std::fs::read_to_string(lab.home(node).join("app/code.py")).unwrap();
    assert_eq!((code("head").as_str(), code("worker-1").as_str()), ("2\n", "1\n"), "the head only");
    lab.wharf(&["rsync-up", "c.yaml", "app/code.py", "deep/er/c.py", "-A"]).ends(0);
    assert!(lab.home("worker-1").join("deep/er/c.py").exists());
    lab.wharf(&["rsync-down", "c.yaml", "deep/er/c.py", "back.py"]).ends(0);
    assert_eq!(lab.read("back.py"), "2\n");
    lab.wharf(&["rsync-down", "c.yaml", "app/code.py", "all", "-A"]).ends(0);
    assert_eq!(
        (lab.read("all/head/code.py"), lab.read("all/worker-1/code.py")),
        ("2\n".into(), "1\n".into())
    );
    let said = lab.wharf(&["rsync-down", "c.yaml", "gone", "x"]).ends(12);
    assert!(said.stderr.contains("No such file or directory"), "{said:?}");
    lab.wharf(&["rsync-up", "c.yaml", "app"]).ends(2);
    assert_eq!(lab.wharf(&["get-head-ip", "c.yaml"]).ends(0).stdout, "127.0.0.1\n");
    let said = lab.wharf(&["cluster", "status", "c.yaml", "--output", "json"]).ends(0);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["nodes"][1]["done"], serde_json::json!(["sync", "start"]));
    assert_eq!((&told["nodes"][0]["role"], &told["nodes"][0]["trouble"]), (&"head".into(), &Value::Null));
    let said = lab.wharf(&["cluster", "logs", "c.yaml", "--node", "worker-1"]).ends(0);
    assert!(said.stdout.contains("=== sync: app to ~/app"), "{said:?}");
    lab.down("two");
}

#[test]
fn machines_are_used_over_ssh() {
    needs!(NAMESPACES, SSHD, TMUX);
    let machines = Machines::new();
    machines.lab.write("job.py", "1\n");
    machines.describe("head_start_ray_commands: []\nworker_start_ray_commands: []\n");
    for name in crate::launch::ssh::NODES {
        // The sockets of tmux would be in a folder that all machines and this one share.
        std::fs::write(machines.disk(name).join(".bash_profile"), "export TMUX_TMPDIR=~ SET_BY_USER=yes\n")
            .unwrap();
    }
    machines.up(&[]).ends(0);
    let said =
        machines.wharf(&["cluster", "exec", "c.yaml", "--", "echo \"a b\" $SET_BY_USER; exit 5"]).ends(5);
    assert_eq!(said.stdout, "a b yes\n");
    // The shell is interactive, so that settings hold, and states nothing of that.
    let words = ["cluster", "exec", "c.yaml", "--", "case $- in *i*) echo own >&2;; esac"];
    assert_eq!(machines.wharf(&words).ends(0).stderr, "own\n");
    let said =
        machines.wharf(&["cluster", "exec", "c.yaml", "--", "printf", "%s|", "a  b", "it's; $HOME"]).ends(0);
    assert_eq!(said.stdout, "a  b|it's; $HOME|");
    let said = machines.wharf(&["cluster", "exec", "c.yaml", "--all", "--", "hostname"]).ends(0);
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["10.77.0.1: nd1", "10.77.0.2: nd2", "10.77.0.3: nd3"]);
    machines.wharf(&["rsync-up", "c.yaml", "job.py", "my jobs/job.py", "-A"]).ends(0);
    assert!(crate::launch::ssh::NODES.iter().all(|name| machines.disk(name).join("my jobs/job.py").exists()));
    machines.wharf(&["rsync-down", "c.yaml", "my jobs/job.py", "back.py"]).ends(0);
    assert_eq!(machines.lab.read("back.py"), "1\n");
    assert_eq!(machines.wharf(&["get-head-ip", "c.yaml"]).ends(0).stdout, "10.77.0.1\n");
    assert_eq!(machines.wharf(&["get-worker-ips", "c.yaml"]).ends(0).stdout, "10.77.0.2\n10.77.0.3\n");
    let said =
        typed(machines.command(&["attach", "c.yaml", "--node", "10.77.0.2"]), "hostname\nexit 4\n").ends(4);
    assert!(said.stdout.contains("nd2"), "{said:?}");
    machines.wharf(&["cluster", "exec", "c.yaml", "--tmux", "--", "echo done > ~/window"]).ends(0);
    until("what runs in a window", || machines.disk("nd1").join("window").exists().then_some(()));
    machines.down();
}
