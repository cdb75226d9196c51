//! ONLY_FULL_GROUP_BY: which columns an expression of a grouped query may use.
//!
//! # Guarantees
//! An expression that is let through has the same value for every row of a group.
//! # Limits
//! Functional dependence through equalities of WHERE and of joins is not seen: such a query is
//! refused though MySQL would take it.

use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::scope::Clause;

/// Tells whether the column at this place of the row depends on the GROUP BY columns, by a primary
/// or unique key for example.
pub type FunctionalDependence<'a> = dyn Fn(u32) -> bool + 'a;

/// Checks the `position`th expression (from 1) of the select list or ORDER BY of a query that has
/// aggregates or GROUP BY: errors 1055 and 1140.
pub fn check_full_group_by(
    expression: &Expression,
    position: usize,
    clause: Clause,
    group_by: &[Expression],
    depends: &FunctionalDependence<'_>,
) -> Result<(), SqlError> {
    let Some(column) = offender(expression, group_by, depends) else { return Ok(()) };
    if clause == Clause::Having {
        return Err(SqlError::of::<1463>(&[&column, &"HAVING"]));
    }
    let list = if clause == Clause::OrderBy { "ORDER BY clause" } else { "SELECT list" };
    let of = if group_by.is_empty() { SqlError::of::<1140> } else { SqlError::of::<1055> };
    Err(of(&[&position, &list, &column]))
}

/// The first column that may differ within a group.
fn offender(
    expression: &Expression,
    group_by: &[Expression],
    depends: &FunctionalDependence<'_>,
) -> Option<String> {
    if group_by.contains(expression) {
        return None;
    }
    match &expression.node {
        Node::Aggregate(_) => None,
        Node::Column { index, .. } if depends(*index) => None,
        Node::Column { name, .. } => Some(name.qualified()),
        Node::Call(call) if call.function.name == "any_value" => None,
        _ => {
            let mut found = None;
            expression.for_each_part(&mut |part| {
                if found.is_none() {
                    found = offender(part, group_by, depends);
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
            let result = check_full_group_by(expression, 2, Clause::FieldList, group, &|_| depends);
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
