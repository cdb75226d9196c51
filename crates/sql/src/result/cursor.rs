//! The rows of a client's cursor, from the statement that makes them to the fetches that take them.
//!
//! # Owns
//! [`CursorRows`], which both ends share.
//! # Guarantees
//! A statement whose client fetches is as far ahead of it as a connection's output may be. What is
//! kept beyond that, because the session has something else to do, is held of its account.
//! # Not here
//! Commands of the protocol (`connection::cursor`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sql_expression::SqlError;

use crate::link::OUTPUT_MAX;
use crate::memory::{Account, Held};

/// About what a row takes beside its bytes.
const ROW_COST: usize = 32;

/// What becomes of rows that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The statement waits when there are some for the client.
    Fetched,
    /// All of them are kept: the session is wanted for something else.
    Kept,
    /// Nobody wants them.
    Dropped,
}

/// Rows that wait to be fetched, each as the packets it is sent in.
#[derive(Debug)]
pub(crate) struct CursorRows {
    /// The packets of the columns.
    pub(crate) head: Vec<u8>,
    rows: VecDeque<Vec<u8>>,
    bytes: usize,
    mode: Mode,
    /// The statement waits until rows are taken.
    waits: bool,
    held: Held,
    /// There was no room for all rows.
    refused: Option<SqlError>,
}

impl CursorRows {
    /// None yet; what is kept is of this account.
    pub(crate) fn new(account: &Account) -> Self {
        Self {
            head: Vec::new(),
            rows: VecDeque::new(),
            bytes: 0,
            mode: Mode::Fetched,
            waits: false,
            held: account.hold("the rows of a cursor"),
            refused: None,
        }
    }

    /// The statement has made a row.
    pub(crate) fn push(&mut self, row: Vec<u8>) {
        if self.mode == Mode::Dropped {
            return;
        }
        match self.held.add(row.len() + ROW_COST) {
            Ok(()) => {
                self.bytes += row.len();
                self.rows.push_back(row);
            }
            Err(error) => {
                self.drop_all();
                self.refused = Some(error);
            }
        }
    }

    /// The next row for the client.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let row = self.rows.pop_front()?;
        self.bytes -= row.len();
        self.held.give_back(row.len() + ROW_COST);
        Some(row)
    }

    /// Why not all rows could be kept; told once.
    pub(crate) fn take_refusal(&mut self) -> Option<SqlError> {
        self.refused.take()
    }

    /// Whether the statement should make no more rows before some are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.mode == Mode::Fetched && self.bytes > OUTPUT_MAX
    }

    /// Whether the statement waits until rows are taken.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Has the statement make all its rows without waiting.
    pub(crate) fn keep_all(&mut self) {
        if self.mode == Mode::Fetched {
            self.mode = Mode::Kept;
        }
    }

    /// Nobody wants the rows any more.
    pub(crate) fn drop_all(&mut self) {
        self.mode = Mode::Dropped;
        self.rows = VecDeque::new();
        self.bytes = 0;
        self.held = self.held.another();
    }

    /// Whether the statement may end without making more rows.
    pub(crate) fn is_dropped(&self) -> bool {
        self.mode == Mode::Dropped
    }
}

/// Waits until some rows have been taken, if there are many.
pub(crate) async fn drained(rows: &Rc<RefCell<CursorRows>>) {
    poll_fn(|_| {
        let mut rows = rows.borrow_mut();
        rows.waits = rows.is_full();
        if rows.waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}
