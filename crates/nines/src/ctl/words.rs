//! The words of `nines ctl`, and of NDB's management client.
//!
//! # Owns
//! [`Order`], what a line asks for; the table of all words.
//! # Guarantees
//! Letter case is of no matter. What NDB knows and Nines does not (yet) is refused by its name; any
//! other line that makes no sense, with the word that was not understood and the nearest known one.

use std::time::Duration;

use cluster_config::nearest;

use super::{backup, certificates, config, groups, upgrade};
use crate::role::news::Level;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) what: What,
    /// The answer is to be JSON.
    pub(super) json: bool,
}

/// An order without its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Nothing: an empty line, a comment.
    Nothing,
    Help(Option<String>),
    Quit,
    Show,
    /// Of a node, or of all.
    Status(Option<u16>),
    Events {
        follow: bool,
        most: usize,
        /// Lines that matter less are left out.
        level: Level,
    },
    Groups,
    Memory(Option<u16>),
    Transactions,
    Locks,
    Survivability,
    Version,
    /// About the configuration.
    Config(config::Order),
    /// About an upgrade.
    Upgrade(upgrade::Order),
    /// NDB's ALL STOP ends the data nodes, SHUTDOWN all that can be.
    Stop {
        whom: Whom,
        force: bool,
    },
    Restart {
        whom: Whom,
        rolling: bool,
        force: bool,
        /// How long a node may take to be back with all its rows.
        patience: Duration,
    },
    /// The cluster goes back to an epoch, without what its disks have lost.
    AcceptLoss(u64),
    /// New keys for the disk of a node, or of all.
    RotateKeys(Option<u16>),
    /// About node groups.
    NodeGroups(groups::Order),
    /// About tokens and certificates.
    Certificates(certificates::Order),
    /// About backups.
    Backup(backup::Order),
}

/// Whom an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Node(u16),
    /// All data nodes.
    DataNodes,
    /// All data and management nodes.
    Everything,
}

impl What {
    /// Whether it changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        match self {
            What::Stop { .. } | What::Restart { .. } => false,
            What::AcceptLoss(_) | What::RotateKeys(_) | What::Backup(_) => false,
            What::NodeGroups(order) => order.only_reads(),
            What::Certificates(order) => order.only_reads(),
            What::Config(order) => order.only_reads(),
            What::Upgrade(order) => *order == upgrade::Order::Look,
            _ => true,
        }
    }
}

/// A word, how it is used, what it does.
pub(super) struct Word {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
}

/// All words, in the order of the help.
pub(super) const WORDS: [Word; 25] = [
    word("show", "show", "the nodes by role, who holds which rows, and warnings"),
    word("status", "status [N]", "each node's state in one line; N STATUS, ALL STATUS"),
    word("groups", "groups", "node groups: who has all rows, who is being given them"),
    word("survivability", "survivability", "which next losses the cluster would survive, and why"),
    word(
        "events",
        "events [-n N] [--level L] [--follow]",
        "the cluster log: what happened, and why",
    ),
    word("memory", "memory [N]", "memory of data nodes: used, limit, percent; ALL REPORT MEMORY"),
    word("transactions", "transactions", "open transactions"),
    word("locks", "locks", "locks that are held or waited for"),
    word("stop", "stop N|all [--force]", "ends a node, or all data nodes, in good order; N STOP"),
    word(
        "restart",
        "restart N|all --rolling [--force] [--timeout S]",
        "restarts a node, or all one after the other, and waits until it is back; N RESTART",
    ),
    word("shutdown", "shutdown", "ends all data nodes, then all management nodes"),
    word(
        "accept-loss",
        "accept-loss EPOCH",
        "lets a cluster start that has lost what its disks had: it goes back to this epoch, and \
         what came later is given up",
    ),
    word(
        "rotate-keys",
        "rotate-keys [N]",
        "new keys for what is encrypted on disk: reads the master key again, and makes a data key",
    ),
    word(
        "create",
        "create nodegroup ID,ID… | replica ID nodegroup GROUP",
        "a node group of data nodes that are in none (NodeGroup=65536), which new tables use; or \
         one more replica of what a node group holds",
    ),
    word(
        "drain",
        "drain GROUP",
        "new tables do not use a node group any more, and SQL nodes move those that do",
    ),
    word(
        "drop",
        "drop nodegroup GROUP | replica ID",
        "ends a node group that is drained; or takes a node out of its group, which goes on with \
         the others; nodes that leave end",
    ),
    word(
        "rebalance",
        "rebalance [status|stop]",
        "SQL nodes move all tables to the node groups that new tables use; how far they are",
    ),
    word(
        "token",
        "token create|list|revoke",
        "tokens by which nodes join: create --role data|sql|management|ctl [--node N] [--valid 1h]",
    ),
    word(
        "certificates",
        "certificates list|revoke|…",
        "certificates of nodes and operators: list, revoke N|SERIAL|operator NAME, \
         create-operator NAME [--out DIR], export-ca [FILE], new-authority, retire-authority ID",
    ),
    word(
        "start",
        "start backup [ID] [SNAPSHOTSTART] [WAIT COMPLETED] [ENCRYPT PASSWORD='…']",
        "a backup of all, made by the SQL node of this host in its BackupDataDir",
    ),
    word("abort", "abort backup ID", "ends a backup that `start backup` makes"),
    word(
        "config",
        "config [show|history|diff FILE|set …|apply FILE]",
        "the configuration in the control log: what is in use, who has changed it, what a file \
         would change; set SECTION.PARAMETER=VALUE (ndbd.DataMemory=2G, 49.HttpPort=9090) and \
         apply change it, with --restart for restarts in turn",
    ),
    word(
        "upgrade",
        "upgrade [status|finalize] [--timeout S]",
        "restarts all nodes in turn with the program that is installed now; \
         finalize ends the upgrade, after which the program of before cannot come back",
    ),
    word("version", "version", "the version that each node runs"),
    word("help", "help [WORD]", "this text, or more about a word"),
];

const fn word(name: &'static str, usage: &'static str, about: &'static str) -> Word {
    Word { name, usage, about }
}

/// Words of NDB's client without a counterpart, with what to do instead.
const FOREIGN: [(&str, &str); 8] = [
    ("start", "a process is started where it runs: `nines data -c HOST` (systemd: nines-data)"),
    ("enter", "single user mode is not available yet"),
    ("exit-single", "single user mode is not available yet"),
    ("clusterlog", "all levels are kept; `events --level warning` leaves the lower ones out"),
    ("dump", "use the tables of the schema `nines` in SQL, or `nines inspect`"),
    ("purge", "ids of nodes that are gone are free at once"),
    ("connect", "leave, and give -c HOST[:PORT]"),
    ("prompt", "the prompt is fixed"),
];

/// Reads a line that has been cut into words.
pub(super) fn parse(words: &[String]) -> Result<Order, String> {
    let mut rest: Vec<String> = Vec::new();
    let mut json = false;
    if let Some((first, rest)) = words.split_first()
        && let Some(parsed) = about_names(first, rest)
    {
        return parsed;
    }
    for word in words {
        let word = word.trim_end_matches(';');
        match word.to_ascii_lowercase().as_str() {
            "" => {}
            "--json" => json = true,
            other => rest.push(other.to_string()),
        }
    }
    let what = what(&rest)?;
    if json && !what.only_reads() {
        return Err(ONLY_READS.into());
    }
    Ok(Order { what, json })
}

/// Reads an order about tokens, certificates, backups or the configuration, where letter case is
/// that of names, files and passwords.
fn about_names(first: &str, rest: &[String]) -> Option<Result<Order, String>> {
    let lower = first.to_ascii_lowercase();
    let is_backup =
        rest.first().is_some_and(|word| word.trim_end_matches(';').eq_ignore_ascii_case("backup"));
    if is_backup && matches!(lower.as_str(), "start" | "abort") {
        let rest: Vec<&str> = rest.iter().map(|word| word.trim_end_matches(';')).collect();
        let rest: Vec<&str> = rest.into_iter().filter(|word| !word.is_empty()).collect();
        let order = backup::read(&lower, &rest).map(What::Backup);
        return Some(order.map(|what| Order { what, json: false }));
    }
    if let "config" | "configuration" = lower.as_str() {
        let json = rest.iter().any(|word| word == "--json");
        let rest: Vec<&str> = rest.iter().map(|word| word.trim_end_matches(';')).collect();
        let rest: Vec<&str> =
            rest.into_iter().filter(|word| !word.is_empty() && *word != "--json").collect();
        let order = config::read(&rest, PATIENCE).map(What::Config);
        return Some(order.and_then(|what| {
            if json && !what.only_reads() {
                return Err(ONLY_READS.into());
            }
            Ok(Order { what, json })
        }));
    }
    let read = match lower.as_str() {
        "token" | "tokens" => certificates::token,
        "certificates" | "certificate" => certificates::certificates,
        _ => return None,
    };
    let json = rest.iter().any(|word| word == "--json");
    let rest: Vec<&str> = rest.iter().map(|word| word.trim_end_matches(';')).collect();
    let rest: Vec<&str> =
        rest.into_iter().filter(|word| !word.is_empty() && *word != "--json").collect();
    Some(read(&rest).map(What::Certificates).and_then(|what| {
        if json && !what.only_reads() {
            return Err(ONLY_READS.into());
        }
        Ok(Order { what, json })
    }))
}

/// Cuts a line into words; what follows `#` is a comment.
pub(super) fn cut(line: &str) -> Vec<String> {
    let line = line.split('#').next().unwrap_or_default();
    line.split_whitespace().map(str::to_string).collect()
}

fn what(words: &[String]) -> Result<What, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((first, rest)) = words.split_first() else { return Ok(What::Nothing) };
    // NDB says whom first: `2 STOP`, `ALL STATUS`.
    if let Some(whom) = whom(first) {
        let Some((verb, options)) = rest.split_first() else {
            return Err(format!("what about {first}? for example `{first} status`"));
        };
        return to_somebody(verb, whom, options);
    }
    match *first {
        "stop" | "restart" => {
            let at = rest.iter().position(|word| !word.starts_with('-'));
            let subject = at.and_then(|at| whom(rest[at]));
            let Some((at, whom)) = at.zip(subject) else {
                return Err(format!(
                    "{first} whom? `{first} N`, where N is a node id, or `{first} all`"
                ));
            };
            let options: Vec<&str> = [&rest[..at], &rest[at + 1..]].concat();
            to_somebody(first, whom, &options)
        }
        "rotate-keys" => match rest {
            [] | ["all"] => Ok(What::RotateKeys(None)),
            [one] => match whom(one) {
                Some(Whom::Node(id)) => Ok(What::RotateKeys(Some(id))),
                _ => Err(format!("`{one}` is no node id")),
            },
            [_, surplus, ..] => Err(format!("`{surplus}` is too much after `rotate-keys`")),
        },
        "status" | "memory" => match rest {
            [] => to_somebody(first, Whom::DataNodes, &[]),
            [one, options @ ..] => match whom(one) {
                Some(whom) => to_somebody(first, whom, options),
                None => Err(format!("`{one}` is no node id")),
            },
        },
        "show" if !rest.is_empty() => what(&rest.iter().map(|w| w.to_string()).collect::<Vec<_>>()),
        "help" | "?" | "\\h" => Ok(What::Help(rest.first().map(|word| word.to_string()))),
        "events" => events(rest),
        "create" | "drop" | "drain" | "rebalance" => {
            groups::read(first, rest).map(What::NodeGroups)
        }
        "upgrade" => match rest {
            ["status"] => Ok(What::Upgrade(upgrade::Order::Look)),
            ["finalize"] => Ok(What::Upgrade(upgrade::Order::Finalize)),
            given => {
                let Options { force, patience, .. } =
                    options(first, given, &["-f", "--force", "--timeout"])?;
                Ok(What::Upgrade(upgrade::Order::Run { force, patience }))
            }
        },
        "accept-loss" => match rest {
            [epoch] => epoch.parse().map(What::AcceptLoss).map_err(|_| {
                format!("`{epoch}` is no epoch; `events` shows which the cluster would go back to")
            }),
            _ => Err("accept-loss of what? `accept-loss EPOCH`, with the epoch that `show` or \
                      `events` names"
                .into()),
        },
        "shutdown" => {
            let force = options(first, rest, &["-f", "--force"])?.force;
            Ok(What::Stop { whom: Whom::Everything, force })
        }
        _ => plain(first, rest),
    }
}

/// Orders of one word.
fn plain(first: &str, rest: &[&str]) -> Result<What, String> {
    let what = match first {
        "show" => What::Show,
        "groups" | "nodegroups" => What::Groups,
        "transactions" => What::Transactions,
        "locks" => What::Locks,
        "survivability" => What::Survivability,
        "version" => What::Version,
        "quit" | "exit" | "bye" | "\\q" => {
            if rest.first() == Some(&"single") {
                return foreign("exit-single");
            }
            What::Quit
        }
        _ => return foreign(first),
    };
    match rest.first() {
        Some(surplus) => Err(format!("`{surplus}` is too much after `{first}`")),
        None => Ok(what),
    }
}

fn foreign(word: &str) -> Result<What, String> {
    if let Some((name, instead)) = FOREIGN.iter().find(|(name, _)| *name == word) {
        let name = name.replace("exit-single", "exit single user mode");
        return Err(format!("`{name}` is not an order here: {instead}"));
    }
    let near = nearest(word, WORDS.iter().map(|known| known.name));
    let near = near.map(|name| format!("; did you mean `{name}`?"));
    Err(format!("`{word}` is not an order{}", near.unwrap_or_else(|| "; see `help`".into())))
}

fn whom(word: &str) -> Option<Whom> {
    match word {
        "all" => Some(Whom::DataNodes),
        _ => word.parse().ok().filter(|id| *id > 0).map(Whom::Node),
    }
}

/// Orders that are for a node, or for all.
fn to_somebody(verb: &str, whom: Whom, given: &[&str]) -> Result<What, String> {
    let one = match whom {
        Whom::Node(id) => Some(id),
        _ => None,
    };
    match verb {
        "status" => no_options(verb, given, What::Status(one)),
        "memory" => no_options(verb, given, What::Memory(one)),
        "report" => match given {
            ["memory" | "memoryusage", rest @ ..] => no_options(verb, rest, What::Memory(one)),
            ["eventlog", ..] => {
                let (follow, most, level) = (false, EVENTS_DEFAULT, Level::Info);
                Ok(What::Events { follow, most, level })
            }
            [other, ..] => Err(format!("`report {other}` is not available; `report memory` is")),
            [] => Err("report what? `report memory`".into()),
        },
        "stop" => {
            // NDB's -a ends without ado, which is what the signal does where the process runs.
            let options = options(verb, given, &["-f", "--force"])?;
            Ok(What::Stop { whom, force: options.force })
        }
        "restart" => {
            let options = options(verb, given, &["-f", "--force", "--rolling", "--timeout"])?;
            if one.is_none() && !options.rolling {
                return Err(
                    "`restart all` at once would interrupt the service: `restart all --rolling` \
                     restarts one node at a time; or `stop all`, and start the nodes again"
                        .into(),
                );
            }
            let whom = if one.is_none() { Whom::Everything } else { whom };
            let (rolling, force, patience) = (one.is_none(), options.force, options.patience);
            Ok(What::Restart { whom, rolling, force, patience })
        }
        other => foreign(other),
    }
}

fn no_options(verb: &str, given: &[&str], what: What) -> Result<What, String> {
    options(verb, given, &[]).map(|_| what)
}

struct Options {
    force: bool,
    rolling: bool,
    patience: Duration,
}

fn options(verb: &str, given: &[&str], known: &[&str]) -> Result<Options, String> {
    let mut options = Options { force: false, rolling: false, patience: PATIENCE };
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let (name, value) = word.split_once('=').map_or((*word, None), |(n, v)| (n, Some(v)));
        match name {
            "-n" | "-i" | "-a" | "--initial" | "--nostart" | "--abort" if verb != "events" => {
                return Err(format!(
                    "`{verb} {name}` is not available: a node is started with other options, or \
                     killed, where it runs"
                ));
            }
            _ if !known.contains(&name) => {
                let near = nearest(name, known.iter().copied().filter(|name| name.len() > 2));
                let near = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                return Err(format!("`{word}` is too much after `{verb}`{near}"));
            }
            "--force" | "-f" => options.force = true,
            "--rolling" => options.rolling = true,
            _ => {
                let value = value.or_else(|| given.next().copied());
                let seconds = value.and_then(|value| value.parse().ok()).filter(|s| *s > 0);
                let seconds = seconds.ok_or("--timeout needs a number of seconds")?;
                options.patience = Duration::from_secs(seconds);
            }
        }
    }
    Ok(options)
}

fn events(given: &[&str]) -> Result<What, String> {
    let (mut follow, mut most, mut level) = (false, EVENTS_DEFAULT, Level::Info);
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let number = match *word {
            "-f" | "--follow" => {
                follow = true;
                continue;
            }
            "--level" => {
                level = given.next().and_then(|name| level_of(name)).ok_or(NO_LEVEL)?;
                continue;
            }
            "-n" => given.next().copied(),
            other => other.strip_prefix("-n"),
        };
        let Some(number) = number else {
            return Err(format!("`{word}` is too much after `events`"));
        };
        most = number.parse().map_err(|_| format!("-n needs a number of lines, not `{number}`"))?;
    }
    Ok(What::Events { follow, most, level })
}

fn level_of(name: &str) -> Option<Level> {
    [Level::Info, Level::Warning, Level::Error].into_iter().find(|level| level.name() == name)
}

/// Lines of the cluster log that are shown unless another number is given.
const EVENTS_DEFAULT: usize = 50;
const ONLY_READS: &str = "--json is for orders that only read";
const NO_LEVEL: &str = "--level needs info, warning or error";
/// How long a node may take to be back with all its rows.
const PATIENCE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
