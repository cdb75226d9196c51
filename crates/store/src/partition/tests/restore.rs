//! Rows that are read back: the replica ends like the one that was written.

use super::history::World;
use super::schema::with_index;
use super::*;

type Image = (RowId, Epoch, Option<Row>);

/// A history of changes, some to an epoch, and its log.
fn history(seed: u64, changes: u32) -> (World, Vec<Image>) {
    let mut world = World::new(seed, 150);
    let mut log = Vec::new();
    for change in 0..changes {
        let before = world.rows.clone();
        if world.prng.percent(if (change / 200) % 2 == 1 { 60 } else { 20 }) {
            world.delete();
        } else {
            world.put();
        }
        let gone = before.keys().filter(|row_id| !world.rows.contains_key(row_id));
        log.extend(gone.map(|row_id| (*row_id, world.epoch, None)));
        let set = world.rows.iter().filter(|(row_id, row)| before.get(row_id) != Some(row));
        log.extend(set.map(|(row_id, row)| (*row_id, world.epoch, Some(row.clone()))));
        if world.prng.percent(30) {
            world.epoch = world.epoch.next();
        }
    }
    (world, log)
}

/// Gives `target` images of all times, as checkpoints have them, and then the log.
fn read_back(world: &mut World, log: &[Image], target: &mut Partition) {
    target.begin_restore();
    for _ in 0..log.len() / 2 {
        let (row_id, epoch, row) = &log[world.prng.index(log.len())];
        target.restore(*row_id, *epoch, row.as_ref().map(|row| &*row.0));
    }
    target.truncate(world.partition.slot_count(), |_| false);
    target.check();
    for (row_id, epoch, row) in log {
        let newer = target.slot_epoch(*row_id) > *epoch;
        let taken = target.restore(*row_id, *epoch, row.as_ref().map(|row| &*row.0));
        assert_eq!(taken, !newer, "newer images stay, others are taken");
    }
    assert!(target.needs_indexes());
    target.check();
}

/// Builds the indexes until `until` says so, or all are there.
fn build(world: &mut World, until: impl Fn(&Partition) -> bool) {
    while !until(&world.partition) {
        let rows = world.prng.between(1, 40) as u32;
        let (total, left) = world.partition.index_work();
        let built = world.partition.build_indexes(rows);
        world.partition.check();
        let (total_then, left_then) = world.partition.index_work();
        assert!(total == total_then && left_then <= left && left <= total, "work is done once");
        assert_eq!(left_then == 0, built, "work that is left");
        assert_eq!(built, !world.partition.needs_indexes());
        if built {
            return;
        }
    }
}

#[test]
fn a_replica_that_is_read_back_is_the_one_that_was_written() {
    for seed in 0..8 {
        let (mut world, log) = history(seed, 100 * seed as u32);
        let mut target = partition();
        read_back(&mut world, &log, &mut target);
        assert_eq!(target.digest(), world.partition.digest());
        world.partition = target;
        build(&mut world, |_| false);
        world.compare();
        for step in 0..300 {
            world.step(30);
            if step % 50 == 0 {
                world.compare();
            }
        }
        world.compare();
    }
}

#[test]
fn rows_may_change_once_they_are_found_by_key() {
    for seed in 10..18 {
        let (mut world, log) = history(seed, 400);
        let mut target = partition();
        read_back(&mut world, &log, &mut target);
        world.partition = target;
        build(&mut world, |partition| partition.restoring.is_none());
        assert!(world.partition.needs_indexes(), "ordered indexes come afterwards");
        (0..20).for_each(|_| world.step(40));
        world.compare();
        build(&mut world, |_| false);
        world.compare();
    }
}

#[test]
fn an_index_that_comes_meanwhile_is_built_too() {
    for seed in 20..26 {
        let (mut world, log) = history(seed, 300);
        let mut target = partition();
        read_back(&mut world, &log, &mut target);
        world.partition = target;
        for (id, begun) in [(12, false), (13, true)] {
            if begun {
                assert!(!world.partition.build_indexes(10));
            }
            let table = with_index(world.partition.table(), index(id, &[2, 0]));
            let _ = world.partition.set_table(Arc::new(table));
        }
        build(&mut world, |_| false);
        assert!(world.partition.index_ready(IndexId(12)));
        assert!(world.partition.index_ready(IndexId(13)));
        world.compare();
    }
}

#[test]
fn the_later_of_two_slots_keeps_a_key() {
    let mut prng = Prng::new(30);
    for epochs in [[5, 7, 6], [7, 6, 5], [5, 6, 7]] {
        let mut target = partition();
        let row = random_row(&mut prng, target.table(), 1);
        target.begin_restore();
        for (slot, epoch) in (0..).zip(epochs) {
            assert!(target.restore(RowId(slot), Epoch(epoch), Some(&row.0)));
        }
        while !target.build_indexes(1) {
            target.check();
        }
        target.check();
        assert_eq!(target.row_count(), 1);
        let key = key_of(target.table(), &row);
        let found = target.find(key.bytes(), key.local_hash()).expect("one is left");
        assert_eq!(target.slot_epoch(found), Epoch(7));
    }
}

#[test]
#[should_panic(expected = "changed while rows come back")]
fn rows_do_not_change_while_they_come_back() {
    let mut target = partition();
    let row = random_row(&mut Prng::new(1), target.table(), 5);
    target.begin_restore();
    target.put(RowId(0), &row.0, Epoch(1), &[]);
}
