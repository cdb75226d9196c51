//! Answers to questions about the open transactions.

use actor::Ctx;
use model::{Address, SessionId, Value};
use wire::inspect::ROWS_MAX;
use wire::{InspectMessage, Inspection, Message};

use super::Coordinator;
use super::state::{Phase, Record};

impl Coordinator {
    /// Answers a client's question.
    pub(super) fn inspect(
        &self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
        what: Inspection,
    ) {
        let rows = match what {
            Inspection::Transactions => {
                self.records.iter().take(ROWS_MAX).map(|record| row(ctx, record)).collect()
            }
            // A participant is asked for these.
            _ => Vec::new(),
        };
        let answer = InspectMessage::Answer { session, request, rows };
        ctx.send(from, Message::Inspect(Box::new(answer)));
    }
}

fn row(ctx: &Ctx<'_>, record: &Record) -> Vec<Value> {
    let state = match record.phase {
        Phase::Open => "open",
        Phase::Deciding => "deciding",
        Phase::Delegated(_) | Phase::Committing(_) => "committing",
        Phase::Completing(_) => "completing",
        Phase::Aborting => "aborting",
    };
    let client = record.client.map_or(Value::Null, |client| Value::UInt(client.node.0.into()));
    vec![
        Value::text(&record.id.to_string()),
        Value::text(state),
        client,
        Value::UInt(record.operation_count.into()),
        Value::UInt(record.waits.len() as u64),
        Value::UInt(ctx.now().since(record.last_active).as_nanos() / 1_000),
    ]
}
