//! Host names and addresses as text: which are well formed, which are this machine alone.
//!
//! # Not here
//! Addresses as numbers and looking names up: the host of the actors does that.

/// Whether a text can be a host name or an address; why not otherwise.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if bare.len() > NAME_SIZE_MAX {
        return Err("is too long for a host name; write 253 characters at most");
    }
    // The letter behind `%` names the interface of a link-local address.
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    if bare.contains(':') {
        let (address, zone) = bare.split_once('%').unwrap_or((bare, "x"));
        let digits = address.chars().all(|char| char.is_ascii_hexdigit() || ":.".contains(char));
        let colons = address.matches(':').count();
        return if digits && (2..=8).contains(&colons) && zone.chars().all(allowed) {
            Ok(())
        } else {
            Err("is not an IPv6 address; ports have parameters of their own")
        };
    }
    if bare.is_empty() || !bare.chars().all(allowed) || bare.starts_with(['.', '-']) {
        return Err("is not a host name; write a name, an IPv4 or an IPv6 address");
    }
    let numeric = bare.chars().all(|char| char.is_ascii_digit() || char == '.');
    let is_byte = |part: &str| part.len() <= 3 && part.parse::<u8>().is_ok();
    if numeric && !(bare.split('.').count() == 4 && bare.split('.').all(is_byte)) {
        return Err("is not an IPv4 address; write four numbers up to 255");
    }
    Ok(())
}

/// Whether only processes of the same machine can reach the address.
pub fn is_loopback(host: &str) -> bool {
    let host = canonical(host);
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether two texts certainly mean the same machine.
pub fn is_same(one: &str, other: &str) -> bool {
    canonical(one) == canonical(other)
}

/// The text in one spelling; all addresses of this machine alone are `localhost`.
pub fn canonical(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = bare.trim_end_matches('.').to_ascii_lowercase();
    let numeric = name.chars().all(|char| char.is_ascii_digit() || char == '.');
    let loopback_v4 = numeric && name.starts_with("127.");
    let zeros = name.strip_suffix('1').is_some_and(|rest| {
        rest.contains(':') && rest.chars().all(|char| matches!(char, '0' | ':'))
    });
    let mapped = name.strip_prefix("::ffff:").is_some_and(|rest| rest.starts_with("127."));
    let local = matches!(name.as_str(), "localhost.localdomain" | "ip6-localhost");
    if loopback_v4 || zeros || mapped || local { "localhost".to_string() } else { name }
}

/// Characters of a domain name.
const NAME_SIZE_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed() {
        for text in [
            "localhost",
            "db-1.example.com",
            "10.0.0.255",
            "::1",
            "fe80::1%eth0",
            "[2001:db8::7]",
            "host_1",
            "1host",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["", "a b", "10.0.0.256", "1.2.3", "host:1186", "-a", "a/b", "1:2", "é", "[]"]
        {
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check(&"a".repeat(254)).is_err());
    }

    #[test]
    fn this_machine() {
        for text in ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "0:0::1"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["10.0.0.1", "127.example.com", "::2", "localhost.example.com", "2001:db8::1"] {
            assert!(!is_loopback(text), "{text}");
        }
        assert!(is_same("127.0.0.1", "localhost"));
        assert!(is_same("DB1.example.com.", "db1.example.com"));
        assert!(!is_same("db1", "db2"));
    }
}
