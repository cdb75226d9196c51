//! TLS to the sources of replication.
//!
//! # Guarantees
//! With authorities a certificate that none of them has signed ends the connection; with
//! `SOURCE_SSL_VERIFY_SERVER_CERT` so does one of another name. Without authorities whoever answers
//! is believed, as MySQL's replicas do.

use std::io;
use std::net::TcpStream;

use mysql_client::Duplex;
use runtime::connect_to_source;
use sql::SourceEncryption;

/// Encrypts a connection to a host.
pub(super) fn encrypt(
    stream: TcpStream,
    host: &str,
    wanted: &SourceEncryption,
) -> io::Result<Box<dyn Duplex>> {
    let authorities = wanted.authorities.as_deref().map(std::path::Path::new);
    let stream = connect_to_source(stream, host, authorities, wanted.verifies_name)?;
    Ok(Box::new(stream))
}
