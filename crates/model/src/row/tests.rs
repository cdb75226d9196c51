//! Rows and keys against their contracts, with random values.

use std::sync::Arc;

use stdx::Prng;

use super::*;
use crate::key::{Key, KeyEncoder};
use crate::schema::Table;

fn column(name: &str, column_type: ColumnType, nullable: bool) -> Column {
    Column { name: name.into(), column_type, nullable, default: Value::Null }
}

fn columns() -> Vec<Column> {
    vec![
        column("a", ColumnType::Int(4), false),
        column("b", ColumnType::UInt(8), true),
        column("c", ColumnType::Variable(300), true),
        column("d", ColumnType::Float, true),
        column("e", ColumnType::Fixed(3), false),
        column("f", ColumnType::Variable(50), false),
    ]
}

fn random_value(prng: &mut Prng, column: &Column) -> Value {
    if column.nullable && prng.percent(30) {
        return Value::Null;
    }
    match column.column_type {
        ColumnType::Int(_) => Value::Int(i64::from(prng.next_u64() as i32)),
        ColumnType::UInt(_) => Value::UInt(prng.next_u64() >> prng.below(64)),
        ColumnType::Float => Value::Float(prng.next_u64() as i32 as f64 / 7.0),
        ColumnType::Fixed(n) => Value::Bytes((0..n).map(|_| prng.below(3) as u8).collect()),
        ColumnType::Variable(n) | ColumnType::Text { max_bytes: n, .. } => {
            let len = prng.below(u64::from(n.min(5)) + 1);
            Value::Bytes((0..len).map(|_| prng.below(3) as u8).collect())
        }
    }
}

#[test]
fn rows_read_back_what_was_encoded() {
    let columns = columns();
    let layout = RowLayout::new(0, &columns);
    let mut prng = Prng::new(1);
    for _ in 0..2_000 {
        let values: Vec<Value> = columns.iter().map(|c| random_value(&mut prng, c)).collect();
        let row = layout.encode_values(&values).expect("values fit");
        assert!(layout.check(&row.0));
        for (i, value) in values.iter().enumerate() {
            let read = layout.get(&row.0, ColumnId(i as u16)).expect("column exists");
            assert_eq!(read.to_value(), *value, "column {i}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let columns = columns();
    let layout = RowLayout::new(0, &columns);
    let good = [
        Value::Int(1),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::text("abc"),
        Value::text("f"),
    ];
    let with = |at: usize, value: Value| {
        let mut values = good.clone();
        values[at] = value;
        layout.encode_values(&values)
    };
    assert!(layout.encode_values(&good).is_ok());
    assert_eq!(with(0, Value::Int(1 << 31)), Err(RowError::OutOfRange(ColumnId(0))));
    assert_eq!(with(0, Value::Null), Err(RowError::NotNull(ColumnId(0))));
    assert_eq!(with(1, Value::Int(-1)), Err(RowError::OutOfRange(ColumnId(1))));
    assert_eq!(with(3, Value::Float(f64::NAN)), Err(RowError::OutOfRange(ColumnId(3))));
    assert_eq!(with(4, Value::text("ab")), Err(RowError::OutOfRange(ColumnId(4))));
    assert_eq!(layout.encode_values(&good[..5]), Err(RowError::ColumnCount));
}

#[test]
fn a_value_of_32_kilobytes_fits_and_damage_is_noticed() {
    let columns = vec![column("v", ColumnType::Variable(60_000), false)];
    let layout = RowLayout::new(0, &columns);
    let big = Value::Bytes(vec![7; 32 << 10].into());
    let row = layout.encode_values(std::slice::from_ref(&big)).expect("fits");
    assert_eq!(layout.get(&row.0, ColumnId(0)).map(ValueRef::to_value), Some(big));
    assert!(!layout.check(&row.0[..row.0.len() - 1]));
    assert!(!layout.check(&[]));
}

#[test]
fn key_bytes_order_as_values_do() {
    let columns = columns();
    let mut prng = Prng::new(2);
    let encode = |values: &[Value]| {
        let mut encoder = KeyEncoder::new();
        for (column, value) in columns.iter().zip(values) {
            encoder.push(column.column_type, column.nullable, value.as_ref()).expect("fits");
        }
        encoder.finish()
    };
    let order = |a: &[Value], b: &[Value]| {
        for (x, y) in a.iter().zip(b) {
            let order = match (x, y) {
                (Value::Null, Value::Null) => std::cmp::Ordering::Equal,
                (Value::Null, _) => std::cmp::Ordering::Less,
                (_, Value::Null) => std::cmp::Ordering::Greater,
                _ => x.as_ref().compare(y.as_ref()).expect("same kind"),
            };
            if order.is_ne() {
                return order;
            }
        }
        std::cmp::Ordering::Equal
    };
    let mut draw = || -> Vec<Value> {
        columns
            .iter()
            .map(|c| match c.column_type {
                ColumnType::Int(_) => Value::Int(prng.below(3) as i64 - 1),
                _ => random_value(&mut prng, c),
            })
            .collect()
    };
    for _ in 0..5_000 {
        let (a, b) = (draw(), draw());
        assert_eq!(encode(&a).cmp(&encode(&b)), order(&a, &b), "{a:?} against {b:?}");
    }
}

#[test]
fn a_key_is_recognised_in_its_row_alone() {
    let columns = columns();
    let layout = RowLayout::new(0, &columns);
    let mut prng = Prng::new(3);
    let mut draw =
        || -> Vec<Value> { columns.iter().map(|c| random_value(&mut prng, c)).collect() };
    let encode = |values: &[Value]| {
        let mut encoder = KeyEncoder::new();
        for (column, value) in columns.iter().zip(values) {
            encoder.push(column.column_type, column.nullable, value.as_ref()).expect("fits");
        }
        encoder.finish()
    };
    let has_key = |row: &[u8], key: &[u8]| {
        let mut rest = key;
        for (at, column) in columns.iter().enumerate() {
            let value = layout.get(row, ColumnId(at as u16)).expect("column exists");
            let (column_type, nullable) = (column.column_type, column.nullable);
            let Some(after) = crate::key::strip_value(rest, column_type, nullable, value) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    };
    for _ in 0..2_000 {
        let (a, mut b) = (draw(), draw());
        // Often all but one column are equal.
        let at = b.len() / 2;
        b[..at].clone_from_slice(&a[..at]);
        let row = layout.encode_values(&a).expect("values fit");
        assert!(has_key(&row.0, encode(&a).bytes()));
        assert_eq!(has_key(&row.0, encode(&b).bytes()), encode(&a) == encode(&b));
    }
}

#[test]
fn keys_of_text_are_its_weights() {
    let binary = collation::CollationId::BINARY;
    let text = ColumnType::Text { max_bytes: 2, collation: binary };
    let key = |bytes: &[u8]| {
        let mut encoder = KeyEncoder::new();
        encoder.push(text, false, ValueRef::Bytes(bytes))?;
        Some(encoder.finish())
    };
    assert_eq!(key(b"ab").unwrap().bytes(), b"ab\0\0");
    assert_eq!(key(b"a\0").unwrap().bytes(), b"a\0\xFF\0\0");
    // Two zero bytes are escaped to four, the most that two bytes can take.
    assert_eq!(key(b"\0\0").unwrap().bytes(), b"\0\xFF\0\xFF\0\0");
    assert_eq!(key(b"abc"), None);
    let stripped = |key: &Key, bytes: &[u8]| {
        crate::key::strip_value(key.bytes(), text, false, ValueRef::Bytes(bytes)).map(<[u8]>::len)
    };
    assert_eq!(stripped(&key(b"ab").unwrap(), b"ab"), Some(0));
    assert_eq!(stripped(&key(b"ab").unwrap(), b"a"), None);
}

#[test]
fn projected_rows_have_the_values_of_their_columns() {
    let mut columns = columns();
    let before = columns.clone();
    columns.push(Column { default: Value::Int(-7), ..column("g", ColumnType::Int(4), true) });
    columns.push(column("h", ColumnType::Int(8), true));
    let table = of_layouts(&columns, &[&before, &columns]);
    let mut prng = Prng::new(8);
    let mut all = Vec::new();
    for _ in 0..2_000 {
        let layout = &table.layouts[prng.below(2) as usize];
        let values: Vec<Value> = columns
            .iter()
            .take(layout.column_count())
            .map(|c| random_value(&mut prng, c))
            .collect();
        let row = layout.encode_values(&values).expect("values fit");
        let mut all_columns: Vec<ColumnId> = (0..columns.len() as u16).map(ColumnId).collect();
        let count = prng.below(9);
        let wanted: Vec<ColumnId> = (0..count)
            .map(|_| all_columns.swap_remove(prng.below(all_columns.len() as u64) as usize))
            .collect();
        let projection = RowProjection::new(&table, &wanted);
        let definitions: Vec<Column> =
            wanted.iter().map(|c| columns[usize::from(c.0)].clone()).collect();
        let to = RowLayout::new(0, &definitions);
        let values: Vec<ValueRef<'_>> = wanted.iter().map(|c| table.value(&row.0, *c)).collect();
        let expected = to.encode(&values).expect("values fit");
        assert_eq!(projection.project(&table, &row.0), Ok(expected.clone()));
        let before = all.len();
        projection.append(&table, &row.0, &mut all).expect("values fit");
        assert_eq!(all[before..], expected.0[..], "behind other rows");
    }
}

/// A table of an INT that is its key, an INT, a text and bytes; its rows may have two layouts.
fn of_layouts(columns: &[Column], layouts: &[&[Column]]) -> Table {
    let layout =
        |(number, columns): (usize, &&[Column])| Arc::new(RowLayout::new(number as u8, columns));
    Table {
        id: crate::TableId(1),
        name: "t".into(),
        version: 1,
        hidden_behind: None,
        layouts: layouts.iter().enumerate().map(layout).collect(),
        columns: columns.to_vec(),
        primary_key: vec![ColumnId(0)],
        distribution_key: vec![ColumnId(0)],
        partition_count: 2,
        ordered_indexes: vec![],
        unique_indexes: vec![],
        large: None,
        writes_blocked: false,
        journal: None,
        alike: None,
        description: Default::default(),
    }
}

#[test]
fn a_projection_reads_rows_when_the_table_has_got_a_layout_since_it_was_made() {
    let before = columns();
    let mut after = before.clone();
    // Nine columns that may be NULL: the fixed columns lie elsewhere, and so do the variable ones.
    after.extend((0..9).map(|n| column(&format!("n{n}"), ColumnType::Int(8), true)));
    let old = of_layouts(&before, &[&before]);
    let new = of_layouts(&after, &[&before, &after]);
    let wanted = [ColumnId(5), ColumnId(0), ColumnId(2)];
    let projection = RowProjection::new(&old, &wanted);
    let result = RowLayout::of(0, wanted.iter().map(|c| &before[usize::from(c.0)]));
    let mut prng = Prng::new(9);
    for _ in 0..500 {
        let values: Vec<Value> = before.iter().map(|c| random_value(&mut prng, c)).collect();
        let row = old.layout().encode_values(&values).expect("values fit");
        let some: Vec<Value> = wanted.iter().map(|c| values[usize::from(c.0)].clone()).collect();
        let expected = result.encode_values(&some).expect("values fit");
        assert_eq!(projection.project(&new, &row.0), Ok(expected.clone()));
        let mut out = Vec::new();
        projection.append(&new, &row.0, &mut out).expect("values fit");
        assert_eq!(out, expected.0.to_vec());
    }
}

#[test]
fn rows_of_older_layouts_read_as_what_their_columns_have_become() {
    let before = columns();
    let mut after = before.clone();
    after[1] = Column::hole(ColumnId(1));
    after[2].column_type = ColumnType::Variable(900);
    after[4].nullable = true;
    let table = of_layouts(&after, &[&before, &after]);
    let values: Vec<Value> = vec![
        Value::Int(-5),
        Value::UInt(7),
        Value::Bytes((*b"abc").into()),
        Value::Null,
        Value::Bytes((*b"xyz").into()),
        Value::Bytes((*b"").into()),
    ];
    let row = table.layouts[0].encode_values(&values).expect("values fit");
    let now: Vec<ValueRef<'_>> = (0..6).map(|c| table.value_now(&row.0, ColumnId(c))).collect();
    for (at, value) in values.iter().enumerate() {
        let expected = if at == 1 { &Value::Null } else { value };
        assert_eq!(now[at].to_value(), *expected, "column {at}");
    }
    let again = table.layout().encode(&now).expect("it is a row of the newest layout");
    assert!(table.layout().check(&again.0));
    assert!(table.value(&again.0, ColumnId(1)).is_null());
    assert_eq!(table.value(&again.0, ColumnId(2)), ValueRef::Bytes(b"abc"));
}
