//! A connection's bytes as its task sees them.
//!
//! # Owns
//! [`Link`], the task's handle to what has come in and what is to go out; its other side is moved
//! by the actor (`node`).
//! # Guarantees
//! A task that writes faster than its client reads waits in [`Link::drain`]; one that reads waits
//! until its client has sent something, or has gone. What is written to a compressed connection
//! goes out when it is waited for, or has become much.
//! # Not here
//! Packets and frames (`mysql-wire`).

pub(crate) mod packet;

use std::cell::{OnceCell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use actor::Encryption;
use mysql_wire::{FrameNumber, FrameWriter};
use sql_expression::{Pauses, SqlError};
use stdx::Instant;

/// Bytes come in while the task does something else, above which no more are read.
const RECEIVED_MAX: usize = 256 << 10;
/// Output of one task that is not moved to the host yet, above which it should be.
pub(crate) const OUTPUT_MAX: usize = 32 << 10;

/// What the task and the actor share.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    /// Bytes come in and not looked at yet.
    pub(crate) received: Vec<u8>,
    /// The host was told to read no more.
    pub(crate) paused: bool,
    /// The peer sends no more.
    pub(crate) input_ended: bool,
    /// Bytes for the peer; the actor empties it.
    pub(crate) output: Vec<u8>,
    /// Bytes given to the host and not counted yet.
    pub(crate) sent: u64,
    /// The host holds so much for the peer that no more should be written.
    pub(crate) congested: bool,
    /// Encryption is wanted; with the bytes of it that have come already.
    pub(crate) start_tls: Option<Vec<u8>>,
    /// Encryption is established.
    pub(crate) secured: Option<Rc<Encryption>>,
    /// The client has said who it is.
    pub(crate) is_logged_in: bool,
    /// Somebody wants the connection ended.
    pub(crate) killed: Option<Goodbye>,
    /// The server lets its clients go.
    pub(crate) draining: bool,
    /// The client has left nothing unfinished, and waits for nothing.
    pub(crate) may_go: bool,
    /// It is sending something: some has come in, and not all.
    pub(crate) is_within: bool,
    /// When the task gives up waiting for its peer.
    pub(crate) deadline: Option<Instant>,
    /// The time of this turn.
    pub(crate) now: Instant,
}

impl LinkState {
    /// Whether the host should read no more until the task has taken what is there.
    pub(crate) fn is_flooded(&self) -> bool {
        self.received.len() > RECEIVED_MAX
    }

    /// Whether the task should wait before it writes more.
    pub(crate) fn is_full(&self) -> bool {
        self.congested || self.output.len() > OUTPUT_MAX
    }
}

/// Why a connection is ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goodbye {
    /// KILL CONNECTION.
    Killed,
    /// The server stops.
    ShuttingDown,
}

impl Goodbye {
    /// What the client is told.
    pub(crate) fn error(self) -> SqlError {
        match self {
            Self::Killed => SqlError::new(1317, "70100", "Query execution was interrupted"),
            Self::ShuttingDown => SqlError::new(1053, "08S01", "Server shutdown in progress"),
        }
    }
}

/// Why nothing more comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputEnd {
    /// The peer has gone.
    Ended,
    /// It sent nothing for too long.
    TimedOut,
    /// It is ended from here.
    Goodbye(Goodbye),
}

/// A task's handle to its connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: Rc<RefCell<LinkState>>,
    compression: Rc<OnceCell<Compression>>,
}

/// What a connection has that is compressed.
#[derive(Debug)]
struct Compression {
    frames: FrameWriter,
    /// Output that is in no frame yet.
    plain: RefCell<Vec<u8>>,
    /// To compress takes long.
    pauses: Pauses,
}

impl Link {
    pub(crate) fn new(state: Rc<RefCell<LinkState>>) -> Self {
        Self { state, compression: Rc::default() }
    }

    /// What is written from now on goes out in frames.
    pub(crate) fn compress(&self, number: FrameNumber, pauses: Pauses) {
        let frames = FrameWriter::new(number);
        let begun = self.compression.set(Compression { frames, plain: RefCell::default(), pauses });
        assert!(begun.is_ok(), "a connection is compressed once");
    }

    /// Lets others have a turn in the middle of what compression takes.
    pub(crate) fn pause(&self) {
        if let Some(compression) = self.compression.get() {
            // Who is to end hears it elsewhere.
            let _ = compression.pauses.look();
        }
    }

    /// Makes frames of what has been written: it is about to be waited for, or the last of an
    /// answer.
    pub(crate) fn seal(&self) {
        let Some(compression) = self.compression.get() else { return };
        let plain = compression.plain.take();
        let put = |frame: &[u8]| self.state.borrow_mut().output.extend_from_slice(frame);
        compression.frames.write(&plain, put, || self.pause());
    }

    /// Bytes given to the host since this was asked last.
    pub(crate) fn take_sent(&self) -> u64 {
        std::mem::take(&mut self.state.borrow_mut().sent)
    }

    /// Waits for bytes and moves them to the end of `buffer`. Not after `deadline`.
    pub(crate) async fn receive(
        &self,
        deadline: Option<Instant>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), InputEnd> {
        self.state.borrow_mut().deadline = deadline;
        let result = poll_fn(|_| {
            let mut state = self.state.borrow_mut();
            if let Some(goodbye) = state.killed {
                return Poll::Ready(Err(InputEnd::Goodbye(goodbye)));
            }
            if !state.received.is_empty() {
                take(&state.received);
                state.received.clear();
                return Poll::Ready(Ok(()));
            }
            if state.input_ended {
                return Poll::Ready(Err(InputEnd::Ended));
            }
            if state.draining && state.may_go && !state.is_within {
                return Poll::Ready(Err(InputEnd::Goodbye(Goodbye::ShuttingDown)));
            }
            if deadline.is_some_and(|deadline| deadline <= state.now) {
                return Poll::Ready(Err(InputEnd::TimedOut));
            }
            Poll::Pending
        })
        .await;
        self.state.borrow_mut().deadline = None;
        result
    }

    /// The time of this turn.
    pub(crate) fn now(&self) -> Instant {
        self.state.borrow().now
    }

    /// The output, to append to.
    pub(crate) fn with_output<T>(&self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        match self.compression.get() {
            None => write(&mut self.state.borrow_mut().output),
            Some(compression) => write(&mut compression.plain.borrow_mut()),
        }
    }

    /// Whether the peer should take some of the output before there is more.
    pub(crate) fn is_full(&self) -> bool {
        let plain = self.compression.get();
        plain.is_some_and(|compression| compression.plain.borrow().len() > OUTPUT_MAX)
            || self.state.borrow().is_full()
    }

    /// Waits until the peer has taken enough of the output. An end of the connection ends the wait
    /// too: the task is dropped, or finds it when it reads.
    pub(crate) async fn drain(&self) {
        self.seal();
        poll_fn(|_| {
            let state = self.state.borrow();
            if state.is_full() && state.killed.is_none() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Encrypts the connection; `received` are its first bytes. Whoever has not agreed by
    /// `deadline` is given up.
    pub(crate) async fn start_tls(
        &self,
        received: &[u8],
        deadline: Instant,
    ) -> Result<(), InputEnd> {
        {
            let mut state = self.state.borrow_mut();
            state.start_tls = Some(received.to_vec());
            state.deadline = Some(deadline);
        }
        let result = poll_fn(|_| {
            let state = self.state.borrow();
            if state.secured.is_some() {
                return Poll::Ready(Ok(()));
            }
            if let Some(goodbye) = state.killed {
                return Poll::Ready(Err(InputEnd::Goodbye(goodbye)));
            }
            if state.input_ended || deadline <= state.now {
                return Poll::Ready(Err(InputEnd::Ended));
            }
            Poll::Pending
        })
        .await;
        self.state.borrow_mut().deadline = None;
        result
    }

    /// What encrypts the connection, if it is encrypted.
    pub(crate) fn secured(&self) -> Option<Rc<Encryption>> {
        self.state.borrow().secured.clone()
    }

    /// The client has said who it is.
    pub(crate) fn set_logged_in(&self) {
        self.state.borrow_mut().is_logged_in = true;
    }

    /// Why the connection is to end, if somebody wants it to.
    pub(crate) fn goodbye(&self) -> Option<Goodbye> {
        self.state.borrow().killed
    }

    /// As [`Link::goodbye`], for an answer that has no end: nobody waits for that.
    pub(crate) fn goodbye_of_endless(&self) -> Option<Goodbye> {
        let state = self.state.borrow();
        state.killed.or(state.draining.then_some(Goodbye::ShuttingDown))
    }

    /// Says whether the client is in the middle of what it sends.
    pub(crate) fn set_within(&self, is_within: bool) {
        self.state.borrow_mut().is_within = is_within;
    }

    /// Says whether a server that lets its clients go may end the connection now.
    pub(crate) fn let_go(&self, may_go: bool) {
        self.state.borrow_mut().may_go = may_go;
    }
}
