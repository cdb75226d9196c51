//! Files as they are written, cut and damaged.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use model::{
    ClusterId, Epoch, Incarnation, NodeId, PartitionId, PartitionIndex, RowId, TableId, WorkerId,
};
use ondisk::checkpoint::{CheckpointHeader, CheckpointWriter};
use ondisk::redo::{Mark, Position, Record, SegmentHeader, SegmentWriter};

use super::*;

const PARTITION: PartitionId = PartitionId { table: TableId(7), index: PartitionIndex(3) };

struct Place(PathBuf);

fn options(path: PathBuf, all: bool) -> InspectOptions {
    InspectOptions { paths: vec![path], all, keys: KeyOptions::default() }
}

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir();
        let path = path.join(format!("nines-inspect-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("worker-0")).unwrap();
        Place(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// What is told of all files, and the verdict.
    fn inspect(&self, all: bool) -> (String, Result<(), String>) {
        let mut out = Vec::new();
        let verdict = run(&options(self.0.clone(), all), &mut out);
        (String::from_utf8(out).unwrap(), verdict)
    }

    fn sound(&self) -> String {
        let (text, verdict) = self.inspect(false);
        assert_eq!(verdict, Ok(()), "{text}");
        text
    }

    fn broken(&self) -> String {
        let (text, verdict) = self.inspect(false);
        assert_eq!(verdict.unwrap_err().split(' ').next(), Some("1"), "{text}");
        text
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A segment with a row, a mark, a deletion, a second mark, and perhaps its end.
fn segment(number: u64, sealed: bool) -> Vec<u8> {
    let mut writer = SegmentWriter::new(&SegmentHeader {
        cluster: ClusterId(5),
        node: NodeId(1),
        worker: WorkerId(0),
        incarnation: Incarnation(9),
        segment: number,
        first: 1,
        saved: Epoch(1),
        durable: Epoch(1),
        fences: Vec::new(),
        bases: Vec::new(),
    });
    let (partition, row_id) = (PARTITION, RowId(4));
    writer.append(&Record::Put { partition, row_id, epoch: Epoch(2), row: b"a row" });
    let mark = |epoch, synced| {
        let (epoch, since, durable) = (Epoch(epoch), Epoch(1), Epoch(1));
        Record::EpochEnd(Mark { epoch, since, durable, synced })
    };
    writer.append(&mark(2, 0));
    let synced = writer.offset();
    writer.append(&Record::Delete { partition, row_id, epoch: Epoch(3) });
    writer.append(&mark(3, synced));
    if sealed {
        writer.append(&Record::SegmentEnd);
    }
    writer.take(0).1
}

fn checkpoint() -> Vec<u8> {
    let header = CheckpointHeader {
        cluster: ClusterId(5),
        node: NodeId(1),
        worker: WorkerId(0),
        partition: PARTITION,
        sequence: 1,
        previous: 0,
        redo: Position { segment: 1, offset: 0 },
        complete: Epoch(1),
        changed_since: Epoch(0),
        slice: (0, 5),
        slot_count: 5,
    };
    let mut writer = CheckpointWriter::new(&header, Epoch(0));
    writer.slot(RowId(1), Epoch(1), Some(b"first"));
    writer.slot(RowId(4), Epoch(2), None);
    writer.finish();
    writer.take().1
}

#[test]
fn sound_files_are_described() {
    let place = Place::new();
    let (node, incarnation) = (NodeId(1), Incarnation(9));
    place.write("node", &Identity { node, workers: 1, incarnation }.encode());
    place.write("lock", b"123\n");
    place.write("worker-0/redo-0000000000000001", &segment(1, true));
    place.write("worker-0/redo-0000000000000002", &segment(2, false));
    place.write("worker-0/redo-0000000000000003", b"");
    place.write("worker-0/checkpoint-t7p3-00000001", &checkpoint());
    place.write("worker-0/checkpoint-t7p3-00000002.draft", b"half");
    let text = place.sound();
    for part in [
        "node: data directory of n1, 1 workers",
        "redo-0000000000000001: segment 1 of n1w0",
        "1 puts with 5 bytes, 1 deletes, 0 other records, saved",
        "complete\n",
        "ends with the file",
        "redo-0000000000000003: a segment that was not begun",
        "2 slots with",
        "00000002.draft: a checkpoint that was not finished",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("/lock"), "{text}");
    let (details, _) = place.inspect(true);
    for part in [": put t7p3", ": delete t7p3", "  1: ", "5 bytes", "empty"] {
        assert!(details.contains(part), "{part}: {details}");
    }
}

#[test]
fn what_a_crash_leaves_is_no_fault() {
    let whole = segment(1, false);
    for cut in 0..whole.len() {
        let place = Place::new();
        let mut torn = whole[..cut].to_vec();
        torn.resize(whole.len() + 100, 0);
        for bytes in [&torn, &whole[..cut].to_vec()] {
            place.write("worker-0/redo-0000000000000001", bytes);
            let (text, verdict) = place.inspect(false);
            // A header that is cut within its first bytes and filled with zeros is damaged: it is
            // synced before anything else happens.
            assert!(verdict.is_ok() || (1..100).contains(&cut), "cut at {cut}: {text}");
        }
    }
}

#[test]
fn what_was_synced_and_is_gone_is_broken() {
    let place = Place::new();
    let mut damaged = segment(1, false);
    let row = damaged.windows(5).position(|bytes| bytes == b"a row").unwrap();
    damaged[row] ^= 1;
    place.write("worker-0/redo-0000000000000001", &damaged);
    let text = place.broken();
    assert!(text.contains("though it had been synced"), "{text}");
}

#[test]
fn a_segment_without_its_end_is_broken_when_its_writer_went_on() {
    let place = Place::new();
    place.write("worker-0/redo-0000000000000001", &segment(1, false));
    place.write("worker-0/redo-0000000000000002", &segment(2, false));
    let text = place.broken();
    assert!(text.contains("0001: BROKEN: it has no end"), "{text}");
}

#[test]
fn every_flipped_bit_of_a_checkpoint_and_of_an_identity_is_noticed() {
    let place = Place::new();
    let sound = checkpoint();
    for bit in 0..sound.len() * 8 {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        place.write("worker-0/checkpoint-t7p3-00000001", &damaged);
        place.broken();
    }
    for cut in 0..sound.len() {
        place.write("worker-0/checkpoint-t7p3-00000001", &sound[..cut]);
        place.broken();
    }
    place.write("worker-0/checkpoint-t7p3-00000001", &sound);
    place.sound();
    place.write("node", b"NINESDIR");
    place.broken();
}

#[test]
fn a_control_log_must_begin_with_its_state() {
    let place = Place::new();
    fs::create_dir(place.0.join("control")).unwrap();
    place.write("control/new", b"half");
    assert!(place.sound().contains("control/new: not finished"));
    place.write("control/log-0000000000000001", b"garbage");
    let text = place.broken();
    assert!(text.contains("log-0000000000000001: BROKEN"), "{text}");
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new();
    place.write("diary", b"dear");
    place.sound();
    let verdict = |path: PathBuf| run(&options(path, false), &mut Vec::new()).unwrap_err();
    assert!(verdict(place.0.join("none")).starts_with("cannot read "));
    assert!(verdict(place.0.join("diary")).ends_with("is no file that holds data of Nines"));
}
