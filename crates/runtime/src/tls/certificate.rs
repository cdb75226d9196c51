//! What a certificate says: whom it vouches for, who says so, from when to when.
//!
//! # Guarantees
//! Any bytes give an answer or none; nothing is reserved for lengths that are not there.
//! # Not here
//! Whether it is true: signatures are checked by `rustls`. Source: RFC 5280, and X.690 for DER.

use std::fmt;

use stdx::calendar;

use super::signing_request::hex;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Whom it vouches for, as OpenSSL writes it on one line: `/C=SE/O=Firm/CN=name`.
    pub(crate) subject: String,
    /// Who says so.
    pub(crate) issuer: String,
    pub(crate) not_before: Moment,
    pub(crate) not_after: Moment,
    /// Its number among those of its authority: hexadecimal digits without zeros before them.
    pub(crate) serial: String,
    /// The key that it is about, as `SubjectPublicKeyInfo`.
    pub(crate) public_key: Vec<u8>,
    /// The names of it that are URIs.
    pub(crate) uris: Vec<String>,
}

/// Seconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = calendar::date_of(days);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

impl Certificate {
    /// Reads it; none if it is no certificate.
    pub(crate) fn parse(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut body = Der(certificate.expect(SEQUENCE)?);
        if body.peek() == Some(VERSION) {
            body.next()?;
        }
        let (serial, _algorithm) = (body.expect(INTEGER)?, body.expect(SEQUENCE)?);
        let serial = hexadecimal(serial);
        let issuer = name(body.expect(SEQUENCE)?)?;
        let mut validity = Der(body.expect(SEQUENCE)?);
        let mut time = || validity.next().and_then(|(kind, text)| moment(kind, text));
        let (not_before, not_after) = (time()?, time()?);
        let subject = name(body.expect(SEQUENCE)?)?;
        let public_key = body.whole(SEQUENCE)?.to_vec();
        let uris = uris(body).unwrap_or_default();
        Some(Self { subject, issuer, not_before, not_after, serial, public_key, uris })
    }
}

/// A number as hexadecimal digits, without zeros before them.
fn hexadecimal(number: &[u8]) -> String {
    hex(number).trim_start_matches('0').to_owned()
}

/// The URIs among the alternative names, from what follows the key.
fn uris(mut body: Der<'_>) -> Option<Vec<String>> {
    while body.peek()? != EXTENSIONS {
        body.next()?;
    }
    let mut extensions = Der(Der(body.expect(EXTENSIONS)?).expect(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.expect(SEQUENCE)?);
        if extension.expect(OBJECT)? != ALTERNATIVE_NAMES {
            continue;
        }
        if extension.peek()? == BOOLEAN {
            extension.next()?;
        }
        let mut names = Der(Der(extension.expect(OCTETS)?).expect(SEQUENCE)?);
        let mut found = Vec::new();
        while !names.0.is_empty() {
            if let (URI, text) = names.next()? {
                found.push(String::from_utf8(text.to_vec()).ok()?);
            }
        }
        return Some(found);
    }
    None
}

const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of a certificate, which the first one has not.
const VERSION: u8 = 0xA0;
/// What versions before the third have not.
const EXTENSIONS: u8 = 0xA3;
/// The kind of the extension with alternative names, and of a URI among them.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];
const URI: u8 = 0x86;
const DAY: i64 = 86_400;

/// Reads one value after the other.
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value: its kind, and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[kind, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            0..=0x7F => (usize::from(first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
                let add = |sum: usize, digit: &u8| sum << 8 | usize::from(*digit);
                (digits.iter().fold(0, add), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((kind, content))
    }

    /// The next value with its head; it must be of this kind.
    pub(super) fn whole(&mut self, kind: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.expect(kind)?;
        Some(&before[..before.len() - self.0.len()])
    }

    /// The content of the next value, which must be of this kind.
    pub(super) fn expect(&mut self, kind: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == kind).map(|(_, content)| content)
    }
}

/// A name on one line.
fn name(content: &[u8]) -> Option<String> {
    let mut line = String::new();
    let mut parts = Der(content);
    while !parts.0.is_empty() {
        let mut part = Der(parts.expect(SET)?);
        while !part.0.is_empty() {
            let mut pair = Der(part.expect(SEQUENCE)?);
            let (kind, (_, value)) = (pair.expect(OBJECT)?, pair.next()?);
            line.push('/');
            line.push_str(&attribute(kind)?);
            line.push('=');
            for byte in value {
                match byte {
                    b' '..=b'~' => line.push(char::from(*byte)),
                    other => line.push_str(&format!("\\x{other:02X}")),
                }
            }
        }
    }
    Some(line)
}

/// What OpenSSL calls a kind of attribute in short; its numbers if it has no name.
fn attribute(object: &[u8]) -> Option<String> {
    let known = ATTRIBUTES.iter().find(|(bytes, _)| *bytes == object);
    if let Some((_, name)) = known {
        return Some((*name).to_owned());
    }
    let (first, rest) = object.split_first()?;
    let mut text = format!("{}.{}", (first / 40).min(2), first - 40 * (first / 40).min(2));
    let mut number: u64 = 0;
    for byte in rest {
        number = number.checked_mul(128)? + u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            text.push_str(&format!(".{number}"));
            number = 0;
        }
    }
    Some(text)
}

/// Kinds of attributes that names of certificates have.
const ATTRIBUTES: [(&[u8], &str); 15] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25], "DC"),
];

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn moment(kind: u8, text: &[u8]) -> Option<Moment> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (kind, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return None,
    };
    let mut parts = rest.chunks(2).map(number);
    let mut part = || parts.next();
    let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
    if !(1..=12).contains(&month) {
        return None;
    }
    Some(Moment(calendar::day_of(year, month, day) * DAY + hour * 3_600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind, content.len() as u8], content].concat()
    }

    #[test]
    fn moments_of_both_kinds() {
        let text = |kind, text: &str| moment(kind, text.as_bytes()).map(|at| at.to_string());
        let of = |moment: &str| Some(moment.to_owned());
        assert_eq!(text(UTC_TIME, "700101000000Z"), of("1970-01-01 00:00:00 UTC"));
        assert_eq!(text(UTC_TIME, "491231235959Z"), of("2049-12-31 23:59:59 UTC"));
        assert_eq!(text(UTC_TIME, "500101000000Z"), of("1950-01-01 00:00:00 UTC"));
        assert_eq!(text(GENERALIZED_TIME, "20240229120000Z"), of("2024-02-29 12:00:00 UTC"));
        assert_eq!(text(GENERALIZED_TIME, "21000301000000Z"), of("2100-03-01 00:00:00 UTC"));
        for wrong in ["", "Z", "7001010000Z", "70010100000xZ", "701301000000Z", "700101000000"] {
            assert_eq!(text(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_written_as_openssl_does() {
        let part = |object: &[u8], text: &[u8]| {
            value(SET, &value(SEQUENCE, &[value(OBJECT, object), value(0x0C, text)].concat()))
        };
        let all = [
            part(&[0x55, 4, 6], b"SE"),
            part(&[0x55, 4, 10], "Räksmörgås".as_bytes()),
            part(&[0x55, 4, 3], b"a/b"),
            part(&[0x2B, 6, 0x81, 0x01], b"?"),
        ];
        let line = name(&all.concat()).unwrap();
        assert_eq!(line, r"/C=SE/O=R\xC3\xA4ksm\xC3\xB6rg\xC3\xA5s/CN=a/b/1.3.6.129=?");
        assert_eq!(name(&[]), Some(String::new()));
    }

    #[test]
    fn nonsense_is_no_certificate() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls");
        use rustls::pki_types::pem::PemObject;
        let file = directory.join("certificate.pem");
        let der = rustls::pki_types::CertificateDer::from_pem_file(file).unwrap();
        let certificate = Certificate::parse(&der).unwrap();
        assert_eq!(certificate.subject, certificate.issuer);
        assert_eq!(certificate.subject, "/CN=nines test");
        assert!(
            der.windows(certificate.public_key.len()).any(|part| part == certificate.public_key)
        );
        assert_eq!(certificate.uris, [""; 0]);
        assert_eq!(certificate.not_before.to_string(), "2026-11-21 13:43:15 UTC");
        assert_eq!(certificate.not_after.to_string(), "2126-10-28 13:43:15 UTC");
        for end in 0..der.len() {
            assert_eq!(Certificate::parse(&der[..end]), None, "{end}");
        }
        // Whatever is changed, there is an answer.
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut changed = der.to_vec();
                changed[at] ^= 1 << bit;
                let _ = Certificate::parse(&changed);
            }
        }
    }
}
