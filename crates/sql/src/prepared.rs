//! Prepared statements: parsed once, planned once, run often.
//!
//! # Owns
//! [`Prepared`], a statement with its parameters and, when it has one, its plan.
//! # Not here
//! Numbers and long data (`connection`), plans and whether they still hold (`execute`).

pub(crate) mod cache;

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use model::ControlIndex;
use sql_expression::SqlError;
use sql_parser::ast::Statement;
use sql_parser::{LiteralRows, Parsed};

use crate::account::login::Allowed;
use crate::directory::CountedStatement;
use crate::error::of_parser;
use crate::hint::StatementHints;
use crate::memory::Held;
use crate::session::Session;
use crate::traits::{StatementTraits, Traits};
use crate::variables;

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

/// About what a prepared statement takes in memory, with its plan: for itself, and for each byte of
/// its text.
const STATEMENT_BYTES: usize = 4 << 10;
const TEXT_BYTES: usize = 16;

impl Prepared {
    /// Parses one statement for a client, who keeps it: it counts, and so does its memory.
    ///
    /// # Errors
    /// 1461 and 3170 if there are too many.
    pub(crate) fn parse(session: &Session, text: &str) -> Result<Self, SqlError> {
        let most = variables::registry::find("max_prepared_stmt_count");
        let most = most.and_then(|variable| variables::shown_text(session, variable, true));
        let most = most.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        let counted = session.shared.directory.count_prepared(most);
        let Some(counted) = counted else { return Err(SqlError::of::<1461>(&[&most])) };
        let mut held = session.memory.hold("prepared statements");
        held.add(STATEMENT_BYTES + TEXT_BYTES * text.len())?;
        let parsed = session.parse_at(text.as_bytes(), 0);
        let parsed = parsed.map_err(|error| of_parser(&error))?;
        if !parsed.statement.traits().is_preparable || parsed.next.is_some() {
            let message = "This command is not supported in the prepared statement protocol yet";
            return Err(SqlError::new(1295, "HY000", message));
        }
        let hints = StatementHints::of(&parsed.hints, &parsed.statement);
        let count = parsed.parameter_count as usize;
        Ok(Self::with_hints(parsed.statement, text, count, hints, Some((counted, held))))
    }

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
