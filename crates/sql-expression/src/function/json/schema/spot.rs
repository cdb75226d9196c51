//! Parts of schemas and documents with their locations: JSON pointers as fragments of URIs (RFC
//! 6901), and the references that are such.

use std::fmt::Write;

use sqltype::json::Json;

/// References that lead to references. A circle of them asks for nothing.
const REFERENCES_MAX: usize = 64;

/// A part of a schema or of a document, with the way to it.
#[derive(Clone, Copy)]
pub(super) struct Spot<'p> {
    pub(super) json: &'p Json,
    step: Step<'p>,
    before: Option<&'p Spot<'p>>,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'p> {
    /// A location as it is written.
    Start(&'p str),
    Name(&'p str),
    Index(usize),
}

impl<'p> Spot<'p> {
    pub(super) fn root(json: &'p Json) -> Self {
        Self { json, step: Step::Start("#"), before: None }
    }

    pub(super) fn then(&'p self, step: Step<'p>, json: &'p Json) -> Spot<'p> {
        Spot { json, step, before: Some(self) }
    }

    pub(super) fn member(&'p self, name: &'p str) -> Option<Spot<'p>> {
        Some(self.then(Step::Name(name), self.json.member(name)?))
    }

    /// The members of this object; none of anything else.
    pub(super) fn members(&'p self) -> impl Iterator<Item = (&'p str, Spot<'p>)> {
        let members: &[(String, Json)] = match self.json {
            Json::Object(members) => members,
            _ => &[],
        };
        members.iter().map(|(name, json)| (name.as_str(), self.then(Step::Name(name), json)))
    }

    /// The elements of this array; none of anything else.
    pub(super) fn elements(&'p self) -> impl Iterator<Item = Spot<'p>> {
        let elements: &[Json] = match self.json {
            Json::Array(elements) => elements,
            _ => &[],
        };
        elements.iter().enumerate().map(|(at, json)| self.then(Step::Index(at), json))
    }

    /// The texts among the elements.
    pub(super) fn texts(&'p self) -> impl Iterator<Item = &'p str> {
        self.elements().filter_map(|element| match element.json {
            Json::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The whole number that a member is.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        match self.json.member(name)? {
            Json::Int(count) => u64::try_from(*count).ok(),
            Json::UInt(count) => Some(*count),
            _ => None,
        }
    }

    pub(super) fn says(&self, name: &str, value: bool) -> bool {
        self.json.member(name) == Some(&Json::Bool(value))
    }

    /// A JSON pointer as the fragment of a URI (RFC 6901).
    pub(super) fn location(&self) -> String {
        let mut location = match (self.before, self.step) {
            (Some(before), _) => before.location(),
            (None, Step::Start(text)) => return text.to_owned(),
            (None, _) => String::new(),
        };
        location.push('/');
        match self.step {
            Step::Index(at) => location.push_str(&at.to_string()),
            Step::Start(name) | Step::Name(name) => push_token(&mut location, name),
        }
        location
    }
}

/// Appends a name to a pointer.
fn push_token(location: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'~' => location.push_str("~0"),
            b'/' => location.push_str("~1"),
            b'-' | b'.' | b'_' => location.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => location.push(byte.into()),
            _ => write!(location, "%{byte:02X}").expect("a string takes everything"),
        }
    }
}

/// The schema that a schema refers to, or itself; none where anything goes.
pub(super) fn resolved<'p>(root: &'p Json, schema: &Spot<'p>) -> Option<Spot<'p>> {
    let mut schema = *schema;
    for _ in 0..REFERENCES_MAX {
        match schema.json {
            Json::Object(_) => {}
            _ => return None,
        }
        let Some(Json::String(reference)) = schema.json.member("$ref") else {
            return Some(schema);
        };
        let Some(pointer) = reference.strip_prefix('#') else { return Some(schema) };
        let json = pointed_at(root, pointer)?;
        schema = Spot { json, step: Step::Start(reference), before: None };
    }
    None
}

/// What a JSON pointer as the fragment of a URI points at.
fn pointed_at<'j>(root: &'j Json, pointer: &str) -> Option<&'j Json> {
    let mut tokens = pointer.split('/');
    if !tokens.next()?.is_empty() {
        return None;
    }
    tokens.try_fold(root, |json, token| {
        let token = unescaped(token)?.replace("~1", "/").replace("~0", "~");
        match json {
            Json::Array(elements) => elements.get(token.parse::<usize>().ok()?),
            _ => json.member(&token),
        }
    })
}

/// A text without its percent signs.
fn unescaped(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
