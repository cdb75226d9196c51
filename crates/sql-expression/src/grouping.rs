//! ONLY_FULL_GROUP_BY: which columns an expression of a grouped query may use.
//!
//! # Guarantees
//! An expression that is let through has the same value for every row of a group.
//! # Limits
//! Functional dependence through equalities of WHERE and of joins is not seen: such a query is
//! refused though MySQL would take it.
//! # Not here
//! The plans of subqueries, and which columns of the block they use.

use crate::error::SqlError;
use crate::expression::{Expression, Node, SubqueryId};
use crate::scope::Clause;

/// What the expressions of a grouped query are checked against.
pub struct Grouping<'a> {
    /// GROUP BY; empty when all rows are one group.
    pub group_by: &'a [Expression],
    /// Whether the column at this place of the row depends on the GROUP BY columns, by a primary or
    /// unique key for example.
    pub depends: &'a dyn Fn(u32) -> bool,
    /// A column of the query that a subquery of it uses and that may differ within a group.
    pub inside: &'a dyn Fn(SubqueryId) -> Option<String>,
}

/// Checks the `position`th expression (from 1) of the select list or ORDER BY of a query that has
/// aggregates or GROUP BY: errors 1055 and 1140.
pub fn check_full_group_by(
    expression: &Expression,
    position: usize,
    clause: Clause,
    grouping: &Grouping<'_>,
) -> Result<(), SqlError> {
    let Some(column) = offender(expression, grouping) else { return Ok(()) };
    if clause == Clause::Having {
        return Err(SqlError::of::<1463>(&[&column, &"HAVING"]));
    }
    let list = if clause == Clause::OrderBy { "ORDER BY clause" } else { "SELECT list" };
    let of = if grouping.group_by.is_empty() { SqlError::of::<1140> } else { SqlError::of::<1055> };
    Err(of(&[&position, &list, &column]))
}

/// The first column that may differ within a group.
fn offender(expression: &Expression, grouping: &Grouping<'_>) -> Option<String> {
    if grouping.group_by.contains(expression) {
        return None;
    }
    match &expression.node {
        Node::Aggregate(_) => None,
        Node::Column { index, .. } if (grouping.depends)(*index) => None,
        Node::Column { name, .. } => Some(name.qualified()),
        Node::Call(call) if call.function.name == "any_value" => None,
        node => {
            let mut found = match node {
                Node::Subquery(subquery) => (grouping.inside)(subquery.id),
                _ => None,
            };
            expression.for_each_part(&mut |part| {
                if found.is_none() {
                    found = offender(part, grouping);
                }
            });
            found
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sqltype::SqlType;

    use super::*;
    use crate::expression::ColumnName;
    use crate::result_type::ResultType;

    fn column(index: u32, name: &str) -> Expression {
        let name = ColumnName { schema: "d".into(), table: "t".into(), column: name.into() };
        let result = ResultType::column(SqlType::big_int(), true);
        Expression::column(index, Arc::new(name), result)
    }

    #[test]
    fn columns_must_be_grouped_or_depend_on_what_is() {
        let group = [column(0, "a")];
        let check = |expression: &Expression, group: &[Expression], depends: bool| {
            let grouping = Grouping { group_by: group, depends: &|_| depends, inside: &|_| None };
            let result = check_full_group_by(expression, 2, Clause::FieldList, &grouping);
            result.err().map(|error| (error.code(), error.message().to_owned()))
        };
        assert_eq!(check(&column(0, "a"), &group, false), None);
        assert_eq!(check(&column(1, "b"), &group, true), None);
        let (code, text) = check(&column(1, "b"), &group, false).unwrap();
        assert_eq!(code, 1055);
        assert!(text.starts_with(
            "Expression #2 of SELECT list is not in GROUP BY clause and contains nonaggregated \
             column 'd.t.b'"
        ));
        let (code, text) = check(&column(1, "b"), &[], false).unwrap();
        assert_eq!(code, 1140);
        assert!(text.contains("expression #2 of SELECT list contains nonaggregated"), "{text}");
    }
}
