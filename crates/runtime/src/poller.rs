//! Which sockets are ready: `epoll`, level-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use stdx::Duration;

/// What to wait for on a socket. That it broke is told in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// What has happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The name it was added with.
    pub(crate) token: u64,
    pub(crate) write: bool,
    /// Broken, or both directions are closed. There may still be something to read.
    pub(crate) hung_up: bool,
}

/// A set of sockets.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Adds a socket under the name `token`.
    pub(crate) fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags(interest))?)
    }

    /// Adds a socket that is told of once each time that something comes, read or not.
    pub(crate) fn add_edge(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Changes what to wait for.
    pub(crate) fn modify(
        &self,
        socket: impl AsFd,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags(interest))?)
    }

    /// Adds another poller: it is ready when one of its sockets is.
    pub(crate) fn add_poller(&self, other: &Poller, token: u64) -> io::Result<()> {
        self.add(&other.epoll, token, Interest { read: true, write: false })
    }

    /// Removes a poller.
    pub(crate) fn remove_poller(&self, other: &Poller) -> io::Result<()> {
        self.remove(&other.epoll)
    }

    /// Removes a socket. Closing one does that too.
    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until something has happened, at most for `timeout`, without end if there is none.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|span| Timespec {
            tv_sec: (span.as_nanos() / NANOS).min(TIMEOUT_MAX_SECS) as i64,
            tv_nsec: (span.as_nanos() % NANOS) as i64,
        });
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something has happened that has not been told.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// What has happened; each is told once.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Ready> + use<'_> {
        self.events.drain(..).map(|event| {
            let (flags, data) = (event.flags, event.data);
            Ready {
                token: data.u64(),
                write: flags.contains(EventFlags::OUT),
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        })
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

/// Sockets handled per turn of the loop; the others come with the next.
const EVENTS_MAX: usize = 256;
/// The system takes no longer time-outs; waking up once an hour harms nobody.
const TIMEOUT_MAX_SECS: u64 = 3_600;
const NANOS: u64 = 1_000_000_000;
