//! Cipher suites and protocol versions by the names that MySQL, and OpenSSL, give them.

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

/// As MySQL names it in `Ssl_version`.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "",
    }
}

/// As OpenSSL, and so MySQL in `Ssl_cipher`, names it.
pub(super) fn suite_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}

/// The versions of `tls_version`; none to encrypt nothing.
pub(super) fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let all = rustls::ALL_VERSIONS.iter();
        let mut fitting = all.filter(|v| version_name(v.version).eq_ignore_ascii_case(name));
        let version = fitting
            .next()
            .ok_or_else(|| format!("tls_version has no `{name}`: there are TLSv1.2 and TLSv1.3"))?;
        if !versions.contains(version) {
            versions.push(*version);
        }
    }
    Ok(versions)
}

/// Leaves the suites that are named: by `ssl_cipher` for TLS 1.2, by `tls_ciphersuites` for 1.3.
pub(super) fn choose(
    provider: &mut CryptoProvider,
    ciphers: &str,
    suites: Option<&str>,
) -> Result<(), String> {
    let all = provider.cipher_suites.clone();
    let named = |variable: &str, list: &str, is_of: fn(&SupportedCipherSuite) -> bool| {
        let mut chosen = Vec::new();
        for name in list.split(':').map(str::trim).filter(|name| !name.is_empty()) {
            let mut fitting = all.iter().filter(|suite| is_of(suite));
            let suite = fitting.find(|suite| suite_name(suite.suite()) == name);
            chosen.push(*suite.ok_or_else(|| {
                let names = all.iter().filter(|suite| is_of(suite));
                let names: Vec<_> = names.map(|suite| suite_name(suite.suite())).collect();
                format!("{variable} has no `{name}`: there are {}", names.join(":"))
            })?);
        }
        Ok::<_, String>(chosen)
    };
    let is_13 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
    let is_12 = |suite: &SupportedCipherSuite| suite.tls13().is_none();
    let mut chosen = match suites {
        Some(list) => named("tls_ciphersuites", list, is_13)?,
        None => all.iter().filter(|suite| is_13(suite)).copied().collect(),
    };
    chosen.extend(match ciphers {
        "" => all.iter().filter(|suite| is_12(suite)).copied().collect(),
        list => named("ssl_cipher", list, is_12)?,
    });
    provider.cipher_suites = chosen;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs;

    use super::*;

    #[test]
    fn every_suite_has_a_name() {
        let provider = aws_lc_rs::default_provider();
        assert!(provider.cipher_suites.iter().all(|suite| !suite_name(suite.suite()).is_empty()));
    }

    #[test]
    fn suites_are_chosen_by_name() {
        let chosen = |ciphers, suites| {
            let mut provider = aws_lc_rs::default_provider();
            choose(&mut provider, ciphers, suites)?;
            let names = provider.cipher_suites.iter().map(|suite| suite_name(suite.suite()));
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        assert_eq!(chosen("", None).unwrap().len(), 9);
        let one = chosen("ECDHE-RSA-AES128-GCM-SHA256", Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!(one.unwrap(), ["TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(chosen("ECDHE-RSA-AES128-GCM-SHA256", Some("")).unwrap().len(), 1);
        // One of the other version is none of this one.
        let why = chosen("TLS_AES_128_GCM_SHA256", None).unwrap_err();
        assert!(why.starts_with("ssl_cipher has no `TLS_AES_128_GCM_SHA256`: there are "), "{why}");
        assert!(
            chosen("", Some("HIGH")).unwrap_err().starts_with("tls_ciphersuites has no `HIGH`")
        );
    }

    #[test]
    fn versions_by_name() {
        let names = |list| {
            let versions = versions(list)?;
            Ok::<_, String>(versions.iter().map(|v| version_name(v.version)).collect::<Vec<_>>())
        };
        assert_eq!(names("TLSv1.2, tlsv1.3,TLSv1.2").unwrap(), ["TLSv1.2", "TLSv1.3"]);
        assert_eq!(names("").unwrap(), Vec::<&str>::new());
        assert!(names("TLSv1.1").unwrap_err().contains("no `TLSv1.1`"));
    }
}
