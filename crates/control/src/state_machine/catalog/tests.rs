//! Schema changes: every limit is met from both sides, and a refusal leaves nothing behind.

use model::{Incarnation, NodeId, SessionId, Value};

use super::*;
use crate::state_machine::tests::Log;

struct Catalog {
    log: Log,
    number: u64,
}

impl Catalog {
    fn new() -> Self {
        Self { log: Log::started(2, 2), number: 0 }
    }

    fn run(&mut self, change: SchemaChange) -> Result<TableId, ErrorCode> {
        self.number += 1;
        let session = SessionId { node: NodeId(200), incarnation: Incarnation(1), number: 1 };
        let before = self.log.state.clone();
        let number = self.number;
        self.log.run(model::Command::Schema { session, number, change });
        let state = &self.log.state;
        let (answered, result) = state.schema_answers[&session];
        assert_eq!(answered, number);
        if result.is_err() {
            assert_eq!(state.tables, before.tables);
            assert_eq!(state.table_names, before.table_names);
            assert_eq!(state.databases, before.databases);
            assert_eq!(state.accounts, before.accounts);
            assert_eq!(state.accounts_changed, before.accounts_changed);
            assert_eq!(state.next_id, before.next_id);
        }
        result
    }

    fn create(&mut self, draft: Draft) -> Result<TableId, ErrorCode> {
        self.run(SchemaChange::CreateTable {
            name: draft.name.to_owned(),
            columns: draft.columns,
            primary_key: draft.primary_key,
            distribution_key: draft.distribution_key,
            partition_count: draft.partition_count,
            ordered_indexes: named(draft.ordered),
            unique_indexes: named(draft.unique),
            large: draft.large,
            description: Description::default(),
        })
    }

    fn table(&self, id: TableId) -> &Table {
        &self.log.state.tables[&id]
    }
}

fn named(indexes: Vec<(&str, Vec<u16>)>) -> Vec<(String, Vec<u16>)> {
    indexes.into_iter().map(|(name, columns)| (name.to_owned(), columns)).collect()
}

/// A table to be, with two integer columns and a nullable text unless told otherwise.
struct Draft {
    name: &'static str,
    columns: Vec<Column>,
    primary_key: Vec<u16>,
    distribution_key: Vec<u16>,
    partition_count: u16,
    ordered: Vec<(&'static str, Vec<u16>)>,
    unique: Vec<(&'static str, Vec<u16>)>,
    large: Option<Box<LargeForm>>,
}

fn draft() -> Draft {
    Draft {
        name: "items",
        columns: vec![
            column("id", ColumnType::Int(8), false),
            column("shelf", ColumnType::UInt(4), false),
            column("label", ColumnType::Variable(100), true),
        ],
        primary_key: vec![0],
        distribution_key: vec![],
        partition_count: 0,
        ordered: vec![],
        unique: vec![],
        large: None,
    }
}

fn column(name: &str, column_type: ColumnType, nullable: bool) -> Column {
    Column { name: name.to_owned(), column_type, nullable, default: Value::Null }
}

fn refused(draft: Draft) {
    assert_eq!(Catalog::new().create(draft), Err(ErrorCode::BadDefinition));
}

#[test]
fn a_table_gets_partitions_for_all_workers() {
    let mut catalog = Catalog::new();
    let id = catalog.create(draft()).unwrap();
    // Two slots, two workers per node.
    assert_eq!(catalog.table(id).partition_count, 4);
    assert_eq!(catalog.table(id).version, 1);
    assert_eq!(catalog.table(id).distribution_key, [ColumnId(0)]);
    assert_eq!(catalog.log.state.table_named("items").unwrap().id, id);
    assert_eq!(catalog.create(draft()), Err(ErrorCode::TableExists));
    let other = catalog.create(Draft { name: "b", partition_count: 7, ..draft() }).unwrap();
    assert_eq!(catalog.table(other).partition_count, 7);
    assert!(other > id);
}

#[test]
fn names_are_checked() {
    refused(Draft { name: "", ..draft() });
    let mut twice = draft();
    twice.columns[1].name = "id".to_owned();
    refused(twice);
    let mut long = draft();
    long.columns[1].name = "x".repeat(NAME_SIZE_MAX + 1);
    refused(long);
    let mut catalog = Catalog::new();
    let same = vec![("i", vec![1]), ("i", vec![0])];
    let result = catalog.create(Draft { ordered: same, ..draft() });
    assert_eq!(result, Err(ErrorCode::TableExists));
    let ordered = vec![("i", vec![1])];
    let result = catalog.create(Draft { ordered, unique: vec![("i", vec![1])], ..draft() });
    assert_eq!(result, Err(ErrorCode::TableExists));
}

#[test]
fn keys_are_checked() {
    refused(Draft { primary_key: vec![], ..draft() });
    refused(Draft { primary_key: vec![3], ..draft() });
    refused(Draft { primary_key: vec![0, 0], ..draft() });
    refused(Draft { primary_key: vec![2], ..draft() }); // Nullable.
    refused(Draft { distribution_key: vec![1], ..draft() }); // Not in the primary key.
    refused(Draft { ordered: vec![("i", vec![9])], ..draft() });
    refused(Draft { unique: vec![("i", vec![])], ..draft() });
    refused(Draft { partition_count: BUCKET_COUNT + 1, ..draft() });
    let mut catalog = Catalog::new();
    let wide = Draft { primary_key: vec![1, 0], distribution_key: vec![0], ..draft() };
    let id = catalog.create(wide).unwrap();
    assert_eq!(catalog.table(id).primary_key, [ColumnId(1), ColumnId(0)]);
    assert_eq!(catalog.table(id).distribution_key, [ColumnId(0)]);
}

#[test]
fn key_sizes_are_limited() {
    let with = |max| {
        let mut draft = draft();
        draft.columns[2].column_type = ColumnType::Variable(max);
        Draft { ordered: vec![("i", vec![2])], ..draft }
    };
    // One byte for NULL, two per byte of the value, two for its end.
    let fits = (KEY_SIZE_MAX - 4) as u16 / 2;
    assert!(Catalog::new().create(with(fits)).is_ok());
    refused(with(fits + 1));
}

#[test]
fn column_types_and_row_sizes_are_limited() {
    for bad in [ColumnType::Int(3), ColumnType::UInt(0), ColumnType::Fixed(0)] {
        let mut draft = draft();
        draft.columns[1].column_type = bad;
        refused(draft);
    }
    let with = |size| {
        let mut draft = draft();
        draft.columns[1].column_type = ColumnType::Fixed(size);
        draft
    };
    // Layout number, NULL bits, the integer; the places of fixed columns have two bytes.
    let fits = u16::MAX - 1 - 1 - 8;
    assert!(Catalog::new().create(with(fits)).is_ok());
    refused(with(fits + 1));
    refused(Draft { columns: vec![], ..draft() });
    let many = (0..=COLUMNS_MAX).map(|i| column(&format!("c{i}"), ColumnType::Int(1), false));
    refused(Draft { columns: many.collect(), ..draft() });
    let mut default = draft();
    default.columns[1].default = Value::text("no number");
    refused(default);
}

#[test]
fn a_unique_index_has_a_hidden_table() {
    let mut catalog = Catalog::new();
    let unique = vec![("by_label", vec![2, 1])];
    let id = catalog.create(Draft { unique, ..draft() }).unwrap();
    let index = catalog.table(id).unique_indexes[0].clone();
    assert_eq!(index.state, IndexState::Online);
    let hidden = catalog.table(index.table);
    assert_eq!(hidden.name, "items/by_label");
    assert_eq!(hidden.hidden_behind, Some(id));
    let names: Vec<&str> = hidden.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["label", "shelf", "id"]);
    assert!(hidden.columns.iter().all(|c| !c.nullable));
    assert_eq!(hidden.primary_key, [ColumnId(0), ColumnId(1)]);
    assert!(!catalog.log.state.table_names.contains_key("items/by_label"));
    // Only its base table's name leads to it.
    let hidden = index.table;
    let drop = SchemaChange::DropTable { table: hidden };
    assert_eq!(catalog.run(drop), Err(ErrorCode::UnknownTable));
    assert_eq!(catalog.run(SchemaChange::DropTable { table: id }), Ok(id));
    assert!(catalog.log.state.tables.is_empty());
    assert!(catalog.log.state.table_names.is_empty());
    let again = catalog.create(draft()).unwrap();
    assert!(again > hidden, "identities are not reused");
}

#[test]
fn the_primary_key_is_not_repeated_in_a_hidden_table() {
    let mut catalog = Catalog::new();
    let id = catalog.create(Draft { unique: vec![("u", vec![0, 1])], ..draft() }).unwrap();
    let hidden = catalog.table(id).unique_indexes[0].table;
    assert_eq!(catalog.table(hidden).columns.len(), 2);
}

#[test]
fn indexes_come_online_and_go() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    let create = |name: &str| SchemaChange::CreateUniqueIndex {
        table,
        name: name.to_owned(),
        columns: vec![2],
    };
    catalog.run(create("u")).unwrap();
    assert_eq!(catalog.run(create("u")), Err(ErrorCode::TableExists));
    let index = catalog.table(table).unique_indexes[0].clone();
    assert_eq!((index.state, catalog.table(table).version), (IndexState::Building, 2));
    let online = SchemaChange::SetIndexOnline { table, index: index.id, complete: Epoch(7) };
    catalog.run(online.clone()).unwrap();
    assert_eq!(catalog.table(table).unique_indexes[0].state, IndexState::Online);
    assert_eq!(catalog.table(table).version, 3);
    catalog.run(online).unwrap();
    assert_eq!(catalog.table(table).version, 3, "nothing has changed");
    let ordered =
        SchemaChange::CreateOrderedIndex { table, name: "o".to_owned(), columns: vec![1, 2] };
    catalog.run(ordered).unwrap();
    let ordered = catalog.table(table).ordered_indexes[0].id;
    assert_ne!(ordered, index.id);
    catalog.run(SchemaChange::DropIndex { table, index: index.id }).unwrap();
    assert!(!catalog.log.state.tables.contains_key(&index.table));
    catalog.run(SchemaChange::DropIndex { table, index: ordered }).unwrap();
    assert!(catalog.table(table).ordered_indexes.is_empty());
    let again = SchemaChange::DropIndex { table, index: ordered };
    assert_eq!(catalog.run(again), Err(ErrorCode::UnknownIndex));
    let online = SchemaChange::SetIndexOnline { table, index: ordered, complete: Epoch(0) };
    assert_eq!(catalog.run(online), Err(ErrorCode::UnknownIndex));
}

#[test]
fn requests_by_definitions_that_differ_in_indexes_alone_are_served() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    let serves = |catalog: &Catalog| {
        let definition = catalog.table(table);
        (0..=definition.version + 1).filter(|v| definition.serves_version(*v)).collect::<Vec<_>>()
    };
    assert_eq!(serves(&catalog), [1]);
    let (name, columns) = ("o".to_owned(), vec![1]);
    catalog.run(SchemaChange::CreateOrderedIndex { table, name, columns }).unwrap();
    let index = catalog.table(table).ordered_indexes[0].id;
    assert_eq!(catalog.table(table).ordered_indexes[0].state, IndexState::Building);
    assert_eq!(serves(&catalog), [1, 2]);
    catalog.run(SchemaChange::SetIndexOnline { table, index, complete: Epoch(0) }).unwrap();
    assert_eq!(catalog.table(table).ordered_indexes[0].state, IndexState::Online);
    assert_eq!(serves(&catalog), [1, 2, 3]);
    // Whoever writes has to know of the entries of a unique index.
    let (name, columns) = ("u".to_owned(), vec![1]);
    catalog.run(SchemaChange::CreateUniqueIndex { table, name, columns }).unwrap();
    assert_eq!(serves(&catalog), [4]);
    let unique = catalog.table(table).unique_indexes[0].id;
    catalog.run(SchemaChange::SetIndexOnline { table, index: unique, complete: Epoch(7) }).unwrap();
    assert_eq!(serves(&catalog), [4, 5]);
    catalog.run(SchemaChange::DropIndex { table, index }).unwrap();
    assert_eq!(serves(&catalog), [4, 5, 6]);
    catalog.run(SchemaChange::DropIndex { table, index: unique }).unwrap();
    assert_eq!(serves(&catalog), [7]);
}

#[test]
fn the_number_of_indexes_is_limited() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    for i in 0..=INDEXES_MAX {
        let name = format!("i{i}");
        let result =
            catalog.run(SchemaChange::CreateOrderedIndex { table, name, columns: vec![1] });
        assert_eq!(result.is_ok(), i < INDEXES_MAX);
    }
}

#[test]
fn added_columns_make_a_layout() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    let add = |columns| SchemaChange::AddColumns { table, columns, large: None, description: None };
    let plain = column("weight", ColumnType::UInt(2), false);
    assert_eq!(catalog.run(add(vec![plain.clone()])), Err(ErrorCode::BadDefinition));
    assert_eq!(catalog.run(add(vec![])), Err(ErrorCode::BadDefinition));
    let with_default = Column { default: Value::UInt(1), ..plain };
    catalog.run(add(vec![with_default.clone()])).unwrap();
    assert_eq!(catalog.run(add(vec![with_default])), Err(ErrorCode::BadDefinition));
    assert_eq!(catalog.table(table).layouts.len(), 2);
    assert_eq!(catalog.table(table).layouts[0].column_count(), 3);
    assert_eq!(catalog.table(table).layout().column_count(), 4);
    assert_eq!(catalog.table(table).version, 2);
    for i in 2..=LAYOUTS_MAX {
        let result = catalog.run(add(vec![column(&format!("n{i}"), ColumnType::Float, true)]));
        assert_eq!(result.is_ok(), i < LAYOUTS_MAX, "layout {i}");
    }
}

fn describes(text: &str) -> Description {
    text.as_bytes().into()
}

#[test]
fn a_table_with_a_dot_in_its_name_needs_its_database_and_goes_with_it() {
    let mut catalog = Catalog::new();
    let create =
        || SchemaChange::CreateDatabase { name: "shop".into(), description: describes("x") };
    let named = |name| Draft { name, ..draft() };
    assert_eq!(catalog.create(named("shop.items")), Err(ErrorCode::UnknownDatabase));
    catalog.run(create()).unwrap();
    assert_eq!(catalog.run(create()), Err(ErrorCode::DatabaseExists));
    let id = catalog.create(Draft { unique: vec![("u", vec![1])], ..named("shop.items") }).unwrap();
    let other = catalog.create(named("shopping")).unwrap();
    assert_eq!(catalog.log.state.tables.len(), 3);
    let alter = SchemaChange::AlterDatabase { name: "shop".into(), description: describes("y") };
    catalog.run(alter).unwrap();
    assert_eq!(catalog.log.state.databases["shop"], describes("y"));
    let drop = || SchemaChange::DropDatabase { name: "shop".into() };
    catalog.run(drop()).unwrap();
    assert_eq!(catalog.run(drop()), Err(ErrorCode::UnknownDatabase));
    assert!(!catalog.log.state.tables.contains_key(&id));
    assert_eq!(catalog.log.state.tables.keys().collect::<Vec<_>>(), [&other]);
}

#[test]
fn accounts_change_together_and_only_as_they_were_seen() {
    let mut catalog = Catalog::new();
    let change = |seen, changes: &[(&str, Option<&str>)]| SchemaChange::ChangeAccounts {
        seen,
        changes: changes
            .iter()
            .map(|(name, text)| (name.to_string(), text.map(describes)))
            .collect(),
    };
    let first = catalog.log.state.accounts_changed;
    catalog.run(change(first, &[("a", Some("1")), ("b", Some("2"))])).unwrap();
    let second = catalog.log.state.accounts_changed;
    assert!(second > first);
    assert_eq!(
        catalog.run(change(first, &[("a", Some("3"))])),
        Err(ErrorCode::SchemaChanged),
        "made from older accounts"
    );
    let long = "x".repeat(NAME_SIZE_MAX + 1);
    let bad = change(second, &[("a", None), (&long, Some("3"))]);
    assert_eq!(catalog.run(bad), Err(ErrorCode::BadDefinition), "all or none");
    catalog.run(change(second, &[("a", None), ("c", Some("3"))])).unwrap();
    let names: Vec<&str> = catalog.log.state.accounts.keys().map(|name| &**name).collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
fn two_tables_swap_their_names_or_none_is_renamed() {
    let mut catalog = Catalog::new();
    let a = catalog.create(Draft { name: "a", ..draft() }).unwrap();
    let b = catalog.create(Draft { name: "b", ..draft() }).unwrap();
    let rename = |names: &[(TableId, &str)]| SchemaChange::RenameTables {
        names: names.iter().map(|(id, name)| (*id, (*name).to_owned())).collect(),
    };
    catalog.run(rename(&[(a, "t"), (b, "a"), (a, "b")])).unwrap();
    assert_eq!(catalog.log.state.table_names["a"], b);
    assert_eq!(catalog.log.state.table_names["b"], a);
    assert_eq!((catalog.table(a).name.as_str(), catalog.table(a).version), ("b", 2));
    assert_eq!(catalog.run(rename(&[(a, "c"), (b, "c")])), Err(ErrorCode::TableExists));
    assert_eq!(catalog.run(rename(&[(a, "no.c")])), Err(ErrorCode::UnknownDatabase));
    assert_eq!(catalog.run(rename(&[])), Err(ErrorCode::BadDefinition));
}

#[test]
fn a_replacement_takes_the_name_and_truncation_gives_new_identities() {
    let mut catalog = Catalog::new();
    let old = catalog.create(Draft { name: "t", unique: vec![("u", vec![1])], ..draft() }).unwrap();
    let new = catalog.create(Draft { name: "copy", ..draft() }).unwrap();
    let replace = SchemaChange::ReplaceTable { old, new };
    assert_eq!(catalog.run(replace.clone()), Err(ErrorCode::SchemaChanged), "it is written to");
    catalog.run(SchemaChange::BlockWrites { table: old, blocked: true }).unwrap();
    let again = SchemaChange::BlockWrites { table: old, blocked: true };
    assert_eq!(catalog.run(again), Err(ErrorCode::SchemaChanged));
    catalog.run(replace).unwrap();
    assert_eq!(catalog.log.state.table_names.len(), 1);
    assert_eq!(catalog.log.state.table_names["t"], new);
    assert_eq!(catalog.log.state.tables.len(), 1, "the old one's hidden table is gone too");
    let key = SchemaChange::CreateUniqueIndex { table: new, name: "u".into(), columns: vec![1] };
    catalog.run(key).unwrap();
    let before = catalog.table(new).clone();
    let fresh = catalog.run(SchemaChange::TruncateTable { table: new }).unwrap();
    let after = catalog.table(fresh).clone();
    assert_ne!(before.unique_indexes[0].table, after.unique_indexes[0].table);
    assert_eq!(after.unique_indexes[0].state, IndexState::Online);
    assert_eq!(catalog.table(after.unique_indexes[0].table).hidden_behind, Some(fresh));
    assert_eq!(catalog.log.state.tables.len(), 2);
}

#[test]
fn a_description_is_replaced_only_by_one_who_knows_the_newest() {
    let mut catalog = Catalog::new();
    let id = catalog.create(draft()).unwrap();
    let describe = |version, name: &str| SchemaChange::Describe {
        table: id,
        version,
        renamed: vec![(ColumnId(2), name.to_owned())],
        description: describes("d"),
    };
    catalog.run(describe(1, "tag")).unwrap();
    assert_eq!(catalog.table(id).columns[2].name, "tag");
    assert_eq!(catalog.table(id).description, describes("d"));
    assert_eq!(catalog.run(describe(1, "other")), Err(ErrorCode::SchemaChanged));
    assert_eq!(catalog.run(describe(2, "id")), Err(ErrorCode::BadDefinition));
}

#[test]
fn changes_together_are_made_all_or_none() {
    let mut catalog = Catalog::new();
    let id = catalog.create(draft()).unwrap();
    let describe = |version| SchemaChange::Describe {
        table: id,
        version,
        renamed: vec![],
        description: describes("d"),
    };
    let rename = |name: &str| SchemaChange::RenameTables { names: vec![(id, name.to_owned())] };
    let together = |expected: Option<(TableId, u32)>, changes| SchemaChange::Together {
        expected: vec![("items".to_owned(), expected), ("other".to_owned(), None)],
        changes,
    };
    let known = Some((id, 1));
    assert_eq!(catalog.run(together(known, vec![describe(1), rename("things")])), Ok(id));
    assert_eq!((catalog.table(id).version, &catalog.table(id).name[..]), (3, "things"));
    // The name stands for no table any more; the second change of two is refused; nothing to do.
    let again = together(known, vec![describe(3)]);
    assert_eq!(catalog.run(again), Err(ErrorCode::SchemaChanged));
    catalog.run(rename("items")).unwrap();
    let known = Some((id, 4));
    for (changes, code) in [
        (vec![describe(4), describe(4)], ErrorCode::SchemaChanged),
        (
            vec![rename("other"), SchemaChange::DropTable { table: TableId(99) }],
            ErrorCode::UnknownTable,
        ),
        (vec![together(known, vec![describe(4)])], ErrorCode::BadDefinition),
        (vec![], ErrorCode::BadDefinition),
    ] {
        assert_eq!(catalog.run(together(known, changes)), Err(code));
    }
    assert_eq!(
        catalog.run(together(Some((id, 3)), vec![describe(4)])),
        Err(ErrorCode::SchemaChanged)
    );
    assert_eq!(catalog.run(together(known, vec![describe(4)])), Ok(id));
}

/// With a large text, and references behind it.
fn with_large() -> Draft {
    let mut draft = draft();
    draft.columns.push(column("references", ColumnType::Variable(100), true));
    Draft { large: Some(LargeForm { columns: vec![2], references: 3 }.into()), ..draft }
}

#[test]
fn parts_of_large_values_lie_in_a_hidden_table() {
    let mut catalog = Catalog::new();
    let id = catalog.create(Draft { partition_count: 7, ..with_large() }).unwrap();
    let large = catalog.table(id).large.clone().unwrap();
    assert_eq!((&large.columns[..], large.references), (&[ColumnId(2)][..], ColumnId(3)));
    let parts = catalog.table(large.parts).clone();
    assert_eq!(parts.hidden_behind, Some(id));
    assert_eq!((parts.partition_count, parts.columns.len()), (7, 4));
    assert_eq!(parts.primary_key, [0, 1, 2].map(ColumnId));
    // A row and its parts lie in the same partition.
    let key = |rest: &[Value]| [&[Value::Int(4711)], rest].concat();
    let of_part = parts.partition_of_key(&key(&[Value::UInt(9), Value::UInt(3)]));
    assert_eq!(catalog.table(id).partition_of_key(&key(&[])), of_part);
    let drop = SchemaChange::DropTable { table: large.parts };
    assert_eq!(catalog.run(drop), Err(ErrorCode::UnknownTable));
    let new = catalog.run(SchemaChange::TruncateTable { table: id }).unwrap();
    let renewed = catalog.table(new).large.clone().unwrap();
    assert_ne!(renewed.parts, large.parts);
    assert_eq!(catalog.table(renewed.parts).hidden_behind, Some(new));
    assert!(!catalog.log.state.tables.contains_key(&large.parts));
    catalog.run(SchemaChange::DropTable { table: new }).unwrap();
    assert!(catalog.log.state.tables.is_empty());
}

#[test]
fn parts_are_colocated_where_the_change_says_so() {
    let mut catalog = Catalog::new();
    let colocating =
        |change: SchemaChange| SchemaChange::ColocateParts { change: Box::new(change) };
    let parts_of = |catalog: &Catalog, table| catalog.table(table).large.clone().unwrap().parts;
    let old = catalog.create(with_large()).unwrap();
    assert_eq!(parts_of(&catalog, old).anchor(), parts_of(&catalog, old));
    // One of before becomes colocated when it is emptied, and back.
    let new = catalog.run(colocating(SchemaChange::TruncateTable { table: old })).unwrap();
    let parts = parts_of(&catalog, new);
    assert_eq!((parts, parts.anchor()), (new.colocated(), new));
    assert_eq!(catalog.table(parts).hidden_behind, Some(new));
    let again = catalog.run(colocating(SchemaChange::TruncateTable { table: new })).unwrap();
    assert_eq!(parts_of(&catalog, again), again.colocated());
    assert!(!catalog.log.state.tables.contains_key(&new.colocated()));
    let before = catalog.run(SchemaChange::TruncateTable { table: again }).unwrap();
    assert_ne!(parts_of(&catalog, before), before.colocated());
    // With a first column of the kind; others join it.
    catalog.run(SchemaChange::DropTable { table: before }).unwrap();
    let table = catalog.create(draft()).unwrap();
    let text = |name: &str| column(name, ColumnType::Variable(500), true);
    let add = |columns, added: u16| {
        let large = Some(LargeForm { columns: vec![added], references: 4 }.into());
        SchemaChange::AddColumns { table, columns, large, description: None }
    };
    catalog.run(colocating(add(vec![text("a"), text("r")], 3))).unwrap();
    catalog.run(add(vec![text("b")], 5)).unwrap();
    assert_eq!(parts_of(&catalog, table), table.colocated());
    // Nothing else can be said so.
    for other in [
        SchemaChange::DropTable { table },
        SchemaChange::Together { expected: vec![], changes: vec![add(vec![text("c")], 6)] },
        colocating(SchemaChange::TruncateTable { table }),
    ] {
        assert_eq!(catalog.run(colocating(other)), Err(ErrorCode::BadDefinition));
    }
    catalog.run(SchemaChange::DropTable { table }).unwrap();
    assert!(!catalog.log.state.tables.contains_key(&table.colocated()));
}

#[test]
fn columns_are_large_if_they_can_be() {
    let form = |columns: &[u16], references| {
        let large = Some(LargeForm { columns: columns.to_vec(), references }.into());
        Draft { large, ..with_large() }
    };
    // Nothing, a number, a column twice, the references, one that is not there.
    for columns in [&[][..], &[1], &[2, 2], &[3], &[4]] {
        refused(form(columns, 3));
    }
    // References in a number, in no column; ones that may not be NULL.
    refused(form(&[2], 1));
    refused(form(&[2], 4));
    let mut draft = with_large();
    draft.columns[3].nullable = false;
    refused(draft);
    // Parts must have a key too: 12 bytes longer.
    let with_key = |max| {
        let mut draft = with_large();
        draft.columns.push(column("k", ColumnType::Variable(max), false));
        Draft { primary_key: vec![4], ..draft }
    };
    let fits = (KEY_SIZE_MAX - 12 - 2) as u16 / 2;
    assert!(Catalog::new().create(with_key(fits)).is_ok());
    refused(with_key(fits + 1));
}

#[test]
fn large_columns_are_added() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    let text = |name: &str| column(name, ColumnType::Variable(500), true);
    let add = |columns, large: Option<(&[u16], u16)>| SchemaChange::AddColumns {
        table,
        columns,
        large: large.map(|(c, references)| LargeForm { columns: c.to_vec(), references }.into()),
        description: None,
    };
    // Values of a column that is there lie in their rows already.
    let before = add(vec![text("a"), text("r")], Some((&[2], 4)));
    assert_eq!(catalog.run(before), Err(ErrorCode::BadDefinition));
    catalog.run(add(vec![text("a"), text("r")], Some((&[3], 4)))).unwrap();
    let parts = catalog.table(table).large.clone().unwrap().parts;
    let other = add(vec![text("b"), text("s")], Some((&[5], 6)));
    assert_eq!(catalog.run(other), Err(ErrorCode::BadDefinition));
    catalog.run(add(vec![text("b")], Some((&[5], 4)))).unwrap();
    let large = catalog.table(table).large.clone().unwrap();
    assert_eq!((large.columns, large.parts), (vec![ColumnId(3), ColumnId(5)], parts));
}

#[test]
fn columns_are_modified_where_rows_and_keys_can_bear_it() {
    let mut catalog = Catalog::new();
    let mut columns = draft().columns;
    columns.push(column("note", ColumnType::Fixed(40), false));
    columns.push(column("tag", ColumnType::Variable(20), true));
    columns.push(column("count", ColumnType::Int(4), true));
    let ordered = vec![("by_label", vec![2]), ("by_note", vec![3])];
    let table = catalog
        .create(Draft { columns, ordered, unique: vec![("u", vec![4])], ..draft() })
        .unwrap();
    let modify = |version, columns: Vec<(u16, Column)>| SchemaChange::ModifyColumns {
        table,
        version,
        columns: columns.into_iter().map(|(at, column)| (ColumnId(at), column)).collect(),
        renamed: vec![],
        description: describes("d"),
    };
    let refused: Vec<(u16, Column)> = vec![
        // Of the primary key, of a unique index, of an ordered one: other keys, or another table.
        (0, column("id", ColumnType::Int(8), true)),
        (0, Column::hole(ColumnId(0))),
        (4, column("tag", ColumnType::Variable(30), true)),
        (4, Column::hole(ColumnId(4))),
        (2, Column::hole(ColumnId(2))),
        (3, column("note", ColumnType::Fixed(50), false)),
        (3, column("note", ColumnType::Fixed(40), true)),
        // A key would be too long.
        (2, column("label", ColumnType::Variable(KEY_SIZE_MAX as u16 / 2), true)),
        // Values would not fit.
        (5, column("count", ColumnType::Int(2), true)),
        (5, column("count", ColumnType::UInt(4), true)),
        (5, column("count", ColumnType::Int(4), false)),
        (5, Column { default: Value::Int(1), ..column("count", ColumnType::Int(8), true) }),
        (1, column("id", ColumnType::UInt(8), false)),
        (9, column("nosuch", ColumnType::Int(8), true)),
    ];
    for (at, column) in refused {
        let result = catalog.run(modify(1, vec![(at, column.clone())]));
        assert_eq!(result, Err(ErrorCode::BadDefinition), "{at} {column:?}");
    }
    assert_eq!(catalog.run(modify(1, vec![])), Err(ErrorCode::BadDefinition));
    let wide = column("count", ColumnType::Int(8), true);
    let twice = vec![(5, wide.clone()), (5, wide.clone())];
    assert_eq!(catalog.run(modify(1, twice)), Err(ErrorCode::BadDefinition));
    let accepted = vec![
        (1, column("shelf", ColumnType::UInt(8), true)),
        (2, column("label", ColumnType::Variable(1_000), true)),
        (5, wide),
    ];
    catalog.run(modify(1, accepted.clone())).unwrap();
    assert_eq!(catalog.run(modify(1, accepted)), Err(ErrorCode::SchemaChanged));
    let now = catalog.table(table);
    assert_eq!((now.version, now.layouts.len()), (2, 2));
    assert_eq!(now.layout().column_type(ColumnId(5)), Some(ColumnType::Int(8)));
    assert_eq!(now.layouts[0].column_type(ColumnId(5)), Some(ColumnType::Int(4)));
    catalog.run(modify(2, vec![(5, Column::hole(ColumnId(5)))])).unwrap();
    assert!(catalog.table(table).columns[5].is_hole());
    for version in 3.. {
        let nothing = (1, catalog.table(table).columns[1].clone());
        let layouts = catalog.table(table).layouts.len();
        let result = catalog.run(modify(version, vec![nothing]));
        assert_eq!(result.is_ok(), layouts < LAYOUTS_MAX, "{layouts} layouts");
        if result.is_err() {
            break;
        }
    }
}

#[test]
fn large_columns_are_not_dropped_and_keep_their_room() {
    let mut catalog = Catalog::new();
    let table = catalog.create(with_large()).unwrap();
    let mut modify = |at: u16, column: Column| {
        catalog.run(SchemaChange::ModifyColumns {
            table,
            version: 1,
            columns: vec![(ColumnId(at), column)],
            renamed: vec![],
            description: describes("d"),
        })
    };
    for at in [2, 3] {
        let hole = Column::hole(ColumnId(at));
        assert_eq!(modify(at, hole), Err(ErrorCode::BadDefinition));
        let longer = column("longer", ColumnType::Variable(200), true);
        assert_eq!(modify(at, longer), Err(ErrorCode::BadDefinition));
    }
    assert!(modify(1, Column::hole(ColumnId(1))).is_ok());
}

#[test]
fn a_journal_has_the_primary_key_and_lies_where_the_rows_lie() {
    let mut catalog = Catalog::new();
    let columns = vec![
        column("a", ColumnType::Int(8), false),
        column("b", ColumnType::Int(4), false),
        column("c", ColumnType::Int(2), false),
    ];
    let drafted = Draft {
        columns,
        primary_key: vec![2, 0],
        distribution_key: vec![0],
        partition_count: 7,
        ordered: vec![],
        unique: vec![],
        ..draft()
    };
    let id = catalog.create(drafted).unwrap();
    let keep = |kept| SchemaChange::KeepJournal { table: id, kept };
    assert_eq!(catalog.run(keep(false)), Ok(id), "there is none");
    assert_eq!(catalog.table(id).version, 1);
    catalog.run(keep(true)).unwrap();
    assert_eq!(catalog.run(keep(true)), Err(ErrorCode::SchemaChanged), "somebody keeps one");
    let base = catalog.table(id).clone();
    let journal = catalog.table(base.journal.unwrap()).clone();
    assert_eq!((base.version, journal.hidden_behind), (2, Some(id)));
    let names: Vec<&str> = journal.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["c", "a"]);
    assert_eq!(journal.primary_key, [ColumnId(0), ColumnId(1)]);
    for number in 0..50 {
        let [a, c] = [Value::Int(number), Value::Int(number % 3)];
        let row = base.layout().encode_values(&[a.clone(), Value::Int(1), c.clone()]).unwrap();
        let entry = journal.layout().encode_values(&[c, a]).unwrap();
        assert_eq!(base.partition_of_row(&row.0), journal.partition_of_row(&entry.0));
    }
    catalog.run(keep(false)).unwrap();
    assert_eq!((catalog.table(id).journal, catalog.table(id).version), (None, 3));
    assert_eq!(catalog.log.state.tables.len(), 1);
}

#[test]
fn a_journal_goes_with_its_table() {
    let mut catalog = Catalog::new();
    let drafted = || Draft { ordered: vec![], unique: vec![], ..draft() };
    let old = catalog.create(Draft { name: "t", ..drafted() }).unwrap();
    let new = catalog.create(Draft { name: "copy", ..drafted() }).unwrap();
    let keep = |table| SchemaChange::KeepJournal { table, kept: true };
    catalog.run(keep(old)).unwrap();
    catalog.run(SchemaChange::BlockWrites { table: old, blocked: true }).unwrap();
    let replace = SchemaChange::ReplaceTable { old, new };
    catalog.run(keep(new)).unwrap();
    assert_eq!(catalog.run(replace.clone()), Err(ErrorCode::BadDefinition), "it is copied itself");
    catalog.run(SchemaChange::KeepJournal { table: new, kept: false }).unwrap();
    catalog.run(replace).unwrap();
    assert_eq!(catalog.log.state.tables.keys().copied().collect::<Vec<_>>(), [new]);
    catalog.run(keep(new)).unwrap();
    let fresh = catalog.run(SchemaChange::TruncateTable { table: new }).unwrap();
    assert_eq!(catalog.table(fresh).journal, None);
    assert_eq!(catalog.log.state.tables.len(), 1);
    catalog.run(keep(fresh)).unwrap();
    catalog.run(SchemaChange::DropTable { table: fresh }).unwrap();
    assert!(catalog.log.state.tables.is_empty());
}

/// A CREATE TABLE costs what the table is, however many others there are.
#[test]
fn a_new_table_costs_the_same_beside_many() {
    let mut catalog = Catalog::new();
    let change = |name: String| {
        let table = testing::table(name).columns(draft().columns).index("by_shelf", ["shelf"]);
        table.unique("by_label", ["label"]).description(vec![b'x'; 700]).create()
    };
    let mut costs = Vec::new();
    for count in [100, 3_000] {
        let known = catalog.log.state.table_names.len();
        let numbers: Vec<usize> = (known..count).collect();
        for batch in numbers.chunks(500) {
            let changes = batch.iter().map(|at| change(format!("t{at:06}"))).collect();
            catalog.run(SchemaChange::Together { expected: vec![], changes }).unwrap();
        }
        for name in ["a", "t000050x", "z"] {
            let before = catalog.log.state.clone();
            catalog.run(change(format!("{name}{count:06}"))).unwrap();
            let after = &catalog.log.state;
            let changed: Vec<_> = after.table_changes(&before).map(|c| *c.key).collect();
            assert_eq!(changed.len(), 2, "the table and the one of its unique index");
            let told = model::StateChange::between(&before, after);
            costs.push(serde_json::to_vec(&told).unwrap().len());
        }
    }
    let (least, most) = (costs.iter().min().unwrap(), costs.iter().max().unwrap());
    assert!(*most < least + least / 20, "bytes that a client is told: {costs:?}");
}

#[test]
fn a_restart_that_goes_back_behind_the_build_of_a_unique_index_builds_it_anew() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    for name in ["early", "late"] {
        let (name, columns) = (name.to_owned(), vec![1]);
        catalog.run(SchemaChange::CreateUniqueIndex { table, name, columns }).unwrap();
    }
    let [early, late] = [0, 1].map(|at| catalog.table(table).unique_indexes[at].id);
    let epoch = |number: u64| Epoch(Epoch::start_of(1).0 + number);
    for (index, complete) in [(early, epoch(5)), (late, epoch(9))] {
        catalog.run(SchemaChange::SetIndexOnline { table, index, complete }).unwrap();
    }
    let states = |catalog: &Catalog| {
        let indexes = &catalog.table(table).unique_indexes;
        indexes.iter().map(|index| (index.state, index.complete)).collect::<Vec<_>>()
    };
    let version = catalog.table(table).version;
    let mut state = catalog.log.state.clone();
    rebuild_indexes(&mut state, epoch(9));
    assert_eq!(state, catalog.log.state, "nothing is lost");
    rebuild_indexes(&mut catalog.log.state, epoch(8));
    let online = (IndexState::Online, epoch(5));
    assert_eq!(states(&catalog), [online, (IndexState::Building, Epoch(0))]);
    assert_eq!(catalog.table(table).version, version + 1);
    assert!(catalog.table(table).serves_version(version), "writers keep the entries anyway");
}

#[test]
fn the_limit_of_tables_has_a_name() {
    let mut catalog = Catalog::new();
    let table = catalog.create(draft()).unwrap();
    let of_all = catalog.log.state.tables[&table].clone();
    let state = &mut catalog.log.state;
    let more = (1..TABLES_MAX as u32 - 1).map(|n| TableId(table.0 + n));
    more.for_each(|id| drop(state.tables.insert(id, of_all.clone())));
    state.next_id += TABLES_MAX as u32;
    let two = Draft { name: "v", unique: vec![("once", vec![1])], ..draft() };
    assert_eq!(catalog.create(two), Err(ErrorCode::TableLimit), "a unique index is a table too");
    catalog.create(Draft { name: "u", ..draft() }).unwrap();
    assert_eq!(catalog.log.state.tables.len(), TABLES_MAX);
    assert_eq!(catalog.create(Draft { name: "v", ..draft() }), Err(ErrorCode::TableLimit));
    let unique =
        SchemaChange::CreateUniqueIndex { table, name: "once".to_owned(), columns: vec![1] };
    assert_eq!(catalog.run(unique), Err(ErrorCode::TableLimit));
    let limit = format!("{},000", TABLES_MAX / 1_000);
    assert!(ErrorCode::TableLimit.text().contains(&limit), "it says how many there may be");
    catalog.run(SchemaChange::DropTable { table }).unwrap();
    catalog.create(Draft { name: "v", ..draft() }).unwrap();
}
