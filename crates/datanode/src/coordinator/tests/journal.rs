//! What a coordinator leaves in the journal of a table.

use super::*;

/// A table with a journal, and no unique index.
fn world() -> World {
    let mut w = World::new();
    w.change(begin);
    w
}

fn begin(cluster: &mut ClusterState) {
    let mut base = (*cluster.tables[&TableId(1)]).clone();
    base.journal = Some(TableId(3));
    base.unique_indexes.clear();
    base.version += 1;
    cluster.tables.insert(base.id, Arc::new(base));
    cluster.tables.insert(TableId(3), Arc::new(journal()));
}

fn journal() -> Table {
    table(3, "d.t/#journal", &["id"]).build()
}

/// The entries that are written, with the legs they are written in.
fn entries(sent: &[(Address, Message)]) -> Vec<(OperationNumber, TableId, Row, LegId)> {
    let operations = sent.iter().flat_map(|(_, message)| match message {
        Message::Participant(ParticipantMessage::Prepare { operations, leg, .. }) => {
            operations.iter().map(|operation| (operation.clone(), *leg)).collect()
        }
        _ => vec![],
    });
    let entry = |(operation, leg): (Operation, LegId)| match operation.kind {
        OperationKind::Upsert { row } => (operation.number, operation.partition.table, row, leg),
        other => panic!("an entry is written whether it is there or not, not {other:?}"),
    };
    operations.map(entry).collect()
}

fn key(id: i64) -> Row {
    journal().layout().encode_values(&[Value::Int(id)]).expect("fits")
}

#[test]
fn each_kind_of_change_leaves_the_key_of_its_row() {
    for (before, after) in [
        (None, Some(row(1, 40))),
        (Some(row(1, 40)), Some(row(1, 50))),
        (Some(row(1, 40)), Some(row(1, 40))),
        (Some(row(1, 40)), None),
    ] {
        let mut w = world();
        w.execute(&[1], false);
        let sent = w.prepared_with(2, 0, vec![done(1 << 8, Some(UniqueImages { before, after }))]);
        let entries = entries(&sent);
        let (number, table, row, leg) = &entries[0];
        assert_eq!((entries.len(), *table, row), (1, TableId(3), &key(1)));
        assert_eq!(*number, OperationNumber(1 << 8 | 1), "a savepoint covers it");
        // The client hears of the change when the entry is there.
        let sent = w.prepared_with(2, leg.0, vec![done(1 << 8 | 1, None)]);
        assert_eq!(names(&sent), ["n9w0.client TransactionReply"]);
    }
}

#[test]
fn a_row_that_becomes_another_leaves_both_keys() {
    let mut w = world();
    w.execute(&[1], false);
    let images = UniqueImages { before: Some(row(1, 40)), after: Some(row(2, 40)) };
    let sent = w.prepared_with(2, 0, vec![done(1 << 8, Some(images))]);
    let rows: Vec<Row> = entries(&sent).into_iter().map(|(_, _, row, _)| row).collect();
    assert_eq!(rows, [key(1), key(2)]);
}

#[test]
fn an_entry_that_cannot_be_written_undoes_its_change() {
    let mut w = world();
    w.execute(&[1], false);
    let images = UniqueImages { before: None, after: Some(row(1, 40)) };
    let sent = w.prepared_with(2, 0, vec![done(1 << 8, Some(images))]);
    let leg = entries(&sent)[0].3;
    let sent = w.prepared_with(2, leg.0, vec![refused(1 << 8 | 1, ErrorCode::MemoryFull)]);
    assert!(names(&sent)[0].ends_with("Rollback"), "{:?}", names(&sent));
}

#[test]
fn whoever_wrote_the_table_before_it_had_a_journal_is_aborted() {
    let mut w = World::new();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    let sent = w.change(begin);
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("{sent:?}") };
    assert_eq!(refusal.code, ErrorCode::SchemaChanged);
    // Whoever writes it afterwards is left alone when the journal ends, or is another one.
    let mut w = world();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    let ended = w.change(|cluster| {
        let mut base = (*cluster.tables[&TableId(1)]).clone();
        base.journal = None;
        cluster.tables.insert(base.id, Arc::new(base));
        cluster.tables.remove(&TableId(3));
    });
    assert!(ended.is_empty(), "{:?}", names(&ended));
    let sent = w.change(begin);
    assert!(matches!(state_of(&sent), TransactionState::Aborted(_)), "the new one lacks it");
}
