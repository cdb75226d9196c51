//! Markdown as far as the rules need it: titles, links, tables, and prose without code.

use super::{Finding, Rule, SourceFile, words};

static TITLE: Rule = Rule {
    name: "one title",
    reason: "a page has one subject, and tools take its name from the only `# ` line",
};
static LINK: Rule = Rule {
    name: "links resolve",
    reason: "a reader who follows a dead link stops trusting the page",
};

/// Checks a page; `exists` answers for a path relative to the root.
pub(super) fn check(file: &SourceFile, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let text = without_fences(&file.text);
    let mut findings = Vec::new();
    let titles: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.starts_with("# "))
        .map(|(number, _)| number)
        .collect();
    if titles.len() != 1 {
        let line = titles.get(1).copied().unwrap_or(1);
        let message = format!("{} lines begin with `# `, one is wanted", titles.len());
        findings.push(Finding::new(&file.path, line, &TITLE, message));
    }
    for (number, line) in (1..).zip(words::without_code_spans(&text).lines()) {
        for target in link_targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            let external = target.contains("://") || target.starts_with("mailto:");
            if !external && !path.is_empty() && !exists(&resolve(&file.path, path)) {
                let message = format!("`{target}` leads nowhere");
                findings.push(Finding::new(&file.path, number, &LINK, message));
            }
        }
    }
    findings
}

/// The page without code blocks and code spans, lines kept.
pub(super) fn prose(text: &str) -> String {
    words::without_code_spans(&without_fences(text))
}

/// The cells of every table row, with line numbers; separator rows are left out.
pub(super) fn table_rows(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(without_fences(text).lines()) {
        let line = line.trim();
        let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        if let Some(inner) = inner
            && !inner.chars().all(|char| matches!(char, '|' | '-' | ':' | ' '))
        {
            rows.push((number, inner.split('|').map(|cell| cell.trim().to_string()).collect()));
        }
    }
    rows
}

/// What stands between backticks.
pub(super) fn code_spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// The lines of a section, from behind its heading to the next of the same or a higher level.
pub(super) fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let line = format!("\n{heading}\n");
    let Some(start) = text.find(&line).map(|at| at + line.len()) else { return "" };
    let rest = &text[start..];
    let end = ["\n# ", "\n## "].iter().filter_map(|next| rest.find(next)).min();
    &rest[..end.unwrap_or(rest.len())]
}

fn without_fences(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        result.push_str(if inside || fence { "\n" } else { line });
        inside ^= fence;
    }
    result
}

fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (at, opening) in line.match_indices("](") {
        let rest = &line[at + opening.len()..];
        if let Some(length) = rest.find(')') {
            targets.push(rest[..length].split(' ').next().unwrap_or_default());
        }
    }
    targets
}

fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            // A target above the root keeps its `..`, and then exists only outside the project.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    fn found(text: &str) -> Vec<String> {
        let tree = tree(&[("docs/a/b.md", text)]);
        lines(&check(&tree.files[0], |path| path == "docs/c.md"))
    }

    #[test]
    fn titles() {
        assert_eq!(found("text\n"), ["1 0 lines begin with `# `, one is wanted"]);
        assert_eq!(found("# a\n\n# b\n"), ["3 2 lines begin with `# `, one is wanted"]);
        assert!(found("# a\n```sh\n# not a title\n```\n").is_empty());
    }

    #[test]
    fn links() {
        let text = "# a\n[x](../c.md#part) [y](d.md)\n[z](https://example.org) `[w](no.md)`\n";
        assert_eq!(found(text), ["2 `d.md` leads nowhere"]);
        assert_eq!(found("# a\n[x](../../../c.md)\n").len(), 1);
    }

    #[test]
    fn tables() {
        let text = "| a | b |\n|---|:-:|\n| `c` | d, `e` |\n```\n| f |\n```\n";
        let rows = table_rows(text);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], (3, vec!["`c`".to_string(), "d, `e`".to_string()]));
        assert_eq!(code_spans(&rows[1].1[1]), ["e"]);
    }

    #[test]
    fn sections_end_at_the_next_heading() {
        let text = "# a\n\n## b\nc\n### d\ne\n## f\ng\n";
        assert_eq!(section(text, "## b"), "c\n### d\ne");
        assert_eq!(section(text, "## x"), "");
    }
}
