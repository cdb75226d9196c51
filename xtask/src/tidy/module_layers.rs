//! The layers inside the SQL crate: the table of `docs/ARCHITECTURE.md` against its imports.
//!
//! # Owns
//! Reading the table: rows `| base | `error`, `kernel` | – | … |`, lowest layer first.
//! # Invariants
//! 1. Every top module of the crate is in one row, and every row names modules that exist.
//! 2. A file uses modules of its own layer and of those its row names, all of them lower.
//! 3. A layer writes methods of its own types only: a method of a lower layer's type could be
//!    called by that layer without an import.
//! 4. No more than [`CIRCLE_FILES_MAX`] files of one layer import each other in a circle.

use super::markdown::{code_spans, section, table_rows};
use super::modules::{ModuleName, Modules};
use super::{ARCHITECTURE, Finding, Report, Rule, Tree};

static ORDER: Rule = Rule {
    name: "layers of modules",
    reason: "a layer that knows only those below it is read, tested and changed without the rest",
};
static CIRCLE: Rule = Rule {
    name: "import circle",
    reason: "files that import each other in a circle can only be understood all at once",
};

const CRATE: &str = "crates/sql/src/";
const SECTION: &str = "## Layers of the SQL crate";

/// Files in the largest circle of imports within one layer. This number may only shrink.
const CIRCLE_FILES_MAX: usize = 9;

struct Layer {
    line: usize,
    name: String,
    modules: Vec<String>,
    may_use: Vec<String>,
}

/// Checks the crate, and notes its largest circle.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    let modules = Modules::read(tree, CRATE);
    let layers = parse(tree.text(ARCHITECTURE).unwrap_or_default());
    report.findings.extend(check_table(&layers, &modules));
    report.findings.extend(check_order(&layers, &modules));
    let circle = largest_circle(&layers, &modules);
    let files = |circle: &[ModuleName]| {
        circle.iter().map(|name| name.join("/")).collect::<Vec<_>>().join(", ")
    };
    report.notes.push(format!(
        "largest import circle of {CRATE}: {} files ({CIRCLE_FILES_MAX} at most){}",
        circle.len(),
        if circle.len() < CIRCLE_FILES_MAX { "; lower CIRCLE_FILES_MAX" } else { "" }
    ));
    if circle.len() > CIRCLE_FILES_MAX {
        let message = format!(
            "{} files import each other in a circle; the limit is {CIRCLE_FILES_MAX}: {}",
            circle.len(),
            files(&circle)
        );
        report.findings.push(Finding::new(&format!("{CRATE}lib.rs"), 1, &CIRCLE, message));
    }
}

fn parse(architecture: &str) -> Vec<Layer> {
    let text = section(architecture, SECTION);
    let start = architecture.find(text).filter(|_| !text.is_empty()).unwrap_or_default();
    let lines_before = architecture[..start].lines().count();
    let mut layers = Vec::new();
    for (line, cells) in table_rows(text) {
        let [name, modules, may_use, ..] = &cells[..] else { continue };
        let modules = code_spans(modules);
        if !modules.is_empty() {
            let may_use = may_use.split(',').map(str::trim).filter(|used| *used != "–");
            let may_use = may_use.map(str::to_string).collect();
            layers.push(Layer { line: lines_before + line, name: name.clone(), modules, may_use });
        }
    }
    layers
}

fn check_table(layers: &[Layer], modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut complain = |line: usize, message: String| {
        findings.push(Finding::new(ARCHITECTURE, line, &ORDER, message));
    };
    if layers.is_empty() {
        complain(1, format!("no table below `{SECTION}`"));
    }
    for (index, layer) in layers.iter().enumerate() {
        for used in &layer.may_use {
            if !layers[..index].iter().any(|lower| lower.name == *used) {
                complain(
                    layer.line,
                    format!("{} may use {used}, which is no row above", layer.name),
                );
            }
        }
        for module in &layer.modules {
            let is_top = |name: &ModuleName| name.len() == 1 && name[0] == *module;
            if !modules.iter().any(|(name, _)| is_top(name)) {
                complain(layer.line, format!("`{module}` is no module of {CRATE}"));
            }
            if layers[..index].iter().any(|lower| lower.modules.contains(module)) {
                complain(layer.line, format!("`{module}` is in two rows"));
            }
        }
    }
    for (name, module) in modules.iter().filter(|(name, _)| name.len() == 1) {
        if layer_of(layers, name).is_none() {
            let message = format!("`{}` is in no row of \"{SECTION}\" in {ARCHITECTURE}", name[0]);
            findings.push(Finding::new(&module.path, 1, &ORDER, message));
        }
    }
    findings
}

fn check_order(layers: &[Layer], modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, module) in modules.iter() {
        let Some(layer) = layer_of(layers, name) else { continue };
        for used in &module.uses {
            let owner = modules.owner(used);
            let Some(message) = refused(layers, layer, &owner) else { continue };
            let message = format!("{message} (`{}`)", used.written);
            findings.push(Finding::new(&module.path, used.line, &ORDER, message));
        }
        for (line, written, owner) in modules.foreign_methods(name) {
            if layer_of(layers, &owner).is_some_and(|other| other.name != layer.name) {
                let message = format!(
                    "{} writes methods of `{written}`, which `{}` owns: use a function or a trait",
                    layer.name, owner[0]
                );
                findings.push(Finding::new(&module.path, line, &ORDER, message));
            }
        }
    }
    findings
}

/// Why a layer may not use a file, or nothing if it may.
fn refused(layers: &[Layer], layer: &Layer, owner: &ModuleName) -> Option<String> {
    if owner.is_empty() {
        return Some(format!("{} uses the crate's root, which is in no layer", layer.name));
    }
    let other = layer_of(layers, owner)?;
    let may = other.name == layer.name || layer.may_use.contains(&other.name);
    (!may).then(|| format!("{} may not use `{}` of {}", layer.name, owner[0], other.name))
}

fn layer_of<'a>(layers: &'a [Layer], name: &ModuleName) -> Option<&'a Layer> {
    let top = name.first()?;
    layers.iter().find(|layer| layer.modules.contains(top))
}

fn largest_circle(layers: &[Layer], modules: &Modules) -> Vec<ModuleName> {
    let index = |name: &ModuleName| {
        layers.iter().position(|layer| name.first().is_some_and(|top| layer.modules.contains(top)))
    };
    modules.largest_circle(|from, to| index(from).is_some() && index(from) == index(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    const TABLE: &str = "# A\n\n## Layers of the SQL crate\n\ntext\n\n\
        | layer | modules | may use |\n|---|---|---|\n| base | `error` | – |\n| catalog | `table`, `text` | base |\n\
        | plan | `plan` | base, catalog |\n";

    fn found(table: &str, files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![
            ("error.rs", ""),
            ("table.rs", "mod name;"),
            ("table/name.rs", ""),
            ("text.rs", ""),
            ("plan.rs", "mod join;"),
            ("plan/join.rs", ""),
        ];
        all.retain(|(path, _)| !files.iter().any(|(other, _)| other == path));
        all.extend(files);
        let all: Vec<(String, &str)> =
            all.into_iter().map(|(path, text)| (format!("{CRATE}{path}"), text)).collect();
        let mut all: Vec<(&str, &str)> = all.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        all.push((ARCHITECTURE, table));
        let mut report = Report::default();
        check(&tree(&all), &mut report);
        lines(&report.findings)
    }

    #[test]
    fn imports_in_order_pass() {
        let plan = "use crate::table::name::X;\nuse super::join;\nuse crate::error::E;";
        let files = [("plan/join.rs", plan), ("text.rs", "use crate::table::X;")];
        assert_eq!(found(TABLE, &files), Vec::<String>::new());
    }

    #[test]
    fn imports_against_the_order() {
        let expected = "1 catalog may not use `plan` of plan (`crate::plan::join::X`)";
        let name = |text: &'static str| found(TABLE, &[("table/name.rs", text)]);
        assert_eq!(name("use crate::plan::join::X;"), [expected]);
        assert_eq!(name("fn f() { crate::plan::join::X }"), [expected]);
        assert_eq!(name("use super::super::plan::X;").len(), 1);
        assert_eq!(name("fn f() -> super::super::plan::X {}").len(), 1);
        assert_eq!(name("use crate::{error::E, plan::{X, join::{self, Y}}};").len(), 3);
        assert_eq!(name("#[cfg(test)]\nmod tests { use crate::plan::X; }"), Vec::<String>::new());
        let unnamed = TABLE.replace("base, catalog", "base");
        let files = [("plan.rs", "mod join;\nuse crate::text::X;")];
        assert_eq!(
            found(&unnamed, &files),
            ["2 plan may not use `text` of catalog (`crate::text::X`)"]
        );
    }

    #[test]
    fn the_root_hides_nothing() {
        let root = ("lib.rs", "mod plan;\npub use plan::join::X;");
        let through = found(TABLE, &[root, ("error.rs", "use crate::X;")]);
        assert_eq!(through, ["1 base may not use `plan` of plan (`crate::X`)"]);
        let whole = found(TABLE, &[root, ("error.rs", "use crate as all;")]);
        assert_eq!(whole, ["1 base uses the crate's root, which is in no layer (`crate`)"]);
    }

    #[test]
    fn methods_belong_to_the_layer_of_their_type() {
        let plan = "mod join;\nuse crate::table::T;\nuse join::J;\nimpl T {}\nimpl J {}";
        let expected =
            "4 plan writes methods of `T`, which `table` owns: use a function or a trait";
        assert_eq!(found(TABLE, &[("plan.rs", plan)]), [expected]);
    }

    #[test]
    fn the_table_is_whole() {
        assert!(found("", &[])[0].contains("no table"));
        let missing = TABLE.replace(", `text`", "");
        assert!(found(&missing, &[])[0].contains("`text` is in no row"));
        let unknown = TABLE.replace("`text`", "`text`, `nothing`");
        assert_eq!(found(&unknown, &[]), ["10 `nothing` is no module of crates/sql/src/"]);
        let twice = TABLE.replace("`plan` |", "`plan`, `text` |");
        assert_eq!(found(&twice, &[]), ["11 `text` is in two rows"]);
        let upwards = TABLE.replace("| – |", "| plan |");
        assert_eq!(found(&upwards, &[]), ["9 base may use plan, which is no row above"]);
    }

    #[test]
    fn circles_stay_within_a_layer() {
        let files = [
            ("table.rs", "mod name;\nuse name::X;"),
            ("table/name.rs", "use super::Y;\nuse crate::plan::Z;"),
            ("plan.rs", "use crate::table::Y;"),
        ];
        let tree_of = |(path, text): &(&str, &'static str)| (format!("{CRATE}{path}"), *text);
        let files: Vec<(String, &str)> = files.iter().map(tree_of).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        let modules = Modules::read(&tree(&files), CRATE);
        let circle = largest_circle(&parse(TABLE), &modules);
        assert_eq!(
            circle.iter().map(|name| name.join("/")).collect::<Vec<_>>(),
            ["table", "table/name"]
        );
    }
}
