//! Programs over a small table, against the same computed row by row; and programs that make no
//! sense.

use std::collections::BTreeMap;
use std::sync::Arc;

use collation::CollationId;
use model::{Column, ColumnId, ColumnType, Comparison, RowLayout, Table, Value};
use stdx::Prng;

use super::*;

/// Small, big, text, amount (a decimal of 8 bytes): all but the first may be NULL.
fn table() -> Table {
    let text = ColumnType::Text { max_bytes: 40, collation: CollationId::UTF8MB4_0900_AI_CI };
    testing::table("d.t")
        .column("small", testing::INT)
        .nullable("big", testing::BIGINT)
        .nullable("text", text)
        .nullable("amount", ColumnType::Fixed(8))
        .nullable("day", ColumnType::UInt(4))
        .nullable("ratio", ColumnType::Float)
        .build()
}

const KINDS: [Kind; 6] =
    [Kind::Int, Kind::Int, Kind::Bytes, Kind::Decimal, Kind::UInt, Kind::Float];

fn inputs() -> Vec<Input> {
    let input = |(at, kind): (usize, &Kind)| Input { column: ColumnId(at as u16), kind: *kind };
    KINDS.iter().enumerate().map(input).collect()
}

fn amount(number: i64) -> Value {
    let mut bytes = number.to_be_bytes();
    bytes[0] ^= 0x80;
    Value::Bytes(bytes.into())
}

/// A row of the table; `None` stands for NULL in all columns that may be.
fn row(small: i64, rest: Option<(i64, &str, i64, u64, f64)>) -> Vec<u8> {
    let mut values = vec![Value::Int(small)];
    match rest {
        None => values.extend(std::iter::repeat_n(Value::Null, 5)),
        Some((big, text, number, day, ratio)) => values.extend([
            Value::Int(big),
            Value::text(text),
            amount(number),
            Value::UInt(day),
            Value::Float(ratio),
        ]),
    }
    table().layout().encode_values(&values).unwrap().0.to_vec()
}

fn take_all(machine: &mut Machine, table: &Table, rows: &[Vec<u8>]) {
    // As a scan gives them: some at a time.
    for rows in rows.chunks(1_024) {
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        machine.take(table, &rows);
    }
}

/// What a program makes of rows: its blocks' rows in order, and how many rows it gave back.
fn run(program: &Program, rows: &[Vec<u8>]) -> (Vec<Vec<Option<Scalar>>>, usize) {
    let table = table();
    let mut machine =
        Machine::new(Arc::new(program.clone()), &table, BATCH_ROWS).expect("a good program");
    take_all(&mut machine, &table, rows);
    rest(machine)
}

/// What a machine has left.
fn rest(mut machine: Machine) -> (Vec<Vec<Option<Scalar>>>, usize) {
    let (mut made, mut given_back) = (Vec::new(), 0);
    machine.finish();
    while let Some(output) = machine.pop_output() {
        match output {
            Output::Rows(rows) => given_back += rows.len(),
            Output::Block(block) => {
                for at in 0..block.rows() {
                    let values = block.columns().iter().map(|column| scalar(column.get(at)));
                    made.push(values.collect());
                }
            }
        }
    }
    (made, given_back)
}

fn scalar(value: ScalarRef<'_>) -> Option<Scalar> {
    Some(match value {
        ScalarRef::Null => return None,
        ScalarRef::Int(v) => Scalar::Int(v),
        ScalarRef::UInt(v) => Scalar::UInt(v),
        ScalarRef::Float(v) => Scalar::Float(v),
        ScalarRef::Decimal(v) => Scalar::Decimal(Whole(v)),
        ScalarRef::Bytes(v) => Scalar::Bytes(v.into()),
    })
}

fn program(nodes: Vec<Node>, filter: Vec<NodeNumber>, yields: Yield) -> Program {
    let inputs_first = (0..KINDS.len() as u16).map(Node::Input);
    let nodes = inputs_first.chain(nodes).collect();
    Program {
        inputs: inputs(),
        references: None,
        nodes,
        filter,
        yields,
        members: vec![],
        top: None,
    }
}

const BINARY: u16 = 63;
const CI: u16 = 255;

fn aggregate(function: AggregateFunction, node: Option<NodeNumber>) -> Aggregate {
    Aggregate { function, node, collation: CI }
}

#[test]
fn rows_that_pass_come_in_order_over_many_batches() {
    let rows: Vec<Vec<u8>> =
        (0..5_000).map(|n| row(n, (n % 3 != 0).then_some((n, "x", 100 * n, 0, 0.0)))).collect();
    // big >= 4000: unknown where it is NULL.
    let nodes = vec![
        Node::Constant(Scalar::Int(4_000)),
        Node::Compare { order: Comparison::GreaterOrEqual, left: 1, right: 6, collation: BINARY },
    ];
    let (made, given_back) = run(&program(nodes, vec![7], Yield::Rows(vec![0, 3])), &rows);
    let wanted: Vec<Vec<Option<Scalar>>> = (4_000..5_000)
        .filter(|n| n % 3 != 0)
        .map(|n| vec![Some(Scalar::Int(n)), Some(Scalar::Decimal(Whole(i128::from(100 * n))))])
        .collect();
    assert_eq!((made, given_back), (wanted, 0));
}

#[test]
fn groups_are_those_of_the_collation_and_null_is_one() {
    use AggregateFunction as A;
    let texts = ["Straße", "STRASSE", "b", "B", "c"];
    let rows: Vec<Vec<u8>> = (0..3_000)
        .map(|n| {
            let text = texts[n as usize % 5];
            row(n, (n % 7 != 0).then_some((n, text, n, 0, 0.5)))
        })
        .collect();
    let keys = vec![GroupKey { node: 2, collation: CI }];
    let aggregates = vec![
        aggregate(A::Count, None),
        aggregate(A::Sum, Some(3)),
        aggregate(A::Min, Some(1)),
        aggregate(A::Max, Some(0)),
        aggregate(A::Sum, Some(5)),
    ];
    let groups = Yield::Groups { keys, aggregates };
    let (made, given_back) = run(&program(vec![], vec![], groups), &rows);
    assert_eq!(given_back, 0);
    let mut wanted: BTreeMap<Option<String>, (i64, i128, i64, i64, f64)> = BTreeMap::new();
    for n in 0..3_000_i64 {
        let text = (n % 7 != 0).then(|| ["s", "s", "b", "b", "c"][n as usize % 5].to_owned());
        let group = wanted.entry(text).or_insert((0, 0, i64::MAX, 0, 0.0));
        group.0 += 1;
        group.3 = n;
        if n % 7 != 0 {
            group.1 += i128::from(n);
            group.2 = group.2.min(n);
            group.4 += 0.5;
        }
    }
    assert_eq!(made.len(), wanted.len());
    for values in made {
        let text = match &values[0] {
            Some(Scalar::Bytes(text)) => Some(String::from_utf8_lossy(&text[..1]).to_lowercase()),
            _ => None,
        };
        let (count, sum, min, max, floats) = wanted[&text];
        let none = text.is_none();
        let expected = vec![
            Some(Scalar::Int(count)),
            Some(Scalar::Decimal(Whole(sum))).filter(|_| !none),
            Some(Scalar::Int(min)).filter(|_| !none),
            Some(Scalar::Int(max)),
            Some(Scalar::Float(floats)).filter(|_| !none),
        ];
        assert_eq!(values[1..], expected, "{text:?}");
    }
}

#[test]
fn more_groups_than_memory_come_in_parts() {
    let rows: Vec<Vec<u8>> = (0..60_000)
        .map(|n| row(n % 30_000, Some((n, &"long text ".repeat(3), 1, 0, 0.0))))
        .collect();
    let keys = vec![GroupKey { node: 0, collation: BINARY }, GroupKey { node: 2, collation: CI }];
    let aggregates = vec![aggregate(AggregateFunction::Sum, Some(3))];
    let (made, _) = run(&program(vec![], vec![], Yield::Groups { keys, aggregates }), &rows);
    assert!(made.len() > 30_000, "{} groups: nothing was given out early", made.len());
    let mut sums: BTreeMap<i64, i128> = BTreeMap::new();
    for values in made {
        let (Some(Scalar::Int(key)), Some(Scalar::Decimal(sum))) = (&values[0], &values[2]) else {
            panic!("{values:?}");
        };
        *sums.entry(*key).or_default() += sum.0;
    }
    assert!(sums.len() == 30_000 && sums.values().all(|sum| *sum == 2));
}

#[test]
fn groups_of_groups_are_the_groups_of_all_rows() {
    let rows: Vec<Vec<u8>> = (0..5_000)
        .map(|n| {
            let more = (n * 7 % 13 - 6, ["a", "A", "b"][n as usize % 3], n, n as u64 % 4, n as f64);
            row(n % 100, (n % 11 > 0).then_some(more))
        })
        .collect();
    use AggregateFunction as A;
    // By a number without NULL, by one with NULLs, by both and a text.
    for by in [vec![0], vec![1], vec![1, 2, 0]] {
        let keys = by.iter().map(|node| GroupKey { node: *node, collation: CI }).collect();
        let of = [(A::Count, 1), (A::Sum, 3), (A::Min, 1), (A::Max, 2), (A::Sum, 1)];
        let aggregates = of.map(|(function, node)| aggregate(function, Some(node))).to_vec();
        let program = program(vec![], vec![], Yield::Groups { keys, aggregates });
        let sorted = |block: &Block| {
            let row = |at| block.columns().iter().map(|c| format!("{:?}", c.get(at))).collect();
            let mut rows: Vec<Vec<String>> = (0..block.rows()).map(row).collect();
            rows.sort();
            rows
        };
        let computer = Computer::new(program.clone()).unwrap();
        let mut all = computer.groups().unwrap();
        let mut merged = computer.groups().unwrap();
        for part in rows.chunks(700) {
            let table = table();
            let mut machine = Machine::new(Arc::new(program.clone()), &table, BATCH_ROWS).unwrap();
            take_all(&mut machine, &table, part);
            machine.finish();
            while let Some(Output::Block(block)) = machine.pop_output() {
                let half = block.rows() / 2;
                merged.merge(&program, &block, 0..half).unwrap();
                merged.merge(&program, &block, half..block.rows()).unwrap();
            }
            let columns = program.inputs.iter().map(|input| {
                let mut vector = Vector::new(input.kind);
                part.iter().for_each(|row| vector.push_stored(table.value(row, input.column)));
                std::rc::Rc::new(vector)
            });
            computer.group(&mut all, columns.collect(), part.len()).unwrap();
        }
        // Which of two equal texts is shown depends on which came first.
        let (all, merged) = (all.finish(), merged.finish());
        assert_eq!(sorted(&all).len(), sorted(&merged).len());
        if by.len() == 1 {
            let numbers = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
                rows.into_iter()
                    .map(|mut row| {
                        row.remove(4);
                        row
                    })
                    .collect()
            };
            assert_eq!(numbers(sorted(&all)), numbers(sorted(&merged)), "by {by:?}");
        }
    }
}

#[test]
fn short_values_are_told_apart() {
    let texts = ["", "\0", "\0\0", "a", "a ", "\u{1}a", "longer than sixteen bytes"];
    let numbers = [0, 1, 255, 256, -1, i64::MIN, i64::MAX];
    let mut rows = vec![row(0, None)];
    for text in texts {
        for big in numbers {
            rows.extend([row(1, Some((big, text, -big.max(-9), 0, 0.0))), row(2, None)]);
        }
    }
    let rows = [rows.clone(), rows].concat();
    for (nodes, wanted) in [
        // Texts under utf8mb4_0900_bin, which does not pad.
        (vec![2], texts.len() + 1),
        (vec![2, 1], texts.len() * numbers.len() + 1),
        (vec![1, 2, 3], texts.len() * numbers.len() + 1),
        (vec![3, 2], texts.len() * numbers.len() + 1),
    ] {
        let key = |node: &u16| GroupKey { node: *node, collation: 309 };
        let keys = nodes.iter().map(key).collect();
        let aggregates = vec![aggregate(AggregateFunction::Count, None)];
        let program = program(vec![], vec![], Yield::Groups { keys, aggregates });
        let (made, given_back) = run(&program, &rows);
        assert_eq!((made.len(), given_back), (wanted, 0), "by {nodes:?}");
        let total: i128 = made
            .iter()
            .map(|group| match group.last() {
                Some(Some(Scalar::Int(count))) => i128::from(*count),
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(total, rows.len() as i128);
    }
}

#[test]
fn only_the_first_rows_in_an_order_are_given() {
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let rows: Vec<Vec<u8>> = (0..6_000)
        .map(|n| {
            let text = ["b", "A", "a", "\u{e4}", ""][next(5) as usize];
            let rest = (next(40) as i64 - 20, text, next(1_000) as i64, next(9), next(7) as f64);
            row(n, (next(10) > 0).then_some(rest))
        })
        .collect();
    let all = program(vec![], vec![], Yield::Rows((0..6).collect()));
    let (everything, _) = run(&all, &rows);
    for (by, wanted) in
        [(vec![(1, false)], 10), (vec![(2, true), (3, false)], 700), (vec![(0, true)], 1)]
    {
        let key = |(node, descending): &(u16, bool)| TopKey {
            node: *node,
            descending: *descending,
            collation: CollationId::UTF8MB4_0900_AI_CI.0,
        };
        let top = Some(Top { keys: by.iter().map(key).collect(), rows: wanted });
        let (made, given_back) = run(&Program { top, ..all.clone() }, &rows);
        assert!(given_back == 0 && made.len() >= wanted as usize);
        // As the values are ordered, whichever of equal ones they are.
        let keys_of = |rows: Vec<Vec<Option<Scalar>>>| {
            let mut keys: Vec<Vec<(bool, i128, Vec<u8>)>> = rows
                .iter()
                .map(|row| {
                    by.iter().map(|(node, down)| order_of(&row[*node as usize], *down)).collect()
                })
                .collect();
            keys.sort();
            keys.truncate(wanted as usize);
            keys
        };
        assert_eq!(keys_of(made), keys_of(everything.clone()), "by {by:?}");
    }
    let keys = vec![TopKey { node: 9, descending: false, collation: 63 }];
    let bad = Program { top: Some(Top { keys, rows: 1 }), ..all.clone() };
    assert!(bad.check(&table()).is_err());
    let bad = Program { top: Some(Top { keys: vec![], rows: TOP_ROWS_MAX + 1 }), ..all };
    assert!(bad.check(&table()).is_err());
}

/// Something that is ordered as values are: NULL first, and all turned round where it is said.
fn order_of(value: &Option<Scalar>, descending: bool) -> (bool, i128, Vec<u8>) {
    let turned = |number: i128| if descending { -number } else { number };
    match value {
        None => (descending, 0, vec![]),
        Some(Scalar::Int(v)) => (!descending, turned((*v).into()), vec![]),
        Some(Scalar::Decimal(v)) => (!descending, turned(v.0), vec![]),
        Some(Scalar::Bytes(text)) => {
            let mut key = Vec::new();
            collation::sort_key(CollationId::UTF8MB4_0900_AI_CI, text, &mut key);
            // No key of these is the beginning of another but the empty one.
            let number = key.iter().chain([0; 15].iter()).take(15);
            (!descending, turned(number.fold(0, |n, byte| n << 8 | i128::from(*byte))), vec![])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_without_a_member_key_are_dropped() {
    let rows: Vec<Vec<u8>> = (0..3_000).map(|n| row(n, None)).collect();
    let keys = Vector { values: Values::Int(vec![5, 2_999, 70]), nulls: vec![] };
    let members = KeySet::new(0, &[&keys]).into_iter().collect();
    let program = Program { members, ..program(vec![], vec![], Yield::Rows(vec![0])) };
    let (made, given_back) = run(&program, &rows);
    let wanted: Vec<_> = [5, 70, 2_999].map(|n| vec![Some(Scalar::Int(n))]).into();
    assert_eq!((made, given_back), (wanted, 0));
}

#[test]
fn rows_of_older_layouts_have_the_defaults_of_later_columns() {
    let mut table = table();
    let old: Vec<Vec<u8>> = (0..900).map(|n| row(n, Some((n, "old", n, 1, 0.5)))).collect();
    table.columns.push(Column {
        name: "later".to_owned(),
        column_type: ColumnType::Int(2),
        nullable: false,
        default: Value::Int(77),
    });
    table.layouts.push(Arc::new(RowLayout::new(1, &table.columns)));
    let new = |n: i64| {
        let mut values = vec![Value::Int(n), Value::Null, Value::text("new")];
        values.extend([amount(n), Value::UInt(2), Value::Null, Value::Int(-1)]);
        table.layout().encode_values(&values).unwrap().0.to_vec()
    };
    // In runs of different lengths.
    let rows: Vec<Vec<u8>> = old
        .into_iter()
        .zip(0..)
        .map(|(row, n)| if n % 100 < n / 10 { new(n) } else { row })
        .collect();
    let mut inputs = inputs();
    inputs.push(Input { column: ColumnId(6), kind: Kind::Int });
    let nodes: Vec<Node> =
        (0..7).map(Node::Input).chain([Node::Constant(Scalar::Int(-1))]).collect();
    let is_new = Node::Compare { order: Comparison::Equal, left: 6, right: 7, collation: 0 };
    let nodes: Vec<Node> = nodes.into_iter().chain([is_new]).collect();
    for filter in [vec![], vec![8]] {
        let program = Program {
            inputs: inputs.clone(),
            references: None,
            nodes: nodes.clone(),
            filter: filter.clone(),
            yields: Yield::Rows((0..7).collect()),
            members: vec![],
            top: None,
        };
        let mut machine = Machine::new(Arc::new(program), &table, BATCH_ROWS).unwrap();
        take_all(&mut machine, &table, &rows);
        machine.finish();
        let mut at = rows.iter().filter(|row| filter.is_empty() || row[0] == 1);
        while let Some(Output::Block(block)) = machine.pop_output() {
            for made in 0..block.rows() {
                let row = at.next().expect("no more rows than were taken");
                for (column, vector) in block.columns().iter().enumerate() {
                    let mut wanted = Vector::new(vector.kind());
                    wanted.push_stored(table.value(row, ColumnId(column as u16)));
                    assert_eq!(vector.get(made), wanted.get(0), "column {column}");
                }
            }
        }
        assert_eq!(at.next(), None);
    }
}

#[test]
fn a_machine_in_parts_makes_the_same() {
    let mut prng = Prng::new(5);
    let rows: Vec<Vec<u8>> =
        (0..9_000).map(|n| row(n, (n % 7 > 0).then_some((n % 13, "ä", -n, 7, 0.5)))).collect();
    let aggregates =
        vec![aggregate(AggregateFunction::Sum, Some(3)), aggregate(AggregateFunction::Count, None)];
    let less = Node::Compare { order: Comparison::Less, left: 6, right: 1, collation: BINARY };
    let nodes = || vec![Node::Constant(Scalar::Int(5)), less.clone()];
    for yields in [
        Yield::Rows(vec![0, 1, 3]),
        Yield::Groups { keys: vec![GroupKey { node: 1, collation: BINARY }], aggregates },
    ] {
        let program = program(nodes(), vec![7], yields);
        let table = table();
        let mut machine = Machine::new(Arc::new(program.clone()), &table, BATCH_ROWS).unwrap();
        for rows in rows.chunks(100) {
            machine.limit(*prng.pick(&[0, 1, 64, 256, 1_000]), 256);
            take_all(&mut machine, &table, rows);
        }
        let (whole, parts) = (run(&program, &rows), rest(machine));
        assert!(whole.0.len() > 4 && whole == parts);
    }
}

#[test]
fn what_cannot_be_computed_comes_as_it_was() {
    let rows: Vec<Vec<u8>> = (0..3_000)
        .map(|n| row(n, Some((if n == 1_500 { i64::MAX } else { n }, "ä", -n, 7, 1e300))))
        .collect();
    let keys = vec![];
    let aggregates = vec![aggregate(AggregateFunction::Sum, Some(6))];
    let nodes = vec![Node::Add(0, 1)];
    let table = table();
    let program = program(nodes, vec![], Yield::Groups { keys, aggregates });
    let mut machine = Machine::new(Arc::new(program.clone()), &table, BATCH_ROWS).unwrap();
    take_all(&mut machine, &table, &rows);
    machine.finish();
    let mut outputs = std::iter::from_fn(|| machine.pop_output());
    let Some(Output::Rows(given_back)) = outputs.next() else { panic!("no rows") };
    // The whole batch, as it is stored, in the layout of the inputs, which are all columns.
    assert!(given_back.iter().map(|row| &row.0[..]).eq(rows[1_024..2_048].iter().map(|r| &r[..])));
    let Some(Output::Block(block)) = outputs.next() else { panic!("no groups") };
    let others: i128 = (0..1_024).chain(2_048..3_000).map(|n| 2 * n).sum();
    assert_eq!(block.columns()[0].get(0), ScalarRef::Decimal(others));
    assert!(outputs.next().is_none());
}

#[test]
fn a_float_sum_that_may_leave_its_range_is_not_begun() {
    let rows: Vec<Vec<u8>> = (0..10).map(|n| row(n, Some((n, "", 0, 0, f64::MAX)))).collect();
    let aggregates = vec![aggregate(AggregateFunction::Sum, Some(5))];
    let groups = Yield::Groups { keys: vec![], aggregates };
    let (made, given_back) = run(&program(vec![], vec![], groups), &rows);
    assert_eq!((made.len(), given_back), (0, 10));
}

#[test]
fn three_valued_logic() {
    // Of NULL, 0 and 1 with one another.
    let values = [None, Some(0), Some(1)];
    let mut rows = Vec::new();
    for a in values {
        for b in values {
            let vector = |v: Option<i64>| v.map_or(ScalarRef::Null, ScalarRef::Int);
            rows.push((vector(a), vector(b)));
        }
    }
    let (mut left, mut right) = (Vector::new(Kind::Int), Vector::new(Kind::Int));
    for (a, b) in &rows {
        left.push(*a);
        right.push(*b);
    }
    let nodes = [
        Node::Input(0),
        Node::Input(1),
        Node::And(vec![0, 1]),
        Node::Or(vec![0, 1]),
        Node::Not(0),
        Node::IsNull(0),
        Node::In { operand: 0, list: vec![Scalar::Int(1)], with_null: true, collation: BINARY },
        Node::Case { branches: vec![(0, 1)], otherwise: 0 },
    ];
    let kinds = [Kind::Int; 8];
    let inputs = [left, right].map(std::rc::Rc::new).to_vec();
    let mut batch = evaluate::Batch::new(&nodes, &kinds, inputs, rows.len());
    let mut of = |node: u16| {
        let vector = batch.value(node).unwrap();
        (0..9)
            .map(|at| match vector.get(at) {
                ScalarRef::Null => '-',
                ScalarRef::Int(0) => '0',
                _ => '1',
            })
            .collect::<String>()
    };
    assert_eq!(of(2), "-0-000-01", "AND");
    assert_eq!(of(3), "--1-01111", "OR");
    assert_eq!(of(4), "---111000", "NOT");
    assert_eq!(of(5), "111000000", "IS NULL");
    assert_eq!(of(6), "------111", "IN (1, NULL)");
    assert_eq!(of(7), "---000-01", "CASE WHEN a THEN b ELSE a END");
}

#[test]
fn a_program_that_is_let_through_runs_whatever_it_is() {
    let table = table();
    let mut prng = Prng::new(11);
    let (mut good, mut bad) = (0, 0);
    while good < 2_000 {
        let program = any_program(&mut prng);
        let Ok(mut machine) = Machine::new(Arc::new(program.clone()), &table, BATCH_ROWS) else {
            bad += 1;
            continue;
        };
        good += 1;
        for n in 0..prng.below(40) as i64 {
            let extreme = [i64::MIN, -1, 0, 1, i64::MAX];
            let rest = prng.percent(80).then(|| {
                let text = *prng.pick(&["", "a", "Ä", "%", "zzz"]);
                let float = *prng.pick(&[0.0, -0.0, f64::MAX, f64::MIN_POSITIVE, -1.5]);
                let day = *prng.pick(&[0, 1, u64::from(u32::MAX)]);
                (*prng.pick(&extreme), text, *prng.pick(&extreme), day, float)
            });
            machine.take(&table, &[&row(n, rest)]);
        }
        machine.finish();
        while machine.pop_output().is_some() {}
    }
    assert!(bad > 1_000, "{bad} programs were refused: hardly any was strange");
}

fn any_program(prng: &mut Prng) -> Program {
    let mut nodes: Vec<Node> = (0..KINDS.len() as u16).map(Node::Input).collect();
    let scalars = [
        Scalar::Int(-1),
        Scalar::UInt(5),
        Scalar::Float(0.5),
        Scalar::Decimal(Whole(i128::MAX)),
        Scalar::Bytes(b"a"[..].into()),
    ];
    for _ in 0..prng.below(12) {
        // Now and then one that is not before it, or of a kind that does not fit.
        let reach = nodes.len() as u64 + u64::from(prng.percent(2));
        let a = prng.below(reach) as u16;
        let b = if prng.percent(50) { a } else { prng.below(reach) as u16 };
        let c = prng.below(reach) as u16;
        let collation = *prng.pick(&[BINARY, CI, CI, 46, 45]);
        let order = *prng.pick(&[
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::Greater,
        ]);
        nodes.push(match prng.below(18) {
            0 => Node::Constant(prng.pick(&scalars).clone()),
            1 => Node::Null(*prng.pick(&KINDS)),
            2 | 3 => Node::Compare { order, left: a, right: b, collation },
            4 => {
                let list = vec![prng.pick(&scalars).clone()];
                Node::In { operand: a, list, with_null: prng.percent(50), collation }
            }
            5 => {
                let (pattern, escape) = (b"%\\_a"[..].into(), Some(u32::from('\\')));
                Node::Like { operand: a, pattern, escape, collation }
            }
            6 => Node::And(vec![a, b]),
            7 => Node::Or(vec![a, b]),
            8 => Node::Not(a),
            9 => Node::IsNull(a),
            10 => Node::Add(a, b),
            11 => Node::Subtract(a, b),
            12 => Node::Multiply(a, b),
            13 => Node::Scale { operand: a, by: prng.below(41) as u8 },
            14 => Node::Float(a),
            15 => Node::Midnight(a),
            16 => Node::Part { operand: a, part: DatePart::Month, timed: prng.percent(50) },
            _ => Node::Case { branches: vec![(a, b)], otherwise: c },
        });
    }
    let reach = nodes.len() as u64;
    let any = |prng: &mut Prng| prng.below(reach) as u16;
    let filter = (0..prng.below(2)).map(|_| any(prng)).collect();
    let yields = if prng.percent(50) {
        Yield::Rows((0..prng.below(4)).map(|_| any(prng)).collect())
    } else {
        use AggregateFunction as A;
        let key = |prng: &mut Prng| GroupKey { node: any(prng), collation: CI };
        let keys = (0..prng.below(3)).map(|_| key(prng)).collect();
        let functions = [A::Count, A::Sum, A::Min, A::Max, A::First];
        let aggregates = (0..prng.below(4))
            .map(|_| aggregate(*prng.pick(&functions), prng.percent(95).then(|| any(prng))))
            .collect();
        Yield::Groups { keys, aggregates }
    };
    let keys = Vector { values: Values::Int(vec![1, 5, 1_000_000]), nulls: vec![] };
    let input = prng.below(KINDS.len() as u64 + 1) as u16;
    let members =
        if prng.percent(10) { KeySet::new(input, &[&keys]).into_iter().collect() } else { vec![] };
    Program { inputs: inputs(), references: None, nodes, filter, yields, members, top: None }
}

#[test]
fn stored_decimals_come_back() {
    for number in [0, 1, -1, 255, -256, i64::MAX.into(), i64::MIN.into()] {
        for size in [8, 9, 16] {
            let stored = ScalarRef::Decimal(number).stored(size);
            let Value::Bytes(bytes) = stored else { panic!("{stored:?}") };
            assert_eq!(vector::decimal_of(&bytes), number, "{number} in {size}");
        }
    }
}

#[test]
fn rows_that_refer_to_values_elsewhere_come_as_they_are() {
    let rows: Vec<Vec<u8>> = (0..5_000)
        .map(|n| row(n, if n % 3 == 0 { None } else { Some((n, "x", 0, 0, 0.0)) }))
        .collect();
    let groups =
        Yield::Groups { keys: vec![], aggregates: vec![aggregate(AggregateFunction::Count, None)] };
    // The second column is NULL where a row is whole.
    let program = Program { references: Some(ColumnId(1)), ..program(vec![], vec![], groups) };
    let (made, given_back) = run(&program, &rows);
    assert_eq!(given_back, 3_333);
    assert_eq!(made, [vec![Some(Scalar::Int(1_667))]]);
    let beyond = Program { references: Some(ColumnId(99)), ..program };
    assert!(beyond.check(&table()).is_err());
}
