//! Accounts and privileges: until accounts exist there is `root`, who may do everything.
//!
//! # Owns
//! The privilege tables of information_schema, and `mysql.user` as far as tools read it.
//! # Not here
//! Logging in (`connection`).

use sqltype::Datum;

use super::{Kind, Rows, Source, VirtualColumn, VirtualTable, column, information, nullable, text};

const NAME: Kind = Kind::Text(64);
const GRANTEE: Kind = Kind::Text(292);
const YES: Kind = Kind::Text(3);

pub(super) static TABLES: &[VirtualTable] = &[
    information(
        "USER_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(|_, _| Ok(user_privileges())),
    ),
    information(
        "SCHEMA_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Empty,
    ),
    information(
        "TABLE_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Empty,
    ),
    information(
        "COLUMN_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("COLUMN_NAME", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Empty,
    ),
    information(
        "USER_ATTRIBUTES",
        &[
            column("USER", Kind::Text(32)),
            column("HOST", Kind::Text(255)),
            nullable("ATTRIBUTE", Kind::LongText),
        ],
        Source::Here(|_, _| Ok(vec![vec![text("root"), text("localhost"), Datum::Null]])),
    ),
    information(
        "APPLICABLE_ROLES",
        &[
            nullable("USER", Kind::Text(97)),
            nullable("HOST", Kind::Text(256)),
            nullable("GRANTEE", Kind::Text(97)),
            nullable("GRANTEE_HOST", Kind::Text(256)),
            nullable("ROLE_NAME", Kind::Text(255)),
            nullable("ROLE_HOST", Kind::Text(256)),
            column("IS_GRANTABLE", YES),
            nullable("IS_DEFAULT", YES),
            column("IS_MANDATORY", YES),
        ],
        Source::Empty,
    ),
    information(
        "ENABLED_ROLES",
        &[
            nullable("ROLE_NAME", Kind::Text(255)),
            nullable("ROLE_HOST", Kind::Text(255)),
            nullable("IS_DEFAULT", YES),
            column("IS_MANDATORY", YES),
        ],
        Source::Empty,
    ),
    system("user", USER_COLUMNS, Source::Here(|_, _| Ok(vec![root()]))),
    system(
        "db",
        &[column("Host", Kind::Text(255)), column("Db", NAME), column("User", Kind::Text(32))],
        Source::Empty,
    ),
    system(
        "tables_priv",
        &[
            column("Host", Kind::Text(255)),
            column("Db", NAME),
            column("User", Kind::Text(32)),
            column("Table_name", NAME),
            column("Grantor", Kind::Text(288)),
            column("Table_priv", Kind::Text(256)),
            column("Column_priv", Kind::Text(64)),
        ],
        Source::Empty,
    ),
    system(
        "columns_priv",
        &[
            column("Host", Kind::Text(255)),
            column("Db", NAME),
            column("User", Kind::Text(32)),
            column("Table_name", NAME),
            column("Column_name", NAME),
            column("Column_priv", Kind::Text(64)),
        ],
        Source::Empty,
    ),
    system(
        "procs_priv",
        &[
            column("Host", Kind::Text(255)),
            column("Db", NAME),
            column("User", Kind::Text(32)),
            column("Routine_name", NAME),
            column("Routine_type", Kind::Text(9)),
            column("Grantor", Kind::Text(288)),
            column("Proc_priv", Kind::Text(64)),
        ],
        Source::Empty,
    ),
];

const fn system(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "mysql", name, columns, source }
}

/// The first columns of `mysql.user`.
static USER_COLUMNS: &[VirtualColumn] = &[
    column("Host", Kind::Text(255)),
    column("User", Kind::Text(32)),
    column("Select_priv", Kind::Text(1)),
    column("Insert_priv", Kind::Text(1)),
    column("Update_priv", Kind::Text(1)),
    column("Delete_priv", Kind::Text(1)),
    column("Create_priv", Kind::Text(1)),
    column("Drop_priv", Kind::Text(1)),
    column("Reload_priv", Kind::Text(1)),
    column("Shutdown_priv", Kind::Text(1)),
    column("Process_priv", Kind::Text(1)),
    column("File_priv", Kind::Text(1)),
    column("Grant_priv", Kind::Text(1)),
    column("References_priv", Kind::Text(1)),
    column("Index_priv", Kind::Text(1)),
    column("Alter_priv", Kind::Text(1)),
    column("Show_db_priv", Kind::Text(1)),
    column("Super_priv", Kind::Text(1)),
    column("plugin", NAME),
    nullable("authentication_string", Kind::LongText),
    column("password_expired", Kind::Text(1)),
    column("account_locked", Kind::Text(1)),
];

fn root() -> Vec<Datum> {
    let mut row = vec![text("localhost"), text("root")];
    row.extend(vec![text("Y"); USER_COLUMNS.len() - 6]);
    row.extend(["mysql_native_password", "", "N", "N"].map(text));
    row
}

/// Privileges of a whole server, as SHOW PRIVILEGES lists them: name, context, comment.
pub(crate) const PRIVILEGES: [[&str; 3]; 31] = [
    ["Alter", "Tables", "To alter the table"],
    ["Alter routine", "Functions,Procedures", "To alter or drop stored functions/procedures"],
    ["Create", "Databases,Tables,Indexes", "To create new databases and tables"],
    ["Create routine", "Databases", "To use CREATE FUNCTION/PROCEDURE"],
    ["Create role", "Server Admin", "To create new roles"],
    ["Create temporary tables", "Databases", "To use CREATE TEMPORARY TABLE"],
    ["Create view", "Tables", "To create new views"],
    ["Create user", "Server Admin", "To create new users"],
    ["Delete", "Tables", "To delete existing rows"],
    ["Drop", "Databases,Tables", "To drop databases, tables, and views"],
    ["Drop role", "Server Admin", "To drop roles"],
    ["Event", "Server Admin", "To create, alter, drop and execute events"],
    ["Execute", "Functions,Procedures", "To execute stored routines"],
    ["File", "File access on server", "To read and write files on the server"],
    [
        "Grant option",
        "Databases,Tables,Functions,Procedures",
        "To give to other users those privileges you possess",
    ],
    ["Index", "Tables", "To create or drop indexes"],
    ["Insert", "Tables", "To insert data into tables"],
    ["Lock tables", "Databases", "To use LOCK TABLES (together with SELECT privilege)"],
    ["Process", "Server Admin", "To view the plain text of currently executing queries"],
    ["Proxy", "Server Admin", "To make proxy user possible"],
    ["References", "Databases,Tables", "To have references on tables"],
    ["Reload", "Server Admin", "To reload or refresh tables, logs and privileges"],
    ["Replication client", "Server Admin", "To ask where the slave or master servers are"],
    ["Replication slave", "Server Admin", "To read binary log events from the master"],
    ["Select", "Tables", "To retrieve rows from table"],
    ["Show databases", "Server Admin", "To see all databases with SHOW DATABASES"],
    ["Show view", "Tables", "To see views with SHOW CREATE VIEW"],
    ["Shutdown", "Server Admin", "To shut down the server"],
    ["Super", "Server Admin", "To use KILL thread, SET GLOBAL, CHANGE MASTER, etc."],
    ["Trigger", "Tables", "To use triggers"],
    ["Update", "Tables", "To update existing rows"],
];

fn user_privileges() -> Rows {
    let not_listed = ["Grant option", "Proxy"];
    let row = |[name, _, _]: &[&str; 3]| {
        ["'root'@'localhost'", "def", &name.to_uppercase(), "YES"].map(text).to_vec()
    };
    PRIVILEGES.iter().filter(|[name, _, _]| !not_listed.contains(name)).map(row).collect()
}
