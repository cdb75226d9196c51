//! Regular expressions: REGEXP_LIKE, _INSTR, _SUBSTR, _REPLACE.
//!
//! # Limits
//! Patterns are those of the crate `regex`, which takes time linear in the text. They agree with
//! MySQL's (ICU's) but for look-around and back-references, which are refused with error 3690.

use std::collections::BTreeMap;
use std::rc::Rc;

use regex::{Captures, Regex, RegexBuilder};
use sqltype::Datum;

use super::frame::text;
use super::{Evaluated, Frame, Function, Signature, Stop};
use crate::error::{ErrorText, SqlError};
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("regexp_like", 2, 3, like_type, like),
    Function::pure("regexp_instr", 2, 6, position_type, position),
    Function::pure("regexp_substr", 2, 5, part_type, part),
    Function::pure("regexp_replace", 3, 6, replaced_type, replace),
];

fn like_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    Ok(ResultType::truth(s.nullable()))
}

fn position_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    s.integer(21)
}

fn part_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    s.maybe_text_of(&[0, 1], s.length(0))
}

fn replaced_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    s.maybe_text_of(&[0, 1, 2], 65_535.max(s.length(0)))
}

/// Small parts of expressions that take as long as a match with its groups.
const MATCH_STEPS: u64 = 16;

/// Patterns that a statement has compiled already.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternCache {
    patterns: BTreeMap<(String, Flags), Rc<Regex>>,
}

/// How a pattern is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flags {
    ignores_case: bool,
    multi_line: bool,
    dot_matches_newline: bool,
}

impl PatternCache {
    /// More than a statement has, unless each row brings its own.
    const KEPT_MAX: usize = 32;
    /// Bytes of a compiled pattern.
    const SIZE_MAX: usize = 4 << 20;

    /// A pattern that means what it says.
    pub(super) fn case_sensitive(&mut self, pattern: &str) -> Result<Rc<Regex>, SqlError> {
        let flags = Flags { ignores_case: false, multi_line: false, dot_matches_newline: false };
        self.get(pattern, flags)
    }

    fn get(&mut self, pattern: &str, flags: Flags) -> Result<Rc<Regex>, SqlError> {
        let key = (pattern.to_owned(), flags);
        if let Some(known) = self.patterns.get(&key) {
            return Ok(known.clone());
        }
        if pattern.is_empty() {
            return Err(SqlError::of::<3685>(&[]));
        }
        let compiled = RegexBuilder::new(pattern)
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.multi_line)
            .dot_matches_new_line(flags.dot_matches_newline)
            .size_limit(Self::SIZE_MAX)
            .build()
            .map_err(|error| refused(&error))?;
        let compiled = Rc::new(compiled);
        if self.patterns.len() >= Self::KEPT_MAX {
            self.patterns.clear();
        }
        self.patterns.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// MySQL's error for a pattern that cannot be compiled.
fn refused(error: &regex::Error) -> SqlError {
    let regex::Error::Syntax(message) = error else { return SqlError::of::<3700>(&[]) };
    let kinds = [
        ("look-around", ErrorText::numbered::<3690>()),
        ("backreferences", ErrorText::numbered::<3690>()),
        ("unclosed group", ErrorText::numbered::<3691>()),
        ("unopened group", ErrorText::numbered::<3691>()),
        ("unclosed character class", ErrorText::numbered::<3696>()),
        ("invalid character class range", ErrorText::numbered::<3697>()),
        ("invalid repetition count range", ErrorText::numbered::<3693>()),
        ("repetition quantifier", ErrorText::numbered::<3692>()),
        ("unclosed counted repetition", ErrorText::numbered::<3692>()),
        ("unrecognized escape", ErrorText::numbered::<3689>()),
    ];
    if let Some((_, entry)) = kinds.iter().find(|(text, _)| message.contains(text)) {
        return SqlError::saying(entry, &[]);
    }
    // The message marks the place in a line below the pattern, which is indented by four.
    let marked = message.lines().find(|line| line.trim_start().starts_with('^'));
    let place = marked.and_then(|line| line.find('^')).map_or(1, |at| at.saturating_sub(3));
    SqlError::of::<3688>(&[&1, &place])
}

/// The pattern in the second argument, as the collation and the match type in the argument `at`
/// mean it.
fn pattern(f: &mut Frame<'_, '_>, at: usize) -> Result<Rc<Regex>, Stop> {
    let ignores_case = f.collation().name().ends_with("_ci");
    let mut flags = Flags { ignores_case, multi_line: false, dot_matches_newline: false };
    if f.len() > at {
        for letter in f.string(at)?.chars() {
            match letter {
                'c' => flags.ignores_case = false,
                'i' => flags.ignores_case = true,
                'm' => flags.multi_line = true,
                'n' => flags.dot_matches_newline = true,
                'u' => {}
                _ => return Err(SqlError::wrong_arguments(f.call.function.name).into()),
            }
        }
    }
    let written = f.string(1)?;
    Ok(f.context.patterns.get(&written, flags)?)
}

/// The byte at which the search begins: a position in characters in an argument, from 1.
fn start(f: &mut Frame<'_, '_>, at: usize, whole: &str) -> Result<usize, Stop> {
    if f.len() <= at {
        return Ok(0);
    }
    let position = f.integer(at)?;
    let characters = usize::try_from(position).ok().and_then(|position| position.checked_sub(1));
    let out_of_bounds = || Stop::Error(SqlError::of::<3686>(&[]));
    let characters = characters.ok_or_else(out_of_bounds)?;
    let mut places = whole.char_indices().map(|(at, _)| at).chain([whole.len()]);
    places.nth(characters).ok_or_else(out_of_bounds)
}

/// Which match is meant, from 1.
fn occurrence(f: &mut Frame<'_, '_>, at: usize) -> Result<usize, Stop> {
    if f.len() > at { Ok(usize::try_from(f.integer(at)?).unwrap_or(1).max(1)) } else { Ok(1) }
}

fn like(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.string(0)?;
    let pattern = pattern(f, 2)?;
    Ok(Datum::truth(pattern.is_match(&whole)))
}

fn position(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.string(0)?;
    let pattern = pattern(f, 5)?;
    let from = start(f, 2, &whole)?;
    let wanted = occurrence(f, 3)?;
    let behind = if f.len() > 4 {
        match f.integer(4)? {
            0 => false,
            1 => true,
            _ => {
                return Err(SqlError::wrong_arguments(
                    "regexp_instr: return_option must be 1 or 0.",
                )
                .into());
            }
        }
    } else {
        false
    };
    let found = pattern.find_iter(&whole[from..]).nth(wanted - 1);
    Ok(Datum::Int(found.map_or(0, |found| {
        let at = from + if behind { found.end() } else { found.start() };
        whole[..at].chars().count() as i64 + 1
    })))
}

fn part(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.string(0)?;
    let pattern = pattern(f, 4)?;
    let from = start(f, 2, &whole)?;
    let wanted = occurrence(f, 3)?;
    let found = pattern.find_iter(&whole[from..]).nth(wanted - 1).ok_or(Stop::Null)?;
    text(found.as_str().as_bytes())
}

fn replace(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.string(0)?;
    let replacement = f.string(2)?;
    let pattern = pattern(f, 5)?;
    let from = start(f, 3, &whole)?;
    let wanted = if f.len() > 4 { f.integer(4)? } else { 0 };
    let mut out = whole[..from].to_owned();
    let mut at = from;
    for (number, captures) in pattern.captures_iter(&whole[from..]).enumerate() {
        let is_meant = wanted <= 0 || number as i64 + 1 == wanted;
        let Some(all) = captures.get(0) else { continue };
        if !is_meant {
            continue;
        }
        out.push_str(&whole[at..from + all.start()]);
        expand(&replacement, &captures, &mut out)?;
        at = from + all.end();
        f.check_size(out.len() as u64)?;
        f.context.step(MATCH_STEPS)?;
    }
    out.push_str(&whole[at..]);
    text(out.into_bytes())
}

/// Puts groups where `$n` stands; a backslash takes the meaning from what follows.
fn expand(replacement: &str, captures: &Captures<'_>, out: &mut String) -> Result<(), Stop> {
    let mut chars = replacement.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.extend(chars.next()),
            '$' => {
                let mut group: Option<usize> = None;
                while let Some(digit) = chars.peek().and_then(|char| char.to_digit(10)) {
                    let next = group.unwrap_or(0) * 10 + digit as usize;
                    if next >= captures.len() && group.is_some() {
                        break;
                    }
                    group = Some(next);
                    chars.next();
                }
                match group {
                    Some(group) if group < captures.len() => {
                        out.push_str(captures.get(group).map_or("", |found| found.as_str()));
                    }
                    Some(_) => return Err(SqlError::of::<3686>(&[]).into()),
                    None => return Err(SqlError::of::<3685>(&[]).into()),
                }
            }
            other => out.push(other),
        }
    }
    Ok(())
}
