//! `protocol_compression_algorithms`: how connections may be compressed.

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
    /// Those that a value of the variable names.
    pub(crate) fn named(value: Option<String>) -> Self {
        Self(value.unwrap_or_default())
    }

    /// Whether this is one of them.
    pub(crate) fn contains(&self, algorithm: Algorithm) -> bool {
        let name = ALGORITHMS[algorithm as usize];
        self.0.split(',').any(|one| one == name)
    }
}
