//! From values to encoded operations and scan sources, and back from rows to values.
//!
//! What does not fit the table's definition is refused here, before anything is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::row::RowError;
use model::schema::{COLUMNS_MAX, KEY_SIZE_MAX, OrderedIndexDef};
use model::{
    ClusterState, Column, ColumnId, ErrorCode, Expression, IndexId, Key, OperationNumber,
    PartitionId, Refusal, Row, RowLayout, Table, TableCache, TableId, Value, ValueRef,
};
use wire::{Operation, OperationKind, Projection, ScanOrder, ScanSource};

use crate::request::{ClientOperation, IndexBound, OperationAction, ScanRange};

/// Largest operation number a transaction may reach; more are refused by coordinators.
const OPERATION_NUMBER_MAX: u64 = u32::MAX as u64;

/// The table, or why it cannot be used now.
pub(super) fn table_of(cluster: &ClusterState, id: TableId) -> Result<&Arc<Table>, Refusal> {
    if cluster.stopped {
        return Err(ErrorCode::ClusterStopped.into());
    }
    if !cluster.started {
        return Err(Refusal::new(ErrorCode::NotServing, "the cluster is not known yet"));
    }
    cluster.tables.get(&id).ok_or_else(|| Refusal::new(ErrorCode::UnknownTable, id.to_string()))
}

/// An encoded primary key and where its row lives.
pub(super) fn key_of(table: &Table, values: &[Value]) -> Result<(PartitionId, Key), Refusal> {
    if values.len() != table.primary_key.len() {
        return Err(bad(table, "the primary key has another number of columns"));
    }
    let key = table.primary_key_of(values);
    let index = key.as_ref().and_then(|key| {
        if table.distribution_key == table.primary_key {
            // Encoded once.
            Some(table.partition_of_hash(key.distribution_hash()))
        } else {
            table.partition_of_key(values)
        }
    });
    match (key, index) {
        (Some(key), Some(index)) if key.bytes().len() <= KEY_SIZE_MAX => {
            Ok((PartitionId { table: table.id, index }, key))
        }
        _ => Err(Refusal::new(ErrorCode::ValueOutOfRange, format!("key of {}", table.name))),
    }
}

fn bad(table: &Table, what: &str) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, format!("{}: {what}", table.name))
}

fn row_of(table: &Table, values: &[Value]) -> Result<(PartitionId, Row), Refusal> {
    let column_name = |column: ColumnId| {
        let column = &table.columns[usize::from(column.0)];
        format!("{}.{}", table.name, column.name)
    };
    let row = table.layout().encode_values(values).map_err(|error| match error {
        RowError::ColumnCount => bad(table, "the row has another number of columns"),
        RowError::NotNull(column) => Refusal::new(ErrorCode::NotNull, column_name(column)),
        // The row was made for a definition that had it.
        RowError::OutOfRange(column) if table.columns[usize::from(column.0)].is_hole() => {
            Refusal::new(ErrorCode::SchemaChanged, table.name.clone())
        }
        RowError::OutOfRange(column) => {
            Refusal::new(ErrorCode::ValueOutOfRange, column_name(column))
        }
        RowError::TooLarge => Refusal::new(ErrorCode::RowTooLarge, table.name.clone()),
    })?;
    let index = table.partition_of_row(&row.0);
    Ok((PartitionId { table: table.id, index }, row))
}

fn check_expression(table: &Table, expression: Option<&Expression>) -> Result<(), Refusal> {
    match expression {
        Some(expression) if !expression.check(table) => Err(bad(table, "unacceptable expression")),
        _ => Ok(()),
    }
}

/// Encoded operations, and for those that read what decodes their answers.
type Batch = (Vec<Operation>, Vec<Option<Arc<RowDecoder>>>);

/// Encodes a batch; numbers go on from `last`. Reads get a decoder for their answer.
pub(super) fn batch(
    cluster: &ClusterState,
    known: &mut Decoders,
    operations: &[ClientOperation],
    last: OperationNumber,
) -> Result<Batch, Refusal> {
    let mut encoded = Vec::with_capacity(operations.len());
    let mut decoders = Vec::with_capacity(operations.len());
    let mut number = last.0;
    for (at, operation) in operations.iter().enumerate() {
        number += 1;
        if number > OPERATION_NUMBER_MAX {
            return Err(Refusal::new(ErrorCode::OperationLimit, "operation numbers"));
        }
        let table = table_of(cluster, operation.table)?;
        if operation.version.is_some_and(|version| version != table.version) {
            return Err(Refusal::new(ErrorCode::SchemaChanged, table.name.clone()));
        }
        let before = at.checked_sub(1).and_then(|at| {
            let ClientOperation { table, action, .. } = &operations[at];
            Some(Before { table: *table, key: action.key()?, encoded: encoded.last()? })
        });
        let (partition, kind, decoder) =
            encode_action(table, known, &operation.action, before.as_ref())?;
        let number = OperationNumber(number);
        encoded.push(Operation { number, partition, table_version: table.version, kind });
        decoders.push(decoder);
    }
    Ok((encoded, decoders))
}

/// Where to find the row that the operation before was about: a row is often read and then changed,
/// and its key need not be encoded twice.
struct Before<'o> {
    table: TableId,
    key: &'o [Value],
    encoded: &'o Operation,
}

/// As [`key_of`], if need be.
fn key_again(
    table: &Table,
    values: &[Value],
    before: Option<&Before<'_>>,
) -> Result<(PartitionId, Key), Refusal> {
    // Zero and minus zero are equal, and encoded each in its own way.
    let exact = |before: &&Before<'_>| {
        before.table == table.id
            && before.key == values
            && !values.iter().any(|value| matches!(value, Value::Float(_)))
    };
    match before.filter(exact) {
        Some(Before { encoded, .. }) => match encoded.kind.key() {
            Some(key) => Ok((encoded.partition, key.clone())),
            None => key_of(table, values),
        },
        None => key_of(table, values),
    }
}

type Action = (PartitionId, OperationKind, Option<Arc<RowDecoder>>);

fn encode_action(
    table: &Arc<Table>,
    known: &mut Decoders,
    action: &OperationAction,
    before: Option<&Before<'_>>,
) -> Result<Action, Refusal> {
    match action {
        OperationAction::Read { key, lock, wait, projection, snapshot } => {
            let decoder = RowDecoder::of(known, table, projection)?;
            let (partition, key) = key_again(table, key, before)?;
            let (lock, wait, projection, snapshot) = (*lock, *wait, projection.clone(), *snapshot);
            let read = OperationKind::Read { key, lock, wait, projection, snapshot };
            Ok((partition, read, Some(decoder)))
        }
        OperationAction::Insert { row } => {
            let (partition, row) = row_of(table, row)?;
            Ok((partition, OperationKind::Insert { row }, None))
        }
        OperationAction::Upsert { row } => {
            let (partition, row) = row_of(table, row)?;
            Ok((partition, OperationKind::Upsert { row }, None))
        }
        OperationAction::Update { key, condition, assignments } => {
            let (partition, key) = key_again(table, key, before)?;
            check_expression(table, condition.as_ref())?;
            for (column, expression) in assignments {
                if usize::from(column.0) >= table.columns.len() {
                    return Err(bad(table, "assignment to an unknown column"));
                }
                check_expression(table, Some(expression))?;
            }
            let (condition, assignments) = (condition.clone(), assignments.clone());
            Ok((partition, OperationKind::Update { key, condition, assignments }, None))
        }
        OperationAction::Delete { key, condition } => {
            let (partition, key) = key_again(table, key, before)?;
            check_expression(table, condition.as_ref())?;
            let condition = condition.clone();
            Ok((partition, OperationKind::Delete { key, condition }, None))
        }
    }
}

/// Encodes what a scan runs over.
pub(super) fn scan_source(table: &Table, range: &ScanRange) -> Result<ScanSource, Refusal> {
    let (index, lower, upper, order) = match range {
        ScanRange::Heap => return Ok(ScanSource::Heap),
        ScanRange::Index { index, lower, upper, order } => (*index, lower, upper, *order),
        ScanRange::Keys { index, .. } => (*index, &None, &None, None),
    };
    let definition = ordered_index(table, index)?;
    let order = order.unwrap_or(ScanOrder::Ascending);
    let lower = bound(table, definition, lower.as_ref())?;
    let upper = bound(table, definition, upper.as_ref())?;
    Ok(ScanSource::Index { index, lower, upper, order })
}

fn ordered_index(table: &Table, index: IndexId) -> Result<&OrderedIndexDef, Refusal> {
    let unknown = || Refusal::new(ErrorCode::UnknownIndex, index.to_string());
    table.ordered_index(index).ok_or_else(unknown)
}

/// Encoded beginnings of keys.
pub(super) type Prefixes = Arc<Vec<Box<[u8]>>>;

/// What the keys of the rows begin with that a scan is about, if it is about some keys: in
/// ascending order, each once. Keys that no row can have are left out.
pub(super) fn scan_prefixes(table: &Table, range: &ScanRange) -> Result<Option<Prefixes>, Refusal> {
    let ScanRange::Keys { index, keys } = range else { return Ok(None) };
    let columns = &ordered_index(table, *index)?.columns;
    let prefix = |values: &Vec<Value>| table.key_of_values(columns, values).map(|key| key.0);
    let mut prefixes: Vec<Box<[u8]>> = keys.iter().filter_map(prefix).collect();
    prefixes.retain(|prefix| prefix.len() <= KEY_SIZE_MAX);
    prefixes.sort_unstable();
    prefixes.dedup();
    Ok(Some(Arc::new(prefixes)))
}

type EncodedBound = Option<(Box<[u8]>, bool)>;

fn bound(
    table: &Table,
    index: &OrderedIndexDef,
    bound: Option<&IndexBound>,
) -> Result<EncodedBound, Refusal> {
    let Some(IndexBound { values, prefix, inclusive }) = bound else { return Ok(None) };
    let key = match prefix {
        Some(prefix) => table.key_of_prefix(&index.columns, values, prefix),
        None => table.key_of_values(&index.columns, values),
    };
    let key = key.ok_or_else(|| {
        let detail = format!("bound of {}.{}", table.name, index.name);
        Refusal::new(ErrorCode::ValueOutOfRange, detail)
    })?;
    Ok(Some((key.0, *inclusive)))
}

/// The partitions a scan visits: all, or those of some values of the distribution key, each once.
pub(super) fn scan_partitions(
    cluster: &ClusterState,
    table: &Table,
    partition_keys: Option<&[Vec<Value>]>,
) -> Result<Vec<PartitionId>, Refusal> {
    let Some(keys) = partition_keys else { return Ok(cluster.partitions(table).collect()) };
    let mut partitions = BTreeSet::new();
    for values in keys {
        if values.len() != table.distribution_key.len() {
            return Err(bad(table, "the distribution key has another number of columns"));
        }
        let index = table.partition_of_distribution(values);
        let index = index.ok_or_else(|| bad(table, "a value does not fit the distribution key"))?;
        partitions.insert(PartitionId { table: table.id, index });
    }
    Ok(partitions.into_iter().collect())
}

/// Checks a scan's filter.
pub(super) fn check_filter(table: &Table, filter: Option<&Expression>) -> Result<(), Refusal> {
    check_expression(table, filter)
}

/// Whether columns, possibly repeated, can make a row.
fn fits_a_row<'c>(columns: impl ExactSizeIterator<Item = &'c Column>) -> bool {
    let count = columns.len();
    // One NULL bit each, rounded up to a byte, and the layout's number.
    let fixed: usize = columns.map(|column| column.column_type.size_in_fixed_part() + 1).sum();
    count <= COLUMNS_MAX && fixed < usize::from(u16::MAX)
}

/// Turns answered rows of one table and projection into values.
#[derive(Clone, Debug)]
pub(super) struct RowDecoder {
    table: Arc<Table>,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    All,
    Nothing,
    Columns(RowLayout, Vec<ColumnId>),
}

/// Decoders that earlier requests were given: most ask for the same columns of the same tables.
pub(super) type Decoders = TableCache<Projection, RowDecoder>;

impl RowDecoder {
    /// A decoder, perhaps one of those that are known; refuses unknown columns.
    pub(super) fn of(
        known: &mut Decoders,
        table: &Arc<Table>,
        projection: &Projection,
    ) -> Result<Arc<Self>, Refusal> {
        known.get(table, projection, || Self::new(table, projection))
    }

    fn new(table: &Arc<Table>, projection: &Projection) -> Result<Self, Refusal> {
        let shape = match projection {
            Projection::All => Shape::All,
            Projection::Nothing => Shape::Nothing,
            Projection::Columns(columns) => {
                if columns.iter().any(|column| usize::from(column.0) >= table.columns.len()) {
                    return Err(bad(table, "projection of an unknown column"));
                }
                let definitions = columns.iter().map(|c| &table.columns[usize::from(c.0)]);
                if !fits_a_row(definitions.clone()) {
                    return Err(bad(table, "the projection repeats too many columns"));
                }
                Shape::Columns(RowLayout::of(0, definitions), columns.clone())
            }
        };
        Ok(Self { table: table.clone(), shape })
    }

    /// The number of values of a row.
    pub(super) fn width(&self) -> usize {
        match &self.shape {
            Shape::Nothing => 0,
            Shape::Columns(layout, _) => layout.column_count(),
            Shape::All => self.table.columns.len(),
        }
    }

    /// What whole rows are read by; nothing for projected ones, which are refused when a column of
    /// theirs has got another type. A row may be newer than the definition it was asked by: it is
    /// read by the newest one, and columns added since are left out.
    pub(super) fn table_of<'r>(
        &self,
        cluster: &ClusterState,
        mut rows: impl Iterator<Item = &'r [u8]>,
    ) -> Result<Option<Arc<Table>>, Refusal> {
        if let Shape::Columns(_, columns) = &self.shape {
            // Whoever projected them may have known a newer definition, and so does who is
            // answered, by the time the answer is here.
            let newest = cluster.tables.get(&self.table.id);
            let same = newest.is_none_or(|newest| {
                Arc::ptr_eq(newest, &self.table)
                    || newest.has_types_of(&self.table, columns.iter().copied())
            });
            let changed = || Refusal::new(ErrorCode::SchemaChanged, self.table.name.clone());
            return if same { Ok(None) } else { Err(changed()) };
        }
        if matches!(self.shape, Shape::Nothing) {
            return Ok(None);
        }
        let newer = |newest: usize, row: &[u8]| {
            Some(newest.max(usize::from(RowLayout::version_of((!row.is_empty()).then_some(row)?))))
        };
        let empty = || Refusal::new(ErrorCode::Internal, "an answered row is empty");
        let layout = rows.try_fold(0, newer).ok_or_else(empty)?;
        let knows = |table: &&Arc<Table>| layout < table.layouts.len();
        let newest = cluster.tables.get(&self.table.id);
        let table = Some(&self.table).filter(knows).or(newest.filter(knows));
        let unknown = || Refusal::new(ErrorCode::SchemaChanged, self.table.name.clone());
        table.cloned().map(Some).ok_or_else(unknown)
    }

    /// The value of a column of a row; of a whole row by the definition that
    /// [`RowDecoder::table_of`] has found.
    #[inline]
    pub(super) fn value<'r>(
        &'r self,
        table: Option<&'r Table>,
        row: &'r [u8],
        at: usize,
    ) -> ValueRef<'r> {
        let column = ColumnId(at as u16);
        match &self.shape {
            Shape::Columns(layout, _) => {
                layout.get(row, column).expect("a column of the projection")
            }
            _ => table.expect("whole rows have a definition").value(row, column),
        }
    }

    /// The values of an answered row.
    pub(super) fn decode(&self, cluster: &ClusterState, row: &Row) -> Result<Vec<Value>, Refusal> {
        let table = self.table_of(cluster, std::iter::once(&row.0[..]))?;
        let value = |at| self.value(table.as_deref(), &row.0, at).to_value();
        Ok((0..self.width()).map(value).collect())
    }
}
