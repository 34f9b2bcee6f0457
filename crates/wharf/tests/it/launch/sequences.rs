//! What Ray 2.60 was seen doing on the nodes of a cluster, scenario by scenario, and what Wharf does in its place.
//!
//! Real `bash` and `rsync` do the work; an `ssh` and a `docker` of the test's own run it on this machine and record their arguments.

use serde_json::Value;

use wharf_testing::{needs, reference};

use crate::launch::lab::Lab;

const HEAD: &str = "127.0.0.1";

/// What Wharf does instead of Ray.
enum Wharf {
    /// The same.
    Same,
    /// Something else, for a reason.
    Other(&'static [&'static str], #[expect(dead_code, reason = "it documents the difference")] &'static str),
    /// Nothing.
    Absent(#[expect(dead_code, reason = "it documents the difference")] &'static str),
}
use Wharf::{Absent, Other, Same};

const UNTOUCHED: &str = "what has not changed is not done again: Ray's one hash has everything in it";

/// Beyond these there are differences in all scenarios: workers are brought up by the launcher too, and no configuration and no private key
/// are copied to the head, because nothing there starts workers.
const SCENARIOS: [(&str, Wharf); 29] = [
    ("up1", Same),
    ("up2", Other(&["reach"], "a second `up` does not disturb what runs: `--restart-only` asks for it")),
    ("up3", Same),
    ("up4", Same),
    (
        "up5",
        Other(
            &["reach", "copy SHIM/mnt/ to SHIM/remote/app", "echo SETUP-COMMON", "echo SETUP-HEAD"],
            UNTOUCHED,
        ),
    ),
    ("up6", Other(&["reach", "copy SHIM/mnt/ to SHIM/remote/app", "ray stop", START], UNTOUCHED)),
    ("up8", Other(&["reach", "echo SETUP-COMMON2", "echo SETUP-HEAD"], UNTOUCHED)),
    ("up9", Other(&["reach", "echo SETUP-COMMON", "exit 9"], UNTOUCHED)),
    ("up10", Other(&["reach", "echo SETUP-COMMON", "echo SETUP-HEAD"], UNTOUCHED)),
    ("ex1", Same),
    ("ex2", Same),
    ("ex3", Same),
    (
        "ex4",
        Absent(
            "`--stop` would shut machines down behind the launcher's back: `wharf down` stops the cluster",
        ),
    ),
    (
        "at1",
        Other(
            &["exec \"${SHELL:-bash}\""],
            "no shell stays between, and a machine without SHELL has one as well",
        ),
    ),
    (
        "at2",
        Other(&["tmux has-session 2>/dev/null && exec tmux attach; exec tmux new"], "no server ends between"),
    ),
    ("at3", Other(&["exec screen -L"], "no shell stays between")),
    (
        "su1",
        Other(
            &["copy job.py to ~/job.py", "python ~/job.py --epochs 3 'x y'"],
            "arguments arrive as they are",
        ),
    ),
    ("rs1", Same),
    ("rs2", Same),
    ("rs3", Same),
    ("rs5", Same),
    ("dn1", Other(&[], "`ray stop` ends other people's Ray, too: what was started is ended by its mark")),
    ("db1", Absent("`wharf attach -p 8265` has the dashboard's port here")),
    (
        "dk1",
        Other(
            &[
                "reach",
                "copy SHIM/mnt/ to STAGE/home/app",
                "echo INIT",
                "docker pull myimg:1",
                RUN,
                "in it: echo SETUP ~/x",
                "in it: ray stop",
                IN_START,
            ],
            "files are staged in a folder of the user's own, and the shell in the container knows its home",
        ),
    ),
    (
        "dk2",
        Other(
            &[
                "reach",
                "copy SHIM/mnt/ to STAGE/home/app",
                "copy SHIM/mnt/ to STAGE/home/more",
                "docker rm -f",
                "docker pull myimg:1",
                "docker run --name ray_c --net=host --runtime=nvidia --shm-size --ulimit nofile=65536:65536 -d -e HEAD=1 -e LANG=C.UTF-8 -e LC_ALL=C.UTF-8 -v STAGE/home/app:/ray/app -v STAGE/home/more:/ray/more myimg:1",
                "in it: echo SETUP ~/x",
                "in it: ray stop",
                IN_START,
            ],
            UNTOUCHED,
        ),
    ),
    (
        "dk5",
        Other(
            &["copy job.py to STAGE/job.py", "docker exec"],
            "an archive goes in, so that the image needs no rsync",
        ),
    ),
    ("dk6", Other(&["copy job.py to STAGE/job.py", "docker exec", "in it: python ~/job.py"], "as above")),
    ("dk7", Other(&["docker rm -f"], "`ray stop` is not needed where everything goes with the container")),
    (
        "q5",
        Other(
            &["reach", "echo SETUP-COMMON", "echo SETUP-HEAD"],
            "what has failed may have changed anything: going back is a change, too",
        ),
    ),
];
const START: &str = "ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml";
const IN_START: &str = "in it: ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml";
/// Its words in order of the alphabet, without those that are the launcher's own.
const RUN: &str = "docker run --name ray_c --net=host --runtime=nvidia --shm-size --ulimit nofile=65536:65536 -d -e HEAD=1 -e LANG=C.UTF-8 -e LC_ALL=C.UTF-8 -v STAGE/home/app:/ray/app myimg:1";

/// Runs on this machine what is meant for another.
const SSH: &str = r#"#!/bin/sh
while :; do case $1 in -o|-p|-l|-L|-i|-O) shift 2 ;; -T|-t|-tt) shift ;; --) shift; break ;; *) break ;; esac; done
export SHELL=/bin/true HOST=${1#*@} HOME="$SHIM/node-${1#*@}"
shift
mkdir -p "$HOME" && cd "$HOME" || exit 1
[ $# -gt 0 ] || exit 0
exec sh -c "$*"
"#;
const RSYNC: &str = r#"#!/bin/sh
case $1 in --server|-rlpn) exec REAL "$@" ;; esac
excludes=$(echo "$*" | grep -c -e '--exclude \*\*/.git --filter dir-merge,- .gitignore')
for word; do before=$last; last=$word; done
printf '%s copy %s %s to %s\n' "${HOST:-here}" "$excludes" "$before" "$last" >> "$SHIM/record"
exec REAL "$@"
"#;
const BASH: &str = r#"#!/bin/sh
for word; do [ "$before" != -c ] || break; before=$word; done
# The script that the launcher's wrapper of login shells gets as its argument.
case $word in 'script=$1; shift'*) word=$4 ;; esac
printf '%s %s%s\n' "$HOST" "$IN" "$(printf %s "$word" | tr '\n' '~')" >> "$SHIM/record"
exec REAL --norc --noprofile -c "$word"
"#;
const DOCKER: &str = r#"#!/bin/sh
note() { printf '%s docker %s\n' "$HOST" "$*" >> "$SHIM/record"; }
box="$HOME/box"
case $1 in
  pull) note "$@" ;;
  image) [ ! -f "$box" ] || echo image-1 ;;
  info) echo 'map[nvidia:{nvidia-container-runtime [] <nil>} runc:{runc [] <nil>}]' ;;
  ps) [ ! -f "$box" ] || cat "$box" ;;
  container) [ -f "$box" ] && echo 'true image-1' ;;
  rm) note rm -f; rm -f "$box" ;;
  run)
    case "$*" in *' --rm '*) printf /ray; exit ;; esac
    note "$@"
    echo box-1 > "$box"
    cat "$box"
    ;;
  exec)
    shift
    while :; do case $1 in -i|-it) shift ;; -e) export "$2"; shift 2 ;; *) break ;; esac; done
    shift
    case $3 in mkdir*) note exec ;; esac
    export HOME="$HOME/in" IN='in it: '
    mkdir -p "$HOME" && cd "$HOME" && exec "$@"
    ;;
esac
"#;

struct Shims {
    lab: Lab,
}

impl Shims {
    fn new() -> Self {
        let lab = Lab::new();
        for folder in ["bin", "mnt", "remote"] {
            std::fs::create_dir(lab.path(folder)).unwrap();
        }
        let real = |name: &str| {
            let path = std::env::var_os("PATH").unwrap();
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
        };
        for (name, text) in [
            ("ssh", SSH),
            ("rsync", RSYNC),
            ("bash", BASH),
            ("docker", DOCKER),
            ("ray", ""),
            ("nvidia-smi", ""),
            ("tmux", ""),
            ("screen", ""),
            ("python", ""),
        ] {
            let text = text.replace("REAL", &real(name).unwrap_or_default().display().to_string());
            let text = if text.is_empty() { "#!/bin/sh\n".to_owned() } else { text };
            let text = text.replacen(
                '\n',
                &format!("\nSHIM={}\n", lab.path("").display().to_string().trim_end_matches('/')),
                1,
            );
            crate::launch::containers::executable(&lab.path("bin").join(name), &text);
        }
        lab.write("key", "");
        std::fs::set_permissions(lab.path("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        lab.write("job.py", "");
        Self { lab }
    }

    /// The test's folder.
    fn shim(&self) -> String {
        self.lab.path("").display().to_string().trim_end_matches('/').to_owned()
    }

    fn describe(&self, setup: &str, head_setup: &str) {
        let shim = self.shim();
        self.lab.describe(&format!(
            "cluster_name: seq\nprovider: {{type: local, head_ip: {HEAD}, worker_ips: [127.0.0.2]}}\n\
             auth: {{ssh_user: alice, ssh_private_key: key}}\nfile_mounts: {{{shim}/remote/app: {shim}/mnt}}\n\
             rsync_exclude: ['**/.git']\nrsync_filter: [.gitignore]\ninitialization_commands: [echo INIT]\n\
             setup_commands: ['{setup}']\nhead_setup_commands: ['{head_setup}']\nworker_setup_commands: [echo SETUP-WORKER]\n\
             head_start_ray_commands: ['ray stop', '{START}']\nworker_start_ray_commands: ['ray stop']\n"
        ));
    }

    fn describe_docker(&self, more: &str) {
        let shim = self.shim();
        self.lab.describe(&format!(
            "cluster_name: dock\nprovider: {{type: local, head_ip: {HEAD}, worker_ips: [127.0.0.2]}}\nauth: {{ssh_user: alice}}\n\
             docker: {{image: 'myimg:1', container_name: ray_c, run_options: ['--ulimit nofile=65536:65536'], head_run_options: ['-e HEAD=1']}}\n\
             file_mounts: {{~/app: {shim}/mnt{more}}}\ninitialization_commands: [echo INIT]\nsetup_commands: ['echo SETUP ~/x']\n\
             head_start_ray_commands: ['ray stop', '{START}']\nworker_start_ray_commands: ['ray stop']\n"
        ));
    }

    /// What a scenario's command does on a node. Scenarios follow upon each other.
    fn play(&self, id: &str) {
        let lab = &self.lab;
        let wharf = |words: &[&str], code: i32| drop(lab.wharf(words).ends(code));
        match id {
            "up1" => {
                self.describe("echo SETUP-COMMON", "echo SETUP-HEAD");
                wharf(&["up", "c.yaml"], 0);
            }
            "up2" => wharf(&["up", "c.yaml"], 0),
            "up3" => wharf(&["up", "c.yaml", "--no-restart"], 0),
            "up4" => wharf(&["up", "c.yaml", "--restart-only"], 0),
            "up5" | "up6" => {
                lab.write("mnt/code.py", id);
                wharf(if id == "up5" { &["up", "c.yaml"] } else { &["up", "c.yaml", "--restart-only"] }, 0);
            }
            "up8" => {
                wharf(&["up", "c.yaml"], 0);
                self.forget();
                self.describe("echo SETUP-COMMON2", "echo SETUP-HEAD");
                wharf(&["up", "c.yaml", "--no-restart"], 0);
            }
            "up9" => {
                self.describe("echo SETUP-COMMON", "exit 9");
                wharf(&["up", "c.yaml"], 13);
            }
            "up10" => {
                self.describe("echo SETUP-COMMON", "echo SETUP-HEAD");
                wharf(&["up", "c.yaml"], 0);
            }
            "ex1" => wharf(&["cluster", "exec", "c.yaml", "--", "echo \"a b\"; exit 5"], 5),
            "ex2" => wharf(&["cluster", "exec", "c.yaml", "--tmux", "--", "python x.py"], 0),
            "ex3" => wharf(&["cluster", "exec", "c.yaml", "--screen", "--", "python x.py"], 0),
            "at1" => wharf(&["attach", "c.yaml"], 0),
            "at2" => wharf(&["attach", "c.yaml", "--tmux"], 0),
            "at3" => wharf(&["attach", "c.yaml", "--screen", "--new"], 0),
            "su1" => wharf(&["cluster", "submit", "c.yaml", "job.py", "--", "--epochs", "3", "x y"], 0),
            "rs1" => wharf(
                &["rsync-up", "c.yaml", "job.py", &format!("{}/job.py", lab.path("remote").display())],
                0,
            ),
            "rs2" => wharf(&["rsync-up", "c.yaml"], 0),
            "rs3" => {
                lab.write("x", "");
                wharf(&["rsync-down", "c.yaml", &lab.path("x").display().to_string(), "y"], 0);
            }
            "rs5" => wharf(&["rsync-up", "c.yaml", "job.py", &lab.path("j").display().to_string(), "-A"], 0),
            "q5" => {
                self.describe("echo SETUP-COMMON", "exit 9");
                wharf(&["up", "c.yaml"], 13);
                self.forget();
                self.describe("echo SETUP-COMMON", "echo SETUP-HEAD");
                wharf(&["up", "c.yaml"], 0);
            }
            "dn1" | "dk7" => wharf(&["down", "c.yaml", "--yes"], 0),
            "dk1" => {
                self.describe_docker("");
                wharf(&["up", "c.yaml"], 0);
            }
            "dk2" => {
                self.describe_docker(&format!(", ~/more: {}/mnt", self.shim()));
                wharf(&["up", "c.yaml"], 0);
            }
            "dk5" => wharf(&["rsync-up", "c.yaml", "job.py", &format!("{}/remote/job.py", self.shim())], 0),
            "dk6" => wharf(&["cluster", "submit", "c.yaml", "job.py"], 0),
            _ => panic!("{id} is not played"),
        }
    }

    fn forget(&self) {
        let _ = std::fs::remove_file(self.lab.path("record"));
        for cluster in ["seq", "dock"] {
            let _ = std::fs::remove_file(self.lab.state(cluster).join("logs").join(format!("{HEAD}.log")));
        }
    }

    /// What was done on the head since the last time.
    fn recorded(&self) -> Vec<String> {
        let shim = &self.shim();
        let logs: String = ["seq", "dock"]
            .iter()
            .filter_map(|cluster| {
                std::fs::read_to_string(self.lab.state(cluster).join("logs").join(format!("{HEAD}.log"))).ok()
            })
            .collect();
        let reached = logs.lines().filter(|line| *line == "=== reach").map(|_| "reach".to_owned()).take(1);
        let record = self.lab.read("record");
        let steps = record.lines().filter_map(|line| {
            let (host, step) = line.split_once(' ').unwrap();
            let is_copy = step.strip_prefix("copy ");
            match is_copy {
                Some(words) => copied(words).map(|step| step.replace(shim, "SHIM")),
                None if host == HEAD => Some(worded(step, shim)),
                None => None,
            }
        });
        reached.chain(steps).collect()
    }
}

/// A copy to or from the head.
fn copied(words: &str) -> Option<String> {
    let (excludes, words) = words.split_once(' ')?;
    let (from, to) = words.split_once(" to ")?;
    let remote = |path: &str| {
        path.strip_prefix(&format!("alice@{HEAD}:"))
            .map(|path| if path.starts_with('/') { path.to_owned() } else { format!("~/{path}") })
    };
    let stage = |path: String| {
        path.replace("~/.wharf/dock/mounts", "STAGE").replace("~/.wharf/dock/passing", "STAGE")
    };
    assert!(
        excludes == "1" || from.contains("dock") || to.contains("dock"),
        "what is left out is not said: {words}"
    );
    match (remote(from), remote(to)) {
        (None, Some(to)) => Some(format!("copy {from} to {}", stage(to))),
        (Some(from), None) => Some(format!("copy {from} to {to}")),
        _ => None,
    }
}

/// What Ray's launcher does before each command, and Wharf's as well: a login shell does not read this file by itself.
const BASHRC: &str = "[ ! -f ~/.bashrc ] || . ~/.bashrc; unalias -a~";

/// A command, with what differs each time made the same.
fn worded(step: &str, shim: &str) -> String {
    let step = step.replacen(BASHRC, "", 1).replace("set --~", "");
    let Some(words) = step.strip_prefix("docker run ") else { return step };
    let stage = format!("{shim}/node-{HEAD}/.wharf/dock");
    let words = words.split(" --entrypoint").next().unwrap_or_default();
    let mut joined: Vec<String> = Vec::new();
    let mut words = words.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let takes_one = ["-v", "-e", "--name", "--label", "--ulimit"].contains(&word);
        let word = if takes_one { format!("{word} {}", words.next().unwrap()) } else { word.to_owned() };
        let word = if word.starts_with("--shm-size=") { "--shm-size".to_owned() } else { word };
        let is_own = word.starts_with("--label wharf.") || word == format!("-v {stage}:{stage}");
        if !is_own {
            joined.push(word.replace(&format!("{stage}/mounts"), "STAGE"));
        }
    }
    joined.sort();
    format!("docker run {} myimg:1", joined.join(" "))
}

/// A step that Ray was seen doing, in the same words; none for what only its own way needs.
fn of_ray(step: &Value) -> Option<String> {
    let words: Vec<&str> = step.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    match words.as_slice() {
        ["ssh", HEAD, "uptime"] => Some("reach".to_owned()),
        ["ssh", HEAD, line] if line.starts_with("mkdir -p") => None,
        ["ssh", HEAD, line] => Some(line.replace("<env>", "")),
        ["rsync", .., from, _] if *from == "<bootstrap-config>" || *from == "SHIM/key" => None,
        ["rsync", .., from, to] => {
            let plain = |path: &str| path.replace(&format!("alice@{HEAD}:"), "");
            Some(format!("copy {} to {}", plain(from), plain(to).trim_end_matches('/')))
        }
        _ => None,
    }
}

#[test]
fn every_recorded_scenario_is_the_same_or_better_for_a_reason() {
    needs!(REFERENCE, SSHD);
    let text = std::fs::read_to_string(reference("vectors/ray_2.60_sequences.json")).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let scenarios = recorded["scenarios"].as_array().unwrap();
    let ids: Vec<&str> = scenarios.iter().map(|scenario| scenario["id"].as_str().unwrap()).collect();
    assert_eq!(ids, SCENARIOS.map(|(id, _)| id), "every recorded scenario is checked");
    let shims = Shims::new();
    // The last one is of the first cluster, and has to be played before that is down.
    let order = |id: &str| if id == "q5" { 13 } else { ids.iter().position(|other| *other == id).unwrap() };
    let mut all: Vec<_> = SCENARIOS.iter().zip(scenarios).collect();
    all.sort_by_key(|((id, _), _)| order(id));
    for ((id, wharf), scenario) in all {
        if let Absent(_) = wharf {
            continue;
        }
        shims.forget();
        shims.play(id);
        let seen: Vec<String> = scenario["steps"].as_array().unwrap().iter().filter_map(of_ray).collect();
        let done = shims.recorded();
        match wharf {
            Same => assert_eq!(done, expected(id, seen), "{id}: {}", scenario["what"]),
            Other(steps, _) => {
                assert_eq!(done, *steps, "{id}: {}", scenario["what"]);
                assert_ne!(done, seen, "{id} is the same after all");
            }
            Absent(_) => {}
        }
    }
}

/// Where the recording names places that only its own machine had.
fn expected(id: &str, seen: Vec<String>) -> Vec<String> {
    let put = |step: String| match id {
        "rs3" => step.replace("/tmp/x to SHIM/y", "SHIM/x to y"),
        "rs5" => step.replace("/tmp/j", "SHIM/j"),
        _ => step,
    };
    seen.into_iter().map(put).collect()
}
