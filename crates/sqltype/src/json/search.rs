//! Asking values: JSON_CONTAINS, JSON_OVERLAPS, JSON_SEARCH, JSON_EXTRACT.

use collation::{CollationId, like};

use super::path::JsonPath;
use super::{Json, push_quoted};

impl Json {
    /// JSON_CONTAINS: whether all of `candidate` is found in this value.
    pub fn contains(&self, candidate: &Json) -> bool {
        match (self, candidate) {
            (Json::Object(_), Json::Object(wanted)) => wanted
                .iter()
                .all(|(key, value)| self.member(key).is_some_and(|found| found.contains(value))),
            (Json::Array(_), Json::Array(wanted)) => {
                wanted.iter().all(|wanted| self.has_element_with(wanted))
            }
            (Json::Array(_), wanted) => self.has_element_with(wanted),
            _ => self.compare(candidate).is_eq(),
        }
    }

    fn has_element_with(&self, wanted: &Json) -> bool {
        let Json::Array(items) = self else { return false };
        items.iter().any(|item| match (item, wanted) {
            // A scalar is not looked for in inner arrays.
            (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => {
                item.contains(wanted)
            }
            _ => item.compare(wanted).is_eq(),
        })
    }

    /// JSON_OVERLAPS: whether both have an element or a member in common.
    pub fn overlaps(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Array(items), Json::Array(others)) => {
                items.iter().any(|a| others.iter().any(|b| a.compare(b).is_eq()))
            }
            (Json::Array(items), other) | (other, Json::Array(items)) => {
                items.iter().any(|item| item.compare(other).is_eq())
            }
            (Json::Object(members), Json::Object(_)) => members.iter().any(|(key, value)| {
                other.member(key).is_some_and(|found| found.compare(value).is_eq())
            }),
            _ => self.compare(other).is_eq(),
        }
    }

    /// JSON_EXTRACT: the value at a single path without wildcards; otherwise all matches in an
    /// array.
    pub fn extract(&self, paths: &[JsonPath]) -> Option<Json> {
        let mut found: Vec<Json> = Vec::new();
        for path in paths {
            found.extend(path.seek(self).into_iter().cloned());
        }
        if found.is_empty() {
            return None;
        }
        let single = paths.len() == 1 && !paths[0].has_wildcard();
        Some(if single { found.swap_remove(0) } else { Json::Array(found) })
    }

    /// JSON_SEARCH: paths of the strings that are LIKE `pattern`, the first or all, in the parts
    /// that `paths` lead to (everywhere if there are none).
    pub fn search(
        &self,
        pattern: &str,
        escape: Option<char>,
        only_first: bool,
        paths: &[JsonPath],
    ) -> Option<Json> {
        let matches = |text: &str| {
            like(CollationId::UTF8MB4_BIN, text.as_bytes(), pattern.as_bytes(), escape)
        };
        let within: Vec<&Json> = paths.iter().flat_map(|path| path.seek(self)).collect();
        let is_within = |value: &Json| within.iter().any(|root| std::ptr::eq(*root, value));
        let mut found = Vec::new();
        let mut path = String::from("$");
        self.search_in(&matches, &is_within, paths.is_empty(), &mut path, &mut found);
        if only_first {
            found.truncate(1);
        }
        let mut found: Vec<Json> = found.into_iter().map(Json::String).collect();
        match found.len() {
            0 => None,
            1 => found.pop(),
            _ => Some(Json::Array(found)),
        }
    }

    fn search_in(
        &self,
        matches: &impl Fn(&str) -> bool,
        is_within: &impl Fn(&Json) -> bool,
        inside: bool,
        path: &mut String,
        found: &mut Vec<String>,
    ) {
        let inside = inside || is_within(self);
        let length = path.len();
        match self {
            Json::String(text) if inside && matches(text) => found.push(path.clone()),
            Json::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    item.search_in(matches, is_within, inside, path, found);
                    path.truncate(length);
                }
            }
            Json::Object(members) => {
                for (key, value) in members {
                    push_key(path, key);
                    value.search_in(matches, is_within, inside, path, found);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Appends a step to a member; quoted unless its name is an identifier.
fn push_key(path: &mut String, key: &str) {
    path.push('.');
    let is_identifier = key.chars().enumerate().all(|(at, char)| {
        char.is_alphabetic() || matches!(char, '_' | '$') || (at > 0 && char.is_alphanumeric())
    });
    if is_identifier && !key.is_empty() { path.push_str(key) } else { push_quoted(path, key) }
}
