//! The archives of the cluster, each a row of a kernel table.

use client::{ClientOperation, ScanSpec};
use model::{ColumnId, ColumnType, ErrorCode, Expression, TableId, Value};
use serde::{Deserialize, Serialize};

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// Name of the kernel table; without a database, so no user sees it.
pub(crate) const TABLE: &str = "#archives";
const STATUS: ColumnId = ColumnId(2);
const STOPS: ColumnId = ColumnId(3);
/// Bytes of what is ordered, and of what became of it.
const ORDER_MAX: u16 = 4_000;
const STATUS_MAX: u16 = 4_000;
/// Bytes of a text in it.
const TEXT_MAX: usize = 600;

/// What was ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// The place for archives.
    pub(super) place: String,
    /// The file with the key, on the host of each SQL node.
    pub(super) key_file: Option<String>,
    /// Accounts too.
    pub(super) accounts: bool,
    /// Bytes of rows in a second that its backups may read.
    pub(super) max_rate: Option<u64>,
    /// How far it may be behind: seconds.
    pub(super) lag: u64,
    /// How often there is a new full backup: seconds.
    pub(super) full_every: u64,
    /// Who ordered it, as `user@host`.
    pub(super) user: String,
    /// When: microseconds since 1970 UTC.
    pub(super) began: i64,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    /// What it does, or what is in its way.
    pub(super) state: String,
    /// The SQL node that drives it.
    pub(super) driver: String,
    /// The place of the chain.
    pub(super) chain: String,
    /// The epoch of the newest full backup of the chain; 0 if there is none.
    pub(super) base_epoch: u64,
    /// The newest epoch that is archived, and when it ended.
    pub(super) through: u64,
    pub(super) ended: i64,
    /// Of the chain.
    pub(super) segments: u64,
    pub(super) bytes: u64,
    /// When and why the chain before this one has ended.
    pub(super) last_break: String,
}

/// An archive.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) order: Order,
    pub(super) status: Status,
    /// It is to end.
    pub(super) stops: bool,
}

async fn table(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("archive", ColumnType::UInt(8)),
        ("ordered", ColumnType::Variable(ORDER_MAX)),
        ("status", ColumnType::Variable(STATUS_MAX)),
        ("stops", ColumnType::UInt(1)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 1, ordered: false }.get(kernel).await
}

/// All archives, by number.
pub(super) async fn all(kernel: &Kernel) -> Result<Vec<Row>, Failure> {
    steadily(kernel, async || {
        let Some(table) = kernel.cluster().table_named(TABLE).map(|table| table.id) else {
            return Ok(Vec::new());
        };
        let rows = kernel.beside().scan(ScanSpec::heap(table)).collect().await?;
        let mut rows: Vec<Row> = rows.iter().filter_map(|row| read(row)).collect();
        rows.sort_by_key(|row| row.number);
        Ok(rows)
    })
    .await
}

fn read(row: &[Value]) -> Option<Row> {
    let [Value::UInt(number), Value::Bytes(order), Value::Bytes(status), Value::UInt(stops)] = row
    else {
        return None;
    };
    Some(Row {
        number: *number,
        order: serde_json::from_slice(order).ok()?,
        status: serde_json::from_slice(status).unwrap_or_default(),
        stops: *stops != 0,
    })
}

fn bytes(of: &impl Serialize) -> Value {
    // Plain texts and numbers can be written.
    Value::Bytes(serde_json::to_vec(of).unwrap_or_default().into())
}

/// Adds an archive; false if the number is taken.
pub(super) async fn insert(kernel: &Kernel, number: u64, order: &Order) -> Result<bool, Failure> {
    let status = Status { state: "starting".to_owned(), ..Status::default() };
    let row = vec![Value::UInt(number), bytes(order), bytes(&status), Value::UInt(0)];
    let inserted = steadily(kernel, async || {
        let insert = ClientOperation::insert(table(kernel).await?, row.clone());
        kernel.beside().execute_and_commit(vec![insert]).await
    });
    match inserted.await {
        Err(failure) if failure.is_refusal(ErrorCode::RowExists) => Ok(false),
        other => other.map(|_| true),
    }
}

/// Says what became of an archive. One that is gone stays so.
pub(super) async fn tell(kernel: &Kernel, number: u64, status: &Status) -> Result<(), Failure> {
    let mut status = status.clone();
    for text in [&mut status.state, &mut status.last_break] {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
    change(kernel, number, STATUS, bytes(&status)).await
}

/// Has an archive end.
pub(super) async fn order_stop(kernel: &Kernel, number: u64) -> Result<(), Failure> {
    change(kernel, number, STOPS, Value::UInt(1)).await
}

async fn change(
    kernel: &Kernel,
    number: u64,
    column: ColumnId,
    value: Value,
) -> Result<(), Failure> {
    let assignments = vec![(column, Expression::Constant(value))];
    let key = vec![Value::UInt(number)];
    let updated = steadily(kernel, async || {
        let table = table(kernel).await?;
        let update = ClientOperation::update(table, key.clone(), assignments.clone());
        kernel.beside().execute_and_commit(vec![update]).await
    });
    gone_is_fine(updated.await)
}

/// Removes an archive.
pub(super) async fn remove(kernel: &Kernel, number: u64) -> Result<(), Failure> {
    let deleted = steadily(kernel, async || {
        let delete = ClientOperation::delete(table(kernel).await?, vec![Value::UInt(number)]);
        kernel.beside().execute_and_commit(vec![delete]).await
    });
    gone_is_fine(deleted.await)
}

fn gone_is_fine<T>(result: Result<T, Failure>) -> Result<(), Failure> {
    match result {
        Err(failure) if failure.is_refusal(ErrorCode::RowNotFound) => Ok(()),
        other => other.map(|_| ()),
    }
}
