//! Threads of a data node as NDB's users write them in `ThreadConfig`.
//!
//! # Owns
//! The roles, their numbers, the CPUs they are bound to, as text and as values.
//! # Not here
//! What a role does here, and the layout for a machine: the host of the actors.

mod cpus;

use std::fmt;

pub use cpus::CpuSet;

use crate::problem::quoted;
use crate::value;

/// The work that a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadRole {
    /// `ldm`: rows, indexes and redo log of its partitions.
    Rows,
    /// `query`: committed reads of any partition.
    Query,
    /// `recover`: rebuilds partitions at a restart.
    Recover,
    /// `tc`: coordinates transactions.
    Coordinator,
    /// `send`: writes to other nodes.
    Send,
    /// `recv`: reads from other nodes.
    Receive,
    /// `main`: definitions, membership, epochs.
    Main,
    /// `rep`: streams of changes.
    Replication,
    /// `io`: reads and writes files.
    Io,
    /// `idxbld`: builds ordered indexes at a restart.
    IndexBuild,
    /// `watchdog`, also `wd`: notices threads that stand still.
    Watchdog,
}

impl ThreadRole {
    /// NDB's name.
    pub const fn name(self) -> &'static str {
        match self {
            ThreadRole::Rows => "ldm",
            ThreadRole::Query => "query",
            ThreadRole::Recover => "recover",
            ThreadRole::Coordinator => "tc",
            ThreadRole::Send => "send",
            ThreadRole::Receive => "recv",
            ThreadRole::Main => "main",
            ThreadRole::Replication => "rep",
            ThreadRole::Io => "io",
            ThreadRole::IndexBuild => "idxbld",
            ThreadRole::Watchdog => "watchdog",
        }
    }

    /// How many threads of the role there may be.
    pub const fn count_range(self) -> (u16, u16) {
        match self {
            ThreadRole::Rows | ThreadRole::Query => (0, 332),
            ThreadRole::Recover | ThreadRole::Coordinator => (0, 128),
            ThreadRole::Send => (0, 64),
            ThreadRole::Receive => (1, 64),
            ThreadRole::Main => (0, 2),
            ThreadRole::Replication => (0, 1),
            ThreadRole::Io | ThreadRole::Watchdog => (1, 1),
            ThreadRole::IndexBuild => (0, 128),
        }
    }

    /// All of them, in the order of the canonical text.
    pub const ALL: [ThreadRole; 11] = [
        ThreadRole::Rows,
        ThreadRole::Query,
        ThreadRole::Recover,
        ThreadRole::Coordinator,
        ThreadRole::Send,
        ThreadRole::Receive,
        ThreadRole::Main,
        ThreadRole::Replication,
        ThreadRole::Io,
        ThreadRole::IndexBuild,
        ThreadRole::Watchdog,
    ];
}

/// Threads of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadGroup {
    /// What they do.
    pub role: ThreadRole,
    /// How many there are.
    pub count: u16,
    /// The CPUs they are bound to.
    pub binding: Option<Binding>,
    /// How long a thread looks for messages before it sleeps, in microseconds.
    pub spin_us: Option<u32>,
    /// Real-time scheduling.
    pub realtime: Option<bool>,
    /// Priority of the thread, from 0 to 10.
    pub priority: Option<u8>,
    /// Whether the thread leaves sending to others.
    pub no_send: Option<bool>,
}

/// CPUs that threads are bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whether each thread has one of the CPUs (`cpubind`), or all share them (`cpuset`).
    pub one_each: bool,
    /// Whether nothing else may run there.
    pub exclusive: bool,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// A value of `ThreadConfig`: groups in the order of roles; a role may have several groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadConfig {
    groups: Vec<ThreadGroup>,
}

impl ThreadConfig {
    /// Reads `role={count=…,cpubind=…},role,…`.
    pub fn parse(text: &str) -> Result<ThreadConfig, String> {
        let mut groups: Vec<ThreadGroup> = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = rest.find([',', '=', '{']).unwrap_or(rest.len());
            let name = rest[..end].trim();
            let name = if name.eq_ignore_ascii_case("wd") { "watchdog" } else { name };
            let known = |role: &ThreadRole| role.name().eq_ignore_ascii_case(name);
            let Some(role) = ThreadRole::ALL.into_iter().find(known) else {
                let known: Vec<_> = ThreadRole::ALL.iter().map(|role| role.name()).collect();
                let name = quoted(name);
                return Err(format!(
                    "`{name}` is no kind of thread; known are {}",
                    known.join(", ")
                ));
            };
            rest = rest[end..].trim_start();
            let mut options = "";
            // NDB's manual has examples without the equals sign.
            if let Some(behind) = rest.strip_prefix('=').or(rest.starts_with('{').then_some(rest)) {
                let behind = behind.trim_start().strip_prefix('{');
                let Some((inside, behind)) = behind.and_then(|behind| behind.split_once('}'))
                else {
                    return Err(format!(
                        "write {}={{…}} with braces around the options",
                        role.name()
                    ));
                };
                options = inside;
                rest = behind.trim_start();
            }
            groups.push(group(role, options)?);
            if groups.len() > GROUPS_MAX {
                return Err(format!("there are more than {GROUPS_MAX} groups of threads"));
            }
            rest = match rest.strip_prefix(',') {
                Some(behind) if behind.trim().is_empty() => return Err(DANGLING.into()),
                Some(behind) => behind.trim_start(),
                None if rest.is_empty() => rest,
                None => return Err(format!("a comma is missing before `{}`", quoted(rest))),
            };
        }
        groups.sort_by_key(|group| group.role);
        let config = ThreadConfig { groups };
        for role in ThreadRole::ALL {
            let count = config.count(role);
            let (min, max) = role.count_range();
            let given = config.groups.iter().any(|group| group.role == role);
            if given && !(u32::from(min)..=u32::from(max)).contains(&count) {
                let name = role.name();
                return Err(format!("{name} has {count} threads; write {min} to {max}"));
            }
        }
        Ok(config)
    }

    /// The groups, in the order of roles.
    pub fn groups(&self) -> &[ThreadGroup] {
        &self.groups
    }

    /// How many threads of a role are asked for.
    pub fn count(&self, role: ThreadRole) -> u32 {
        let groups = self.groups.iter().filter(|group| group.role == role);
        groups.map(|group| u32::from(group.count)).sum()
    }
}

/// One group from what stands between its braces.
fn group(role: ThreadRole, options: &str) -> Result<ThreadGroup, String> {
    let mut group = ThreadGroup {
        role,
        count: 1,
        binding: None,
        spin_us: None,
        realtime: None,
        priority: None,
        no_send: None,
    };
    let mut seen: Vec<String> = Vec::new();
    for (key, text) in pairs(options)? {
        let key = key.to_ascii_lowercase();
        let wrong = |why: &str| format!("{} of {}: {why}", quoted(&key), role.name());
        if seen.contains(&key) {
            return Err(wrong("given twice"));
        }
        let number = |max: u64| match value::number(text) {
            Ok(number) if number <= max => Ok(number),
            _ => Err(wrong(&format!("`{}` is no number up to {max}", quoted(text)))),
        };
        match key.as_str() {
            "count" => group.count = number(1_024)? as u16,
            "cpubind" | "cpuset" | "cpubind_exclusive" | "cpuset_exclusive" => {
                if group.binding.is_some() {
                    return Err(wrong("a group has one list of CPUs"));
                }
                group.binding = Some(Binding {
                    one_each: key.starts_with("cpubind"),
                    exclusive: key.ends_with("_exclusive"),
                    cpus: CpuSet::parse(text).map_err(|why| wrong(&why))?,
                });
            }
            "spintime" => group.spin_us = Some(number(9_000)? as u32),
            "realtime" => group.realtime = Some(number(1)? == 1),
            "thread_prio" => group.priority = Some(number(10)? as u8),
            "nosend" => group.no_send = Some(number(1)? == 1),
            _ => return Err(wrong(KNOWN_OPTIONS)),
        }
        seen.push(key);
    }
    if let Some(Binding { one_each: true, cpus, .. }) = &group.binding
        && cpus.len() < usize::from(group.count)
    {
        let (name, threads, cpus) = (role.name(), group.count, cpus.len());
        return Err(format!(
            "{name}: cpubind gives {cpus} CPUs to {threads} threads; write cpuset"
        ));
    }
    Ok(group)
}

/// Takes `key=value,…` apart; a value may be a list itself, as in `cpubind=0-3,8,count=2`.
fn pairs(options: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut pairs: Vec<(&str, usize, usize)> = Vec::new();
    let mut start = 0;
    if options.trim().is_empty() {
        return Ok(Vec::new());
    }
    for piece in options.split(',') {
        let end = start + piece.len();
        match (piece.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.trim(), end - value.len(), end)),
            (None, Some(last)) if !piece.trim().is_empty() => last.2 = end,
            (None, _) => return Err(format!("`{}` is not `key=value`", quoted(piece.trim()))),
        }
        start = end + 1;
    }
    Ok(pairs.into_iter().map(|(key, start, end)| (key, options[start..end].trim())).collect())
}

impl fmt::Display for ThreadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            write!(f, "{}{group}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        if self.count != 1 {
            options.push(format!("count={}", self.count));
        }
        if let Some(Binding { one_each, exclusive, cpus }) = &self.binding {
            let key = if *one_each { "cpubind" } else { "cpuset" };
            options.push(format!("{key}{}={cpus}", if *exclusive { "_exclusive" } else { "" }));
        }
        let number = |key: &str, value: u32| format!("{key}={value}");
        options.extend(self.spin_us.map(|spin| number("spintime", spin)));
        options.extend(self.realtime.map(|realtime| number("realtime", realtime.into())));
        options.extend(self.priority.map(|priority| number("thread_prio", priority.into())));
        options.extend(self.no_send.map(|no_send| number("nosend", no_send.into())));
        let name = self.role.name();
        if options.is_empty() {
            f.write_str(name)
        } else {
            write!(f, "{name}={{{}}}", options.join(","))
        }
    }
}

const DANGLING: &str = "nothing stands behind the last comma";

const KNOWN_OPTIONS: &str = "known are count, cpubind, cpubind_exclusive, cpuset, \
    cpuset_exclusive, spintime, realtime, thread_prio, nosend";

/// Groups in one value: more than there can be threads that differ.
const GROUPS_MAX: usize = 256;

#[cfg(test)]
mod tests;
