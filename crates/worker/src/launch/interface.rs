//! Which network interface a gang's processes should talk through.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use wharf_proto::LaunchTask;
use wharf_proto::container::{Network, Runtime};

/// An interface that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("network interface `{name}` does not exist on this node, which has {}", known.join(", "))]
pub struct UnknownInterface {
    /// The name.
    pub name: String,
    /// The interfaces of the machine, sorted.
    pub known: Vec<String>,
}

/// Checks that this machine has the interfaces of a value of `NCCL_SOCKET_IFNAME`: names with commas between them, each perhaps after
/// `=`. After `^` it names interfaces to avoid, which need not exist.
///
/// # Errors
/// The first that does not exist.
pub fn check(value: &str) -> Result<(), UnknownInterface> {
    // Where the system lists nothing, nothing can be checked.
    let Ok(found) = getifaddrs() else { return Ok(()) };
    check_among(value, &found.map(|interface| interface.interface_name).collect())
}

fn check_among(value: &str, known: &BTreeSet<String>) -> Result<(), UnknownInterface> {
    if value.starts_with('^') {
        return Ok(());
    }
    let mut names = value.split(',').map(|name| name.trim_start_matches('='));
    match names.find(|name| !known.contains(*name)) {
        Some(name) => Err(UnknownInterface { name: name.to_owned(), known: known.iter().cloned().collect() }),
        None => Ok(()),
    }
}

/// Whether a task sees the interfaces of its node, as far as its job says. Docker and Podman give a container its own.
pub(super) fn is_of_node(launch: &LaunchTask) -> bool {
    let Some(container) = &launch.container else { return true };
    match container.network() {
        Network::Host => true,
        Network::Usual => {
            matches!(container.runtime(), Runtime::Apptainer | Runtime::Singularity | Runtime::Charliecloud)
        }
        Network::Bridge | Network::None => false,
    }
}

/// The interface that carries an address (or one of a name's addresses), if this machine has it.
pub(super) fn carrying(address: &str) -> Option<String> {
    let wanted = addresses(address);
    let found = getifaddrs().ok()?.find(|interface| {
        let own = interface.address.as_ref().and_then(ip);
        own.is_some_and(|own| wanted.contains(&own))
    });
    match found {
        Some(interface) => Some(interface.interface_name),
        // All of 127/8 is the loopback's, of which it carries only one by name.
        None if wanted.iter().any(IpAddr::is_loopback) => loopback(),
        None => None,
    }
}

fn loopback() -> Option<String> {
    let is_loopback = |address: &SockaddrStorage| ip(address).is_some_and(|ip| ip.is_loopback());
    let found = getifaddrs().ok()?.find(|interface| interface.address.as_ref().is_some_and(is_loopback));
    found.map(|interface| interface.interface_name)
}

fn addresses(address: &str) -> Vec<IpAddr> {
    match address.parse() {
        Ok(ip) => vec![ip],
        Err(_) => (address, 0)
            .to_socket_addrs()
            .map(|found| found.map(|address: SocketAddr| address.ip()).collect())
            .unwrap_or_default(),
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_of_a_missing_interface_lists_those_there_are() {
        let known: BTreeSet<String> = ["lo", "ib0", "eth0"].map(str::to_owned).into();
        for (value, missing) in [
            ("ib0", None),
            ("ib0,eth0", None),
            ("=ib0", None),
            ("^docker0", None),
            ("ib0.8068", Some("ib0.8068")),
            ("eth", Some("eth")),
            ("ib0,ib1", Some("ib1")),
        ] {
            let found = check_among(value, &known).err();
            assert_eq!(found.as_ref().map(|unknown| &*unknown.name), missing, "{value}");
        }
        let error = check_among("ib1", &known).unwrap_err().to_string();
        assert_eq!(error, "network interface `ib1` does not exist on this node, which has eth0, ib0, lo");
        assert_eq!(check("lo"), Ok(()));
    }

    #[test]
    fn carrying_finds_loopback_and_nothing_for_others() {
        let rows = [("127.0.0.1", true), ("127.1.2.3", true), ("localhost", true), ("203.0.113.7", false)];
        for (address, is_here) in rows {
            assert_eq!(carrying(address).as_deref() == Some("lo"), is_here, "{address}");
        }
    }
}
