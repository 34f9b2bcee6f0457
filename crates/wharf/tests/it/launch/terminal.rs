//! A person at a terminal: shells and commands on nodes, windows, ports, Ctrl-C. The terminal is a real one, of `script`.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use wharf_testing::needs;

use crate::launch::lab::{Lab, until};
use crate::launch::ssh::{Machines, SSH_PORT};

/// A command at a terminal of its own.
struct Terminal {
    keys: ChildStdin,
    screen: Arc<Screen>,
}

/// The output of a command at a terminal, and its exit code when it has ended.
#[derive(Default)]
struct Screen {
    state: Mutex<(String, Option<Option<i32>>)>,
    changed: Condvar,
}

impl Screen {
    fn change(&self, change: impl FnOnce(&mut (String, Option<Option<i32>>))) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Shows the output of a command until it ends.
    fn follow(&self, mut child: Child) {
        let mut output = child.stdout.take().unwrap();
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = output.read(&mut bytes) {
            self.change(|(text, _)| text.push_str(&String::from_utf8_lossy(&bytes[..read])));
        }
        let code = child.wait().unwrap().code();
        self.change(|(_, end)| *end = Some(code));
    }

    /// Waits until something is found on the screen.
    #[track_caller]
    fn find<T>(&self, what: &str, look: impl Fn(&str, Option<Option<i32>>) -> Option<T>) -> T {
        let is_missing = |(text, end): &mut (String, Option<Option<i32>>)| look(text, *end).is_none();
        let state = self.state.lock().unwrap();
        let (state, _) =
            self.changed.wait_timeout_while(state, crate::launch::lab::LIMIT, is_missing).unwrap();
        look(&state.0, state.1).unwrap_or_else(|| {
            let processes =
                Command::new("ps").args(["-eo", "pid,ppid,stat,wchan:20,args", "--forest"]).output();
            let processes = String::from_utf8_lossy(&processes.unwrap().stdout).into_owned();
            panic!("{what}; screen: {:?}\n{processes}", state.0)
        })
    }
}

impl Terminal {
    fn new(lab: &Lab, command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let quoted = words.map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''")));
        let mut script = lab.hermetic(Command::new("script"));
        script.args(["-qec", &quoted.collect::<Vec<_>>().join(" "), "/dev/null"]).env("TERM", "xterm");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        let screen = Arc::new(Screen::default());
        let shown = screen.clone();
        std::thread::spawn(move || shown.follow(child));
        Self { keys, screen }
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        self.screen
            .find(&format!("no `{text}` on the screen"), |shown, _| shown.contains(text).then_some(()));
    }

    /// How it ended, and all that it has shown.
    #[track_caller]
    fn ends(self) -> (Option<i32>, String) {
        drop(self.keys);
        self.screen
            .find("the command at the terminal has not ended", |shown, end| Some((end?, shown.to_owned())))
    }
}

#[test]
fn a_person_at_a_terminal_is_there() {
    needs!(NAMESPACES, SSHD, TMUX);
    let machines = Machines::new();
    machines.describe("head_start_ray_commands: []\nworker_start_ray_commands: []\n");
    for name in crate::launch::ssh::NODES {
        // The sockets of tmux would be in a folder that all machines and this one share.
        std::fs::write(machines.disk(name).join(".bash_profile"), "export TMUX_TMPDIR=~\n").unwrap();
    }
    machines.up(&[]).ends(0);
    let at = |words: &[&str]| Terminal::new(&machines.lab, &machines.command(words));
    let runs = |text: &str| until(text, || (machines.count(text) > 0).then_some(()));
    let ends = |text: &str| until(text, || (machines.count(text) == 0).then_some(()));

    // Ctrl-C is for what runs in the shell, and the shell continues; its port is here meanwhile.
    let mut shell = at(&["attach", "c.yaml", "-p", "8901"]);
    shell.types("sleep 611\n");
    runs("sleep 611");
    shell.types("\x03");
    ends("sleep 611");
    shell.types("echo code $?\n");
    shell.shows("code 130");
    std::fs::write(machines.disk("nd1").join("page"), "from the head\n").unwrap();
    shell.types("busybox httpd -p 127.0.0.1:8901 -h ~; echo ser''ves\n");
    shell.shows("serves");
    let page = || {
        let page =
            machines.hub().command("busybox").args(["wget", "-qO-", "http://127.0.0.1:8901/page"]).output();
        page.is_ok_and(|page| page.stdout == b"from the head\n").then_some(())
    };
    until("the head's port here", page);
    shell.types("kill $(pidof busybox); exit 4\n");
    assert_eq!(shell.ends().0, Some(4));

    // A command on one node: the terminal is its own.
    let mut command =
        at(&["cluster", "exec", "c.yaml", "--", "test -t 0 && echo begun; sleep 612; echo never"]);
    command.shows("begun");
    runs("sleep 612");
    command.types("\x03");
    let (code, shown) = command.ends();
    assert!(code != Some(0) && !shown.contains("never"), "{code:?} {shown}");
    ends("sleep 612");

    // A command on all of them, at a terminal and without one.
    let line = "echo begun; sleep 613; echo never";
    let mut command = at(&["cluster", "exec", "c.yaml", "--all", "--", line]);
    until("all of them", || (machines.count("sleep 613") >= 3).then_some(()));
    command.types("\x03");
    let (code, shown) = command.ends();
    assert!(code == Some(130) && !shown.contains("never"), "{code:?} {shown}");
    assert_eq!(machines.count("sleep 613"), 0, "ended before the command is");
    let mut command = machines.command(&["cluster", "exec", "c.yaml", "--node", "10.77.0.3", "--", line]);
    let mut command = command.stdout(Stdio::piped()).spawn().unwrap();
    runs("sleep 613");
    kill(Pid::from_raw(command.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(command.wait().unwrap().code(), Some(130));
    assert_eq!(machines.count("sleep 613"), 0);

    windows(&machines);
    machines.down();
}

/// A window is there again after its person has left.
fn windows(machines: &Machines) {
    let at = |words: &[&str]| Terminal::new(&machines.lab, &machines.command(words));
    let mut window = at(&["attach", "c.yaml", "--tmux"]);
    // Keys that come before tmux has the terminal are lost; its status line states that it has.
    window.shows("0:");
    window.types("WORD=kept; echo > ~/opened\n");
    until("the window", || machines.disk("nd1").join("opened").exists().then_some(()));
    window.types("\x02d");
    window.ends();
    let mut again = at(&["attach", "c.yaml", "--tmux"]);
    again.shows("0:");
    again.types("echo $WORD > ~/word; exit\n");
    until("the same window", || {
        (std::fs::read_to_string(machines.disk("nd1").join("word")).ok()? == "kept\n").then_some(())
    });
    again.ends();
}

/// Two people who launch the same cluster at once: one does it, the other is told who does.
#[test]
fn two_launchers_of_machines_and_many_machines() {
    needs!(NAMESPACES, SSHD, TMUX);
    let mut machines = Machines::new();
    machines.describe(
        "head_start_ray_commands: []\nworker_start_ray_commands: []\nsetup_commands: ['echo s >> ~/trail']\n",
    );
    let begin =
        || machines.command(&["up", "c.yaml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (one, other) = (begin(), begin());
    let ended = [one, other].map(|up| up.wait_with_output().unwrap());
    let mut codes = ended.each_ref().map(|ended| ended.status.code());
    codes.sort_unstable();
    let told =
        ended.iter().map(|ended| String::from_utf8_lossy(&ended.stderr).into_owned()).collect::<String>();
    // The second may also have come after the first was through.
    assert!(codes == [Some(0), Some(11)] || codes == [Some(0), Some(0)], "{codes:?} {told}");
    assert!(codes[1] == Some(0) || told.contains("`wharf up` is changing the cluster: process "), "{told}");
    machines.up(&[]).ends(0);
    for name in crate::launch::ssh::NODES {
        assert_eq!(std::fs::read_to_string(machines.disk(name).join("trail")).unwrap(), "s\n", "set up once");
    }
    machines.down();

    // One machine with many names, each with a home of its own.
    machines.stop_sshd("nd1");
    let names: Vec<String> = (101..133).map(|last| format!("10.77.0.{last}")).collect();
    let mut homes = String::new();
    for name in &names {
        machines.machine("nd1").ip(&format!("addr add {name}/24 dev eth0"));
        let home = machines.lab.path(&format!("home-{name}"));
        std::fs::create_dir(&home).unwrap();
        homes += &format!("Match LocalAddress {name}\nSetEnv HOME={}\n", home.display());
    }
    machines.start_sshd_at("nd1", "0.0.0.0", &homes);
    machines.lab.describe(&format!(
        "cluster_name: many\nprovider: {{type: local, head_ip: {}, worker_ips: [{}]}}\n\
         auth: {{ssh_user: root, ssh_port: {SSH_PORT}, ssh_private_key: id}}\n\
         setup_commands: ['echo s >> $HOME/trail']\nhead_start_ray_commands: []\nworker_start_ray_commands: []\n",
        names[0],
        names[1..].join(", ")
    ));
    let start = Instant::now();
    assert_eq!(machines.up(&[]).ends(0).phases(), vec!["reach setup start"; 32]);
    let first = start.elapsed().as_secs_f64();
    let start = Instant::now();
    assert_eq!(machines.up(&[]).ends(0).phases(), vec!["reach"; 32]);
    eprintln!("32 machines over ssh: up {first:.1} s, nothing to do {:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(
        std::fs::read_to_string(machines.lab.path(&format!("home-{}/trail", names[31]))).unwrap(),
        "s\n"
    );
    machines.wharf(&["down", "c.yaml", "--yes"]).ends(0);
    assert!(names.iter().all(|name| !machines.lab.path(&format!("home-{name}/.wharf")).exists()));
}
