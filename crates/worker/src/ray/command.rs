//! What is executed: `ray start` with every port said, and a look at who is alive.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Plan;
use super::blocks::{Block, port};

/// Counts living Ray nodes until there are enough. Dead ones stay in Ray's list. `ray.nodes` is the one way to ask that every
/// version of Ray has, with its dashboard and without.
pub(super) const COUNT: &str = "\
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')
wanted, seen = int(sys.argv[2]), None
while seen is None or seen < wanted:
    alive = sum(1 for node in ray.nodes() if node['Alive'])
    if alive != seen:
        print(alive, flush=True)
        seen = alive
    time.sleep(0 if seen >= wanted else 0.25)
";

/// Options of `ray start --head` that name ports, and which ports of a block they are.
const HEAD_PORTS: [(&str, u16); 3] = [
    ("--port", port::GCS),
    ("--ray-client-server-port", port::CLIENT),
    ("--dashboard-port", port::DASHBOARD),
];
/// The same for every node.
const NODE_PORTS: [(&str, u16); 6] = [
    ("--node-manager-port", port::NODE_MANAGER),
    ("--object-manager-port", port::OBJECT_MANAGER),
    ("--runtime-env-agent-port", port::RUNTIME_ENV_AGENT),
    ("--dashboard-agent-grpc-port", port::AGENT_GRPC),
    ("--dashboard-agent-listen-port", port::AGENT_HTTP),
    ("--metrics-export-port", port::METRICS),
];

/// The ports that the job's own arguments fix on this node, with their options. The head has checked that they are numbers.
pub(super) fn fixed_ports(plan: &Plan) -> Vec<(&'static str, u16)> {
    let of_head = if plan.is_head() { HEAD_PORTS.as_slice() } else { &[] };
    let options = of_head.iter().chain(&NODE_PORTS).map(|(option, _)| *option);
    options.filter_map(|option| Some((option, fixed(&plan.arguments, option)?))).collect()
}

/// The value of an option in either form, `--port=1` or `--port 1`; of several the last, as Ray takes it.
fn fixed(arguments: &[String], option: &str) -> Option<u16> {
    let value = |(index, word): (usize, &String)| {
        match word.strip_prefix(option)? {
            "" => arguments.get(index + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        }
        .and_then(|text| text.parse().ok())
    };
    arguments.iter().enumerate().filter_map(value).next_back()
}

/// The port of Ray's head.
pub(super) fn gcs_port(plan: &Plan, block: &Block) -> u16 {
    fixed(&plan.arguments, "--port").unwrap_or_else(|| block.port(port::GCS))
}

/// The port of the dashboard.
pub(super) fn dashboard_port(plan: &Plan, block: &Block) -> u16 {
    fixed(&plan.arguments, "--dashboard-port").unwrap_or_else(|| block.port(port::DASHBOARD))
}

/// Ports of the block for the options that the job's arguments do not have.
fn chosen_ports(plan: &Plan, block: &Block, options: &[(&str, u16)]) -> Vec<String> {
    let is_chosen = |(option, _): &&(&str, u16)| fixed(&plan.arguments, option).is_none();
    let chosen = options.iter().filter(is_chosen);
    chosen.map(|(option, offset)| format!("{option}={}", block.port(*offset))).collect()
}

/// The arguments of `ray start` for the first node.
pub(super) fn head(plan: &Plan, block: &Block, folder: &Path) -> Vec<String> {
    let mut words = vec!["start".to_owned(), "--head".to_owned()];
    words.extend(chosen_ports(plan, block, &HEAD_PORTS));
    words.push(format!("--include-dashboard={}", plan.dashboard.is_some()));
    words.extend(plan.dashboard.iter().map(|host| format!("--dashboard-host={host}")));
    words.extend(common(plan, block, folder));
    words
}

/// The arguments of `ray start` for the others.
pub(super) fn worker(plan: &Plan, block: &Block, folder: &Path, head: &str) -> Vec<String> {
    let mut words = vec!["start".to_owned(), format!("--address={head}")];
    words.extend(common(plan, block, folder));
    words
}

fn common(plan: &Plan, block: &Block, folder: &Path) -> Vec<String> {
    let mut words = vec!["--block".to_owned(), "--disable-usage-stats".to_owned()];
    let mut set = |name: &str, value: String| words.push(format!("--{name}={value}"));
    set("node-ip-address", plan.rays_address(plan.rank).to_owned());
    set("temp-dir", folder.display().to_string());
    let (first, last) = block.workers();
    if !plan.arguments.iter().any(|word| WORKER_PORTS.iter().any(|option| word.starts_with(option))) {
        set("min-worker-port", first.to_string());
        set("max-worker-port", last.to_string());
    }
    set("num-cpus", plan.cpus.to_string());
    set("num-gpus", plan.gpus.to_string());
    for (name, bytes) in [("object-store-memory", plan.object_store_bytes), ("memory", plan.memory_bytes)] {
        if bytes > 0 {
            set(name, bytes.to_string());
        }
    }
    words.extend(chosen_ports(plan, block, &NODE_PORTS));
    words.extend(plan.arguments.iter().cloned());
    words
}

/// Options for the ports of Ray's own workers.
const WORKER_PORTS: [&str; 3] = ["--min-worker-port", "--max-worker-port", "--worker-port-list"];

/// The option that this version of Ray does not have, where it refused to start because of one.
pub(super) fn unknown_option(said: &str) -> Option<&str> {
    let (_, rest) = said.rsplit_once("No such option: ").or_else(|| said.rsplit_once("no such option: "))?;
    rest.split_whitespace().next().filter(|option| option.starts_with("--"))
}

/// A program by its path, or by its name among the folders of a search path.
pub(super) fn find(program: &str, search: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    search.split(':').map(|folder| Path::new(folder).join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// The Python that a `ray` program runs with: as its first line says, or the one that lies beside it.
pub(super) fn python(ray: &Path) -> PathBuf {
    let text = std::fs::read(ray).unwrap_or_default();
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let named = line.strip_prefix("#!").map(|line| PathBuf::from(line.trim()));
    let is_python = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_absolute() && name.starts_with("python") && is_program(path)
    };
    let beside = ["python3", "python"].map(|name| ray.with_file_name(name));
    named.into_iter().chain(beside).find(is_python).unwrap_or_else(|| PathBuf::from("python3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_ports_are_found_in_both_forms_and_the_last_one_counts() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, expected) in [
            ("--port=26379", Some(26_379)),
            ("--port 26379 --x", Some(26_379)),
            ("--port=1 --port=2", Some(2)),
            ("--port-list=7 --portable=8", None),
            ("--labels=a=b", None),
            ("--port", None),
        ] {
            assert_eq!(fixed(&words(text), "--port"), expected, "{text}");
        }
    }

    #[test]
    fn unknown_options_are_distinguished_from_other_failures() {
        for (said, expected) in [
            (
                "Usage: ray start\n\nError: No such option: --runtime-env-agent-port",
                Some("--runtime-env-agent-port"),
            ),
            (
                "Error: no such option: --metrics-export-port  Did you mean --x?",
                Some("--metrics-export-port"),
            ),
            ("ConnectionError: could not connect", None),
        ] {
            assert_eq!(unknown_option(said), expected, "{said}");
        }
    }

    #[test]
    fn rays_python_is_the_one_of_its_first_line_or_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let named = file("python3.12", "");
        let ray = file("ray", &format!("#!{}\nimport ray\n", named.display()));
        assert_eq!(python(&ray), named);
        let wrapped = file("wrapped", "#!/bin/sh\n");
        assert_eq!(python(&wrapped), Path::new("python3"));
        let beside = file("python", "");
        assert_eq!(python(&wrapped), beside);
        let search = format!("/no/such/folder:{}", folder.path().display());
        assert_eq!(find("ray", &search), Some(ray.clone()));
        assert_eq!(find(ray.to_str().unwrap(), ""), Some(ray));
        assert_eq!(find("raz", &search), None);
    }
}
