//! Views, as information_schema describes them.
//!
//! # Owns
//! VIEWS. Their columns are listed with those of tables (`schema`).

use sql_expression::SqlError;
use sql_parser::ast::Account;

use crate::catalog::names;
use crate::catalog::view::{self, is_view};
use crate::information::virtual_table::{
    Hints, Kind, Rows, Source, VirtualTable, column, information, nullable, text,
};
use crate::logical::binder::QueryBinder;
use crate::session::Session;

pub(super) static TABLES: &[VirtualTable] = &[information(
    "VIEWS",
    &[
        column("TABLE_CATALOG", Kind::Text(64)),
        column("TABLE_SCHEMA", Kind::Text(64)),
        column("TABLE_NAME", Kind::Text(64)),
        nullable("VIEW_DEFINITION", Kind::LongText),
        nullable("CHECK_OPTION", Kind::Text(8)),
        nullable("IS_UPDATABLE", Kind::Text(3)),
        nullable("DEFINER", Kind::Text(288)),
        nullable("SECURITY_TYPE", Kind::Text(7)),
        column("CHARACTER_SET_CLIENT", Kind::Text(64)),
        column("COLLATION_CONNECTION", Kind::Text(64)),
    ],
    Source::Here(views),
)];

fn views(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let cluster = session.kernel.cluster();
    let mut rows = Vec::new();
    for database in cluster.databases.keys().filter(|name| hints.wants_database(name)) {
        for (name, table) in names::tables_of(&cluster, database) {
            let seen = hints.wants_table(name) && session.sees_table(database, name);
            if !is_view(table) || !seen {
                continue;
            }
            let view = view::read(table)?;
            let definer = match &view.statement.definer {
                Some(Account::Name { user, host }) => {
                    format!("{user}@{}", host.as_deref().unwrap_or("%"))
                }
                _ => String::new(),
            };
            let updatable = QueryBinder::new(session, &[]).simple(&view).is_some();
            let invoker = view.statement.invoker == Some(true);
            rows.push(vec![
                text("def"),
                text(database),
                text(name),
                text(if session.may_show_view(database, name) {
                    view.statement.query.to_string()
                } else {
                    String::new()
                }),
                text(view.check_option()),
                text(if updatable { "YES" } else { "NO" }),
                text(definer),
                text(if invoker { "INVOKER" } else { "DEFINER" }),
                text("utf8mb4"),
                text("utf8mb4_0900_ai_ci"),
            ]);
        }
    }
    Ok(rows)
}
