//! What is known of values while a statement is planned.
//!
//! # Owns
//! [`Known`], of a table of FROM; [`Constants`], of expressions without columns.
//! # Not here
//! What follows for the number of rows (`plan::selectivity`).

use std::cell::RefCell;
use std::rc::Rc;

use sql_expression::{EvalContext, Expression, Node, Volatility};
use sqltype::Datum;

use crate::statistics::values::KnownValues;

/// What is known of a table of FROM: its values, and those of parameters.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) values: Rc<KnownValues>,
    pub(crate) constants: Rc<Constants>,
}

/// Values of expressions without columns, as they are while a statement is planned. A plan that is
/// kept was estimated by the first parameters it had.
#[derive(Debug)]
pub(crate) struct Constants(RefCell<EvalContext>);

impl Constants {
    pub(crate) fn new(context: EvalContext) -> Self {
        Self(RefCell::new(context))
    }

    /// The value of an expression, if it is one of a kind that needs no row.
    pub(crate) fn value(&self, expression: &Expression) -> Option<Datum> {
        if let Some(constant) = expression.as_constant() {
            return Some(constant.clone());
        }
        let needs_more = |part: &Expression| match &part.node {
            Node::Constant(_) | Node::Parameter(_) => false,
            Node::Call(call) => call.function.volatility == Volatility::Row,
            Node::Column { .. }
            | Node::Outer { .. }
            | Node::Aggregate(_)
            | Node::Window(_)
            | Node::Deferred(_)
            | Node::Subquery(_)
            | Node::Assign { .. }
            | Node::Row(_)
            | Node::Inserted { .. } => true,
            _ => false,
        };
        if expression.any(&mut |part| needs_more(part)) {
            return None;
        }
        expression.eval(&[], &mut self.0.borrow_mut()).ok()
    }
}
