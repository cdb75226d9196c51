//! Values of the source that cannot be copied, found before anything is.
//!
//! # Owns
//! Reading how long the longest values of TEXT, BLOB and JSON are, against the longest statement
//! here ([`check`]), and where ENUM columns have the value of an error.
//! # Not here
//! What else is refused at its row, and told with its key (`copy`).

use mysql_client::{QueryError, Session};

use super::Migration;
use super::follow::whole;
use super::schema::Definitions;
use super::source::cell;
use crate::transfer::column::{name, text};
use crate::transfer::import::BATCH_BYTES;
use crate::transfer::shown;

/// The longest statement that can be allowed.
const STATEMENT_MAX: u64 = 1 << 30;
/// What a statement has besides a value that is long: its head, other columns, and rows before.
const STATEMENT_HEAD: u64 = BATCH_BYTES as u64 + (256 << 10);

/// A column whose values are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Looked {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// TEXT and JSON.
    Text,
    /// BLOB: two digits for each byte.
    Bytes,
    Enum,
}

/// Looks at tables with TEXT, BLOB or JSON columns, and at all that have ENUM columns when `is_all`
/// is set: each is read once. What cannot be copied, with the remedy.
pub(super) fn check(
    migration: &Migration,
    definitions: &Definitions,
    source: &mut Session,
    target: &mut Session,
    is_all: bool,
) -> Result<Vec<String>, String> {
    let at_source = |why: QueryError| migration.at_source(&why);
    let limit = target.number("SELECT @@max_allowed_packet").map_err(|why| shown(&why))?;
    let limit = u64::try_from(limit).unwrap_or(STATEMENT_MAX);
    let mut problems = Vec::new();
    for table in &definitions.tables {
        let full = table.full();
        let rows = source
            .query(&format!(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema \
                 = {} AND table_name = {} AND extra NOT LIKE '% GENERATED%' ORDER BY \
                 ordinal_position",
                text(&table.database),
                text(&table.name)
            ))
            .map_err(at_source)?;
        let columns: Vec<Looked> = rows
            .iter()
            .filter_map(|row| Some(Looked { name: cell(row, 0), kind: kind(&cell(row, 1))? }))
            .collect();
        let is_long = columns.iter().any(|column| column.kind != Kind::Enum);
        if columns.is_empty() || !is_long && !is_all {
            continue;
        }
        let quoted = format!("{}.{}", name(&table.database), name(&table.name));
        let rows = source
            .query(&statement(&columns, &quoted))
            .map_err(|why| format!("{full}: {}", at_source(why)))?;
        let Some(row) = rows.first() else { continue };
        for (at, column) in columns.iter().enumerate() {
            let found = whole(row, at).unwrap_or(0);
            let of = format!("{full}, column {}", column.name);
            problems.extend(match column.kind {
                Kind::Enum => wrong_enum(&of, found),
                Kind::Text | Kind::Bytes => too_long(&of, found, limit),
            });
        }
        // Values that fit, in a row that does not.
        if problems.is_empty() {
            let found = whole(row, columns.len()).unwrap_or(0);
            problems.extend(too_long(&format!("{full}, all columns of a row"), found, limit));
        }
    }
    Ok(problems)
}

fn kind(data_type: &str) -> Option<Kind> {
    match data_type.to_ascii_lowercase().as_str() {
        "tinytext" | "text" | "mediumtext" | "longtext" | "json" => Some(Kind::Text),
        "tinyblob" | "blob" | "mediumblob" | "longblob" => Some(Kind::Bytes),
        "enum" => Some(Kind::Enum),
        _ => None,
    }
}

/// The statement that reads a table: for each column bytes of its longest value in a statement, or
/// rows with the value of an error; at the end bytes of the longest row.
fn statement(columns: &[Looked], quoted: &str) -> String {
    let bytes = |column: &Looked| {
        let name = name(&column.name);
        match column.kind {
            Kind::Text => Some(format!("LENGTH(CONVERT({name} USING utf8mb4))")),
            Kind::Bytes => Some(format!("LENGTH({name}) * 2")),
            Kind::Enum => None,
        }
    };
    let mut read: Vec<String> = columns
        .iter()
        .map(|column| match bytes(column) {
            Some(bytes) => format!("MAX({bytes})"),
            None => format!("SUM({} + 0 = 0)", name(&column.name)),
        })
        .collect();
    let all: Vec<String> =
        columns.iter().filter_map(bytes).map(|bytes| format!("COALESCE({bytes}, 0)")).collect();
    read.push(if all.is_empty() { "0".to_owned() } else { format!("MAX({})", all.join(" + ")) });
    format!("SELECT {} FROM {quoted}", read.join(", "))
}

/// What is told of values of so many bytes in a statement.
fn too_long(of: &str, bytes: u64, limit: u64) -> Option<String> {
    let needed = bytes.saturating_add(STATEMENT_HEAD);
    if bytes.saturating_add(STATEMENT_HEAD.min(limit / 2)) < limit {
        return None;
    }
    if needed >= STATEMENT_MAX {
        return Some(format!(
            "{of}: {bytes} bytes in a statement, and no statement here may be longer than 1 GiB: \
             make it shorter at the source, or leave the table out by --skip"
        ));
    }
    // As MySQL, the variable keeps whole kilobytes.
    let wanted = (needed + 1).next_multiple_of(1 << 20).min(STATEMENT_MAX);
    Some(format!(
        "{of}: {bytes} bytes in a statement, and max_allowed_packet here is {limit}: SET GLOBAL \
         max_allowed_packet = {wanted} here (at most 1 GiB)"
    ))
}

/// What is told of rows whose ENUM has the value of an error, which no table here takes.
fn wrong_enum(of: &str, rows: u64) -> Option<String> {
    (rows > 0).then(|| {
        format!(
            "{of}: {rows} rows have ENUM's empty error value (index 0), which is refused here: \
             UPDATE them at the source"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_longer_than_a_statement_are_named() {
        assert_eq!(too_long("d.t, column c", 1 << 20, 64 << 20), None);
        let why = too_long("d.t, column c", 64 << 20, 64 << 20).expect("it is too long");
        for part in ["d.t, column c", "67108864", "SET GLOBAL max_allowed_packet = 69206016"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        let why = too_long("d.t, column c", 1 << 30, 1 << 30).expect("it is too long");
        assert!(why.contains("--skip") && !why.contains("SET GLOBAL"), "{why}");
        assert_eq!(too_long("d.t, column c", 100, 1024), None);
        assert_eq!(wrong_enum("d.t, column e", 0), None);
    }

    #[test]
    fn a_table_is_read_once_for_all_its_columns() {
        let column = |name: &str, of: &str| {
            kind(of).map(|kind| Looked { name: name.to_owned(), kind }).expect("it is looked at")
        };
        let columns = [column("a", "LONGTEXT"), column("b`", "blob"), column("e", "enum")];
        assert_eq!(
            statement(&columns, "`d`.`t`"),
            "SELECT MAX(LENGTH(CONVERT(`a` USING utf8mb4))), MAX(LENGTH(`b```) * 2), SUM(`e` + 0 = \
             0), MAX(COALESCE(LENGTH(CONVERT(`a` USING utf8mb4)), 0) + COALESCE(LENGTH(`b```) * 2, \
             0)) FROM `d`.`t`"
        );
        assert_eq!(kind("varchar"), None);
    }
}
