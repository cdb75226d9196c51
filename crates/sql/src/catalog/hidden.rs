//! Columns that nobody sees, for keys over something else than whole columns.
//!
//! | a part of a key | its hidden column |
//! |---|---|
//! | `c(10)` of PRIMARY and UNIQUE | the first ten characters: rows are told apart by them |
//! | `c(10)`, where `c` is too long for an index | the first bytes of the sort key of `c` |
//! | `(expression)` | the expression's value |
//!
//! The ordered index behind a prefix does not hold the prefix. Under many collations texts that are
//! equal have first characters that are not (`ß`, `ss`). The bytes of sort keys have no such
//! exceptions: what is less or equal stays so when the keys are cut. So a search by such an index
//! finds all rows it should, and some more, which the conditions drop.
//!
//! # Owns
//! Which hidden columns a table has, their names and values; which column an expression stands for.
//! # Guarantees
//! They follow from the definition alone, so the text of a definition does not tell of them. They
//! stand behind all others. No name finds them.
//! # Not here
//! Storing rows (`execute::row`), choosing indexes (`plan::path`).

use std::sync::Arc;

use collation::CollationId;
use model::ColumnId;
use sql_expression::{
    Binder, Clause, Coercibility, EvalContext, Expression, Node, Scope, ScopeColumn, ScopeTable,
    SessionFacts, SqlError,
};
use sql_parser::ast::Expr;
use sqltype::{Datum, SqlType, TypeKind};

use super::Hidden;
use super::constant::Constants;
use super::key::{self, KeyDraft};
use super::{
    ColumnDefault, ColumnDefinition, Generated, KeyDefinition, KeyKind, KeyPart, TableDefinition,
    error, expression, text,
};

/// Most bytes of a sort key that are held: so many tell texts apart, and several fit a key.
const SORT_KEY_MAX: u32 = 255;
/// As many where a key has more parts than [`PARTS_FEW`].
const SORT_KEY_MAX_OF_MANY: u32 = 90;
const PARTS_FEW: usize = 4;
/// Longest encoded key, in bytes, whose columns are held whole although they are declared as
/// prefixes: a longer one takes much memory for little.
const WHOLE_MAX: usize = 3_072;
/// Longest text of an expression that is a name, in bytes; the kernel takes some more.
const NAME_SIZE_MAX: usize = 400;
/// Every hidden name begins with this, and ends with a space, as no name of a user's column does.
const MARK: char = '#';

impl Hidden {
    /// The value for a row; none of an expression, which is computed as generated columns are.
    pub(crate) fn value(&self, row: &[Datum]) -> Option<Datum> {
        let of = match *self {
            Self::Expression => return None,
            Self::Prefix { of, .. } | Self::SortKey { of, .. } => of,
        };
        let Datum::Bytes(text) = &row[of] else { return Some(Datum::Null) };
        Some(Datum::Bytes(match *self {
            Self::SortKey { collation, length, .. } => cut_sort_key(collation, text, length),
            Self::Prefix { length, bytes: true, .. } => {
                text[..text.len().min(length as usize)].into()
            }
            Self::Prefix { length, .. } => {
                text[..collation::chars_size(text, length as usize)].into()
            }
            Self::Expression => return None,
        }))
    }
}

/// The first bytes of a text's sort key.
pub(crate) fn cut_sort_key(collation: CollationId, text: &[u8], length: u32) -> Box<[u8]> {
    let mut key = Vec::with_capacity(text.len() + 1);
    collation::sort_key(collation, text, &mut key);
    key.truncate(length as usize);
    key.into()
}

/// The ends, both included, between which the cut sort keys are of all texts that begin with
/// `prefix`, as LIKE compares: none at the top where there is none.
pub(crate) fn prefix_bounds(
    collation: CollationId,
    prefix: &[u8],
    length: u32,
) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let mut low = Vec::with_capacity(prefix.len());
    collation::prefix_key(collation, prefix, &mut low);
    low.truncate(length as usize);
    // Nothing that begins with these bytes, cut or not, is greater than they with more of 0xFF.
    let mut high = low.clone();
    high.resize(length as usize, 0xFF);
    let top = (!low.is_empty()).then(|| high.into());
    (low.into(), top)
}

/// Adds the columns of functional key parts, and lets the drafts name them.
pub(crate) fn add_expressions(
    columns: &mut Vec<ColumnDefinition>,
    keys: &[KeyDraft],
    table: &str,
) -> Result<(), SqlError> {
    for key in keys {
        for expr in key.parts.iter().filter_map(|part| part.expression.as_deref()) {
            let shown = key.name.as_deref().unwrap_or(key::FUNCTIONAL);
            check_expression(key.kind, shown, expr, columns)?;
            if of_expression(columns, expr).is_some() {
                continue;
            }
            let bound = bind(table, columns, expr)?;
            let mut sql_type = bound.result.sql_type.clone();
            match sql_type.kind {
                TypeKind::Json => return Err(error::functional_json()),
                ref kind if kind.is_lob() => return Err(error::functional_lob()),
                TypeKind::Null => sql_type = SqlType { length: 1, ..SqlType::binary(1) },
                _ => {}
            }
            let generated = Generated { expression: Box::new(expr.clone()), stored: false };
            let name = name(&text::expression(expr));
            let column = column(name, sql_type, true, Hidden::Expression);
            columns.push(ColumnDefinition { generated: Some(generated), ..column });
        }
    }
    Ok(())
}

/// The position of the hidden column of an expression.
pub(crate) fn of_expression(columns: &[ColumnDefinition], expr: &Expr) -> Option<usize> {
    columns.iter().position(|column| {
        column.hidden == Some(Hidden::Expression)
            && column.generated.as_ref().is_some_and(|of| *of.expression == *expr)
    })
}

fn check_expression(
    kind: KeyKind,
    key: &str,
    expr: &Expr,
    columns: &[ColumnDefinition],
) -> Result<(), SqlError> {
    if kind == KeyKind::Primary {
        return Err(error::functional_primary_key());
    }
    if matches!(expr, Expr::Column(_)) {
        return Err(error::functional_of_column());
    }
    expression::check(expression::Place::Key(key), expr)?;
    for name in expression::columns(expr) {
        let found = super::column_named(columns, name);
        let (_, found) = found.ok_or_else(|| error::unknown_column(name, "functional index"))?;
        if found.auto_increment {
            return Err(error::functional_of_auto_increment(key));
        }
    }
    Ok(())
}

/// Gives keys over prefixes what they hold, and adds the columns for it.
pub(crate) fn hold_prefixes(columns: &mut Vec<ColumnDefinition>, keys: &mut [KeyDefinition]) {
    for key in keys.iter_mut().filter(|key| key.has_prefix()) {
        let is_whole = key::kernel_size(columns, &key.columns) <= WHOLE_MAX;
        let (nullable, count) = (key.kind != KeyKind::Primary, key.columns.len());
        for part in &mut key.columns {
            let Some(length) = part.prefix_length else { continue };
            let of = part.declared;
            let sql_type = columns[of].sql_type.clone();
            let declared = columns[of].name.clone();
            if !is_whole {
                let collation = sql_type.collation;
                let most = if count > PARTS_FEW { SORT_KEY_MAX_OF_MANY } else { SORT_KEY_MAX };
                let cut = length.saturating_mul(2).min(most);
                let hidden = Hidden::SortKey { of, collation, length: cut };
                let name = name(&format!("{cut} bytes of {declared}"));
                let held = column(name, SqlType::binary(cut), columns[of].nullable, hidden);
                part.column = place(columns, held);
            }
            if key.kind != KeyKind::Ordinary {
                let bytes = sql_type.collation == CollationId::BINARY;
                let hidden = Hidden::Prefix { of, length, bytes };
                let name = name(&format!("{length} of {declared}"));
                let kind = TypeKind::VarChar;
                let of_prefix = SqlType { kind, length, ..sql_type };
                let nullable = nullable && columns[of].nullable;
                part.decides = place(columns, column(name, of_prefix, nullable, hidden));
            }
        }
    }
}

/// The position of a column; where there is none like it, it is added.
fn place(columns: &mut Vec<ColumnDefinition>, column: ColumnDefinition) -> usize {
    let same = |other: &ColumnDefinition| other.hidden.is_some() && other.name == column.name;
    columns.iter().position(same).unwrap_or_else(|| {
        columns.push(column);
        columns.len() - 1
    })
}

/// A long one is cut, and told from others by a number.
fn name(what: &str) -> String {
    if what.len() <= NAME_SIZE_MAX {
        return format!("{MARK}{what} ");
    }
    let end = (0..=NAME_SIZE_MAX).rev().find(|at| what.is_char_boundary(*at)).unwrap_or(0);
    let number = collation::hash(CollationId::BINARY, what.as_bytes());
    format!("{MARK}{} {number:016x} ", &what[..end])
}

fn column(name: String, sql_type: SqlType, nullable: bool, hidden: Hidden) -> ColumnDefinition {
    ColumnDefinition {
        name,
        column: ColumnId(0),
        sql_type,
        explicit_collation: false,
        nullable,
        default: ColumnDefault::None,
        on_update_now: None,
        auto_increment: false,
        generated: None,
        hidden: Some(hidden),
        invisible: true,
        comment: String::new(),
    }
}

/// For hidden columns behind those that `origins` is of: which columns of the old definition they
/// were.
pub(crate) fn extend_origins(
    origins: &mut Vec<Option<usize>>,
    new: &[ColumnDefinition],
    old: &[ColumnDefinition],
) {
    for column in &new[origins.len()..] {
        let before = old.iter().position(|other| match (column.hidden, other.hidden) {
            (Some(Hidden::Expression), Some(Hidden::Expression)) => {
                column.generated == other.generated
            }
            (Some(now), Some(before)) => match (now, before) {
                (
                    Hidden::Prefix { of, length, .. },
                    Hidden::Prefix { of: other, length: as_long, .. },
                ) => origins[of] == Some(other) && length == as_long,
                (
                    Hidden::SortKey { of, length, .. },
                    Hidden::SortKey { of: other, length: as_long, .. },
                ) => origins[of] == Some(other) && length == as_long,
                _ => false,
            },
            _ => false,
        });
        origins.push(before);
    }
}

/// An expression over the columns of a table alone. What it means does not depend on the session
/// that asks: it is bound as the catalog would.
fn bind(table: &str, columns: &[ColumnDefinition], expr: &Expr) -> Result<Expression, SqlError> {
    let mut scope = Scope::new(None);
    let scoped = columns.iter().map(|column| expression::scope_column(table, column));
    let columns: Vec<ScopeColumn> = scoped.collect();
    scope.add(ScopeTable { name: table.into(), columns, ..ScopeTable::default() });
    let context = EvalContext::new(Arc::new(SessionFacts::new()), 0, 0);
    let mut constants = Constants::of(&context);
    Binder::new(&scope, &mut constants).bind(expr, Clause::Definition)
}

/// An expression without what depends on where it stands: names, the chance of NULL, and how
/// strongly collations hold, which has done what it is for.
fn normal(mut expression: Expression, offset: u32) -> Option<Expression> {
    let mut fits = true;
    expression.visit_mut(&mut |part| {
        part.result.nullable = false;
        part.result.ascii = false;
        part.result.coercibility = Coercibility::Implicit;
        match &mut part.node {
            Node::Column { index, name } => {
                fits &= *index >= offset;
                *index = index.wrapping_sub(offset);
                *name = Arc::default();
            }
            // A literal has the connection's collation, which a column's prevails over.
            Node::Constant(Datum::Bytes(_)) => {
                part.result.sql_type.collation = CollationId::DEFAULT;
            }
            _ => {}
        }
    });
    fits.then_some(expression)
}

/// The generated columns that begin no key less than they are computed: each with its expression,
/// in the form that expressions of statements are compared in.
pub(crate) fn computed(definition: &TableDefinition) -> Vec<(usize, Expression)> {
    let in_keys = |at: usize| {
        definition.keys.iter().any(|key| key.columns.iter().any(|part| part.column == at))
    };
    let mut computed = Vec::new();
    for (at, column) in definition.columns.iter().enumerate() {
        let Some(generated) = column.generated.as_ref().filter(|_| in_keys(at)) else { continue };
        // What cannot be bound is not found: rows are found without it.
        let bound = bind(&definition.name, &definition.columns, &generated.expression);
        let Ok(bound) = bound else { continue };
        if is_kept(&bound.result.sql_type, &column.sql_type)
            && let Some(bound) = normal(bound, 0)
        {
            computed.push((at, bound));
        }
    }
    computed
}

/// Whether the value of an expression of this type is the same value in a column of that type.
fn is_kept(of: &SqlType, column: &SqlType) -> bool {
    if of.kind.is_text() && column.kind.is_text() {
        return of.collation == column.collation;
    }
    match (of.kind.integer_bits(), column.kind.integer_bits()) {
        (Some(of_bits), Some(column_bits)) => {
            of.unsigned == column.unsigned && of_bits <= column_bits
        }
        _ => {
            of.kind == column.kind
                && of.decimals == column.decimals
                && of.unsigned == column.unsigned
                && of.length <= column.length
        }
    }
}

impl TableDefinition {
    /// The generated column that an expression over a row is the value of; the table's columns
    /// stand in the row from `offset` on.
    pub(crate) fn computed_column(&self, expression: &Expression, offset: u32) -> Option<usize> {
        let plain = matches!(expression.node, Node::Column { .. } | Node::Constant(_));
        if self.computed.is_empty() || plain {
            return None;
        }
        let normal = normal(expression.clone(), offset)?;
        self.computed.iter().find(|(_, computed)| *computed == normal).map(|(at, _)| *at)
    }
}

impl KeyPart {
    /// The expression of a functional part.
    pub(crate) fn expression<'a>(&self, columns: &'a [ColumnDefinition]) -> Option<&'a Expr> {
        let column = &columns[self.declared];
        let generated = column.generated.as_ref()?;
        (column.hidden == Some(Hidden::Expression)).then_some(&*generated.expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::harness::Harness;

    #[test]
    fn cut_sort_keys_keep_the_order() {
        let texts = ["", "a", "A", "ab", "Abc", "abd", "ss", "ß", "sst", "zzzzzzzz", "日本"];
        for name in ["utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_ci", "utf8mb4_bin", "binary"] {
            let collation = CollationId::by_name(name).unwrap();
            for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
                let order = collation::compare(collation, a.as_bytes(), b.as_bytes());
                for length in [1, 2, 3, 255] {
                    let cut = |text: &str| cut_sort_key(collation, text.as_bytes(), length);
                    let of_cut = cut(a).cmp(&cut(b));
                    assert!(of_cut == order || of_cut.is_eq(), "{name} {length}: {a} {b}");
                    assert!(!order.is_eq() || of_cut.is_eq(), "{name} {length}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn bounds_hold_what_begins_so() {
        let collation = CollationId::by_name("utf8mb4_0900_ai_ci").unwrap();
        for length in [1, 2, 4, 40] {
            let (low, high) = prefix_bounds(collation, b"Str", length);
            let high = high.unwrap();
            for text in ["str", "Strasse", "straße", "STRZZZZZZ日本"] {
                let key = cut_sort_key(collation, text.as_bytes(), length);
                assert!(low <= key && key <= high, "{text} {length}");
            }
        }
        assert_eq!(prefix_bounds(collation, b"", 9).1, None);
    }

    /// A condition of a statement, over a row that begins with the table's columns.
    fn bound(harness: &Harness, definition: &TableDefinition, text: &str) -> Expression {
        let query = format!("DO {text}");
        let mode = harness.session.variables.parser_mode();
        let parsed = sql_parser::parse_at(query.as_bytes(), 0, mode).unwrap();
        let sql_parser::ast::Statement::Do(expressions) = parsed.statement else { unreachable!() };
        let mut scope = Scope::new(None);
        let columns = crate::logical::from::definition_columns(definition, "k");
        scope.add(ScopeTable { name: "k".into(), columns, ..ScopeTable::default() });
        let mut planner = crate::logical::binder::QueryBinder::new(&harness.session, &[]);
        Binder::new(&scope, &mut planner).bind(&expressions[0], Clause::Where).unwrap()
    }

    #[test]
    fn expressions_stand_for_their_columns() {
        let mut harness = Harness::new();
        harness.ok("CREATE TABLE t (a INT, name VARCHAR(9), j JSON, small SMALLINT AS (a + 2), \
             KEY ((lower(name))), KEY ((a + 1)), KEY ((CAST(j->>'$.id' AS UNSIGNED))), \
             KEY ((CONCAT(name, 'x'))), KEY (small))");
        harness.ok("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci");
        let definition = harness.session.shared.definitions.of(&harness.table("d.t")).unwrap();
        let names = ["lower(`name`)", "(`a` + 1)"];
        for (text, column) in [
            ("lower(name)", Some(names[0])),
            ("LOWER(k.name)", Some(names[0])),
            ("upper(name)", None),
            ("a + 1", Some(names[1])),
            ("1 + a", None),
            ("a + 1.0", None),
            ("cast(j->>'$.id' as unsigned)", Some("cast(")),
            ("cast(j->>'$.ie' as unsigned)", None),
            ("concat(name, 'x')", Some("concat(")),
            // A SMALLINT does not hold all that the sum can be.
            ("a + 2", None),
        ] {
            let expression = bound(&harness, &definition, text);
            let found = definition.computed_column(&expression, 0);
            let name = found.map(|at| definition.columns[at].name.trim_start_matches(MARK));
            let is_it = match (name, column) {
                (Some(name), Some(column)) => name.starts_with(column),
                (name, column) => name.is_none() && column.is_none(),
            };
            assert!(is_it, "{text}: {name:?}, {:#?} {expression:#?}", definition.computed);
        }
    }
}
