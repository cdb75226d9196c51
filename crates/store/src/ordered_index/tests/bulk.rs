//! Indexes built at once: the same as those that entries were inserted into one by one.

use super::super::node::record_cost;
use super::*;

/// Builds an index of the model's entries, which come in any order.
fn build(prng: &mut Prng, model: &Model) -> OrderedIndex {
    let mut entries: Vec<_> = model.iter().collect();
    for at in 1..entries.len() {
        entries.swap(at, prng.index(at + 1));
    }
    let mut build = BulkBuild::new();
    for (key, row) in entries {
        build.add(key, RowId(*row));
    }
    assert_eq!(build.left(), model.len());
    let step = prng.between(1, 3_000) as u32;
    let mut steps = 0;
    while !build.merge(step) {
        steps += 1;
        assert_eq!(build.left(), model.len() - steps * step as usize);
    }
    assert!(steps <= model.len() / step as usize, "steps that do nothing");
    build.finish()
}

fn compare(seed: u64, keys: Keys, draws: usize, steps: usize) {
    let mut prng = Prng::new(seed);
    let mut model = Model::new();
    let mut inserted = OrderedIndex::new();
    for _ in 0..draws {
        let (key, row) = (draw(&mut prng, keys), prng.below(50) as u32);
        assert_eq!(inserted.insert(&key, RowId(row)), model.insert((key, row)));
    }
    let built = build(&mut prng, &model);
    built.check();
    assert_eq!(built.len(), inserted.len());
    let all = |index| scan_all(index, &KeyRange::ALL, Direction::Ascending, 1_000);
    assert_eq!(all(&built), all(&inserted));
    for _ in 0..10 {
        compare_scans(&mut prng, &built, &model, keys);
    }
    change(&mut prng, built, model, keys, steps);
}

#[test]
fn built_indexes_are_like_inserted_ones() {
    for draws in [0, 1, 2, 50, 200, 1_000, 6_000] {
        compare(draws as u64, Keys::Tiny, draws, 600);
        compare(draws as u64, Keys::Column, draws, 1_500);
        compare(draws as u64, Keys::Text, draws, 1_500);
        compare(draws as u64, Keys::Huge, draws.min(1_500), 800);
    }
}

#[test]
fn runs_are_merged_in_order() {
    // Keys that only their last bytes or their rows tell apart, in several runs; some of them as
    // long as a head holds, and a byte less or more.
    let mut prng = Prng::new(9);
    for begin in [0, 4, 6, 7, 8, 20] {
        let key = |n: u64| [&vec![0; begin], &(n / 7 % 9_000).to_be_bytes()[..]].concat();
        let mut model: Model = (0..40_000).map(|n| (key(n), n as u32)).collect();
        model.extend((0..20).map(|len| (vec![0; len], 1)));
        let index = build(&mut prng, &model);
        index.check();
        let mut scan = index.scan(&KeyRange::ALL, Direction::Ascending, None);
        for (key, row) in &model {
            assert_eq!(scan.next(), Some((key.as_slice(), RowId(*row))));
        }
        assert!(scan.next().is_none());
    }
}

#[test]
fn built_nodes_are_filled_to_nine_tenths() {
    let mut prng = Prng::new(5);
    let model: Model =
        (0..100_000).map(|row| (prng.next_u64().to_le_bytes()[..5].to_vec(), row)).collect();
    let index = build(&mut prng, &model);
    index.check();
    let used: usize = model.iter().map(|_| record_cost(4, NONE, true)).sum();
    let share = used as f64 / (index.nodes.len() * USABLE) as f64;
    assert!((0.84..=0.9).contains(&share), "{share} of the nodes is used by entries");
    let bytes = index.memory_bytes() as f64 / index.len() as f64;
    assert!(bytes <= 14.0, "{bytes} bytes per entry");
}

#[test]
#[should_panic(expected = "row 7 is added twice")]
fn an_entry_comes_once() {
    let mut build = BulkBuild::new();
    for row in [7, 8, 7] {
        build.add(b"key", RowId(row));
    }
    build.merge(3);
}

/// Not a test of behaviour: prints the time for each entry and of the longest call.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn measure() {
    let entries: u32 = std::env::var("ROWS").map_or(1_000_000, |v| v.parse().expect("a number"));
    let key = |row: u32| -> [u8; 5] {
        let bytes = Prng::new(u64::from(row)).next_u64().to_le_bytes();
        [1, bytes[0], bytes[1], bytes[2], bytes[3]]
    };
    let mut longest = 0;
    let mut timed = |work: &mut dyn FnMut() -> bool| {
        let start = std::time::Instant::now();
        let done = work();
        longest = longest.max(start.elapsed().as_micros());
        done
    };
    let mut build = BulkBuild::new();
    let start = std::time::Instant::now();
    for first in (0..entries).step_by(1_024) {
        timed(&mut || {
            (first..entries.min(first + 1_024)).for_each(|row| build.add(&key(row), RowId(row)));
            true
        });
    }
    println!("add {} ns", start.elapsed().as_nanos() / u128::from(entries));
    let start = std::time::Instant::now();
    while !timed(&mut || build.merge(1_024)) {}
    println!("merge {} ns", start.elapsed().as_nanos() / u128::from(entries));
    println!("longest call {longest} us");
    assert_eq!(build.finish().len(), entries as usize);
}
