//! Which databases and tables a channel follows: CHANGE REPLICATION FILTER.

use serde::{Deserialize, Serialize};
use sql_expression::SqlError;
use sql_parser::ast::{FilterRule, Ident, ObjectName};

/// The rules of a channel; empty lists say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    do_databases: Vec<String>,
    ignore_databases: Vec<String>,
    do_tables: Vec<(String, String)>,
    ignore_tables: Vec<(String, String)>,
    do_patterns: Vec<String>,
    ignore_patterns: Vec<String>,
    rewrites: Vec<(String, String)>,
}

impl Filter {
    /// Takes a rule in place of those of its kind.
    ///
    /// # Errors
    /// 1235 for a table without a database.
    pub(crate) fn set(&mut self, rule: &FilterRule) -> Result<(), SqlError> {
        let names = |idents: &[Ident]| -> Vec<String> {
            idents.iter().map(|ident| ident.as_str().to_owned()).collect()
        };
        let tables = |objects: &[ObjectName]| -> Result<Vec<(String, String)>, SqlError> {
            let of = |object: &ObjectName| match &object.schema {
                Some(schema) => Ok((schema.as_str().to_owned(), object.name.as_str().to_owned())),
                None => Err(SqlError::new(
                    3082,
                    "HY000",
                    "Supplied filter list contains a value which is not in the required format \
                     'db_pattern.table_pattern'",
                )),
            };
            objects.iter().map(of).collect()
        };
        let patterns = |texts: &[Box<[u8]>]| -> Vec<String> {
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        };
        match rule {
            FilterRule::DoDatabases(list) => self.do_databases = names(list),
            FilterRule::IgnoreDatabases(list) => self.ignore_databases = names(list),
            FilterRule::DoTables(list) => self.do_tables = tables(list)?,
            FilterRule::IgnoreTables(list) => self.ignore_tables = tables(list)?,
            FilterRule::DoPatterns(list) => self.do_patterns = patterns(list),
            FilterRule::IgnorePatterns(list) => self.ignore_patterns = patterns(list),
            FilterRule::RewriteDatabases(list) => {
                let pair = |(from, to): &(Ident, Ident)| {
                    (from.as_str().to_owned(), to.as_str().to_owned())
                };
                self.rewrites = list.iter().map(pair).collect();
            }
        }
        Ok(())
    }

    /// The name that a database of the source has here.
    pub(crate) fn rewritten<'n>(&'n self, database: &'n str) -> &'n str {
        let found = self.rewrites.iter().find(|(from, _)| from == database);
        found.map_or(database, |(_, to)| to)
    }

    /// Whether changes in a database are followed at all.
    pub(crate) fn takes_database(&self, database: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == database);
        if !self.do_databases.is_empty() {
            return is_in(&self.do_databases);
        }
        !is_in(&self.ignore_databases)
    }

    /// Whether changes of a table are followed, of a database that is.
    pub(crate) fn takes_table(&self, database: &str, table: &str) -> bool {
        let is_in = |list: &[(String, String)]| {
            list.iter().any(|(of, name)| of == database && name == table)
        };
        let full = format!("{database}.{table}");
        let is_like = |list: &[String]| {
            list.iter().any(|pattern| matches(pattern.as_bytes(), full.as_bytes()))
        };
        if is_in(&self.do_tables) {
            return true;
        }
        if is_in(&self.ignore_tables) {
            return false;
        }
        if is_like(&self.do_patterns) {
            return true;
        }
        if is_like(&self.ignore_patterns) {
            return false;
        }
        // Who names what is followed leaves out the rest.
        self.do_tables.is_empty() && self.do_patterns.is_empty()
    }

    /// The rules as SHOW REPLICA STATUS has them, in the order of its columns, with the rewritten
    /// databases last.
    pub(crate) fn shown(&self) -> [String; 7] {
        let tables = |list: &[(String, String)]| {
            let names: Vec<String> = list.iter().map(|(of, name)| format!("{of}.{name}")).collect();
            names.join(",")
        };
        let pairs: Vec<String> =
            self.rewrites.iter().map(|(from, to)| format!("({from},{to})")).collect();
        [
            self.do_databases.join(","),
            self.ignore_databases.join(","),
            tables(&self.do_tables),
            tables(&self.ignore_tables),
            self.do_patterns.join(","),
            self.ignore_patterns.join(","),
            pairs.join(","),
        ]
    }
}

/// LIKE: `%` is any text, `_` any byte, and a backslash makes the next one itself. Takes a time of
/// the product of the lengths at most.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where to go on when what follows the last `%` does not fit.
    let mut again: Option<(usize, usize)> = None;
    while place < text.len() {
        let (is_any, one, size) = match pattern.get(at..) {
            Some([b'%', ..]) => {
                again = Some((at + 1, place));
                at += 1;
                continue;
            }
            Some([b'_', ..]) => (true, 0, 1),
            Some([b'\\', byte, ..]) => (false, *byte, 2),
            Some([byte, ..]) => (false, *byte, 1),
            _ => (false, 0, 0),
        };
        if size > 0 && (is_any || one == text[place]) {
            at += size;
            place += 1;
            continue;
        }
        let Some((behind, from)) = again else { return false };
        again = Some((behind, from + 1));
        (at, place) = (behind, from + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        let statement = format!("CHANGE REPLICATION FILTER {text}");
        let parsed = sql_parser::parse(statement.as_bytes(), sql_parser::SqlMode::default());
        let Ok(sql_parser::ast::Statement::ChangeFilter(change)) = parsed else {
            panic!("{statement}")
        };
        let mut filter = Filter::default();
        for rule in &change.rules {
            filter.set(rule).expect("a rule");
        }
        filter
    }

    #[test]
    fn databases_are_named_or_left_out() {
        let named = filter("REPLICATE_DO_DB = (a), REPLICATE_IGNORE_DB = (a, b)");
        assert_eq!(["a", "b", "c"].map(|name| named.takes_database(name)), [true, false, false]);
        let without = filter("REPLICATE_IGNORE_DB = (b)");
        assert_eq!(["a", "b"].map(|name| without.takes_database(name)), [true, false]);
        assert_eq!(filter("REPLICATE_REWRITE_DB = ((a, x))").rewritten("a"), "x");
    }

    #[test]
    fn tables_are_named_before_patterns_count() {
        let of = filter(
            "REPLICATE_IGNORE_TABLE = (d.t1), REPLICATE_WILD_DO_TABLE = ('d.t%'), \
             REPLICATE_DO_TABLE = (e.x)",
        );
        let takes = |database, table| of.takes_table(database, table);
        assert!(!takes("d", "t1") && takes("d", "t2") && takes("e", "x") && !takes("e", "y"));
        let of = filter("REPLICATE_WILD_IGNORE_TABLE = ('d.a\\_b%')");
        assert!(!of.takes_table("d", "a_bc") && of.takes_table("d", "axbc"));
        assert!(matches(b"%a%b", b"xaxbxb") && !matches(b"%a%b", b"xaxbx") && matches(b"%%", b""));
        let parsed = sql_parser::parse(
            b"CHANGE REPLICATION FILTER REPLICATE_DO_TABLE = (t)",
            sql_parser::SqlMode::default(),
        );
        let Ok(sql_parser::ast::Statement::ChangeFilter(change)) = parsed else { panic!() };
        assert_eq!(Filter::default().set(&change.rules[0]).unwrap_err().code(), 3082);
    }
}
