//! Segments written, read, cut, damaged and mixed up.

use model::{ClusterId, Epoch, Incarnation, NodeId, PartitionId, PartitionIndex, RowId};
use model::{TableId, WorkerId};

use super::*;
use crate::{Damage, DamageKind};

const P: PartitionId = PartitionId { table: TableId(9), index: PartitionIndex(2) };

fn header() -> SegmentHeader {
    SegmentHeader {
        cluster: ClusterId(0xABCD),
        node: NodeId(3),
        worker: WorkerId(1),
        incarnation: Incarnation(77),
        segment: 0x12,
        first: 0xF,
        saved: Epoch(40),
        durable: Epoch(39),
        fences: vec![Fence { segment: 0x10, through: Epoch(30) }],
        bases: vec![Base {
            partition: P,
            sequence: 4,
            redo: Position { segment: 0x11, offset: 99 },
        }],
    }
}

fn records() -> Vec<Record<'static>> {
    let (row_id, epoch) = (RowId(7), Epoch(41));
    vec![
        Record::Put { partition: P, row_id, epoch, row: b"a row" },
        Record::Delete { partition: P, row_id, epoch },
        Record::Truncate { partition: P, slots: 5, epoch },
        Record::EpochEnd(Mark { epoch, since: Epoch(3), durable: Epoch(40), synced: 150 }),
        Record::Base(header().bases[0]),
        Record::Dropped { partition: P },
        Record::SegmentEnd,
    ]
}

fn segment(records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = SegmentWriter::new(&header());
    for record in records {
        writer.append(record);
    }
    writer.take(0).1
}

/// The records as text, and how the segment ended. Pushes `step` bytes at a time.
fn read(bytes: &[u8], step: usize) -> (Vec<String>, SegmentEnd, bool) {
    let mut reader = SegmentReader::new();
    let mut texts = Vec::new();
    for piece in bytes.chunks(step) {
        reader.push(piece);
        if let Some(read) = reader.header() {
            assert_eq!(*read, header(), "a header that passes is the one that was written");
        }
        while let Some((_, record)) = reader.next_record() {
            texts.push(record.to_string());
        }
    }
    let end = reader.finish();
    (texts, end, reader.proves_loss())
}

fn texts(records: &[Record<'_>]) -> Vec<String> {
    records.iter().map(Record::to_string).collect()
}

#[test]
fn what_was_written_is_read() {
    let bytes = segment(&records());
    for step in [1, 3, 64, bytes.len()] {
        assert_eq!(read(&bytes, step), (texts(&records()), SegmentEnd::Sealed, false));
    }
    let open = &records()[..4];
    assert_eq!(read(&segment(open), 8), (texts(open), SegmentEnd::Open, false));
    assert_eq!(
        header().to_string(),
        "segment 12 of n3w1i77, cluster abcd, from f on, saved e40, durable e39, \
         below 10 through e30, 1 partitions"
    );
    assert_eq!(texts(&records())[0], "put t9p2 r7 e41, 5 bytes");
}

#[test]
fn bytes_are_taken_in_pieces() {
    let mut writer = SegmentWriter::new(&header());
    let mut bytes = Vec::new();
    for record in records() {
        let (offset, piece) = writer.take(16);
        assert_eq!(offset, bytes.len() as u64);
        bytes.extend(piece);
        assert_eq!(writer.append(&record), bytes.len() as u64);
    }
    bytes.extend(writer.take(0).1);
    assert_eq!(writer.offset(), bytes.len() as u64);
    assert_eq!(bytes, segment(&records()));
}

#[test]
fn every_cut_gives_a_prefix() {
    let (bytes, all) = (segment(&records()), texts(&records()));
    for len in 0..bytes.len() {
        let (some, end, loss) = read(&bytes[..len], 16);
        assert!(all.starts_with(&some), "cut at {len}");
        assert_ne!(end, SegmentEnd::Sealed, "cut at {len}");
        assert!(!loss, "cut at {len}");
        // The rest of the file was set aside and never written.
        let mut padded = bytes[..len].to_vec();
        padded.resize(bytes.len() + 100, 0);
        let (padded_some, end, _) = read(&padded, 50);
        assert!(all.starts_with(&padded_some), "zeros from {len}");
        assert!(matches!(end, SegmentEnd::Damaged(_)), "zeros from {len}");
    }
}

#[test]
fn every_flipped_bit_gives_a_prefix() {
    let (bytes, all) = (segment(&records()), texts(&records()));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (some, end, _) = read(&flipped, 40);
        assert!(all.starts_with(&some) && some.len() < all.len(), "bit {bit}");
        let SegmentEnd::Damaged(damage) = end else { panic!("bit {bit}: {end:?}") };
        assert!(damage.offset <= bit as u64 / 8, "bit {bit}: {damage}");
    }
}

#[test]
fn a_hole_below_a_later_mark_is_no_torn_end() {
    let put = Record::Put { partition: P, row_id: RowId(1), epoch: Epoch(41), row: &[7; 300] };
    let mut writer = SegmentWriter::new(&header());
    let first = writer.append(&put);
    let mark = |synced| Record::EpochEnd(Mark { epoch: Epoch(41), synced, ..Mark::default() });
    writer.append(&mark(first));
    let second = writer.append(&put);
    writer.append(&mark(second));
    let third = writer.append(&put);
    let bytes = writer.take(0).1;
    let (first, second, third) = (first as usize, second as usize, third as usize);
    for (at, loss) in [(first, true), (first + 100, true), (second + 3, false), (third, false)] {
        let mut holed = bytes.clone();
        holed[at..at + 20].fill(0);
        assert_eq!(read(&holed, 33).2, loss, "hole at {at}");
        assert_eq!(read(&holed, 10_000).2, loss, "hole at {at}, read at once");
    }
}

#[test]
fn records_of_another_place_do_not_match() {
    let mut other = SegmentWriter::new(&SegmentHeader { segment: 0x13, ..header() });
    let header_len = segment(&[]).len();
    for record in records() {
        other.append(&record);
    }
    let mut bytes = segment(&records());
    bytes[header_len..].copy_from_slice(&other.take(0).1[header_len..]);
    let (some, end, _) = read(&bytes, 64);
    let damage = Damage::new(header_len as u64, DamageKind::Checksum);
    assert_eq!((some, end), (vec![], SegmentEnd::Damaged(damage)), "of another segment");
    // The first record again in the place of the second, which is as long.
    let twice = [records()[1], records()[1]];
    let mut bytes = segment(&twice);
    let (first, second) = (header_len..header_len + 26, header_len + 26);
    bytes.copy_within(first, second);
    assert_eq!(read(&bytes, 64).0.len(), 1, "of another place");
}

#[test]
fn fences_bound_what_counts() {
    let mut header = header();
    header.fences.push(Fence { segment: 0x12, through: Epoch(35) });
    assert!(header.begins_life());
    let limits = [(5, Epoch(30)), (0xF, Epoch(30)), (0x10, Epoch(35)), (0x12, Epoch(u64::MAX))];
    for (segment, limit) in limits {
        assert_eq!(header.limit_of(segment), limit, "segment {segment:x}");
    }
}

#[test]
fn files_of_others_are_told_apart() {
    let bytes = segment(&records());
    let mut newer = bytes.clone();
    newer[8] = 2;
    let kind = |bytes: &[u8]| match read(bytes, 1000).1 {
        SegmentEnd::Damaged(damage) => damage.kind,
        end => panic!("{end:?}"),
    };
    assert_eq!(kind(&newer), DamageKind::Version { found: 2, known: 1 });
    assert_eq!(kind(b"GIF89a, and more bytes of that"), DamageKind::Foreign);
    assert_eq!(kind(&[0; 100]), DamageKind::Blank);
    assert_eq!(kind(&[]), DamageKind::Cut);
    let text = Damage::new(0, kind(&newer)).to_string();
    assert!(text.contains("format version 2") && text.contains("up to 1"), "{text}");
}
