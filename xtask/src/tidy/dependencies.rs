//! Every crate from outside has a reason on paper; every crate inside follows the common lints.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{code_spans, section, table_rows};
use super::{Finding, Rule, Tree};
use crate::workspace::Workspace;

const PAGE: &str = "docs/dependencies.md";
const ROOT_MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

static REASON: Rule = Rule {
    name: "dependency with a reason",
    reason: "a crate we did not write is code we answer for; the page says why it is worth it",
};
static DUPLICATE: Rule = Rule {
    name: "one version of a crate",
    reason: "two versions cost build time and hide that two parts disagree",
};
static LINTS: Rule = Rule {
    name: "common lints",
    reason: "a crate without `[lints] workspace = true` is checked by nobody",
};

pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PAGE).unwrap_or_default();
    let mut used: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let root = tree.text(ROOT_MANIFEST).unwrap_or_default();
    for (line, name) in workspace_dependencies(root) {
        used.insert(name, (ROOT_MANIFEST.to_string(), line));
    }
    for package in &workspace.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.local) {
            let place = (package.manifest.clone(), 1);
            used.entry(dependency.name.clone()).or_insert(place);
        }
    }

    let mut findings = check_page(page, &used);
    findings.extend(check_lock(tree.text(LOCK).unwrap_or_default(), page));
    for package in &workspace.packages {
        let manifest = tree.text(&package.manifest).unwrap_or_default();
        if !follows_lints(manifest) {
            let message = "`[lints] workspace = true` is missing".to_string();
            findings.push(Finding::new(&package.manifest, 1, &LINTS, message));
        }
    }
    findings
}

/// Compares the page's table with what is used, both ways.
fn check_page(page: &str, used: &BTreeMap<String, (String, usize)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut written = BTreeSet::new();
    let direct = section(page, "## Direct");
    for (_, cells) in table_rows(direct) {
        written.extend(code_spans(&cells[0]));
    }
    for (name, (path, line)) in used {
        if !written.contains(name) {
            let message = format!("`{name}` has no row under \"Direct\" in {PAGE}");
            findings.push(Finding::new(path, *line, &REASON, message));
        }
    }
    for name in written.iter().filter(|name| !used.contains_key(*name)) {
        let message = format!("`{name}` is explained but not used");
        findings.push(Finding::new(PAGE, 1, &REASON, message));
    }
    findings
}

fn check_lock(lock: &str, page: &str) -> Vec<Finding> {
    let accepted = code_spans(section(page, "## Duplicates"));
    let mut findings = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (number, line) in (1..).zip(lock.lines()) {
        let name = line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"'));
        if let Some(name) = name
            && !seen.insert(name)
            && !accepted.iter().any(|accepted| accepted == name)
        {
            let message = format!("another version of `{name}`");
            findings.push(Finding::new(LOCK, number, &DUPLICATE, message));
        }
    }
    findings
}

/// The registry crates that the root manifest offers to members.
fn workspace_dependencies(manifest: &str) -> Vec<(usize, String)> {
    let lines = (1..).zip(manifest.lines());
    lines
        .skip_while(|(_, line)| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|(number, line)| {
            let (name, _) = line.split_once('=')?;
            Some((number, name.trim().trim_matches('"').to_string()))
        })
        .collect()
}

fn follows_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.next() == Some("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};
    use crate::workspace::{Dependency, Package};
    use std::path::PathBuf;

    const GOOD_PAGE: &str = "# d\n\n## Direct\n\n| `good` | why |\n\n## Duplicates\n\n`twice`\n";
    const GOOD_MANIFEST: &str = "[package]\n\n[lints]\nworkspace = true\n";

    fn found(root: &str, lock: &str, uses: &str, manifest: &str) -> Vec<String> {
        let dependency = Dependency { name: uses.to_string(), local: false, dev: false };
        let package = Package {
            name: "a".to_string(),
            manifest: "a/Cargo.toml".to_string(),
            dependencies: vec![dependency],
            binaries: Vec::new(),
        };
        let workspace = Workspace { root: PathBuf::new(), packages: vec![package] };
        let files =
            [(ROOT_MANIFEST, root), (LOCK, lock), (PAGE, GOOD_PAGE), ("a/Cargo.toml", manifest)];
        lines(&check(&workspace, &tree(&files)))
    }

    #[test]
    fn every_dependency_has_its_row() {
        assert!(found("", "", "good", GOOD_MANIFEST).is_empty());
        let unexplained = "1 `odd` has no row under \"Direct\" in docs/dependencies.md";
        let unused = "1 `good` is explained but not used";
        assert_eq!(found("", "", "odd", GOOD_MANIFEST), [unexplained, unused]);
        let root =
            "[workspace.dependencies]\nb = { path = \"b\" }\nodd = \"1\"\n[profile]\nx = 1\n";
        let messages = found(root, "", "good", GOOD_MANIFEST);
        assert_eq!(messages, ["3 `odd` has no row under \"Direct\" in docs/dependencies.md"]);
    }

    #[test]
    fn two_versions() {
        let lock = "name = \"x\"\nname = \"twice\"\nname = \"x\"\nname = \"twice\"\n";
        assert_eq!(found("", lock, "good", GOOD_MANIFEST), ["3 another version of `x`"]);
    }

    #[test]
    fn lints() {
        let messages = found("", "", "good", "[package]\n");
        assert_eq!(messages, ["1 `[lints] workspace = true` is missing"]);
    }
}
