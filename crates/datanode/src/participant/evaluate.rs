//! What an operation makes of a row: checks of what clients sent, conditions, assignments,
//! projections. Pure: no locks, no state.

use std::sync::Arc;

use model::row::RowError;
use model::schema::KEY_SIZE_MAX;
use model::{
    ColumnId, ErrorCode, EvalError, Expression, Key, PartitionId, Refusal, Row, RowLayout,
    RowProjection, RowView, Table, TableCache, ValueRef,
};
use wire::{LockMode, OperationKind, Projection};

/// Whether an operation fits its table's definition, which has the version it was made for; the
/// encoded primary key of the row that it brings, if it brings one.
pub(super) fn check_operation(
    table: &Table,
    partition: PartitionId,
    kind: &OperationKind,
) -> Result<Option<Key>, Refusal> {
    match kind {
        OperationKind::Read { key, projection, lock, snapshot, .. } => {
            check_key(key)?;
            if snapshot.is_some() && *lock != LockMode::Committed {
                return Err(bad("what is read as of a snapshot is not locked"));
            }
            check_projection(table, projection)?;
            Ok(None)
        }
        OperationKind::Insert { row } | OperationKind::Upsert { row } => {
            if !table.layout().check(&row.0) {
                return Err(bad("the row does not have the table's layout"));
            }
            let key = table.key_of_row(&table.primary_key, &row.0);
            let index = if table.distribution_key == table.primary_key {
                // Encoded once.
                table.partition_of_hash(key.distribution_hash())
            } else {
                table.partition_of_row(&row.0)
            };
            if index != partition.index {
                return Err(bad("the row belongs to another partition"));
            }
            Ok(Some(key))
        }
        OperationKind::Update { key, condition, assignments } => {
            check_key(key)?;
            check_condition(table, condition.as_ref())?;
            let mut seen = vec![false; table.columns.len()];
            for (column, value) in assignments {
                let seen = seen.get_mut(usize::from(column.0));
                let seen = seen.ok_or_else(|| bad("no such column"))?;
                if std::mem::replace(seen, true) {
                    return Err(bad("a column is assigned twice"));
                }
                check_condition(table, Some(value))?;
            }
            Ok(None)
        }
        OperationKind::Delete { key, condition } => {
            check_key(key)?;
            check_condition(table, condition.as_ref())?;
            Ok(None)
        }
    }
}

fn check_key(key: &Key) -> Result<(), Refusal> {
    if key.0.len() > KEY_SIZE_MAX {
        return Err(bad("the key is longer than any key of the table"));
    }
    Ok(())
}

/// Whether an expression from a client can be evaluated on rows of `table`.
pub(super) fn check_condition(
    table: &Table,
    condition: Option<&Expression>,
) -> Result<(), Refusal> {
    match condition {
        Some(condition) if !condition.check(table) => {
            Err(bad("an expression is too deep or names an unknown column"))
        }
        _ => Ok(()),
    }
}

/// Whether a projection from a client names columns of `table`, each once.
pub(super) fn check_projection(table: &Table, projection: &Projection) -> Result<(), Refusal> {
    let Projection::Columns(columns) = projection else { return Ok(()) };
    if let [column] = columns[..] {
        let known = usize::from(column.0) < table.columns.len();
        return if known { Ok(()) } else { Err(bad("no such column")) };
    }
    let mut seen = vec![false; table.columns.len()];
    for column in columns {
        let seen = seen.get_mut(usize::from(column.0)).ok_or_else(|| bad("no such column"))?;
        if std::mem::replace(seen, true) {
            return Err(bad("a column is projected twice"));
        }
    }
    Ok(())
}

/// Whether the row satisfies the condition.
pub(super) fn passes(
    table: &Table,
    row: &[u8],
    condition: Option<&Expression>,
) -> Result<bool, Refusal> {
    let Some(condition) = condition else { return Ok(true) };
    condition.passes(RowView { table, bytes: row }).map_err(eval_refusal)
}

/// Refuses a row that does not satisfy the condition of a change.
pub(super) fn require(
    table: &Table,
    row: &[u8],
    condition: Option<&Expression>,
) -> Result<(), Refusal> {
    if passes(table, row, condition)? { Ok(()) } else { Err(ErrorCode::ConditionFalse.into()) }
}

/// The row after an update, in the table's newest layout. All assignments see the row before.
pub(super) fn updated(
    table: &Table,
    before: &[u8],
    key: &Key,
    assignments: &[(ColumnId, Expression)],
) -> Result<Row, Refusal> {
    let view = RowView { table, bytes: before };
    let columns = table.columns.len() as u16;
    let is_newest = usize::from(RowLayout::version_of(before)) + 1 == table.layouts.len();
    let mut values: Vec<ValueRef<'_>> = if is_newest {
        (0..columns).map(|c| view.get(ColumnId(c))).collect()
    } else {
        (0..columns).map(|c| table.value_now(before, ColumnId(c))).collect()
    };
    for (column, expression) in assignments {
        values[usize::from(column.0)] = expression.eval(view).map_err(eval_refusal)?;
    }
    let after = table.layout().encode(&values).map_err(|error| row_refusal(table, error))?;
    let assigns_key = assignments.iter().any(|(column, _)| table.primary_key.contains(column));
    if assigns_key && table.key_of_row(&table.primary_key, &after.0) != *key {
        return Err(ErrorCode::PrimaryKeyChange.into());
    }
    Ok(after)
}

/// Cuts rows down to what a reader asked for; made once, used for many rows.
#[derive(Debug)]
pub(super) enum Projector {
    All,
    Nothing,
    Columns(RowProjection),
    /// All columns in their order, of which a row of the first layout consists as it lies.
    Whole(RowProjection),
}

/// Projectors that earlier reads by key were given: most ask for the same columns of the same
/// tables.
pub(super) type Projectors = TableCache<Projection, Projector>;

impl Projector {
    /// For what a client asks for, which is checked; perhaps one of those that are known.
    pub(super) fn of(
        known: &mut Projectors,
        table: &Arc<Table>,
        projection: &Projection,
    ) -> Result<Arc<Self>, Refusal> {
        known.get(table, projection, || {
            check_projection(table, projection)?;
            Ok(Self::new(table, projection))
        })
    }

    /// For a projection that has been checked.
    pub(super) fn new(table: &Table, projection: &Projection) -> Self {
        match projection {
            Projection::All => Projector::All,
            Projection::Nothing => Projector::Nothing,
            Projection::Columns(columns) => {
                let projection = RowProjection::new(table, columns);
                if is_whole(table, columns) {
                    Projector::Whole(projection)
                } else {
                    Projector::Columns(projection)
                }
            }
        }
    }

    /// The part of the row that was asked for.
    pub(super) fn project(&self, table: &Table, row: &[u8]) -> Result<Row, Refusal> {
        match self {
            Projector::All => Ok(Row(row.into())),
            Projector::Nothing => Ok(Row(Box::default())),
            Projector::Whole(_) if RowLayout::version_of(row) == 0 => Ok(Row(row.into())),
            Projector::Columns(projection) | Projector::Whole(projection) => {
                projection.project(table, row).map_err(|error| row_refusal(table, error))
            }
        }
    }

    /// Appends the part of the row that was asked for, or a piece of it after an error.
    #[inline]
    pub(super) fn project_into(
        &self,
        table: &Table,
        row: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match self {
            Projector::All => out.extend_from_slice(row),
            Projector::Nothing => {}
            Projector::Whole(_) if RowLayout::version_of(row) == 0 => out.extend_from_slice(row),
            Projector::Columns(projection) | Projector::Whole(projection) => {
                let projected = projection.append(table, row, out);
                return projected.map_err(|error| row_refusal(table, error));
            }
        }
        Ok(())
    }
}

/// Whether a row of these columns, in its first layout, is what it becomes projected to them.
fn is_whole(table: &Table, columns: &[ColumnId]) -> bool {
    let in_order = columns.iter().map(|column| usize::from(column.0)).eq(0..table.columns.len());
    in_order && *table.layouts[0] == RowLayout::new(0, &table.columns)
}

fn eval_refusal(error: EvalError) -> Refusal {
    match error {
        EvalError::OutOfRange => {
            Refusal::new(ErrorCode::ValueOutOfRange, "the result of an expression")
        }
        EvalError::Kind => bad("an expression combines kinds that do not go together"),
    }
}

fn row_refusal(table: &Table, error: RowError) -> Refusal {
    let name =
        |column: ColumnId| format!("{}.{}", table.name, table.columns[usize::from(column.0)].name);
    match error {
        // It was there when the operation was sent, and has been dropped since.
        RowError::OutOfRange(column) if table.columns[usize::from(column.0)].is_hole() => {
            Refusal::new(ErrorCode::SchemaChanged, table.name.clone())
        }
        RowError::NotNull(column) => Refusal::new(ErrorCode::NotNull, name(column)),
        RowError::OutOfRange(column) => Refusal::new(ErrorCode::ValueOutOfRange, name(column)),
        RowError::TooLarge => Refusal::new(ErrorCode::RowTooLarge, table.name.clone()),
        RowError::ColumnCount => bad("the number of columns differs"),
    }
}

fn bad(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, detail)
}
