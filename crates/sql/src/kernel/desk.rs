//! From a task's asks to requests of the client library.
//!
//! # Owns
//! [`Desk`], a connection's sessions by lane and its scans by ticket; [`Passed`], what became of an
//! ask.
//! # Not here
//! Asks and their answers (`kernel`), who is woken for them (`node`).

use std::collections::BTreeMap;

use client::{Client, ClientResult, SessionNumber, Token};
use stdx::Duration;

use super::{Ask, Lane, QueuedAsk, Ticket};

/// What a connection has asked the client for: tickets by token, and its sessions.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// By the places of lanes, as far as they were used.
    sessions: Vec<Option<SessionNumber>>,
    tokens: BTreeMap<Ticket, Token>,
}

impl Desk {
    /// The sessions in use, to be closed with the connection.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionNumber> + '_ {
        self.sessions.iter().flatten().copied()
    }

    /// The session of the user's transaction, if it has asked for something.
    pub(crate) fn user_session(&self) -> Option<SessionNumber> {
        self.sessions.get(Lane::User.place()).copied().flatten()
    }

    /// Passes an ask on; the user's transaction waits `lock_wait` for each lock. Gives the token
    /// under which the answer comes, if one does; a refusal to open a session, or a pause, is for
    /// the caller to answer.
    pub(crate) fn pass(
        &mut self,
        ctx: &mut actor::Ctx<'_>,
        client: &mut Client,
        QueuedAsk { ticket, lane, ask }: QueuedAsk,
        lock_wait: Option<Duration>,
    ) -> Passed {
        if matches!(ask, Ask::Abandon) {
            let session = self.sessions.get_mut(lane.place()).and_then(Option::take);
            return session.map_or(Passed::Done, Passed::Abandoned);
        }
        if self.sessions.len() <= lane.place() {
            self.sessions.resize(lane.place() + 1, None);
        }
        let slot = &mut self.sessions[lane.place()];
        let session = match *slot {
            Some(session) => session,
            None => match client.open_session(ctx) {
                Ok(session) => *slot.insert(session),
                Err(refusal) => return Passed::Answered(ClientResult::Failed(refusal)),
            },
        };
        if let Some(longest) = lock_wait.filter(|_| lane == Lane::User) {
            client.limit_lock_waits(session, longest);
        }
        let token = match ask {
            Ask::Sleep(span) => return Passed::Sleeps(span),
            Ask::Abandon => unreachable!("matched above"),
            Ask::ScanNext(scan) => {
                if let Some(token) = self.tokens.get(&scan) {
                    client.scan_next(ctx, *token);
                }
                return Passed::Done;
            }
            Ask::ScanClose(scan) => {
                let Some(token) = self.tokens.remove(&scan) else { return Passed::Done };
                client.scan_close(ctx, token);
                return Passed::Closed(token);
            }
            Ask::CloseSnapshot(epoch) => {
                client.close_snapshot(ctx, session, epoch);
                return Passed::Done;
            }
            Ask::Cancel => {
                client.cancel(ctx, session);
                return Passed::Done;
            }
            Ask::Execute { operations, commit } => client.execute(ctx, session, operations, commit),
            Ask::Commit => client.commit(ctx, session),
            Ask::Abort => client.abort(ctx, session),
            Ask::RollbackTo(savepoint) => client.rollback_to(ctx, session, savepoint),
            Ask::Read { reads, snapshot } => client.read(ctx, session, reads, snapshot),
            Ask::OpenSnapshot => client.open_snapshot(ctx, session),
            Ask::AwaitDurable { epoch, peek } => client.await_durable(ctx, session, epoch, peek),
            Ask::Schema(change) => client.change_schema(ctx, session, change),
            Ask::Stream(fetches) => client.fetch_stream(ctx, session, fetches),
            Ask::AcknowledgeStream(stream, through) => {
                client.acknowledge_stream(ctx, stream, through);
                return Passed::Done;
            }
            Ask::Inspect { what, node } => client.inspect(ctx, session, what, node),
            Ask::Peers { to, question } => client.ask_peers(ctx, session, to, question),
            Ask::Scan(spec) => {
                let token = client.scan(ctx, session, *spec);
                self.tokens.insert(ticket, token);
                token
            }
        };
        Passed::Asked(token)
    }

    /// A scan has ended: its ticket names nothing any more.
    pub(crate) fn ended(&mut self, ticket: Ticket) {
        self.tokens.remove(&ticket);
    }
}

/// What became of an ask.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The client will answer under this token.
    Asked(Token),
    /// It needs no answer.
    Done,
    /// Nothing more comes under this token.
    Closed(Token),
    /// It is answered already.
    Answered(ClientResult),
    /// It is to be answered after this pause.
    Sleeps(Duration),
    /// This session is to be closed; its answers will not come.
    Abandoned(SessionNumber),
}
