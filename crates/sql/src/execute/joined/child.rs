//! A table whose rows data nodes look up, as a lookup of their plan.

use std::borrow::Cow;
use std::collections::BTreeSet;

use model::{ColumnId, ColumnType, IndexId, Table};
use sql_expression::{EvalContext, Expression, Node, Obstacle, ProgramBuilder, kind_of};
use sqltype::SqlType;
use vector::{Input, KeyPart, Lookup, Matching, Program, Range};

use super::chain::{Step, TableStep, found_by};
use super::{
    LookedUp, add_column, because, check_table, places_in, ready, take_untranslated, too_large,
};
use crate::catalog::key_value::{KeyValue, key_value};
use crate::execute::columns::shape::Shape;
use crate::execute::pushdown::{self, untranslated};
use crate::execute::run::{Run, with_parameters};
use crate::logical::formula::Formula;
use crate::plan::operator::TableScan;
use crate::plan::operator_id::OperatorId;

/// The protocol version that brought lookups of many rows, and rows that come with a plan.
pub(super) const RANGES_SINCE: u16 = 13;

/// A table whose rows are looked up. The columns of a subquery's table stand behind those of all
/// that came before.
pub(super) struct Child<'c, 'p> {
    pub(super) scan: &'c TableScan,
    /// How much further behind its columns stand than the scan says, and by how much the row grows.
    shift: usize,
    pub(super) more: usize,
    index: Option<IndexId>,
    begins: bool,
    key: Vec<ColumnId>,
    pub(super) values: Vec<Cow<'c, Expression>>,
    matching: Matching,
    /// It is only asked whether there are rows.
    is_asked: bool,
    /// What must be true of a match, beside what is checked where its rows are: conditions of FROM
    /// as they are; keys of a hash join, and conditions of a subquery with places of the joined
    /// row.
    of_from: Vec<&'p Formula>,
    made: Vec<Formula>,
    /// What is made of its rows where they are, if there may be many of a key; how many of the
    /// conditions of its scan it has.
    own: Option<Vec<Cow<'c, Formula>>>,
}

impl<'c, 'p: 'c> Child<'c, 'p> {
    /// What is looked up in a step for rows that are so wide.
    pub(super) fn of(run: &Run<'_>, step: &'c Step<'p>, width: usize) -> Result<Self, Obstacle> {
        let not_found = Obstacle::because("its rows are not found by one key");
        let (scan, matching, is_asked, found) = match step {
            Step::Table(step) => {
                let matching = if step.join.outer { Matching::Left } else { Matching::Inner };
                (step.scan, matching, false, step.found.clone())
            }
            Step::Asked(asked) => {
                let scan = asked.scan().ok_or(not_found.clone())?;
                (scan, asked.matching, true, found_by(scan))
            }
            Step::Given(_) => return Err(not_found),
        };
        check_table(run, scan)?;
        let found = found.ok_or(not_found)?;
        if found.begins && !run.session.kernel.all_know(RANGES_SINCE) {
            return because("a data node is of an older version");
        }
        let of_table = pushdown::columns(scan);
        let mut builder = ProgramBuilder::new(&of_table, &run.context);
        let (shift, more) = if is_asked { (width, scan.width) } else { (0, 0) };
        let (mut of_from, mut made, mut conditions) =
            (Vec::new(), Vec::new(), scan.conditions.iter().collect::<Vec<&Formula>>());
        let of_scan = found.begins.then(|| {
            let mut own = Vec::new();
            conditions.retain(|condition| {
                let alone = if is_asked {
                    if uses_row_around(&condition.expression) {
                        // The row around the subquery is none of those around the block.
                        return true;
                    } else {
                        Cow::Owned(Formula::new(moved(&condition.expression, 0)))
                    }
                } else {
                    Cow::Borrowed(*condition)
                };
                let left = untranslated(&run.context, [&*alone].into_iter(), &mut builder);
                if left.is_empty() {
                    own.push(alone);
                    return false;
                }
                true
            });
            own
        });
        match step {
            Step::Table(TableStep { scan, join, equal, .. }) => {
                let left = |c: &&'p Formula| conditions.iter().any(|l| l.is(c));
                of_from.extend(scan.conditions.iter().filter(left));
                of_from.extend(&join.conditions);
                ready(of_from.iter().copied())?;
                made.extend(equal.iter().cloned());
            }
            Step::Asked(_) | Step::Given(_) => {
                let moved = |c: &&Formula| Formula::new(moved(&c.expression, shift));
                made = conditions.iter().map(moved).collect();
            }
        }
        Ok(Self {
            scan,
            shift,
            more,
            index: found.index,
            begins: found.begins,
            key: found.columns,
            values: over_joined_row(found.values, is_asked.then_some(shift)),
            matching,
            is_asked,
            of_from,
            made,
            own: of_scan,
        })
    }

    /// Whether rows go on only with a match beside them.
    pub(super) fn inner(&self) -> bool {
        self.matching == Matching::Inner && !self.is_asked
    }

    /// Where a column of the table stands in the joined row.
    fn place(&self, at: usize) -> usize {
        self.shift + self.scan.offset + at
    }

    pub(super) fn add_columns(&self, all: &mut Shape) {
        all.resize(all.len() + self.more, None);
        for (place, column) in pushdown::columns(self.scan).into_iter().enumerate() {
            if column.is_some() {
                all[self.shift + place] = column;
            }
        }
    }

    /// The conditions of a match that are not checked where its rows are.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Formula> + Clone {
        self.of_from.iter().copied().chain(&self.made)
    }

    /// Those of them that have no translation; a subquery's count only as there being some.
    pub(super) fn across(
        &mut self,
        context: &EvalContext,
        builder: &mut ProgramBuilder<'_>,
    ) -> Vec<&'p Formula> {
        if self.inner() {
            take_untranslated(context, &mut self.of_from, builder)
        } else {
            untranslated(context, self.of_from.iter().copied(), builder)
        }
    }

    /// The lookup of a plan, whose columns are added to those of the joined row.
    pub(super) fn lookup(
        &self,
        run: &Run<'_>,
        all: &Shape,
        needed: &BTreeSet<usize>,
        columns: &mut Shape,
    ) -> Result<Lookup, Obstacle> {
        let table = &self.scan.definition.table;
        let mut key = Vec::with_capacity(self.values.len());
        for (value, column) in self.values.iter().zip(&self.key) {
            let of_column = self.scan.definition.columns.iter().find(|of| of.column == *column);
            let part = of_column.and_then(|of| key_part(run, value, &of.sql_type, columns));
            match part {
                Some(KeyPart::Place(_)) if self.begins && is_float(table, *column) => break,
                Some(part) => key.push(part),
                // The rest is among the conditions.
                None if self.begins && !key.is_empty() => break,
                None => return because("a value of its key is of another type"),
            }
        }
        if key.is_empty() {
            return because("a value of its key is of another type");
        }
        let mut read = Vec::new();
        for at in &self.scan.wanted {
            let (place, column) = (self.place(*at), &self.scan.definition.columns[*at]);
            if needed.contains(&place) {
                read.push(Input { column: column.column, kind: kind_of(&column.sql_type) });
                add_column(columns, place, all);
            }
        }
        let conditions = conditions_of_match(run, self.conditions(), columns)?;
        let range = self.own.as_ref().map(|own| self.range(run, own, &key, &read));
        let (table, version) = (table.id, table.version);
        Ok(Lookup {
            table,
            version,
            index: self.index,
            key,
            columns: read,
            conditions,
            matching: self.matching,
            range: range.transpose()?,
            given: None,
        })
    }

    /// What its rows are found by, if it is a table of FROM.
    pub(super) fn looked_up(&self, lookup: &Lookup) -> Option<(OperatorId, LookedUp)> {
        let values = self.values.iter().take(lookup.key.len()).map(|v| Expression::clone(v));
        let (index, begins) = (self.index, self.begins);
        let by = LookedUp { index, begins, values: values.collect() };
        (!self.is_asked).then_some((self.scan.id(), by))
    }

    /// How many rows with a key are read.
    fn range(
        &self,
        run: &Run<'_>,
        own: &[Cow<'_, Formula>],
        key: &[KeyPart],
        read: &[Input],
    ) -> Result<Range, Obstacle> {
        let scan = self.scan;
        let place_of = |column: ColumnId| {
            let is = |at: &&usize| scan.definition.columns[**at].column == column;
            let at = scan.wanted.iter().find(is);
            at.map(|at| scan.offset + at)
                .ok_or(Obstacle::because("a column of its key is not read"))
        };
        let of_key = key.iter().zip(&self.key);
        let of_key = of_key.filter(|(part, _)| matches!(part, KeyPart::Place(_)));
        let of_key: Vec<ColumnId> = of_key.map(|(_, column)| *column).collect();
        let mut given: Vec<ColumnId> = read.iter().map(|input| input.column).collect();
        given.extend(of_key.iter().filter(|column| !read.iter().any(|r| r.column == **column)));
        // What is neither given nor checked is not read.
        let mut used = places_in(own.iter().map(|condition| &condition.expression))?;
        for column in &given {
            used.insert(place_of(*column)?);
        }
        let mut columns = pushdown::columns(scan);
        let unused = columns.iter_mut().enumerate().filter(|(place, _)| !used.contains(place));
        unused.for_each(|(_, column)| *column = None);
        let mut builder = ProgramBuilder::new(&columns, &run.context);
        if !untranslated(&run.context, own.iter().map(AsRef::as_ref), &mut builder).is_empty() {
            return because("a condition has no translation");
        }
        for column in &given {
            builder.give_column(place_of(*column)?).ok_or_else(too_large)?;
        }
        let key = of_key.iter().filter_map(|column| {
            let at = given.iter().position(|given| given == column)?;
            u16::try_from(at).ok()
        });
        let key = key.collect();
        Ok(Range { program: builder.finish().ok_or_else(too_large)?, key, any: self.is_asked })
    }
}

/// The program that checks conditions of a match, over the columns of the joined row.
pub(super) fn conditions_of_match<'f>(
    run: &Run<'_>,
    conditions: impl Iterator<Item = &'f Formula> + Clone,
    columns: &Shape,
) -> Result<Program, Obstacle> {
    // Only what is compared has to be put together for a pair.
    let used = places_in(conditions.clone().map(|condition| &condition.expression))?;
    let mut compared = columns.clone();
    let unused = compared.iter_mut().enumerate().filter(|(place, _)| !used.contains(place));
    unused.for_each(|(_, column)| *column = None);
    let mut builder = ProgramBuilder::new(&compared, &run.context);
    if untranslated(&run.context, conditions, &mut builder).is_empty() {
        builder.finish().ok_or_else(too_large)
    } else {
        because("a condition has no translation")
    }
}

/// Whether equal values of a column may have several keys: two zeros.
pub(super) fn is_float(table: &Table, column: ColumnId) -> bool {
    table.columns[usize::from(column.0)].column_type == ColumnType::Float
}

/// Values of a key over the joined row; of a subquery's those of its own row stand so much further
/// behind.
fn over_joined_row(values: Vec<&Expression>, moved_by: Option<usize>) -> Vec<Cow<'_, Expression>> {
    let of_row = |value| match moved_by {
        Some(shift) => Cow::Owned(moved(value, shift)),
        None => Cow::Borrowed(value),
    };
    values.into_iter().map(of_row).collect()
}

/// Whether an expression of a subquery uses the row around it.
fn uses_row_around(expression: &Expression) -> bool {
    expression.any(&mut |part| matches!(part.node, Node::Outer { depth: 1, .. }))
}

/// An expression of a subquery over the joined row, in which the subquery's columns stand so much
/// further behind.
pub(super) fn moved(expression: &Expression, shift: usize) -> Expression {
    let mut moved = expression.clone();
    moved.visit_mut(&mut |part| match &mut part.node {
        Node::Column { index, .. } => *index += shift as u32,
        Node::Outer { depth: 1, index, name } => {
            part.node = Node::Column { index: *index, name: name.clone() };
        }
        Node::Outer { depth, .. } => *depth -= 1,
        _ => {}
    });
    moved
}

/// A value of a key, if it can be compared as it is stored.
fn key_part(
    run: &Run<'_>,
    value: &Expression,
    column: &SqlType,
    columns: &Shape,
) -> Option<KeyPart> {
    let value = with_parameters(&run.context, value);
    if let Some(place) = value.as_column() {
        let from = columns.get(place as usize)?.as_ref()?;
        return is_same_key(&from.sql_type, column).then_some(KeyPart::Place(from.column.0));
    }
    match key_value(value.as_constant()?, value.sql_type(), column) {
        KeyValue::Exact(value) => Some(KeyPart::Constant(value)),
        KeyValue::NoMatch | KeyValue::Unusable => None,
    }
}

/// Whether equal values of two types are stored alike. What one of them cannot store has no equal.
pub(super) fn is_same_key(from: &SqlType, to: &SqlType) -> bool {
    if from.kind.is_integer() && to.kind.is_integer() {
        return from.unsigned == to.unsigned;
    }
    if from.kind.is_text() && to.kind.is_text() {
        // A longer text may be equal but for spaces.
        return from.collation == to.collation && from.length <= to.length;
    }
    from == to
}
