//! Who waits on this coordinator for epochs to be on disk.
//!
//! # Owns
//! The newest epoch known to be on the disks of all complete replicas, and the sessions that wait
//! for a later one.
//! # Guarantees
//! No session is told of a durable epoch before this worker's disk says, apart from the log, that
//! it is durable.
//! # Not here
//! When epochs are saved (`epochs`), what is written (`participant`).

use std::collections::BTreeMap;

use actor::Ctx;
use model::{ActorKind, Address, Epoch, ErrorCode, Refusal, SessionId};
use wire::{ClientReply, EpochMessage, Message, ParticipantMessage};

use super::epoch::tell_driver;

/// Durability as one coordinator knows it.
#[derive(Debug, Default)]
pub(super) struct DurableSide {
    /// Everything up to here is durable, as the driver says.
    told: Epoch,
    /// The same, as far as this worker's disk says so too.
    durable: Epoch,
    /// Who waits, by the epoch waited for and the order of asking.
    waiting: BTreeMap<(Epoch, u64), (SessionId, Address, u64)>,
    waiting_count: u64,
}

impl DurableSide {
    /// A session asks for an epoch to be durable, or how far it is.
    pub(super) fn asked(
        &mut self,
        ctx: &mut Ctx<'_>,
        client: Address,
        session: SessionId,
        request: u64,
        epoch: Epoch,
        peek: bool,
    ) {
        if !ctx.has_disk() {
            return answer(ctx, client, session, request, Err(ErrorCode::NoDisk.into()));
        }
        if peek || epoch <= self.durable {
            return answer(ctx, client, session, request, Ok(self.durable));
        }
        let announced = ctx.view().epochs.announced;
        if announced > Epoch(0) && epoch > announced {
            let refusal = Refusal::new(ErrorCode::BadRequest, "nothing is committed in that epoch");
            return answer(ctx, client, session, request, Err(refusal));
        }
        self.waiting_count += 1;
        self.waiting.insert((epoch, self.waiting_count), (session, client, request));
        if epoch <= self.told {
            return self.note(ctx);
        }
        ask_driver(ctx, epoch);
    }

    /// The driver says that everything up to `epoch` is durable.
    pub(super) fn told(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        self.told = self.told.max(epoch);
        if self.waiting.first_key_value().is_some_and(|((first, _), _)| *first <= self.told) {
            self.note(ctx);
        }
    }

    /// Has the worker's disk say so as well.
    fn note(&self, ctx: &mut Ctx<'_>) {
        let participant = Address { actor: ActorKind::Participant, ..ctx.me() };
        let note = ParticipantMessage::Note { epoch: self.told };
        ctx.send(participant, Message::Participant(note));
    }

    /// The disk of this worker says so.
    pub(super) fn noted(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        self.durable = self.durable.max(epoch);
        let later = self.waiting.split_off(&(self.durable.next(), 0));
        for (session, client, request) in std::mem::replace(&mut self.waiting, later).into_values()
        {
            answer(ctx, client, session, request, Ok(self.durable));
        }
    }

    /// Forgets the sessions of a client that is gone.
    pub(super) fn client_gone(&mut self, gone: impl Fn(&SessionId) -> bool) {
        self.waiting.retain(|_, (session, _, _)| !gone(session));
    }

    /// A new driver has not heard of those who wait.
    pub(super) fn driver_changed(&self, ctx: &mut Ctx<'_>) {
        if let Some(((epoch, _), _)) = self.waiting.last_key_value() {
            ask_driver(ctx, *epoch);
        }
    }
}

fn ask_driver(ctx: &mut Ctx<'_>, epoch: Epoch) {
    tell_driver(ctx, EpochMessage::SaveRequest { epoch });
}

fn answer(
    ctx: &mut Ctx<'_>,
    client: Address,
    session: SessionId,
    request: u64,
    result: Result<Epoch, Refusal>,
) {
    let reply = ClientReply::Durable { session, request, result };
    ctx.send(client, Message::Reply(reply));
}
