//! Character sets and collations: how MySQL compares text.

/// MySQL's number of a collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollationId(pub u16);

impl CollationId {
    /// `binary`.
    pub const BINARY: Self = Self(63);
    /// `utf8mb4_0900_ai_ci`, the default.
    pub const UTF8MB4_0900_AI_CI: Self = Self(255);
    /// `utf8mb4_bin`.
    pub const UTF8MB4_BIN: Self = Self(46);
}

/// Appends the weights of `text`: they compare byte by byte as the texts do.
pub fn sort_key(_collation: CollationId, text: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(text);
}
