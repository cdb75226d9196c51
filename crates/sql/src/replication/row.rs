//! The channels of the cluster, in rows of a kernel table.
//!
//! # Owns
//! What is kept of a channel: its source, its filter, whether it is to run, the place in the log of
//! the source that it has reached, what became of it last.
//! # Guarantees
//! The place is changed in the transaction that makes the changes up to it, and only by whoever
//! knows the place of before.

use client::{ClientOperation, OperationAction, OperationAnswer, ScanSpec};
use model::{ColumnId, ColumnType, ErrorCode, Expression, TableId, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::{LockMode, Projection, WaitPolicy};

use crate::definition_log::ChangeOrigin;
use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// Name of the kernel table; without a database, so no user sees it.
pub(crate) const TABLE: &str = "#replication";
const VALUE: ColumnId = ColumnId(2);
/// Bytes of a value.
pub(crate) const VALUE_MAX: usize = 28_000;
/// Bytes of a text in a status.
const TEXT_MAX: usize = 2_000;

/// The kinds of values of a channel.
mod part {
    pub(super) const SETTINGS: u64 = 0;
    pub(super) const PLACE: u64 = 1;
    pub(super) const STATUS: u64 = 2;
}

/// What is said of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// FOR CHANNEL; empty for the channel without a name.
    pub(crate) channel: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: String,
    /// Seconds between attempts to connect, and how many there are; none for no limit.
    pub(crate) connect_retry: u64,
    pub(crate) retry_count: u64,
    pub(crate) heartbeat_millis: u64,
    /// Follows by GTIDs.
    pub(crate) auto_position: bool,
    /// The password may be sent encrypted by a key that the source tells, and nobody vouches for.
    pub(crate) asks_key: bool,
    pub(crate) tls: bool,
    pub(crate) tls_verify: bool,
    pub(crate) tls_authorities: Option<String>,
    /// Servers whose changes are left out.
    pub(crate) ignored_servers: Vec<u32>,
    pub(crate) filter: super::filter::Filter,
    /// It is to run.
    pub(crate) runs: bool,
    /// How often it was told to start.
    pub(crate) starts: u64,
}

/// A place in the log of a source: all before it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    /// The file in which the next transaction begins, and where.
    pub(crate) file: String,
    pub(crate) position: u64,
    /// The transactions that are done.
    pub(crate) gtids: String,
    /// Parts of the next transaction that are done: one that holds statements of definitions is
    /// done in parts.
    pub(crate) parts: u64,
    /// The statement behind those parts was begun.
    pub(crate) is_trying: bool,
    /// Where the changes come from that were made with this place. Readers of this cluster's log
    /// find out by it whose changes a transaction has.
    pub(crate) origin: Option<ChangeOrigin>,
}

/// What became of a channel last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// What it does.
    pub(crate) io_state: String,
    pub(crate) sql_state: String,
    /// The connection is there; changes are made.
    pub(crate) is_connected: bool,
    pub(crate) applies: bool,
    /// The SQL node that has the channel.
    pub(crate) applier: String,
    pub(crate) source_server: u32,
    pub(crate) source_uuid: String,
    pub(crate) source_version: String,
    /// Up to where the log was read.
    pub(crate) read_file: String,
    pub(crate) read_position: u64,
    /// Errors: number, text, and when, in microseconds since 1970 UTC.
    pub(crate) io_error: (u16, String, i64),
    pub(crate) sql_error: (u16, String, i64),
    /// Attempts to connect that have failed in a row.
    pub(crate) attempts: u64,
    /// When the change was made at the source that was made here last, in seconds since 1970; 0
    /// when there is none that is not made.
    pub(crate) behind_since: i64,
    /// When this was said: seconds since 1970.
    pub(crate) at: i64,
    /// Transactions and rows that were applied since the channel was started here.
    pub(crate) transactions: u64,
    pub(crate) rows: u64,
    pub(crate) skipped_statements: u64,
}

/// A channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channel {
    pub(crate) number: u64,
    pub(crate) settings: Settings,
    pub(crate) place: Place,
    pub(crate) status: Status,
}

pub(crate) async fn table(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("channel", ColumnType::UInt(8)),
        ("part", ColumnType::UInt(1)),
        ("value", ColumnType::Variable(VALUE_MAX as u16)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 2, ordered: false }.get(kernel).await
}

/// All channels, by number.
pub(crate) async fn all(kernel: &Kernel) -> Result<Vec<Channel>, Failure> {
    let rows = steadily(kernel, async || {
        match kernel.cluster().table_named(TABLE).map(|table| table.id) {
            Some(table) => kernel.beside().scan(ScanSpec::heap(table)).collect().await,
            None => Ok(Vec::new()),
        }
    })
    .await?;
    let mut channels: Vec<Channel> = Vec::new();
    let number_of = |row: &[Value], kind: u64| match row {
        [Value::UInt(number), Value::UInt(of), Value::Bytes(value)] if *of == kind => {
            Some((*number, value.clone()))
        }
        _ => None,
    };
    for (number, value) in rows.iter().filter_map(|row| number_of(row, part::SETTINGS)) {
        if let Ok(settings) = serde_json::from_slice(&value) {
            channels.push(Channel { number, settings, ..Channel::default() });
        }
    }
    channels.sort_by_key(|channel| channel.number);
    for channel in &mut channels {
        let of = |kind: u64| {
            let found = rows.iter().filter_map(|row| number_of(row, kind));
            found.filter(|(number, _)| *number == channel.number).map(|(_, value)| value).next()
        };
        channel.place = read(of(part::PLACE).as_deref());
        channel.status = read(of(part::STATUS).as_deref());
    }
    Ok(channels)
}

fn read<T: DeserializeOwned + Default>(value: Option<&[u8]>) -> T {
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}

/// Where the changes come from that were made with a row of a channel, if it is that of a place.
pub(crate) fn origin_of(row: &[Value]) -> Option<ChangeOrigin> {
    match row {
        [_, Value::UInt(part::PLACE), Value::Bytes(value)] => read::<Place>(Some(value)).origin,
        _ => None,
    }
}

fn bytes(of: &impl Serialize) -> Result<Value, Failure> {
    // Plain texts and numbers can be written.
    let bytes = serde_json::to_vec(of).unwrap_or_default();
    if bytes.len() > VALUE_MAX {
        let why = format!(
            "what is kept of a replication channel has {} bytes, {VALUE_MAX} at most: a set of \
             GTIDs with so many gaps, or so long a filter, is too much",
            bytes.len()
        );
        return Err(Failure::Refused(model::Refusal::new(ErrorCode::RowTooLarge, why)));
    }
    Ok(Value::Bytes(bytes.into()))
}

fn key(number: u64, part: u64) -> Vec<Value> {
    vec![Value::UInt(number), Value::UInt(part)]
}

/// A value that is there from now on, whatever was there.
fn put(table: TableId, number: u64, part: u64, value: Value) -> ClientOperation {
    let row = vec![Value::UInt(number), Value::UInt(part), value];
    ClientOperation::upsert(table, row)
}

/// Values that are there from now on, all of them or none.
async fn put_all(kernel: &Kernel, number: u64, values: &[(u64, Value)]) -> Result<(), Failure> {
    steadily(kernel, async || {
        let table = table(kernel).await?;
        let put = |(part, value): &(u64, Value)| put(table, number, *part, value.clone());
        let operations = values.iter().map(put).collect();
        kernel.beside().execute_and_commit(operations).await.map(|_| ())
    })
    .await
}

/// Adds a channel; false if the number is taken.
pub(crate) async fn insert(kernel: &Kernel, channel: &Channel) -> Result<bool, Failure> {
    let mut row = key(channel.number, part::SETTINGS);
    row.push(bytes(&channel.settings)?);
    let place = bytes(&channel.place)?;
    let inserted = steadily(kernel, async || {
        let table = table(kernel).await?;
        let place = put(table, channel.number, part::PLACE, place.clone());
        let operations = vec![ClientOperation::insert(table, row.clone()), place];
        kernel.beside().execute_and_commit(operations).await
    });
    match inserted.await {
        Err(failure) if failure.is_refusal(ErrorCode::RowExists) => Ok(false),
        other => other.map(|_| true),
    }
}

/// Says what is to be of a channel from now on; its place too, where one is given.
pub(crate) async fn order(
    kernel: &Kernel,
    number: u64,
    settings: &Settings,
    place: Option<&Place>,
) -> Result<(), Failure> {
    let mut values = vec![(part::SETTINGS, bytes(settings)?)];
    if let Some(place) = place {
        values.push((part::PLACE, bytes(place)?));
        values.push((part::STATUS, bytes(&Status::default())?));
    }
    put_all(kernel, number, &values).await
}

/// Has a channel run no more, as it has failed; unless it was started anew meanwhile.
pub(crate) async fn halt(kernel: &Kernel, number: u64, starts: u64) -> Result<(), Failure> {
    let channels = all(kernel).await?;
    let Some(found) = channels.into_iter().find(|channel| channel.number == number) else {
        return Ok(());
    };
    if found.settings.starts != starts {
        return Ok(());
    }
    let settings = Settings { runs: false, ..found.settings };
    order(kernel, number, &settings, None).await
}

/// Says what became of a channel.
pub(crate) async fn tell(kernel: &Kernel, number: u64, status: &Status) -> Result<(), Failure> {
    let mut status = status.clone();
    for text in [&mut status.io_error.1, &mut status.sql_error.1] {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
    put_all(kernel, number, &[(part::STATUS, bytes(&status)?)]).await
}

/// Removes a channel.
pub(crate) async fn remove(kernel: &Kernel, number: u64) -> Result<(), Failure> {
    for part in [part::STATUS, part::PLACE, part::SETTINGS] {
        let deleted = steadily(kernel, async || {
            let delete = ClientOperation::delete(table(kernel).await?, key(number, part));
            kernel.beside().execute_and_commit(vec![delete]).await
        });
        match deleted.await {
            Err(failure) if failure.is_refusal(ErrorCode::RowNotFound) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Within the transaction of `kernel`: the channel goes on from its place to another one. False if
/// its place is another one than that: somebody else has the channel, or it was changed.
pub(crate) async fn go_on(
    kernel: &Kernel,
    number: u64,
    from: &Place,
    to: &Place,
) -> Result<bool, Failure> {
    let table = table(kernel).await?;
    let (lock, wait) = (LockMode::Exclusive, WaitPolicy::Wait);
    let (key, projection) = (key(number, part::PLACE), Projection::All);
    let action = OperationAction::Read { key: key.clone(), lock, wait, projection, snapshot: None };
    let read_place = ClientOperation { table, version: None, action };
    let answer = kernel.execute(vec![read_place]).await?.into_iter().next();
    let there: Place = match answer {
        Some(Ok(OperationAnswer::Row(row))) => match row.last() {
            Some(Value::Bytes(value)) => read(Some(value)),
            _ => return Ok(false),
        },
        Some(Err(refusal)) if refusal.code == ErrorCode::RowNotFound => return Ok(false),
        Some(Err(refusal)) => return Err(Failure::Refused(refusal)),
        _ => return Ok(false),
    };
    if there != *from {
        return Ok(false);
    }
    let assignments = vec![(VALUE, Expression::Constant(bytes(to)?))];
    let update = ClientOperation::update(table, key, assignments);
    match kernel.execute(vec![update]).await?.into_iter().next() {
        Some(Err(refusal)) => Err(Failure::Refused(refusal)),
        _ => Ok(true),
    }
}
