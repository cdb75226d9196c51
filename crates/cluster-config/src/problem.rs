//! What is wrong with a configuration, and what is worth saying about it.
//!
//! # Guarantees
//! Every problem of a file is reported, not the first one only; so many that nobody would read them
//! are counted.

use std::fmt;

/// What makes a configuration unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line in the file, from 1; none for what concerns the whole file.
    pub line: Option<u32>,
    /// What is wrong and what to do about it, in one line.
    pub what: String,
}

impl Problem {
    /// The problem as one line that begins with its place.
    pub fn at<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        At { file, line: self.line, what: &self.what }
    }
}

/// Why a line has another effect than its author may expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Accepted, and without a meaning here.
    Meaningless,
    /// Accepted, and not yet in effect.
    Later,
    /// A name that has a better one.
    Outdated,
}

/// Something that is accepted and still worth saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The line in the file, from 1.
    pub line: u32,
    /// Why it is said.
    pub kind: NoticeKind,
    /// The parameter's name.
    pub parameter: &'static str,
    /// The notice, in one line.
    pub what: String,
}

impl Notice {
    /// The notice as one line that begins with its place.
    pub fn at<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        At { file, line: Some(self.line), what: &self.what }
    }
}

struct At<'a> {
    file: &'a str,
    line: Option<u32>,
    what: &'a str,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, line: impl Into<Option<u32>>, what: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.list.push(Problem { line: line.into(), what: what.into() });
        }
    }

    /// Whether further problems are only counted: nobody needs their text.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= PROBLEMS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in the order of the file.
    pub(crate) fn into_list(mut self) -> Vec<Problem> {
        self.list.sort_by_key(|problem| problem.line.unwrap_or(u32::MAX));
        if self.more > 0 {
            let what = format!("{} more problems are not listed", self.more);
            self.list.push(Problem { line: None, what });
        }
        self.list
    }
}

/// A user's own words in a message: short, and without what would disturb a terminal.
pub(crate) fn quoted(text: &str) -> String {
    let mut result: String = text
        .chars()
        .take(QUOTED_MAX)
        .map(|char| if char.is_control() { '?' } else { char })
        .collect();
    if text.chars().nth(QUOTED_MAX).is_some() {
        result.push('…');
    }
    result
}

/// Problems that are listed one by one.
const PROBLEMS_MAX: usize = 100;

/// Characters of a user's text that a message repeats.
const QUOTED_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_listed_by_line_and_have_a_limit() {
        let mut problems = Problems::default();
        problems.add(None, "whole");
        for line in (1..=PROBLEMS_MAX as u32).rev() {
            problems.add(line, "one");
        }
        let list = problems.into_list();
        assert_eq!(list.len(), PROBLEMS_MAX + 1);
        assert_eq!(list[0].line, Some(2));
        assert_eq!(list[PROBLEMS_MAX - 1].at("f").to_string(), "f: whole");
        assert_eq!(list[PROBLEMS_MAX].what, "1 more problems are not listed");
        assert_eq!(list[0].at("f").to_string(), "f:2: one");
    }

    #[test]
    fn what_is_repeated_is_short_and_harmless() {
        assert_eq!(quoted("a\u{1b}[31mb"), "a?[31mb");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), QUOTED_MAX + 1);
    }
}
