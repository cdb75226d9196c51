//! Questions about what goes on in the cluster: all workers are asked, and their answers put
//! together.

use std::collections::BTreeSet;

use actor::{Ctx, probe};
use model::{ActorKind, Address, NodeRole, SessionId, Value, WorkerId};
use wire::{InspectMessage, Inspection, Message};

use super::Client;
use super::call::{Call, Wake, Work};
use super::route::{Life, life_of};
use crate::event::{ClientResult, Inspected, SessionNumber, Token};

/// A question under way.
#[derive(Debug)]
pub(super) struct InspectCall {
    what: Inspection,
    /// Who has not answered yet, in which life.
    awaited: BTreeSet<(Life, Address)>,
    answers: Vec<Inspected>,
}

impl InspectCall {
    /// Who has not answered yet.
    pub(super) fn awaited(&self) -> Vec<Life> {
        self.awaited.iter().map(|(life, _)| *life).collect()
    }
}

impl Client {
    /// Asks every worker of the data nodes, or the one that has the replica concerned on `node`.
    /// Ends in `Inspected`, with the answers of those who gave one in time.
    pub fn inspect(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        what: Inspection,
        node: Option<model::NodeId>,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let awaited = addressees(ctx, what, node);
            let work = InspectCall { what, awaited, answers: Vec::new() };
            self.send_questions(ctx, token, Call::new(session, Work::Inspect(work)));
        }
        self.arm(ctx);
        token
    }

    /// Sends the question to all that have not answered.
    pub(super) fn send_questions(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        let Work::Inspect(work) = &call.work else { panic!("{token:?} asks a question") };
        let session = self.session_mut(call.session).id;
        let (what, request) = (work.what, call.request(token));
        for (_, to) in &work.awaited {
            let ask = InspectMessage::Ask { session, request, what };
            ctx.send(*to, Message::Inspect(Box::new(ask)));
        }
        if work.awaited.is_empty() {
            return self.end_inspection(token, call);
        }
        let due = ctx.now() + ctx.config().request_timeout;
        self.put_until(token, call, Wake::Lost, due);
    }

    /// Takes a worker's answer.
    pub(super) fn inspect_answer(
        &mut self,
        from: Address,
        session: SessionId,
        request: u64,
        rows: Vec<Vec<Value>>,
    ) {
        let number = self.session_named(session);
        let call = number.and_then(|number| self.take_numbered(request, number));
        let Some((token, mut call)) = call else { return };
        if let Work::Inspect(work) = &mut call.work {
            let before = work.awaited.len();
            work.awaited.retain(|(_, address)| *address != from);
            if work.awaited.len() < before {
                work.answers.push(Inspected { node: from.node, worker: from.worker, rows });
            }
            if work.awaited.is_empty() {
                return self.end_inspection(token, call);
            }
        }
        self.put_back(token, call);
    }

    /// Some of those asked will not answer: the others' answers are waited for, unless it has taken
    /// too long.
    pub(super) fn inspection_lost(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        lost: Option<Life>,
    ) {
        probe!(ctx, "client: question without all answers");
        let Work::Inspect(work) = &mut call.work else { panic!("{token:?} asks a question") };
        match lost {
            Some(lost) => work.awaited.retain(|(life, _)| !life.ends_with(lost)),
            None => work.awaited.clear(),
        }
        if work.awaited.is_empty() {
            return self.end_inspection(token, call);
        }
        self.put_back(token, call);
    }

    fn end_inspection(&mut self, token: Token, call: Call) {
        let Work::Inspect(mut work) = call.work else { panic!("{token:?} asks a question") };
        work.answers.sort_by_key(|answer| (answer.node, answer.worker));
        self.finish(token, call.session, ClientResult::Inspected(work.answers));
    }
}

/// Whom a question concerns.
fn addressees(
    ctx: &Ctx<'_>,
    what: Inspection,
    node: Option<model::NodeId>,
) -> BTreeSet<(Life, Address)> {
    let cluster = ctx.cluster();
    if let (
        Inspection::Digest { partition, .. } | Inspection::Sample { partition, .. },
        Some(node),
    ) = (what, node)
    {
        if !cluster.tables.contains_key(&partition.table) {
            return BTreeSet::new();
        }
        let life = life_of(cluster, node);
        let to = life.map(|life| (life, cluster.participant(partition, node)));
        return to.into_iter().collect();
    }
    let actor = match what {
        Inspection::Transactions => ActorKind::Coordinator,
        _ => ActorKind::Participant,
    };
    let members = cluster.members.iter().filter(|(_, member)| member.role == NodeRole::Data);
    let of_wanted = members.filter(|(other, _)| node.is_none_or(|node| node == **other));
    of_wanted
        .flat_map(|(node, member)| {
            let life = Life { node: *node, incarnation: member.incarnation };
            let worker = |worker| Address { node: *node, worker: WorkerId(worker), actor };
            (0..member.workers).map(move |at| (life, worker(at)))
        })
        .collect()
}
