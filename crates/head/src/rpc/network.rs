//! Networks of IP addresses, as in `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with a common prefix; a single address has all its bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// A text that names no network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an IP address or network; expected ADDRESS or ADDRESS/BITS, as in 10.0.0.0/8")]
pub struct NotANetwork {
    text: String,
}

impl Network {
    /// Whether an address is part of it. IPv4 addresses in IPv6 notation count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, other) = (self.address, address.to_canonical());
        own.is_ipv4() == other.is_ipv4() && bits_of(own, self.bits) == bits_of(other, self.bits)
    }
}

/// Networks whose addresses are not public: this host, private and local networks, metadata services of clouds, multicast,
/// documentation, and IPv6 networks that stand for IPv4 addresses.
const NOT_PUBLIC: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "::/8",
    "64:ff9b::/32",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "fc00::/6",
    "ff00::/8",
    "fe00::/8",
];

/// Whether the internet routes an address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    let is_within = |text: &str| text.parse::<Network>().is_ok_and(|network| network.contains(address));
    !NOT_PUBLIC.iter().any(|text| is_within(text))
}

/// The leading bits of an address.
fn bits_of(address: IpAddr, count: u32) -> u128 {
    let (value, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    value.checked_shr(width - count.min(width)).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork { text: text.escape_debug().to_string() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        // A mapped address would compare as IPv4 with a prefix that counts the bits of IPv6.
        if bits > width || address.to_canonical() != address {
            Err(wrong())
        } else {
            Ok(Self { address, bits })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_contains_its_addresses_only() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.contains(address.parse().unwrap()), expected, "{network} {address}");
        }
    }

    #[test]
    fn local_private_and_embedded_addresses_are_not_public() {
        for text in NOT_PUBLIC {
            assert!(text.parse::<Network>().is_ok(), "{text}");
        }
        for text in [
            "127.0.0.1",
            "127.255.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_network_is_rejected() {
        for text in
            ["", "10", "10.0.0.0/33", "10.0.0.0/-1", "::1/129", "host", "::ffff:10.0.0.0/104", "10.0.0.0/8/8"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
