//! What is really executed for a command: launchers put themselves before it, activation puts a shell before that.
//!
//! A command that begins with its launcher already is left as it is, but for what it does not say.

use wharf_proto::Launcher;

/// What launchers have to be told.
pub(super) struct Gang<'a> {
    pub(super) nodes: u32,
    pub(super) node_rank: u32,
    pub(super) local_processes: u32,
    pub(super) all_processes: u32,
    pub(super) master: (&'a str, &'a str),
    pub(super) hostfile: &'a str,
    /// Names of variables that processes on other nodes need.
    pub(super) forwarded: &'a [&'a str],
}

/// Options of torchrun that have no value; `-m` is followed by what is run.
const TORCHRUN_FLAGS: &[&str] =
    &["--standalone", "--no-python", "--run-path", "--virtual-local-rank", "-m", "--module"];
/// Options of mpirun that state where processes go, or how many; any of a row stands for all of it.
const MPIRUN_HOSTS: &[&str] =
    &["--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f", "--host", "-host", "-H"];
const MPIRUN_COUNTS: &[&str] = &["-np", "--np", "-n", "--n", "-c"];

/// Runs the lines with no arguments in sight, because scripts such as conda's take those of their caller, then becomes the
/// command. Neither conda nor environment modules are set up in a non-interactive shell: this does so.
const ACTIVATION: &str = r#"wharf_lines=("${@:2:$1}"); wharf_command=("${@:$1+2}"); set --
for wharf_line in "${wharf_lines[@]}"; do
    case $wharf_line in
    "conda activate"*) [ "$(type -t conda)" = function ] || eval "$(conda shell.bash hook)" ;;
    "module "*) for wharf_file in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh; do
        [ "$(type -t module)" = function ] || ! [ -r "$wharf_file" ] || . "$wharf_file"; done ;;
    esac
    eval "$wharf_line"
    wharf_code=$?
    if [ $wharf_code -ne 0 ]; then
        printf 'wharf: the environment cannot be activated: "%s" ended with code %d\n' "$wharf_line" $wharf_code >&2
        exit $wharf_code
    fi
done
exec "${wharf_command[@]}"
"#;

/// The command with its launcher before it.
pub(super) fn launched(launcher: Launcher, command: &[String], gang: &Gang<'_>) -> Vec<String> {
    match launcher {
        // A Ray node is not told by words alone: see `launch::ray`.
        Launcher::Plain | Launcher::PerDevice | Launcher::Batch | Launcher::Ray => command.to_vec(),
        // Left empty, so that it is refused as an empty command.
        _ if command.is_empty() => Vec::new(),
        Launcher::Torchrun => torchrun(command, gang),
        Launcher::Mpirun => mpirun(command, gang),
    }
}

/// The command behind a shell that first runs the lines; its arguments are handed over as they are.
pub(super) fn activated(lines: &[String], command: Vec<String>) -> Vec<String> {
    if lines.is_empty() || command.is_empty() {
        return command;
    }
    let mut shell: Vec<String> = ["bash", "-c", ACTIVATION, "wharf-activate"].map(String::from).into();
    shell.push(lines.len().to_string());
    shell.extend(lines.iter().cloned());
    shell.extend(command);
    shell
}

/// Options are spelled with underscores, which all versions of torchrun accept: those before 2.0 know no other spelling.
fn torchrun(command: &[String], gang: &Gang<'_>) -> Vec<String> {
    let (program, own, rest) = if base_name(&command[0]) == "torchrun" {
        let end = 1 + options_end(&command[1..]);
        (command[0].clone(), command[1..end].to_vec(), command[end..].to_vec())
    } else {
        let (own, rest) = torchrun_target(command);
        ("torchrun".to_owned(), own, rest)
    };
    let has = |names: &[&str]| own.iter().any(|option| names.contains(&option_name(option).as_str()));
    let mut added = Vec::new();
    let mut add = |name: &str, value: &str| added.push(format!("--{name}={value}"));
    if !has(&["--nproc-per-node"]) {
        add("nproc_per_node", &gang.local_processes.to_string());
    }
    // Who makes their own rendezvous wants none of ours.
    if !has(&["--standalone"]) {
        if !has(&["--nnodes"]) {
            add("nnodes", &gang.nodes.to_string());
        }
        if !has(&["--node-rank"]) {
            add("node_rank", &gang.node_rank.to_string());
        }
        if !has(&["--rdzv-endpoint", "--rdzv-backend"]) {
            if !has(&["--master-addr"]) {
                add("master_addr", gang.master.0);
            }
            if !has(&["--master-port"]) {
                add("master_port", gang.master.1);
            }
        }
    }
    [vec![program], added, own, rest].concat()
}

/// What torchrun is to run: it starts Python itself, and has to be told where something else is meant.
fn torchrun_target(command: &[String]) -> (Vec<String>, Vec<String>) {
    let no_python = || (vec!["--no_python".to_owned()], command.to_vec());
    let program = base_name(&command[0]);
    if program.ends_with(".py") {
        return (Vec::new(), command.to_vec());
    }
    if !program.starts_with("python") {
        return no_python();
    }
    // Unbuffered is what torchrun does anyway.
    let arguments = match command.get(1).map(String::as_str) {
        Some("-u") => &command[2..],
        _ => &command[1..],
    };
    match arguments.first().map(String::as_str) {
        Some("-m") => (vec!["-m".to_owned()], arguments[1..].to_vec()),
        Some(script) if !script.starts_with('-') => (Vec::new(), arguments.to_vec()),
        _ => no_python(),
    }
}

/// Where torchrun's own options end.
fn options_end(arguments: &[String]) -> usize {
    let mut index = 0;
    while let Some(argument) = arguments.get(index).filter(|argument| argument.starts_with('-')) {
        let is_whole = argument.contains('=') || TORCHRUN_FLAGS.contains(&option_name(argument).as_str());
        index += if is_whole { 1 } else { 2 };
    }
    index.min(arguments.len())
}

/// An option without its value, and spelled in one of torchrun's two ways.
fn option_name(option: &str) -> String {
    option.split('=').next().unwrap_or(option).replace('_', "-")
}

fn mpirun(command: &[String], gang: &Gang<'_>) -> Vec<String> {
    let program = base_name(&command[0]);
    let is_horovod = program == "horovodrun";
    let is_launcher = is_horovod || program.starts_with("mpirun") || program.starts_with("mpiexec");
    let (program, rest) =
        if is_launcher { (command[0].clone(), &command[1..]) } else { ("mpirun".to_owned(), command) };
    // Where the program's own arguments begin cannot be told without knowing every option: what looks like an option of ours
    // is taken for one. At worst mpirun then counts the slots of the hostfile itself, which comes to the same.
    let own = if is_launcher { rest } else { &[] };
    let has = |names: &[&str]| {
        let names_it = |option: &String| names.contains(&option.split('=').next().unwrap_or(option));
        own.iter().take_while(|option| *option != "--").any(names_it)
    };
    let mut added = Vec::new();
    if !has(MPIRUN_COUNTS) {
        added.extend(["-np".to_owned(), gang.all_processes.to_string()]);
    }
    if !has(MPIRUN_HOSTS) {
        added.extend(["--hostfile".to_owned(), gang.hostfile.to_owned()]);
    }
    // horovodrun forwards everything of itself.
    for name in gang.forwarded.iter().filter(|_| !is_horovod) {
        let mut pairs = own.iter().zip(own.iter().skip(1));
        let is_given = |given: &String| given.split('=').next() == Some(*name);
        if !pairs.any(|(option, given)| option == "-x" && is_given(given)) {
            added.extend(["-x".to_owned(), (*name).to_owned()]);
        }
    }
    [vec![program], added, rest.to_vec()].concat()
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    fn of(launcher: Launcher, command: &str) -> String {
        let gang = Gang {
            nodes: 2,
            node_rank: 1,
            local_processes: 4,
            all_processes: 8,
            master: ("10.0.0.1", "20001"),
            hostfile: "/h",
            forwarded: &["MASTER_ADDR", "GREETING"],
        };
        launched(launcher, &words(command), &gang).join(" ")
    }

    #[test]
    fn launched_plain_is_the_command() {
        assert_eq!(of(Launcher::Plain, "python train.py --x"), "python train.py --x");
        assert_eq!(of(Launcher::PerDevice, "python train.py"), "python train.py");
    }

    #[test]
    fn launched_torchrun_inserts_what_is_missing() {
        let all = "--nproc_per_node=4 --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=20001";
        let rows = [
            ("python train.py --lr 1", format!("torchrun {all} train.py --lr 1")),
            ("python3 -u train.py", format!("torchrun {all} train.py")),
            ("python3.11 -m pkg.train -v", format!("torchrun {all} -m pkg.train -v")),
            ("python -O train.py", format!("torchrun {all} --no_python python -O train.py")),
            ("train.py", format!("torchrun {all} train.py")),
            ("./train.sh --nnodes 3", format!("torchrun {all} --no_python ./train.sh --nnodes 3")),
            ("/opt/bin/torchrun train.py", format!("/opt/bin/torchrun {all} train.py")),
            (
                "torchrun --nproc_per_node=2 --max-restarts 3 train.py --node-rank 7",
                "torchrun --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=20001 \
                 --nproc_per_node=2 --max-restarts 3 train.py --node-rank 7"
                    .into(),
            ),
            (
                "torchrun --standalone train.py",
                "torchrun --nproc_per_node=4 --standalone train.py".to_owned(),
            ),
            (
                "torchrun --rdzv-backend c10d --rdzv-endpoint a:1 -m pkg",
                "torchrun --nproc_per_node=4 --nnodes=2 --node_rank=1 --rdzv-backend c10d --rdzv-endpoint a:1 -m pkg"
                    .into(),
            ),
            ("", String::new()),
        ];
        for (command, expected) in rows {
            assert_eq!(of(Launcher::Torchrun, command), expected, "{command}");
        }
    }

    #[test]
    fn launched_mpirun_inserts_what_is_missing() {
        let forwarded = "-x MASTER_ADDR -x GREETING";
        let rows = [
            ("python t.py -n 3", format!("mpirun -np 8 --hostfile /h {forwarded} python t.py -n 3")),
            ("mpirun -np 2 ./a", format!("mpirun --hostfile /h {forwarded} -np 2 ./a")),
            (
                "/usr/bin/mpiexec.openmpi -H a:4 ./a",
                format!("/usr/bin/mpiexec.openmpi -np 8 {forwarded} -H a:4 ./a"),
            ),
            (
                "mpirun -x GREETING=hi -- ./a -np 3",
                "mpirun -np 8 --hostfile /h -x MASTER_ADDR -x GREETING=hi -- ./a -np 3".into(),
            ),
            ("horovodrun python t.py", "horovodrun -np 8 --hostfile /h python t.py".to_owned()),
        ];
        for (command, expected) in rows {
            assert_eq!(of(Launcher::Mpirun, command), expected, "{command}");
        }
    }

    #[test]
    fn activated_hands_arguments_over_untouched() {
        let run = |lines: &[&str], command: &[&str]| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let shell = activated(&lines, command.iter().map(ToString::to_string).collect());
            std::process::Command::new(&shell[0]).args(&shell[1..]).output().unwrap()
        };
        let odd = ["printf", "%s|", "$HOME", "a b", "`id`", "'\"", ""];
        let output = run(&["export GREETING=hi", "[ $# = 0 ]"], &odd);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "$HOME|a b|`id`|'\"||");
        let output = run(&["export GREETING='hi there'; cd /"], &["sh", "-c", "echo $GREETING; pwd"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hi there\n/\n");
        let output = run(&["true", "(exit 9)", "echo not reached"], &["echo", "not either"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(9), 0));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("cannot be activated: \"(exit 9)\" ended with code 9"), "{said}");
    }
}
