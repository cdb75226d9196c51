//! Checkpoints written, read, cut, damaged and mixed up.

use model::{ClusterId, Epoch, NodeId, PartitionId, PartitionIndex, RowId, TableId, WorkerId};

use super::*;
use crate::redo::Position;
use crate::{Damage, DamageKind};

type OwnedSlot = (u32, u64, Option<Vec<u8>>);

fn header() -> CheckpointHeader {
    CheckpointHeader {
        cluster: ClusterId(0xABCD),
        node: NodeId(3),
        worker: WorkerId(1),
        partition: PartitionId { table: TableId(9), index: PartitionIndex(2) },
        sequence: 5,
        previous: 4,
        redo: Position { segment: 7, offset: 4711 },
        complete: Epoch(90),
        changed_since: Epoch(80),
        slice: (10, 40),
        slot_count: 100,
    }
}

fn slots(count: u32, size: usize) -> Vec<OwnedSlot> {
    let row = |n: u32| (n % 5 != 4).then(|| vec![n as u8; 1 + n as usize % size]);
    (0..count).map(|n| (n * 3, 100 - u64::from(n % 7), row(n))).collect()
}

fn file(slots: &[OwnedSlot]) -> (Vec<u8>, CheckpointFooter) {
    let mut writer = CheckpointWriter::new(&header(), Epoch(0));
    let mut bytes = Vec::new();
    for (row_id, epoch, row) in slots {
        writer.slot(RowId(*row_id), Epoch(*epoch), row.as_deref());
        if writer.pending() > 1000 {
            let (offset, piece) = writer.take();
            assert_eq!(offset, bytes.len() as u64);
            bytes.extend(piece);
        }
    }
    let footer = writer.finish();
    bytes.extend(writer.take().1);
    assert_eq!((writer.len(), writer.pending()), (bytes.len() as u64, 0));
    (bytes, footer)
}

/// The slots that are handed out, and how the file ended.
fn read(bytes: &[u8], step: usize) -> (Vec<OwnedSlot>, Result<CheckpointFooter, Damage>) {
    let mut reader = CheckpointReader::new();
    let mut found = Vec::new();
    for piece in bytes.chunks(step) {
        reader.push(piece);
        if let Err(damage) = read_blocks(&mut reader, &mut found) {
            return (found, Err(damage));
        }
    }
    let end = reader.finish().map(|(read, footer)| {
        assert_eq!(*read, header(), "a header that passes is the one that was written");
        footer
    });
    (found, end)
}

fn read_blocks(reader: &mut CheckpointReader, found: &mut Vec<OwnedSlot>) -> Result<(), Damage> {
    while let Some(mut block) = reader.next_block()? {
        while let Some((row_id, epoch, row)) = block.next_slot()? {
            found.push((row_id.0, epoch.0, row.map(<[u8]>::to_vec)));
        }
    }
    Ok(())
}

#[test]
fn what_was_written_is_read() {
    for (count, size) in [(0, 1), (1, 1), (100, 50), (3000, 200), (5, 64_999)] {
        let slots = slots(count, size);
        let (bytes, footer) = file(&slots);
        for step in [777, bytes.len()] {
            assert_eq!(read(&bytes, step), (slots.clone(), Ok(footer)), "{count} slots");
        }
        assert_eq!(footer.slots, u64::from(count));
        assert_eq!(footer.newest, Epoch(if count == 0 { 0 } else { 100 }));
        let mut checked = CheckpointReader::new();
        checked.push(&bytes);
        assert_eq!(checked.finish().map(|(_, footer)| footer), Ok(footer), "without its slots");
    }
    assert_eq!(
        header().to_string(),
        "checkpoint 5 of t9p2, n3w1, cluster abcd, redo from 7:4711, complete e90: \
         slots 10 to 40 of 100, and what changed since e80, continues 4"
    );
}

#[test]
fn rows_that_do_not_compress_are_kept_as_they_are() {
    let mut prng = stdx::Prng::new(3);
    let mut noise = || (0..500).map(|_| prng.next_u64() as u8).collect::<Vec<u8>>();
    let slots: Vec<OwnedSlot> = (0..200).map(|n| (n, 1 << 60, Some(noise()))).collect();
    let (bytes, footer) = file(&slots);
    assert!(bytes.len() as u64 <= footer.bytes + 400, "{} of {}", bytes.len(), footer.bytes);
    assert_eq!(read(&bytes, 4096), (slots, Ok(footer)));
    let (bytes, footer) = file(&self::slots(2000, 100));
    assert!((bytes.len() as u64) < footer.bytes / 2, "{} of {}", bytes.len(), footer.bytes);
}

#[test]
fn every_cut_is_noticed() {
    let slots = slots(60, 30);
    let (bytes, _) = file(&slots);
    for len in 0..bytes.len() {
        let (found, end) = read(&bytes[..len], 100);
        assert!(slots.starts_with(&found) && end.is_err(), "cut at {len}");
        let mut padded = bytes[..len].to_vec();
        padded.resize(bytes.len(), 0);
        if padded != bytes {
            let (found, end) = read(&padded, 100);
            assert!(slots.starts_with(&found) && end.is_err(), "zeros from {len}");
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(read(&longer, 100).1.is_err(), "more than the file");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let slots = slots(60, 30);
    let (bytes, _) = file(&slots);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (found, end) = read(&flipped, 90);
        assert!(slots.starts_with(&found), "bit {bit}");
        let damage = end.expect_err("a flipped bit");
        assert!(damage.offset <= bit as u64 / 8, "bit {bit}: {damage}");
    }
}

#[test]
fn blocks_of_another_place_do_not_match() {
    let (bytes, _) = file(&slots(4000, 60));
    let mut other = CheckpointWriter::new(&CheckpointHeader { sequence: 6, ..header() }, Epoch(0));
    for (row_id, epoch, row) in slots(4000, 60) {
        other.slot(RowId(row_id), Epoch(epoch), row.as_deref());
    }
    other.finish();
    let mut mixed = other.take().1;
    assert_eq!(mixed.len(), bytes.len());
    let header_len = 86;
    mixed[..header_len].copy_from_slice(&bytes[..header_len]);
    let (found, end) = read(&mixed, 1000);
    assert_eq!((found.len(), end), (0, Err(Damage { offset: 86, kind: DamageKind::Checksum })));
}
