//! A connection's task: the handshake, then command after command until its end.
//!
//! # Owns
//! The protocol's conversation: greeting and login, commands and their answers, the statements a
//! client has prepared, long data, time-outs, how a connection ends.
//! # Guarantees
//! Every command is answered once, but for those the protocol leaves unanswered. Nonsense ends this
//! connection and no other.
//! # Failure
//! When the peer goes the actor drops the task; the kernel undoes what was open.
//! # Not here
//! Statements (`dispatch`), bytes of packets (`mysql-wire`).

mod binlog_dump;
mod cursor;
mod login;
mod statements;

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use actor::ConnectionPeer;
use mysql_wire::constants::{capability, status};
use mysql_wire::{Channel, Command, Response, answer};
use sql_expression::SqlError;
use stdx::Duration;

use crate::kernel::Kernel;
use crate::link::packet::{End, packet};
use crate::link::{Goodbye, InputEnd, Link};
use crate::result::Outcome;
use crate::session::{Origin, Session, Shared};
use crate::temporary::RENEWAL;

use statements::Statements;

/// What a connection begins with.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// CONNECTION_ID().
    pub(crate) number: u32,
    pub(crate) nonce: [u8; 20],
    /// For RAND() and UUID().
    pub(crate) seed: u64,
    pub(crate) peer: ConnectionPeer,
    /// Microseconds since 1970 when the worker's clock stood at zero.
    pub(crate) clock_base: i64,
    pub(crate) shutting_down: bool,
}

impl Greeting {
    fn origin(&self) -> Origin {
        Origin { number: self.number, seed: self.seed, clock_base: self.clock_base }
    }
}

/// A payload that takes long to copy.
const LARGE_PAYLOAD: usize = 1 << 20;

/// Serves a connection to its end.
pub(crate) async fn serve(link: Link, kernel: Kernel, shared: Rc<Shared>, greeting: Greeting) {
    shared.ledger.lock().counters.connections += 1;
    let wire = Wire {
        link,
        channel: Rc::new(RefCell::new(Channel::new(login::BYTES_MAX))),
        capabilities: 0,
    };
    let mut connection = Connection {
        session: Session::new(kernel, shared, greeting.origin()),
        wire,
        statements: Statements::default(),
        resumed: None,
    };
    let end = match login::log_in(&mut connection, &greeting).await {
        Ok(()) => {
            connection.session.sweep_temporaries().await;
            connection.converse(&greeting).await
        }
        Err(end) => {
            connection.session.shared.ledger.lock().counters.aborted_connects += 1;
            if let End::Error(error) = &end
                && connection.session.user.is_empty()
            {
                // Nobody has said who it is.
                let transport = &greeting.peer.transport;
                connection.session.audit_refusal(transport, error.code()).await;
            }
            end
        }
    };
    if let End::Error(error) = end {
        connection.wire.error(&error);
    }
    connection.session.end_transaction();
    if connection.session.needs_claim() {
        // A KILL ends what was asked for, not this; and locks on them would be in the way.
        connection.session.kernel.clear_interrupt();
        connection.session.rollback().await;
    }
    connection.session.release_locks().await;
    connection.session.drop_temporaries().await;
    connection.wire.link.seal();
}

/// The protocol's side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link,
    pub(crate) channel: Rc<RefCell<Channel>>,
    /// What both sides are capable of, as far as it is known.
    pub(crate) capabilities: u32,
}

impl Wire {
    /// The next packet; not after `patience`.
    async fn packet(&self, patience: Option<Duration>) -> Result<Vec<u8>, End> {
        packet(&self.link, &self.channel, patience).await
    }

    fn begin_command(&self, payload_max: usize) {
        self.link.seal();
        let mut channel = self.channel.borrow_mut();
        channel.payload_max = payload_max;
        channel.begin_command();
    }

    fn write(&self, body: impl FnOnce(&mut Vec<u8>)) {
        let mut channel = self.channel.borrow_mut();
        self.link.with_output(|out| channel.write(out, body));
    }

    /// Packets that have been written already, with the numbers that are next now.
    fn write_again(&self, packets: &[u8]) {
        let mut channel = self.channel.borrow_mut();
        self.link.with_output(|out| channel.write_again(out, packets));
    }

    fn error(&self, error: &SqlError) {
        let capabilities = self.capabilities;
        self.write(|out| {
            answer::error(out, error.code(), error.state(), error.message(), capabilities);
        });
    }

    fn ok(&self, ok: &answer::Ok<'_>) {
        self.write(|out| answer::ok(out, ok, self.capabilities));
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }
}

/// A connection with its session.
struct Connection {
    session: Session,
    wire: Wire,
    statements: Statements,
    /// A command has begun already, while the statement of a cursor was under way; with its
    /// payload, if all of it has come in.
    resumed: Option<Option<Vec<u8>>>,
}

impl Connection {
    /// Answers commands until the connection ends.
    async fn converse(&mut self, greeting: &Greeting) -> End {
        loop {
            let limit = self.session.variables.max_allowed_packet as usize;
            let resumed = self.resumed.take();
            if resumed.is_none() {
                self.wire.begin_command(limit);
            }
            self.session.idle();
            let patience = Duration::from_secs(self.session.idle_timeout());
            let payload = match resumed.flatten() {
                Some(payload) => payload,
                None => match self.next_command(patience).await {
                    Ok(payload) => payload,
                    Err(end) => {
                        // A client that is let go has done nothing wrong.
                        if self.wire.link.goodbye_of_endless() != Some(Goodbye::ShuttingDown) {
                            self.session.shared.ledger.lock().counters.aborted_clients += 1;
                        }
                        return end;
                    }
                },
            };
            let query_attributes = self.wire.has(capability::QUERY_ATTRIBUTES);
            if payload.len() > LARGE_PAYLOAD {
                // What has come in last was copied. A KILL is for what the command does.
                let _ = self.session.pauses.look();
            }
            let size = payload.len();
            let command = match Command::parse(payload, query_attributes) {
                Ok(command) => command,
                Err(malformed) => return malformed.into(),
            };
            if matches!(command, Command::Quit) {
                return End::Gone;
            }
            let sent = self.wire.link.take_sent();
            self.session.busy(command.name(), size, sent, &greeting.clock_base);
            if let Some(counter) = command.counter() {
                self.session.count_command(counter);
            }
            // What was to be interrupted has ended.
            self.session.kernel.clear_interrupt();
            if let Err(end) = self.command(command, greeting).await {
                return end;
            }
            self.wire.link.drain().await;
            if self.session.released {
                return End::Gone;
            }
            if let Some(goodbye) = self.wire.link.goodbye() {
                return InputEnd::Goodbye(goodbye).into();
            }
        }
    }

    /// The next command. A server that lets its clients go waits for it only where a transaction
    /// or a cursor is open.
    async fn next_command(&mut self, patience: Duration) -> Result<Vec<u8>, End> {
        let is_done = !self.session.in_transaction() && !self.statements.is_begun();
        self.wire.link.let_go(is_done);
        let command = self.await_command(patience).await;
        self.wire.link.let_go(false);
        command
    }

    /// Waits for a command; meanwhile what the session has claimed is kept claimed.
    async fn await_command(&mut self, patience: Duration) -> Result<Vec<u8>, End> {
        let until = self.wire.link.now() + patience;
        loop {
            let left = until.since(self.wire.link.now());
            let renews = self.session.needs_claim() && left > RENEWAL;
            let wait = if renews { RENEWAL } else { left };
            match self.wire.packet(Some(wait)).await {
                Err(End::Error(error)) if renews && error.code() == 4031 => {
                    // Who cannot renew it now does it next time.
                    let _ = self.session.claim_temporaries().await;
                }
                packet => return packet,
            }
        }
    }

    async fn command(&mut self, command: Command, greeting: &Greeting) -> Result<(), End> {
        match command {
            Command::Quit => {}
            Command::Ping | Command::Harmless(_) => self.answer(Ok(Outcome::default()), false),
            Command::InitDb(name) => {
                let name = self.text(name);
                let result = crate::administration::use_database(&mut self.session, &name);
                let result = result.await;
                self.answer(result.map(|()| Outcome::default()), false);
            }
            Command::Query(query) => self.query(query).await,
            Command::FieldList { table, pattern } => self.field_list(table, pattern).await,
            Command::Statistics => {
                let line = self.session.statistics();
                self.wire.write(|out| out.extend_from_slice(line.as_bytes()));
            }
            Command::Shutdown => self.run_text("SHUTDOWN").await,
            Command::ProcessInfo => self.run_text("SHOW PROCESSLIST").await,
            Command::ProcessKill(id) => self.run_text(&format!("KILL {id}")).await,
            Command::ChangeUser(payload) => {
                let response = Response::parse_change_user(&payload, self.wire.capabilities)?;
                self.reset(greeting).await;
                login::change_user(self, response, greeting).await?;
            }
            Command::ResetConnection => {
                self.reset(greeting).await;
                self.answer(Ok(Outcome::default()), false);
            }
            Command::SetOption(option) => {
                let multi = capability::MULTI_STATEMENTS;
                match option {
                    0 => self.wire.capabilities |= multi,
                    1 => self.wire.capabilities &= !multi,
                    _ => {
                        self.wire.error(&SqlError::new(1047, "08S01", "Unknown command"));
                        return Ok(());
                    }
                }
                self.end_of_rows(false);
            }
            Command::Prepare(text) => self.prepare(text).await,
            Command::Execute { statement, flags, payload } => {
                self.execute(statement, flags, &payload).await?;
            }
            Command::SendLongData { statement, parameter, data } => {
                let most = self.session.variables.max_allowed_packet as usize;
                let account = &self.session.memory;
                self.statements.long_data(account, statement, parameter, &data, most);
            }
            Command::CloseStatement(statement) => self.statements.close(statement),
            Command::ResetStatement(statement) => {
                let result = self.statements.reset(statement);
                self.answer(result.map(|()| Outcome::default()), false);
            }
            Command::Fetch { statement, rows } => self.fetch(statement, rows).await,
            Command::RegisterReplica(replica) => {
                let result = self.register_replica(replica).await;
                self.answer(result.map(|()| Outcome::default()), false);
            }
            Command::BinlogDump(dump) => self.binlog_dump(&dump).await?,
            Command::Unknown(_) => {
                self.wire.error(&SqlError::new(1047, "08S01", "Unknown command"));
            }
        }
        Ok(())
    }

    /// COM_RESET_CONNECTION: the session as new, the connection as it is.
    async fn reset(&mut self, greeting: &Greeting) {
        self.session.rollback().await;
        self.session.release_locks().await;
        self.session.drop_temporaries().await;
        let (kernel, shared) = (self.session.kernel.clone(), self.session.shared.clone());
        let (user, database) = (self.session.user.clone(), self.session.database.clone());
        let login = mem::take(&mut self.session.login);
        let (count_matched, interactive) = (self.session.count_matched, self.session.interactive);
        let (is_compressed, knows_no_metadata) =
            (self.session.is_compressed, self.session.knows_no_metadata);
        let (tls, attributes) = (self.session.tls.take(), mem::take(&mut self.session.attributes));
        self.session = Session::new(kernel, shared, greeting.origin());
        self.session.user = user;
        if let Some(account) = login.account {
            self.session.become_account(account);
            self.session.login.is_expired = login.is_expired;
            self.session.login.connection = login.connection;
            self.session.login.audited = login.audited;
        }
        self.session.database = database;
        self.session.count_matched = count_matched;
        self.session.interactive = interactive;
        self.session.tls = tls;
        self.session.is_compressed = is_compressed;
        self.session.knows_no_metadata = knows_no_metadata;
        self.session.attributes = attributes;
        self.statements = Statements::default();
    }

    /// A name that came in the client's character set.
    fn text(&self, bytes: Vec<u8>) -> String {
        String::from_utf8_lossy(&self.session.decode_text(bytes)).into_owned()
    }

    /// Status flags of the session now.
    fn status(&self, more: bool) -> u16 {
        let session = &self.session;
        let mut flags = 0;
        if session.in_transaction() {
            flags |= status::IN_TRANS;
            if session.transaction.read_only {
                flags |= status::IN_TRANS_READONLY;
            }
        }
        if session.variables.autocommit {
            flags |= status::AUTOCOMMIT;
        }
        if session.variables.parser_mode().no_backslash_escapes {
            flags |= status::NO_BACKSLASH_ESCAPES;
        }
        if more {
            flags |= status::MORE_RESULTS;
        }
        flags
    }

    /// Writes how a statement ended.
    fn answer(&mut self, result: Result<Outcome, SqlError>, more: bool) {
        match result {
            Ok(Outcome::Rows) => self.end_of_rows(more),
            Ok(Outcome::Done { affected, id, info }) => {
                let last_insert_id = id.of_packet;
                let changes = self.session.take_state_changes();
                let (status, warnings) = (self.status(more), self.warnings());
                let info = info.as_str();
                let changes = changes.as_slice();
                let ok = answer::Ok { affected, last_insert_id, status, warnings, info, changes };
                self.wire.ok(&ok);
            }
            Err(error) => self.wire.error(&error),
        }
    }

    fn end_of_rows(&mut self, more: bool) {
        let ok = answer::Ok {
            status: self.status(more),
            warnings: self.warnings(),
            ..answer::Ok::default()
        };
        let capabilities = self.wire.capabilities;
        self.wire.write(|out| answer::end_of_rows(out, &ok, capabilities));
    }

    fn warnings(&self) -> u16 {
        let all = self.session.diagnostics.warning_count + self.session.diagnostics.error_count;
        u16::try_from(all).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests;
