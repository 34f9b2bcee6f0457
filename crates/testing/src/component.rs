//! The components that tests use for real: how each is probed and where it comes from.

use std::path::{Path, PathBuf};

use crate::probe::{Probe, file, find, groups, plugin, program, programs, python, root, run, static_program};
use crate::{reference, workspace};

/// A component.
#[derive(Debug)]
pub struct Component {
    /// Its name, as people call it.
    pub name: &'static str,
    /// Where it comes from.
    pub source: Source,
    probe: fn() -> Probe,
}

/// Where a component comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Packages of Debian.
    Debian(&'static [&'static str]),
    /// Packages of Python, in an environment `target/NAME`.
    Python(&'static str, &'static [&'static str]),
    /// A script with the folder `target/NAME` as its argument.
    Script(&'static str, &'static str),
    /// A property of the machine, which cannot be installed.
    Machine(&'static str),
}

impl Component {
    #[cfg(test)]
    pub(crate) fn new(name: &'static str, source: Source, probe: fn() -> Probe) -> Self {
        Self { name, source, probe }
    }

    /// Why the component cannot be used here, if so.
    ///
    /// # Errors
    /// What the probe found missing.
    pub fn probe(&self) -> Result<(), String> {
        (self.probe)()
    }

    /// How a person gets it.
    pub fn advice(&self) -> String {
        match self.source {
            Source::Debian(packages) => format!("apt-get install {}", packages.join(" ")),
            Source::Python(..) | Source::Script(..) => "cargo xtask components --install".to_owned(),
            Source::Machine(advice) => advice.to_owned(),
        }
    }
}

/// All components.
pub const ALL: &[&Component] = &[
    &ROOT,
    &NAMESPACES,
    &IP,
    &MEMORY_CGROUP,
    &REFERENCE,
    &SLURM,
    &SLURMRESTD,
    &PODMAN,
    &DOCKER,
    &REGISTRY,
    &CHARLIECLOUD,
    &APPTAINER,
    &SQUASHFS,
    &BUSYBOX,
    &SSHD,
    &OPENMPI,
    &TMUX,
    &BROWSER,
    &PROMETHEUS,
    &PYTHON,
    &VENV,
    &JAX,
    &TORCH,
    &RAY,
    &SLURM_CLIENTS,
    &AWS,
    &SYSTEMD,
    &MAN,
];

/// The rights of root.
pub static ROOT: Component = Component {
    name: "root",
    source: Source::Machine("run the tests as root, in a container or a virtual machine"),
    probe: root,
};

/// Namespaces for machines of a test's own.
pub static NAMESPACES: Component = Component {
    name: "namespaces",
    source: Source::Debian(&["iproute2", "util-linux"]),
    probe: || {
        root()?;
        programs(&["ip", "unshare", "nsenter"])?;
        run("unshare", &["--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "true"]).map(drop)
    },
};

/// The program that shows networks.
pub static IP: Component =
    Component { name: "ip", source: Source::Debian(&["iproute2"]), probe: || program("ip") };

/// A memory cgroup that tests may create children of.
pub static MEMORY_CGROUP: Component = Component {
    name: "memory cgroups",
    source: Source::Machine("run the tests as root with a writable memory controller below /sys/fs/cgroup"),
    probe: groups,
};

/// Recorded results of published systems.
pub static REFERENCE: Component = Component {
    name: "reference data",
    source: Source::Machine("put the reference data into ../shared/data, beside the workspace"),
    probe: || file(&reference("muri")),
};

/// Slurm with munge, GPU resources and JSON web tokens.
pub static SLURM: Component = Component {
    name: "Slurm",
    source: Source::Debian(&[
        "slurmctld",
        "slurmd",
        "slurm-client",
        "slurm-wlm-basic-plugins",
        "slurm-wlm-jwt-plugin",
        "munge",
    ]),
    probe: || {
        root()?;
        programs(&["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "mknod"])?;
        plugin("select_cons_tres.so")?;
        plugin("auth_jwt.so")
    },
};

/// The REST daemon of Slurm.
pub static SLURMRESTD: Component = Component {
    name: "slurmrestd",
    source: Source::Debian(&["slurmrestd", "slurm-wlm-jwt-plugin"]),
    probe: || {
        SLURM.probe()?;
        programs(&["slurmrestd", "setpriv"])?;
        plugin("auth_jwt.so")
    },
};

/// Podman with runc, and the init program that `--init` and pods need.
pub static PODMAN: Component = Component {
    name: "podman",
    source: Source::Debian(&["podman", "runc", "catatonit", "uidmap"]),
    probe: || {
        programs(&["podman", "runc", "newuidmap"])?;
        if find("catatonit").is_some() || Path::new("/usr/libexec/podman/catatonit").is_file() {
            return Ok(());
        }
        Err("there is no `catatonit`, which podman runs as the first process of a container".to_owned())
    },
};

/// The docker engine, started by the test.
pub static DOCKER: Component = Component {
    name: "docker",
    source: Source::Debian(&["docker.io"]),
    probe: || {
        root()?;
        programs(&["dockerd", "docker", "containerd"])
    },
};

/// A registry of container images.
pub static REGISTRY: Component = Component {
    name: "docker-registry",
    source: Source::Debian(&["docker-registry"]),
    probe: || program("docker-registry"),
};

/// Charliecloud.
pub static CHARLIECLOUD: Component = Component {
    name: "Charliecloud",
    source: Source::Debian(&["charliecloud"]),
    probe: || programs(&["ch-run", "ch-convert"]),
};

/// Apptainer.
pub static APPTAINER: Component = Component {
    name: "Apptainer",
    source: Source::Script(".ci/apptainer", "apptainer"),
    probe: || {
        let program = apptainer().ok_or("there is no `apptainer`")?;
        run(&program.display().to_string(), &["--version"]).map(drop)
    },
};

/// `mksquashfs`.
pub static SQUASHFS: Component = Component {
    name: "squashfs-tools",
    source: Source::Debian(&["squashfs-tools"]),
    probe: || program("mksquashfs"),
};

/// A busybox that needs no libraries.
pub static BUSYBOX: Component = Component {
    name: "busybox",
    source: Source::Debian(&["busybox-static"]),
    probe: || static_program("busybox"),
};

/// The server and the clients of SSH, and rsync.
pub static SSHD: Component = Component {
    name: "sshd",
    source: Source::Debian(&["openssh-server", "openssh-client", "rsync"]),
    probe: || programs(&["sshd", "ssh", "ssh-keygen", "rsync"]),
};

/// Open MPI: its launcher, its daemon and its library.
pub static OPENMPI: Component = Component {
    name: "Open MPI",
    source: Source::Debian(&["openmpi-bin"]),
    probe: || {
        PYTHON.probe()?;
        programs(&["mpirun", "orted"])?;
        let version = run("mpirun", &["--version"])?;
        if version.contains("Open MPI") { Ok(()) } else { Err("`mpirun` is not Open MPI's".to_owned()) }
    },
};

/// tmux.
pub static TMUX: Component =
    Component { name: "tmux", source: Source::Debian(&["tmux"]), probe: || program("tmux") };

/// Chromium with its driver and a font.
pub static BROWSER: Component = Component {
    name: "Chromium",
    source: Source::Debian(&["chromium", "chromium-driver", "fonts-dejavu-core"]),
    probe: || {
        PYTHON.probe()?;
        programs(&["chromium", "chromedriver"])?;
        file(Path::new("/usr/share/fonts/truetype/dejavu"))
    },
};

/// Prometheus with its checker of rules.
pub static PROMETHEUS: Component = Component {
    name: "Prometheus",
    source: Source::Debian(&["prometheus"]),
    probe: || {
        PYTHON.probe()?;
        programs(&["prometheus", "promtool"])
    },
};

/// Python 3.8 or newer.
pub static PYTHON: Component = Component {
    name: "Python",
    source: Source::Debian(&["python3"]),
    probe: || python("python3", "import sys; assert sys.version_info >= (3, 8), 'it is older than 3.8'"),
};

/// Python's virtual environments.
pub static VENV: Component = Component {
    name: "Python's venv",
    source: Source::Debian(&["python3-venv"]),
    probe: || python("/usr/bin/python3", "import ensurepip, venv"),
};

/// JAX.
pub static JAX: Component = Component {
    name: "JAX",
    source: Source::Python("jax", &["jax"]),
    probe: || {
        python(&python_with_jax(), "import importlib.util as u; assert u.find_spec('jax'), 'no module jax'")
    },
};

/// PyTorch as Debian has it, which is old: 1.13 in Debian 12.
pub static TORCH: Component = Component {
    name: "PyTorch",
    source: Source::Debian(&["python3-torch"]),
    probe: || {
        program("torchrun")?;
        python(
            "/usr/bin/python3",
            "import importlib.util as u; assert u.find_spec('torch'), 'no module torch'",
        )
    },
};

/// Ray with its dashboard.
pub static RAY: Component = Component {
    name: "Ray",
    source: Source::Python("ray", &["ray[default]==2.60.0"]),
    probe: || file(&ray().ok_or("there is no `ray`")?),
};

/// Programs that submit work to Slurm: submitit, dask-jobqueue, parsl, simple_slurm, and snakemake with its plugin for Slurm.
pub static SLURM_CLIENTS: Component = Component {
    name: "clients of Slurm",
    source: Source::Python(
        "slurm-clients",
        &[
            "submitit==1.5.4",
            "dask-jobqueue==0.9.0",
            "parsl==2026.10.26",
            "simple_slurm==0.3.6",
            "snakemake==9.27.1",
            "snakemake-executor-plugin-slurm==2.8.0",
        ],
    ),
    probe: || {
        file(&slurm_client("snakemake"))?;
        let modules = "import submitit, dask_jobqueue, parsl, simple_slurm, snakemake_executor_plugin_slurm";
        python(&slurm_client("python3").display().to_string(), modules)
    },
};

/// moto, which answers as Amazon's cloud does, and Amazon's command line.
pub static AWS: Component = Component {
    name: "moto and the AWS command line",
    source: Source::Python("moto", &["moto[server]", "awscli"]),
    probe: || {
        for name in ["moto_server", "aws"] {
            let found = aws(name).ok_or_else(|| format!("there is no `{name}`"))?;
            file(&found)?;
        }
        Ok(())
    },
};

/// Programs of systemd that need no running systemd.
pub static SYSTEMD: Component = Component {
    name: "systemd's programs",
    source: Source::Debian(&["systemd"]),
    probe: || programs(&["systemd-sysusers", "systemd-analyze"]),
};

/// A reader of manual pages.
pub static MAN: Component = Component {
    name: "man",
    source: Source::Debian(&["man-db", "groff-base"]),
    probe: || {
        // Slim images divert the program to one that only prints how to get the pages.
        programs(&["man", "groff"])?;
        run("man", &["--version"]).map(drop)
    },
};

/// A program of a component: what a variable names, else in the search path, else in an environment that
/// `cargo xtask components` made.
fn installed(variable: &str, name: &str, beside: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let own = || Some(target().join(beside)).filter(|path| path.is_file());
    named.or_else(|| find(name)).or_else(own)
}

/// The folder of what was installed for tests.
fn target() -> PathBuf {
    std::env::var_os("WHARF_TEST_COMPONENTS").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The program of Apptainer.
pub fn apptainer() -> Option<PathBuf> {
    installed("WHARF_TEST_APPTAINER", "apptainer", "apptainer/root/usr/bin/apptainer")
}

/// The program of Ray.
pub fn ray() -> Option<PathBuf> {
    installed("WHARF_TEST_RAY", "ray", "ray/bin/ray")
}

/// A program of moto or of the AWS command line. `WHARF_TEST_AWS` names their folder.
pub fn aws(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("WHARF_TEST_AWS").map(|folder| Path::new(&folder).join(name));
    let own = || Some(target().join("moto/bin").join(name)).filter(|path| path.is_file());
    named.or_else(own).or_else(|| find(name))
}

/// A program of the environment with the clients of Slurm. `WHARF_TEST_SLURM_CLIENTS` names its folder of programs.
pub fn slurm_client(name: &str) -> PathBuf {
    let named = std::env::var_os("WHARF_TEST_SLURM_CLIENTS").map(PathBuf::from);
    named.unwrap_or_else(|| target().join("slurm-clients/bin")).join(name)
}

/// A Python that has JAX, if there is one.
pub fn python_with_jax() -> String {
    let own = target().join("jax/bin/python");
    match std::env::var("WHARF_TEST_PYTHON") {
        Ok(named) => named,
        Err(_) if own.is_file() => own.display().to_string(),
        Err(_) => "python3".to_owned(),
    }
}
