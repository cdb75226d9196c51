//! Schema changes: repetition, the state that shows them, unique indexes.

use std::sync::Arc;

use model::{
    Address, ClusterState, ColumnId, Epoch, ErrorCode, IndexId, IndexState, OrderedIndexDef,
    SchemaChange, SessionId, TableId, UniqueIndexDef,
};
use wire::{ControlMessage, Message};

use super::Sim;
use crate::event::ClientResult;
use crate::harness::{BASE, HIDDEN};

struct Asked {
    to: Address,
    session: SessionId,
    number: u64,
}

impl Sim {
    fn asked(&mut self) -> Asked {
        for _ in 0..20 {
            for envelope in self.world.sent() {
                if let Message::Control(message) = *envelope.message
                    && let ControlMessage::Schema { session, number, .. } = *message
                {
                    return Asked { to: envelope.to, session, number };
                }
            }
            self.tick();
        }
        panic!("not asked");
    }

    fn reply(&mut self, asked: &Asked, result: Result<TableId, ErrorCode>) {
        let Asked { to, session, number } = *asked;
        let reply = ControlMessage::SchemaReply { session, number, result };
        self.deliver(to, Message::Control(Box::new(reply)));
    }

    fn show(&mut self, asked: &Asked, change: impl FnOnce(&mut ClusterState)) {
        let Asked { session, number, .. } = *asked;
        self.apply(|state| {
            state.schema_answers.insert(session, (number, Ok(BASE)));
            change(state);
        });
    }
}

fn drop_table() -> SchemaChange {
    SchemaChange::DropTable { table: BASE }
}

fn unique() -> SchemaChange {
    SchemaChange::CreateUniqueIndex { table: BASE, name: "w".into(), columns: vec![2] }
}

/// Puts the index `w` into a state, or removes it.
fn set_index(state: &mut ClusterState, to: Option<IndexState>) {
    let table = state.tables.get_mut(&BASE).expect("the table");
    let mut changed = (**table).clone();
    changed.unique_indexes.retain(|index| index.name != "w");
    if let Some(state) = to {
        changed.unique_indexes.push(UniqueIndexDef {
            id: IndexId(20),
            name: "w".into(),
            columns: vec![ColumnId(2)],
            table: HIDDEN,
            state,
            complete: Epoch(0),
        });
    }
    *table = Arc::new(changed);
}

#[test]
fn a_change_ends_when_its_state_is_here() {
    let mut sim = Sim::new();
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, drop_table());
    let asked = sim.asked();
    sim.reply(&asked, Ok(BASE));
    sim.no_event();
    sim.show(&asked, |_| ());
    assert_eq!(sim.event(), ClientResult::SchemaChanged(BASE));
    // The state can also be first.
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, drop_table());
    let asked = sim.asked();
    assert_eq!(asked.number, 2);
    sim.show(&asked, |_| ());
    assert_eq!(sim.event(), ClientResult::SchemaChanged(BASE));
    sim.reply(&asked, Ok(BASE));
    sim.no_event();
}

#[test]
fn a_lost_request_is_repeated_with_its_number() {
    let mut sim = Sim::new();
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, drop_table());
    let first = sim.asked();
    sim.link_down(first.to.node, true);
    let second = sim.asked();
    assert_ne!(second.to.node, first.to.node);
    assert_eq!(second.number, first.number);
    sim.reply(&second, Err(ErrorCode::NotServing));
    let third = sim.asked();
    assert_eq!(third.number, first.number);
    sim.reply(&third, Err(ErrorCode::UnknownTable));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::UnknownTable);
}

#[test]
fn one_change_at_a_time() {
    let mut sim = Sim::new();
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, drop_table());
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, drop_table());
    assert!(matches!(sim.event(), ClientResult::Failed(_)));
}

#[test]
fn a_unique_index_is_created_when_it_is_online() {
    let mut sim = Sim::new();
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, unique());
    let asked = sim.asked();
    sim.show(&asked, |state| set_index(state, Some(IndexState::Building)));
    sim.no_event();
    sim.reply(&asked, Ok(BASE));
    sim.apply(|_| ());
    sim.no_event();
    sim.apply(|state| set_index(state, Some(IndexState::Online)));
    assert_eq!(sim.event(), ClientResult::SchemaChanged(BASE));
}

#[test]
fn an_ordered_index_is_created_when_it_is_online() {
    let create =
        || SchemaChange::CreateOrderedIndex { table: BASE, name: "w".into(), columns: vec![1] };
    let set = |state: &mut ClusterState, to: Option<IndexState>| {
        let table = Arc::make_mut(state.tables.get_mut(&BASE).expect("the table"));
        table.ordered_indexes.retain(|index| index.name != "w");
        let (id, name, columns) = (IndexId(21), "w".into(), vec![ColumnId(1)]);
        let made = to.map(|state| OrderedIndexDef { id, name, columns, state });
        table.ordered_indexes.extend(made);
    };
    for end in [Some(IndexState::Online), None] {
        let mut sim = Sim::new();
        sim.client.change_schema(&mut sim.world.ctx(), sim.session, create());
        let asked = sim.asked();
        sim.show(&asked, |state| set(state, Some(IndexState::Building)));
        sim.reply(&asked, Ok(BASE));
        sim.no_event();
        sim.apply(|state| set(state, end));
        match sim.event() {
            ClientResult::SchemaChanged(BASE) => assert!(end.is_some()),
            ClientResult::Failed(refusal) => {
                assert_eq!((refusal.code, end), (ErrorCode::UnknownIndex, None));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_unique_index_that_is_gone_again_was_violated() {
    let mut sim = Sim::new();
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, unique());
    let asked = sim.asked();
    sim.show(&asked, |state| set_index(state, Some(IndexState::Building)));
    sim.apply(|state| set_index(state, None));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::UniqueViolation);
}

#[test]
fn what_an_older_member_does_not_know_is_refused_at_once() {
    let mut sim = Sim::new();
    let journal = || SchemaChange::KeepJournal { table: BASE, kept: true };
    let refused = |sim: &mut Sim| {
        sim.client.change_schema(&mut sim.world.ctx(), sim.session, journal());
        let ClientResult::Failed(refusal) = sim.event() else { panic!() };
        assert_eq!(refusal.code, ErrorCode::OlderNode);
        assert!(refusal.detail.contains("`nines ctl version`"), "{refusal}");
        assert!(sim.world.sent().is_empty());
    };
    // The followed node has told its state, and nothing of versions.
    refused(&mut sim);
    let followed = super::super::follow::control_of(sim.client.follower.followed().unwrap());
    let speaks = |protocol| Message::Control(Box::new(ControlMessage::Speaks { protocol }));
    sim.deliver(followed, speaks(journal().since() - 1));
    refused(&mut sim);
    sim.deliver(followed, speaks(journal().since()));
    let state = sim.world.ctx().cluster().clone();
    sim.deliver(followed, Message::State(state));
    sim.client.change_schema(&mut sim.world.ctx(), sim.session, journal());
    let asked = sim.asked();
    sim.reply(&asked, Ok(BASE));
    sim.show(&asked, |_| {});
    assert!(matches!(sim.event(), ClientResult::SchemaChanged(BASE)));
}
