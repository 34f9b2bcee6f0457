//! A folder with a cluster's file and the launcher's state, and how it is used.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until something is so.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wharf_testing::machine::until(what, LIMIT, look)
}

/// A folder of a test's own, and a cluster that is taken down at its end.
pub(crate) struct Lab {
    folder: TempDir,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Said {
    /// What is printed by a command that has to end with this code.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// From the JSON of `wharf up`: the phases of each node, or `failed`.
    #[track_caller]
    pub(crate) fn phases(&self) -> Vec<String> {
        let told: Value = serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"));
        let of_node = |node: &Value| {
            let phases = node["phases"].as_array()?.iter().map(|phase| phase.as_str().unwrap());
            Some(phases.collect::<Vec<_>>().join(" "))
        };
        let nodes = told["nodes"].as_array().unwrap().iter();
        nodes.map(|node| of_node(node).unwrap_or_else(|| "failed".to_owned())).collect()
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The cluster's file.
    pub(crate) fn describe(&self, text: &str) {
        self.write("c.yaml", text);
    }

    /// What a file has, if it is there.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The launcher's folder of a cluster.
    pub(crate) fn state(&self, cluster: &str) -> PathBuf {
        self.path("state/wharf/clusters").join(cluster)
    }

    /// The home of a node that is a folder.
    pub(crate) fn home(&self, node: &str) -> PathBuf {
        let clusters = std::fs::read_dir(self.path("state/wharf/nodes")).into_iter().flatten().flatten();
        clusters.map(|entry| entry.path().join(node)).find(|path| path.exists()).unwrap_or_default()
    }

    /// Gives a command the test's environment.
    pub(crate) fn hermetic(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        // Programs of the test's own come first.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("HOME", self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// A command of Wharf.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.hermetic(Command::new(program()));
        command.args(words);
        command
    }

    pub(crate) fn wharf(&self, words: &[&str]) -> Said {
        self.command(words).output().unwrap().into()
    }

    /// `wharf up`, told as JSON.
    pub(crate) fn up(&self, words: &[&str]) -> Said {
        self.wharf(&[&["up", "c.yaml", "--output", "json"], words].concat())
    }

    /// `wharf up` in the background.
    pub(crate) fn spawn_up(&self) -> Child {
        let mut command = self.command(&["up", "c.yaml", "-v"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// `wharf down`; nothing of the launcher's may be left.
    #[track_caller]
    pub(crate) fn down(&self, cluster: &str) {
        let marks = self.marks(cluster);
        let said = self.wharf(&["down", "c.yaml", "--yes"]).ends(0);
        assert!(said.stderr.contains("is down"), "{said:?}");
        assert!(!self.state(cluster).exists(), "the launcher's folder is left");
        assert_eq!(processes(&marks), Vec::<String>::new(), "processes are left");
    }

    /// The words in the environment of what was started on the nodes.
    pub(crate) fn marks(&self, cluster: &str) -> Vec<String> {
        let records = std::fs::read_dir(self.state(cluster).join("records")).into_iter().flatten().flatten();
        let stamp = |path: PathBuf| {
            let record: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
            Some(record["stamp"].as_str()?.to_owned())
        };
        records.filter_map(|entry| stamp(entry.path())).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // For a test that has failed. Fails where there is nothing to take down, too.
        if std::thread::panicking() {
            let _ = self.command(&["down", "c.yaml", "--yes"]).output();
        }
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_wharf"))
}

/// Processes of this machine that a launcher has started on nodes with these marks.
pub(crate) fn processes(marks: &[String]) -> Vec<String> {
    let is_ours = |environment: &[u8]| {
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|variable| {
            marks.iter().any(|mark| {
                [format!("WHARF_LAUNCHED={mark}"), format!("WHARF_LAUNCH_STEP={mark}")]
                    .iter()
                    .any(|wanted| wanted.as_bytes() == variable)
            })
        })
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    // One that has just ended cannot be read any more, and the environment of one that is dead is empty.
    let ours = all.filter(|path| std::fs::read(path.join("environ")).is_ok_and(|read| is_ours(&read)));
    ours.map(|path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default()).collect()
}
