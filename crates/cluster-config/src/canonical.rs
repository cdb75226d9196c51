//! The one text of a configuration, which management nodes hand to others and compare.
//!
//! # Guarantees
//! Reading the text gives the same configuration. What does not matter in a file (order, case,
//! comments, units, default sections, computers) is not in it. What was not given is not in it
//! either: versions with other defaults agree on the text.

use std::fmt::{self, Write};
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_128;

use crate::cluster::{ClusterConfig, Settings};
use crate::ini;

/// Tells configurations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    pub(crate) fn of(canonical: &str) -> Fingerprint {
        Fingerprint(xxh3_128(canonical.as_bytes()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Fingerprint)
    }
}

pub(crate) fn write(config: &ClusterConfig) -> String {
    let mut text = String::new();
    if !config.settings.is_empty() {
        section(&mut text, "cluster", &[], &config.settings);
    }
    for (name, defaults) in [("tcp", &config.link_defaults.0), ("shm", &config.link_defaults.1)] {
        if !defaults.is_empty() {
            section(&mut text, &format!("{name} default"), &[], defaults);
        }
    }
    for node in &config.nodes {
        let name = node.role.section().name();
        section(&mut text, name, &[("NodeId", node.id.0)], &node.settings);
    }
    for link in &config.links {
        let name = if link.shared_memory { "shm" } else { "tcp" };
        let ends = [("NodeId1", link.ends.0.0), ("NodeId2", link.ends.1.0)];
        section(&mut text, name, &ends, &link.settings);
    }
    text
}

fn section(text: &mut String, name: &str, ids: &[(&str, u16)], settings: &Settings) {
    let mut lines = format!("[{name}]\n");
    let write = |lines: &mut String, line: fmt::Arguments<'_>| {
        lines.write_fmt(line).expect("a string takes any text");
    };
    for (name, id) in ids {
        write(&mut lines, format_args!("{name}={id}\n"));
    }
    for (name, value) in settings.iter() {
        write(&mut lines, format_args!("{name}={}\n", ini::quote(&value.text())));
    }
    text.push_str(&lines);
}
