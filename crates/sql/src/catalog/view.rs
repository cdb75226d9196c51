//! Views: what the catalog keeps of them.
//!
//! A view is a table of the kernel that nobody writes, whose description is its CREATE VIEW
//! statement (docs/decisions/0020-views-are-tables-without-rows.md): one space of names, and one
//! way to make, replace, rename and drop. The statement has no `*` and names every column.
//!
//! # Owns
//! That text, and the way back.
//! # Not here
//! The rows (`plan::view`), the statements that change views (`ddl`).

use std::rc::Rc;
use std::sync::Arc;

use model::{Description, SchemaChange, Table};
use sql_expression::SqlError;
use sql_parser::ast::{CheckOption, CreateView, Statement, ViewAlgorithm};

use super::kernel_form;

/// How the description of a view begins; that of a table begins with CREATE TABLE.
const BEGINNING: &[u8] = b"CREATE ALGORITHM";

/// A view, read from the catalog.
#[derive(Debug)]
pub(crate) struct ViewDefinition {
    /// The database it belongs to, which names without one in its query mean.
    pub(crate) database: String,
    /// Its name in the database.
    pub(crate) name: String,
    pub(crate) statement: CreateView,
}

/// Whether a table of the kernel stands for a view.
pub(crate) fn is_view(table: &Table) -> bool {
    table.description.starts_with(BEGINNING)
}

/// The view that a table of the kernel stands for.
pub(crate) fn read(table: &Arc<Table>) -> Result<Rc<ViewDefinition>, SqlError> {
    let (database, name) = table.name.split_once('.').unwrap_or(("", &table.name));
    let parsed = sql_parser::parse(&table.description, sql_parser::SqlMode::default());
    let Ok(Statement::CreateView(statement)) = parsed else {
        return Err(SqlError::internal(format!("view {} has no definition", table.name)));
    };
    let (database, name) = (database.to_owned(), name.to_owned());
    Ok(Rc::new(ViewDefinition { database, name, statement: *statement }))
}

/// The text the catalog keeps.
pub(crate) fn description(view: &CreateView) -> Description {
    let kept = CreateView {
        or_replace: false,
        alter: false,
        algorithm: Some(view.algorithm.unwrap_or(ViewAlgorithm::Undefined)),
        ..view.clone()
    };
    Statement::CreateView(Box::new(kept)).to_string().into_bytes().into()
}

/// The request that makes a view of this full name.
pub(crate) fn create(full_name: &str, description: Description) -> SchemaChange {
    SchemaChange::CreateTable {
        name: full_name.to_owned(),
        columns: vec![kernel_form::hidden_key()],
        primary_key: vec![0],
        distribution_key: Vec::new(),
        partition_count: 1,
        ordered_indexes: Vec::new(),
        unique_indexes: Vec::new(),
        large: None,
        description,
    }
}

impl ViewDefinition {
    /// The statement that makes it again, as SHOW CREATE VIEW shows it.
    pub(crate) fn create_statement(&self) -> String {
        let mut statement = self.statement.clone();
        statement.name.schema = None;
        statement.name.name = self.name.as_str().into();
        Statement::CreateView(Box::new(statement)).to_string()
    }

    /// CHECK_OPTION of information_schema.VIEWS.
    pub(crate) fn check_option(&self) -> &'static str {
        match self.statement.check_option {
            None => "NONE",
            Some(CheckOption::Local) => "LOCAL",
            Some(CheckOption::Cascaded) => "CASCADED",
        }
    }
}
