//! Bytes that were worked out by hand from the public description of the protocol, with checksums
//! of zlib.

use super::event as reading;
use super::image::{self, Cell, Clock, Day, Rows, RowsKind};
use super::rows::{MapColumn, TableMap, column};
use super::*;
use crate::{BinlogDump, Command, ReplicaName};

const STAMP: Stamp = Stamp { timestamp: 1, server: 2 };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn events_have_header_body_and_checksum() {
    let bytes = event(kind::XID, STAMP, Some(4), 0, |out| xid(out, 7));
    assert_eq!(bytes.len(), 31);
    let header = "01000000".to_owned() + "10" + "02000000" + "1f000000" + "23000000" + "0000";
    assert_eq!(hex(&bytes[..19]), header);
    assert_eq!(hex(&bytes[19..27]), "0700000000000000");
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the check value of CRC-32");
    assert_eq!(bytes[27..], crc32(&bytes[..27]).to_le_bytes());
    // Without a checksum it is shorter, and ends where it did.
    let plain = without_checksum(&bytes);
    assert_eq!(hex(&plain[9..17]), "1b00000023000000");
    assert_eq!(plain.len(), 27);
    let artificial = event(kind::ROTATE, STAMP, None, ARTIFICIAL, |out| rotate(out, 4, "b.1"));
    assert_eq!(hex(&artificial[13..30]), "000000002000".to_owned() + "0400000000000000" + "622e31");
}

#[test]
fn a_format_description_says_how_the_others_look() {
    let write = |out: &mut Vec<u8>| format_description(out, "8.4.0-x");
    let bytes = event(kind::FORMAT_DESCRIPTION, STAMP, Some(4), 0, write);
    // Version, name, time, length of headers, one length for each type, kind of checksum.
    assert_eq!(bytes.len(), HEADER + 2 + 50 + 4 + 1 + 41 + 1 + CHECKSUM);
    assert_eq!(bytes[19..21], [4, 0]);
    assert_eq!(&bytes[21..29], b"8.4.0-x\0");
    assert_eq!(bytes[75], HEADER as u8);
    // TABLE_MAP has eight fixed bytes, rows of version 2 have ten, GTID has 42.
    let of = |kind: u8| bytes[75 + usize::from(kind)];
    assert_eq!([kind::TABLE_MAP, kind::WRITE_ROWS, kind::GTID].map(of), [8, 10, 42]);
    assert_eq!(of(kind::FORMAT_DESCRIPTION), 2 + 50 + 4 + 1 + 41);
    assert_eq!(bytes[117], 1, "CRC32");
    let plain = without_checksum(&bytes);
    assert_eq!((plain.len(), plain[117]), (bytes.len(), 0));
    let moved = without_place(&bytes);
    assert_eq!(moved[13..17], [0; 4]);
    assert_eq!(moved[118..], crc32(&moved[..118]).to_le_bytes());
}

#[test]
fn a_transaction_begins_with_its_gtid() {
    let server = *b"0123456789abcdef";
    let bytes = body(|out| gtid_body(out, &server, 258, 3, false));
    assert_eq!(bytes.len(), 42);
    assert_eq!(
        hex(&bytes[17..]),
        "0201000000000000".to_owned() + "02" + "0200000000000000" + "0300000000000000"
    );
    assert_eq!(gtid::text(&server), "30313233-3435-3637-3839-616263646566");
    let set = body(|out| gtid::first_ones(out, &server, 9));
    assert_eq!(gtid::highest_of(&set, &server), Ok(9));
    assert_eq!(gtid::highest_of(&set, b"another server.."), Ok(0));
    assert!(gtid::highest_of(&set[..set.len() - 1], &server).is_err());
    assert_eq!(body(|out| gtid::first_ones(out, &server, 0)), [0; 8]);
}

#[test]
fn a_statement_has_its_variables_before_its_text() {
    let statement = Statement {
        database: "d",
        text: "DROP TABLE t",
        collations: [45, 45, 45],
        ignores_foreign_keys: true,
        ..Statement::default()
    };
    let bytes = body(|out| query(out, &statement));
    let variables =
        "0000000004".to_owned() + "010000000000000000" + "0603737464" + "042d002d002d00";
    let head = "0000000000000000".to_owned() + "01" + "0000" + "1a00";
    assert_eq!(hex(&bytes), head + &variables + "6400" + &hex(b"DROP TABLE t"));
}

#[test]
fn a_table_and_its_rows() {
    let plain = |kind, detail: &[u8], name: &str| MapColumn {
        kind,
        detail: detail.to_vec(),
        nullable: false,
        unsigned: None,
        collation: None,
        name: name.to_owned(),
        members: Vec::new(),
    };
    let map = TableMap {
        id: 0x0102,
        database: "d".to_owned(),
        name: "t".to_owned(),
        columns: vec![
            MapColumn { unsigned: Some(true), ..plain(column::LONG, &[], "i") },
            MapColumn {
                nullable: true,
                collation: Some(255),
                ..plain(column::VARCHAR, &[80, 0], "v")
            },
            MapColumn {
                nullable: true,
                collation: Some(45),
                members: vec![b"a".to_vec(), b"bc".to_vec()],
                ..plain(column::ENUM, &[column::ENUM, 1], "e")
            },
        ],
        primary_key: vec![(0, 0)],
    };
    let bytes = body(|out| rows::table_map(out, &map));
    let fixed = "020100000000".to_owned() + "0100" + "016400" + "017400" + "03" + "030ffe";
    let details = "04".to_owned() + "5000" + "f701" + "06";
    let optional = "010180".to_owned() // Signs: the highest bit is the first number's.
        + "0303fcff00" // Collations.
        + "0406016901760165" // Names.
        + "0606020161026263" // Members of ENUM.
        + "080100" // The primary key.
        + "0b012d"; // Collations of ENUM and SET.
    assert_eq!(hex(&bytes), fixed + &details + &optional);
    let prefixed = TableMap { primary_key: vec![(0, 0), (1, 5)], ..map };
    let bytes = hex(&body(|out| rows::table_map(out, &prefixed)));
    assert!(bytes.contains("090400000105"), "columns with characters: {bytes}");
    let present = [true, true, true];
    let head = body(|out| rows::rows_head(out, 0x0102, rows::STATEMENT_ENDS, &[&present]));
    assert_eq!(hex(&head), "020100000000".to_owned() + "0100" + "0200" + "03" + "07");
    let values: [Option<&[u8]>; 3] = [Some(&[7, 0, 0, 0]), None, Some(&[2])];
    assert_eq!(hex(&body(|out| rows::row_image(out, values.into_iter()))), "020700000002");
}

#[test]
fn a_heartbeat_names_the_place_that_the_reader_has_reached() {
    let bytes = heartbeat(9, "binlog.000007", 1_000);
    assert_eq!(bytes[13..17], 1_000u32.to_le_bytes());
    assert_eq!(&bytes[19..32], b"binlog.000007");
    assert_eq!(bytes[32..], crc32(&bytes[..32]).to_le_bytes());
    assert_eq!(heartbeat(9, "binlog.000007", 4)[13..17], [4, 0, 0, 0], "a short file");
}

#[test]
fn replicas_ask_for_the_log() {
    let parsed = |bytes: &[u8]| Command::parse(bytes.to_vec(), false);
    let register = b"\x15\x07\0\0\0\x04host\x01u\x01p\xEA\x0C\0\0\0\0\0\0\0\0";
    let name = ReplicaName { server: 7, host: b"host".to_vec(), port: 3_306 };
    assert_eq!(parsed(register), Ok(Command::RegisterReplica(name)));
    let dump = BinlogDump {
        server: 7,
        file: b"binlog.000001".to_vec(),
        position: 4,
        to_the_end: true,
        has: None,
    };
    let asked = b"\x12\x04\0\0\0\x01\0\x07\0\0\0binlog.000001";
    assert_eq!(parsed(asked), Ok(Command::BinlogDump(dump)));
    let set = body(|out| gtid::first_ones(out, b"0123456789abcdef", 3));
    let mut asked = b"\x1E\x04\0\x07\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0".to_vec();
    asked.extend((set.len() as u32).to_le_bytes());
    asked.extend(&set);
    let dump = BinlogDump { server: 7, position: 4, has: Some(set), ..BinlogDump::default() };
    assert_eq!(parsed(&asked), Ok(Command::BinlogDump(dump)));
    for length in 1..asked.len() {
        if let Ok(Command::BinlogDump(dump)) = parsed(&asked[..length]) {
            assert_eq!(dump.has, None, "{length}");
        }
    }
}

/// A table with a column of each type, and a row of it.
fn all_types() -> (TableMap, Vec<u8>, Vec<Cell<'static>>) {
    let day = Day { year: 2024, month: 2, day: 29 };
    let clock = |micros| Clock { hours: 1, minutes: 2, seconds: 3, micros };
    // 1:02:03 is 1 << 12 | 2 << 6 | 3; 2024-02-29 is (2024 * 13 + 2) << 5 | 29.
    let packed_day = (2024_u64 * 13 + 2) << 5 | 29;
    let moment = (0x80_0000_0000 + (packed_day << 17 | 0x1083)).to_be_bytes()[3..].to_vec();
    let date = (2024_u32 << 9 | 2 << 5 | 29).to_le_bytes()[..3].to_vec();
    let with = |prefix: &[u8], rest: &[u8]| [prefix, rest].concat();
    let cells: Vec<(u8, &[u8], Vec<u8>, Cell<'static>)> = vec![
        (column::TINY, &[], vec![0x80], Cell::Int(-128, 1)),
        (column::SHORT, &[], vec![0, 0x80], Cell::Int(-32_768, 2)),
        (column::INT24, &[], vec![0, 0, 0x80], Cell::Int(-8_388_608, 3)),
        (column::LONG, &[], vec![255; 4], Cell::Int(-1, 4)),
        (column::LONGLONG, &[], i64::MIN.to_le_bytes().to_vec(), Cell::Int(i64::MIN, 8)),
        (column::FLOAT, &[4], 1.5_f32.to_le_bytes().to_vec(), Cell::Float(1.5)),
        (column::DOUBLE, &[8], (-2.25_f64).to_le_bytes().to_vec(), Cell::Double(-2.25)),
        (
            column::NEWDECIMAL,
            &[14, 4],
            vec![0x7E, 0xF2, 0x04, 0xC7, 0x2D, 0xFB, 0x2D],
            Cell::Decimal("-1234567890.1234".to_owned()),
        ),
        (column::NEWDECIMAL, &[1, 1], vec![0x85], Cell::Decimal("0.5".to_owned())),
        (column::BIT, &[5, 1], vec![0x15, 0x55], Cell::Bit(0x1555)),
        (column::YEAR, &[], vec![124], Cell::Year(2024)),
        (column::DATE, &[], date, Cell::Date(day)),
        (column::TIMESTAMP2, &[3], vec![0, 0, 0, 1, 0x04, 0xD2], Cell::Timestamp(1, 123_400)),
        (column::DATETIME2, &[2], with(&moment, &[12]), Cell::DateTime(day, clock(120_000))),
        (column::TIME2, &[0], vec![0x80, 0x10, 0x83], Cell::Time(false, clock(0))),
        (column::TIME2, &[2], vec![0x7F, 0xEF, 0x7C, 0xCE], Cell::Time(true, clock(500_000))),
        (column::TIME2, &[3], vec![0x7F, 0xEF, 0x7C, 0xFB, 0x50], Cell::Time(true, clock(120_000))),
        (
            column::TIME2,
            &[6],
            vec![0x7F, 0xEF, 0x7C, 0xF8, 0x5E, 0xE0],
            Cell::Time(true, clock(500_000)),
        ),
        (column::ENUM, &[column::ENUM, 1], vec![2], Cell::Enum(2)),
        (column::SET, &[column::SET, 2], vec![1, 2], Cell::Set(0x201)),
        (column::VARCHAR, &[10, 0], b"\x02ab".to_vec(), Cell::Bytes(b"ab")),
        (column::VARCHAR, &[0, 2], b"\x02\0ab".to_vec(), Cell::Bytes(b"ab")),
        (column::STRING, &[column::STRING, 40], b"\x01a".to_vec(), Cell::Bytes(b"a")),
        // 800 bytes: two bits of the length stand in the type, inverted.
        (column::STRING, &[0xCE, 0x20], b"\x01\0a".to_vec(), Cell::Bytes(b"a")),
        (column::BLOB, &[3], b"\x01\0\0a".to_vec(), Cell::Bytes(b"a")),
        (column::JSON, &[4], b"\x02\0\0\0\x04\0".to_vec(), Cell::Json(b"\x04\0")),
    ];
    let columns = cells.iter().map(|(kind, detail, ..)| MapColumn {
        kind: *kind,
        detail: detail.to_vec(),
        nullable: true,
        unsigned: None,
        collation: None,
        name: String::new(),
        members: Vec::new(),
    });
    let map = TableMap {
        id: 7,
        database: "d".to_owned(),
        name: "t".to_owned(),
        columns: columns.collect(),
        primary_key: vec![],
    };
    let values: Vec<&[u8]> = cells.iter().map(|(_, _, bytes, _)| bytes.as_slice()).collect();
    let present = vec![true; values.len()];
    let rows = body(|out| {
        rows::rows_head(out, 7, rows::STATEMENT_ENDS, &[&present, &present]);
        rows::row_image(out, values.iter().map(|bytes| Some(*bytes)));
        rows::row_image(out, values.iter().map(|_| None));
    });
    (map, rows, cells.into_iter().map(|(.., cell)| cell).collect())
}

#[test]
fn rows_of_all_types_are_read_as_they_were_written() {
    let (map, rows, cells) = all_types();
    let bytes = body(|out| rows::table_map(out, &map));
    assert_eq!(image::table_map(&bytes), Ok(map.clone()));
    let mut read = Rows::read(&rows, RowsKind::Update, true).expect("rows");
    assert_eq!((read.table, read.flags), (7, rows::STATEMENT_ENDS));
    let images = read.next_row(&map).expect("a row").expect("one");
    assert_eq!(images.before, cells);
    assert!(images.after.iter().all(|cell| *cell == Cell::Null));
    assert_eq!(read.next_row(&map), Ok(None));
    // Of version 1, which says nothing more of itself, with one column left out.
    let mut first = rows[..8].to_vec();
    first.extend(&rows[10..]);
    let at = 9 + map.columns.len().div_ceil(8);
    first[9] &= !1;
    first.remove(at + map.columns.len().div_ceil(8) * 2);
    let read = Rows::read(&first, RowsKind::Update, false).map(|mut rows| rows.next_row(&map));
    assert!(read.is_ok());
    assert_eq!(image::rows_kind(23), Some((RowsKind::Write, false)));
    assert_eq!(image::rows_kind(kind::DELETE_ROWS), Some((RowsKind::Delete, true)));
    assert_eq!(image::rows_kind(kind::XID), None);
}

#[test]
fn what_a_table_says_of_its_columns_is_read() {
    let (mut map, ..) = all_types();
    map.columns[0].unsigned = Some(true);
    let last = map.columns.len() - 1;
    for (at, column) in map.columns.iter_mut().enumerate() {
        column.name = format!("c{at}");
        let is_number = at < 9;
        column.unsigned = is_number.then_some(at % 2 == 0);
        let is_text = (20..last).contains(&at);
        column.collation = is_text.then_some(45 + at as u16);
    }
    for characters in [0, 5] {
        map.primary_key = vec![(4, 0), (1, characters)];
        let bytes = body(|out| rows::table_map(out, &map));
        assert_eq!(image::table_map(&bytes).as_ref(), Ok(&map));
    }
}

#[test]
fn events_of_others_are_read() {
    let said = Statement {
        database: "d",
        text: "DROP TABLE t",
        sql_mode: 1 << 22,
        collations: [45, 46, 8],
        ignores_foreign_keys: true,
        time_zone: "+02:00",
        micros: 250_000,
    };
    let read = reading::statement(&body(|out| query(out, &said))).expect("a statement");
    assert_eq!((read.database.as_slice(), read.text.as_slice()), (&b"d"[..], &b"DROP TABLE t"[..]));
    assert_eq!((read.sql_mode, read.collations), (Some(1 << 22), Some([45, 46, 8])));
    assert!(read.ignores_foreign_keys && read.time_zone.as_deref() == Some(b"+02:00"));
    let described = body(|out| format_description(out, "8.4.0-x"));
    let description = reading::description(&described).expect("a description");
    assert_eq!(description.version, "8.4.0-x");
    assert!(description.format.has_checksums);
    let moved = body(|out| rotate(out, 4, "b.7"));
    assert_eq!(reading::rotated(&moved), Ok(("b.7".to_owned(), 4)));
    let gtid = reading::gtid(&body(|out| gtid_body(out, b"0123456789abcdef", 258, 3, false)));
    assert_eq!(gtid, Ok(reading::Gtid { server: *b"0123456789abcdef", number: 258 }));
    let of_mariadb = [9_u64.to_le_bytes().as_slice(), &[2, 0, 0, 0, 1]].concat();
    let wanted = reading::MariadbGtid { domain: 2, number: 9, is_standalone: true };
    assert_eq!(reading::mariadb_gtid(&of_mariadb), Ok(wanted));
    assert_eq!(reading::incident(&body(|out| incident(out, "lost"))), Ok("lost".to_owned()));
}

#[test]
fn an_event_is_checked_before_it_is_read() {
    let format = reading::Format { has_checksums: true };
    let bytes = event(kind::XID, STAMP, Some(4), 0, |out| xid(out, 7));
    let (head, read) = reading::read(&bytes, format).expect("an event");
    assert_eq!((head.kind, head.server, head.end, read.len()), (kind::XID, 2, 35, 8));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(reading::read(&damaged, format).is_err(), "byte {at}, bit {bit}");
        }
        assert!(reading::read(&bytes[..at], format).is_err());
    }
    let plain = without_checksum(&bytes);
    let without = reading::Format { has_checksums: false };
    assert_eq!(reading::read(&plain, without).map(|(_, body)| body.len()), Ok(8));
    // What describes the others has a checksum also where they have none.
    let describe = |out: &mut Vec<u8>| format_description(out, "x");
    let described = event(kind::FORMAT_DESCRIPTION, STAMP, Some(4), 0, describe);
    for bytes in [described.clone(), without_checksum(&described)] {
        let (_, body) = reading::read(&bytes, without).expect("an event");
        assert!(reading::description(body).is_ok());
    }
}

/// Any bytes of a source are something or nothing: all that are cut, and all with one bit changed.
#[test]
fn hostile_bytes_of_a_source_do_no_harm() {
    let (map, rows, _) = all_types();
    let table = body(|out| rows::table_map(out, &map));
    let said = Statement { text: "DROP TABLE t", time_zone: "SYSTEM", ..Statement::default() };
    let statement = body(|out| query(out, &said));
    let look = |bytes: &[u8]| {
        let _ = image::table_map(bytes);
        let _ = reading::statement(bytes);
        let _ = reading::description(bytes);
        let _ = reading::rotated(bytes);
        let _ = reading::gtid(bytes);
        let _ = reading::incident(bytes);
        for kind in [RowsKind::Write, RowsKind::Update, RowsKind::Delete] {
            for is_second in [false, true] {
                let Ok(mut rows) = Rows::read(bytes, kind, is_second) else { continue };
                // Each row takes at least a byte.
                for _ in 0..=bytes.len() {
                    match rows.next_row(&map) {
                        Ok(Some(_)) => {}
                        _ => break,
                    }
                }
            }
        }
    };
    for bytes in [&rows, &table, &statement] {
        for at in 0..bytes.len() {
            look(&bytes[..at]);
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                look(&damaged);
                if let Ok(other) = image::table_map(&damaged) {
                    let read = Rows::read(&rows, RowsKind::Update, true);
                    let _ = read.map(|mut rows| while let Ok(Some(_)) = rows.next_row(&other) {});
                }
            }
        }
    }
}
