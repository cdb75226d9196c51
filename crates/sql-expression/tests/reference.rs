//! The reference of functions, written from the table that the binder looks them up in. Examples
//! are cases of the test of expressions, so they are true.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;

use sql_expression::{Described, Volatility};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/functions.md");
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/expressions");
const HEAD: &str = "\
# Functions

All scalar functions that are called by name. Written from the tables that the binder looks them
up in, with examples that the tests of expressions run, by `UPDATE=1 cargo test -p sql-expression`.
Operators, aggregates, window functions and what differs from MySQL:
[expressions and functions](../sql/functions.md).

A function in *italics* depends on the session or on the time of the statement; one in
***bold italics*** may give another value each time it is called. All others depend on their
arguments alone. In examples `i` is 7, `n` NULL, `d` 12.50, `s` 'Hello', `dd` '2024-01-31',
`tt` '10:11:12', `dt` '2024-01-31 10:11:12.345' and `j` '{\"a\": [1, 2, {\"b\": \"x\"}]}'.
";

/// Cases of the test of expressions: what is asked, and what it gives.
fn cases() -> Vec<(String, String)> {
    let mut files: Vec<_> =
        std::fs::read_dir(CASES).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The types of expressions, not their values.
    files.retain(|file| !file.ends_with("types.txt"));
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let lines: Vec<String> =
        texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let case = |line: &String| line.split_once(" => ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    lines.iter().filter_map(case).collect()
}

/// Where the bracket is closed that a call begins with; nothing within a string counts.
fn end_of_call(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (at, char) in text.char_indices() {
        match char {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 1 => return Some(at + 1),
            ')' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A call of the function alone, with its value: the first that tells something about it.
fn example(function: &Described, cases: &[(String, String)]) -> Option<(String, String)> {
    if function.volatility == Volatility::Row {
        return None;
    }
    let begin = format!("{}(", function.name);
    let is_alone = |asked: &str| {
        asked.to_lowercase().starts_with(&begin) && end_of_call(asked) == Some(asked.len())
    };
    let tells = |value: &str| !value.starts_with("ERROR") && !value.contains(" ~ ");
    let found = cases.iter().filter(|(asked, value)| is_alone(asked) && tells(value));
    let rank = |(asked, value): &&(String, String)| {
        let bare = value == "NULL" || value.trim().is_empty() || asked.ends_with("()");
        let odd = asked.contains("NULL") || asked.contains("''");
        let nested = asked.matches('(').count() > 1;
        (bare, odd, asked.len() > 60, nested)
    };
    found.min_by_key(rank).cloned()
}

/// As code in a table.
fn code(text: &str) -> String {
    let fence = if text.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", text.replace('|', "\\|"))
}

fn arguments(least: u8, most: Option<u8>) -> String {
    match most {
        None => format!("{least} or more"),
        Some(most) if most == least => format!("{least}"),
        Some(most) => format!("{least} to {most}"),
    }
}

#[test]
fn the_page_lists_the_tables() {
    let cases = cases();
    let (mut text, mut family) = (HEAD.to_owned(), "");
    for function in sql_expression::described() {
        if function.family != family {
            family = function.family;
            let columns = "| function | arguments | for example | gives |\n|---|---|---|---|";
            write!(text, "\n## {family}\n\n{columns}\n").unwrap();
        }
        let mark = match function.volatility {
            Volatility::Pure => "",
            Volatility::Statement => "*",
            Volatility::Row => "***",
        };
        let mut names = vec![function.name];
        names.extend(&function.synonyms);
        let names: Vec<String> =
            names.iter().map(|name| format!("{mark}{}{mark}", name.to_uppercase())).collect();
        let (asked, value) = example(&function, &cases)
            .map_or_else(Default::default, |(asked, value)| (code(&asked), code(&value)));
        let (least, most) = function.arguments;
        let arguments = arguments(least, most);
        writeln!(text, "| {} | {arguments} | {asked} | {value} |", names.join(", ")).unwrap();
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &text).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let how = "UPDATE=1 cargo test -p sql-expression";
    assert!(page == text, "docs/reference/functions.md is old: {how}");
}
