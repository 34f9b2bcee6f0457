//! A command within a container, as a line of shell for a node of which only the programs are known: other executors than Wharf's
//! own workers run it.

use std::collections::BTreeMap;

use wharf_document::shell::{line, quote};
use wharf_proto::Container;
use wharf_proto::container::{Network, Runtime};

/// Variables about the machine: the runtime's own program must not see the job's values.
const OF_THE_MACHINE: [&str; 9] =
    ["PATH", "HOME", "USER", "SHELL", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "BASH_ENV", "ENV"];
/// Prefixes of variables that runtimes read.
const OF_RUNTIMES: [&str; 8] =
    ["XDG_", "DOCKER_", "CONTAINER", "PODMAN_", "APPTAINER", "SINGULARITY", "CH_", "DBUS_"];
/// Folders that an image has of its own: the job's folder does not take their place.
const OF_IMAGES: [&str; 8] = ["/", "/bin", "/dev", "/etc", "/lib", "/proc", "/sys", "/usr"];
/// Folders of the node that containers of charliecloud have in any case.
const SHARED: [&str; 4] = ["/tmp", "/dev", "/proc", "/sys"];

/// Whether a variable would change what a runtime's program itself does.
pub(crate) fn misleads(name: &str) -> bool {
    OF_THE_MACHINE.contains(&name) || OF_RUNTIMES.iter().any(|prefix| name.starts_with(prefix))
}

/// A field of a container that is not supported here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Refused {
    /// The field, as a job file has it.
    pub field: String,
    /// Why not.
    pub reason: String,
}

impl Refused {
    fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: format!("container.{field}"), reason: reason.into() }
    }
}

/// A container, and what its command needs of the node.
#[derive(Clone, Copy, Debug)]
pub struct Within<'a> {
    /// The container.
    pub container: &'a Container,
    /// The job's folder on the node: seen at the same path, unless the container names a folder. Empty: none.
    pub workdir: &'a str,
    /// The job's variables.
    pub env: &'a BTreeMap<String, String>,
    /// Names of further variables that are handed in, where they are set.
    pub inherited: &'a [&'a str],
    /// Whether it is to see the node's GPUs.
    pub has_gpus: bool,
    /// Whether it talks to processes of the node through shared memory and sockets below this folder.
    pub sockets: Option<&'a str>,
}

impl<'a> Within<'a> {
    /// Variables for the environment of the runtime's program, from which they reach the container.
    #[must_use]
    pub fn exported(&self) -> BTreeMap<&'a str, &'a str> {
        let mut all = self.variables();
        all.retain(|name, _| !misleads(name));
        all
    }

    /// The job's variables and the container's own, which are stronger.
    fn variables(&self) -> BTreeMap<&'a str, &'a str> {
        let all = self.env.iter().chain(&self.container.env);
        all.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Variables that only the container gets.
    fn own(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.variables().into_iter().filter(|(name, _)| misleads(name))
    }

    /// Lines of shell that end as the command within. Where the job names no runtime, the first is used that the node has.
    ///
    /// # Errors
    /// [`Refused`] names what the runtime, or a script without a worker, cannot do.
    pub fn script(&self, command: &[String]) -> Result<String, Refused> {
        let Container { image, .. } = self.container;
        for (field, is_given) in [
            ("name", !self.container.name.is_empty()),
            ("remove", self.container.keep),
            ("per_node", self.container.per_node),
            ("infiniband", self.container.infiniband),
        ] {
            if is_given {
                return Err(Refused::new(field, "only Wharf's own workers can do that; leave it out"));
            }
        }
        let is_file = image.starts_with('/');
        let candidates: &[Runtime] = match self.container.runtime() {
            Runtime::Auto if image.ends_with(".sif") => &[Runtime::Apptainer, Runtime::Singularity],
            Runtime::Auto if is_file => &[Runtime::Charliecloud, Runtime::Apptainer, Runtime::Singularity],
            Runtime::Auto => &[Runtime::Podman, Runtime::Docker, Runtime::Apptainer, Runtime::Singularity],
            runtime => &[runtime],
        };
        if let [runtime] = candidates {
            return self.line(*runtime, command);
        }
        // What the first choice cannot do is refused for all: which of them the node has is not known.
        let lines = candidates.iter().map(|&runtime| Ok((program(runtime), self.line(runtime, command)?)));
        let lines = lines.collect::<Result<Vec<_>, Refused>>().map_err(|refused| Refused {
            reason: format!("{}; name a `runtime` that can", refused.reason),
            ..refused
        })?;
        let mut text = String::new();
        for (program, line) in &lines {
            let word = if text.is_empty() { "if" } else { "elif" };
            text += &format!("{word} command -v {program} > /dev/null; then\n{line}\n");
        }
        let programs: Vec<&str> = lines.iter().map(|(program, _)| *program).collect();
        let missing = format!(
            "wharf: no container runtime of this node supports the image {image}; install one of {}",
            programs.join(", ")
        );
        Ok(format!("{text}else\necho {} >&2\nexit 127\nfi", quote(&missing)))
    }

    fn line(&self, runtime: Runtime, command: &[String]) -> Result<String, Refused> {
        match runtime {
            Runtime::Charliecloud => self.charliecloud(command),
            Runtime::Apptainer | Runtime::Singularity => self.apptainer(runtime, command),
            Runtime::Auto | Runtime::Podman | Runtime::Docker => self.engine(runtime, command),
        }
    }

    /// Where it runs, and the job's folder where it has to be mounted for that.
    fn folder(&self) -> (&str, Option<&str>) {
        match self.container.workdir.as_str() {
            "" if self.workdir.is_empty() || OF_IMAGES.contains(&self.workdir) => ("/", None),
            "" => (self.workdir, Some(self.workdir)),
            named => (named, None),
        }
    }

    /// Sources, targets and whether they can only be read.
    fn mounts(&self) -> Vec<(&str, &str, bool)> {
        let given = self.container.mounts.iter();
        let mut all: Vec<(&str, &str, bool)> =
            given.map(|mount| (mount.src.as_str(), mount.dst.as_str(), mount.read_only)).collect();
        let own = self.folder().1.filter(|folder| !all.iter().any(|(_, dst, _)| dst == folder));
        all.extend(own.map(|folder| (folder, folder, false)));
        all
    }

    /// Refuses what a runtime cannot do.
    fn refuse(&self, runtime: Runtime, fields: &[(&str, bool)]) -> Result<(), Refused> {
        match fields.iter().find(|(_, is_given)| *is_given) {
            Some((field, _)) => {
                Err(Refused::new(field, format!("{} cannot do that; leave it out", program(runtime))))
            }
            None => Ok(()),
        }
    }

    /// Named volumes are kept by docker and podman.
    fn refuse_volumes(&self) -> Result<(), Refused> {
        match self.container.mounts.iter().find(|mount| !mount.src.starts_with('/')) {
            None => Ok(()),
            Some(mount) => {
                let reason = format!(
                    "`{}` is a named volume, which only docker and podman have; mount a path",
                    mount.src
                );
                Err(Refused::new("mounts", reason))
            }
        }
    }

    /// `run` of podman or docker.
    fn engine(&self, runtime: Runtime, command: &[String]) -> Result<String, Refused> {
        let container = self.container;
        if container.image.starts_with('/') {
            let (program, image) = (program(runtime), &container.image);
            let reason = format!(
                "{program} runs images by name, found the file `{image}`; use `runtime: charliecloud` or `apptainer`"
            );
            return Err(Refused::new("image", reason));
        }
        let (folder, _) = self.folder();
        let mut words: Vec<String> = vec![program(runtime).into(), "run".into(), "--rm".into()];
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        for (src, dst, read_only) in self.mounts() {
            if src.contains(':') || dst.contains(':') {
                return Err(Refused::new(
                    "mounts",
                    format!("`{src}:{dst}` has a `:` in a path, which parts it"),
                ));
            }
            add("-v", format!("{src}:{dst}{}", if read_only { ":ro" } else { "" }));
        }
        if let Some(sockets) = self.sockets {
            add("-v", format!("{sockets}:{sockets}"));
        }
        for device in &container.devices {
            add("--device", device.clone());
        }
        if !container.env_file.is_empty() {
            add("--env-file", container.env_file.clone());
        }
        for name in self.exported().keys().chain(self.inherited) {
            add("-e", (*name).to_owned());
        }
        for (name, value) in self.own() {
            add("-e", format!("{name}={value}"));
        }
        for limit in &container.ulimits {
            let value = limit.value.map_or_else(|| "-1".to_owned(), |value| value.to_string());
            add("--ulimit", format!("{}={value}:{value}", limit.name));
        }
        if !container.user.is_empty() {
            add("--user", container.user.clone());
        }
        add("-w", folder.to_owned());
        words.push(format!("--network={}", network(container)));
        match container.shm_bytes {
            _ if container.shm_host || self.sockets.is_some() => words.push("--ipc=host".into()),
            0 => {}
            bytes => words.push(format!("--shm-size={bytes}b")),
        }
        if self.has_gpus && runtime == Runtime::Docker {
            words.extend(["--gpus", "all"].map(str::to_owned));
        } else if self.has_gpus {
            words.extend(
                ["--device", "nvidia.com/gpu=all", "--security-opt=label=disable"].map(str::to_owned),
            );
        }
        for (flag, is_set) in [("--privileged", container.privileged), ("--init", container.init)] {
            words.extend(is_set.then(|| flag.to_owned()));
        }
        let mut entry = container.entrypoint.iter();
        if let Some(first) = entry.next() {
            words.extend(["--entrypoint".to_owned(), first.clone()]);
        }
        words.push(container.image.clone());
        words.extend(entry.chain(command).cloned());
        Ok(format!("exec {}", line(words.iter().map(String::as_str))))
    }

    /// `exec` of apptainer or singularity, which have the node's network, shared memory and `/tmp`, and the environment.
    fn apptainer(&self, runtime: Runtime, command: &[String]) -> Result<String, Refused> {
        let container = self.container;
        self.refuse(
            runtime,
            &[
                ("shm", container.shm_bytes > 0),
                ("network", matches!(container.network(), Network::Bridge | Network::None)),
                ("privileged", container.privileged),
                ("user", !container.user.is_empty()),
                ("ulimits", !container.ulimits.is_empty()),
                ("init", container.init),
            ],
        )?;
        self.refuse_volumes()?;
        let escaped = |path: &str| path.replace(',', "\\,").replace(':', "\\:");
        let (folder, _) = self.folder();
        let mut words: Vec<String> = vec![program(runtime).into(), "--quiet".into(), "exec".into()];
        words.extend(self.has_gpus.then(|| "--nv".to_owned()));
        for (src, dst, read_only) in self.mounts() {
            let read_only = if read_only { ":ro" } else { "" };
            words.extend(["--bind".to_owned(), format!("{}:{}{read_only}", escaped(src), escaped(dst))]);
        }
        words.extend(container.devices.iter().flat_map(|device| ["--bind".to_owned(), escaped(device)]));
        words.extend(container.writable_root.then(|| "--writable-tmpfs".to_owned()));
        if !container.env_file.is_empty() {
            words.extend(["--env-file".to_owned(), container.env_file.clone()]);
        }
        let is_name = !container.image.starts_with('/') && !container.image.contains("://");
        let image = if is_name { format!("docker://{}", container.image) } else { container.image.clone() };
        words.extend(["--pwd".to_owned(), folder.to_owned(), image]);
        words.extend(container.entrypoint.iter().chain(command).cloned());
        let prefix = if runtime == Runtime::Singularity { "SINGULARITY" } else { "APPTAINER" };
        let own: String =
            self.own().map(|(name, value)| format!("export {prefix}ENV_{name}={}\n", quote(value))).collect();
        // Values would be read as words of a shell otherwise.
        Ok(format!("{own}export {prefix}_NO_EVAL=true\nexec {}", line(words.iter().map(String::as_str))))
    }

    /// `ch-run`, which has the node's network and `/tmp`, and the environment.
    fn charliecloud(&self, command: &[String]) -> Result<String, Refused> {
        let container = self.container;
        self.refuse(
            Runtime::Charliecloud,
            &[
                ("mounts.ro", container.mounts.iter().any(|mount| mount.read_only)),
                ("shm", container.shm_bytes > 0),
                ("network", matches!(container.network(), Network::Bridge | Network::None)),
                ("privileged", container.privileged),
                ("user", !container.user.is_empty()),
                ("ulimits", !container.ulimits.is_empty()),
                ("init", container.init),
            ],
        )?;
        let (folder, _) = self.folder();
        self.refuse_volumes()?;
        let is_shared = |path: &str| {
            let rests = SHARED.iter().filter_map(|folder| path.strip_prefix(folder));
            rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let binds: Vec<(&str, &str)> = self
            .mounts()
            .into_iter()
            .filter(|(src, dst, _)| src != dst || !is_shared(dst))
            .map(|(src, dst, _)| (src, dst))
            .collect();
        let mut words: Vec<String> = Vec::new();
        if !container.env_file.is_empty() {
            words.push(format!("--set-env={}", container.env_file));
        }
        words.push("--env-no-expand".into());
        words.extend(self.own().map(|(name, value)| format!("--set-env={name}={value}")));
        words.extend(binds.iter().map(|(src, dst)| format!("--bind={src}:{dst}")));
        words.push(format!("--cd={folder}"));
        words.extend(container.writable_root.then(|| "--write".to_owned()));
        words.extend([container.image.clone(), "--".to_owned()]);
        words.extend(container.entrypoint.iter().chain(command).cloned());
        let image = &container.image;
        // Places for mounts have to be there in a folder that cannot be written to later.
        let places: String = binds
            .iter()
            .filter(|_| image.starts_with('/'))
            .map(|(src, dst)| {
                let (src, place) = (quote(src), quote(&format!("{image}{dst}")));
                format!("[ ! -d {0} ] || [ ! -d {src} ] || mkdir -p {place}\n", quote(image))
            })
            .collect();
        let environment = quote(&format!("{image}/ch/environment"));
        Ok(format!(
            "{places}export USER=\"${{USER:-$(id -un)}}\"\nwharf_env=; [ ! -f {environment} ] || wharf_env=--set-env\n\
             exec ch-run $wharf_env {}",
            line(words.iter().map(String::as_str))
        ))
    }
}

/// The host's network by default: gangs and clusters reach each other by the node's addresses.
fn network(container: &Container) -> &'static str {
    match container.network() {
        Network::Usual | Network::Host => "host",
        Network::Bridge => "bridge",
        Network::None => "none",
    }
}

/// The program of a runtime.
fn program(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Auto | Runtime::Podman => "podman",
        Runtime::Docker => "docker",
        Runtime::Apptainer => "apptainer",
        Runtime::Singularity => "singularity",
        Runtime::Charliecloud => "ch-run",
    }
}

#[cfg(test)]
mod tests {
    use wharf_proto::{Mount, ResourceLimit};

    use super::*;

    fn container(runtime: Runtime, image: &str) -> Container {
        Container { runtime: runtime.into(), image: image.into(), ..Container::default() }
    }

    fn script(container: &Container) -> Result<String, String> {
        let env =
            BTreeMap::from([("GREETING".to_owned(), "a b".to_owned()), ("PATH".to_owned(), "/x".to_owned())]);
        let within = Within {
            container,
            workdir: "/data/ann",
            env: &env,
            inherited: &["RANK"],
            has_gpus: true,
            sockets: None,
        };
        within.script(&["echo".to_owned(), "a b".to_owned()]).map_err(|refused| refused.to_string())
    }

    #[test]
    fn each_runtime_has_its_own_line() {
        let mount = Mount { src: "/src".into(), dst: "/dst".into(), read_only: false };
        let full = |runtime, image| Container {
            mounts: vec![mount.clone()],
            env: [("OWN".to_owned(), "1".to_owned())].into(),
            env_file: "/e".into(),
            entrypoint: vec!["tini".into(), "--".into()],
            writable_root: true,
            ..container(runtime, image)
        };
        for (container, expected) in [
            (
                full(Runtime::Podman, "img:1"),
                "exec podman run --rm -v /src:/dst -v /data/ann:/data/ann --env-file /e -e GREETING -e OWN -e RANK -e PATH=/x \
                 -w /data/ann --network=host --device nvidia.com/gpu=all --security-opt=label=disable --entrypoint tini img:1 -- echo 'a b'",
            ),
            (
                full(Runtime::Docker, "img:1"),
                "exec docker run --rm -v /src:/dst -v /data/ann:/data/ann --env-file /e -e GREETING -e OWN -e RANK -e PATH=/x \
                 -w /data/ann --network=host --gpus all --entrypoint tini img:1 -- echo 'a b'",
            ),
            (
                full(Runtime::Apptainer, "img:1"),
                "export APPTAINERENV_PATH=/x\nexport APPTAINER_NO_EVAL=true\nexec apptainer --quiet exec --nv --bind /src:/dst \
                 --bind /data/ann:/data/ann --writable-tmpfs --env-file /e --pwd /data/ann docker://img:1 tini -- echo 'a b'",
            ),
            (
                full(Runtime::Charliecloud, "/img"),
                "[ ! -d /img ] || [ ! -d /src ] || mkdir -p /img/dst\n\
                 [ ! -d /img ] || [ ! -d /data/ann ] || mkdir -p /img/data/ann\n\
                 export USER=\"${USER:-$(id -un)}\"\n\
                 wharf_env=; [ ! -f /img/ch/environment ] || wharf_env=--set-env\n\
                 exec ch-run $wharf_env --set-env=/e --env-no-expand --set-env=PATH=/x --bind=/src:/dst --bind=/data/ann:/data/ann \
                 --cd=/data/ann --write /img -- tini -- echo 'a b'",
            ),
        ] {
            assert_eq!(script(&container).unwrap(), expected);
        }
    }

    #[test]
    fn a_runtime_that_is_not_named_is_the_first_of_the_node() {
        let text = script(&container(Runtime::Auto, "/img.sif")).unwrap();
        let tests: Vec<&str> = text.lines().filter(|line| line.contains("command -v")).collect();
        assert_eq!(
            tests,
            ["if command -v apptainer > /dev/null; then", "elif command -v singularity > /dev/null; then"]
        );
        let run = std::process::Command::new("/bin/sh")
            .args(["-c", &text])
            .env("PATH", "/nowhere")
            .output()
            .unwrap();
        assert_eq!(
            (run.status.code(), String::from_utf8(run.stderr).unwrap().as_str()),
            (
                Some(127),
                "wharf: no container runtime of this node supports the image /img.sif; install one of apptainer, singularity\n"
            )
        );
    }

    #[test]
    fn unsupported_container_field_is_refused_by_name() {
        let read_only = Mount { src: "/a".into(), dst: "/b".into(), read_only: true };
        let volume = Mount { src: "data".into(), dst: "/b".into(), read_only: false };
        let limit = ResourceLimit { name: "nofile".into(), value: Some(9) };
        let of = |runtime| container(runtime, "/i");
        for (container, expected) in [
            (
                Container { name: "box".into(), ..of(Runtime::Podman) },
                "container.name: only Wharf's own workers can do that; leave it out",
            ),
            (
                Container { per_node: true, ..of(Runtime::Podman) },
                "container.per_node: only Wharf's own workers can do that; leave it out",
            ),
            (
                of(Runtime::Podman),
                "container.image: podman runs images by name, found the file `/i`; use `runtime: charliecloud` or `apptainer`",
            ),
            (
                Container { mounts: vec![read_only], ..of(Runtime::Charliecloud) },
                "container.mounts.ro: ch-run cannot do that; leave it out",
            ),
            (
                Container { mounts: vec![volume], ..of(Runtime::Apptainer) },
                "container.mounts: `data` is a named volume, which only docker and podman have; mount a path",
            ),
            (
                Container { ulimits: vec![limit], ..of(Runtime::Apptainer) },
                "container.ulimits: apptainer cannot do that; leave it out",
            ),
            (
                Container { privileged: true, ..of(Runtime::Auto) },
                "container.privileged: ch-run cannot do that; leave it out; name a `runtime` that can",
            ),
        ] {
            assert_eq!(script(&container).unwrap_err(), expected);
        }
    }
}
