//! The key of a plan cache: a statement's text with its literals taken out.
//!
//! # Owns
//! One fast pass over the bytes that finds the literals which stand for values, and the key of what
//! is left. It knows no grammar, only where values can be: after WHERE, VALUES, SET, ON, HAVING,
//! LIMIT. Rows behind VALUES that are nothing but literals are taken out as a whole (`rows`).
//! # Invariants
//! 1. Statements with one key differ in nothing but the values of their literals: kinds of
//!    literals, lengths of lists, every other byte are in the key. Of rows taken out as a whole
//!    neither their number nor the kinds of their literals are.
//! 2. What might not be a value stays in the key: positions in ORDER BY, arguments of functions,
//!    the select list, which names columns. A doubt about the whole text gives no key.
//! 3. [`crate::parse_parameterised`] has the last word: it refuses where a literal was no value.

pub(crate) mod rows;

use xxhash_rust::xxh3::xxh3_128;

use crate::ast::Literal;
use crate::keyword::Keyword as K;
use crate::lexer::literal::unquote;
use crate::lexer::{SqlMode, is_digit, is_space, is_word};
use crate::parser::Look;
use rows::{LiteralRows, RowsPlace};

/// The literals that were found, and the text without them. Kept between statements for its memory.
#[derive(Clone, Debug, Default)]
pub struct Literals {
    spans: Vec<LiteralSpan>,
    key: Vec<u8>,
    /// Where the rows of an INSERT lie that are nothing but literals, and these.
    rows: Option<RowsPlace>,
    row_spans: Vec<LiteralSpan>,
}

/// Where a literal stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiteralSpan {
    pub(crate) start: u32,
    end: u32,
    kind: LiteralKind,
    /// Nothing to unescape.
    plain: bool,
}

/// The kinds of literal that are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralKind {
    Integer,
    Decimal,
    Float,
    String,
    /// In rows alone.
    Null,
}

impl Literals {
    /// How many there are, beside those of rows.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// What the hash was made of: equal keys are equal statements but for the values.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The values in order, out of the text they were found in; without those of rows.
    pub fn values<'a>(
        &'a self,
        sql: &'a [u8],
        mode: SqlMode,
    ) -> impl Iterator<Item = Literal> + 'a {
        self.spans.iter().map(move |span| span.value(sql, mode))
    }

    /// The rows that were taken out as a whole, out of the text they were found in. They are given
    /// away: the next call has none.
    pub fn take_rows(&mut self, sql: &[u8], mode: SqlMode) -> Option<LiteralRows> {
        let place = self.rows.take()?;
        Some(LiteralRows::new(sql, mode, place, std::mem::take(&mut self.row_spans)))
    }

    /// The text but for rows that were taken out: what stands for all texts with this key.
    pub fn text_without_rows(&self, sql: &[u8]) -> Vec<u8> {
        match self.rows {
            Some(place) => [&sql[..place.start], b"(...)", &sql[place.end..]].concat(),
            None => sql.to_vec(),
        }
    }

    pub(crate) fn spans(&self) -> &[LiteralSpan] {
        &self.spans
    }

    pub(crate) fn rows_place(&self) -> Option<RowsPlace> {
        self.rows
    }
}

impl LiteralSpan {
    fn value(&self, sql: &[u8], mode: SqlMode) -> Literal {
        let bytes = &sql[self.start as usize..self.end as usize];
        let text = || String::from_utf8_lossy(bytes).into();
        match self.kind {
            LiteralKind::Integer => match crate::parser::parse_integer(bytes) {
                Some(number) => Literal::Integer(number),
                None => Literal::Decimal(text()),
            },
            LiteralKind::Decimal => Literal::Decimal(text()),
            LiteralKind::Float => Literal::Float(text()),
            LiteralKind::String if self.plain => Literal::String(bytes[1..bytes.len() - 1].into()),
            LiteralKind::String => {
                let mut value = Vec::new();
                unquote(bytes, !mode.no_backslash_escapes, &mut value);
                Literal::String(value.into())
            }
            LiteralKind::Null => Literal::Null,
        }
    }
}

/// Finds the literals of a statement and gives the hash of the rest; none where it has no such
/// form.
///
/// The key is of the text alone: what else a plan depends on, as the current schema, is the
/// caller's. `look` is called after some thousand bytes, again and again; there is no key when that
/// is false.
pub fn parameterise(
    sql: &[u8],
    mode: SqlMode,
    literals: &mut Literals,
    look: Look<'_>,
) -> Option<u128> {
    literals.spans.clear();
    literals.key.clear();
    literals.rows = None;
    literals.row_spans.clear();
    literals.key.reserve(sql.len().min(SQL_SIZE_MAX) + 1);
    literals.key.push(mode_byte(mode));
    let mut scan = Scan {
        sql,
        mode,
        literals,
        look,
        look_at: LOOK_BYTES,
        at: 0,
        copied: 0,
        before: Before::Start,
        values: false,
        inserts: false,
        outer: [Place::Other; DEPTH_MAX],
        depth: 0,
        in_call: false,
    };
    scan.run()?;
    Some(xxh3_128(&literals.key))
}

fn mode_byte(mode: SqlMode) -> u8 {
    let bits = [
        mode.ansi_quotes,
        mode.pipes_as_concat,
        mode.no_backslash_escapes,
        mode.high_not_precedence,
        mode.ignore_space,
    ];
    bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))
}

/// Longer texts, beside rows that were taken out, have plans that are not worth keeping.
const SQL_SIZE_MAX: usize = 64 * 1024;
const LITERALS_MAX: usize = 2_048;
/// Bytes between two looks whether the work is to end.
const LOOK_BYTES: usize = 4_096;
const INTEGER_DIGITS_MAX: usize = 18;
const DEPTH_MAX: usize = 32;

/// The token before the one in hand, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Start,
    /// A word of the grammar behind which a parenthesis is no call's and a literal is a value.
    Operator,
    /// A word behind which a literal is a part of syntax.
    Binding,
    /// Any other word.
    Name,
    String,
    Arrow,
    Other,
}

/// What a parenthesis interrupted.
#[derive(Clone, Copy)]
enum Place {
    Values,
    Other,
    Call,
}

struct Scan<'a> {
    sql: &'a [u8],
    mode: SqlMode,
    literals: &'a mut Literals,
    look: Look<'a>,
    /// Where in the text this is called next.
    look_at: usize,
    at: usize,
    /// Up to here the text is in the key, or left out of it.
    copied: usize,
    before: Before,
    /// Literals here are values.
    values: bool,
    /// It is an INSERT or REPLACE.
    inserts: bool,
    /// What each open parenthesis interrupted.
    outer: [Place; DEPTH_MAX],
    depth: usize,
    /// Inside the arguments of a function.
    in_call: bool,
}

impl Scan<'_> {
    fn run(&mut self) -> Option<()> {
        while let Some(&byte) = self.sql.get(self.at) {
            self.go_on()?;
            match byte {
                _ if is_space(byte) => self.at += 1,
                b'0'..=b'9' => self.number()?,
                _ if is_word(byte) => self.word()?,
                b'\'' => self.string()?,
                b'"' if !self.mode.ansi_quotes => self.string()?,
                b'"' | b'`' => {
                    self.skip_quoted(false)?;
                    self.before = Before::Name;
                }
                b'(' => self.open()?,
                b')' => self.close()?,
                b'.' => self.dot()?,
                b'/' if self.peek(1) == b'*' => self.comment()?,
                b'#' => self.line_comment(),
                b'-' if self.peek(1) == b'-' && (self.peek(2) <= b' ') => self.line_comment(),
                b'-' if self.peek(1) == b'>' => {
                    self.at += if self.peek(2) == b'>' { 3 } else { 2 };
                    self.before = Before::Arrow;
                }
                b';' => return self.end(),
                b'?' | b'{' | b'}' | b'\\' => return None,
                b'@' if matches!(self.peek(1), b'\'' | b'"' | b'`') => return None,
                _ if byte < b' ' || byte == 0x7F => return None,
                _ => {
                    self.at += 1;
                    self.before = Before::Other;
                }
            }
        }
        match self.before {
            Before::Start => None,
            _ => self.finish(),
        }
    }

    /// Looks now and then whether the work is to end.
    #[inline]
    fn go_on(&mut self) -> Option<()> {
        // Rows that are left to the parser are gone over twice.
        if self.at < self.look_at {
            return Some(());
        }
        self.look_at = self.at + LOOK_BYTES;
        (self.look)().then_some(())
    }

    /// At a semicolon: nothing may follow.
    fn end(&mut self) -> Option<()> {
        let rest = &self.sql[self.at + 1..];
        if self.before == Before::Start || !rest.iter().all(|byte| is_space(*byte)) {
            return None;
        }
        self.finish()
    }

    fn finish(&mut self) -> Option<()> {
        self.copy_to(self.at);
        (self.depth == 0 && !self.is_long()).then_some(())
    }

    /// Whether there is too much text beside the rows that were taken out.
    fn is_long(&self) -> bool {
        let rows = self.literals.rows.map_or(0, |place| place.end - place.start);
        self.sql.len() - rows > SQL_SIZE_MAX
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.sql.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn copy_to(&mut self, end: usize) {
        self.literals.key.extend_from_slice(&self.sql[self.copied..end]);
        self.copied = end;
    }

    fn word(&mut self) -> Option<()> {
        let start = self.at;
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        let keyword = K::of(&self.sql[start..self.at]);
        if self.before == Before::Start {
            match keyword {
                K::Insert | K::Replace => self.inserts = true,
                K::Select | K::Update | K::Delete if self.is_long() => return None,
                K::Select | K::Update | K::Delete => {}
                _ => return None,
            }
        }
        // `x'4D'`, `_utf8mb4'a'`: a literal that begins with a word.
        if self.peek(0) == b'\'' || self.sql[start] == b'_' {
            self.before = Before::Binding;
            return Some(());
        }
        let (before, values) = effect(keyword);
        self.before = before;
        self.values = values.unwrap_or(self.values);
        let may_have_rows = self.inserts && self.depth == 0 && self.literals.rows.is_none();
        if may_have_rows && matches!(keyword, K::Values | K::Value) {
            self.take_rows();
        }
        Some(())
    }

    fn open(&mut self) -> Option<()> {
        let place = match (self.in_call, self.values) {
            (true, _) => Place::Call,
            (false, true) => Place::Values,
            (false, false) => Place::Other,
        };
        *self.outer.get_mut(self.depth)? = place;
        self.depth += 1;
        self.in_call |= matches!(self.before, Before::Name | Before::Binding);
        self.at += 1;
        self.before = Before::Other;
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        let place = self.outer[self.depth];
        self.in_call = matches!(place, Place::Call);
        self.values = matches!(place, Place::Values);
        self.at += 1;
        self.before = Before::Other;
        Some(())
    }

    /// A dot of a name, or a number that begins with it.
    fn dot(&mut self) -> Option<()> {
        if is_digit(self.peek(1)) {
            return match self.before {
                Before::Name | Before::Binding | Before::Operator => None,
                _ => self.number(),
            };
        }
        self.at += 1;
        // What follows is a name, whatever word it is.
        while is_space(self.peek(0)) {
            self.at += 1;
        }
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        self.before = Before::Name;
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let kind = self.skip_number()?;
        self.literal(start, kind, true)
    }

    /// Goes behind the number that begins here; none where what it is depends on more.
    fn skip_number(&mut self) -> Option<LiteralKind> {
        let start = self.at;
        let mut kind = LiteralKind::Integer;
        while is_digit(self.peek(0)) {
            self.at += 1;
        }
        if self.peek(0) == b'.' {
            kind = LiteralKind::Decimal;
            self.at += 1;
            while is_digit(self.peek(0)) {
                self.at += 1;
            }
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if !is_digit(self.peek(1 + sign)) {
                return None;
            }
            kind = LiteralKind::Float;
            self.at += 1 + sign;
            while is_digit(self.peek(0)) {
                self.at += 1;
            }
        }
        // An identifier that begins with digits, or `0x4D`.
        if is_word(self.peek(0)) {
            return None;
        }
        // Beyond a signed integer the type depends on the value.
        let is_wide = kind == LiteralKind::Integer && self.at - start > INTEGER_DIGITS_MAX;
        (!is_wide).then_some(kind)
    }

    fn string(&mut self) -> Option<()> {
        // Neighbours are one string.
        if self.before == Before::String {
            return None;
        }
        let start = self.at;
        let plain = self.skip_quoted(!self.mode.no_backslash_escapes)?;
        self.literal(start, LiteralKind::String, plain)
    }

    /// A literal from `start` to here: taken out where it is a value.
    fn literal(&mut self, start: usize, kind: LiteralKind, plain: bool) -> Option<()> {
        let is_value =
            self.values && !self.in_call && matches!(self.before, Before::Operator | Before::Other);
        if is_value {
            if self.literals.spans.len() == LITERALS_MAX || self.is_long() {
                return None;
            }
            self.copy_to(start);
            // Bytes that are in no text that gets a key.
            self.literals.key.push(kind as u8 + 1);
            self.copied = self.at;
            let (start, end) = (start as u32, self.at as u32);
            self.literals.spans.push(LiteralSpan { start, end, kind, plain });
        } else if self.before == Before::Start {
            return None;
        }
        let is_string = kind == LiteralKind::String;
        self.before = if is_string { Before::String } else { Before::Other };
        Some(())
    }

    /// Something in quotes; tells whether it has nothing to unescape.
    fn skip_quoted(&mut self, backslash: bool) -> Option<bool> {
        let quote = self.sql[self.at];
        let mut plain = true;
        let mut at = self.at + 1;
        loop {
            let rest = self.sql.get(at..)?;
            at += if backslash {
                memchr::memchr2(quote, b'\\', rest)?
            } else {
                memchr::memchr(quote, rest)?
            };
            if self.sql[at] == quote && self.sql.get(at + 1) != Some(&quote) {
                break;
            }
            // Two quotes, or a backslash and what it is for.
            plain = false;
            at += 2;
        }
        self.at = at + 1;
        Some(plain)
    }

    /// A comment is left out of the key, so that a trace in it does not make another statement.
    fn comment(&mut self) -> Option<()> {
        if matches!(self.peek(2), b'!' | b'+') {
            return None;
        }
        let rest = &self.sql[self.at + 2..];
        let len = rest.windows(2).position(|pair| pair == b"*/")?;
        self.leave_out(self.at + len + 4);
        Some(())
    }

    fn line_comment(&mut self) {
        let rest = &self.sql[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.leave_out(self.at + len);
    }

    fn leave_out(&mut self, end: usize) {
        self.copy_to(self.at);
        self.literals.key.push(b' ');
        (self.at, self.copied) = (end, end);
    }
}

/// What a word is for the token behind it, and whether literals are values from here on.
fn effect(keyword: K) -> (Before, Option<bool>) {
    match keyword {
        K::Where | K::Having | K::On | K::Set | K::Values | K::Value | K::Limit => {
            (Before::Operator, Some(true))
        }
        K::Select
        | K::From
        | K::Group
        | K::Order
        | K::Union
        | K::Except
        | K::Intersect
        | K::Window
        | K::For
        | K::Into
        | K::As
        | K::Using
        | K::Lock
        | K::Partition => (Before::Operator, Some(false)),
        K::And
        | K::Or
        | K::Xor
        | K::Not
        | K::In
        | K::Between
        | K::Like
        | K::Regexp
        | K::Rlike
        | K::Is
        | K::Div
        | K::Mod
        | K::Case
        | K::When
        | K::Then
        | K::Else
        | K::Any
        | K::All
        | K::Some
        | K::Exists
        | K::Offset
        | K::Row
        | K::Distinct
        | K::Update
        | K::Join => (Before::Operator, None),
        K::Date
        | K::Time
        | K::Timestamp
        | K::Collate
        | K::Escape
        | K::Interval
        | K::Separator
        | K::Binary => (Before::Binding, None),
        _ => (Before::Name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key with `?` and the kind for each literal, or nothing.
    fn key(sql: &str) -> Option<String> {
        let mut literals = Literals::default();
        parameterise(sql.as_bytes(), SqlMode::default(), &mut literals, &|| true)?;
        let mut text = String::new();
        for byte in &literals.key()[1..] {
            match byte {
                1 => text.push_str("?i"),
                2 => text.push_str("?d"),
                3 => text.push_str("?f"),
                4 => text.push_str("?s"),
                byte => text.push(char::from(*byte)),
            }
        }
        Some(text)
    }

    #[test]
    fn values_are_taken_out() {
        for (sql, expected) in [
            ("SELECT a FROM t WHERE b = 5", "SELECT a FROM t WHERE b = ?i"),
            ("SELECT a FROM t WHERE b=5 AND c='x'", "SELECT a FROM t WHERE b=?i AND c=?s"),
            ("SELECT a FROM t WHERE b IN (1,2)", "SELECT a FROM t WHERE b IN (?i,?i)"),
            ("SELECT a FROM t WHERE b > 1.5 LIMIT 10", "SELECT a FROM t WHERE b > ?d LIMIT ?i"),
            ("SELECT a FROM t WHERE b = -1e5", "SELECT a FROM t WHERE b = -?f"),
            ("INSERT INTO t (a) VALUES (1+2),('x')", "INSERT INTO t (a) VALUES (?i+?i),(?s)"),
            (
                "UPDATE t SET a = 1, b = b + 2 WHERE c = 3",
                "UPDATE t SET a = ?i, b = b + ?i WHERE c = ?i",
            ),
            ("DELETE FROM t WHERE a BETWEEN 1 AND 2", "DELETE FROM t WHERE a BETWEEN ?i AND ?i"),
            ("SELECT a FROM t WHERE (b, c) = (1, 2)", "SELECT a FROM t WHERE (b, c) = (?i, ?i)"),
            (
                "SELECT 1 FROM t WHERE a = (SELECT 2 FROM u WHERE b = 3) + 4",
                "SELECT 1 FROM t WHERE a = (SELECT 2 FROM u WHERE b = ?i) + ?i",
            ),
            ("/* trace 1 */SELECT 1 FROM t", " SELECT 1 FROM t"),
        ] {
            assert_eq!(key(sql).as_deref(), Some(expected), "{sql}");
        }
    }

    #[test]
    fn what_may_not_be_a_value_stays() {
        for sql in [
            "SELECT 1, 'x' FROM t",
            "SELECT a FROM t ORDER BY 1",
            "SELECT a FROM t GROUP BY 2",
            "SELECT a FROM t WHERE f(1, 'x')",
            "SELECT a FROM t WHERE b = CAST(c AS CHAR(10))",
            "SELECT a FROM t WHERE b = DATE '2020-01-01'",
            "SELECT a FROM t WHERE b = _latin1'x'",
            "SELECT a FROM t WHERE b = x'00'",
            "SELECT a FROM t WHERE b->'$.x' IS NULL",
            "SELECT a FROM t WHERE b LIKE c ESCAPE '|'",
            "SELECT a FROM t WHERE `b 1` = t.`2`",
        ] {
            assert_eq!(key(sql).as_deref(), Some(sql), "{sql}");
        }
    }

    #[test]
    fn doubt_gives_no_key() {
        for sql in [
            "",
            "SET a = 1",
            "CREATE TABLE t (a INT)",
            "SELECT a FROM t WHERE b = ?",
            "SELECT a FROM t WHERE b = 1; SELECT 2",
            "SELECT a FROM t WHERE b = 'x",
            "SELECT a FROM t WHERE b = 'x' 'y'",
            "SELECT a FROM t WHERE (b = 1",
            "SELECT a FROM t WHERE b) = 1",
            "SELECT a FROM t WHERE b = /*! 1 */ 2",
            "SELECT /*+ BKA(t) */ a FROM t WHERE b = 1",
            "SELECT a FROM t WHERE b = 1x",
            "SELECT a FROM t WHERE @'a' = 1",
            "SELECT a FROM t WHERE b = \u{1}",
            "SELECT a FROM t WHERE b = 0x41",
            "SELECT a FROM t WHERE b = 9223372036854775808",
        ] {
            assert_eq!(key(sql), None, "{sql}");
        }
    }

    #[test]
    fn values_come_back() {
        let sql = br"SELECT a FROM t WHERE b IN (1, 'a\'b', 2.5, 1e3, '', 999999999999999999)";
        let mut literals = Literals::default();
        let mode = SqlMode::default();
        assert!(parameterise(sql, mode, &mut literals, &|| true).is_some());
        let values: Vec<Literal> = literals.values(sql, mode).collect();
        assert_eq!(
            values,
            [
                Literal::Integer(1),
                Literal::String(b"a'b"[..].into()),
                Literal::Decimal("2.5".into()),
                Literal::Float("1e3".into()),
                Literal::String([].into()),
                Literal::Integer(999_999_999_999_999_999),
            ]
        );
        assert!(!literals.is_empty());
    }

    #[test]
    fn modes_have_keys_of_their_own() {
        let mut literals = Literals::default();
        let sql = b"SELECT a FROM t WHERE b || 1";
        let plain = parameterise(sql, SqlMode::default(), &mut literals, &|| true);
        let mode = SqlMode { pipes_as_concat: true, ..SqlMode::default() };
        assert_ne!(parameterise(sql, mode, &mut literals, &|| true), plain);
    }
}
