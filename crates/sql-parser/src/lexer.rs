//! From bytes to tokens.
//!
//! # Owns
//! What is a token under each `sql_mode`, comments, and the versioned comments whose text counts.
//! # Invariants
//! 1. A token is a range of the text; nothing is copied until the parser wants its value.
//! 2. Every byte is looked at a bounded number of times.
//! # Not here
//! The value of a literal: `lexer/literal.rs`.

pub(crate) mod literal;

use crate::keyword::Keyword;

/// What of `sql_mode` changes how a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqlMode {
    /// ANSI_QUOTES: `"a"` is an identifier.
    pub ansi_quotes: bool,
    /// PIPES_AS_CONCAT: `a || b` joins strings.
    pub pipes_as_concat: bool,
    /// NO_BACKSLASH_ESCAPES: `\` is a character like others.
    pub no_backslash_escapes: bool,
    /// HIGH_NOT_PRECEDENCE: NOT binds as `!` does.
    pub high_not_precedence: bool,
    /// IGNORE_SPACE: white space may stand between a built-in function and `(`.
    pub ignore_space: bool,
}

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The end of the text.
    End,
    /// A word without quotes; `Token::keyword` says if the grammar knows it.
    Word,
    /// An identifier in quotes.
    Quoted,
    /// A string.
    String,
    /// `N'…'`.
    National,
    /// `_name`, which may be the character set of the literal that follows.
    Introducer,
    /// Digits.
    Integer,
    /// Digits with a point.
    Decimal,
    /// A number with an exponent.
    Float,
    /// `x'…'` or `0x…`.
    Hex,
    /// `b'…'` or `0b…`.
    Bit,
    /// `@name`, quoted or not; `@` alone has no name.
    Variable,
    /// `@@`.
    At,
    /// `?`.
    Parameter,
    /// `\N`.
    NullEscape,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `,`.
    Comma,
    /// `.`.
    Dot,
    /// `;`.
    Semicolon,
    /// `{`.
    OpenBrace,
    /// `}`.
    CloseBrace,
    /// `:=`.
    Assign,
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `*`.
    Star,
    /// `/`.
    Slash,
    /// `%`.
    Percent,
    /// `^`.
    Caret,
    /// `~`.
    Tilde,
    /// `!`.
    Bang,
    /// `|`.
    Pipe,
    /// `||`.
    Pipes,
    /// `&`.
    Ampersand,
    /// `&&`.
    Ampersands,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `=`.
    Equal,
    /// `<=>`.
    NullSafeEqual,
    /// `<>` and `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `->`.
    Arrow,
    /// `->>`.
    LongArrow,
    /// What is no token: a string or a comment without end, a byte without meaning.
    Invalid,
}

/// A token, as a range of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Of a word without quotes, which one.
    pub(crate) keyword: Keyword,
    /// Of something in quotes: there is nothing to unescape inside.
    pub(crate) plain: bool,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A position in a text from which tokens are read. A copy is a bookmark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    mode: SqlMode,
    /// Inside so many `/*!`: as many `*/` are to be skipped.
    versioned: u32,
    /// The last token can stand before a dot, and ended here: what follows a dot here is a name.
    name_end: usize,
    /// The last token was such a dot.
    after_dot: bool,
}

/// No position in any text.
const NOWHERE: usize = usize::MAX;

/// Statements in `/*!NNNNNN … */` are executed up to this version.
const VERSION: u32 = 80_400;

const SPACE: u8 = 1;
const WORD: u8 = 2;
const DIGIT: u8 = 4;

/// The class of each byte: white space, part of an identifier, digit.
pub(crate) static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => SPACE,
            b'0'..=b'9' => WORD | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xFF => WORD,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

pub(crate) fn is_space(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & SPACE != 0
}

pub(crate) fn is_word(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & WORD != 0
}

pub(crate) fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(sql: &'a [u8], at: usize, mode: SqlMode) -> Self {
        Self { sql, at, mode, versioned: 0, name_end: NOWHERE, after_dot: false }
    }

    /// The next token. At the end of the text it is [`Kind::End`], again and again.
    pub(crate) fn next(&mut self) -> Token {
        let after_dot = std::mem::take(&mut self.after_dot);
        if !self.skip_space() {
            return self.invalid();
        }
        let start = self.at;
        // Some clients send the zero byte that ends a string in C.
        let is_end = |byte: u8| byte == 0 && start + 1 == self.sql.len();
        let Some(byte) = self.sql.get(start).copied().filter(|byte| !is_end(*byte)) else {
            return self.token(Kind::End, start);
        };
        match byte {
            b'0'..=b'9' if after_dot => self.word(start),
            b'0'..=b'9' => self.number_or_word(start),
            b'x' | b'X' | b'b' | b'B' if self.peek(1) == b'\'' => self.quoted_digits(start),
            b'n' | b'N' if self.peek(1) == b'\'' => self.national(start),
            _ if is_word(byte) => self.word(start),
            b'\'' => self.quoted(start, Kind::String),
            b'"' if self.mode.ansi_quotes => self.quoted(start, Kind::Quoted),
            b'"' => self.quoted(start, Kind::String),
            b'`' => self.quoted(start, Kind::Quoted),
            b'.' if is_digit(self.peek(1)) && start != self.name_end => self.number_or_word(start),
            b'.' => {
                self.after_dot = start == self.name_end;
                self.punctuation(start, Kind::Dot, 1)
            }
            b'@' => self.at_sign(start),
            _ => self.operator(start, byte),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.sql.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&self, kind: Kind, start: usize) -> Token {
        Token {
            kind,
            keyword: Keyword::None,
            plain: false,
            start: start as u32,
            end: self.at as u32,
        }
    }

    fn punctuation(&mut self, start: usize, kind: Kind, len: usize) -> Token {
        self.at = start + len;
        self.token(kind, start)
    }

    /// A token that is none, from here to the end.
    fn invalid(&mut self) -> Token {
        let start = self.at;
        self.at = self.sql.len();
        self.token(Kind::Invalid, start)
    }

    /// Goes to the next token; false at a comment that does not end.
    fn skip_space(&mut self) -> bool {
        loop {
            let byte = self.peek(0);
            if is_space(byte) {
                self.at += 1;
                continue;
            }
            let skipped = match byte {
                b'#' => self.skip_line(),
                b'-' if self.peek(1) == b'-' && self.ends_dashes(2) => self.skip_line(),
                b'/' if self.peek(1) == b'*' => {
                    if self.skip_comment() {
                        true
                    } else {
                        return false;
                    }
                }
                b'*' if self.versioned > 0 && self.peek(1) == b'/' => {
                    self.versioned -= 1;
                    self.at += 2;
                    true
                }
                _ => false,
            };
            if !skipped {
                return true;
            }
        }
    }

    /// Whether `--` is a comment: only with white space, a control character or the end behind it.
    fn ends_dashes(&self, ahead: usize) -> bool {
        match self.sql.get(self.at + ahead) {
            None => true,
            Some(&byte) => is_space(byte) || byte.is_ascii_control(),
        }
    }

    fn skip_line(&mut self) -> bool {
        let rest = &self.sql[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        true
    }

    /// At `/*`. A comment for a version that we have only loses its marks. Inside may be others for
    /// a version: `mysqldump --system=users` of MariaDB writes roles so.
    fn skip_comment(&mut self) -> bool {
        if self.peek(2) == b'!' {
            let digits = self.sql[self.at + 3..].iter().take(6).take_while(|b| is_digit(**b));
            // Five or six digits are a version, fewer are a part of the text.
            let count = digits.count();
            let version = match count {
                5 | 6 => {
                    let text = &self.sql[self.at + 3..self.at + 3 + count];
                    text.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
                }
                _ => 0,
            };
            if version <= VERSION {
                self.at += 3 + if count >= 5 { count } else { 0 };
                self.versioned += 1;
                return true;
            }
        }
        // A skipped `/*!` may hold plain comments, one for MariaDB alone others for a version.
        let nests = self.peek(2) == b'!';
        let of_mariadb = self.peek(2) == b'M' && self.peek(3) == b'!';
        let mut at = self.at + 2;
        let mut depth = 1;
        while at + 1 < self.sql.len() {
            match (self.sql[at], self.sql[at + 1]) {
                (b'*', b'/') => {
                    at += 2;
                    depth -= 1;
                    if depth == 0 {
                        self.at = at;
                        return true;
                    }
                }
                (b'/', b'*')
                    if depth == 1
                        && (nests || of_mariadb && self.sql.get(at + 2) == Some(&b'!')) =>
                {
                    at += 2;
                    depth += 1;
                }
                _ => at += 1,
            }
        }
        false
    }

    fn skip_words(&mut self) {
        while self.sql.get(self.at).is_some_and(|byte| is_word(*byte)) {
            self.at += 1;
        }
    }

    fn word(&mut self, start: usize) -> Token {
        self.at = start;
        self.skip_words();
        let text = &self.sql[start..self.at];
        self.name_end = self.at;
        if text[0] == b'_' && text.len() > 1 {
            return self.token(Kind::Introducer, start);
        }
        Token { keyword: Keyword::of(text), ..self.token(Kind::Word, start) }
    }

    /// A number, or an identifier that begins with digits.
    fn number_or_word(&mut self, start: usize) -> Token {
        if self.sql[start] == b'0' && matches!(self.peek(1), b'x' | b'b') {
            let hex = self.peek(1) == b'x';
            let is_part = |byte: &u8| {
                if hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') }
            };
            let count = self.sql[start + 2..].iter().take_while(|byte| is_part(byte)).count();
            self.at = start + 2 + count;
            if count > 0 && !is_word(self.peek(0)) {
                return self.token(if hex { Kind::Hex } else { Kind::Bit }, start);
            }
            return self.word(start);
        }
        let mut kind = Kind::Integer;
        self.skip_digits();
        if self.peek(0) == b'.' {
            kind = Kind::Decimal;
            self.at += 1;
            self.skip_digits();
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if is_digit(self.peek(1 + sign)) {
                self.at += 1 + sign;
                self.skip_digits();
                // `1e5x` is a name; `1.5e5x` is a number and a name.
                if kind == Kind::Integer && sign == 0 && is_word(self.peek(0)) {
                    return self.word(start);
                }
                return self.token(Kind::Float, start);
            }
        }
        if kind == Kind::Integer && is_word(self.peek(0)) {
            return self.word(start);
        }
        self.token(kind, start)
    }

    fn skip_digits(&mut self) {
        while is_digit(self.peek(0)) {
            self.at += 1;
        }
    }

    /// `x'4D'` and `b'01'`.
    fn quoted_digits(&mut self, start: usize) -> Token {
        let hex = matches!(self.sql[start], b'x' | b'X');
        let digits = &self.sql[start + 2..];
        let count = digits.iter().position(|byte| *byte == b'\'').unwrap_or(digits.len());
        let fits = if hex {
            count % 2 == 0 && digits[..count].iter().all(u8::is_ascii_hexdigit)
        } else {
            digits[..count].iter().all(|byte| matches!(byte, b'0' | b'1'))
        };
        if !fits || count == digits.len() {
            return self.invalid();
        }
        self.at = start + 3 + count;
        self.token(if hex { Kind::Hex } else { Kind::Bit }, start)
    }

    fn national(&mut self, start: usize) -> Token {
        self.at = start + 1;
        let string = self.quoted(start + 1, Kind::National);
        Token { start: start as u32, ..string }
    }

    /// Something in quotes, the first of which is at `start`.
    fn quoted(&mut self, start: usize, kind: Kind) -> Token {
        let quote = self.sql[start];
        let escapes = kind != Kind::Quoted && !self.mode.no_backslash_escapes;
        let mut plain = true;
        let mut at = start + 1;
        loop {
            let Some(&byte) = self.sql.get(at) else {
                self.at = start;
                return self.invalid();
            };
            if byte == quote {
                if self.sql.get(at + 1) != Some(&quote) {
                    break;
                }
                plain = false;
                at += 1;
            } else if byte == b'\\' && escapes {
                plain = false;
                at += 1;
            }
            at += 1;
        }
        self.at = at + 1;
        if kind == Kind::Quoted {
            self.name_end = self.at;
        }
        Token { plain, ..self.token(kind, start) }
    }

    /// `@`, `@name`, `@'name'`, `@@`.
    fn at_sign(&mut self, start: usize) -> Token {
        match self.peek(1) {
            b'@' => self.punctuation(start, Kind::At, 2),
            b'\'' | b'"' | b'`' => {
                let kind = if self.peek(1) == b'`' { Kind::Quoted } else { Kind::String };
                let name = self.quoted(start + 1, kind);
                let kind = if name.kind == Kind::Invalid { Kind::Invalid } else { Kind::Variable };
                self.name_end = NOWHERE;
                Token { kind, start: start as u32, ..name }
            }
            _ => {
                self.at = start + 1;
                while is_word(self.peek(0)) || self.peek(0) == b'.' {
                    self.at += 1;
                }
                Token { plain: true, ..self.token(Kind::Variable, start) }
            }
        }
    }

    fn operator(&mut self, start: usize, byte: u8) -> Token {
        let (second, third) = (self.peek(1), self.peek(2));
        let (kind, len) = match (byte, second, third) {
            (b'(', ..) => (Kind::Open, 1),
            (b')', ..) => (Kind::Close, 1),
            (b',', ..) => (Kind::Comma, 1),
            (b';', ..) => (Kind::Semicolon, 1),
            (b'?', ..) => (Kind::Parameter, 1),
            (b'{', ..) => (Kind::OpenBrace, 1),
            (b'}', ..) => (Kind::CloseBrace, 1),
            (b'=', ..) => (Kind::Equal, 1),
            (b'+', ..) => (Kind::Plus, 1),
            (b'-', b'>', b'>') => (Kind::LongArrow, 3),
            (b'-', b'>', _) => (Kind::Arrow, 2),
            (b'-', ..) => (Kind::Minus, 1),
            (b'*', ..) => (Kind::Star, 1),
            (b'/', ..) => (Kind::Slash, 1),
            (b'%', ..) => (Kind::Percent, 1),
            (b'^', ..) => (Kind::Caret, 1),
            (b'~', ..) => (Kind::Tilde, 1),
            (b'!', b'=', _) => (Kind::NotEqual, 2),
            (b'!', ..) => (Kind::Bang, 1),
            (b'|', b'|', _) => (Kind::Pipes, 2),
            (b'|', ..) => (Kind::Pipe, 1),
            (b'&', b'&', _) => (Kind::Ampersands, 2),
            (b'&', ..) => (Kind::Ampersand, 1),
            (b'<', b'=', b'>') => (Kind::NullSafeEqual, 3),
            (b'<', b'=', _) => (Kind::LessOrEqual, 2),
            (b'<', b'>', _) => (Kind::NotEqual, 2),
            (b'<', b'<', _) => (Kind::ShiftLeft, 2),
            (b'<', ..) => (Kind::Less, 1),
            (b'>', b'=', _) => (Kind::GreaterOrEqual, 2),
            (b'>', b'>', _) => (Kind::ShiftRight, 2),
            (b'>', ..) => (Kind::Greater, 1),
            (b':', b'=', _) => (Kind::Assign, 2),
            (b'\\', b'N', _) => (Kind::NullEscape, 2),
            _ => return self.invalid(),
        };
        self.punctuation(start, kind, len)
    }
}
