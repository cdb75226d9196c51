//! What the branches of an OR have in common comes out of it.
//!
//! # Guarantees
//! A row meets all of the conditions before if and only if it meets all of those after.

use std::collections::BTreeSet;

use sql_expression::{Expression, Node, Pauses, ResultType, SqlError};

use crate::logical::from_table::{FromTable, tables_of};
use crate::logical::predicate::{has_subquery, split};

/// The tables of a block whose conditions are factored.
struct Rule<'a> {
    tables: &'a [FromTable],
    pauses: &'a Pauses,
}

/// Takes what all branches of an OR have in common out of it, and adds what the branches say of
/// each table alone: `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` implies `a.x = 1 OR a.x = 3`.
///
/// # Errors
/// The statement is to end.
pub(super) fn factor(
    tables: &[FromTable],
    conditions: Vec<Expression>,
    pauses: &Pauses,
) -> Result<Vec<Expression>, SqlError> {
    let rule = Rule { tables, pauses };
    let mut prepared = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let steady = !condition.is_volatile() && !has_subquery(&condition);
        match condition.node {
            Node::Or(branches) if steady => {
                rule.factored(branches.into_vec(), &mut prepared)?;
            }
            _ => prepared.push(condition),
        }
    }
    Ok(prepared)
}

impl Rule<'_> {
    fn needs(&self, part: &Expression) -> BTreeSet<usize> {
        tables_of(self.tables, part, self.pauses)
    }

    fn factored(
        &self,
        branches: Vec<Expression>,
        into: &mut Vec<Expression>,
    ) -> Result<(), SqlError> {
        let parts_of = |branch: Expression| {
            let mut parts = Vec::new();
            split(branch, &mut parts);
            parts
        };
        let mut branches: Vec<Vec<Expression>> = branches.into_iter().map(parts_of).collect();
        let first = branches.first().cloned().unwrap_or_default();
        let in_all = |part: &Expression| branches.iter().all(|branch| branch.contains(part));
        let mut common = Vec::new();
        for part in first {
            self.pauses.look()?;
            if in_all(&part) {
                common.push(part);
            }
        }
        for branch in &mut branches {
            self.pauses.look()?;
            branch.retain(|part| !common.contains(part));
        }
        into.extend(common);
        // A branch that says nothing more is met by every row that is left.
        if branches.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let tables: BTreeSet<usize> =
            branches.iter().flatten().flat_map(|part| self.needs(part)).collect();
        if tables.len() > 1 {
            into.extend(tables.iter().filter_map(|table| self.implied(&branches, *table)));
        }
        into.push(any(branches.into_iter().map(all).collect()));
        Ok(())
    }

    /// What the branches of an OR say of one table.
    fn implied(&self, branches: &[Vec<Expression>], table: usize) -> Option<Expression> {
        let alone = BTreeSet::from([table]);
        let mut parts = Vec::with_capacity(branches.len());
        for branch in branches {
            let of_table = branch.iter().filter(|part| self.needs(part) == alone);
            let of_table: Vec<Expression> = of_table.cloned().collect();
            if of_table.is_empty() {
                return None;
            }
            parts.push(all(of_table));
        }
        Some(any(parts))
    }
}

fn all(parts: Vec<Expression>) -> Expression {
    joined(parts, Node::And)
}

fn any(parts: Vec<Expression>) -> Expression {
    joined(parts, Node::Or)
}

fn joined(mut parts: Vec<Expression>, node: fn(Box<[Expression]>) -> Node) -> Expression {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let nullable = parts.iter().any(|part| part.result.nullable);
    Expression { node: node(parts.into()), result: ResultType::truth(nullable) }
}
