//! Bytes that were worked out by hand from the public description of the protocol, with checksums
//! of zlib.

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
