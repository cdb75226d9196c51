//! `nines ctl config`: shows, compares and changes the configuration that the cluster has in its
//! control log.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use cluster_config::FILE_SIZE_MAX;
use model::cluster::Revision;
use serde::Serialize;

use super::table::Table;
use super::{Session, certificates, end};
use crate::machine;
use crate::role::request::{ChangePlan, Configuration, ConfigureOrder, Request};
use crate::role::status::list;

/// An order about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// What is in use.
    Show,
    /// Who has changed what, and when.
    History,
    /// What a file would change.
    Diff(String),
    /// Another configuration.
    Change(Change),
}

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The file with the whole of it.
    file: Option<String>,
    /// Values by name.
    assignments: Vec<String>,
    /// Also what takes more than restarts in turn.
    force: bool,
    /// Nodes that have to be restarted are, in turn.
    restart: bool,
    /// How long each may take.
    patience: Duration,
}

impl Order {
    pub(super) fn only_reads(&self) -> bool {
        !matches!(self, Order::Change(_))
    }
}

/// Reads what follows `config`.
pub(super) fn read(rest: &[&str], patience: Duration) -> Result<Order, String> {
    let Some((first, rest)) = rest.split_first() else { return Ok(Order::Show) };
    let first = first.to_ascii_lowercase();
    let only = |order: Order| match rest.first() {
        Some(surplus) => Err(format!("`{surplus}` is too much after `config {first}`")),
        None => Ok(order),
    };
    match first.as_str() {
        "show" => only(Order::Show),
        "history" => only(Order::History),
        "diff" => match rest {
            [file] => Ok(Order::Diff((*file).to_string())),
            _ => Err("diff with what? `config diff FILE`".into()),
        },
        "set" | "apply" => change(&first, rest, patience).map(Order::Change),
        _ => Err(format!("`config {first}` is not an order; {USAGE}")),
    }
}

fn change(verb: &str, rest: &[&str], patience: Duration) -> Result<Change, String> {
    let (file, assignments) = (None, Vec::new());
    let mut change = Change { file, assignments, force: false, restart: false, patience };
    let mut given = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let lower = word.to_ascii_lowercase();
        let (name, value) = lower.split_once('=').map_or((&*lower, None), |(n, v)| (n, Some(v)));
        match name {
            "--force" | "-f" => change.force = true,
            "--restart" => change.restart = true,
            "--timeout" => {
                let value = value.or_else(|| rest.next().copied());
                let seconds = value.and_then(|value| value.parse().ok()).filter(|s| *s > 0);
                let seconds = seconds.ok_or("--timeout needs a number of seconds")?;
                change.patience = Duration::from_secs(seconds);
            }
            _ if word.starts_with('-') => {
                return Err(format!("`{word}` is not an option of `config {verb}`; {USAGE}"));
            }
            _ => given.push((*word).to_string()),
        }
    }
    match (verb, &given[..]) {
        ("set", [_, ..]) => change.assignments = given,
        ("apply", [file]) => change.file = Some(file.clone()),
        _ => return Err(format!("{verb} what? {USAGE}")),
    }
    Ok(change)
}

/// Carries an order out.
pub(super) fn run(ctl: &mut Session<'_>, json: bool, order: &Order) -> Result<(), String> {
    match order {
        Order::Show => {
            let told: Configuration = ctl.ask(&Request::Configuration { role: String::new() })?;
            ctl.answer(json, &Told::of(&told), |_| show(&told))
        }
        Order::History => {
            let told: Vec<Revision> = ctl.ask(&Request::Revisions)?;
            ctl.answer(json, &told, |told| history(told))
        }
        Order::Diff(file) => {
            let look = ConfigureOrder {
                text: Some(text_of(file)?),
                assignments: Vec::new(),
                force: false,
                look: true,
                by: operator(),
            };
            let told: ChangePlan = ctl.ask(&Request::Configure(look))?;
            ctl.answer(json, &told, plan)
        }
        Order::Change(change) => carry_out(ctl, change),
    }
}

fn carry_out(ctl: &mut Session<'_>, change: &Change) -> Result<(), String> {
    let order = ConfigureOrder {
        text: change.file.as_deref().map(text_of).transpose()?,
        assignments: change.assignments.clone(),
        force: change.force,
        look: false,
        by: operator(),
    };
    let told: ChangePlan = ctl.ask(&Request::Configure(order))?;
    ctl.text(&plan(&told))?;
    if !told.refused.is_empty() {
        return Err("nothing was changed".into());
    }
    if !told.done || !change.restart || told.restarts.is_empty() {
        return Ok(());
    }
    end::roll_some(ctl, &told.restarts, &told.added, change.force, change.patience)
}

/// A file's content, as far as a configuration may go.
fn text_of(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = FILE_SIZE_MAX as u64 + 1;
    let read = File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot read {file}: {error}"))?;
    if bytes.len() > FILE_SIZE_MAX {
        return Err(format!("{file} is longer than {} MB", FILE_SIZE_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|_| format!("{file} is not UTF-8 text"))
}

/// Whoever gives this order, as the history names them.
fn operator() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|name| !name.is_empty());
    let user = set("SUDO_USER").or_else(|| set("LOGNAME")).or_else(|| set("USER"));
    format!("{}@{}", user.unwrap_or_else(|| "an operator".into()), machine::host_name())
}

/// What programs are told of the configuration in use.
#[derive(Serialize)]
struct Told<'a> {
    version: u64,
    source: &'a str,
    fingerprint: &'a str,
    pending: Vec<u16>,
    text: &'a str,
}

impl<'a> Told<'a> {
    fn of(told: &'a Configuration) -> Self {
        let pending = told.pending.iter().map(|pending| pending.node).collect();
        let Configuration { version, source, fingerprint, text, .. } = told;
        Self { version: *version, source, fingerprint, pending, text }
    }
}

fn show(told: &Configuration) -> String {
    let mut head = format!("# version {}, from {}\n", told.version, told.source);
    for pending in &told.pending {
        head += &format!(
            "# node {} runs by version {} and has to be restarted\n",
            pending.node, pending.version
        );
    }
    if let Some(differs) = &told.differs {
        head += &format!("# {differs}\n");
    }
    format!("{head}# fingerprint {}\n{}", told.fingerprint, told.text)
}

fn history(told: &[Revision]) -> String {
    if told.is_empty() {
        return "the control log has no configuration yet: nodes get the management nodes' files\n"
            .into();
    }
    let mut table = Table::new(&["version", "time (UTC)", "by", "what"], &[0]);
    for revision in told {
        let at = certificates::time(i64::try_from(revision.at).unwrap_or(i64::MAX));
        let mut what = revision.what.iter();
        let first = what.next().cloned().unwrap_or_default();
        table.row([revision.version.to_string(), at, revision.by.clone(), first]);
        for more in what {
            table.row([String::new(), String::new(), String::new(), more.clone()]);
        }
    }
    table.text(0)
}

fn plan(told: &ChangePlan) -> String {
    if told.changes.is_empty() {
        return format!("nothing is different from version {}\n", told.version);
    }
    let mut table = Table::new(&["what", "old", "new", "it takes"], &[]);
    for change in &told.changes {
        let or = |text: &str| if text.is_empty() { "-".to_string() } else { text.to_string() };
        table.row([
            change.what.clone(),
            or(&change.before),
            or(&change.after),
            change.takes.clone(),
        ]);
    }
    let mut text = table.text(0);
    for warning in &told.warnings {
        text += &format!("warning: {warning}\n");
    }
    for refused in &told.refused {
        text += &format!("refused: {refused}\n");
    }
    if !told.refused.is_empty() {
        return text;
    }
    let restarts = match &told.restarts[..] {
        [] => "no restart is needed".to_string(),
        nodes => format!(
            "{} {} by the old values until restarted: `restart N` for each in turn, or --restart \
             does it",
            list(nodes),
            if nodes.len() == 1 { "runs" } else { "run" }
        ),
    };
    if told.done {
        text += &format!("version {} is in use; ", told.version);
    }
    text + &restarts + "\n"
}

const USAGE: &str = "`config [show]`, `config history`, `config diff FILE`, `config set \
                     SECTION.PARAMETER=VALUE…` with a section as `ndbd` or the id of a node, \
                     `config apply FILE`; set and apply take --restart, --timeout S and --force";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::request::{PendingRestart, PlannedChange};

    const PATIENCE: Duration = Duration::from_secs(600);

    fn parsed(line: &str) -> Result<Order, String> {
        read(&line.split_whitespace().collect::<Vec<_>>(), PATIENCE)
    }

    #[test]
    fn orders_keep_the_case_of_files_and_values() {
        assert_eq!(parsed(""), Ok(Order::Show));
        assert_eq!(parsed("SHOW"), Ok(Order::Show));
        assert_eq!(parsed("history"), Ok(Order::History));
        assert_eq!(parsed("diff /A/b.ini"), Ok(Order::Diff("/A/b.ini".into())));
        let change = |file: Option<&str>, assignments: &[&str], restart, seconds| {
            let assignments = assignments.iter().map(|one| one.to_string()).collect();
            let (file, patience) = (file.map(str::to_string), Duration::from_secs(seconds));
            Ok(Order::Change(Change { file, assignments, force: false, restart, patience }))
        };
        let set = "set ndbd.DataMemory=2G 49.DataDir=/A --restart";
        assert_eq!(parsed(set), change(None, &["ndbd.DataMemory=2G", "49.DataDir=/A"], true, 600));
        let apply = "apply --timeout 30 C.ini";
        assert_eq!(parsed(apply), change(Some("C.ini"), &[], false, 30));
        assert_eq!(parsed("apply --timeout=30 C.ini"), change(Some("C.ini"), &[], false, 30));
        for wrong in
            ["dance", "show me", "diff", "diff a b", "set", "apply", "apply a b", "set a --now"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plan_says_what_it_takes_and_why_it_is_refused() {
        let change = PlannedChange {
            what: "DataMemory of nodes 1, 2".into(),
            before: "1G".into(),
            after: "2G".into(),
            takes: "rolling restart of nodes 1, 2".into(),
        };
        let mut told = ChangePlan { version: 3, done: true, ..ChangePlan::default() };
        assert_eq!(plan(&told), "nothing is different from version 3\n");
        told.changes = vec![change];
        told.restarts = vec![1, 2];
        let text = plan(&told);
        assert!(text.contains("rolling restart of nodes 1, 2"), "{text}");
        assert!(text.contains("version 3 is in use; nodes 1, 2 run by the old values"), "{text}");
        told.refused = vec!["it would not fit".into()];
        let text = plan(&told);
        assert!(text.ends_with("refused: it would not fit\n"), "{text}");
    }

    #[test]
    fn what_is_in_use_is_shown_with_its_source() {
        let told = Configuration {
            text: "[ndbd]\nNodeId=1\n".into(),
            fingerprint: "f".into(),
            version: 2,
            source: "the control log".into(),
            pending: vec![PendingRestart { node: 1, version: 1 }],
            differs: Some("a file says something else".into()),
            free: Vec::new(),
        };
        assert_eq!(
            show(&told),
            "# version 2, from the control log\n\
             # node 1 runs by version 1 and has to be restarted\n\
             # a file says something else\n# fingerprint f\n[ndbd]\nNodeId=1\n"
        );
        assert!(history(&[]).contains("no configuration yet"));
        let revision = Revision {
            version: 2,
            at: 0,
            by: "root@h".into(),
            fingerprint: "f".into(),
            what: vec!["A of node 1: 1 to 2".into(), "B of node 1: 1 to 2".into()],
            restarts: vec![1],
        };
        let text = history(&[revision]);
        assert!(text.contains("1970-01-01 00:00") && text.contains("B of node 1"), "{text}");
    }
}
