//! START ARCHIVE, STOP ARCHIVE, SHOW ARCHIVES: committed changes written down all the time.
//!
//! # Owns
//! The kernel table with the archives of the cluster: what was ordered, and what became of it.
//! # Guarantees
//! An archive belongs to the cluster. Some SQL node drives it (`drive`) under a claim, and another
//! one goes on when that dies.
//! # Not here
//! RESTORE … UNTIL (`load`), files (the host).

mod base;
pub(crate) mod definitions;
pub(crate) mod drive;
pub(crate) mod log;
mod row;

use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::{Datum, SqlType};
use stdx::Duration;

use super::options::Options;
use super::place::place;
use super::time::{now, shown_moment, shown_time};
use crate::backup_jobs::host::{self, BackupKey, BackupRequest, failed};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;
use row::{Order, Status};

/// The kernel table of the archives.
pub(crate) use row::TABLE;

/// How long STOP ARCHIVE waits until the archive has ended, and how often it looks.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Runs START ARCHIVE.
pub(super) async fn start(
    session: &mut Session,
    start: &ast::StartArchive,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let options = Options::of_archive(&start.options)?;
    super::save::check_key(session, &options)?;
    let backups = session.shared.directory.backups().clone();
    let place = place(&start.place, &backups)?;
    let files = backups.files()?;
    let prepare = BackupRequest::PrepareArchive { place: place.clone(), key: options.key.clone() };
    host::done(&session.kernel.beside(), &*files, prepare).await?;
    let key_file = match options.key {
        BackupKey::File(path) => Some(path),
        _ => None,
    };
    let order = Order {
        place: place.clone(),
        key_file,
        accounts: options.accounts,
        max_rate: options.max_rate,
        lag: options.lag,
        full_every: options.full_every,
        user: session.user.clone(),
        began: now(session),
    };
    let kernel = session.kernel.beside();
    let number = loop {
        let rows = row::all(&kernel).await?;
        if let Some(other) = rows.iter().find(|row| row.order.place == place) {
            return Err(failed(&format!("archive {} goes to {place} already", other.number)));
        }
        let number = rows.iter().map(|row| row.number).max().unwrap_or(0) + 1;
        // Somebody else may have started one.
        if row::insert(&kernel, number, &order).await? {
            break number;
        }
    };
    out.columns(&[
        ResultColumn::new("Archive", SqlType::unsigned_big_int()),
        ResultColumn::new("Directory", SqlType::text(512)),
    ]);
    out.row(&[Datum::UInt(number), Datum::text(&place)]);
    out.drain().await;
    Ok(Outcome::Rows)
}

/// Runs STOP ARCHIVE.
pub(super) async fn stop(session: &mut Session, number: Option<u64>) -> Result<Outcome, SqlError> {
    let kernel = session.kernel.beside();
    let rows = row::all(&kernel).await?;
    let number = match (number, rows.as_slice()) {
        (Some(number), rows) if rows.iter().any(|row| row.number == number) => number,
        (Some(number), _) => return Err(failed(&format!("there is no archive {number}"))),
        (None, [only]) => only.number,
        (None, []) => return Err(failed("there is no archive")),
        (None, _) => {
            return Err(failed(
                "there are several archives: say STOP ARCHIVE with the number that \
                               SHOW ARCHIVES tells",
            ));
        }
    };
    row::order_stop(&kernel, number).await?;
    let began = kernel.now();
    while kernel.now().since(began) < STOPS_WITHIN {
        if row::all(&kernel).await?.iter().all(|row| row.number != number) {
            return Ok(Outcome::default());
        }
        session.kernel.sleep(LOOK_AGAIN).await?;
    }
    let why =
        format!("archive {number} is to end, and does as soon as an SQL node has time for it");
    Err(failed(&why))
}

/// The columns of SHOW ARCHIVES.
pub(crate) fn columns() -> [(&'static str, SqlType); 13] {
    let (text, number) = (SqlType::text(512), SqlType::unsigned_big_int);
    [
        ("Archive", number()),
        ("Directory", text.clone()),
        ("Started", SqlType::text(32)),
        ("State", text.clone()),
        ("Chain", text.clone()),
        ("Base_epoch", number()),
        ("Newest_epoch", number()),
        ("Newest_time", SqlType::text(32)),
        ("Lag_seconds", number()),
        ("Segments", number()),
        ("Bytes", number()),
        ("Last_break", text.clone()),
        ("Sql_node", text),
    ]
}

/// The rows of SHOW ARCHIVES: those of the cluster.
pub(crate) async fn listed(session: &Session) -> Result<Vec<Vec<Datum>>, SqlError> {
    let now = now(session);
    let row = |row: row::Row| {
        let Status { chain, base_epoch, through, ended, segments, bytes, .. } = row.status.clone();
        let lag = now.saturating_sub(ended).max(0) as u64 / 1_000_000;
        let known = |number: u64| if number == 0 { Datum::Null } else { Datum::UInt(number) };
        let time = if ended == 0 { Datum::Null } else { Datum::text(&shown_moment(ended)) };
        vec![
            Datum::UInt(row.number),
            Datum::text(&row.order.place),
            Datum::text(&shown_time(row.order.began)),
            Datum::text(&row.status.state),
            Datum::text(&chain),
            known(base_epoch),
            known(through),
            time,
            if ended == 0 { Datum::Null } else { Datum::UInt(lag) },
            Datum::UInt(segments),
            Datum::UInt(bytes),
            Datum::text(&row.status.last_break),
            Datum::text(&row.status.driver),
        ]
    };
    Ok(row::all(&session.kernel.beside()).await?.into_iter().map(row).collect())
}
