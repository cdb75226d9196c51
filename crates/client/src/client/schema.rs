//! Schema changes: asked of a data node until their end is known.
//!
//! A repeated request is recognised by the session's count of changes, so it is safe to ask again
//! anywhere. The new definition is in use here when the request ends. Creating an index ends when
//! the index is online, or gone again: two rows had the same key, or somebody has dropped it.

use std::sync::Arc;

use actor::{Ctx, probe};
use model::{Address, ErrorCode, IndexState, Refusal, SchemaChange, SessionId, Table, TableId};
use wire::{ControlMessage, Message};

use super::Client;
use super::call::{Call, Wake, Work};
use super::follow::control_of;
use super::route::{Life, life_of, says_not_serving};
use crate::event::{ClientResult, SessionNumber, Token};

/// A schema change under way.
#[derive(Debug)]
pub(super) struct SchemaCall {
    number: u64,
    change: SchemaChange,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Sent to this life, or about to be sent.
    Asking(Option<Life>),
    /// Done; the state that shows it is on its way here.
    Arriving(TableId),
    /// An index is being filled.
    Building(TableId),
}

impl SchemaCall {
    /// Who was asked.
    pub(super) fn asked(&self) -> Option<Life> {
        match self.stage {
            Stage::Asking(life) => life,
            Stage::Arriving(_) | Stage::Building(_) => None,
        }
    }
}

fn work(call: &mut Call) -> &mut SchemaCall {
    match &mut call.work {
        Work::Schema(work) => work,
        other => panic!("a schema change, not {other:?}"),
    }
}

/// Why a change is refused that came with a protocol version, and what helps.
fn older(since: u16, known: u16) -> String {
    format!(
        "it needs protocol {since}, and all nodes speak {known} only: `nines ctl version` shows \
         which version each runs; update the older ones and run it again"
    )
}

impl Client {
    /// Changes the catalog; a session has one change under way at a time. Ends in
    /// `SchemaChanged` or `Failed`; `Failed` with `OutcomeUnknown` when no data node could say, and
    /// with `OlderNode`, before anything is done, when a member does not know such changes
    /// ([`Client::protocol`]).
    ///
    /// `CreateUniqueIndex` ends when the index is online; `UniqueViolation` if it cannot be.
    pub fn change_schema(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        change: SchemaChange,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if !admitted {
            return token;
        }
        let (since, known) = (change.since(), self.follower.protocol());
        let record = self.session_mut(session);
        if since > known {
            probe!(ctx, "client: schema change that an older member does not know");
            let refusal = Refusal::new(ErrorCode::OlderNode, older(since, known));
            self.emit(session, token, ClientResult::Failed(refusal));
        } else if record.schema_call.is_some() {
            let refusal = Refusal::new(ErrorCode::BadRequest, "a schema change is under way");
            self.emit(session, token, ClientResult::Failed(refusal));
        } else {
            record.schema_changes += 1;
            record.schema_call = Some(token);
            let number = record.schema_changes;
            let work = SchemaCall { number, change, stage: Stage::Asking(None) };
            self.send_schema(ctx, token, Call::new(session, Work::Schema(work)));
        }
        self.arm(ctx);
        token
    }

    /// Sends the request, or goes on with what was waited for long enough.
    pub(super) fn send_schema(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = self.session_mut(call.session).id;
        let schema = work(&mut call);
        if let Stage::Arriving(table) = schema.stage {
            // The state keeps the answers to the last sessions only: ours has been pushed out.
            return self.schema_arrived(ctx, token, call, table);
        }
        let Some(life) = self.choose_control(ctx) else {
            return self.schema_lost(ctx, token, call);
        };
        schema.stage = Stage::Asking(Some(life));
        let (number, change) = (schema.number, schema.change.clone());
        let message = ControlMessage::Schema { session, number, change };
        ctx.send(control_of(life.node), Message::Control(Box::new(message)));
        self.put_sent(ctx, token, call);
    }

    /// The data node to ask: the followed one, else any.
    fn choose_control(&self, ctx: &mut Ctx<'_>) -> Option<Life> {
        if !self.ready(ctx) {
            return None;
        }
        let followed = self.follower.followed();
        let followed = followed.and_then(|node| life_of(ctx.cluster(), node));
        if let Some(life) = followed
            && self.avoided.welcome(life, ctx.now())
        {
            return Some(life);
        }
        self.choose_coordinator(ctx, None).ok().map(|coordinator| Life::of(&coordinator))
    }

    /// Takes a control actor's answer.
    pub(super) fn schema_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        number: u64,
        result: Result<TableId, ErrorCode>,
    ) {
        let Some(session) = self.session_named(session) else { return };
        let Some(token) = self.session_mut(session).schema_call else { return };
        let mut call = self.take(token).expect("the session's change is under way");
        let schema = work(&mut call);
        if schema.number != number || !matches!(schema.stage, Stage::Asking(_)) {
            return self.put_back(token, call);
        }
        match result {
            Ok(table) => self.schema_answered(ctx, token, call, table),
            Err(code) => {
                let refusal = Refusal::from(code);
                self.avoid_refuser(ctx, from, &refusal);
                if says_not_serving(&refusal) {
                    return self.schema_lost(ctx, token, call);
                }
                self.finish(token, session, ClientResult::Failed(refusal));
            }
        }
    }

    /// The change is made; waits for the state that shows it.
    fn schema_answered(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call, table: TableId) {
        let session = self.session_mut(call.session).id;
        let schema = work(&mut call);
        let shown = ctx.cluster().schema_answers.get(&session);
        if shown.is_some_and(|(number, _)| *number >= schema.number) {
            return self.schema_arrived(ctx, token, call, table);
        }
        probe!(ctx, "client: schema change known before its state");
        schema.stage = Stage::Arriving(table);
        let due = ctx.now() + ctx.config().request_timeout;
        self.put_until(token, call, Wake::Retry, due);
    }

    /// The state that shows the change is here.
    fn schema_arrived(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call, id: TableId) {
        let session = call.session;
        let schema = work(&mut call);
        let table = ctx.cluster().tables.get(&id);
        let (index, name, gone) = match &schema.change {
            SchemaChange::CreateUniqueIndex { name, .. } => {
                let state_of = |table: &Arc<Table>| {
                    let index = table.unique_indexes.iter().find(|index| index.name == *name);
                    index.map(|index| index.state)
                };
                (table.map(state_of), name, ErrorCode::UniqueViolation)
            }
            SchemaChange::CreateOrderedIndex { name, .. } => {
                let state_of = |table: &Arc<Table>| {
                    let index = table.ordered_indexes.iter().find(|index| index.name == *name);
                    index.map(|index| index.state)
                };
                (table.map(state_of), name, ErrorCode::UnknownIndex)
            }
            _ => return self.finish(token, session, ClientResult::SchemaChanged(id)),
        };
        let result = match index {
            None => ClientResult::Failed(Refusal::new(ErrorCode::UnknownTable, id.to_string())),
            Some(None) => ClientResult::Failed(Refusal::new(gone, name.clone())),
            Some(Some(IndexState::Building)) => {
                schema.stage = Stage::Building(id);
                return self.put(token, call);
            }
            Some(Some(IndexState::Online)) => ClientResult::SchemaChanged(id),
        };
        self.finish(token, session, result);
    }

    /// Looks at schema changes under way by a new state.
    pub(super) fn schema_changed(&mut self, ctx: &mut Ctx<'_>) {
        let waiting: Vec<Token> =
            self.sessions.iter().filter_map(|session| session.schema_call).collect();
        for token in waiting {
            let mut call = self.take(token).expect("the session's change is under way");
            let session = self.session_mut(call.session).id;
            let schema = work(&mut call);
            let answer = ctx.cluster().schema_answers.get(&session);
            let answer = answer.filter(|(number, _)| *number == schema.number);
            match (schema.stage, answer) {
                (Stage::Building(table), _) => self.schema_arrived(ctx, token, call, table),
                (_, Some((_, Ok(table)))) => {
                    let table = *table;
                    self.schema_arrived(ctx, token, call, table);
                }
                (_, Some((_, Err(code)))) => {
                    let refusal = Refusal::from(*code);
                    self.finish(token, call.session, ClientResult::Failed(refusal));
                }
                (_, None) => self.put_back(token, call),
            }
        }
    }

    /// The answer will not come: asks again, the number says that it is the same request.
    pub(super) fn schema_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let schema = work(&mut call);
        schema.stage = Stage::Asking(None);
        if self.may_retry(ctx, &call) {
            probe!(ctx, "client: schema change asked for again");
            return self.put_retry(ctx, token, call);
        }
        let refusal = Refusal::from(ErrorCode::OutcomeUnknown);
        self.finish(token, call.session, ClientResult::Failed(refusal));
    }
}
