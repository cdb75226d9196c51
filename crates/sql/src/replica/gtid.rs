//! Sets of GTIDs that a channel has done: MySQL's by server, MariaDB's by domain.
//!
//! # Guarantees
//! A set printed and read again is the same set.

use std::collections::BTreeMap;
use std::fmt;

use mysql_wire::binlog::gtid;

/// A set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GtidSet {
    /// Of each server the numbers, as ascending ranges with a gap between each two.
    servers: BTreeMap<[u8; 16], Vec<(u64, u64)>>,
    /// Of each domain of MariaDB the last server and number.
    domains: BTreeMap<u32, (u32, u64)>,
}

impl GtidSet {
    /// Reads what was printed; none if it is no set.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry.split_once(':') {
                Some((server, ranges)) => {
                    let server = server_of(server)?;
                    for range in ranges.split(':') {
                        let (first, last) = match range.split_once('-') {
                            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
                            None => (range.parse().ok()?, range.parse().ok()?),
                        };
                        if first == 0 || last < first {
                            return None;
                        }
                        set.add_range(server, first, last);
                    }
                }
                None => {
                    let mut parts = entry.split('-');
                    let mut next = || parts.next()?.parse::<u64>().ok();
                    let (domain, server, number) = (next()?, next()?, next()?);
                    let server = u32::try_from(server).ok()?;
                    set.domains.insert(u32::try_from(domain).ok()?, (server, number));
                }
            }
        }
        Some(set)
    }

    /// A transaction of MySQL is done. Where a server's numbers have gaps that mean nothing, all
    /// before it are done too.
    pub(super) fn add(&mut self, server: [u8; 16], number: u64, has_gaps: bool) {
        let first = if has_gaps { 1 } else { number };
        self.add_range(server, first.min(number).max(1), number.max(1));
    }

    fn add_range(&mut self, server: [u8; 16], first: u64, last: u64) {
        let ranges = self.servers.entry(server).or_default();
        // Most come in order.
        if let Some((_, end)) = ranges.last_mut()
            && first == *end + 1
        {
            *end = last;
            return;
        }
        ranges.push((first, last));
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges.drain(..) {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        *ranges = merged;
    }

    /// Whether a transaction of MySQL is done.
    pub(super) fn has(&self, server: &[u8; 16], number: u64) -> bool {
        let ranges = self.servers.get(server).map_or(&[][..], Vec::as_slice);
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// A transaction of MariaDB is done.
    pub(super) fn reach(&mut self, domain: u32, server: u32, number: u64) {
        self.domains.insert(domain, (server, number));
    }

    /// Whether there are some of MariaDB.
    pub(super) fn is_of_mariadb(&self) -> bool {
        !self.domains.is_empty()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.domains.is_empty()
    }

    /// MySQL's encoded form, in which COM_BINLOG_DUMP_GTID has it.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = (self.servers.len() as u64).to_le_bytes().to_vec();
        for (server, ranges) in &self.servers {
            out.extend(server);
            out.extend((ranges.len() as u64).to_le_bytes());
            for (first, last) in ranges {
                out.extend(first.to_le_bytes());
                out.extend(last.saturating_add(1).to_le_bytes());
            }
        }
        out
    }
}

fn server_of(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.bytes().filter(|byte| *byte != b'-').map(hex).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    if digits.len() != 32 { None } else { bytes.try_into().ok() }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries: Vec<String> = Vec::new();
        for (server, ranges) in &self.servers {
            let mut entry = gtid::text(server);
            for (first, last) in ranges {
                if first == last {
                    entry.push_str(&format!(":{first}"))
                } else {
                    entry.push_str(&format!(":{first}-{last}"))
                }
            }
            entries.push(entry);
        }
        for (domain, (server, number)) in &self.domains {
            entries.push(format!("{domain}-{server}-{number}"));
        }
        f.write_str(&entries.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "30313233-3435-3637-3839-616263646566";

    #[test]
    fn numbers_become_ranges_and_ranges_join() {
        let mut set = GtidSet::default();
        for number in [1, 2, 3, 7, 5, 6, 9] {
            set.add(*b"0123456789abcdef", number, false);
        }
        assert_eq!(set.to_string(), format!("{SERVER}:1-3:5-7:9"));
        assert!(set.has(b"0123456789abcdef", 6) && !set.has(b"0123456789abcdef", 4));
        assert_eq!(GtidSet::parse(&set.to_string()), Some(set.clone()));
        set.add(*b"0123456789abcdef", 70, true);
        assert_eq!(set.to_string(), format!("{SERVER}:1-70"));
        // One server, its name, one range that ends before 71.
        let encoded = set.encoded();
        assert_eq!((encoded[0], encoded[24], encoded[32], encoded[40]), (1, 1, 1, 71));
        assert_eq!(encoded.len(), 48);
    }

    #[test]
    fn domains_have_a_last_number() {
        let mut set = GtidSet::default();
        set.reach(0, 1, 5);
        set.reach(2, 7, 9);
        set.reach(0, 3, 6);
        assert_eq!(set.to_string(), "0-3-6,2-7-9");
        assert!(set.is_of_mariadb() && GtidSet::parse("0-3-6, 2-7-9") == Some(set));
        for wrong in ["0-3", "x", &format!("{SERVER}:0"), &format!("{SERVER}:5-3"), "3031:1"] {
            assert_eq!(GtidSet::parse(wrong), None, "{wrong}");
        }
        assert_eq!(GtidSet::parse(""), Some(GtidSet::default()));
    }
}
