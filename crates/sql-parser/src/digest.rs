//! The digest of a statement: its text without values, by which statistics are kept.
//!
//! # Invariants
//! 1. Two statements that differ only in literals, lengths of lists, white space, comments and case
//!    of keywords have one digest.
//! 2. The text is of the form that `performance_schema` shows: keywords in upper case, names in
//!    backquotes, `?` for a value, `(...)` for a list of values, a space between tokens.

use xxhash_rust::xxh3::xxh3_128;

use crate::keyword::Class;
use crate::lexer::literal::unquote;
use crate::lexer::{Kind, Lexer, SqlMode, Token};

/// A statement without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The normalised text.
    pub text: String,
    /// Its hash.
    pub hash: u128,
}

/// The digest of the statement that begins at the start of `sql`; it ends at a semicolon.
pub fn digest(sql: &[u8], mode: SqlMode) -> Digest {
    let mut writer = Writer { out: Vec::with_capacity(32) };
    if u32::try_from(sql.len()).is_ok() {
        let mut lexer = Lexer::new(sql, 0, mode);
        loop {
            let token = lexer.next();
            if matches!(token.kind, Kind::End | Kind::Semicolon | Kind::Invalid) {
                break;
            }
            let is_call = sql.get(token.end as usize) == Some(&b'(');
            writer.token(token, &sql[token.start as usize..token.end as usize], is_call);
        }
    }
    let mut text = String::with_capacity(sql.len().min(1024));
    for (index, piece) in writer.out.iter().enumerate() {
        // The scope and name of `@@x` are one token for the eye.
        if index > 0 && writer.out[index - 1].text() != "@@" {
            text.push(' ');
        }
        text.push_str(piece.text());
    }
    let hash = xxh3_128(text.as_bytes());
    Digest { text, hash }
}

/// A token of the digest.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Fixed(&'static str),
    /// A value, or a sign that belongs to one.
    Value,
    /// `?, ...`.
    Values,
    /// `(?)`.
    OneValueRow,
    /// `(...)`.
    Row,
    /// `(?) /* , ... */`.
    OneValueRows,
    /// `(...) /* , ... */`.
    Rows,
}

impl Piece {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Fixed(text) => text,
            Self::Value => "?",
            Self::Values => "?, ...",
            Self::OneValueRow => "(?)",
            Self::Row => "(...)",
            Self::OneValueRows => "(?) /* , ... */",
            Self::Rows => "(...) /* , ... */",
        }
    }
}

struct Writer {
    out: Vec<Piece>,
}

impl Writer {
    fn token(&mut self, token: Token, bytes: &[u8], is_call: bool) {
        match token.kind {
            Kind::String
            | Kind::National
            | Kind::Integer
            | Kind::Decimal
            | Kind::Float
            | Kind::Hex
            | Kind::Bit
            | Kind::NullEscape
            | Kind::Parameter => self.value(),
            Kind::Word => match token.keyword.class() {
                Some(Class::Reserved | Class::Plain) if token.keyword.text() == "NULL" => {
                    self.null();
                }
                Some(Class::Reserved | Class::Plain) => {
                    self.out.push(Piece::Fixed(token.keyword.text()));
                }
                Some(Class::Function) if is_call => {
                    self.out.push(Piece::Fixed(token.keyword.text()));
                }
                Some(Class::Function) | None => self.name(bytes),
            },
            Kind::Introducer => self.name(bytes),
            Kind::Quoted => {
                let mut name = Vec::new();
                unquote(bytes, false, &mut name);
                self.name(&name);
            }
            Kind::Variable => {
                self.out.push(Piece::Text(String::from_utf8_lossy(bytes).into_owned()));
            }
            Kind::Close => self.close(),
            kind => self.out.push(Piece::Fixed(punctuation(kind))),
        }
    }

    fn name(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name).replace('`', "``");
        self.out.push(Piece::Text(format!("`{name}`")));
    }

    /// NULL is a word after IS, a value elsewhere.
    fn null(&mut self) {
        match self.out.last() {
            Some(Piece::Fixed("," | "(" | "=")) => self.value(),
            _ => self.out.push(Piece::Fixed("NULL")),
        }
    }

    fn value(&mut self) {
        // A sign with nothing before it to add to or to subtract from is the value's.
        if let [.., before, Piece::Fixed("-" | "+")] = &self.out[..]
            && matches!(before, Piece::Fixed(text) if !matches!(*text, ")" | "*"))
        {
            self.out.pop();
        }
        match &self.out[..] {
            [.., Piece::Value | Piece::Values, Piece::Fixed(",")] => {
                self.out.truncate(self.out.len() - 2);
                self.out.push(Piece::Values);
            }
            // Neighbouring strings are one.
            [.., Piece::Value] => {}
            _ => self.out.push(Piece::Value),
        }
    }

    fn close(&mut self) {
        let row = match &self.out[..] {
            [.., Piece::Fixed("("), Piece::Value] => Piece::OneValueRow,
            [.., Piece::Fixed("("), Piece::Values] => Piece::Row,
            _ => {
                self.out.push(Piece::Fixed(")"));
                return;
            }
        };
        self.out.truncate(self.out.len() - 2);
        // IN has one form, however many values there are.
        if let Some(Piece::Fixed("IN")) = self.out.last() {
            self.out.push(Piece::Row);
            return;
        }
        let repeats = match (&self.out[..], &row) {
            (
                [.., Piece::OneValueRow | Piece::OneValueRows, Piece::Fixed(",")],
                Piece::OneValueRow,
            ) => Some(Piece::OneValueRows),
            ([.., Piece::Row | Piece::Rows, Piece::Fixed(",")], Piece::Row) => Some(Piece::Rows),
            _ => None,
        };
        match repeats {
            Some(rows) => {
                self.out.truncate(self.out.len() - 2);
                self.out.push(rows);
            }
            None => self.out.push(row),
        }
    }
}

fn punctuation(kind: Kind) -> &'static str {
    match kind {
        Kind::At => "@@",
        Kind::Open => "(",
        Kind::Comma => ",",
        Kind::Dot => ".",
        Kind::OpenBrace => "{",
        Kind::CloseBrace => "}",
        Kind::Assign => ":=",
        Kind::Plus => "+",
        Kind::Minus => "-",
        Kind::Star => "*",
        Kind::Slash => "/",
        Kind::Percent => "%",
        Kind::Caret => "^",
        Kind::Tilde => "~",
        Kind::Bang => "!",
        Kind::Pipe => "|",
        Kind::Pipes => "||",
        Kind::Ampersand => "&",
        Kind::Ampersands => "&&",
        Kind::ShiftLeft => "<<",
        Kind::ShiftRight => ">>",
        Kind::Equal => "=",
        Kind::NullSafeEqual => "<=>",
        Kind::NotEqual => "!=",
        Kind::Less => "<",
        Kind::LessOrEqual => "<=",
        Kind::Greater => ">",
        Kind::GreaterOrEqual => ">=",
        Kind::Arrow => "->",
        Kind::LongArrow => "->>",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> String {
        digest(sql.as_bytes(), SqlMode::default()).text
    }

    #[test]
    fn texts_are_those_of_performance_schema() {
        for (sql, expected) in [
            ("select c from t where id = 5", "SELECT `c` FROM `t` WHERE `id` = ?"),
            ("SELECT 'a' 'b', -1, NULL", "SELECT ?, ..."),
            ("SELECT `a``b` FROM db.t", "SELECT `a``b` FROM `db` . `t`"),
            ("SELECT * FROM t WHERE a IN (1, 2, 3)", "SELECT * FROM `t` WHERE `a` IN (...)"),
            ("SELECT * FROM t WHERE a IN (1)", "SELECT * FROM `t` WHERE `a` IN (...)"),
            ("INSERT INTO t VALUES (1, 2)", "INSERT INTO `t` VALUES (...)"),
            (
                "INSERT INTO t VALUES (1, 2), (3, 4), (5, NULL)",
                "INSERT INTO `t` VALUES (...) /* , ... */",
            ),
            ("INSERT INTO t VALUES (1), (2)", "INSERT INTO `t` VALUES (?) /* , ... */"),
            ("SELECT COUNT(*) FROM t", "SELECT COUNT ( * ) FROM `t`"),
            ("SELECT a - 1, a = -1", "SELECT `a` - ? , `a` = ?"),
            ("SELECT a IS NULL", "SELECT `a` IS NULL"),
            ("SELECT @@version_comment LIMIT 1", "SELECT @@`version_comment` LIMIT ?"),
            ("SELECT /* x */ 1; SELECT 2", "SELECT ?"),
            ("SELECT ?", "SELECT ?"),
            ("", ""),
        ] {
            assert_eq!(text(sql), expected, "{sql}");
        }
    }

    #[test]
    fn equal_texts_have_equal_hashes() {
        let hash = |sql: &str| digest(sql.as_bytes(), SqlMode::default()).hash;
        assert_eq!(
            hash("select a from t where b=1"),
            hash("SELECT a  FROM `t` WHERE b = 'x' -- y")
        );
        assert_ne!(hash("select a from t"), hash("select b from t"));
        assert_ne!(hash("select A from t"), hash("select a from t"));
    }
}
