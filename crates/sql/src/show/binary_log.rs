//! SHOW of the binary log.

use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::Datum;

use super::server::limit_value;
use super::{Listing, long_text, text, unsigned};
use crate::binlog;
use crate::session::Session;

/// SHOW BINARY LOG STATUS: nothing without a log.
pub(super) async fn status(session: &Session) -> Result<Listing, SqlError> {
    let mut listing = Listing::new([
        ("File", text(255)),
        ("Position", unsigned()),
        ("Binlog_Do_DB", text(255)),
        ("Binlog_Ignore_DB", text(255)),
        ("Executed_Gtid_Set", long_text()),
    ]);
    if let Some(status) = binlog::status(session).await? {
        let (file, position) = (Datum::text(&status.file), Datum::UInt(status.position));
        let executed = Datum::text(&status.executed);
        listing.push(vec![file, position, Datum::text(""), Datum::text(""), executed]);
    }
    Ok(listing)
}

/// SHOW BINARY LOGS.
pub(super) async fn files(session: &Session) -> Result<Listing, SqlError> {
    let mut listing =
        Listing::new([("Log_name", text(255)), ("File_size", unsigned()), ("Encrypted", text(3))]);
    let off = || SqlError::new(1381, "HY000", "You are not using binary logging");
    for (name, size) in binlog::files(session).await?.ok_or_else(off)? {
        listing.push(vec![Datum::text(&name), Datum::UInt(size), Datum::text("No")]);
    }
    Ok(listing)
}

/// SHOW BINLOG EVENTS; there is no relay log.
pub(super) async fn events(
    session: &mut Session,
    relay: bool,
    file: Option<&str>,
    position: Option<u64>,
    limit: Option<&ast::Limit>,
) -> Result<Listing, SqlError> {
    let mut listing = Listing::new([
        ("Log_name", text(255)),
        ("Pos", unsigned()),
        ("Event_type", text(20)),
        ("Server_id", unsigned()),
        ("End_log_pos", unsigned()),
        ("Info", long_text()),
    ]);
    let (mut skip, mut take) = (0, usize::MAX);
    if let Some(limit) = limit {
        take = limit_value(session, &limit.count).await?;
        if let Some(offset) = &limit.offset {
            skip = limit_value(session, offset).await?;
        }
    }
    if relay {
        return Ok(listing);
    }
    let most = take.saturating_add(skip);
    let events = binlog::events(session, file, position.unwrap_or(0), most).await?;
    for event in events.unwrap_or_default().into_iter().skip(skip) {
        listing.push(vec![
            Datum::text(&event.file),
            Datum::UInt(event.begins),
            Datum::text(event.kind),
            Datum::UInt(event.server.into()),
            Datum::UInt(event.ends),
            Datum::text(&event.info),
        ]);
    }
    Ok(listing)
}

/// SHOW REPLICAS: those that read from this SQL node.
pub(super) fn replicas(session: &Session) -> Listing {
    let mut listing = Listing::new([
        ("Server_Id", unsigned()),
        ("Host", text(255)),
        ("Port", unsigned()),
        ("Source_Id", unsigned()),
        ("Replica_UUID", text(36)),
    ]);
    let source = u64::from(binlog::server_id(session));
    for process in session.shared.directory.lock().processes() {
        let Some((server, host, port)) = process.replica else { continue };
        listing.push(vec![
            Datum::UInt(server.into()),
            Datum::text(&host),
            Datum::UInt(port.into()),
            Datum::UInt(source),
            Datum::text(""),
        ]);
    }
    listing
}
