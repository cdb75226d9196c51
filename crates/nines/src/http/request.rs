//! What a request asks, from the bytes of its head.
//!
//! # Owns
//! As much of HTTP/1.1 (RFC 9112) as GET and HEAD without a body need.
//! # Guarantees
//! Pure, and defined for all bytes: more is needed, or a path, or why it is refused. What cannot
//! become a request is refused at once, without waiting for its end.

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
    Unknown,
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
