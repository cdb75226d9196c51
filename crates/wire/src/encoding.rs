//! Messages as bytes, between processes.
//!
//! # Owns
//! The protocol version, what an envelope leaves out because both ends of a link know it, what a
//! decoded message must be like, JSON inside messages, the consensus library's messages.
//!
//! What the bytes are is said by the types themselves (`#[derive(Codec)]`) and written down in
//! `docs/reference/wire-format.txt`, which a test compares with the types.
//!
//! # Versions
//! The ends of a link settle on the smaller one of their [`PROTOCOL_VERSION`]s, if both speak it.
//! New fields, variants and error codes need a new version: `#[codec(since = N)]`. A message that
//! the peer's version does not have is an error of [`Envelope::encode`]: the link counts and drops
//! it, and is as good as before. So whoever sends such a message lives without an answer, as with a
//! message that was lost.
//!
//! What the cluster has agreed on (state, commands, definitions) is JSON inside a message, the same
//! as in the control log: one rule for what newer versions may add serves both.
//!
//! # Guarantees
//! 1. Messages that never leave a process are neither encoded nor decoded.
//! 2. A decoded message can be handled without harm to memory or stack. Whether its sender may send
//!    it is for the receiving host to say (`node::broken_rule`), whether it makes sense for actors
//!    (`actor::Ctx::refuse`).

pub(crate) mod json;
pub(crate) mod raft;

use codec::{
    Codec, Decode, DecodeError, Definition, Describe, Encode, EncodeError, Field, Format, Problem,
    Reader, Shape, Writer,
};
use model::schema::KEY_SIZE_MAX;
use model::{
    ActorKind, Address, ControlIndex, Epoch, Incarnation, Key, NodeId, Row, RowId, WorkerId,
};

use crate::{Envelope, Message};

/// The newest version of the messages that this program speaks.
pub const PROTOCOL_VERSION: u16 = 18;
/// The oldest version that it speaks.
pub const PROTOCOL_VERSION_MIN: u16 = 1;

/// What the receiving end of a link knows of every message before it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node at the other end.
    pub from: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The node at this end.
    pub to: NodeId,
    /// Its workers.
    pub workers: u8,
}

/// What an envelope says beside its message.
#[derive(Clone, Copy, Codec)]
struct Head {
    from: Place,
    to: Place,
    reached: ControlIndex,
}

/// An address without the node.
#[derive(Clone, Copy, Codec)]
struct Place {
    worker: WorkerId,
    actor: ActorKind,
}

impl Place {
    fn of(address: Address) -> Self {
        Self { worker: address.worker, actor: address.actor }
    }

    fn on(self, node: NodeId) -> Address {
        Address { node, worker: self.worker, actor: self.actor }
    }
}

impl Envelope {
    /// Appends the envelope, without the nodes at both ends and the sender's life, which the link
    /// knows. Appends nothing when it fails.
    ///
    /// # Errors
    /// When the message is not meant for other processes, or not known to the peer's version.
    pub fn encode(&self, out: &mut Writer) -> Result<(), EncodeError> {
        let Self { from, to, reached, .. } = *self;
        out.attempt(|out| {
            Head { from: Place::of(from), to: Place::of(to), reached }.encode(out);
            self.message.encode(out);
        })
    }

    /// Bytes that it has on its way to a process of this program's version.
    ///
    /// # Errors
    /// When the message is not meant for other processes.
    pub fn encoded_size(&self) -> Result<usize, EncodeError> {
        let mut out = Writer::new(PROTOCOL_VERSION);
        self.encode(&mut out)?;
        Ok(out.bytes().len())
    }

    /// Takes an envelope that came over `link` from the input, which may hold more of them.
    ///
    /// # Errors
    /// When the bytes are none, or nothing that may come from another process.
    pub fn decode(input: &mut Reader<'_>, link: &Link) -> Result<Self, DecodeError> {
        let start = input.position();
        let Head { from, to, reached } = Head::decode(input)?;
        if to.worker.0 >= link.workers {
            return Err(input.fail_at(Problem::Range, start).within("Envelope"));
        }
        let at = input.position();
        let message = Message::decode(input)?;
        // Data nodes are told the state by their own control actor alone: it has it from the log.
        let state = matches!(message, Message::State(_) | Message::StateChange(_));
        if state && to.actor != ActorKind::Client {
            return Err(input.fail_at(Problem::Local, at).within("Message::State"));
        }
        let (from, to, message) = (from.on(link.from), to.on(link.to), Box::new(message));
        Ok(Self { from, incarnation: link.incarnation, to, reached, message })
    }
}

impl Describe for Envelope {
    fn describe(format: &mut Format) -> Shape {
        format.define("Envelope", module_path!(), |format| {
            let (head, message) = (Head::describe(format), Message::describe(format));
            let field = |name, shape| Field { name, shape, since: 1 };
            Definition::Struct(vec![field("head", head), field("message", message)])
        })
    }
}

/// Whether the key may be one of a stored row.
pub(crate) fn is_key(key: &Key) -> bool {
    key.bytes().len() <= KEY_SIZE_MAX
}

/// Whether the row, if there is one, may be stored.
pub(crate) fn is_row(row: &Option<Row>) -> bool {
    row.as_ref().is_none_or(Row::is_storable)
}

/// Whether copied rows may be stored.
pub(crate) fn are_rows(rows: &[(RowId, Epoch, Option<Row>)]) -> bool {
    rows.iter().all(|(_, _, row)| is_row(row))
}

#[cfg(test)]
mod tests;
