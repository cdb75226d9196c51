//! Conflicts between clusters that write to the same rows: which table has which function, and what
//! each function lets through.
//!
//! # Owns
//! The rules of the table `mysql.ndb_replication`, the functions by NDB's names, and their decision
//! tables.
//! # Guarantees
//! Of several rules for a table the one counts that is more exact: first in the database, then in
//! the table, then in the server.
//! # Not here
//! Changes of rows, and the exceptions tables (`replica`).

use client::ScanSpec;
use model::Value;
use sql_expression::SqlError;

use super::filter::matches;
use crate::catalog::kernel_form;
use crate::catalog::names::NDB_REPLICATION;
use crate::kernel::Kernel;
use crate::own_table::steadily;

/// Kinds of binary log that a rule may ask for. The log has full images of rows and updates as
/// updates, which serves all of them; 1, no log, is refused.
const BINLOG_TYPES: [u64; 7] = [0, 2, 3, 6, 7, 8, 9];

/// A function that decides whether a change from elsewhere is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// NDB$OLD: the row is as it was where the change was made first.
    Old,
    /// NDB$MAX: the larger value wins.
    Max,
    /// NDB$MAX_DELETE_WIN: as MAX, and deletions win.
    MaxDeleteWin,
    /// NDB$MAX_INS: as MAX, also between insertions.
    MaxIns,
    /// NDB$MAX_DEL_WIN_INS: as both.
    MaxDelWinIns,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A row comes.
    Write,
    /// A row changes.
    Update,
    /// A row goes.
    Delete,
}

/// What has to hold of the row that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// There is one, or for an insertion none.
    Fits,
    /// Its column has the value that the change found where it was made.
    AsBefore,
    /// Its column has a smaller value than the change brings.
    Below,
}

impl Function {
    /// All, in the order in which conflicts are counted.
    pub(crate) const ALL: [Self; 5] =
        [Self::Max, Self::Old, Self::MaxDeleteWin, Self::MaxIns, Self::MaxDelWinIns];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Old => "NDB$OLD",
            Self::Max => "NDB$MAX",
            Self::MaxDeleteWin => "NDB$MAX_DELETE_WIN",
            Self::MaxIns => "NDB$MAX_INS",
            Self::MaxDelWinIns => "NDB$MAX_DEL_WIN_INS",
        }
    }

    /// What lets a change through. An insertion that finds a row is decided by `of_found`.
    pub(crate) fn condition(self, operation: Operation) -> Condition {
        match (operation, self) {
            (Operation::Write, _) => Condition::Fits,
            (Operation::Update, Self::Old) => Condition::AsBefore,
            (Operation::Update, _) => Condition::Below,
            (Operation::Delete, Self::MaxDeleteWin | Self::MaxDelWinIns) => Condition::Fits,
            (Operation::Delete, _) => Condition::AsBefore,
        }
    }

    /// Whether an insertion takes the place of a row that is there, if that is smaller.
    pub(crate) fn decides_insertions(self) -> bool {
        matches!(self, Self::MaxIns | Self::MaxDelWinIns)
    }
}

/// The function of a table, and the column that it looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    pub(crate) function: Function,
    pub(crate) column: String,
}

/// Functions that look at epochs, which are not there.
const OF_EPOCHS: [&str; 4] = ["NDB$EPOCH", "NDB$EPOCH_TRANS", "NDB$EPOCH2", "NDB$EPOCH2_TRANS"];

impl Resolution {
    /// Reads `NDB$MAX(column)` and the like; none for no function.
    ///
    /// # Errors
    /// Of what is none: the text says which there are.
    fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let (name, argument) = text.split_once('(').unwrap_or((text, ""));
        let name = name.trim().to_uppercase();
        let argument = argument.trim().strip_suffix(')').map(|column| column.trim());
        if OF_EPOCHS.contains(&name.as_str()) {
            return Err(format!(
                "{name} is not there yet: use NDB$MAX_DEL_WIN_INS, or another one of the functions \
                 that look at a column"
            ));
        }
        let function = Function::ALL.into_iter().find(|function| function.name() == name);
        let Some(function) = function else {
            let all: Vec<&str> = Function::ALL.iter().map(|function| function.name()).collect();
            return Err(format!("there is no such function; there are {}", all.join(", ")));
        };
        match argument {
            Some(column) if !column.is_empty() => {
                Ok(Some(Self { function, column: column.trim_matches('`').to_owned() }))
            }
            _ => Err(format!("{name} needs the name of a column in brackets")),
        }
    }
}

/// A row of `mysql.ndb_replication`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    database: String,
    table: String,
    /// 0 for all.
    server: u64,
    resolution: Option<Resolution>,
}

impl Rule {
    /// # Errors
    /// 1296 for a row that means nothing here.
    fn of(key: (String, String, u64), binlog_type: u64, function: &str) -> Result<Self, SqlError> {
        let (database, table, server) = key;
        let refused = |why: &str| {
            let text = format!(
                "row ('{database}', '{table}', {server}) of mysql.ndb_replication: \
                 conflict_fn '{function}', binlog_type {binlog_type}: {why}"
            );
            SqlError::new(1296, "HY000", text)
        };
        if !BINLOG_TYPES.contains(&binlog_type) {
            return Err(refused("the type is none of 0, 2, 3, 6, 7, 8 and 9"));
        }
        let resolution = Resolution::parse(function).map_err(|why| refused(&why))?;
        Ok(Self { database, table, server, resolution })
    }

    /// How exact it is, if it is about a table and a server.
    fn rank(&self, database: &str, table: &str, server: u32) -> Option<[bool; 3]> {
        let fits = |pattern: &str, name: &str| {
            matches(pattern.to_lowercase().as_bytes(), name.to_lowercase().as_bytes())
        };
        let is_of_server = self.server == u64::from(server);
        let is_about = fits(&self.database, database)
            && fits(&self.table, table)
            && (is_of_server || self.server == 0);
        is_about.then_some([
            self.database.eq_ignore_ascii_case(database),
            self.table.eq_ignore_ascii_case(table),
            is_of_server,
        ])
    }
}

/// What is to decide about a table, by rules.
pub(crate) fn resolution<'r>(
    rules: &'r [Rule],
    database: &str,
    table: &str,
    server: u32,
) -> Option<&'r Resolution> {
    let ranked = rules.iter().filter_map(|rule| Some((rule.rank(database, table, server)?, rule)));
    let (_, best) = ranked.max_by_key(|(rank, _)| *rank)?;
    best.resolution.as_ref()
}

/// The rules that users have written; none if the table is not there.
///
/// # Errors
/// 1296 for a row that means nothing here, or a table without the columns.
pub(crate) async fn rules(kernel: &Kernel) -> Result<Vec<Rule>, SqlError> {
    let Some(table) = kernel.cluster().table_named(NDB_REPLICATION).cloned() else {
        return Ok(Vec::new());
    };
    let definition = kernel_form::read(&table)?;
    let mut columns = Vec::new();
    for name in ["db", "table_name", "server_id", "binlog_type", "conflict_fn"] {
        let Some((_, column)) = definition.column(name) else {
            let text = format!("mysql.ndb_replication has no column {name}: make it as NDB has it");
            return Err(SqlError::new(1296, "HY000", text));
        };
        columns.push(usize::from(column.column.0));
    }
    let scan = async || kernel.beside().scan(ScanSpec::heap(table.id)).collect().await;
    let rows = steadily(kernel, scan).await?;
    let read = |row: &Vec<Value>| {
        let text = |at: usize| match row.get(columns[at]) {
            Some(Value::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let number = |at: usize| match row.get(columns[at]) {
            Some(Value::UInt(number)) => *number,
            Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(u64::MAX),
            _ => 0,
        };
        Rule::of((text(0), text(1), number(2)), number(3), &text(4))
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(database: &str, table: &str, server: u64, function: &str) -> Rule {
        let name = (database.to_owned(), table.to_owned(), server);
        Rule::of(name, 7, function).unwrap_or_else(|error| panic!("{}", error.message()))
    }

    #[test]
    fn each_function_has_its_decision_table() {
        use Condition::{AsBefore, Below, Fits};
        // Function, insertion, update, deletion, whether an insertion may take a row's place.
        let table = [
            (Function::Old, Fits, AsBefore, AsBefore, false),
            (Function::Max, Fits, Below, AsBefore, false),
            (Function::MaxDeleteWin, Fits, Below, Fits, false),
            (Function::MaxIns, Fits, Below, AsBefore, true),
            (Function::MaxDelWinIns, Fits, Below, Fits, true),
        ];
        for (function, write, update, delete, decides) in table {
            let found = [Operation::Write, Operation::Update, Operation::Delete]
                .map(|operation| function.condition(operation));
            assert_eq!(found, [write, update, delete], "{function:?}");
            assert_eq!(function.decides_insertions(), decides, "{function:?}");
        }
    }

    #[test]
    fn functions_are_read_by_their_names() {
        for function in Function::ALL {
            let text = format!("{}(ts)", function.name().to_lowercase());
            let read = Resolution::parse(&text).unwrap().unwrap();
            assert_eq!((read.function, read.column.as_str()), (function, "ts"));
        }
        assert_eq!(Resolution::parse("  "), Ok(None));
        assert_eq!(Resolution::parse("NDB$MAX( `a b` )").unwrap().unwrap().column, "a b");
        for refused in ["NDB$MAX", "NDB$MAX()", "NDB$MAX(a", "MAX(a)", "NDB$EPOCH2_TRANS()"] {
            assert!(Resolution::parse(refused).is_err(), "{refused}");
        }
        let epoch = Resolution::parse("NDB$EPOCH()").unwrap_err();
        assert!(epoch.starts_with("NDB$EPOCH is not there yet"), "{epoch}");
    }

    #[test]
    fn the_most_exact_rule_counts() {
        let of = |rules: &[Rule], table: &str, server: u32| {
            resolution(rules, "shop", table, server).map(|found| found.column.clone())
        };
        // From the least exact to the most exact one.
        let rules = [
            rule("%", "%", 0, "NDB$MAX(a)"),
            rule("%", "%", 7, "NDB$MAX(b)"),
            rule("%", "cart", 0, "NDB$MAX(c)"),
            rule("sh_p", "cart", 7, "NDB$MAX(d)"),
            rule("shop", "c%", 0, "NDB$MAX(e)"),
            rule("SHOP", "c%", 7, "NDB$MAX(f)"),
            rule("shop", "cart", 0, "NDB$MAX(g)"),
            rule("shop", "cart", 7, "NDB$MAX(h)"),
        ];
        for count in 1..=rules.len() {
            let letter = char::from(b'a' + count as u8 - 1).to_string();
            assert_eq!(of(&rules[..count], "cart", 7), Some(letter), "{count}");
            let mut turned = rules[..count].to_vec();
            turned.reverse();
            assert_eq!(of(&turned, "cart", 7), of(&rules[..count], "cart", 7));
        }
        assert_eq!(of(&rules, "items", 7).as_deref(), Some("b"));
        assert_eq!(of(&rules, "items", 8).as_deref(), Some("a"));
        assert_eq!(of(&rules[3..], "items", 8), None);
        // A rule without a function takes its table out.
        let out = [rules[0].clone(), rule("shop", "cart", 0, "")];
        assert_eq!(of(&out, "cart", 7), None);
    }

    #[test]
    fn a_rule_that_means_nothing_names_itself() {
        let name = || ("shop".to_owned(), "cart".to_owned(), 0);
        let error = Rule::of(name(), 1, "NDB$MAX(a)").unwrap_err();
        assert!(error.message().contains("('shop', 'cart', 0)"), "{}", error.message());
        let error = Rule::of(name(), 7, "NDB$EPOCH_TRANS()").unwrap_err();
        assert!(error.message().contains("NDB$EPOCH_TRANS is not there"), "{}", error.message());
    }
}
