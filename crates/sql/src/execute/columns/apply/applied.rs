//! A condition whose subqueries are columns.
//!
//! What a subquery is for each row becomes a column beside the others: a value, or whether it has
//! rows, or whether a value is among them. The rest of the condition is then one like any other. A
//! subquery that equalities tie to the row ([`Keyed`]) is run once, for the keys that there are;
//! what cannot be done so is done row by row.
//!
//! # Owns
//! [`Applied`], and how it is made for the rows of [`Known`].
//! # Not here
//! For which rows (`apply`).

use std::rc::Rc;

use model::ColumnId;
use sql_expression::{
    BinaryOp, Expression, Node, ProgramColumn, RowQuantifier, SqlError, SubqueryKind, SubqueryUse,
    kind_of,
};
use sqltype::{Datum, SqlType};
use vector::{Inexact, JoinTable, KeySet, ProbePlace, ScalarRef, Values, Vector};

use super::{KEPT, LOOKED_UP_MAX};
use crate::execute::columns::batch::{ColumnBatch, fitting};
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::filter::Conditions;
use crate::execute::columns::join::{key_set_of, table_of};
use crate::execute::columns::keys::{Keys, place_as_it_is};
use crate::execute::columns::shape::{
    PAIRS_MAX, Shape, Stop, narrow, narrowed_scan, places_of_conditions,
};
use crate::execute::columns::source::push;
use crate::execute::run::{Run, alone};
use crate::logical::formula::Formula;
use crate::memory::Held;
use crate::plan::keyed::runs_worth;
use crate::plan::operator::{HashKey, Keyed, Operator, QueryPlan, Search, Subplan, TableScan};
use crate::plan::operator_id::OperatorId;

/// How much cheaper it is to run a keyed subquery on columns than on rows.
const COLUMNS_GAIN: usize = 10;
/// Values for which a subquery is asked one by one.
const SOUGHT_MAX: usize = 64;

/// A condition whose subqueries are columns.
pub(super) struct Applied<'p> {
    formula: &'p Formula,
    extras: Vec<Extra>,
    /// The row with the columns behind it.
    shape: Shape,
    rest: Conditions,
}

/// The column that a subquery is.
struct Extra {
    kind: ExtraKind,
    keys: Keys,
    table: JoinTable,
    /// The rows of the subquery.
    rows: ColumnBatch,
    /// What must be true of a pair: the row, and behind it a row of the subquery.
    residual: Option<(Conditions, Shape)>,
    /// What the rows and their table take.
    _held: Held,
}

enum ExtraKind {
    /// Whether there is a row.
    Exists,
    /// Whether the value is among the rows; with whether there is a NULL among them, and whether
    /// there is none at all.
    In { has_null: bool, is_empty: bool },
    /// The value at a place of the only row; of no row, what is given here.
    Value { place: usize, of_nothing: Datum, sql_type: SqlType },
}

/// Why a column cannot be made.
enum Trouble {
    Inexact,
    Failed(SqlError),
}

impl From<Inexact> for Trouble {
    fn from(_: Inexact) -> Self {
        Self::Inexact
    }
}

impl From<SqlError> for Trouble {
    fn from(error: SqlError) -> Self {
        Self::Failed(error)
    }
}

/// The rows that were collected.
pub(super) struct Known<'a> {
    pub(super) batches: Vec<&'a ColumnBatch>,
    pub(super) count: usize,
    /// What is prepared is for them alone.
    pub(super) is_all: bool,
}

impl Known<'_> {
    /// Whether a value, or one of a row of values, is NULL in one of the rows.
    async fn has_null(
        &self,
        run: &mut Run<'_>,
        operand: &Expression,
        shape: &Shape,
    ) -> Result<bool, SqlError> {
        for batch in &self.batches {
            for at in 0..batch.rows() {
                let row = batch.row(at, shape, run);
                if run.has_null(operand, &row)? {
                    return Ok(true);
                }
                run.worked(1).await?;
            }
        }
        Ok(false)
    }
}

/// The places of the rows for which a condition holds, found row by row.
pub(super) async fn holding(
    run: &mut Run<'_>,
    formula: &Formula,
    batch: &ColumnBatch,
    shape: &Shape,
) -> Result<Option<Vec<u32>>, SqlError> {
    let mut places = Vec::new();
    for at in 0..batch.rows() {
        let row = batch.row(at, shape, run);
        if run.holds(formula, &row).await? {
            places.push(at as u32);
        }
        run.worked(1).await?;
    }
    Ok(Some(places))
}

/// A condition with its subqueries as columns; none if one of them cannot be.
pub(super) async fn applied<'p>(
    run: &mut Run<'_>,
    formula: &'p Formula,
    shape: &Shape,
    known: Option<&Known<'_>>,
) -> Result<Option<Applied<'p>>, Stop> {
    if formula.expression.is_volatile() {
        return Ok(None);
    }
    let mut uses = Vec::new();
    formula.expression.visit(&mut |part| {
        if let Node::Subquery(subquery) = &part.node {
            uses.push((**subquery).clone());
        }
    });
    let mut wider = shape.clone();
    let (mut extras, mut expression) = (Vec::new(), formula.expression.clone());
    for subquery in uses {
        let single = match &subquery.kind {
            SubqueryKind::Scalar { columns } => columns.len() == 1,
            SubqueryKind::Exists => true,
            SubqueryKind::Quantified { columns, op, quantifier, .. } => {
                let any = *op == BinaryOp::Equal && *quantifier == RowQuantifier::Any;
                any && columns.len() == 1
            }
        };
        if !single {
            return Ok(None);
        }
        let alone = alone(&subquery);
        let search = run.subplan(subquery.id).and_then(|subplan| subplan.search.clone());
        let sought = match (known, search) {
            (Some(known), Some(search)) => sought(run, &subquery, &search, shape, known).await?,
            _ => Sought::Whole,
        };
        if matches!(sought, Sought::RowByRow) {
            return Ok(None);
        }
        if !subquery.correlated && matches!(sought, Sought::Whole) {
            run.prepare(&alone, &[]).await?;
        }
        let is_value = matches!(subquery.kind, SubqueryKind::Scalar { .. } | SubqueryKind::Exists);
        if !subquery.correlated && is_value {
            let value = alone.eval(&[], &mut run.context)?;
            replace(&mut expression, &subquery, |part| part.node = Node::Constant(value.clone()));
            continue;
        }
        let extra = match (sought, known, subquery.correlated) {
            (Sought::Column(column), ..) => Some(*column),
            (_, Some(known), true) => of_row(run, &subquery, shape, known).await?,
            (_, _, false) => listed(run, &subquery, shape)?,
            (_, None, true) => None,
        };
        let Some((extra, sql_type)) = extra else { return Ok(None) };
        let place = wider.len();
        wider.push(Some(ProgramColumn { column: ColumnId(0), sql_type }));
        let negated = matches!(subquery.kind, SubqueryKind::Quantified { negated: true, .. });
        replace(&mut expression, &subquery, |part| {
            part.node = Node::Column { index: place as u32, name: Default::default() };
            if negated {
                let truth = Expression { node: part.node.clone(), result: part.result.clone() };
                part.node = Node::Not(Box::new(truth));
            }
        });
        extras.push(extra);
    }
    let rest = [Formula::new(expression)];
    let rest = Conditions::new(run, rest.iter(), &wider);
    Ok(rest.map(|rest| Applied { formula, extras, shape: wider, rest }))
}

/// Puts something else in the place of a subquery.
fn replace(expression: &mut Expression, subquery: &SubqueryUse, with: impl Fn(&mut Expression)) {
    expression.visit_mut(&mut |part| {
        if matches!(&part.node, Node::Subquery(other) if **other == *subquery) {
            with(part);
        }
    });
}

/// `value IN (…)` of a subquery that depends on no row, and has been run.
fn listed(
    run: &Run<'_>,
    subquery: &SubqueryUse,
    shape: &Shape,
) -> Result<Option<(Extra, SqlType)>, Stop> {
    let SubqueryKind::Quantified { operand, comparisons, columns, .. } = &subquery.kind else {
        return Ok(None);
    };
    let [column] = &**columns else { return Ok(None) };
    let of_row = column.sql_type.clone();
    let rows = run.context.subquery(subquery.id)?;
    let mut values = Vector::new(kind_of(&of_row));
    for row in rows.rows() {
        if push(&mut values, &row[0], &of_row).is_none() {
            return Ok(None);
        }
    }
    let inner = vec![Some(ProgramColumn { column: ColumnId(0), sql_type: of_row })];
    let key = HashKey {
        left: Formula::new(operand.clone()),
        right: Formula::new(Expression::column(0, Default::default(), column.clone())),
        comparison: comparisons[0],
        null_safe: false,
    };
    let Some(keys) = Keys::new(run, &[key], shape, &inner) else { return Ok(None) };
    let has_null = (0..values.len()).any(|at| values.is_null(at));
    let is_empty = values.is_empty();
    let rows = ColumnBatch::new(values.len(), vec![Some(Rc::new(values))]);
    let Ok(of_rows) = keys.of_right(&rows) else { return Ok(None) };
    let table = JoinTable::new(&of_rows, rows.rows());
    let mut held = run.hold(KEPT);
    held.set(rows.memory_bytes() + table.memory_bytes())?;
    let kind = ExtraKind::In { has_null, is_empty };
    let extra = Extra { kind, keys, table, rows, residual: None, _held: held };
    Ok(Some((extra, SqlType::big_int())))
}

/// What comes of asking a subquery of IN for the values that there are.
enum Sought {
    Column(Box<(Extra, SqlType)>),
    /// It is asked value by value: there are few.
    RowByRow,
    /// All of its rows are wanted.
    Whole,
}

/// Asks a subquery of IN for the values that there are, if these are few.
async fn sought(
    run: &mut Run<'_>,
    subquery: &SubqueryUse,
    search: &Search,
    shape: &Shape,
    known: &Known<'_>,
) -> Result<Sought, Stop> {
    let SubqueryKind::Quantified { operand, .. } = &subquery.kind else {
        return Ok(Sought::Whole);
    };
    let few = known.is_all && known.count <= LOOKED_UP_MAX;
    if !few && !subquery.correlated {
        return Ok(Sought::Whole);
    }
    let found = match &search.subplan.keyed {
        Some(of_values) => keyed(run, of_values, shape, known).await?,
        None => None,
    };
    let Some(of_values) = found else {
        let few = search.by_index && known.is_all && known.count <= SOUGHT_MAX;
        return Ok(if few || subquery.correlated { Sought::RowByRow } else { Sought::Whole });
    };
    if !search.only_true && known.has_null(run, operand, shape).await? {
        return Ok(if subquery.correlated { Sought::RowByRow } else { Sought::Whole });
    }
    let has_null = match &search.nulls {
        Some(plan) => !run.rows_of(plan, Some(1)).await?.rows.is_empty(),
        None => false,
    };
    let kind = ExtraKind::In { has_null, is_empty: false };
    let column = (Extra { kind, ..of_values }, SqlType::big_int());
    Ok(Sought::Column(Box::new(column)))
}

/// A subquery that equalities tie to the row, and that is a value or asked for rows.
async fn of_row(
    run: &mut Run<'_>,
    subquery: &SubqueryUse,
    shape: &Shape,
    known: &Known<'_>,
) -> Result<Option<(Extra, SqlType)>, Stop> {
    let Some(Subplan { plan, keyed: Some(of_keys), .. }) = run.subplan(subquery.id).cloned() else {
        return Ok(None);
    };
    let is_exists = match &subquery.kind {
        SubqueryKind::Exists => true,
        SubqueryKind::Scalar { .. } => false,
        SubqueryKind::Quantified { .. } => return Ok(None),
    };
    let Some(extra) = keyed(run, &of_keys, shape, known).await? else { return Ok(None) };
    if is_exists {
        return Ok(Some((extra, SqlType::big_int())));
    }
    let place = of_keys.outputs.0;
    let sql_type = of_keys.plan.results[place].sql_type.clone();
    let of_nothing =
        if of_keys.whole { of_nothing(run, &plan, shape.len()).await? } else { Datum::Null };
    let kind = ExtraKind::Value { place, of_nothing, sql_type: sql_type.clone() };
    Ok(Some((Extra { kind, ..extra }, sql_type)))
}

/// Whether a subquery that equalities tie to the row has rows: run for all rows there are. A scan
/// that was never begun, as another table had no rows, still has the key-set filters of these
/// rows: they are taken away, as the next rows have other keys.
async fn keyed(
    run: &mut Run<'_>,
    keyed: &Keyed,
    shape: &Shape,
    known: &Known<'_>,
) -> Result<Option<Extra>, Stop> {
    let mut filtered = Vec::new();
    let extra = keyed_rows(run, keyed, shape, known, &mut filtered).await;
    for scan in filtered {
        run.narrowed.take(scan);
    }
    extra
}

/// The same; `filtered` is told which scans were given key-set filters.
async fn keyed_rows(
    run: &mut Run<'_>,
    keyed: &Keyed,
    shape: &Shape,
    known: &Known<'_>,
    filtered: &mut Vec<OperatorId>,
) -> Result<Option<Extra>, Stop> {
    let all = (0..keyed.plan.results.len()).collect();
    let source = ColumnCursor::new(run, &keyed.plan.root, &all);
    let Some(mut source) = source else { return Ok(None) };
    let inner = source.shape().clone();
    let Some(keys) = Keys::new(run, &keyed.keys, shape, &inner) else { return Ok(None) };
    if known.is_all {
        let Some(sets) = key_sets(run, &keys, known).await? else { return Ok(None) };
        let read_on = rows_read(run, &keyed.plan.root, &sets);
        let patience = keyed.patience.min(runs_worth(read_on));
        // On columns all rows at once are so much cheaper.
        if known.count * COLUMNS_GAIN <= patience as usize {
            return Ok(None);
        }
        for (place, set) in sets {
            filtered.extend(narrow(run, &keyed.plan.root, place, set));
        }
    }
    run.add_subplans(&keyed.plan.subqueries);
    let (mut rows, mut held) = (ColumnBatch::empty(&inner), run.hold(KEPT));
    loop {
        match source.next(run).await {
            Ok(None) => break,
            Ok(Some(batch)) => rows.append(&batch, &mut held)?,
            Err(Stop::Unsuitable) => return Ok(None),
            Err(stop) => return Err(stop),
        }
    }
    let Ok(of_rows) = keys.of_right(&rows) else { return Ok(None) };
    let table = table_of(run, &of_rows, rows.rows()).await?;
    held.add(table.memory_bytes())?;
    let residual = if keyed.residual.is_empty() {
        None
    } else {
        let mut pair: Shape = shape.iter().chain(&inner).cloned().collect();
        let moved = moved(keyed, shape.len());
        let used = places_of_conditions(&moved, pair.len());
        for (place, column) in pair.iter_mut().enumerate() {
            column.take_if(|_| !used.contains(&place));
        }
        let Some(conditions) = Conditions::new(run, moved.iter(), &pair) else {
            return Ok(None);
        };
        Some((conditions, pair))
    };
    let kind = ExtraKind::Exists;
    Ok(Some(Extra { kind, keys, table, rows, residual, _held: held }))
}

/// What keys the rows have, by the places that they are compared with; none if they cannot be
/// computed.
async fn key_sets(
    run: &mut Run<'_>,
    keys: &Keys,
    known: &Known<'_>,
) -> Result<Option<Vec<(usize, KeySet)>>, SqlError> {
    let mut sets = Vec::new();
    for (number, place) in keys.places.iter().enumerate() {
        let Some(place) = place else { continue };
        let mut vectors = Vec::with_capacity(known.batches.len());
        for batch in &known.batches {
            let Ok(columns) = keys.of_left(batch) else { return Ok(None) };
            vectors.push(columns[number].vector.clone());
            run.worked(batch.rows() / 8).await?;
        }
        let vectors: Vec<&Vector> = vectors.iter().map(|vector| &**vector).collect();
        if let Some(set) = key_set_of(run, &vectors).await? {
            sets.push((*place, set));
        }
    }
    Ok(Some(sets))
}

/// About how many rows an operator reads with these key sets as filters: where an index begins with
/// such a column, data nodes look the keys up if they are not many.
pub(super) fn rows_read(run: &Run<'_>, operator: &Operator, sets: &[(usize, KeySet)]) -> u64 {
    let few = |set: &KeySet| set.count().is_some_and(|count| count <= LOOKED_UP_MAX);
    let filtered = sets.iter().filter(|(_, set)| few(set));
    let filtered = filtered.filter_map(|(place, _)| narrowed_scan(operator, *place));
    let by_index = filtered.filter(|(scan, input)| {
        let (table, place) = (&scan.definition.table, scan.wanted[usize::from(*input)]);
        let column = scan.definition.columns[place].column;
        // Among rows of the transaction itself nothing is looked up.
        !run.session.guards_reads()
            && !run.session.transaction.written.contains(&table.id)
            && table.online_indexes().any(|index| index.columns.first() == Some(&column))
    });
    let by_index: Vec<OperatorId> = by_index.map(|(scan, _)| scan.id()).collect();
    scanned(operator)
        .filter(|scan| !by_index.contains(&scan.id()))
        .map(|scan| run.rows_of_table(scan))
        .sum()
}

/// The scans that an operator begins with.
pub(in super::super) fn scanned(operator: &Operator) -> Box<dyn Iterator<Item = &TableScan> + '_> {
    match operator {
        Operator::Scan(scan) => Box::new(std::iter::once(&**scan)),
        _ => Box::new(operator.inputs().into_iter().flat_map(|input| scanned(input))),
    }
}

/// What aggregates of nothing are: the same for every row, so for one of NULLs too.
async fn of_nothing(
    run: &mut Run<'_>,
    plan: &Rc<QueryPlan>,
    width: usize,
) -> Result<Datum, SqlError> {
    run.context.push_outer(vec![Datum::Null; width]);
    let rows = run.rows_of(plan, None).await;
    run.context.pop_outer();
    Ok(rows?.rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or(Datum::Null))
}

/// What must be true of a row of the subquery, over the enclosing row with it behind.
fn moved(keyed: &Keyed, width: usize) -> Vec<Formula> {
    let moved = keyed.residual.iter().map(|formula| {
        let mut expression = formula.expression.clone();
        expression.visit_mut(&mut |part| match &part.node {
            Node::Column { index, name } => {
                part.node = Node::Column { index: index + width as u32, name: name.clone() };
            }
            Node::Outer { depth: 1, index, name } => {
                part.node = Node::Column { index: *index, name: name.clone() };
            }
            Node::Outer { depth, index, name } => {
                let depth = depth - 1;
                part.node = Node::Outer { depth, index: *index, name: name.clone() };
            }
            _ => {}
        });
        Formula::new(expression)
    });
    moved.collect()
}

impl Applied<'_> {
    /// If it says that a column is among the rows of a subquery, the rows of the operator are
    /// looked for by these.
    pub(super) async fn narrow(
        &self,
        run: &mut Run<'_>,
        operator: &Operator,
    ) -> Result<(), SqlError> {
        let ([extra], Node::Subquery(subquery)) =
            (self.extras.as_slice(), &self.formula.expression.node)
        else {
            return Ok(());
        };
        let SubqueryKind::Quantified { operand, negated: false, columns, .. } = &subquery.kind
        else {
            return Ok(());
        };
        let right = Expression::column(0, Default::default(), columns[0].clone());
        let is_same = place_as_it_is(operand, &right).is_some();
        if let (true, Some(place), Some(values)) =
            (is_same, operand.as_column(), extra.rows.column(0))
            && let Some(set) = key_set_of(run, &[values]).await?
        {
            narrow(run, operator, place as usize, set);
        }
        Ok(())
    }

    pub(super) async fn select(
        &self,
        run: &mut Run<'_>,
        batch: &ColumnBatch,
        shape: &Shape,
    ) -> Result<Option<Vec<u32>>, SqlError> {
        let mut wider = batch.clone();
        for extra in &self.extras {
            match extra.column(run, batch, shape).await {
                Ok(column) => wider.push(Rc::new(column)),
                Err(Trouble::Inexact) => return holding(run, self.formula, batch, shape).await,
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        self.rest.select(run, &wider, &self.shape).await
    }
}

impl Extra {
    /// The column for some rows.
    async fn column(
        &self,
        run: &mut Run<'_>,
        batch: &ColumnBatch,
        shape: &Shape,
    ) -> Result<Vector, Trouble> {
        let keys = self.keys.of_left(batch)?;
        let count = batch.rows();
        let mut found: Vec<Option<u32>> = vec![None; count];
        let mut next = ProbePlace::default();
        while next.row < count {
            let most = run.portion(PAIRS_MAX);
            let (of_batch, of_rows, after) = self.table.probe(&keys, next, count, most);
            run.worked((after.row - next.row + of_batch.len()) / 8 + 1).await?;
            next = after;
            let (mut of_batch, mut of_rows) = (of_batch.as_slice(), of_rows.as_slice());
            while !of_batch.is_empty() {
                let (these, holding) = match &self.residual {
                    None => (of_batch.len(), None),
                    Some((conditions, pair)) => {
                        let (left, right) = pair.split_at(shape.len());
                        let sides = [(batch, of_batch, left), (&self.rows, of_rows, right)];
                        let these = fitting(sides);
                        let pairs = batch.gather(run, &of_batch[..these], left).await?;
                        let others = self.rows.gather(run, &of_rows[..these], right).await?;
                        let pairs = pairs.followed_by(others);
                        (these, conditions.select(run, &pairs, pair).await?)
                    }
                };
                let mut meet = |at: usize| -> Result<(), SqlError> {
                    let place = &mut found[of_batch[at] as usize];
                    let second = place.replace(of_rows[at]).is_some();
                    match self.kind {
                        ExtraKind::Value { .. } if second => Err(SqlError::of::<1242>(&[])),
                        _ => Ok(()),
                    }
                };
                match holding {
                    Some(places) => places.iter().try_for_each(|at| meet(*at as usize))?,
                    None => (0..these).try_for_each(meet)?,
                }
                (of_batch, of_rows) = (&of_batch[these..], &of_rows[these..]);
            }
        }
        Ok(match &self.kind {
            ExtraKind::Exists => truths(found.iter().map(|found| Some(found.is_some()))),
            ExtraKind::In { has_null, is_empty } => {
                let operand = &keys[0].vector;
                truths(found.iter().enumerate().map(|(at, found)| match found {
                    Some(_) => Some(true),
                    None if *is_empty => Some(false),
                    None if *has_null || operand.is_null(at) => None,
                    None => Some(false),
                }))
            }
            ExtraKind::Value { place, of_nothing, sql_type } => {
                let mut vector = Vector::new(kind_of(sql_type));
                let values = self.rows.column(*place);
                for found in found {
                    match (found, values) {
                        (Some(row), Some(values)) => vector.push(values.get(row as usize)),
                        _ => push(&mut vector, of_nothing, sql_type).ok_or(Inexact)?,
                    }
                }
                vector
            }
        })
    }
}

/// Truth values as a column.
fn truths(list: impl Iterator<Item = Option<bool>>) -> Vector {
    let mut vector = Vector { values: Values::Int(Vec::new()), nulls: Vec::new() };
    list.for_each(|truth| match truth {
        Some(truth) => vector.push(ScalarRef::Int(truth.into())),
        None => vector.push_null(),
    });
    vector
}
