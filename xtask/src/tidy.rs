//! The rules of `docs/STYLE.md` that a program can check.
//!
//! # Owns
//! The list of rules, reading the tree, printing what was found.
//! # Invariants
//! 1. A finding names its place, its rule and the reason for the rule.
//! 2. Every rule has a unit test beside it that shows it failing.
//!
//! To add a rule: write a function from text to findings in the file of its kind, give it a `Rule`
//! with a reason, call it in `check`, and add the sentence to `docs/STYLE.md`.

mod dependencies;
mod error_codes;
mod layers;
mod lines;
mod markdown;
mod module_layers;
mod modules;
mod pages;
mod purity;
mod registry;
mod rust_source;
mod shapes;
mod words;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use crate::workspace::Workspace;
use rust_source::RustSource;

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const GLOSSARY: &str = "docs/glossary.md";

/// A rule, by the name findings show and the reason they give.
#[derive(Debug, PartialEq)]
struct Rule {
    name: &'static str,
    reason: &'static str,
}

/// A place where a rule is broken.
#[derive(Debug)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static Rule,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static Rule, message: String) -> Finding {
        Finding { path: path.to_string(), line, rule, message }
    }
}

/// A text file of the repository; the path is relative to its root.
struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Compiled only for tests and benches: free of the rules on what ships.
    fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }
}

/// The text files of the repository.
struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    fn load(root: &Path) -> Result<Tree, String> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files).map_err(|error| format!("reading the tree: {error}"))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.has_extension("rs"))
    }
}

/// What a run of all rules gives.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    notes: Vec<String>,
}

/// Checks the tree and prints the result; with `write`, refreshes the generated tables first.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<bool, String> {
    let started = Instant::now();
    let mut tree = Tree::load(&workspace.root)?;
    if write {
        write_generated(&workspace.root, &tree)?;
        tree = Tree::load(&workspace.root)?;
    }
    let mut report = check(workspace, &tree);
    report.findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for note in &report.notes {
        println!("note: {note}");
    }
    for Finding { path, line, rule, message } in &report.findings {
        println!("{path}:{line}: {}: {message}\n    why: {}", rule.name, rule.reason);
    }
    println!(
        "tidy: {} findings in {} files, {:.2} s",
        report.findings.len(),
        tree.files.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(report.findings.is_empty())
}

fn check(workspace: &Workspace, tree: &Tree) -> Report {
    let mut report = Report::default();
    let layers = layers::parse(tree.text(ARCHITECTURE).unwrap_or_default());
    report.findings.extend(layers::check(&layers, workspace, tree));
    module_layers::check(tree, &mut report);
    shapes::check(tree, &mut report);
    report.findings.extend(dependencies::check(workspace, tree));
    for file in &tree.files {
        report.findings.extend(lines::check(file));
        if file.has_extension("rs") {
            check_rust(file, &layers, &mut report);
        }
        if file.has_extension("md") {
            let exists = |path: &str| workspace.root.join(path).exists();
            report.findings.extend(markdown::check(file, exists));
            report.findings.extend(words::check_prose(&file.path, &markdown::prose(&file.text)));
        }
    }
    report.findings.extend(registry::check(tree));
    report.findings.extend(error_codes::check(tree));
    report.findings.extend(pages::check(tree));
    report.findings.extend(check_aliases(tree));
    let exceptions: usize = tree.rust_files().map(|f| lines::length_exceptions(&f.text)).sum();
    report.notes.push(format!("functions excepted from the length limit: {exceptions}"));
    report
}

fn check_rust(file: &SourceFile, layers: &layers::Layers, report: &mut Report) {
    let source = RustSource::new(&file.text);
    report.findings.extend(words::check_rust(&file.path, &source));
    report.notes.extend(lines::note_long_file(file));
    if file.is_test() {
        return;
    }
    let source = source.without_tests();
    if layers.is_core(&file.path) {
        report.findings.extend(purity::check_core(&file.path, &source));
    }
    report.findings.extend(purity::check_actors(&file.path, &source));
}

static ALIAS: Rule = Rule {
    name: "glossary",
    reason: "who searches by NDB's word must find ours, in rustdoc and in the glossary alike",
};

fn check_aliases(tree: &Tree) -> Vec<Finding> {
    let glossary = tree.text(GLOSSARY).unwrap_or_default();
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let source = RustSource::new(&file.text);
        for (line, alias) in aliases(&source) {
            if rust_source::find_words(glossary, &alias).is_empty() {
                let message = format!("the alias \"{alias}\" is not in {GLOSSARY}");
                findings.push(Finding::new(&file.path, line, &ALIAS, message));
            }
        }
    }
    findings
}

fn aliases(source: &RustSource) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, _) in source.code.match_indices("doc(alias") {
        let end = source.code[start..].find(']').map_or(source.code.len(), |length| start + length);
        let line = rust_source::line_of(&source.code, start);
        let literals = rust_source::string_literals(&source.code_with_strings[start..end]);
        found.extend(literals.into_iter().map(|literal| (line, literal)));
    }
    found
}

fn write_generated(root: &Path, tree: &Tree) -> Result<(), String> {
    for (path, text) in
        [registry::generate(tree), error_codes::generate(tree), pages::generate(tree)]
            .into_iter()
            .flatten()
    {
        if tree.text(path) != Some(&text) {
            let full = root.join(path);
            let folder = full.parent().expect("a generated file lies in a folder");
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&full, text))
                .map_err(|error| format!("writing {path}: {error}"))?;
            println!("wrote {path}");
        }
    }
    Ok(())
}

fn read_folder(root: &Path, relative: &str, files: &mut Vec<SourceFile>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(relative))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
        let kind = entry.file_type()?;
        let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
        // What the build and the benches write is not part of the tree.
        let is_output = matches!(path.as_str(), "target" | "compare");
        if kind.is_dir() && !is_output && !name.starts_with('.') {
            read_folder(root, &path, files)?;
        } else if kind.is_file() && matches!(extension, Some("rs" | "md" | "toml" | "lock")) {
            let text = fs::read_to_string(entry.path())
                .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree made of pairs of path and text.
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_string(),
            text: (*text).to_string(),
        };
        Tree { files: files.iter().map(file).collect() }
    }

    /// What was found, short enough to compare: `line message`.
    pub(super) fn lines(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|finding| format!("{} {}", finding.line, finding.message)).collect()
    }

    #[test]
    fn aliases_must_be_in_the_glossary() {
        let source = "#[doc(alias = \"DBTC\")]\nstruct A;\n#[doc(alias(\"X\", \"Y\"))]\nstruct B;";
        let glossary = "| `Coordinator` | DBTC |\n| b | X |\n";
        let files = [("crates/a/src/lib.rs", source), (GLOSSARY, glossary)];
        let findings = check_aliases(&tree(&files));
        assert_eq!(lines(&findings), ["3 the alias \"Y\" is not in docs/glossary.md"]);
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        let is_test = |path: &str| tree(&[(path, "")]).files[0].is_test();
        assert!(is_test("crates/a/src/b/tests.rs"));
        assert!(is_test("crates/a/tests/story.rs"));
        assert!(!is_test("crates/a/src/contests.rs"));
    }
}
