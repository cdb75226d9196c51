//! A session with the values of an answer as types, and errors that say what was asked.
//!
//! # Owns
//! [`Database`], which every statement goes through.

use std::fmt;
use std::path::Path;

use mysql_client::{QueryError, Session, TextRow};

use crate::money;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused, or is gone.
    Query(QueryError),
    /// It answered what cannot be.
    Data(String),
}

/// What a transaction may be tried again after: temporary errors of the cluster (1297), lock
/// time-outs (1205), deadlocks (1213), a row changed since the snapshot (1020).
const RETRIED: [u16; 4] = [1020, 1205, 1213, 1297];

impl Failure {
    /// The number of an error after which all that the transaction did is to be done again.
    pub(crate) fn retried(&self) -> Option<u16> {
        match self {
            Failure::Query(error) => error.code().filter(|code| RETRIED.contains(code)),
            Failure::Data(_) => None,
        }
    }

    /// The connection is gone.
    pub(crate) fn lost(&self) -> bool {
        matches!(self, Failure::Query(QueryError::Lost(_)))
    }

    /// Nobody knows whether the transaction was committed: the connection is gone, or error 1180
    /// says so.
    pub(crate) fn unknown(&self) -> bool {
        match self {
            Failure::Query(error) => error.code().is_none_or(|code| code == 1180),
            Failure::Data(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Query(error) => write!(f, "{error}"),
            Failure::Data(text) => write!(f, "{text}"),
        }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::Query(error)
    }
}

/// A row of an answer.
#[derive(Debug)]
pub(crate) struct Row(TextRow);

impl Row {
    /// A value that is not NULL.
    pub(crate) fn text(&self, column: usize) -> Result<&str, Failure> {
        self.opt(column).ok_or_else(|| self.wrong(column, "a value"))
    }

    /// A value, none for NULL.
    pub(crate) fn opt(&self, column: usize) -> Option<&str> {
        self.0.get(column).and_then(Option::as_deref)
    }

    /// A whole number.
    pub(crate) fn number(&self, column: usize) -> Result<u64, Failure> {
        self.text(column)?.parse().map_err(|_| self.wrong(column, "a number"))
    }

    /// An amount in cents.
    pub(crate) fn cents(&self, column: usize) -> Result<i64, Failure> {
        money::parse(self.text(column)?, 2).ok_or_else(|| self.wrong(column, "an amount"))
    }

    /// A rate in ten-thousandths.
    pub(crate) fn rate(&self, column: usize) -> Result<i64, Failure> {
        money::parse(self.text(column)?, 4).ok_or_else(|| self.wrong(column, "a rate"))
    }

    fn wrong(&self, column: usize, what: &str) -> Failure {
        Failure::Data(format!("{what} expected in column {} of {:?}", column + 1, self.0))
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct Database(Session);

impl Database {
    pub(crate) fn connect(socket: &Path) -> Result<Self, Failure> {
        Ok(Self(Session::connect(socket)?))
    }

    /// Connects and chooses the database of the benchmark.
    pub(crate) fn open(socket: &Path, name: &str) -> Result<Self, Failure> {
        let mut database = Self::connect(socket)?;
        database.run(&format!("USE {name}"))?;
        Ok(database)
    }

    /// Runs a statement; how many rows it has changed.
    pub(crate) fn run(&mut self, statement: &str) -> Result<u64, Failure> {
        Ok(self.0.execute(statement)?)
    }

    /// Changes one row, and notices when it was another number of rows.
    pub(crate) fn change(&mut self, statement: &str) -> Result<(), Failure> {
        match self.run(statement)? {
            1 => Ok(()),
            changed => Err(Failure::Data(format!("{changed} rows changed by: {statement}"))),
        }
    }

    /// The rows of a query.
    pub(crate) fn rows(&mut self, query: &str) -> Result<Vec<Row>, Failure> {
        Ok(self.0.query(query)?.into_iter().map(Row).collect())
    }

    /// The one row of a query, if there is one.
    pub(crate) fn row_opt(&mut self, query: &str) -> Result<Option<Row>, Failure> {
        let mut rows = self.rows(query)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            count => Err(Failure::Data(format!("{count} rows instead of one: {query}"))),
        }
    }

    /// The one row of a query.
    pub(crate) fn row(&mut self, query: &str) -> Result<Row, Failure> {
        self.row_opt(query)?.ok_or_else(|| Failure::Data(format!("no row: {query}")))
    }
}
