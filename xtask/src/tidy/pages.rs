//! Pages that a reader finds: the list of decisions, generated from their titles, and a link to
//! each page from some other one.
//!
//! # Owns
//! `docs/decisions/README.md`.

use super::{Finding, Rule, SourceFile, Tree};

const FOLDER: &str = "docs/decisions/";
const PAGE: &str = "docs/decisions/README.md";

static LIST: Rule =
    Rule { name: "list of decisions", reason: "whoever asks why looks through the titles first" };
static FOUND: Rule = Rule {
    name: "pages are linked",
    reason: "a page that no other one links to is read by nobody, and grows wrong unnoticed",
};

const HEAD: &str = "\
# Decisions

Why it is as it is: what was weighed, what was chosen, what follows.
Generated from the titles of the records by `cargo xtask tidy --write`.

| | decision |
|---|---|
";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((page, text)) = generate(tree)
        && tree.text(page) != Some(&text)
    {
        let message = "out of date; run `cargo xtask tidy --write`".to_string();
        findings.push(Finding::new(page, 1, &LIST, message));
    }
    for page in pages(tree).filter(|page| page.path.starts_with("docs/")) {
        // The name alone may be in any folder; it is enough to be found.
        let end = page.path.rsplit('/').take(2).collect::<Vec<_>>();
        let name =
            if end[0] == "README.md" { format!("{}/README.md", end[1]) } else { end[0].into() };
        let mut others = pages(tree).filter(|other| other.path != page.path);
        if !others.any(|other| links_to(&other.text, &name)) {
            let message = "no page links to this one".to_string();
            findings.push(Finding::new(&page.path, 1, &FOUND, message));
        }
    }
    findings
}

/// Whether a text has a link whose path ends with this name.
fn links_to(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        matches!(before, Some('(' | '/')) && matches!(after, Some(')' | '#'))
    })
}

fn pages(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files.iter().filter(|file| file.has_extension("md"))
}

/// The page, if there are decisions.
pub(super) fn generate(tree: &Tree) -> Option<(&'static str, String)> {
    let mut page = HEAD.to_string();
    let mut any = false;
    for file in pages(tree).filter(|file| file.path != PAGE) {
        let Some(name) = file.path.strip_prefix(FOLDER) else { continue };
        let title = file.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name);
        // `0007: Title`, or `7. Title`.
        let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ":. ".contains(c));
        let number = name.split('-').next().unwrap_or_default();
        page.push_str(&format!("| {number} | [{}]({name}) |\n", title.replace('|', "\\|")));
        any = true;
    }
    any.then_some((PAGE, page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    #[test]
    fn decisions_are_listed_by_their_titles() {
        let files = [
            ("docs/decisions/0001-a.md", "# 0001: First\n"),
            ("docs/decisions/0002-b.md", "# 2. Second | third\n"),
            ("README.md", "[why](docs/decisions/README.md)"),
        ];
        let (path, page) = generate(&tree(&files)).unwrap();
        let rows: Vec<&str> = page.lines().skip(7).collect();
        let expected =
            ["| 0001 | [First](0001-a.md) |", "| 0002 | [Second \\| third](0002-b.md) |"];
        assert_eq!(rows, expected);
        let mut all = files.to_vec();
        all.push((path, &page));
        assert!(check(&tree(&all)).is_empty());
        let stale = tree(&[files.as_slice(), &[(path, "# Decisions\n")]].concat());
        assert!(lines(&check(&stale))[0].contains("out of date"));
    }

    #[test]
    fn a_page_without_a_link_is_found() {
        let files = [
            ("README.md", "[a](docs/a.md) [ops](docs/ops/README.md#start) and docs/c.md"),
            ("docs/a.md", "# A\n[itself](a.md)"),
            ("docs/c.md", "# C, which is only mentioned\n"),
            ("docs/ops/README.md", "# Ops\n"),
            ("docs/sql/README.md", "# SQL\n[ba](ba.md)"),
        ];
        let found = check(&tree(&files));
        let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["docs/c.md", "docs/sql/README.md"]);
    }
}
