//! Definitions that change under a partition: columns added, indexes built and dropped.

use super::history::World;
use super::*;

/// The table with a column more, and an index on it.
fn with_column(before: &Table) -> Table {
    let mut table = before.clone();
    table.version += 1;
    let default = Value::UInt(7);
    let column_type = ColumnType::UInt(8);
    table.columns.push(Column { name: "f".into(), column_type, nullable: true, default });
    let layout = RowLayout::new(table.layouts.len() as u8, &table.columns);
    table.layouts.push(Arc::new(layout));
    table
}

pub(super) fn with_index(before: &Table, definition: OrderedIndexDef) -> Table {
    let mut table = before.clone();
    table.version += 1;
    table.ordered_indexes.push(definition);
    table
}

#[test]
fn a_column_is_added_under_old_rows() {
    let mut world = World::new(21, 100);
    for _ in 0..300 {
        world.step(20);
    }
    let table = with_column(world.partition.table());
    let _ = world.partition.set_table(Arc::new(table));
    world.compare();
    let table = with_index(world.partition.table(), index(12, &[4, 0]));
    let _ = world.partition.set_table(Arc::new(table));
    assert!(!world.partition.index_ready(IndexId(12)));
    while !world.partition.build_indexes(13) {
        world.partition.check();
    }
    for step in 0..600 {
        world.step(20);
        if step % 50 == 0 {
            world.compare();
        }
    }
}

#[test]
fn an_index_is_built_while_rows_and_snapshots_change() {
    for seed in 0..10 {
        let mut world = World::new(seed, 200);
        for _ in 0..600 {
            world.step(20);
        }
        let table = with_index(world.partition.table(), index(12, &[0, 2]));
        let _ = world.partition.set_table(Arc::new(table));
        let table = with_index(world.partition.table(), index(13, &[2, 1]));
        let _ = world.partition.set_table(Arc::new(table));
        let mut ready = false;
        while !ready {
            for _ in 0..3 {
                world.step(30);
            }
            let slots = world.prng.between(1, 20) as u32;
            ready = world.partition.build_indexes(slots);
            world.partition.check();
        }
        assert!(world.partition.index_ready(IndexId(12)));
        assert!(world.partition.index_ready(IndexId(13)));
        for _ in 0..10 {
            (0..20).for_each(|_| world.step(30));
            world.compare();
        }
    }
}

#[test]
fn a_dropped_index_is_gone() {
    let mut world = World::new(5, 100);
    for _ in 0..400 {
        world.step(20);
    }
    let before = world.partition.ordered_index_bytes();
    let mut table = Table::clone(world.partition.table());
    table.version += 1;
    table.ordered_indexes.remove(0);
    let _ = world.partition.set_table(Arc::new(table));
    assert!(!world.partition.index_ready(IndexId(10)));
    assert!(world.partition.index_ready(IndexId(11)));
    assert!(world.partition.ordered_index_bytes() < before);
    for _ in 0..200 {
        world.step(20);
    }
    world.compare();
}

#[test]
fn an_index_of_an_empty_partition_is_ready_at_once() {
    let mut world = World::new(5, 100);
    let table = with_index(world.partition.table(), index(12, &[0]));
    let _ = world.partition.set_table(Arc::new(table));
    assert!(world.partition.index_ready(IndexId(12)));
    assert!(world.partition.build_indexes(0));
    assert!(!world.partition.index_ready(IndexId(99)));
    for _ in 0..100 {
        world.step(10);
    }
    world.compare();
}

#[test]
fn rows_grow_and_shrink_with_their_values() {
    let mut partition = partition();
    let table = partition.table().clone();
    let row = |size: usize| {
        let values = [
            Value::Int(1),
            Value::text("b"),
            Value::Int(size as i64 % 5),
            Value::Bytes(vec![9; size].into()),
        ];
        table.layout().encode_values(&values).expect("values fit")
    };
    let row_id = partition.allocate();
    let sizes = [0, 10, 100, 5_970, 5_990, 6_000, 32 << 10, 60_000, 32 << 10, 100, 3_000, 0];
    for (epoch, size) in sizes.into_iter().enumerate() {
        let row = row(size);
        partition.put(row_id, &row.0, Epoch(epoch as u64 + 1), &[]);
        partition.check();
        assert_eq!(partition.row(row_id), Some(&*row.0));
    }
    assert_eq!(partition.row_count(), 1);
}
