//! Snapshots: opened at a coordinator, which holds them for the session until closed.

use actor::{Ctx, probe};
use model::{Address, Epoch, ErrorClass, ErrorCode, Refusal, SessionId};
use wire::{ClientRequest, CoordinatorRef, Message};

use super::Client;
use super::call::{Call, Work};
use super::route::Life;
use crate::event::{ClientResult, SessionNumber, Token};

/// A snapshot being opened.
#[derive(Debug)]
pub(super) struct SnapshotCall {
    asked: Option<CoordinatorRef>,
}

impl SnapshotCall {
    /// Who was asked.
    pub(super) fn asked(&self) -> Option<Life> {
        self.asked.as_ref().map(Life::of)
    }
}

impl Client {
    /// Opens a snapshot of all that is committed when the request arrives. Ends in
    /// `SnapshotOpened` or `Failed`. A snapshot does not outlive its coordinator: reads in it are
    /// then refused with `SnapshotTooOld`.
    pub fn open_snapshot(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let work = Work::Snapshot(SnapshotCall { asked: None });
            self.send_snapshot(ctx, token, Call::new(session, work));
        }
        self.arm(ctx);
        token
    }

    /// Lets go of a snapshot of the session. No event; an epoch it does not hold is ignored.
    pub fn close_snapshot(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, epoch: Epoch) {
        let Some(id) = self.session_id(session) else { return };
        let held = &mut self.session_mut(session).snapshots;
        if let Some(at) = held.iter().position(|(held, _)| *held == epoch) {
            let (_, holder) = held.swap_remove(at);
            let message = ClientRequest::CloseSnapshot { session: id, epoch };
            ctx.send(holder.address, Message::Request(message));
        }
    }

    /// Sends the request to some coordinator.
    pub(super) fn send_snapshot(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = self.session_mut(call.session).id;
        let coordinator = match self.choose_coordinator(ctx, None) {
            Ok(coordinator) if self.ready(ctx) => coordinator,
            _ => return self.snapshot_lost(ctx, token, call),
        };
        let Work::Snapshot(work) = &mut call.work else { panic!("{token:?} opens a snapshot") };
        work.asked = Some(coordinator);
        let request = call.request(token);
        let message = ClientRequest::OpenSnapshot { session, request };
        ctx.send(coordinator.address, Message::Request(message));
        self.put_sent(ctx, token, call);
    }

    /// Takes the coordinator's answer.
    pub(super) fn snapshot_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
        result: Result<Epoch, Refusal>,
    ) {
        let number = self.session_named(session);
        let call = number.and_then(|number| self.take_numbered(request, number));
        let Some((token, call)) = call else {
            if let Ok(epoch) = result {
                probe!(ctx, "client: snapshot opened that nobody waits for");
                let message = ClientRequest::CloseSnapshot { session, epoch };
                ctx.send(from, Message::Request(message));
            }
            return;
        };
        let Work::Snapshot(work) = &call.work else { panic!("{token:?} opens a snapshot") };
        let (session, asked) = (call.session, work.asked);
        match result {
            Ok(epoch) => {
                let holder = asked.expect("the answer of whoever was asked");
                self.session_mut(session).snapshots.push((epoch, holder));
                self.finish(token, session, ClientResult::SnapshotOpened(epoch));
            }
            Err(refusal) => {
                self.avoid_refuser(ctx, from, &refusal);
                if refusal.code.class() == ErrorClass::Temporary && self.may_retry(ctx, &call) {
                    return self.put_retry(ctx, token, call);
                }
                self.finish(token, session, ClientResult::Failed(refusal));
            }
        }
    }

    /// The answer will not come: asks another coordinator.
    pub(super) fn snapshot_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        if self.may_retry(ctx, &call) {
            let Work::Snapshot(work) = &mut call.work else { panic!("{token:?} opens a snapshot") };
            work.asked = None;
            return self.put_retry(ctx, token, call);
        }
        let refusal = Refusal::new(ErrorCode::NotServing, "no coordinator opened the snapshot");
        self.finish(token, call.session, ClientResult::Failed(refusal));
    }

    /// Snapshots end with the coordinators that held them.
    pub(super) fn snapshots_lost(&mut self, lost: Life) {
        for session in &mut self.sessions {
            session.snapshots.retain(|(_, holder)| !Life::of(holder).ends_with(lost));
        }
    }
}
