//! Scans with programs that are told keys: by an index, or reading on.

use model::schema::KEY_SIZE_MAX;
use vector::{Input, KeySet, Kind, Node, Program, ScalarRef, Values, Vector, Yield};
use wire::{ScanMessage, ScanOrder, ScanRequest, ScanSource, ScanStatus};

use super::scans::{bound, heap, small_batches};
use super::*;

/// A program that gives `id` and `v` of rows whose `v` is one of these.
fn with_v(numbers: &[i64]) -> Option<Arc<Program>> {
    let keys = Vector { values: Values::Int(numbers.to_vec()), nulls: vec![] };
    let input = |column| Input { column: ColumnId(column), kind: Kind::Int };
    Some(Arc::new(Program {
        inputs: vec![input(0), input(1)],
        references: None,
        nodes: vec![Node::Input(0), Node::Input(1)],
        filter: vec![],
        yields: Yield::Rows(vec![0, 1]),
        members: KeySet::new(1, &[&keys]).into_iter().collect(),
        top: None,
    }))
}

impl World {
    /// The rows of a scan with a program by `id`, and how many rows were looked at.
    fn compute(&mut self, request: ScanRequest) -> (Vec<(i64, i64)>, u64) {
        let (scan, partition) = (request.scan, request.partition);
        let request = ScanRequest { keys: false, ..request };
        let (mut rows, mut examined) = (vec![], 0);
        let mut batch = self.open(request).expect("a first batch");
        loop {
            examined += batch.examined;
            for block in &batch.blocks {
                let number = |column: usize, at| match block.columns()[column].get(at) {
                    ScalarRef::Int(number) => number,
                    other => panic!("{other:?}"),
                };
                rows.extend((0..block.rows()).map(|at| (number(0, at), number(1, at))));
            }
            match batch.status {
                ScanStatus::More => {
                    let next = ScanMessage::Next { scan, partition };
                    batch = self.scan_message(next).expect("another batch");
                }
                ScanStatus::Finished => break,
                ScanStatus::Failed(refusal) => panic!("{refusal:?}"),
            }
        }
        rows.sort_unstable();
        (rows, examined)
    }
}

/// 900 rows, three for each `v` of 300, which ascend while `id` goes to and fro.
fn filled() -> (World, Vec<(i64, i64)>) {
    let mut world = World::with(1, small_batches);
    let rows: Vec<(i64, i64)> = (0..900).map(|id| (id, id * 7 % 300)).collect();
    for (number, part) in (1..).zip(rows.chunks(300)) {
        world.write(txn(number), part.iter().map(|(id, v)| insert(*id, *v)).collect());
    }
    (world, rows)
}

fn having<'r>(rows: &'r [(i64, i64)], numbers: &'r [i64]) -> Vec<(i64, i64)> {
    rows.iter().filter(|(_, v)| numbers.contains(v)).copied().collect()
}

#[test]
fn few_keys_are_looked_up_and_many_are_met_on_the_way() {
    let (mut world, rows) = filled();
    // One that no row has, and one that none can have, so that the set is a list.
    let few = [280, 5, 5, 7, 300, 1 << 40];
    let (found, examined) = world.compute(ScanRequest { program: with_v(&few), ..heap(1) });
    assert_eq!(found, having(&rows, &few));
    assert_eq!(examined, 9);
    let close = [5, 7, 8];
    let (found, examined) = world.compute(ScanRequest { program: with_v(&close), ..heap(2) });
    assert_eq!((found, examined), (having(&rows, &close), 9));
    let many: Vec<i64> = (0..100).collect();
    let (found, examined) = world.compute(ScanRequest { program: with_v(&many), ..heap(3) });
    assert_eq!((found, examined), (having(&rows, &many), 900));
    let (found, examined) = world.compute(ScanRequest { program: with_v(&[]), ..heap(4) });
    assert_eq!((found, examined), (vec![], 0));
    assert_eq!(world.open_scans(), 0);
}

#[test]
fn keys_that_most_rows_have_are_not_looked_up() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..300).map(|id| insert(id, id % 3)).collect());
    let (found, examined) = world.compute(ScanRequest { program: with_v(&[0, 2]), ..heap(1) });
    assert_eq!((found.len(), examined), (200, 300));
}

#[test]
fn keys_in_a_range_are_looked_up_if_that_is_less() {
    let (mut world, rows) = filled();
    let order = ScanOrder::Ascending;
    let source = |lower, upper| ScanSource::Index { index: INDEX, lower, upper, order };
    let keys = [3, 99, 100, 101, 250];
    let program = with_v(&keys);
    let request = |number, source| ScanRequest { source, program: program.clone(), ..heap(number) };
    let wide = source(bound(100, true), bound(260, false));
    assert_eq!(world.compute(request(1, wide)), (having(&rows, &[100, 101, 250]), 9));
    let small = source(bound(100, true), bound(102, false));
    assert_eq!(world.compute(request(2, small)), (having(&rows, &[100, 101]), 6));
}

#[test]
fn a_range_that_has_a_good_part_of_the_rows_is_read_as_they_lie() {
    let (mut world, rows) = filled();
    world.next_epoch(&[5]);
    world.write(txn(5), vec![delete(0), upsert(2, 21), upsert(3, 299), insert(2_000, 50)]);
    let order = ScanOrder::Descending;
    let source = |lower, upper| ScanSource::Index { index: INDEX, lower, upper, order };
    let program = with_v(&[])
        .map(|program| Arc::new(Program { members: vec![], ..Arc::unwrap_or_clone(program) }));
    let at = |number, source, snapshot| ScanRequest {
        source,
        snapshot,
        program: program.clone(),
        ..heap(number)
    };
    let between = |rows: &[(i64, i64)], low, high| -> Vec<(i64, i64)> {
        rows.iter().filter(|(_, v)| (low..high).contains(v)).copied().collect()
    };
    // All are found whichever way; what was looked at tells which it was: all rows, and in vain
    // those of a first step by the index.
    let wide = || source(bound(10, true), bound(200, false));
    let before = world.compute(at(1, wide(), Some(Epoch(5))));
    assert_eq!(before, (between(&rows, 10, 200), 903));
    let mut now: Vec<(i64, i64)> =
        rows.iter().filter(|(id, _)| ![0, 2, 3].contains(id)).copied().collect();
    now.extend([(2, 21), (3, 299), (2_000, 50)]);
    now.sort_unstable();
    assert_eq!(world.compute(at(2, wide(), None)), (between(&now, 10, 200), 903));
    let open = source(bound(150, false), None);
    assert_eq!(world.compute(at(3, open, None)), (between(&now, 151, 300), 903));
    let small = source(bound(10, true), bound(60, false));
    let (found, examined) = world.compute(at(4, small, None));
    assert_eq!((examined, found), (150, between(&now, 10, 60)));
}

#[test]
fn keys_are_looked_up_as_of_a_snapshot() {
    let (mut world, rows) = filled();
    world.next_epoch(&[5]);
    world.write(txn(5), vec![delete(0), add(1, 1_000), upsert(2, 21), insert(2_000, 7)]);
    let keys = [0, 7, 14, 21];
    let at = ScanRequest { snapshot: Some(Epoch(5)), program: with_v(&keys), ..heap(1) };
    assert_eq!(world.compute(at.clone()), (having(&rows, &keys), 12));
    let (now, examined) = world.compute(ScanRequest { snapshot: None, ..at });
    let mut expected = having(&rows[3..], &keys);
    expected.extend([(2, 21), (2_000, 7)]);
    expected.sort_unstable();
    assert_eq!((now, examined), (expected, 11));
}

#[test]
fn where_the_transaction_has_made_rows_itself_all_are_met() {
    let (mut world, rows) = filled();
    world.execute(txn(9), vec![insert(5_000, 7)]);
    let request = world.inside(txn(9), 1, ScanRequest { program: with_v(&[7]), ..heap(1) });
    let (found, examined) = world.compute(request);
    let mut expected = having(&rows, &[7]);
    expected.push((5_000, 7));
    assert_eq!((found, examined), (expected, 901));
    world.abort(txn(9));
    world.check_quiet();
}

/// A scan of the rows whose `v` is one of these, which it names.
fn naming(number: u64, wanted: &[i64]) -> ScanRequest {
    let source =
        ScanSource::Index { index: INDEX, lower: None, upper: None, order: ScanOrder::Ascending };
    let prefixes = wanted.iter().map(|v| bound(*v, true).expect("a bound").0).collect();
    let (program, keys) = (with_v(&[]), false);
    let mut program = program.expect("a program");
    Arc::make_mut(&mut program).members.clear();
    let (program, prefixes) = (Some(program), Some(Arc::new(prefixes)));
    ScanRequest { source, program, prefixes, keys, ..heap(number) }
}

#[test]
fn rows_in_doubt_are_waited_for_by_those_who_name_their_keys() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20), insert(3, 30)]);
    world.prepare_and_commit(txn(2), vec![add(1, 5), insert(4, 40)]);
    let (from, chain) = (world.coordinator(), world.chain());
    assert!(world.carry((from, chain[0])));
    world.take_others();
    // Keys that a row had, has then, that a new row has; and others.
    let waiting = |world: &mut World, number, wanted: &[i64]| {
        let open = ScanMessage::Open(Box::new(naming(number, wanted)));
        world.tell(CLIENT, chain[0], Message::Scan(open));
        assert!(world.carry((CLIENT, chain[0])));
        world.nodes[&1].participant.waiting_reads()
    };
    assert_eq!(waiting(&mut world, 1, &[9, 11, 20, 39, 41]), 0);
    assert_eq!(waiting(&mut world, 2, &[]), 0);
    assert_eq!(waiting(&mut world, 3, &[9, 10]), 1);
    assert_eq!(waiting(&mut world, 4, &[15, 90]), 2);
    assert_eq!(waiting(&mut world, 5, &[3, 40]), 3);
    assert_eq!(waiting(&mut world, 6, &[3, 30]), 3);
    world.run();
    assert_eq!(world.nodes[&1].participant.waiting_reads(), 0);
    world.check_quiet();
}

#[test]
fn rows_that_begin_with_keys_are_read_and_no_others() {
    let (mut world, rows) = filled();
    for (number, wanted) in
        (1..).zip([&[][..], &[7], &[0, 5, 77, 299], &[500], &[-3, 12, 13, 14, 1_000]])
    {
        let (found, examined) = world.compute(naming(number, wanted));
        assert_eq!(found, having(&rows, wanted));
        assert_eq!(examined, found.len() as u64, "others are not looked at");
    }
    let all: Vec<i64> = (0..300).collect();
    assert_eq!(world.compute(naming(9, &all)).0, rows);
    assert_eq!(world.open_scans(), 0);
}

#[test]
fn keys_that_make_no_sense_are_refused() {
    let (mut world, _) = filled();
    let mut refused = |request: ScanRequest| {
        let batch = world.open(request).expect("an answer");
        let ScanStatus::Failed(refusal) = batch.status else { panic!("{:?}", batch.status) };
        assert_eq!(refusal.code, ErrorCode::BadRequest);
    };
    refused(naming(1, &[7, 5]));
    refused(naming(2, &[7, 7]));
    let mut within = naming(3, &[7]);
    let mut prefixes: Vec<Box<[u8]>> = within.prefixes.as_ref().expect("keys").to_vec();
    let longer: Box<[u8]> = [&prefixes[0][..], &[1]].concat().into();
    prefixes.push(longer);
    within.prefixes = Some(Arc::new(prefixes));
    refused(within);
    refused(ScanRequest { program: None, ..naming(4, &[7]) });
    refused(ScanRequest { source: ScanSource::Heap, ..naming(5, &[7]) });
    let ranged = ScanSource::Index {
        index: INDEX,
        lower: bound(3, true),
        upper: None,
        order: ScanOrder::Ascending,
    };
    refused(ScanRequest { source: ranged, ..naming(6, &[7]) });
    let long = vec![vec![0; KEY_SIZE_MAX + 1].into_boxed_slice()];
    refused(ScanRequest { prefixes: Some(Arc::new(long)), ..naming(7, &[7]) });
    let many: Vec<i64> = (0..8_193).collect();
    refused(naming(8, &many));
}
