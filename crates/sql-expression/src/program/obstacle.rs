//! Why something has no translation into a program, in words for users.

use std::fmt::{self, Display};

use crate::expression::{ColumnName, Constancy, Expression, Node};

/// Why data nodes do not compute something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The smallest part that has no translation, as text; nothing if the reason is another one.
    pub part: Option<String>,
    /// The reason, half a sentence.
    pub why: &'static str,
}

impl Obstacle {
    /// A reason that has nothing to do with expressions.
    pub fn because(why: &'static str) -> Self {
        Self { part: None, why }
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "{part}: {}", self.why),
            None => f.write_str(self.why),
        }
    }
}

/// An expression as text, columns without their database.
pub fn short_text(expression: &Expression) -> String {
    let mut shown = expression.clone();
    shown.visit_mut(&mut |part| {
        if let Node::Column { name, .. } | Node::Outer { name, .. } = &mut part.node {
            let own = ColumnName { schema: Box::default(), ..(**name).clone() };
            *name = own.into();
        }
    });
    shown.to_string()
}

/// Why an expression whose parts have a translation has none.
pub(super) fn why_not(expression: &Expression) -> &'static str {
    let needs = expression.needs();
    match &expression.node {
        _ if needs.subqueries || needs.correlated_subqueries => "it waits for a subquery",
        _ if needs.deferred => "it waits for something",
        _ if expression.constancy() < Constancy::Row => {
            "data nodes do not know values of this type"
        }
        Node::Column { .. } => "it is not a column of this table",
        Node::Call(_) => "data nodes do not have this function",
        Node::Cast(_) => "data nodes do not convert values",
        Node::Compare(_) | Node::Between(_) | Node::InList(_) | Node::Like(_) => {
            "data nodes do not compare these types so"
        }
        Node::Arithmetic(_) | Node::Negate(_) => "data nodes do not compute this",
        Node::Case(_) => "its branches are of different types",
        Node::UserVariable(_) | Node::Assign { .. } => "user variables are the session's",
        _ => "data nodes do not evaluate this",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_part_if_there_is_one() {
        let part = Obstacle { part: Some("substring(`t`.`a`,1)".into()), why: "not there" };
        assert_eq!(part.to_string(), "substring(`t`.`a`,1): not there");
        assert_eq!(Obstacle::because("too large").to_string(), "too large");
    }
}
