//! What every provider does.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use wharf_launch::config::NodeConfig;
use wharf_launch::provider::{self, Argv, Left, Machine, Provider, Shell};
use wharf_launch::state::Folder;
use wharf_launch::{Cluster, read};

use crate::providers::lab::{Lab, until};

/// A provider, by a cluster's file, and what the suite has to know of it.
pub(crate) struct Subject<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) file: PathBuf,
    /// Ends a machine behind the launcher's back, where machines can be made again.
    pub(crate) vanish: Option<&'a dyn Fn(&str)>,
    /// Whether something can be done on its machines here.
    pub(crate) is_reached: bool,
}

/// Words that a shell would like to do something with.
const ODD: &str = "it's \"$HOME\" `id` \\ *;\n ä";

impl Subject<'_> {
    /// The launcher, started again: it knows the file, and a folder that may be another one.
    fn started(&self, state: &str) -> (Cluster, Arc<dyn Provider>) {
        let cluster = read(&self.file).unwrap();
        let folder = Folder::new(&self.lab.path(state), &cluster.name);
        folder.create().unwrap();
        let provider = provider::of(&cluster, &folder);
        (cluster, provider)
    }

    pub(crate) fn conforms(&self) {
        let (cluster, provider) = self.started("state");
        let list = || listed(&*provider);
        if provider.makes_machines() {
            assert_eq!(list(), [], "nothing is there before it is made");
        }
        let made = create(&*provider, &cluster.nodes);
        assert!(made.iter().all(|machine| machine.is_ready() && !machine.id.is_empty()), "{made:?}");
        assert_eq!(list(), made, "what was made is there");
        assert_eq!(create(&*provider, &cluster.nodes), made, "nothing is made twice");
        if !provider.makes_machines() {
            let (_, again) = self.started("state");
            assert_eq!(listed(&*again), made, "a launcher that was restarted finds it");
        } else {
            let (_, again) = self.started("elsewhere");
            let ids =
                |machines: Vec<Machine>| machines.into_iter().map(|machine| machine.id).collect::<Vec<_>>();
            assert_eq!(
                ids(listed(&*again)),
                ids(made.clone()),
                "a launcher that was restarted finds it, even where it has lost what it knew"
            );
        }
        if self.is_reached {
            for (node, machine) in cluster.nodes.iter().zip(&made) {
                let mut node = node.clone();
                if provider.makes_machines() {
                    machine.become_node(&mut node);
                }
                self.is_used(&*provider, &node);
            }
        }
        if let Some(vanish) = self.vanish {
            self.comes_back(&*provider, &cluster, &made, vanish);
        }
        let machines = list();
        done(provider.terminate(&machines)).unwrap();
        done(provider.terminate(&machines)).unwrap();
        if provider.makes_machines() {
            assert_eq!(list(), [], "what was given back is gone");
        }
    }

    /// Commands with exit codes, words as they are, what stays, files there and back.
    fn is_used(&self, provider: &dyn Provider, node: &NodeConfig) {
        let channel = provider.channel(node);
        let run = |shell, env: &[(&str, &str)], script: &str, input: &str| {
            let ended = run(&channel.run(node, shell, env, script), input);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (code, out, err) = (ended.status.code(), text(&ended.stdout), text(&ended.stderr));
            (code, out, err)
        };
        assert_eq!(channel.unreached(0, "ssh: Connection refused"), None, "a command may say anything");
        let script = "printf '%s|' \"$WORD\"; cat; echo trouble >&2; exit 5";
        let (code, out, err) = run(Shell::Plain, &[("WORD", ODD)], script, "a\nb");
        assert_eq!((code, out), (Some(5), format!("{ODD}|a\nb")));
        assert!(err.contains("trouble"), "{err}");
        let script = "printf '%s|' \"$WORD\"; echo trouble >&2; exit 7";
        let (code, out, err) = run(Shell::Login, &[("WORD", ODD)], script, "");
        assert_eq!(code, Some(7));
        assert!(out.ends_with(&format!("{ODD}|")) && err.contains("trouble"), "{out} {err}");
        let stays = "setsid sleep 600 > /dev/null 2>&1 < /dev/null & echo \"pid $!\"";
        let (_, out, _) = run(Shell::Login, &[], stays, "");
        let pid = out.lines().find_map(|line| line.strip_prefix("pid ")).unwrap().to_owned();
        let (code, ..) = run(Shell::Plain, &[("PID", &pid)], "kill -0 \"$PID\" && kill \"$PID\"", "");
        assert_eq!(code, Some(0), "what a login shell has started continues");
        self.copies(provider, node);
    }

    fn copies(&self, provider: &dyn Provider, node: &NodeConfig) {
        let (from, back) = (self.lab.path("from here"), self.lab.path(&format!("back {}", node.name)));
        std::fs::create_dir_all(from.join("deep")).unwrap();
        std::fs::create_dir_all(&back).unwrap();
        for (name, text) in [("it's.txt", "1\n"), ("deep/b", "2\n"), ("left.out", "3\n")] {
            std::fs::write(from.join(name), text).unwrap();
        }
        let there = self.lab.path(&format!("there {}", node.name));
        let there = there.to_str().unwrap();
        let channel = provider.channel(node);
        let make = channel.run(node, Shell::Plain, &[("P", there)], "mkdir -p \"$P\"");
        assert!(run(&make, "").status.success());
        let exclude = ["*.out".to_owned()];
        let left = Left { exclude: &exclude, filter: &[] };
        for argv in [channel.upload(node, &from, there, &left), channel.download(node, there, &back, &left)] {
            let ended = run(&argv, "");
            assert!(ended.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        let back = back.join(format!("there {}", node.name));
        assert_eq!(std::fs::read_to_string(back.join("it's.txt")).unwrap(), "1\n");
        assert_eq!(std::fs::read_to_string(back.join("deep/b")).unwrap(), "2\n");
        assert!(!back.join("left.out").exists());
    }

    /// A machine that was terminated externally is recreated; the others are left alone.
    fn comes_back(
        &self,
        provider: &dyn Provider,
        cluster: &Cluster,
        made: &[Machine],
        vanish: &dyn Fn(&str),
    ) {
        let lost = made.last().unwrap();
        vanish(&lost.id);
        let names =
            || done(provider.list()).unwrap().into_iter().map(|machine| machine.name).collect::<Vec<_>>();
        until("it to be missed", || (!names().contains(&lost.name)).then_some(()));
        let anew = create(provider, &cluster.nodes);
        assert_eq!(anew[..anew.len() - 1], made[..made.len() - 1]);
        assert!(anew.last().unwrap().is_ready());
        if self.is_reached {
            let mut node = cluster.nodes.last().unwrap().clone();
            anew.last().unwrap().become_node(&mut node);
            self.is_used(provider, &node);
        }
    }
}

fn create(provider: &dyn Provider, nodes: &[NodeConfig]) -> Vec<Machine> {
    let made = done(provider.create(nodes, &|_, _| {})).unwrap();
    let mut machines: Vec<Machine> = made.into_iter().map(|(_, machine)| machine.unwrap()).collect();
    machines.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let wanted: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, wanted);
    machines
}

/// The machines that there are, by name.
fn listed(provider: &dyn Provider) -> Vec<Machine> {
    let mut machines = done(provider.list()).unwrap();
    machines.sort_by(|one, other| one.name.cmp(&other.name));
    machines
}

/// Waits for what takes time.
pub(crate) fn done<T>(doing: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(doing)
}

fn run(argv: &Argv, input: &str) -> Output {
    use std::io::Write as _;
    let (program, words) = argv.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}
