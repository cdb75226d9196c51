//! Reading JSON text.

use super::{DEPTH_MAX, Json};

/// Why a text is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong, in the words MySQL has for it.
    pub message: &'static str,
    /// At which byte.
    pub position: usize,
    /// There are more levels than MySQL takes: error 3157 instead of 3140 or 3141.
    pub is_too_deep: bool,
}

/// What is called now and then while a text is read; false ends that.
pub type Look<'l> = &'l dyn Fn() -> bool;

/// Values and pieces of 64 bytes between two looks.
const LOOK: usize = 512;

pub(super) fn parse(text: &[u8], look: Look<'_>) -> Result<Json, JsonError> {
    let mut reader = Reader { text, at: 0, look, left: LOOK };
    reader.skip_spaces();
    if reader.peek().is_none() {
        return reader.fail("The document is empty.");
    }
    let value = reader.value(0)?;
    reader.skip_spaces();
    if reader.peek().is_some() {
        return reader.fail("The document root must not be followed by other values.");
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    look: Look<'a>,
    /// What is read until the next look.
    left: usize,
}

const INVALID_VALUE: &str = "Invalid value.";
const NO_CLOSING_QUOTE: &str = "Missing a closing quotation mark in string.";

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, message: &'static str) -> Result<T, JsonError> {
        Err(JsonError { message, position: self.at, is_too_deep: false })
    }

    /// Counts a part of so many bytes as read.
    fn count(&mut self, bytes: usize) -> Result<(), JsonError> {
        if let Some(left) = self.left.checked_sub(1 + bytes / 64) {
            self.left = left;
            return Ok(());
        }
        self.left = LOOK;
        if (self.look)() { Ok(()) } else { self.fail("The reading was ended.") }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.count(0)?;
        match self.peek() {
            Some(b'{' | b'[') if depth == DEPTH_MAX => {
                let message = "The JSON document exceeds the maximum depth.";
                Err(JsonError { message, position: self.at, is_too_deep: true })
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'n') => self.word(b"null", Json::Null),
            Some(b't') => self.word(b"true", Json::Bool(true)),
            Some(b'f') => self.word(b"false", Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8], value: Json) -> Result<Json, JsonError> {
        for byte in word {
            if self.peek() != Some(*byte) {
                return self.fail(INVALID_VALUE);
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_spaces();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_spaces();
            items.push(self.value(depth + 1)?);
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.fail("Missing a comma or ] after an array element."),
            }
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_spaces();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                return self.fail("Missing a name for object member.");
            }
            let key = self.string()?;
            self.skip_spaces();
            if self.peek() != Some(b':') {
                return self.fail("Missing a colon after a name of object member.");
            }
            self.at += 1;
            self.skip_spaces();
            members.push((key, self.value(depth + 1)?));
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.fail("Missing a comma or } after an object member."),
            }
        }
        self.at += 1;
        let in_order = members.is_sorted_by(|(a, _), (b, _)| super::key_order(a, b).is_lt());
        Ok(if in_order { Json::Object(members) } else { sorted(members) })
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let run = self.text[self.at..]
                .iter()
                .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..b' '))
                .count();
            match std::str::from_utf8(&self.text[self.at..self.at + run]) {
                Ok(text) => out.push_str(text),
                Err(error) => {
                    self.at += error.valid_up_to();
                    return self.fail("Invalid encoding in string.");
                }
            }
            self.at += run;
            self.count(run)?;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.fail("Invalid encoding in string."),
                None => return self.fail(NO_CLOSING_QUOTE),
            }
        }
    }

    /// The character of an escape.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let char = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.escaped_code(start);
            }
            _ => {
                self.at = start;
                return self.fail("Invalid escape character in string.");
            }
        };
        self.at += 1;
        Ok(char)
    }

    fn escaped_code(&mut self, start: usize) -> Result<char, JsonError> {
        let first = self.hex(start)?;
        let code = match first {
            0xD800..0xDC00 => {
                if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
                    self.at = start;
                    return self.fail("The surrogate pair in string is invalid.");
                }
                self.at += 2;
                match self.hex(start)? {
                    second @ 0xDC00..0xE000 => {
                        0x1_0000 + ((first - 0xD800) << 10) + second - 0xDC00
                    }
                    // No character; told below.
                    _ => first,
                }
            }
            _ => first,
        };
        char::from_u32(code).map_or_else(
            || {
                self.at = start;
                self.fail("The surrogate pair in string is invalid.")
            },
            Ok,
        )
    }

    fn hex(&mut self, start: usize) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|d| std::str::from_utf8(d).ok());
        let valid = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match valid.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => {
                self.at = start;
                self.fail("Incorrect hex digit after \\u escape in string.")
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            // Nothing follows a zero but a point or an exponent.
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.digits();
            }
            _ => return self.fail(INVALID_VALUE),
        }
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_whole = false;
            if self.digits() == 0 {
                return self.fail("Miss fraction part in number.");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            is_whole = false;
            self.at += usize::from(matches!(self.peek(), Some(b'-' | b'+')));
            if self.digits() == 0 {
                return self.fail("Miss exponent in number.");
            }
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).expect("a number is ASCII");
        if is_whole {
            if let Ok(value) = text.parse() {
                return Ok(Json::Int(value));
            }
            if let Ok(value) = text.parse() {
                return Ok(Json::UInt(value));
            }
        }
        let value: f64 = text.parse().expect("the grammar of JSON numbers is part of Rust's");
        if value.is_infinite() {
            self.at = start;
            return self.fail("Number too big to be stored in double.");
        }
        Ok(Json::Double(value))
    }
}

/// The members in their order; of several with one name the last.
pub(super) fn sorted(mut members: Vec<(String, Json)>) -> Json {
    members.reverse();
    members.sort_by(|(a, _), (b, _)| super::key_order(a, b));
    members.dedup_by(|(later, _), (kept, _)| later == kept);
    Json::Object(members)
}
