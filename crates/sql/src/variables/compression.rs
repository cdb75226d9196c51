//! `protocol_compression_algorithms`: how connections may be compressed.

use crate::session::Session;
use crate::variables;
use crate::variables::registry;

/// The variable.
pub(crate) const NAME: &str = "protocol_compression_algorithms";
/// What it may hold, as [`Algorithm`] has them.
pub(crate) const ALGORITHMS: [&str; 2] = ["zlib", "uncompressed"];

/// How the bytes of a connection are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// RFC 1950.
    Zlib,
    /// Not at all.
    Uncompressed,
}

/// Those that connections may be made with.
#[derive(Debug)]
pub(crate) struct Algorithms(String);

impl Algorithms {
    /// The server's, for those who connect now.
    pub(crate) fn of(session: &Session) -> Self {
        let variable = registry::find(NAME).expect("it is in the table");
        Self(variables::shown_text(session, variable, true).unwrap_or_default())
    }

    /// Whether this is one of them.
    pub(crate) fn contains(&self, algorithm: Algorithm) -> bool {
        let name = ALGORITHMS[algorithm as usize];
        self.0.split(',').any(|one| one == name)
    }
}

/// What SHOW STATUS says of a connection.
pub(crate) fn status(session: &Session) -> [(&'static str, String); 3] {
    let (is_on, algorithm, level) = if session.is_compressed {
        ("ON", ALGORITHMS[Algorithm::Zlib as usize], mysql_wire::FRAME_LEVEL)
    } else {
        ("OFF", "", 0)
    };
    [
        ("Compression", is_on.to_owned()),
        ("Compression_algorithm", algorithm.to_owned()),
        ("Compression_level", level.to_string()),
    ]
}
