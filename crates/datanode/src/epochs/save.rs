//! The driver's part of durability: which epochs are on disk, and when the next one is to be.
//!
//! # Owns
//! The newest epoch that all complete replicas have on their disks; the save under way.
//! # Guarantees
//! 1. `Durable(e)` is sent when every participant of a complete member has answered `Save(e)`, and
//!    every one that is told it is waited for.
//! 2. One save is under way at a time. What commits meanwhile shares the next one.
//! # Failure
//! A member that dies is not waited for. A new driver knows of no durable epoch, and saves anew.
//! # Not here
//! What is written (`participant`), who waits for it (`coordinator`).

use std::collections::BTreeSet;

use actor::{Ctx, fault_point, probe};
use model::{ActorKind, Address, ClusterState, Epoch, MemberStatus, WorkerId};
use stdx::Instant;
use wire::{EpochMessage, Message, ParticipantMessage};

use super::Epochs;

/// What the driver knows of epochs on disk.
#[derive(Debug, Default)]
pub(super) struct Saves {
    /// Everything up to here is durable.
    durable: Epoch,
    /// The newest epoch in which something was committed, as far as told.
    committed: Epoch,
    /// The newest epoch that someone waits for.
    wanted: Epoch,
    /// The save under way, and whom it waits for.
    under_way: Option<(Epoch, BTreeSet<Address>)>,
    /// Participants that have answered a save: later ones wait for them, complete or not.
    savers: BTreeSet<Address>,
    last_begun: Instant,
}

impl Saves {
    /// A coordinator has committed something in this epoch.
    pub(super) fn note_committed(&mut self, epoch: Epoch) {
        self.committed = self.committed.max(epoch);
    }

    /// Whether nothing has been committed in the last epochs before this one, as far as told.
    pub(super) fn is_quiet(&self, current: Epoch) -> bool {
        current.is_after_quiet(self.committed)
    }

    /// Whether something was committed, as far as told, that is not on disk.
    pub(super) fn is_dirty(&self) -> bool {
        self.committed > self.durable
    }

    /// Whether someone waits for an epoch that has not ended.
    pub(super) fn wants_switch(&self, current: Epoch) -> bool {
        self.wanted >= current && self.under_way.is_none()
    }

    /// Forgets participants whose life is over.
    pub(super) fn retain(&mut self, alive: impl Fn(&Address) -> bool) {
        let is_alive = |participant: &Address| alive(&coordinator_of(*participant));
        self.savers.retain(|participant| is_alive(participant));
        if let Some((_, waiting)) = &mut self.under_way {
            waiting.retain(|participant| is_alive(participant));
        }
    }
}

impl Epochs {
    /// Someone waits for an epoch to be durable.
    pub(super) fn save_wanted(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        self.saves.wanted = self.saves.wanted.max(epoch);
        if epoch <= self.saves.durable {
            // Asked before its coordinator had heard; a new one may not have been told at all.
            return self.tell_durable(ctx);
        }
        self.switch_for_waiters(ctx);
        self.try_save(ctx);
    }

    /// Begins a save if one is due.
    pub(super) fn try_save(&mut self, ctx: &mut Ctx<'_>) {
        let saves = &self.saves;
        if !ctx.has_disk() || saves.under_way.is_some() || self.completed <= saves.durable {
            return;
        }
        let due = ctx.now().since(saves.last_begun) >= ctx.config().save_interval;
        let everyone = participants(ctx.cluster(), |status| status != MemberStatus::Joining);
        let newcomer = everyone.iter().any(|participant| !saves.savers.contains(participant));
        let dirty = saves.is_dirty() || newcomer;
        let awaited = saves.wanted > saves.durable && saves.wanted <= self.completed;
        if !(awaited || (due && dirty)) {
            return;
        }
        let epoch = self.completed;
        let complete = participants(ctx.cluster(), |status| {
            matches!(status, MemberStatus::Active | MemberStatus::Leaving)
        });
        let waiting = everyone
            .iter()
            .filter(|participant| {
                complete.contains(*participant) || saves.savers.contains(*participant)
            })
            .copied()
            .collect();
        self.saves.under_way = Some((epoch, waiting));
        self.saves.last_begun = ctx.now();
        for participant in everyone {
            ctx.send(participant, Message::Participant(ParticipantMessage::Save { epoch }));
            fault_point!(ctx, "epochs: after a save is sent");
        }
    }

    /// A participant has an epoch on its disk.
    pub(super) fn saved(&mut self, ctx: &mut Ctx<'_>, from: Address, epoch: Epoch) {
        // Who is late with an older one has not what is durable by now, and will answer again.
        let newcomer = epoch >= self.saves.durable && self.saves.savers.insert(from);
        match &mut self.saves.under_way {
            Some((under_way, waiting)) if *under_way == epoch => {
                waiting.remove(&from);
                self.saved_all(ctx);
            }
            Some((_, waiting)) if newcomer => {
                waiting.insert(from);
            }
            // Nobody else may commit anything, so no other save would tell it.
            None if newcomer => self.tell_durable(ctx),
            _ => {}
        }
    }

    /// When all have answered: the epoch is durable.
    pub(super) fn saved_all(&mut self, ctx: &mut Ctx<'_>) {
        let Some((epoch, waiting)) = &self.saves.under_way else { return };
        if !waiting.is_empty() {
            return;
        }
        let epoch = *epoch;
        // A member that has become complete meanwhile must have it too.
        let complete = participants(ctx.cluster(), |status| {
            matches!(status, MemberStatus::Active | MemberStatus::Leaving)
        });
        if complete.iter().any(|participant| !self.saves.savers.contains(participant)) {
            probe!(ctx, "epochs: save goes on for a member that has become complete");
            let rest = complete.difference(&self.saves.savers).copied().collect();
            self.saves.under_way = Some((epoch, rest));
            return;
        }
        self.saves.under_way = None;
        self.saves.durable = epoch;
        self.tell_durable(ctx);
        self.switch_for_waiters(ctx);
        self.try_save(ctx);
    }

    fn tell_durable(&mut self, ctx: &mut Ctx<'_>) {
        let epoch = self.saves.durable;
        for participant in participants(ctx.cluster(), |_| true) {
            let waited = self.saves.savers.contains(&participant);
            let message = ParticipantMessage::Durable { epoch, waited };
            ctx.send(participant, Message::Participant(message));
        }
        for coordinator in ctx.cluster().coordinators() {
            ctx.send(coordinator, Message::Epoch(EpochMessage::Durable { epoch }));
            fault_point!(ctx, "epochs: after a durable epoch is told");
        }
    }

    /// Ends the current epoch at once if someone waits for it to be durable.
    fn switch_for_waiters(&mut self, ctx: &mut Ctx<'_>) {
        if self.saves.wants_switch(self.current) && self.is_idle() {
            self.begin_switch(ctx);
        }
    }
}

/// The participants of data members with such a status.
fn participants(
    cluster: &ClusterState,
    wanted: impl Fn(MemberStatus) -> bool,
) -> BTreeSet<Address> {
    let members = cluster.data_members().filter(|(_, member)| wanted(member.status));
    members
        .flat_map(|(node, member)| {
            let actor = ActorKind::Participant;
            (0..member.workers).map(move |w| Address { node, worker: WorkerId(w), actor })
        })
        .collect()
}

fn coordinator_of(participant: Address) -> Address {
    Address { actor: ActorKind::Coordinator, ..participant }
}
