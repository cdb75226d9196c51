//! The modules of one crate: which file uses items of which other.
//!
//! # Owns
//! Reading imports and paths of the crate's files, and finding the file that owns what they name.
//! # Invariants
//! 1. `crate::`, `self::`, any number of `super::`, child modules and grouped imports all count.
//! 2. A name that is re-exported belongs to the file that defines it, however it is reached.
//! # Not here
//! Tests. Methods: which file defines what `value.method()` calls, only a compiler knows.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_source::{closing, find_words, is_identifier, line_of};
use super::{RustSource, Tree};

/// A module by the names from the crate's root to it; the root itself has none.
pub(super) type ModuleName = Vec<String>;

/// The files of one crate that ship.
pub(super) struct Modules {
    modules: BTreeMap<ModuleName, Module>,
}

/// One file.
pub(super) struct Module {
    /// Its path in the repository.
    pub(super) path: String,
    /// What it names in its own crate.
    pub(super) uses: Vec<Use>,
    /// What its imports call things, and what these are from the crate's root.
    names: BTreeMap<String, ModuleName>,
    /// Types that it writes methods of, as written, each with its line.
    methods_of: Vec<(usize, String)>,
}

/// A place that names something of the same crate.
pub(super) struct Use {
    pub(super) line: usize,
    /// As written.
    pub(super) written: String,
    /// From the crate's root.
    target: ModuleName,
}

/// How many re-exports lead from a name to its owner at most.
const HOPS_MAX: usize = 16;

impl Modules {
    /// Reads the crate whose sources are below `root`, a path that ends in `/src/`.
    pub(super) fn read(tree: &Tree, root: &str) -> Modules {
        let mut sources = BTreeMap::new();
        let mut for_tests = BTreeSet::new();
        for file in tree.rust_files().filter(|file| !file.is_test()) {
            let Some(inside) = file.path.strip_prefix(root) else { continue };
            let name = module_name(inside);
            let source = RustSource::new(&file.text);
            for child in test_modules(&source) {
                for_tests.insert([&name[..], &[child]].concat());
            }
            sources.insert(name, (file.path.clone(), source.without_tests()));
        }
        sources.retain(|name, _| !for_tests.iter().any(|test| name.starts_with(test)));
        let exists: BTreeSet<ModuleName> = sources.keys().cloned().collect();
        let read = |(name, (path, source)): (ModuleName, (String, RustSource))| {
            let module = Module::read(&name, path, source, &exists);
            (name, module)
        };
        Modules { modules: sources.into_iter().map(read).collect() }
    }

    /// The files with their names, the root's too.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ModuleName, &Module)> {
        self.modules.iter()
    }

    /// The file that defines what a place names; the root's for what is in no other.
    pub(super) fn owner(&self, used: &Use) -> ModuleName {
        self.owner_of(&used.target)
    }

    /// Types of other files that a file writes methods of: line, as written, the owner.
    pub(super) fn foreign_methods(&self, name: &ModuleName) -> Vec<(usize, String, ModuleName)> {
        let module = &self.modules[name];
        let mut found = Vec::new();
        for (line, written) in &module.methods_of {
            let mut segments = written.split("::").map(str::to_string);
            let first = segments.next().unwrap_or_default();
            let rest: Vec<String> = segments.collect();
            let target = match module.names.get(&first) {
                Some(target) => [&target[..], &rest].concat(),
                None => match from_root(name, written, &BTreeSet::new()) {
                    Some(target) => target,
                    None => continue,
                },
            };
            found.push((*line, written.clone(), self.owner_of(&target)));
        }
        found
    }

    fn owner_of(&self, path: &[String]) -> ModuleName {
        let mut module = ModuleName::new();
        let mut rest = path.to_vec();
        for _ in 0..HOPS_MAX {
            while let Some(first) = rest.first() {
                let child = [&module[..], std::slice::from_ref(first)].concat();
                if !self.modules.contains_key(&child) {
                    break;
                }
                module = child;
                rest.remove(0);
            }
            let names = self.modules.get(&module).map(|module| &module.names);
            let Some(target) = rest.first().and_then(|first| names?.get(first)) else { break };
            rest = [&target[..], &rest[1..]].concat();
            module = ModuleName::new();
        }
        module
    }

    /// The largest set of files of which each uses all others, directly or by others of the set,
    /// looking only at uses that `counts` (of a user and what it uses) lets through.
    pub(super) fn largest_circle(
        &self,
        counts: impl Fn(&ModuleName, &ModuleName) -> bool,
    ) -> Vec<ModuleName> {
        let mut edges: BTreeMap<&ModuleName, BTreeSet<ModuleName>> = BTreeMap::new();
        for (name, module) in self.iter() {
            let owners = module.uses.iter().map(|used| self.owner(used));
            let owners = owners.filter(|owner| owner != name && counts(name, owner));
            edges.insert(name, owners.collect());
        }
        let reached = |from: &ModuleName| {
            let mut seen = BTreeSet::new();
            let mut open = vec![from.clone()];
            while let Some(next) = open.pop() {
                for used in edges.get(&next).into_iter().flatten() {
                    if seen.insert(used.clone()) {
                        open.push(used.clone());
                    }
                }
            }
            seen
        };
        let all: BTreeMap<&ModuleName, BTreeSet<ModuleName>> =
            edges.keys().map(|name| (*name, reached(name))).collect();
        let circle = |name: &ModuleName| -> Vec<ModuleName> {
            let both = |other: &&ModuleName| all.get(*other).is_some_and(|r| r.contains(name));
            all[name].iter().filter(both).cloned().collect()
        };
        all.keys().map(|name| circle(name)).max_by_key(Vec::len).unwrap_or_default()
    }
}

impl Module {
    fn read(
        name: &ModuleName,
        path: String,
        source: RustSource,
        exists: &BTreeSet<ModuleName>,
    ) -> Module {
        let mut uses = Vec::new();
        let mut names = BTreeMap::new();
        for import in source.named_imports() {
            let base = [&name[..], &inline_modules(&source.code, import.at)].concat();
            let written = import.path.trim_end_matches("::self");
            let Some(target) = from_root(&base, written, exists) else { continue };
            let line = line_of(&source.code, import.at);
            uses.push(Use { line, written: written.to_string(), target: target.clone() });
            // `use self::a` names what it is already called.
            if target.last() != Some(&import.name) || target[..target.len() - 1] != name[..] {
                names.insert(import.name, target);
            }
        }
        let source = source.without_imports();
        let methods_of = methods_of(&source.code);
        for (at, written) in paths(&source.code) {
            let base = [&name[..], &inline_modules(&source.code, at)].concat();
            if let Some(target) = from_root(&base, &written, exists) {
                uses.push(Use { line: line_of(&source.code, at), written, target });
            }
        }
        Module { path, uses, names, methods_of }
    }
}

/// `a/b.rs` is the module `a::b`, `lib.rs` the root.
fn module_name(inside: &str) -> ModuleName {
    match inside.trim_end_matches(".rs") {
        "lib" => ModuleName::new(),
        name => name.split('/').map(str::to_string).collect(),
    }
}

/// A path as written in a module, from the crate's root; none if it leads out of the crate.
fn from_root(
    module: &[String],
    written: &str,
    exists: &BTreeSet<ModuleName>,
) -> Option<ModuleName> {
    let segments: Vec<String> = written.split("::").map(str::to_string).collect();
    let (first, rest) = segments.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" | "super" => {
            let up = segments.iter().take_while(|s| matches!(s.as_str(), "self" | "super"));
            let rest = &segments[up.clone().count()..];
            let levels = up.filter(|segment| *segment == "super").count();
            let base = &module[..module.len().checked_sub(levels)?];
            Some([base, rest].concat())
        }
        _ => {
            let inside = [module, &segments].concat();
            exists.contains(&inside[..=module.len()]).then_some(inside)
        }
    }
}

/// Every path of two or more names in code, with its offset: `crate::a::b`, `child::c`.
fn paths(code: &str) -> Vec<(usize, String)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_identifier(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let mut path = String::new();
        loop {
            let word = code[at..].bytes().take_while(|byte| is_identifier(*byte)).count();
            path.push_str(&code[at..at + word]);
            at += word;
            let rest = code[at..].trim_start();
            let Some(next) = rest.strip_prefix("::").map(str::trim_start) else { break };
            if !next.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_') {
                break;
            }
            path.push_str("::");
            at = code.len() - next.len();
        }
        let before = code[..start].trim_end();
        // `pub(in crate::a)` says who may see something, not what is used.
        let is_visibility = before.ends_with("(in");
        if path.contains("::") && !before.ends_with("::") && !is_visibility {
            found.push((start, path));
        }
    }
    found
}

/// The modules in braces that a place is in, outermost first.
fn inline_modules(code: &str, at: usize) -> Vec<String> {
    let mut names = Vec::new();
    for start in find_words(&code[..at], "mod") {
        let rest = code[start + "mod".len()..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let body = rest[name.len()..].trim_start();
        let open = code.len() - body.len();
        if body.starts_with('{') && open < at && at < closing(code, open) {
            names.push(name);
        }
    }
    names
}

/// Children that only tests compile: `#[cfg(test)] mod harness;`.
fn test_modules(source: &RustSource) -> Vec<String> {
    let mut found = Vec::new();
    for (start, marker) in source.code.match_indices("#[cfg(test)]") {
        let item = &source.code[start + marker.len()..];
        let declaration = &item[..item.find([';', '{']).unwrap_or(item.len())];
        if let Some(at) = find_words(declaration, "mod").first() {
            found.push(declaration[at + "mod".len()..].trim().to_string());
        }
    }
    found
}

/// The types of `impl Type {`, as written and without their parameters, with lines.
fn methods_of(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for start in find_words(code, "impl") {
        let before = code[..start].trim_end();
        // Elsewhere `impl` is a type: `fn a() -> impl B {`.
        let is_item = before.is_empty() || before.ends_with(['}', ';', ']', '{']);
        let rest = &code[start + "impl".len()..];
        let Some(head) = rest.find('{').map(|open| &rest[..open]) else { continue };
        if !is_item || !find_words(head, "for").is_empty() {
            continue;
        }
        let head = head.trim_start();
        let head = if head.starts_with('<') { behind_parameters(head) } else { head };
        let is_path = |char: &char| char.is_alphanumeric() || matches!(char, '_' | ':');
        let name: String = head.trim_start().chars().take_while(is_path).collect();
        found.push((line_of(code, start), name.trim_end_matches(':').to_string()));
    }
    found
}

/// What follows `<'a, T: B<C>>`.
fn behind_parameters(head: &str) -> &str {
    let mut depth = 0_usize;
    for (at, char) in head.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if !head[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &head[at + 1..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn read(files: &[(&str, &str)]) -> Modules {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        Modules::read(&tree(&files), "crates/x/src/")
    }

    /// `line owner` of each use of a file.
    fn owners(modules: &Modules, file: &str) -> Vec<String> {
        let name = module_name(file);
        let module = &modules.modules[&name];
        let uses = module.uses.iter();
        uses.map(|used| format!("{} {}", used.line, modules.owner(used).join("/"))).collect()
    }

    /// A crate of five files, one of which has this text.
    fn uses(file: &str, text: &str) -> Vec<String> {
        let mut files = vec![
            ("lib.rs", "mod a;\nmod c;\npub use a::b::Exported;\n"),
            ("a.rs", "mod b;\npub(crate) use b::Deep;\n"),
            ("a/b.rs", "struct Deep;"),
            ("c.rs", "mod d;"),
            ("c/d.rs", ""),
        ];
        files.retain(|(path, _)| *path != file);
        files.push((file, text));
        owners(&read(&files), file)
    }

    #[test]
    fn every_way_to_write_a_path() {
        assert_eq!(uses("c.rs", "use crate::a::b::Deep;"), ["1 a/b"]);
        assert_eq!(uses("c.rs", "fn f() {\n crate::a::g() }"), ["2 a"]);
        assert_eq!(uses("c.rs", "fn f() { crate::\n  a\n  ::b::g() }"), ["1 a/b"]);
        assert_eq!(uses("c/d.rs", "use super::super::a::X;"), ["1 a"]);
        assert_eq!(uses("c/d.rs", "type T = super::super::a::b::X;"), ["1 a/b"]);
        assert_eq!(uses("c.rs", "use {crate::a::{self, b::{X, Y as Z}}, std::fmt};").len(), 3);
        assert_eq!(uses("c.rs", "mod d;\nfn f() { d::g() }"), ["2 c/d"]);
        assert_eq!(uses("c.rs", "fn f() { self::d::g() }"), ["1 c/d"]);
        assert_eq!(uses("c.rs", "mod e { use super::d::X; use super::super::a::Y; }").len(), 2);
        assert_eq!(uses("c.rs", "macro_rules! m { () => { $crate::a::f() } }"), ["1 a"]);
    }

    #[test]
    fn what_is_no_use() {
        assert!(uses("c.rs", "use std::fmt;\nuse stdx::a::X;\n// crate::a::X").is_empty());
        assert!(uses("c.rs", "pub(in crate::a) fn f() {}").is_empty());
        assert!(uses("c.rs", "#[cfg(test)]\nmod tests { use crate::a::X; }").is_empty());
        assert!(uses("c.rs", "fn f() { Type::a::<u8>(); }").is_empty());
    }

    #[test]
    fn a_re_exported_name_belongs_to_its_owner() {
        assert_eq!(uses("c.rs", "use crate::a::Deep;"), ["1 a/b"]);
        assert_eq!(uses("c.rs", "use crate::Exported;"), ["1 a/b"]);
        assert_eq!(uses("c.rs", "use crate::a::Deep as D;\nuse self::D as E;"), ["1 a/b", "2 a/b"]);
        // The crate's root as a whole is owned by the root, which is in no layer.
        assert_eq!(uses("c.rs", "use crate as all;"), ["1 "]);
        assert_eq!(uses("c.rs", "use super::*;"), ["1 "]);
    }

    #[test]
    fn modules_of_tests_are_left_out() {
        let files = [("a.rs", "#[cfg(test)]\npub(crate) mod b;\nmod c;"), ("a/b.rs", "")];
        let modules = read(&files);
        assert_eq!(modules.iter().map(|(name, _)| name.join("/")).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn circles() {
        let modules = read(&[
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C; use crate::d::D;"),
            ("c.rs", "use crate::a::A;"),
            ("d.rs", ""),
        ]);
        let circle = modules.largest_circle(|_, _| true);
        assert_eq!(circle.iter().map(|name| name.join("/")).collect::<Vec<_>>(), ["a", "b", "c"]);
        let cut = modules.largest_circle(|from, _| from[0] != "c");
        assert!(cut.is_empty());
    }

    #[test]
    fn methods_of_a_type_of_another_file() {
        let text = "use crate::a::X;\nimpl X {}\nimpl<T: B<C>> crate::b::Y<T> {}\n\
            impl Own {}\nimpl Clone for X {}\nfn f() -> impl X {}\n";
        let modules = read(&[("a.rs", ""), ("b.rs", ""), ("c.rs", text)]);
        let found = modules.foreign_methods(&module_name("c.rs"));
        let found: Vec<String> =
            found.iter().map(|(line, name, owner)| format!("{line} {name} {owner:?}")).collect();
        assert_eq!(found, ["2 X [\"a\"]", "3 crate::b::Y [\"b\"]"]);
    }
}
