//! The clients of all SQL nodes of a run.
//!
//! # Owns
//! [`Clients`]: each client with what is on its way to and from it, and which SQL node it is
//! connected to.
//! # Guarantees
//! A client outlives the SQL node that it is connected to: it is told that its connection is lost,
//! and connects to any SQL node that answers.
//! # Not here
//! Who carries the bytes (`application`), what clients do (`bank`, `families`, …).

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use actor::ConnectionId;
use model::{Incarnation, NodeId};
use stdx::{Duration, Instant, Prng};

use super::files::Host;
use super::mysql::{Ask, Mysql, Slot};
use super::protocol::{Expected, Incoming};
use crate::lab::{Lab, Phase};

/// Who has not been heard of for so long has lost its clients.
const SILENCE: Duration = Duration::from_millis(400);
/// Exchanges in a thousand of which the connection is cut.
const CUTS_PER_MILLE: u64 = 5;

/// An SQL node in one of its lives.
pub(super) type Life = (NodeId, Incarnation);

/// Makes the future of a client from its connection.
pub(super) type ClientFactory = Box<dyn FnOnce(Mysql) -> Pin<Box<dyn Future<Output = ()>>>>;

/// A client, and what is on its way to and from it.
pub(super) struct ClientTask {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) slot: Rc<RefCell<Slot>>,
    /// The SQL node that it is connected to, or connects to.
    pub(super) host: Option<Life>,
    /// That node has not taken note of it yet.
    pub(super) moves: bool,
    pub(super) connection: Option<ConnectionId>,
    /// What it has asked for and is not there yet.
    pub(super) on_its_way: Option<Ask>,
    pub(super) received: Incoming,
    /// The answer that it waits for.
    pub(super) expected: Option<Expected>,
    /// The connection that is about to be cut.
    pub(super) cut: Option<ConnectionId>,
    pub(super) begun: bool,
    pub(super) over: bool,
}

/// When an SQL node was heard of last.
#[derive(Clone, Copy, Debug)]
struct Beat {
    incarnation: Incarnation,
    at: Instant,
    ready: bool,
}

/// All clients, and the SQL nodes that they may connect to.
pub struct Clients {
    all: Vec<RefCell<ClientTask>>,
    beats: RefCell<BTreeMap<NodeId, Beat>>,
    lab: Rc<Lab>,
}

impl Clients {
    pub(super) fn new(lab: Rc<Lab>, prng: &mut Prng, factories: Vec<ClientFactory>) -> Self {
        let start = |make: ClientFactory| {
            let slot = Rc::<RefCell<Slot>>::default();
            let mysql = Mysql::new(slot.clone(), prng.fork());
            RefCell::new(ClientTask {
                future: make(mysql),
                slot,
                host: None,
                moves: false,
                connection: None,
                on_its_way: None,
                received: Incoming::default(),
                expected: None,
                cut: None,
                begun: false,
                over: false,
            })
        };
        let all = factories.into_iter().map(start).collect();
        Self { all, beats: RefCell::default(), lab }
    }

    /// The backups that all SQL nodes see.
    pub(super) fn files(&self) -> Host {
        self.lab.sql.borrow().files.clone()
    }

    pub(super) fn get(&self, at: usize) -> RefMut<'_, ClientTask> {
        self.all[at].borrow_mut()
    }

    /// An SQL node is there.
    pub(super) fn beat(&self, life: Life, at: Instant, ready: bool) {
        let (node, incarnation) = life;
        self.beats.borrow_mut().insert(node, Beat { incarnation, at, ready });
    }

    fn is_heard(beat: &Beat, now: Instant) -> bool {
        now.since(beat.at) <= SILENCE
    }

    /// The clients that an SQL node takes: those that move to it, and those that have lost theirs.
    pub(super) fn homeless(&self, here: Life, now: Instant) -> Vec<usize> {
        let beats = self.beats.borrow();
        let is_lost = |(node, incarnation): Life| {
            let beat = beats.get(&node).filter(|beat| beat.incarnation == incarnation);
            !beat.is_some_and(|beat| Self::is_heard(beat, now))
        };
        let wants = |client: &ClientTask| match client.host {
            None => true,
            Some(host) if host == here => client.moves,
            Some(host) => is_lost(host),
        };
        let all = self.all.iter().enumerate();
        let wanting = all.filter(|(_, client)| {
            let client = client.borrow();
            !client.over && wants(&client)
        });
        wanting.map(|(at, _)| at).collect()
    }

    /// An SQL node that lets clients in, drawn from those that were heard of lately.
    pub(super) fn choose(&self, prng: &mut Prng, now: Instant) -> Option<Life> {
        let beats = self.beats.borrow();
        let open = beats.iter().filter(|(_, beat)| beat.ready && Self::is_heard(beat, now));
        let open: Vec<Life> = open.map(|(node, beat)| (*node, beat.incarnation)).collect();
        (!open.is_empty()).then(|| *prng.pick(&open))
    }

    /// Whether the connection of a client is to be cut in the middle of an exchange.
    pub(super) fn cuts(&self, prng: &mut Prng) -> bool {
        self.lab.phase() == Phase::Working && prng.below(1_000) < CUTS_PER_MILLE
    }
}
