//! Words that are not used here, each with what to write instead.
//!
//! This file names them all, so it is the one file that the rule does not read.

use super::rust_source::{find_words, is_identifier, line_of};
use super::{Finding, Rule, RustSource};

static WORD: Rule = Rule {
    name: "banned word",
    reason: "one word per thing, and none that hides unfinished work or talks the reader down",
};
static ACRONYM: Rule = Rule {
    name: "NDB acronym",
    reason: "identifiers use the standard word; `#[doc(alias)]` and the glossary keep NDB's",
};

/// In comments and prose, any case.
const PROSE: &[(&str, &str)] = &[
    ("fixme", "finish it, or write down the limit and why it is acceptable"),
    ("xxx", "finish it, or write down the limit and why it is acceptable"),
    ("simply", "leave it out"),
    ("obviously", "leave it out, or say why it is so"),
    ("basically", "leave it out"),
    ("utils", "say what the thing does"),
    ("slave", "`backup` for a partition replica, `replica` for a cluster"),
    ("whitelist", "allow list"),
    ("blacklist", "deny list"),
];

/// In code.
const MACROS: &[(&str, &str)] = &[
    ("todo!", "finish it, or return a refusal with a code"),
    ("unimplemented!", "finish it, or return a refusal with a code"),
    ("dbg!", "record it in the flight recorder, or remove it"),
];

/// As a part of an identifier: `Dbtc`, `lqh_state`, `GCP_MAX`.
const ACRONYMS: &[(&str, &str)] = &[
    ("dbtc", "coordinator"),
    ("dblqh", "participant"),
    ("lqh", "participant"),
    ("ldm", "worker"),
    ("dbdih", "placement, or epochs"),
    ("dih", "placement, or epochs"),
    ("dbdict", "catalog"),
    ("dbtup", "row store"),
    ("dbacc", "hash index, or lock table"),
    ("dbtux", "ordered index"),
    ("dbspj", "pushdown"),
    ("qmgr", "control"),
    ("ndbcntr", "lifecycle"),
    ("cmvmi", "node agent"),
    ("ndbfs", "files"),
    ("suma", "change streams"),
    ("gcp", "epoch switch"),
    ("gci", "epoch"),
    ("lcp", "checkpoint"),
    ("continueb", "continue"),
];

const OWN_PATH: &str = "xtask/src/tidy/words.rs";

pub(super) fn check_rust(path: &str, source: &RustSource) -> Vec<Finding> {
    if path == OWN_PATH {
        return Vec::new();
    }
    let mut findings = check_prose(path, &without_code_spans(&source.comments));
    for (word, advice) in MACROS {
        for at in find_words(&source.code, word.trim_end_matches('!')) {
            let name = word.trim_end_matches('!');
            if source.code[at + name.len()..].starts_with('!') {
                let message = format!("`{word}`: {advice}");
                findings.push(Finding::new(path, line_of(&source.code, at), &WORD, message));
            }
        }
    }
    for (at, identifier) in identifiers(&source.code) {
        let parts = parts(identifier);
        let acronym = ACRONYMS.iter().find(|(acronym, _)| parts.iter().any(|p| p == acronym));
        if let Some((_, advice)) = acronym {
            let message = format!("`{identifier}`: say {advice}");
            findings.push(Finding::new(path, line_of(&source.code, at), &ACRONYM, message));
        }
    }
    findings
}

/// Looks for banned words in text from which code has been taken out.
pub(super) fn check_prose(path: &str, prose: &str) -> Vec<Finding> {
    let lower = prose.to_ascii_lowercase();
    let mut findings = Vec::new();
    for (word, advice) in PROSE {
        for at in find_words(&lower, word) {
            let message = format!("\"{word}\": {advice}");
            findings.push(Finding::new(path, line_of(&lower, at), &WORD, message));
        }
    }
    findings
}

/// Blanks what stands between backticks on one line: a name is quoted there, not used.
pub(super) fn without_code_spans(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut inside = false;
        for char in line.chars() {
            inside ^= char == '`';
            result.push(if inside && char != '\n' { ' ' } else { char });
        }
    }
    result
}

fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.split(|char: char| !(char.is_ascii() && is_identifier(char as u8)))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

/// `PrimaryLqhState` and `primary_lqh_state` alike are `primary`, `lqh`, `state`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in identifier.split('_') {
        let mut part = String::new();
        let mut after_lower = false;
        for char in piece.chars() {
            if char.is_ascii_uppercase() && after_lower {
                parts.push(std::mem::take(&mut part));
            }
            after_lower = char.is_ascii_lowercase();
            part.push(char.to_ascii_lowercase());
        }
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

    fn found(text: &str) -> Vec<String> {
        lines(&check_rust("crates/a/src/lib.rs", &RustSource::new(text)))
    }

    #[test]
    fn words_in_comments() {
        assert_eq!(found("//! A.\n// This simply works.\n"), ["2 \"simply\": leave it out"]);
        assert_eq!(found("// FIXME: later\n").len(), 1);
        assert!(found("// `simply` is banned\n").is_empty());
        assert!(found("let text = \"simply\";\n").is_empty());
    }

    #[test]
    fn unfinished_code() {
        assert_eq!(found("fn a() { todo!() }").len(), 1);
        assert_eq!(found("fn a() { dbg!(1); unimplemented!() }").len(), 2);
        assert!(found("// todo!() is banned\nlet todo = !x;").is_empty());
    }

    #[test]
    fn acronyms_in_identifiers() {
        assert_eq!(found("struct Dbtc;"), ["1 `Dbtc`: say coordinator"]);
        assert_eq!(found("const GCP_MAX: u8 = 1;"), ["1 `GCP_MAX`: say epoch switch"]);
        assert_eq!(found("fn a(primaryLqh: u8) {}").len(), 1);
        assert!(found("/// NDB calls this DBTC.\n#[doc(alias = \"DBTC\")]\nstruct A;").is_empty());
    }

    #[test]
    fn words_in_prose() {
        assert_eq!(lines(&check_prose("a.md", "x\nIt is obviously so.\n")).len(), 1);
        assert!(check_prose("a.md", "A simplyfied word.\n").is_empty());
    }
}
