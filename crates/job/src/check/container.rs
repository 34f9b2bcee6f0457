//! Whether a container makes sense by itself. What the node's runtime cannot do is said there.

use wharf_proto::container::{Network, Runtime};
use wharf_proto::{Container, JobSpec, Launcher};

use super::{CheckError, LIMITS, Problem, check_environment, check_path, check_patterns, check_text, wrong};

/// Checks a job's container, if it has one.
pub(super) fn check(spec: &JobSpec) -> Result<(), CheckError> {
    match &spec.container {
        Some(container) if spec.batch.is_some() && container.per_node => {
            wrong("container.per_node", Problem::Besides("a batch script"))
        }
        Some(container) if spec.launcher() == Launcher::Ray => {
            check_for_ray(container)?;
            check_container(container)
        }
        Some(container) => check_container(container),
        None => Ok(()),
    }
}

/// The nodes of a Ray cluster reach each other at the addresses of their machines, and end with their job.
fn check_for_ray(container: &Container) -> Result<(), CheckError> {
    const RAY: &str = "the launcher `ray`";
    if matches!(container.network(), Network::Bridge | Network::None) {
        return wrong("container.network", Problem::Besides(RAY));
    }
    if container.per_node {
        return wrong("container.per_node", Problem::Besides(RAY));
    }
    Ok(())
}

fn check_container(container: &Container) -> Result<(), CheckError> {
    if container.image.is_empty() {
        return wrong("container.image", Problem::Empty);
    }
    let unknown = |field: &str, given: String, known: &str| {
        wrong(format!("container.{field}"), Problem::Unknown { given, known: known.to_owned() })
    };
    if Runtime::try_from(container.runtime).is_err() {
        let known = "auto, docker, podman, apptainer, singularity or charliecloud";
        return unknown("runtime", container.runtime.to_string(), known);
    }
    if Network::try_from(container.network).is_err() {
        return unknown("network", container.network.to_string(), "host, bridge or none");
    }
    check_texts(container)?;
    check_name(container)?;
    check_environment("container.env", &container.env)?;
    for (index, mount) in container.mounts.iter().enumerate() {
        let field = |name: &str| format!("container.mounts[{index}].{name}");
        for (name, text) in [("src", &mount.src), ("dst", &mount.dst)] {
            check_text(&field(name), text)?;
            if text.is_empty() {
                return wrong(field(name), Problem::Empty);
            }
        }
        check_path(&field("dst"), &mount.dst)?;
        // Without any `/` it is the name of a volume.
        if mount.src.contains('/') {
            check_path(&field("src"), &mount.src)?;
        }
    }
    if let Some(limit) = container.ulimits.iter().find(|limit| !LIMITS.contains(&limit.name.as_str())) {
        return unknown("ulimits", limit.name.clone(), &LIMITS.join(", "));
    }
    if container.shm_host && container.shm_bytes > 0 {
        return wrong("container.shm", Problem::Besides("itself"));
    }
    Ok(())
}

fn check_texts(container: &Container) -> Result<(), CheckError> {
    check_text("container.image", &container.image)?;
    check_text("container.user", &container.user)?;
    check_path("container.env_file", &container.env_file)?;
    check_path("container.workdir", &container.workdir)?;
    for (field, words) in [("entrypoint", &container.entrypoint), ("devices", &container.devices)] {
        words.iter().try_for_each(|word| check_text(&format!("container.{field}"), word))?;
    }
    container.devices.iter().try_for_each(|device| check_path("container.devices", device))
}

/// As docker and podman take names, where patterns stand for letters.
fn check_name(container: &Container) -> Result<(), CheckError> {
    let name = container.name.as_str();
    if container.per_node && name.is_empty() {
        return wrong("container.name", Problem::Empty);
    }
    check_patterns("container.name", name)?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-%".contains(letter);
    let is_name = name.len() >= 2 && name.chars().all(plain) && !name.starts_with(['.', '-', '_']);
    if name.is_empty() || is_name {
        return Ok(());
    }
    wrong("container.name", Problem::ContainerName(name.escape_debug().to_string()))
}

#[cfg(test)]
mod tests {
    use wharf_proto::{Mount, ResourceLimit};

    use super::*;

    type Change = fn(&mut Container);

    #[test]
    fn a_ray_cluster_needs_the_machines_network_and_containers_of_its_own() {
        let good = Container { image: "image:1".into(), ..Container::default() };
        let job = |container: Container| {
            let mut spec = JobSpec { container: Some(container), ..JobSpec::default() };
            spec.set_launcher(Launcher::Ray);
            check(&spec).map_err(|error| error.to_string())
        };
        assert_eq!(job(good.clone()), Ok(()));
        let bridge = Container { network: Network::Bridge.into(), ..good.clone() };
        let staying = Container { per_node: true, name: "stays".into(), ..good };
        for (container, field) in [(bridge, "network"), (staying, "per_node")] {
            let refused = job(container).unwrap_err();
            assert!(refused.starts_with(&format!("container.{field}: ")), "{refused}");
            assert!(refused.contains("the launcher `ray`"), "{refused}");
        }
    }

    #[test]
    fn containers_that_cannot_be_are_refused() {
        let mount = |src: &str, dst: &str| Mount { src: src.into(), dst: dst.into(), read_only: false };
        let good = Container {
            image: "busybox:1".into(),
            name: "run-%j".into(),
            mounts: vec![mount("/a", "/b"), mount("volume", "/c")],
            ..Container::default()
        };
        assert_eq!(check_container(&good), Ok(()));
        let table: &[(&str, Change)] = &[
            ("image: is empty; remove it or set a value", |container| container.image.clear()),
            (
                "runtime: `9` is unknown; expected one of auto, docker, podman, apptainer, singularity or charliecloud",
                |container| container.runtime = 9,
            ),
            ("network: `9` is unknown; expected one of host, bridge or none", |container| {
                container.network = 9
            }),
            (
                "name: `a` is not a valid container name; expected two or more letters, digits, `_`, `-` and `.`",
                |container| container.name = "a".into(),
            ),
            ("name: is empty; remove it or set a value", |container| {
                container.name.clear();
                container.per_node = true;
            }),
            ("mounts[0].dst: `b` is not an absolute path", |container| {
                container.mounts[0].dst = "b".into();
            }),
            ("mounts[0].src: `./b` is not an absolute path", |container| {
                container.mounts[0].src = "./b".into();
            }),
            ("workdir: `x` is not an absolute path", |container| {
                container.workdir = "x".into();
            }),
            ("env: `A=B` is not a valid variable name", |container| {
                container.env.insert("A=B".into(), String::new());
            }),
        ];
        for (expected, change) in table {
            let mut container = good.clone();
            change(&mut container);
            let refused = check_container(&container).unwrap_err().to_string();
            assert_eq!(refused, format!("container.{expected}"));
        }
        let ulimits = vec![ResourceLimit { name: "files".into(), value: None }];
        let refused = check_container(&Container { ulimits, ..good }).unwrap_err().to_string();
        assert!(
            refused.starts_with("container.ulimits: `files` is unknown; expected one of as, "),
            "{refused}"
        );
    }
}
