//! The ordered index against a `BTreeSet`, with short, long and equal keys, and scans both ways.

mod bulk;

use std::collections::BTreeSet;
use std::ops::Bound;

use super::*;
use stdx::Prng;

type Model = BTreeSet<(Vec<u8>, u32)>;

/// Kinds of keys that a test draws from.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Few values of up to four letters out of three: many equal keys and prefixes.
    Tiny,
    /// Five bytes, as an encoded 32-bit column.
    Column,
    /// Text with long common beginnings, up to 300 bytes.
    Text,
    /// Up to the longest key.
    Huge,
}

fn draw(prng: &mut Prng, keys: Keys) -> Vec<u8> {
    let letters = |prng: &mut Prng, len: u64| -> Vec<u8> {
        (0..prng.below(len + 1)).map(|_| b"\0ab"[prng.index(3)]).collect()
    };
    match keys {
        Keys::Tiny => letters(prng, 4),
        Keys::Column => [&[1][..], &(prng.below(3_000) as u32 * 77_777).to_le_bytes()].concat(),
        Keys::Text => {
            let begin = vec![b'x'; [0, 3, 90, 120, 170, 200][prng.index(6)]];
            [begin, letters(prng, 100)].concat()
        }
        Keys::Huge => {
            let begin = vec![b'y'; [0, 100, 179, 180, 181, 2_900, 9_800][prng.index(7)]];
            [begin, letters(prng, 172)].concat()
        }
    }
}

/// A key of the same length, most often of the same node.
fn next_to(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    if let Some(last) = next.last_mut() {
        *last = last.wrapping_add(1);
    }
    next
}

fn draw_bound(prng: &mut Prng, keys: Keys) -> Bound<Vec<u8>> {
    let mut key = draw(prng, keys);
    if prng.percent(60) {
        key.truncate(prng.index(key.len() + 1));
    }
    match prng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

fn in_range(range: &KeyRange, key: &[u8]) -> bool {
    let above = match &range.lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => key >= bound.as_slice(),
        Bound::Excluded(bound) => key > bound.as_slice() && !key.starts_with(bound),
    };
    let below = match &range.upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => key <= bound.as_slice() || key.starts_with(bound),
        Bound::Excluded(bound) => key < bound.as_slice(),
    };
    above && below
}

/// Scans in batches of `batch`, seeking again after each.
fn scan_all(
    index: &OrderedIndex,
    range: &KeyRange,
    direction: Direction,
    batch: usize,
) -> Vec<(Vec<u8>, u32)> {
    let mut all: Vec<(Vec<u8>, u32)> = Vec::new();
    loop {
        let after = all.last().map(|(key, row)| (key.as_slice(), RowId(*row)));
        let mut scan = index.scan(range, direction, after);
        let before = all.len();
        let mut fresh = Vec::new();
        while fresh.len() < batch {
            let Some((key, row)) = scan.next() else { break };
            fresh.push((key.to_vec(), row.0));
        }
        all.extend(fresh);
        if all.len() - before < batch {
            return all;
        }
    }
}

fn compare_scans(prng: &mut Prng, index: &OrderedIndex, model: &Model, keys: Keys) {
    let range = KeyRange { lower: draw_bound(prng, keys), upper: draw_bound(prng, keys) };
    let batch = [1_000_000, 50, 7][prng.index(3)];
    let mut expected: Vec<_> =
        model.iter().filter(|(key, _)| in_range(&range, key)).cloned().collect();
    assert_eq!(scan_all(index, &range, Direction::Ascending, batch), expected, "{range:?}");
    let mut rows = index.scan(&range, Direction::Ascending, None);
    for (key, row) in &expected {
        assert_eq!(rows.next_row(), Some(RowId(*row)));
        assert!(range.contains(key));
    }
    assert_eq!(rows.next_row(), None);
    expected.reverse();
    assert_eq!(scan_all(index, &range, Direction::Descending, batch), expected, "{range:?}");
    // Resuming after an entry that does not exist, perhaps outside the range.
    let (after, row) = (draw(prng, keys), prng.below(50) as u32);
    let key = (after, row);
    let mut scan = index.scan(&range, Direction::Ascending, Some((&key.0, RowId(row))));
    let want = expected.iter().rev().find(|entry| **entry > key);
    assert_eq!(scan.next().map(|(k, r)| (k.to_vec(), r.0)).as_ref(), want);
    let mut scan = index.scan(&range, Direction::Descending, Some((&key.0, RowId(row))));
    let want = expected.iter().find(|entry| **entry < key);
    assert_eq!(scan.next().map(|(k, r)| (k.to_vec(), r.0)).as_ref(), want);
}

fn run(seed: u64, keys: Keys, steps: usize) {
    change(&mut Prng::new(seed), OrderedIndex::new(), Model::new(), keys, steps);
}

/// Changes index and model at random, grows and shrinks them in turn, and empties them.
fn change(prng: &mut Prng, mut index: OrderedIndex, mut model: Model, keys: Keys, steps: usize) {
    for step in 0..steps {
        let growing = (step * 4 / steps).is_multiple_of(2);
        if prng.percent(if growing { 75 } else { 25 }) {
            let (key, row) = (draw(prng, keys), prng.below(50) as u32);
            assert_eq!(index.insert(&key, RowId(row)), model.insert((key, row)));
        } else {
            let near = (draw(prng, keys), prng.below(50) as u32);
            let found = model.range(near.clone()..).next().cloned();
            let (key, row) = found.unwrap_or(near);
            assert_eq!(index.contains(&key, RowId(row)), model.contains(&(key.clone(), row)));
            let removed = model.remove(&(key.clone(), row));
            let other = (if prng.percent(50) { draw(prng, keys) } else { next_to(&key) }, row);
            if removed && prng.percent(60) && other.0 != key && !model.contains(&other) {
                index.replace(&key, &other.0, RowId(row));
                model.insert(other);
            } else {
                assert_eq!(index.remove(&key, RowId(row)), removed);
            }
        }
        assert_eq!(index.len(), model.len());
        if step % 61 == 0 {
            index.check();
            compare_scans(prng, &index, &model, keys);
        }
    }
    while let Some((key, row)) = model.pop_first() {
        assert!(index.remove(&key, RowId(row)));
        if model.len().is_multiple_of(50) {
            index.check();
        }
    }
    index.check();
    assert_eq!(index.nodes.len(), 1, "an emptied index is one node");
    assert_eq!(index.boxes.len(), 0);
}

#[test]
fn entries_of_a_range_are_counted_about() {
    let mut prng = Prng::new(7);
    let key = |number: u64| number.to_be_bytes().to_vec();
    let mut index = OrderedIndex::new();
    let mut numbers: Vec<u64> = (0..100_000).map(|_| prng.below(1 << 40)).collect();
    for (row, number) in numbers.iter().enumerate() {
        index.insert(&key(*number), RowId(row as u32));
    }
    numbers.sort_unstable();
    assert!(index.entries_about(&KeyRange::ALL).abs_diff(100_000) < 2);
    for _ in 0..1_000 {
        let (a, b) = (prng.below(1 << 40), prng.below(1 << 40));
        let (low, high) = (a.min(b), a.max(b));
        let range =
            KeyRange { lower: Bound::Included(key(low)), upper: Bound::Excluded(key(high)) };
        let place = |of: u64| numbers.partition_point(|number| *number < of) as u64;
        let (about, exactly) = (index.entries_about(&range), place(high) - place(low));
        let most = 100 + exactly / 5;
        assert!(about.abs_diff(exactly) < most, "{about} for {exactly}");
    }
    // Within a leaf it is exact.
    let few = KeyRange {
        lower: Bound::Included(key(numbers[0])),
        upper: Bound::Included(key(numbers[2])),
    };
    assert_eq!(index.entries_about(&few), 3);
    let nothing = KeyRange { lower: Bound::Excluded(key(9)), upper: Bound::Excluded(key(5)) };
    assert_eq!(index.entries_about(&nothing), 0);
    assert_eq!(OrderedIndex::new().entries_about(&KeyRange::ALL), 0);
}

#[test]
fn tiny_keys_like_a_set() {
    (0..4).for_each(|seed| run(seed, Keys::Tiny, 5_000));
}

#[test]
fn columns_like_a_set() {
    (10..14).for_each(|seed| run(seed, Keys::Column, 6_000));
}

#[test]
fn text_like_a_set() {
    (20..24).for_each(|seed| run(seed, Keys::Text, 4_000));
}

#[test]
fn huge_keys_like_a_set() {
    (30..33).for_each(|seed| run(seed, Keys::Huge, 2_500));
}

#[test]
fn an_index_takes_no_node_before_its_first_entry() {
    let mut index = OrderedIndex::new();
    assert_eq!(index.memory_bytes(), size_of::<OrderedIndex>());
    assert!(!index.remove(b"a", RowId(1)) && !index.contains(b"a", RowId(1)));
    assert_eq!(index.entries_about(&KeyRange::ALL), 0);
    for direction in [Direction::Ascending, Direction::Descending] {
        assert!(index.scan(&KeyRange::ALL, direction, None).next().is_none());
        let after = Some((&b"a"[..], RowId(1)));
        assert!(index.scan(&KeyRange::prefix(b"a"), direction, after).next().is_none());
    }
    index.check();
    assert_eq!(index.clone().shed(7), 7);
    assert_eq!(index.memory_bytes(), size_of::<OrderedIndex>(), "looking makes no node");
    assert!(index.insert(b"a", RowId(1)));
    index.check();
    assert_eq!((index.len(), index.nodes.len()), (1, 1));
    assert!(index.remove(b"a", RowId(1)));
    index.check();
}

#[test]
fn ascending_keys_fill_their_nodes() {
    let mut index = OrderedIndex::new();
    for row in 0..20_000u32 {
        let mut key = vec![1];
        key.extend(row.to_le_bytes().iter().rev());
        assert!(index.insert(&key, RowId(row)));
    }
    index.check();
    let per_entry = index.memory_bytes() / index.len();
    assert!(per_entry <= 13, "{per_entry} bytes per entry");
    // Removing from the front frees nodes as it goes.
    let nodes = index.nodes.len();
    for row in 0..10_000u32 {
        let mut key = vec![1];
        key.extend(row.to_le_bytes().iter().rev());
        assert!(index.remove(&key, RowId(row)));
    }
    index.check();
    assert!(index.nodes.len() < nodes / 2 + 20);
}

#[test]
fn entries_behind_the_last_one_come_where_a_set_has_them() {
    for seed in 0..30 {
        let mut prng = Prng::new(seed);
        let (mut index, mut model) = (OrderedIndex::new(), Model::new());
        let mut next = 0_u32;
        // Keys ascend, are taken from the end or the front, and come in between.
        for step in 0..4_000 {
            let number = match prng.below(10) {
                0..6 => {
                    next += 1 + prng.below(3) as u32;
                    next
                }
                6 | 7 if step % 1_000 > 600 => {
                    let end = if prng.percent(50) { model.last() } else { model.first() };
                    let Some((key, row)) = end.cloned() else { continue };
                    assert!(index.remove(&key, RowId(row)));
                    assert!(model.remove(&(key, row)));
                    continue;
                }
                _ => prng.below(u64::from(next) + 1) as u32,
            };
            let mut key = number.to_be_bytes().to_vec();
            if prng.percent(2) {
                // Some lie outside of the nodes.
                key.extend([7; 200]);
            }
            let row = prng.below(2) as u32;
            assert_eq!(index.insert(&key, RowId(row)), model.insert((key, row)));
            if step % 400 == 0 {
                index.check();
            }
        }
        index.check();
        compare_scans(&mut prng, &index, &model, Keys::Column);
        assert_eq!(index.len(), model.len());
    }
}

#[test]
fn equal_records_take_the_places_of_removed_ones() {
    let key = |k: u32| [&[1][..], &k.to_be_bytes()].concat();
    let mut index = OrderedIndex::new();
    (0..10_000).for_each(|row| assert!(index.insert(&key(row * 1_000), RowId(row))));
    let nodes = index.nodes.len();
    let mut prng = Prng::new(7);
    for step in 1..60 {
        for row in (0..10_000).filter(|_| prng.percent(20)) {
            let (old, new) = (row * 1_000 + step - 1, row * 1_000 + step);
            if index.contains(&key(old), RowId(row)) {
                index.replace(&key(old), &key(new), RowId(row));
                index.replace(&key(new), &key(old), RowId(row));
            }
        }
        let row = prng.below(10_000) as u32;
        if index.remove(&key(row * 1_000), RowId(row)) {
            assert!(index.insert(&key(row * 1_000), RowId(row)));
        }
    }
    index.check();
    assert_eq!(index.nodes.len(), nodes, "no node was split");
}

#[test]
fn a_full_node_that_has_lost_its_first_keys_can_be_split() {
    // The keys that are left share a longer prefix than the node has cut off; as keys are added at
    // the end, all but the last one are to stay in the node.
    for (size, first) in [(5, 4), (12, 4), (176, 2), (200, 4), (300, 20)] {
        let key = |begin: u8, n: u32| {
            let mut key = vec![b'p'; size];
            key[0] = begin;
            key[size - 4..].copy_from_slice(&n.to_be_bytes());
            key
        };
        let mut index = OrderedIndex::new();
        assert!(index.insert(&key(1, 0), RowId(0)));
        for n in 0..first {
            assert!(index.insert(&key(2, n), RowId(n)));
        }
        assert!(index.remove(&key(1, 0), RowId(0)));
        for n in first..2_000 {
            assert!(index.insert(&key(2, n), RowId(n)), "{size} bytes");
        }
        index.check();
    }
}

#[test]
fn random_columns_take_few_bytes() {
    let mut prng = Prng::new(5);
    let mut index = OrderedIndex::new();
    for row in 0..100_000 {
        let key = prng.next_u64().to_le_bytes();
        index.insert(&key[..5], RowId(row));
    }
    index.check();
    let per_entry = index.memory_bytes() as f64 / index.len() as f64;
    assert!(per_entry <= 18.0, "{per_entry} bytes per entry");
}

/// Not a test of behaviour: prints bytes per entry and time per operation in release builds.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn measure() {
    let entries: u32 = std::env::var("ROWS").map_or(1_000_000, |v| v.parse().expect("a number"));
    let mut index = OrderedIndex::new();
    let key = |row: u32| -> [u8; 5] {
        let bytes = Prng::new(u64::from(row)).next_u64().to_le_bytes();
        [1, bytes[0], bytes[1], bytes[2], bytes[3]]
    };
    let per = |start: std::time::Instant| start.elapsed().as_nanos() / u128::from(entries);
    let start = std::time::Instant::now();
    (0..entries).for_each(|row| assert!(index.insert(&key(row), RowId(row))));
    println!("insert {} ns", per(start));
    println!("{:.2} bytes per entry", index.memory_bytes() as f64 / f64::from(entries));
    let start = std::time::Instant::now();
    (0..entries).for_each(|row| assert!(index.contains(&key(row), RowId(row))));
    println!("contains {} ns", per(start));
    let start = std::time::Instant::now();
    for row in 0..entries {
        let mut scan = index.scan(&KeyRange::prefix(&key(row)), Direction::Ascending, None);
        assert!(scan.next().is_some());
    }
    println!("point scan {} ns", per(start));
    let start = std::time::Instant::now();
    let mut scan = index.scan(&KeyRange::ALL, Direction::Ascending, None);
    let mut bytes = 0;
    while let Some((key, _)) = scan.next() {
        bytes += key.len();
    }
    println!("scan {} ns, {bytes} bytes", per(start));
    let start = std::time::Instant::now();
    (0..entries).for_each(|row| assert!(index.remove(&key(row), RowId(row))));
    println!("remove {} ns", per(start));
}
