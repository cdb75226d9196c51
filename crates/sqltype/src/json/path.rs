//! Path expressions: `$.a[0].*`, `$**.b`, `$[last-1]`, `$[1 to 3]`.

use super::Json;

/// A parsed path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPath {
    /// What follows the `$`.
    pub legs: Vec<Leg>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg {
    /// `.name`.
    Member(String),
    /// `.*`.
    AnyMember,
    /// `[n]`.
    Cell(Place),
    /// `[from to until]`, both inclusive.
    Range(Place, Place),
    /// `[*]`.
    AnyCell,
    /// `**`: the value itself and everything in it.
    Any,
}

/// A place in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Counted from the first element.
    First(u32),
    /// Counted back from the last element.
    Last(u32),
}

impl Place {
    /// The index in an array of this length; `Err(true)` before it, `Err(false)` behind.
    pub(super) fn index(self, length: usize) -> Result<usize, bool> {
        match self {
            Place::First(at) if (at as usize) < length => Ok(at as usize),
            Place::First(_) => Err(false),
            Place::Last(back) => length.checked_sub(back as usize + 1).ok_or(true),
        }
    }
}

impl JsonPath {
    /// Reads a path. An error is the position, in characters, that MySQL's error 3143 names.
    pub fn parse(text: &str) -> Result<JsonPath, usize> {
        let mut reader = Reader { text, at: 0 };
        reader.path().map_err(|()| {
            let at = reader.at.min(text.len());
            text.get(..at).map_or(at, |read| read.chars().count())
        })
    }

    /// Whether it can match more than one value.
    pub fn has_wildcard(&self) -> bool {
        let single = |leg: &Leg| matches!(leg, Leg::Member(_) | Leg::Cell(_));
        !self.legs.iter().all(single)
    }

    /// The values it leads to, in order. A value that is no array counts as an array of itself.
    pub fn seek<'j>(&self, json: &'j Json) -> Vec<&'j Json> {
        let mut found = vec![json];
        for leg in &self.legs {
            let mut next = Vec::new();
            for value in found {
                step(leg, value, &mut next);
            }
            // Values reached on two ways count once.
            let mut seen: Vec<*const Json> = Vec::new();
            if matches!(leg, Leg::Any) {
                next.retain(|value| {
                    let is_new = !seen.contains(&std::ptr::from_ref(*value));
                    seen.push(std::ptr::from_ref(*value));
                    is_new
                });
            }
            found = next;
        }
        found
    }

    /// The value it leads to first.
    pub fn first<'j>(&self, json: &'j Json) -> Option<&'j Json> {
        self.seek(json).into_iter().next()
    }
}

fn step<'j>(leg: &Leg, value: &'j Json, found: &mut Vec<&'j Json>) {
    match (leg, value) {
        (Leg::Member(key), _) => found.extend(value.member(key)),
        (Leg::AnyMember, Json::Object(members)) => {
            found.extend(members.iter().map(|(_, value)| value));
        }
        (Leg::AnyCell, Json::Array(items)) => found.extend(items),
        (Leg::Cell(place), Json::Array(items)) => {
            found.extend(place.index(items.len()).ok().map(|at| &items[at]));
        }
        (Leg::Cell(place), _) => found.extend(place.index(1).ok().map(|_| value)),
        (Leg::Range(from, until), Json::Array(items)) => {
            let (from, until) = range(*from, *until, items.len());
            found.extend(items.get(from..until).unwrap_or_default());
        }
        (Leg::Range(from, until), _) => {
            let (from, until) = range(*from, *until, 1);
            found.extend((from < until).then_some(value));
        }
        (Leg::Any, _) => everything(value, found),
        (Leg::AnyMember | Leg::AnyCell, _) => {}
    }
}

/// The elements from one place until another, as a half-open range of an array of this length.
fn range(from: Place, until: Place, length: usize) -> (usize, usize) {
    let from = from.index(length).unwrap_or_else(|before| if before { 0 } else { length });
    let until =
        until.index(length).map_or_else(|before| if before { 0 } else { length }, |at| at + 1);
    (from, until)
}

fn everything<'j>(value: &'j Json, found: &mut Vec<&'j Json>) {
    found.push(value);
    match value {
        Json::Array(items) => items.iter().for_each(|item| everything(item, found)),
        Json::Object(members) => members.iter().for_each(|(_, value)| everything(value, found)),
        _ => {}
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, word: &str) -> bool {
        let found =
            self.text.as_bytes()[self.at.min(self.text.len())..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn path(&mut self) -> Result<JsonPath, ()> {
        self.skip_spaces();
        if !self.eat("$") {
            return Err(());
        }
        let mut legs = Vec::new();
        loop {
            self.skip_spaces();
            if self.peek().is_none() {
                break;
            }
            legs.push(self.leg()?);
        }
        // `**` says where to look, not what for.
        if legs.last() == Some(&Leg::Any) { Err(()) } else { Ok(JsonPath { legs }) }
    }

    fn leg(&mut self) -> Result<Leg, ()> {
        if self.eat("**") {
            // `***` is nothing.
            return if self.peek() == Some(b'*') { Err(()) } else { Ok(Leg::Any) };
        }
        if self.eat(".") {
            self.skip_spaces();
            return if self.eat("*") { Ok(Leg::AnyMember) } else { self.key().map(Leg::Member) };
        }
        if !self.eat("[") {
            return Err(());
        }
        self.skip_spaces();
        let leg = if self.eat("*") { Leg::AnyCell } else { self.cells()? };
        self.skip_spaces();
        if self.eat("]") { Ok(leg) } else { Err(()) }
    }

    fn cells(&mut self) -> Result<Leg, ()> {
        let from = self.place()?;
        let spaced = self.peek().is_some_and(|byte| byte.is_ascii_whitespace());
        self.skip_spaces();
        if !spaced || !self.eat("to") {
            return Ok(Leg::Cell(from));
        }
        if !self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            return Err(());
        }
        self.skip_spaces();
        let until = self.place()?;
        let backwards = match (from, until) {
            (Place::First(from), Place::First(until)) => from > until,
            (Place::Last(from), Place::Last(until)) => from < until,
            _ => false,
        };
        if backwards { Err(()) } else { Ok(Leg::Range(from, until)) }
    }

    fn place(&mut self) -> Result<Place, ()> {
        if !self.eat("last") {
            return self.number().map(Place::First);
        }
        let behind = self.at;
        self.skip_spaces();
        if !self.eat("-") {
            self.at = behind;
            return Ok(Place::Last(0));
        }
        self.skip_spaces();
        self.number().map(Place::Last)
    }

    fn number(&mut self) -> Result<u32, ()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.text[start..self.at].parse().map_err(|_| ())
    }

    fn key(&mut self) -> Result<String, ()> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            let rest = &self.text[start..];
            let is_part = |(at, char): (usize, char)| {
                let letter = char.is_alphabetic() || matches!(char, '_' | '$');
                letter || (at > 0 && char.is_alphanumeric())
            };
            let size =
                rest.char_indices().find(|found| !is_part(*found)).map_or(rest.len(), |(at, _)| at);
            self.at += size;
            return if size == 0 { Err(()) } else { Ok(rest[..size].to_owned()) };
        }
        // The quoted form is a JSON string.
        let mut escaped = false;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' if !escaped => {
                    let quoted = &self.text.as_bytes()[start..self.at];
                    let Ok(Json::String(key)) = Json::parse(quoted) else { return Err(()) };
                    return Ok(key);
                }
                b'\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        Err(())
    }
}
