//! Lookups for a handful of rows, played by hand; and plans that make no sense.

use collation::CollationId;
use model::{ColumnId, Comparison, Table};

use super::*;
use crate::program::{Aggregate, AggregateFunction, GroupKey, Node};
use crate::top::{Top, TopKey};
use crate::vector::Scalar;

const BINARY: u16 = 63;

/// `id` (one byte) is the primary key, `name` and `id` a unique one.
fn table() -> Table {
    let text = ColumnType::Text { max_bytes: 4, collation: CollationId::UTF8MB4_0900_AI_CI };
    testing::table("d.t")
        .version(3)
        .nullable("id", ColumnType::Int(1))
        .nullable("name", text)
        .unique("u", ["name", "id"])
        .with_index_id(IndexId(5))
        .index("o", ["id", "name"])
        .with_index_id(IndexId(8))
        .build()
}

fn input(place: u16, kind: Kind) -> Input {
    Input { column: ColumnId(place), kind }
}

/// A program over the first columns of joined rows, of these kinds.
fn program(kinds: &[Kind], more: Vec<Node>, filter: Vec<u16>, yields: Yield) -> Program {
    let inputs: Vec<Input> =
        kinds.iter().enumerate().map(|(at, kind)| input(at as u16, *kind)).collect();
    let nodes = (0..inputs.len() as u16).map(Node::Input).chain(more).collect();
    let (references, members, top) = (None, vec![], None);
    Program { inputs, references, nodes, filter, yields, members, top }
}

const SCANNED: [Kind; 2] = [Kind::Int, Kind::Int];
const JOINED: [Kind; 3] = [Kind::Int, Kind::Int, Kind::Bytes];

/// Looks up by the second column of the rows; the first must not be 9.
fn plan(matching: Matching, yields: Yield) -> JoinPlan {
    let more = vec![
        Node::Constant(Scalar::Int(9)),
        Node::Compare { order: Comparison::NotEqual, left: 0, right: 3, collation: BINARY },
    ];
    let lookup = Lookup {
        table: TableId(1),
        version: 3,
        index: None,
        key: vec![KeyPart::Place(1)],
        columns: vec![input(1, Kind::Bytes)],
        conditions: program(&JOINED, more, vec![4], Yield::Rows(vec![])),
        matching,
        range: None,
        given: None,
    };
    JoinPlan { lookups: vec![lookup], result: program(&JOINED, vec![], vec![], yields) }
}

fn begin(plan: JoinPlan) -> Result<LookupJoin, Bad> {
    let table = table();
    LookupJoin::new(Arc::new(plan), &SCANNED, |id| (id == TableId(1)).then_some(&table))
}

/// Rows whose keys are: there, the same, NULL, too large to be stored, not there, there.
fn rows() -> JoinedRows {
    let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Int)];
    for (a, b) in
        [(1, Some(7)), (2, Some(7)), (3, None), (4, Some(500)), (5, Some(8)), (9, Some(6))]
    {
        columns[0].push(ScalarRef::Int(a));
        columns[1].push(b.map_or(ScalarRef::Null, ScalarRef::Int));
    }
    JoinedRows::new(Block::new(6, columns.into()))
}

/// What is found for 7, 8 and 6.
fn found() -> Vec<Option<Vec<Value>>> {
    vec![Some(vec![Value::text("x")]), None, Some(vec![Value::text("y")])]
}

/// Number and text of the joined rows.
fn joined(matching: Matching) -> Vec<(i64, Option<String>)> {
    let mut join = begin(plan(matching, Yield::Rows(vec![0, 2]))).expect("a good plan");
    let rows = rows();
    let keys = join.keys(0, &rows);
    assert_eq!(keys.keys, [7, 8, 6].map(|key| vec![Value::Int(key)]), "each once");
    let rows = join.join(0, rows, &keys, &found()).expect("nothing to compute");
    let Some(block) = join.finish(&rows).expect("nothing to compute") else { return vec![] };
    let row = |at| {
        let number = match block.columns()[0].get(at) {
            ScalarRef::Int(number) => number,
            other => panic!("{other:?}"),
        };
        let text = match block.columns()[1].get(at) {
            ScalarRef::Bytes(text) => Some(String::from_utf8_lossy(text).into_owned()),
            ScalarRef::Null => None,
            other => panic!("{other:?}"),
        };
        (number, text)
    };
    (0..block.rows()).map(row).collect()
}

#[test]
fn rows_with_a_match_stay_or_all_or_those_without() {
    let with = |numbers: &[i64], text: Option<&str>| -> Vec<(i64, Option<String>)> {
        numbers.iter().map(|number| (*number, text.map(str::to_owned))).collect()
    };
    assert_eq!(joined(Matching::Inner), with(&[1, 2], Some("x")));
    let all = [with(&[1, 2], Some("x")), with(&[3, 4, 5, 9], None)].concat();
    assert_eq!(joined(Matching::Left), all);
    assert_eq!(joined(Matching::Anti), with(&[3, 4, 5, 9], None));
}

#[test]
fn groups_are_kept_until_they_are_taken() {
    let count = Aggregate { function: AggregateFunction::Count, node: None, collation: BINARY };
    let keys = vec![GroupKey { node: 2, collation: 255 }];
    let groups = Yield::Groups { keys, aggregates: vec![count] };
    let mut join = begin(plan(Matching::Left, groups)).expect("a good plan");
    for _ in 0..2 {
        let rows = rows();
        let keys = join.keys(0, &rows);
        let rows = join.join(0, rows, &keys, &found()).expect("nothing to compute");
        assert_eq!(join.finish(&rows), Ok(None));
    }
    assert!(join.kept_bytes() > 0);
    let block = join.take_kept().expect("groups");
    let counts: Vec<ScalarRef<'_>> = (0..2).map(|at| block.columns()[1].get(at)).collect();
    assert_eq!((block.rows(), counts), (2, vec![ScalarRef::Int(4), ScalarRef::Int(8)]));
    assert_eq!(join.take_kept(), None);
}

#[test]
fn the_first_rows_are_kept_until_they_are_taken() {
    let mut first = plan(Matching::Left, Yield::Rows(vec![0, 2]));
    let keys = vec![
        TopKey { node: 2, descending: false, collation: 255 },
        TopKey { node: 0, descending: true, collation: BINARY },
    ];
    first.result.top = Some(Top { keys, rows: 3 });
    let mut join = begin(first).expect("a good plan");
    for _ in 0..300 {
        let rows = rows();
        let keys = join.keys(0, &rows);
        let rows = join.join(0, rows, &keys, &found()).expect("nothing to compute");
        assert_eq!(join.finish(&rows), Ok(None));
    }
    assert!(join.kept_bytes() > 0);
    let block = join.take_kept().expect("rows");
    let numbers: Vec<ScalarRef<'_>> = (0..3).map(|at| block.columns()[0].get(at)).collect();
    assert_eq!((block.rows(), numbers), (3, vec![ScalarRef::Int(9); 3]), "NULLs come first");
    assert_eq!(join.take_kept(), None);
}

#[test]
fn what_is_not_exact_is_refused_before_it_counts() {
    let sum = Node::Multiply(1, 1);
    let mut wide = plan(Matching::Left, Yield::Rows(vec![]));
    wide.result = program(&JOINED, vec![sum], vec![], Yield::Rows(vec![3]));
    assert!(!wide.result.is_exact());
    let mut join = begin(wide).expect("a good plan");
    let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Int)];
    columns.iter_mut().for_each(|column| column.push(ScalarRef::Int(i64::MAX)));
    let rows = JoinedRows::new(Block::new(1, columns.into()));
    let keys = join.keys(0, &rows);
    assert!(keys.keys.is_empty(), "no row can have it");
    let rows = join.join(0, rows, &keys, &[]).expect("nothing to compute");
    assert_eq!(join.finish(&rows), Err(Inexact));
}

#[test]
fn a_unique_key_of_two_columns_with_a_constant() {
    let mut by_name = plan(Matching::Inner, Yield::Rows(vec![0, 2]));
    by_name.lookups[0].index = Some(IndexId(5));
    by_name.lookups[0].key = vec![KeyPart::Constant(Value::text("x")), KeyPart::Place(1)];
    let join = begin(by_name).expect("a good plan");
    let keys = join.keys(0, &rows()).keys;
    assert_eq!(keys[0], [Value::text("x"), Value::Int(7)]);
    assert_eq!(keys.len(), 3);
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let good = || plan(Matching::Inner, Yield::Rows(vec![0]));
    assert!(begin(good()).is_ok());
    let refused = |change: &dyn Fn(&mut JoinPlan)| {
        let mut plan = good();
        change(&mut plan);
        assert!(begin(plan).is_err());
    };
    refused(&|plan| plan.lookups[0].table = TableId(2));
    refused(&|plan| plan.lookups[0].version = 4);
    refused(&|plan| plan.lookups[0].index = Some(IndexId(6)));
    refused(&|plan| plan.lookups[0].key.push(KeyPart::Place(0)));
    refused(&|plan| plan.lookups[0].key = vec![KeyPart::Place(2)]);
    refused(&|plan| plan.lookups[0].columns[0].column = ColumnId(7));
    refused(&|plan| plan.lookups[0].columns[0].kind = Kind::Int);
    refused(&|plan| plan.result.inputs[0].column = ColumnId(9));
    refused(&|plan| plan.result.inputs[0].kind = Kind::UInt);
    refused(&|plan| plan.result.references = Some(ColumnId(0)));
    refused(&|plan| plan.lookups[0].conditions.filter = vec![2]);
    refused(&|plan| plan.lookups = vec![plan.lookups[0].clone(); LOOKUPS_MAX + 1]);
}

/// The plan, of which a lookup finds all rows whose key begins with the number.
fn range_plan(matching: Matching, any: bool) -> JoinPlan {
    let mut plan = plan(matching, Yield::Rows(vec![0, 2]));
    let read = program(&[Kind::Int, Kind::Bytes], vec![], vec![], Yield::Rows(vec![1, 0]));
    plan.lookups[0].index = Some(IndexId(8));
    plan.lookups[0].range = Some(Range { program: read, key: vec![1], any });
    plan
}

/// Rows as they are found: the text, and the number by which.
fn found_rows(rows: &[(&str, i64)]) -> Block {
    let mut columns = [Vector::new(Kind::Bytes), Vector::new(Kind::Int)];
    for (text, number) in rows {
        columns[0].push(ScalarRef::Bytes(text.as_bytes()));
        columns[1].push(ScalarRef::Int(*number));
    }
    Block::new(rows.len(), columns.into())
}

/// Number and text of what comes of joined rows.
fn numbers_and_texts(join: &mut LookupJoin, rows: &JoinedRows) -> Vec<(i64, Option<String>)> {
    let Some(block) = join.finish(rows).expect("nothing to compute") else { return Vec::new() };
    let [numbers, texts] = block.columns() else { panic!("two columns") };
    let row = |at| {
        let ScalarRef::Int(number) = numbers.get(at) else { panic!("a number") };
        let text = match texts.get(at) {
            ScalarRef::Bytes(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        (number, text)
    };
    (0..block.rows()).map(row).collect()
}

/// Number and text of what comes of a lookup of many rows, in order, when these come a piece at a
/// time.
fn joined_range(
    matching: Matching,
    any: bool,
    found: &[(&str, i64)],
    piece: usize,
) -> Vec<(i64, Option<String>)> {
    let mut join = begin(range_plan(matching, any)).expect("a good plan");
    let mut range = join.range(0, rows());
    let mut made = Vec::new();
    for piece in found.chunks(piece) {
        assert!(range.is_free());
        join.take_of_range(&mut range, found_rows(piece)).expect("as told");
        while let Some(rows) = join.next_of_range(&mut range).expect("nothing to compute") {
            made.extend(numbers_and_texts(&mut join, &rows));
        }
    }
    let rest = join.rest_of_range(range);
    made.extend(numbers_and_texts(&mut join, &rest));
    made.sort();
    made
}

#[test]
fn many_rows_of_a_key_meet_in_any_pieces() {
    // The keys of the rows are 7, 7, NULL, 500, 8 and 6, and the last one's number must not meet.
    let found = [("x", 7), ("y", 6), ("z", 7), ("other", 9)];
    let text = |text: &str| Some(text.to_owned());
    let pairs = vec![(1, text("x")), (1, text("z")), (2, text("x")), (2, text("z"))];
    let without = [3, 4, 5, 9].map(|number| (number, None)).to_vec();
    for piece in 1..5 {
        let joined = |matching, any| joined_range(matching, any, &found, piece);
        assert_eq!(joined(Matching::Inner, false), pairs);
        assert_eq!(joined(Matching::Left, false), [pairs.clone(), without.clone()].concat());
        assert_eq!(joined(Matching::Inner, true), [(1, None), (2, None)], "a semi-join");
        for any in [false, true] {
            assert_eq!(joined(Matching::Anti, any), without, "an anti-join");
        }
    }
    assert_eq!(joined_range(Matching::Inner, true, &[], 1), []);
    assert_eq!(joined_range(Matching::Anti, true, &[], 1).len(), 6);
}

#[test]
fn pairs_of_many_rows_are_made_a_bounded_number_at_a_time() {
    let join = begin(range_plan(Matching::Inner, false)).expect("a good plan");
    let wide = "w".repeat(60_000);
    for (text, most) in [("x", 4_096), (wide.as_str(), 20)] {
        let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Int)];
        for number in 0..300 {
            columns[0].push(ScalarRef::Int(number % 5));
            columns[1].push(ScalarRef::Int(7));
        }
        let mut range = join.range(0, JoinedRows::new(Block::new(300, columns.into())));
        join.take_of_range(&mut range, found_rows(&[(text, 7); 100])).expect("as told");
        let mut pairs = 0;
        while let Some(rows) = join.next_of_range(&mut range).expect("nothing to compute") {
            assert!(rows.len() <= most, "{} of {most}", rows.len());
            pairs += rows.len();
        }
        assert_eq!(pairs, 300 * 100);
    }
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let good = || range_plan(Matching::Inner, false);
    assert!(begin(good()).is_ok());
    let refused = |change: &dyn Fn(&mut Lookup, &mut Range)| {
        let mut plan = good();
        let mut range = plan.lookups[0].range.take().expect("it has one");
        change(&mut plan.lookups[0], &mut range);
        plan.lookups[0].range = Some(range);
        assert!(begin(plan).is_err());
    };
    refused(&|lookup, _| lookup.index = None);
    refused(&|lookup, _| lookup.index = Some(IndexId(5)));
    refused(&|lookup, _| lookup.key = vec![]);
    refused(&|lookup, _| lookup.key = vec![KeyPart::Place(0); 3]);
    refused(&|_, range| range.key = vec![0]);
    refused(&|_, range| range.key = vec![2]);
    refused(&|_, range| range.key = vec![]);
    refused(&|_, range| range.key = vec![1, 1]);
    refused(&|_, range| range.program.inputs[0].column = ColumnId(9));
    refused(&|_, range| range.program.yields = Yield::Rows(vec![0, 0]));
    let grouped = Yield::Groups { keys: vec![], aggregates: vec![] };
    refused(&|_, range| range.program.yields = grouped.clone());
    // Who does not know of ranges takes it for a lookup by a unique key, of which there is none.
    let mut plan = good();
    plan.lookups[0].range = None;
    assert!(begin(plan).is_err());
    // Rows that are not as told.
    let join = begin(good()).expect("a good plan");
    let mut range = join.range(0, rows());
    let numbers = |kinds: &[Kind]| Block::empty(kinds.iter().copied());
    for kinds in [&[Kind::Bytes][..], &[Kind::Int, Kind::Int], &[Kind::Bytes, Kind::UInt]] {
        assert!(join.take_of_range(&mut range, numbers(kinds)).is_err());
    }
}

/// The plan, of which a lookup is given rows of a text and a number, and looks by the number.
fn given_plan(matching: Matching, rows: &[(&str, Option<i64>)]) -> JoinPlan {
    let mut plan = plan(matching, Yield::Rows(vec![0, 2]));
    let mut columns = [Vector::new(Kind::Bytes), Vector::new(Kind::Int)];
    for (text, number) in rows {
        columns[0].push(ScalarRef::Bytes(text.as_bytes()));
        columns[1].push(number.map_or(ScalarRef::Null, ScalarRef::Int));
    }
    let key = vec![GivenKey { column: 1, collation: BINARY }];
    let lookup = &mut plan.lookups[0];
    (lookup.table, lookup.version) = (NO_TABLE, 0);
    lookup.columns = vec![input(0, Kind::Bytes)];
    lookup.given = Some(Given { rows: Block::new(rows.len(), columns.into()), key });
    plan
}

/// Number and text of what comes of given rows, in order.
fn joined_given(plan: JoinPlan) -> Vec<(i64, Option<String>)> {
    let mut join = begin(plan).expect("a good plan");
    let mut made = Vec::new();
    // Batch after batch looks in the same rows.
    for _ in 0..2 {
        let mut range = join.with_given(0, rows());
        let mut parts = Vec::new();
        while let Some(rows) = join.next_of_range(&mut range).expect("nothing to compute") {
            parts.push(rows);
        }
        assert!(range.is_free());
        parts.push(join.rest_of_range(range));
        made.clear();
        for part in parts {
            made.extend(numbers_and_texts(&mut join, &part));
        }
        made.sort();
    }
    made
}

#[test]
fn given_rows_meet_those_with_their_key() {
    // The keys of the rows are 7, 7, NULL, 500, 8 and 6, and the last one's number must not meet.
    let given = [("x", Some(7)), ("y", Some(6)), ("z", Some(7)), ("far", Some(500)), ("no", None)];
    let text = |text: &str| Some(text.to_owned());
    let mut pairs = vec![(1, text("x")), (1, text("z")), (2, text("x")), (2, text("z"))];
    pairs.push((4, text("far")));
    let without = [3, 5, 9].map(|number| (number, None)).to_vec();
    let joined = |matching| joined_given(given_plan(matching, &given));
    assert_eq!(joined(Matching::Inner), pairs);
    assert_eq!(joined(Matching::Anti), without);
    let mut all = [pairs, without].concat();
    all.sort();
    assert_eq!(joined(Matching::Left), all);
    let of_none = |matching| joined_given(given_plan(matching, &[]));
    assert_eq!(of_none(Matching::Inner), []);
    assert_eq!(of_none(Matching::Left).len(), 6);
}

#[test]
fn given_rows_without_a_key_meet_all() {
    let mut plan = given_plan(Matching::Inner, &[("x", None), ("y", Some(1))]);
    plan.lookups[0].key.clear();
    if let Some(given) = &mut plan.lookups[0].given {
        given.key.clear();
    }
    assert_eq!(joined_given(plan).len(), 10, "all but the number that must not meet");
}

#[test]
fn pairs_with_given_rows_are_made_a_bounded_number_at_a_time() {
    let join = begin(given_plan(Matching::Inner, &[("x", Some(7)); 1_000])).expect("a good plan");
    let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Int)];
    for number in 0..300 {
        columns[0].push(ScalarRef::Int(number % 5));
        columns[1].push(ScalarRef::Int(7));
    }
    let mut range = join.with_given(0, JoinedRows::new(Block::new(300, columns.into())));
    let mut pairs = 0;
    while let Some(rows) = join.next_of_range(&mut range).expect("nothing to compute") {
        assert!(rows.len() <= 4_096, "{}", rows.len());
        pairs += rows.len();
    }
    assert_eq!(pairs, 300 * 1_000);
}

#[test]
fn texts_of_given_rows_are_equal_as_their_collation_has_it() {
    let mut plan = given_plan(Matching::Inner, &[("A", Some(1)), ("b", Some(2))]);
    let kinds = [Kind::Int, Kind::Bytes];
    let lookup = &mut plan.lookups[0];
    lookup.conditions = program(&[], vec![], vec![], Yield::Rows(vec![]));
    lookup.columns = vec![input(1, Kind::Int)];
    if let Some(given) = &mut lookup.given {
        given.key[0] = GivenKey { column: 0, collation: CollationId::UTF8MB4_0900_AI_CI.0 };
    }
    let joined = [Kind::Int, Kind::Bytes, Kind::Int];
    plan.result = program(&joined, vec![], vec![], Yield::Rows(vec![0, 2]));
    let mut join = LookupJoin::new(Arc::new(plan), &kinds, |_| None).expect("a good plan");
    let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Bytes)];
    for (number, text) in [(1, "a"), (2, "B"), (3, "c")] {
        columns[0].push(ScalarRef::Int(number));
        columns[1].push(ScalarRef::Bytes(text.as_bytes()));
    }
    let mut range = join.with_given(0, JoinedRows::new(Block::new(3, columns.into())));
    let rows = join.next_of_range(&mut range).expect("nothing to compute").expect("pairs");
    let block = join.finish(&rows).expect("nothing to compute").expect("rows");
    let row = |at| (block.columns()[0].get(at), block.columns()[1].get(at));
    assert_eq!(row(0), (ScalarRef::Int(1), ScalarRef::Int(1)));
    assert_eq!(row(1), (ScalarRef::Int(2), ScalarRef::Int(2)));
    assert_eq!(block.rows(), 2);
}

#[test]
fn given_rows_that_make_no_sense_are_refused() {
    let good = || given_plan(Matching::Inner, &[("x", Some(7))]);
    assert!(begin(good()).is_ok());
    let refused = |change: &dyn Fn(&mut Lookup, &mut Given)| {
        let mut plan = good();
        let mut given = plan.lookups[0].given.take().expect("it has some");
        change(&mut plan.lookups[0], &mut given);
        plan.lookups[0].given = Some(given);
        assert!(begin(plan).is_err());
    };
    refused(&|lookup, _| lookup.table = TableId(1));
    refused(&|lookup, _| lookup.index = Some(IndexId(8)));
    refused(&|lookup, _| {
        lookup.range = range_plan(Matching::Inner, false).lookups[0].range.clone()
    });
    refused(&|lookup, _| lookup.key = vec![]);
    refused(&|lookup, _| lookup.key = vec![KeyPart::Constant(Value::Int(7))]);
    refused(&|lookup, _| lookup.key = vec![KeyPart::Place(2)]);
    refused(&|lookup, _| lookup.columns[0].column = ColumnId(2));
    refused(&|lookup, _| lookup.columns[0].kind = Kind::Int);
    refused(&|_, given| given.key[0].column = 0);
    refused(&|_, given| given.key[0].column = 2);
    refused(&|_, given| given.key.clear());
    refused(&|_, given| given.rows = Block::empty([].into_iter()));
    let many = vec![("", Some(7)); GIVEN_ROWS_MAX + 1];
    assert!(begin(given_plan(Matching::Inner, &many)).is_err());
    assert!(begin(given_plan(Matching::Inner, &many[1..])).is_ok());
    // What is too large for one lookup is for two.
    let half = "w".repeat(GIVEN_BYTES_MAX / 2);
    let mut two = given_plan(Matching::Inner, &[(&half, Some(7))]);
    assert!(begin(two.clone()).is_ok());
    let second = two.lookups[0].clone();
    two.lookups
        .push(Lookup { conditions: program(&[], vec![], vec![], Yield::Rows(vec![])), ..second });
    assert!(begin(two).is_err());
    // Who does not know of given rows finds no such table.
    let mut plan = good();
    plan.lookups[0].given = None;
    assert!(begin(plan).is_err());
}
