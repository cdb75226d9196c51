//! What a request asks, from the bytes of its head.
//!
//! # Owns
//! As much of HTTP/1.1 (RFC 9112) as GET and HEAD without a body need; the options and the account
//! of whoever asks for a change feed.
//! # Guarantees
//! Pure, and defined for all bytes: more is needed, or a path, or why it is refused. What cannot
//! become a request is refused at once, without waiting for its end.

use crate::replication::from_base64;

/// Longest head: the request line and all fields.
pub(super) const HEAD_MAX: usize = 8 << 10;
/// Longest target in the request line.
const TARGET_MAX: usize = 1 << 10;

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// It is not complete.
    Incomplete,
    /// A request; with `head` only the head of the answer is wanted.
    Request {
        path: Path,
        head: bool,
    },
    Refused(Refusal),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no HTTP, or says things that contradict each other.
    Malformed,
    /// Neither GET nor HEAD.
    Method,
    TargetTooLong,
    HeadTooLong,
    /// It has a body.
    Body,
    /// Neither HTTP/1.1 nor 1.0.
    Version,
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Root,
    Metrics,
    Live,
    Ready,
    /// A change feed: [`changefeed`] says which.
    Changefeed,
    Unknown,
}

/// A change feed that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Its name.
    pub(super) name: String,
    /// How changes are written.
    pub(super) form: Form,
    /// The position behind which it goes on: digits, a point, and an `s` before those of a
    /// snapshot.
    pub(super) after: Option<String>,
    /// Name and password of an account.
    pub(super) account: Option<(String, String)>,
    /// The answer may come in chunks.
    pub(super) takes_chunks: bool,
}

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line of JSON for each.
    Lines,
    /// Server-sent events.
    Events,
}

/// Reads the bytes that have come so far.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    match head(bytes) {
        Ok(parsed) => parsed,
        Err(refusal) => Parsed::Refused(refusal),
    }
}

fn head(bytes: &[u8]) -> Result<Parsed, Refusal> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let text = &bytes[..end.map_or(bytes.len(), |end| end + 2)];
    // TLS, other protocols and noise show themselves by their first bytes.
    if text.iter().any(|byte| byte.is_ascii_control() && !b"\r\n\t".contains(byte)) {
        return Err(Refusal::Malformed);
    }
    let line_end = text.windows(2).position(|two| two == b"\r\n");
    let line = &text[..line_end.unwrap_or(text.len())];
    let Some(line_end) = line_end else {
        if line.len() > TARGET_MAX + REST_OF_LINE {
            return Err(Refusal::TargetTooLong);
        }
        return Ok(Parsed::Incomplete);
    };
    let (path, head, needs_host) = request_line(line)?;
    if end.is_none_or(|end| end > HEAD_MAX) {
        let long = bytes.len() > HEAD_MAX;
        return if long { Err(Refusal::HeadTooLong) } else { Ok(Parsed::Incomplete) };
    }
    let hosts = fields(&text[line_end + 2..])?;
    if hosts > 1 || needs_host && hosts == 0 {
        return Err(Refusal::Malformed);
    }
    Ok(Parsed::Request { path, head })
}

/// The token that a head shows, as in `Authorization: Bearer TOKEN`.
pub(super) fn bearer(head: &[u8]) -> Option<&[u8]> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let (scheme, token) = value.split_at_checked(BEARER.len())?;
        let is_token = name.eq_ignore_ascii_case(b"authorization")
            && scheme.eq_ignore_ascii_case(BEARER)
            && !token.is_empty();
        is_token.then_some(token.trim_ascii())
    })
}

const BEARER: &[u8] = b"bearer ";
const BASIC: &[u8] = b"basic ";

/// What a whole head of a request says whose path is that of a change feed.
///
/// # Errors
/// What is wrong with it.
pub(super) fn changefeed(head: &[u8]) -> Result<Asked, String> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    let target = words.next().unwrap_or_default();
    let takes_chunks = words.next() == Some(b"HTTP/1.1");
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    let name = parts.next().and_then(|path| path.strip_prefix(CHANGEFEEDS)).unwrap_or_default();
    let name = unescaped(name).ok_or("the name of the change feed is no text in UTF-8")?;
    if name.is_empty() || name.chars().count() > NAME_MAX || name.contains('\0') {
        return Err(format!("a change feed has a name of 1 to {NAME_MAX} characters"));
    }
    let accepts = field(head, b"accept")?.is_some_and(|types| {
        types.to_ascii_lowercase().windows(EVENT_STREAM.len()).any(|one| one == EVENT_STREAM)
    });
    let mut form = if accepts { Form::Events } else { Form::Lines };
    let mut after = None;
    let query = parts.next().unwrap_or_default();
    for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let mut half = || match halves.next() {
            Some(half) => unescaped(half).ok_or("an option is no text in UTF-8"),
            None => Ok(String::new()),
        };
        match (half()?.as_str(), half()?) {
            ("format", form_name) => {
                form = match form_name.as_str() {
                    "jsonl" => Form::Lines,
                    "sse" => Form::Events,
                    other => return Err(format!("format={other} is none: jsonl, or sse")),
                };
            }
            ("after", position) if position.is_empty() => {
                return Err("after= names no position: leave it out for a snapshot first".into());
            }
            ("after", position) => after = Some(position),
            (other, _) => return Err(format!("'{other}' is no option: format, after")),
        }
    }
    // A client that connects again names its first position in the target, and the last one here.
    if let Some(last) = field(head, b"last-event-id")?.filter(|last| !last.is_empty()) {
        after = Some(String::from_utf8_lossy(last).into_owned());
    }
    let is_position = |text: &String| {
        text.len() <= POSITION_MAX
            && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b's'))
    };
    if let Some(other) = after.as_ref().filter(|text| !is_position(text)) {
        let shown: String = other.chars().take(POSITION_MAX).collect();
        return Err(format!("'{shown}' is no position of a change feed, such as 4711.3 or 4711"));
    }
    after = after.filter(|text| !text.is_empty());
    Ok(Asked { name, form, after, account: account(head)?, takes_chunks })
}

/// Name and password of HTTP basic authentication (RFC 7617).
fn account(head: &[u8]) -> Result<Option<(String, String)>, String> {
    let Some(value) = field(head, b"authorization")? else { return Ok(None) };
    let wrong = || "Authorization is not `Basic`, with NAME:PASSWORD in base 64".to_owned();
    let (scheme, text) = value.split_at_checked(BASIC.len()).ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case(BASIC) {
        return Err(wrong());
    }
    let text = str::from_utf8(text.trim_ascii()).map_err(|_| wrong())?;
    let both = from_base64(text).and_then(|bytes| String::from_utf8(bytes).ok());
    let both = both.filter(|both| !both.contains('\0')).ok_or_else(wrong)?;
    let (name, password) = both.split_once(':').ok_or_else(wrong)?;
    Ok(Some((name.to_owned(), password.to_owned())))
}

/// The value of a field that may be there once.
fn field<'h>(head: &'h [u8], wanted: &[u8]) -> Result<Option<&'h [u8]>, String> {
    let mut found = None;
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(wanted)
            && found.replace(line[colon + 1..].trim_ascii()).is_some()
        {
            return Err(format!("{} is there twice", String::from_utf8_lossy(wanted)));
        }
    }
    Ok(found)
}

/// A text of a target, with bytes in place of `%` and two hexadecimal digits.
fn unescaped(text: &[u8]) -> Option<String> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        if *byte == b'%' {
            let value = digit(text.get(at + 1))? * 16 + digit(text.get(at + 2))?;
            bytes.push(u8::try_from(value).ok()?);
            at += 3;
        } else {
            bytes.push(*byte);
            at += 1;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Where change feeds are.
const CHANGEFEEDS: &[u8] = b"/changefeeds/";
const EVENT_STREAM: &[u8] = b"text/event-stream";
/// Characters of a name.
const NAME_MAX: usize = 64;
/// Bytes of a position.
const POSITION_MAX: usize = 64;

/// The path, whether only a head is wanted, whether there must be a field `Host`.
fn request_line(line: &[u8]) -> Result<(Path, bool, bool), Refusal> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    let needs_host = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        other if other.starts_with(b"HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::Malformed),
    };
    if method.is_empty() || !method.iter().all(u8::is_ascii_alphabetic) || target.is_empty() {
        return Err(Refusal::Malformed);
    }
    let head = match method {
        b"GET" => false,
        b"HEAD" => true,
        _ => return Err(Refusal::Method),
    };
    if target.len() > TARGET_MAX {
        return Err(Refusal::TargetTooLong);
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = match path {
        b"/" => Path::Root,
        b"/metrics" => Path::Metrics,
        b"/live" => Path::Live,
        b"/ready" => Path::Ready,
        feed if feed.starts_with(CHANGEFEEDS) => Path::Changefeed,
        _ => Path::Unknown,
    };
    Ok((path, head, needs_host))
}

/// Looks at the fields; how many of them are `Host`.
fn fields(mut text: &[u8]) -> Result<usize, Refusal> {
    let mut hosts = 0;
    while let Some(end) = text.windows(2).position(|two| two == b"\r\n") {
        let (line, rest) = (&text[..end], &text[end + 2..]);
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Refusal::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let token = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
        if name.is_empty() || !name.iter().all(token) || line.contains(&b'\n') {
            return Err(Refusal::Malformed);
        }
        if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding")
            || name.eq_ignore_ascii_case(b"content-length") && value != b"0"
        {
            return Err(Refusal::Body);
        }
        text = rest;
    }
    Ok(hosts)
}

/// A method, a version and the spaces between.
const REST_OF_LINE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: Path) -> Parsed {
        Parsed::Request { path, head: false }
    }

    #[test]
    fn requests_as_programs_send_them() {
        let curl = b"GET /metrics HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8\r\n\
            Accept: */*\r\n\r\n";
        assert_eq!(parse(curl), get(Path::Metrics));
        let probe = b"HEAD /ready?verbose HTTP/1.0\r\n\r\n";
        assert_eq!(parse(probe), Parsed::Request { path: Path::Ready, head: true });
        assert_eq!(parse(b"GET / HTTP/1.0\r\ncontent-length: 0\r\n\r\n"), get(Path::Root));
        assert_eq!(parse(b"GET /Live HTTP/1.0\r\n\r\n"), get(Path::Unknown));
        assert_eq!(parse(b"GET /live HTTP/1.1\r\nhost:\r\n\r\nmore"), get(Path::Live));
    }

    #[test]
    fn a_token_is_where_it_belongs() {
        let head = |line: &str| format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        for line in ["Authorization: Bearer s3cret", "authorization:BEARER   s3cret "] {
            assert_eq!(bearer(head(line).as_bytes()), Some(&b"s3cret"[..]), "{line}");
        }
        for line in ["Authorization: Basic s3cret", "X: Bearer s3cret", "Authorization: Bearer"] {
            assert_eq!(bearer(head(line).as_bytes()), None, "{line}");
        }
        assert_eq!(bearer(b"GET /Authorization:Bearer%20s HTTP/1.0\r\n\r\n"), None);
    }

    fn feed(target: &str, fields: &str) -> Result<Asked, String> {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(parse(head.as_bytes()), get(Path::Changefeed), "{head}");
        changefeed(head.as_bytes())
    }

    #[test]
    fn a_change_feed_is_asked_for_with_its_options_and_an_account() {
        // root:s:cret, as `printf root:s:cret | base64` says.
        let asked = feed(
            "/changefeeds/my%20feed?format=sse&after=4711.3",
            "authorization: basic cm9vdDpzOmNyZXQ=\r\n",
        );
        let expected = Asked {
            name: "my feed".to_owned(),
            form: Form::Events,
            after: Some("4711.3".to_owned()),
            account: Some(("root".to_owned(), "s:cret".to_owned())),
            takes_chunks: true,
        };
        assert_eq!(asked, Ok(expected));
        let plain = feed("/changefeeds/f", "").unwrap();
        assert_eq!((plain.form, plain.after, plain.account), (Form::Lines, None, None));
        let accepts = feed("/changefeeds/f", "Accept: text/html, Text/Event-Stream;q=1\r\n");
        assert_eq!(accepts.unwrap().form, Form::Events);
        let again = feed("/changefeeds/f?after=1&format=jsonl", "Last-Event-ID: s9.2\r\n").unwrap();
        assert_eq!((again.after.as_deref(), again.form), (Some("s9.2"), Form::Lines));
        assert_eq!(feed("/changefeeds/f", "last-event-id:\r\n").unwrap().after, None);
        let old = changefeed(b"GET /changefeeds/f HTTP/1.0\r\n\r\n").unwrap();
        assert!(!old.takes_chunks);
    }

    #[test]
    fn what_is_wrong_with_a_question_for_a_feed_is_said() {
        let long = format!("/changefeeds/{}", "a".repeat(65));
        for (target, fields, why) in [
            ("/changefeeds/", "", "1 to 64 characters"),
            (long.as_str(), "", "1 to 64 characters"),
            ("/changefeeds/%FF", "", "no text in UTF-8"),
            ("/changefeeds/%0", "", "no text in UTF-8"),
            ("/changefeeds/%00", "", "1 to 64 characters"),
            ("/changefeeds/f?format=xml", "", "format=xml is none"),
            ("/changefeeds/f?since=1", "", "'since' is no option"),
            ("/changefeeds/f?after=%27%20OR%201", "", "no position"),
            ("/changefeeds/f?after=", "", "names no position"),
            ("/changefeeds/f?after=%zz", "", "no text in UTF-8"),
            ("/changefeeds/f", "Last-Event-ID: x\r\n", "'x' is no position"),
            ("/changefeeds/f", "Authorization: Bearer abc\r\n", "not `Basic`"),
            ("/changefeeds/f", "Authorization: Basic !\r\n", "not `Basic`"),
            ("/changefeeds/f", "Authorization: Basic cm9vdA==\r\n", "not `Basic`"),
            ("/changefeeds/f", "Authorization: B\r\n", "not `Basic`"),
            (
                "/changefeeds/f",
                "Authorization: Basic cm9vdDo=\r\nAuthorization: Basic cm9vdDo=\r\n",
                "authorization is there twice",
            ),
        ] {
            let told = feed(target, fields).unwrap_err();
            assert!(told.contains(why), "{target} {fields}: {told}");
        }
    }

    #[test]
    fn any_head_of_a_feed_is_read_without_a_panic() {
        let whole = b"GET /changefeeds/a%41?after=1&format=sse HTTP/1.1\r\nHost: a\r\n\
            Authorization: Basic cm9vdDo=\r\nLast-Event-ID: 7\r\n\r\n";
        for cut in 0..whole.len() {
            let _ = changefeed(&whole[..cut]);
            for byte in [b'%', 0xFF, b':', b'\n', b'&', b'='] {
                let mut other = whole.to_vec();
                other[cut] = byte;
                let _ = changefeed(&other);
            }
        }
    }

    #[test]
    fn a_torn_request_waits_for_its_end_at_every_byte() {
        let whole = b"GET /live HTTP/1.1\r\nHost: a\r\nX-Odd: \t\xC3\xA4\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Parsed::Incomplete, "cut at {cut}");
        }
        assert_eq!(parse(whole), get(Path::Live));
    }

    #[test]
    fn what_cannot_become_a_request_is_refused() {
        let long = |count: usize| "a".repeat(count);
        let cases: Vec<(Vec<u8>, Refusal)> = vec![
            (vec![0x16, 0x03, 0x01, 0x02, 0x00], Refusal::Malformed),
            (b"GET /\0 HTTP/1.1\r\n".to_vec(), Refusal::Malformed),
            (b"GET  / HTTP/1.1\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.1 x\r\n".to_vec(), Refusal::Malformed),
            (b"GET /\r\n".to_vec(), Refusal::Malformed),
            (b"\r\n".to_vec(), Refusal::Malformed),
            (b"GET / FTP/1.1\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/2.0\r\n".to_vec(), Refusal::Version),
            (b"POST /metrics HTTP/1.1\r\n".to_vec(), Refusal::Method),
            (b"get / HTTP/1.1\r\n".to_vec(), Refusal::Method),
            (b"G<T / HTTP/1.1\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.0\r\nno colon\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.0\r\nbad name: x\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.0\r\n: x\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.0\r\na: b\nc: d\r\n\r\n".to_vec(), Refusal::Malformed),
            (b"GET / HTTP/1.0\r\nContent-Length: 5\r\n\r\n".to_vec(), Refusal::Body),
            (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), Refusal::Body),
            (format!("GET /{} HTTP/1.1\r\n", long(2_000)).into_bytes(), Refusal::TargetTooLong),
            (format!("GET /{}", long(2_000)).into_bytes(), Refusal::TargetTooLong),
            (format!("GET / HTTP/1.0\r\nA: {}", long(9_000)).into_bytes(), Refusal::HeadTooLong),
            (
                format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", long(9_000)).into_bytes(),
                Refusal::HeadTooLong,
            ),
        ];
        for (bytes, refusal) in cases {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            assert_eq!(parse(&bytes), Parsed::Refused(refusal), "{text:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_wait_for_ever() {
        // Fixed noise, drawn from what requests are made of and what they are not.
        let alphabet = b"GET /metrics HTTP/1.10\r\n\r\n:Host \t\0\xff?&%";
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..state % 97 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_add(1);
            let _ = parse(&bytes);
            let _ = bearer(&bytes);
            bytes.resize(HEAD_MAX + 1, b'a');
            assert_ne!(parse(&bytes), Parsed::Incomplete);
        }
    }
}
