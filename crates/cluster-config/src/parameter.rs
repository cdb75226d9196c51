//! The table of parameters: the only source for reading, validation, help and the reference page.
//!
//! # Owns
//! What a parameter is, and how it is found by its name, or by nearly its name.
//! # Invariants
//! 1. A name, an alias included, means one parameter in a section.
//! 2. A default lies within its range.
//! # Not here
//! The rows: one file below for each kind of section. Values in a file: `value`.

mod connection;
mod data_limits;
mod data_node;
mod describe;
mod other_nodes;
mod shared;

use std::fmt;

use crate::ini::SectionKind;
use crate::near;

/// A parameter as users write it in `config.ini`.
#[derive(Debug)]
pub struct Parameter {
    /// NDB's name, or ours where NDB has none.
    pub name: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// The sections it belongs to.
    pub sections: Sections,
    /// What values it takes.
    pub kind: Kind,
    /// NDB's default, where it is another one.
    pub default_ndb: Option<&'static str>,
    /// What has to be restarted when it changes.
    pub restart: Restart,
    /// Whether it has an effect.
    pub status: Status,
    /// What it means, in half a sentence.
    pub about: &'static str,
}

/// The values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Flag {
        /// Where nothing is given.
        default: bool,
    },
    /// A whole number.
    Number {
        /// What is counted.
        unit: Unit,
        /// Where nothing is given.
        default: Default,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// One of some words.
    Choice {
        /// Where nothing is given.
        default: &'static str,
        /// The words, as they are printed; any case is read.
        values: &'static [&'static str],
    },
    /// Text: a path, a name. An empty default is none.
    Text {
        /// Where nothing is given.
        default: &'static str,
    },
    /// The address of a host: a name, an IPv4 or an IPv6 address.
    Host {
        /// Where nothing is given; empty for any host.
        default: &'static str,
    },
    /// Threads by role, as in `ldm={count=4,cpubind=0-3},main,tc`.
    Threads,
    /// Numbers of CPUs, as in `0-3,8`.
    Cpus,
}

/// The default of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This one.
    Value(u64),
    /// It follows something else, told in half a sentence.
    Follows(&'static str),
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Hundredths.
    Percent,
}

impl Unit {
    /// The unit as the reference page names it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "number",
            Unit::Bytes => "bytes",
            Unit::Microseconds => "microseconds",
            Unit::Milliseconds => "milliseconds",
            Unit::Seconds => "seconds",
            Unit::Percent => "percent",
        }
    }
}

/// What has to be restarted for a changed value, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restart {
    /// Nothing: the value is taken over by running nodes.
    Online,
    /// The nodes, one after the other.
    Node,
    /// The nodes, one after the other, each with an empty data directory.
    InitialNode,
    /// The whole cluster at once.
    System,
    /// The whole cluster at once, with empty data directories: what it holds comes from a backup.
    InitialSystem,
}

impl Restart {
    /// The word of the reference page and of `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Restart::Online => "online",
            Restart::Node => "node",
            Restart::InitialNode => "initial node",
            Restart::System => "system",
            Restart::InitialSystem => "initial system",
        }
    }

    /// What has to be done, as an instruction.
    pub const fn instruction(self) -> &'static str {
        match self {
            Restart::Online => "no restart",
            Restart::Node => "restart the nodes one after the other",
            Restart::InitialNode => "restart the nodes one after the other with --initial",
            Restart::System => "stop the cluster and start it again",
            Restart::InitialSystem => {
                "save the data, stop the cluster, start it with --initial, load the data"
            }
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a parameter has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does what it says.
    Honoured,
    /// It is accepted and checked, and will have its effect in a later version.
    Later,
    /// It is accepted and has no effect, for this reason.
    Meaningless(&'static str),
}

impl Status {
    /// The word of the reference page and of `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Honoured => "honoured",
            Status::Later => "later",
            Status::Meaningless(_) => "meaningless",
        }
    }
}

/// A set of kinds of sections, and whether all data nodes must have the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections(u16);

impl Sections {
    /// Whether a parameter may stand in a section of this kind.
    pub const fn contains(self, kind: SectionKind) -> bool {
        self.0 & bit(kind) != 0
    }

    /// Whether every node that knows the parameter must have the same value.
    pub const fn alike(self) -> bool {
        self.0 & ALIKE != 0
    }

    /// The kinds, in the order of a file.
    pub fn iter(self) -> impl Iterator<Item = SectionKind> {
        KINDS.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl fmt::Display for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.iter().enumerate() {
            write!(f, "{}[{kind}]", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Parameter {
    /// Every parameter, in the order of the reference page.
    pub fn all() -> impl Iterator<Item = &'static Parameter> {
        TABLES.iter().flat_map(|table| table.iter())
    }

    /// The parameter of this name in a section of this kind; in any case, also by an alias.
    pub fn find(name: &str, kind: SectionKind) -> Option<&'static Parameter> {
        Parameter::all().find(|parameter| parameter.sections.contains(kind) && parameter.is(name))
    }

    /// All parameters of this name: some mean different things in different sections.
    pub fn named(name: &str) -> impl Iterator<Item = &'static Parameter> {
        Parameter::all().filter(move |parameter| parameter.is(name))
    }

    /// The known name that is most like this one, unless none is like it. Names that belong to the
    /// section are preferred to others that are as near.
    pub fn nearest(name: &str, kind: SectionKind) -> Option<&'static str> {
        let name = name.to_ascii_lowercase();
        if name.len() > near::SIZE_MAX {
            return None;
        }
        let limit = near::limit(&name);
        let candidates = Parameter::all().flat_map(|parameter| {
            let foreign = usize::from(!parameter.sections.contains(kind));
            let names = std::iter::once(parameter.name).chain(parameter.aliases.iter().copied());
            names.map(move |known| (known, foreign))
        });
        candidates
            .map(|(known, foreign)| {
                (near::distance(&name, &known.to_ascii_lowercase()), foreign, known)
            })
            .filter(|(distance, ..)| *distance <= limit)
            .min()
            .map(|(.., known)| known)
    }

    /// Whether this is its name, or one of them.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

const KINDS: [SectionKind; 8] = [
    SectionKind::Cluster,
    SectionKind::Computer,
    SectionKind::Management,
    SectionKind::Data,
    SectionKind::Sql,
    SectionKind::Api,
    SectionKind::Tcp,
    SectionKind::SharedMemory,
];

const fn bit(kind: SectionKind) -> u16 {
    1 << (kind as u16)
}

const CLUSTER: u16 = bit(SectionKind::Cluster);
const COMPUTER: u16 = bit(SectionKind::Computer);
const MANAGEMENT: u16 = bit(SectionKind::Management);
const DATA: u16 = bit(SectionKind::Data);
const CLIENT: u16 = bit(SectionKind::Sql) | bit(SectionKind::Api);
const NODES: u16 = MANAGEMENT | DATA | CLIENT;
const TCP: u16 = bit(SectionKind::Tcp);
const SHARED_MEMORY: u16 = bit(SectionKind::SharedMemory);
const LINKS: u16 = TCP | SHARED_MEMORY;
const ALIKE: u16 = 1 << 15;

const TABLES: [&[Parameter]; 5] = [
    shared::PARAMETERS,
    data_node::PARAMETERS,
    data_limits::PARAMETERS,
    other_nodes::PARAMETERS,
    connection::PARAMETERS,
];

/// Rows are read across: names; sections, values, restart, status; NDB's default where it is
/// another one; meaning.
macro_rules! parameters {
    ($(
        $name:literal $(or $alias:literal)*;
        $sections:expr, $kind:expr, $restart:ident, $status:expr $(, ndb $ndb:literal)?;
        $about:literal
    )*) => {
        &[$(Parameter {
            name: $name,
            aliases: &[$($alias),*],
            sections: Sections($sections),
            kind: $kind,
            default_ndb: parameters!(@ndb $($ndb)?),
            restart: Restart::$restart,
            status: $status,
            about: $about,
        }),*]
    };
    (@ndb) => { None };
    (@ndb $ndb:literal) => { Some($ndb) };
}
use parameters;

const HONOURED: Status = Status::Honoured;
const LATER: Status = Status::Later;

const fn none(why: &'static str) -> Status {
    Status::Meaningless(why)
}

const fn flag(default: bool) -> Kind {
    Kind::Flag { default }
}

const fn number(unit: Unit, default: u64, min: u64, max: u64) -> Kind {
    Kind::Number { unit, default: Default::Value(default), min, max }
}

const fn follows(unit: Unit, default: &'static str, min: u64, max: u64) -> Kind {
    Kind::Number { unit, default: Default::Follows(default), min, max }
}

const fn count(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Count, default, min, max)
}

const fn bytes(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Bytes, default, min, max)
}

const fn millis(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Milliseconds, default, min, max)
}

const fn micros(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Microseconds, default, min, max)
}

const fn seconds(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Seconds, default, min, max)
}

const fn percent(default: u64, min: u64, max: u64) -> Kind {
    number(Unit::Percent, default, min, max)
}

const fn text(default: &'static str) -> Kind {
    Kind::Text { default }
}

const fn choice(default: &'static str, values: &'static [&'static str]) -> Kind {
    Kind::Choice { default, values }
}

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;
/// The largest value of most numbers of NDB.
const MOST: u64 = 4_294_967_039;

#[cfg(test)]
mod tests;
