//! What a simulated disk keeps, loses and refuses.

use std::collections::BTreeSet;

use super::*;

const SETUP: DiskSetup = DiskSetup {
    operation: Duration::from_micros(20),
    sync: Duration::from_micros(400),
    bytes_per_second: 100 << 20,
    spike_per_mille: 0,
    spike_max: Duration::from_millis(1),
};

fn disk(seed: u64) -> Disk {
    Disk::new(SETUP, Prng::new(seed))
}

fn write(path: &str, offset: u64, bytes: &[u8]) -> DiskOperation {
    DiskOperation::Write { path: path.into(), offset, bytes: bytes.to_vec() }
}

fn sync(path: &str) -> DiskOperation {
    DiskOperation::Sync { path: path.into() }
}

fn sync_directory(path: &str) -> DiskOperation {
    DiskOperation::SyncDirectory { path: path.into() }
}

fn rename(from: &str, to: &str) -> DiskOperation {
    DiskOperation::Rename { from: from.into(), to: to.into() }
}

fn read(path: &str) -> DiskOperation {
    DiskOperation::Read { path: path.into(), offset: 0, length: 1 << 20 }
}

fn request(lane: u8, operations: Vec<DiskOperation>) -> DiskRequest {
    DiskRequest { actor: ActorKind::Participant, lane, token: 7, operations }
}

/// Carries out a request by itself.
fn run(disk: &mut Disk, operations: Vec<DiskOperation>) -> Result<Vec<DiskAnswer>, DiskError> {
    let (lane, first) = disk.ask(WorkerId(0), request(0, operations), Instant::ZERO);
    assert!(first.is_some(), "the lane was idle");
    loop {
        if let Some(reply) = disk.step(lane, Instant::ZERO).reply {
            assert_eq!(reply.token, 7);
            return reply.result;
        }
    }
}

/// What a file holds, if it is there.
fn contents(disk: &mut Disk, path: &str) -> Option<Vec<u8>> {
    match run(disk, vec![read(path)]) {
        Ok(mut answers) => match answers.remove(0) {
            DiskAnswer::Bytes(bytes) => Some(bytes),
            other => panic!("bytes, not {other:?}"),
        },
        Err(error) => {
            assert_eq!(error.kind, DiskErrorKind::Missing);
            None
        }
    }
}

#[test]
fn what_is_written_is_read_also_by_the_next_process() {
    let mut disk = disk(1);
    let operations = vec![
        DiskOperation::CreateDirectory { path: "a".into() },
        write("a/durable", 3, b"hello"),
        DiskOperation::List { path: "a".into() },
        DiskOperation::Read { path: "a/durable".into(), offset: 2, length: 4 },
        DiskOperation::Read { path: "a/durable".into(), offset: 99, length: 4 },
    ];
    let answers = run(&mut disk, operations).expect("nothing ails it");
    assert_eq!(answers[2], DiskAnswer::Files(vec![("durable".into(), 8)]));
    assert_eq!(answers[3], DiskAnswer::Bytes(b"\0hel".to_vec()));
    assert_eq!(answers[4], DiskAnswer::Bytes(vec![]));
    disk.process_ends();
    assert_eq!(
        contents(&mut disk, "a/durable"),
        Some(b"\0\0\0hello".to_vec()),
        "no power was lost"
    );
}

#[test]
fn what_was_synced_outlives_a_power_loss_and_all_else_is_in_doubt() {
    let (mut before, mut after, mut between) = (0, 0, 0);
    for seed in 0..200 {
        let mut disk = disk(seed);
        let old = vec![1; 2_000];
        let begin = vec![write("durable", 0, &old), sync("durable"), sync_directory("")];
        run(&mut disk, begin).expect("nothing ails it");
        run(&mut disk, vec![write("durable", 1_000, &[2; 2_000])]).expect("nothing ails it");
        disk.process_ends();
        disk.power_loss();
        let found = contents(&mut disk, "durable").expect("its name was durable");
        assert_eq!(found[..1_000], old[..1_000], "nobody wrote there");
        let (twos, ones) = (
            found.iter().filter(|byte| **byte == 2).count(),
            found[1_000..].iter().filter(|byte| **byte == 1).count(),
        );
        match (ones, twos) {
            (1_000, 0) => before += 1,
            (_, 2_000) => after += 1,
            _ => between += 1,
        }
        let again = contents(&mut disk, "durable");
        disk.power_loss();
        assert_eq!(contents(&mut disk, "durable"), again, "what has survived is durable");
    }
    assert!(before > 20 && after > 10 && between > 20, "{before} {after} {between}");
}

#[test]
#[should_panic(expected = "f: other bytes than before are written at 0")]
fn a_file_is_written_once_also_where_that_was_lost() {
    let mut disk = disk(1);
    let begin = vec![write("f", 0, b"ab"), write("f", 1, b"bc"), sync_directory("")];
    run(&mut disk, begin).expect("the same bytes again");
    disk.process_ends();
    disk.power_loss();
    let _ = run(&mut disk, vec![write("f", 0, b"x")]);
}

#[test]
#[should_panic(expected = "f: a gap from 2 to 3")]
fn a_file_is_written_without_gaps() {
    let _ = run(&mut disk(1), vec![write("f", 0, b"ab"), write("f", 3, b"c")]);
}

#[test]
fn a_name_is_durable_with_its_directory_and_not_before() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = disk(seed);
        run(&mut disk, vec![write("f", 0, b"x"), sync("f")]).expect("nothing ails it");
        disk.power_loss();
        outcomes.insert(contents(&mut disk, "f"));
    }
    assert_eq!(outcomes, BTreeSet::from([None, Some(b"x".to_vec())]));
    let mut disk = disk(1);
    let operations = vec![
        DiskOperation::CreateDirectory { path: "d".into() },
        write("d/f", 0, b"x"),
        sync("d/f"),
        sync_directory("d"),
        sync_directory(""),
    ];
    run(&mut disk, operations).expect("nothing ails it");
    disk.power_loss();
    assert_eq!(contents(&mut disk, "d/f"), Some(b"x".to_vec()));
}

#[test]
fn a_directory_without_a_durable_name_is_lost_with_its_files() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = disk(seed);
        let operations = vec![
            DiskOperation::CreateDirectory { path: "d".into() },
            write("d/f", 0, b"x"),
            sync("d/f"),
            sync_directory("d"),
        ];
        run(&mut disk, operations).expect("nothing ails it");
        disk.power_loss();
        outcomes.insert(contents(&mut disk, "d/f"));
    }
    assert_eq!(outcomes, BTreeSet::from([None, Some(b"x".to_vec())]));
}

#[test]
fn a_file_replaced_by_renaming_is_the_old_or_the_new_one() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = disk(seed);
        let begin = vec![write("f", 0, b"old"), sync("f"), sync_directory("")];
        run(&mut disk, begin).expect("nothing ails it");
        let replace = vec![write("f.new", 0, b"new"), sync("f.new"), rename("f.new", "f")];
        run(&mut disk, replace).expect("nothing ails it");
        disk.power_loss();
        outcomes.insert(contents(&mut disk, "f").expect("one of them is there"));
    }
    assert_eq!(outcomes, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
}

#[test]
fn a_removed_file_may_come_back_until_its_directory_is_synced() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = disk(seed);
        let begin = vec![write("f", 0, b"x"), sync("f"), sync_directory("")];
        run(&mut disk, begin).expect("nothing ails it");
        run(&mut disk, vec![DiskOperation::Remove { path: "f".into() }]).expect("it is there");
        assert_eq!(contents(&mut disk, "f"), None);
        if seed % 2 == 0 {
            run(&mut disk, vec![sync_directory("")]).expect("nothing ails it");
        }
        disk.power_loss();
        outcomes.insert((seed % 2 == 0, contents(&mut disk, "f").is_some()));
    }
    let expected = [(true, false), (false, false), (false, true)];
    assert_eq!(outcomes, BTreeSet::from(expected));
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let mut late_lost = false;
    for seed in 0..50 {
        let mut disk = disk(seed);
        let begin = vec![write("f", 0, b"ab"), sync_directory("")];
        run(&mut disk, begin).expect("nothing ails it");
        let now = Instant::ZERO;
        let (syncing, _) = disk.ask(WorkerId(0), request(1, vec![sync("f")]), now);
        let (writing, _) = disk.ask(WorkerId(0), request(2, vec![write("f", 2, b"c")]), now);
        assert!(disk.step(writing, now).reply.is_some(), "lanes do not wait for each other");
        assert!(disk.step(syncing, now).reply.is_some());
        disk.power_loss();
        let found = contents(&mut disk, "f").expect("its name was durable");
        assert!(found.starts_with(b"ab"), "{found:?}");
        late_lost |= found == b"ab";
    }
    assert!(late_lost, "the write came after the sync had begun");
}

#[test]
fn a_lane_keeps_its_order_and_stops_at_a_failure() {
    let mut disk = disk(1);
    let now = Instant::ZERO;
    let failing = vec![write("f", 0, b"1"), read("g"), write("f", 0, b"2")];
    let (lane, first) = disk.ask(WorkerId(0), request(0, failing), now);
    assert!(first.is_some());
    let (_, second) = disk.ask(WorkerId(0), request(0, vec![read("f")]), now);
    assert!(second.is_none(), "it waits for the first");
    assert!(disk.step(lane, now).reply.is_none());
    let error = disk.step(lane, now).reply.expect("it has failed").result;
    let error = error.expect_err("there is no such file");
    assert_eq!((error.at, error.kind), (1, DiskErrorKind::Missing));
    assert!(error.text.contains("reading g"), "{error}");
    let stepped = disk.step(lane, now);
    assert!(stepped.next.is_none(), "nothing is left to do");
    let answers = stepped.reply.expect("it was read").result.expect("it is there");
    assert_eq!(answers, [DiskAnswer::Bytes(b"1".to_vec())]);
}

#[test]
fn a_process_that_ends_leaves_its_last_operation_done_or_not_or_half_done() {
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = disk(seed);
        run(&mut disk, vec![write("f", 0, b"")]).expect("nothing ails it");
        let operations = vec![write("f", 0, b"abcd"), write("f", 4, b"efgh")];
        disk.ask(WorkerId(0), request(0, operations), Instant::ZERO);
        disk.process_ends();
        let found = contents(&mut disk, "f").expect("it was made");
        assert!(b"abcd".starts_with(&found[..]), "{found:?}");
        lengths.insert(found.len());
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn a_full_disk_refuses_what_was_not_set_aside() {
    let mut disk = disk(1);
    let begin = vec![DiskOperation::Reserve { path: "f".into(), length: 100 }];
    run(&mut disk, begin).expect("there is space");
    assert_eq!(contents(&mut disk, "f"), Some(vec![]), "set aside is not written");
    disk.limit_space(Some(10));
    run(&mut disk, vec![write("f", 0, &[1; 100])]).expect("the space was set aside");
    let more = DiskOperation::Reserve { path: "g".into(), length: 11 };
    let error = run(&mut disk, vec![more]).expect_err("it is full");
    assert_eq!(error.kind, DiskErrorKind::Full);
    let error = run(&mut disk, vec![write("g", 0, &[1; 11])]).expect_err("it is full");
    assert_eq!(error.kind, DiskErrorKind::Full);
    run(&mut disk, vec![DiskOperation::Remove { path: "f".into() }]).expect("it is there");
    run(&mut disk, vec![write("g", 0, &[1; 110])]).expect("there is space again");
}

#[test]
fn a_sync_that_has_failed_has_lost_something_for_good() {
    let mut lost = 0;
    for seed in 0..50 {
        let mut disk = disk(seed);
        run(&mut disk, vec![write("f", 0, b"abcd"), sync_directory("")]).expect("no fault yet");
        disk.fail_next(DiskAction::Sync, "");
        let error = run(&mut disk, vec![sync("f")]).expect_err("it was to fail");
        assert_eq!(error.kind, DiskErrorKind::Failed);
        let left = contents(&mut disk, "f").expect("its name is durable");
        lost += u32::from(left != b"abcd");
        run(&mut disk, vec![sync("f")]).expect("a later one says that all is well");
        disk.power_loss();
        assert_eq!(contents(&mut disk, "f"), Some(left));
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn damage_is_known_until_its_file_is_gone() {
    for damage in
        [Damage::BitFlip, Damage::ZeroSector, Damage::MisdirectedWrite, Damage::Unreadable]
    {
        let mut disk = disk(3);
        assert_eq!(disk.damage(damage, "redo"), None, "nothing is there");
        let begin = vec![write("redo", 0, &[9; 3_000]), sync("redo"), sync_directory("")];
        run(&mut disk, begin).expect("nothing ails it");
        assert!(disk.is_sound());
        assert_eq!(disk.damage(damage, "redo").as_deref(), Some("redo"));
        assert!(!disk.is_sound());
        match run(&mut disk, vec![read("redo")]) {
            Ok(answers) => {
                assert_ne!(answers[0], DiskAnswer::Bytes(vec![9; 3_000]), "{damage:?}");
            }
            Err(error) => assert_eq!(error.kind, DiskErrorKind::Failed),
        }
        run(&mut disk, vec![DiskOperation::Remove { path: "redo".into() }]).expect("it is there");
        assert!(!disk.is_sound(), "it may come back");
        run(&mut disk, vec![sync_directory("")]).expect("nothing ails it");
        assert!(disk.is_sound());
    }
}

#[test]
fn slow_and_stuck_disks_take_their_time() {
    let mut disk = disk(1);
    let now = Instant::ZERO + Duration::from_secs(1);
    let (lane, span) = disk.ask(WorkerId(0), request(0, vec![write("f", 0, b"x")]), now);
    assert!(span.expect("idle before") < Duration::from_micros(40));
    disk.step(lane, now);
    disk.slow(100);
    let (lane, span) = disk.ask(WorkerId(0), request(0, vec![write("f", 0, b"x")]), now);
    assert!(span.expect("idle before") >= Duration::from_millis(1));
    disk.step(lane, now);
    disk.heal();
    disk.stick(now + Duration::from_secs(3));
    let (_, span) = disk.ask(WorkerId(0), request(0, vec![sync("f")]), now);
    assert!(span.expect("idle before") > Duration::from_secs(3));
}
