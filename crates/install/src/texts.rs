//! What is written: services, and a configuration to begin with.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// What the configuration of a head says.
#[derive(Clone, Copy, Debug)]
pub struct HeadSettings {
    /// Listen address.
    pub listen: SocketAddr,
}

/// What the configuration of a worker says.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    /// Address of the head; the one on this machine if there is none.
    pub head: Option<String>,
    /// File with the join token.
    pub join_token_file: Option<PathBuf>,
    /// Address of the node for other nodes of a gang.
    pub address: Option<String>,
}

/// The user that the head runs as.
pub const USER: &str = "wharf";
/// The head's state.
pub(crate) const HEAD_HOME: &str = "/var/lib/wharf";
/// The worker's state: apart, because the worker is root and must not follow what the head's user puts in its own.
pub(crate) const WORKER_HOME: &str = "/var/lib/wharf-worker";
/// The configuration.
pub(crate) const CONFIG: &str = "/etc/wharf/config.toml";

const HEADER: &str = "\
# Written by `wharf install`, which also replaces it: put changes into a drop-in (`systemctl edit`).
";

/// The head's service. It needs nothing of the machine but its folder and the network.
pub(crate) fn head_unit(prefix: &Path) -> String {
    format!(
        "{HEADER}
[Unit]
Description=Wharf head
Documentation=man:wharf-head(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={prefix}/bin/wharf head --config {CONFIG}
User={USER}
Group={USER}
StateDirectory=wharf
StateDirectoryMode=0700
UMask=0077
Restart=on-failure
RestartSec=2
# Stop behaviour.
SuccessExitStatus=129 130 143
LimitNOFILE=65536
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
",
        prefix = prefix.display()
    )
}

/// The worker's service. It is root, because it runs each job as the user who submitted it.
pub(crate) fn worker_unit(prefix: &Path) -> String {
    format!(
        "{HEADER}
[Unit]
Description=Wharf worker
Documentation=man:wharf-worker(1)
Wants=network-online.target
After=network-online.target remote-fs.target nss-user-lookup.target wharf-head.service

[Service]
Type=exec
ExecStart={prefix}/bin/wharf worker --config {CONFIG}
Restart=always
RestartSec=2
# Stop behaviour.
SuccessExitStatus=129 130 143
# Tasks and their supervisor outlive the worker: the next one finds them.
KillMode=process
# Tasks have cgroups of their own below the service's.
Delegate=yes
# A task that is killed for its memory is no failure of the worker.
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=1048576
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
",
        prefix = prefix.display()
    )
}

/// A section of the configuration.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// How a new configuration begins.
pub(crate) const CONFIG_HEADER: &str = "\
# Configuration of Wharf. `wharf config example` has every key, `wharf config check` says what is wrong here, and
# `wharf config show` what is in force. Secrets are never in this file, only the names of their files.
";

/// What a head goes by, and its machine's clients.
pub(crate) fn head_sections(settings: &HeadSettings) -> Vec<Section> {
    let listen = settings.listen;
    let head = format!(
        "
# For `wharf head`. Its service may write to this folder only.
[head]
home = \"{HEAD_HOME}\"
listen = \"{listen}\"
# policy = \"fifo\"
"
    );
    let client = format!(
        "
# For all users of this machine; each needs a token in ~/.local/state/wharf/token:
# `wharf token create --home {HEAD_HOME} --user NAME --to NAME.token`.
[client]
head = \"{}\"
",
        nearest(listen)
    );
    vec![Section { name: "head", text: head }, Section { name: "client", text: client }]
}

/// What a worker goes by.
pub(crate) fn worker_sections(settings: &WorkerSettings) -> Vec<Section> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let head = settings.head.as_deref().unwrap_or("127.0.0.1:7717");
    let token = match (&settings.join_token_file, &settings.head) {
        (Some(path), _) => path.to_string_lossy().into_owned(),
        (None, Some(_)) => "/etc/wharf/join.token".to_owned(),
        // A head on this machine leaves one for its neighbours.
        (None, None) => format!("{HEAD_HOME}/worker-token"),
    };
    let address = match &settings.address {
        Some(address) => format!("address = {}", quoted(address)),
        None => "# address = \"HOST\"  # where other nodes of a gang reach this one".to_owned(),
    };
    let text = format!(
        "
# For `wharf worker`. The token is needed to join, once.
[worker]
home = \"{WORKER_HOME}\"
head = {}
join_token_file = {}
{address}
# devices = \"v100:4\"  # found where not given
",
        quoted(head),
        quoted(&token)
    );
    vec![Section { name: "worker", text }]
}

/// Where a client on the same machine finds who listens there.
fn nearest(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    listen
}
