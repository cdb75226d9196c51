//! Status variables of encryption.

use sqltype::DateTime;

use crate::admission::EncryptionFacts;
use crate::session::Session;

/// Status variables of encryption: of the session, or of the server.
pub(super) fn status(session: &Session, global: bool) -> Vec<(&'static str, String)> {
    let facts = session.shared.admission.encryption_facts();
    let counters = session.shared.directory.lock().counters();
    let tls = session.tls.as_deref().filter(|_| !global);
    let resumed = match tls {
        Some(tls) => u64::from(tls.is_resumed),
        None if global => counters.tls_resumed,
        None => 0,
    };
    let EncryptionFacts { settings, cipher_list, validity: (from, until), is_offered, .. } = facts;
    let moment = |seconds: i64| if is_offered { moment(seconds) } else { String::new() };
    vec![
        ("Current_tls_ca", settings.authority),
        ("Current_tls_capath", String::new()),
        ("Current_tls_cert", settings.certificate),
        ("Current_tls_cipher", settings.ciphers),
        ("Current_tls_ciphersuites", settings.suites.unwrap_or_default()),
        ("Current_tls_crl", String::new()),
        ("Current_tls_crlpath", String::new()),
        ("Current_tls_key", settings.key),
        ("Current_tls_version", settings.versions),
        ("Ssl_accepts", counters.tls_accepts.to_string()),
        ("Ssl_cipher", tls.map_or("", |tls| tls.cipher).to_owned()),
        ("Ssl_cipher_list", if tls.is_some() { cipher_list } else { String::new() }),
        ("Ssl_finished_accepts", counters.tls_accepted.to_string()),
        ("Ssl_server_not_after", moment(until)),
        ("Ssl_server_not_before", moment(from)),
        ("Ssl_session_cache_mode", if is_offered { "SERVER" } else { "Unknown" }.to_owned()),
        ("Ssl_sessions_reused", resumed.to_string()),
        ("Ssl_version", tls.map_or("", |tls| tls.protocol).to_owned()),
    ]
}

/// A moment as OpenSSL writes it: `Nov  6 02:33:17 2026 GMT`.
fn moment(seconds: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at = DateTime::from_unix_micros(seconds.saturating_mul(1_000_000));
    let month = MONTHS[usize::from(at.date.month.clamp(1, 12)) - 1];
    let (day, year) = (at.date.day, at.date.year);
    let (hour, minute, second) = (at.hour, at.minute, at.second);
    format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_as_openssl_writes_them() {
        assert_eq!(moment(0), "Jan  1 00:00:00 1970 GMT");
        assert_eq!(moment(1_795_660_397), "Nov 26 02:33:17 2026 GMT");
    }
}
