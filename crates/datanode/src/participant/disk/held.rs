//! Back-pressure: changes that wait until the disk has caught up.
//!
//! # Guarantees
//! Messages about a leg keep their order. What waits is not known to the leg: whoever ends the leg
//! drops it.

use std::collections::VecDeque;

use actor::{Ctx, probe};
use model::{Address, Incarnation, NodeId, PartitionId, TransactionId};
use stdx::Few;
use wire::{Besides, LegId, Message, ParticipantMessage};

use crate::participant::Participant;
use crate::participant::prepare::send_prepared;

/// The name of a leg.
type LegName = (TransactionId, LegId);

/// What waits for the disk.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Sender, message, and the life that coordinates the leg.
    messages: VecDeque<(Address, ParticipantMessage, (NodeId, Incarnation))>,
    /// Copies whose sender is to go on.
    copies: Vec<(Address, PartitionId, u64)>,
}

impl Held {
    fn of_leg(&self, name: LegName) -> Option<(NodeId, Incarnation)> {
        let found = self.messages.iter().find(|(_, message, _)| name_of(message) == Some(name));
        found.map(|(_, _, life)| *life)
    }

    /// Drops what a life has coordinated that is gone.
    pub(super) fn forget_life(&mut self, node: NodeId, incarnation: Incarnation) {
        self.messages.retain(|(_, _, life)| *life != (node, incarnation));
    }
}

impl Participant {
    /// Gives a message back that may be handled now, or keeps it until the disk has caught up.
    pub(in crate::participant) fn hold_back(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        message: ParticipantMessage,
    ) -> Option<ParticipantMessage> {
        let Some(disk) = &mut self.disk else { return Some(message) };
        let limit = ctx.config().redo_buffer;
        // A full disk refuses; what it refuses does not wait.
        let behind = |log: &super::Redo| log.waiting() > limit && !log.is_full();
        let behind = disk.log.as_ref().is_some_and(behind);
        if disk.held.messages.is_empty() && !behind {
            return Some(message);
        }
        let Some(name) = name_of(&message) else { return Some(message) };
        let life = match &message {
            ParticipantMessage::Prepare { .. } | ParticipantMessage::PrepareAndCommit { .. } => {
                let member = ctx.cluster().members.get(&from.node)?;
                Some((from.node, member.incarnation))
            }
            ParticipantMessage::Replicate { coordinator, .. }
            | ParticipantMessage::ReplicateAndCommit { coordinator, .. } => {
                Some((coordinator.address.node, coordinator.incarnation))
            }
            ParticipantMessage::Abort { .. } => {
                disk.held.messages.retain(|(_, held, _)| name_of(held) != Some(name));
                None
            }
            _ => disk.held.of_leg(name),
        };
        match life {
            Some(life) => {
                probe!(ctx, "disk: change waits for the disk");
                let message = without_commit(ctx, from, message);
                disk.held.messages.push_back((from, message, life));
                None
            }
            None => Some(message),
        }
    }

    /// Whether more of the log waits to be written than may, and the disk can take it. What ends a
    /// large leg is written to the log, all of it: it waits too, so that the memory of the log is
    /// bounded whatever the size of a transaction.
    pub(in crate::participant) fn log_is_behind(&self, ctx: &Ctx<'_>) -> bool {
        let log = self.disk.as_ref().and_then(|disk| disk.log.as_ref());
        log.is_some_and(|log| log.waiting() > ctx.config().redo_buffer && !log.is_full())
    }

    /// Lets the sender of a copy go on, at once or when the disk has caught up.
    pub(in crate::participant) fn acknowledge_copy(
        &mut self,
        ctx: &mut Ctx<'_>,
        to: Address,
        partition: PartitionId,
        copy: u64,
    ) {
        if let Some(disk) = &mut self.disk
            && disk.log.as_ref().is_some_and(|log| log.waiting() > ctx.config().redo_buffer)
        {
            probe!(ctx, "disk: copy waits for the disk");
            return disk.held.copies.push((to, partition, copy));
        }
        let ack = ParticipantMessage::CopyAck { partition, copy };
        ctx.send(to, Message::Participant(ack));
    }

    /// Goes on with what has waited, as far as the disk has caught up.
    pub(super) fn release_held(&mut self, ctx: &mut Ctx<'_>) {
        let limit = ctx.config().redo_buffer;
        let disk = self.disk.as_mut().expect("a worker with a disk");
        if disk.log.as_ref().is_none_or(|log| log.waiting() > limit && !log.is_full()) {
            return;
        }
        self.release_endings(ctx);
        let disk = self.disk.as_mut().expect("a worker with a disk");
        for (to, partition, copy) in std::mem::take(&mut disk.held.copies) {
            self.acknowledge_copy(ctx, to, partition, copy);
        }
        let mut released = false;
        loop {
            let disk = self.disk.as_mut().expect("a worker with a disk");
            // What is staged now is logged later, when it commits.
            let next = disk.held.messages.pop_front();
            let Some((from, message, _)) = next else { break };
            released = true;
            self.handle_now(ctx, from, message);
        }
        if released {
            self.end_staging(ctx);
        }
    }

    /// Drops what a life has coordinated that is gone.
    pub(in crate::participant) fn drop_held(&mut self, node: NodeId, incarnation: Incarnation) {
        if let Some(disk) = &mut self.disk {
            disk.held.forget_life(node, incarnation);
        }
    }
}

/// An order to prepare and commit without the commit, whose coordinator is told: no epoch is to
/// wait for this disk. What comes from the primary is left as it is.
fn without_commit(
    ctx: &mut Ctx<'_>,
    from: Address,
    message: ParticipantMessage,
) -> ParticipantMessage {
    match message {
        ParticipantMessage::PrepareAndCommit {
            transaction,
            leg,
            chain,
            operations,
            lock_wait,
            epoch: _,
        } => {
            send_prepared(ctx, from, (transaction, leg), Few::new());
            let besides = Besides::Nothing;
            ParticipantMessage::Prepare { transaction, leg, chain, operations, lock_wait, besides }
        }
        other => other,
    }
}

/// The leg that a message is about, if its order with others of the leg matters here.
fn name_of(message: &ParticipantMessage) -> Option<LegName> {
    match message {
        ParticipantMessage::Prepare { transaction, leg, .. }
        | ParticipantMessage::PrepareAndCommit { transaction, leg, .. }
        | ParticipantMessage::Replicate { transaction, leg, .. }
        | ParticipantMessage::ReplicateAndCommit { transaction, leg, .. }
        | ParticipantMessage::CommitIfStaged { transaction, leg, .. }
        | ParticipantMessage::Rollback { transaction, leg, .. }
        | ParticipantMessage::Abort { transaction, leg, .. } => Some((*transaction, *leg)),
        _ => None,
    }
}
