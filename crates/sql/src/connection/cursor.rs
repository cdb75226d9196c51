//! Cursors: statements whose rows the client fetches, some at a time.
//!
//! # Owns
//! COM_STMT_EXECUTE with a cursor, COM_STMT_FETCH.
//! # Guarantees
//! What the client is told is what MySQL tells it: a cursor is open after every execution that
//! gives columns, also without rows, and is closed by the first fetch that asks for a row behind
//! the last. Rows are those of the execution, whatever the session does before they are fetched. A
//! statement whose rows are fetched one batch after the other does not run ahead of its client;
//! when the session is wanted for another command, its other rows are made and kept before that.
//! # Limits
//! Kept rows count as memory of the session (error 3170 at the fetch that comes to what is
//! missing).
//! # Not here
//! The rows (`result::cursor`).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use mysql_wire::constants::status;
use mysql_wire::{Command, answer};
use sql_expression::SqlError;
use sqltype::Datum;
use stdx::Duration;

use super::statements::unknown;
use super::{Connection, End, Wire};
use crate::directory::SLEEP;
use crate::dispatch;
use crate::kernel::Kernel;
use crate::prepared::Prepared;
use crate::result::cursor::CursorRows;
use crate::result::{Encoding, Outcome};
use crate::session::{Session, Shared};
use crate::temporary::RENEWAL;

/// The end of a statement.
type Ending = Result<Outcome, SqlError>;
/// A statement that is under way.
type Running<'s> = Pin<Box<dyn Future<Output = Ending> + 's>>;
type SharedRows = Rc<RefCell<CursorRows>>;
/// A command that has begun, as [`Connection::resumed`].
type Resumed = Option<Option<Vec<u8>>>;

/// A cursor whose statement has ended.
#[derive(Debug)]
pub(super) struct OpenCursor {
    rows: SharedRows,
    /// How it has failed after its first rows.
    failed: Option<SqlError>,
}

/// What a fetch has come to.
enum Fetched {
    /// As many rows as were asked for.
    All,
    /// Rows are missing, and there are no more: the cursor is closed.
    Last,
    /// The cursor is closed.
    Failed(SqlError),
}

impl Connection {
    /// Runs a statement whose rows the client wants to fetch. Commands that only fetch them are
    /// answered from here, as long as the statement is under way.
    pub(super) async fn execute_with_cursor(
        &mut self,
        number: u32,
        prepared: &Prepared,
        parameters: &[Datum],
    ) -> Result<(), End> {
        let rows = Rc::new(RefCell::new(CursorRows::new(&self.session.memory)));
        let mut out = self.writer(Encoding::Binary).into_cursor(rows.clone());
        let mut flags = self.status(false);
        if !self.session.variables.autocommit {
            // As soon as it reads.
            flags |= status::IN_TRANS;
        }
        let Self { session, wire, .. } = self;
        let keeper = Keeper::new(session, wire.clone(), number, flags);
        let shown = Some(prepared.text().as_bytes());
        let mut running: Running<'_> =
            Box::pin(dispatch::run(session, prepared, parameters, &mut out, shown));
        let ended = turn(&mut running, &rows).await;
        let has_ended = match ended {
            Some(Ok(Outcome::Rows)) => true,
            Some(result) => {
                drop(running);
                self.answer(result, false);
                return Ok(());
            }
            None => false,
        };
        let head = std::mem::take(&mut rows.borrow_mut().head);
        keeper.wire.write_again(&head);
        if has_ended {
            drop(running);
            let warnings = self.warnings();
            end_of_fetch(&self.wire, self.status(false) | status::CURSOR_EXISTS, warnings);
            self.statements.open_cursor(number, OpenCursor { rows, failed: None });
            return Ok(());
        }
        keeper.tell(flags | status::CURSOR_EXISTS);
        let (ended, resumed) = keeper.attend(running, &rows).await;
        if let Some(ended) = ended {
            self.statements.open_cursor(number, OpenCursor { rows, failed: ended.err() });
        }
        self.resumed = resumed?;
        Ok(())
    }

    /// COM_STMT_FETCH.
    pub(super) async fn fetch(&mut self, number: u32, count: u32) {
        let Some(cursor) = self.statements.cursor(number) else {
            let error = unknown(number, "mysqld_stmt_fetch");
            return self.answer(Err(error), false);
        };
        let Some(cursor) = cursor else {
            let text = format!("The statement ({number}) has no open cursor.");
            return self.answer(Err(SqlError::new(1421, "HY000", text)), false);
        };
        let OpenCursor { rows, failed } = cursor;
        let fetched = match give(&self.wire, &rows, count).await {
            0 => Fetched::All,
            _ => Fetched::at_end(&rows, failed.as_ref()),
        };
        match fetched {
            Fetched::All => {
                end_of_fetch(&self.wire, self.status(false) | status::CURSOR_EXISTS, 0);
                self.statements.open_cursor(number, OpenCursor { rows, failed });
            }
            Fetched::Last => {
                end_of_fetch(&self.wire, self.status(false) | status::LAST_ROW_SENT, 0);
            }
            Fetched::Failed(error) => self.answer(Err(error), false),
        }
    }
}

impl Fetched {
    /// When all rows that there are have been given.
    fn at_end(rows: &SharedRows, failed: Option<&SqlError>) -> Self {
        match rows.borrow_mut().take_refusal().or_else(|| failed.cloned()) {
            Some(error) => Self::Failed(error),
            None => Self::Last,
        }
    }
}

/// Has a statement make rows until it waits for somebody to take them, or ends.
async fn turn(running: &mut Running<'_>, rows: &SharedRows) -> Option<Ending> {
    poll_fn(|context| match running.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if rows.borrow().waits() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Writes so many rows, as far as they are there; how many are missing.
async fn give(wire: &Wire, rows: &SharedRows, count: u32) -> u32 {
    let mut left = count;
    while left > 0 {
        let Some(row) = rows.borrow_mut().take() else { break };
        wire.write_again(&row);
        left -= 1;
        if wire.link.is_full() {
            wire.link.drain().await;
        }
    }
    left
}

fn end_of_fetch(wire: &Wire, flags: u16, warnings: u16) {
    let ok = answer::Ok { status: flags, warnings, ..answer::Ok::default() };
    wire.write(|out| answer::end_of_rows(out, &ok, wire.capabilities));
}

/// What a command says about a statement that is under way.
enum Wish {
    /// So many rows of it.
    Fetch(u32),
    /// Nobody will ask for rows of it any more.
    Close,
    /// Nothing.
    Other,
}

/// What the client is answered with while its session belongs to a statement.
struct Keeper {
    wire: Wire,
    number: u32,
    connection: u32,
    flags: u16,
    packet_max: usize,
    patience: Duration,
    /// What the session has claimed is to be claimed again in time.
    renews: bool,
    kernel: Kernel,
    shared: Rc<Shared>,
}

impl Keeper {
    fn new(session: &Session, wire: Wire, number: u32, flags: u16) -> Self {
        Self {
            wire,
            number,
            connection: session.id,
            flags,
            packet_max: session.variables.max_allowed_packet as usize,
            patience: Duration::from_secs(session.idle_timeout()),
            renews: session.needs_claim(),
            kernel: session.kernel.clone(),
            shared: session.shared.clone(),
        }
    }

    /// Answers fetches until the statement has ended or something else is asked for. How the
    /// statement has ended, unless its cursor is closed; and a command that has begun.
    async fn attend(
        &self,
        mut running: Running<'_>,
        rows: &SharedRows,
    ) -> (Option<Ending>, Result<Resumed, End>) {
        loop {
            self.wire.link.drain().await;
            let payload = self.next_command().await;
            let wish = match &payload {
                Ok(Some(payload)) => self.wish(payload),
                // The session is wanted for a moment.
                Ok(None) => Wish::Other,
                Err(_) => Wish::Close,
            };
            let payload = payload.map(Some);
            match wish {
                Wish::Fetch(count) => {
                    if let Some(ended) = self.fetch(&mut running, rows, count).await {
                        return (ended, Ok(None));
                    }
                }
                Wish::Close => {
                    rows.borrow_mut().drop_all();
                    // How it ends concerns nobody.
                    let _ = running.await;
                    return (None, payload);
                }
                Wish::Other => {
                    rows.borrow_mut().keep_all();
                    return (Some(running.await), payload);
                }
            }
        }
    }

    /// Answers a fetch. If that has ended the statement, how; nothing if the cursor is closed then.
    async fn fetch(
        &self,
        running: &mut Running<'_>,
        rows: &SharedRows,
        count: u32,
    ) -> Option<Option<Ending>> {
        self.show("Fetch", "executing");
        self.kernel.clear_interrupt();
        let mut left = count;
        loop {
            left = give(&self.wire, rows, left).await;
            if left == 0 {
                self.tell(self.flags | status::CURSOR_EXISTS);
                return None;
            }
            let Some(ended) = turn(running, rows).await else { continue };
            left = give(&self.wire, rows, left).await;
            if left == 0 {
                self.tell(self.flags | status::CURSOR_EXISTS);
                return Some(Some(ended));
            }
            match Fetched::at_end(rows, ended.as_ref().err()) {
                Fetched::Failed(error) => self.wire.error(&error),
                Fetched::All | Fetched::Last => self.tell(self.flags | status::LAST_ROW_SENT),
            }
            return Some(None);
        }
    }

    fn tell(&self, flags: u16) {
        end_of_fetch(&self.wire, flags, 0);
    }

    /// The next command; none when the session is wanted before there is one.
    async fn next_command(&self) -> Result<Option<Vec<u8>>, End> {
        self.show(SLEEP, "");
        // The client takes its time, not the statement.
        self.kernel.end_statement();
        self.wire.begin_command(self.packet_max);
        let wait = if self.renews { self.patience.min(RENEWAL) } else { self.patience };
        match self.wire.packet(Some(wait)).await {
            Err(End::Error(error)) if wait < self.patience && error.code() == 4031 => Ok(None),
            Err(end) => {
                self.shared.ledger.lock().counters.aborted_clients += 1;
                Err(end)
            }
            Ok(payload) => Ok(Some(payload)),
        }
    }

    fn wish(&self, payload: &[u8]) -> Wish {
        // Attributes of a query are looked at when it is run.
        let code = payload.first().copied().unwrap_or_default();
        let is_own = payload.get(1..5) == Some(&self.number.to_le_bytes()[..]);
        match code {
            Command::FETCH if is_own => match Command::parse(payload.to_vec(), false) {
                Ok(Command::Fetch { rows, .. }) => {
                    self.shared.ledger.lock().counters.questions += 1;
                    Wish::Fetch(rows)
                }
                _ => Wish::Other,
            },
            Command::EXECUTE | Command::CLOSE | Command::RESET if is_own => Wish::Close,
            Command::QUIT | Command::CHANGE_USER | Command::RESET_CONNECTION => Wish::Close,
            _ => Wish::Other,
        }
    }

    /// Changes the connection's entry in the process list.
    fn show(&self, command: &'static str, state: &'static str) {
        let now = self.kernel.now();
        let mut ledger = self.shared.ledger.lock();
        if let Some(process) = ledger.processes.get_mut(&self.connection) {
            (process.command, process.since, process.state) = (command, now, state);
        }
    }
}
