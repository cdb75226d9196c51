//! Questions to other clients of the cluster, as SQL nodes ask each other: data nodes pass them on.
//!
//! # Guarantees
//! A call ends when all have answered whom some data node has asked, or after [`PATIENCE`]
//! ([`KILL_PATIENCE`]): with the answers that came, and whether some may be missing. A process that
//! follows several data nodes counts once; it is asked once by each of them, with the same number.
//! # Failure
//! A peer that ends or hangs is left out.

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, probe};
use model::{Address, NodeId, NodeRole, SessionId, Value};
use stdx::Duration;
use wire::{Message, PeerQuestion, RelayMessage};

use super::Client;
use super::call::{Call, Wake, Work};
use super::follow::control_of;
use super::route::Life;
use crate::event::{ClientResult, Inspected, PeerAnswers, SessionNumber, Token};

/// How long peers are waited for.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// How long the answer to a KILL is waited for: who asks must know whether it was carried out.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A question under way.
#[derive(Debug)]
pub(super) struct PeersCall {
    to: Option<NodeId>,
    question: PeerQuestion,
    /// Data nodes that have not said yet whom they have asked.
    asking: BTreeSet<Life>,
    /// Who was asked and has not answered.
    awaited: BTreeSet<NodeId>,
    answers: BTreeMap<NodeId, Inspected>,
    /// Time has run out.
    incomplete: bool,
}

impl PeersCall {
    /// The data nodes that have not said yet whom they have asked.
    pub(super) fn asking(&self) -> Vec<Life> {
        self.asking.iter().copied().collect()
    }

    fn patience(&self) -> Duration {
        match self.question {
            PeerQuestion::Kill { .. } | PeerQuestion::Leave { .. } => KILL_PATIENCE,
            PeerQuestion::Connections | PeerQuestion::Standing => PATIENCE,
        }
    }

    fn is_over(&self) -> bool {
        self.asking.is_empty() && self.awaited.is_empty()
    }
}

impl Client {
    /// Asks all other SQL nodes that follow the cluster, or one. Ends in `PeersAnswered`, with the
    /// answers of those that gave one in time.
    pub fn ask_peers(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        to: Option<NodeId>,
        question: PeerQuestion,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let members = ctx.cluster().members.iter();
            let data = members.filter(|(_, member)| member.role == NodeRole::Data);
            let relays = self.protocol() >= wire::relay::SINCE;
            let asking = data
                .map(|(node, member)| Life { node: *node, incarnation: member.incarnation })
                .filter(|_| relays)
                .collect();
            let (awaited, answers) = (BTreeSet::new(), BTreeMap::new());
            let incomplete = !relays;
            let work = PeersCall { to, question, asking, awaited, answers, incomplete };
            let work = Work::Peers(work);
            self.send_to_peers(ctx, token, Call::new(session, work));
        }
        self.arm(ctx);
        token
    }

    /// Has all data nodes pass the question on that have not said that they do.
    pub(super) fn send_to_peers(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        let Work::Peers(work) = &call.work else { panic!("{token:?} asks peers") };
        let session = self.session_mut(call.session).id;
        for life in &work.asking {
            let (to, question) = (work.to, work.question.clone());
            let ask = RelayMessage::Ask { session, request: call.request(token), to, question };
            ctx.send(control_of(life.node), Message::Relay(Box::new(ask)));
        }
        if work.is_over() {
            return self.end_peers(token, call);
        }
        let due = ctx.now() + work.patience();
        self.put_until(token, call, Wake::Lost, due);
    }

    /// A data node says whom it has asked.
    pub(super) fn peers_asked(
        &mut self,
        from: Address,
        session: SessionId,
        request: u64,
        peers: &[Address],
    ) {
        self.change_peers(session, request, |work| {
            let before = work.asking.len();
            work.asking.retain(|life| life.node != from.node);
            if work.asking.len() < before {
                let news = peers.iter().map(|peer| peer.node);
                work.awaited.extend(news.filter(|node| !work.answers.contains_key(node)));
            }
        });
    }

    /// A peer answers.
    pub(super) fn peer_tells(
        &mut self,
        peer: Address,
        session: SessionId,
        request: u64,
        rows: Vec<Vec<Value>>,
    ) {
        self.change_peers(session, request, |work| {
            if work.awaited.remove(&peer.node) {
                let told = Inspected { node: peer.node, worker: peer.worker, rows };
                work.answers.insert(peer.node, told);
            }
        });
    }

    fn change_peers(
        &mut self,
        session: SessionId,
        request: u64,
        change: impl FnOnce(&mut PeersCall),
    ) {
        let number = self.session_named(session);
        let call = number.and_then(|number| self.take_numbered(request, number));
        let Some((token, mut call)) = call else { return };
        if let Work::Peers(work) = &mut call.work {
            change(work);
            if work.is_over() {
                return self.end_peers(token, call);
            }
        }
        self.put_back(token, call);
    }

    /// Some will not answer: the others' answers are waited for, unless it has taken too long.
    pub(super) fn peers_lost(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        lost: Option<Life>,
    ) {
        probe!(ctx, "client: question to peers without all answers");
        let Work::Peers(work) = &mut call.work else { panic!("{token:?} asks peers") };
        match lost {
            Some(lost) => work.asking.retain(|life| !life.ends_with(lost)),
            None => {
                work.incomplete = true;
                work.asking.clear();
                work.awaited.clear();
            }
        }
        if work.is_over() {
            return self.end_peers(token, call);
        }
        self.put_back(token, call);
    }

    fn end_peers(&mut self, token: Token, call: Call) {
        let Work::Peers(work) = call.work else { panic!("{token:?} asks peers") };
        let answers = work.answers.into_values().collect();
        let answered = PeerAnswers { answers, incomplete: work.incomplete };
        self.finish(token, call.session, ClientResult::PeersAnswered(answered));
    }
}
