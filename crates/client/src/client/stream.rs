//! Change streams: participants are asked for changes, and told what is not needed any more.
//!
//! Whom to ask for what is said by a [`crate::Subscription`].

use std::collections::BTreeMap;

use actor::{Ctx, probe};
use model::{Address, Epoch, StreamId};
use wire::{Message, StreamFetch, StreamMessage, StreamPiece};

use super::Client;
use super::call::{Call, Wake, Work};
use super::route::{Life, life_of};
use crate::event::{ClientResult, SessionNumber, Token};

/// Questions under way.
#[derive(Debug)]
pub(super) struct StreamCall {
    /// Who has not answered yet, in which life, and what it is asked.
    awaited: BTreeMap<Address, (Life, StreamFetch)>,
    answers: Vec<(Address, StreamPiece)>,
}

impl StreamCall {
    /// Who has not answered yet.
    pub(super) fn awaited(&self) -> Vec<Life> {
        self.awaited.values().map(|(life, _)| *life).collect()
    }
}

impl Client {
    /// Asks participants for changes of a stream. Ends in `Streamed`, with the answers of those who
    /// gave one in time.
    pub fn fetch_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        fetches: Vec<(Address, StreamFetch)>,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let cluster = ctx.cluster();
            let known = fetches.into_iter().filter_map(|(to, fetch)| {
                life_of(cluster, to.node).map(|life| (to, (life, fetch)))
            });
            let work = StreamCall { awaited: known.collect(), answers: Vec::new() };
            self.send_fetches(ctx, token, Call::new(session, Work::Stream(work)));
        }
        self.arm(ctx);
        token
    }

    /// Tells all participants that the changes of all epochs of a stream up to one are not needed
    /// any more. Nobody answers; what was not heard comes with the next one.
    pub fn acknowledge_stream(&mut self, ctx: &mut Ctx<'_>, stream: StreamId, through: Epoch) {
        for to in ctx.cluster().participants() {
            let message = StreamMessage::Acknowledge { stream, through };
            ctx.send(to, Message::Stream(Box::new(message)));
        }
    }

    /// Sends the questions to all that have not answered.
    pub(super) fn send_fetches(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        let Work::Stream(work) = &call.work else { panic!("{token:?} fetches changes") };
        let session = Some(self.session_mut(call.session).id);
        let request = call.request(token);
        for (to, (_, fetch)) in &work.awaited {
            let fetch = StreamMessage::Fetch { session, request, fetch: fetch.clone() };
            ctx.send(*to, Message::Stream(Box::new(fetch)));
        }
        if work.awaited.is_empty() {
            return self.end_fetches(token, call);
        }
        let due = ctx.now() + ctx.config().request_timeout;
        self.put_until(token, call, Wake::Lost, due);
    }

    /// Takes an answer.
    pub(super) fn stream_message(&mut self, from: Address, message: StreamMessage) {
        let StreamMessage::Piece { session: Some(session), request, piece } = message else {
            return;
        };
        let number = self.session_named(session);
        let call = number.and_then(|number| self.take_numbered(request, number));
        let Some((token, mut call)) = call else { return };
        if let Work::Stream(work) = &mut call.work {
            if work.awaited.remove(&from).is_some() {
                work.answers.push((from, piece));
            }
            if work.awaited.is_empty() {
                return self.end_fetches(token, call);
            }
        }
        self.put_back(token, call);
    }

    /// Some of those asked will not answer: the others' answers are waited for, unless it has taken
    /// too long.
    pub(super) fn fetches_lost(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        lost: Option<Life>,
    ) {
        probe!(ctx, "client: changes of a stream asked for in vain");
        let Work::Stream(work) = &mut call.work else { panic!("{token:?} fetches changes") };
        match lost {
            Some(lost) => work.awaited.retain(|_, (life, _)| !life.ends_with(lost)),
            None => work.awaited.clear(),
        }
        if work.awaited.is_empty() {
            return self.end_fetches(token, call);
        }
        self.put_back(token, call);
    }

    fn end_fetches(&mut self, token: Token, call: Call) {
        let Work::Stream(mut work) = call.work else { panic!("{token:?} fetches changes") };
        work.answers.sort_by_key(|(from, _)| *from);
        self.finish(token, call.session, ClientResult::Streamed(work.answers));
    }
}
