//! Expressions with what they give, from text files: `expression => value ~ warning, warning`, or
//! `expression => ERROR number text`. `[DECIMAL]`-like type names may stand before the value.
//!
//! Columns of the table `test.t` can be used; see `table`. `SET block_encryption_mode = name`
//! holds for the lines that follow.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use collation::CollationId;
use sql_expression::{
    BindSettings, Binder, BlockEncryption, BoundSubquery, Clause, ColumnName, ComparedParameter,
    Environment, EvalContext, Expression, ResultType, Scope, ScopeColumn, ScopeTable, SessionFacts,
    SqlError,
};
use sql_parser::ast;
use sqltype::{Date, DateTime, Datum, Decimal, SqlType, TimeZone, TypeKind, text};

/// 2024-02-29 12:34:56.789012 UTC.
const NOW: i64 = 1_709_210_096_789_012;

struct World {
    settings: BindSettings,
    numbers: u32,
}

impl Environment for World {
    fn settings(&self) -> &BindSettings {
        &self.settings
    }

    fn system_variable(&mut self, _: &ast::SystemVariable) -> Result<Expression, SqlError> {
        Ok(Expression::constant(Datum::Int(4), ResultType::of(SqlType::big_int(), false)))
    }

    fn user_variable(&mut self, _: &str) -> Option<ResultType> {
        None
    }

    fn parameter(&mut self, _: u32) -> Option<ResultType> {
        None
    }

    fn compared_parameter(&mut self, _: u32, _: &SqlType) -> ComparedParameter {
        ComparedParameter::AsTheOther
    }

    fn subquery(
        &mut self,
        _: &ast::Query,
        _: &Scope<'_>,
        _: bool,
    ) -> Result<BoundSubquery, SqlError> {
        Err(SqlError::not_supported("subqueries in this test"))
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}

fn members(names: &[&str]) -> Arc<[Box<str>]> {
    names.iter().map(|name| Box::from(*name)).collect()
}

/// The columns of `test.t`, and the values of its only row.
fn table() -> (ScopeTable, Vec<Datum>) {
    let collated = |collation, sql_type: SqlType| SqlType { collation, ..sql_type };
    let default = CollationId::DEFAULT;
    let date = Date::new(2024, 1, 31).unwrap();
    let moment = DateTime { date, hour: 10, minute: 11, second: 12, micros: 345_000 };
    let unsigned = |sql_type: SqlType| SqlType { unsigned: true, ..sql_type };
    let columns: Vec<(&str, SqlType, Datum)> = vec![
        ("i", SqlType::new(TypeKind::Int, 11), Datum::Int(7)),
        ("u", unsigned(SqlType::new(TypeKind::Int, 10)), Datum::UInt(3)),
        ("b", SqlType::big_int(), Datum::Int(i64::MAX)),
        ("bu", SqlType::unsigned_big_int(), Datum::UInt(u64::MAX)),
        ("d", SqlType::decimal(10, 2), Datum::Decimal(Decimal::parse(b"12.50").unwrap())),
        ("f", SqlType::double(), Datum::Double(1.5)),
        ("s", SqlType::text(20), Datum::text("Hello")),
        ("n", SqlType::text(20), Datum::Null),
        ("l1", collated(CollationId::LATIN1_SWEDISH_CI, SqlType::text(20)), Datum::text("é")),
        ("g", collated(CollationId::UTF8MB4_GENERAL_CI, SqlType::text(20)), Datum::text("Hello")),
        ("vb", SqlType::binary(20), Datum::Bytes([0x41, 0xFF].into())),
        ("dd", SqlType::new(TypeKind::Date, 0), Datum::Date(date)),
        (
            "dt",
            SqlType { decimals: 3, ..SqlType::new(TypeKind::DateTime, 0) },
            Datum::DateTime(moment),
        ),
        ("tt", SqlType::new(TypeKind::Time, 0), Datum::Time(moment.time().truncate(0))),
        ("y", SqlType::new(TypeKind::Year, 4), Datum::Int(2024)),
        (
            "e",
            collated(default, SqlType::new(TypeKind::Enum(members(&["x", "y", "z"])), 0)),
            Datum::text("y"),
        ),
        (
            "st",
            collated(default, SqlType::new(TypeKind::Set(members(&["a", "b", "c"])), 0)),
            Datum::text("a,c"),
        ),
        ("bt", SqlType::new(TypeKind::Bit, 8), Datum::UInt(5)),
        (
            "j",
            SqlType::new(TypeKind::Json, 0),
            Datum::Json((*b"{\"a\": [1, 2, {\"b\": \"x\"}]}").into()),
        ),
    ];
    let (names, row): (Vec<ScopeColumn>, Vec<Datum>) = columns
        .into_iter()
        .map(|(name, sql_type, value)| {
            let name = ColumnName { schema: "test".into(), table: "t".into(), column: name.into() };
            let column = ResultType::column(sql_type, true);
            (ScopeColumn::new(Arc::new(name), column), value)
        })
        .unzip();
    let table =
        ScopeTable { schema: Some("test".into()), name: "t".into(), columns: names, offset: 0 };
    (table, row)
}

fn facts(block_encryption: BlockEncryption) -> Arc<SessionFacts> {
    Arc::new(SessionFacts {
        block_encryption,
        connection_id: 42,
        user: "u@localhost".into(),
        current_user: "u@%".into(),
        database: Some("test".into()),
        time_zone: TimeZone::parse("+02:00").unwrap(),
        version: "8.0.99-test".into(),
        ..SessionFacts::new()
    })
}

fn evaluate(sql: &str, encryption: BlockEncryption) -> Result<String, SqlError> {
    let parsed = sql_parser::parse_expression(sql.as_bytes(), sql_parser::SqlMode::default());
    let parsed = parsed.map_err(|error| SqlError::new(1064, "42000", error.to_string()))?;
    let facts = facts(encryption);
    let mut world = World { settings: BindSettings::new(facts.clone(), NOW), numbers: 0 };
    let mut scope = Scope::new(None);
    let (table, row) = table();
    scope.add(table);
    let mut context = EvalContext::new(facts, NOW, 1);
    let mut binder = Binder::new(&scope, &mut world);
    let bound = binder.bind(&parsed, Clause::FieldList)?;
    let value = bound.eval(&row, &mut context)?;
    let mut out = String::new();
    match text(&value, bound.sql_type()) {
        None => out.push_str("NULL"),
        Some(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if !text.contains(|char: char| char.is_control() && char != '\n') => {
                out.push_str(&text.replace('\n', "\\n"));
            }
            _ => {
                out.push_str("0x");
                for byte in bytes.iter() {
                    write!(out, "{byte:02X}").unwrap();
                }
            }
        },
    }
    assert!(!value.is_null() || bound.result.nullable, "{sql} is NULL and not nullable");
    let warnings: Vec<String> =
        context.warnings.entries.iter().map(|(_, warning)| warning.code().to_string()).collect();
    if !warnings.is_empty() {
        write!(out, " ~ {}", warnings.join(", ")).unwrap();
    }
    Ok(out)
}

/// The type as DESCRIBE would show it for a table made of the expression.
fn type_of(sql: &str, encryption: BlockEncryption) -> Result<String, SqlError> {
    let parsed = sql_parser::parse_expression(sql.as_bytes(), sql_parser::SqlMode::default());
    let parsed = parsed.map_err(|error| SqlError::new(1064, "42000", error.to_string()))?;
    let mut world = World { settings: BindSettings::new(facts(encryption), NOW), numbers: 0 };
    let mut scope = Scope::new(None);
    scope.add(table().0);
    let mut binder = Binder::new(&scope, &mut world);
    let bound = binder.bind(&parsed, Clause::FieldList)?;
    Ok(bound.sql_type().sql_name())
}

fn shown(result: Result<String, SqlError>) -> String {
    match result {
        Ok(text) => text,
        Err(error) => format!("ERROR {} {}", error.code(), error.message()),
    }
}

/// Runs the lines of a file; with BLESS set rewrites what they give.
fn run(name: &str, compute: fn(&str, BlockEncryption) -> Result<String, SqlError>) {
    let path = format!("{}/tests/expressions/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read_to_string(&path).unwrap();
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = String::new();
    let mut blessed = String::new();
    let mut count = 0;
    let mut encryption = BlockEncryption::DEFAULT;
    for (number, line) in file.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with("# ") {
            writeln!(blessed, "{line}").unwrap();
            continue;
        }
        if let Some(mode) = line.strip_prefix("SET block_encryption_mode = ") {
            encryption = BlockEncryption::by_name(mode).unwrap();
            writeln!(blessed, "{line}").unwrap();
            continue;
        }
        let (sql, expected) = line.split_once(" => ").unwrap_or((line, ""));
        let actual = shown(compute(sql, encryption));
        count += 1;
        writeln!(blessed, "{sql} => {actual}").unwrap();
        if actual != expected {
            let number = number + 1;
            writeln!(failures, "{name}:{number}: {sql}\n   want {expected}\n    got {actual}")
                .unwrap();
        }
    }
    if bless {
        std::fs::write(&path, blessed).unwrap();
        return;
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(count > 0);
}

macro_rules! files {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), evaluate);
        })*
    };
}

files!(operators, math, strings, temporal, json, encryption, misc, collations);

#[test]
fn types() {
    run("types", type_of);
}

#[test]
fn every_function_is_tested() {
    let mut tested: BTreeMap<&str, bool> =
        sql_expression::function_names().map(|name| (name, false)).collect();
    let directory = format!("{}/tests/expressions", env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        all.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap().to_lowercase());
    }
    for (name, found) in &mut tested {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        *found = !is_word || *name == "xor" || all.contains(&format!("{name}("));
    }
    let missing: Vec<&str> =
        tested.iter().filter(|(_, found)| !**found).map(|(name, _)| *name).collect();
    assert!(missing.is_empty(), "without a test: {missing:?}");
}

#[test]
fn every_function_is_documented() {
    let page = format!("{}/../../docs/sql/functions.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(page).unwrap();
    let there = page.split("## Not there").next().unwrap();
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words: std::collections::BTreeSet<&str> =
        there.split(|char: char| !is_part(char)).collect();
    let is_word = |name: &&str| name.chars().all(is_part);
    let missing: Vec<&str> = sql_expression::function_names()
        .filter(is_word)
        .filter(|name| !words.contains(name.to_uppercase().as_str()))
        .collect();
    assert!(missing.is_empty(), "not in docs/sql/functions.md: {missing:?}");
}

/// Values of every kind, many at the edge of something.
const OPERANDS: [&str; 62] = [
    "NULL",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "64",
    "255",
    "1000000",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.0",
    "1.5",
    "-0.5",
    "0.000000000000000000001",
    "99999999999999999999999999999999999999999999999999999999999999999",
    "-9999999999999999999999999999999999.99999999999999999999",
    "1e0",
    "-1.5e0",
    "1e308",
    "-1e308",
    "5e-324",
    "''",
    "'a'",
    "'abc def'",
    "'1'",
    "'-12.5e3x'",
    "'é日😀'",
    "'%'",
    "'[a'",
    "'a{2'",
    "x''",
    "x'00'",
    "x'FFFE'",
    "x'C3'",
    "b'101'",
    "'2024-02-29'",
    "'2024-02-29 12:13:14.567'",
    "'0000-00-00'",
    "'9999-12-31 23:59:59.999999'",
    "'0001-01-01'",
    "'838:59:59'",
    "'-1 10:11'",
    "DATE'2024-02-29'",
    "TIME'-838:59:59'",
    "TIMESTAMP'9999-12-31 23:59:59.9'",
    "'{\"a\": [1, {}]}'",
    "'$.a[last]'",
    "'$**.b'",
    "CAST('[1, 2]' AS JSON)",
    "i",
    "u",
    "b",
    "bu",
    "d",
    "f",
    "s",
    "vb",
    "dt",
    "e",
    "j",
];

const OPERATORS: [&str; 20] = [
    "+",
    "-",
    "*",
    "/",
    "DIV",
    "%",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "=",
    "<=>",
    "<",
    "AND",
    "OR",
    "XOR",
    "LIKE",
    "REGEXP",
    "IS NOT TRUE AND",
];

const CASTS: [&str; 12] = [
    "SIGNED",
    "UNSIGNED",
    "DECIMAL(65,30)",
    "DECIMAL(3,3)",
    "DOUBLE",
    "FLOAT",
    "CHAR(2)",
    "BINARY(3)",
    "DATE",
    "DATETIME(3)",
    "TIME(6)",
    "JSON",
];

const UNITS: [&str; 9] = [
    "MICROSECOND",
    "SECOND",
    "DAY",
    "WEEK",
    "MONTH",
    "YEAR",
    "DAY_MICROSECOND",
    "HOUR_SECOND",
    "YEAR_MONTH",
];

/// An operand, or an operation on operands.
fn random_expression(prng: &mut stdx::Prng, functions: &[&str], depth: u32) -> String {
    if depth == 0 || prng.percent(30) {
        return (*prng.pick(&OPERANDS)).to_owned();
    }
    let mut part = || random_expression(&mut prng.fork(), functions, depth - 1);
    let (a, b, c) = (part(), part(), part());
    match prng.below(10) {
        0 => format!("({a} {} {b})", prng.pick(&OPERATORS)),
        1 => format!("CAST({a} AS {})", prng.pick(&CASTS)),
        2 => format!("({a} + INTERVAL {b} {})", prng.pick(&UNITS)),
        3 => format!("EXTRACT({} FROM {a})", prng.pick(&UNITS)),
        4 => format!("({a} BETWEEN {b} AND {c})"),
        5 => format!("IF({a}, {b}, {c})"),
        6 => format!("({a} IN ({b}, {c}))"),
        _ => {
            let count = prng.below(5);
            let arguments: Vec<String> = (0..count)
                .map(|_| random_expression(&mut prng.fork(), functions, depth - 1))
                .collect();
            format!("{}({})", prng.pick(functions), arguments.join(", "))
        }
    }
}

#[test]
fn nothing_panics() {
    let functions: Vec<&str> = sql_expression::function_names()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .collect();
    let mut prng = stdx::Prng::new(7);
    let rounds = match std::env::var("ROUNDS") {
        Ok(rounds) => rounds.parse().unwrap(),
        Err(_) => 20_000,
    };
    let mut values = 0;
    for _ in 0..rounds {
        let sql = random_expression(&mut prng, &functions, 3);
        let result = std::panic::catch_unwind(|| evaluate(&sql, BlockEncryption::DEFAULT));
        assert!(result.is_ok(), "panics: {sql}");
        values += usize::from(result.is_ok_and(|result| result.is_ok()));
        let _ = type_of(&sql, BlockEncryption::DEFAULT);
    }
    assert!(values > rounds / 4, "most are refused: {values} values");
}
