//! The text of SHOW CREATE TABLE, which is also what the catalog keeps of a table.
//!
//! # Owns
//! MySQL's layout of a definition, byte for byte: order of attributes, quotes, versioned comments,
//! what is left unsaid.
//! # Guarantees
//! The text is a CREATE TABLE statement that makes the same table.
//! # Not here
//! Expressions (`sql_parser::printer`), names of types (`sqltype`).

use std::fmt::Write;

use collation::CollationId;
use sql_parser::ast::Expr;
use sqltype::{Datum, TimeZone, TypeKind};

use super::Complete;
use super::definition::Rule;
use super::key::PRIMARY;
use super::{
    CheckDefinition, ColumnDefault, ColumnDefinition, ForeignKeyDefinition, KeyDefinition, KeyKind,
    KeyMethod, PartitionByKey, TableDefinition, TableOptions,
};

/// What is printed of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) columns: &'a [ColumnDefinition],
    pub(crate) keys: &'a [KeyDefinition],
    pub(crate) checks: &'a [CheckDefinition],
    pub(crate) foreign_keys: &'a [ForeignKeyDefinition],
    pub(crate) options: &'a TableOptions,
}

impl TableDefinition {
    /// What is printed of it.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Self { columns, keys, checks, foreign_keys, options, .. } = self;
        Parts { columns, keys, checks, foreign_keys, options }
    }
}

impl Complete {
    /// What is printed of it.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Self { columns, keys, checks, foreign_keys, options } = self;
        Parts { columns, keys, checks, foreign_keys, options }
    }
}

/// How a definition is printed.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    /// Put names between backquotes even where they could do without: `sql_quote_show_create`.
    pub(crate) quote_all: bool,
    /// Put names between double quotes: ANSI_QUOTES.
    pub(crate) ansi_quotes: bool,
    /// The zone in which defaults of TIMESTAMP columns are shown.
    pub(crate) zone: TimeZone,
    /// The next AUTO_INCREMENT value, if it is to be shown.
    pub(crate) auto_increment: Option<u64>,
    /// The database whose tables are named without it; none names all with their database.
    pub(crate) database: Option<String>,
}

impl Style {
    /// The style of the catalog.
    pub(crate) fn catalog(options: &TableOptions) -> Self {
        let auto_increment = options.auto_increment;
        let (zone, database) = (TimeZone::UTC, None);
        Self { quote_all: true, ansi_quotes: false, zone, auto_increment, database }
    }

    /// The style of messages about a table of this database.
    fn message(database: &str) -> Self {
        let (zone, database) = (TimeZone::UTC, Some(database.to_owned()));
        Self { quote_all: true, ansi_quotes: false, zone, auto_increment: None, database }
    }

    fn name(&self, name: &str) -> String {
        match (self.ansi_quotes, self.quote_all || !is_plain(name)) {
            (_, false) => name.to_owned(),
            (false, true) => quoted(name),
            (true, true) => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }
}

/// The CREATE TABLE statement.
pub(crate) fn create_table(name: &str, parts: Parts<'_>, style: &Style) -> String {
    let mut out = format!("CREATE TABLE {} (\n", style.name(name));
    let mut elements: Vec<String> = Vec::new();
    let of_table = parts.options.collation.0;
    let columns = super::visible(parts.columns).iter();
    elements.extend(columns.map(|column| self::column(column, of_table, style)));
    elements.extend(parts.keys.iter().map(|key| self::key(key, parts.columns, style)));
    let foreign_keys = parts.foreign_keys.iter();
    elements.extend(foreign_keys.map(|key| foreign_key(key, parts.columns, style)));
    elements.extend(parts.checks.iter().map(|check| self::check(check, style)));
    for (at, element) in elements.iter().enumerate() {
        let separator = if at + 1 < elements.len() { ",\n" } else { "\n" };
        let _ = write!(out, "  {element}{separator}");
    }
    out.push(')');
    options(&mut out, parts.options, style);
    if let Some(partitioning) = &parts.options.partitioning {
        self::partitioning(&mut out, partitioning);
    }
    out
}

fn column(column: &ColumnDefinition, of_table: CollationId, style: &Style) -> String {
    let mut out = format!("{} {}", style.name(&column.name), column.sql_type.sql_name());
    text_attributes(&mut out, column, of_table);
    if let Some(generated) = &column.generated {
        let expression = expression(&generated.expression);
        let kind = if generated.stored { "STORED" } else { "VIRTUAL" };
        let _ = write!(out, " GENERATED ALWAYS AS ({expression}) {kind}");
    }
    if !column.nullable {
        out.push_str(" NOT NULL");
    } else if column.sql_type.kind == TypeKind::Timestamp {
        out.push_str(" NULL");
    }
    if let Some(default) = default(column, style) {
        let _ = write!(out, " DEFAULT {default}");
    }
    if let Some(digits) = column.on_update_now {
        let _ = write!(out, " ON UPDATE {}", current_timestamp(digits));
    }
    if column.auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if column.invisible {
        out.push_str(" /*!80023 INVISIBLE */");
    }
    if !column.comment.is_empty() {
        let _ = write!(out, " COMMENT {}", literal(&column.comment));
    }
    out
}

/// CHARACTER SET and COLLATE, where they say more than the table does.
fn text_attributes(out: &mut String, column: &ColumnDefinition, of_table: CollationId) {
    if !column.sql_type.has_charset() {
        return;
    }
    let collation = column.sql_type.collation;
    if column.explicit_collation || collation != of_table {
        let _ = write!(out, " CHARACTER SET {}", collation.charset().name());
    }
    let differs = collation == CollationId::UTF8MB4_0900_AI_CI && of_table != collation;
    if column.explicit_collation || differs || !is_primary(collation) {
        let _ = write!(out, " COLLATE {}", collation.name());
    }
}

fn is_primary(collation: CollationId) -> bool {
    collation.charset().default_collation() == collation
}

/// Whether a character set alone would not tell this collation, to servers of any version.
pub(crate) fn must_name_collation(collation: CollationId) -> bool {
    !is_primary(collation) || collation == CollationId::UTF8MB4_0900_AI_CI
}

/// What stands after DEFAULT; none where the word is left out.
fn default(column: &ColumnDefinition, style: &Style) -> Option<String> {
    if column.generated.is_some() || column.auto_increment {
        return None;
    }
    match &column.default {
        ColumnDefault::None => None,
        ColumnDefault::Value(Datum::Null) => {
            (!column.sql_type.kind.is_lob()).then(|| "NULL".to_owned())
        }
        ColumnDefault::Value(Datum::UInt(bits)) if column.sql_type.kind == TypeKind::Bit => {
            Some(format!("b'{bits:b}'"))
        }
        ColumnDefault::Value(Datum::Bytes(bytes)) if std::str::from_utf8(bytes).is_err() => {
            // Only binary strings are no text.
            Some(hexadecimal(bytes))
        }
        ColumnDefault::Value(_) => default_text(column, &style.zone).map(|text| literal(&text)),
        ColumnDefault::Expression(expr) => Some(format!("({})", expression(expr))),
        ColumnDefault::Now(digits) => Some(current_timestamp(*digits)),
    }
}

/// A constant default as text, without quotes; none for NULL and where there is no constant.
pub(crate) fn default_text(column: &ColumnDefinition, zone: &TimeZone) -> Option<String> {
    let ColumnDefault::Value(value) = &column.default else { return None };
    super::default::shown(value, &column.sql_type, zone)
}

/// Bytes as a hexadecimal literal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{digits}")
}

/// CURRENT_TIMESTAMP with its digits.
pub(crate) fn current_timestamp(digits: u8) -> String {
    match digits {
        0 => "CURRENT_TIMESTAMP".to_owned(),
        digits => format!("CURRENT_TIMESTAMP({digits})"),
    }
}

/// An expression as MySQL prints it, each string with its character set.
pub(crate) fn expression(expr: &Expr) -> String {
    sql_parser::print_expression_with_charset(expr, "utf8mb4")
}

fn key(key: &KeyDefinition, columns: &[ColumnDefinition], style: &Style) -> String {
    let mut out = match key.kind {
        KeyKind::Primary => format!("{PRIMARY} KEY"),
        KeyKind::Unique => format!("UNIQUE KEY {}", style.name(&key.name)),
        KeyKind::Ordinary => format!("KEY {}", style.name(&key.name)),
    };
    out.push_str(" (");
    for (at, part) in key.columns.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match part.expression(columns) {
            Some(expr) => {
                let _ = write!(out, "({})", expression(expr));
            }
            None => out.push_str(&style.name(&columns[part.declared].name)),
        }
        if let Some(length) = part.prefix_length {
            let _ = write!(out, "({length})");
        }
        if part.descending {
            out.push_str(" DESC");
        }
    }
    out.push(')');
    match key.method {
        None => {}
        Some(KeyMethod::Btree) => out.push_str(" USING BTREE"),
        Some(KeyMethod::Hash) => out.push_str(" USING HASH"),
    }
    if !key.comment.is_empty() {
        let _ = write!(out, " COMMENT {}", literal(&key.comment));
    }
    if key.invisible {
        out.push_str(" /*!80000 INVISIBLE */");
    }
    out
}

fn foreign_key(key: &ForeignKeyDefinition, columns: &[ColumnDefinition], style: &Style) -> String {
    let own: Vec<String> = key.columns.iter().map(|at| style.name(&columns[*at].name)).collect();
    let of_parent: Vec<String> = key.parent_columns.iter().map(|name| style.name(name)).collect();
    let mut out = format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES ",
        style.name(&key.name),
        own.join(", ")
    );
    if style.database.as_ref() != Some(&key.parent.database) {
        let _ = write!(out, "{}.", style.name(&key.parent.database));
    }
    let _ = write!(out, "{} ({})", style.name(&key.parent.name), of_parent.join(", "));
    for (word, rule) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
        if rule != Rule::NoAction {
            let _ = write!(out, " ON {word} {}", rule.word());
        }
    }
    out
}

/// A foreign key in an error: the table that refers, and the constraint.
pub(crate) fn failed_foreign_key(child: &TableDefinition, key: &ForeignKeyDefinition) -> String {
    let style = Style::message(&child.database);
    let constraint = foreign_key(key, &child.columns, &style);
    format!("{}.{}, {constraint}", quoted(&child.database), quoted(&child.name))
}

fn check(check: &CheckDefinition, style: &Style) -> String {
    let enforced = if check.enforced { "" } else { " /*!80016 NOT ENFORCED */" };
    let expression = expression(&check.expression);
    format!("CONSTRAINT {} CHECK ({expression}){enforced}", style.name(&check.name))
}

fn options(out: &mut String, options: &TableOptions, style: &Style) {
    out.push_str(" ENGINE=NDBCLUSTER");
    if let Some(next) = style.auto_increment.filter(|next| *next > 1) {
        let _ = write!(out, " AUTO_INCREMENT={next}");
    }
    let collation = options.collation.0;
    let _ = write!(out, " DEFAULT CHARSET={}", collation.charset().name());
    if must_name_collation(collation) {
        let _ = write!(out, " COLLATE={}", collation.name());
    }
    out.push_str(&create_options(options).replace(ENCRYPTED, " /*!80016 ENCRYPTION='Y' */"));
    if !options.comment.is_empty() {
        let _ = write!(out, " COMMENT={}", literal(&options.comment));
    }
}

/// How CREATE_OPTIONS names it; SHOW CREATE TABLE hides it from older servers.
const ENCRYPTED: &str = " ENCRYPTION='Y'";

/// The options without effect, each with a space before it.
pub(crate) fn create_options(options: &TableOptions) -> String {
    let mut out = String::new();
    let mut row_format = options.row_format.as_deref();
    for (name, value) in &options.others {
        // ROW_FORMAT stands before these two.
        if matches!(*name, "KEY_BLOCK_SIZE" | "COMPRESSION" | "ENCRYPTION")
            && let Some(format) = row_format.take()
        {
            let _ = write!(out, " ROW_FORMAT={format}");
        }
        let _ = match *name {
            "COMPRESSION" => write!(out, " {name}={}", literal(value)),
            "ENCRYPTION" => write!(out, "{ENCRYPTED}"),
            name => write!(out, " {name}={value}"),
        };
    }
    if let Some(format) = row_format {
        let _ = write!(out, " ROW_FORMAT={format}");
    }
    out
}

fn partitioning(out: &mut String, partitioning: &PartitionByKey) {
    let linear = if partitioning.linear { "LINEAR " } else { "" };
    let name = |name: &String| if is_plain(name) { name.clone() } else { quoted(name) };
    let columns: Vec<String> = partitioning.columns.iter().map(name).collect();
    let _ = write!(out, "\n/*!50100 PARTITION BY {linear}KEY ({})", columns.join(","));
    if let Some(count) = partitioning.count {
        let _ = write!(out, "\nPARTITIONS {count}");
    }
    out.push_str(" */");
}

/// A name in backquotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Whether a name may stand without quotes.
fn is_plain(name: &str) -> bool {
    let word =
        |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '$' || char > '\x7f';
    !name.is_empty()
        && name.chars().all(word)
        && !name.chars().all(|char| char.is_ascii_digit())
        && !sql_parser::is_reserved(name)
}

/// A string in quotes, as SHOW CREATE TABLE writes it.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for char in text.chars() {
        match char {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            char => out.push(char),
        }
    }
    out.push('\'');
    out
}
