//! Which network interface a gang's processes should talk through.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

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
    fn carrying_finds_loopback_and_nothing_for_others() {
        let rows = [("127.0.0.1", true), ("127.1.2.3", true), ("localhost", true), ("203.0.113.7", false)];
        for (address, is_here) in rows {
            assert_eq!(carrying(address).as_deref() == Some("lo"), is_here, "{address}");
        }
    }
}
