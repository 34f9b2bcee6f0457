//! What Ray's own commands expect of a launcher.

use serde_json::json;

use crate::config::Cluster;

/// The name that start commands use.
const BOOTSTRAP: &str = "ray_bootstrap_config.yaml";

/// Puts what it reads where start commands look for it, and remembers that it has.
pub(crate) const WRITE: &str = "umask 077; : > \"$D/bootstrap\"; cat > \"$HOME/ray_bootstrap_config.yaml\"";

/// Whether lines need the file.
pub(crate) fn needs_bootstrap(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains(BOOTSTRAP))
}

/// A configuration for Ray's autoscaler, which start commands of the head may name. It has no workers: the launcher starts
/// them, and two that did would fight.
pub(crate) fn bootstrap(cluster: &Cluster) -> String {
    const TYPE: &str = "local.cluster.node";
    let head = &cluster.nodes[0];
    let none: [String; 0] = [];
    let document = json!({
        "cluster_name": cluster.name,
        "max_workers": 0,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
        "provider": {"type": "local", "head_ip": head.inner_address, "worker_ips": none},
        "auth": {"ssh_user": head.ssh.user.as_deref().unwrap_or_default()},
        "available_node_types": {TYPE: {"node_config": {}, "resources": {}, "min_workers": 0, "max_workers": 0}},
        "head_node_type": TYPE,
        "docker": {},
        "file_mounts": {},
        "cluster_synced_files": none,
        "file_mounts_sync_continuously": false,
        "rsync_exclude": none,
        "rsync_filter": none,
        "initialization_commands": none,
        "setup_commands": none,
        "head_setup_commands": none,
        "worker_setup_commands": none,
        "head_start_ray_commands": none,
        "worker_start_ray_commands": none,
    });
    document.to_string()
}
