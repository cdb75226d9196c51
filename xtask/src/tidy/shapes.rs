//! Shapes of code that read worse than what says the same.
//!
//! # Owns
//! Two counts, neither of which may grow again: functions with a tuple pattern as a parameter, and
//! `match` on a bool. There is none of either.
//! # Limits
//! Both are found by names and brackets, without types: a `match` counts as one on a bool when one
//! of its arms is `true` or `false` alone.

use super::rust_source::{closing, find_words, line_of};
use super::{Finding, Report, Rule, RustSource, Tree};

static TUPLE: Rule = Rule {
    name: "tuple parameter",
    reason: "a caller reads names of parameters; a tuple hides which value is which",
};
static BOOL: Rule = Rule {
    name: "match on a bool",
    reason: "`if` and `else` say which branch is taken when; `match` adds nothing to it",
};

/// Functions that take a tuple apart in their list of parameters, at most.
const TUPLE_PARAMETERS_MAX: usize = 0;
/// `match` on a bool, at most.
const BOOL_MATCHES_MAX: usize = 0;

/// Counts both shapes in all Rust files.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    let (mut tuples, mut bools) = (Vec::new(), Vec::new());
    for file in tree.rust_files() {
        let source = RustSource::new(&file.text);
        let place = |at: usize| format!("{}:{}", file.path, line_of(&source.code, at));
        tuples.extend(tuple_parameters(&source.code).into_iter().map(place));
        bools.extend(bool_matches(&source.code).into_iter().map(place));
    }
    for (rule, limit, constant, places) in [
        (&TUPLE, TUPLE_PARAMETERS_MAX, "TUPLE_PARAMETERS_MAX", tuples),
        (&BOOL, BOOL_MATCHES_MAX, "BOOL_MATCHES_MAX", bools),
    ] {
        let count = places.len();
        report.notes.push(format!(
            "{}: {count} ({limit} at most){}",
            rule.name,
            if count < limit { format!("; lower {constant}") } else { String::new() }
        ));
        report.findings.extend(above(rule, limit, &places));
    }
}

/// Places that a finding lists.
const LISTED_MAX: usize = 12;

fn above(rule: &'static Rule, limit: usize, places: &[String]) -> Option<Finding> {
    if places.len() <= limit {
        return None;
    }
    let (path, line) = places.last()?.rsplit_once(':')?;
    let listed = &places[..places.len().min(LISTED_MAX)];
    let message = format!(
        "{} in the tree, {limit} at most: mend the new one (`git diff` shows it) or others: {}{}",
        places.len(),
        listed.join(", "),
        if listed.len() < places.len() { ", …" } else { "" }
    );
    Some(Finding::new(path, line.parse().ok()?, rule, message))
}

/// Where functions begin that have a parameter like `(a, b): (A, B)`. Closures may have them.
fn tuple_parameters(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for start in find_words(code, "fn") {
        let rest = &code[start..];
        // `fn(A) -> B` is a type.
        let Some(open) = rest.find('(').filter(|open| rest[2..*open].trim() != "") else {
            continue;
        };
        let open = start + parameters_open(rest, open);
        let list = &code[open + 1..closing(code, open).saturating_sub(1).max(open + 1)];
        if parameters(list).any(is_tuple_pattern) {
            found.push(start);
        }
    }
    found
}

/// The bracket of the parameters: behind generic parameters, which may hold brackets too.
fn parameters_open(function: &str, first: usize) -> usize {
    let Some(generic) = function[..first].find('<') else { return first };
    let mut depth = 0_usize;
    for (at, char) in function.char_indices().skip(generic) {
        match char {
            '<' => depth += 1,
            '>' if !function[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return function[at..].find('(').map_or(first, |open| at + open);
        }
    }
    first
}

/// The parameters of a list: parts between commas outside of brackets.
fn parameters(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    list.split(move |char: char| {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        char == ',' && depth <= 0
    })
}

fn is_tuple_pattern(parameter: &str) -> bool {
    let parameter = parameter.trim_start();
    let pattern = parameter.strip_prefix('&').unwrap_or(parameter);
    pattern.starts_with('(') && {
        let end = closing(pattern, 0);
        pattern[end..].trim_start().starts_with(':')
    }
}

/// Where a `match` stands that has `true` or `false` as a whole pattern.
fn bool_matches(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for start in find_words(code, "match") {
        let Some(open) = body_of_match(code, start + "match".len()) else { continue };
        let body = &code[open + 1..closing(code, open).saturating_sub(1).max(open + 1)];
        let is_first = |word: &str| {
            let rest = body.trim_start().strip_prefix(word).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with("=>"))
        };
        if is_first("true") || is_first("false") {
            found.push(start);
        }
    }
    found
}

/// The bracket that opens the arms of a `match`: the first one outside of others.
fn body_of_match(code: &str, from: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => return Some(at),
            b'(' | b'[' => at = closing(code, at),
            b';' | b'}' => return None,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuples(text: &str) -> usize {
        tuple_parameters(&RustSource::new(text).code).len()
    }

    fn bools(text: &str) -> usize {
        bool_matches(&RustSource::new(text).code).len()
    }

    #[test]
    fn a_tuple_as_a_parameter() {
        assert_eq!(tuples("fn a((b, c): (B, C)) {}"), 1);
        assert_eq!(tuples("fn a<T: Fn(u8) -> D>(\n    e: T,\n    (b, c): &(B, C),\n) {}"), 1);
        assert_eq!(tuples("fn a(&self, &(b, c): &(B, C)) {}"), 1);
        assert_eq!(tuples("fn a(b: (B, C), d: impl Fn((B, C))) {}"), 0);
        assert_eq!(tuples("let a = |(b, c): (B, C)| d(b, c); type F = fn((B, C)) -> D;"), 0);
    }

    #[test]
    fn a_match_on_a_bool() {
        assert_eq!(bools("match a.b(|c| c) { true => d, false => e }"), 1);
        assert_eq!(bools("match a {\n    false => d,\n    _ => e,\n}"), 1);
        assert_eq!(bools("match a { Some(true) => d, _ => e }"), 0);
        assert_eq!(bools("match a { true if b => d, _ => e }"), 0);
        assert_eq!(bools("matches!(a, true)"), 0);
    }

    #[test]
    fn more_than_the_limit_is_a_finding() {
        let places = vec!["a.rs:1".to_string(), "b.rs:7".to_string()];
        assert!(above(&BOOL, 2, &places).is_none());
        let finding = above(&BOOL, 1, &places).expect("two are more than one");
        assert_eq!((finding.path.as_str(), finding.line), ("b.rs", 7));
    }
}
