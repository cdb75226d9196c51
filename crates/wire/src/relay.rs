//! Questions that SQL nodes ask each other. They have no links among them: a data node passes
//! questions and answers on.
//!
//! ```text
//! SQL node 1 ──Ask──► control actor of each data node ──Question──► SQL nodes that follow it
//! SQL node 1 ◄─Asked── (who was asked)
//! SQL node 1 ◄─Told─── control actor ◄───────────────────Reply───── SQL node 2
//! ```
//!
//! # Guarantees
//! `Asked` comes before the first `Told` of the same data node. A peer answers in its own name
//! only. An answer is bounded: see [`CONNECTIONS_MAX`] and [`TEXT_MAX`].
//! # Not here
//! Who may ask what: the SQL node that asks has checked it.

use codec::Codec;
use model::{Address, Incarnation, NodeId, SessionId, Value};

/// The protocol version that brought [`PeerQuestion::Leave`].
pub const LEAVE_SINCE: u16 = 18;
/// The protocol version that brought these messages.
pub const SINCE: u16 = 16;
/// Most connections of an answer; what does not fit is left out.
pub const CONNECTIONS_MAX: usize = 10_000;
/// A statement's text in an answer, at most, in bytes.
pub const TEXT_MAX: usize = 1 << 10;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub enum PeerQuestion {
    /// The connections of the process. Number, account, where from, database or NULL, command,
    /// microseconds that it has taken, state, text of the statement or NULL.
    Connections,
    /// How the process stands. Name of its host, port, version, open connections, those that run a
    /// statement, microseconds that it has served.
    Standing,
    /// Ends a connection, or the statement that it runs. One row with one number: 0 if there is no
    /// such connection, 1 if it is told, 2 if its account is another one.
    Kill {
        /// Its number.
        connection: u32,
        /// Only the statement.
        query_only: bool,
        /// Only if it is of this account.
        account: Option<String>,
    },
    /// The process is to end, or to start again, once its clients have been let go. Only management
    /// nodes ask this. One row with one number: 1 if this life is told, 0 if it is another one.
    #[codec(since = 18)]
    Leave {
        /// The life that is meant.
        life: Incarnation,
        /// What comes after it.
        leaving: Leaving,
    },
}

/// What becomes of a process that is asked to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Leaving {
    /// It ends.
    End,
    /// It starts again.
    StartAgain,
}

/// A question or its answer, on one of the two ways to its end.
#[derive(Clone, Debug, Codec)]
pub enum RelayMessage {
    /// From a client to a control actor: to be passed on to all SQL nodes that follow it, or to
    /// one.
    Ask {
        /// Who asks.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// The only one that is asked.
        to: Option<NodeId>,
        /// What.
        question: PeerQuestion,
    },
    /// From the control actor to the client: who is asked.
    Asked {
        /// Who asked.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// One actor of each process.
        peers: Vec<Address>,
    },
    /// From the control actor to a client.
    Question {
        /// The client that asks.
        asker: Address,
        /// Its session.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// What.
        question: PeerQuestion,
    },
    /// From a client to the control actor that has asked it.
    Reply {
        /// The client that asked.
        asker: Address,
        /// Its session.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// The answer.
        rows: Vec<Vec<Value>>,
    },
    /// From the control actor to the client that asked.
    Told {
        /// Who asked.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// Who answers.
        peer: Address,
        /// The answer.
        rows: Vec<Vec<Value>>,
    },
}

impl RelayMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "RelayAsk",
            Self::Asked { .. } => "RelayAsked",
            Self::Question { .. } => "RelayQuestion",
            Self::Reply { .. } => "RelayReply",
            Self::Told { .. } => "RelayTold",
        }
    }
}
