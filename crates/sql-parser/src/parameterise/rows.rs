//! Rows behind VALUES that are nothing but literals, all of as many.
//!
//! # Owns
//! Finding them, and their values, a row at a time: programs that load tables send thousands in one
//! statement, and no tree is made of them.
//! # Guarantees
//! What is taken out is what the parser would read as rows of literals, of negative numbers and of
//! NULL. Anything else is left to it.

use super::{LiteralKind, LiteralSpan, Scan, is_digit, is_space, is_word};
use crate::ast::Literal;
use crate::lexer::SqlMode;

/// Most literals of all rows; texts with more have no key.
const ROW_LITERALS_MAX: usize = 1 << 20;
/// Stands for the rows in a key, before the number of their values: a byte that is in no text that
/// gets a key, and no kind.
const ROWS: u8 = 7;

/// Where rows lie in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsPlace {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Literals of each.
    pub(crate) width: u32,
}

/// Rows of literals.
#[derive(Clone, Debug)]
pub struct LiteralRows {
    text: Box<[u8]>,
    mode: SqlMode,
    width: usize,
    spans: Vec<LiteralSpan>,
}

/// A literal of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLiteral {
    /// A minus stands before the number.
    pub negative: bool,
    /// The literal.
    pub literal: Literal,
}

impl LiteralRows {
    /// Rows at a place of a text; `spans` are of the whole text.
    pub(super) fn new(
        sql: &[u8],
        mode: SqlMode,
        place: RowsPlace,
        mut spans: Vec<LiteralSpan>,
    ) -> Self {
        let text = sql[place.start..place.end].into();
        for span in &mut spans {
            span.start -= place.start as u32;
            span.end -= place.start as u32;
        }
        Self { text, mode, width: place.width as usize, spans }
    }

    /// How many rows there are: one or more.
    pub fn count(&self) -> usize {
        self.spans.len() / self.width
    }

    /// The literals of row `at`, which is below `count`.
    pub fn row(&self, at: usize) -> impl Iterator<Item = RowLiteral> + '_ {
        let spans = &self.spans[at * self.width..(at + 1) * self.width];
        spans.iter().map(|span| {
            let negative = self.text[span.start as usize] == b'-';
            let start = span.start + u32::from(negative);
            let literal = LiteralSpan { start, ..*span }.value(&self.text, self.mode);
            RowLiteral { negative, literal }
        })
    }
}

impl Scan<'_> {
    /// Behind VALUES: takes out the rows that follow, if they are rows of literals.
    pub(super) fn take_rows(&mut self) {
        let before = self.at;
        self.skip_spaces();
        let start = self.at;
        let Some(width) = self.rows() else {
            self.literals.row_spans.clear();
            self.at = before;
            return;
        };
        let end = self.at;
        self.copy_to(start);
        self.literals.key.push(ROWS);
        self.literals.key.extend_from_slice(&width.to_le_bytes());
        self.copied = end;
        self.before = super::Before::Other;
        self.literals.rows = Some(RowsPlace { start, end, width });
    }

    /// Goes behind the last row; how many literals each has.
    fn rows(&mut self) -> Option<u32> {
        let mut width = None;
        loop {
            let before = self.literals.row_spans.len();
            self.go_on()?;
            self.row()?;
            let found = self.literals.row_spans.len() - before;
            if *width.get_or_insert(found) != found
                || self.literals.row_spans.len() > ROW_LITERALS_MAX
            {
                return None;
            }
            let end = self.at;
            self.skip_spaces();
            if self.peek(0) != b',' {
                self.at = end;
                return width.and_then(|width| u32::try_from(width).ok());
            }
            self.at += 1;
            self.skip_spaces();
        }
    }

    /// Goes behind the row that begins here, which has one literal at least.
    fn row(&mut self) -> Option<()> {
        let mut before = b'(';
        while before != b')' {
            if before == b'(' && self.peek(0) != b'(' {
                return None;
            }
            self.at += 1;
            self.skip_spaces();
            let span = self.row_literal()?;
            self.literals.row_spans.push(span);
            self.skip_spaces();
            before = self.peek(0);
            if !matches!(before, b',' | b')') {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    fn row_literal(&mut self) -> Option<LiteralSpan> {
        let start = self.at;
        let (kind, plain) = match self.peek(0) {
            b'\'' => (LiteralKind::String, self.skip_quoted(!self.mode.no_backslash_escapes)?),
            b'"' if !self.mode.ansi_quotes => {
                (LiteralKind::String, self.skip_quoted(!self.mode.no_backslash_escapes)?)
            }
            b'n' | b'N' => {
                let word = self.sql.get(start..start + 4)?;
                if !word.eq_ignore_ascii_case(b"null") || is_word(self.peek(4)) {
                    return None;
                }
                self.at += 4;
                (LiteralKind::Null, true)
            }
            first => {
                self.at += usize::from(first == b'-');
                let is_number =
                    is_digit(self.peek(0)) || (self.peek(0) == b'.' && is_digit(self.peek(1)));
                let kind = if is_number { self.skip_number()? } else { return None };
                (kind, true)
            }
        };
        Some(LiteralSpan { start: start as u32, end: self.at as u32, kind, plain })
    }

    fn skip_spaces(&mut self) {
        while is_space(self.peek(0)) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Literals, parameterise};
    use super::*;

    /// The key and the rows, if the text has a key.
    fn taken(sql: &str) -> Option<(u128, Option<LiteralRows>)> {
        let mut literals = Literals::default();
        let key = parameterise(sql.as_bytes(), SqlMode::default(), &mut literals, &|| true)?;
        Some((key, literals.take_rows(sql.as_bytes(), SqlMode::default())))
    }

    fn rows(sql: &str) -> Option<LiteralRows> {
        taken(sql).unwrap_or_else(|| panic!("no key: {sql}")).1
    }

    #[test]
    fn statements_that_differ_in_their_rows_have_one_key() {
        let key = |sql: &str| taken(sql).unwrap().0;
        let one = key("INSERT INTO t VALUES (1,'a')");
        for same in [
            "INSERT INTO t VALUES (NULL, -2.5),(3,\"b\")",
            "INSERT INTO t VALUES ( 'it''s' , 1e3 )\n,\t( .5 , null )",
        ] {
            assert_eq!(key(same), one, "{same}");
        }
        for other in [
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (1,'a',2)",
            "INSERT INTO u VALUES (1,'a')",
            "REPLACE INTO t VALUES (1,'a')",
            "INSERT INTO t VALUES (1,DEFAULT)",
            "INSERT INTO t VALUES (1,'a') ON DUPLICATE KEY UPDATE a = 1",
        ] {
            assert_ne!(key(other), one, "{other}");
        }
    }

    #[test]
    fn values_of_rows_come_back() {
        let rows = rows("INSERT INTO t VALUES (1,'a\\'b',NULL),(-2,'',-1.50)").unwrap();
        let literal = |negative, literal| RowLiteral { negative, literal };
        let expected = [
            [
                literal(false, Literal::Integer(1)),
                literal(false, Literal::String(b"a'b"[..].into())),
                literal(false, Literal::Null),
            ],
            [
                literal(true, Literal::Integer(2)),
                literal(false, Literal::String([].into())),
                literal(true, Literal::Decimal("1.50".into())),
            ],
        ];
        let found: Vec<Vec<_>> = (0..rows.count()).map(|at| rows.row(at).collect()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_row_of_literals_is_left_to_the_parser() {
        for sql in [
            "INSERT INTO t VALUES (1),(2,3)",
            "INSERT INTO t VALUES (1),(DEFAULT)",
            "INSERT INTO t VALUES (1),(- 2)",
            "INSERT INTO t VALUES (nullable)",
            "INSERT INTO t VALUES (f(1))",
            "INSERT INTO t VALUES ()",
            "INSERT INTO t VALUES (1),",
            "INSERT INTO t SELECT a FROM u WHERE (1)",
            "INSERT INTO t SET a = 1",
            "SELECT a FROM t WHERE a IN (1)",
        ] {
            assert_eq!(rows(sql).map(|rows| rows.count()), None, "{sql}");
        }
        // One string, a name that begins with digits, a number whose type depends on its value.
        for sql in ["('a' 'b')", "(1x)", "(9223372036854775808)", "('a'"] {
            assert!(taken(&format!("INSERT INTO t VALUES (1),{sql}")).is_none(), "{sql}");
        }
    }

    #[test]
    fn rows_may_be_long_and_nothing_else() {
        let many = vec!["(1,'abcdefgh')"; 50_000].join(",");
        let sql = format!("INSERT INTO t VALUES {many} ON DUPLICATE KEY UPDATE a = 5");
        assert_eq!(rows(&sql).unwrap().count(), 50_000);
        assert!(taken(&format!("INSERT INTO t VALUES (1+1),{many}")).is_none());
        assert!(taken(&format!("SELECT 1 FROM t WHERE a IN ({many})")).is_none());
        let many = vec!["(1)"; ROW_LITERALS_MAX + 1].join(",");
        assert!(taken(&format!("INSERT INTO t VALUES {many}")).is_none());
    }
}
