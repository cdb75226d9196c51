//! Fault points and probes in the code against their page, `docs/reference/fault-points.md`.
//!
//! # Owns
//! Two tables of the page, `| name | file | what it means |`. Names and files are generated; people
//! write the meaning, which a rewrite keeps.

use std::collections::BTreeMap;

use super::markdown::table_rows;
use super::rust_source::string_literals;
use super::{Finding, Rule, RustSource, Tree};

const PAGE: &str = "docs/reference/fault-points.md";
const END: &str = "<!-- end of table -->";

static REGISTRY: Rule = Rule {
    name: "fault points and probes",
    reason: "the page is how one learns which rare situations exist and can be asked for",
};

/// A macro and the table that lists its names.
struct Kind {
    macro_name: &'static str,
    begin: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind { macro_name: "fault_point", begin: "<!-- table: fault points -->" },
    Kind { macro_name: "probe", begin: "<!-- table: probes -->" },
];

/// A name in the code.
struct Mark {
    name: String,
    path: String,
    line: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let page = tree.text(PAGE).unwrap_or_default();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for kind in &KINDS {
        let marks = collect(tree, kind, &mut findings);
        for mark in &marks {
            let place = format!("{}:{}", mark.path, mark.line);
            if let Some(first) = seen.insert(mark.name.clone(), place) {
                let message = format!("\"{}\" is already the name at {first}", mark.name);
                findings.push(Finding::new(&mark.path, mark.line, &REGISTRY, message));
            }
        }
        findings.extend(check_table(page, kind, &marks));
    }
    if findings.is_empty() && generate(tree).is_some_and(|(_, text)| text != page) {
        let message = "the tables are not as generated; run `cargo xtask tidy --write`".to_string();
        findings.push(Finding::new(PAGE, 1, &REGISTRY, message));
    }
    findings
}

/// The page with fresh tables, descriptions kept.
pub(super) fn generate(tree: &Tree) -> Option<(&'static str, String)> {
    let mut page = tree.text(PAGE)?.to_string();
    for kind in &KINDS {
        let (start, end) = table_range(&page, kind)?;
        let described = descriptions(&page[start..end]);
        let names: BTreeMap<String, String> = collect(tree, kind, &mut Vec::new())
            .into_iter()
            .map(|mark| (mark.name, mark.path))
            .collect();
        let mut table = "| name | file | what it means |\n|---|---|---|\n".to_string();
        for (name, path) in names {
            let meaning = described.get(&name).map_or("", |row| row.meaning.as_str());
            table.push_str(&format!("| {name} | `{path}` | {meaning} |\n"));
        }
        page.replace_range(start..end, &table);
    }
    Some((PAGE, page))
}

fn check_table(page: &str, kind: &Kind, marks: &[Mark]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some((start, end)) = table_range(page, kind) else {
        let message = format!("`{}` with `{END}` behind it is missing", kind.begin);
        return vec![Finding::new(PAGE, 1, &REGISTRY, message)];
    };
    let first_line = super::rust_source::line_of(page, start);
    let rows = descriptions(&page[start..end]);
    for mark in marks {
        match rows.get(&mark.name) {
            None => {
                let advice = "run `cargo xtask tidy --write` and describe it";
                let message = format!("\"{}\" is not in {PAGE}; {advice}", mark.name);
                findings.push(Finding::new(&mark.path, mark.line, &REGISTRY, message));
            }
            Some(row) if row.meaning.is_empty() => {
                let message = format!("\"{}\" has no description", mark.name);
                findings.push(Finding::new(PAGE, first_line + row.line - 1, &REGISTRY, message));
            }
            Some(_) => {}
        }
    }
    for (name, row) in &rows {
        if !marks.iter().any(|mark| mark.name == *name) {
            let message = format!("\"{name}\" is no longer in the code");
            findings.push(Finding::new(PAGE, first_line + row.line - 1, &REGISTRY, message));
        }
    }
    findings
}

struct Described {
    line: usize,
    meaning: String,
}

fn descriptions(table: &str) -> BTreeMap<String, Described> {
    let mut rows = BTreeMap::new();
    for (line, cells) in table_rows(table) {
        if let [name, _, meaning] = &cells[..]
            && name != "name"
        {
            rows.insert(name.clone(), Described { line, meaning: meaning.clone() });
        }
    }
    rows
}

/// Where the lines between the markers of a table are.
fn table_range(page: &str, kind: &Kind) -> Option<(usize, usize)> {
    let start = page.find(kind.begin)? + kind.begin.len() + 1;
    let length = page.get(start..)?.find(END)?;
    Some((start, start + length))
}

/// The names in shipped code: neither in tests nor in the definitions of the macros.
fn collect(tree: &Tree, kind: &Kind, findings: &mut Vec<Finding>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let shipped = tree.rust_files().filter(|f| f.path.starts_with("crates/") && !f.is_test());
    for file in shipped {
        if !file.text.contains(kind.macro_name) {
            continue;
        }
        let source = RustSource::new(&file.text).without_tests().without_macro_definitions();
        for (line, call) in source.macro_calls(kind.macro_name) {
            let name = string_literals(call).into_iter().next();
            match name.filter(|name| !name.is_empty() && !name.contains(['|', '\n', '`'])) {
                Some(name) => marks.push(Mark { name, path: file.path.clone(), line }),
                None => {
                    let message = "the name must be a string literal without `|`".to_string();
                    findings.push(Finding::new(&file.path, line, &REGISTRY, message));
                }
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    const CODE: &str = "//! A.\n/// `probe!(ctx, \"in a comment\")`\nfn a(ctx: C) {\n\
        fault_point!(ctx, \"a: stop\");\nprobe!(\n    ctx,\n    \"a: seen\"\n);\n}\n\
        macro_rules! probe { ($c:expr, $n:literal) => { probe!($c, $n) }; }\n\
        #[cfg(test)]\nmod tests { fn t() { probe!(ctx, \"only in a test\"); } }\n";

    fn page(fault_points: &str, probes: &str) -> String {
        let head = "| name | file | what it means |\n|---|---|---|\n";
        format!(
            "# F\n\n{}\n{head}{fault_points}{END}\n\n{}\n{head}{probes}{END}\n",
            KINDS[0].begin, KINDS[1].begin
        )
    }

    fn found(code: &str, page: &str) -> Vec<String> {
        lines(&check(&tree(&[("crates/a/src/lib.rs", code), (PAGE, page)])))
    }

    #[test]
    fn in_step() {
        let page = page(
            "| a: stop | `crates/a/src/lib.rs` | it stops |\n",
            "| a: seen | `crates/a/src/lib.rs` | it was seen |\n",
        );
        assert_eq!(found(CODE, &page), Vec::<String>::new());
    }

    #[test]
    fn missing_stale_and_undescribed() {
        let page = page(
            "| a: stop | `crates/a/src/lib.rs` |  |\n",
            "| b: gone | `crates/b/src/lib.rs` | it was here |\n",
        );
        let messages = found(CODE, &page);
        assert_eq!(messages[0], "6 \"a: stop\" has no description");
        assert!(messages[1].starts_with("5 \"a: seen\" is not in"), "{messages:?}");
        assert_eq!(messages[2], "12 \"b: gone\" is no longer in the code");
        assert_eq!(messages.len(), 3);
    }

    #[test]
    fn names_are_unique_and_literal() {
        let code = "//! A.\nfn a() { probe!(ctx, \"x\"); fault_point!(ctx, \"x\"); }\n";
        let row = "| x | `crates/a/src/lib.rs` | d |\n";
        let messages = found(code, &page(row, row));
        assert_eq!(messages, ["2 \"x\" is already the name at crates/a/src/lib.rs:2"]);
        let messages = found("//! A.\nfn a() { probe!(ctx, NAME); }\n", &page("", ""));
        assert_eq!(messages, ["2 the name must be a string literal without `|`"]);
    }

    #[test]
    fn a_moved_mark_makes_the_page_stale() {
        let page = page(
            "| a: stop | `crates/a/src/old.rs` | it stops |\n",
            "| a: seen | `crates/a/src/lib.rs` | it was seen |\n",
        );
        assert!(found(CODE, &page)[0].contains("--write"));
    }

    #[test]
    fn writing_keeps_descriptions() {
        let old = page("| a: stop | `crates/a/src/old.rs` | it stops |\n| b | `c` | d |\n", "");
        let tree = tree(&[("crates/a/src/lib.rs", CODE), (PAGE, &old)]);
        let (_, text) = generate(&tree).unwrap();
        let new = page(
            "| a: stop | `crates/a/src/lib.rs` | it stops |\n",
            "| a: seen | `crates/a/src/lib.rs` |  |\n",
        );
        assert_eq!(text, new);
    }

    #[test]
    fn the_page_must_have_its_tables() {
        assert_eq!(found("//! A.\n", "# F\n").len(), 2);
    }
}
