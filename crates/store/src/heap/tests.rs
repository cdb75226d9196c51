//! The heap against a map of rows, with rows that grow, shrink and go, and its use of memory.

use std::collections::BTreeMap;

use stdx::Prng;

use super::*;

fn bytes(prng: &mut Prng, len: usize) -> Vec<u8> {
    let seed = prng.next_u64();
    (0..len).map(|at| (seed >> (8 * (at % 8))) as u8 ^ at as u8).collect()
}

fn random_len(prng: &mut Prng) -> usize {
    match prng.below(20) {
        0 => prng.between(6_000, 65_000) as usize,
        1..4 => prng.between(500, 6_100) as usize,
        _ => prng.between(1, 300) as usize,
    }
}

fn compare(heap: &Heap, model: &BTreeMap<u32, (u64, Vec<u8>)>) {
    heap.check();
    assert_eq!(heap.row_count(), model.len() as u64);
    let mut after = None;
    for (id, (epoch, row)) in model {
        after = heap.next_row(after);
        assert_eq!(after, Some(RowId(*id)));
        assert_eq!(heap.row(RowId(*id)), Some(&row[..]));
        assert_eq!(heap.epoch(RowId(*id)), Epoch(*epoch));
    }
    assert_eq!(heap.next_row(after), None);
}

#[test]
fn rows_stay_where_their_ids_say() {
    let mut prng = Prng::new(1);
    let mut heap = Heap::new();
    let mut model: BTreeMap<u32, (u64, Vec<u8>)> = BTreeMap::new();
    let mut reserved: Vec<u32> = Vec::new();
    for epoch in 1..30_000 {
        let filling = (epoch / 5_000) % 2 == 0;
        let known = model.keys().copied().nth(prng.index(model.len().clamp(1, 50)));
        match (prng.below(10), known) {
            (0, _) => reserved.push(heap.allocate().0),
            (1, _) if !reserved.is_empty() => {
                let id = reserved.swap_remove(prng.index(reserved.len()));
                heap.release(RowId(id));
            }
            (2..6, Some(id)) if !filling => {
                heap.erase(RowId(id), Epoch(epoch), false);
                model.remove(&id);
                assert_eq!(heap.epoch(RowId(id)), Epoch(epoch));
            }
            (6..8, Some(id)) => {
                let len = random_len(&mut prng);
                let row = bytes(&mut prng, len);
                heap.write(RowId(id), &row, Epoch(epoch), false);
                model.insert(id, (epoch, row));
            }
            _ => {
                let id = reserved.pop().unwrap_or_else(|| heap.allocate().0);
                let len = random_len(&mut prng);
                let row = bytes(&mut prng, len);
                heap.write(RowId(id), &row, Epoch(epoch), false);
                assert!(model.insert(id, (epoch, row)).is_none(), "slot {id} was free");
            }
        }
        if epoch % 500 == 0 {
            compare(&heap, &model);
        }
    }
    compare(&heap, &model);
    let live: usize = model.values().map(|(_, row)| row.len() + 22).sum();
    let fill = live as f64 / heap.memory_bytes() as f64;
    assert!(fill > 0.75, "fill {fill} with random rows");
}

#[test]
fn equal_rows_fill_their_pages() {
    for len in [10, 50, 190, 1_000, 3_000, 5_990, 6_010, 32 << 10, 65_000] {
        let mut prng = Prng::new(len as u64);
        let mut heap = Heap::new();
        let count = (4 << 20) / len as u32;
        for _ in 0..count {
            let id = heap.allocate();
            heap.write(id, &vec![7; len], Epoch(1), false);
        }
        let check_fill = |heap: &Heap, when: &str| {
            let slots = 16.0 * f64::from(heap.slot_count());
            let rows = (len * heap.row_count() as usize) as f64;
            let fill = rows / (heap.memory_bytes() as f64 - slots);
            let wanted = 0.9 * len as f64 / (len + 6) as f64;
            assert!(fill >= wanted, "rows of {len} {when}: fill {fill}");
        };
        check_fill(&heap, "loaded");
        for _ in 0..count {
            let id = RowId(prng.below(u64::from(count)) as u32);
            heap.erase(id, Epoch(2), false);
            let id = heap.allocate();
            heap.write(id, &vec![8; len], Epoch(3), false);
        }
        heap.check();
        check_fill(&heap, "replaced");
    }
}

#[test]
fn emptied_pages_are_given_back() {
    let mut heap = Heap::new();
    for _ in 0..20_000 {
        let id = heap.allocate();
        heap.write(id, &[1; 200], Epoch(1), false);
    }
    for id in 0..20_000 {
        heap.erase(RowId(id), Epoch(2), false);
    }
    heap.check();
    let slots = 20_000 * 16;
    assert!(heap.memory_bytes() < slots + 200_000, "{} bytes", heap.memory_bytes());
    assert_eq!(heap.slot_count(), 20_000);
    assert_eq!(heap.epoch(RowId(777)), Epoch(2));
    assert_eq!(heap.next_row(None), None);
}

#[test]
fn a_small_heap_is_small() {
    let mut heap = Heap::new();
    assert!(heap.memory_bytes() < 1_000);
    for _ in 0..5 {
        let id = heap.allocate();
        heap.write(id, &[1; 50], Epoch(1), false);
    }
    assert!(heap.memory_bytes() < 2_500, "{} bytes", heap.memory_bytes());
}

#[test]
fn far_slots_come_without_those_between() {
    let mut heap = Heap::new();
    heap.write(RowId(10), b"near", Epoch(1), false);
    heap.reserve(RowId(50_000_000));
    heap.check();
    assert!(heap.memory_bytes() < 2_000_000, "{} bytes", heap.memory_bytes());
    heap.write(RowId(50_000_000), b"far", Epoch(2), false);
    heap.write(RowId(20_000_000), b"between", Epoch(2), false);
    heap.check();
    assert_eq!(heap.next_row(Some(RowId(10))), Some(RowId(20_000_000)));
    assert_eq!(heap.next_row(Some(RowId(20_000_000))), Some(RowId(50_000_000)));
    assert_eq!(heap.row(RowId(30_000_000)), None);
    assert_eq!(heap.epoch(RowId(30_000_000)), Epoch(0));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100_000 {
        assert!(seen.insert(heap.allocate()), "a slot is given once");
    }
    heap.check();
    seen.iter().for_each(|id| heap.release(*id));
    heap.erase(RowId(50_000_000), Epoch(3), false);
    heap.truncate(20_000_001);
    heap.check();
    assert_eq!(heap.slot_count(), 20_000_001);
    heap.truncate(0);
    assert_eq!(heap.slot_count(), 20_000_001, "the last slot holds a row");
}

#[test]
fn a_slot_can_stay_reserved_under_its_row() {
    let mut heap = Heap::new();
    heap.write(RowId(0), b"row", Epoch(1), false);
    heap.reserve(RowId(0));
    assert!(!heap.is_reserved(RowId(0)));
    heap.write(RowId(0), b"row", Epoch(1), true);
    heap.erase(RowId(0), Epoch(2), true);
    assert_eq!(heap.allocate(), RowId(1));
    heap.release(RowId(0));
    assert_eq!(heap.allocate(), RowId(0));
    heap.check();
}
