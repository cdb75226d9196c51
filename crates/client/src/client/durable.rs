//! Waiting until what was committed is on the disks of all complete replicas.
//!
//! Any coordinator may be asked. A slow disk is waited for without end: only a lost coordinator, or
//! one that says nothing for long, has another one asked.

use actor::{Ctx, probe};
use model::{Address, Epoch, ErrorClass, ErrorCode, Refusal, SessionId};
use wire::{ClientRequest, Message};

use super::Client;
use super::call::{Call, Work};
use super::route::Life;
use crate::event::{ClientResult, SessionNumber, Token};

/// A wait for an epoch, or a look at how far the disks are.
#[derive(Debug)]
pub(super) struct DurableCall {
    epoch: Epoch,
    peek: bool,
    asked: Option<Life>,
}

impl DurableCall {
    /// Who was asked.
    pub(super) fn asked(&self) -> Option<Life> {
        self.asked
    }
}

impl Client {
    /// Waits until everything committed up to `epoch` is on the disks of all complete replicas, or
    /// with `peek` asks how far they are. Ends in `Durable` with an epoch up to which that holds,
    /// or in `Failed`: with `NoDisk` where the cluster keeps nothing on disk, with `OutcomeUnknown`
    /// when the epoch was lost in a restart of the cluster.
    pub fn await_durable(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        epoch: Epoch,
        peek: bool,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let work = Work::Durable(DurableCall { epoch, peek, asked: None });
            self.send_durable(ctx, token, Call::new(session, work));
        }
        self.arm(ctx);
        token
    }

    /// Sends the request to some coordinator.
    pub(super) fn send_durable(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = self.session_mut(call.session).id;
        let coordinator = match self.choose_coordinator(ctx, None) {
            Ok(coordinator) if self.ready(ctx) => coordinator,
            _ => return self.durable_lost(ctx, token, call),
        };
        let request = call.request(token);
        let Work::Durable(work) = &mut call.work else { panic!("{token:?} awaits an epoch") };
        work.asked = Some(Life::of(&coordinator));
        let (epoch, peek) = (work.epoch, work.peek);
        let message = ClientRequest::AwaitDurable { session, request, epoch, peek };
        ctx.send(coordinator.address, Message::Request(message));
        self.put_sent(ctx, token, call);
    }

    /// Takes the coordinator's answer.
    pub(super) fn durable_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
        result: Result<Epoch, Refusal>,
    ) {
        let number = self.session_named(session);
        let call = number.and_then(|number| self.take_numbered(request, number));
        let Some((token, call)) = call else { return };
        let Work::Durable(work) = &call.work else { panic!("{token:?} awaits an epoch") };
        let epoch = work.epoch;
        match result {
            // Epochs of the cluster's present generation are larger than any that were lost.
            Ok(_) if ctx.cluster().restorable(epoch) < epoch => {
                probe!(ctx, "client: awaited epoch was lost in a restart of the cluster");
                let detail = format!("{epoch:?} was lost in a restart of the cluster");
                let refusal = Refusal::new(ErrorCode::OutcomeUnknown, detail);
                self.finish(token, call.session, ClientResult::Failed(refusal));
            }
            Ok(durable) => self.finish(token, call.session, ClientResult::Durable(durable)),
            Err(refusal) if refusal.code.class() == ErrorClass::Temporary => {
                self.avoid_refuser(ctx, from, &refusal);
                self.durable_lost(ctx, token, call);
            }
            Err(refusal) => self.finish(token, call.session, ClientResult::Failed(refusal)),
        }
    }

    /// The answer will not come: asks another coordinator. What waits does so as long as it takes,
    /// a look gives up when nobody can be asked.
    pub(super) fn durable_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let may_retry = self.may_retry(ctx, &call);
        let Work::Durable(work) = &mut call.work else { panic!("{token:?} awaits an epoch") };
        work.asked = None;
        if !work.peek || may_retry {
            return self.put_retry(ctx, token, call);
        }
        let refusal = Refusal::new(ErrorCode::NotServing, "no coordinator knows what is on disk");
        self.finish(token, call.session, ClientResult::Failed(refusal));
    }
}
