//! What the deterministic core must not name, and the wall between actors.
//!
//! # Invariants
//! 1. No clock, thread, socket, file, environment or entropy in the crates of L0 to L4.
//! 2. An actor of the data node never imports another: they speak in messages.

use super::rust_source::{find_words, is_identifier, line_of};
use super::{Finding, Rule, RustSource};

static CORE: Rule = Rule {
    name: "deterministic core",
    reason: "one seed must decide a whole run; the host alone has clocks, threads, files, sockets",
};
static ASSERT: Rule = Rule {
    name: "assertions stay on",
    reason: "there is one kind, `assert!`; no check is dropped in release builds",
};
static ACTORS: Rule = Rule {
    name: "actors speak in messages",
    reason: "an actor must not know in which worker or process another lives",
};

/// Paths the core does not name, and what it does instead.
const FOREIGN: &[(&str, &str)] = &[
    ("std::net", "send a message through `ctx`"),
    ("std::fs", "ask the host through an effect"),
    ("std::time", "use `stdx::{Instant, Duration}` and `ctx.now()`"),
    ("std::thread", "workers belong to the host; long work sends itself a message"),
    ("std::env", "configuration arrives as a value"),
    ("std::process", "report a fatal reason to the host"),
    ("std::collections::HashMap", "use `stdx::HashMap`, whose order is the same in every run"),
    ("std::collections::HashSet", "use `stdx::HashSet`, whose order is the same in every run"),
    ("std::hash::RandomState", "use `stdx::FixedHasher`"),
    ("rand", "draw from `ctx.prng()`"),
    ("tokio", "the core has no `async`"),
];

/// Files that wrap a foreign name for everybody else.
const WRAPPERS: &[(&str, &str)] = &[
    ("crates/stdx/src/map.rs", "std::collections::HashMap"),
    ("crates/stdx/src/map.rs", "std::collections::HashSet"),
];

/// The actors that share the crate `datanode`.
const ACTOR_CRATE: &str = "crates/datanode/src/";
const ACTOR_MODULES: [&str; 4] = ["coordinator", "participant", "epochs", "index_builder"];

/// Checks a file of L0 to L4 from which test items have been taken out.
pub(super) fn check_core(path: &str, source: &RustSource) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, advice) in FOREIGN {
        if WRAPPERS.contains(&(path, name)) {
            continue;
        }
        for line in mentions(source, name) {
            let message = format!("names `{name}`: {advice}");
            findings.push(Finding::new(path, line, &CORE, message));
        }
    }
    for name in ["debug_assert", "debug_assert_eq", "debug_assert_ne"] {
        for at in find_words(&source.code, name) {
            let message =
                format!("`{name}!`: use `assert!`, or a `check` function where it is expensive");
            findings.push(Finding::new(path, line_of(&source.code, at), &ASSERT, message));
        }
    }
    findings
}

/// Checks that a file of one actor does not reach into another.
pub(super) fn check_actors(path: &str, source: &RustSource) -> Vec<Finding> {
    let Some(inside) = path.strip_prefix(ACTOR_CRATE) else { return Vec::new() };
    let module = inside.trim_end_matches(".rs");
    let modules: Vec<&str> = module.split('/').collect();
    if !ACTOR_MODULES.contains(&modules[0]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for other in ACTOR_MODULES.iter().filter(|other| **other != modules[0]) {
        // From `coordinator/commit.rs` the crate's root is two levels up.
        let upwards = format!("{}{other}", "super::".repeat(modules.len()));
        for name in [format!("crate::{other}"), upwards] {
            for line in mentions(source, &name) {
                let message = format!("`{}` reaches into `{other}` (`{name}`)", modules[0]);
                findings.push(Finding::new(path, line, &ACTORS, message));
            }
        }
    }
    findings
}

/// Lines where a path is imported or written out.
fn mentions(source: &RustSource, name: &str) -> Vec<usize> {
    let is_below = |path: &str| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let imports = source.imports().into_iter();
    let mut lines: Vec<usize> =
        imports.filter(|(_, path)| is_below(path)).map(|(line, _)| line).collect();
    for at in find_words(&source.code, name) {
        let (before, after) = (&source.code[..at], &source.code[at + name.len()..]);
        let qualified = before.ends_with("::") && before.len() > 2 && {
            // A leading `::` still names the crate itself.
            is_identifier(before.as_bytes()[before.len() - 3])
        };
        // A single word is only a path where something follows it.
        if !qualified && (name.contains("::") || after.starts_with("::")) {
            lines.push(line_of(&source.code, at));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    fn core(text: &str) -> Vec<usize> {
        let source = RustSource::new(text).without_tests();
        check_core("crates/a/src/lib.rs", &source).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn foreign_names() {
        assert_eq!(core("use std::fs;\n"), [1]);
        assert_eq!(core("use std::{\n fmt, net::TcpStream};\n"), [1]);
        assert_eq!(core("fn a() {\n std::thread::sleep(b) }"), [2]);
        assert_eq!(core("use std::collections::{BTreeMap, HashMap};"), [1]);
        assert_eq!(core("let a = rand::random();"), [1]);
        assert_eq!(core("use tokio::net::TcpStream;"), [1]);
        assert_eq!(core("fn a() -> ::std::time::Instant {}"), [1]);
    }

    #[test]
    fn innocent_names() {
        assert!(core("use std::fmt;\nuse stdx::{HashMap, time::Instant};\n").is_empty());
        assert!(core("// std::fs is for the host\nlet a = \"std::fs\";").is_empty());
        assert!(core("#[cfg(test)]\nmod tests { use std::time::Instant; }").is_empty());
        assert!(core("let rand = self.rand; env!(\"A\"); a::rand::b();").is_empty());
    }

    #[test]
    fn a_wrapper_may_name_what_it_wraps() {
        let source = RustSource::new("use std::collections::HashMap;\nuse std::time::Instant;");
        let findings = check_core("crates/stdx/src/map.rs", &source);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("std::time"));
    }

    #[test]
    fn assertions_stay_on() {
        assert_eq!(core("fn a() { debug_assert!(b); debug_assert_eq!(b, c); }"), [1, 1]);
        assert!(core("fn a() { assert!(b) }").is_empty());
    }

    #[test]
    fn actors() {
        let found = |path: &str, text: &str| {
            let path = format!("{ACTOR_CRATE}{path}");
            lines(&check_actors(&path, &RustSource::new(text)))
        };
        let expected = "1 `coordinator` reaches into `participant` (`crate::participant`)";
        assert_eq!(found("coordinator/commit.rs", "use crate::participant::Locks;"), [expected]);
        assert_eq!(found("coordinator.rs", "use crate::{epochs, shared};").len(), 1);
        assert_eq!(found("epochs.rs", "fn a() { super::coordinator::b() }").len(), 1);
        assert_eq!(found("epochs/a.rs", "use super::super::coordinator::B;").len(), 1);
        assert!(found("lib.rs", "use crate::participant::Participant;").is_empty());
        assert!(found("coordinator/a.rs", "use crate::coordinator::State;").is_empty());
        assert!(found("coordinator/a.rs", "use super::participant::Mine;").is_empty());
    }
}
