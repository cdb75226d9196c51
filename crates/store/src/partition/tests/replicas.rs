//! Copies: a replica with stale rows ends like the primary, while that is being written.

use super::history::World;
use super::*;

/// Copies all slots with an epoch over `from` to `target`, with changes in between that reach both.
fn copy(source: &mut World, target: &mut Partition, from: Epoch) {
    let mut next = 0;
    while next < source.partition.slot_count() {
        if source.prng.percent(30) {
            change_both(source, target);
        }
        for _ in 0..source.prng.between(1, 20) {
            let row_id = RowId(next);
            let epoch = source.partition.slot_epoch(row_id);
            if epoch > from {
                let row = source.partition.row(row_id);
                assert!(target.apply_copy(row_id, epoch, row, false));
            }
            next += 1;
        }
        target.check();
    }
    target.truncate(source.partition.slot_count(), |_| false);
    target.check();
}

/// A committed change that is replicated by row id.
fn change_both(source: &mut World, target: &mut Partition) {
    source.epoch = source.epoch.next();
    let table = source.partition.table().clone();
    let row = random_row(&mut source.prng, &table, source.keys);
    let known = slot_of(&source.rows, &table, &row);
    match known {
        Some(row_id) if source.prng.percent(40) => {
            source.partition.delete(row_id, source.epoch, &[]);
            source.rows.remove(&row_id);
            target.delete(row_id, source.epoch, &[]);
        }
        _ => {
            let row_id = known.unwrap_or_else(|| source.partition.allocate());
            if target.row(row_id).is_none() {
                target.reserve(row_id);
            }
            if known.is_none() && source.prng.percent(20) {
                source.partition.release(row_id);
                if target.row(row_id).is_none() {
                    target.release(row_id);
                }
                return;
            }
            source.partition.put(row_id, &row.0, source.epoch, &[]);
            source.rows.insert(row_id, row.clone());
            target.put(row_id, &row.0, source.epoch, &[]);
        }
    }
}

/// A source and a replica that has followed it up to some epoch and a part of what came after.
fn diverged(seed: u64) -> (World, Partition, Epoch) {
    let mut source = World::new(seed, 150);
    let mut target = partition();
    for _ in 0..200 {
        change_both(&mut source, &mut target);
    }
    assert_eq!(source.partition.digest(), target.digest());
    let from = source.epoch;
    for _ in 0..source.prng.below(300) {
        source.epoch = source.epoch.next();
        if source.prng.percent(30) {
            source.delete();
        } else {
            source.put();
        }
    }
    (source, target, from)
}

#[test]
fn a_stale_replica_converges() {
    for seed in 0..30 {
        let (mut source, mut target, from) = diverged(seed);
        copy(&mut source, &mut target, from);
        assert_eq!(source.partition.digest(), target.digest(), "seed {seed}");
        let mut prng = Prng::new(seed);
        compare_newest(&target, &source.rows, &mut prng, source.keys);
        // The copy can take over: free slots are found, changes go on.
        for _ in 0..50 {
            change_both(&mut source, &mut target);
        }
        assert_eq!(source.partition.digest(), target.digest());
        let free = target.allocate();
        assert_eq!(target.row(free), None);
        target.check();
    }
}

#[test]
fn an_empty_replica_converges() {
    for seed in 0..10 {
        let (mut source, _, _) = diverged(seed);
        let mut target = partition();
        copy(&mut source, &mut target, Epoch(0));
        assert_eq!(source.partition.digest(), target.digest());
    }
}

#[test]
fn a_replica_with_other_rows_converges() {
    for seed in 0..10 {
        // Rows of a history that the source knows nothing of, all older than its own.
        let mut stray = World::new(1_000 + seed, 150);
        for _ in 0..300 {
            stray.put();
        }
        let mut target = stray.partition;
        let mut source = World::new(seed, 150);
        source.epoch = Epoch(1_000);
        for _ in 0..250 {
            source.step(20);
        }
        copy(&mut source, &mut target, Epoch(0));
        // Slots that the source has never used keep nothing but their epoch.
        assert_eq!(target.row_count(), source.partition.row_count());
        for (row_id, row) in &source.rows {
            assert_eq!(target.row(*row_id), Some(&*row.0));
        }
    }
}

#[test]
fn an_older_copy_is_ignored() {
    let mut world = World::new(3, 1);
    world.epoch = Epoch(5);
    world.put();
    let digest = world.partition.digest();
    let row = random_row(&mut world.prng, world.partition.table(), 1);
    assert!(!world.partition.apply_copy(RowId(0), Epoch(4), Some(&row.0), false));
    assert!(!world.partition.apply_copy(RowId(0), Epoch(4), None, false));
    assert_eq!(world.partition.digest(), digest);
    assert!(world.partition.apply_copy(RowId(0), Epoch(6), None, false));
    assert_eq!(world.partition.slot_epoch(RowId(0)), Epoch(6));
    assert_eq!(world.partition.row_count(), 0);
    world.partition.check();
}

#[test]
fn a_staged_slot_is_not_free_when_its_leftover_goes() {
    let mut target = partition();
    let mut prng = Prng::new(5);
    let row = random_row(&mut prng, target.table(), 1);
    target.reserve(RowId(3));
    assert!(target.apply_copy(RowId(3), Epoch(4), Some(&row.0), true));
    assert!(target.apply_copy(RowId(3), Epoch(5), None, true));
    target.check();
    assert!((0..3).all(|_| target.allocate() < RowId(3)));
    assert_eq!(target.allocate(), RowId(4));
    target.truncate(0, |_| false);
    assert_eq!(target.slot_count(), 5, "reserved slots stay");
    target.put(RowId(3), &row.0, Epoch(6), &[]);
    target.delete(RowId(3), Epoch(7), &[]);
    assert_eq!(target.allocate(), RowId(3));
    target.check();
}

#[test]
fn replicas_agree_whatever_the_order_of_rows() {
    let mut prng = Prng::new(12);
    let (mut one, mut other) = (partition(), partition());
    let table = one.table().clone();
    let rows: Vec<Row> = (0..40)
        .map(|key| {
            let values = [Value::Int(key), Value::text("b"), Value::Int(1), Value::Null];
            table.layout().encode_values(&values).expect("values fit")
        })
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for at in &order {
        one.put(RowId(*at as u32), &rows[*at].0, Epoch(9), &[]);
    }
    while !order.is_empty() {
        let at = order.swap_remove(prng.index(order.len()));
        other.put(RowId(at as u32), &rows[at].0, Epoch(9), &[]);
    }
    other.check();
    assert_eq!(one.digest(), other.digest());
    other.reserve(RowId(1_000));
    other.release(RowId(1_000));
    assert_eq!(one.digest(), other.digest(), "slots never used do not count");
    other.delete(RowId(7), Epoch(10), &[]);
    assert_ne!(one.digest(), other.digest());
}
