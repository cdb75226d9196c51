//! MySQL's client/server protocol, the server's side, without input or output.
//!
//! # Owns
//! Packets ([`Channel`]), the first exchange ([`Greeting`], [`Response`]), password checks
//! ([`auth`]), commands ([`Command`]), prepared statements' parameters, answers ([`answer`]),
//! events of the binary log ([`binlog`]).
//! # Guarantees
//! Nothing a client sends panics or makes the server reserve memory it has not sent bytes for. What
//! is not understood is a [`Malformed`], after which the connection has to end.
//! # Not here
//! Sockets, TLS, what commands mean. Source: the protocol's public documentation,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>.
//!
//! The life of a connection: write [`Greeting`]; read a [`Response`] (after an SSL request encrypt
//! and read another); check the password, perhaps after [`answer::auth_switch`]; write OK. Then
//! for each command: [`Channel::begin_command`], [`Channel::next_packet`], [`Command::parse`],
//! and one or more answers.

pub mod answer;
pub mod auth;
pub mod binlog;
mod command;
pub mod constants;
mod frame;
mod handshake;
mod packet;
mod parameter;
mod reader;

pub use command::{BinlogDump, Command, QueryText, ReplicaName};
pub use frame::{FrameNumber, FrameWriter, LEVEL as FRAME_LEVEL};
pub use handshake::{Greeting, Response};
pub use packet::{Channel, PacketError};
pub use parameter::{Attributes, Parameter, ParameterType, parse_execute};
pub use reader::Malformed;

#[cfg(test)]
mod tests;
