//! Two ends of a lane, and connections that end wherever they like.

use std::collections::VecDeque;

use codec::Writer;
use model::{ActorKind, Address, ControlIndex, Incarnation, NodeId, WorkerId};
use stdx::Prng;
use wire::{LegId, Message, PROTOCOL_VERSION, ParticipantMessage};

use super::*;

/// One end: its lane, what is on its way to it, and what it has been told.
struct End {
    lane: Lane,
    link: Link,
    wire: VecDeque<u8>,
    said: u32,
    heard: Vec<u32>,
}

/// Both ends of a lane and the connection between them.
struct Pair {
    ends: [End; 2],
    /// Whether each end uses the present connection.
    attached: [bool; 2],
}

fn envelope(from: u16, to: u16, attempt: u32) -> Envelope {
    let at =
        |node| Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Participant };
    let transaction = Default::default();
    let message = ParticipantMessage::Complete { transaction, leg: LegId(0), attempt };
    Envelope {
        from: at(from),
        incarnation: Incarnation(u64::from(from)),
        to: at(to),
        reached: ControlIndex(7),
        message: Box::new(Message::Participant(message)),
    }
}

impl End {
    fn new(node: u16, peer: u16) -> Self {
        let (from, incarnation) = (NodeId(peer), Incarnation(u64::from(peer)));
        let link = Link { from, incarnation, to: NodeId(node), workers: 1 };
        let lane = Lane::new(PROTOCOL_VERSION);
        Self { lane, link, wire: VecDeque::new(), said: 0, heard: Vec::new() }
    }

    fn say(&mut self, count: u32) {
        for _ in 0..count {
            assert!(self.lane.push(&envelope(self.link.to.0, self.link.from.0, self.said)));
            self.said += 1;
        }
    }

    /// Some bytes arrive.
    fn take(&mut self, count: usize) -> Result<(), Broken> {
        let bytes: Vec<u8> = self.wire.drain(..count.min(self.wire.len())).collect();
        let mut messages = Vec::new();
        let taken = self.lane.take(&bytes, &self.link, &mut messages);
        for envelope in messages {
            match *envelope.message {
                Message::Participant(ParticipantMessage::Complete { attempt, .. }) => {
                    self.heard.push(attempt);
                }
                other => panic!("{other:?}"),
            }
        }
        taken
    }
}

impl Pair {
    fn new() -> Self {
        Self { ends: [End::new(1, 2), End::new(2, 1)], attached: [true; 2] }
    }

    /// The system takes some of what one end has to send. Whatever an end says into a connection
    /// that the other one does not use is lost.
    fn send(&mut self, from: usize, most: usize) {
        if !self.attached[from] {
            return;
        }
        let bytes = self.ends[from].lane.unsent();
        let bytes = bytes[..most.min(bytes.len())].to_vec();
        self.ends[from].lane.note_sent(bytes.len());
        if self.attached[1 - from] {
            self.ends[1 - from].wire.extend(bytes);
        }
    }

    /// The connection ends wherever it is.
    fn reset(&mut self) {
        self.ends.iter_mut().for_each(|end| end.wire.clear());
        self.attached = [false; 2];
    }

    /// Another connection; these ends come to know of it.
    fn renew(&mut self, known: [bool; 2]) {
        self.reset();
        let received = [0, 1].map(|at| self.ends[at].lane.detach());
        for at in (0..2).filter(|at| known[*at]) {
            self.ends[at].lane.attach(received[1 - at]).unwrap();
        }
        self.attached = known;
    }

    /// Everything arrives that can.
    fn settle(&mut self) {
        for _ in 0..4 {
            for at in 0..2 {
                self.ends[at].lane.push_empty();
                self.send(at, usize::MAX);
                self.ends[1 - at].take(usize::MAX).unwrap();
            }
        }
    }

    fn check(&self) {
        for end in &self.ends {
            let lane = &end.lane;
            let heard = end.heard.iter().copied();
            assert!(heard.eq(0..end.heard.len() as u32), "each once and in order");
            let kept = lane.out.bytes().len();
            assert!(kept <= 2 * lane.unconfirmed() + RECLAIM, "{kept} {}", lane.unconfirmed());
            assert!(lane.confirmed <= lane.sent && lane.sent <= kept);
        }
    }

    fn check_complete(&mut self) {
        self.settle();
        self.check();
        for at in 0..2 {
            assert_eq!(self.ends[at].heard.len(), self.ends[1 - at].said as usize);
            // Only the last word of one end, that it has heard the other, may be open.
            assert!(self.ends[at].lane.unconfirmed() <= HEADER);
            assert_eq!((self.ends[at].lane.owed(), self.ends[at].lane.pending()), (0, 0));
        }
    }
}

#[test]
fn whatever_connections_end_when_each_message_arrives_once_and_in_order() {
    let mut renewals = 0;
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let mut pair = Pair::new();
        if prng.percent(30) {
            pair.ends.iter_mut().for_each(|end| end.lane.pack());
        }
        // Few bytes at a time end connections in the middle of heads of frames.
        let most = *prng.pick(&[3, 40, 5_000, 100_000]);
        for _ in 0..prng.between(50, 400) {
            let at = prng.index(2);
            match prng.below(20) {
                0..6 => pair.ends[at].say(prng.between(1, 60) as u32),
                6..12 => pair.send(at, prng.index(most) + 1),
                12..17 => pair.ends[at].take(prng.index(most) + 1).unwrap(),
                17 => pair.ends[at].lane.push_empty(),
                18 => pair.reset(),
                _ => {
                    // It may come to nothing, before or after either end has used it.
                    let known =
                        *prng.pick(&[[true, true], [true, true], [true, false], [false, true]]);
                    pair.renew(known);
                    renewals += 1;
                }
            }
            pair.check();
        }
        pair.renew([true, true]);
        pair.check_complete();
    }
    assert!(renewals > 2_000);
}

#[test]
fn every_moment_at_which_a_connection_may_end_is_survived() {
    // Two frames one way and one the other way, of which any beginning arrives.
    let total = |lane: &mut Lane| lane.unsent().len();
    let build = || {
        let mut pair = Pair::new();
        pair.ends[0].say(3);
        total(&mut pair.ends[0].lane);
        pair.ends[0].say(2);
        pair.ends[1].say(1);
        pair
    };
    let mut first = build();
    let (ours, theirs) = (total(&mut first.ends[0].lane), total(&mut first.ends[1].lane));
    for there in 0..=ours {
        for back in 0..=theirs {
            let mut pair = build();
            pair.send(0, usize::MAX);
            pair.send(1, usize::MAX);
            pair.ends[1].take(there).unwrap();
            pair.ends[0].take(back).unwrap();
            // What is said in between waits.
            pair.reset();
            pair.ends[0].say(1);
            pair.ends[1].say(2);
            pair.renew([true, true]);
            pair.check_complete();
        }
    }
}

#[test]
fn a_lane_that_repeats_or_leaves_out_a_frame_is_noticed() {
    let part_way = || {
        let mut pair = Pair::new();
        for _ in 0..3 {
            pair.ends[0].say(2);
            pair.send(0, usize::MAX);
        }
        let frame = pair.ends[1].wire.len() / 3;
        pair.ends[1].take(frame).unwrap();
        assert_eq!(pair.ends[1].heard, [0, 1]);
        (pair, frame as u64)
    };
    for wrong in [-1i64, 1] {
        let (mut pair, frame) = part_way();
        pair.reset();
        let there = pair.ends[1].lane.detach();
        let back = pair.ends[0].lane.detach();
        let told = there.wrapping_add_signed(wrong * frame as i64);
        pair.ends[0].lane.attach(told).unwrap();
        pair.ends[1].lane.attach(back).unwrap();
        pair.attached = [true; 2];
        pair.send(0, usize::MAX);
        assert_eq!(pair.ends[1].take(usize::MAX), Err(Broken::Corrupt), "{wrong}");
        assert_eq!(pair.ends[1].heard, [0, 1], "nothing of it is handed out");
    }
    // Positions that cannot be.
    let (mut pair, frame) = part_way();
    assert_eq!(pair.ends[0].lane.attach(3 * frame + 1), Err(Broken::Corrupt), "never sent");
    pair.renew([true, true]);
    pair.settle();
    assert_eq!(pair.ends[0].lane.attach(frame), Err(Broken::Corrupt), "confirmed before");
}

#[test]
fn what_is_confirmed_gives_its_room_back() {
    let mut pair = Pair::new();
    let mut most = 0;
    for _ in 0..2_000 {
        pair.ends[0].say(20);
        pair.send(0, usize::MAX);
        // The peer is always a frame behind.
        let behind = pair.ends[1].wire.len().saturating_sub(600);
        pair.ends[1].take(behind).unwrap();
        pair.ends[1].lane.push_empty();
        pair.send(1, usize::MAX);
        pair.ends[0].take(usize::MAX).unwrap();
        most = most.max(pair.ends[0].lane.out.bytes().len());
    }
    assert!(most < 3 * RECLAIM, "{most}");
    // One that says nothing for long is told to keep nothing for it.
    let mut writer = Writer::new(PROTOCOL_VERSION);
    envelope(1, 2, 0).encode(&mut writer).unwrap();
    let count = OWED_MAX / writer.bytes().len() + 1;
    pair.settle();
    pair.ends[0].say(count as u32);
    pair.send(0, usize::MAX);
    assert!(!pair.ends[1].lane.owes_much());
    pair.ends[1].take(usize::MAX).unwrap();
    assert!(pair.ends[1].lane.owes_much());
    pair.check_complete();
}
