//! The page of error codes, generated from the table in the crate `model`.
//!
//! # Owns
//! `docs/reference/error-codes.md`. Entries are read from `error_codes! { (1001, Name, Class,
//! "message", "advice"), … }`.

use super::rust_source::{line_of, string_literals};
use super::{Finding, Rule, RustSource, Tree};

const SOURCE: &str = "crates/model/src/error_code.rs";
const PAGE: &str = "docs/reference/error-codes.md";

static CODES: Rule = Rule {
    name: "error codes",
    reason: "users look codes up: a number means one thing for ever, and the page says which",
};

const HEAD: &str = "\
# Error codes

Generated from `crates/model/src/error_code.rs` by `cargo xtask tidy --write`; edit it there.
The class answers two questions by itself: may the request be tried again, and did it take effect.

| code | name | class | message | what to do |
|---|---|---|---|---|
";

struct Entry {
    line: usize,
    number: u32,
    name: String,
    class: String,
    message: String,
    advice: String,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(source) = tree.text(SOURCE) else { return Vec::new() };
    let entries = parse(source);
    let mut findings = Vec::new();
    if entries.is_empty() {
        let message =
            "no entry `(NUMBER, NAME, CLASS, \"…\", \"…\")` in `error_codes!`".to_string();
        findings.push(Finding::new(SOURCE, 1, &CODES, message));
    }
    for (index, entry) in entries.iter().enumerate() {
        let earlier = &entries[..index];
        if earlier.iter().any(|e| e.number == entry.number || e.name == entry.name) {
            let message = format!("{} {} is given twice", entry.number, entry.name);
            findings.push(Finding::new(SOURCE, entry.line, &CODES, message));
        }
    }
    if tree.text(PAGE) != Some(&render(&entries)) {
        let message = "out of date; run `cargo xtask tidy --write`".to_string();
        findings.push(Finding::new(PAGE, 1, &CODES, message));
    }
    findings
}

/// The page, if there is a table to make it from.
pub(super) fn generate(tree: &Tree) -> Option<(&'static str, String)> {
    Some((PAGE, render(&parse(tree.text(SOURCE)?))))
}

fn render(entries: &[Entry]) -> String {
    let mut page = HEAD.to_string();
    for Entry { number, name, class, message, advice, .. } in entries {
        let (message, advice) = (message.replace('|', "\\|"), advice.replace('|', "\\|"));
        page.push_str(&format!("| {number} | `{name}` | {class} | {message} | {advice} |\n"));
    }
    page
}

fn parse(text: &str) -> Vec<Entry> {
    let source = RustSource::new(text).without_tests().without_macro_definitions();
    let mut entries = Vec::new();
    for (first_line, call) in source.macro_calls("error_codes") {
        // Brackets inside strings must not count, so the shape comes from a view without them.
        let shape = RustSource::new(call).code;
        let mut start = 0;
        while let Some(open) = shape[start..].find('(').map(|at| start + at) {
            let Some(close) = shape[open..].find(')').map(|at| open + at) else { break };
            let line = first_line + line_of(call, open) - 1;
            entries.extend(entry(&call[open + 1..close], line));
            start = close;
        }
    }
    entries.sort_by_key(|entry| entry.number);
    entries
}

fn entry(text: &str, line: usize) -> Option<Entry> {
    let mut fields = text.splitn(4, ',').map(str::trim);
    let number = fields.next()?.replace('_', "").parse().ok()?;
    let (name, class) = (fields.next()?.to_string(), fields.next()?.to_string());
    let mut literals = string_literals(fields.next()?).into_iter();
    let (message, advice) = (literals.next()?, literals.next()?);
    Some(Entry { line, number, name, class, message, advice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    const TABLE: &str = "//! Codes.\n\
        macro_rules! error_codes { ($(($n:literal, $i:ident)),*) => {} }\n\
        error_codes! {\n    /// A comment (with brackets).\n    (1002, PoolFull, Overload,\n\
        \"too many \\\n            (by far)\", \"wait | retry\"),\n\
        (1_001, Deadlock, Temporary, \"a circle\", \"retry\"),\n}\n";

    #[test]
    fn the_page_is_made_from_the_table() {
        let (path, page) = generate(&tree(&[(SOURCE, TABLE)])).unwrap();
        let rows: Vec<&str> = page.lines().skip(7).collect();
        assert_eq!(
            rows,
            [
                "| 1001 | `Deadlock` | Temporary | a circle | retry |",
                "| 1002 | `PoolFull` | Overload | too many (by far) | wait \\| retry |",
            ]
        );
        assert!(check(&tree(&[(SOURCE, TABLE), (path, &page)])).is_empty());
    }

    #[test]
    fn a_stale_page_and_a_number_given_twice() {
        let stale = check(&tree(&[(SOURCE, TABLE), (PAGE, "# Error codes\n")]));
        assert_eq!(lines(&stale), ["1 out of date; run `cargo xtask tidy --write`"]);
        let twice = TABLE.replace("1_001", "1002");
        assert!(lines(&check(&tree(&[(SOURCE, &twice)])))[0].contains("given twice"));
    }

    #[test]
    fn no_source_no_rule() {
        assert!(check(&tree(&[])).is_empty());
        assert!(!check(&tree(&[(SOURCE, "//! Empty.\n")])).is_empty());
    }
}
