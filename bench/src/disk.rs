//! Measures of what durability costs a processor, without a disk: log records, checkpoints, and
//! reading both back.
//!
//! Rows are like sysbench's, digits included: what they compress to is what a disk would hold.

use std::hint::black_box;
use std::sync::Arc;

use model::{
    ClusterId, Epoch, Incarnation, NodeId, PartitionId, PartitionIndex, Row, RowId, Table, TableId,
    ValueRef, WorkerId,
};
use ondisk::checkpoint::{CheckpointHeader, CheckpointReader, CheckpointWriter};
use ondisk::redo::{Position, Record, SegmentHeader, SegmentReader, SegmentWriter};
use stdx::Prng;
use store::partition::Partition;

use crate::measure::Report;
use crate::storage;

const P: PartitionId = PartitionId { table: TableId(1), index: PartitionIndex(0) };
/// Slots or entries that a worker gives to indexes at once.
const STEP: u32 = 1_024;
/// Bytes that a worker writes and reads at once.
const PIECE: usize = 256 << 10;

/// Measures the log and a checkpoint of `rows` rows.
pub fn measure(report: &mut Report, rows: u64) {
    let table = Arc::new(storage::table());
    let mut prng = Prng::new(1);
    let images: Vec<Row> = (0..rows).map(|id| row(&table, &mut prng, id, rows)).collect();
    let log = measure_log(report, &images);
    replay(report, &table, &log, rows);
    let mut partition = Partition::new(P, Arc::clone(&table));
    for image in &images {
        let row_id = partition.allocate();
        partition.put(row_id, &image.0, Epoch(1), &[]);
    }
    let file = measure_checkpoint(report, &partition);
    restore(report, &table, &file, rows);
    let bare = Table { ordered_indexes: Vec::new(), ..storage::table() };
    restore_without_ordered_indexes(report, &Arc::new(bare), &file, rows);
}

/// Digits in groups, as sysbench fills `c` and `pad`.
fn row(table: &Table, prng: &mut Prng, id: u64, rows: u64) -> Row {
    let mut text = |groups: usize| {
        let group = |_| format!("{:011}", prng.below(100_000_000_000));
        let groups = (0..groups).map(group).collect::<Vec<_>>().join("-");
        // The column's length is fixed.
        groups + " "
    };
    let (c, pad) = (text(10), text(5));
    let (id, k) = (ValueRef::Int(id as i64), ValueRef::Int(prng.below(rows) as i64));
    let values = [id, k, ValueRef::Bytes(c.as_bytes()), ValueRef::Bytes(pad.as_bytes())];
    table.layout().encode(&values).expect("the values fit")
}

fn measure_log(report: &mut Report, images: &[Row]) -> Vec<u8> {
    let header = SegmentHeader {
        cluster: ClusterId(1),
        node: NodeId(1),
        worker: WorkerId(0),
        incarnation: Incarnation(1),
        segment: 1,
        ..SegmentHeader::default()
    };
    let mut writer = SegmentWriter::new(&header);
    let count = images.len() as u64;
    report.rate("log: record of a row appended", count, || {
        for (at, image) in images.iter().enumerate() {
            let (row_id, row) = (RowId(at as u32), &image.0[..]);
            writer.append(&Record::Put { partition: P, row_id, epoch: Epoch(1), row });
            if writer.pending() >= PIECE {
                black_box(writer.take(PIECE));
            }
        }
    });
    let mut writer = SegmentWriter::new(&header);
    for (at, image) in images.iter().enumerate() {
        let (row_id, row) = (RowId(at as u32), &image.0[..]);
        writer.append(&Record::Put { partition: P, row_id, epoch: Epoch(1), row });
    }
    let log = writer.take(0).1;
    let row_bytes: usize = images.iter().map(|image| image.0.len()).sum();
    let each = format!("a row has {} bytes", row_bytes / images.len());
    report.add("log: bytes of a row's record", log.len() as f64 / count as f64, "B", &each);
    log
}

fn replay(report: &mut Report, table: &Arc<Table>, log: &[u8], rows: u64) {
    let mut partition = Partition::new(P, Arc::clone(table));
    partition.begin_restore();
    report.rate("log: record replayed into an empty partition", rows, || {
        let mut reader = SegmentReader::new();
        for piece in log.chunks(PIECE) {
            reader.push(piece);
            while let Some((_, record)) = reader.next_record() {
                if let Record::Put { row_id, epoch, row, .. } = record {
                    partition.restore(row_id, epoch, Some(row));
                }
            }
        }
    });
}

fn measure_checkpoint(report: &mut Report, partition: &Partition) -> Vec<u8> {
    let slot_count = partition.slot_count();
    let header = CheckpointHeader {
        cluster: ClusterId(1),
        node: NodeId(1),
        worker: WorkerId(0),
        partition: P,
        sequence: 1,
        previous: 0,
        redo: Position { segment: 1, offset: 0 },
        complete: Epoch(1),
        changed_since: Epoch(0),
        slice: (0, slot_count),
        slot_count,
    };
    let mut file = Vec::new();
    let rows = partition.row_count();
    let work = || {
        let mut writer = CheckpointWriter::new(&header, Epoch(0));
        for (row_id, epoch, row) in partition.slots_from(RowId(0)) {
            writer.slot(row_id, epoch, row);
            if writer.pending() >= PIECE {
                file.extend(writer.take().1);
            }
        }
        writer.finish();
        file.extend(writer.take().1);
    };
    report.rate_of_setup("checkpoint: row scanned and compressed", rows, work);
    report.add("checkpoint: bytes of a row", file.len() as f64 / rows as f64, "B", "");
    let checks = || {
        let mut reader = CheckpointReader::new();
        for piece in file.chunks(PIECE) {
            reader.push(piece);
            while reader.skip_block().expect("what was written") {}
        }
        reader.finish().expect("what was written");
    };
    report.rate("checkpoint: row of a file that is checked", rows, checks);
    file
}

fn restore(report: &mut Report, table: &Arc<Table>, file: &[u8], rows: u64) {
    let mut partition = Partition::new(P, Arc::clone(table));
    report.rate_of_setup("checkpoint: row read back", rows, || load(&mut partition, file));
    assert_eq!(partition.row_count(), rows, "all rows are back");
    report.rate("checkpoint: row's entries by key and in an ordered index", rows, || {
        while !partition.build_indexes(STEP) {}
    });
}

fn restore_without_ordered_indexes(
    report: &mut Report,
    table: &Arc<Table>,
    file: &[u8],
    rows: u64,
) {
    let mut partition = Partition::new(P, Arc::clone(table));
    load(&mut partition, file);
    report.rate("checkpoint: row's entry by key", rows, || while !partition.build_indexes(STEP) {});
}

/// Reads a checkpoint into an empty partition.
fn load(partition: &mut Partition, file: &[u8]) {
    partition.begin_restore();
    let mut reader = CheckpointReader::new();
    for piece in file.chunks(PIECE) {
        reader.push(piece);
        while let Some(mut slots) = reader.next_block().expect("what was written") {
            while let Some((row_id, epoch, row)) = slots.next_slot().expect("sound") {
                partition.restore(row_id, epoch, row);
            }
        }
    }
}
