//! Conditions on queries in FROM that are checked inside these.
//!
//! `SELECT … FROM (SELECT a, SUM(b) FROM t GROUP BY a) d WHERE a = 7` needs one group. With the
//! condition inside, its rows are found by an index, and no other group is made. (MySQL 8.4
//! Reference Manual, 10.2.2.5, "Derived Condition Pushdown Optimization".)
//!
//! # Owns
//! Which conditions go into which queries, through groups, windows, DISTINCT and set operations.
//! # Guarantees
//! The block has the same rows: of rows that the query makes one of, takes together or counts one
//! after the other, the condition holds for all or for none.
//! # Not here
//! Queries that become parts of the block (`merge_derived`): they have no conditions of their own
//! left.

use std::ops::Range;
use std::rc::Rc;

use collation::CollationId;
use sql_expression::{
    BinaryOp, Compare, Comparison, Constancy, Expression, Node, ResultType, SqlError,
};
use sqltype::TypeKind;

use crate::logical::bound::{self, Block, BoundQuery, Numbers, Relation, Shape};
use crate::logical::formula::SetKind;
use crate::logical::from_table::{self, FromTable, JoinTree, Source, is_optional};
use crate::logical::predicate::{self, equality};

/// Takes conditions out of a block and puts them into the queries in FROM that they are about.
/// Those that use columns of enclosing blocks stay, because a block without them may be run for all
/// rows of these at once.
///
/// # Errors
/// None but internal ones.
pub(super) fn push(
    tables: &mut [FromTable],
    tree: &mut JoinTree,
    conditions: &mut Vec<Expression>,
    numbers: &mut Numbers,
) -> Result<(), SqlError> {
    Pushing { outer: false, numbers }.push(tables, tree, conditions)
}

/// The same with those that use columns of enclosing blocks.
///
/// # Errors
/// None but internal ones.
pub(crate) fn push_all(
    tables: &mut [FromTable],
    tree: &mut JoinTree,
    conditions: &mut Vec<Expression>,
    numbers: &mut Numbers,
) -> Result<(), SqlError> {
    Pushing { outer: true, numbers }.push(tables, tree, conditions)
}

/// Conditions on their way into queries in FROM.
struct Pushing<'n> {
    /// Those with columns of enclosing blocks, too.
    outer: bool,
    /// For uses of queries that are no longer what other uses are.
    numbers: &'n mut Numbers,
}

impl Pushing<'_> {
    fn push(
        &mut self,
        tables: &mut [FromTable],
        tree: &mut JoinTree,
        conditions: &mut Vec<Expression>,
    ) -> Result<(), SqlError> {
        if !tables.iter().any(|table| matches!(table.source, Source::Derived(_))) {
            return Ok(());
        }
        let mut facts = conditions.clone();
        add_facts(tree, &mut facts);
        for (at, table) in tables.iter_mut().enumerate() {
            if !is_optional(tree, at) {
                self.push_implied(table, &facts)?;
            }
        }
        self.push_list(tables, tree, conditions)?;
        self.push_joins(tables, tree)
    }

    /// Pushes the conditions of joins.
    fn push_joins(
        &mut self,
        tables: &mut [FromTable],
        tree: &mut JoinTree,
    ) -> Result<(), SqlError> {
        match tree {
            JoinTree::Table(_) => Ok(()),
            JoinTree::Inner { parts, conditions } => {
                for part in parts {
                    self.push_list(tables, part, conditions)?;
                    self.push_joins(tables, part)?;
                }
                Ok(())
            }
            JoinTree::Left { left, right, conditions } => {
                self.push_list(tables, right, conditions)?;
                self.push_joins(tables, left)?;
                self.push_joins(tables, right)
            }
        }
    }

    /// Pushes conditions that rows of a tree have to meet.
    fn push_list(
        &mut self,
        tables: &mut [FromTable],
        tree: &JoinTree,
        conditions: &mut Vec<Expression>,
    ) -> Result<(), SqlError> {
        for (at, table) in tables.iter_mut().enumerate() {
            if tree.has(at) && !is_optional(tree, at) {
                self.push_into(table, conditions)?;
            }
        }
        Ok(())
    }

    /// Moves what it can of the conditions into the query.
    fn push_into(
        &mut self,
        table: &mut FromTable,
        conditions: &mut Vec<Expression>,
    ) -> Result<(), SqlError> {
        let Some(query) = alone(table) else { return Ok(()) };
        let (places, outer) = (table.places(), self.outer && table.out == 0);
        let mut inside = Vec::new();
        conditions.retain(|condition| {
            let moved = of_table(condition, &places, outer);
            let moved = moved.filter(|moved| query.relation.takes(moved));
            let stays = moved.is_none();
            inside.extend(moved);
            stays
        });
        self.put(table, &inside)
    }

    /// Adds to the query what follows from conditions for its rows.
    fn push_implied(
        &mut self,
        table: &mut FromTable,
        facts: &[Expression],
    ) -> Result<(), SqlError> {
        let Some(query) = alone(table) else { return Ok(()) };
        let mut inside = implied(facts, &table.places(), self.outer && table.out == 0);
        inside.retain(|condition| query.relation.takes(condition));
        self.put(table, &inside)
    }

    /// Has the query check conditions over its columns.
    fn put(&mut self, table: &mut FromTable, conditions: &[Expression]) -> Result<(), SqlError> {
        let Source::Derived(query) = &mut table.source else { return Ok(()) };
        if conditions.is_empty() {
            return Ok(());
        }
        let query = Rc::make_mut(query);
        query.number = Some(self.numbers.next());
        query.correlated |= conditions.iter().any(predicate::uses_outer);
        query.relation.add(conditions, self.numbers)
    }
}

/// Adds the conditions of joins that all rows meet.
fn add_facts(tree: &JoinTree, facts: &mut Vec<Expression>) {
    match tree {
        JoinTree::Table(_) => {}
        JoinTree::Inner { parts, conditions } => {
            facts.extend_from_slice(conditions);
            parts.iter().for_each(|part| add_facts(part, facts));
        }
        JoinTree::Left { left, .. } => add_facts(left, facts),
    }
}

/// The query in FROM that a table is, if it stands for itself.
fn alone(table: &FromTable) -> Option<&BoundQuery> {
    let Source::Derived(query) = &table.source else { return None };
    let stands_alone = table.lateral.is_none() && !query.correlated && !query.counts_found_rows();
    Some(&**query).filter(|_| stands_alone && !query.is_apart)
}

/// A condition that is of one table alone, or with `outer` of that and enclosing blocks, over the
/// columns of this table, and may be checked whenever one likes.
fn of_table(condition: &Expression, places: &Range<usize>, outer: bool) -> Option<Expression> {
    let is_strange = |part: &Expression| match &part.node {
        Node::Column { index, .. } => !places.contains(&(*index as usize)),
        Node::Outer { .. } => !outer,
        Node::Subquery(_) => true,
        _ => false,
    };
    let of_row = condition.any(&mut |part| part.as_column().is_some());
    if !of_row || condition.is_volatile() || condition.any(&mut |part| is_strange(part)) {
        return None;
    }
    let mut moved = condition.clone();
    moved.map_columns(&mut |place| place - places.start as u32);
    Some(moved)
}

/// What follows for a table from conditions of which one says that a column of another table is
/// equal to one of this one, and one that it is equal to a constant.
fn implied(conditions: &[Expression], places: &Range<usize>, outer: bool) -> Vec<Expression> {
    let equal = |condition: &'_ Expression| match &condition.node {
        Node::Compare(compare) if compare.op == BinaryOp::Equal => {
            Some((compare.left.clone(), compare.right.clone(), compare.comparison))
        }
        _ => None,
    };
    let both_ways = || {
        let equalities = conditions.iter().filter_map(equal);
        equalities
            .flat_map(|(left, right, by)| [(left.clone(), right.clone(), by), (right, left, by)])
    };
    let mut implied = Vec::new();
    for (own, other, by) in both_ways() {
        let is_own = own.as_column().is_some_and(|place| places.contains(&(place as usize)));
        if !is_own || other.as_column().is_none() {
            continue;
        }
        let same = |(of, _, with): &(Expression, Expression, Comparison)| {
            of.as_column() == other.as_column() && *with == by
        };
        let values = both_ways().filter(same).map(|(_, value, _)| value);
        for value in values.filter(|value| value.constancy() < Constancy::Row) {
            implied.extend(of_table(&equality(own.clone(), value, by), places, outer));
        }
    }
    implied
}

impl Relation {
    /// Whether a condition over the columns of the relation holds for its rows if and only if it
    /// holds for those that they are made of.
    fn takes(&self, condition: &Expression) -> bool {
        match self {
            Self::Block(block) => block.takes(condition),
            Self::Set(set) => {
                let all = set.kinds.iter().all(|kind| *kind == SetKind::UnionAll);
                (all || sees_no_difference(condition, &set.results))
                    && set.parts.iter().all(|(part, _)| part.takes(condition))
            }
            Self::Ordered { .. }
            | Self::Values(_)
            | Self::JsonTable(_)
            | Self::Recursive(_)
            | Self::WorkTable { .. } => false,
        }
    }

    /// Adds conditions over the columns, all of which it takes.
    fn add(&mut self, conditions: &[Expression], numbers: &mut Numbers) -> Result<(), SqlError> {
        match self {
            Self::Block(block) => {
                block.add(conditions);
                let Block { tables, tree: Some(tree), bound, .. } = &mut **block else {
                    return Ok(());
                };
                push(tables, tree, &mut bound.conditions, numbers)
            }
            Self::Set(set) => {
                set.parts.iter_mut().try_for_each(|(part, _)| part.add(conditions, numbers))
            }
            Self::Ordered { .. }
            | Self::Values(_)
            | Self::JsonTable(_)
            | Self::Recursive(_)
            | Self::WorkTable { .. } => Err(SqlError::internal("a condition that nobody takes")),
        }
    }
}

impl Block {
    fn add(&mut self, conditions: &[Expression]) {
        for condition in conditions {
            let mut condition = condition.clone();
            condition.visit_mut(&mut |part| {
                if let Some(place) = part.as_column() {
                    *part = self.bound.outputs[place as usize].expression.clone();
                }
            });
            self.correlated |= predicate::uses_outer(&condition);
            // What follows from others may have been added before.
            if !self.bound.conditions.contains(&condition) {
                self.bound.conditions.push(condition);
            }
        }
    }

    /// Whether a condition over the columns of the block holds for its rows if and only if it holds
    /// for those that they are made of.
    pub(crate) fn takes(&self, condition: &Expression) -> bool {
        let Self { tables, tree: Some(tree), bound, shape, .. } = self else { return false };
        let Shape { grouped, distinct, rollup, counts } = *shape;
        let mut is_steady = from_table::is_steady_tree(tree);
        bound::for_each_expression(bound, &mut |part| is_steady &= !part.is_volatile());
        let locks = tables.iter().any(|table| table.lock.is_some());
        let whole = grouped && bound.group_by.is_empty();
        if !is_steady || locks || whole || rollup || counts || bound.bounds.is_some() {
            return false;
        }
        let mut may = true;
        condition.for_each_column(&mut |place| {
            let of = &bound.outputs[place as usize].expression;
            let grouped_by = |by: &[Expression]| by.contains(of) || of.as_constant().is_some();
            may &= is_as_it_is_read(of)
                && (!grouped || grouped_by(&bound.group_by))
                && bound.windows.iter().all(|call| grouped_by(&call.window.partition_by));
        });
        let results: Vec<ResultType> =
            bound.outputs.iter().map(|output| output.expression.result.clone()).collect();
        let joins_rows = grouped || distinct || !bound.windows.is_empty();
        may && (!joins_rows || sees_no_difference(condition, &results))
    }
}

/// Whether a value that the query computes is the same for who reads its rows: digits beyond its
/// type are cut off then.
fn is_as_it_is_read(output: &Expression) -> bool {
    let is_strange = |part: &Expression| {
        matches!(part.node, Node::Subquery(_) | Node::Aggregate(_) | Node::Window(_))
    };
    let kind = &output.sql_type().kind;
    let is_cut =
        kind.is_temporal() || matches!(kind, TypeKind::Decimal | TypeKind::Float | TypeKind::Json);
    let is_stored = output.as_column().is_some() || output.as_constant().is_some();
    (is_stored || !is_cut) && !output.any(&mut |part| is_strange(part))
}

/// Whether a condition holds for all or for none of the rows that are equal in these columns: of
/// equal texts one may be longer or in capitals, of zeros one below zero.
fn sees_no_difference(condition: &Expression, columns: &[ResultType]) -> bool {
    let compared_as = |part: &Expression| {
        let at = part.as_column()? as usize;
        compared_as(&columns[at])
    };
    let respects = |operand: &Expression, by: &[Comparison]| {
        let own = compared_as(operand);
        own.is_some() && by.iter().all(|by| Some(*by) == own)
    };
    let rest = |part: &Expression| sees_no_difference(part, columns);
    match &condition.node {
        Node::Column { index, .. } => is_one_value(&columns[*index as usize]),
        Node::IsNull(operand) => operand.as_column().is_some() || rest(operand),
        Node::Compare(compare) => {
            let Compare { left, right, comparison, .. } = &**compare;
            [left, right].into_iter().all(|side| respects(side, &[*comparison]) || rest(side))
        }
        Node::InList(list) => {
            let by: Vec<Comparison> = list.list.iter().map(|(_, by)| *by).collect();
            (respects(&list.operand, &by) || rest(&list.operand))
                && list.list.iter().all(|(element, _)| rest(element))
        }
        Node::Between(between) => {
            (respects(&between.operand, &between.comparisons) || rest(&between.operand))
                && rest(&between.low)
                && rest(&between.high)
        }
        _ => {
            let mut all = true;
            condition.for_each_part(&mut |part| all = all && rest(part));
            all
        }
    }
}

/// As what values of a type are compared when rows are found equal; none if that is not one
/// [`Comparison`].
fn compared_as(of: &ResultType) -> Option<Comparison> {
    let kind = &of.sql_type.kind;
    match kind {
        TypeKind::Float | TypeKind::Double => Some(Comparison::Double),
        TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json => None,
        _ if kind.is_string() => Some(Comparison::Text(of.sql_type.collation)),
        _ => None,
    }
}

/// Whether equal values of a type are the same in every respect.
fn is_one_value(of: &ResultType) -> bool {
    const BYTES: [CollationId; 2] = [CollationId::BINARY, CollationId::UTF8MB4_0900_BIN];
    let kind = &of.sql_type.kind;
    match kind {
        TypeKind::Float | TypeKind::Double | TypeKind::Json => false,
        TypeKind::Enum(_) | TypeKind::Set(_) => true,
        _ => !kind.is_string() || BYTES.contains(&of.sql_type.collation),
    }
}
