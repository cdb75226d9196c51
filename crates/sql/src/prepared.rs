//! Prepared statements: parsed once, planned once, run often.
//!
//! # Owns
//! [`Prepared`], a statement with its parameters and, when it has one, its plan.
//! # Not here
//! Those that clients keep (`session`), numbers and long data (`connection`), plans and whether
//! they still hold (`execute`).

pub(crate) mod cache;
pub(crate) mod session;

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use model::ControlIndex;
use sql_parser::ast::Statement;
use sql_parser::{LiteralRows, Parsed};

use crate::account::login::Allowed;
use crate::directory::CountedStatement;
use crate::hint::StatementHints;
use crate::memory::Held;
use crate::traits::{StatementTraits, Traits};

/// A prepared statement.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    inner: Rc<Inner>,
    /// The rows of an INSERT, where they are not in its tree.
    rows: Option<Rc<LiteralRows>>,
}

#[derive(Debug)]
struct Inner {
    statement: Statement,
    traits: Traits,
    text: String,
    parameters: usize,
    hints: Option<Rc<StatementHints>>,
    /// What the executor has made of it; what that is, it alone knows.
    plan: RefCell<Option<Rc<dyn Any>>>,
    /// What it was allowed by last.
    allowed: RefCell<Option<Allowed>>,
    /// What a client's statement takes of the limits, until it is gone.
    _kept: Option<(CountedStatement, Held)>,
}

impl Prepared {
    /// A statement that has been parsed out of a text, with its hints. Nobody is shown its text.
    pub(crate) fn of_parsed(parsed: Parsed) -> Self {
        let hints = StatementHints::of(&parsed.hints, &parsed.statement);
        Self::with_hints(parsed.statement, "", parsed.parameter_count as usize, hints, None)
    }

    /// A statement that has been parsed already, and has no hints.
    pub(crate) fn new(statement: Statement, text: &str, parameters: usize) -> Self {
        Self::with_hints(statement, text, parameters, None, None)
    }

    fn with_hints(
        statement: Statement,
        text: &str,
        parameters: usize,
        hints: Option<Rc<StatementHints>>,
        kept: Option<(CountedStatement, Held)>,
    ) -> Self {
        let (text, plan) = (text.to_owned(), RefCell::default());
        let (traits, allowed) = (statement.traits(), RefCell::default());
        let inner =
            Inner { statement, traits, text, parameters, hints, plan, allowed, _kept: kept };
        Self { inner: Rc::new(inner), rows: None }
    }

    /// The same statement with these rows.
    pub(crate) fn with_rows(self, rows: LiteralRows) -> Self {
        Self { rows: Some(Rc::new(rows)), ..self }
    }

    /// The rows of an INSERT, where they are not in its tree.
    pub(crate) fn rows(&self) -> Option<&LiteralRows> {
        self.rows.as_deref()
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.inner.statement
    }

    /// What is true of the statement.
    pub(crate) fn traits(&self) -> &Traits {
        &self.inner.traits
    }

    pub(crate) fn hints(&self) -> Option<&Rc<StatementHints>> {
        self.inner.hints.as_ref()
    }

    /// The text it was parsed from.
    pub(crate) fn text(&self) -> &str {
        &self.inner.text
    }

    pub(crate) fn parameter_count(&self) -> usize {
        self.inner.parameters
    }

    /// The plan that is kept, if there is one of this type. Whether it still holds, its type says.
    pub(crate) fn plan<P: 'static>(&self) -> Option<Rc<P>> {
        self.inner.plan.borrow().clone()?.downcast().ok()
    }

    /// Keeps a plan for the next time.
    pub(crate) fn keep<P: 'static>(&self, plan: Rc<P>) {
        *self.inner.plan.borrow_mut() = Some(plan);
    }

    /// Whether it was allowed by these rights, with the same definitions and default database.
    pub(crate) fn is_allowed(
        &self,
        stamp: u64,
        definitions: ControlIndex,
        database: Option<&str>,
    ) -> bool {
        self.inner.allowed.borrow().as_ref().is_some_and(|(of, at, within)| {
            *of == stamp && *at == definitions && within.as_deref() == database
        })
    }

    /// Remembers by what it was allowed.
    pub(crate) fn remember_allowed(&self, allowed: Allowed) {
        *self.inner.allowed.borrow_mut() = Some(allowed);
    }
}
