//! Containers of batch jobs: Slurm's own `--container`, and the options that sites know from the plugin for images.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf_job::{Container, Mount};
use wharf_proto as proto;

use super::CommandError;
use crate::grammar::{Refusal, Request, joined};

/// Variables of the submitting machine that are wrong within an image, which has its own.
const OF_THE_MACHINE: &[&str] =
    &["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "SHELL", "TMPDIR", "HOSTNAME", "BASH_ENV", "ENV"];

/// The container that a request asks for; relative paths are below `folder`.
pub(super) fn of(request: &Request, folder: &str) -> Result<Option<proto::Container>, CommandError> {
    let (bundle, image) = (request.get("container"), request.get("container-image"));
    let Some(named) = image.or(bundle) else {
        let needing = ["container-mounts", "container-workdir", "container-writable"];
        return match needing.iter().find(|option| request.has(option)) {
            Some(option) => Err(Refusal::failed(format!("--{option} needs --container-image")).into()),
            None => Ok(None),
        };
    };
    let mut container = Container { image: Some(named.to_owned()), ..Container::default() };
    if image.is_none() {
        read_bundle(&mut container, &joined(folder, named))?;
    }
    let mounts =
        request.get("container-mounts").unwrap_or_default().split(',').filter(|text| !text.is_empty());
    let mount = |text: &str| {
        text.parse::<Mount>().map_err(|error| CommandError::failed(format!("--container-mounts: {error}")))
    };
    container.mounts = Some(mounts.map(mount).collect::<Result<_, CommandError>>()?);
    container.workdir = request.get("container-workdir").map(str::to_owned);
    container.writable_root = Some(request.has("container-writable"));
    Ok(Some(container.to_wire(|path| PathBuf::from(joined(folder, path.trim_start_matches("./"))))))
}

/// Drops what is the submitting machine's own from what goes into a container.
pub(super) fn is_within(name: &str) -> bool {
    !OF_THE_MACHINE.contains(&name)
}

/// Slurm's `--container` names the folder of an OCI bundle: its files and variables are taken from there. Whatever else is named
/// is an image.
fn read_bundle(container: &mut Container, folder: &str) -> Result<(), CommandError> {
    let path = Path::new(folder).join("config.json");
    if !path.exists() {
        if Path::new(folder).exists() {
            container.image = Some(folder.to_owned());
        }
        return Ok(());
    }
    let wrong =
        |why: &dyn std::fmt::Display| CommandError::failed(format!("--container: {}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    let config: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    let root = config["root"]["path"].as_str().ok_or_else(|| wrong(&"there is no root.path"))?;
    container.image = Some(joined(folder, root));
    let variables = config["process"]["env"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    container.env = Some(variables.filter_map(pair).collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::getopt::{self, Order};
    use crate::grammar::options;

    fn asked(line: &str, folder: &str) -> Result<Option<proto::Container>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = getopt::parse(&options::sbatch(), &words, Order::First).unwrap();
        of(&Request::of_command_line(&parsed.given).unwrap(), folder).map_err(|fail| match fail {
            CommandError::Refused(refusal) => refusal.text,
            _ => String::new(),
        })
    }

    #[test]
    fn images_are_asked_for_as_sites_do() {
        let line = "--container-image=./img --container-mounts=/data:/in:ro,/scratch --container-workdir=/w";
        let container = asked(line, "/fs/ann").unwrap().unwrap();
        assert_eq!((container.image.as_str(), container.workdir.as_str()), ("/fs/ann/img", "/w"));
        let mounts: Vec<_> =
            container.mounts.iter().map(|mount| (&*mount.src, &*mount.dst, mount.read_only)).collect();
        assert_eq!(mounts, [("/data", "/in", true), ("/scratch", "/scratch", false)]);
        assert_eq!(asked("--container-image=ubuntu:22.04", "/x").unwrap().unwrap().image, "ubuntu:22.04");
        assert_eq!(asked("-n2", "/x"), Ok(None));
        assert_eq!(
            asked("--container-workdir=/w", "/x").unwrap_err(),
            "--container-workdir needs --container-image"
        );
        let wrong = asked("--container-image=a --container-mounts=:", "/x").unwrap_err();
        assert!(wrong.starts_with("--container-mounts: "), "{wrong}");
    }

    #[test]
    fn bundle_lists_the_places_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"root": {"path": "rootfs"}, "process": {"env": ["PATH=/opt/bin", "A=b=c"]}}"#;
        std::fs::write(dir.path().join("config.json"), text).unwrap();
        let folder = dir.path().to_string_lossy().into_owned();
        let container = asked(&format!("--container={folder}"), "/").unwrap().unwrap();
        assert_eq!(container.image, format!("{folder}/rootfs"));
        assert_eq!((&*container.env["PATH"], &*container.env["A"]), ("/opt/bin", "b=c"));
        std::fs::write(dir.path().join("config.json"), "{}").unwrap();
        let wrong = asked(&format!("--container={folder}"), "/").unwrap_err();
        assert!(wrong.ends_with("config.json: there is no root.path"), "{wrong}");
        let plain = tempfile::tempdir().unwrap();
        let plain = plain.path().to_string_lossy().into_owned();
        assert_eq!(asked(&format!("--container={plain}"), "/").unwrap().unwrap().image, plain);
    }
}
