//! Certificates and keys from files, and what makes them of no use.
//!
//! # Guarantees
//! What is refused is refused with a reason that names the file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::{Certificate, Moment};
use crate::clock::since_1970;

/// The certificates of a file, the server's first; what the first one says.
pub(super) fn chain(path: &Path) -> Result<(Vec<CertificateDer<'static>>, Certificate), String> {
    let name = path.display();
    let chain = certificates(path)?;
    let first = chain.first().ok_or_else(|| format!("{name} has no certificate in it"))?;
    let says = Certificate::parse(first);
    let says = says.ok_or_else(|| format!("the certificate in {name} cannot be read"))?;
    let now = now();
    if says.not_after < now {
        return Err(format!("the certificate in {name} has expired: {}", says.not_after));
    }
    if says.not_before > now {
        let from = says.not_before;
        return Err(format!("the certificate in {name} is good from {from} on; now it is {now}"));
    }
    Ok((chain, says))
}

/// The private key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read_key(path)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|error| format!("no private key in {}: {error}", path.display()))
}

/// The authorities of a file.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let name = path.display();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| format!("an authority in {name}: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{name} has no certificate in it"));
    }
    Ok(roots)
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("no certificate in {}: {error}", path.display()))
}

/// Reads the file of a key, which must be its owner's alone. One of root's may be read by a group,
/// as systems have it that keep the keys of all services in one place.
pub(crate) fn read_key(path: &Path) -> Result<String, String> {
    let name = path.display();
    let fail = |error| format!("cannot read the key {name}: {error}");
    let file = fs::metadata(path).map_err(fail)?;
    let allowed = if file.uid() == 0 { 0o740 } else { 0o700 };
    let mode = file.mode() & 0o777;
    if mode & !allowed != 0 {
        return Err(format!(
            "others than its owner may use the key {name} (mode {mode:04o}): chmod 600 {name}"
        ));
    }
    fs::read_to_string(path).map_err(fail)
}

/// The time of the system.
pub(super) fn now() -> Moment {
    Moment(i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX))
}
