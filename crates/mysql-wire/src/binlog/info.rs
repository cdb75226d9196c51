//! What SHOW BINLOG EVENTS says of an event.
//!
//! # Guarantees
//! Any bytes have a text: what cannot be read has none.

use super::{CHECKSUM, HEADER, gtid, kind};

/// The text of an event that has a checksum.
pub fn info(event: &[u8]) -> String {
    let body = event.get(HEADER..event.len().saturating_sub(CHECKSUM)).unwrap_or_default();
    let kind = event.get(4).copied().unwrap_or_default();
    of_body(kind, body).unwrap_or_default()
}

fn of_body(kind: u8, body: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let number = |at: usize, bytes: usize| {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(body.get(at..at + bytes)?);
        Some(u64::from_le_bytes(wide))
    };
    Some(match kind {
        kind::FORMAT_DESCRIPTION => {
            let name = body.get(2..52)?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            format!("Server ver: {}, Binlog ver: {}", text(&name[..end]), number(0, 2)?)
        }
        kind::ROTATE => format!("{};pos={}", text(body.get(8..)?), number(0, 8)?),
        kind::XID => format!("COMMIT /* xid={} */", number(0, 8)?),
        kind::QUERY => {
            let (database, variables) = (usize::from(*body.get(8)?), number(11, 2)? as usize);
            let name = body.get(13 + variables..13 + variables + database)?;
            let statement = text(body.get(14 + variables + database..)?);
            match name {
                [] => statement,
                name => format!("use `{}`; {statement}", text(name).replace('`', "``")),
            }
        }
        kind::GTID => {
            let server: &[u8; 16] = body.get(1..17)?.try_into().ok()?;
            format!("SET @@SESSION.GTID_NEXT= '{}:{}'", gtid::text(server), number(17, 8)?)
        }
        kind::PREVIOUS_GTIDS if number(0, 8)? > 0 => {
            let server: &[u8; 16] = body.get(8..24)?.try_into().ok()?;
            format!("{}:{}-{}", gtid::text(server), number(32, 8)?, number(40, 8)?.checked_sub(1)?)
        }
        kind::TABLE_MAP => {
            let database = usize::from(*body.get(8)?);
            let name = body.get(9..9 + database)?;
            let table = usize::from(*body.get(10 + database)?);
            let table = body.get(11 + database..11 + database + table)?;
            format!("table_id: {} ({}.{})", number(0, 6)?, text(name), text(table))
        }
        kind::WRITE_ROWS | kind::UPDATE_ROWS | kind::DELETE_ROWS => {
            let ends = number(6, 2)? & u64::from(super::rows::STATEMENT_ENDS) > 0;
            let ends = if ends { " flags: STMT_END_F" } else { "" };
            format!("table_id: {}{ends}", number(0, 6)?)
        }
        kind::INCIDENT => format!("#{} (LOST_EVENTS)", number(0, 2)?),
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::info;

    #[test]
    fn events_say_what_they_are() {
        let stamp = Stamp { timestamp: 1, server: 2 };
        let of = |kind: u8, body: &dyn Fn(&mut Vec<u8>)| {
            let bytes = event(kind, stamp, Some(4), 0, |out| body(out));
            // Any part of it has a text too.
            (0..bytes.len()).for_each(|end| drop(info(&bytes[..end])));
            info(&bytes)
        };
        let server = *b"0123456789abcdef";
        let statement = Statement {
            database: "d",
            text: "DROP TABLE t",
            time_zone: "+02:00",
            ..Default::default()
        };
        assert_eq!(of(kind::QUERY, &|out| query(out, &statement)), "use `d`; DROP TABLE t");
        let begin = Statement { text: "BEGIN", micros: 7, ..Default::default() };
        assert_eq!(of(kind::QUERY, &|out| query(out, &begin)), "BEGIN");
        assert_eq!(of(kind::XID, &|out| xid(out, 9)), "COMMIT /* xid=9 */");
        assert_eq!(of(kind::ROTATE, &|out| rotate(out, 4, "binlog.7")), "binlog.7;pos=4");
        let version = of(kind::FORMAT_DESCRIPTION, &|out| format_description(out, "8.4.0-x"));
        assert_eq!(version, "Server ver: 8.4.0-x, Binlog ver: 4");
        let gtids = "30313233-3435-3637-3839-616263646566";
        let next = of(kind::GTID, &|out| gtid_body(out, &server, 258, 3, false));
        assert_eq!(next, format!("SET @@SESSION.GTID_NEXT= '{gtids}:258'"));
        let before = of(kind::PREVIOUS_GTIDS, &|out| gtid::first_ones(out, &server, 9));
        assert_eq!(before, format!("{gtids}:1-9"));
        assert_eq!(of(kind::PREVIOUS_GTIDS, &|out| gtid::first_ones(out, &server, 0)), "");
        let map = rows::TableMap {
            id: 300,
            database: "d".into(),
            name: "t".into(),
            columns: vec![],
            primary_key: vec![],
        };
        assert_eq!(of(kind::TABLE_MAP, &|out| rows::table_map(out, &map)), "table_id: 300 (d.t)");
        let rows =
            of(kind::WRITE_ROWS, &|out| rows::rows_head(out, 300, rows::STATEMENT_ENDS, &[]));
        assert_eq!(rows, "table_id: 300 flags: STMT_END_F");
        assert_eq!(of(kind::INCIDENT, &|out| incident(out, "lost")), "#1 (LOST_EVENTS)");
    }
}
