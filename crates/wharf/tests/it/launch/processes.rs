//! Clusters whose nodes are folders and processes of this machine.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::launch::lab::{Lab, Said, until};

const THREE: &str = "cluster_name: three\nprovider: {type: process, workers: 2}\n";

#[test]
fn a_cluster_comes_up_runs_a_job_everywhere_and_leaves_nothing() {
    let lab = Lab::new();
    lab.describe(&format!("{THREE}setup_commands: ['echo \"a b\" >> ~/trail']\n"));
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach setup start"; 3]);
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach"; 3], "a second time there is nothing to do");
    let client = lab.state("three").join("client");
    let mut submit = lab.command(&["submit", "--wait", "--gang", "3x1", "--output-file"]);
    submit.arg(lab.path("%n.out")).args(["--", "sh", "-c", "echo $WHARF_NODE; sleep 0.1"]);
    let submitted: Said = submit.env("WHARF_HOME", &client).output().unwrap().into();
    submitted.ends(0);
    let mut nodes: Vec<String> =
        (0..3).map(|rank| lab.read(&format!("{rank}.out")).trim().to_owned()).collect();
    nodes.sort();
    assert_eq!(nodes, ["head", "worker-1", "worker-2"]);
    // A job that would continue indefinitely is ended with the cluster.
    let mut long = lab.command(&["submit", "--gang", "3x1", "--", "sleep", "600"]);
    Said::from(long.env("WHARF_HOME", &client).output().unwrap()).ends(0);
    let running = || {
        let mut jobs = lab.command(&["jobs"]);
        Said::from(jobs.env("WHARF_HOME", &client).output().unwrap()).stdout.contains("running")
    };
    until("the job to run", || running().then_some(()));
    assert_eq!(std::fs::read_to_string(lab.home("head").join("trail")).unwrap(), "a b\n");
    lab.down("three");
    let said = lab.wharf(&["down", "c.yaml"]).ends(0);
    assert!(said.stderr.contains("nothing is running"), "{said:?}");
}

#[test]
fn commands_find_what_earlier_ones_wrote_to_bashrc() {
    let lab = Lab::new();
    lab.describe(
        "cluster_name: rc\nprovider: {type: process, workers: 0}\nsetup_commands:\n\
         - echo 'export GREETING=hello' >> ~/.bashrc\n- echo \"$GREETING\" > ~/greeting\n\
         head_start_ray_commands: ['echo \"$GREETING again\" >> ~/greeting']\n",
    );
    lab.up(&[]).ends(0);
    assert_eq!(std::fs::read_to_string(lab.home("head").join("greeting")).unwrap(), "hello\nhello again\n");
    lab.down("rc");
}

/// Which phases run when: what has changed, and what runs without a flag, with `--no-restart` and with `--restart-only`.
const TABLE: [(&str, [&str; 3]); 5] = [
    ("nothing", ["reach", "reach", "reach start"]),
    ("file", ["reach sync setup", "reach sync setup", "reach sync start"]),
    ("initialise", ["reach initialise setup", "reach initialise setup", "reach initialise start"]),
    ("setup", ["reach setup", "reach setup", "reach start"]),
    ("start", ["reach start", "reach", "reach start"]),
];
const FLAGS: [&[&str]; 3] = [&[], &["--no-restart"], &["--restart-only"]];

#[test]
fn phases_run_where_something_has_changed_and_nowhere_else() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("app/.git")).unwrap();
    let mut version = 0;
    let mut change = |what: &str| {
        version += 1;
        let of = |name: &str, was: &mut u32| {
            if name == what {
                *was = version;
            }
            *was
        };
        thread_local!(static WAS: std::cell::RefCell<[u32; 4]> = const { std::cell::RefCell::new([0; 4]) });
        let [file, initialise, setup, start] = WAS.with_borrow_mut(|was| {
            let [file, initialise, setup, start] = was;
            [of("file", file), of("initialise", initialise), of("setup", setup), of("start", start)]
        });
        lab.write("app/code.py", &format!("{file}\n"));
        // What is not copied is no change.
        lab.write("app/.git/index", &format!("{version}\n"));
        lab.describe(&format!(
            "cluster_name: table\nprovider: {{type: process, workers: 1}}\nfile_mounts: {{~/app: app}}\nrsync_exclude: ['**/.git']\n\
             idle_timeout_minutes: {version}\n\
             initialization_commands: ['echo i{initialise} >> ~/trail']\nsetup_commands: ['echo s{setup} >> ~/trail']\n\
             head_start_ray_commands: ['echo h{start} >> ~/trail']\nworker_start_ray_commands: ['echo w{start} $RAY_HEAD_IP >> ~/trail']\n"
        ));
    };
    change("everything");
    assert_eq!(
        lab.up(&["--no-restart"]).ends(0).phases(),
        ["reach sync initialise setup start"; 2],
        "the first time"
    );
    for (what, rows) in TABLE {
        for (flags, expected) in FLAGS.into_iter().zip(rows) {
            change(what);
            let said = lab.up(flags).ends(0);
            assert_eq!(said.phases(), [expected; 2], "{what} changed, {flags:?}");
            // What was left out is not forgotten.
            let left = match (what, flags) {
                ("file" | "initialise" | "setup", ["--restart-only"]) => "reach setup",
                ("start", ["--no-restart"]) => "reach start",
                _ => "reach",
            };
            assert_eq!(lab.up(&[]).ends(0).phases(), [left; 2], "after {what} changed, {flags:?}");
        }
    }
    let home = lab.home("worker-1");
    assert!(home.join("app/code.py").exists() && !home.join("app/.git").exists());
    let trail = std::fs::read_to_string(home.join("trail")).unwrap();
    assert!(trail.starts_with("i0\ns0\nw0 127.0.0.1\n"), "{trail}");
    assert!(lab.wharf(&["up", "c.yaml", "--no-restart", "--restart-only"]).code == Some(2));
    lab.down("table");
}

#[test]
fn a_node_that_failed_is_retried_alone_and_no_failure_is_forgotten() {
    let lab = Lab::new();
    let gate = lab.path("gate");
    let with = |setup: &str| {
        lab.describe(&format!(
            "{THREE}head_start_ray_commands: []\nworker_start_ray_commands: [echo w]\nsetup_commands:\n- echo {setup} >> ~/trail\n\
             - '[ {setup} = good ] || [ $(basename ~) != worker-2 ] || [ -e {} ] || {{ echo no gate >&2; exit 5; }}'\n",
            gate.display()
        ));
    };
    with("good");
    lab.up(&[]).ends(0);
    with("bad");
    let said = lab.up(&[]).ends(12);
    assert_eq!(said.phases(), ["reach setup", "reach setup", "failed"]);
    assert!(
        said.stderr.contains("exited with 5\n    no gate") && said.stderr.contains("worker-2.log"),
        "{said:?}"
    );
    assert_eq!(lab.up(&["--min-workers", "1"]).ends(0).phases(), ["reach", "reach", "failed"]);
    // Back to what was good: the failed attempt may have changed anything, so it is done again.
    with("good");
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach setup"; 3]);
    with("bad");
    lab.up(&[]).ends(12);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach", "reach", "reach setup"], "only what failed");
    lab.down("three");
}

#[test]
fn dead_process_is_restarted() {
    let lab = Lab::new();
    lab.describe(&format!("{THREE}setup_commands: ['true']\n"));
    lab.up(&[]).ends(0);
    let pid = |node: &str, name: &str| {
        let path = lab.home(node).join(".wharf/three").join(format!("{name}.pid"));
        let text = std::fs::read_to_string(path).unwrap();
        Pid::from_raw(text.split(' ').next().unwrap().parse().unwrap())
    };
    // A process does not die at once.
    let end = |node: &str, name: &str| {
        let pid = pid(node, name);
        kill(pid, Signal::SIGKILL).unwrap();
        until("the end of a process", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let lives = stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'));
            (!lives).then_some(())
        });
    };
    end("worker-1", "worker");
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach", "reach start", "reach"]);
    assert!(said.stderr.contains("worker-1: start (its worker does not run)"), "{said:?}");
    // The head comes back at the same port, so that the other nodes are not disturbed.
    end("head", "head");
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach start", "reach", "reach"]);
    // A node whose files are gone is set up again, under its name.
    end("worker-2", "worker");
    let home = lab.home("worker-2");
    let mut marks = lab.marks("three");
    std::fs::remove_dir_all(&home).unwrap();
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach", "reach", "reach setup start"]);
    // A head that was set up again is another one: all join again.
    end("head", "head");
    end("head", "worker");
    marks.extend(lab.marks("three"));
    std::fs::remove_dir_all(lab.home("head")).unwrap();
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach setup start", "reach start", "reach start"]);
    assert!(said.stderr.contains("worker-1: start (the head is another one now)"), "{said:?}");
    let mut nodes = lab.command(&["nodes"]);
    let said: Said = nodes.env("WHARF_HOME", lab.state("three").join("client")).output().unwrap().into();
    assert_eq!(said.stdout.lines().filter(|line| line.contains(" up ")).count(), 3, "{said:?}");
    lab.describe("cluster_name: three\nprovider: {type: local, head_ip: 127.0.0.1}\n");
    for words in [&["up", "c.yaml", "--yes"], &["down", "c.yaml", "--yes"]] {
        let said = lab.wharf(words).ends(3);
        assert!(
            said.stderr.contains("created with the provider `process`, but the file now has `local`"),
            "{said:?}"
        );
    }
    lab.describe("cluster_name: three\nprovider: {type: process, workers: 1}\nsetup_commands: ['true']\n");
    let said = lab.up(&[]).ends(2);
    assert!(said.stderr.contains("no longer contains worker-2"), "{said:?}");
    assert_eq!(lab.up(&["--yes"]).ends(0).phases(), ["reach"; 2]);
    assert!(!home.exists(), "it was stopped");
    lab.down("three");
    assert_eq!(
        crate::launch::lab::processes(&marks),
        Vec::<String>::new(),
        "what the lost nodes have left is ended, too"
    );
}

#[test]
fn one_launcher_at_a_time_and_an_interrupted_one_leaves_nothing_running() {
    let lab = Lab::new();
    let started = lab.path("started");
    let with = |line: &str| {
        lab.describe(&format!(
            "cluster_name: one\nprovider: {{type: process, workers: 1}}\nhead_start_ray_commands: []\nworker_start_ray_commands: []\n\
             setup_commands: ['{line}']\n"
        ));
    };
    with(&format!("echo > {}; sleep 600; echo never", started.display()));
    let mut first = lab.spawn_up();
    until("the set-up to begin", || started.exists().then_some(()));
    let said = lab.up(&[]).ends(11);
    assert!(
        said.stderr.contains(&format!("`wharf up` is changing the cluster: process {}", first.id())),
        "{said:?}"
    );
    assert_eq!(lab.wharf(&["down", "c.yaml", "--yes"]).code, Some(11));
    kill(Pid::from_raw(first.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    // The next one ends what the first has left, and does its work again.
    with("true");
    let said = lab.up(&[]).ends(0);
    assert_eq!(said.phases(), ["reach setup start"; 2]);
    assert!(said.stderr.contains("head: setup (the last attempt did not end well)"), "{said:?}");
    assert_eq!(crate::launch::lab::processes(&lab.marks("one")), Vec::<String>::new());
    lab.down("one");
}

#[test]
fn workers_get_files_of_the_head() {
    let lab = Lab::new();
    lab.describe(&format!(
        "{THREE}cluster_synced_files: [~/made, ~/one, ~/not-there]\nhead_setup_commands: ['mkdir ~/made; echo 1 > ~/made/it; echo 1 > ~/one']\n\
         head_start_ray_commands: []\nworker_start_ray_commands: []\n"
    ));
    let worker = ["reach sync start"; 2];
    assert_eq!(lab.up(&[]).ends(0).phases(), [&["reach setup start"], &worker[..]].concat());
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach"; 3]);
    let has = |path: &str| std::fs::read_to_string(lab.home("worker-2").join(path)).unwrap_or_default();
    assert_eq!((has("made/it").as_str(), has("one").as_str()), ("1\n", "1\n"));
    std::fs::write(lab.home("head").join("made/it"), "2\n").unwrap();
    std::fs::remove_file(lab.home("head").join("one")).unwrap();
    assert_eq!(lab.up(&[]).ends(0).phases(), ["reach", "reach sync", "reach sync"]);
    assert_eq!((has("made/it").as_str(), has("one").as_str()), ("2\n", "1\n"), "nothing is taken away");
    lab.down("three");
}

#[test]
fn many_nodes_come_up_at_once() {
    let lab = Lab::new();
    lab.describe("cluster_name: many\nprovider: {type: process, workers: 31}\n");
    let timed = |what: &str, lab: &Lab, words: &[&str]| {
        let start = Instant::now();
        let said = lab.up(words).ends(0);
        eprintln!("{what}: {:.1} s", start.elapsed().as_secs_f64());
        said
    };
    assert_eq!(timed("32 nodes up", &lab, &[]).phases(), vec!["reach start"; 32]);
    assert_eq!(timed("32 nodes, nothing to do", &lab, &[]).phases(), vec!["reach"; 32]);
    lab.down("many");
    lab.describe("cluster_name: hundred\nprovider: {type: process, workers: 99}\nsetup_commands: [a]\n");
    let said = timed("dry run of 100 nodes", &lab, &["--dry-run"]);
    let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["nodes"].as_array().unwrap().len(), 100);
    assert_eq!(told["nodes"][99]["phases"][3]["reason"], "never done");
    assert!(!lab.state("hundred").exists(), "a dry run leaves nothing");
}

#[test]
fn files_are_checked_before_anything_is_touched() {
    let lab = Lab::new();
    lab.describe(
        "cluster_name: lab\nprovider: {type: process}\nsetup_comands: [x]\nfile_mounts: {~/x: gone}\n",
    );
    for words in [&[] as &[&str], &["--check"], &["--dry-run"]] {
        let said = lab.up(words).ends(3);
        assert!(said.stderr.contains("error: c.yaml:3:1: `setup_comands`"), "{said:?}");
        assert!(said.stderr.contains("error: c.yaml:4:20: `file_mounts.~/x`"), "{said:?}");
    }
    assert!(!lab.path("state").exists());
    lab.describe("cluster_name: lab\nmin_workers: 0\nprovider: {type: aws, region: x, ssh_from: [203.0.113.0/24]}\navailable_node_types: {h: {node_config: {}}}\nhead_node_type: h\n");
    for words in [&[] as &[&str], &["--check"], &["--dry-run"]] {
        let said = lab.up(words).ends(3);
        assert!(said.stderr.contains("node_config.ImageId`: it is missing"), "{said:?}");
    }
    let of_image = lab.read("c.yaml").replace("{}", "{ImageId: ami-1}");
    lab.describe(&of_image);
    let said = lab.up(&["--check"]).ends(0);
    assert!(said.stderr.contains("with 1 node, no problems"), "{said:?}");
    lab.describe(&format!("{of_image}docker: {{container_name: box}}\n"));
    let said = lab.up(&["--check"]).ends(0);
    assert!(said.stderr.contains("with 1 node, 1 warning\n"), "{said:?}");
}
