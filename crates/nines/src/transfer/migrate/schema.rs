//! Definitions of the source, and the same here.
//!
//! # Owns
//! What there is at the source ([`read`]); making it here, with all that is refused ([`create`]);
//! taking it away again ([`undo`]).
//! # Guarantees
//! 1. All that is refused here is found before a row is copied.
//! 2. A text of the source is run here only if it makes the one table or view that it is of.
//! 3. Texts have the collations of the source, also where its statements leave them out as the
//!    default ones of a character set, which others are here.
//! 4. What is undone is what the journal says that this import has made.

use std::collections::BTreeMap;

use mysql_client::{QueryError, Session};
use sql_parser::SqlMode;
use sql_parser::ast::{
    ColumnDefault, DataType, Expr, Ident, Literal, Statement, TableBody, TableConstraint,
    TableDefinition, TableOption,
};

use super::Migration;
use super::journal::Journal;
use super::source::{Facts, Kind, cell, list};
use crate::transfer::column::{name, text};
use crate::transfer::import::OUTCOME_UNKNOWN;
use crate::transfer::shown;

/// What there is at a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions {
    pub(super) databases: Vec<Database>,
    pub(super) tables: Vec<Object>,
    pub(super) views: Vec<Object>,
}

/// A database with its collation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Database {
    name: String,
    charset: String,
    collation: String,
}

/// A table or a view.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) database: String,
    pub(super) name: String,
    /// The statement that makes it.
    text: String,
    collations: Collations,
    /// Rows, as the source estimates them.
    pub(super) estimate: u64,
}

/// The collations of a table, as the source has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Collations {
    /// Of the table; empty if that has none.
    table: String,
    columns: ColumnCollations,
}

/// Collations of columns that have one, by their names in lower case.
type ColumnCollations = BTreeMap<String, String>;

/// The counter of AUTO_INCREMENT and estimates change all the time, and are no definition.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let key = |object: &Self| {
            let text = without_counter(&object.text);
            (object.database.clone(), object.name.clone(), text, object.collations.clone())
        };
        key(self) == key(other)
    }
}

impl Eq for Object {}

impl Object {
    pub(super) fn full(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }
}

/// What is wrong with definitions, each with the name of what it is about.
pub(super) type Refusals = Vec<String>;

/// Reads what there is. What cannot be had is told with the rest that is refused.
pub(super) fn read(
    migration: &Migration,
    facts: &Facts,
    session: &mut Session,
) -> Result<(Definitions, Refusals), String> {
    let databases = databases(migration, session)?;
    let mut found = Definitions { databases, ..Definitions::default() };
    let mut refusals = Refusals::new();
    let rows = session
        .query(&format!(
            "SELECT table_schema, table_name, table_type, engine, table_rows, table_collation \
             FROM information_schema.tables WHERE table_schema IN ({}) \
             ORDER BY table_schema, table_name",
            list(&migration.address.databases)
        ))
        .map_err(|why| migration.at_source(&why))?;
    let mut columns = collations(migration, session)?;
    for row in rows {
        let (kind, engine) = (cell(&row, 2).to_ascii_uppercase(), cell(&row, 3));
        let mut object = Object {
            database: cell(&row, 0),
            name: cell(&row, 1),
            text: String::new(),
            collations: Collations { table: cell(&row, 5), ..Collations::default() },
            estimate: cell(&row, 4).parse().unwrap_or(0),
        };
        if migration.skips(&object.database, &object.name) {
            continue;
        }
        let key = (object.database.clone(), object.name.clone());
        object.collations.columns = columns.remove(&key).unwrap_or_default();
        let is_view = kind.contains("VIEW");
        if !is_view && kind != "BASE TABLE" {
            refusals.push(format!("{}: {kind} is not there in Nines", object.full()));
            continue;
        }
        let has_snapshots = facts.kind == Kind::Nines
            || ["innodb", "rocksdb", "tokudb"].contains(&engine.to_ascii_lowercase().as_str());
        if !is_view && !has_snapshots {
            refusals.push(format!(
                "{}: engine {engine} has no snapshots: ALTER TABLE … ENGINE = InnoDB at the source",
                object.full()
            ));
            continue;
        }
        match definition(session, &object, is_view) {
            Ok(text) => object.text = text,
            Err(QueryError::Refused(code, why)) => {
                let why = shown(&QueryError::Refused(code, why));
                refusals.push(format!("{}: the source says: {why}", object.full()));
                continue;
            }
            Err(lost) => return Err(migration.at_source(&lost)),
        }
        if is_view { &mut found.views } else { &mut found.tables }.push(object);
    }
    refusals.extend(loose_keys(migration, session, &found)?);
    Ok((found, refusals))
}

/// Collations of columns by database and table.
fn collations(
    migration: &Migration,
    session: &mut Session,
) -> Result<BTreeMap<(String, String), ColumnCollations>, String> {
    let rows = session
        .query(&format!(
            "SELECT table_schema, table_name, column_name, collation_name FROM \
             information_schema.columns WHERE collation_name IS NOT NULL AND table_schema IN ({})",
            list(&migration.address.databases)
        ))
        .map_err(|why| migration.at_source(&why))?;
    let mut found: BTreeMap<_, ColumnCollations> = BTreeMap::new();
    for row in rows {
        let of = found.entry((cell(&row, 0), cell(&row, 1))).or_default();
        of.insert(cell(&row, 2).to_lowercase(), cell(&row, 3));
    }
    Ok(found)
}

/// The databases that are named.
fn databases(migration: &Migration, session: &mut Session) -> Result<Vec<Database>, String> {
    let rows = session
        .query(&format!(
            "SELECT schema_name, default_character_set_name, default_collation_name FROM \
             information_schema.schemata WHERE schema_name IN ({})",
            list(&migration.address.databases)
        ))
        .map_err(|why| migration.at_source(&why))?;
    let database = |wanted: &String| {
        let row = rows.iter().find(|row| cell(row, 0) == *wanted);
        let row = row.ok_or_else(|| {
            format!(
                "{}: there is no database `{wanted}`, or `{}` has no right in it: GRANT SELECT, \
                 SHOW VIEW, TRIGGER ON it",
                migration.address.server(),
                migration.source_login.user
            )
        })?;
        Ok(Database { name: wanted.clone(), charset: cell(row, 1), collation: cell(row, 2) })
    };
    migration.address.databases.iter().map(database).collect()
}

/// The statement that makes a table or a view.
fn definition(session: &mut Session, object: &Object, is_view: bool) -> Result<String, QueryError> {
    // With the database as the default one, a view names its tables as they are written.
    session.query(&format!("USE {}", name(&object.database)))?;
    let kind = if is_view { "VIEW" } else { "TABLE" };
    let rows = session.query(&format!("SHOW CREATE {kind} {}", name(&object.name)))?;
    if !is_view {
        // A right to see a table is none to read it.
        session.query(&format!("SELECT 1 FROM {} LIMIT 0", name(&object.name)))?;
    }
    Ok(rows.first().map(|row| cell(row, 1)).unwrap_or_default())
}

/// Foreign keys to tables that are not imported.
fn loose_keys(
    migration: &Migration,
    session: &mut Session,
    found: &Definitions,
) -> Result<Refusals, String> {
    let rows = session
        .query(&format!(
            "SELECT DISTINCT table_schema, table_name, constraint_name, referenced_table_schema, \
             referenced_table_name FROM information_schema.key_column_usage WHERE \
             referenced_table_name IS NOT NULL AND table_schema IN ({})",
            list(&migration.address.databases)
        ))
        .map_err(|why| migration.at_source(&why))?;
    let is_taken = |database: &str, table: &str| {
        found.tables.iter().any(|one| {
            one.database.eq_ignore_ascii_case(database) && one.name.eq_ignore_ascii_case(table)
        })
    };
    let loose = rows.iter().filter(|row| {
        is_taken(&cell(row, 0), &cell(row, 1)) && !is_taken(&cell(row, 3), &cell(row, 4))
    });
    Ok(loose
        .map(|row| {
            format!(
                "{}.{}: foreign key {} refers to {}.{}, which is not imported",
                cell(row, 0),
                cell(row, 1),
                cell(row, 2),
                cell(row, 3),
                cell(row, 4)
            )
        })
        .collect())
}

/// What the databases have besides tables and views, and what stays behind.
pub(super) fn left_behind(
    migration: &Migration,
    session: &mut Session,
) -> Result<Vec<String>, String> {
    let names = list(&migration.address.databases);
    let queries = [
        ("trigger", "trigger_name", "trigger_schema", "triggers"),
        ("routine", "routine_name", "routine_schema", "routines"),
        ("event", "event_name", "event_schema", "events"),
    ];
    let mut left = Vec::new();
    for (kind, column, schema, table) in queries {
        let rows = session.query(&format!(
            "SELECT {schema}, {column} FROM information_schema.{table} WHERE {schema} IN ({names})"
        ));
        let rows = match rows {
            Ok(rows) => rows,
            // A server without such things.
            Err(QueryError::Refused(..)) => continue,
            Err(lost) => return Err(migration.at_source(&lost)),
        };
        left.extend(rows.iter().map(|row| format!("{kind} {}.{}", cell(row, 0), cell(row, 1))));
    }
    Ok(left)
}

/// Databases here that have something in them.
pub(super) fn occupied(migration: &Migration, target: &mut Session) -> Result<Vec<String>, String> {
    let rows = target
        .query(&format!(
            "SELECT table_schema, COUNT(*) FROM information_schema.tables WHERE table_schema IN \
             ({}) GROUP BY table_schema",
            list(&migration.address.databases)
        ))
        .map_err(|why| shown(&why))?;
    Ok(rows
        .iter()
        .map(|row| {
            format!(
                "database `{}` is there and has {} tables: DROP DATABASE it, or leave it out",
                cell(row, 0),
                cell(row, 1)
            )
        })
        .collect())
}

/// Makes all here: databases, tables, views. What is refused is told, and the rest is made.
pub(super) fn create(
    definitions: &Definitions,
    target: &mut Session,
    journal: &mut Journal,
) -> Result<Refusals, String> {
    let mut refusals = Refusals::new();
    let lost = |why: QueryError| shown(&why);
    let names: Vec<String> = definitions.databases.iter().map(|one| one.name.clone()).collect();
    let there =
        target.query("SELECT schema_name FROM information_schema.schemata").map_err(lost)?;
    let is_there = |name: &str| there.iter().any(|row| cell(row, 0) == name);
    let others = there.iter().map(|row| cell(row, 0));
    let others: Vec<String> = others
        .filter(|name| !names.contains(name) && !name.eq_ignore_ascii_case("information_schema"))
        .collect();
    for Database { name: database, charset, collation } in &definitions.databases {
        if is_there(database) {
            continue;
        }
        let statement = format!(
            "CREATE DATABASE {} CHARACTER SET {} COLLATE {}",
            name(database),
            text(charset),
            text(collation)
        );
        journal.entries.databases.push(database.clone());
        journal.save()?;
        if let Err(why) = target.query(&statement) {
            if is_unmade(&why) {
                journal.entries.databases.pop();
                journal.save()?;
            }
            refusals.push(format!("database {database}: {}", refused(why)?));
        }
    }
    if !refusals.is_empty() {
        return Ok(refusals);
    }
    for table in &definitions.tables {
        if let Err(why) = make(target, journal, table, false, &others)? {
            refusals.push(format!("{}: {why}", table.full()));
        }
    }
    // A view may read others, in any order.
    let mut left: Vec<&Object> = definitions.views.iter().collect();
    while !left.is_empty() {
        let mut failed = Vec::new();
        for view in &left {
            if let Err(why) = make(target, journal, view, true, &others)? {
                failed.push((*view, why));
            }
        }
        if failed.len() == left.len() {
            refusals.extend(failed.iter().map(|(view, why)| format!("{}: {why}", view.full())));
            break;
        }
        left = failed.into_iter().map(|(view, _)| view).collect();
    }
    Ok(refusals)
}

/// Makes a table or a view that names nothing of other databases; the inner error is why it is
/// refused. Its name is in the journal from just before, unless nothing was made.
fn make(
    target: &mut Session,
    journal: &mut Journal,
    object: &Object,
    is_view: bool,
    others: &[String],
) -> Result<Result<(), String>, String> {
    let statement = match examine(object, is_view, others) {
        Ok(statement) => statement,
        Err(why) => return Ok(Err(why)),
    };
    if let Err(why) = target.query(&format!("USE {}", name(&object.database))) {
        return Ok(Err(refused(why)?));
    }
    let names = |journal: &mut Journal, adds: bool| {
        let entries = &mut journal.entries;
        let list = if is_view { &mut entries.views } else { &mut entries.tables };
        if adds {
            list.push((object.database.clone(), object.name.clone()));
        } else {
            list.pop();
        }
        journal.save()
    };
    names(journal, true)?;
    let Err(why) = target.query(&statement) else { return Ok(Ok(())) };
    if is_unmade(&why) {
        // What is there of this name is somebody else's.
        names(journal, false)?;
    }
    Ok(Err(refused(why)?))
}

/// Whether an error says that nothing was made.
fn is_unmade(why: &QueryError) -> bool {
    why.code().is_some_and(|code| code != OUTCOME_UNKNOWN)
}

/// What a server says that refuses; a lost connection is an error.
fn refused(why: QueryError) -> Result<String, String> {
    match why {
        QueryError::Refused(..) => Ok(shown(&why)),
        lost @ QueryError::Lost(_) => Err(shown(&lost)),
    }
}

/// The statement to be run of a text that makes the one table or view of that name, and does
/// nothing else. A view becomes that of whoever imports: its definer may not be here. So it reads
/// nothing of other databases, which whoever imports may see and the source may not.
fn examine(object: &Object, is_view: bool, others: &[String]) -> Result<String, String> {
    let (text, wanted) = (object.text.as_str(), object.name.as_str());
    let another = || {
        let kind = if is_view { "view" } else { "table" };
        Err(format!("the source does not tell a statement that makes this {kind}"))
    };
    match sql_parser::parse(text.as_bytes(), SqlMode::default()) {
        Ok(Statement::CreateTable(mut create)) if !is_view => {
            let (is_plain, is_changed) = match &mut create.definition {
                TableDefinition::Columns(body) => {
                    let is_changed = adapt(body) | collate(body, &object.collations);
                    (body.query.is_none(), is_changed)
                }
                TableDefinition::Like(_) => (false, false),
            };
            let name = &create.name;
            if is_plain
                && !create.temporary
                // It would take what somebody else has made for what this import has.
                && !create.if_not_exists
                && name.schema.is_none()
                && name.name.as_str() == wanted
            {
                let printed = Statement::CreateTable(create).to_string();
                speaks_of_no_other(&printed, others)?;
                return Ok(if is_changed { printed } else { text.to_owned() });
            }
            another()
        }
        Ok(Statement::CreateView(mut create)) if is_view => {
            let name = &create.name;
            let is_plain = !create.or_replace && !create.alter && name.schema.is_none();
            if is_plain && name.name.as_str() == wanted {
                create.definer = None;
                let printed = Statement::CreateView(create).to_string();
                speaks_of_no_other(&printed, others)?;
                return Ok(printed);
            }
            another()
        }
        Ok(Statement::Unsupported { feature }) => Err(format!("{feature} is not there in Nines")),
        Ok(_) => another(),
        Err(why) => Err(format!("error {}: {}", why.code(), why.message())),
    }
}

/// That a statement, as the printer writes it, names nothing of other databases.
fn speaks_of_no_other(printed: &str, others: &[String]) -> Result<(), String> {
    let printed = printed.to_ascii_lowercase();
    let is_named = |other: &&String| {
        let qualifier = format!("{}.", name(&other.to_ascii_lowercase()));
        printed.contains(&qualifier)
    };
    match others.iter().find(is_named) {
        Some(other) => Err(format!(
            "it names database `{other}`, which is here and is not imported: leave it out, and \
             make it by hand"
        )),
        None => Ok(()),
    }
}

/// Changes what MariaDB writes in another way; whether there is any of this. It gives names to
/// checks that have none: each of its tables has its own `CONSTRAINT_1`, and here they are unique
/// in a database. It takes a literal as the default of a TEXT, which has to be an expression here.
fn adapt(body: &mut TableBody) -> bool {
    let mut is_changed = false;
    for column in &mut body.columns {
        let is_large =
            matches!(column.data_type, DataType::Text(..) | DataType::Blob(..) | DataType::Json);
        let Some(ColumnDefault::Literal(value)) = &column.attributes.default else { continue };
        if is_large && *value != Expr::Literal(Literal::Null) {
            column.attributes.default = Some(ColumnDefault::Expr(value.clone()));
            is_changed = true;
        }
    }
    for constraint in &mut body.constraints {
        let TableConstraint::Check(check) = constraint else { continue };
        let number = check.name.as_ref().and_then(|name| name.as_str().strip_prefix("CONSTRAINT_"));
        if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            check.name = None;
            is_changed = true;
        }
    }
    is_changed
}

/// Gives a table and its columns the collations of the source where the text names none; whether
/// any is given. Servers leave out the default one of a character set, and defaults differ.
fn collate(body: &mut TableBody, collations: &Collations) -> bool {
    let mut is_changed = false;
    for column in &mut body.columns {
        let attributes = match &column.data_type {
            DataType::Char(_, attributes)
            | DataType::Varchar(_, attributes)
            | DataType::Text(_, _, attributes)
            | DataType::Enum(_, attributes)
            | DataType::Set(_, attributes) => attributes,
            _ => continue,
        };
        let Some(own) = collations.columns.get(&column.name.as_str().to_lowercase()) else {
            continue;
        };
        // Without a character set of its own it has the collation of the table.
        let is_said = column.attributes.collation.is_some() || attributes.binary;
        if !is_said && (attributes.charset.is_some() || *own != collations.table) {
            column.attributes.collation = Some(Ident::new(own.as_str()));
            is_changed = true;
        }
    }
    let is_said = body.options.iter().any(|option| matches!(option, TableOption::Collate(_)));
    if !is_said && !collations.table.is_empty() {
        body.options.push(TableOption::Collate(Ident::new(collations.table.as_str())));
        is_changed = true;
    }
    is_changed
}

/// Takes away what the journal says that this import has made, and from the journal.
pub(super) fn undo(target: &mut Session, journal: &mut Journal) -> Result<(), String> {
    let said = |why: QueryError| shown(&why);
    target.query("SET SESSION foreign_key_checks = 0").map_err(said)?;
    for (kind, objects) in [("VIEW", &journal.entries.views), ("TABLE", &journal.entries.tables)] {
        for (database, object) in objects {
            let full = format!("{}.{}", name(database), name(object));
            match target.query(&format!("DROP {kind} IF EXISTS {full}")) {
                // The database is gone already; or there is something else of this name.
                Ok(_) | Err(QueryError::Refused(1049 | 1051 | 1347 | 1965, _)) => {}
                Err(why) => return Err(format!("DROP {kind} {full}: {}", shown(&why))),
            }
        }
    }
    let mut left = Vec::new();
    for database in &journal.entries.databases {
        let rows = target
            .query(&format!(
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {}",
                text(database)
            ))
            .map_err(said)?;
        // What somebody else has made there stays.
        if rows.first().map(|row| cell(row, 0)).as_deref() == Some("0") {
            target.query(&format!("DROP DATABASE IF EXISTS {}", name(database))).map_err(said)?;
        } else {
            left.push(database.clone());
        }
    }
    let entries = &mut journal.entries;
    (entries.databases, entries.tables, entries.views) = (left, Vec::new(), Vec::new());
    journal.save()
}

/// The text without the counter of AUTO_INCREMENT, which stands behind the last parenthesis.
fn without_counter(text: &str) -> String {
    let Some(end) = text.rfind('\n') else { return text.to_owned() };
    let (body, options) = text.split_at(end);
    let Some(at) = options.find(" AUTO_INCREMENT=") else { return text.to_owned() };
    let behind = &options[at + " AUTO_INCREMENT=".len()..];
    let behind = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{body}{}{behind}", &options[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(
        text: &str,
        wanted: &str,
        is_view: bool,
        others: &[String],
    ) -> Result<String, String> {
        let object = Object {
            database: "d".to_owned(),
            name: wanted.to_owned(),
            text: text.to_owned(),
            collations: Collations::default(),
            estimate: 0,
        };
        examine(&object, is_view, others)
    }

    #[test]
    fn a_collation_that_a_source_leaves_out_is_kept() {
        let text = "CREATE TABLE `t` (`a` varchar(9), `b` varchar(9) CHARACTER SET latin1, `c` \
                    varchar(9) COLLATE utf8mb4_bin, `n` int) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
        let columns =
            [("a", "utf8mb4_general_ci"), ("b", "latin1_swedish_ci"), ("c", "utf8mb4_bin")];
        let columns = columns.map(|(name, of)| (name.to_owned(), of.to_owned())).into();
        let collations = Collations { table: "utf8mb4_general_ci".to_owned(), columns };
        let (database, name) = ("d".to_owned(), "t".to_owned());
        let object = Object { database, name, text: text.to_owned(), collations, estimate: 0 };
        let made = examine(&object, false, &[]).expect("it makes the table");
        let mode = SqlMode::default();
        let Ok(Statement::CreateTable(create)) = sql_parser::parse(made.as_bytes(), mode) else {
            panic!("{made}");
        };
        let TableDefinition::Columns(body) = create.definition else { panic!("{made}") };
        assert!(body.options.contains(&TableOption::Collate(Ident::new("utf8mb4_general_ci"))));
        let of: Vec<Option<&str>> = body
            .columns
            .iter()
            .map(|column| column.attributes.collation.as_ref().map(Ident::as_str))
            .collect();
        assert_eq!(of, [None, Some("latin1_swedish_ci"), Some("utf8mb4_bin"), None], "{made}");
    }

    #[test]
    fn a_text_of_the_source_makes_what_it_is_of_and_nothing_else() {
        let table = "CREATE TABLE `t` (\n  `a` int(11) NOT NULL DEFAULT current_timestamp(),\n  \
                     PRIMARY KEY (`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 \
                     COLLATE=utf8mb4_general_ci PAGE_CHECKSUM=1";
        assert_eq!(examined(table, "t", false, &[]).as_deref(), Ok(table));
        let view = "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER \
                    VIEW `v` AS select `t`.`a` AS `a` from `t`";
        let made = examined(view, "v", true, &[]).expect("it makes the view");
        assert!(made.contains("VIEW") && !made.contains("DEFINER="), "{made}");
        assert!(!made.contains("root"), "{made}");
        for (bad, is_view) in [
            ("", false),
            ("DROP DATABASE shop", false),
            ("CREATE TABLE t (a INT); DROP DATABASE shop", false),
            ("CREATE TABLE u (a INT)", false),
            ("CREATE TABLE other.t (a INT)", false),
            ("CREATE TABLE t LIKE mysql.user", false),
            ("CREATE TABLE t AS SELECT * FROM mysql.user", false),
            ("CREATE TEMPORARY TABLE t (a INT)", false),
            ("CREATE TABLE IF NOT EXISTS t (a INT)", false),
            ("CREATE VIEW IF NOT EXISTS t AS SELECT 1", true),
            ("CREATE OR REPLACE VIEW t AS SELECT 1", true),
            ("CREATE VIEW u AS SELECT 1", true),
            ("CREATE VIEW other.t AS SELECT 1", true),
            ("CREATE VIEW t AS SELECT 1", false),
            ("CREATE TABLE t (a INT)", true),
            ("CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a = 1", false),
        ] {
            assert!(examined(bad, "t", is_view, &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_of_the_source_reads_nothing_of_other_databases() {
        let others = ["Prod".to_owned(), "my`sql".to_owned()];
        for (text, is_view) in [
            ("CREATE VIEW t AS SELECT * FROM prod . x", true),
            ("CREATE VIEW t AS SELECT (SELECT MAX(a) FROM `PROD`/**/.x) FROM y", true),
            ("CREATE VIEW t AS SELECT 1 FROM y JOIN `my``sql`.user", true),
            ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES prod.x (a))", false),
        ] {
            let why = examined(text, "t", is_view, &others).expect_err(text);
            assert!(why.contains("is not imported"), "{why}");
            assert!(examined(text, "t", is_view, &[]).is_ok(), "{text}");
        }
        let of_its_own = "CREATE VIEW t AS SELECT products.a FROM products JOIN shop.prod";
        assert!(examined(of_its_own, "t", true, &others).is_ok());
    }

    #[test]
    fn what_mariadb_writes_in_another_way_is_changed() {
        let table = "CREATE TABLE `t` (`a` int, `b` text DEFAULT NULL, `c` text DEFAULT 'x', \
                     CONSTRAINT `CONSTRAINT_1` CHECK (`a` > 0), \
                     CONSTRAINT `mine` CHECK (`a` < 9))";
        let made = examined(table, "t", false, &[]).expect("it makes the table");
        assert!(!made.contains("CONSTRAINT_1") && made.contains("mine"), "{made}");
        for part in ["> 0", "DEFAULT NULL", "DEFAULT ('x')"] {
            assert!(made.contains(part), "{part}: {made}");
        }
    }

    #[test]
    fn a_counter_is_no_definition() {
        let text = "CREATE TABLE `t` (\n  `a` int COMMENT ' AUTO_INCREMENT=5'\n) ENGINE=InnoDB \
                    AUTO_INCREMENT=17 COMMENT='x'";
        let without = "CREATE TABLE `t` (\n  `a` int COMMENT ' AUTO_INCREMENT=5'\n) ENGINE=InnoDB \
                       COMMENT='x'";
        assert_eq!(without_counter(text), without);
        assert_eq!(without_counter(without), without);
        assert_eq!(without_counter("x"), "x");
    }
}
