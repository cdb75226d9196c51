//! Hosts of accounts: names, addresses, patterns, networks; which of them a client comes from.
//!
//! # Owns
//! Whether a client's host fits the host of an account, and which of several hosts is the most
//! specific one.
//! # Not here
//! Where a client comes from (`admission`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::cmp::Reverse;

use collation::CollationId;

/// Whether a client from `from`, an address or `localhost`, is meant by the host of an account.
pub(crate) fn fits(host: &str, from: &str) -> bool {
    if host == from || host.is_empty() || host == "%" {
        return true;
    }
    if let Some(network) = Network::read(host) {
        return address(from).is_some_and(|address| network.has(address));
    }
    match (address(host), address(from)) {
        (Some(one), Some(other)) => one == other,
        _ => is_pattern(host) && like(host.as_bytes(), from.as_bytes()),
    }
}

/// Sorts hosts, the most specific one first: names and addresses, the longest networks, the
/// patterns with the most characters before their first wildcard; `%` comes last.
pub(crate) fn order(host: &str) -> (u8, Reverse<u32>, Reverse<usize>) {
    if let Some(network) = Network::read(host) {
        return (1, Reverse(network.bits), Reverse(0));
    }
    match host {
        "%" => (3, Reverse(0), Reverse(0)),
        "" => (4, Reverse(0), Reverse(0)),
        _ if is_pattern(host) => {
            let fixed = host.find(['%', '_']).unwrap_or(host.len());
            (2, Reverse(fixed as u32), Reverse(host.len()))
        }
        _ => (0, Reverse(0), Reverse(0)),
    }
}

fn is_pattern(host: &str) -> bool {
    host.contains(['%', '_'])
}

/// An address; one of version 4 that is written as one of version 6 is the same.
fn address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    Some(match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    })
}

/// `198.51.100.0/24`, `198.51.100.0/255.255.255.0`, `2001:db8::/32`.
struct Network {
    base: u128,
    bits: u32,
    of_four: bool,
}

impl Network {
    fn read(host: &str) -> Option<Self> {
        let (base, size) = host.split_once('/')?;
        match base.parse().ok()? {
            IpAddr::V4(base) => {
                let bits = match size.parse::<Ipv4Addr>() {
                    Ok(mask) => {
                        let mask = u32::from(mask);
                        (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == u32::MAX)
                            .then(|| mask.leading_ones())?
                    }
                    Err(_) => size.parse().ok().filter(|bits| *bits <= 32)?,
                };
                Some(Self { base: number(base), bits, of_four: true })
            }
            IpAddr::V6(base) => {
                let bits = size.parse().ok().filter(|bits| *bits <= 128)?;
                Some(Self { base: u128::from(base), bits, of_four: false })
            }
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        let (value, of_four) = match address {
            IpAddr::V4(four) => (number(four), true),
            IpAddr::V6(six) => (u128::from(Ipv6Addr::from(six.octets())), false),
        };
        let differ = value ^ self.base;
        of_four == self.of_four && (self.bits == 0 || differ >> (128 - self.bits) == 0)
    }
}

/// The bits of an address at the upper end.
fn number(address: Ipv4Addr) -> u128 {
    u128::from(u32::from(address)) << 96
}

/// LIKE, where letter case does not count and `\` makes the next character stand for itself.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    collation::like(CollationId::UTF8MB4_GENERAL_CI, text, pattern, Some('\\'))
}

/// LIKE, where letter case counts: names of databases.
pub(crate) fn like_exact(pattern: &[u8], text: &[u8]) -> bool {
    collation::like(CollationId::UTF8MB4_BIN, text, pattern, Some('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_fit_as_mysqls_do() {
        for (host, from, fit) in [
            ("localhost", "localhost", true),
            ("localhost", "127.0.0.1", false),
            ("%", "10.0.0.1", true),
            ("%", "localhost", true),
            ("10.0.0.%", "10.0.0.77", true),
            ("10.0.0.%", "10.0.1.77", false),
            ("10.0.0._", "10.0.0.7", true),
            ("10.0.0._", "10.0.0.77", false),
            ("10.1.0.0/16", "10.1.255.3", true),
            ("10.1.0.0/255.255.0.0", "10.1.255.3", true),
            ("10.1.0.0/16", "10.2.0.3", false),
            ("10.1.0.0/0", "1.2.3.4", true),
            ("10.1.0.0/255.0.255.0", "10.1.0.3", false),
            ("2001:db8::/32", "2001:db8:1::7", true),
            ("2001:db8::/32", "2001:db9::7", false),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("::1", "0:0:0:0:0:0:0:1", true),
            ("10.1.0.0/16", "localhost", false),
        ] {
            assert_eq!(fits(host, from), fit, "{host} {from}");
        }
    }

    #[test]
    fn the_most_specific_host_comes_first() {
        let mut hosts = ["%", "10.%", "10.0.0.0/8", "10.0.%", "10.0.0.1", "10.0.0.0/24"];
        hosts.sort_by_key(|host| order(host));
        assert_eq!(hosts, ["10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "10.0.%", "10.%", "%"]);
    }

    #[test]
    fn patterns_fit() {
        for (pattern, text, fit) in [
            ("a%c", "abbc", true),
            ("a%c", "abb", false),
            ("%b%", "abc", true),
            (r"a\_b", "a_b", true),
            (r"a\_b", "axb", false),
            ("a_b", "axb", true),
            ("", "", true),
            ("%", "", true),
        ] {
            assert_eq!(like(pattern.as_bytes(), text.as_bytes()), fit, "{pattern} {text}");
        }
    }
}
