//! A client's connection to an SQL node, as the function of the client sees it.
//!
//! # Owns
//! [`Mysql`]: what a client may ask for, one thing at a time, and what it is told.
//! # Not here
//! Who carries the bytes (`application`), what they mean (`protocol`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use model::{ClusterState, Epoch};
use sql::Marks;
use stdx::{Duration, Instant, Prng};

use super::protocol::{self, Answer, Expected, ServerError};

/// What a client asks for.
pub(super) enum Ask {
    Open,
    Exchange { bytes: Vec<u8>, expected: Option<Expected> },
    Sleep(Duration),
}

/// What a client is told.
pub(super) enum Told {
    Packets(Vec<Vec<u8>>),
    Lost,
    Done,
}

/// Between a client and whoever carries its bytes.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) asks: VecDeque<Ask>,
    pub(super) told: Option<Told>,
    /// The newest cluster state that any SQL node has known which the client was connected to.
    pub(super) cluster: Arc<ClusterState>,
    /// When the client was told last.
    pub(super) now: Instant,
    /// What the connection has reached, when the client was told last.
    pub(super) marks: Marks,
}

/// Why a statement has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server says so.
    Error(ServerError),
    /// The connection has ended: what was under way may have been done.
    Lost,
}

impl Failure {
    /// MySQL's number of the error; 2013 where the connection is lost, as clients say.
    pub fn code(&self) -> u16 {
        match self {
            Failure::Error(error) => error.code,
            Failure::Lost => 2013,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => write!(f, "error {}: {}", error.code, error.text),
            Failure::Lost => f.write_str("the connection is lost"),
        }
    }
}

/// A client's connection, as its function sees it.
pub struct Mysql {
    slot: Rc<RefCell<Slot>>,
    prng: RefCell<Prng>,
}

impl Mysql {
    pub(super) fn new(slot: Rc<RefCell<Slot>>, prng: Prng) -> Self {
        Self { slot, prng: RefCell::new(prng) }
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.prng.borrow_mut().below(bound)
    }

    /// True with a probability of `percent` in a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.prng.borrow_mut().percent(percent)
    }

    /// One of several.
    pub fn pick<T: Copy>(&self, of: &[T]) -> T {
        *self.prng.borrow_mut().pick(of)
    }

    /// The newest cluster state that the client has heard of.
    pub fn cluster(&self) -> Arc<ClusterState> {
        self.slot.borrow().cluster.clone()
    }

    /// Restarts of the whole cluster that the client has heard of.
    pub fn generation(&self) -> usize {
        self.slot.borrow().cluster.restarts.len()
    }

    /// True time.
    pub fn now(&self) -> Instant {
        self.slot.borrow().now
    }

    /// The epoch of the connection's newest transaction that changed something.
    pub fn committed(&self) -> Option<Epoch> {
        self.slot.borrow().marks.committed
    }

    /// The epoch of the snapshot that the connection has opened last.
    pub fn snapshot(&self) -> Option<Epoch> {
        self.slot.borrow().marks.snapshot
    }

    async fn ask(&self, ask: Ask) -> Told {
        self.slot.borrow_mut().asks.push_back(ask);
        poll_fn(|_| match self.slot.borrow_mut().told.take() {
            Some(told) => Poll::Ready(told),
            None => Poll::Pending,
        })
        .await
    }

    async fn exchange(&self, bytes: Vec<u8>, expected: Expected) -> Result<Vec<Vec<u8>>, Failure> {
        match self.ask(Ask::Exchange { bytes, expected: Some(expected) }).await {
            Told::Packets(packets) => Ok(packets),
            Told::Lost => Err(Failure::Lost),
            Told::Done => panic!("a command is answered"),
        }
    }

    /// Does nothing for a while.
    pub async fn sleep(&self, span: Duration) {
        self.ask(Ask::Sleep(span)).await;
    }

    /// Does nothing for a drawn while of at most `millis_max` milliseconds.
    pub async fn pause(&self, millis_max: u64) {
        let millis = 1 + self.below(millis_max.max(1));
        self.sleep(Duration::from_millis(millis)).await;
    }

    /// Connects anew, to any SQL node that answers, and logs in; what was connected before is
    /// closed.
    pub async fn connect(&self) -> Result<(), Failure> {
        if let Told::Lost = self.ask(Ask::Open).await {
            return Err(Failure::Lost);
        }
        let mut packets = self.exchange(protocol::login(), Expected::Packet).await?;
        if protocol::asks_for_proof(&packets) {
            packets = self.exchange(protocol::no_password(), Expected::Packet).await?;
        }
        protocol::read(&packets).map_err(Failure::Error)?;
        Ok(())
    }

    /// Says goodbye. A transaction that is open is undone.
    pub async fn quit(&self) {
        self.ask(Ask::Exchange { bytes: protocol::quit(), expected: None }).await;
    }

    /// Runs a statement as text.
    pub async fn query(&self, text: &str) -> Result<Answer, Failure> {
        let packets = self.exchange(protocol::query(text), Expected::Result).await?;
        protocol::read(&packets).map_err(Failure::Error)
    }

    /// Runs LOAD DATA LOCAL with a file that is sent in these parts; some clients leave in the
    /// middle of it.
    pub async fn load(&self, text: &str, parts: &[String]) -> Result<Answer, Failure> {
        let mut packets = self.exchange(protocol::query(text), Expected::Result).await?;
        if protocol::asks_for_file(&packets) {
            for (number, part) in parts.iter().enumerate() {
                if self.percent(5) {
                    self.connect().await?;
                    return Err(Failure::Lost);
                }
                let bytes = protocol::file_part(number, part.as_bytes());
                if let Told::Lost = self.ask(Ask::Exchange { bytes, expected: None }).await {
                    return Err(Failure::Lost);
                }
            }
            let end = protocol::file_part(parts.len(), &[]);
            packets = self.exchange(end, Expected::Result).await?;
        }
        protocol::read(&packets).map_err(Failure::Error)
    }

    /// Prepares a statement.
    pub async fn prepare(&self, text: &str) -> Result<u32, Failure> {
        let packets = self.exchange(protocol::prepare(text), Expected::Prepared).await?;
        protocol::read_prepared(&packets).map_err(Failure::Error)
    }

    /// Runs a prepared statement that answers no rows.
    pub async fn execute(&self, statement: u32, parameters: &[i64]) -> Result<Answer, Failure> {
        let bytes = protocol::execute(statement, parameters);
        let packets = self.exchange(bytes, Expected::Result).await?;
        protocol::read(&packets).map_err(Failure::Error)
    }

    /// Forgets a prepared statement.
    pub async fn forget(&self, statement: u32) {
        self.ask(Ask::Exchange { bytes: protocol::close(statement), expected: None }).await;
    }
}
