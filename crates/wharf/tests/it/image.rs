//! `wharf image` with the real tools: podman, Charliecloud, squashfs, pip. What is not installed is told, and not tested.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use wharf_testing::needs;
use wharf_testing::slurm::{is_dead, until};

use crate::sandbox::{Said, Sandbox};

/// A podman of its own: nothing of the machine's images is seen or changed. Root may not raise limits everywhere, and only runc
/// knows every layout of control groups.
const CONTAINERS: &str = r#"[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"#;

pub(crate) struct Shipyard {
    pub(crate) sandbox: Sandbox,
}

impl Shipyard {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new();
        let at = |name: &str| sandbox.path().join(name).display().to_string();
        sandbox.write("containers.conf", CONTAINERS);
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            at("graph"),
            at("run")
        );
        sandbox.write("storage.conf", &storage);
        Self { sandbox }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path().join(name)
    }

    fn run(&self, words: &str) -> Said {
        self.run_in(words, &[], b"")
    }

    pub(crate) fn run_in(&self, words: &str, env: &[(&str, &str)], input: &[u8]) -> Said {
        let mut command = self.sandbox.command(words);
        // Charliecloud is written in the system's Python, whatever comes first elsewhere.
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.path("")).env("USER", "ann");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.path("storage.conf"));
        command.env("CH_IMAGE_STORAGE", self.path("ch"));
        command.envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Said::from(&child.wait_with_output().unwrap())
    }

    /// A search path with a folder `tools` before all others, and apptainer in it by its own name.
    pub(crate) fn with_apptainer(&self, program: &str) -> String {
        let tools = self.path("tools");
        fs::create_dir_all(&tools).unwrap();
        let named = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&named).map(|folder| folder.join(program));
        symlink(folders.find(|path| path.is_file()).unwrap(), tools.join("apptainer")).unwrap();
        format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", tools.display())
    }

    /// The smallest image there is: busybox, and a variable of its own.
    pub(crate) fn rootfs(&self, name: &str) -> PathBuf {
        let root = self.path(name);
        for folder in ["bin", "dev", "proc", "sys", "tmp", "etc", "root", "home", "ch", "mnt"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "echo", "true", "env"] {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        for file in ["hosts", "resolv.conf", "passwd", "group"] {
            fs::write(root.join("etc").join(file), "").unwrap();
        }
        fs::write(root.join("ch/environment"), "GREETING=ahoy\n").unwrap();
        root
    }
}

#[test]
fn an_image_goes_through_every_form_and_is_made_once() {
    needs!(PODMAN, SQUASHFS, CHARLIECLOUD, BUSYBOX);
    let yard = Shipyard::new();
    yard.rootfs("rootfs");
    let made = |words: &str, what: &str| {
        let said = yard.run(words);
        assert_eq!(said.code, Some(0), "{words}: {}", said.stderr);
        assert!(said.stderr.contains(what), "{words}: {}", said.stderr);
    };
    let rounds = [
        ("image convert ./rootfs podman:localhost/bare:1", "podman:localhost/bare:1"),
        ("image convert podman:localhost/bare:1 ./again", "./again"),
        ("image convert ./again bare.sqfs", "bare.sqfs"),
        ("image convert bare.sqfs bare.tar.gz", "bare.tar.gz"),
        ("image convert bare.tar.gz ./last", "./last"),
    ];
    for (words, place) in rounds {
        made(words, &format!("made {place}"));
        made(words, &format!("{place} is up to date"));
    }
    let shown = std::process::Command::new("ch-run")
        .env("USER", "ann")
        .arg("--set-env")
        .arg(yard.path("last"))
        .args(["--", "/bin/sh", "-c", "echo $GREETING"])
        .output()
        .unwrap();
    let shown = Said::from(&shown);
    assert_eq!((shown.stdout.as_str(), shown.code), ("ahoy\n", Some(0)), "{}", shown.stderr);
    // What has changed is made again; foreign files are not touched.
    fs::write(yard.path("rootfs/etc/motd"), "new\n").unwrap();
    made("image convert ./rootfs podman:localhost/bare:1", "made");
    fs::write(yard.path("mine.sqfs"), "precious").unwrap();
    let refused = yard.run("image convert ./rootfs mine.sqfs").fails(3);
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(yard.sandbox.read("mine.sqfs"), "precious");
    let listed = yard.run("image list --output json").ok();
    for place in ["podman:localhost/bare:1", "bare.sqfs", "bare.tar.gz", "last"] {
        assert!(listed.contains(place), "{place} in {listed}");
    }
    made("image prune --older-than 1h", "no image is older");
    let leftovers: Vec<String> =
        yard.sandbox.names("").into_iter().filter(|name| name.starts_with(".wharf-image")).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn an_image_becomes_a_sif_and_comes_back() {
    needs!(APPTAINER, PODMAN, BUSYBOX);
    let apptainer = wharf_testing::component::apptainer().unwrap().display().to_string();
    let yard = Shipyard::new();
    let root = yard.rootfs("rootfs");
    fs::write(root.join("ch/environment"), "GREETING=it's \"ahoy\" for $5\nPATH=/bin:/opt/none\n").unwrap();
    let path = yard.with_apptainer(&apptainer);
    let rounds = [
        ("image convert ./rootfs one.sif", "one.sif"),
        ("image convert one.sif podman:localhost/two:1", "podman:localhost/two:1"),
        ("image convert podman:localhost/two:1 three.sif", "three.sif"),
    ];
    for (words, place) in rounds {
        for expected in [format!("made {place}"), format!("{place} is up to date")] {
            let said = yard.run_in(words, &[("PATH", &path)], b"");
            assert_eq!(said.code, Some(0), "{words}: {}", said.stderr);
            assert!(said.stderr.contains(&expected), "{words}: {}", said.stderr);
        }
    }
    for file in ["one.sif", "three.sif"] {
        let mut command = std::process::Command::new(&apptainer);
        command.args(["exec", "--cleanenv", "--no-home", "--pwd", "/"]).arg(yard.path(file));
        let shown = command.args(["/bin/sh", "-c", "echo $GREETING in $PATH; exit 3"]).output().unwrap();
        let shown = Said::from(&shown);
        let expected = ("it's \"ahoy\" for $5 in /bin:/opt/none\n", Some(3));
        assert_eq!((shown.stdout.as_str(), shown.code), expected, "{file}: {}", shown.stderr);
    }
}

#[test]
fn a_dockerfile_is_built_on_a_folder_without_a_registry() {
    needs!(PODMAN, BUSYBOX);
    let yard = Shipyard::new();
    yard.rootfs("rootfs");
    fs::create_dir(yard.path("job")).unwrap();
    yard.sandbox.write("job/Dockerfile", "ARG BASE\nFROM ${BASE}\nCOPY note /note\n");
    yard.sandbox.write("job/note", "first\n");
    let build = "image build job --tag localhost/job:1 --engine podman --base ./rootfs --to ./job-image";
    let said = yard.run(build);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(yard.sandbox.read("job-image/note"), "first\n");
    assert!(yard.run(build).stderr.contains("podman:localhost/job:1 is up to date"));
    yard.sandbox.write("job/note", "second\n");
    assert_eq!(yard.run(build).code, Some(0));
    assert_eq!(yard.sandbox.read("job-image/note"), "second\n");
    // What no image gets makes no other one.
    yard.sandbox.write("job/.dockerignore", "*.log\n");
    assert_eq!(yard.run(build).code, Some(0));
    yard.sandbox.write("job/run.log", "noise\n");
    assert!(yard.run(build).stderr.contains("podman:localhost/job:1 is up to date"));
    let failed = yard.run("image build nowhere --tag x --engine podman").fails(3);
    assert!(failed.contains("nowhere/Dockerfile"), "{failed}");
}

#[test]
fn an_environment_becomes_a_folder_to_build_from() {
    needs!(VENV);
    let python = Path::new("/usr/bin/python3");
    let yard = Shipyard::new();
    let venv = yard.path("venv");
    let made = std::process::Command::new(python).args(["-m", "venv"]).arg(&venv).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packages =
        fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    for (name, version) in [("ahoy", "1.2"), ("mate", "3")] {
        let info = packages.join(format!("{name}-{version}.dist-info"));
        fs::create_dir(&info).unwrap();
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        fs::write(info.join("METADATA"), metadata).unwrap();
        if name == "mate" {
            let source = r#"{"url": "file:///data/ann/mate", "dir_info": {}}"#;
            fs::write(info.join("direct_url.json"), source).unwrap();
        }
    }
    let venv = venv.display().to_string();
    let said = yard.run_in("image from-env out", &[("VIRTUAL_ENV", &venv)], b"");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("`mate @ file:///data/ann/mate` comes from a folder"), "{}", said.stderr);
    assert_eq!(yard.sandbox.read("out/requirements.txt"), "ahoy==1.2\n");
    let dockerfile = yard.sandbox.read("out/Dockerfile");
    assert!(dockerfile.starts_with("ARG BASE=") && dockerfile.contains("requirements.txt"), "{dockerfile}");
    let again = yard.run_in("image from-env out", &[("VIRTUAL_ENV", &venv)], b"").fails(3);
    assert!(again.contains("--force"), "{again}");
}

#[test]
fn a_password_is_nowhere_but_in_the_engines_own_file() {
    needs!(PODMAN);
    let yard = Shipyard::new();
    // There is no server: the engine's messages must not contain it either.
    let words = "image login 127.0.0.1:9 --user ann --engine podman";
    let said = yard.run_in(words, &[], b"s3cret-word\n").fails(3);
    assert!(said.contains("podman") && said.contains("127.0.0.1:9"), "{said}");
    assert!(!said.contains("s3cret-word"), "{said}");
}

#[test]
fn a_container_becomes_an_image_with_its_author_and_message() {
    needs!(PODMAN, BUSYBOX);
    let yard = Shipyard::new();
    yard.rootfs("rootfs");
    yard.run("image convert ./rootfs podman:localhost/bare:1").ok();
    let podman = |words: &[&str]| {
        let mut podman = std::process::Command::new("podman");
        podman.env("CONTAINERS_CONF", yard.path("containers.conf"));
        podman.env("CONTAINERS_STORAGE_CONF", yard.path("storage.conf"));
        Said::from(&podman.args(words).output().unwrap()).ok()
    };
    podman(&["create", "--name", "changed", "localhost/bare:1", "/bin/true"]);
    yard.run("image commit changed localhost/kept:1 --engine podman --author Ann --message tuned").ok();
    let told = podman(&["image", "inspect", "--format", "{{.Author}} {{.Comment}}", "localhost/kept:1"]);
    assert_eq!(told, "Ann tuned\n");
    yard.run("image commit changed localhost/kept:2 --engine podman").ok();
    let unknown = yard.run("image commit missing localhost/kept:3 --engine podman").fails(3);
    assert!(unknown.contains("missing"), "{unknown}");
}

#[test]
fn missing_component_is_named_with_a_hint() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("rootfs")).unwrap();
    let home = sandbox.path().display().to_string();
    let run = |words: &str| {
        let mut command = sandbox.command(words);
        Said::from(&command.env("PATH", "/nowhere").env("HOME", &home).output().unwrap())
    };
    let rows = [
        ("image build . --tag x", 3, "none of podman, docker and ch-image is in PATH"),
        ("image convert ./rootfs out.sif", 3, "`apptainer` is required"),
        ("image convert ./rootfs out.sqfs", 3, "install squashfs-tools"),
        ("image convert ./rootfs name:1", 2, "none of podman, docker and ch-image"),
        ("image convert ./missing out.sqfs", 3, "./missing"),
        ("image convert docker://name:1 out.sif", 3, "none of podman, docker and ch-image is in PATH"),
        ("image convert ./rootfs docker://name:1", 2, "send that there with `wharf image push name:1`"),
        ("image build . --tag x --build-arg novalue", 2, "write NAME=VALUE"),
        ("image prune --older-than soon", 2, "is not a duration"),
    ];
    for (words, code, expected) in rows {
        let said = run(words).fails(code);
        assert!(said.contains(expected), "{words}: {said}");
    }
}

#[test]
fn interrupted_tool_ends_and_cleans_up() {
    let yard = Shipyard::new();
    fs::create_dir_all(yard.path("files/bin")).unwrap();
    fs::create_dir(yard.path("tools")).unwrap();
    // A tar that takes indefinitely, and a child of its own.
    let tar = yard.sandbox.write(
        "tools/tar",
        "#!/bin/sh\nsleep 1000 & echo $$ $! > ../pids.part; mv ../pids.part ../pids; wait\n",
    );
    fs::set_permissions(&tar, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(yard.path("here")).unwrap();
    let mut command = yard.sandbox.command("image convert ../files out.tar.gz");
    let path = format!("{}:/usr/bin:/bin", yard.path("tools").display());
    command.current_dir(yard.path("here")).env("HOME", yard.path("")).env("PATH", path);
    let mut child = command.spawn().unwrap();
    let pids = until("tar", || fs::read_to_string(yard.path("pids")).ok());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(yard.sandbox.names("here"), Vec::<String>::new());
    for pid in pids.split_whitespace() {
        until("the end of tar", || is_dead(Pid::from_raw(pid.parse().unwrap())).then_some(()));
    }
}
