//! A small side of a hash join, whose rows are sent to where those of the other side are.
//!
//! # Owns
//! [`GivenStep`], whether the keys of a side allow it; [`GivenSide`], what of it a plan has; and
//! [`Sent`], its rows when an execution begins.
//! # Guarantees
//! A side that turns out larger than plans may bring is known before anything is read of the other.
//! # Not here
//! Which side is small (`chain`); the join (`vector::LookupJoin`).

use std::collections::{BTreeMap, BTreeSet};

use model::ColumnId;
use sql_expression::{Expression, Obstacle, ProgramBuilder, ProgramColumn, kind_of};
use sqltype::SqlType;
use vector::{
    Block, GIVEN_ROWS_MAX, Given, GivenKey, Input, JoinPlan, KeyPart, KeySet, Kind, Lookup,
    Matching, NO_TABLE, Node, NodeNumber, Vector, Yield,
};

use super::child::{RANGES_SINCE, conditions_of_match};
use super::{Stopped, add_column, ready, take_untranslated, too_large};
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::shape::{Shape, Stop};
use crate::execute::columns::{shape_of, width_of};
use crate::execute::pushdown::untranslated;
use crate::execute::run::Run;
use crate::logical::formula::Formula;
use crate::plan::operator::{HashKey, JoinSpec, PlanNode, TableScan};

/// A side of a hash join whose rows are joined to those before.
pub(super) struct GivenStep<'p> {
    /// What gives the rows.
    pub(super) side: &'p PlanNode,
    /// Whether that is the left side of the join.
    pub(super) is_left: bool,
    join: &'p JoinSpec,
    /// The types of what stands at the places of its rows.
    types: BTreeMap<usize, SqlType>,
    keys: Vec<SideKey<'p>>,
}

/// A part of the key: what it is of the rows before, at which place, and of the rows of the side;
/// the number of the collation under which texts are equal.
struct SideKey<'p> {
    before: &'p Expression,
    before_place: usize,
    own_place: usize,
    collation: u16,
}

/// Such a side, as a lookup in the making.
pub(super) struct GivenSide<'c, 'p> {
    step: &'c GivenStep<'p>,
    conditions: Vec<&'p Formula>,
}

/// A side whose rows an execution sends, in one lookup of its plan.
pub(crate) struct Sent<'p> {
    pub(crate) side: &'p PlanNode,
    /// The lookup.
    pub(super) at: usize,
    /// What its columns are: places of the rows of the side, with their types.
    columns: Vec<(usize, SqlType)>,
    /// Of the rows before none stays without a match.
    pub(super) inner: bool,
    /// Key-set filters of the scan: an input of its program, and which of these columns has the
    /// keys.
    pub(crate) key_filters: Vec<(u16, usize)>,
}

impl<'p> GivenStep<'p> {
    /// For a side of a hash join; nothing if equal values of the keys do not lie alike in columns
    /// of both sides, or a data node does not know of rows that are sent.
    pub(super) fn new(
        run: &Run<'_>,
        left: &'p PlanNode,
        right: &'p PlanNode,
        is_left: bool,
        keys: &'p [HashKey],
        join: &'p JoinSpec,
    ) -> Option<Self> {
        if !run.session.kernel.all_know(RANGES_SINCE) {
            return None;
        }
        let (of_left, of_right) = (shape_of(left)?, shape_of(right)?);
        let mut both = vec![None; width_of(left)?];
        for (place, sql_type) in of_left.iter().chain(&of_right) {
            let sql_type = sql_type.clone();
            *both.get_mut(*place)? = Some(ProgramColumn { column: ColumnId(0), sql_type });
        }
        let key = |key: &'p HashKey| {
            let sides = (&key.left.expression, &key.right.expression);
            let collation = collation_of(run, &both, key).filter(|_| !key.null_safe)?;
            let (own, before) = if is_left { sides } else { (sides.1, sides.0) };
            let (own_place, before_place) = (own.as_column()?, before.as_column()?);
            let (own_place, before_place) = (own_place as usize, before_place as usize);
            Some(SideKey { before, before_place, own_place, collation })
        };
        let keys = keys.iter().map(key).collect::<Option<_>>()?;
        let (side, types) = if is_left { (left, of_left) } else { (right, of_right) };
        Some(Self { side, is_left, join, types, keys })
    }
}

/// The number of the collation under which texts of both sides are equal, if equal values lie alike
/// in their columns.
fn collation_of(run: &Run<'_>, both: &Shape, key: &HashKey) -> Option<u16> {
    let mut sides = [0, 1].map(|_| ProgramBuilder::new(both, &run.context));
    let [first, second] = &mut sides;
    let (left, right) = (&key.left.expression, &key.right.expression);
    let collation = first.give_key(second, left, right, key.comparison)?;
    for side in sides {
        let program = side.finish()?;
        let Yield::Rows(nodes) = &program.yields else { return None };
        let is_column = |node: &NodeNumber| {
            let node = program.nodes.get(usize::from(*node));
            matches!(node, Some(Node::Input(_)))
        };
        if !nodes.iter().all(is_column) {
            return None;
        }
    }
    Some(collation.0)
}

impl<'c, 'p> GivenSide<'c, 'p> {
    pub(super) fn of(step: &'c GivenStep<'p>) -> Result<Self, Obstacle> {
        Ok(Self { step, conditions: ready(step.join.conditions.iter())? })
    }

    /// Whether rows before go on only with a match beside them.
    pub(super) fn inner(&self) -> bool {
        !self.step.join.outer
    }

    pub(super) fn add_columns(&self, all: &mut Shape) {
        for (place, sql_type) in &self.step.types {
            let (column, sql_type) = (ColumnId(0), sql_type.clone());
            if let Some(at) = all.get_mut(*place) {
                *at = Some(ProgramColumn { column, sql_type });
            }
        }
    }

    /// The values of the key that rows before have.
    pub(super) fn values(&self) -> impl Iterator<Item = &Expression> {
        self.step.keys.iter().map(|key| key.before)
    }

    /// The conditions of a match.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Formula> + Clone {
        self.conditions.iter().copied()
    }

    /// Those of them that have no translation.
    pub(super) fn across(
        &mut self,
        run: &Run<'_>,
        builder: &mut ProgramBuilder<'_>,
    ) -> Vec<&'p Formula> {
        if self.inner() {
            take_untranslated(&run.context, &mut self.conditions, builder)
        } else {
            untranslated(&run.context, self.conditions.iter().copied(), builder)
        }
    }

    /// The lookup of a plan, still without rows, the `at`-th; its columns are added to those of the
    /// joined row. The scan is that of the rows of the chain.
    pub(super) fn lookup(
        &self,
        run: &Run<'_>,
        at: usize,
        scan: &TableScan,
        all: &Shape,
        needed: &BTreeSet<usize>,
        columns: &mut Shape,
    ) -> Result<(Lookup, Sent<'p>), Obstacle> {
        let GivenStep { side, types, keys, .. } = self.step;
        let unknown = || Obstacle::because("a value of its key is not read");
        // The rows before have their columns, and not yet those of the side.
        let place = |of: &SideKey<'_>| Some(columns.get(of.before_place)?.as_ref()?.column.0);
        let key = keys.iter().map(|of| place(of).map(KeyPart::Place));
        let key: Vec<KeyPart> = key.collect::<Option<_>>().ok_or_else(unknown)?;
        let mut sent: Vec<(usize, SqlType)> = Vec::new();
        for (place, sql_type) in types {
            if needed.contains(place) {
                add_column(columns, *place, all);
                sent.push((*place, sql_type.clone()));
            }
        }
        let input = |(column, (_, sql_type)): (u16, &(usize, SqlType))| Input {
            column: ColumnId(column),
            kind: kind_of(sql_type),
        };
        let read: Vec<Input> = (0..).zip(&sent).map(input).collect();
        let (mut of_rows, mut key_filters) = (Vec::new(), Vec::new());
        for of in keys {
            let known = sent.iter().position(|(place, _)| *place == of.own_place);
            let column = match known {
                Some(column) => column,
                None => {
                    let sql_type = types.get(&of.own_place).ok_or_else(unknown)?;
                    sent.push((of.own_place, sql_type.clone()));
                    sent.len() - 1
                }
            };
            let number = u16::try_from(column).map_err(|_| too_large())?;
            of_rows.push(GivenKey { column: number, collation: of.collation });
            let whole = matches!(kind_of(&sent[column].1), Kind::Int | Kind::UInt);
            let input = scan.wanted.iter().position(|at| scan.offset + at == of.before_place);
            if let Some(input) = input.and_then(|at| u16::try_from(at).ok())
                && whole
                && self.inner()
            {
                key_filters.push((input, column));
            }
        }
        let rows = Block::empty(sent.iter().map(|(_, sql_type)| kind_of(sql_type)));
        let lookup = Lookup {
            table: NO_TABLE,
            version: 0,
            index: None,
            key,
            columns: read,
            conditions: conditions_of_match(run, self.conditions(), columns)?,
            matching: if self.inner() { Matching::Inner } else { Matching::Left },
            range: None,
            given: Some(Given { rows, key: of_rows }),
        };
        Ok((lookup, Sent { side, at, columns: sent, inner: self.inner(), key_filters }))
    }
}

impl Sent<'_> {
    /// The places of its rows that are sent.
    pub(crate) fn places(&self) -> BTreeSet<usize> {
        self.columns.iter().map(|(place, _)| *place).collect()
    }

    /// Puts its rows into a plan, which has room for so many bytes of them; the key sets that are
    /// filters of the scan. Nothing if none of the rows before has a match.
    pub(super) async fn put(
        &self,
        run: &mut Run<'_>,
        plan: &mut JoinPlan,
        bytes_left: &mut usize,
    ) -> Result<Option<Vec<KeySet>>, Stopped> {
        let Some(rows) = self.rows(run, *bytes_left).await? else {
            run.too_large.insert(self.side.id());
            return Err(Stopped::TooMany);
        };
        if rows.rows() == 0 && self.inner {
            return Ok(None);
        }
        *bytes_left = bytes_left.saturating_sub(rows.memory_bytes());
        let set = |(input, column): &(u16, usize)| KeySet::new(*input, &[&rows.columns()[*column]]);
        let sets = self.key_filters.iter().filter_map(set).collect();
        if let Some(given) = &mut plan.lookups[self.at].given {
            given.rows = rows;
        }
        Ok(Some(sets))
    }

    /// The rows; nothing if they are too many, or do not come as was thought.
    async fn rows(&self, run: &mut Run<'_>, bytes_max: usize) -> Result<Option<Block>, Stopped> {
        let Some(mut cursor) = ColumnCursor::new(run, self.side, &self.places()) else {
            return Ok(None);
        };
        let is_as_thought = |(place, sql_type): &(usize, SqlType)| {
            let column = cursor.shape().get(*place).and_then(Option::as_ref);
            column.is_some_and(|column| column.sql_type == *sql_type)
        };
        if !self.columns.iter().all(is_as_thought) {
            return Ok(None);
        }
        let vectors = self.columns.iter().map(|(_, sql_type)| Vector::new(kind_of(sql_type)));
        let mut vectors: Vec<Vector> = vectors.collect();
        let mut count = 0;
        loop {
            let batch = match cursor.next(run).await {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(Some(Block::new(count, vectors))),
                Err(Stop::Unsuitable) => return Ok(None),
                Err(Stop::Failed(error)) => return Err(Stopped::Failed(error)),
            };
            count += batch.rows();
            if count > GIVEN_ROWS_MAX {
                return Ok(None);
            }
            for (vector, (place, _)) in vectors.iter_mut().zip(&self.columns) {
                let Some(column) = batch.column(*place) else { return Ok(None) };
                vector.append(column);
            }
            if vectors.iter().map(Vector::memory_bytes).sum::<usize>() > bytes_max {
                return Ok(None);
            }
        }
    }
}
