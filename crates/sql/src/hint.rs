//! Optimizer hints of a statement, taken together.
//!
//! # Owns
//! Which query block and which table a hint is for, which hints contradict others, and the warnings
//! about both.
//! # Guarantees
//! Of hints that contradict each other the first counts.
//! # Limits
//! Tables and indexes are looked for when the block is planned (`plan::hint`). Hints in the text of
//! a view have no effect.
//! # Not here
//! The grammar (`sql-parser`), variables (`variables::hint`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sql_expression::SqlError;
use sql_parser::ast::{
    self, Hint, HintArgument, HintTable, HintValue, HintedBlock, Ident, Statement,
};

use crate::catalog::text::quoted;
use crate::variables::hintable::is_hintable;
use crate::variables::registry;

/// The hints of a statement.
#[derive(Debug, Default)]
pub(crate) struct StatementHints {
    /// What is wrong with them, as far as their text tells.
    pub(crate) warnings: Vec<SqlError>,
    /// MAX_EXECUTION_TIME, in milliseconds.
    pub(crate) execution_time: Option<u32>,
    /// SET_VAR: names in lower case, each once.
    pub(crate) variables: Vec<(String, HintValue)>,
    /// By number.
    blocks: BTreeMap<u32, BlockHints>,
}

/// The hints about the tables of a query block.
#[derive(Debug)]
pub(crate) struct BlockHints {
    /// What hints call the block.
    name: String,
    /// In the order in which they stand in the text.
    pub(crate) hints: Vec<TableHint>,
}

/// A hint about tables.
#[derive(Debug)]
pub(crate) struct TableHint {
    pub(crate) name: &'static str,
    pub(crate) subject: Subject,
}

/// What a hint is about.
#[derive(Debug)]
pub(crate) enum Subject {
    /// All tables of the block.
    Block,
    /// A table.
    Table(String),
    /// A table and some of its indexes, or none for all.
    Indexes(String, Vec<String>),
    /// The order of tables. Those of other blocks are left out.
    Order(Vec<String>),
}

impl StatementHints {
    /// The hints of the blocks of a statement; none if there are none.
    pub(crate) fn of(blocks: &[HintedBlock], statement: &Statement) -> Option<Rc<Self>> {
        if blocks.is_empty() || matches!(statement, Statement::CreateView(_)) {
            return None;
        }
        let mut collector = Collector::default();
        for block in blocks {
            let complaints = block.hints.complaints.0.iter();
            collector.hints.warnings.extend(complaints.map(crate::error::of_parser));
        }
        blocks.iter().for_each(|block| collector.name_block(block));
        let is_query = match statement {
            Statement::Query(_) => true,
            Statement::Explain(explain) => match &explain.target {
                ast::ExplainTarget::Statement(target) => matches!(**target, Statement::Query(_)),
                _ => false,
            },
            _ => false,
        };
        for block in blocks {
            for hint in &block.hints.list {
                collector.add(block, hint, is_query);
            }
        }
        Some(Rc::new(collector.hints))
    }

    /// Those of a query block.
    pub(crate) fn block(&self, number: u32) -> Option<&BlockHints> {
        self.blocks.get(&number)
    }
}

impl BlockHints {
    /// Warning 3128.
    pub(crate) fn unresolved(&self, hint: &str, table: &str, index: Option<&str>) -> SqlError {
        let mut name = format!("{}@{}", quoted(table), quoted(&self.name));
        if let Some(index) = index {
            name = format!("{name} {}", quoted(index));
        }
        SqlError::of::<3128>(&[&name, &hint])
    }

    /// Whether a table has the hint of this name, or the one that undoes it; none if it has
    /// neither. What is said of the table comes before what is said of all.
    pub(crate) fn says(&self, hint: &str, undone: &str, table: &str) -> Option<bool> {
        let is_of = |at: &&TableHint, exactly: bool| match &at.subject {
            Subject::Block => !exactly,
            Subject::Table(of) => exactly && of.eq_ignore_ascii_case(table),
            _ => false,
        };
        let of_switch = |at: &&TableHint| at.name == hint || at.name == undone;
        let found = |exactly| {
            self.hints.iter().filter(of_switch).find(|at| is_of(at, exactly)).map(|at| at.name)
        };
        found(true).or_else(|| found(false)).map(|name| name == hint)
    }
}

/// Puts hints together.
#[derive(Default)]
struct Collector {
    hints: StatementHints,
    /// Names that blocks were given.
    names: BTreeMap<u32, Ident>,
    /// What has been said: block, table, index, and the hint without its NO_.
    said: BTreeSet<(u32, String, String, &'static str)>,
}

impl Collector {
    fn warn(&mut self, warning: SqlError) {
        if !self.hints.warnings.contains(&warning) {
            self.hints.warnings.push(warning);
        }
    }

    fn conflict(&mut self, hint: &str) {
        self.warn(SqlError::of::<3126>(&[&hint]));
    }

    /// QB_NAME.
    fn name_block(&mut self, block: &HintedBlock) {
        for hint in &block.hints.list {
            let HintArgument::Name(name) = &hint.argument else { continue };
            if hint.name != "QB_NAME" {
                continue;
            }
            let is_taken =
                self.names.values().any(|known| known.eq_ignore_ascii_case(name.as_str()));
            if is_taken || self.names.contains_key(&block.block) {
                self.conflict(&format!("QB_NAME({})", quoted(name.as_str())));
            } else {
                self.names.insert(block.block, name.clone());
            }
        }
    }

    /// What a block is called.
    fn name_of(&self, block: u32) -> String {
        match self.names.get(&block) {
            Some(name) => name.as_str().to_owned(),
            None => format!("select#{block}"),
        }
    }

    /// The block of a name.
    fn block_named(&self, name: &Ident) -> Option<u32> {
        let given = self.names.iter().find(|(_, known)| known.eq_ignore_ascii_case(name.as_str()));
        let number = || name.as_str().strip_prefix("select#")?.parse().ok();
        given.map(|(block, _)| *block).or_else(number)
    }

    /// The block that a hint is for, its own where none is named; none and a warning where there is
    /// no such block.
    fn block_for(&mut self, own: u32, named: Option<&Ident>, hint: &Hint) -> Option<u32> {
        let Some(named) = named else { return Some(own) };
        let found = self.block_named(named);
        if found.is_none() {
            self.warn(SqlError::of::<3127>(&[&quoted(named.as_str()), &hint.name]));
        }
        found
    }

    fn add(&mut self, block: &HintedBlock, hint: &Hint, is_query: bool) {
        match &hint.argument {
            HintArgument::Name(_) => {}
            HintArgument::Time(time) => {
                if !is_query || block.block != 1 {
                    self.warn(SqlError::of::<3125>(&[]));
                } else if self.hints.execution_time.is_some() {
                    self.conflict(&format!("MAX_EXECUTION_TIME({time})"));
                } else {
                    self.hints.execution_time = Some(*time);
                }
            }
            HintArgument::Assignment(name, value) => self.assign(name, value),
            HintArgument::Strategies(words) => {
                let Some(block) = self.block_for(block.block, hint.block.as_ref(), hint) else {
                    return;
                };
                let base = base(hint.name);
                if !self.said.insert((block, String::new(), String::new(), base)) {
                    self.conflict(&format!("{}( {})", hint.name, words.join(",")));
                }
            }
            HintArgument::Tables(tables) if hint.name.starts_with("JOIN_") => {
                if let Some(block) = self.block_for(block.block, hint.block.as_ref(), hint) {
                    self.add_order(block, hint, tables);
                }
            }
            HintArgument::Tables(tables) if tables.is_empty() => {
                if let Some(block) = self.block_for(block.block, hint.block.as_ref(), hint)
                    && self.is_new(block, hint, None, &[])
                {
                    self.put(block, hint, Subject::Block);
                }
            }
            HintArgument::Tables(tables) => {
                for table in tables {
                    let named = table.block.as_ref().or(hint.block.as_ref());
                    if let Some(block) = self.block_for(block.block, named, hint)
                        && self.is_new(block, hint, Some(table), &[])
                    {
                        let name = table.name.as_str().to_owned();
                        self.put(block, hint, Subject::Table(name));
                    }
                }
            }
            HintArgument::Indexes(table, indexes) => {
                let named = table.block.as_ref().or(hint.block.as_ref());
                let Some(block) = self.block_for(block.block, named, hint) else { return };
                if self.is_new(block, hint, Some(table), indexes) {
                    let indexes = indexes.iter().map(|index| index.as_str().to_owned()).collect();
                    let name = table.name.as_str().to_owned();
                    self.put(block, hint, Subject::Indexes(name, indexes));
                }
            }
        }
    }

    fn put(&mut self, block: u32, hint: &Hint, subject: Subject) {
        let name = self.name_of(block);
        let of_block = self.hints.blocks.entry(block);
        let of_block = of_block.or_insert_with(|| BlockHints { name, hints: Vec::new() });
        of_block.hints.push(TableHint { name: hint.name, subject });
    }

    /// Whether nothing has been said of it yet, neither this nor the opposite; else a warning.
    fn is_new(
        &mut self,
        block: u32,
        hint: &Hint,
        table: Option<&HintTable>,
        indexes: &[Ident],
    ) -> bool {
        let base = base(hint.name);
        let name = table.map_or("", |table| table.name.as_str()).to_lowercase();
        // Hints about the choice of indexes say all that there is to say of a table.
        let one_by_one = !base.ends_with("INDEX") && !indexes.is_empty();
        let mut keys: Vec<String> = vec![String::new()];
        if one_by_one {
            keys = indexes.iter().map(|index| index.as_str().to_lowercase()).collect();
        }
        let mut is_new = true;
        for key in keys {
            is_new &= self.said.insert((block, name.clone(), key, base));
        }
        if !is_new {
            let mut shown = table.map_or(String::new(), |table| quoted(table.name.as_str()));
            let of = table.and_then(|table| table.block.as_ref()).or(hint.block.as_ref());
            if let Some(of) = of {
                shown = format!("{shown}@{}", quoted(of.as_str()));
            }
            let indexes: Vec<String> =
                indexes.iter().map(|index| format!(" {}", quoted(index.as_str()))).collect();
            self.conflict(&format!("{}({shown} {})", hint.name, indexes.join(",")));
        }
        is_new
    }

    /// JOIN_FIXED_ORDER stands alone; JOIN_ORDER may stand often, the others once.
    fn add_order(&mut self, block: u32, hint: &Hint, tables: &[HintTable]) {
        let key = |name| (block, String::new(), String::new(), name);
        let any = !self.said.insert(key("JOIN_"));
        let fixed = self.said.contains(&key("JOIN_FIXED_ORDER"));
        let again = !self.said.insert(key(hint.name)) && hint.name != "JOIN_ORDER";
        if fixed || again || any && hint.name == "JOIN_FIXED_ORDER" {
            let names: Vec<String> =
                tables.iter().map(|table| quoted(table.name.as_str())).collect();
            return self.conflict(&format!("{}( {})", hint.name, names.join(",")));
        }
        let mut order = Vec::new();
        for table in tables {
            let of = self.block_for(block, table.block.as_ref(), hint);
            if of == Some(block) {
                order.push(table.name.as_str().to_owned());
            }
        }
        self.put(block, hint, Subject::Order(order));
    }

    /// SET_VAR.
    fn assign(&mut self, name: &Ident, value: &HintValue) {
        let lower = name.as_str().to_ascii_lowercase();
        if registry::find(&lower).is_none() {
            let shown = format!("'{name}'");
            self.hints.warnings.push(SqlError::of::<3128>(&[&shown, &"SET_VAR"]));
        } else if !is_hintable(&lower) {
            self.warn(SqlError::of::<3637>(&[&lower]));
        } else if self.hints.variables.iter().any(|(known, _)| *known == lower) {
            let shown = match value {
                HintValue::Number(number) => number.to_string(),
                HintValue::Name(name) => name.to_string(),
                HintValue::Text(text) => format!("'{text}'"),
            };
            self.conflict(&format!("SET_VAR({name}={shown}) "));
        } else {
            self.hints.variables.push((lower, value.clone()));
        }
    }
}

/// A hint that is switched on or off, by its name when on.
fn base(hint: &'static str) -> &'static str {
    hint.strip_prefix("NO_").unwrap_or(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(sql: &str) -> Vec<String> {
        let parsed = sql_parser::parse_at(sql.as_bytes(), 0, Default::default()).unwrap();
        let hints = StatementHints::of(&parsed.hints, &parsed.statement);
        let warnings = hints.iter().flat_map(|hints| &hints.warnings);
        warnings.map(|error| format!("{} {}", error.code(), error.message())).collect()
    }

    #[test]
    fn contradictions_are_told_as_in_mysql() {
        for (sql, expected) in [
            ("SELECT /*+ BKA(a) NO_BKA(a) */ 1", "3126 Hint NO_BKA(`a` )"),
            ("SELECT /*+ BKA() BKA() */ 1", "3126 Hint BKA( )"),
            ("SELECT /*+ NO_INDEX(t a) INDEX(T b) */ 1", "3126 Hint INDEX(`T`  `b`)"),
            ("SELECT /*+ QB_NAME(a) QB_NAME(b) */ 1", "3126 Hint QB_NAME(`b`)"),
            ("SELECT /*+ QB_NAME(a) */ (SELECT /*+ QB_NAME(A) */ 1)", "3126 Hint QB_NAME(`A`)"),
            (
                "SELECT /*+ MAX_EXECUTION_TIME(0) MAX_EXECUTION_TIME(2) */ 1",
                "3126 Hint MAX_EXECUTION_TIME(2)",
            ),
            (
                "SELECT /*+ SET_VAR(sort_buffer_size=1M) SET_VAR(sort_buffer_size=2M) */ 1",
                "3126 Hint SET_VAR(sort_buffer_size=2M) ",
            ),
            (
                "SELECT /*+ JOIN_ORDER(a) JOIN_PREFIX(a) JOIN_ORDER(b) JOIN_PREFIX(b) */ 1",
                "3126 Hint JOIN_PREFIX( `b`)",
            ),
            ("SELECT /*+ JOIN_FIXED_ORDER() JOIN_ORDER(a) */ 1", "3126 Hint JOIN_ORDER( `a`)"),
        ] {
            let expected = format!("{expected} is ignored as conflicting/duplicated");
            assert_eq!(warnings(sql), [expected], "{sql}");
        }
        for sql in [
            "SELECT /*+ MRR(t a) NO_MRR(t b) BKA(a, b) NO_BKA(c) JOIN_ORDER(a) JOIN_ORDER(b) */ 1",
            "SELECT /*+ BKA(a) */ 1 UNION SELECT /*+ BKA(a) */ 1",
            "CREATE VIEW v AS SELECT /*+ BKA(a) BKA(a) */ 1",
        ] {
            assert_eq!(warnings(sql), [""; 0], "{sql}");
        }
    }

    #[test]
    fn what_is_not_known_is_told_as_in_mysql() {
        for (sql, expected) in [
            ("SELECT /*+ BKA(t@q,t@q) */ 1", "3127 Query block name `q` is not found for BKA hint"),
            (
                "SELECT /*+ SET_VAR(nothing=1) */ 1",
                "3128 Unresolved name 'nothing' for SET_VAR hint",
            ),
            (
                "SELECT /*+ SET_VAR(autocommit=1) */ 1",
                "3637 Variable 'autocommit' cannot be set using SET_VAR hint.",
            ),
            (
                "SELECT (SELECT /*+ MAX_EXECUTION_TIME(1) */ 1)",
                "3125 MAX_EXECUTION_TIME hint is supported by top-level standalone SELECT \
                 statements only",
            ),
            (
                "UPDATE /*+ BOGUS */ t SET a = 1",
                "1064 Optimizer hint syntax error near 'BOGUS */ t SET a = 1' at line 1",
            ),
        ] {
            assert_eq!(warnings(sql), [expected], "{sql}");
        }
        let sql = "SELECT /*+ BKA(t@Q) BKA(u@`select#2`) */ 1 FROM (SELECT /*+ QB_NAME(q) */ 1) d";
        assert_eq!(warnings(sql), [""; 0]);
    }
}
