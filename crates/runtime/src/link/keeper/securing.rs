//! TLS on the connections of links, and who may be at their other ends.
//!
//! # Owns
//! When a connection is encrypted, what becomes of handshakes that fail, and certificates that
//! change while the process runs.
//! # Guarantees
//! 1. A node with credentials makes no link over TCP without TLS, whoever begins, and one without
//!    makes none with it. Each side is told why.
//! 2. A peer that connects is the node, and has the role, that its certificate says. One that is
//!    connected to is the one that the configuration has at that address.
//! 3. What is wrong with a peer is said once and counted every time.
//! 4. A link ends when a certificate that it was made with is revoked, and for nothing else that
//!    becomes of certificates.
//! # Not here
//! Unix sockets: whoever is at the other end is the same user, who can read this node's key.

use std::collections::BTreeSet;

use model::NodeId;
use stdx::{Duration, Instant};

use super::super::address::UNIX;
use super::super::greeting::Identity;
use super::super::pending::{Errand, Pending, Stage};
use super::super::{Broken, LinkEvent};
use super::strangers::place;
use super::{COMPLAINT_INTERVAL, Keeper, READ, Word};
use crate::tls::{LinkTls, NodeRole, Shown, Trouble, TroubleKind};

/// What there is to remember for it.
pub(super) struct Securing {
    /// When the files are looked at next, unless they are just now.
    look_at: Instant,
    looking: bool,
    /// What was said of whom, and when.
    complaints: Vec<(String, Instant)>,
}

impl Securing {
    pub(super) fn new(now: Instant) -> Self {
        Self { look_at: now + LOOK_INTERVAL, looking: false, complaints: Vec::new() }
    }
}

impl Keeper {
    /// The system has connected: TLS begins, if there is to be any, or the greeting is said.
    pub(super) fn connected(&mut self, token: u64, errand: Errand) {
        let Some(pending) = self.pending.get_mut(&token) else { return };
        let Some(credentials) = &self.setup.credentials else { return self.greet(token, errand) };
        if pending.transport == UNIX {
            return self.greet(token, errand);
        }
        let role = NodeRole::from(self.peers[&errand.node].peer.role);
        pending.stage = Stage::Securing(errand);
        // Computing the keys takes both ends some time.
        pending.deadline = pending.deadline.max(self.clock.now() + HANDSHAKE_TIMEOUT);
        let begun = match LinkTls::connecting(credentials, (role, errand.node)) {
            Ok(tls) => pending.secure(tls),
            Err(trouble) => return self.troubled(token, trouble),
        };
        if !begun || self.poller.modify(&pending.socket, token, READ).is_err() {
            self.fail(token, false);
        }
    }

    /// Somebody has connected and begins with TLS.
    pub(super) fn begin_to_accept(&mut self, token: u64) {
        let Some(pending) = self.pending.get_mut(&token) else { return };
        let Some(credentials) = &self.setup.credentials else {
            pending.say_no_tls();
            let why = "it speaks TLS, and this node has no certificate (node-cert.pem)".to_owned();
            return self.troubled(token, Trouble { kind: TroubleKind::Encrypted, why });
        };
        match LinkTls::accepting(credentials) {
            Ok(tls) => {
                if !pending.secure(tls) {
                    self.fail(token, false);
                }
            }
            Err(trouble) => self.troubled(token, trouble),
        }
    }

    /// A handshake has failed: says why, once, and gives the other side the time to hear it.
    pub(super) fn troubled(&mut self, token: u64, trouble: Trouble) {
        let Trouble { kind, why } = trouble;
        self.handle.count_refusal(kind);
        let until = self.clock.now() + LEAVE_TIME;
        let Some(pending) = self.pending.get_mut(&token) else { return };
        let (errand, address) = (pending.errand(), pending.address);
        pending.leave(until);
        if self.poller.modify(&pending.socket, token, READ).is_err() {
            self.pending.remove(&token);
        }
        match (errand, kind) {
            (Some(errand), TroubleKind::ByPeer) => {
                self.complain(errand.node, &format!("it refuses this node: {why}"));
                self.errand_failed(errand, false);
            }
            (Some(errand), _) => {
                self.complain(errand.node, &why);
                self.errand_failed(errand, false);
            }
            (None, TroubleKind::ByPeer) => {
                self.complain_of_stranger(format!("{} refuses this node: {why}", place(address)));
            }
            (None, _) => self.complain_of_stranger(format!("{} refused: {why}", place(address))),
        }
    }

    /// Says what is wrong with somebody that is not known, now and then.
    fn complain_of_stranger(&mut self, why: String) {
        let now = self.clock.now();
        let complaints = &mut self.securing.complaints;
        complaints.retain(|(_, at)| now.since(*at) < COMPLAINT_INTERVAL);
        // A flood from many places is counted, and not said.
        if complaints.len() < COMPLAINTS_MAX && complaints.iter().all(|(last, _)| *last != why) {
            complaints.push((why.clone(), now));
            self.tell(LinkEvent::Refused { node: None, why });
        }
    }

    /// Whether whoever greets is who it says.
    pub(super) fn proves(&self, pending: &Pending, identity: &Identity) -> Result<(), Trouble> {
        if self.setup.credentials.is_none() || pending.transport == UNIX {
            return Ok(());
        }
        if !pending.is_encrypted() {
            let why = "this cluster's nodes speak TLS with each other, and it does not: it needs a \
                       certificate (node-cert.pem)";
            return Err(Trouble { kind: TroubleKind::Plain, why: why.to_owned() });
        }
        let Some(Shown { identity: shown, .. }) = &pending.shown else {
            let why = "it has shown no certificate".to_owned();
            return Err(Trouble { kind: TroubleKind::NoCertificate, why });
        };
        let role = NodeRole::from(identity.role);
        if (shown.role, shown.node) != (role, identity.node) {
            let why = format!(
                "its certificate is that of {shown}, and it says that it is {} node {}",
                role.name(),
                identity.node.0
            );
            return Err(Trouble { kind: TroubleKind::Identity, why });
        }
        Ok(())
    }

    /// Whether a certificate was revoked since it was shown.
    pub(super) fn is_revoked(&self, pending: &Pending) -> bool {
        let both = pending.shown.as_ref().zip(self.setup.credentials.as_ref());
        both.is_some_and(|(shown, credentials)| credentials.is_revoked(&shown.serial))
    }

    /// The certificates of links that stand count as good in time.
    pub(super) fn note_standing(&self) {
        let Some(credentials) = &self.setup.credentials else { return };
        let standing = self.peers.values().filter(|peer| peer.link().is_some());
        let shown = standing.flat_map(|peer| &peer.shown).map(|shown| shown.fingerprint);
        credentials.set_standing(shown.collect());
    }

    /// When the files of certificates are to be looked at.
    pub(super) fn look_at_credentials_at(&self) -> Option<Instant> {
        let looks = self.setup.credentials.is_some() && !self.securing.looking;
        looks.then_some(self.securing.look_at)
    }

    /// Looks at the files of certificates, on a thread of its own: a disk may take its time.
    pub(super) fn look_at_credentials(&mut self, now: Instant) {
        let Some(credentials) = &self.setup.credentials else { return };
        if self.securing.looking || self.securing.look_at > now {
            return;
        }
        let (handle, credentials) = (self.handle.clone(), credentials.clone());
        let look = move || handle.word(Word::Credentials(credentials.look()));
        let thread = std::thread::Builder::new().name("certificates".into()).spawn(look);
        self.securing.looking = thread.is_ok();
        self.securing.look_at = now + LOOK_INTERVAL;
    }

    /// The files have been looked at. Links are ended whose certificates are revoked.
    pub(super) fn note_credentials(&mut self, found: Option<Result<bool, String>>) {
        self.securing.looking = false;
        self.securing.look_at = self.clock.now() + LOOK_INTERVAL;
        let (Some(found), Some(credentials)) = (found, self.setup.credentials.clone()) else {
            return;
        };
        match found {
            Ok(true) => {
                let until = credentials.good_until();
                let own = credentials.serial();
                let revoked = if credentials.is_revoked(&own) { "; it is revoked" } else { "" };
                let what = format!("its certificate {own} is good until {until}{revoked}");
                self.tell(LinkEvent::Credentials { what: Ok(what) });
            }
            Ok(false) => {}
            Err(why) => self.tell(LinkEvent::Credentials { what: Err(why) }),
        }
        let revoked = |shown: &Shown| credentials.is_revoked(&shown.serial);
        let peers = self.peers.iter().filter(|(_, peer)| peer.link().is_some());
        let nodes: BTreeSet<NodeId> = peers
            .filter(|(_, peer)| peer.shown.iter().any(revoked))
            .map(|(node, _)| *node)
            .collect();
        for node in nodes {
            self.handle.count_refusal(TroubleKind::Revoked);
            self.end_link_as(node, false, Broken::Revoked);
        }
    }
}

/// How often it is looked whether the files of certificates have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a peer may take for a handshake, however little it may take otherwise.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long one that was refused may take to hear it.
const LEAVE_TIME: Duration = Duration::from_millis(500);
/// Complaints of strangers that are remembered, and so said.
const COMPLAINTS_MAX: usize = 64;
