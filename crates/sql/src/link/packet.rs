//! Packets of a client, one after the other, and why there are no more.

use std::cell::RefCell;
use std::rc::Rc;

use mysql_wire::{Channel, PacketError};
use sql_expression::SqlError;
use stdx::Duration;

use super::{InputEnd, Link};

/// Why a connection ends.
pub(crate) enum End {
    /// The client has gone, or everything has been said.
    Gone,
    /// This has to be said first.
    Error(SqlError),
}

impl From<InputEnd> for End {
    fn from(end: InputEnd) -> Self {
        match end {
            InputEnd::Ended => Self::Gone,
            InputEnd::TimedOut => Self::Error(SqlError::new(
                4031,
                "HY000",
                "The client was disconnected by the server because of inactivity. See \
                 wait_timeout and interactive_timeout for configuring this behavior.",
            )),
            InputEnd::Goodbye(goodbye) => Self::Error(goodbye.error()),
        }
    }
}

impl From<PacketError> for End {
    fn from(error: PacketError) -> Self {
        Self::Error(match error {
            PacketError::TooLarge => {
                SqlError::new(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            }
            PacketError::OutOfOrder => SqlError::new(1156, "08S01", "Got packets out of order"),
            PacketError::Damaged => SqlError::of::<1157>(&[]),
        })
    }
}

impl From<mysql_wire::Malformed> for End {
    fn from(_: mysql_wire::Malformed) -> Self {
        Self::Error(SqlError::new(1835, "HY000", "Malformed communication packet."))
    }
}

/// The next packet; not after `patience`.
pub(crate) async fn packet(
    link: &Link,
    channel: &Rc<RefCell<Channel>>,
    patience: Option<Duration>,
) -> Result<Vec<u8>, End> {
    let deadline = patience.map(|patience| link.now() + patience);
    loop {
        if let Some(packet) = channel.borrow_mut().next_packet()? {
            return Ok(packet);
        }
        if channel.borrow().is_behind() {
            link.pause();
            continue;
        }
        link.seal();
        link.set_within(channel.borrow().is_within_payload());
        link.receive(deadline, |bytes| channel.borrow_mut().feed(bytes)).await?;
    }
}

/// The next packet of a file that the client sends; errors end the statement, and the connection
/// ends when it is read from again.
pub(crate) async fn packet_of_file(
    link: &Link,
    channel: &Rc<RefCell<Channel>>,
) -> Result<Vec<u8>, SqlError> {
    packet(link, channel, None).await.map_err(|end| match end {
        End::Error(error) => error,
        End::Gone => SqlError::new(1158, "08S01", "Got an error reading communication packets"),
    })
}
