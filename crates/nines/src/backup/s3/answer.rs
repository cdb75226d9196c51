//! What an object store answers: a few elements of XML.
//!
//! # Guarantees
//! Any bytes are an answer: elements that are not there are none.
//! # Not here
//! All that XML can be besides: attributes, name spaces, comments inside of texts.

/// The texts of all elements of a name, in order.
pub(super) fn texts<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find(&open) {
        let after = &rest[at + open.len()..];
        let Some(end) = after.find(&close) else { break };
        found.push(&after[..end]);
        rest = &after[end + close.len()..];
    }
    found
}

/// The text of the first element of a name.
pub(super) fn text(xml: &str, name: &str) -> Option<String> {
    texts(xml, name).first().map(|text| unescaped(text))
}

/// A text without the escapes of XML.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (escape, plain) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'")]
    {
        out = out.replace(escape, plain);
    }
    // The last: what it makes is no escape.
    out.replace("&amp;", "&")
}

/// A name that is encoded as in addresses.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found() {
        let xml = "<?xml?><R><Key>a%2Fb</Key><Key>c&amp;lt;</Key><N>x</R>";
        assert_eq!(texts(xml, "Key"), ["a%2Fb", "c&amp;lt;"]);
        assert_eq!(text(xml, "Key").as_deref(), Some("a%2Fb"));
        assert_eq!(unescaped("c&amp;lt;&quot;"), "c&lt;\"");
        assert_eq!(decoded("a%2Fb%zz%"), "a/b%zz%");
        assert_eq!(text(xml, "N"), None);
        assert_eq!(text("", "Key"), None);
    }
}
