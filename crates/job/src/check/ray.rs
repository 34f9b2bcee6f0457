//! The settings of a Ray cluster on a job's gang.

use wharf_proto::{JobSpec, Launcher};

use super::{CheckError, Problem, check_path, check_text, wrong};

const HEAD_ARGS: &str = "ray.head_args";
const WORKER_ARGS: &str = "ray.worker_args";

/// Options of `ray start` that name one port, for Ray's head only and for every node.
const HEAD_PORTS: [&str; 3] = ["--port", "--ray-client-server-port", "--dashboard-port"];
const NODE_PORTS: [&str; 6] = [
    "--node-manager-port",
    "--object-manager-port",
    "--runtime-env-agent-port",
    "--dashboard-agent-grpc-port",
    "--dashboard-agent-listen-port",
    "--metrics-export-port",
];
/// The ports of Ray's workers.
const FIRST: &str = "--min-worker-port";
const LAST: &str = "--max-worker-port";

/// Options that Wharf sets itself, and what to use in their place.
const OWN: [(&str, &str); 5] = [
    ("--head", "leave it out"),
    ("--address", "leave it out"),
    ("--block", "leave it out"),
    ("--node-ip-address", "leave it out: it is the node's address in the cluster"),
    ("--temp-dir", "use `ray.temp_dir`"),
];

/// Why arguments would keep a Ray cluster from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RayArgumentError {
    /// Wharf sets the option itself.
    #[error("`{option}` is set by Wharf; {instead}")]
    Reserved {
        /// The option.
        option: &'static str,
        /// The field to use instead.
        instead: &'static str,
    },
    /// The option is one of the head, given to workers.
    #[error("`{option}` is an option of Ray's head; give it in `{HEAD_ARGS}`")]
    HeadOnly {
        /// The option.
        option: &'static str,
    },
    /// The value is no port.
    #[error(
        "`{option}` needs a port from 1 to 65535, found `{value}`; without the option a free one is used"
    )]
    Port {
        /// The option.
        option: String,
        /// Its value.
        value: String,
    },
    /// The range of the workers' ports is incomplete or empty.
    #[error("`{FIRST}` and `{LAST}` go together, and the first is not above the last")]
    Range,
    /// Two options have the same port.
    #[error("port {port} is given to `{one}` and to `{other}`; use different ports")]
    Twice {
        /// The port.
        port: u16,
        /// The first option.
        one: String,
        /// The second option.
        other: String,
    },
    /// A port is in the range of the workers.
    #[error("port {port} of `{option}` is among the workers' ports, {first} to {last}")]
    Worker {
        /// The port.
        port: u16,
        /// Its option.
        option: String,
        /// The first port of the range.
        first: u16,
        /// The last port of the range.
        last: u16,
    },
}

/// Arguments as options and their values, in both forms: `--port=1` and `--port 1`.
fn options(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    words.iter().enumerate().filter(|(_, word)| word.starts_with("--")).map(|(index, word)| {
        let next = || words.get(index + 1).map_or("", String::as_str);
        word.split_once('=').unwrap_or_else(|| (word, next()))
    })
}

/// Refuses arguments with which no Ray cluster could come up: options that Wharf sets, and ports that are none or are given twice.
fn check_arguments(words: &[String], is_head: bool) -> Result<(), RayArgumentError> {
    if let Some((option, instead)) =
        OWN.iter().find(|(own, _)| options(words).any(|(option, _)| option == *own))
    {
        return Err(RayArgumentError::Reserved { option, instead });
    }
    if let Some(option) =
        HEAD_PORTS.iter().find(|own| !is_head && options(words).any(|(option, _)| option == **own))
    {
        return Err(RayArgumentError::HeadOnly { option });
    }
    let single = || HEAD_PORTS.iter().chain(&NODE_PORTS).chain([&FIRST, &LAST]);
    let mut ports: Vec<(&str, u16)> = Vec::new();
    for (option, value) in options(words).filter(|(option, _)| single().any(|known| known == option)) {
        let Some(port) = value.parse().ok().filter(|&port: &u16| port > 0) else {
            return Err(RayArgumentError::Port { option: option.to_owned(), value: value.to_owned() });
        };
        ports.retain(|(other, _)| *other != option);
        ports.push((option, port));
    }
    check_distinct(&ports)
}

/// Refuses ports that two options claim.
fn check_distinct(ports: &[(&str, u16)]) -> Result<(), RayArgumentError> {
    let of = |name: &str| ports.iter().find(|(option, _)| *option == name).map(|(_, port)| *port);
    let workers = match (of(FIRST), of(LAST)) {
        (None, None) => None,
        (Some(first), Some(last)) if first <= last => Some(first..=last),
        _ => return Err(RayArgumentError::Range),
    };
    let single: Vec<_> = ports.iter().filter(|(option, _)| ![FIRST, LAST].contains(option)).collect();
    for (index, (option, port)) in single.iter().enumerate() {
        if let Some((other, _)) = single[..index].iter().find(|(_, other)| other == port) {
            let (one, other) = ((*other).to_owned(), (*option).to_owned());
            return Err(RayArgumentError::Twice { port: *port, one, other });
        }
        if let Some(range) = workers.as_ref().filter(|range| range.contains(port)) {
            let (first, last) = (range.start(), range.end());
            return Err(RayArgumentError::Worker {
                port: *port,
                option: (*option).to_owned(),
                first: *first,
                last: *last,
            });
        }
    }
    Ok(())
}

/// Checks the settings of a job's Ray cluster.
pub(super) fn check(spec: &JobSpec) -> Result<(), CheckError> {
    let Some(ray) = &spec.ray else { return Ok(()) };
    if spec.launcher() != Launcher::Ray {
        return wrong("ray", Problem::Besides("another launcher than `ray`"));
    }
    check_text("ray.program", &ray.program)?;
    check_text("ray.dashboard_host", &ray.dashboard_host)?;
    check_path("ray.temp_dir", &ray.temp_dir)?;
    for (field, words) in [(HEAD_ARGS, &ray.head_args), (WORKER_ARGS, &ray.worker_args)] {
        words.iter().try_for_each(|word| check_text(field, word))?;
        let refused = |error| wrong(field, Problem::RayArgument(error));
        check_arguments(words, field == HEAD_ARGS).or_else(refused)?;
    }
    let seconds = ray.ready_timeout_s;
    if !seconds.is_finite() || seconds < 0.0 {
        return wrong("ray.ready_timeout", Problem::NotAnAmount(seconds.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wharf_proto::Ray;

    use super::*;

    fn spec(ray: Ray) -> JobSpec {
        JobSpec { launcher: Launcher::Ray.into(), ray: Some(ray), ..JobSpec::default() }
    }

    #[test]
    fn arguments_with_which_no_cluster_comes_up_are_refused() {
        let said = |head: &str, worker: &str| {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            let ray = Ray { head_args: words(head), worker_args: words(worker), ..Ray::default() };
            check(&spec(ray)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for fine in [
            "--port=26379",
            "--port 26379 --dashboard-port=8265 --num-cpus=2",
            "--port=1 --port=2 --dashboard-port=1",
            "--min-worker-port=10000 --max-worker-port=10100 --port=9999",
            "--system-config={\"port\":0}",
        ] {
            assert_eq!(said(fine, ""), "", "{fine}");
        }
        let needs = |field: &str, option: &str, found: &str| {
            format!(
                "{field}: `{option}` needs a port from 1 to 65535, found `{found}`; without the option a free one is used"
            )
        };
        let pair = "ray.head_args: `--min-worker-port` and `--max-worker-port` go together, and the first is not above the last";
        for (head, worker, expected) in [
            ("--port=0", "", needs("ray.head_args", "--port", "0")),
            ("--port", "", needs("ray.head_args", "--port", "")),
            ("--port=70000", "", needs("ray.head_args", "--port", "70000")),
            ("", "--node-manager-port x", needs("ray.worker_args", "--node-manager-port", "x")),
            (
                "--port=26379 --dashboard-port 26379",
                "",
                "ray.head_args: port 26379 is given to `--port` and to `--dashboard-port`; use different ports".into(),
            ),
            (
                "--min-worker-port=10000 --max-worker-port=10100 --port=10050",
                "",
                "ray.head_args: port 10050 of `--port` is among the workers' ports, 10000 to 10100".into(),
            ),
            ("--min-worker-port=10000", "", pair.into()),
            ("--min-worker-port=2 --max-worker-port=1", "", pair.into()),
            (
                "",
                "--port=26379",
                "ray.worker_args: `--port` is an option of Ray's head; give it in `ray.head_args`".into(),
            ),
            ("--temp-dir=/x", "", "ray.head_args: `--temp-dir` is set by Wharf; use `ray.temp_dir`".into()),
            ("", "--address=a:1", "ray.worker_args: `--address` is set by Wharf; leave it out".into()),
        ] {
            assert_eq!(said(head, worker), expected, "{head} | {worker}");
        }
    }

    #[test]
    fn invalid_ray_settings_are_refused() {
        let said = |spec: &JobSpec| check(spec).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said(&spec(Ray { temp_dir: "/tmp".into(), ..Ray::default() })), "");
        let rows = [
            (
                spec(Ray { temp_dir: "here".into(), ..Ray::default() }),
                "ray.temp_dir: `here` is not an absolute path",
            ),
            (
                spec(Ray { ready_timeout_s: -1.0, ..Ray::default() }),
                "ray.ready_timeout: -1 is not a number from 0 on",
            ),
            (
                JobSpec { ray: Some(Ray::default()), ..JobSpec::default() },
                "ray: conflicts with another launcher than `ray`; remove one of them",
            ),
        ];
        for (spec, expected) in rows {
            assert_eq!(said(&spec), expected);
        }
    }
}
