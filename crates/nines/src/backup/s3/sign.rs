//! Signatures of requests to an object store: AWS Signature Version 4.
//!
//! # Guarantees
//! The method, the path, the query, all headers given here and the body are signed: who changes
//! one of them on the way is refused by the store. The secret key is in no message of ours.

use std::fmt::Write;

use aws_lc_rs::hmac;
use runtime::{hex, sha256_hex};

/// The service that is asked.
const SERVICE: &str = "s3";

/// The keys of an account of an object store.
#[derive(Clone)]
pub(in crate::backup) struct Keys {
    pub(super) access: String,
    pub(super) secret: String,
    /// Of keys that are good for some time only.
    pub(super) token: Option<String>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// A request as it is signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    /// Names and values, not encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// More headers that count: names in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl Signed<'_> {
    /// The headers that a request needs besides, at a time in seconds since 1970 UTC.
    pub(super) fn headers(
        &self,
        keys: &Keys,
        region: &str,
        now: i64,
    ) -> Vec<(&'static str, String)> {
        let (day, time) = stamp(now);
        let body = sha256_hex(self.body);
        let mut signed: Vec<(&str, &str)> = self.headers.to_vec();
        signed.extend([("host", self.host), ("x-amz-content-sha256", &body)]);
        signed.push(("x-amz-date", &time));
        signed.extend(keys.token.as_deref().map(|token| ("x-amz-security-token", token)));
        signed.sort_unstable();
        let mut canonical = format!("{}\n{}\n{}\n", self.method, self.path, query(self.query));
        for (name, value) in &signed {
            // A string takes anything.
            let _ = writeln!(canonical, "{name}:{}", value.trim());
        }
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let _ = write!(canonical, "\n{names}\n{body}");
        let scope = format!("{day}/{region}/{SERVICE}/aws4_request");
        let text =
            format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
        let signature = hex(&tag(&signing_key(&keys.secret, &day, region), text.as_bytes()));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            keys.access
        );
        let mut headers = vec![
            ("authorization", authorization),
            ("x-amz-content-sha256", body),
            ("x-amz-date", time),
        ];
        headers.extend(keys.token.clone().map(|token| ("x-amz-security-token", token)));
        headers
    }
}

/// A query as it is signed and sent.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name, false), encoded(value, false)))
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// A text with all that has a meaning in addresses as `%XX`.
pub(super) fn encoded(text: &str, is_path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if is_path => out.push('/'),
            // A string takes anything.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

fn tag(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn signing_key(secret: &str, day: &str, region: &str) -> Vec<u8> {
    let mut key = tag(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    for part in [region, SERVICE, "aws4_request"] {
        key = tag(&key, part.as_bytes());
    }
    key
}

/// A day and a time, as signatures have them.
fn stamp(now: i64) -> (String, String) {
    let (year, month, day) = stdx::calendar::date_of(now.div_euclid(86_400));
    let second = now.rem_euclid(86_400);
    let day = format!("{year:04}{month:02}{day:02}");
    let time = format!("{day}T{:02}{:02}{:02}Z", second / 3_600, second / 60 % 60, second % 60);
    (day, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's documentation: GET of an object with a range.
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let keys = Keys {
            access: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let signed = Signed {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: &[],
            headers: &[("range", "bytes=0-9")],
            body: b"",
        };
        let headers = signed.headers(&keys, "us-east-1", 1_369_353_600);
        let expected = "AWS4-HMAC-SHA256 \
                        Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                        SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
                        Signature=\
                        f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert_eq!(headers[0], ("authorization", expected.to_owned()));
        assert_eq!(headers[2].1, "20130524T000000Z");
        let listing = Signed {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: &[("prefix", "J"), ("max-keys", "2")],
            headers: &[],
            body: b"",
        };
        let headers = listing.headers(&keys, "us-east-1", 1_369_353_600);
        assert!(
            headers[0]
                .1
                .ends_with("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
            "{headers:?}"
        );
    }

    #[test]
    fn addresses_are_encoded() {
        assert_eq!(encoded("a b/ü~", true), "a%20b/%C3%BC~");
        assert_eq!(encoded("a/b=c", false), "a%2Fb%3Dc");
        assert_eq!(query(&[("uploads", ""), ("a", "1 2")]), "a=1%202&uploads=");
    }
}
