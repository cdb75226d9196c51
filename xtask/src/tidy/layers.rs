//! The layer table of `docs/ARCHITECTURE.md` against what the crates depend on.
//!
//! # Owns
//! Reading the table: rows `| L1 | `wire` | `model`, `stdx` | … |`.
//! # Invariants
//! 1. Every crate has one row, every row has a crate.
//! 2. A crate depends on those of its row only (tests aside), never on a higher layer.

use super::markdown::{code_spans, table_rows};
use super::{ARCHITECTURE, Finding, Rule, Tree};
use crate::workspace::Workspace;

static LAYERS: Rule = Rule {
    name: "layers",
    reason: "the same core must run in the simulation and in production, so it may not know either",
};

/// The highest layer whose sources must be deterministic.
const CORE_LAYER_MAX: u8 = 4;

/// The table.
pub(super) struct Layers {
    rows: Vec<Row>,
}

struct Row {
    line: usize,
    layer: u8,
    name: String,
    may_use: Vec<String>,
}

impl Layers {
    /// Whether a path is the source of a crate of the deterministic core.
    pub(super) fn is_core(&self, path: &str) -> bool {
        let mut core = self.rows.iter().filter(|row| row.layer <= CORE_LAYER_MAX);
        core.any(|row| path.starts_with(&format!("crates/{}/src/", row.name)))
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

pub(super) fn parse(architecture: &str) -> Layers {
    let mut rows = Vec::new();
    for (line, cells) in table_rows(architecture) {
        let [layer, name, may_use, ..] = &cells[..] else { continue };
        let number = layer.strip_prefix('L').and_then(|digits| digits.parse().ok());
        let names = code_spans(name);
        if let (Some(layer), [name]) = (number, &names[..]) {
            rows.push(Row { line, layer, name: name.clone(), may_use: code_spans(may_use) });
        }
    }
    Layers { rows }
}

pub(super) fn check(layers: &Layers, workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let mut findings = check_table(layers);
    for row in &layers.rows {
        if workspace.package(&row.name).is_none() {
            let message = format!("the table names `{}`, which is not in the workspace", row.name);
            findings.push(Finding::new(ARCHITECTURE, row.line, &LAYERS, message));
        }
    }
    for package in &workspace.packages {
        let Some(row) = layers.row(&package.name) else {
            let message = format!("`{}` is not in the table of {ARCHITECTURE}", package.name);
            findings.push(Finding::new(&package.manifest, 1, &LAYERS, message));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.local && !d.dev) {
            if !row.may_use.contains(&dependency.name) {
                let manifest = tree.text(&package.manifest).unwrap_or_default();
                let line = line_of_key(manifest, &dependency.name);
                let message = format!("`{}` may not use `{}`", package.name, dependency.name);
                findings.push(Finding::new(&package.manifest, line, &LAYERS, message));
            }
        }
    }
    findings
}

fn check_table(layers: &Layers) -> Vec<Finding> {
    let mut findings = Vec::new();
    if layers.rows.is_empty() {
        let message = "no layer table found".to_string();
        findings.push(Finding::new(ARCHITECTURE, 1, &LAYERS, message));
    }
    for (index, row) in layers.rows.iter().enumerate() {
        if layers.rows[..index].iter().any(|earlier| earlier.name == row.name) {
            let message = format!("`{}` has two rows", row.name);
            findings.push(Finding::new(ARCHITECTURE, row.line, &LAYERS, message));
        }
        for used in &row.may_use {
            let message = match layers.row(used) {
                None => format!("`{}` may use `{used}`, which has no row", row.name),
                Some(other) if other.layer > row.layer => {
                    format!("`{}` may use `{used}`, which is in a higher layer", row.name)
                }
                Some(other) if other.may_use.contains(&row.name) => {
                    format!("`{}` and `{used}` may use each other", row.name)
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(ARCHITECTURE, row.line, &LAYERS, message));
        }
    }
    findings
}

/// The line of a manifest that begins with a key, or the first line.
fn line_of_key(manifest: &str, key: &str) -> usize {
    let begins =
        |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
    manifest.lines().position(begins).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};
    use crate::workspace::{Dependency, Package};
    use std::path::PathBuf;

    const TABLE: &str = "| layer | crate | may use |\n|---|---|---|\n| L0 | `stdx` | – |\n\
        | L1 | `model` | `stdx` |\n| L5 | `sim` | `stdx`, `model` |\n";

    fn package(name: &str, uses: &[(&str, bool)]) -> Package {
        let dependency = |(name, dev): &(&str, bool)| Dependency {
            name: (*name).to_string(),
            local: true,
            dev: *dev,
        };
        Package {
            name: name.to_string(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: uses.iter().map(dependency).collect(),
            binaries: Vec::new(),
        }
    }

    fn found(table: &str, packages: Vec<Package>) -> Vec<String> {
        let workspace = Workspace { root: PathBuf::new(), packages };
        let manifest = "[dependencies]\nmodelling = \"1\"\nmodel.workspace = true\n";
        let tree = tree(&[("crates/stdx/Cargo.toml", manifest)]);
        lines(&check(&parse(table), &workspace, &tree))
    }

    fn good() -> Vec<Package> {
        vec![
            package("stdx", &[("sim", true)]),
            package("model", &[("stdx", false)]),
            package("sim", &[("model", false)]),
        ]
    }

    #[test]
    fn allowed_edges_pass() {
        assert!(found(TABLE, good()).is_empty());
    }

    #[test]
    fn forbidden_edge() {
        let mut packages = good();
        packages[0] = package("stdx", &[("model", false)]);
        assert_eq!(found(TABLE, packages), ["3 `stdx` may not use `model`"]);
    }

    #[test]
    fn missing_and_unknown_crates() {
        let mut packages = good();
        packages.pop();
        let missing = ["5 the table names `sim`, which is not in the workspace"];
        assert_eq!(found(TABLE, packages), missing);
        let mut packages = good();
        packages.push(package("extra", &[]));
        assert_eq!(
            found(TABLE, packages),
            ["1 `extra` is not in the table of docs/ARCHITECTURE.md"]
        );
    }

    #[test]
    fn the_table_itself() {
        let upwards = TABLE.replace("| – |", "| `model` |");
        let messages = found(&upwards, good());
        assert!(messages[0].contains("higher layer"), "{messages:?}");
        let unknown = TABLE.replace("| – |", "| `nothing` |");
        assert!(found(&unknown, good())[0].contains("has no row"));
        let twice = format!("{TABLE}| L2 | `sim` | |\n");
        assert!(found(&twice, good())[0].contains("two rows"));
        assert!(found("", Vec::new())[0].contains("no layer table"));
    }

    #[test]
    fn the_core_ends_below_the_simulation() {
        let layers = parse(TABLE);
        assert!(layers.is_core("crates/model/src/a.rs"));
        assert!(!layers.is_core("crates/sim/src/a.rs"));
        assert!(!layers.is_core("crates/model/tests/a.rs"));
    }
}
