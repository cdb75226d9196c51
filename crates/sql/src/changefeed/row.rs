//! The change feeds of the cluster, in rows of a kernel table.
//!
//! # Owns
//! What is said of a feed, how far the one that writes files is, what became of it last.
//! # Guarantees
//! The place is changed only by whoever knows the place of before.

use client::{ClientOperation, ScanSpec};
use model::{ColumnId, ColumnType, Comparison, Epoch, ErrorCode, Expression, TableId, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sql_parser::ast::{CreateChangefeed, Statement};

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// Name of the kernel table; without a database, so no user sees it.
pub(crate) const TABLE: &str = "#changefeeds";
const VALUE: ColumnId = ColumnId(2);
/// Bytes of a value.
pub(crate) const VALUE_MAX: usize = 28_000;
/// Bytes of a text in a status.
const TEXT_MAX: usize = 2_000;

/// The kinds of values of a feed.
mod part {
    pub(super) const SETTINGS: u64 = 0;
    pub(super) const PLACE: u64 = 1;
    pub(super) const STATUS: u64 = 2;
}

/// What is to be of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wish {
    /// It is not complete yet.
    #[default]
    Made,
    Running,
    Paused,
    /// It has ended by itself, as the status says.
    Broken,
    /// It is to be no more.
    Dropped,
}

/// What is said of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(crate) name: String,
    /// CREATE CHANGEFEED, with the databases of its tables.
    pub(crate) statement: String,
    /// Who made it, as `user@host`, and when: microseconds since 1970 UTC.
    pub(crate) creator: String,
    pub(crate) created: i64,
    pub(crate) wish: Wish,
    /// How often it has begun.
    pub(crate) begins: u64,
    /// The tables, in the order in which they were named.
    pub(crate) tables: Vec<u32>,
    /// The first epoch that it has.
    pub(crate) first: u64,
}

impl Settings {
    /// The name of the stream.
    pub(crate) fn stream(&self, number: u64) -> String {
        format!("{}{number}.{}", model::cluster::CHANGEFEED_STREAMS, self.begins)
    }

    /// The statement that has made it.
    pub(crate) fn parsed(&self) -> Option<CreateChangefeed> {
        let parsed =
            sql_parser::parse(self.statement.as_bytes(), sql_parser::SqlMode::default()).ok()?;
        match parsed {
            Statement::CreateChangefeed(create) => Some(*create),
            _ => None,
        }
    }

    /// The identities of the tables.
    pub(crate) fn table_ids(&self) -> Vec<TableId> {
        self.tables.iter().map(|id| TableId(*id)).collect()
    }
}

/// How far the writer of files is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    /// The snapshot is to be written before anything else.
    pub(crate) wants_snapshot: bool,
    /// The snapshot of this epoch lies there whole, and gets its name now.
    pub(crate) snapshot: u64,
    /// All up to this epoch is in files, and when it ended.
    pub(crate) through: u64,
    pub(crate) at: u64,
    /// The file is written that ends with this epoch; 0 while none is.
    pub(crate) writing: u64,
}

/// What became of a feed last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// What is in its way, or why it has ended.
    pub(crate) error: String,
    /// The SQL node that writes it.
    pub(crate) node: String,
}

/// A feed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    pub(crate) number: u64,
    pub(crate) settings: Settings,
    pub(crate) place: Place,
    pub(crate) status: Status,
}

impl Feed {
    /// Behind this epoch it begins, unless something was read.
    pub(crate) fn beginning(&self) -> Epoch {
        Epoch(self.settings.first.saturating_sub(1))
    }
}

async fn table(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("changefeed", ColumnType::UInt(8)),
        ("part", ColumnType::UInt(1)),
        ("value", ColumnType::Variable(VALUE_MAX as u16)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 2, ordered: false }.get(kernel).await
}

/// All feeds, by number.
pub(crate) async fn all(kernel: &Kernel) -> Result<Vec<Feed>, Failure> {
    let rows = steadily(kernel, async || {
        match kernel.cluster().table_named(TABLE).map(|table| table.id) {
            Some(table) => kernel.beside().scan(ScanSpec::heap(table)).collect().await,
            None => Ok(Vec::new()),
        }
    })
    .await?;
    let value_of = |number: Option<u64>, kind: u64| {
        rows.iter().filter_map(move |row| match row.as_slice() {
            [Value::UInt(of), Value::UInt(part), Value::Bytes(value)]
                if *part == kind && number.is_none_or(|number| number == *of) =>
            {
                Some((*of, value))
            }
            _ => None,
        })
    };
    let mut feeds: Vec<Feed> = value_of(None, part::SETTINGS)
        .filter_map(|(number, settings)| {
            let settings = serde_json::from_slice(settings).ok()?;
            let of = |kind| value_of(Some(number), kind).next().map(|(_, value)| value.as_ref());
            let (place, status) = (read(of(part::PLACE)), read(of(part::STATUS)));
            Some(Feed { number, settings, place, status })
        })
        .collect();
    feeds.sort_by_key(|feed| feed.number);
    Ok(feeds)
}

/// The feed of a name.
pub(crate) async fn named(kernel: &Kernel, name: &str) -> Result<Option<Feed>, Failure> {
    let feeds = all(kernel).await?;
    Ok(feeds.into_iter().find(|feed| feed.settings.name.eq_ignore_ascii_case(name)))
}

/// The feed of a number.
pub(crate) async fn numbered(kernel: &Kernel, number: u64) -> Result<Option<Feed>, Failure> {
    Ok(all(kernel).await?.into_iter().find(|feed| feed.number == number))
}

fn read<T: DeserializeOwned + Default>(value: Option<&[u8]>) -> T {
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}

fn bytes(of: &impl Serialize) -> Result<Value, Failure> {
    // Plain texts and numbers can be written.
    let bytes = serde_json::to_vec(of).unwrap_or_default();
    if bytes.len() > VALUE_MAX {
        let why = format!(
            "what is kept of a change feed has {} bytes, {VALUE_MAX} at most: name fewer tables, \
             or make WHERE shorter",
            bytes.len()
        );
        return Err(Failure::Refused(model::Refusal::new(ErrorCode::RowTooLarge, why)));
    }
    Ok(Value::Bytes(bytes.into()))
}

/// Values that are there from now on, all of them or none.
async fn put(kernel: &Kernel, number: u64, values: &[(u64, Value)]) -> Result<(), Failure> {
    steadily(kernel, async || {
        let table = table(kernel).await?;
        let put = |(part, value): &(u64, Value)| {
            let row = vec![Value::UInt(number), Value::UInt(*part), value.clone()];
            ClientOperation::upsert(table, row)
        };
        let operations = values.iter().map(put).collect();
        kernel.beside().execute_and_commit(operations).await.map(|_| ())
    })
    .await
}

/// Adds a feed; false if the number is taken.
pub(crate) async fn insert(
    kernel: &Kernel,
    number: u64,
    settings: &Settings,
) -> Result<bool, Failure> {
    let row = vec![Value::UInt(number), Value::UInt(part::SETTINGS), bytes(settings)?];
    let inserted = steadily(kernel, async || {
        let insert = ClientOperation::insert(table(kernel).await?, row.clone());
        kernel.beside().execute_and_commit(vec![insert]).await
    });
    match inserted.await {
        Err(Failure::Aborted(refusal) | Failure::Refused(refusal))
            if refusal.code == ErrorCode::RowExists =>
        {
            Ok(false)
        }
        other => other.map(|_| true),
    }
}

/// Says what is to be of a feed from now on; where it is too, if a place is given.
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
    put(kernel, number, &values).await
}

/// Says what became of a feed.
pub(crate) async fn tell(kernel: &Kernel, number: u64, status: &Status) -> Result<(), Failure> {
    let mut status = status.clone();
    status.error.truncate(status.error.floor_char_boundary(TEXT_MAX));
    put(kernel, number, &[(part::STATUS, bytes(&status)?)]).await
}

/// Has a feed run no more, as it has ended by itself; unless it was begun anew or dropped.
pub(crate) async fn halt(
    kernel: &Kernel,
    number: u64,
    begins: u64,
    status: &Status,
) -> Result<(), Failure> {
    let Some(found) = numbered(kernel, number).await? else { return Ok(()) };
    if found.settings.begins != begins {
        return Ok(());
    }
    tell(kernel, number, status).await?;
    let settings = Settings { wish: Wish::Broken, ..found.settings };
    order(kernel, number, &settings, None).await
}

/// Removes a feed.
pub(crate) async fn remove(kernel: &Kernel, number: u64) -> Result<(), Failure> {
    for part in [part::STATUS, part::PLACE, part::SETTINGS] {
        let deleted = steadily(kernel, async || {
            let key = vec![Value::UInt(number), Value::UInt(part)];
            let delete = ClientOperation::delete(table(kernel).await?, key);
            kernel.beside().execute_and_commit(vec![delete]).await
        });
        match deleted.await {
            Err(Failure::Aborted(refusal) | Failure::Refused(refusal))
                if refusal.code == ErrorCode::RowNotFound => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// A feed goes on from its place to another one. False if its place is another one than that:
/// somebody else writes the feed, or it was begun anew.
pub(crate) async fn go_on(
    kernel: &Kernel,
    number: u64,
    from: &Place,
    to: &Place,
) -> Result<bool, Failure> {
    let is_there = Expression::compare(VALUE, Comparison::Equal, bytes(from)?);
    let assignments = vec![(VALUE, Expression::Constant(bytes(to)?))];
    let key = vec![Value::UInt(number), Value::UInt(part::PLACE)];
    let updated = steadily(kernel, async || {
        let table = table(kernel).await?;
        let (key, assignments) = (key.clone(), assignments.clone());
        let update = ClientOperation::update_if(table, key, is_there.clone(), assignments);
        kernel.beside().execute_and_commit(vec![update]).await
    });
    match updated.await {
        Err(Failure::Aborted(refusal) | Failure::Refused(refusal))
            if matches!(refusal.code, ErrorCode::RowNotFound | ErrorCode::ConditionFalse) =>
        {
            Ok(false)
        }
        other => other.map(|_| true),
    }
}
