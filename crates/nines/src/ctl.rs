//! `nines ctl`: shows and controls a cluster, by orders on the command line, by hand or a
//! pipe.
//!
//! # Owns
//! What each order asks a management node, and the form of the answer.
//! # Guarantees
//! The exit code says how it went: 0 done, 1 refused or failed, 2 not understood.
//! # Not here
//! The words (`words`), what the answers mean (`role`).

mod backup;
mod certificates;
mod config;
mod end;
mod events;
mod groups;
mod keys;
mod look;
mod show;
pub(crate) mod table;
mod terminal;
mod upgrade;
mod words;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use runtime::{NodeCredentials, NodeFiles};

use crate::complain;
use crate::role::credentials::renew_operator;
use crate::role::request::{Access, AskError, NodeVersion, Request, Sight, Subject};
use crate::role::status::{ClusterStatus, NodeStatus};
use crate::role::survivability::Survivability;
use crate::role::{Connect, JoinOptions};
use words::{Order, WORDS, What, Whom};

/// The options of `nines ctl`.
#[derive(Clone, Debug)]
pub(crate) struct CtlOptions {
    /// The management nodes; none for that of this host.
    pub(crate) connect: Option<Connect>,
    /// Where the operator's certificate is, and how there comes to be one.
    pub(crate) join: JoinOptions,
    /// Answers as JSON.
    pub(crate) json: bool,
    /// An order in words; none for many orders.
    pub(crate) words: Vec<String>,
}

/// How an order went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// That was the last one.
    Quit,
    Failed,
    NotUnderstood,
}

/// Somebody who gives orders.
struct Session<'a> {
    connect: Connect,
    access: Access,
    json: bool,
    out: &'a mut dyn Write,
    began: Instant,
}

/// Carries out the order of the command line, or else those that are typed.
pub(crate) fn run(options: CtlOptions) -> ExitCode {
    let mut out = io::stdout();
    let CtlOptions { connect, join, json, words } = options;
    if backup::shows_password(&words) {
        complain(
            "who may list the processes of this host sees the arguments: give orders with a \
             password by hand or through a pipe to `nines ctl`",
        );
        return ExitCode::from(crate::USAGE);
    }
    let (connect, access) = match reach(connect.as_ref(), &join) {
        Ok(reached) => reached,
        Err(why) => {
            complain(&why);
            return ExitCode::FAILURE;
        }
    };
    if join.token.is_some() && words.is_empty() {
        return ExitCode::SUCCESS;
    }
    let mut session = Session { connect, access, json, out: &mut out, began: Instant::now() };
    let outcome =
        if words.is_empty() { terminal::run(&mut session) } else { session.order(&words) };
    match outcome {
        Outcome::Done | Outcome::Quit => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::FAILURE,
        Outcome::NotUnderstood => ExitCode::from(crate::USAGE),
    }
}

/// Whom an operator asks, and how.
pub(crate) fn reach(
    given: Option<&Connect>,
    join: &JoinOptions,
) -> Result<(Connect, Access), String> {
    let (connect, is_found) = Connect::of_operator(given)?;
    // The node is of the same user: a certificate, which may be of another cluster, adds nothing.
    if is_found && join.directory.is_none() && join.token.is_none() {
        return Ok((connect, Access::to_management(None)));
    }
    let access = access(&connect, join)?;
    Ok((connect, access))
}

/// How this operator asks: by a certificate if there is one, else as the user of this process.
fn access(connect: &Connect, join: &JoinOptions) -> Result<Access, String> {
    let is_named = join.directory.is_some() || join.token.is_some();
    let mut join = join.clone();
    join.directory = join.directory.or_else(own_directory);
    let Some(directory) = &join.directory else { return Ok(Access::to_management(None)) };
    if !is_named && !NodeFiles::in_directory(directory).exist() {
        return Ok(Access::to_management(None));
    }
    match join.of_operator(connect) {
        // On the host of a node its user needs none.
        Err(why) if !is_named => {
            complain(&format!("goes on without a certificate: {why}"));
            Ok(Access::to_management(None))
        }
        found => {
            let found = found?;
            if let Some(credentials) = &found {
                keep_good(credentials, connect);
            }
            Ok(Access::to_management(found))
        }
    }
}

/// Renews the operator's certificate in time, or says until when it is good.
fn keep_good(credentials: &NodeCredentials, connect: &Connect) {
    match renew_operator(credentials, connect) {
        Ok(done) => done.iter().for_each(|what| complain(&format!("this operator {what}"))),
        Err(why) => complain(&format!(
            "this operator's certificate is good until {} UTC and could not be renewed: {why}; \
             another one is made by `nines ctl certificates create-operator NAME`",
            certificates::time(credentials.not_after())
        )),
    }
}

/// Where an operator's certificate is unless another place is named.
fn own_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
    base.map(|base| base.join("nines"))
}

impl Session<'_> {
    /// Carries out an order, and says what is wrong if it fails.
    fn order(&mut self, words: &[String]) -> Outcome {
        let order = match words::parse(words) {
            Ok(order) => order,
            Err(why) => {
                complain(&why);
                return Outcome::NotUnderstood;
            }
        };
        if order.what == What::Quit {
            return Outcome::Quit;
        }
        match self.carry_out(order) {
            Ok(()) => Outcome::Done,
            Err(why) => {
                complain(&why);
                Outcome::Failed
            }
        }
    }

    fn carry_out(&mut self, order: Order) -> Result<(), String> {
        let json = self.json || order.json;
        match order.what {
            What::Nothing | What::Quit => Ok(()),
            What::Help(about) => self.help(about.as_deref()),
            What::Show => {
                let status: ClusterStatus = self.ask(&Request::Status)?;
                self.answer(json, &status, show::show)
            }
            What::Status(only) => self.states(json, only),
            What::Groups => {
                let status: ClusterStatus = self.ask(&Request::Status)?;
                self.answer(json, &status.groups, |groups| show::groups(groups))
            }
            What::Survivability => {
                let told: Survivability = self.ask(&Request::Survivability)?;
                self.answer(json, &told, show::survivability)
            }
            What::Version => {
                let told: Vec<NodeVersion> = self.ask(&Request::Versions)?;
                self.answer(json, &told, |told| show::versions(told))
            }
            What::Config(order) => config::run(self, json, &order),
            What::Upgrade(order) => upgrade::run(self, json, order),
            What::Memory(only) => {
                let told = look::memory(&self.look(Subject::Memory)?, only);
                self.answer(json, &told, look::memory_text)
            }
            What::Transactions => {
                let told = look::transactions(self.look(Subject::Transactions)?);
                self.answer(json, &told, look::transactions_text)
            }
            What::Locks => {
                let told = look::locks(self.look(Subject::Locks)?);
                self.answer(json, &told, look::locks_text)
            }
            What::Events { follow, most, level } => events::run(self, json, follow, most, level),
            What::AcceptLoss(epoch) => {
                self.ask::<bool>(&Request::AcceptLoss { epoch })?;
                self.line(&format!(
                    "ordered: the cluster goes back to epoch {epoch}; `show` tells when it serves"
                ))
            }
            What::NodeGroups(order) => groups::run(self, json, &order),
            What::RotateKeys(only) => keys::rotate(self, only),
            What::Certificates(order) => certificates::run(self, json, order),
            What::Backup(order) => {
                let told = backup::run(&order)?;
                self.line(&told)
            }
            What::Stop { whom, force } => end::stop(self, whom, force),
            What::Restart { whom: Whom::Node(id), force, patience, .. } => {
                end::restart(self, id, force, patience)
            }
            What::Restart { force, patience, .. } => end::roll(self, force, patience),
        }
    }

    fn states(&mut self, json: bool, only: Option<u16>) -> Result<(), String> {
        let status: ClusterStatus = self.ask(&Request::Status)?;
        let wanted = |node: &&NodeStatus| only.is_none_or(|only| node.node == only);
        let nodes: Vec<&NodeStatus> = status.nodes.iter().filter(wanted).collect();
        match (only, &nodes[..]) {
            (Some(only), []) => Err(format!("there is no node {only} in the configuration")),
            _ => self.answer(json, &nodes, |nodes| show::states(nodes)),
        }
    }

    fn help(&mut self, about: Option<&str>) -> Result<(), String> {
        let one = about.and_then(|about| WORDS.iter().find(|word| word.name == about));
        if let (Some(about), None) = (about, one) {
            return Err(format!("there is no help about `{about}`; `help` lists all words"));
        }
        let mut table = table::Table::new(&["order", "what it does"], &[]);
        for word in WORDS.iter().filter(|word| one.is_none_or(|one| one.name == word.name)) {
            table.row([word.usage.to_string(), word.about.to_string()]);
        }
        let text = table.text(2);
        self.text(&format!(
            "{text}\nOrders that only read take --json. Leave with quit.\n\
             NDB's forms work too: ALL STATUS, 2 RESTART.\n"
        ))
    }

    /// Asks the management nodes, one after the other.
    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, String> {
        self.connect.ask(request, &self.access).map_err(|error| error.to_string())
    }

    fn look(&self, at: Subject) -> Result<Sight, String> {
        self.ask(&Request::Look { at })
    }

    /// Nodes of the configuration, if anybody tells.
    fn node_ids(&self) -> Vec<u16> {
        let status: Result<ClusterStatus, String> = self.ask(&Request::Status);
        status.map_or_else(|_| Vec::new(), |told| told.nodes.iter().map(|node| node.node).collect())
    }

    fn answer<T: Serialize + ?Sized>(
        &mut self,
        json: bool,
        told: &T,
        text: impl Fn(&T) -> String,
    ) -> Result<(), String> {
        if json {
            let line = serde_json::to_string(told).map_err(|error| error.to_string())?;
            return self.line(&line);
        }
        self.text(&text(told))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        self.text(&format!("{line}\n"))
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        match written {
            // Nobody reads on, which ends what is shown.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other.map_err(|error| format!("cannot write: {error}")),
        }
    }
}

impl end::Remote for Session<'_> {
    fn status(&mut self) -> Result<ClusterStatus, AskError> {
        self.connect.ask(&Request::Status, &self.access)
    }

    fn end(&mut self, node: u16, restart: bool, force: bool) -> Result<(), AskError> {
        let end = Request::End { node, restart, force };
        self.connect.ask::<bool>(&end, &self.access).map(drop)
    }

    fn progress(&mut self, node: u16) -> Option<String> {
        look::copied(&self.look(Subject::Copies).ok()?, node)
    }

    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&mut self, how_long: Duration) {
        thread::sleep(how_long);
    }

    fn say(&mut self, line: &str) {
        // What is done is done, also when nobody reads it.
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }
}
