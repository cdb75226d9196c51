//! ALTER INSTANCE RELOAD TLS.
//!
//! # Guarantees
//! Variables of certificates, versions and ciphers have their effect when TLS is reloaded, on
//! connections that come later.
//! # Not here
//! Certificates and ciphers themselves: the host's (`admission::HostEncryption`).

use sql_expression::SqlError;

use crate::admission::EncryptionSettings;
use crate::session::{Level, Session};
use crate::variables;

/// ALTER INSTANCE RELOAD TLS. With `keeps_nothing` nothing is encrypted after an error.
pub(super) fn reload(session: &mut Session, keeps_nothing: bool) -> Result<(), SqlError> {
    let Some(encryption) = session.shared.admission.encryption.clone() else {
        return Err(failed("this server has no encryption"));
    };
    let Err(why) = encryption.reload(wanted(session)) else { return Ok(()) };
    if !keeps_nothing {
        return Err(failed(&why));
    }
    encryption.reload(EncryptionSettings::default()).map_err(|why| failed(&why))?;
    let kept_max = session.variables.max_error_count as usize;
    session.diagnostics.push(Level::Warning, failed(&why), kept_max);
    Ok(())
}

fn failed(why: &str) -> SqlError {
    SqlError::new(3888, "HY000", format!("Failed to set up TLS: {why}"))
}

/// What the server's variables ask for.
fn wanted(session: &Session) -> EncryptionSettings {
    let value = |name: &str| {
        let variable = variables::registry::find(name).expect("it is in the table");
        variables::session::shown_text(session, variable, true)
    };
    let text = |name: &str| value(name).unwrap_or_default();
    EncryptionSettings {
        authority: text("ssl_ca"),
        certificate: text("ssl_cert"),
        key: text("ssl_key"),
        versions: text("tls_version"),
        ciphers: text("ssl_cipher"),
        suites: value("tls_ciphersuites"),
    }
}
