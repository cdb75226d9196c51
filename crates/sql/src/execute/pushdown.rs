//! What data nodes do for a query where the rows are: conditions and groups as programs.
//!
//! # Owns
//! Which part of a scan, and of the groups over it, becomes a program, with the parameters of this
//! execution; what the columns of its result are.
//! # Guarantees
//! A query gives the same answer with and without. Rows that a data node cannot compute with come
//! as they are, and go through the operators that run here.
//! # Not here
//! The translation of expressions (`sql_expression::ProgramBuilder`).

use std::sync::Arc;

use model::ColumnId;
use sql_expression::{
    Accumulator, EvalContext, Expression, Form, Obstacle, ProgramBuilder, ProgramColumn, SqlError,
};
use sqltype::{Datum, SqlType};
use vector::{Block, Input, Kind, Program, TOP_ROWS_MAX, Vector};

use crate::execute::run::{Run, with_parameters};
use crate::execute::scan::given_datum;
use crate::logical::formula::{Formula, SortBy};
use crate::plan::operator::{Aggregate, TableScan};
use crate::rows::Row;

/// A program that lets rows through for which the conditions hold that it knows; whether these are
/// all. None if it knows none.
pub(crate) fn conditions(context: &EvalContext, scan: &TableScan) -> Option<(Arc<Program>, bool)> {
    let columns = columns(scan);
    let mut builder = ProgramBuilder::new(&columns, context);
    let known = filter(context, scan, &mut builder);
    if known == 0 {
        return None;
    }
    for at in &scan.wanted {
        builder.give_column(scan.offset + at)?;
    }
    leave_large(scan, &mut builder);
    Some((Arc::new(builder.finish()?), known == scan.conditions.len()))
}

/// A program that gives at least so many rows as come first in an order, of those for which all
/// conditions hold. None if something of it has no translation.
pub(crate) fn first_rows(
    context: &EvalContext,
    scan: &TableScan,
    keys: &[SortBy],
    rows: usize,
) -> Option<Arc<Program>> {
    let rows = u32::try_from(rows).ok().filter(|rows| (1..=TOP_ROWS_MAX).contains(rows))?;
    let known = |key: &SortBy| {
        key.formula.is_ready().then(|| with_parameters(context, &key.formula.expression))
    };
    let expressions: Vec<Expression> = keys.iter().map(known).collect::<Option<_>>()?;
    let keys = expressions.iter().zip(keys).map(|(expression, key)| (expression, key.descending));
    let keys: Vec<(&Expression, bool)> = keys.collect();
    let columns = columns(scan);
    let mut builder = ProgramBuilder::new(&columns, context);
    let is_all = filter(context, scan, &mut builder) == scan.conditions.len();
    if !is_free(scan) || !is_all || !builder.first_rows(&keys, rows) {
        return None;
    }
    for at in &scan.wanted {
        builder.give_column(scan.offset + at)?;
    }
    leave_large(scan, &mut builder);
    builder.finish().map(Arc::new)
}

/// Adds the conditions of a scan; how many of them have a translation.
fn filter(context: &EvalContext, scan: &TableScan, builder: &mut ProgramBuilder<'_>) -> usize {
    scan.conditions.len() - untranslated(context, scan.conditions.iter(), builder).len()
}

/// Adds conditions to a program; those that have no translation are left.
pub(crate) fn untranslated<'f>(
    context: &EvalContext,
    conditions: impl Iterator<Item = &'f Formula>,
    builder: &mut ProgramBuilder<'_>,
) -> Vec<&'f Formula> {
    conditions.filter(|condition| !translates(context, condition, builder)).collect()
}

/// Adds a condition to a program; false if it has no translation.
fn translates(
    context: &EvalContext,
    condition: &Formula,
    builder: &mut ProgramBuilder<'_>,
) -> bool {
    // What is too large for a program is not copied to find that out. A statement that is to end
    // hears it elsewhere.
    let _ = context.pauses.look();
    condition.is_ready()
        && !condition.expression.has_more_parts(PROGRAM_PARTS_MAX)
        && builder.filter(&with_parameters(context, &condition.expression))
}

/// Parts of an expression of which a program may have a translation: elements of lists, and others.
const PROGRAM_PARTS_MAX: usize = vector::PARTS_MAX + 2 * vector::NODES_MAX;

/// Why a program for the rows of a scan would not check a condition; nothing if it would.
pub(crate) fn obstacle(
    context: &EvalContext,
    scan: &TableScan,
    condition: &Formula,
) -> Option<Obstacle> {
    let columns = columns(scan);
    let mut builder = ProgramBuilder::new(&columns, context).explaining(true);
    if translates(context, condition, &mut builder) {
        return None;
    }
    let waits = if condition.needs.subqueries || condition.needs.correlated_subqueries {
        "it waits for a subquery"
    } else {
        "it waits for a function"
    };
    Some(builder.take_obstacle().unwrap_or_else(|| Obstacle::because(waits)))
}

/// The columns that are fetched, by their places in the row.
pub(crate) fn columns(scan: &TableScan) -> Vec<Option<ProgramColumn>> {
    let mut columns = vec![None; scan.width];
    for at in &scan.wanted {
        let column = &scan.definition.columns[*at];
        let sql_type = column.sql_type.clone();
        columns[scan.offset + at] = Some(ProgramColumn { column: column.column, sql_type });
    }
    columns
}

/// Has rows come as they are of which large values are wanted that do not lie in them.
pub(crate) fn leave_large(scan: &TableScan, builder: &mut ProgramBuilder<'_>) {
    let table = &scan.definition.table;
    let columns = scan.kernel_columns();
    let Some(large) = table.large.as_ref().filter(|large| columns.contains(&large.references))
    else {
        return;
    };
    let needed = columns[scan.wanted.len()..].iter();
    let input = |column: &ColumnId| Input {
        column: *column,
        kind: Kind::of_stored(table.columns[usize::from(column.0)].column_type),
    };
    builder.leave(large.references, needed.map(input).collect());
}

/// A program for the groups over a scan.
#[derive(Clone, Debug)]
pub(crate) struct GroupProgram {
    pub(crate) program: Arc<Program>,
    /// The columns of its result: first the keys, each in this form; then columns of some row of
    /// the group, by their positions in the definition; then, for each aggregate, the count of its
    /// values and, where there is a form, what they come to.
    keys: Vec<Form>,
    shown: Vec<(usize, SqlType)>,
    parts: Vec<Option<Form>>,
}

/// The program for the groups over a scan, or why something of it has no translation; in detail if
/// the run is watched.
pub(crate) fn groups(
    run: &Run<'_>,
    aggregate: &Aggregate,
    scan: &TableScan,
) -> Result<GroupProgram, Obstacle> {
    if let Some(why) = bound(scan) {
        return Err(Obstacle::because(why));
    }
    let context = &run.context;
    let columns = columns(scan);
    let mut builder = ProgramBuilder::new(&columns, context).explaining(run.is_watched());
    if filter(context, scan, &mut builder) < scan.conditions.len() {
        return Err(Obstacle::because("conditions are left to the SQL node"));
    }
    leave_large(scan, &mut builder);
    groups_by(context, aggregate, &columns, builder)
}

/// Whether rows may come as a program has them: unlocked, in any order, all of them.
pub(crate) fn is_free(scan: &TableScan) -> bool {
    bound(scan).is_none()
}

/// Why rows must come one by one, as they are stored.
pub(crate) fn bound(scan: &TableScan) -> Option<&'static str> {
    if scan.lock.is_some() || scan.hidden.is_some() {
        return Some("its rows are locked or changed");
    }
    if scan.ordered.is_some() {
        return Some("its rows come in the order of an index");
    }
    scan.limit.is_some().then_some("it ends with the first rows")
}

/// The program for groups over rows of these columns.
pub(crate) fn groups_of(
    context: &EvalContext,
    aggregate: &Aggregate,
    columns: &[Option<ProgramColumn>],
) -> Option<GroupProgram> {
    groups_by(context, aggregate, columns, ProgramBuilder::new(columns, context)).ok()
}

/// The program for groups over rows of these columns, for what a builder has so far.
pub(crate) fn groups_by(
    context: &EvalContext,
    aggregate: &Aggregate,
    columns: &[Option<ProgramColumn>],
    mut builder: ProgramBuilder<'_>,
) -> Result<GroupProgram, Obstacle> {
    let known = |expression: &Expression| with_parameters(context, expression);
    let by: Vec<Expression> = aggregate.group.iter().map(|key| known(&key.expression)).collect();
    let refused = |builder: &mut ProgramBuilder<'_>| {
        let unknown = || Obstacle::because("it has no translation");
        builder.take_obstacle().unwrap_or_else(unknown)
    };
    let too_large = || Obstacle::because("the program would be too large");
    let Some(keys) = builder.group(&by.iter().collect::<Vec<_>>()) else {
        return Err(refused(&mut builder));
    };
    let type_of = |place: &usize| {
        let column = columns.get(*place)?.as_ref()?;
        Some((*place, column.sql_type.clone()))
    };
    let shown: Vec<(usize, SqlType)> = aggregate.shown.iter().filter_map(type_of).collect();
    for (place, _) in &shown {
        builder.give_first(*place).ok_or_else(too_large)?;
    }
    let mut parts = Vec::with_capacity(aggregate.calls.len());
    for call in &aggregate.calls {
        let mut call = call.clone();
        for argument in call.arguments_mut() {
            *argument = known(argument);
        }
        match builder.give_aggregate(&call) {
            Some(part) => parts.push(part),
            None => return Err(refused(&mut builder)),
        }
    }
    let program = Arc::new(builder.finish().ok_or_else(too_large)?);
    Ok(GroupProgram { program, keys, shown, parts })
}

/// A group as a data node knows it.
pub(crate) struct Part {
    /// The values it is grouped by.
    pub(crate) keys: Vec<Datum>,
    /// A row of it, as far as anything shows it.
    pub(crate) row: Row,
    pub(crate) accumulators: Vec<Accumulator>,
}

impl GroupProgram {
    /// A group of a block.
    pub(crate) fn part(
        &self,
        run: &Run<'_>,
        aggregate: &Aggregate,
        block: &Block,
        at: usize,
    ) -> Result<Part, SqlError> {
        let broken = || SqlError::internal("a group of another shape");
        let keys = self.key_values(run, aggregate, block, at);
        let calls = 0..aggregate.calls.len();
        let accumulators = calls.map(|call| self.accumulator(aggregate, block, at, call));
        let accumulators: Option<Vec<Accumulator>> = accumulators.collect();
        let accumulators = accumulators.ok_or_else(broken)?;
        let row = self.first_row(run, aggregate.width, block, at);
        Ok(Part { keys, row, accumulators })
    }

    /// The values that a group of a block is grouped by.
    pub(crate) fn key_values(
        &self,
        run: &Run<'_>,
        aggregate: &Aggregate,
        block: &Block,
        at: usize,
    ) -> Vec<Datum> {
        let mut keys = Vec::with_capacity(self.keys.len());
        let by = self.keys.iter().zip(&aggregate.group).zip(block.columns());
        for ((form, formula), column) in by {
            let value = column.get(at);
            keys.push(match sql_expression::datum_of(value, *form) {
                Some(datum) => datum,
                None => given_datum(value, formula.expression.sql_type(), run),
            });
        }
        keys
    }

    /// A row of a group of a block, so wide, as far as anything shows it; with room for what its
    /// aggregates come to.
    fn first_row(&self, run: &Run<'_>, width: usize, block: &Block, at: usize) -> Row {
        let mut row = Vec::with_capacity(width + self.parts.len());
        row.resize(width, Datum::Null);
        let columns = block.columns().iter().skip(self.keys.len());
        for ((place, sql_type), column) in self.shown.iter().zip(columns) {
            row[*place] = given_datum(column.get(at), sql_type, run);
        }
        row
    }

    /// The row that a group of a block comes to, with its aggregates.
    pub(crate) fn result_row(
        &self,
        run: &mut Run<'_>,
        aggregate: &Aggregate,
        block: &Block,
        at: usize,
    ) -> Result<Row, SqlError> {
        let mut row = self.first_row(run, aggregate.width, block, at);
        for (place, call) in aggregate.calls.iter().enumerate() {
            let accumulator = self.accumulator(aggregate, block, at, place);
            let accumulator =
                accumulator.ok_or_else(|| SqlError::internal("a group of another shape"))?;
            row.push(accumulator.finish(call, &mut run.context)?);
        }
        Ok(row)
    }

    /// The columns of a block that show columns of some row of each group, with their places.
    pub(crate) fn shown_columns<'b>(
        &'b self,
        block: &'b Block,
    ) -> impl Iterator<Item = (usize, &'b Vector)> {
        let columns = block.columns().iter().skip(self.keys.len());
        self.shown.iter().map(|(place, _)| *place).zip(columns)
    }

    /// The count of an aggregate's values, and what they come to.
    pub(crate) fn columns_of<'b>(
        &self,
        block: &'b Block,
        call: usize,
    ) -> Option<(&'b Vector, Option<(&'b Vector, Form)>)> {
        let before = self.parts[..call].iter().map(|part| 1 + usize::from(part.is_some()));
        let at = self.keys.len() + self.shown.len() + before.sum::<usize>();
        let count = block.columns().get(at)?;
        Some((
            count,
            match self.parts.get(call)? {
                Some(form) => Some((block.columns().get(at + 1)?, *form)),
                None => None,
            },
        ))
    }

    /// An aggregate of a group of a block.
    pub(crate) fn accumulator(
        &self,
        aggregate: &Aggregate,
        block: &Block,
        at: usize,
        call: usize,
    ) -> Option<Accumulator> {
        let (count, value) = self.columns_of(block, call)?;
        let call = &aggregate.calls[call];
        let vector::ScalarRef::Int(count) = count.get(at) else { return None };
        let value = match value {
            Some((value, Form::Int | Form::UInt)) if is_sum(call) => total(value.get(at), 0)?,
            Some((value, Form::Decimal(scale))) if is_sum(call) => total(value.get(at), scale)?,
            Some((value, form)) => sql_expression::datum_of(value.get(at), form)?,
            None => Datum::Null,
        };
        Accumulator::of_part(call, u64::try_from(count).ok()?, value)
    }
}

fn is_sum(call: &sql_expression::AggregateCall) -> bool {
    use sql_parser::ast::AggregateFunction as A;
    matches!(call.function, A::Sum | A::Avg)
}

/// A sum of whole numbers or decimals, which is a decimal without its point.
fn total(value: vector::ScalarRef<'_>, scale: u8) -> Option<Datum> {
    sql_expression::datum_of(value, Form::Decimal(scale))
}
