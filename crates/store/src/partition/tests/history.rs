//! Random histories on one replica, with snapshots opened and closed on the way.

use super::*;

/// A partition with what it should hold, now and at each retained epoch.
pub(super) struct World {
    pub(super) prng: Prng,
    pub(super) partition: Partition,
    pub(super) rows: Rows,
    pub(super) epoch: Epoch,
    pub(super) retained: Vec<Epoch>,
    pub(super) snapshots: BTreeMap<Epoch, Rows>,
    pub(super) keys: u64,
}

impl World {
    pub(super) fn new(seed: u64, keys: u64) -> Self {
        Self {
            prng: Prng::new(seed),
            partition: partition(),
            rows: Rows::new(),
            epoch: Epoch(1),
            retained: Vec::new(),
            snapshots: BTreeMap::new(),
            keys,
        }
    }

    /// Inserts or updates a random row.
    pub(super) fn put(&mut self) {
        let table = self.partition.table().clone();
        let row = random_row(&mut self.prng, &table, self.keys);
        let known = slot_of(&self.rows, &table, &row);
        let row_id = known.unwrap_or_else(|| self.partition.allocate());
        if known.is_none() && self.prng.percent(5) {
            return self.partition.release(row_id);
        }
        self.partition.put(row_id, &row.0, self.epoch, &self.retained);
        self.rows.insert(row_id, row);
    }

    /// Deletes a random row.
    pub(super) fn delete(&mut self) {
        let row = random_row(&mut self.prng, self.partition.table(), self.keys);
        let Some(row_id) = slot_of(&self.rows, self.partition.table(), &row) else { return };
        self.partition.delete(row_id, self.epoch, &self.retained);
        self.rows.remove(&row_id);
    }

    /// Ends the epoch, which may become a snapshot; lets go of snapshots now and then.
    pub(super) fn next_epoch(&mut self) {
        if self.retained.len() < 5 && self.prng.percent(40) {
            self.retained.push(self.epoch);
            self.snapshots.insert(self.epoch, self.rows.clone());
        }
        self.epoch = self.epoch.next();
        if !self.retained.is_empty() && self.prng.percent(20) {
            let gone = self.retained.remove(self.prng.index(self.retained.len()));
            self.snapshots.remove(&gone);
            self.partition.drop_versions(&self.retained);
        }
    }

    pub(super) fn step(&mut self, delete_percent: u64) {
        match self.prng.below(100) {
            0..5 => self.next_epoch(),
            draw if draw < 5 + delete_percent => self.delete(),
            _ => self.put(),
        }
    }

    pub(super) fn compare(&mut self) {
        self.partition.check();
        compare_newest(&self.partition, &self.rows, &mut self.prng, self.keys);
        for (epoch, rows) in &self.snapshots {
            compare_at(&self.partition, *epoch, rows, &mut self.prng, self.keys);
        }
    }
}

#[test]
fn random_histories_read_as_the_model() {
    for seed in 0..6 {
        let mut world = World::new(seed, [20, 100, 400][seed as usize % 3]);
        for step in 0..3_000 {
            let shrinking = (step / 500) % 2 == 1;
            world.step(if shrinking { 60 } else { 20 });
            if step % 100 == 0 {
                world.compare();
            }
        }
        world.compare();
        world.retained.clear();
        world.snapshots.clear();
        while !world.partition.drop_versions(&[]) {}
        world.compare();
        assert_eq!(world.partition.version_bytes(), 0, "nothing is kept without snapshots");
        while !world.rows.is_empty() {
            world.delete();
        }
        world.compare();
    }
}

#[test]
fn nothing_is_kept_without_a_snapshot() {
    let mut world = World::new(7, 50);
    for _ in 0..500 {
        world.put();
        world.epoch = world.epoch.next();
    }
    assert_eq!(world.partition.version_bytes(), 0);
    assert!(world.partition.drop_versions(&[]));
}

#[test]
fn one_image_serves_all_epochs_between_two_changes() {
    let mut world = World::new(8, 1);
    world.put();
    world.retained = vec![Epoch(3), Epoch(5), Epoch(7)];
    world.epoch = Epoch(9);
    world.put();
    let bytes = world.partition.version_bytes();
    assert!(bytes > 0);
    world.epoch = Epoch(10);
    world.put();
    assert_eq!(world.partition.version_bytes(), bytes, "no retained epoch saw the row of 9");
    assert!(world.partition.drop_versions(&[Epoch(5)]));
    assert_eq!(world.partition.version_bytes(), bytes);
    assert!(world.partition.drop_versions(&[]));
    assert_eq!(world.partition.version_bytes(), 0);
}

#[test]
fn images_are_dropped_in_bounded_steps() {
    let mut world = World::new(9, 30_000);
    let row = |key: u64, table: &Table| {
        let values =
            [Value::Int(key as i64), Value::text("b"), Value::Int(key as i64 % 100), Value::Null];
        table.layout().encode_values(&values).expect("values fit")
    };
    let table = world.partition.table().clone();
    for key in 0..5_000 {
        let row_id = world.partition.allocate();
        world.partition.put(row_id, &row(key, &table).0, Epoch(1), &[]);
    }
    for slot in 0..5_000 {
        world.partition.delete(RowId(slot), Epoch(2), &[Epoch(1)]);
    }
    assert_eq!(world.partition.next_slot_at(None, Epoch(1)).map(|(id, _)| id), Some(RowId(0)));
    assert!(!world.partition.drop_versions(&[]), "more than one step is needed");
    // Changes go on with it even if nobody asks again.
    for key in 0..1_000 {
        let row_id = world.partition.allocate();
        world.partition.put(row_id, &row(key, &table).0, Epoch(3), &[]);
    }
    assert_eq!(world.partition.version_bytes(), 0);
    world.partition.check();
}

#[test]
fn snapshots_below_the_floor_are_refused() {
    let mut world = World::new(10, 1);
    world.put();
    world.partition.set_snapshot_floor(Epoch(5));
    assert_eq!(world.partition.snapshot_floor(), Epoch(5));
    let row = world.rows.values().next().expect("a row");
    let key = key_of(world.partition.table(), row);
    let read = |epoch| world.partition.read_at(key.bytes(), key.local_hash(), epoch);
    assert_eq!(read(Epoch(4)), Err(SnapshotTooOld));
    assert_eq!(read(Epoch(5)), Ok(Some(&*row.0)));
}

#[test]
fn a_rolled_back_insert_leaves_no_trace() {
    let mut world = World::new(11, 10);
    for _ in 0..20 {
        world.put();
    }
    let before = world.partition.digest();
    let taken: Vec<RowId> = (0..5).map(|_| world.partition.allocate()).collect();
    taken.iter().for_each(|row_id| world.partition.release(*row_id));
    assert_eq!(world.partition.digest(), before);
    world.compare();
    world.partition.clear();
    world.rows.clear();
    world.compare();
    assert_eq!(world.partition.slot_count(), 0);
    assert_eq!(world.partition.digest(), partition().digest());
}
