//! The hash index against a hash map, growing and shrinking, with clusters of equal hashes.

use super::*;
use stdx::{HashMap, Prng};

fn found(index: &HashIndex, hash: u64, row: RowId) -> bool {
    index.find(hash, |candidate| candidate == row).is_some()
}

#[test]
fn an_empty_index_finds_nothing() {
    let mut index = HashIndex::new();
    assert_eq!(index.find(7, |_| true), None);
    assert_eq!(index.find(u64::MAX, |_| true), None);
    assert!(!index.remove(7, RowId(1)));
    assert!(index.is_empty());
    index.check();
}

#[test]
fn grows_and_shrinks_like_a_map() {
    let mut prng = Prng::new(1);
    let mut index = HashIndex::new();
    let mut model: HashMap<u32, u64> = HashMap::default();
    let mut hashes = Vec::new();
    for row in 0..200_000 {
        // One row in twenty joins a cluster of equal hashes.
        let hash = if prng.percent(5) { prng.below(1_000) } else { prng.next_u64() };
        index.insert(hash, RowId(row));
        model.insert(row, hash);
        hashes.push(hash);
        if row % 20_000 == 0 {
            index.check();
        }
    }
    index.check();
    assert_eq!(index.len(), 200_000);
    let per_row = index.memory_bytes() / index.len();
    assert!(per_row <= 12, "{per_row} bytes per row");
    let mut rows: Vec<u32> = index.iter_rows().map(|row| row.0).collect();
    rows.sort_unstable();
    assert!(rows.iter().copied().eq(0..200_000));
    for (row, hash) in hashes.iter().enumerate() {
        assert!(found(&index, *hash, RowId(row as u32)));
        assert!(!found(&index, *hash, RowId(200_000)));
    }
    while !index.is_empty() {
        let row = rows.swap_remove(prng.index(rows.len()));
        let hash = model.remove(&row).expect("the model has the row");
        assert!(index.remove(hash, RowId(row)));
        assert!(!index.remove(hash, RowId(row)));
        if rows.len().is_multiple_of(5_000) {
            index.check();
            assert_eq!(index.len(), rows.len());
            let sample = rows.iter().take(500);
            assert!(sample.clone().all(|row| found(&index, model[row], RowId(*row))));
        }
    }
    assert!(index.memory_bytes() < 1_000, "an emptied index is small");
}

#[test]
fn an_index_of_the_right_size_is_not_rebuilt() {
    for rows in [0, 1, 8, 1_100, 1_101, 5_000, 300_000] {
        let mut index = HashIndex::sized_for(rows);
        index.check();
        let (segments, slots) = (index.segments.len(), index.slot_count);
        let mut prng = Prng::new(rows);
        let hashes: Vec<u64> = (0..rows).map(|_| prng.next_u64()).collect();
        for (hash, row) in hashes.iter().zip(0..) {
            index.insert(*hash, RowId(row));
        }
        index.check();
        assert_eq!(index.segments.len(), segments.max(1), "segments of {rows} rows");
        // A few segments got more than their share.
        assert!(index.slot_count <= slots + slots / 50, "{rows} rows: {} slots", index.slot_count);
        assert!(index.memory_bytes() as u64 <= 12 * rows + 500, "{}", index.memory_bytes());
        for (hash, row) in hashes.iter().zip(0..) {
            assert!(found(&index, *hash, RowId(row)));
            assert!(index.remove(*hash, RowId(row)));
        }
        index.check();
    }
    // Another number of rows than was told.
    for told in [10, 100_000] {
        let mut index = HashIndex::sized_for(told);
        let mut prng = Prng::new(told);
        (0..20_000).for_each(|row| index.insert(prng.next_u64(), RowId(row)));
        index.check();
        assert_eq!(index.len(), 20_000);
    }
}

#[test]
fn mixed_operations_like_a_map() {
    for seed in 0..40 {
        let mut prng = Prng::new(seed / 2);
        let mut index = if seed % 2 == 0 { HashIndex::new() } else { HashIndex::roomy() };
        let mut model: Vec<(u64, u32)> = Vec::new();
        let spread = [1, 3, 50, 1 << 20][prng.index(4)];
        let mut next_row = 0;
        for step in 0..6_000 {
            let growing = (step / 1_500) % 2 == 0;
            if model.is_empty() || prng.percent(if growing { 80 } else { 20 }) {
                let hash = prng.below(spread).wrapping_mul(0x1234_5678_9ABC_DEF1);
                index.insert(hash, RowId(next_row));
                model.push((hash, next_row));
                next_row += 1;
            } else {
                let (hash, row) = model.swap_remove(prng.index(model.len()));
                assert!(index.remove(hash, RowId(row)));
            }
            if step % 250 == 0 {
                index.check();
                assert_eq!(index.len(), model.len());
                assert!(model.iter().take(30).all(|(h, row)| found(&index, *h, RowId(*row))));
            }
        }
    }
}

#[test]
fn a_roomy_index_is_rebuilt_less_and_ends_as_small() {
    let rebuilt = |mut index: HashIndex| {
        let is_roomy = index.roomy;
        let mut prng = Prng::new(1);
        let (mut rebuilt, mut slots) = (0, index.slot_count);
        let hashes: Vec<u64> = (0..100_000).map(|_| prng.next_u64()).collect();
        let mut note = |index: &HashIndex| {
            rebuilt += usize::from(std::mem::replace(&mut slots, index.slot_count) != slots);
        };
        for (hash, row) in hashes.iter().zip(0..) {
            index.insert(*hash, RowId(row));
            note(&index);
        }
        index.check();
        let bytes = index.memory_bytes() / hashes.len();
        for (hash, row) in hashes.iter().zip(0..) {
            assert!(index.remove(*hash, RowId(row)));
            note(&index);
        }
        index.check();
        assert!(index.memory_bytes() < 1_000, "an emptied index is small");
        assert_eq!(index.roomy, is_roomy, "it stays what it was");
        (rebuilt, bytes)
    };
    let (tight, roomy) = (rebuilt(HashIndex::new()), rebuilt(HashIndex::roomy()));
    assert!(2 * roomy.0 < tight.0, "rebuilt {} times, and {} times", roomy.0, tight.0);
    assert!(roomy.1 <= 24, "{} bytes per row", roomy.1);
}

#[test]
fn equal_hashes_stay_bounded_in_memory() {
    let mut index = HashIndex::new();
    for row in 0..8_000 {
        index.insert(if row % 2 == 0 { 42 } else { u64::from(row) << 40 }, RowId(row));
    }
    index.check();
    assert!(index.memory_bytes() < 8_000 * 24, "{}", index.memory_bytes());
    for row in (0..8_000).step_by(2) {
        assert!(index.remove(42, RowId(row)));
    }
    index.check();
    assert_eq!(index.len(), 4_000);
}

/// Not a test of behaviour: prints bytes per row and time per operation in release builds.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn measure() {
    let rows: u32 = std::env::var("ROWS").map_or(1_000_000, |v| v.parse().expect("a number"));
    let mut index = HashIndex::new();
    let hash = |row: u32| Prng::new(u64::from(row)).next_u64();
    let mut longest = std::time::Duration::ZERO;
    let start = std::time::Instant::now();
    for row in 0..rows {
        let before = std::time::Instant::now();
        index.insert(hash(row), RowId(row));
        longest = longest.max(before.elapsed());
    }
    println!("insert {} ns, longest {longest:?}", start.elapsed().as_nanos() / u128::from(rows));
    println!("{:.2} bytes per row", index.memory_bytes() as f64 / f64::from(rows));
    let start = std::time::Instant::now();
    for row in (0..rows).map(|row| row.wrapping_mul(7_919) % rows) {
        assert!(found(&index, hash(row), RowId(row)));
    }
    println!("find {} ns", start.elapsed().as_nanos() / u128::from(rows));
    longest = std::time::Duration::ZERO;
    let start = std::time::Instant::now();
    for row in 0..rows {
        let before = std::time::Instant::now();
        assert!(index.remove(hash(row), RowId(row)));
        longest = longest.max(before.elapsed());
    }
    println!("remove {} ns, longest {longest:?}", start.elapsed().as_nanos() / u128::from(rows));
}

/// Not a test of behaviour: the longest operation. Each operation counts with the best of its times
/// in several equal runs, which leaves out what the machine did meanwhile.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn measure_pauses() {
    let rows: u32 = std::env::var("ROWS").map_or(1_000_000, |v| v.parse().expect("a number"));
    let hash = |row: u32| Prng::new(u64::from(row)).next_u64();
    let mut best = vec![u64::MAX; 2 * rows as usize];
    for _ in 0..4 {
        let mut index = HashIndex::new();
        for step in 0..2 * rows {
            let row = step % rows;
            let start = std::time::Instant::now();
            if step < rows {
                index.insert(hash(row), RowId(row));
            } else {
                assert!(index.remove(hash(row), RowId(row)));
            }
            let best = &mut best[step as usize];
            *best = (*best).min(start.elapsed().as_nanos() as u64);
        }
    }
    let (grow, shrink) = best.split_at(rows as usize);
    println!("longest insert {:?} ns, remove {:?} ns", grow.iter().max(), shrink.iter().max());
}
